"""Python values as the tokens of a request: text, numbers, moments, life spans, JSON, vectors.

What can only be a mistake is refused here, before anything is sent, with an `ArgumentError` that names the argument.
Bounds are the server's to check: it knows them, and a client of another age does not.

A vector goes out as `FP32` and little-endian float32, whatever it came as. numpy is asked only about what is an array
already, so that a program without it can use this client.
"""

from __future__ import annotations

import json
import math
import operator
import sys
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, cast

from amemdb.client.errors import ArgumentError
from amemdb.protocol.reply import decimal_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.floating[Any] | np.integer[Any]]

ValueT = str | bytes | bytearray | memoryview | int | float
"""What is sent as text: a number in plain decimal, a string in UTF-8, bytes as they are."""
JsonT = Mapping[str, Any] | str | bytes
"""A JSON object, or its text."""
MomentT = int | datetime
"""Unix milliseconds, or an aware datetime."""
LifeSpanT = int | timedelta
"""Whole seconds."""
if TYPE_CHECKING:
    VectorT = Sequence[float] | FloatArray | bytes | bytearray | memoryview
    """Components, or the bytes of little-endian float32."""

Tokens = list[Any]

FLOAT_BYTES = 4
INTEGER_BITS_MAX = 1024
"""As many as a double reaches; whether fewer will do is the server's to say."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)
_OPTION_OF_VECTORS = "FP32"


def text(value: ValueT, argument: str) -> Any:
    """`value` as one token."""
    if isinstance(value, str):
        return _utf8(value, argument)
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentError(f"{argument} must be str, bytes, int or float, got {type(value).__name__}")
    return _bounded(value, argument) if isinstance(value, int) else number(value, argument)


def _utf8(value: str, argument: str) -> str | bytes:
    """`value` as it can be sent; half a surrogate pair, which `json.loads` makes out of `"\\ud800"`, cannot."""
    if value.isascii():
        return value
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"{argument} must be text that UTF-8 can hold, character {error.start + 1} is half a surrogate pair"
        ) from None


def _bounded(value: int, argument: str) -> int:
    """`value` if it has a decimal text: Python makes none of thousands of digits, and hiredis crashes over that."""
    if value.bit_length() > INTEGER_BITS_MAX:
        raise ArgumentError(
            f"{argument} must be an integer of at most {INTEGER_BITS_MAX} bits, got {value.bit_length()}"
        )
    return value


def integer(value: SupportsIndex, argument: str) -> int:
    """An integer, also one of numpy's."""
    if not isinstance(value, bool):
        try:
            return _bounded(operator.index(value), argument)
        except TypeError:
            pass
    raise ArgumentError(f"{argument} must be an integer, got {type(value).__name__}")


def number(value: SupportsFloat, argument: str) -> bytes:
    """A finite number in plain decimal."""
    try:
        real = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{argument} must be a number, got {type(value).__name__}") from None
    except OverflowError:
        raise ArgumentError(f"{argument} must be a number that a double can hold") from None
    if not math.isfinite(real):
        raise ArgumentError(f"{argument} must be a finite number, got {real}")
    return decimal_text(real)


def moment(value: MomentT, argument: str) -> int:
    """Unix milliseconds; a fraction of one is cut off."""
    if not isinstance(value, datetime):
        return integer(value, argument)
    if value.utcoffset() is None:
        raise ArgumentError(f"{argument} must be an aware datetime: without a time zone it is no moment")
    return (value - _EPOCH) // _MILLISECOND


def seconds(value: LifeSpanT, argument: str) -> int:
    """Whole seconds: to round a life span up or down would be to guess."""
    if not isinstance(value, timedelta):
        return integer(value, argument)
    if value % _SECOND:
        raise ArgumentError(f"{argument} must be whole seconds, got {value}")
    return value // _SECOND


