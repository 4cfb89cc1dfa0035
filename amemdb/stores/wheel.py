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

There is one wheel for each thing that is dropped as a whole, so that nothing has to be cancelled then: each numbered
database has its own, and the other families share one. `due_of` asks several.

An entry is a tuple whose first element says which family knows what to do with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import getsizeof
from typing import Any

from amemdb.stores import memory

Entry = tuple[Any, ...]

BUCKET_SHIFT = 10
_WORD_SHIFT = 10
_WORD_MASK = (1 << _WORD_SHIFT) - 1
_LEVELS = 6
"""Levels of words, enough for the bucket of any 64-bit time."""


class Wheel:
    """Entries by the time at which they end."""

    __slots__ = ("_buckets", "_count", "_held_bytes", "_ids")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Entry, None]] = {}
        self._ids = _BucketIds()
        self._count = 0
        self._held_bytes = getsizeof(self._buckets)
        """Of buckets and entries."""

    def __len__(self) -> int:
        return self._count

    def emptied(self) -> Wheel:
        """Forget every entry. They are in the wheel that is returned, which is out of use, for the graveyard."""
        other = Wheel()
        for slot in Wheel.__slots__:
            mine, fresh = getattr(self, slot), getattr(other, slot)
            setattr(other, slot, mine)
            setattr(self, slot, fresh)
        return other

    def memory_bytes(self) -> int:
        """Bytes of memory that entries and buckets take, the names in them left out which others have as well."""
        return self._held_bytes + self._ids.held_bytes

    def walked_bytes(self) -> int:
        """The same, counted anew."""
        count_bytes = getsizeof(self._buckets) + self._ids.walked_bytes()
        for bucket_id, bucket in self._buckets.items():
            count_bytes += memory.number(bucket_id) + getsizeof(bucket) + sum(map(_entry_bytes, bucket))
        return count_bytes

    def free_some(self, count: int) -> int:
        """Free about `count` entries of a wheel that is out of use; how many they were."""
        freed = 0
        while self._count and freed < count:
            bucket_id, bucket = self._buckets.popitem()
            wanted = min(len(bucket), count - freed)
            for _ in range(wanted):
                bucket.popitem()
            if bucket:
                self._buckets[bucket_id] = bucket
            freed += wanted
            self._count -= wanted
        for words in self._ids.levels:
            while words and freed < count:
                words.popitem()
                freed += 1
        return freed

    def schedule(self, entry: Entry, expire_at_ms: int) -> None:
        """Have `entry`, which is not in the wheel, come due at `expire_at_ms`."""
        bucket_id = expire_at_ms >> BUCKET_SHIFT
        bucket = self._buckets.get(bucket_id)
        if bucket is None:
            self._held_bytes -= getsizeof(self._buckets)
            bucket = self._buckets[bucket_id] = {}
            self._held_bytes += getsizeof(self._buckets) + memory.number(bucket_id) + getsizeof(bucket)
            self._ids.add(bucket_id)
        size, before_bytes = len(bucket), getsizeof(bucket)
        bucket[entry] = None
        assert len(bucket) > size, f"{entry!r} is scheduled twice"
        self._count += 1
        self._held_bytes += _entry_bytes(entry) + getsizeof(bucket) - before_bytes

    def cancel(self, entry: Entry, expire_at_ms: int) -> None:
        """Forget `entry`, which was scheduled at `expire_at_ms`."""
        bucket_id = expire_at_ms >> BUCKET_SHIFT
        bucket = self._buckets[bucket_id]
        del bucket[entry]
        self._count -= 1
        self._held_bytes -= _entry_bytes(entry)
        if not bucket:
            self._held_bytes -= memory.number(bucket_id) + getsizeof(bucket)
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
            before_bytes = getsizeof(bucket)
            newest = [bucket.popitem()[0] for _ in range(min(len(bucket), count_max - len(found)))]
            for entry in reversed(newest):
                bucket[entry] = None
            self._held_bytes += getsizeof(bucket) - before_bytes
            found += newest
        return found

    def earliest(self) -> int:
        """The id of the earliest bucket; there must be an entry."""
        return next(iter(self._ids))

    def passed_count(self, now_ms: int) -> int:
        """How many entries lie in buckets that have passed: the time of each has. One step a bucket."""
        count = 0
        for bucket_id in self._ids:
            if bucket_id >= now_ms >> BUCKET_SHIFT:
                break
            count += len(self._buckets[bucket_id])
        return count

    def current(self, now_ms: int) -> Iterable[Entry]:
        """The entries of the bucket that `now_ms` is in: their time has passed or is near."""
        return self._buckets.get(now_ms >> BUCKET_SHIFT, ())


