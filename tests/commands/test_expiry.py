"""When plain keys end: setting, asking, conditions, ranges, and removal by the wheel."""

from __future__ import annotations

import pytest
from checks import NOT_INTEGERS, NOW, logged, refused, run, silent, survives
from rig import Rig

from amemdb.limits import EXPIRY_AHEAD_MS_MAX
from amemdb.stores import records

WORDS = ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize(
    ("line", "expire_at_ms"),
    [
        ("EXPIRE k 10", NOW + 10_000),
        ("PEXPIRE k 10", NOW + 10),
        (f"EXPIREAT k {NOW // 1000 + 10}", NOW + 10_000),
        (f"PEXPIREAT k {NOW + 10}", NOW + 10),
        (f"EXPIRE k {EXPIRY_AHEAD_MS_MAX // 1000}", NOW + EXPIRY_AHEAD_MS_MAX),
    ],
)
def test_every_way_to_set_it_is_logged_as_a_moment(rig: Rig, line: str, expire_at_ms: int) -> None:
    run(rig, "SET k v")
    assert logged(rig, line) == [(records.KEY_EXPIRY_SET, 0, b"k", expire_at_ms)]
    assert (run(rig, "PEXPIRETIME k"), run(rig, "PTTL k")) == (expire_at_ms, expire_at_ms - NOW)
    survives(rig)


def test_asking(rig: Rig) -> None:
    run(rig, "SET k v PX 1600")
    assert (run(rig, "TTL k"), run(rig, "PTTL k")) == (2, 1600)
    assert (run(rig, "EXPIRETIME k"), run(rig, "PEXPIRETIME k")) == ((NOW + 1600 + 500) // 1000, NOW + 1600)
    rig.advance_ms(1200)
    assert (run(rig, "TTL k"), run(rig, "PTTL k")) == (0, 400)
    rig.advance_ms(399)
    assert (run(rig, "GET k"), run(rig, "PTTL k")) == (b"v", 1)
    rig.advance_ms(1)
    for word in ("TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"):
        assert run(rig, f"{word} k") == -2
        run(rig, "SET forever v")
        assert run(rig, f"{word} forever") == -1


PAST_SPANS = ["EXPIRE k -1", "EXPIRE k 0", "PEXPIRE k -9223372036854775808", "EXPIRE k -9223372036854775"]
PAST_MOMENTS = ["EXPIREAT k 1", "PEXPIREAT k 0", "EXPIREAT k -5", f"PEXPIREAT k {NOW}"]


@pytest.mark.parametrize("line", PAST_SPANS + PAST_MOMENTS)
def test_a_time_in_the_past_deletes(rig: Rig, line: str) -> None:
    run(rig, "SET k v EX 50")
    assert logged(rig, line) == [(records.KEY_DELETED, 0, b"k")]
    assert run(rig, "EXISTS k") == 0
    assert silent(rig, line) == 0
    survives(rig)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("number", NOT_INTEGERS)
def test_times_are_strict_integers(rig: Rig, word: str, number: bytes) -> None:
    run(rig, "SET k v EX 50")
    refused(rig, "value is not an integer or out of range", f"{word} k", number)


@pytest.mark.parametrize(
    "line",
    [
        "EXPIRE k 18446744073709561",
        "EXPIRE k 9223372036854775807",
        "EXPIRE k -9223372036854775808",
        "EXPIRE k 3155760001",
        f"PEXPIRE k {EXPIRY_AHEAD_MS_MAX + 1}",
        "PEXPIRE k 9223372036854775807",
        "EXPIREAT k 9223372036854775807",
        f"PEXPIREAT k {NOW + EXPIRY_AHEAD_MS_MAX + 1}",
    ],
)
@pytest.mark.parametrize("had", [-1, 50])
def test_a_time_out_of_range_leaves_value_and_expiry(rig: Rig, line: str, had: int) -> None:
    run(rig, "SET k v" if had < 0 else f"SET k v EX {had}")
    refused(rig, f"invalid expire time in '{line.split()[0].lower()}' command", line)
    assert (run(rig, "GET k"), run(rig, "TTL k")) == (b"v", had)


@pytest.mark.parametrize(
    ("had", "options", "reply"),
    [
        (0, "NX", 1),
        (0, "XX", 0),
        (0, "GT", 0),
        (0, "LT", 1),
        (0, "XX LT", 0),
        (0, "XX GT", 0),
        (100, "NX", 0),
        (100, "XX", 1),
        (100, "GT", 0),
        (100, "LT", 1),
        (60, "GT", 0),
        (60, "LT", 0),
        (20, "GT", 1),
        (20, "LT", 0),
        (20, "xx gt", 1),
        (100, "lt xx", 1),
    ],
)
def test_conditions(rig: Rig, had: int, options: str, reply: int) -> None:
    run(rig, f"SET k v EX {had}" if had else "SET k v")
    send = run if reply else silent
    assert send(rig, f"EXPIRE k 60 {options}") == reply
    assert run(rig, "TTL k") == (60 if reply else had or -1)


def test_conditions_hold_for_a_time_in_the_past_too(rig: Rig) -> None:
    run(rig, "SET k v EX 60")
    assert silent(rig, "EXPIRE k -1 GT") == 0
    assert silent(rig, "EXPIRE k -1 NX") == 0
    assert run(rig, "EXPIRE k -1 LT") == 1
    assert run(rig, "EXISTS k") == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("NX XX", "NX and XX, GT or LT options at the same time are not compatible"),
        ("GT NX", "NX and XX, GT or LT options at the same time are not compatible"),
        ("GT LT", "GT and LT options at the same time are not compatible"),
        ("XX XX", "syntax error"),
        ("EX", "syntax error"),
    ],
)
def test_conditions_that_exclude_each_other(rig: Rig, options: str, reason: str) -> None:
    run(rig, "SET k v")
    for word in WORDS:
        refused(rig, reason, f"{word} k 10 {options}")


