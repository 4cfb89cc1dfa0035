"""The chunked sequence of events against a plain sorted list, of both kinds: of tuples, and packed."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from amemdb.limits import INT64_MAX, INT64_MIN
from amemdb.stores.timeline import CHUNK_MAX, Event, Timeline

try:
    from amemdb.stores._timeline import Timeline as PackedTimeline
except ImportError:
    KINDS = [Timeline]
else:
    KINDS = [Timeline, PackedTimeline]


@pytest.fixture(autouse=True, params=KINDS, ids=lambda kind: kind.__module__.rpartition(".")[2])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with every kind of timeline."""
    monkeypatch.setitem(globals(), "Timeline", request.param)


def event(at_ms: int, seq: int) -> Event:
    return (at_ms, seq, b"t", b"c%d" % seq, None, None)


def filled(times: list[int]) -> tuple[Timeline, list[Event]]:
    """A timeline of these times in order of arrival, and the same events in stored order."""
    timeline = Timeline()
    events = [event(at_ms, seq) for seq, at_ms in enumerate(times, 1)]
    for one in events:
        timeline.add(one)
    return timeline, sorted(events)


def everything(timeline: Timeline) -> list[Event]:
    return timeline.newest_between((INT64_MIN,), (INT64_MAX + 1,), len(timeline) + 1)


