"""The import format: one JSON object a line, and the command that a line becomes.

`KINDS` says which fields each `kind` of line has, in the order in which they go over the wire, with the option word in
front of a value where there is one. A line is checked completely here, before anything is sent: kind, field names,
presence, types and bounds. What only the server can know (whether a session exists, the dimension of a namespace) is
the server's to refuse. `docs/import-format.md` is the same for people.

Text is a JSON string and goes over the wire as UTF-8; bytes that are no text are `{"base64": "…"}`. An optional field
that is null counts as not given. A line becomes exactly one command, but for the two that `amemdb export` puts around
a file so that a part of it does not pass for the whole: of those `MARKS` has the kinds.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any

from amemdb.errors import printable
from amemdb.limits import (
    DIMENSION_MAX,
    FACTS_MAX,
    GRAPH_LINKS_MAX,
    GRAPH_LINKS_MIN,
    GRAPH_WIDTH_MAX,
    ID_BYTES_MAX,
    INT64_MAX,
    LANGUAGE_BYTES_MAX,
    META_BYTES_MAX,
    NAME_BYTES_MAX,
    TTL_SECONDS_MAX,
    WINDOW_MAX,
)

Argv = list[bytes]

FORMAT_VERSION = 1
"""What `begin` says. A file of a later version holds what this one would misread."""
NO_COMMAND = b""


class LineError(Exception):
    """A line that is not of the format; the text is one line that names the field and what was expected."""


class _Unfit(Exception):
    """A value is not what its field takes; the text says what that is."""


# -- values ------------------------------------------------------------------------------------------


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise _Unfit("text of whole characters (there is half a surrogate pair in it)") from None
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _base64(value["base64"])
    raise _Unfit('text, or {"base64": "…"}')


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _Unfit("base64 text") from None


def _sized(bytes_max: int) -> Callable[[Any], bytes]:
    def read(value: Any) -> bytes:
        data = _bytes(value)
        if not 0 < len(data) <= bytes_max:
            raise _Unfit(f"1 to {bytes_max} bytes, got {len(data)}")
        return data

    return read


def _integer(minimum: int, maximum: int = INT64_MAX, what: str = "an integer") -> Callable[[Any], bytes]:
    bounds = f"{what} of at least {minimum}" if maximum == INT64_MAX else f"{what} from {minimum} to {maximum}"

    def read(value: Any) -> bytes:
        if type(value) is not int or not minimum <= value <= maximum:
            raise _Unfit(bounds)
        return b"%d" % value

    return read


def _word(*words: str) -> Callable[[Any], bytes]:
    def read(value: Any) -> bytes:
        if not isinstance(value, str) or value.lower() not in words:
            raise _Unfit(f"{', '.join(words[:-1])} or {words[-1]}")
        return value.lower().encode()

    return read


def _object_text(value: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        raise _Unfit("a JSON object of finite numbers, not nested this deep") from None
    return _bytes(text)


def _object(value: Any) -> bytes:
    """An object as its compact text, or the text of one as it is."""
    if isinstance(value, str):
        data = _bytes(value)
        try:
            value = json.loads(value, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise _Unfit("a JSON object, or the text of one") from None
    else:
        data = _object_text(value) if isinstance(value, dict) else b""
    if not isinstance(value, dict):
        raise _Unfit("a JSON object, or the text of one")
    if len(data) > META_BYTES_MAX:
        raise _Unfit(f"a JSON object of at most {META_BYTES_MAX} bytes, got {len(data)}")
    return data


def _bytes_or_object(value: Any) -> bytes:
    if isinstance(value, dict) and value.keys() != {"base64"}:
        return _object_text(value)
    return _bytes(value)


def _vector(value: Any) -> bytes:
    """Little-endian float32. A number that no float32 holds is refused, as the server would."""
    if isinstance(value, dict) and value.keys() == {"base64"}:
        data = _base64(value["base64"])
        if not data or len(data) % 4:
            raise _Unfit(f"float32 values in base64, 4 bytes each, got {len(data)} bytes")
    elif isinstance(value, list) and value and all(type(number) in (int, float) for number in value):
        try:
            data = struct.pack(f"<{len(value)}f", *value)
        except (OverflowError, struct.error):
            raise _Unfit("numbers within the range of float32") from None
    else:
        raise _Unfit('a list of numbers, or {"base64": "…"} of little-endian float32')
    dimension = len(data) // 4
    if dimension > DIMENSION_MAX:
        raise _Unfit(f"at most {DIMENSION_MAX} numbers, got {dimension}")
    if not all(map(isfinite, struct.unpack(f"<{dimension}f", data))):
        raise _Unfit("finite numbers")
    return data


# -- kinds -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """One field: how its value is read, the option word before it, and whether a line can do without it.

    `alias` is a second name for it; a line may use one of the two.
    """

    name: str
    read: Callable[[Any], bytes]
    word: bytes | None = None
    required: bool = False
    alias: str = ""


@dataclass(frozen=True)
class Kind:
    """What one kind of line becomes: the command's name, then its fields in the order of the wire."""

    command: bytes
    fields: tuple[Field, ...]