def test_persist(rig: Rig) -> None:
    run(rig, "SET k v PX 10")
    assert logged(rig, "PERSIST k") == [(records.KEY_EXPIRY_SET, 0, b"k", 0)]
    assert silent(rig, "PERSIST k") == silent(rig, "PERSIST missing") == 0
    rig.advance_ms(1_000_000)
    assert run(rig, "GET k") == b"v"
    assert len(rig.stores.wheel) == 0


@pytest.mark.parametrize("line", ["PERSIST k", "EXPIRE k 10", "EXPIRE k 10 NX", "PEXPIREAT k 1"])
def test_what_has_ended_does_not_come_back(rig: Rig, line: str) -> None:
    run(rig, "SET k v PX 10")
    rig.advance_ms(10)
    assert logged(rig, line) == [(records.KEY_EXPIRED, 0, b"k")]
    assert silent(rig, line) == 0
    survives(rig)


def test_the_wheel_removes_what_has_ended_as_records_and_counts_it(rig: Rig) -> None:
    for number in range(20):
        run(rig, f"SET k{number} v PX {100 + number}")
    run(rig, "SET long v EX 3600")
    run(rig, "SET moved v PX 100")
    run(rig, "EXPIRE moved 3600")
    rig.advance_ms(5000)
    before = len(rig.log.frames)
    assert rig.tick() == 20
    assert rig.tick() == 0
    assert len(rig.log.frames) == before + 1
    assert rig.state.expired == 20
    assert sorted(rig.stores.keys.databases[0].values) == [b"long", b"moved"]
    rig.restart()


def test_while_the_log_refuses_nothing_is_removed_and_the_dead_stay_hidden(rig: Rig) -> None:
    run(rig, "SET k v PX 10")
    rig.advance_ms(5000)
    rig.log.frame_bytes_max = 0
    assert rig.tick() == 0
    assert run(rig, "GET k") is None
    assert len(rig.stores.keys.databases[0].values) == 1
    rig.log.frame_bytes_max = 1 << 20
    assert rig.tick() == 1
    assert rig.stores.keys.databases[0].values == {}


def test_an_expiry_that_passed_while_the_server_was_down_is_not_back(rig: Rig) -> None:
    run(rig, "SET k v PX 10")
    rig.advance_ms(60_000)
    rig.restart()
    assert run(rig, "GET k") is None
    assert rig.tick() == 1


def test_the_clock_going_back_shows_no_negative_time(rig: Rig) -> None:
    run(rig, "SET k v EX 10")
    rig.advance_ms(-3_600_000)
    assert run(rig, "TTL k") == 3610
    assert run(rig, "GET k") == b"v"
    assert run(rig, "EXPIRE k 5") == 1
    assert run(rig, "TTL k") == 5
