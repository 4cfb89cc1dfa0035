"""What is stored cannot act upon the terminal; times, durations and sizes read well."""

from __future__ import annotations

import unicodedata

import pytest

from amemdb.cli.showing import duration, moment, quoted, readable, size
from amemdb.protocol.inline import split_inline


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain", "plain"),
        ("höy 🙂 👨‍👩‍👧 日本".encode(), "höy 🙂 👨‍👩‍👧 日本"),
        (b"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        (b"\x9b2J \xff", "\\x9b2J \\xff"),
        ("\u009b2J".encode(), "\\xc2\\x9b2J"),
        (b"a\r\n\t\x07\x00\x7f", "a\\r\\n\\t\\a\\x00\\x7f"),
        ("abc\u202edef\u2066".encode(), "abc\\xe2\\x80\\xaedef\\xe2\\x81\\xa6"),
        ("a\u2028b\u00a0c".encode(), "a\\xe2\\x80\\xa8b\u00a0c"),
    ],
)
def test_what_a_terminal_would_act_upon_is_an_escape(data, shown):
    assert readable(data) == shown


def test_no_character_at_all_gets_through_that_moves_something():
    for code in [*range(0x3000), *range(0xD800, 0xE000), 0xFEFF, 0xE0001, 0x10FFFF]:
        for character in readable(chr(code), lines=True):
            assert character == "\n" or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
            assert character not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"


def test_lines_stay_lines_where_there_is_room_for_them():
    assert readable(b"a\nb\r\n", lines=True) == "a\nb\\r\n"


@pytest.mark.parametrize("data", [b"", b'a"b\\', b"\x00\xff\n", "🙂'é".encode(), bytes(range(256))])
def test_what_is_quoted_can_be_typed_again(data):
    assert split_inline(quoted(data).encode()) == [data]


def test_moments_durations_and_sizes():
    assert moment(0) == "1970-01-01 00:00:00"
    assert moment(1_700_000_000_123) == "2023-11-14 22:13:20"
    assert moment(2**62) == str(2**62)
    assert [duration(s) for s in (0, 59.4, 60, 3599, 3600, 3660, 86_400, 90_000)] == [
        *("0 s", "59 s", "1 min", "59 min", "1 h", "1 h 1 min", "1 d", "1 d 1 h"),
    ]
    assert [size(n) for n in (0, 1023, 1024, 1536, 1 << 20, 5 << 40, 5 << 50)] == [
        *("0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "5.0 TiB", "5120.0 TiB"),
    ]
