"""One graph of vectors (hnswlib) and the few things that may be done with it.

hnswlib checks little: a vector of another dimension makes it read beyond its buffer, a search while it grows crashes,
one while it takes in vectors is wrong now and then, and asking for more than it can find raises. So a graph here has
two lives, and everything is checked before it is called:

1. *Being built.* Its capacity is fixed when it is made. One thread at a time adds vectors, and nobody searches.
2. *Sealed.* Nothing is added any more, so any number of threads search at once. The only change is the mark of a vector
   that is gone: one byte, which a search under way sees or does not see. Who searches looks at what was found anyway.

Labels are fact ids, which are never used twice; a label is added once, and room of what is gone is never given to
another. Distances never leave this module: a graph says who is near, and how near is what exact keys say. Under cosine
and ip it holds vectors scaled or as they are, and orders by inner product; under l2 by distance.

Lengths that float32 products would be wrong for do not belong in a graph (`fits`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from amemdb.index.graph_layout import Layout
from amemdb.index.similarity import COSINE, EUCLIDEAN, Floats, Query, Vector

if TYPE_CHECKING:
    import hnswlib
else:
    try:
        import hnswlib
    except ImportError:
        hnswlib = None

Integers = NDArray[np.int64]

IS_AVAILABLE: bool = hnswlib is not None
"""Whether graphs can be made. Without hnswlib everything is searched exactly."""

LINKS = 16
"""Neighbours of a vector, twice as many on the lowest level: `M`, where nothing else is asked for."""
BUILD_WIDTH = 200
"""Candidates that a new vector's neighbours are chosen from: `EF_CONSTRUCTION`."""
SEARCH_WIDTH = 200
"""Candidates that a search keeps, `EF_SEARCH`, where that was neither given nor measured (`amemdb.index.widths`)."""
SEED = 100
"""One thread that adds the same vectors in the same order makes the same graph."""
OBJECTS_BYTES = 3 << 20
"""Of a graph beside its vectors: mostly 65,536 locks, which hnswlib makes for each."""
_VECTOR_BYTES = 112
"""Of a vector in hnswlib's tables beside components and links: label, lock, level and a place in a hash table."""
_LONG, _SHORT = 1e15, 1e-15


