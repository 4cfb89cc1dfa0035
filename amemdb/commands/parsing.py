"""What generated parsers call: one function a kind of argument, each raising `CommandError` that names it.

A refusal says which argument, what was expected and what came, in that order.
"""

from __future__ import annotations

import json
from typing import NoReturn

from amemdb.errors import CommandError, printable
from amemdb.limits import (
    EXPIRY_AHEAD_MS_MAX,
    INT64_MAX,
    META_BYTES_MAX,
    NAME_BYTES_MAX,
    TTL_SECONDS_MAX,
)
from amemdb.protocol.numbers import numbers_end, parse_float, parse_integer

ROLES = {word: word for word in (b"system", b"user", b"assistant", b"tool")}


def name(token: bytes, argument: str) -> bytes:
    """A name of 1 to 1,024 bytes."""
    if 0 < len(token) <= NAME_BYTES_MAX:
        return token
    raise CommandError(f"{argument} must be 1 to {NAME_BYTES_MAX} bytes long, got {len(token)}")


def sized(token: bytes, argument: str, bytes_min: int, bytes_max: int) -> bytes:
    """Bytes between two lengths."""
    if bytes_min <= len(token) <= (bytes_max or len(token)):
        return token
    raise CommandError(f"{argument} must be {bytes_min} to {bytes_max} bytes long, got {len(token)}")


def integer(token: bytes, argument: str, minimum: int, maximum: int) -> int:
    """A strict integer between two bounds."""
    value = parse_integer(token)
    if value is None:
        raise CommandError(f"value is not an integer or out of range: {argument} is '{printable(token)}'")
    if not minimum <= value <= maximum:
        if maximum == INT64_MAX:
            raise CommandError(f"value is out of range: {argument} must be at least {minimum}, got {value}")
        raise CommandError(f"value is out of range: {argument} must be from {minimum} to {maximum}, got {value}")
    return value


def real(token: bytes, argument: str) -> float:
    """A strict, finite float."""
    value = parse_float(token)
    if value is None:
        raise CommandError(f"value is not a valid float: {argument} is '{printable(token)}'")
    return value


def cursor(token: bytes) -> int:
    """An unsigned 64-bit scan cursor."""
    if token.isdigit() and len(token) <= 20:
        value = int(token)
        if value < 1 << 64:
            return value
    raise CommandError(f"invalid cursor '{printable(token)}': expected the cursor of the page before, or 0")


def role(token: bytes) -> bytes:
    """A speaker's role in lower case."""
    found = ROLES.get(token) or ROLES.get(token.lower())
    if found is None:
        raise CommandError(f"role must be system, user, assistant or tool, got '{printable(token)}'")
    return found


def choice(token: bytes, argument: str, words: tuple[bytes, ...]) -> bytes:
    """One of `words` in lower case."""
    word = token.lower()
    if word not in words:
        expected = " or ".join(w.decode() for w in words)
        raise CommandError(f"{argument} must be {expected}, got '{printable(token)}'")
    return word


def moment(token: bytes, argument: str, now_ms: int) -> int:
    """Unix milliseconds from 0 to 100 years ahead of `now_ms`."""
    return integer(token, argument, 0, now_ms + EXPIRY_AHEAD_MS_MAX)


def ttl(token: bytes, now_ms: int) -> int:
    """`TTL seconds` as `expire_at_ms`."""
    seconds = parse_integer(token)
    if seconds is None or not 1 <= seconds <= TTL_SECONDS_MAX:
        raise CommandError(
            f"TTL must be a whole number of seconds from 1 to {TTL_SECONDS_MAX}, got '{printable(token)}'"
        )
    return now_ms + 1000 * seconds


def pxat(token: bytes, now_ms: int) -> int:
    """`PXAT milliseconds` as `expire_at_ms`; a time in the past stays in the past and is never 0, which is never."""
    value = parse_integer(token)
    if value is None or value > now_ms + EXPIRY_AHEAD_MS_MAX:
        raise CommandError(
            f"PXAT must be a whole number of Unix milliseconds, at most 100 years ahead, got '{printable(token)}'"
        )
    return max(value, 1)


def key_expiry(token: bytes, base_ms: int, unit_ms: int, minimum: int, now_ms: int, command: str) -> int:
    """`expire_at_ms` of a plain key: `base_ms` and a number of units, never 0, which is never."""
    value = parse_integer(token)
    if value is None:
        raise CommandError("value is not an integer or out of range")
    expire_at_ms = base_ms + value * unit_ms
    if value < minimum or expire_at_ms > now_ms + EXPIRY_AHEAD_MS_MAX:
        raise CommandError(f"invalid expire time in '{command}' command")
    return max(expire_at_ms, 1)


def json_object(token: bytes, argument: str) -> bytes:
    """A JSON object in UTF-8, kept as it was sent."""
    if len(token) > META_BYTES_MAX:
        raise CommandError(f"{argument} must be at most {META_BYTES_MAX} bytes long, got {len(token)}")
    try:
        value = json.loads(token.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise CommandError(f"{argument} must be a JSON object, got '{printable(token)}'")
    return token


def vector_tokens(argv: list[bytes], start: int, words: frozenset[bytes]) -> tuple[list[bytes] | bytes, int]:
    """The tokens of a vector from `start` on and the index behind them.

    Either a list of number tokens, up to the first token that is one of the option `words`, or the bytes behind `FP32`.
    """
    if start < len(argv) and argv[start].upper() == b"FP32":
        if start + 1 == len(argv):
            raise CommandError("syntax error: FP32 needs the bytes of the vector")
        return argv[start + 1], start + 2
    end = numbers_end(argv, start, words)
    return argv[start:end], end


def unknown_option(token: bytes, expected: str = "") -> NoReturn:
    """Refuse a word that is none of the command's options, which `expected` tells."""
    raise CommandError(f"syntax error: unexpected '{printable(token)}'{expected}")


def repeated_option(token: bytes) -> NoReturn:
    """Refuse an option that was given before, or that excludes one given before."""
    raise CommandError(f"syntax error: '{printable(token)}' is repeated or excluded by another option")


def missing_value(token: bytes) -> NoReturn:
    """Refuse an option word at the very end that needs a value."""
    raise CommandError(f"syntax error: '{printable(token)}' needs a value")


def missing_option(words: str) -> NoReturn:
    """Refuse a command that lacks the option it cannot do without."""
    raise CommandError(f"syntax error: one of {words} is needed")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)