def _needed(name: str, read: Callable[[Any], bytes], word: bytes | None = None, alias: str = "") -> Field:
    return Field(name, read, word, required=True, alias=alias)


_name = _sized(NAME_BYTES_MAX)
_SESSION, _AGENT, _KEY = _needed("session", _name), _needed("agent", _name), _needed("key", _name)
_CONTENT = _needed("content", _bytes)
_SECONDS = _integer(1, TTL_SECONDS_MAX, "a whole number of seconds")
_MILLISECONDS = "a whole number of Unix milliseconds"
_EXPIRY = (Field("ttl", _SECONDS, b"TTL"), Field("expire_at_ms", _integer(1, what=_MILLISECONDS), b"PXAT"))
_AT_FIELD = Field("at", _integer(0, what=_MILLISECONDS))
_AT = Field("at", _integer(0, what=_MILLISECONDS), b"AT")
_ID = Field("id", _sized(ID_BYTES_MAX), b"ID")
_ROLE = _needed("role", _word("system", "user", "assistant", "tool"))

KINDS: dict[str, Kind] = {
    "session": Kind(
        b"AMEM.CONV.CREATE",
        (_SESSION, Field("window", _integer(1, WINDOW_MAX), b"WINDOW"), *_EXPIRY),
    ),
    "namespace": Kind(
        b"AMEM.SEM.CREATE",
        (
            _AGENT,
            _needed("dim", _integer(1, DIMENSION_MAX)),
            Field("metric", _word("cosine", "ip", "l2"), b"METRIC"),
            Field("m", _integer(GRAPH_LINKS_MIN, GRAPH_LINKS_MAX), b"M"),
            Field("ef_construction", _integer(1, GRAPH_WIDTH_MAX), b"EF_CONSTRUCTION"),
            Field("ef_search", _integer(1, GRAPH_WIDTH_MAX), b"EF_SEARCH"),
            Field("quant", _word("f32", "f16"), b"QUANT"),
            Field("maxfacts", _integer(1, FACTS_MAX), b"MAXFACTS"),
            Field("model", _name, b"MODEL"),
            Field("lang", _sized(LANGUAGE_BYTES_MAX), b"LANG"),
        ),
    ),
    "turn": Kind(
        b"AMEM.CONV.APPEND",
        (_SESSION, _ROLE, _CONTENT, _ID, _AT, Field("meta", _object, b"META")),
    ),
    "fact": Kind(
        b"AMEM.SEM.STORE",
        (
            _AGENT,
            _KEY,
            _CONTENT,
            _needed("vector", _vector, b"FP32"),
            *_EXPIRY,
            Field("source", _bytes, b"SOURCE"),
            Field("trust", _word("trusted", "untrusted"), b"TRUST"),
            Field("meta", _object, b"META"),
        ),
    ),
    "note": Kind(b"AMEM.WORK.SET", (_SESSION, _KEY, _needed("content", _bytes, alias="value"), *_EXPIRY)),
    "event": Kind(
        b"AMEM.EPIS.LOG",
        (
            _AGENT,
            _needed("type", _bytes),
            _CONTENT,
            Field("metadata", _bytes_or_object, b"METADATA", alias="meta"),
            _AT,
            _ID,
        ),
    ),
    "retention": Kind(
        b"AMEM.EPIS.RETAIN",
        (
            _AGENT,
            Field("maxlen", _integer(1), b"MAXLEN"),
            Field("maxage", _SECONDS, b"MAXAGE"),
        ),
    ),
    "summary": Kind(b"AMEM.SUMMARY.SET", (_AGENT, _CONTENT)),
    "begin": Kind(NO_COMMAND, (_needed("version", _integer(1, FORMAT_VERSION)), _AT_FIELD)),
    "end": Kind(NO_COMMAND, (_needed("lines", _integer(0)), Field("counts", _object))),
}
MARKS = ("begin", "end")

