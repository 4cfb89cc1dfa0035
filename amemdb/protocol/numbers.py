"""The strict number grammar of the wire.

Integers: optional `-`, ASCII digits, within 64 bits. Floats: `-?(digits[.digits]|.digits)([eE][+-]?digits)?`,
finite. Python's own `int` and `float` take blanks, `+`, `_`, other scripts, `nan` and `infinity`, none of which may
get in. Leading zeros and `-0` are within the grammar. Source: the command contract, "Conventions".

A text is a number in one way only, so a match that fails has tried each byte a bounded number of times. (Possessive
repetition, which would say so, matches wrongly in the `re` of Python before 3.11.5.)
"""

from __future__ import annotations

import re

from amemdb.limits import INT64_MAX, INT64_MIN

_INTEGER = re.compile(rb"(-?)(?=[0-9])0*([0-9]{0,19})")
_INTEGER_BYTES_MAX = 20
"""Longest integer without needless zeros; a longer text loses them first, as `int` refuses thousands of digits."""
FLOAT_PATTERN = rb"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_FLOAT = re.compile(FLOAT_PATTERN)


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
