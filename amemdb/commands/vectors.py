"""Vectors from the wire: the tokens of a command become an array, or a refusal that says which component is wrong.

The parser of a command cannot do this, as only the namespace knows the dimension. All numbers of a vector are tested
by one match of the strict grammar over the joined tokens: 1,536 of them take about half a millisecond. Rounding to
float32 is part of reading, so what overflows there is not finite, and what is all zeros there has no direction.
"""

from __future__ import annotations

import re

import numpy as np

from amemdb.errors import CommandError, printable
from amemdb.index.similarity import COSINE, Vector
from amemdb.limits import DIMENSION_MAX
from amemdb.protocol.numbers import FLOAT_PATTERN, parse_float

_NUMBERS = re.compile(FLOAT_PATTERN + rb"(?:\n" + FLOAT_PATTERN + rb")*")
_NOT_FINITE = (b"nan", b"inf", b"infinity")
FLOAT_BYTES = 4


def vector_of(tokens: list[bytes] | bytes, dim: int, metric: bytes) -> Vector:
    """The vector of exactly `dim` components, little-endian float32; `tokens` as `parsing.vector_tokens` gives them."""
    if isinstance(tokens, bytes):
        if len(tokens) != FLOAT_BYTES * dim:
            count, rest = divmod(len(tokens), FLOAT_BYTES)
            given = f"{len(tokens)} bytes" if rest else f"{count} in {len(tokens)} bytes"
            raise CommandError(f"vector must have {dim} components, {FLOAT_BYTES * dim} bytes of float32; got {given}")
    elif len(tokens) != dim:
        _refuse_words(tokens)
        raise CommandError(f"vector must have {dim} components, got {len(tokens)}")
    vector = _finite(tokens)
    if metric == COSINE and not vector.any():
        raise CommandError("vector must not be all zeros (as float32) under metric cosine: it has no direction")
    return vector


def check_vector(tokens: list[bytes] | bytes) -> None:
    """Refuse what is a vector of no dimension: all that can be said where there is no namespace."""
    count = len(tokens)
    if isinstance(tokens, bytes):
        if count % FLOAT_BYTES:
            raise CommandError(f"vector must be a whole number of float32, {FLOAT_BYTES} bytes each, got {count} bytes")
        count //= FLOAT_BYTES
    if not 0 < count <= DIMENSION_MAX:
        raise CommandError(f"vector must have 1 to {DIMENSION_MAX} components, got {count}")
    _finite(tokens)


def _finite(tokens: list[bytes] | bytes) -> Vector:
    if isinstance(tokens, bytes):
        vector: Vector = np.frombuffer(tokens, "<f4")
    else:
        joined = b"\n".join(tokens)
        # A token that holds the separator itself shows in the count: every match has one number more than separators.
        if _NUMBERS.fullmatch(joined) is None or joined.count(b"\n") != len(tokens) - 1:
            _refuse_words(tokens)
            raise _not_a_number(tokens)
        with np.errstate(over="ignore"):
            vector = np.array(list(map(float, tokens)), "<f4")
    finite = np.isfinite(vector)
    if not finite.all():
        place = int(np.argmin(finite))
        text = str(vector[place]) if isinstance(tokens, bytes) else printable(tokens[place])
        raise CommandError(f"component {place + 1} of the vector must be finite as float32, got '{text}'")
    return vector


def _refuse_words(tokens: list[bytes]) -> None:
    """A word among the components is an option that the command does not have."""
    for token in tokens:
        if token[:1].isalpha() and token.lower() not in _NOT_FINITE:
            raise CommandError(f"syntax error: '{printable(token)}' is neither an option nor a component of the vector")


def _not_a_number(tokens: list[bytes]) -> CommandError:
    for place, token in enumerate(tokens):
        if parse_float(token) is None:
            return CommandError(
                f"component {place + 1} of the vector must be a finite number, got '{printable(token)}'"
            )
    raise AssertionError("a vector was refused though each component is a number")
