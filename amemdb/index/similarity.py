"""What similarity means here: one scale, higher is better everywhere, and a distance never leaves this package.

========  ==========================================  ===========
metric    similarity of a fact to a query             range
========  ==========================================  ===========
cosine    cosine of the angle between them            -1 to 1
ip        inner product                               any
l2        1 / (1 + euclidean distance)                above 0 to 1
========  ==========================================  ===========

A threshold is inclusive: a fact passes when its similarity is at least the threshold less a tolerance for the rounding
of components to float32, so that an exact match passes 1.0. The tolerance is 1e-6 under cosine; under ip and l2, whose
scale is open, it is that part of the threshold. 0.0 is a threshold like any other; None is none.

Two computations, and why there are two:

* *Exact* keys are float64, one row at a time, the sum in an order that depends on the dimension alone. The same vector
  gives the same bits whichever row it lies in, so leader, follower and recovered node answer alike. Identical vectors
  give exactly 1 under cosine and l2, as `sqrt(s * s)` is `s`.
* *Coarse* keys come from one float32 matrix product, many times faster, each with a bound on how far it may be
  from the exact one: `|error| <= d * u / (1 - d * u) * |row| * |query|`, u = 2**-24, for any order of summation
  (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 3.1). They only choose which rows get an exact key.

The query of a coarse product is scaled to length 1, so that products and sums stay below the length of the row. A row
so long or so short that float32 would still overflow or lose digits in it is `extreme` and gets float64 products.

A *key* is what rows are ordered by: the cosine, the product, or the distance negated, which keeps apart what the
similarity of l2 would round together.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Vector = NDArray[np.float32]

COSINE, INNER_PRODUCT, EUCLIDEAN = b"cosine", b"ip", b"l2"
METRICS = (COSINE, INNER_PRODUCT, EUCLIDEAN)
THRESHOLD_TOLERANCE = 1e-6

_UNIT32 = 2.0**-24
_UNIT64 = 2.0**-53
_MARGIN = 1e-12
"""More than what the similarity of a distance loses of it."""
_LONG = 1e37
_SHORT = 1e-25


class Query:
    """A query vector made ready: `vector` as float64, its sum of squares and length, and itself at length 1."""

    __slots__ = ("metric", "norm", "squares", "unit", "unit32", "vector")

    def __init__(self, metric: bytes, vector: Vector) -> None:
        self.metric = metric
        self.vector: Floats = vector.astype(np.float64)
        self.squares = sum_of_squares(self.vector)
        self.norm = math.sqrt(self.squares)
        self.unit: Floats = self.vector / self.norm if self.norm else self.vector
        self.unit32: Vector = self.unit.astype(np.float32)


def sum_of_squares(vector: Floats) -> float:
    """In the order of summation of `exact_keys`, so that a vector's product with itself is the same number."""
    return float(np.add.reduce(vector * vector))


def exact_keys(rows: Floats, squares: Floats, query: Query) -> Floats:
    """The keys of `rows`, given their sums of squares."""
    if query.metric == EUCLIDEAN:
        apart = rows - query.vector
        distances: Floats = np.sqrt((apart * apart).sum(axis=1))
        return -distances
    products: Floats = (rows * query.vector).sum(axis=1)
    if query.metric == INNER_PRODUCT:
        return products
    return np.clip(products / np.sqrt(squares * query.squares), -1.0, 1.0)


def coarse_keys(unit_products: Floats, norms: Floats, query: Query) -> tuple[Floats, Floats]:
    """Approximate keys and their error bounds from products with `query.unit32`; under l2 of the *squared* distance."""
    dim = len(query.vector)
    relative = 1.01 * (dim + 8) * _UNIT32
    if query.metric == COSINE:
        return unit_products / norms, np.full(len(norms), relative)
    if query.metric == INNER_PRODUCT:
        return unit_products * query.norm, relative * query.norm * norms
    keys = 2.0 * query.norm * unit_products - norms * norms - query.squares
    errors = 2.0 * relative * query.norm * norms + 4.0 * (dim + 8) * _UNIT64 * (norms + query.norm) ** 2
    return keys, errors


def floor_of(coarse_floor: float, metric: bytes) -> float:
    """A bound on coarse keys as a bound on exact ones."""
    return -math.sqrt(max(0.0, -coarse_floor)) if metric == EUCLIDEAN else coarse_floor


def coarse_floor_of(similarity: float, metric: bytes) -> float:
    """A bound on a similarity as one on coarse keys, a little lower: what is at least so similar is not below it."""
    if metric != EUCLIDEAN:
        return similarity
    if similarity <= 0.0:
        return -math.inf
    distance = (1.0 / similarity - 1.0) * (1.0 + _MARGIN) + _MARGIN
    return -distance * distance


def extreme(norms: Floats) -> NDArray[np.bool_]:
    """Which rows float32 products would be wrong for."""
    return (norms > _LONG) | ((norms < _SHORT) & (norms > 0.0))


def similarities(keys: Floats, metric: bytes) -> Floats:
    """What callers see."""
    return 1.0 / (1.0 - keys) if metric == EUCLIDEAN else keys


def least_similarity(threshold: float | None, metric: bytes) -> float:
    """The similarity from which on a fact passes `threshold`."""
    if threshold is None:
        return -math.inf
    return threshold - THRESHOLD_TOLERANCE * (1.0 if metric == COSINE else abs(threshold))
