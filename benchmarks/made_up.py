"""Made-up vectors, with the true nearest of each query.

They are clustered: around random centres, as those of texts lie around subjects. The same arguments give the same
vectors in every run. How servers are given them is in `facts`, what is measured with them in `recall`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

NEAREST = 10
QUERIES = 500
CLUSTERS = 1000
SPREAD = 0.7
COUNT_MIN = 2_000
STORED, ASKED, STORED_LATER = 1, 2, 3
"""Seeds."""


@dataclass(frozen=True)
class VectorSet:
    """So many vectors of one dimension, and queries of the same clusters."""

    count: int
    dim: int
    clusters: int = CLUSTERS
    spread: float = SPREAD

    @property
    def title(self) -> str:
        """What a table calls it."""
        return f"{self.count:,} x {self.dim}"

    def scaled(self, share: float) -> Self:
        """The same with so many of them, but never very few."""
        return self if share == 1 else replace(self, count=max(COUNT_MIN, int(self.count * share)))

    @cached_property
    def vectors(self) -> Vectors:
        """Those that are stored."""
        return self.others(STORED, self.count)

    @cached_property
    def queries(self) -> Vectors:
        """Those that are asked for."""
        return self.others(ASKED, QUERIES)

    @cached_property
    def truth(self) -> list[set[int]]:
        """The nearest of each query, as places in `vectors`."""
        return nearest(self.vectors, self.queries)

    def others(self, seed: int, count: int) -> Vectors:
        """Vectors of the same clusters."""
        return clustered(count, self.dim, self.clusters, self.spread, seed)


def clustered(count: int, dim: int, clusters: int, spread: float, seed: int) -> Vectors:
    """Vectors of length 1 around random centres; `spread` is their distance from them, in lengths of a centre."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((clusters, dim)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    vectors = np.empty((count, dim), np.float32)
    for first in range(0, count, 10_000):
        part = vectors[first : first + 10_000]
        part[:] = centres[chance.integers(clusters, size=len(part))]
        part += chance.standard_normal(part.shape).astype(np.float32) * np.float32(spread / dim**0.5)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors


def nearest(vectors: Vectors, queries: Vectors) -> list[set[int]]:
    """The true nearest of each query, as places in `vectors`."""
    return [set(np.argpartition(-(vectors @ query), NEAREST)[:NEAREST].tolist()) for query in queries]


def recall_of(truth: Sequence[set[int]], answers: Sequence[Sequence[int]]) -> float:
    """The share of the true nearest that is in the answers."""
    hits = sum(len(true.intersection(answer)) for true, answer in zip(truth, answers, strict=True))
    return hits / sum(map(len, truth))