def expiry(ttl: LifeSpanT | None, pxat: MomentT | None) -> Tokens:
    """`TTL seconds`, `PXAT milliseconds`, or nothing."""
    if ttl is not None and pxat is not None:
        raise ArgumentError("ttl and pxat cannot both be given")
    if ttl is not None:
        return ["TTL", seconds(ttl, "ttl")]
    return [] if pxat is None else ["PXAT", moment(pxat, "pxat")]


def new_expiry(ttl: LifeSpanT | None, pxat: MomentT | None, persist: bool) -> Tokens:
    """As `expiry`, or `PERSIST`; one of the three there must be."""
    if persist and (ttl is not None or pxat is not None):
        raise ArgumentError("persist cannot be given with ttl or pxat")
    tokens = ["PERSIST"] if persist else expiry(ttl, pxat)
    if not tokens:
        raise ArgumentError("one of ttl, pxat and persist must be given")
    return tokens


def json_text(value: JsonT, argument: str) -> Any:
    """A mapping as compact JSON; text and bytes as they are."""
    if isinstance(value, str):
        return _utf8(value, argument)
    if isinstance(value, bytes):
        return value
    if not isinstance(value, Mapping):
        raise ArgumentError(f"{argument} must be a mapping, or JSON as str or bytes, got {type(value).__name__}")
    try:
        document = json.dumps(dict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return document.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{argument} cannot be written as JSON: {error}") from None


def vector(components: VectorT) -> tuple[str, bytes]:
    """`FP32` and the bytes of the vector, all of it finite as float32 and at least one component long."""
    if isinstance(components, (bytes, bytearray)) or _is_raw(components):
        data = bytes(cast("bytes", components))
        if len(data) % FLOAT_BYTES:
            raise ArgumentError(f"vector must be whole float32 of {FLOAT_BYTES} bytes, got {len(data)} bytes")
        floats = array("f", data)
        if sys.byteorder == "big":
            floats.byteswap()
    elif hasattr(components, "__array__"):
        return _OPTION_OF_VECTORS, _from_numpy(components)
    else:
        floats = _from_components(components)
        data = _little_endian(floats)
    if not floats:
        raise ArgumentError("vector must have at least one component")
    # No sum of a vector's float32 leaves the range of a double, and infinities and NaN stay in it.
    if not math.isfinite(sum(floats)):
        raise _not_finite(floats)
    return _OPTION_OF_VECTORS, data


def vector_if_given(components: VectorT | None) -> tuple[str, bytes] | tuple[()]:
    """The same, or nothing where the server is to make the vector."""
    return () if components is None else vector(components)


def _is_raw(components: Any) -> bool:
    return isinstance(components, memoryview) and components.format in ("B", "b", "c")


def _from_components(components: Any) -> array[float]:
    if isinstance(components, str):
        raise ArgumentError("vector must be numbers, a numpy array, or the bytes of float32, got str")
    try:
        return array("f", components)
    except (TypeError, OverflowError, NotImplementedError) as error:  # the last for a memoryview of two dimensions
        raise ArgumentError(f"vector must be numbers, a numpy array, or the bytes of float32: {error}") from None


def _little_endian(floats: array[float]) -> bytes:
    if sys.byteorder == "big":
        floats = floats[:]
        floats.byteswap()
    return floats.tobytes()


def _from_numpy(components: Any) -> bytes:
    """One copy, into the request; an array of little-endian float32 is not converted first."""
    import numpy as np

    found = np.asarray(components)
    if found.dtype.kind not in "fiu":
        raise ArgumentError(f"vector must be an array of numbers, got dtype {found.dtype}")
    if found.ndim != 1:
        raise ArgumentError(f"vector must have one dimension, got an array of shape {found.shape}")
    if not found.size:
        raise ArgumentError("vector must have at least one component")
    with np.errstate(over="ignore"):
        floats = found.astype("<f4", copy=False)
    if not np.isfinite(floats).all():
        raise _not_finite(floats)
    return floats.tobytes()


def _not_finite(floats: Any) -> ArgumentError:
    place, value = next((place, value) for place, value in enumerate(floats, 1) if not math.isfinite(value))
    return ArgumentError(f"component {place} of the vector must be finite as float32, got {float(value)}")
