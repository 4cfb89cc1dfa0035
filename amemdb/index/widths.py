"""How wide a new graph has to be searched so that it finds what the exact index finds: measured, not guessed.

What a width gives depends on the vectors. Where clusters are dense and apart, a third of what another set needs is
enough, and twice as fast. So, before a graph of most facts is searched, queries are made up near some of its vectors,
the matrix says which facts are nearest, and the least width is taken that finds `RECALL` of them, and the next one for
safety: vectors of questions may lie farther from the facts than these queries do.

Like the making of a graph this is done in steps: `next` on the loop, what it gives in a thread.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

import numpy as np

from amemdb.index.exact import ExactIndex, Found, Search
from amemdb.index.few import Integers
from amemdb.index.graph import SEED, Graph
from amemdb.index.similarity import Floats, Query, Vector

WIDTHS = (24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 512)
"""Each a seventh or a quarter wider than the one before: that is what a search takes more."""
RECALL = 0.985
QUERIES = 128
"""Of half as many, one that misses all it looks for is more than what may be missed. Each takes a look at all facts."""
NEAREST = 10
_NEAREST_ASKED = 30
"""Some of the nearest may have come since, and are not in the graph."""
_AWAY = 0.5
"""How far from a vector a query is, in lengths of the vector."""


class Trial:
    """The measurement on one graph, which is sealed."""

    __slots__ = ("_exact", "_found", "_graph", "_hits", "_queries", "_search", "_wanted")

    def __init__(self, exact: ExactIndex, graph: Graph) -> None:
        self._exact = exact
        self._graph = graph
        self._queries: deque[Query] | None = None
        self._search: Search | None = None
        self._found: Found | None = None
        self._hits: Counter[int] = Counter()
        """By width how many of the nearest it found."""
        self._wanted = 0

    @property
    def width(self) -> int:
        """What was found; 0 where nothing could be tried."""
        if not self._wanted:
            return 0
        enough = [width for width in WIDTHS if self._hits[width] >= RECALL * self._wanted]
        wider = [width for width in WIDTHS if not enough or width > enough[0]]
        return wider[0] if enough and wider else WIDTHS[-1]

    def next(self) -> Callable[[], None] | None:
        """The next piece of work, for any thread, when the last one is done; None at the end."""
        if self._queries is None:
            self._queries = deque(self._made_up())
        search, found, self._search, self._found = self._search, self._found, None, None
        if search is not None and found is not None:
            hits = self._exact.settle(search, found, 0) or []
            nearest = [fact_id for _, fact_id in hits if self._graph.holds(fact_id)][:NEAREST]
            if nearest:
                return partial(self._compare, search.query, set(nearest))
        if not self._queries:
            return None
        query = self._queries.popleft()
        self._search = self._exact.search(query, _NEAREST_ASKED, -math.inf, 0)
        return partial(self._look, self._search)

    def _made_up(self) -> list[Query]:
        """Queries near vectors of the graph, the same for the same graph."""
        ids = self._graph.ids()
        places: Integers = np.linspace(0, max(0, len(ids) - 1), min(QUERIES, len(ids))).astype(np.int64)
        held = [fact_id for fact_id in ids[places].tolist() if fact_id in self._exact]
        vectors: Floats = self._exact.vectors(held).astype(np.float64)
        chance = np.random.default_rng(SEED)
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        moved: Vector = (
            vectors + chance.standard_normal(vectors.shape) * lengths * (_AWAY / math.sqrt(self._exact.dim))
        ).astype(np.float32)
        queries = [Query(self._exact.metric, vector) for vector in moved]
        return [query for query in queries if math.isfinite(query.norm) and query.norm]

    def _look(self, search: Search) -> None:
        self._found = search.work()

    def _compare(self, query: Query, nearest: set[int]) -> None:
        self._wanted += len(nearest)
        count = 0
        for width in WIDTHS:
            if count < len(nearest):  # what has found all at one width does so at a wider one
                found = self._graph.nearest(query, width)
                count = 0 if found is None else len(nearest.intersection(found.tolist()))
            self._hits[width] += count
