"""Vectors from the wire: the tokens of a command become float32, or a refusal that says which component is wrong.

The parser of a command cannot do this, as only the namespace knows the dimension. A vector is carried as what a record
holds, little-endian float32: what came as `FP32` goes to the log and the index as it is. Decimals are read in bulk
(`amemdb.protocol.numbers`); only a vector that is refused is looked at number by number. Rounding to float32 is part
of reading, so what overflows there is not finite, and what is all zeros there has no direction.

More than `LOOP_TOKENS_MAX` numbers are read in a thread, which takes some tens of microseconds to begin with.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from amemdb import native
from amemdb.commands.context import Context, Deferred
from amemdb.errors import CommandError, printable
from amemdb.index.half import rounded16
from amemdb.index.similarity import COSINE, Vector
from amemdb.limits import DIMENSION_MAX, FLOAT16_MAX
from amemdb.protocol.numbers import floats32, parse_float

_LOOKED_AT = 64
"""Numbers of a vector that was refused are looked at so many at a time, until there is one among them that is none."""
_NOT_FINITE = (b"nan", b"inf", b"infinity")
FLOAT_BYTES = 4
LOOP_TOKENS_MAX = 8192 if native.ENABLED else 2048
"""Numbers that are read on the event loop: what takes about a tenth of a millisecond, and one without the twin."""


def components(vector: bytes) -> Vector:
    """The components of a vector, which are not copied."""
    view: Vector = np.frombuffer(vector, "<f4")
    return view


def vector_of(tokens: list[bytes] | bytes, dim: int, metric: bytes) -> bytes:
    """The vector of exactly `dim` components; `tokens` as `parsing.vector_tokens` gives them."""
    if isinstance(tokens, bytes):
        if len(tokens) != FLOAT_BYTES * dim:
            count, rest = divmod(len(tokens), FLOAT_BYTES)
            given = f"{len(tokens)} bytes" if rest else f"{count} in {len(tokens)} bytes"
            raise CommandError(f"vector must have {dim} components, {FLOAT_BYTES * dim} bytes of float32; got {given}")
    elif len(tokens) != dim:
        _refuse_words(tokens)
        raise CommandError(f"vector must have {dim} components, got {len(tokens)}")
    vector = _finite(tokens)
    if metric == COSINE and not components(vector).any():
        raise CommandError("vector must not be all zeros (as float32) under metric cosine: it has no direction")
    return vector


def rounded_to_16(vector: bytes, metric: bytes) -> bytes:
    """The nearest vector that is exact in 16 bits, as float32. Refused if that is infinite or has no direction."""
    rounded = rounded16(components(vector))
    if not np.isfinite(rounded).all():
        place = int(np.argmin(np.isfinite(rounded)))
        given = str(components(vector)[place])
        raise CommandError(
            f"component {place + 1} of the vector must be from -{FLOAT16_MAX:g} to {FLOAT16_MAX:g} under quant f16, "
            f"got '{given}'"
        )
    if metric == COSINE and not rounded.any():
        raise CommandError("vector must not be all zeros (as float16) under metric cosine: it has no direction")
    return rounded.tobytes()


def any_vector(tokens: list[bytes] | bytes) -> bytes:
    """The vector, of whatever dimension: all that can be said where there is no namespace."""
    count = len(tokens)
    if isinstance(tokens, bytes):
        if count % FLOAT_BYTES:
            raise CommandError(f"vector must be a whole number of float32, {FLOAT_BYTES} bytes each, got {count} bytes")
        count //= FLOAT_BYTES
    if not 0 < count <= DIMENSION_MAX:
        raise CommandError(f"vector must have 1 to {DIMENSION_MAX} components, got {count}")
    return _finite(tokens)


def is_long(tokens: list[bytes] | bytes) -> bool:
    """Whether to read these tokens off the loop, by `read_off_loop`."""
    return isinstance(tokens, list) and len(tokens) > LOOP_TOKENS_MAX


def read_off_loop(read: Callable[[], bytes], go_on: Callable[[Context, bytes], Any]) -> Deferred:
    """Have `read` run in a thread and `go_on` with its vector on the loop. What `read` refuses is refused."""

    def work() -> bytes | CommandError:
        try:
            return read()
        except CommandError as error:
            return error

    def finish(ctx: Context, vector: bytes | CommandError) -> Any:
        if isinstance(vector, CommandError):
            raise vector
        return go_on(ctx, vector)

    return Deferred(work, finish)


def _finite(tokens: list[bytes] | bytes) -> bytes:
    if isinstance(tokens, list):
        vector = floats32(tokens)
        if vector is None:
            raise _refusal(tokens)
        return vector
    finite = np.isfinite(components(tokens))
    if not finite.all():
        place = int(np.argmin(finite))
        raise _not_finite(place, str(components(tokens)[place]))
    return tokens


def _refuse_words(tokens: list[bytes]) -> None:
    """A word among the components is an option that the command does not have."""
    for token in tokens:
        if token[:1].isalpha() and token.lower() not in _NOT_FINITE:
            raise CommandError(f"syntax error: '{printable(token)}' is neither an option nor a component of the vector")


def _refusal(tokens: list[bytes]) -> CommandError:
    """Why these are no numbers, or not as float32."""
    _refuse_words(tokens)
    for start in range(0, len(tokens), _LOOKED_AT):
        if floats32(tokens[start : start + _LOOKED_AT]) is None:
            return _first_refusal(tokens, start)
    raise AssertionError("a vector was refused though each component is a number")


def _first_refusal(tokens: list[bytes], start: int) -> CommandError:
    for place in range(start, len(tokens)):
        value = parse_float(tokens[place])
        if value is None:
            given = printable(tokens[place])
            return CommandError(f"component {place + 1} of the vector must be a finite number, got '{given}'")
        if not isfinite(array("f", (value,))[0]):
            return _not_finite(place, printable(tokens[place]))
    raise AssertionError("a vector was refused though each component is a number")


def _not_finite(place: int, text: str) -> CommandError:
    return CommandError(f"component {place + 1} of the vector must be finite as float32, got '{text}'")
