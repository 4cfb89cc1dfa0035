"""What is done by the clock, and how much of it at a time."""

from __future__ import annotations

from typing import Any, cast

from amemdb.limits import EXPIRE_BATCH_MAX
from amemdb.server.ticks import (
    BEHIND_TICKS,
    EXPIRE_BATCHES_MAX,
    FREE_COUNT,
    FREE_SLICES_BEHIND,
    FREE_SLICES_MAX,
    TICK_S,
    TICKS_PER_SWEEP,
    Ticks,
)
from amemdb.stores.graveyard import Graveyard
from tests.server.fakes import FakeLoop, Rig, ScriptedEngine


class ExpiringEngine(ScriptedEngine):
    """Has `dead` objects to remove."""

    def __init__(self, dead: int) -> None:
        super().__init__()
        self.dead = dead
        self.calls: list[tuple[int, int]] = []

    def expire(self, now_ms: int, count_max: int) -> int:
        count = min(self.dead, count_max)
        self.dead -= count
        self.calls.append((now_ms, count))
        return count


class TimedLoop(FakeLoop):
    """A loop with a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0
        self.timers: list[tuple[float, Any]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when: float, callback: Any) -> Any:
        self.timers.append((when, callback))
        timers = self.timers

        class Handle:
            def cancel(self) -> None:
                timers.remove((when, callback))

        return Handle()

    def advance(self, seconds: float) -> int:
        """How many timers came due."""
        self.now_s += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now_s]
        for timer in due:
            self.timers.remove(timer)
            timer[1]()
        return len(due)


def ticking(dead: int = 0) -> tuple[Rig, Ticks, TimedLoop]:
    rig = Rig(engine=ExpiringEngine(dead))
    loop = TimedLoop()
    rig.loop.call_soon = loop.call_soon  # type: ignore[method-assign]
    ticks = Ticks(cast(Any, loop), rig.engine, rig.state, rig.hand.clock, rig.turn, rig.listener, Graveyard())
    return rig, ticks, loop


def test_expiry_runs_ten_times_a_second():
    rig, ticks, loop = ticking()
    swept = []
    rig.listener.sweep = lambda now_ns, calls_per_round: swept.append(calls_per_round)  # type: ignore[method-assign]
    ticks.start()
    for _ in range(3 * TICKS_PER_SWEEP):
        loop.advance(TICK_S + 1e-9)
        loop.settle()
    assert len(rig.engine.calls) == 3 * TICKS_PER_SWEEP
    assert swept == [TICKS_PER_SWEEP] * 3 * TICKS_PER_SWEEP
    assert rig.log.flushes == [], "nothing was removed, nothing needs a flush"


def test_what_is_removed_is_flushed():
    rig, ticks, loop = ticking(dead=3)
    ticks.run_once(0)
    loop.settle()
    assert rig.engine.dead == 0
    assert len(rig.log.flushes) == 1


def test_many_dead_objects_go_in_batches_with_others_in_between_and_a_bound_for_each_tick():
    dead = (EXPIRE_BATCHES_MAX + 5) * EXPIRE_BATCH_MAX
    rig, ticks, loop = ticking(dead)
    ticks.start()
    loop.advance(TICK_S)
    turns = 1
    while loop.ready:
        before = len(rig.engine.calls)
        loop.turn()
        turns += 1
        assert len(rig.engine.calls) - before <= 1, "two batches without a turn for the others"
    assert len(rig.engine.calls) == EXPIRE_BATCHES_MAX
    loop.advance(TICK_S)
    loop.settle()
    assert rig.engine.dead == 0


def test_a_tick_that_comes_while_the_last_is_still_removing_does_not_add_to_it():
    rig, ticks, loop = ticking(dead=10 * EXPIRE_BATCH_MAX)
    ticks.start()
    loop.advance(TICK_S)
    assert len(rig.engine.calls) == 1
    loop.advance(TICK_S)
    assert len(rig.engine.calls) == 1
    loop.settle()
    assert rig.engine.dead == 0


def test_ticks_that_were_missed_are_not_made_up_for_and_show_as_lag():
    rig, ticks, loop = ticking()
    ticks.start()
    assert loop.advance(5) == 1
    assert 4_800_000_000 < rig.state.loop_lag_ns < 5_000_000_000
    assert loop.advance(TICK_S / 2) == 0
    assert loop.advance(TICK_S) == 1
    assert rig.state.loop_lag_ns < 100_000_000
    assert rig.state.loop_lag_ns_max > 4_800_000_000


def test_a_jump_of_the_system_clock_neither_stops_nor_floods_the_ticks():
    rig, ticks, loop = ticking()
    ticks.start()
    for jump_s in (3600, -3600 * 24 * 365):
        rig.hand.ns += jump_s * 1_000_000_000
        for _ in range(5):
            assert loop.advance(TICK_S + 1e-9) == 1
    assert len(rig.engine.calls) == 10


def test_stop_ends_the_ticks_and_what_they_had_begun():
    rig, ticks, loop = ticking(dead=100 * EXPIRE_BATCH_MAX)
    ticks.start()
    loop.advance(TICK_S)
    ticks.stop()
    loop.settle()
    assert len(rig.engine.calls) == 1
    assert loop.advance(10) == 0


# -- what was dropped ------------------------------------------------------------------------------


class Heap:
    """A graveyard with so many parts to free; a thousand take a millisecond."""

    def __init__(self, rig: Rig, parts: int) -> None:
        self.rig = rig
        self.parts = parts

    def __len__(self) -> int:
        return self.parts

    def free(self, count_max: int) -> int:
        freed = min(self.parts, count_max)
        self.parts -= freed
        self.rig.hand.pass_s(freed * 1e-6)
        return freed


def digging(parts: int) -> tuple[Heap, Ticks, TimedLoop]:
    rig, ticks, loop = ticking()
    heap = Heap(rig, parts)
    ticks._graveyard = cast(Any, heap)
    return heap, ticks, loop


def test_what_was_dropped_is_freed_in_slices_of_a_millisecond_and_a_bound_for_each_tick():
    heap, ticks, loop = digging(100 * 1000)
    ticks.run_once(0)
    slices = 1
    while loop.ready:
        before = heap.parts
        loop.turn()
        slices += 1
        assert before - heap.parts <= 1000 + FREE_COUNT
    assert slices == FREE_SLICES_MAX
    assert 0 < heap.parts < 100 * 1000


def test_more_is_freed_when_it_heaps_up():
    heap, ticks, loop = digging(1_000_000)
    freed = []
    for _ in range(BEHIND_TICKS + 1):
        before = heap.parts
        ticks.run_once(0)
        loop.settle()
        freed.append(before - heap.parts)
    assert freed[0] == freed[BEHIND_TICKS - 2]
    assert freed[BEHIND_TICKS - 1] == freed[0] // FREE_SLICES_MAX * FREE_SLICES_BEHIND
    heap.parts = 10
    ticks.run_once(0)
    heap.parts = 1_000_000
    ticks.run_once(0)
    loop.settle()
    assert 1_000_000 - heap.parts == freed[0], "it has caught up meanwhile"


def test_a_tick_that_comes_while_the_last_is_still_freeing_does_not_add_to_it():
    _, ticks, loop = digging(100 * 1000)
    ticks.run_once(0)
    ticks.run_once(0)
    assert len(loop.ready) == 1


def test_nothing_more_is_freed_after_the_stop():
    heap, ticks, loop = digging(100 * 1000)
    ticks.start()
    loop.advance(TICK_S)
    ticks.stop()
    left = heap.parts
    loop.settle()
    assert heap.parts == left


def test_what_a_flush_left_behind_is_gone_after_some_ticks():
    _, ticks, loop = ticking()
    ticks._graveyard.bury([[b"x" * 10] * 2000 for _ in range(2000)])
    ticks.run_once(0)
    loop.settle()
    assert len(ticks._graveyard) == 0
