"""What AMEM.SEM.RECALL answers: an array of labelled items, whose labels depend on what was asked for.

Without options an item is `key, content, similarity`, which is what HotKV's clients read; options only add labels, in
the order of `LABELS`. EXPLAIN adds `left_out` to every item, nil for those that were found, and behind these the items
that were left out, each with the reason. All items of one answer have the same labels, so a client that reads items
by their labels needs to know nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from amemdb.protocol.reply import BULK, DOUBLE, INTEGER, ArrayOf, Elements, Labelled, Shape
from amemdb.stores.semantic import Fact

PROVENANCE: dict[str, Shape] = {
    "source": BULK,
    "trust": BULK,
    "meta": BULK,
    "stored_at": INTEGER,
    "expires_at": INTEGER,
}
FOUND = ("key", "content", "similarity")
SCORES: dict[str, Shape] = {"lexical": DOUBLE, "score": DOUBLE}
"""What HYBRID adds: by words alone, and both together; nil for what was left out."""
LABELS: dict[str, Shape] = {
    "key": BULK,
    "content": BULK,
    "similarity": DOUBLE,
    **SCORES,
    **PROVENANCE,
    "left_out": BULK,
}


class Items(list[tuple[Any, ...]]):
    """Items of an answer, tuples of the values for `labels`."""

    def __init__(self, labels: tuple[str, ...], items: Sequence[tuple[Any, ...]]) -> None:
        super().__init__(items)
        self.shape = _array_of(labels)


class RecalledShape(ArrayOf):
    """An array of items that tells itself which labels they have."""

    def __init__(self) -> None:
        super().__init__(Labelled(**LABELS))

    def encode(self, value: Sequence[Any] | Elements | None, resp3: bool) -> bytes:
        assert isinstance(value, Items)
        return value.shape.encode(value, resp3)

    def is_long(self, value: Sequence[Any] | Elements | None) -> bool:
        assert isinstance(value, Items)
        return value.shape.is_long(value)

    def elements(self, value: Sequence[Any] | Elements, resp3: bool) -> Iterator[tuple[Shape, Any]]:
        assert isinstance(value, Items)
        return value.shape.elements(value, resp3)


RECALLED = RecalledShape()


@lru_cache(maxsize=32)
def _array_of(labels: tuple[str, ...]) -> ArrayOf:
    return ArrayOf(Labelled(**{label: LABELS[label] for label in labels}))


def provenance(fact: Fact) -> tuple[Any, ...]:
    """The values of `PROVENANCE`."""
    _, _, _, expire_at_ms, source, trusted, meta, stored_at_ms = fact
    trust = None if trusted is None else b"trusted" if trusted else b"untrusted"
    return source, trust, meta, stored_at_ms, expire_at_ms or -1
