"""The scan index: names in the order of their hash, so that a SCAN can stop anywhere and go on.

A cursor is a position in the space of 64-bit hashes and refers to no object, so names may come and go between two
pages. Guarantees, as the command contract gives them for every SCAN:

1. A name that stays throughout a scan is returned exactly once.
2. A page holds at most COUNT names, and never more than one reply may hold (more than COUNT only where full 64-bit
   hashes collide, which the keyed hash of Python makes a matter of luck, not of intent).
3. A scan ends: each page moves the cursor forward in a finite space. Any number of 64 bits is a cursor, also one
   that was never handed out.
4. The work of a page is bounded by COUNT and by the empty buckets it may meet; past those it is cut short.

Names lie in buckets by the leading bits of their hash. The table grows and shrinks one bucket at a time (linear
hashing), so no operation ever moves them all: buckets before `_split` are twice as fine as the others. When all are,
the fine table becomes the coarse one; slots of the coarse table whose names have moved share one empty list, so that
neither making nor dropping such a table costs more than its pointers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amemdb import native
from amemdb.limits import REPLY_ELEMENTS_MAX

_FILL = 12
"""Names a bucket holds on average before the table grows."""
_HASH_BITS = 64
_MASK = (1 << _HASH_BITS) - 1
_EMPTY_BUCKETS_MAX = 512
"""Empty buckets that one page meets before it returns what it has."""
_BUCKET_BYTES = 96
"""Of a list, with the room that it has for more."""
_POINTER_BYTES = 9
_MOVED: list[bytes] = []
"""Stands in the coarse table for a bucket that lies in the fine one; nothing is ever put into it."""


def _position(name: bytes) -> int:
    return hash(name) & _MASK


class PlainNameIndex:
    """A set of names that can be scanned by pages. Add a name once, discard it once."""

    __slots__ = ("_coarse", "_count", "_fine", "_level", "_split")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget every name."""
        self._level = 0
        self._split = 0
        self._fine: list[list[bytes]] = []
        self._coarse: list[list[bytes]] = [[]]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def free_some(self, count: int) -> int:
        """Free about `count` names of an index that is out of use; how many they were."""
        freed = 0
        while freed < count and (table := self._fine or self._coarse):
            freed += len(table.pop())
        self._count -= freed
        return freed

    def memory_bytes(self) -> int:
        """Bytes of memory that the index takes, without the names, about. O(1)."""
        buckets = len(self._fine) + len(self._coarse) - self._split
        return _BUCKET_BYTES * buckets + _POINTER_BYTES * (self._count + len(self._fine) + len(self._coarse))

    def walked_bytes(self) -> int:
        """The same, counted anew."""
        buckets = [bucket for bucket in self._fine + self._coarse if bucket is not _MOVED]
        names = sum(map(len, buckets))
        return _BUCKET_BYTES * len(buckets) + _POINTER_BYTES * (names + len(self._fine) + len(self._coarse))

    def held(self, name: bytes) -> bytes:
        """The object that was added as `name`, which must be there."""
        bucket = self._bucket(_position(name))
        return bucket[bucket.index(name)]

    def add(self, name: bytes) -> None:
        """Add `name`, which must not be there yet."""
        self._bucket(_position(name)).append(name)
        self._count += 1
        if self._count > _FILL * (len(self._fine) + len(self._coarse) - self._split):
            self._grow()

    def discard(self, name: bytes) -> None:
        """Remove `name`, which must be there."""
        self._bucket(_position(name)).remove(name)
        self._count -= 1
        buckets = len(self._fine) + len(self._coarse) - self._split
        if buckets > 1 and self._count < _FILL // 4 * buckets:
            self._shrink()

    def page(self, cursor: int, count_max: int) -> tuple[int, list[bytes]]:
        """The next cursor (0 at the end) and at most `count_max` names from `cursor` on."""
        count_max = min(count_max, REPLY_ELEMENTS_MAX)
        names: list[bytes] = []
        position = cursor
        empty = 0
        while empty < _EMPTY_BUCKETS_MAX:
            bucket, end = self._bucket_and_end(position)
            found = sorted((p, name) for name in bucket if (p := _position(name)) >= position)
            room = count_max - len(names)
            if len(found) > room:
                cut = found[room][0]
                if found[0][0] == cut:  # equal hashes cannot be told apart by a cursor: all of them, or none
                    if names:
                        return cut, names
                    cut += 1
                return cut & _MASK, names + [name for p, name in found if p < cut]
            names += [name for _, name in found]
            empty += not found
            position = end
            if position > _MASK:
                return 0, names
            if len(names) == count_max:
                return position, names
        return position, names

    def from_position(self, cursor: int) -> Iterator[bytes]:
        """All names once, beginning at `cursor` and wrapping round: where a random start finds its name.

        The index must not change while this runs.
        """
        position, wrapped = cursor, False
        while not (wrapped and position >= cursor):
            bucket, end = self._bucket_and_end(position)
            for _, name in sorted((p, name) for name in bucket if (p := _position(name)) >= position):
                if wrapped and _position(name) >= cursor:
                    return
                yield name
            position = end
            if position > _MASK:
                if wrapped:
                    return
                position, wrapped = 0, True

    def _bucket(self, position: int) -> list[bytes]:
        prefix = position >> (_HASH_BITS - self._level)
        if prefix < self._split:
            return self._fine[position >> (_HASH_BITS - 1 - self._level)]
        return self._coarse[prefix]

    def _bucket_and_end(self, position: int) -> tuple[list[bytes], int]:
        shift = _HASH_BITS - self._level
        prefix = position >> shift
        if prefix < self._split:
            prefix = position >> (shift - 1)
            return self._fine[prefix], (prefix + 1) << (shift - 1)
        return self._coarse[prefix], (prefix + 1) << shift

    def _grow(self) -> None:
        if self._split == len(self._coarse):
            self._level += 1
            self._coarse, self._fine, self._split = self._fine, [], 0
        bucket = self._coarse[self._split]
        bit = 1 << (_HASH_BITS - 1 - self._level)
        self._fine.append([name for name in bucket if not _position(name) & bit])
        self._fine.append([name for name in bucket if _position(name) & bit])
        self._coarse[self._split] = _MOVED
        self._split += 1

    def _shrink(self) -> None:
        if self._split == 0:
            self._level -= 1
            self._fine, self._coarse = self._coarse, [_MOVED] * (len(self._coarse) // 2)
            self._split = len(self._coarse)
        self._split -= 1
        high = self._fine.pop()
        self._coarse[self._split] = self._fine.pop() + high


if TYPE_CHECKING or not native.ENABLED:
    NameIndex = PlainNameIndex
else:
    from amemdb.stores._names import NameIndex as NameIndex
