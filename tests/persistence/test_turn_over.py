"""One segment follows another while the log is being written: what nobody waits for, and what any instant leaves."""

from __future__ import annotations

import errno
from random import Random

import pytest

from amemdb.persistence.codec import SEGMENT_HEADER_BYTES, parse_segment_header
from amemdb.persistence.log import Policy
from amemdb.persistence.manifest import segment_name
from amemdb.persistence.steps import Append, Prepare, Retire, Switch, TurnOver
from tests.persistence.simulated import Driven, SimulatedDisk, Stopped

POLICIES: list[Policy] = ["always", "everysec", "no"]
OPERATIONS_OF_A_TURN_OVER = 8
OPERATIONS_OF_A_PREPARE = 9
OPERATIONS_OF_FILLING = 2


def turning(policy: Policy, kind: type = TurnOver, seed: int = 1) -> tuple[Driven, int]:
    """A log in the middle of such a step, of which nothing has been done, and how many frames it holds."""
    driven = Driven(SimulatedDisk(Random(seed)), policy, segment_bytes_max=1000, reserve=500)
    driven.early_chance = 0.0
    count = driven.write_until(kind)
    if driven.step is not None:  # the frame that was written with it
        driven.finish_step()
    return driven, count


def append(driven: Driven, number: int) -> Append:
    """Have a frame written beside what is under way."""
    assert driven.write(number)
    driven.begin()
    step = driven.step
    assert isinstance(step, Append)
    driven.finish_step()
    return step


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", [Prepare, TurnOver])
def test_replies_do_not_wait_for_a_new_segment(policy: Policy, kind: type):
    driven, count = turning(policy, kind)
    for number in range(count, count + 5):
        append(driven, number)
        assert driven.log.released_offset == driven.log.offset
    assert isinstance(driven.sync, kind), "it has not even begun"
    driven.run()
    assert Driven(driven.disk).numbers == list(range(count + 5))


@pytest.mark.parametrize("kind", [Prepare, TurnOver])
def test_the_loop_writes_beside_what_is_at_another_file(kind: type):
    driven, count = turning("everysec", kind)
    driven.here = True
    assert driven.write(count)
    driven.begin()
    assert (driven.step is None) == (kind is Prepare)
    assert (driven.log.released_offset == driven.log.offset) == (kind is Prepare)
    driven.run()
    assert Driven(driven.disk).numbers == list(range(count + 1))


@pytest.mark.parametrize("policy", POLICIES)
def test_while_one_follows_the_other_both_are_written(policy: Policy):
    driven, count = turning(policy)
    old, new = (bytes(driven.disk.file(segment_name(number))) for number in (1, 2))
    assert new[:SEGMENT_HEADER_BYTES] == bytes(SEGMENT_HEADER_BYTES), "its start was not known when it was made"
    driven.disk.operations.clear()
    step = append(driven, count)
    assert step.copy is not None
    assert (step.at.number, step.copy.number) == (1, 2)
    assert driven.disk.operations == ["write", "write"] + ["sync", "sync"] * (policy == "always")
    for number, before in ((1, old), (2, new)):
        assert driven.disk.file(segment_name(number)) != before
    driven.finish_sync()
    assert [segment.number for segment in driven.log.segments] == [1, 2]
    step = append_next(driven, count + 1)
    assert (step.at.number, step.copy) == (2, None)
    header = parse_segment_header(bytes(driven.disk.file(segment_name(2))[:SEGMENT_HEADER_BYTES]))
    assert header is not None
    assert header.start == driven.log.segments[1].start
    driven.run()
    assert Driven(driven.disk).numbers == list(range(count + 2))


def append_next(driven: Driven, number: int) -> Append:
    """As `append`, where other steps may come first."""
    assert driven.write(number)
    while driven.begin():
        if isinstance(driven.step, Append):
            step = driven.step
            driven.finish_step()
            return step
        driven.finish()
    raise AssertionError("it was never written")


def test_the_old_file_is_let_go_of_only_when_nobody_writes_it():
    driven, count = turning("everysec")
    assert driven.write(count)
    driven.begin()
    assert isinstance(driven.step, Append)
    driven.finish_sync()
    driven.begin()
    assert driven.sync is None, "the Append still writes both files"
    driven.finish_step()
    driven.begin()
    assert isinstance(driven.sync, Retire)
    end = driven.sync.end
    driven.run()
    assert len(driven.disk.file(segment_name(1))) == end
    assert driven.log.disk_bytes == sum(
        len(driven.disk.file(name)) for name in driven.disk.names() if name.endswith(".segment")
    )
    assert Driven(driven.disk).numbers == list(range(count + 1))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", [Prepare, TurnOver])