class Graph:
    """Vectors of one dimension under one metric, found by nearness."""

    __slots__ = ("_graph", "_ids", "_metric", "_sealed", "build_width", "capacity", "count", "dim", "gone", "links")

    def __init__(
        self, dim: int, metric: bytes, capacity: int, links: int = LINKS, build_width: int = BUILD_WIDTH
    ) -> None:
        assert dim > 0
        assert capacity > 0
        assert links > 1
        self.dim = dim
        self.capacity = capacity
        self.links = links
        self.build_width = max(build_width, links)
        self.count = 0
        self.gone = 0
        """How many of them are marked."""
        self._metric = metric
        self._sealed = False
        self._ids: Integers = np.empty(capacity, np.int64)
        self._graph: Any = hnswlib.Index("l2" if metric == EUCLIDEAN else "ip", dim)
        self._graph.init_index(capacity, M=links, ef_construction=self.build_width, random_seed=SEED)
        self._graph.set_ef(1)  # a search says how wide it is by how many it asks for: the setting is all threads' one

    def __len__(self) -> int:
        """How many vectors it has that are not marked."""
        return self.count - self.gone

    # -- being built -------------------------------------------------------------------------------

    def add(self, fact_ids: Integers, vectors: Vector) -> None:
        """Take in vectors, all of which fit. In one thread at a time; other threads run meanwhile."""
        assert not self._sealed, "what is searched does not change"
        assert vectors.ndim == 2
        assert vectors.shape == (len(fact_ids), self.dim)
        assert self.count + len(fact_ids) <= self.capacity
        if not len(fact_ids):
            return
        end = self.count + len(fact_ids)
        self._graph.add_items(scaled(vectors, self._metric), fact_ids, num_threads=1)
        self._ids[self.count : end] = fact_ids
        self.count = end

    def seal(self) -> None:
        """Add nothing more: from now on it may be searched."""
        ids = np.sort(self._ids[: self.count])
        assert len(ids) < 2 or (np.diff(ids) > 0).all(), "a fact id was added twice"
        self._ids = ids
        self._sealed = True

    # -- in a file -----------------------------------------------------------------------------------

    def save(self, path: str) -> None:
        """Write a sealed graph to a file, with the vectors that are marked. Nothing else runs meanwhile.

        Raises `OSError`.
        """
        assert self._sealed
        try:
            self._graph.save_index(path)
        except RuntimeError as error:
            raise OSError(str(error)) from error

    @classmethod
    def loaded(cls, path: str, metric: bytes, layout: Layout, living: Integers) -> Graph:
        """A sealed graph from a file that `save` wrote, of which `layout` is. Nothing else runs meanwhile.

        `living` are the ids of the facts there are, all else is marked. That the bytes are those that were written, and
        the vectors those of the facts, is for the caller to know. Raises `ValueError`.
        """
        self = cls.__new__(cls)
        self.dim, self.capacity, self.count = layout.dim, layout.capacity, layout.count
        self.links, self.build_width = layout.links, layout.build_width
        self._metric = metric
        self._graph = hnswlib.Index("l2" if metric == EUCLIDEAN else "ip", self.dim)
        try:
            self._graph.load_index(path, layout.capacity)
        except RuntimeError as error:
            raise ValueError(str(error)) from error
        self._graph.set_ef(1)
        labels, marked = layout.labels(), layout.marked()
        self.gone = int(marked.sum())
        self._ids = np.sort(labels)
        self._sealed = True
        for fact_id in np.setdiff1d(labels[~marked], living).tolist():
            self.remove(fact_id)
        return self

    # -- sealed ------------------------------------------------------------------------------------

    def ids(self) -> Integers:
        """The ids of all its vectors, marked ones too, ascending. Not to be changed."""
        return self._ids

    def holds(self, fact_id: int) -> bool:
        """Whether the vector of that fact is in it, marked or not."""
        place = int(np.searchsorted(self._ids, fact_id))
        return place < self.count and int(self._ids[place]) == fact_id

    def remove(self, fact_id: int) -> bool:
        """Mark the vector of a fact that is gone, once; whether it is in this graph."""
        assert self._sealed
        if not self.holds(fact_id):
            return False
        self._graph.mark_deleted(fact_id)
        self.gone += 1
        return True

    def nearest(self, query: Query, width: int) -> Integers | None:
        """The ids of about the `width` vectors nearest to `query`, the nearest first; None if so many were not found.

        In any number of threads at once. One that was marked meanwhile may be among them.
        """
        assert self._sealed
        assert width > 0
        assert len(query.vector) == self.dim
        width = min(width, len(self))
        if not width:
            return np.empty(0, np.int64)
        asked: Vector = query.vector.astype(np.float32) if self._metric == EUCLIDEAN else query.unit32
        graph = self._graph
        if graph is None:
            return None
        try:
            labels, _ = graph.knn_query(asked[None], width, num_threads=1)
        except RuntimeError:  # fewer are reached than there are: some were marked, or have no way to them
            return None
        found: Integers = labels[0].astype(np.int64)
        return found

    def free_some(self, count: int) -> int:
        """Free all of a graph that is out of use, in one go; how many parts that was. A search under way ends first."""
        freed, self.count, self.gone, self._graph = self.count, 0, 0, None
        return min(freed, count - 1)

    def memory_bytes(self) -> int:
        """Bytes of memory that it takes, about; the same from its making to its end."""
        links_bytes = 4 * (2 * self.links + 1) + 4 * (self.links + 1) // max(1, self.links - 1)
        return OBJECTS_BYTES + self.capacity * (4 * self.dim + links_bytes + _VECTOR_BYTES)


def scaled(vectors: Vector, metric: bytes) -> Vector:
    """Vectors, a row each, as a graph holds them: float32, of length 1 under cosine. All of them must fit."""
    wide = vectors.astype(np.float64)
    norms = np.sqrt((wide * wide).sum(axis=1))
    assert fits(norms, metric).all(), "a vector that float32 cannot multiply"
    if metric == COSINE:
        wide /= norms[:, None]
    return np.ascontiguousarray(wide, np.float32)


def fits(norms: Floats, metric: bytes) -> NDArray[np.bool_]:
    """Which vectors of these lengths a graph orders rightly. Under cosine only the direction counts."""
    if metric == COSINE:
        return norms > 0.0
    zero = norms == 0.0
    result: NDArray[np.bool_] = ((norms < _LONG) & (norms > _SHORT)) | zero
    return result