def wait_ms(wheels: Iterable[Wheel], now_ms: int) -> int:
    """In how many milliseconds all is due that has ended by `now_ms`: 0 if nothing may just have ended."""
    if not any(wheel.current(now_ms) for wheel in wheels):
        return 0
    return ((now_ms >> BUCKET_SHIFT) + 1 << BUCKET_SHIFT) - now_ms


_OWN_NAMES = frozenset({"note", "events"})
"""Families of which the last name of an entry is the wheel's own; the stores have the others as the same objects."""


def _entry_bytes(entry: Entry) -> int:
    own_bytes = memory.text(len(entry[-1])) if entry[0] in _OWN_NAMES else 0
    return memory.tuple_of(len(entry)) + own_bytes


def due_of(wheels: Iterable[Wheel], now_ms: int, count_max: int) -> list[Entry]:
    """At most `count_max` entries that are due, those of the wheel that waits longest first."""
    found: list[Entry] = []
    for wheel in sorted(filter(len, wheels), key=Wheel.earliest):
        if len(found) == count_max:
            break
        found += wheel.due(now_ms, count_max - len(found))
    return found


class _BucketIds:
    """A set of integers from 0 to 2**60 - 1, walked in ascending order; every operation costs a few words.

    Bit b of word w of a level says that word `w << 10 | b` of the level below is there; at the lowest level that this
    id is in the set.
    """

    __slots__ = ("held_bytes", "levels")

    def __init__(self) -> None:
        self.levels: list[dict[int, int]] = [{} for _ in range(_LEVELS)]
        self.held_bytes = self.walked_bytes()
        """Bytes of memory that the set takes."""

    def walked_bytes(self) -> int:
        """The same, counted anew."""
        words_bytes = sum(_word_bytes(word) for words in self.levels for word in words.values())
        return words_bytes + sum(map(getsizeof, self.levels))

    def add(self, bucket_id: int) -> None:
        """Add an id that is not there."""
        index = bucket_id
        for words in self.levels:
            bit = 1 << (index & _WORD_MASK)
            index >>= _WORD_SHIFT
            word = words.get(index, 0)
            self.held_bytes -= _word_bytes(word) + getsizeof(words)
            words[index] = word | bit
            self.held_bytes += _word_bytes(word | bit) + getsizeof(words)
            if word:
                return

    def discard(self, bucket_id: int) -> None:
        """Remove an id that is there."""
        index = bucket_id
        for words in self.levels:
            bit = 1 << (index & _WORD_MASK)
            index >>= _WORD_SHIFT
            word = words[index] ^ bit
            self.held_bytes += _word_bytes(word) - _word_bytes(word | bit)
            if word:
                words[index] = word
                return
            del words[index]

    def __iter__(self) -> Iterator[int]:
        return self._walk(_LEVELS - 1, 0)

    def _walk(self, level: int, index: int) -> Iterator[int]:
        word = self.levels[level].get(index, 0)
        while word:
            lowest = word & -word
            word ^= lowest
            below = index << _WORD_SHIFT | lowest.bit_length() - 1
            if level:
                yield from self._walk(level - 1, below)
            else:
                yield below


def _word_bytes(word: int) -> int:
    """What a word and its index take; nothing for one that is not there."""
    return memory.small(getsizeof(word)) + memory.NUMBER_BYTES if word else 0
