"""Patterns: their meaning against a plain matcher, and their cost against patterns made to be slow."""

from __future__ import annotations

import time
import tracemalloc
from functools import cache
from random import Random

import pytest

from amemdb.errors import CommandError
from amemdb.limits import PATTERN_BYTES_MAX
from amemdb.protocol.glob import matcher

CARET, BACKSLASH, DASH, CLOSE = b"^\\-]"


def oracle(pattern: bytes, name: bytes) -> bool:
    """The rules read aloud: what the rest of the pattern says of the rest of the name."""

    @cache
    def rest(p: int, n: int) -> bool:
        if p == len(pattern):
            return n == len(name)
        if pattern[p] == ord("*"):
            return rest(p + 1, n) or (n < len(name) and rest(p, n + 1))
        if n == len(name):
            return False
        if pattern[p] == ord("?"):
            return rest(p + 1, n + 1)
        if pattern[p] == ord("["):
            fits, behind = in_class(pattern, p + 1, name[n])
            return fits and rest(behind, n + 1)
        if pattern[p] == BACKSLASH and p + 1 < len(pattern):
            p += 1
        return pattern[p] == name[n] and rest(p + 1, n + 1)

    return rest(0, 0)


def in_class(pattern: bytes, p: int, byte: int) -> tuple[bool, int]:
    """Whether `byte` is in the class whose text begins at `p`, and where the pattern goes on."""
    negated = pattern[p : p + 1] == b"^"
    p += negated
    found = False
    while p < len(pattern) and pattern[p] != CLOSE:
        left = len(pattern) - p
        if pattern[p] == BACKSLASH and left >= 2:
            found |= pattern[p + 1] == byte
            p += 2
        elif left >= 3 and pattern[p + 1] == DASH:
            ends = (pattern[p], pattern[p + 2])
            found |= min(ends) <= byte <= max(ends)
            p += 3
        else:
            found |= pattern[p] == byte
            p += 1
    return found != negated, min(p + 1, len(pattern))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (None, [b"", b"a", b"\n"], []),
        (b"*", [b"", b"a", b"\n\xff"], []),
        (b"", [b""], [b"a"]),
        (b"abc", [b"abc"], [b"ab", b"abcd", b"xabc", b"ABC"]),
        (b"user:*", [b"user:", b"user:1", b"user:\n1"], [b"user", b"xuser:1"]),
        (b"*:end", [b":end", b"a:end"], [b":end\n", b"end"]),
        (b"*mid*", [b"mid", b"amidb", b"\nmid\n"], [b"mi", b"m-id"]),
        (b"a*b", [b"ab", b"aab", b"a\nb"], [b"a", b"b", b"abc", b"aba"]),
        (b"a*a", [b"aa", b"aba"], [b"a"]),
        (b"ab*ba", [b"abba", b"abxba"], [b"aba"]),
        (b"**", [b"", b"x"], []),
        (b"a?c", [b"abc", b"a\nc", b"a\xffc"], [b"ac", "a\u00e9c".encode(), b"abcd"]),
        (b"?", [b"x", b"\n"], [b"", b"xy"]),
        (b"*?", [b"x", b"xy"], [b""]),
        (b"h[ae]llo", [b"hello", b"hallo"], [b"hillo", b"hllo"]),
        (b"h[^e]llo", [b"hallo", b"h\nllo", b"h^llo"], [b"hello", b"hllo"]),
        (b"h[!e]llo", [b"h!llo", b"hello"], [b"hallo"]),
        (b"h[a-c]*", [b"ha", b"hbx", b"hc"], [b"h", b"hd"]),
        (b"h[c-a]x", [b"hax", b"hbx", b"hcx"], [b"hdx", b"h-x"]),
        (b"[\x80-\xff]", [b"\x80", b"\xc3", b"\xff"], [b"\x7f", b"a"]),
        (b"[\x00-\xff]", [b"\x00", b"a", b"\xff"], [b""]),
        (b"[a\\]b]", [b"a", b"]", b"b"], [b"\\"]),
        (b"[\\^a]", [b"^", b"a"], [b"b", b"\\"]),
        (b"[\\a-c]", [b"a", b"-", b"c"], [b"b"]),
        (b"[a-\\]]", [b"a]", b"]]", b"\\]"], [b"[]", b"a"]),
        (b"[a-]", [b"a", b"]", b"`", b"_"], [b"-", b"b"]),
        (b"[-a]", [b"-", b"a"], [b"b"]),
        (b"[]", [], [b"", b"]", b"["]),
        (b"[]a]", [], [b"]", b"a", b"]a]"]),
        (b"[^]", [b"a", b"]"], [b"", b"ab"]),
        (b"[", [], [b"", b"[", b"a"]),
        (b"[^", [b"a"], [b""]),
        (b"[ab", [b"a", b"b"], [b"[ab", b"ab"]),
        (b"[a\\", [b"a", b"\\"], [b"[a\\"]),
        (b"h\\*", [b"h*"], [b"h", b"hx", b"h\\*"]),
        (b"h\\", [b"h\\"], [b"h"]),
        (b"\\a\\?\\[", [b"a?["], [b"axx"]),
        (b"\\\\", [b"\\"], [b"\\\\"]),
        (b"*\\**", [b"*", b"a*b"], [b"ab"]),
        (b"\x00*", [bytes(range(256)), b"\x00"], [b"a\x00"]),
    ],
)
def test_rules(pattern, matching, others):
    matches = matcher(pattern)
    for name in matching:
        assert matches(name) is True, name
    for name in others:
        assert matches(name) is False, name


