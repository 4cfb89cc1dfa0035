"""A value that no request can carry is refused as an argument before anything is sent.

An integer of thousands of digits has no decimal text, and hiredis ended the whole process over it. Half a surrogate
pair, an integer that no double holds and a memoryview of two dimensions came back as errors of Python that named no
argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amemdb.client import _requests as requests
from amemdb.client.errors import ArgumentError

HALF = "caf\u00e9 \ud83d"


@pytest.mark.parametrize("value", [10**5000, -(10**5000), 1 << 1024], ids=["positive", "negative", "least"])
@pytest.mark.parametrize(
    ("argument", "request_of"),
    [
        ("content", lambda value: requests.conv_append("s", "user", value)),
        ("session_id", lambda value: requests.conv_get(value)),
        ("n", lambda value: requests.conv_window("s", value)),
        ("ttl", lambda value: requests.conv_create("s", ttl=value)),
        ("at", lambda value: requests.conv_append("s", "user", "x", at=value)),
    ],
)
def test_an_integer_of_thousands_of_digits_is_refused(
    argument: str, request_of: Callable[[int], list[Any]], value: int
) -> None:
    with pytest.raises(ArgumentError, match=f"^{argument} must be an integer of at most 1024 bits, got "):
        request_of(value)


def test_a_large_integer_is_text_like_any_other() -> None:
    assert requests.conv_append("s", "user", (1 << 1024) - 1)[-1] == (1 << 1024) - 1


@pytest.mark.parametrize(
    ("argument", "request_of"),
    [
        ("content", lambda text: requests.conv_append("s", "user", text)),
        ("session_id", lambda text: requests.conv_get(text)),
        ("meta", lambda text: requests.conv_append("s", "user", "x", meta=text)),
    ],
)
def test_half_a_surrogate_pair_is_refused(argument: str, request_of: Callable[[str], list[Any]]) -> None:
    with pytest.raises(ArgumentError, match=f"^{argument} must be text that UTF-8 can hold, character 6 is half"):
        request_of(HALF)


def test_text_beyond_ascii_goes_out_as_utf_8() -> None:
    assert requests.conv_append("s", "user", "caf\u00e9 \U0001f600")[-1] == "caf\u00e9 \U0001f600".encode()


def test_an_integer_that_no_double_holds_is_no_threshold() -> None:
    with pytest.raises(ArgumentError, match=r"^threshold must be a number that a double can hold$"):
        requests.sem_recall("a", 1, [1.0], threshold=10**400)


def test_a_memoryview_of_two_dimensions_is_no_vector() -> None:
    with pytest.raises(ArgumentError, match=r"^vector must be numbers"):
        requests.sem_recall("a", 1, memoryview(bytes(16)).cast("f", (2, 2)))
