"""Reads the body of an answer to `POST …/embeddings`: JSON, with each vector in base64 or as an array of numbers.

    {"data": [{"index": 0, "embedding": "AACAPwAA…" or [1.0, 0.0, …]}, …], …}

1. `data` has exactly one entry a text. Where entries have an `index` it is their place, each once; where none has one,
   they are in order.
2. base64 is of little-endian float32, four bytes a component.
3. Whether the numbers make a vector is looked at by `Embedder`, as for every kind.

Python reads JSON in one go, during which no other thread runs: 64 vectors as numbers would stop a server for tens of
milliseconds. So the arrays of numbers are cut out first, each to be read by itself, and a number that stands for it is
left in its place. Those begin at a random base, as a number that was there before must not be taken for one.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

_NUMBERS = re.compile(rb"\[[0-9.eE+\-,\s]+\]")
BASE_MIN = 1 << 40


class Unreadable(Exception):
    """The body is no answer to what was asked; the text says why."""


def vectors_of(body: bytes, count: int, chance: Callable[[int], int]) -> list[Any]:
    """The vectors, by the place of their texts. `chance(bits)` gives a random number. Raises `Unreadable`."""
    entries, arrays = _entries(body, BASE_MIN + chance(60))
    if len(entries) != count:
        raise Unreadable(f"expected {count} vectors, got {len(entries)}")
    found: list[Any] = [None] * count
    for order, entry in enumerate(entries):
        place = entry.get("index", order) if isinstance(entry, dict) else None
        if type(place) is not int or not 0 <= place < count or found[place] is not None:
            raise Unreadable("the places of the vectors are not each there once")
        found[place] = _vector(entry.get("embedding"), arrays)
    return found


def message_of(body: bytes) -> str:
    """What an error's body says, as far as it says it in one of the usual ways; else its beginning."""
    try:
        value: Any = json.loads(body[:65536])
    except (ValueError, RecursionError):
        return body[:200].decode("utf-8", "replace")
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    return value if isinstance(value, str) else json.dumps(value)[:200]


def _entries(body: bytes, base: int) -> tuple[list[Any], dict[int, bytes]]:
    """The entries of `data`, and the arrays that were cut out by the numbers that stand for them."""
    arrays: dict[int, bytes] = {}
    parts: list[bytes] = []
    end = 0
    for match in _NUMBERS.finditer(body):
        stand_in = base + len(arrays)
        arrays[stand_in] = match[0]
        parts += (body[end : match.start()], str(stand_in).encode())
        end = match.end()
    try:
        value = json.loads(b"".join([*parts, body[end:]]))
    except (ValueError, RecursionError):
        raise Unreadable("the answer is not JSON") from None
    entries = value.get("data") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise Unreadable("the answer has no list 'data'")
    return entries, arrays


def _vector(value: Any, arrays: dict[int, bytes]) -> Any:
    if isinstance(value, str):
        return _from_base64(value)
    if type(value) is int and value in arrays:
        try:
            return json.loads(arrays[value])
        except ValueError:
            pass
    if isinstance(value, list) and not any(type(item) is int and item in arrays for item in value):
        return value  # what is in it is not only numbers: told as the check of vectors tells it
    raise Unreadable("the answer has an 'embedding' that is neither base64 nor an array of numbers")


def _from_base64(text: str) -> Any:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable("the answer has an 'embedding' that is not base64") from None
    if len(data) % 4:
        raise Unreadable("the answer has an 'embedding' that is not whole float32 numbers")
    return np.frombuffer(data, "<f4")