_FIELD_NAMES = {
    kind: frozenset(name for field in shape.fields for name in (field.name, field.alias) if name) | {"kind"}
    for kind, shape in KINDS.items()
}


# -- a line ------------------------------------------------------------------------------------------


def parse_line(line: bytes) -> tuple[str, Argv]:
    """The kind of a line and the command that it becomes; `LineError` if it is not of the format."""
    entry = _parse_json(line)
    kind = entry.get("kind")
    shape = KINDS.get(kind) if isinstance(kind, str) else None
    if shape is None or not isinstance(kind, str):
        names = [name for name in KINDS if name not in MARKS]
        raise LineError(f"kind: expected {', '.join(names[:-1])} or {names[-1]}, got {_shown(kind)}")
    unknown = entry.keys() - _FIELD_NAMES[kind]
    if unknown:
        fields = ", ".join(field.name for field in shape.fields)
        raise LineError(f"{_quoted(min(unknown))}: no field of a {kind}, which has {fields}")
    if entry.get("ttl") is not None and entry.get("expire_at_ms") is not None:
        raise LineError("ttl: excludes expire_at_ms, give one of them")
    argv = [shape.command]
    for field in shape.fields:
        name, value = _given(entry, field)
        if value is None:
            if field.required:
                raise LineError(f"{field.name}: missing, a {kind} needs it")
            continue
        if field.word is not None:
            argv.append(field.word)
        try:
            argv.append(field.read(value))
        except _Unfit as expected:
            raise LineError(f"{name}: expected {expected}{_instead(value)}") from None
    return kind, argv


def _given(entry: dict[str, Any], field: Field) -> tuple[str, Any]:
    value, other = entry.get(field.name), entry.get(field.alias) if field.alias else None
    if other is None:
        return field.name, value
    if value is not None:
        raise LineError(f"{field.alias}: is another word for {field.name}, give one of them")
    return field.alias, other


def _parse_json(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line.decode(), object_pairs_hook=_pairs, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise LineError(f"expected UTF-8, byte {error.start + 1} is not") from None
    except json.JSONDecodeError as error:
        raise LineError(f"expected a JSON object: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise LineError(f"expected a JSON object: {error}") from None
    if not isinstance(entry, dict):
        raise LineError(f"expected a JSON object, got {_shown(entry)}")
    return entry


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for name, value in pairs:
        if name in entry:
            raise LineError(f"{_quoted(name)}: given twice")
        entry[name] = value
    return entry


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")


def _instead(value: Any) -> str:
    """What came instead, where that is short and says something."""
    return f", got {_shown(value)}" if isinstance(value, str | int | float) and len(str(value)) <= 40 else ""


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else _quoted(json.dumps(value))


def _quoted(text: str) -> str:
    return printable(text.encode("utf-8", "replace"))
