"""The events' store by its records: order, ids, trims, age, and dumps that rebuild it; with both kinds of log."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from amemdb.limits import EVENT_IDS_REMEMBERED, EVENTS_REMOVED_AT_ONCE_MAX, INT64_MAX, INT64_MIN
from amemdb.stores import episodic as episodic_module
from amemdb.stores import records
from amemdb.stores.episodic import EpisodicStore, PlainEventLog
from amemdb.stores.graveyard import LARGE_MIN, Graveyard
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

try:
    from amemdb.stores._episodic import EventLog as PackedEventLog
except ImportError:
    KINDS = [PlainEventLog]
else:
    KINDS = [PlainEventLog, PackedEventLog]

AGENT = b"a"
NOW = 1_700_000_000_000


class Held:
    """A store with its wheel, fed with records."""

    def __init__(self) -> None:
        self.wheel = Wheel()
        self.graveyard = Graveyard()
        self.store = EpisodicStore(self.wheel, self.graveyard)

    def apply(self, *changes: Record) -> None:
        appliers = {
            records.EVENT_LOGGED: self.store.apply_logged,
            records.EVENTS_TRIMMED: self.store.apply_trimmed,
            records.EVENTS_CLEARED: self.store.apply_cleared,
            records.RETENTION_SET: self.store.apply_retention,
        }
        for change in changes:
            appliers[change[0]](change)

    def log(self, at_ms: int, *, agent: bytes = AGENT, type: bytes = b"t", id: bytes | None = None) -> int:
        """Log one event with the next number, which is returned."""
        seq = self.store.logs[agent].next_seq if agent in self.store.logs else 1
        self.apply((records.EVENT_LOGGED, agent, seq, at_ms, type, b"c%d" % seq, None, id))
        return seq

    def trim(self, count: int) -> None:
        self.apply((records.EVENTS_TRIMMED, AGENT, count))

    def retain(self, maxlen: int = 0, maxage_ms: int = 0) -> None:
        next_seq = self.store.logs[AGENT].next_seq if AGENT in self.store.logs else 1
        self.apply((records.RETENTION_SET, AGENT, maxlen, maxage_ms, next_seq))

    def dump(self, now_ms: int = 0) -> list[Record]:
        return [record for agent in self.store.logs for record in self.store.dump(agent, now_ms)]

    def seqs(self, type: bytes | None = None) -> list[int]:
        log = self.store.logs[AGENT]
        return [event[1] for event in log.newest_between(type, (INT64_MIN,), (INT64_MAX,), len(log))]

    def holds(self, event_id: bytes, now_ms: int = NOW) -> bool:
        return self.store.logs[AGENT].holds_id(event_id, now_ms)


def rebuilt(held: Held, now_ms: int = 0) -> Held:
    again = Held()
    again.apply(*held.dump(now_ms))
    return again


@pytest.fixture(autouse=True, params=KINDS, ids=lambda kind: kind.__module__.rpartition(".")[2])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with every kind of log."""
    monkeypatch.setattr(episodic_module, "EventLog", request.param)


@pytest.fixture
def held() -> Held:
    return Held()


def test_a_type_lists_its_events_in_the_order_of_the_log(held: Held) -> None:
    for at_ms, type in ((5, b"x"), (3, b"y"), (4, b"x"), (3, b"x")):
        held.log(at_ms, type=type)
    assert held.seqs() == [2, 4, 3, 1]
    assert held.seqs(b"x") == [4, 3, 1]
    assert held.seqs(b"z") == held.seqs(b"") == []
    log = held.store.logs[AGENT]
    assert [event[1] for event in log.newest_between(b"x", (4,), (9,), 1)] == [1]
    assert [log.count_between(type, (4,), (9,)) for type in (None, b"x", b"y", b"z")] == [2, 2, 0, 0]


def test_the_name_of_a_type_is_held_once_however_often_it_is_sent() -> None:
    held = Held()
    held.store.logs[AGENT] = log = PlainEventLog()
    for _ in range(50):
        held.log(NOW, type=bytes(bytearray(b"a-type-that-comes-with-every-event")))
    assert len({id(event[2]) for event in log.events}) == 1


def test_a_type_is_found_among_very_many(held: Held) -> None:
    rng = Random(7)
    types = [b"type-%d" % number for number in range(3000)]
    sent = [rng.choice(types) for _ in range(9000)]
    for at_ms, type in enumerate(sent):
        held.log(at_ms, type=type)
    for type in rng.sample(types, 200):
        assert held.seqs(type) == [seq for seq, one in enumerate(sent, 1) if one == type]


