"""The timing wheel: which objects end when.

Buckets of 1,024 ms keyed by `expire_at_ms >> 10`. A bucket is looked at once the whole of it lies in the past, so an
object is removed at most about a second late; until then reads hide it. There is no clock inside: `due` is told the
time, and a time that falls back only makes less come due.

`due` only peeks. An entry leaves the wheel when the record that removes its object is applied, so a server that
may not write keeps what is due here, hidden, for as long as that lasts.

Work a call is bounded by what it returns, whatever the wheel holds:

1. A bucket is a dict used as a stack. To peek is to pop the newest entries and to push them again, since walking a
   dict from its front steps over everything deleted there before. Popping steps over deleted entries once only.
2. The ids of the buckets lie in a tree of 1,024-bit words (`_BucketIds`): smallest first, and an id is gone with the
   last entry of its bucket. In a heap it would stay until its time came, and a client that moves one expiry about
   could fill the memory with empty buckets, a hundred years ahead.

An entry is a tuple whose first element says which family knows what to do with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Entry = tuple[Any, ...]

BUCKET_SHIFT = 10
_WORD_SHIFT = 10
_WORD_MASK = (1 << _WORD_SHIFT) - 1
_LEVELS = 6
"""Levels of words, enough for the bucket of any 64-bit time."""


class Wheel:
    """Entries by the time at which they end."""

    __slots__ = ("_buckets", "_count", "_ids")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget every entry."""
        self._buckets: dict[int, dict[Entry, None]] = {}
        self._ids = _BucketIds()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def schedule(self, entry: Entry, expire_at_ms: int) -> None:
        """Have `entry`, which is not in the wheel, come due at `expire_at_ms`."""
        bucket_id = expire_at_ms >> BUCKET_SHIFT
        bucket = self._buckets.get(bucket_id)
        if bucket is None:
            bucket = self._buckets[bucket_id] = {}
            self._ids.add(bucket_id)
        size = len(bucket)
        bucket[entry] = None
        assert len(bucket) > size, f"{entry!r} is scheduled twice"
        self._count += 1

    def cancel(self, entry: Entry, expire_at_ms: int) -> None:
        """Forget `entry`, which was scheduled at `expire_at_ms`."""
        bucket_id = expire_at_ms >> BUCKET_SHIFT
        bucket = self._buckets[bucket_id]
        del bucket[entry]
        self._count -= 1
        if not bucket:
            del self._buckets[bucket_id]
            self._ids.discard(bucket_id)

    def due(self, now_ms: int, count_max: int) -> list[Entry]:
        """At most `count_max` entries whose bucket has passed, those of the earliest bucket first.

        They stay until cancelled: called again before that, it returns the same entries.
        """
        found: list[Entry] = []
        for bucket_id in self._ids:
            if bucket_id >= now_ms >> BUCKET_SHIFT or len(found) == count_max:
                break
            bucket = self._buckets[bucket_id]
            newest = [bucket.popitem()[0] for _ in range(min(len(bucket), count_max - len(found)))]
            for entry in reversed(newest):
                bucket[entry] = None
            found += newest
        return found

    def begun(self, now_ms: int) -> Iterator[Entry]:
        """Every entry whose bucket has begun: all whose time has passed at `now_ms`, and few others."""
        for bucket_id in self._ids:
            if bucket_id > now_ms >> BUCKET_SHIFT:
                return
            yield from self._buckets[bucket_id]


class _BucketIds:
    """A set of integers from 0 to 2**60 - 1, walked in ascending order; every operation costs a few words.

    Bit b of word w of a level says that word `w << 10 | b` of the level below is there; at the lowest level that this
    id is in the set.
    """

    __slots__ = ("_levels",)

    def __init__(self) -> None:
        self._levels: list[dict[int, int]] = [{} for _ in range(_LEVELS)]

    def add(self, bucket_id: int) -> None:
        """Add an id that is not there."""
        index = bucket_id
        for words in self._levels:
            bit = 1 << (index & _WORD_MASK)
            index >>= _WORD_SHIFT
            word = words.get(index, 0)
            words[index] = word | bit
            if word:
                return

    def discard(self, bucket_id: int) -> None:
        """Remove an id that is there."""
        index = bucket_id
        for words in self._levels:
            bit = 1 << (index & _WORD_MASK)
            index >>= _WORD_SHIFT
            word = words[index] ^ bit
            if word:
                words[index] = word
                return
            del words[index]

    def __iter__(self) -> Iterator[int]:
        return self._walk(_LEVELS - 1, 0)

    def _walk(self, level: int, index: int) -> Iterator[int]:
        word = self._levels[level].get(index, 0)
        while word:
            lowest = word & -word
            word ^= lowest
            below = index << _WORD_SHIFT | lowest.bit_length() - 1
            if level:
                yield from self._walk(level - 1, below)
            else:
                yield below
