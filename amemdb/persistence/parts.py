"""Replaying a log by parts of the name space: what compaction does, so that its memory is a part and not the whole.

A record names one object and applies without reading another, so the records of one object, in order, rebuild it
whatever else is replayed. Part `index` of `count` is made of the objects whose name hashes to it.

What needs care is a flush, which concerns every object and so belongs to every part: applied to a state that
already holds earlier parts, it would erase them. Therefore **each part is replayed into an empty state of its
own**: there the flush erases exactly what came before it of this part, as it did in the whole. Parts share no
object, so the whole is their union: dumps are written one after the other, and digests, which are sums over
objects, are added (`sum_digests`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

import msgpack

from amemdb.limits import DATABASES
from amemdb.stores.records import DATABASE_FLUSHED, KEY_SET, Record, object_of

_DIGEST_BITS = 160
_HASH_BYTES = 8
_REMEMBERED_MAX = 8192
"""Names of a family that are remembered."""
_REMEMBERED_BYTES_MAX = 64
"""No longer ones are."""


def part_of(record: Record, count: int, key: bytes = b"") -> int | None:
    """Which of `count` parts `record` belongs to, or None for all of them.

    The same on every machine and in every run. With a secret `key` (at most 64 bytes) nobody can choose names that all
    fall into one part. Part `index` of `count` is parts `index` and `index + count` of twice as many.
    """
    found = object_of(record)
    if found is None:
        return None
    hashed = _family_hash(found[:-1], key)
    hashed.update(found[-1])
    return int.from_bytes(hashed.digest(), "little") % count


def halves(index: int, count: int) -> list[tuple[int, int]]:
    """The two parts of twice as many that part `index` of `count` consists of, the second one first."""
    return [(index + count, 2 * count), (index, 2 * count)]


def _family_hash(family: tuple[Any, ...], key: bytes) -> blake2b:
    """What hashes the names of one family, which get another hash than the same names in another one."""
    return blake2b(digest_size=_HASH_BYTES, key=key, person=msgpack.packb(family))


def only_part(apply: Callable[[Record], None], index: int, count: int, key: bytes = b"") -> Callable[[Record], None]:
    """An `apply` that passes on the records of one part. The state behind it must be empty and hold no other part.

    It decides as `part_of` does, but faster: it sees every record of a log as often as there are parts.
    """
    assert 0 <= index < count, f"part {index} of {count}"
    families: dict[tuple[Any, ...], _Names] = {}

    def names_of(*record: Any) -> _Names:
        found = object_of(record)
        assert found is not None
        return families.setdefault(found[:-1], _Names(_family_hash(found[:-1], key), index, count))

    by_kind = [names_of(kind, b"") for kind in range(KEY_SET)]
    by_database = [names_of(KEY_SET, db, b"") for db in range(DATABASES)]

    def apply_if_of_part(record: Record) -> None:
        kind = record[0]
        if kind < KEY_SET:
            wanted = by_kind[kind][record[1]]
        elif kind < DATABASE_FLUSHED:
            wanted = by_database[record[1]][record[2]]
        else:
            wanted = True
        if wanted:
            apply(record)

    return apply_if_of_part


class _Names(dict[bytes, bool]):
    """Whether a name of one family is of the part that is wanted. Remembers some: the same names come again soon."""

    def __init__(self, family_hash: blake2b, index: int, count: int) -> None:
        self._hash = family_hash
        self._index = index
        self._count = count

    def __missing__(self, name: bytes) -> bool:
        hashed = self._hash.copy()
        hashed.update(name)
        wanted = int.from_bytes(hashed.digest(), "little") % self._count == self._index
        if len(name) <= _REMEMBERED_BYTES_MAX:
            if len(self) >= _REMEMBERED_MAX:
                self.clear()
            self[name] = wanted
        return wanted


def sum_digests(digests: Iterable[str]) -> str:
    """The digest of a state from those of its parts; see `Stores.digest`."""
    total = sum(int(digest, 16) for digest in digests) % (1 << _DIGEST_BITS)
    return f"{total:0{_DIGEST_BITS // 4}x}"
