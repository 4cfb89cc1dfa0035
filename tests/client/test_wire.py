"""Python values as tokens: what is sent, and what is refused before anything is."""

from __future__ import annotations

import array
import json
import math
import struct
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from amemdb.client import _requests, wire
from amemdb.client.errors import ArgumentError

FLOATS = struct.pack("<3f", 0.1, -2.5, 3e-40)
SAME = [
    [0.1, -2.5, 3e-40],
    (0.1, -2.5, 3e-40),
    array.array("d", [0.1, -2.5, 3e-40]),
    array.array("f", [0.1, -2.5, 3e-40]),
    memoryview(array.array("f", [0.1, -2.5, 3e-40])),
    np.array([0.1, -2.5, 3e-40]),
    np.array([0.1, -2.5, 3e-40], np.float32),
    np.array([0.1, -2.5, 3e-40], ">f4"),
    np.array([0.1, 0, -2.5, 0, 3e-40, 0], np.float32)[::2],
    list(np.array([0.1, -2.5, 3e-40], np.float32)),
    FLOATS,
    bytearray(FLOATS),
    memoryview(FLOATS),
]


@pytest.mark.parametrize("vector", SAME, ids=lambda vector: type(vector).__name__)
def test_a_vector_is_float32_whatever_it_came_as(vector: Any) -> None:
    assert wire.vector(vector) == ("FP32", FLOATS)


def test_an_integer_array_is_a_vector() -> None:
    assert wire.vector(np.array([1, 2])) == wire.vector([1, 2]) == ("FP32", struct.pack("<2f", 1, 2))


class Tensor:
    """What libraries of tensors offer."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([1.0, 2.0], dtype)


def test_what_offers_an_array_is_a_vector() -> None:
    assert wire.vector(Tensor()) == wire.vector([1.0, 2.0])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        ([1.0, math.nan], "component 2 .* finite"),
        ([math.inf, -math.inf], "component 1 .* finite"),
        ([0.0, 1e39], "component 2 .* finite as float32"),
        (np.array([0.0, 1e39]), "component 2 .* finite as float32"),
        (np.array([0.0, np.nan], np.float32), "component 2 .* finite"),
        (struct.pack("<2f", 1, math.nan), "component 2 .* finite"),
        ([], "at least one"),
        (b"", "at least one"),
        (np.array([], np.float32), "at least one"),
        (b"12345", "4 bytes, got 5"),
        ("0.1 0.2", "got str"),
        ([[1.0], [2.0]], "numbers"),
        (np.zeros((2, 2)), r"one dimension.*\(2, 2\)"),
        (np.array(["a"]), "dtype"),
        (np.array([1j]), "dtype"),
        (None, "numbers"),
        (3, "numbers"),
        ([10**400], "numbers"),
    ],
)
def test_what_is_no_vector_is_refused(vector: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        wire.vector(vector)


def test_a_large_finite_vector_is_not_taken_for_an_infinite_one() -> None:
    largest = float(np.finfo(np.float32).max)
    assert wire.vector([largest] * 5000)[1] == struct.pack("<f", largest) * 5000


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("é", "é".encode()),
        (b"\xff", b"\xff"),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (7, 7),
        (1e-05, b"0.00001"),
    ],
)
def test_text(value: Any, sent: Any) -> None:
    assert wire.text(value, "content") == sent


@pytest.mark.parametrize("value", [None, True, [1], {"a": 1}, math.nan, math.inf, object()])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match="content must be"):
        wire.text(value, "content")


@pytest.mark.parametrize("value", [True, "5", 5.0, None, b"5"])
def test_what_is_no_integer_is_refused(value: Any) -> None:
    with pytest.raises(ArgumentError, match="n must be an integer"):
        wire.integer(value, "n")


def test_integers_of_numpy_are_integers() -> None:
    assert type(wire.integer(np.int64(5), "n")) is int
    assert wire.number(np.float32(0.5), "threshold") == b"0.5"


def test_moments_are_milliseconds() -> None:
    half_past = datetime(2026, 5, 1, 12, 30, 0, 250_999, tzinfo=timezone(timedelta(hours=2)))
    assert wire.moment(half_past, "at") == 1777631400250
    assert wire.moment(datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), "at") == -1
    assert wire.moment(12, "at") == 12
    with pytest.raises(ArgumentError, match="aware"):
        wire.moment(datetime(2026, 5, 1), "at")


def test_a_life_span_is_whole_seconds() -> None:
    assert wire.expiry(timedelta(days=1), None) == ["TTL", 86400]
    assert wire.expiry(5, None) == ["TTL", 5]
    assert wire.expiry(None, 5) == ["PXAT", 5]
    assert wire.expiry(None, None) == []
    assert wire.expiry(0, None) == ["TTL", 0], "the server says what is wrong with it"
    for ttl in (timedelta(seconds=1.5), timedelta(milliseconds=1), 1.5, True, "60"):
        with pytest.raises(ArgumentError, match="ttl must be"):
            wire.expiry(ttl, None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="ttl and pxat"):
        wire.expiry(1, 1)


def test_a_new_expiry_is_one_of_three() -> None:
    assert _requests.conv_expire("s", persist=True) == ["AMEM.CONV.EXPIRE", "s", "PERSIST"]
    assert _requests.conv_expire("s", ttl=1) == ["AMEM.CONV.EXPIRE", "s", "TTL", 1]
    for given in ({}, {"ttl": 1, "pxat": 1}, {"ttl": 1, "persist": True}, {"pxat": 0, "persist": True}):
        with pytest.raises(ArgumentError):
            _requests.conv_expire("s", **given)  # type: ignore[arg-type]


def test_a_mapping_is_json() -> None:
    sent = wire.json_text({"a": [1, None], "é": "ü"}, "meta")
    assert json.loads(sent) == {"a": [1, None], "é": "ü"}
    assert b" " not in sent
    assert wire.json_text('{"a": 1}', "meta") == '{"a": 1}'
    loop: dict[str, Any] = {}
    loop["self"] = loop
    for value in ([1], 5, {"a": math.nan}, {"a": {1, 2}}, {"a": "\ud800"}, loop):
        with pytest.raises(ArgumentError, match="meta"):
            wire.json_text(value, "meta")  # type: ignore[arg-type]


def test_every_option_is_sent_and_none_that_is_not_given() -> None:
    assert _requests.conv_append("s", "user", "c") == ["AMEM.CONV.APPEND", "s", "user", "c"]
    request = _requests.conv_append("s", "user", "c", id="", at=0, meta={})
    assert request[4:] == ["ID", "", "AT", 0, "META", b"{}"]
    request = _requests.sem_store("a", "k", "c", [1.0], ttl=1, source="", trust="untrusted", meta="{}")
    assert request[4:6] == ["FP32", struct.pack("<f", 1)]
    assert request[6:] == ["TTL", 1, "SOURCE", "", "TRUST", "untrusted", "META", "{}"]
    assert _requests.epis_query("a", from_ts=0, limit=0, newest_first=True)[2:] == ["FROM", 0, "LIMIT", 0, "REV"]
    assert _requests.summary_set("a", "t", if_version=0)[3:] == ["IFVERSION", 0]