def test_a_trim_takes_the_oldest_from_the_log_and_from_their_types(held: Held) -> None:
    for at_ms, type in ((5, b"x"), (1, b"y"), (2, b"x"), (1, b"y"), (9, b"z")):
        held.log(at_ms, type=type)
    held.trim(3)
    assert held.seqs() == [1, 5]
    assert (held.seqs(b"x"), held.seqs(b"y"), held.seqs(b"z")) == ([1], [], [5])


def test_a_log_is_gone_with_its_last_event_unless_a_policy_keeps_it(held: Held) -> None:
    held.log(NOW)
    held.trim(1)
    assert AGENT not in held.store.logs
    assert len(held.store.names) == 0
    held.log(NOW)
    held.apply((records.EVENTS_CLEARED, AGENT))
    assert AGENT not in held.store.logs
    held.retain(maxlen=3)
    held.log(NOW)
    held.apply((records.EVENTS_CLEARED, AGENT))
    assert AGENT in held.store.logs
    assert len(held.store.names) == 1
    held.retain()
    assert AGENT not in held.store.logs
    assert len(held.store.names) == 0
    assert len(held.wheel) == 0


def test_numbering_goes_on_after_a_clear_of_a_log_that_exists(held: Held) -> None:
    held.retain(maxlen=10)
    assert [held.log(NOW) for _ in range(3)] == [1, 2, 3]
    held.apply((records.EVENTS_CLEARED, AGENT))
    assert rebuilt(held).log(NOW) == held.log(NOW) == 4


def test_numbering_survives_a_dump_when_the_newest_arrival_is_gone(held: Held) -> None:
    held.log(NOW)
    held.log(5)  # the second to arrive is the oldest, and goes
    held.trim(1)
    assert held.dump()[-1] == (records.RETENTION_SET, AGENT, 0, 0, 3)
    assert rebuilt(held).log(NOW) == 3


def test_a_plain_log_dumps_to_its_events_alone(held: Held) -> None:
    held.log(NOW)
    held.log(NOW)
    assert [record[0] for record in held.dump()] == [records.EVENT_LOGGED] * 2


# -- ids -----------------------------------------------------------------------------------------


def test_ids_are_known_among_the_newest_events_only(held: Held) -> None:
    held.log(NOW, id=b"first")
    for _ in range(EVENT_IDS_REMEMBERED - 1):
        held.log(NOW)
    assert held.holds(b"first")
    held.log(NOW)
    assert not held.holds(b"first")


def test_newest_means_stored_order_not_arrival(held: Held) -> None:
    for index in range(EVENT_IDS_REMEMBERED):
        held.log(1000 + index, id=b"n%d" % index)
    held.log(5, id=b"of-long-ago")  # lies behind a thousand newer ones from the start
    assert not held.holds(b"of-long-ago")
    assert held.holds(b"n0")
    held.log(1500)  # enters the middle and pushes the oldest of the thousand out
    assert not held.holds(b"n0")
    assert held.holds(b"n1")


def test_an_id_that_comes_again_belongs_to_the_newest_of_its_events(held: Held) -> None:
    held.log(5, id=b"x")
    for _ in range(EVENT_IDS_REMEMBERED):
        held.log(1000)
    assert not held.holds(b"x")
    held.log(2000, id=b"x")
    held.trim(1)  # the event of long ago takes nothing along
    assert held.holds(b"x")


def test_trimmed_and_cleared_events_take_their_ids_along(held: Held) -> None:
    held.log(1, id=b"one")
    held.log(2, id=b"two")
    held.trim(1)
    assert (held.holds(b"one"), held.holds(b"two")) == (False, True)
    held.retain(maxlen=5)
    held.apply((records.EVENTS_CLEARED, AGENT))
    assert not held.holds(b"two")


def test_ids_of_a_log_never_outgrow_their_bound(held: Held) -> None:
    rng = Random(3)
    for index in range(3 * EVENT_IDS_REMEMBERED):
        held.log(rng.randrange(5000), id=b"%d" % index)
    assert len(held.store.logs[AGENT].ids or {}) == EVENT_IDS_REMEMBERED
    newest = list(held.store.logs[AGENT].events.oldest_from((0,)))[-EVENT_IDS_REMEMBERED:]
    assert set(held.store.logs[AGENT].ids or {}) == {event[5] for event in newest}


def test_an_id_out_of_age_is_not_known_before_the_wheel_ran(held: Held) -> None:
    held.retain(maxage_ms=1000)
    held.log(NOW, id=b"x")
    assert held.holds(b"x", NOW + 1000)
    assert not held.holds(b"x", NOW + 1001)


# -- age and the wheel ---------------------------------------------------------------------------


