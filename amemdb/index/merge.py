"""The making of one graph of a tiered index, in steps: vectors are taken on the loop, and added in a thread.

A merge is begun with lists of fact ids: those of a tail that was set aside, and of graphs that the new one replaces.
`next` is called where the index changes, and gives the next piece of work to be done anywhere else, one after
another; it copies the vectors, so that no row is read while it is written. It gives None when the graph is ready.

What goes meanwhile is left out if its turn has not come, and marked before the graph is searched if it has. Vectors
that do not fit in a graph are given back (`keep`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from amemdb.index.exact import ExactIndex
from amemdb.index.few import Integers
from amemdb.index.graph import Graph, fits
from amemdb.index.similarity import Floats
from amemdb.index.widths import Trial

BATCH_FLOATS = 1 << 14
"""Copied in some tens of microseconds, and added in some tens of milliseconds."""
BATCH_ROWS_MAX = 256
GONE_AT_ONCE = 64
"""Marks that may be set on the loop, at the end."""


class Merge:
    """One graph being made of vectors of `exact`."""

    __slots__ = ("_exact", "_keep", "_parts", "_sealed", "aside", "done", "gone", "graph", "replaced", "total", "trial")

    def __init__(
        self,
        exact: ExactIndex,
        graph: Graph,
        parts: Sequence[Integers],
        aside: ExactIndex | None,
        replaced: Sequence[Graph],
        keep: Callable[[int], None],
        is_tried: bool,
    ) -> None:
        """`parts` are ids of facts, no two the same; those that are no longer in `exact` are passed over.

        `aside` and `replaced` are where these facts are found until the graph is there. With `is_tried` it is measured
        how wide it has to be searched.
        """
        self.graph = graph
        self.aside = aside
        self.replaced = replaced
        self.gone: list[int] = []
        """Facts that went since it began."""
        self.done = 0
        self.total = sum(map(len, parts))
        self.trial = Trial(exact, graph) if is_tried else None
        self._exact = exact
        self._parts = deque(parts)
        self._keep = keep
        self._sealed = False

    def next(self) -> Callable[[], None] | None:
        """The next piece of work, for any thread, when the last one is done; None when the graph is ready."""
        while self._parts:
            work = self._next_of_parts()
            if work is not None:
                return work
        if not self._sealed:
            self._sealed = True
            return self.graph.seal
        work = None if self.trial is None else self.trial.next()
        if work is not None:
            return work
        if len(self.gone) > GONE_AT_ONCE:
            gone, self.gone = self.gone, []
            return partial(_mark, self.graph, gone)
        return None

    def finish(self) -> Graph:
        """The graph, sealed, without what went since it began."""
        assert self._sealed
        _mark(self.graph, self.gone)
        return self.graph

    def _next_of_parts(self) -> Callable[[], None] | None:
        rows_max = max(1, min(BATCH_ROWS_MAX, BATCH_FLOATS // self._exact.dim))
        part = self._parts[0]
        ids, rest = part[:rows_max], part[rows_max:]
        if len(rest):
            self._parts[0] = rest
        else:
            self._parts.popleft()
        self.done += len(ids)
        held = np.array([fact_id for fact_id in ids.tolist() if fact_id in self._exact], np.int64)
        if not len(held):
            return None
        vectors = self._exact.vectors(held.tolist())
        norms: Floats = np.sqrt(self._exact.squares_of(held.tolist()))
        fitting = fits(norms, self._exact.metric)
        if not fitting.all():
            for fact_id in held[~fitting].tolist():
                self._keep(fact_id)
            held, vectors = held[fitting], vectors[fitting]
        return partial(self.graph.add, held, vectors)


def _mark(graph: Graph, fact_ids: list[int]) -> None:
    for fact_id in fact_ids:
        graph.remove(fact_id)
