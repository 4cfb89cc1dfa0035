"""Strings: SET in all its forms, several keys at once, parts of values; what is logged, and what a refusal leaves."""

from __future__ import annotations

from typing import Any

import pytest
from checks import EVERY_BYTE, NOT_INTEGERS, NOW, logged, refused, run, silent, survives
from rig import Rig

from amemdb.limits import BULK_BYTES_MAX, EXPIRY_AHEAD_MS_MAX
from amemdb.stores import records

TOO_LARGE = [b"9223372036854775807", b"9223372036854775", b"3155760001", b"1" + b"0" * 18]


@pytest.fixture
def rig() -> Rig:
    return Rig()


# -- SET -------------------------------------------------------------------------------------------


def test_set_replaces_value_and_expiry(rig: Rig) -> None:
    assert run(rig, "SET k one EX 100") == b"OK"
    assert logged(rig, "SET k two") == [(records.KEY_SET, 0, b"k", b"two", 0)]
    assert (run(rig, "GET k"), run(rig, "TTL k")) == (b"two", -1)


@pytest.mark.parametrize(
    ("option", "expire_at_ms"),
    [
        ("EX 7", NOW + 7000),
        ("px 7", NOW + 7),
        (f"Exat {NOW // 1000 + 60}", NOW + 60_000),
        (f"PXAT {NOW + 1}", NOW + 1),
        ("EX 3155760000", NOW + EXPIRY_AHEAD_MS_MAX),
    ],
)
def test_each_expiry_option_is_logged_as_a_moment(rig: Rig, option: str, expire_at_ms: int) -> None:
    assert logged(rig, f"SET k v {option}") == [(records.KEY_SET, 0, b"k", b"v", expire_at_ms)]
    assert run(rig, "PEXPIRETIME k") == expire_at_ms


@pytest.mark.parametrize("word", ["EX", "PX", "EXAT", "PXAT"])
@pytest.mark.parametrize("number", [*NOT_INTEGERS, b"0", b"-1", b"-9223372036854775808", b"9223372036854775807"])
def test_a_wrong_expiry_leaves_the_old_value_and_expiry(rig: Rig, word: str, number: bytes) -> None:
    run(rig, "SET k old EX 50")
    reason = "not an integer" if number in NOT_INTEGERS else "invalid expire time in 'set' command"
    refused(rig, reason, f"SET k new {word}", number)
    assert (run(rig, "GET k"), run(rig, "TTL k")) == (b"old", 50)


def test_more_than_a_hundred_years_ahead_is_refused(rig: Rig) -> None:
    edge = NOW + EXPIRY_AHEAD_MS_MAX
    assert run(rig, f"SET k v PXAT {edge}") == b"OK"
    refused(rig, "invalid expire time in 'set' command", f"SET k w PXAT {edge + 1}")
    refused(rig, "invalid expire time in 'set' command", "SET k w EX 3155760001")
    refused(rig, "invalid expire time in 'setex' command", "SETEX k 3155760001 w")
    refused(rig, "invalid expire time in 'psetex' command", "PSETEX k 0 w")
    refused(rig, "invalid expire time in 'getex' command", f"GETEX k PX {EXPIRY_AHEAD_MS_MAX + 1}")


@pytest.mark.parametrize("option", ["EXAT 1", "PXAT 1", f"PXAT {NOW}", f"EXAT {NOW // 1000}"])
def test_a_moment_in_the_past_replaces_the_value_and_is_over(rig: Rig, option: str) -> None:
    run(rig, "SET k old")
    assert run(rig, f"SET k new GET {option}") == b"old"
    assert (run(rig, "GET k"), run(rig, "EXISTS k"), run(rig, "TTL k"), run(rig, "DBSIZE")) == (None, 0, -2, 0)
    survives(rig)
    rig.advance_ms(2000)
    rig.tick()
    assert rig.stores.keys.databases[0].values == {}


def test_keepttl_keeps_only_an_expiry_that_has_not_passed(rig: Rig) -> None:
    run(rig, "SET k one PX 500")
    assert logged(rig, "SET k two KEEPTTL") == [(records.KEY_SET, 0, b"k", b"two", NOW + 500)]
    rig.advance_ms(500)
    assert logged(rig, "SET k three keepttl") == [(records.KEY_SET, 0, b"k", b"three", 0)]
    assert run(rig, "TTL k") == -1
    run(rig, "SET fresh v KEEPTTL")
    assert run(rig, "TTL fresh") == -1


