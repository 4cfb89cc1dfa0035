"""What things take in memory, and the ledger of what the stores hold.

Sizes are those of CPython on a 64-bit machine with its own allocator and glibc's below it:

* a Python object of at most 512 bytes takes a multiple of 16 of them; anything else takes a block of malloc, which
  adds 8 bytes and gives multiples of 16, at least 32;
* tuples, lists and dicts carry 16 bytes for the garbage collector;
* texts of at most one byte and integers from -5 to 256 are there once for all;
* of an integer that tells a time or a number everything fits in 32 bytes.

Each store adds to the `Ledger` what a change made it hold more, or less, so that nobody has to walk over objects to
know. Tables (dicts, scan indexes, wheels), which are few, tell by themselves, and are no part of the ledger
(`Stores.tables_bytes`). What is out of use but not yet freed counts as `graveyard`. That the ledger does not drift is
what `tests/memory_walk.py` is for.
"""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING

from amemdb import native

SMALL_BYTES_MAX = 512
BYTES_HEAD = 33
"""Of a bytes object beside its bytes."""
NUMBER_BYTES = 32
_SMALL_NUMBER_MAX = 256
BYTEARRAY_BYTES = 64
TABLE_BYTES = 56
"""Of an object in the dict and the scan index that it is found by, on the average."""


def block(count_bytes: int) -> int:
    """What malloc takes for a block of so many bytes."""
    return max(32, count_bytes + 23 & ~15)


def small(count_bytes: int) -> int:
    """What an object of that size takes."""
    return count_bytes + 15 & ~15 if count_bytes <= SMALL_BYTES_MAX else count_bytes + 23 & ~15


def text(count_bytes: int) -> int:
    """What `bytes` of that length take."""
    if count_bytes <= 1:
        return 0
    count_bytes += BYTES_HEAD
    return count_bytes + 15 & ~15 if count_bytes <= SMALL_BYTES_MAX else count_bytes + 23 & ~15


def optional_text(value: bytes | None) -> int:
    """What bytes that may be missing take."""
    return 0 if value is None else text(len(value))


def number(value: int) -> int:
    """What an integer takes."""
    return NUMBER_BYTES if value > _SMALL_NUMBER_MAX else 0


def tuple_of(length: int) -> int:
    """What a tuple takes beside what is in it."""
    return small(40 + 8 * length + 16)


table = getsizeof
"""What a dict, set or list takes beside what is in it."""


class PlainLedger:
    """Bytes held by each family, without its tables."""

    __slots__ = ("conversation", "episodic", "graveyard", "keyspace", "semantic", "summary", "working")

    def __init__(self) -> None:
        self.conversation = 0
        self.working = 0
        self.semantic = 0
        self.episodic = 0
        self.summary = 0
        self.keyspace = 0
        self.graveyard = 0

    @property
    def held(self) -> int:
        """All of it."""
        return (
            self.conversation
            + self.working
            + self.semantic
            + self.episodic
            + self.summary
            + self.keyspace
            + self.graveyard
        )


if TYPE_CHECKING or not native.ENABLED:
    Ledger = PlainLedger
else:
    from amemdb.stores._memory import Ledger as Ledger
