"""Strings as counters: INCR, DECR and their kin. The expiry of a counter stays.

Integers are 64 bits. INCRBYFLOAT adds exactly, in decimal, and rounds to 17 places behind the point, without an
exponent and without trailing zeros. Redis adds in the C compiler's `long double`, so the two differ where more than
about 18 digits matter (adding 0.5 to 1e30 is visible here), and above 1.8e308, which is refused here.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

from amemdb.commands.context import Context
from amemdb.commands.declare import Bytes, Integer, Key, command
from amemdb.commands.strings import string
from amemdb.errors import CommandError
from amemdb.limits import INT64_MAX, INT64_MIN, NO_EXPIRY
from amemdb.protocol.numbers import parse_float, parse_integer
from amemdb.protocol.reply import BULK, INTEGER
from amemdb.stores import records

FAMILY = "string"
KEY = Key("key")

_NUMBER_BYTES_MAX = 5 * 1024
"""A float may not be written longer than this, as in Redis."""
_SUMS = decimal.Context(prec=400, rounding=decimal.ROUND_HALF_EVEN)
"""309 digits before the point and enough behind it that rounding twice does not show."""
_PLACES = Decimal("1e-17")


@command("INCR", KEY, access="write", reply=INTEGER, family=FAMILY, summary="Add 1.")
def incr(ctx: Context, key: bytes) -> int:
    """A missing key counts as 0."""
    return _increment(ctx, key, 1)


@command("DECR", KEY, access="write", reply=INTEGER, family=FAMILY, summary="Subtract 1.")
def decr(ctx: Context, key: bytes) -> int:
    """A missing key counts as 0."""
    return _increment(ctx, key, -1)


@command("INCRBY", KEY, Integer("increment"), access="write", reply=INTEGER, family=FAMILY, summary="Add an integer.")
def incrby(ctx: Context, key: bytes, increment: int) -> int:
    """A missing key counts as 0."""
    return _increment(ctx, key, increment)


@command(
    "DECRBY", KEY, Integer("decrement"), access="write", reply=INTEGER, family=FAMILY, summary="Subtract an integer."
)
def decrby(ctx: Context, key: bytes, decrement: int) -> int:
    """A missing key counts as 0."""
    if decrement == INT64_MIN:
        raise CommandError("decrement would overflow")
    return _increment(ctx, key, -decrement)


@command(
    "INCRBYFLOAT", KEY, Bytes("increment"), access="write", reply=BULK, family=FAMILY, summary="Add a decimal number."
)
def incrbyfloat(ctx: Context, key: bytes, increment: bytes) -> bytes:
    """A missing key counts as 0; the sum as it is stored."""
    text = string(ctx, key)
    total = _SUMS.add(_decimal(b"0" if text is None else text), _decimal(increment))
    if float(total) in (float("inf"), float("-inf")):
        raise CommandError("increment would produce NaN or Infinity")
    result = _plain(total)
    _replace(ctx, key, result, existed=text is not None)
    return result


def _increment(ctx: Context, key: bytes, increment: int) -> int:
    text = string(ctx, key)
    value = 0 if text is None else parse_integer(text)
    if value is None:
        raise CommandError("value is not an integer or out of range")
    value += increment
    if not INT64_MIN <= value <= INT64_MAX:
        raise CommandError("increment or decrement would overflow")
    _replace(ctx, key, b"%d" % value, existed=text is not None)
    return value


def _replace(ctx: Context, key: bytes, value: bytes, existed: bool) -> None:
    """Set the key and keep the expiry that it had, unless that had passed."""
    expire_at_ms = ctx.stores.keys.expire_at_ms(ctx.session.db, key) if existed else NO_EXPIRY
    ctx.emit((records.KEY_SET, ctx.session.db, key, value, expire_at_ms))


def _decimal(text: bytes) -> Decimal:
    """The number that `text` spells, exactly."""
    if len(text) < _NUMBER_BYTES_MAX and parse_float(text) is not None:
        try:
            return Decimal(text.decode("ascii"))
        except decimal.InvalidOperation:  # an exponent beyond what any sum could show
            pass
    raise CommandError("value is not a valid float")


def _plain(value: Decimal) -> bytes:
    """`value` in plain digits, rounded to 17 places.

    >>> _plain(Decimal("0.1") + Decimal("0.2")), _plain(Decimal("-0.0")), _plain(Decimal("5e3"))
    (b'0.3', b'0', b'5000')
    """
    text = format(_SUMS.quantize(value, _PLACES), "f").rstrip("0").rstrip(".")
    return b"0" if text == "-0" else text.encode("ascii")