def test_the_wheel_follows_the_oldest_event(held: Held) -> None:
    held.log(NOW)
    held.log(NOW + 100_000)
    assert len(held.wheel) == 0
    held.retain(maxage_ms=10_000)
    assert held.wheel.due(NOW + 10_000, 9) == []
    assert held.wheel.due(NOW + 12_000, 9) == [("events", AGENT)]
    assert held.store.dead_count(AGENT, NOW + 12_000) == 1
    held.trim(1)
    assert held.wheel.due(NOW + 12_000, 9) == []
    assert held.wheel.due(NOW + 112_000, 9) == [("events", AGENT)]
    held.log(NOW - 50_000)
    assert held.wheel.due(NOW - 38_000, 9) == [("events", AGENT)]
    held.retain(maxage_ms=1_000_000)
    assert held.wheel.due(NOW + 500_000, 9) == []
    held.retain()
    assert len(held.wheel) == 0


def test_what_the_wheel_hands_out_is_always_out_of_age(held: Held) -> None:
    """Or the entry would be handed out for ever and hold up the others of its bucket."""
    rng = Random(4)
    held.retain(maxage_ms=5000)
    now_ms = NOW
    for _ in range(2000):
        now_ms += rng.randrange(300)
        held.log(now_ms - rng.randrange(4000))
        for _, agent in held.wheel.due(now_ms, 9):
            count = held.store.dead_count(agent, now_ms)
            assert count > 0
            held.trim(count)
    assert len(held.wheel) == 1


def test_an_event_lives_until_it_is_older_than_the_bound(held: Held) -> None:
    held.retain(maxage_ms=3000)
    held.log(NOW)
    held.log(NOW + 1)
    assert [held.store.dead_count(AGENT, NOW + after_ms) for after_ms in (2999, 3000, 3001, 3002)] == [0, 0, 1, 2]


def test_one_removal_is_bounded_and_the_rest_stays_due(held: Held) -> None:
    for _ in range(EVENTS_REMOVED_AT_ONCE_MAX + 5):
        held.log(NOW)
    held.retain(maxage_ms=1000)
    assert held.store.dead_count(AGENT, NOW + 9000) == EVENTS_REMOVED_AT_ONCE_MAX
    held.trim(EVENTS_REMOVED_AT_ONCE_MAX)
    assert held.wheel.due(NOW + 9000, 9) == [("events", AGENT)]
    assert held.store.dead_count(AGENT, NOW + 9000) == 5


def test_an_unknown_agent_has_nothing_out_of_age(held: Held) -> None:
    assert held.store.dead_count(b"nobody", NOW) == 0


# -- whole state ---------------------------------------------------------------------------------


def test_a_dump_leaves_out_what_is_out_of_age_and_keeps_the_rest_exact(held: Held) -> None:
    held.retain(maxlen=7, maxage_ms=5000)
    for at_ms in (NOW, NOW + 4000, NOW + 4000, NOW + 1):
        held.log(at_ms, id=b"i%d" % at_ms)
    assert len(held.dump()) == 5
    seen = held.dump(NOW + 6000)
    assert [record[2] for record in seen[:-1]] == [2, 3]
    assert seen[-1] == (records.RETENTION_SET, AGENT, 7, 5000, 5)
    held.trim(2)
    assert held.dump(NOW + 6000) == held.dump() == seen


def test_a_dump_when_all_is_out_of_age_is_the_policy(held: Held) -> None:
    held.retain(maxage_ms=1000)
    held.log(NOW)
    assert held.dump(NOW + 5000) == [(records.RETENTION_SET, AGENT, 0, 1000, 2)]


@pytest.mark.parametrize("seed", range(8))
def test_a_rebuilt_log_is_the_same_in_every_respect(seed: int) -> None:
    rng = Random(seed)
    held = Held()
    for step in range(1500):
        draw = rng.random()
        if draw < 0.01:
            held.retain(rng.choice([0, 5, 400]), rng.choice([0, 1000, 90_000]))
        elif draw < 0.04 and AGENT in held.store.logs:
            held.trim(rng.randrange(min(30, len(held.store.logs[AGENT].events) + 1)))
        elif draw < 0.042 and AGENT in held.store.logs:
            held.apply((records.EVENTS_CLEARED, AGENT))
        else:
            at_ms = NOW + step * 10 - (rng.randrange(20_000) if rng.random() < 0.3 else 0)
            held.log(at_ms, type=rng.choice([b"x", b"y", b"z"]), id=b"%d" % step if rng.random() < 0.4 else None)
    again = rebuilt(held)
    assert again.dump() == held.dump()
    assert set(again.store.logs) == set(held.store.logs)
    for agent, log in held.store.logs.items():
        other = again.store.logs[agent]
        assert (other.next_seq, other.maxlen, other.maxage_ms) == (log.next_seq, log.maxlen, log.maxage_ms)
        assert (other.ids or {}).keys() == (log.ids or {}).keys()
        bounds = ((INT64_MIN,), (INT64_MAX,), len(log))
        for type in (None, b"x", b"y", b"z"):
            assert other.newest_between(type, *bounds) == log.newest_between(type, *bounds)
    assert len(again.wheel) == len(held.wheel)
    assert again.wheel.due(NOW * 2, 99) == held.wheel.due(NOW * 2, 99)


