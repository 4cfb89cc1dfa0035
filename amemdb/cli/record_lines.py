"""One record as a line: for people, with long contents shortened, or as JSON, complete.

In JSON, text is a string, bytes that are no UTF-8 are `{"base64": "…"}` as everywhere, and a vector is a list of its
numbers, each the shortest that gives the same float32 again.
"""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import numpy as np

from amemdb.cli.folders import instant
from amemdb.cli.showing import quoted
from amemdb.stores import records
from amemdb.stores.records import FIELDS, Record

KIND_NAMES = {
    kind: name for name, kind in vars(records).items() if name[0] != "_" and type(kind) is int and kind in FIELDS
}
SHOWN_BYTES_MAX = 60
SHOWN_NUMBERS_MAX = 3
_NAME_WIDTH = max(map(len, KIND_NAMES.values()))


def as_text(offset: int, time_ms: int, number: int, in_base: bool, record: Record) -> bytes:
    """Offset (or `base`), time of the frame, kind and fields; a further record of the same frame has a `+` in front."""
    place = "base" if in_base else f"{offset:,}" if number == 0 else "+"
    fields = " ".join(f"{name}={_short(name, value)}" for name, value in _named(record) if value is not None)
    line = f"{place:>14}  {instant(time_ms)}  {KIND_NAMES[record[0]]:<{_NAME_WIDTH}}  {fields}"
    return (line.rstrip() + "\n").encode("utf-8", "backslashreplace")


def as_json(offset: int, time_ms: int, number: int, in_base: bool, record: Record) -> bytes:
    """An object of offset, time, kind and fields. `base` is true for a record that a base holds at its offset."""
    line = {
        "offset": offset,
        "record": number,
        "base": in_base,
        "time_ms": time_ms,
        "time": instant(time_ms),
        "kind": KIND_NAMES[record[0]],
        "fields": {name: _complete(name, value) for name, value in _named(record)},
    }
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _named(record: Record) -> list[tuple[str, Any]]:
    """The fields with their names; one that a newer version added has its place for a name."""
    names = FIELDS[record[0]]
    more = [f"field_{place}" for place in range(len(names) + 1, len(record))]
    return list(zip((*names, *more), record[1:], strict=False))


def _short(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        numbers = _numbers(value) if name == "vector" else None
        if numbers is not None:
            more = f", … {len(numbers)} numbers" if len(numbers) > SHOWN_NUMBERS_MAX else ""
            return f"[{', '.join(map(str, numbers[:SHOWN_NUMBERS_MAX]))}{more}]"
        if len(value) <= SHOWN_BYTES_MAX:
            return quoted(value)
        return f"{quoted(_beginning(value))}… ({len(value):,} bytes)"
    if isinstance(value, int) and name.endswith("at_ms"):
        return "never" if value == 0 and name == "expire_at_ms" else instant(value)
    return str(value)


def _beginning(value: bytes) -> bytes:
    """What is shown of a long value: no character of UTF-8 is cut in the middle."""
    end = SHOWN_BYTES_MAX
    while end > SHOWN_BYTES_MAX - 3 and value[end] & 0xC0 == 0x80:
        end -= 1
    return value[:end]


def _complete(name: str, value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    if name == "vector":
        numbers = _numbers(value)
        return numbers if numbers is not None else _base64(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return _base64(value)


def _base64(value: bytes) -> dict[str, str]:
    return {"base64": b64encode(value).decode("ascii")}


def _numbers(vector: bytes) -> list[float] | None:
    """The numbers of a vector; None if they cannot be told."""
    if len(vector) % 4:
        return None
    array = np.frombuffer(vector, "<f4")
    return [float(text) for text in array.astype(str)] if np.isfinite(array).all() else None