@pytest.mark.parametrize("end", ["kill", "power_cut"])
@pytest.mark.parametrize("before", [0, 1])
def test_a_stop_at_any_instant_leaves_a_log(policy: Policy, kind: type, end: str, before: int):
    """With `before`, a frame was written beside the step before the disk did any of it; another one after."""
    steps = OPERATIONS_OF_A_TURN_OVER
    if kind is Prepare:
        steps = OPERATIONS_OF_A_PREPARE + OPERATIONS_OF_FILLING * (policy == "always")
    for stop_in in range(steps + 2):
        for seed in range(6):
            driven, count = turning(policy, kind, seed)
            for number in range(count, count + before):
                append(driven, number)
            count += before
            driven.disk.stop_in = stop_in
            done = None
            try:
                assert driven.sync is not None
                done = driven.writer.run(driven.sync)
                driven.disk.stop_in = None
            except Stopped:
                pass
            if done is not None and before:  # the log does not know yet that it is done
                driven.disk.stop_in = None
                append(driven, count)
                count += 1
            assert (done is not None) == (stop_in >= steps), "so many operations it has"
            durable, released = driven.log.durable_offset, driven.log.released_offset
            getattr(driven.disk, end)()
            again = Driven(driven.disk)
            assert again.report.offset >= (durable if end == "power_cut" else released)
            assert again.numbers == list(range(len(again.numbers)))
            files = [name for name in driven.disk.names() if "segment" in name]
            assert files == [segment.name for segment in again.log.segments], "what is left over was removed"
            assert all(level == "notice" for level, _ in again.told if "left over" in _)
            again.write(len(again.numbers))
            again.close()
            assert Driven(driven.disk).report.cut is None


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", ["sync", "create", "rename", "sync_folder", "write"])
def test_whatever_fails_while_one_follows_the_other_nothing_is_lost(policy: Policy, operation: str):
    for kind in (Prepare, TurnOver):
        for seed in range(8):
            driven, count = turning(policy, kind, seed)
            append(driven, count)
            driven.disk.faults = {operation: errno.EIO}
            driven.disk.fault_chance = 0.6
            driven.write(count + 1)
            driven.begin()
            driven.finish_sync()
            driven.write(count + 2)
            driven.run(0.5)
            driven.disk.faults = {}
            driven.run(1.0)
            driven.run(1.0)
            driven.write(count + 3)
            driven.run(1.0)
            assert driven.log.failure is None
            assert driven.log.released_offset == driven.log.offset
            offset = driven.log.offset
            names = [name for name in driven.disk.names() if name.endswith(".segment")]
            driven.close()
            assert len(names) - len(driven.log.segments) in (0, 1)
            assert Driven(driven.disk).report.offset == offset


def test_a_failed_write_beside_a_turn_over_waits_for_it():
    driven, count = turning("everysec")
    driven.disk.faults = {"write": errno.EIO}
    driven.write(count)
    driven.begin()
    driven.finish_step()
    assert driven.log.failure is not None
    driven.disk.faults = {}
    driven.begin()
    assert driven.step is None, "the files are not everybody's yet"
    driven.finish_sync()
    driven.begin()
    assert isinstance(driven.step, Switch)
    driven.run()
    assert driven.log.failure is None
    driven.close()
    assert driven.disk.names() == [*(segment.name for segment in driven.log.segments), "log.manifest"]
    assert Driven(driven.disk).numbers == list(range(count + 1))


def test_no_room_for_the_next_segment_is_no_emergency():
    driven, count = turning("everysec", Prepare)
    driven.disk.space = 100
    driven.finish_sync()
    assert driven.log.failure is None
    assert segment_name(2) not in driven.disk.names()
    assert driven.write(count), "the room reserved before is still there"
    assert driven.log.due_at() <= driven.now + 1.0
    driven.disk.space = 1 << 40
    driven.run(1.0)
    assert segment_name(3) in driven.disk.names()


@pytest.mark.parametrize("space", [0, 400])
def test_a_full_disk_is_helped_by_what_was_prepared(space: int):
    """Its room is used, one way or the other: taking over needs a new manifest, and that a little room."""
    driven, count = turning("everysec", Prepare)
    driven.finish_sync()
    prepared = len(driven.disk.file(segment_name(2)))
    driven.disk.space = space
    offset = driven.log.offset
    for _ in range(40):
        count += driven.write(count, 200)
        driven.run(1.1)
    assert driven.log.offset - offset > prepared * 0.6
    assert driven.log.error
    assert Driven(driven.disk).numbers == list(range(count))


def test_a_prepared_segment_is_removed_at_the_end():
    driven, count = turning("no", Prepare)
    driven.finish_sync()
    driven.close()
    assert driven.disk.names() == ["log-0000000001.segment", "log.manifest"]
    again = Driven(driven.disk)
    assert again.numbers == list(range(count))
    assert again.told == []


def test_room_is_filled_ahead_only_where_each_reply_waits_for_a_sync():
    for policy in POLICIES:
        driven, _ = turning(policy, Prepare)
        driven.disk.operations.clear()
        driven.finish_sync()
        manifest = ["create", "write", "sync", "rename", "sync_folder"]
        filled = ["write", "sync"] if policy == "always" else []
        assert driven.disk.operations == [*manifest, "create", "allocate", *filled, "sync", "sync_folder"]
