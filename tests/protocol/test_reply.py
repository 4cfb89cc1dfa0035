"""Every reply shape in both protocols, read back by an independent reader."""

from __future__ import annotations

import doctest
import math
from random import Random
from typing import Any

import hiredis
import numpy as np
import pytest

from amemdb.errors import CommandError
from amemdb.limits import REPLY_ELEMENTS_MAX
from amemdb.protocol import reply
from amemdb.protocol.reply import (
    BULK,
    DOUBLE,
    INTEGER,
    NAMES,
    OK,
    RAW,
    SCAN_PAGE,
    SIMPLE,
    VERBATIM,
    ArrayOf,
    Labelled,
    MapOf,
    OneOf,
    SetOf,
    Shape,
    TupleOf,
    decimal_text,
)

TURN = Labelled(role=BULK, content=BULK, seq=INTEGER)
EITHER = OneOf(ok=True, array=NAMES)


@pytest.mark.parametrize(
    ("shape", "value", "resp2", "resp3"),
    [
        (OK, None, b"+OK\r\n", b"+OK\r\n"),
        (SIMPLE, "string", b"+string\r\n", b"+string\r\n"),
        (SIMPLE, b"PONG", b"+PONG\r\n", b"+PONG\r\n"),
        (INTEGER, 0, b":0\r\n", b":0\r\n"),
        (INTEGER, -(2**63), b":-9223372036854775808\r\n", b":-9223372036854775808\r\n"),
        (INTEGER, True, b":1\r\n", b":1\r\n"),
        (BULK, b"", b"$0\r\n\r\n", b"$0\r\n\r\n"),
        (BULK, b"a\r\nb", b"$4\r\na\r\nb\r\n", b"$4\r\na\r\nb\r\n"),
        (BULK, bytearray(b"ab"), b"$2\r\nab\r\n", b"$2\r\nab\r\n"),
        (BULK, None, b"$-1\r\n", b"_\r\n"),
        (DOUBLE, None, b"$-1\r\n", b"_\r\n"),
        (DOUBLE, 1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
        (DOUBLE, 2.0, b"$1\r\n2\r\n", b",2\r\n"),
        (DOUBLE, -0.0, b"$1\r\n0\r\n", b",0\r\n"),
        (DOUBLE, 1e-08, b"$10\r\n0.00000001\r\n", b",0.00000001\r\n"),
        (DOUBLE, 1e22, b"$23\r\n10000000000000000000000\r\n", b",10000000000000000000000\r\n"),
        (DOUBLE, math.inf, b"$3\r\ninf\r\n", b",inf\r\n"),
        (DOUBLE, -math.inf, b"$4\r\n-inf\r\n", b",-inf\r\n"),
        (DOUBLE, np.float32(0.5), b"$3\r\n0.5\r\n", b",0.5\r\n"),
        (VERBATIM, "a\u00e9", b"$3\r\na\xc3\xa9\r\n", b"=7\r\ntxt:a\xc3\xa9\r\n"),
        (RAW, b"*0\r\n", b"*0\r\n", b"*0\r\n"),
        (NAMES, None, b"*-1\r\n", b"_\r\n"),
        (NAMES, [], b"*0\r\n", b"*0\r\n"),
        (NAMES, [b"a", None], b"*2\r\n$1\r\na\r\n$-1\r\n", b"*2\r\n$1\r\na\r\n_\r\n"),
        (SetOf(BULK), None, b"*-1\r\n", b"_\r\n"),
        (SetOf(BULK), [], b"*0\r\n", b"~0\r\n"),
        (SetOf(BULK), [b"a"], b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
        (TupleOf(BULK, INTEGER), None, b"$-1\r\n", b"_\r\n"),
        (TupleOf(BULK, INTEGER), (b"a", 1), b"*2\r\n$1\r\na\r\n:1\r\n", b"*2\r\n$1\r\na\r\n:1\r\n"),
        (SCAN_PAGE, (b"0", []), b"*2\r\n$1\r\n0\r\n*0\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n"),
        (TURN, None, b"*-1\r\n", b"_\r\n"),
        (TURN, (), b"*0\r\n", b"%0\r\n"),
        (TURN, (b"user",), b"*2\r\n$4\r\nrole\r\n$4\r\nuser\r\n", b"%1\r\n$4\r\nrole\r\n$4\r\nuser\r\n"),
        (MapOf(BULK, INTEGER), {}, b"*0\r\n", b"%0\r\n"),
        (MapOf(BULK, INTEGER), {b"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        (MapOf(BULK, INTEGER), iter([(b"a", 1)]), b"*2\r\n$1\r\na\r\n:1\r\n", None),
        (EITHER, None, b"$-1\r\n", b"_\r\n"),
        (OneOf(nil_array=True), None, b"*-1\r\n", b"_\r\n"),
        (EITHER, True, b"+OK\r\n", b"+OK\r\n"),
        (EITHER, 1, b":1\r\n", b":1\r\n"),
        (EITHER, 0, b":0\r\n", b":0\r\n"),
        (EITHER, b"x", b"$1\r\nx\r\n", b"$1\r\nx\r\n"),
        (EITHER, "PONG", b"+PONG\r\n", b"+PONG\r\n"),
        (EITHER, [b"a"], b"*1\r\n$1\r\na\r\n", b"*1\r\n$1\r\na\r\n"),
    ],
)
def test_bytes_on_the_wire(shape: Shape, value: Any, resp2: bytes, resp3: bytes | None):
    assert shape.encode(value, False) == resp2
    if resp3 is not None:
        assert shape.encode(value, True) == resp3


def test_nested_shapes_are_read_back_by_a_client():
    shape = ArrayOf(Labelled(key=BULK, similarity=DOUBLE, tags=SetOf(BULK), more=MapOf(BULK, INTEGER), last=BULK))
    value = [(b"k", 0.25, [b"x"], {b"n": 1}, None), (b"l", 1e-300)]
    assert read(shape.encode(value, False)) == [
        [b"key", b"k", b"similarity", b"0.25", b"tags", [b"x"], b"more", [b"n", 1], b"last", None],
        [b"key", b"l", b"similarity", b"0." + b"0" * 299 + b"1"],
    ]
    assert read(shape.encode(value, True)) == [
        {b"key": b"k", b"similarity": 0.25, b"tags": [b"x"], b"more": {b"n": 1}, b"last": None},
        {b"key": b"l", b"similarity": 1e-300},
    ]


def read(data: bytes) -> Any:
    """`data` as hiredis reads it: one reply and nothing behind it."""
    reader = hiredis.Reader()
    reader.feed(data)
    value = reader.gets()
    assert value is not False, "the reply is not whole"
    assert reader.gets() is False
    return value


def test_doubles_read_back_exactly_and_never_have_an_exponent():
    rng = Random(5)
    values = [rng.choice((1, -1)) * rng.random() * 10.0 ** rng.randrange(-320, 308) for _ in range(5_000)]
    values += [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1 / 3, 1e16, 123456789012345680.0]
    for value in values:
        text = decimal_text(value)
        assert set(text) <= set(b"-.0123456789"), text
        assert float(text) == value


def test_a_value_that_is_no_number_is_a_bug_of_ours():
    for shape in (DOUBLE, ArrayOf(DOUBLE)):
        with pytest.raises(AssertionError):
            shape.encode([math.nan] if isinstance(shape, ArrayOf) else math.nan, True)


def test_too_many_or_too_few_values_are_a_bug_of_ours():
    with pytest.raises(AssertionError):
        TURN.encode((b"user", b"hi", 1, 2), False)
    with pytest.raises(ValueError):
        TupleOf(BULK, INTEGER).encode((b"a",), False)


@pytest.mark.parametrize("resp3", [False, True])
def test_an_array_that_clients_could_not_read_is_refused(resp3):
    most = ArrayOf(INTEGER, "AMEM.EPIS.PAGE")
    assert most.encode([1] * REPLY_ELEMENTS_MAX, resp3).startswith(b"*1048576\r\n")
    with pytest.raises(CommandError, match="1048577 elements, more than 1048576 in one reply; use AMEM"):
        most.encode([1] * (REPLY_ELEMENTS_MAX + 1), resp3)
    with pytest.raises(CommandError, match="elements"):
        SetOf(INTEGER).encode([1] * (REPLY_ELEMENTS_MAX + 1), resp3)
    with pytest.raises(CommandError, match="elements"):
        MapOf(INTEGER, INTEGER).encode([(1, 1)] * (REPLY_ELEMENTS_MAX // 2 + 1), resp3)


def test_every_shape_says_what_it_is():
    shapes = [OK, SIMPLE, INTEGER, BULK, DOUBLE, VERBATIM, RAW, NAMES, SetOf(BULK), SCAN_PAGE, TURN, EITHER]
    shapes.append(MapOf(BULK, INTEGER))
    words = [shape.describe() for shape in shapes]
    assert all(words)
    assert len(set(words)) == len(words)


def test_the_example_in_the_text():
    assert doctest.testmod(reply) == (0, 1)
