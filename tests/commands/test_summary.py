"""AMEM.SUMMARY on the wire: versions, lines, history, refusals."""

from __future__ import annotations

import pytest
from checks import EVERY_BYTE, NOT_INTEGERS, NOW, logged, refused, run, scanned, silent, survives
from rig import Rig

from amemdb.commands import summary
from amemdb.limits import INT64_MAX, SUMMARY_HISTORY_MAX
from amemdb.stores import records


@pytest.fixture
def rig() -> Rig:
    return Rig(start_ms=NOW)


def test_each_change_is_a_version_more(rig: Rig) -> None:
    assert silent(rig, "AMEM.SUMMARY.GET a") is None
    assert run(rig, "AMEM.SUMMARY.SET a one") == 1
    assert run(rig, "AMEM.SUMMARY.APPEND a two") == 2
    assert run(rig, "AMEM.SUMMARY.SET a three") == 3
    assert run(rig, "AMEM.SUMMARY.SET a three") == 4
    assert silent(rig, "AMEM.SUMMARY.GET a") == [b"three", 4, NOW // 1000]
    survives(rig)


def test_lines_are_joined_with_a_newline_but_for_the_first(rig: Rig) -> None:
    assert run(rig, "AMEM.SUMMARY.APPEND a one") == 1
    run(rig, "AMEM.SUMMARY.APPEND a two")
    run(rig, "AMEM.SUMMARY.APPEND a", b"")
    run(rig, "AMEM.SUMMARY.APPEND a", b"\r\n")
    assert run(rig, "AMEM.SUMMARY.GET a")[0] == b"one\ntwo\n\n\r\n"
    run(rig, "AMEM.SUMMARY.SET a", b"")
    run(rig, "AMEM.SUMMARY.APPEND a first")
    assert run(rig, "AMEM.SUMMARY.GET a")[0] == b"first"
    survives(rig)


def test_an_empty_summary_is_one_that_exists(rig: Rig) -> None:
    run(rig, "AMEM.SUMMARY.SET a", b"")
    assert run(rig, "AMEM.SUMMARY.GET a") == [b"", 1, NOW // 1000]
    assert run(rig, "AMEM.SUMMARY.LIST") == [b"a"]
    assert run(rig, "AMEM.SUMMARY.DROP a") == 1


def test_the_time_is_floored_to_seconds_in_get_and_kept_in_milliseconds(rig: Rig) -> None:
    rig.now_ms = NOW + 1999
    run(rig, "AMEM.SUMMARY.SET a x")
    for _ in range(2):
        assert run(rig, "AMEM.SUMMARY.GET a")[2] == NOW // 1000 + 1
        assert run(rig, "AMEM.SUMMARY.HISTORY a")[0][3] == NOW + 1999
        rig.restart()
        rig.now_ms += 60_000


def test_a_line_is_logged_without_the_text_that_it_is_added_to(rig: Rig) -> None:
    run(rig, "AMEM.SUMMARY.SET a", b"x" * 100_000)
    assert logged(rig, "AMEM.SUMMARY.APPEND a line") == [(records.SUMMARY_APPENDED, b"a", b"line", 2, NOW)]


@pytest.mark.parametrize(
    "text", [EVERY_BYTE, b"e\xcc\x81", b"\x00", b"\n", b"x" * (1 << 20)], ids=lambda t: repr(t[:4])
)
def test_texts_and_names_come_back_byte_for_byte_also_after_a_restart(rig: Rig, text: bytes) -> None:
    run(rig, "AMEM.SUMMARY.SET", EVERY_BYTE, text)
    run(rig, "AMEM.SUMMARY.APPEND", EVERY_BYTE, text)
    rig.restart()
    assert run(rig, "AMEM.SUMMARY.GET", EVERY_BYTE)[0] == text + b"\n" + text
    assert run(rig, "AMEM.SUMMARY.LIST") == scanned(rig, "AMEM.SUMMARY.SCAN") == [EVERY_BYTE]


def test_shapes_in_the_newer_protocol(rig: Rig) -> None:
    run(rig, "HELLO 3")
    assert run(rig, "AMEM.SUMMARY.GET a") is None
    run(rig, "AMEM.SUMMARY.SET a x")
    assert run(rig, "AMEM.SUMMARY.GET a") == [b"x", 1, NOW // 1000]
    assert run(rig, "AMEM.SUMMARY.HISTORY a") == [{b"version": 1, b"updated_at": NOW, b"text": b"x"}]


# -- IFVERSION -----------------------------------------------------------------------------------


def test_a_set_may_ask_for_the_version_that_it_replaces(rig: Rig) -> None:
    refused(rig, "ERR version mismatch: have 0", "AMEM.SUMMARY.SET a x IFVERSION 1")
    assert run(rig, "AMEM.SUMMARY.SET a x IFVERSION 0") == 1
    refused(rig, "ERR version mismatch: have 1", "AMEM.SUMMARY.SET a y IFVERSION 0")
    assert run(rig, "AMEM.SUMMARY.SET a y ifversion 1") == 2
    refused(rig, "ERR version mismatch: have 2", "AMEM.SUMMARY.SET a z IFVERSION 1")
    refused(rig, "ERR version mismatch: have 2", f"AMEM.SUMMARY.SET a z IFVERSION {INT64_MAX}")
    run(rig, "AMEM.SUMMARY.DROP a")
    assert run(rig, "AMEM.SUMMARY.SET a x IFVERSION 0") == 1


@pytest.mark.parametrize("version", [*NOT_INTEGERS, b"-1"])
def test_a_version_is_a_number_from_zero_on(rig: Rig, version: bytes) -> None:
    run(rig, "AMEM.SUMMARY.SET a x")
    refused(rig, "out of range", "AMEM.SUMMARY.SET a y IFVERSION", version)


@pytest.mark.parametrize("options", ["IFVERSION", "IFVERSION 1 IFVERSION 1", "NX", "1"])
def test_options_that_do_not_go_together_are_refused(rig: Rig, options: str) -> None:
    run(rig, "AMEM.SUMMARY.SET a x")
    refused(rig, "syntax error", f"AMEM.SUMMARY.SET a y {options}")
    refused(rig, "wrong number", f"AMEM.SUMMARY.APPEND a y {options}")


# -- history -------------------------------------------------------------------------------------


def test_history_is_newest_first_with_the_current_version(rig: Rig) -> None:
    assert silent(rig, "AMEM.SUMMARY.HISTORY a") == []
    run(rig, "AMEM.SUMMARY.SET a one")
    rig.now_ms += 10
    run(rig, "AMEM.SUMMARY.APPEND a two")
    rig.now_ms += 10
    run(rig, "AMEM.SUMMARY.SET a three")
    expected = [
        [b"version", 3, b"updated_at", NOW + 20, b"text", b"three"],
        [b"version", 2, b"updated_at", NOW + 10, b"text", b"one\ntwo"],
        [b"version", 1, b"updated_at", NOW, b"text", b"one"],
    ]
    for _ in range(2):
        assert silent(rig, "AMEM.SUMMARY.HISTORY a") == expected
        assert run(rig, "AMEM.SUMMARY.HISTORY a COUNT 2") == expected[:2]
        assert run(rig, "AMEM.SUMMARY.HISTORY a COUNT 0") == []
        assert run(rig, f"AMEM.SUMMARY.HISTORY a COUNT {INT64_MAX}") == expected
        rig.restart()
    for count in (*NOT_INTEGERS, b"-1"):
        refused(rig, "out of range", "AMEM.SUMMARY.HISTORY a COUNT", count)


def test_history_is_bounded_by_versions(rig: Rig) -> None:
    for number in range(SUMMARY_HISTORY_MAX + 5):
        run(rig, f"AMEM.SUMMARY.{'SET' if number % 3 else 'APPEND'} a {number}")
    versions = [entry[1] for entry in run(rig, "AMEM.SUMMARY.HISTORY a")]
    assert versions == list(range(SUMMARY_HISTORY_MAX + 5, 5, -1))
    survives(rig)


def test_a_history_too_long_for_one_reply_is_refused_and_to_be_had_in_parts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "REPLY_BYTES_MAX", 10)
    run(rig, "AMEM.SUMMARY.SET a 123456")
    run(rig, "AMEM.SUMMARY.SET a 1234")
    assert len(run(rig, "AMEM.SUMMARY.HISTORY a")) == 2
    run(rig, "AMEM.SUMMARY.SET a 1")
    refused(rig, "ask for fewer versions with COUNT", "AMEM.SUMMARY.HISTORY a")
    assert len(run(rig, "AMEM.SUMMARY.HISTORY a COUNT 2")) == 2


def test_a_text_never_grows_past_the_longest_value(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "BULK_BYTES_MAX", 10)
    run(rig, "AMEM.SUMMARY.SET a 123456")
    refused(rig, "longer than 10 bytes", "AMEM.SUMMARY.APPEND a 1234")
    assert run(rig, "AMEM.SUMMARY.APPEND a 123") == 2
    refused(rig, "longer than 10 bytes", "AMEM.SUMMARY.APPEND a", b"")
    assert run(rig, "AMEM.SUMMARY.GET a")[0] == b"123456\n123"


# -- drop, list, scan ----------------------------------------------------------------------------


def test_a_drop_ends_one_agents_summary_and_its_history(rig: Rig) -> None:
    for agent in ("a", "a1", "a*"):
        run(rig, f"AMEM.SUMMARY.SET {agent} x")
        run(rig, f"AMEM.SUMMARY.APPEND {agent} y")
    assert run(rig, "AMEM.SUMMARY.DROP a*") == 1
    assert silent(rig, "AMEM.SUMMARY.DROP a*") == 0
    assert silent(rig, "AMEM.SUMMARY.DROP nobody") == 0
    for _ in range(2):
        assert run(rig, "AMEM.SUMMARY.GET a*") is None
        assert run(rig, "AMEM.SUMMARY.HISTORY a*") == []
        assert run(rig, "AMEM.SUMMARY.GET a") == run(rig, "AMEM.SUMMARY.GET a1") == [b"x\ny", 2, NOW // 1000]
        assert sorted(run(rig, "AMEM.SUMMARY.LIST")) == sorted(scanned(rig, "AMEM.SUMMARY.SCAN")) == [b"a", b"a1"]
        rig.restart()
    assert run(rig, "AMEM.SUMMARY.APPEND a* z") == 1
    assert len(run(rig, "AMEM.SUMMARY.HISTORY a*")) == 1


@pytest.mark.parametrize("line", ["SET", "APPEND", "GET", "DROP", "HISTORY"])
def test_an_agent_has_a_name(rig: Rig, line: str) -> None:
    run(rig, "AMEM.SUMMARY.SET a x")
    rest = [b"x"] if line in ("SET", "APPEND") else []
    refused(rig, "agent must be 1 to 1024 bytes", f"AMEM.SUMMARY.{line}", b"", *rest)
    refused(rig, "agent must be 1 to 1024 bytes", f"AMEM.SUMMARY.{line}", b"x" * 1025, *rest)
    refused(rig, "wrong number of arguments", f"AMEM.SUMMARY.{line}")


def test_a_scan_gives_each_agent_once_and_no_page_more_than_count(rig: Rig) -> None:
    for number in range(200):
        run(rig, f"AMEM.SUMMARY.SET a{number} x")
    run(rig, "AMEM.SUMMARY.SET", b"other", b"x")
    cursor, seen = b"0", []
    while True:
        cursor, page = run(rig, "AMEM.SUMMARY.SCAN", cursor, b"COUNT", b"9")
        assert len(page) <= 9
        seen += page
        if cursor == b"0":
            break
    assert sorted(seen) == sorted(run(rig, "AMEM.SUMMARY.LIST"))
    assert len(scanned(rig, "AMEM.SUMMARY.SCAN", b"MATCH", b"a*")) == 200
    refused(rig, "invalid cursor", "AMEM.SUMMARY.SCAN -1")
    refused(rig, "out of range", "AMEM.SUMMARY.SCAN 0 COUNT 0")


def test_flushing_everything_takes_summaries_too(rig: Rig) -> None:
    run(rig, "AMEM.SUMMARY.SET a x")
    run(rig, "FLUSHDB")
    assert run(rig, "AMEM.SUMMARY.LIST") == [b"a"]
    run(rig, "FLUSHALL")
    assert run(rig, "AMEM.SUMMARY.LIST") == scanned(rig, "AMEM.SUMMARY.SCAN") == []
    survives(rig)
