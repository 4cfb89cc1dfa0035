"""The quoting rules of a request that a person types: one line in, its tokens out.

The rules are those of Redis:

1. Blanks (space and bytes 9 to 13) before a token are skipped; a line of blanks has no tokens.
2. A token ends at a space, tab, CR, LF or the end of the line. Every other byte stands for itself, NUL too.
3. A quote, even in the middle of a token, begins a quoted part that ends the token: after the closing quote
   comes a blank or the end of the line, anything else is an error, and so is a quote that is never closed.
4. Between double quotes ``\\xHH`` is the byte of that number, ``\\n \\r \\t \\b \\a`` are control bytes, and a
   backslash before any other byte gives that byte.
5. Between single quotes ``\\'`` is a quote; every other backslash stands for itself.
6. ``""`` and ``''`` are empty tokens.

A line reads in one way only: no two of the alternatives below begin alike, so a match that fails has tried each byte a
bounded number of times. (Possessive repetition is broken in the `re` of Python before 3.11.5.)
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    rb"""
    [ \t-\r]* (?! [ \t-\r] )
    (?P<plain> [^ \t\r\n"']* )
    (?:
        "(?P<double> (?: [^"\\] | \\. )* )" (?= [ \t-\r] | \Z )
      | '(?P<single> (?: [^'\\] | \\' | \\(?!') )* )' (?= [ \t-\r] | \Z )
      | (?= [ \t\r\n] | \Z )
    )
    """,
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}


def split_inline(line: bytes) -> list[bytes] | None:
    r"""The tokens of `line`, or None if a quote is not closed or something follows a closing one.

    >>> split_inline(rb'set "a b\x41" c"d" ""')
    [b'set', b'a bA', b'cd', b'']
    """
    tokens: list[bytes] = []
    position = 0
    while True:
        match = _TOKEN.match(line, position)
        if match is None:
            return None
        plain, double, single = match.group("plain", "double", "single")
        if double is not None:
            tokens.append(plain + _ESCAPE.sub(_unescape, double))
        elif single is not None:
            tokens.append(plain + single.replace(b"\\'", b"'"))
        elif plain:
            tokens.append(plain)
        else:
            return tokens
        position = match.end()


def _unescape(match: re.Match[bytes]) -> bytes:
    code: bytes = match.group(1)
    if len(code) == 3:
        return bytes.fromhex(code[1:].decode("ascii"))
    return _ESCAPED.get(code, code)
