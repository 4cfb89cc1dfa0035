"""A search that asks graphs and looks at what is in none of them: the counterpart of the search of a matrix.

What it is begun with, when it is used, and what becomes of what it found is told in `amemdb.index.tiered`.
"""

from __future__ import annotations

from typing import Protocol

from amemdb.index.exact import SLACK, ExactIndex, Found, Search
from amemdb.index.few import Integers
from amemdb.index.graph import Graph
from amemdb.index.similarity import Query

STEPS_PER_WIDTH = 80
"""What a graph takes for each that it is asked for, in vectors of a matrix that is read from one end to the other. It
looks at some 16, each of which has to be waited for."""


def cost_floats(graphs: int, width: int, dim: int) -> int:
    """What a search of so many graphs takes, on the scale of `Search`."""
    return graphs * width * STEPS_PER_WIDTH * dim


class Tiers(Protocol):
    """What a search is begun on."""

    dim: int
    epoch: int
    """Counts what makes a search begin again."""
    graphs: tuple[Graph, ...]

    @property
    def tails(self) -> list[ExactIndex]:
        """Where facts are that are in no graph."""


class GraphSearch:
    """A search under way that uses graphs; the counterpart of `Search`."""

    __slots__ = (
        "_dim",
        "among",
        "epoch",
        "few",
        "graphs",
        "k",
        "minimum",
        "now_ms",
        "query",
        "tails",
        "width",
    )

    def __init__(
        self,
        index: Tiers,
        query: Query,
        k: int,
        minimum: float,
        now_ms: int,
        width: int,
        among: Integers | None,
        few_max: int,
    ) -> None:
        """Tails of at most `few_max` are ranked whole at the end, without a look at them before."""
        self.query = query
        self.k = k
        self.minimum = minimum
        self.now_ms = now_ms
        self.width = width
        self.among = among
        self.epoch = index.epoch
        self.graphs = index.graphs
        self.tails: list[tuple[ExactIndex, Search]] = []
        self.few: list[ExactIndex] = []
        for tail in index.tails:
            if len(tail) <= few_max:
                self.few.append(tail)
            else:
                self.tails.append((tail, tail.search(query, k, minimum, now_ms, SLACK, among)))
        self._dim = index.dim

    @property
    def cost_floats(self) -> int:
        """What the duration depends on, on the scale of `Search`."""
        tails_floats = sum([search.cost_floats for _, search in self.tails])
        return cost_floats(len(self.graphs), self.width, self._dim) + tails_floats

    def work(self) -> Near:
        """Look at graphs and tails. Runs in any thread."""
        nearest = [graph.nearest(self.query, self.width) for graph in self.graphs]
        return Near(nearest, [search.work() for _, search in self.tails])


class Near:
    """What `GraphSearch.work` found: by graph the ids of the nearest (None where it failed), by tail what is best."""

    __slots__ = ("found", "ids")

    def __init__(self, ids: list[Integers | None], found: list[Found]) -> None:
        self.ids = ids
        self.found = found
