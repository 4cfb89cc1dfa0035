"""AMEM.EPIS on the wire: order, filters and limits, retries, retention, export by pages, refusals."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from checks import EVERY_BYTE, NOT_INTEGERS, NOW, logged, records_of, refused, run, scanned, silent, survives
from rig import Rig

from amemdb.commands import episodic
from amemdb.limits import (
    EVENT_IDS_REMEMBERED,
    EVENTS_PAGE_DEFAULT,
    EVENTS_PAGE_MAX,
    EVENTS_REMOVED_AT_ONCE_MAX,
    EXPIRY_AHEAD_MS_MAX,
    INT64_MAX,
    INT64_MIN,
    TTL_SECONDS_MAX,
)
from amemdb.protocol import reply
from amemdb.stores import records


@pytest.fixture
def rig() -> Rig:
    return Rig(start_ms=NOW)


def contents(events: list[list[Any]]) -> list[bytes]:
    """The contents of RESP2 events, whose labels are checked on the way."""
    labels = [b"timestamp", b"type", b"content", b"metadata"]
    assert all(event[0::2] == labels[: len(event) // 2] and len(event) >= 6 for event in events)
    return [event[5] for event in events]


def query(rig: Rig, line: str, *rest: bytes) -> list[bytes]:
    return contents(silent(rig, f"AMEM.EPIS.QUERY {line}", *rest))


def stats(rig: Rig, agent: str = "a") -> list[int]:
    answer = silent(rig, f"AMEM.EPIS.STATS {agent}")
    assert answer[0::2] == [b"total_events", b"oldest_ts", b"newest_ts"]
    return answer[1::2]  # type: ignore[no-any-return]


def export(rig: Rig, agent: str = "a", options: str = "") -> list[bytes]:
    """All contents by pages."""
    cursor, out = b"0", []
    for _ in range(10_000):
        cursor, events = silent(rig, f"AMEM.EPIS.PAGE {agent}", cursor, *options.encode().split())
        out += contents(events)
        if cursor == b"0":
            return out
    raise AssertionError("the export does not end")


def log(rig: Rig, *contents: str, agent: str = "a", step_ms: int = 10, rest: str = "") -> None:
    """One event after the other, `step_ms` apart."""
    for content in contents:
        assert run(rig, f"AMEM.EPIS.LOG {agent} t {content} {rest}") == b"OK"
        rig.now_ms += step_ms


# -- order, filters, limits ----------------------------------------------------------------------


def test_the_newest_of_a_limit_are_shown_oldest_first(rig: Rig) -> None:
    log(rig, "e1", "e2", "e3", "e4", "e5")
    assert query(rig, "a") == [b"e1", b"e2", b"e3", b"e4", b"e5"]
    assert query(rig, "a LIMIT 2") == [b"e4", b"e5"]
    assert query(rig, "a LIMIT 2 REV") == [b"e5", b"e4"]
    assert query(rig, "a REV") == [b"e5", b"e4", b"e3", b"e2", b"e1"]
    assert query(rig, "a LIMIT 0") == query(rig, "a LIMIT 0 REV") == []
    assert query(rig, f"a LIMIT {INT64_MAX}") == query(rig, "a LIMIT 5") == query(rig, "a")
    assert query(rig, f"a FROM {NOW + 10} TO {NOW + 30} LIMIT 2") == [b"e3", b"e4"]
    assert query(rig, f"a FROM {NOW + 10} TO {NOW + 30} LIMIT 2 REV") == [b"e4", b"e3"]
    assert query(rig, "nobody") == []


def test_filters_come_before_the_limit(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.LOG a y early")
    for number in range(100):
        rig.now_ms += 1
        run(rig, f"AMEM.EPIS.LOG a x x{number}")
    assert query(rig, "a TYPE y LIMIT 1") == [b"early"]
    assert query(rig, "a TYPE x LIMIT 2") == [b"x98", b"x99"]
    assert query(rig, f"a TYPE x TO {NOW + 2} LIMIT 1") == [b"x1"]
    assert query(rig, "a TYPE nothing LIMIT 5") == []
    assert query(rig, "a TYPE X") == [], "types are bytes, not words"


def test_bounds_are_included_and_may_be_any_number(rig: Rig) -> None:
    log(rig, "e1", "e2", "e3")
    assert query(rig, f"a FROM {NOW + 10} TO {NOW + 10}") == [b"e2"]
    assert query(rig, f"a FROM {NOW + 11} TO {NOW + 19}") == []
    assert query(rig, f"a FROM {NOW + 20}") == [b"e3"]
    assert query(rig, f"a TO {NOW}") == [b"e1"]
    assert query(rig, f"a FROM {INT64_MIN} TO {INT64_MAX}") == [b"e1", b"e2", b"e3"]
    assert query(rig, f"a FROM {INT64_MAX}") == query(rig, f"a TO {INT64_MIN}") == []
    assert query(rig, f"a FROM {NOW + 20} TO {NOW}") == []
    assert query(rig, f"a FROM {INT64_MAX} TO {INT64_MIN} LIMIT 3 REV") == []
    assert query(rig, "a TO -1") == []


def test_equal_times_stand_in_order_of_arrival(rig: Rig) -> None:
    log(rig, "e1", "e2", "e3", step_ms=0)
    run(rig, f"AMEM.EPIS.LOG a u later AT {NOW + 5}")
    log(rig, "e4", step_ms=0)
    for _ in range(2):
        assert query(rig, "a") == [b"e1", b"e2", b"e3", b"e4", b"later"]
        assert query(rig, f"a TO {NOW} LIMIT 2") == [b"e3", b"e4"]
        assert query(rig, f"a TO {NOW} LIMIT 2 REV") == [b"e4", b"e3"]
        rig.restart()


def test_a_clock_set_back_leaves_order_and_stats_in_their_senses(rig: Rig) -> None:
    log(rig, "e1", step_ms=0)
    rig.now_ms -= 3_600_000
    log(rig, "e2", "e3", step_ms=0)
    assert query(rig, "a") == [b"e2", b"e3", b"e1"]
    assert stats(rig) == [3, NOW - 3_600_000, NOW]
    assert export(rig) == query(rig, "a")
    survives(rig)


@pytest.mark.parametrize("seed", range(4))
def test_any_query_equals_one_over_a_plain_list(rig: Rig, seed: int) -> None:
    rng = Random(seed)
    events: list[tuple[int, int, bytes, bytes]] = []
    for seq in range(1500):
        at, kind = NOW + rng.randrange(400), rng.choice([b"x", b"y", b"z"])
        run(rig, "AMEM.EPIS.LOG a", kind, b"%d" % seq, b"AT", b"%d" % at)
        events.append((at, seq, kind, b"%d" % seq))
    events.sort()
    for _ in range(200):
        kind = rng.choice([None, b"x", b"z", b"none"])
        low, high = NOW + rng.randrange(-5, 405), NOW + rng.randrange(-5, 405)
        limit, newest_first = rng.choice([None, 0, 1, 7, 5000]), rng.random() < 0.5
        found = [e for e in events if low <= e[0] <= high and kind in (None, e[2])]
        found = found if limit is None or limit > len(found) else found[len(found) - limit :]
        words = [b"FROM", b"%d" % low, b"TO", b"%d" % high, *([b"REV"] if newest_first else [])]
        words += [*([b"TYPE", kind] if kind else []), *([b"LIMIT", b"%d" % limit] if limit is not None else [])]
        answer = contents(run(rig, "AMEM.EPIS.QUERY a", *words))
        assert answer == [e[3] for e in (found[::-1] if newest_first else found)]
    survives(rig)


@pytest.mark.parametrize("word", ["FROM", "TO", "LIMIT"])
@pytest.mark.parametrize("value", NOT_INTEGERS)
def test_bounds_and_limits_are_strict_numbers(rig: Rig, word: str, value: bytes) -> None:
    log(rig, "e1")
    refused(rig, "out of range", f"AMEM.EPIS.QUERY a {word}", value)
    refused(rig, "out of range", "AMEM.EPIS.QUERY nobody LIMIT", b"-1")


@pytest.mark.parametrize("options", ["TYPE", "FROM 1 FROM 1", "REV REV", "LIMIT 1 limit 2", "ALL", "TYPE t x", "5"])
def test_options_that_do_not_go_together_are_refused(rig: Rig, options: str) -> None:
    log(rig, "e1")
    refused(rig, "syntax error", f"AMEM.EPIS.QUERY a {options}")


def test_options_come_in_any_order_and_case(rig: Rig) -> None:
    assert run(rig, "amem.epis.log a t e1 id i at 5 Metadata m") == b"OK"
    assert silent(rig, "amem.epis.query a rev limit 3 to 5 type t from 5") == [
        [b"timestamp", 5, b"type", b"t", b"content", b"e1", b"metadata", b"m"]
    ]


def test_an_answer_larger_than_clients_read_is_refused_with_a_way_out(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply, "REPLY_ELEMENTS_MAX", 3)
    monkeypatch.setattr(episodic, "REPLY_ELEMENTS_MAX", 3)
    log(rig, "e1", "e2", "e3", "e4", "e5")
    for line in ("a", "a LIMIT 4", "a TYPE t", f"a FROM {NOW + 10}"):
        refused(rig, "use LIMIT or AMEM.EPIS.PAGE", f"AMEM.EPIS.QUERY {line}")
    assert query(rig, "a LIMIT 3") == [b"e3", b"e4", b"e5"]
    assert query(rig, f"a FROM {NOW + 20}") == [b"e3", b"e4", b"e5"]
    assert export(rig, options="COUNT 2") == [b"e1", b"e2", b"e3", b"e4", b"e5"]


# -- logging -------------------------------------------------------------------------------------


def test_metadata_is_labelled_only_where_there_is_some(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.LOG a t without")
    run(rig, "AMEM.EPIS.LOG a t empty METADATA", b"")
    run(rig, "AMEM.EPIS.LOG a t some METADATA", b'{"k": 1}')
    assert [event[6:] for event in run(rig, "AMEM.EPIS.QUERY a")] == [
        [],
        [b"metadata", b""],
        [b"metadata", b'{"k": 1}'],
    ]
    run(rig, "HELLO 3")
    assert run(rig, "AMEM.EPIS.QUERY a LIMIT 3")[0] == {b"timestamp": NOW, b"type": b"t", b"content": b"without"}
    assert run(rig, "AMEM.EPIS.STATS a") == {b"total_events": 3, b"oldest_ts": NOW, b"newest_ts": NOW}


def test_everything_comes_back_byte_for_byte_also_after_a_restart(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.LOG", EVERY_BYTE, EVERY_BYTE, EVERY_BYTE, b"METADATA", EVERY_BYTE, b"ID", EVERY_BYTE)
    run(rig, "AMEM.EPIS.LOG a", b"e\xcc\x81", b"")
    run(rig, "AMEM.EPIS.LOG a", b"\xc3\xa9", b"x" * (1 << 20))
    for _ in range(2):
        event = run(rig, "AMEM.EPIS.QUERY", EVERY_BYTE, b"TYPE", EVERY_BYTE)[0]
        assert event[1::2] == [NOW, EVERY_BYTE, EVERY_BYTE, EVERY_BYTE]
        assert query(rig, "a TYPE", b"e\xcc\x81") == [b""]
        assert query(rig, "a TYPE", b"\xc3\xa9") == [b"x" * (1 << 20)]
        assert sorted(scanned(rig, "AMEM.EPIS.SCAN")) == sorted([EVERY_BYTE, b"a"])
        rig.restart()


@pytest.mark.parametrize("at", [*NOT_INTEGERS, b"-1", b"%d" % (NOW + EXPIRY_AHEAD_MS_MAX + 1), b"%d" % INT64_MAX])
def test_an_event_without_a_proper_time_is_refused(rig: Rig, at: bytes) -> None:
    refused(rig, "out of range", "AMEM.EPIS.LOG a t x AT", at)
    assert scanned(rig, "AMEM.EPIS.SCAN") == []
    for good in (0, NOW + EXPIRY_AHEAD_MS_MAX):
        assert run(rig, f"AMEM.EPIS.LOG a t x AT {good}") == b"OK"


@pytest.mark.parametrize("name", [b"", b"x" * 1025])
def test_names_and_types_have_bounds(rig: Rig, name: bytes) -> None:
    refused(rig, "agent must be 1 to 1024 bytes", "AMEM.EPIS.LOG", name, b"t", b"x")
    refused(rig, "type must be 1 to 1024 bytes", "AMEM.EPIS.LOG a", name, b"x")
    refused(rig, "type must be 1 to 1024 bytes", "AMEM.EPIS.QUERY a TYPE", name)
    refused(rig, "id must be 1 to 1024 bytes", "AMEM.EPIS.LOG a t x ID", name)
    for command in ("QUERY", "STATS", "CLEAR", "RETAIN"):
        refused(rig, "agent must be 1 to 1024 bytes", f"AMEM.EPIS.{command}", name)
    for options in ("METADATA", "AT 5 AT 5", "ID i ID i", "METADATA m METADATA m", "TTL 5"):
        refused(rig, "syntax error", f"AMEM.EPIS.LOG a t x {options}")


# -- retries -------------------------------------------------------------------------------------


def test_an_event_that_is_sent_again_changes_nothing(rig: Rig) -> None:
    log(rig, "e1", rest="ID i")
    assert silent(rig, "AMEM.EPIS.LOG a t e1 ID i") == b"OK"
    assert silent(rig, "AMEM.EPIS.LOG a other-type other METADATA m ID i AT 5") == b"OK"
    rig.restart()
    assert silent(rig, "AMEM.EPIS.LOG a t e1 ID i") == b"OK"
    assert run(rig, "AMEM.EPIS.LOG a t e2 ID I") == b"OK"
    assert run(rig, "AMEM.EPIS.LOG b t e1 ID i") == b"OK"
    assert query(rig, "a") == [b"e1", b"e2"]
    assert query(rig, "b") == [b"e1"]


def test_ids_are_known_among_the_newest_thousand_and_no_further(rig: Rig) -> None:
    log(rig, "e", rest="ID i")
    for _ in range(EVENT_IDS_REMEMBERED - 1):
        run(rig, "AMEM.EPIS.LOG a t x")
    assert silent(rig, "AMEM.EPIS.LOG a t e ID i") == b"OK"
    rig.restart()
    assert silent(rig, "AMEM.EPIS.LOG a t e ID i") == b"OK"
    run(rig, "AMEM.EPIS.LOG a t x")
    run(rig, "AMEM.EPIS.LOG a t e ID i")
    assert stats(rig)[0] == EVENT_IDS_REMEMBERED + 2
    survives(rig)


def test_ids_go_with_their_events(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXLEN 2")
    log(rig, "e1", rest="ID i")
    log(rig, "e2", "e3")
    log(rig, "again", rest="ID i")
    assert query(rig, "a") == [b"e3", b"again"]
    run(rig, "AMEM.EPIS.CLEAR a")
    log(rig, "cleared", rest="ID i")
    assert query(rig, "a") == [b"cleared"]
    run(rig, "AMEM.EPIS.RETAIN a MAXAGE 5")
    rig.now_ms += 5000
    log(rig, "aged", rest="ID i")
    assert query(rig, "a") == [b"aged"]
    survives(rig)


# -- stats, clear --------------------------------------------------------------------------------


def test_stats_are_numbers_also_for_nobody(rig: Rig) -> None:
    assert stats(rig) == [0, 0, 0]
    log(rig, "e1", "e2")
    assert stats(rig) == [2, NOW, NOW + 10]
    run(rig, "AMEM.EPIS.LOG a t old AT 7")
    assert stats(rig) == [3, 7, NOW + 10]


def test_clear_is_about_one_agent(rig: Rig) -> None:
    for agent in ("a", "a1", "a*"):
        log(rig, "e1", "e2", agent=agent)
    assert logged(rig, "AMEM.EPIS.CLEAR a*") == [(records.EVENTS_CLEARED, b"a*")]
    assert silent(rig, "AMEM.EPIS.CLEAR a*") == 0
    assert silent(rig, "AMEM.EPIS.CLEAR nobody") == 0
    refused(rig, "agent must be 1 to 1024 bytes", "AMEM.EPIS.CLEAR", b"")
    for _ in range(2):
        assert query(rig, "a*") == []
        assert query(rig, "a") == query(rig, "a1") == [b"e1", b"e2"]
        assert sorted(scanned(rig, "AMEM.EPIS.SCAN")) == [b"a", b"a1"]
        rig.restart()


def test_clear_keeps_the_retention(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXLEN 2")
    log(rig, "e1", "e2")
    assert run(rig, "AMEM.EPIS.CLEAR a") == 1
    assert silent(rig, "AMEM.EPIS.CLEAR a") == 1
    assert scanned(rig, "AMEM.EPIS.SCAN") == [b"a"]
    rig.restart()
    log(rig, "e3", "e4", "e5")
    assert query(rig, "a") == [b"e4", b"e5"]
    survives(rig)


# -- retention -----------------------------------------------------------------------------------


def test_a_full_log_trims_in_the_frame_of_the_event(rig: Rig) -> None:
    assert logged(rig, "AMEM.EPIS.RETAIN a MAXLEN 2") == [(records.RETENTION_SET, b"a", 2, 0, 1)]
    log(rig, "e1", "e2")
    assert [record[0] for record in logged(rig, "AMEM.EPIS.LOG a t e3")] == [
        records.EVENT_LOGGED,
        records.EVENTS_TRIMMED,
    ]
    assert query(rig, "a") == [b"e2", b"e3"]
    assert query(rig, "a TYPE t") == [b"e2", b"e3"]
    survives(rig)


def test_an_event_older_than_all_of_a_full_log_goes_at_once(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXLEN 2")
    log(rig, "e1", "e2")
    run(rig, "AMEM.EPIS.LOG a u of-long-ago AT 5 ID i")
    assert query(rig, "a") == [b"e1", b"e2"]
    assert query(rig, "a TYPE u") == []
    assert stats(rig) == [2, NOW, NOW + 10]
    rig.restart()
    log(rig, "again", rest="ID i")
    assert query(rig, "a") == [b"e2", b"again"]
    survives(rig)


def test_an_event_out_of_age_on_arrival_goes_at_once(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXAGE 10")
    log(rig, "e1")
    run(rig, f"AMEM.EPIS.LOG a t of-long-ago AT {NOW - 10_000}")
    assert query(rig, "a") == [b"e1"]
    assert len(rig.stores.epis.logs[b"a"].events) == 1
    survives(rig)


def test_a_policy_replies_what_went_at_once_and_replaces_the_one_before(rig: Rig) -> None:
    log(rig, "e1", "e2", "e3", "e4", "e5", step_ms=1000)
    assert run(rig, "AMEM.EPIS.RETAIN a MAXLEN 4") == 1
    assert silent(rig, "AMEM.EPIS.RETAIN a MAXLEN 4") == 0
    assert run(rig, "AMEM.EPIS.RETAIN a MAXAGE 3") == 1  # one is 4 s old; the bound of 4 events is off
    assert query(rig, "a") == [b"e3", b"e4", b"e5"]
    log(rig, "e6", "e7", step_ms=0)
    assert query(rig, "a") == [b"e3", b"e4", b"e5", b"e6", b"e7"]
    assert run(rig, "AMEM.EPIS.RETAIN a MAXAGE 100 MAXLEN 2") == 3
    assert run(rig, "AMEM.EPIS.RETAIN a") == 0
    log(rig, "e8", "e9", step_ms=0)
    rig.now_ms += 1_000_000
    assert query(rig, "a") == [b"e6", b"e7", b"e8", b"e9"]
    survives(rig)


def test_a_policy_may_come_first_and_go_without_a_trace(rig: Rig) -> None:
    assert silent(rig, "AMEM.EPIS.RETAIN a") == 0
    assert run(rig, "AMEM.EPIS.RETAIN a MAXAGE 10") == 0
    assert stats(rig) == [0, 0, 0]
    assert scanned(rig, "AMEM.EPIS.SCAN") == [b"a"]
    survives(rig)
    assert run(rig, "AMEM.EPIS.RETAIN a") == 0
    assert scanned(rig, "AMEM.EPIS.SCAN") == []
    assert silent(rig, "AMEM.EPIS.CLEAR a") == 0
    survives(rig)


@pytest.mark.parametrize("word", ["MAXLEN", "MAXAGE"])
@pytest.mark.parametrize("value", [*NOT_INTEGERS, b"0", b"-1"])
def test_a_policy_that_cannot_be_keeps_the_old_one(rig: Rig, word: str, value: bytes) -> None:
    refused(rig, "out of range", f"AMEM.EPIS.RETAIN a {word}", value)
    run(rig, "AMEM.EPIS.RETAIN a MAXLEN 3 MAXAGE 60")
    log(rig, "e1")
    refused(rig, "out of range", f"AMEM.EPIS.RETAIN a {word}", value)
    refused(rig, "syntax error", f"AMEM.EPIS.RETAIN a {word} 1 {word} 1")
    refused(rig, "out of range", f"AMEM.EPIS.RETAIN a MAXAGE {TTL_SECONDS_MAX + 1}")


def test_what_is_out_of_age_is_hidden_from_every_read_before_the_wheel_ran(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXAGE 10")
    log(rig, "e1", "e2")
    run(rig, "AMEM.EPIS.LOG a u e3")
    rig.now_ms = NOW + 10_000
    assert query(rig, "a") == [b"e1", b"e2", b"e3"]  # exactly as old as allowed
    rig.now_ms += 1
    for line in ("a", "a TYPE t FROM 0", f"a FROM {NOW}"):
        assert query(rig, line)[0] == b"e2"
    assert query(rig, "a TYPE t LIMIT 5 REV") == [b"e2"]
    assert export(rig) == [b"e2", b"e3"]
    assert silent(rig, f"AMEM.EPIS.PAGE a {NOW}-0 COUNT 1") == [
        b"%d-2" % (NOW + 10),
        [[b"timestamp", NOW + 10, b"type", b"t", b"content", b"e2"]],
    ]
    assert stats(rig) == [2, NOW + 10, NOW + 20]
    rig.now_ms += 60_000
    assert query(rig, "a") == export(rig) == []
    assert stats(rig) == [0, 0, 0]
    assert len(rig.stores.epis.logs[b"a"].events) == 3, "reads remove nothing"
    survives(rig)


def test_the_wheel_removes_what_is_out_of_age_as_one_record(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXAGE 10")
    log(rig, "e1", "e2")
    rig.now_ms += 5000
    log(rig, "e3", agent="a", step_ms=0)
    log(rig, "f1", agent="b", step_ms=0)
    frames = len(rig.log.frames)
    rig.now_ms = NOW + 12_000
    seen = run(rig, "AMEM.EPIS.QUERY a"), stats(rig), rig.stores.digest(rig.now_ms)
    rig.engine.expire(rig.now_ms, 100)
    assert records_of(rig.log.frames[frames]) == [(records.EVENTS_TRIMMED, b"a", 2)]
    assert (run(rig, "AMEM.EPIS.QUERY a"), stats(rig), rig.stores.digest(rig.now_ms)) == seen
    assert query(rig, "a") == [b"e3"]
    rig.now_ms += 60_000
    rig.engine.expire(rig.now_ms, 100)
    assert len(rig.stores.epis.logs[b"a"].events) == 0
    assert len(rig.stores.wheel) == 0
    assert query(rig, "b") == [b"f1"]
    assert scanned(rig, "AMEM.EPIS.SCAN") != []
    survives(rig)


def test_a_long_log_that_comes_of_age_is_removed_in_bounded_steps(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXAGE 1")
    count = 2 * EVENTS_REMOVED_AT_ONCE_MAX + 10
    log(rig, *[f"e{number}" for number in range(count)], step_ms=0)
    rig.now_ms += 5000
    left = []
    for _ in range(4):
        rig.engine.expire(rig.now_ms, 100)
        left.append(len(rig.stores.epis.logs[b"a"].events))
        assert stats(rig) == [0, 0, 0]
    assert left == [EVENTS_REMOVED_AT_ONCE_MAX + 10, 10, 0, 0]
    survives(rig)


def test_a_longer_or_lifted_bound_does_not_bring_back_what_was_hidden(rig: Rig) -> None:
    for agent in ("a", "b", "c"):
        run(rig, f"AMEM.EPIS.RETAIN {agent} MAXAGE 10")
        log(rig, "e1", "e2", agent=agent, step_ms=0)
    rig.now_ms += 11_000
    for agent, options in (("a", "MAXAGE 1000"), ("b", ""), ("c", "MAXLEN 50")):
        assert run(rig, f"AMEM.EPIS.RETAIN {agent} {options}") == 0
        assert query(rig, agent) == []
    assert sorted(scanned(rig, "AMEM.EPIS.SCAN")) == [b"a", b"c"]
    survives(rig)


def test_a_policy_counts_only_what_could_still_be_seen(rig: Rig) -> None:
    """The reply must not depend on whether the wheel ran before."""
    replies = []
    for wheel_ran in (False, True):
        rig = Rig(start_ms=NOW)
        run(rig, "AMEM.EPIS.RETAIN a MAXAGE 10")
        log(rig, "e1", "e2", "e3", "e4", step_ms=4000)
        rig.now_ms = NOW + 15_000
        if wheel_ran:
            rig.engine.expire(rig.now_ms, 100)
        replies.append(run(rig, "AMEM.EPIS.RETAIN a MAXLEN 1"))
        assert query(rig, "a") == [b"e4"]
        survives(rig)
    assert replies == [1, 1]


def test_numbering_does_not_begin_again_while_the_log_exists(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXLEN 5")
    log(rig, "e1", "e2", "e3", step_ms=0)
    cursor = run(rig, "AMEM.EPIS.PAGE a 0 COUNT 2")[0]
    run(rig, "AMEM.EPIS.CLEAR a")
    rig.restart()
    log(rig, "e4", step_ms=0)
    assert contents(run(rig, "AMEM.EPIS.PAGE a", cursor)[1]) == [b"e4"]


# -- pages ---------------------------------------------------------------------------------------


def test_pages_give_every_event_once_oldest_first(rig: Rig) -> None:
    log(rig, *[f"e{number}" for number in range(250)], step_ms=0)
    expected = [b"e%d" % number for number in range(250)]
    for options in ("", "COUNT 1", "COUNT 7", "COUNT 250", "COUNT 249", f"COUNT {EVENTS_PAGE_MAX}"):
        assert export(rig, options=options) == expected
    assert len(run(rig, "AMEM.EPIS.PAGE a 0")[1]) == EVENTS_PAGE_DEFAULT
    assert run(rig, "AMEM.EPIS.PAGE a 0 COUNT 250")[0] == b"0"
    assert silent(rig, "AMEM.EPIS.PAGE nobody 0") == [b"0", []]


def test_pages_hold_while_events_come_and_go(rig: Rig) -> None:
    log(rig, *[f"e{number}" for number in range(40)])
    cursor, seen = b"0", []
    while True:
        cursor, events = run(rig, "AMEM.EPIS.PAGE a", cursor, b"COUNT", b"7")
        seen += contents(events)
        if cursor == b"0":
            break
        run(rig, "AMEM.EPIS.RETAIN a MAXLEN 39")
        run(rig, "AMEM.EPIS.RETAIN a MAXLEN 1000")
        run(rig, f"AMEM.EPIS.LOG a t behind AT {NOW}")
        log(rig, f"new{len(seen)}")
    assert [name for name in seen if name.startswith(b"e")] == [b"e%d" % number for number in range(40)]
    assert len(seen) == len(set(seen))
    assert b"behind" not in seen
    assert b"new7" in seen


def test_a_cursor_whose_event_is_gone_goes_on_behind_its_place(rig: Rig) -> None:
    log(rig, "e1", "e2", "e3", "e4", step_ms=0)
    cursor = run(rig, "AMEM.EPIS.PAGE a 0 COUNT 2")[0]
    run(rig, "AMEM.EPIS.RETAIN a MAXLEN 1")
    assert contents(run(rig, "AMEM.EPIS.PAGE a", cursor)[1]) == [b"e4"]


def test_a_page_of_large_events_ends_early(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodic, "EVENTS_PAGE_BYTES_MAX", 10)
    log(rig, "12345678901", "1234", "1234", "12", "x", "y", step_ms=0)
    sizes, cursor = [], b"0"
    while True:
        cursor, events = run(rig, "AMEM.EPIS.PAGE a", cursor)
        sizes.append(len(events))
        if cursor == b"0":
            break
    assert sizes == [1, 3, 2]


@pytest.mark.parametrize(
    "cursor",
    [
        *[b"", b"1", b"00", b"-", b"5-", b"-5", b"5--1", b"-5-1", b"a-b", b"5-1-1", b"5 -1", b"+5-1", b"5-1_0"],
        *[b"0x5-1", b"9223372036854775808-1", b"5-9223372036854775808", "\u0665-1".encode(), b"5-1\n"],
    ],
)
def test_a_cursor_that_none_gave_is_refused(rig: Rig, cursor: bytes) -> None:
    log(rig, "e1")
    refused(rig, "invalid cursor", "AMEM.EPIS.PAGE a", cursor)
    refused(rig, "invalid cursor", "AMEM.EPIS.PAGE nobody", cursor)


@pytest.mark.parametrize("count", [*NOT_INTEGERS, b"0", b"-1", b"%d" % (EVENTS_PAGE_MAX + 1)])
def test_a_page_has_bounds(rig: Rig, count: bytes) -> None:
    refused(rig, "out of range", "AMEM.EPIS.PAGE a 0 COUNT", count)


# -- scan ----------------------------------------------------------------------------------------


def test_a_scan_gives_each_agent_once_and_no_page_more_than_count(rig: Rig) -> None:
    for number in range(200):
        run(rig, f"AMEM.EPIS.LOG a{number} t x")
    run(rig, "AMEM.EPIS.RETAIN with-a-policy-only MAXLEN 5")
    cursor, seen = b"0", []
    while True:
        cursor, page = run(rig, "AMEM.EPIS.SCAN", cursor, b"COUNT", b"9")
        assert len(page) <= 9
        seen += page
        if cursor == b"0":
            break
    assert sorted(seen) == sorted([b"a%d" % number for number in range(200)] + [b"with-a-policy-only"])
    assert len(scanned(rig, "AMEM.EPIS.SCAN", b"MATCH", b"a1?")) == 10
    refused(rig, "invalid cursor", "AMEM.EPIS.SCAN -1")
    refused(rig, "out of range", "AMEM.EPIS.SCAN 0 COUNT 0")


def test_flushing_everything_takes_events_and_policies_too(rig: Rig) -> None:
    run(rig, "AMEM.EPIS.RETAIN a MAXAGE 5")
    log(rig, "e1")
    run(rig, "FLUSHDB")
    assert query(rig, "a") == [b"e1"]
    run(rig, "FLUSHALL")
    assert query(rig, "a") == scanned(rig, "AMEM.EPIS.SCAN") == []
    rig.now_ms += 60_000
    assert rig.engine.expire(rig.now_ms, 100) == 0
    log(rig, "e2")
    assert query(rig, "a") == [b"e2"]
    survives(rig)


# -- what an export needs ----------------------------------------------------------------------------


def test_a_page_with_meta_tells_ids_and_absent_things_as_nil() -> None:
    rig = Rig()
    rig("AMEM.EPIS.LOG", "a", "t", "c", "AT", 5, "ID", b"\xff", "METADATA", "")
    rig("AMEM.EPIS.LOG", "a", "t", "c", "AT", 6)
    rig.session.resp3 = True
    events = rig("AMEM.EPIS.PAGE", "a", 0, "WITHMETA", "COUNT", 9)[1]
    assert [(event[b"metadata"], event[b"id"]) for event in events] == [(b"", b"\xff"), (None, None)]
    assert b"id" not in rig("AMEM.EPIS.PAGE", "a", 0)[1][0]


def test_stats_with_meta_tell_the_retention() -> None:
    rig = Rig()
    rig.session.resp3 = True

    def retention() -> tuple[int, int]:
        stats = rig("AMEM.EPIS.STATS", "a", "WITHMETA")
        return stats[b"maxlen"], stats[b"maxage"]

    assert retention() == (-1, -1)
    rig("AMEM.EPIS.RETAIN", "a", "MAXAGE", 60)
    assert retention() == (-1, 60)
    rig("AMEM.EPIS.RETAIN", "a", "MAXLEN", 7)
    assert retention() == (7, -1)
    assert rig("AMEM.EPIS.STATS", "a").keys() == {b"total_events", b"oldest_ts", b"newest_ts"}
