"""The strict number grammar of the wire.

Integers: optional `-`, ASCII digits, within 64 bits. Floats: `-?(digits[.digits]|.digits)([eE][+-]?digits)?`,
finite. Python's own `int` and `float` take blanks, `+`, `_`, other scripts, `nan` and `infinity`, none of which may
get in. Leading zeros and `-0` are within the grammar. Source: the command contract, "Conventions".

The numbers of a vector are read in bulk, by `floats32`. Its twin, ten times as fast, is in `_numbers.pyx`.

A text is a number in one way only, so a match that fails has tried each byte a bounded number of times. (Possessive
repetition, which would say so, matches wrongly in the `re` of Python before 3.11.5.)
"""

from __future__ import annotations

import re
import sys
from array import array
from math import isfinite
from typing import TYPE_CHECKING

from amemdb import native
from amemdb.limits import INT64_MAX, INT64_MIN

_INTEGER = re.compile(rb"(-?)(?=[0-9])0*([0-9]{0,19})")
_INTEGER_BYTES_MAX = 20
"""Longest integer without needless zeros; a longer text loses them first, as `int` refuses thousands of digits."""
_FLOAT_PATTERN = rb"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FLOAT = re.compile(_FLOAT_PATTERN)
_FLOATS = re.compile(_FLOAT_PATTERN + rb"(?:\n" + _FLOAT_PATTERN + rb")*")


def parse_integer(text: bytes) -> int | None:
    """The integer that `text` spells, or None if it is no integer of the grammar or leaves 64 bits."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    value = int(text) if len(text) <= _INTEGER_BYTES_MAX else int(match[1] + (match[2] or b"0"))
    return value if INT64_MIN <= value <= INT64_MAX else None


def parse_float(text: bytes) -> float | None:
    """The finite float that `text` spells, or None."""
    if _FLOAT.fullmatch(text) is None:
        return None
    value = float(text)
    return None if value in (float("inf"), float("-inf")) else value


def plain_floats32(tokens: list[bytes]) -> bytes | None:
    """The numbers that `tokens` spell, as little-endian float32; None if one is no number, or not finite as float32.

    Rounded to float64 first, as `float` does, and then to float32.
    """
    joined = b"\n".join(tokens)
    # A token that holds the separator itself shows in the count: every match has one number more than separators.
    if _FLOATS.fullmatch(joined) is None or joined.count(b"\n") != len(tokens) - 1:
        return None
    floats = array("f", map(float, tokens))
    if not isfinite(sum(floats)):  # in float64, which no sum of so few float32 can leave
        return None
    if sys.byteorder == "big":
        floats.byteswap()
    return floats.tobytes()


def plain_numbers_end(argv: list[bytes], start: int, words: frozenset[bytes]) -> int:
    """The index of the first token from `start` on that is one of `words`, in any case; `len(argv)` if none is."""
    for index in range(start, len(argv)):
        token = argv[index]
        if token >= b":" and token.upper() in words:  # the byte behind the nine: no number begins above it
            return index
    return len(argv)


if TYPE_CHECKING or not native.ENABLED:
    floats32, numbers_end = plain_floats32, plain_numbers_end
else:
    from amemdb.protocol import _numbers

    floats32, numbers_end = _numbers.floats32, _numbers.numbers_end
