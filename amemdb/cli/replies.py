"""How a reply is shown: as blocks and tables for a reader, as JSON for a program, or as bare values.

`pretty` goes by the reply's shape: many objects with labels are a table, one is a block of aligned lines, names are a
numbered list. `as_json` is one line a reply; bytes that are no text are `{"base64": …}` as in the import format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from amemdb.cli.showing import moment, quoted, readable
from amemdb.client.exporter import text_of

PLAIN = frozenset({b"OK", b"QUEUED", b"PONG", b"RESET"})
"""Replies that say nothing but this, shown without quotes."""
MOMENTS_MS = frozenset(
    {b"at", b"timestamp", b"created", b"expires_at", b"stored_at", b"updated_at", b"oldest_ts", b"newest_ts"}
)
LINES_OF_TEXT = frozenset({b"INFO", b"HELP"})
PAGES = (b"SCAN", b".PAGE")
ROLE_STYLES = {b"user": "cyan", b"assistant": "green", b"system": "magenta", b"tool": "yellow"}
SUMMARY_FIELDS = (b"text", b"version", b"updated_at")


# -- for a reader ------------------------------------------------------------------------------------


def pretty(argv: list[bytes], reply: Any) -> RenderableType:
    """What a reader sees of the reply to `argv`."""
    if isinstance(reply, Exception):
        return Text(f"(error) {readable(error_line(reply))}", style="red")
    command = argv[0].upper() if argv else b""
    if isinstance(reply, (bytes, str)) and _is_lines(argv):
        return Text(
            readable(reply.replace(b"\r\n", b"\n") if isinstance(reply, bytes) else reply, lines=True).rstrip("\n")
        )
    if isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], list) and command.endswith(PAGES):
        more = Text("no more" if reply[0] == b"0" else f"cursor of the next page: {readable(reply[0])}", style="dim")
        return Group(_value(reply[1]), more)
    if command == b"AMEM.SUMMARY.GET" and isinstance(reply, list) and len(reply) == 3:
        return _block({SUMMARY_FIELDS[0]: reply[0], SUMMARY_FIELDS[1]: reply[1], SUMMARY_FIELDS[2]: reply[2] * 1000})
    return _value(reply)


def _is_lines(argv: list[bytes]) -> bool:
    words = {word.upper() for word in argv[:2]}
    return bool(words & LINES_OF_TEXT) or words == {b"CLIENT", b"LIST"} or words == {b"CLIENT", b"INFO"}


def _value(value: Any) -> RenderableType:
    if isinstance(value, dict):
        return _block(value) if value else Text("(empty)", style="dim")
    if isinstance(value, (list, set, tuple)):
        return _several(list(value))
    if isinstance(value, bytes) and value not in PLAIN:
        return Text(quoted(value))
    return _scalar(b"", value)


def _several(items: list[Any]) -> RenderableType:
    if not items:
        return Text("(empty)", style="dim")
    if all(isinstance(item, dict) and item for item in items):
        flat = not any(isinstance(field, (list, dict)) for item in items for field in item.values())
        return _table(items) if flat else _numbered(items)
    return _numbered(items)


def _numbered(items: list[Any]) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for number, item in enumerate(items, 1):
        shown = (
            Text(f"(error) {readable(error_line(item))}", style="red") if isinstance(item, Exception) else _value(item)
        )
        grid.add_row(f"{number})", shown)
    return grid


def _table(items: list[dict[bytes, Any]]) -> RenderableType:
    """One row an object. A column that holds nothing in any row is left out."""
    labels = list(dict.fromkeys(label for item in items for label in item))
    shown = [label for label in labels if any(item.get(label) is not None for item in items)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for label in shown:
        numeric = all(isinstance(item.get(label), (int, float, type(None))) for item in items)
        wide = any(isinstance(item.get(label), bytes) and len(item[label]) > 24 for item in items)
        table.add_column(
            readable(label),
            justify="right" if numeric and label not in MOMENTS_MS else "left",
            overflow="fold",
            no_wrap=not wide,
            ratio=None,
        )
    for item in items:
        style = ROLE_STYLES.get(item.get(b"role") or b"", "")
        table.add_row(*(_cell(label, item.get(label), style if label == b"role" else "") for label in shown))
    count = len(items)
    return Group(table, Text(f"{count} {'row' if count == 1 else 'rows'}", style="dim"))


def _cell(label: bytes, value: Any, style: str) -> Text:
    if value is None:
        return Text("–", style="dim")
    text = _scalar(label, value)
    text.style = style or text.style
    return text


def _block(fields: dict[Any, Any]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in fields.items():
        nested = isinstance(value, (list, dict, set))
        name = readable(label) if isinstance(label, bytes) else str(label)
        grid.add_row(name, _value(value) if nested else _scalar(label, value))
    return grid


def _scalar(label: Any, value: Any) -> Text:
    if value is None:
        return Text("(nil)", style="dim")
    if isinstance(value, bool):
        return Text("true" if value else "false")
    if isinstance(value, int):
        if label in MOMENTS_MS:
            return Text("never", style="dim") if value < 0 else Text(moment(value))
        return Text(f"(integer) {value}" if label == b"" else str(value))
    if isinstance(value, float):
        return Text(f"{value:.4f}" if label == b"similarity" else repr(value))
    if isinstance(value, bytes):
        return Text(readable(value, lines=True))
    return Text(readable(str(value), lines=True))


# -- for a program -----------------------------------------------------------------------------------


def as_json(reply: Any) -> str:
    """One line; an error is an object with the member `error`."""
    return json.dumps(_plain(reply), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Exception):
        return {"error": error_line(value)}
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, dict):
        return {_member(label): _plain(item) for label, item in value.items()}
    if isinstance(value, (list, set, tuple)):
        return [_plain(item) for item in value]
    return value


def _member(label: Any) -> str:
    return label.decode("utf-8", "backslashreplace") if isinstance(label, bytes) else str(label)


def bare(reply: Any) -> Iterator[bytes]:
    """The values alone, one a line, as they are: for pipes, in the manner of redis-cli."""
    if isinstance(reply, dict):
        for label, value in reply.items():
            yield from bare(label)
            yield from bare(value)
    elif isinstance(reply, (list, set, tuple)):
        for item in reply:
            yield from bare(item)
    elif isinstance(reply, Exception):
        yield error_line(reply).encode("utf-8", "replace")
    elif isinstance(reply, bytes):
        yield reply
    else:
        yield b"" if reply is None else str(reply).encode("utf-8")


def error_line(error: Exception) -> str:
    """The server's words, with the code that redis-py took off."""
    code = getattr(error, "status_code", None)
    return f"{code} {error}" if code and not str(error).startswith(str(code)) else str(error)
