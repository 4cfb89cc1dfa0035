"""The table of a text index: its terms, each with its postings.

A dict that grows is copied as a whole, with a hundred thousand terms for several milliseconds. So from `WHOLE_MAX`
terms on new ones go to one of `SHARDS` smaller dicts, by their hash. Most words of most texts are among the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from sys import getsizeof
from typing import TypeAlias

WHOLE_MAX = 21_000
"""A little below the size at which a dict is copied for about a millisecond."""
SHARD_MASK = 63
SHARDS = SHARD_MASK + 1
_COUNTED_AT_ONCE = 256
"""Terms that come between two looks at how large the tables are."""

Held: TypeAlias = "int | bytearray"
"""The one posting of a term, or its postings, four bytes each."""


class Terms:
    """Terms and their postings."""

    __slots__ = ("_bytes", "_came", "first", "shards")

    def __init__(self) -> None:
        self.first: dict[bytes, Held] = {}
        self.shards: tuple[dict[bytes, Held], ...] = ()
        """Empty until `first` is full."""
        self._bytes = 0
        self._came = 0

    def __len__(self) -> int:
        return len(self.first) + sum(map(len, self.shards))

    def memory_bytes(self) -> int:
        """Bytes of memory that the tables take, about."""
        return getsizeof(self.first) + self._bytes

    def table(self, term: bytes) -> dict[bytes, Held]:
        """Where a term is, or would come."""
        if not self.shards or term in self.first:
            return self.first
        return self.shards[hash(term) & SHARD_MASK]

    def get(self, term: bytes) -> Held | None:
        """The postings of a term, None without."""
        held = self.first.get(term)
        if held is None and self.shards:
            return self.shards[hash(term) & SHARD_MASK].get(term)
        return held

    def came(self, count: int) -> None:
        """So many terms were added: from now on, there may be more tables."""
        if not self.shards:
            if len(self.first) >= WHOLE_MAX:
                self.shards = tuple([{} for _ in range(SHARDS)])
            else:
                return
        self._came += count
        if self._came >= _COUNTED_AT_ONCE or not self._bytes:
            self._came = 0
            self._bytes = sum(map(getsizeof, self.shards))

    def items(self) -> Iterator[tuple[bytes, Held]]:
        """All terms; none may come meanwhile."""
        return chain(self.first.items(), *[shard.items() for shard in self.shards])

    def free_some(self, count: int) -> int:
        """Free at most `count` terms of a table that is out of use; how many they were."""
        freed = 0
        for table in (self.first, *self.shards):
            while table and freed < count:
                table.popitem()
                freed += 1
        return freed