def chunks_are_sound(timeline: Timeline) -> bool:
    if not hasattr(timeline, "_chunks"):
        return timeline.memory_bytes() < 10_000 + 200 * len(timeline)
    sizes = [len(chunk) for chunk in timeline._chunks]
    return all(0 < size <= CHUNK_MAX for size in sizes) and all(size >= CHUNK_MAX // 2 for size in sizes[1:-1])


ORDERS = {
    "growing": list(range(3000)),
    "falling": list(range(3000, 0, -1)),
    "all equal": [7] * 3000,
    "two ends": [n if n % 2 else -n for n in range(3000)],
    "shuffled": Random(1).sample(range(3000), 3000),
    "few times": [Random(2).randrange(9) for _ in range(3000)],
}


@pytest.mark.parametrize("times", ORDERS.values(), ids=ORDERS.keys())
def test_any_order_of_arrival_is_stored_by_time_then_arrival(times: list[int]) -> None:
    timeline, events = filled(times)
    assert everything(timeline) == events
    assert list(timeline.oldest_from((INT64_MIN,))) == events
    assert (timeline.oldest, timeline.newest, len(timeline)) == (events[0], events[-1], len(events))
    assert chunks_are_sound(timeline)


def test_equal_times_keep_the_order_of_arrival_across_chunks() -> None:
    timeline, _ = filled([5] * 1000 + [9] * 700 + [5] * 1000)
    assert [one[1] for one in timeline.newest_between((5,), (6,), 5000)] == [*range(1, 1001), *range(1701, 2701)]


def test_an_empty_timeline_answers_every_question() -> None:
    timeline = Timeline()
    assert len(timeline) == 0
    assert everything(timeline) == []
    assert list(timeline.oldest_from((0,))) == []
    assert timeline.count_before((INT64_MAX,)) == 0
    assert timeline.count_between((0,), (9,)) == 0
    assert not timeline.drop_oldest(0)
    assert timeline.free_some(9) == 0


@pytest.mark.parametrize("seed", range(6))
def test_ranges_equal_those_of_a_sorted_list(seed: int) -> None:
    rng = Random(seed)
    timeline, events = filled([rng.randrange(2000) for _ in range(rng.choice([1, 511, 512, 513, 4000]))])
    for _ in range(300):
        low, high = rng.randrange(-5, 2010), rng.randrange(-5, 2010)
        inside = [one for one in events if low <= one[0] <= high]
        assert timeline.count_between((low,), (high + 1,)) == len(inside)
        limit = rng.choice([0, 1, 2, 700, 10_000])
        expected = inside[len(inside) - limit :] if 0 < limit < len(inside) else inside if limit else []
        assert timeline.newest_between((low,), (high + 1,), limit) == expected
        assert timeline.count_before((low,)) == sum(one[0] < low for one in events)
        start = rng.choice(events)
        behind = list(islice(timeline.oldest_from((start[0], start[1] + 1)), 600))
        assert behind == events[events.index(start) + 1 :][:600]
        index = rng.randrange(len(events))
        assert timeline.nth_newest(index) == events[-1 - index]


def test_a_low_bound_above_the_high_one_is_an_empty_range() -> None:
    timeline, _ = filled(list(range(2000)))
    assert timeline.newest_between((1500,), (200,), 10) == []
    assert timeline.count_between((1500,), (200,)) == 0


@pytest.mark.parametrize("seed", range(6))
def test_adding_and_dropping_in_turn_equals_a_sorted_list(seed: int) -> None:
    rng = Random(seed)
    timeline, events = Timeline(), []
    for seq in range(1, 4001):
        at_ms = seq if rng.random() < 0.8 else rng.randrange(5000)
        timeline.add(event(at_ms, seq))
        events = sorted([*events, event(at_ms, seq)])
        if rng.random() < 0.1:
            count = rng.choice([0, 1, 3, len(events) // 2, len(events)] if rng.random() < 0.1 else [1, 2])
            count = min(count, len(events))
            timeline.drop_oldest(count)
            events = events[count:]
    assert everything(timeline) == events
    assert len(timeline) == len(events)
    assert chunks_are_sound(timeline)


def test_a_full_log_that_drops_one_for_each_that_it_takes_stays_in_few_chunks() -> None:
    timeline, _ = filled(list(range(1000)))
    for seq in range(1001, 20_000):
        timeline.add(event(seq, seq))
        timeline.drop_oldest(1)
    assert len(timeline) == 1000
    assert chunks_are_sound(timeline)


def test_what_is_dropped_in_great_number_is_handed_out_to_be_freed_bit_by_bit() -> None:
    timeline, events = filled(list(range(5000)))
    dropped = timeline.drop_oldest(4321)
    assert everything(timeline) == events[4321:]
    assert dropped is not None
    freed = [dropped.free_some(500)]
    while freed[-1] >= 500:
        freed.append(dropped.free_some(500))
    assert len(dropped) == 0
    assert 4000 < sum(freed) <= 4321
    assert max(freed) < 1100
    assert everything(timeline) == events[4321:]


def test_no_change_may_come_between_two_steps_of_a_walk_through_packed_events(kind: None) -> None:
    timeline, _ = filled([1, 2, 3])
    if timeline.__class__.__module__.endswith("_timeline"):
        walk = timeline.oldest_from((0,))
        next(walk)
        timeline.drop_oldest(1)
        with pytest.raises(AssertionError, match="changed while it was walked"):
            next(walk)


def test_texts_of_any_length_and_bytes_are_kept() -> None:
    texts = [b"", b"\x00", b"\xff" * 127, b"x" * 128, bytes(range(256)) * 70, b"y" * 3_000_000]
    events = [
        (at_ms, at_ms, type, content, metadata, id)
        for at_ms, (type, content, metadata, id) in enumerate(
            [(a[:1024], b, c, d) for a in texts for b in texts for c in (None, *texts[:3]) for d in (None, *texts[:3])]
        )
    ]
    Random(1).shuffle(events)
    timeline = Timeline()
    for one in events:
        timeline.add(one)
    assert everything(timeline) == sorted(events)


def test_times_reach_from_one_end_to_the_other() -> None:
    times = [INT64_MIN, -1, 0, 1, INT64_MAX - 1, INT64_MAX]
    timeline, events = filled(times)
    assert everything(timeline) == events
    assert timeline.count_between((-1,), (INT64_MAX,)) == 4
    assert timeline.count_before((INT64_MAX + 1,)) == 6
    assert list(timeline.oldest_from((INT64_MAX, 2**63))) == []


def test_dropping_more_than_there_is_is_our_bug() -> None:
    timeline, _ = filled([1, 2])
    with pytest.raises(AssertionError, match="more events than it holds"):
        timeline.drop_oldest(3)
    with pytest.raises(AssertionError, match="more events than it holds"):
        timeline.nth_newest(2)