def test_nx_and_xx(rig: Rig) -> None:
    assert silent(rig, "SET lock a XX") is None
    assert run(rig, "SET lock a NX PX 100") == b"OK"
    assert silent(rig, "SET lock b NX EX 5") is None
    assert (run(rig, "GET lock"), run(rig, "PTTL lock")) == (b"a", 100)
    assert run(rig, "SET lock c XX") == b"OK"
    run(rig, "PEXPIRE lock 10")
    rig.advance_ms(10)
    assert silent(rig, "SET lock d XX") is None
    assert run(rig, "SET lock e NX") == b"OK"
    assert run(rig, "GET lock") == b"e"


def test_get_gives_the_old_value_whether_it_was_set_or_not(rig: Rig) -> None:
    assert run(rig, "SET k one GET") is None
    assert run(rig, "SET k two GET NX") == b"one"
    assert run(rig, "GET k") == b"one"
    assert run(rig, "SET k two XX GET") == b"one"
    assert run(rig, "SET missing v XX GET") is None
    assert run(rig, "EXISTS missing") == 0
    assert run(rig, "SET missing v NX GET") is None
    assert run(rig, "GET missing") == b"v"


@pytest.mark.parametrize(
    "options",
    [
        "NX XX",
        "XX NX",
        "EX 10 PX 10",
        "EX 10 KEEPTTL",
        "KEEPTTL PXAT 99999999999999",
        "EX",
        "GET EXAT",
        "WHAT",
        "EX 10 WHAT",
        "NX nx",
        "GET GET",
        "EX 10 EX 10",
        "PERSIST",
    ],
)
def test_options_that_contradict_repeat_or_are_unknown_are_syntax_errors(rig: Rig, options: str) -> None:
    refused(rig, "syntax error", f"SET k v {options}")


def test_options_come_in_any_order_and_case(rig: Rig) -> None:
    for options in ("NX GET EX 9", "ex 9 nx get", "Get eX 9 Nx"):
        run(rig, "DEL k")
        assert run(rig, f"SET k v {options}") is None
        assert run(rig, "TTL k") == 9


# -- relatives -------------------------------------------------------------------------------------


def test_setex_psetex_setnx_and_getset(rig: Rig) -> None:
    assert logged(rig, "SETEX k 10 v") == [(records.KEY_SET, 0, b"k", b"v", NOW + 10_000)]
    assert logged(rig, "PSETEX k 10 w") == [(records.KEY_SET, 0, b"k", b"w", NOW + 10)]
    assert silent(rig, "SETNX k x") == 0
    assert run(rig, "GETSET k y") == b"w"
    assert (run(rig, "GET k"), run(rig, "TTL k")) == (b"y", -1)
    run(rig, "PEXPIRE k 5")
    rig.advance_ms(5)
    assert run(rig, "GETSET k z") is None
    assert run(rig, "SETNX k x") == 0
    assert run(rig, "SETNX other x") == 1


def test_getdel(rig: Rig) -> None:
    run(rig, "SET k v PX 10")
    assert logged(rig, "GETDEL k") == [(records.KEY_DELETED, 0, b"k")]
    assert silent(rig, "GETDEL k") is None
    run(rig, "SET k v PX 10")
    rig.advance_ms(10)
    assert logged(rig, "GETDEL k") == [(records.KEY_EXPIRED, 0, b"k")]


def test_getex(rig: Rig) -> None:
    run(rig, "SET k v")
    assert silent(rig, "GETEX k") == b"v"
    assert silent(rig, "GETEX k PERSIST") == b"v"
    assert logged(rig, "GETEX k EX 10") == [(records.KEY_EXPIRY_SET, 0, b"k", NOW + 10_000)]
    assert logged(rig, "GETEX k PXAT", b"%d" % (NOW + 5)) == [(records.KEY_EXPIRY_SET, 0, b"k", NOW + 5)]
    assert logged(rig, "GETEX k PERSIST") == [(records.KEY_EXPIRY_SET, 0, b"k", 0)]
    for options in ("EX 10 PERSIST", "PERSIST PX 1", "KEEPTTL", "EX 1 PX 1", "NX"):
        refused(rig, "syntax error", f"GETEX k {options}")
    for number in (b"0", b"-5", *TOO_LARGE):
        refused(rig, "invalid expire time in 'getex' command", "GETEX k EX", number)
    assert run(rig, "GETEX k EXAT 1") == b"v"
    assert run(rig, "EXISTS k") == 0
    assert silent(rig, "GETEX k EX 10") is None
    survives(rig)


# -- bytes -----------------------------------------------------------------------------------------


