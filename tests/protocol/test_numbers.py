"""The strict numbers of the wire: what Python would take and the grammar does not, and the borders."""

from __future__ import annotations

import math
import time

import pytest

from amemdb.protocol.numbers import parse_float, parse_integer

NEVER = [
    b"",
    b" ",
    b"-",
    b"--1",
    b"+5",
    b" 5",
    b"5 ",
    b"5\n",
    b"\t5",
    b"1_0",
    b"1,0",
    b"0x10",
    b"0b1",
    b"five",
    b"5\x00",
]
NEVER += ["\u0665".encode(), "\uff11".encode(), b"\xb2", b"- 1", b"1 0", b"nan", b"inf", b"-inf", b"Infinity", b"None"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0),
        (b"-0", 0),
        (b"007", 7),
        (b"-12", -12),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"0" * 50 + b"9223372036854775807", 2**63 - 1),
        (b"-" + b"0" * 10_000 + b"9223372036854775808", -(2**63)),
        (b"0" * 10_000, 0),
    ],
)
def test_integers(text, value):
    assert parse_integer(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *NEVER,
        *(b"1.", b".5", b"1.0", b"1e5", b"1E0", b"-.5"),
        *(b"9223372036854775808", b"-9223372036854775809", b"99999999999999999999", b"1" * 10_000),
    ],
)
def test_what_is_no_integer(text):
    assert parse_integer(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"0", 0.0),
        (b"5", 5.0),
        (b"-5", -5.0),
        (b"1.5", 1.5),
        (b".5", 0.5),
        (b"-.5", -0.5),
        (b"1e5", 1e5),
        (b"1E+5", 1e5),
        (b"1.25e-2", 0.0125),
        (b".5e1", 5.0),
        (b"007.250", 7.25),
        (b"1e-400", 0.0),
        (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b"0" * 10_000 + b"1", 1.0),
    ],
)
def test_floats(text, value):
    assert parse_float(text) == value


def test_a_negative_zero_stays_one():
    value = parse_float(b"-0.0")
    assert value is not None
    assert math.copysign(1.0, value) == -1.0


@pytest.mark.parametrize(
    "text",
    [
        *NEVER,
        *(b"1.", b".", b"-.", b"1..5", b"1.5.5", b"e5", b"1e", b"1e+", b"1e5.5", b"1e 5", b"1e_5", b"0x1p3", b"1_0.5"),
        *(b"1e309", b"-1e309", b"1e99999999999999999999", b"9" * 400),
    ],
)
def test_what_is_no_float(text):
    assert parse_float(text) is None


@pytest.mark.parametrize("parse", [parse_integer, parse_float])
@pytest.mark.parametrize("tail", [b"", b"x", b"."])
@pytest.mark.parametrize("digit", [b"0", b"7"])
def test_a_million_digits_cost_one_look(parse, digit, tail):
    start = time.process_time()
    parse(digit * 1_000_000 + tail)
    parse(b"-1." + digit * 1_000_000 + tail)
    assert time.process_time() - start < 1.0
