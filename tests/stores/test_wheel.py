"""The timing wheel against a plain dict, what peeking means, and what it costs."""

from __future__ import annotations

import sys
import time
import tracemalloc
from random import Random

import pytest

from amemdb.stores.wheel import BUCKET_SHIFT, Entry, Wheel, _BucketIds, due_of, wait_ms

NOW = 1_700_000_000_000
CENTURY_MS = 100 * 31_557_600_000
BUCKET_MS = 1 << BUCKET_SHIFT


def key(number: int) -> Entry:
    return ("key", 0, b"%d" % number)


def drain(wheel: Wheel, times: dict[Entry, int], now_ms: int, count_max: int) -> list[Entry]:
    """Take out everything that is due, as the engine does."""
    taken: list[Entry] = []
    while batch := wheel.due(now_ms, count_max):
        assert len(batch) <= count_max
        for entry in batch:
            wheel.cancel(entry, times.pop(entry))
        taken += batch
    return taken


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_against_a_dict(seed):
    rng = Random(seed)
    wheel, times = Wheel(), dict[Entry, int]()
    now = NOW
    spread = rng.choice((500, 20_000, 10**7, CENTURY_MS))
    for _ in range(6_000):
        entry = key(rng.randrange(300))
        act = rng.random()
        if act < 0.7:
            if entry in times:
                wheel.cancel(entry, times.pop(entry))
            if act < 0.5:
                times[entry] = max(1, now + rng.randrange(-spread // 10, spread))
                wheel.schedule(entry, times[entry])
        elif act < 0.72:
            now += rng.choice((-70_000, 1, 300, 1024, spread // 20))
        else:
            expected = {entry for entry, at in times.items() if at >> BUCKET_SHIFT < now >> BUCKET_SHIFT}
            count_max = rng.choice((1, 5, 1000))
            found = wheel.due(now, count_max)
            assert len(found) == len(set(found)) == min(count_max, len(expected))
            assert set(found) <= expected
            assert wheel.due(now, count_max) == found
            if rng.random() < 0.5:
                for due in found:
                    wheel.cancel(due, times.pop(due))
        assert len(wheel) == len(times)
    now_bucket = now >> BUCKET_SHIFT
    assert set(wheel.current(now)) == {entry for entry, at in times.items() if at >> BUCKET_SHIFT == now_bucket}
    assert wheel.passed_count(now) == sum(at >> BUCKET_SHIFT < now_bucket for at in times.values())
    everything = set(times)
    assert set(drain(wheel, times, now + 2 * CENTURY_MS, 7)) == everything
    assert len(wheel) == 0
    assert wheel._buckets == {}
    assert not any(wheel._ids.levels)


def test_an_entry_is_due_when_its_bucket_has_passed_and_within_about_a_second():
    for at in (NOW, NOW + 1, NOW + BUCKET_MS - 1, BUCKET_MS * 5, BUCKET_MS * 5 - 1, 1, 1023, 1024):
        wheel = Wheel()
        wheel.schedule(key(1), at)
        assert wheel.due(at, 10) == []
        assert wheel.due(at - 1, 10) == []
        assert wheel.due(at + BUCKET_MS, 10) == [key(1)]
        assert list(wheel.current(at)) == [key(1)]
        assert list(wheel.current(at - BUCKET_MS)) == []
        assert (wheel.passed_count(at), wheel.passed_count(at + BUCKET_MS)) == (0, 1)


def test_what_is_due_stays_until_it_is_cancelled():
    wheel, times = Wheel(), {}
    for number in range(10):
        times[key(number)] = NOW + number
        wheel.schedule(key(number), NOW + number)
    first = wheel.due(NOW + 5000, 4)
    for _ in range(5):
        assert wheel.due(NOW + 5000, 4) == first
    wheel.cancel(first[1], times[first[1]])
    again = wheel.due(NOW + 5000, 4)
    assert first[1] not in again
    assert {first[0], first[2], first[3]} < set(again)
    assert len(wheel) == 9


def test_the_earliest_buckets_come_first_and_one_call_spans_many():
    wheel, times = Wheel(), {}
    for number in range(100):
        times[key(number)] = 1 + number * 40 * BUCKET_MS
        wheel.schedule(key(number), times[key(number)])
    assert wheel.due(NOW, 30) == [key(number) for number in range(30)]
    assert drain(wheel, times, NOW, 7) == [key(number) for number in range(100)]


def test_rescheduling_within_the_bucket_that_is_handed_out():
    wheel = Wheel()
    at = NOW // BUCKET_MS * BUCKET_MS
    for number in range(10):
        wheel.schedule(key(number), at)
    taken: list[Entry] = []
    while batch := wheel.due(at + BUCKET_MS, 3):
        for entry in batch:
            wheel.cancel(entry, at)
            if entry not in taken:
                wheel.schedule(entry, at + 7)
            taken.append(entry)
        if len(taken) == 3:
            wheel.schedule(key(10), at + 9)
    assert sorted(taken) == sorted(key(number) for number in (*range(11), *range(11)))
    assert len(wheel) == 0


def test_an_entry_moved_out_of_the_bucket_that_is_handed_out_is_not_due():
    wheel = Wheel()
    for number in range(10):
        wheel.schedule(key(number), NOW)
    first = wheel.due(NOW + 5000, 4)
    for entry in first:
        wheel.cancel(entry, NOW)
        wheel.schedule(entry, NOW + 60_000)
    assert set(wheel.due(NOW + 5000, 100)) == {key(number) for number in range(10)} - set(first)
    assert set(wheel.due(NOW + 70_000, 100)) == {key(number) for number in range(10)}


def test_an_earlier_bucket_that_appears_later_goes_first():
    wheel = Wheel()
    wheel.schedule(key(1), NOW)
    assert wheel.due(NOW + 5000, 1) == [key(1)]
    wheel.schedule(key(2), 1)
    assert wheel.due(NOW + 5000, 1) == [key(2)]
    assert wheel.due(NOW + 5000, 2) == [key(2), key(1)]
    wheel.cancel(key(2), 1)
    assert wheel.due(NOW + 5000, 2) == [key(1)]


def test_a_time_that_falls_back_only_makes_less_come_due():
    wheel = Wheel()
    wheel.schedule(key(1), NOW)
    wheel.schedule(key(2), NOW + 60_000)
    assert wheel.due(NOW + 120_000, 10) == [key(1), key(2)]
    assert wheel.due(NOW + 30_000, 10) == [key(1)]
    assert wheel.due(NOW - 60_000, 10) == []
    assert wheel.due(0, 10) == []
    assert wheel.due(-5, 10) == []
    assert wheel.due(NOW + 120_000, 10) == [key(1), key(2)]


def test_the_farthest_times_are_held_and_cleared():
    wheel = Wheel()
    for at in (1, NOW, NOW + CENTURY_MS, 2**63 - 1):
        wheel.schedule(("session", b"s", at), at)
    assert [entry[2] for entry in wheel.due(2**63 - 1, 10)] == [1, NOW, NOW + CENTURY_MS]
    old = wheel.emptied()
    assert (len(old), len(wheel)) == (4, 0)
    assert wheel.due(2**63 - 1, 10) == []
    wheel.schedule(key(1), 1)
    assert wheel.due(NOW, 10) == [key(1)]


def test_nothing_is_asked_for_and_nothing_comes():
    wheel = Wheel()
    wheel.schedule(key(1), 1)
    assert wheel.due(NOW, 0) == []


def test_our_own_mistakes_are_seen():
    wheel = Wheel()
    wheel.schedule(key(1), NOW)
    with pytest.raises(AssertionError, match="scheduled twice"):
        wheel.schedule(key(1), NOW)
    with pytest.raises(KeyError):
        wheel.cancel(key(2), NOW)
    with pytest.raises(KeyError):
        wheel.cancel(key(1), NOW + 10 * BUCKET_MS)
    assert len(wheel) == 1


def calls_and_lines(work) -> int:
    """How much Python `work` runs, in lines and calls: a measure of work that no other process disturbs."""
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_a_call_costs_what_it_returns_however_full_the_bucket_is():
    entries = 300_000
    wheel = Wheel()
    for number in range(entries):
        wheel.schedule(key(number), NOW)
    assert calls_and_lines(lambda: wheel.due(NOW + 5000, 256)) < 256 * 10 + 200
    tracemalloc.start()
    try:
        wheel.due(NOW + 5000, 256)
        assert tracemalloc.get_traced_memory()[1] < 100_000, "the bucket was copied"
    finally:
        tracemalloc.stop()
    start = time.process_time()
    for _ in range(100):
        assert len(wheel.due(NOW + 5000, 256)) == 256
    assert (time.process_time() - start) / 100 < 0.003, "one look over the whole bucket takes more"


def test_draining_a_full_bucket_is_linear():
    """A million steps over what was deleted before, at each of a thousand calls, would take minutes."""
    entries = 300_000
    wheel = Wheel()
    for number in range(entries):
        wheel.schedule(key(number), NOW)
    for number in range(0, entries, 3):  # deleted by clients before their time came
        wheel.cancel(key(number), NOW)
    start = time.process_time()
    count = 0
    while batch := wheel.due(NOW + 5000, 256):
        for entry in batch:
            wheel.cancel(entry, NOW)
        count += len(batch)
    assert count == entries - entries // 3
    assert time.process_time() - start < 5


def test_expiries_that_move_about_leave_nothing_behind():
    """A client that gives one key ever new times of a century must not fill the memory with empty buckets."""
    rng = Random(4)
    wheel = Wheel()
    at = NOW
    wheel.schedule(key(1), at)
    tracemalloc.start()
    try:
        for _ in range(5_000):
            wheel.cancel(key(1), at)
            at = NOW + rng.randrange(CENTURY_MS)
            wheel.schedule(key(1), at)
        assert tracemalloc.get_traced_memory()[0] < 50_000
    finally:
        tracemalloc.stop()
    assert len(wheel._buckets) == 1


def test_many_sparse_buckets_are_walked_in_order():
    rng = Random(6)
    wheel, times = Wheel(), {}
    for number in range(20_000):
        times[key(number)] = 1 + rng.randrange(NOW)
        wheel.schedule(key(number), times[key(number)])
    in_order = sorted({at >> BUCKET_SHIFT for at in times.values()})
    before = dict(times)
    taken = drain(wheel, times, NOW + 5000, 500)
    assert [before[entry] >> BUCKET_SHIFT for entry in taken] == sorted(
        before[entry] >> BUCKET_SHIFT for entry in taken
    )
    assert sorted({before[entry] >> BUCKET_SHIFT for entry in taken}) == in_order


def test_the_set_of_ids_against_a_set():
    rng = Random(8)
    ids, model = _BucketIds(), set[int]()
    for _ in range(20_000):
        number = rng.choice((rng.randrange(100), rng.randrange(5000), rng.randrange(2**53), 1023, 1024, 2**53 - 1))
        if number in model:
            ids.discard(number)
            model.remove(number)
        elif len(model) < 500:
            ids.add(number)
            model.add(number)
        if rng.random() < 0.01:
            assert list(ids) == sorted(model)
    for number in model:
        ids.discard(number)
    assert list(ids) == []
    assert not any(ids.levels)


def test_what_is_due_of_several_wheels_comes_from_the_one_that_waits_longest():
    first, second, third, empty = Wheel(), Wheel(), Wheel(), Wheel()
    second.schedule(key(1), NOW)
    for number in range(2, 6):
        first.schedule(key(number), NOW + BUCKET_MS)
    third.schedule(key(6), NOW + 100 * BUCKET_MS)
    wheels = (first, empty, second, third)
    assert due_of(wheels, NOW, 9) == []
    assert due_of(wheels, NOW + BUCKET_MS, 9) == [key(1)]
    found = due_of(wheels, NOW + 2 * BUCKET_MS, 9)
    assert (found[0], sorted(found)) == (key(1), [key(number) for number in range(1, 6)])
    assert len(due_of(wheels, NOW + 200 * BUCKET_MS, 2)) == 2
    second.cancel(key(1), NOW)
    assert due_of(wheels, NOW + 200 * BUCKET_MS, 5)[-1] == key(6)
    assert due_of(wheels, NOW + 200 * BUCKET_MS, 0) == []


def test_a_wheel_out_of_use_is_freed_bit_by_bit():
    rng = Random(9)
    wheel = Wheel()
    for number in range(3000):
        wheel.schedule(key(number), NOW + (rng.randrange(CENTURY_MS) if number % 2 else number % 7))
    freed = []
    while not freed or freed[-1] == 100:
        freed.append(wheel.free_some(100))
    assert len(wheel) == 0
    assert sum(freed) >= 3000
    assert wheel._buckets == {}
    assert not any(wheel._ids.levels)


def test_all_that_has_ended_is_due_when_its_bucket_has_passed():
    first, second = Wheel(), Wheel()
    assert wait_ms((first, second), 5000) == 0
    second.schedule(("key", 0, b"k"), 5000)
    assert wait_ms((first, second), 5000) == 120
    assert first.due(5119, 9) + second.due(5119, 9) == []
    assert second.due(5120, 9) == [("key", 0, b"k")]
    assert wait_ms((first, second), 5120) == 0
