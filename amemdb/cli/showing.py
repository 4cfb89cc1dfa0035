"""How values look on a screen: stored text that cannot harm the terminal, moments, durations, sizes.

What is stored was written by others. Control characters would move the cursor, change the title or fake output, and
characters that turn the direction of text can make one thing look like another: all of them are shown as escapes.
Everything goes to the screen through `readable` or `quoted`, on a `console` that knows no markup.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta

from rich.console import Console

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\a": "\\a", "\b": "\\b"}
_TURNS_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def console() -> Console:
    """Standard output, on which every string is what it says: rich reads brackets and colons in it as nothing more."""
    return Console(highlight=False, markup=False, emoji=False)


def readable(data: bytes | str, lines: bool = False) -> str:
    """`data` as text without anything that a terminal would act upon; with `lines`, line feeds stay what they are."""
    text = data.decode("utf-8", "surrogateescape") if isinstance(data, bytes) else data
    if text.isprintable() and not (_TURNS_DIRECTION & set(text)):
        return text
    return "".join(character if character == "\n" and lines else _shown(character) for character in text)


def quoted(data: bytes) -> str:
    """`data` between double quotes, as a line of the prompt would take it."""
    return '"' + readable(data.replace(b"\\", b"\\\\").replace(b'"', b'\\"')) + '"'


def _shown(character: str) -> str:
    if character.isprintable() and character not in _TURNS_DIRECTION:
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if character in _NAMED:
        return _NAMED[character]
    if character in ("\u200d", "\ufe0f") or unicodedata.category(character) == "Zs":
        return character  # joins emoji; blanks of other scripts
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def moment(at_ms: int) -> str:
    """Unix milliseconds in UTC, to the second; a number that is no date stays one."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S")
    except OverflowError:
        return str(at_ms)


def duration(seconds: float) -> str:
    """As people say it, in two units at most: `3 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    for size, unit, smaller, name in ((1440, "d", 60, "h"), (60, "h", 1, "min")):
        if minutes >= size:
            rest = minutes % size // smaller
            return f"{minutes // size} {unit}" + (f" {rest} {name}" if rest else "")
    return f"{minutes} min"


def size(count_bytes: float) -> str:
    """A number of bytes in units of 1,024: `1.5 GiB`."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(count_bytes) >= 1024 and len(units) > 1:
        count_bytes /= 1024
        units.pop(0)
    return f"{count_bytes:.{0 if units[0] == 'B' else 1}f} {units[0]}"