def test_keys_and_values_are_any_bytes(rig: Rig) -> None:
    composed, decomposed = "\u00e9".encode(), "e\u0301".encode()
    for key, value in ((EVERY_BYTE, EVERY_BYTE[::-1]), (b"", b""), (composed, b"1"), (decomposed, b"2")):
        assert rig.send(b"SET", key, value) == b"OK"
    rig.restart()
    assert rig.send(b"GET", EVERY_BYTE) == EVERY_BYTE[::-1]
    assert rig.send(b"GET", b"") == b""
    assert (rig.send(b"GET", composed), rig.send(b"GET", decomposed)) == (b"1", b"2")


# -- several keys ----------------------------------------------------------------------------------


def test_mset_is_one_frame_and_the_last_of_equal_keys_stays(rig: Rig) -> None:
    run(rig, "SET a old EX 5")
    assert len(logged(rig, "MSET a 1 b 2 a 3")) == 3
    assert run(rig, "MGET a b c a") == [b"3", b"2", None, b"3"]
    assert run(rig, "TTL a") == -1


def test_msetnx_sets_all_or_none(rig: Rig) -> None:
    run(rig, "SET b old PX 10")
    assert silent(rig, "MSETNX a 1 b 2") == 0
    assert run(rig, "EXISTS a") == 0
    rig.advance_ms(10)
    assert run(rig, "MSETNX a 1 b 2 a 3") == 1
    assert run(rig, "MGET a b") == [b"3", b"2"]


@pytest.mark.parametrize("line", ["MSET", "MSET a", "MSET a 1 b", "MSETNX a 1 b", "MGET"])
def test_a_value_short_is_a_wrong_number_of_arguments(rig: Rig, line: str) -> None:
    refused(rig, f"wrong number of arguments for '{line.split()[0].lower()}' command", line)


