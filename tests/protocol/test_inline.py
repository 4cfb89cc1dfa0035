"""The quoting rules of typed requests."""

from __future__ import annotations

import doctest
from random import Random

import pytest

from amemdb.protocol import inline
from amemdb.protocol.inline import split_inline
from tests.protocol.reference import Refused, split


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        (b"", []),
        (b" \t\r\n\v\f ", []),
        (b"a", [b"a"]),
        (b"  set  k\tv  ", [b"set", b"k", b"v"]),
        (b"a\vb\fc", [b"a\vb\fc"]),
        (b"\va", [b"a"]),
        (b"a\rb", [b"a", b"b"]),
        (b'""', [b""]),
        (b"'' ''", [b"", b""]),
        (b"\"a b\" 'c d'", [b"a b", b"c d"]),
        (b'a"b c"', [b"ab c"]),
        (b"a'b c' d", [b"ab c", b"d"]),
        (b'"\\x41\\x7A\\xfF"', [b"Az\xff"]),
        (b'"\\x4" "\\xg1" "\\x"', [b"x4", b"xg1", b"x"]),
        (b'"\\n\\r\\t\\b\\a\\q\\\\\\""', [b'\n\r\t\b\aq\\"']),
        (b"'\\n\\\\ '", [b"\\n\\\\ "]),
        (b"'it\\'s'", [b"it's"]),
        (b"'\\\\\\''", [b"\\\\'"]),
        (b"\\x41 \\n", [b"\\x41", b"\\n"]),
        (b'"a"\v"b"', [b"a", b"b"]),
        (b"\x00 a\x00b", [b"\x00", b"a\x00b"]),
        (b"\xff\xfe", [b"\xff\xfe"]),
    ],
)
def test_tokens(line, tokens):
    assert split_inline(line) == tokens


@pytest.mark.parametrize(
    "line",
    [b'"', b"'", b'"abc', b"'abc", b'"a"b', b"'a'b", b'"a""b"', b"a\"b\"'c'", b'"a\\"', b"'a\\'", b'a b "', b'"\\'],
)
def test_a_quote_that_is_not_closed_or_is_followed_by_text(line):
    assert split_inline(line) is None


def test_random_lines_are_cut_as_the_reference_cuts_them():
    rng = Random(7)
    for _ in range(20_000):
        line = bytes(rng.choices(b"ab4x\\\\\"'\"'  \t\v\r\x00\xff", k=rng.randrange(14)))
        try:
            expected = split(line)
        except Refused:
            expected = None
        assert split_inline(line) == expected, line


def test_the_example_in_the_text():
    assert doctest.testmod(inline) == (0, 1)