def test_random_patterns_against_the_oracle():
    rng = Random(11)
    matched = 0
    for _ in range(30_000):
        pattern = bytes(rng.choices(b"ab*?[]^-\\c", weights=(5, 3, 5, 3, 2, 2, 1, 2, 1, 1), k=rng.randrange(11)))
        name = bytes(rng.choices(b"ab-]\\^c", weights=(5, 4, 1, 1, 1, 1, 1), k=rng.randrange(9)))
        expected = oracle(pattern, name)
        assert matcher(pattern)(name) is expected, (pattern, name)
        matched += expected
    assert matched > 1000, "too few of the random names match to show anything"


def test_random_patterns_made_from_the_name_they_match():
    rng = Random(12)
    for _ in range(5_000):
        name = rng.randbytes(rng.randrange(40))
        pattern = bytearray()
        position = 0
        while position < len(name):
            kind = rng.randrange(6)
            if kind == 0:
                pattern += b"*"
                position += rng.randrange(6)
                continue
            byte = name[position : position + 1]
            other = bytes([(byte[0] + 1) % 256])
            if kind == 1:
                pattern += b"?"
            elif kind == 2:
                pattern += b"[\\" + byte + b"\\" + other + b"]"
            elif kind == 3:
                pattern += b"[^\\" + other + b"]"
            else:
                pattern += b"\\" + byte
            position += 1
        if rng.random() < 0.5:
            pattern += b"*"
        if position == len(name) or pattern.endswith(b"*"):
            assert matcher(bytes(pattern))(name), (bytes(pattern), name)
            assert oracle(bytes(pattern), name)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (b"a*" * 20 + b"c", b"a" * 40 + b"b", False),
        (b"*a" * 30 + b"z", b"a" * 40 + b"b", False),
        (b"*a" * 2_000, b"a" * 1_999, False),
        (b"*a" * 2_000, b"a" * 2_000, True),
        (b"*" * 4_000, b"a" * 1000, True),
        (b"*" * 4_000 + b"b", b"a" * 1000, False),
        (b"*?a" * 300 + b"b", b"a" * 1024, False),
        (b"*[ab]c" * 300, b"ab" * 512, False),
        (b"*" + b"a?" * 250 + b"b*", b"a" * 1024, False),
        (b"*" + b"a" * 500 + b"b" + b"a" * 500 + b"*", b"a" * 100_000, False),
        (b"*" + b"?" * 500 + b"*" + b"[^b]" * 500 + b"b", b"a" * 1024, False),
        (b"[" * 4_000, b"a" * 1024, False),
        (b"[a-z" * 1_000, b"a" * 1024, True),
        (b"\\" * 4_000, b"\\" * 2_000, True),
    ],
)
def test_no_pattern_is_slow(pattern, name, expected):
    if name == b"a" * 1024 and expected:
        name = b"a"
    start = time.process_time()
    matches = matcher(pattern)
    for _ in range(3):
        assert matches(name) is expected
    assert time.process_time() - start < 0.5, "anything but a pass over the name takes minutes here"


def test_many_patterns_leave_little_behind():
    matcher(b"warm*up?")(b"")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for index in range(200):
            matcher(b"*%d?" % index + b"*a?" * 25)(b"%d" % index + b"a" * 80)
            matcher(b"*%d" % index + b"*\\a" * 100)(b"")
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < 5_000_000


def test_a_pattern_with_wildcards_is_bounded_and_a_literal_is_not():
    longest = b"*" * PATTERN_BYTES_MAX
    assert matcher(longest)(b"x")
    with pytest.raises(CommandError, match=f"pattern must be at most {PATTERN_BYTES_MAX} bytes long"):
        matcher(longest + b"a")
    name = b"a" * (PATTERN_BYTES_MAX + 1)
    assert matcher(name)(name)
    assert not matcher(name)(name + b"a")
