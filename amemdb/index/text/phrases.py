"""Words that stand side by side in the query count more where they do so in a text.

The index keeps no positions: they would double its size, and BM25 without them finds what holds the words. So the best
of what it found are read again, and each pair of neighbours of the query that a text has as neighbours, too, adds
`PAIR_WEIGHT` times what the less telling of the two words weighs. Measured (docs/decisions/0019-hybrid-fusion.md):
on short turns of talk that changes little, on names and titles of several words it puts the right text first.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import pairwise

from amemdb.index.text.analyse import Analyser

PAIR_WEIGHT = 0.5
READ_BYTES_MAX = 8192
"""How much of the beginning of a text is read again."""


class Phrases:
    """The pairs of neighbours in a query."""

    __slots__ = ("_analyser", "_values")

    def __init__(self, analyser: Analyser, words: list[bytes], values: Mapping[bytes, float]) -> None:
        """The words of the query, and what each term of it is worth (`TextFound.values`)."""
        self._analyser = analyser
        self._values = {
            (left, right): PAIR_WEIGHT * min(values.get(left, 0.0), values.get(right, 0.0))
            for left, right in pairwise(words)
            if left != right
        }

    def __len__(self) -> int:
        return len(self._values)

    @property
    def most(self) -> float:
        """More than that `bonus` never gives."""
        return sum(self._values.values())

    def bonus(self, text: bytes) -> Generator[None, None, float]:
        """What a text gets for the pairs that it has. In steps."""
        words = yield from self._analyser.reading(text[:READ_BYTES_MAX])
        there = self._values.keys() & set(pairwise(words))
        # In an order of its own: a sum over a set may differ in its last bit from one process to the next.
        return sum([self._values[pair] for pair in sorted(there)])
