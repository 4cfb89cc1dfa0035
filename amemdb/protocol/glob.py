"""The pattern language of MATCH, KEYS, PSUBSCRIBE and access rules, over bytes.

Rules (those of Redis): the pattern covers the whole name; every byte stands for itself, newline too, but for these:

=========  ===================================================================================================
``*``      any bytes, none as well
``?``      any one byte
``[abc]``  one of these bytes; ``[^abc]`` one byte that is none of them; ``[]`` no byte at all, ``[^]`` any byte
``[a-z]``  one byte of a range, which may be written backwards; the byte behind the dash is always its end, also
           ``]`` or a backslash
``\\x``     the byte x, also inside a class, where an escaped byte begins no range
=========  ===================================================================================================

A class that is never closed ends with the pattern. A backslash at the very end stands for itself.

Cost
----
Between two stars every part covers a fixed number of bytes, so trying the leftmost place for each in turn, and the
fixed end for the last, is right, and nothing is ever tried again: a pattern of any number of stars costs one pass over
the name. A part without wildcards is looked for by `bytes.find`. A part with some is looked for bit-parallel: bit i of
the state says that the bytes just read match the first i + 1 places of the part, so a step is a shift and an AND
of as many bits as the part is long. No pattern is exponential, and none is quadratic but for that factor of 1/30.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from amemdb.errors import CommandError
from amemdb.limits import PATTERN_BYTES_MAX

Matcher = Callable[[bytes], bool]

_CACHED_BYTES_MAX = 128
"""Longer patterns are read again each time, so that the cache stays small whatever is asked."""
_CACHED_PATTERNS = 128

_SPECIAL = re.compile(rb"[*?\[\\]")
_WILD = re.compile(rb"[?\[\\]")
_ITEM = re.compile(rb"(?P<stars>\*+)|(?P<any>\?)|(?P<class>\[)|(?P<literal>(?:[^*?\[\\]|\\.|\\\Z)+)", re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_CARET, _BRACKET, _BACKSLASH, _DASH = b"^]\\-"

Place = bytes | int
"""Literal bytes, one place each; or one place, and bit b of the integer says whether byte b may stand there."""
_ANY_BYTE = (1 << 256) - 1


def matcher(pattern: bytes | None) -> Matcher:
    """The test whether a name matches `pattern`; None matches every name.

    Raises `CommandError` for a pattern with wildcards that is longer than `PATTERN_BYTES_MAX`.
    """
    if pattern is None or pattern == b"*":
        return _matches_all
    if len(pattern) <= _CACHED_BYTES_MAX:
        return _cached(pattern)
    return _compiled(pattern)


def _matches_all(name: bytes) -> bool:
    return True


@lru_cache(_CACHED_PATTERNS)
def _cached(pattern: bytes) -> Matcher:
    return _compiled(pattern)


def _compiled(pattern: bytes) -> Matcher:
    if _SPECIAL.search(pattern) is None:
        return pattern.__eq__
    if len(pattern) > PATTERN_BYTES_MAX:
        raise CommandError(f"pattern must be at most {PATTERN_BYTES_MAX} bytes long, got {len(pattern)}")
    head, *others = _parts(pattern)
    if not others:
        length = len(head)
        return lambda name: len(name) == length and _stands_at(head, name, 0)
    tail = others.pop()
    middle = [part for part in others if len(part)]
    if not middle:
        if tail == b"" and isinstance(head, bytes):
            return lambda name: name.startswith(head)
        if head == b"" and isinstance(tail, bytes):
            return lambda name: name.endswith(tail)
    if len(middle) == 1 and head == tail == b"" and isinstance(middle[0], bytes):
        return _contains(middle[0])
    return _with_stars(head, middle, tail)


def _contains(infix: bytes) -> Matcher:
    return lambda name: infix in name


def _with_stars(head: Part, middle: list[Part], tail: Part) -> Matcher:
    """`head*middle*…*tail`."""
    length_min = len(head) + sum(map(len, middle)) + len(tail)

    def matches(name: bytes) -> bool:
        if len(name) < length_min or not _stands_at(head, name, 0):
            return False
        position, end = len(head), len(name) - len(tail)
        if not _stands_at(tail, name, end):
            return False
        for part in middle:
            if isinstance(part, bytes):
                position = name.find(part, position, end)
                if position < 0:
                    return False
                position += len(part)
            else:
                position = part.end_of_first(name, position, end)
                if position < 0:
                    return False
        return True

    return matches


def _stands_at(part: Part, name: bytes, position: int) -> bool:
    """Whether `part` matches at `position` of `name`, which is long enough for it."""
    return name.startswith(part, position) if isinstance(part, bytes) else part.stands_at(name, position)


class _Wild:
    """A part with wildcards."""

    __slots__ = ("_checks", "_length", "_masks", "_otherwise", "_places")

    def __init__(self, places: list[Place]) -> None:
        self._places = places
        self._checks: list[tuple[int, Place]] = []
        self._masks: dict[int, int] | None = None
        self._otherwise = 0
        offset = 0
        for place in places:
            if place != _ANY_BYTE:
                self._checks.append((offset, place))
            offset += len(place) if isinstance(place, bytes) else 1
        self._length = offset

    def __len__(self) -> int:
        return self._length

    def stands_at(self, name: bytes, position: int) -> bool:
        """Whether the part matches at `position` of `name`, which is long enough for it."""
        for offset, place in self._checks:
            if isinstance(place, bytes):
                if not name.startswith(place, position + offset):
                    return False
            elif not place >> name[position + offset] & 1:
                return False
        return True

    def end_of_first(self, name: bytes, start: int, end: int) -> int:
        """The end of the leftmost match within `start` and `end` of `name`, or -1."""
        if not self._checks:
            return start + self._length if start + self._length <= end else -1
        if self._masks is None:
            self._otherwise, self._masks = self._bit_masks()
        mask_of, otherwise = self._masks.get, self._otherwise
        state, accepted = 0, 1 << (self._length - 1)
        for position in range(start, end):
            state = (state << 1 | 1) & mask_of(name[position], otherwise)
            if state & accepted:
                return position + 1
        return -1

    def _bit_masks(self) -> tuple[int, dict[int, int]]:
        """The places of the part, as bits, that a byte may stand in: most bytes, and those that differ from them.

        Filled in as rows of bytes, which keeps it linear in the length of the part.
        """
        row_bytes = (self._length + 7) // 8
        most = bytearray(row_bytes)
        flipped: dict[int, bytearray] = {}
        for offset, members in enumerate(self._single_places()):
            index, bit = offset >> 3, 1 << (offset & 7)
            if members.bit_count() > 128:
                most[index] |= bit
                members ^= _ANY_BYTE
            while members:
                byte = members.bit_length() - 1
                members ^= 1 << byte
                flipped.setdefault(byte, bytearray(row_bytes))[index] |= bit
        otherwise = int.from_bytes(most, "little")
        return otherwise, {byte: otherwise ^ int.from_bytes(row, "little") for byte, row in flipped.items()}

    def _single_places(self) -> Iterator[int]:
        for place in self._places:
            if isinstance(place, bytes):
                yield from (1 << byte for byte in place)
            else:
                yield place


Part = bytes | _Wild


def _parts(pattern: bytes) -> list[Part]:
    """The pattern cut at its stars."""
    if _WILD.search(pattern) is None:
        return [*pattern.split(b"*")]
    parts: list[list[Place]] = [[]]
    position = 0
    while position < len(pattern):
        item = _ITEM.match(pattern, position)
        assert item is not None, "every byte begins an item"
        position = item.end()
        kind = item.lastgroup
        if kind == "stars":
            parts.append([])
        elif kind == "any":
            parts[-1].append(_ANY_BYTE)
        elif kind == "class":
            members, position = _class(pattern, position)
            parts[-1].append(members)
        else:
            parts[-1].append(_ESCAPED.sub(rb"\1", item.group()))
    return [_part(places) for places in parts]


def _part(places: list[Place]) -> Part:
    if not places:
        return b""
    first = places[0]
    return first if len(places) == 1 and isinstance(first, bytes) else _Wild(places)


def _class(pattern: bytes, position: int) -> tuple[int, int]:
    """The place that the class whose `[` ends at `position` stands for, and the position behind the class."""
    size = len(pattern)
    negated = position < size and pattern[position] == _CARET
    position += negated
    members = 0
    while position < size and pattern[position] != _BRACKET:
        if pattern[position] == _BACKSLASH and position + 1 < size:
            members |= 1 << pattern[position + 1]
            position += 2
        elif position + 2 < size and pattern[position + 1] == _DASH:
            low, high = sorted((pattern[position], pattern[position + 2]))
            members |= (2 << high) - (1 << low)
            position += 3
        else:
            members |= 1 << pattern[position]
            position += 1
    return members ^ _ANY_BYTE if negated else members, position + 1