def test_clear_forgets_everything(held: Held) -> None:
    held.log(NOW)
    held.log(NOW, agent=b"b")
    held.store.clear()
    assert held.dump() == []
    assert len(held.store.names) == 0


@pytest.mark.parametrize("lose", ["trim", "clear", "flush"])
def test_what_a_large_log_loses_is_buried(held: Held, lose: str) -> None:
    for number in range(LARGE_MIN + 500):
        held.log(number)
    for agent in range(LARGE_MIN if lose == "flush" else 0):  # a store is large by its agents
        held.log(NOW, agent=b"%d" % agent)
    if lose == "trim":
        held.trim(LARGE_MIN + 400)
        assert held.seqs() == list(range(LARGE_MIN + 401, LARGE_MIN + 501))
    elif lose == "clear":
        held.apply((records.EVENTS_CLEARED, AGENT))
    else:
        held.store.clear()
    assert len(held.graveyard) == (2 if lose == "flush" else 1)
    while held.graveyard.free(100) >= 100:
        pass
    assert len(held.graveyard) == 0
    assert AGENT not in held.store.logs or held.seqs() == list(range(LARGE_MIN + 401, LARGE_MIN + 501))


@pytest.mark.parametrize("seed", range(4))
def test_both_kinds_of_log_answer_everything_alike(seed: int) -> None:
    rng = Random(seed)
    logs = [kind() for kind in KINDS]
    types = [b"t%d" % number for number in range(rng.choice([1, 4, 300]))]
    spread, in_order, now_ms = rng.choice([3, 1000, 10**6]), rng.random(), 10**7

    def alike(ask: Callable[[Any], Any]) -> Any:
        answers = [ask(log) for log in logs]
        assert answers == answers[:1] * len(answers)
        return answers[0]

    for _ in range(3000):
        draw = rng.random()
        now_ms += rng.randrange(3)
        count = alike(len)
        if draw < 0.9:
            at_ms = now_ms if rng.random() < in_order else now_ms - rng.randrange(spread)
            content = bytes(rng.randrange(rng.choice([10, 200, 6000])))
            event = (at_ms, logs[0].next_seq, rng.choice(types), content)
            extra = rng.choice([None, b"", b"m" * 200]), rng.choice([None, b"%d" % rng.randrange(3000)])
            for log in logs:
                log.add(*event, *extra)
        elif draw < 0.93:
            gone = min(count, 1 if rng.random() < 0.7 else rng.choice([5, 1000, count]))
            for log in logs:
                log.trim(gone)
        elif count:
            low, high = (now_ms - rng.randrange(2 * spread),), (now_ms - rng.randrange(spread), rng.randrange(4000))
            type, limit = rng.choice([None, b"other", *types[:3]]), rng.choice([0, 1, 10, 10**6])
            alike(lambda log: log.newest_between(type, low, high, limit))  # noqa: B023
            alike(lambda log: log.count_between(type, low, high))  # noqa: B023
            alike(lambda log: log.events.nth_newest(count // 2))  # noqa: B023
            alike(lambda log: (log.events.oldest, log.events.newest))
            alike(lambda log: [log.holds_id(b"%d" % number, now_ms) for number in range(0, 3000, 50)])  # noqa: B023
    alike(lambda log: list(log.events.oldest_from((INT64_MIN,))))
    alike(lambda log: set(log.ids or ()))
    alike(lambda log: log.next_seq)


@pytest.mark.parametrize("seed", range(3))
def test_both_kinds_of_log_dump_the_same_records(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps = []
    for kind in KINDS:
        monkeypatch.setattr(episodic_module, "EventLog", kind)
        rng, held = Random(seed), Held()
        for step in range(2500):
            agent, draw = rng.choice([b"a", b"b", b"c"]), rng.random()
            log = held.store.logs.get(agent)
            if draw < 0.01:
                next_seq = 1 if log is None else log.next_seq
                held.apply((records.RETENTION_SET, agent, rng.choice([0, 9]), rng.choice([0, 9000]), next_seq))
            elif draw < 0.03 and log is not None:
                held.apply((records.EVENTS_TRIMMED, agent, rng.randrange(len(log) + 1)))
            elif draw < 0.032 and log is not None:
                held.apply((records.EVENTS_CLEARED, agent))
            else:
                id = b"%d" % step if rng.random() < 0.3 else None
                held.log(NOW + 10 * step - rng.randrange(3000), agent=agent, type=b"%d" % rng.randrange(5), id=id)
        dumps.append((held.dump(), held.dump(NOW + 25_000), len(held.wheel)))
    assert dumps == dumps[:1] * len(KINDS)
