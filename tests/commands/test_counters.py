"""INCR and its kin: 64 bits, strict numbers, decimal sums without noise, and expiries that stay."""

from __future__ import annotations

import pytest
from checks import NOT_INTEGERS, NOW, logged, refused, run, survives
from rig import Rig

from amemdb.stores import records

MOST, LEAST = 2**63 - 1, -(2**63)
NOT_FLOATS = [
    b"",
    b" 1",
    b"1 ",
    b"+1",
    b"1_0",
    b"1,5",
    b"nan",
    b"NaN",
    b"inf",
    b"-Infinity",
    b"0x10",
    b"1e",
    b"1.",
    b".",
]
BEYOND_FLOATS = [b"1e309", b"1e99999999999999999999", b"0e-99999999999999999999"]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_counting_from_nothing(rig: Rig) -> None:
    assert [run(rig, line) for line in ("INCR k", "INCRBY k 41", "DECR k", "DECRBY k -9", "INCRBY k -100")] == [
        1,
        42,
        41,
        50,
        -50,
    ]
    assert run(rig, "GET k") == b"-50"


def test_what_is_logged_is_the_result(rig: Rig) -> None:
    run(rig, "SET k 5 PX 300")
    assert logged(rig, "INCRBY k 3") == [(records.KEY_SET, 0, b"k", b"8", NOW + 300)]
    assert logged(rig, "INCRBYFLOAT k .5") == [(records.KEY_SET, 0, b"k", b"8.5", NOW + 300)]
    assert run(rig, "PTTL k") == 300


def test_a_counter_that_has_ended_begins_anew_without_its_expiry(rig: Rig) -> None:
    run(rig, "SET k 5 PX 300")
    run(rig, "SET f abc PX 300")
    rig.advance_ms(300)
    assert (run(rig, "INCR k"), run(rig, "INCRBYFLOAT f 2")) == (1, b"2")
    assert (run(rig, "TTL k"), run(rig, "TTL f")) == (-1, -1)
    survives(rig)


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (MOST, "INCR k"),
        (LEAST, "DECR k"),
        (1, f"INCRBY k {MOST}"),
        (-2, f"DECRBY k {MOST}"),
        (-1, f"INCRBY k {LEAST}"),
    ],
)
def test_64_bits_do_not_overflow(rig: Rig, start: int, line: str) -> None:
    rig("SET", "k", start)
    refused(rig, "increment or decrement would overflow", line)
    assert run(rig, "GET k") == b"%d" % start


def test_the_edges_of_64_bits_can_be_reached(rig: Rig) -> None:
    rig("SET", "k", MOST - 1)
    assert run(rig, "INCR k") == MOST
    assert rig("INCRBY", "k", LEAST) == -1
    assert rig("DECRBY", "k", MOST) == LEAST
    refused(rig, "decrement would overflow", f"DECRBY k {LEAST}")


@pytest.mark.parametrize("number", [*NOT_INTEGERS, b"9223372036854775808", b"-9223372036854775809", b"--1", b"1-"])
def test_integers_are_strict_in_arguments_and_in_values(rig: Rig, number: bytes) -> None:
    run(rig, "SET k 1")
    refused(rig, "value is not an integer or out of range", "INCRBY k", number)
    refused(rig, "value is not an integer or out of range", "DECRBY k", number)
    rig.send(b"SET", b"k", number)
    refused(rig, "value is not an integer or out of range", "INCR k")


@pytest.mark.parametrize(
    ("start", "increment", "total"),
    [
        ("0.1", "0.2", b"0.3"),
        ("10.50", "0.1", b"10.6"),
        ("5.0e3", "2.0e2", b"5200"),
        ("3.0", "1.000000000000000005", b"4"),
        ("0", "1e-17", b"0.00000000000000001"),
        ("0", "4e-18", b"0"),
        ("1", "-1", b"0"),
        ("-0.0", "0", b"0"),
        ("0", "-1e-20", b"0"),
        ("1e20", "0.5", b"100000000000000000000.5"),
        ("17179869184", "1.5", b"17179869185.5"),
        ("1e308", "-1e308", b"0"),
        ("9007199254740993", "0", b"9007199254740993"),
        ("0", "1e-999999", b"0"),
    ],
)
def test_floats_add_as_written(rig: Rig, start: str, increment: str, total: bytes) -> None:
    rig("SET", "k", start)
    assert rig("INCRBYFLOAT", "k", increment) == total
    assert run(rig, "GET k") == total


def test_a_sum_can_be_added_to(rig: Rig) -> None:
    assert run(rig, "INCRBYFLOAT k 1e300") == b"1" + b"0" * 300
    assert run(rig, "INCRBYFLOAT k 0.25") == b"1" + b"0" * 300 + b".25"
    for _ in range(10):
        run(rig, "INCRBYFLOAT tenth 0.1")
    assert run(rig, "GET tenth") == b"1"
    assert run(rig, "INCR tenth") == 2


def test_a_sum_beyond_doubles_is_refused(rig: Rig) -> None:
    run(rig, "SET k 1.7e308")
    refused(rig, "increment would produce NaN or Infinity", "INCRBYFLOAT k 1.7e308")
    run(rig, "SET k -1.7e308")
    refused(rig, "increment would produce NaN or Infinity", "INCRBYFLOAT k -1e308")


@pytest.mark.parametrize("number", [*NOT_FLOATS, *BEYOND_FLOATS, "\u0661".encode(), b"0." + b"1" * 5200])
def test_floats_are_strict_in_arguments_and_in_values(rig: Rig, number: bytes) -> None:
    run(rig, "SET k 1")
    refused(rig, "value is not a valid float", "INCRBYFLOAT k", number)
    rig.send(b"SET", b"k", number)
    refused(rig, "value is not a valid float", "INCRBYFLOAT k 1")
