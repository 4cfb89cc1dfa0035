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

import msgpack

from amemdb.stores.records import Record, object_of

_DIGEST_BITS = 160


def part_of(record: Record, count: int, key: bytes = b"") -> int | None:
    """Which of `count` parts `record` belongs to, or None for all of them.

    The same on every machine and in every run. With a secret `key` (at most 64 bytes) nobody can choose names that all
    fall into one part.
    """
    name = object_of(record)
    if name is None:
        return None
    digest = blake2b(msgpack.packb(name), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "little") % count


def only_part(apply: Callable[[Record], None], index: int, count: int, key: bytes = b"") -> Callable[[Record], None]:
    """An `apply` that passes on the records of one part. The state behind it must be empty and hold no other part."""
    assert 0 <= index < count, f"part {index} of {count}"

    def apply_if_of_part(record: Record) -> None:
        part = part_of(record, count, key)
        if part is None or part == index:
            apply(record)

    return apply_if_of_part


def sum_digests(digests: Iterable[str]) -> str:
    """The digest of a state from those of its parts; see `Stores.digest`."""
    total = sum(int(digest, 16) for digest in digests) % (1 << _DIGEST_BITS)
    return f"{total:0{_DIGEST_BITS // 4}x}"