def test_one_large_value_asked_for_again_and_again_is_refused_before_it_fills_the_memory(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amemdb.commands.strings.REPLY_BYTES_MAX", 1000)
    rig.send(b"SET", b"k", b"x" * 100)
    assert rig("MGET", *["k"] * 10) == [b"x" * 100] * 10
    refused(rig, "longer than 1000 bytes", "MGET" + " k" * 11)


# -- parts -----------------------------------------------------------------------------------------


def test_append_logs_the_tail_alone_and_keeps_the_expiry(rig: Rig) -> None:
    assert logged(rig, "APPEND k abc") == [(records.KEY_SET, 0, b"k", b"abc", 0)]
    run(rig, "EXPIRE k 9")
    assert logged(rig, "APPEND k", b"\x00d") == [(records.KEY_APPENDED, 0, b"k", b"\x00d")]
    assert (run(rig, "GET k"), run(rig, "STRLEN k"), run(rig, "TTL k")) == (b"abc\x00d", 5, 9)
    assert run(rig, "APPEND empty", b"") == 0
    assert run(rig, "EXISTS empty") == 1
    rig.restart()
    assert run(rig, "APPEND k e") == 6


def test_append_to_a_key_that_has_ended_begins_anew(rig: Rig) -> None:
    run(rig, "SET k old PX 10")
    rig.advance_ms(10)
    assert run(rig, "APPEND k new") == 3
    assert (run(rig, "GET k"), run(rig, "TTL k")) == (b"new", -1)
    survives(rig)


def test_appending_again_and_again_costs_the_tail(rig: Rig) -> None:
    rig.send(b"SET", b"k", b"x" * 1_000_000)
    run(rig, "APPEND k y")
    held = rig.stores.keys.databases[0].values[b"k"]
    for _ in range(100):
        run(rig, "APPEND k z")
    assert rig.stores.keys.databases[0].values[b"k"] is held
    assert run(rig, "STRLEN k") == 1_000_101


@pytest.mark.parametrize(
    ("start", "end", "part"),
    [
        (0, -1, b"hello"),
        (0, 0, b"h"),
        (1, 3, b"ell"),
        (-3, -2, b"ll"),
        (-100, 1, b"he"),
        (3, 100, b"lo"),
        (3, 2, b""),
        (-2, -3, b""),
        (5, 9, b""),
        (0, -6, b"h"),
        (-9, -6, b"h"),
        (-6, -9, b""),
        (-(2**63), 2**63 - 1, b"hello"),
        (2**63 - 1, 2**63 - 1, b""),
    ],
)
@pytest.mark.parametrize("appended", [False, True])
def test_getrange(rig: Rig, start: int, end: int, part: bytes, appended: bool) -> None:
    run(rig, "SET k hel" if appended else "SET k hello")
    if appended:
        run(rig, "APPEND k lo")
    assert rig("GETRANGE", "k", start, end) == rig("SUBSTR", "k", start, end) == part
    assert rig("GETRANGE", "missing", start, end) == b""


def test_setrange(rig: Rig) -> None:
    assert silent(rig, "SETRANGE k 5", b"") == 0
    assert run(rig, "EXISTS k") == 0
    assert logged(rig, "SETRANGE k 2 ab") == [(records.KEY_RANGE_SET, 0, b"k", 2, b"ab")]
    run(rig, "PEXPIRE k 50")
    assert run(rig, "SETRANGE k 3 XYZ") == 6
    assert silent(rig, "SETRANGE k 100", b"") == 6
    assert (run(rig, "GET k"), run(rig, "PTTL k")) == (b"\0\0aXYZ", 50)
    refused(rig, "offset is out of range", "SETRANGE k -1 x")
    rig.advance_ms(50)
    assert logged(rig, "SETRANGE k 1 b") == [
        (records.KEY_EXPIRED, 0, b"k"),
        (records.KEY_RANGE_SET, 0, b"k", 1, b"b"),
    ]
    assert (run(rig, "GET k"), run(rig, "TTL k")) == (b"\0b", -1)
    survives(rig)


def test_no_string_grows_beyond_the_largest_size(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = "string exceeds maximum allowed size"
    refused(rig, limit, f"SETRANGE k {BULK_BYTES_MAX} x")
    refused(rig, limit, "SETRANGE k 9223372036854775807 x")
    monkeypatch.setattr("amemdb.commands.strings.BULK_BYTES_MAX", 10)
    run(rig, "SET k 12345678")
    refused(rig, limit, "APPEND k abc")
    assert run(rig, "APPEND k ab") == 10
    refused(rig, limit, "SETRANGE k 9 ab")
    assert run(rig, "SETRANGE k 9 c") == 10


def test_a_large_gap_is_a_small_frame(rig: Rig) -> None:
    run(rig, "SETRANGE k 5000000 x")
    assert len(rig.log.frames[-1]) < 100
    assert run(rig, "STRLEN k") == 5_000_001
    rig.restart()


@pytest.mark.parametrize("number", NOT_INTEGERS)
def test_offsets_are_strict_integers(rig: Rig, number: bytes) -> None:
    run(rig, "SET k v")
    refused(rig, "not an integer", "SETRANGE k", number, b"x")
    refused(rig, "not an integer", "GETRANGE k", number, b"1")
    refused(rig, "not an integer", "GETRANGE k 1", number)


# -- other types -----------------------------------------------------------------------------------


STRINGS_ONLY = """GET k|SET k v GET|GETSET k v|GETDEL k|GETEX k EX 5|STRLEN k|APPEND k v|SETRANGE k 0 v|GETRANGE k 0 1
INCR k|DECRBY k 3|INCRBYFLOAT k 1.5""".replace("\n", "|").split("|")


@pytest.mark.parametrize("line", STRINGS_ONLY)
def test_string_commands_refuse_a_value_of_another_type(rig: Rig, line: str) -> None:
    run(rig, "SET k v")
    foreign: Any = object()
    rig.stores.keys.databases[0].values[b"k"] = foreign
    frames = len(rig.log.frames)
    assert str(run(rig, line)) == "WRONGTYPE Operation against a key holding the wrong kind of value"
    assert rig.stores.keys.databases[0].values[b"k"] is foreign
    assert len(rig.log.frames) == frames


def test_set_and_mget_do_not_mind_another_type(rig: Rig) -> None:
    run(rig, "SET k v")
    foreign: Any = object()
    rig.stores.keys.databases[0].values[b"k"] = foreign
    assert run(rig, "MGET k") == [None]
    assert run(rig, "SETNX k w") == 0
    assert run(rig, "SET k w") == b"OK"
    assert run(rig, "GET k") == b"w"


# -- records are snapshots -------------------------------------------------------------------------


def test_what_a_transaction_logs_and_answers_is_what_was_there_at_the_time(rig: Rig) -> None:
    run(rig, "APPEND k a")
    run(rig, "APPEND k b")
    run(rig, "MULTI")
    for line in ("GET k", "MGET k", "COPY k copied", "APPEND k c", "SET j x GET", "RENAME k moved", "APPEND moved d"):
        run(rig, line)
    replies = run(rig, "EXEC")
    assert replies[:2] == [b"ab", [b"ab"]]
    assert run(rig, "MGET copied moved") == [b"ab", b"abcd"]
    rig.restart()
    assert run(rig, "MGET copied moved") == [b"ab", b"abcd"]
