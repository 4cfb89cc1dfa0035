"""The two-tier index: all vectors in a matrix, and above a size graphs beside it, so that few of them are looked at.

The matrix (`ExactIndex`) always holds the truth. Up to `CROSSOVER_FLOATS` it is searched whole, and there is nothing
else. Above that the facts are divided, each being in one of these:

* a *graph*, sealed: it finds who is near without looking at all of them (`amemdb.index.graph`);
* the *tail*: what came since, in a small exact index of its own that each search looks at whole. So what was written
  is found by the next search;
* a tail that was *set aside*, the same, while a graph is made of it (`amemdb.index.merge`).

A tail that has grown becomes a graph, together with the graphs that are at most `JOINED` times as large as what is
gathered so far. So graphs are few, each much larger than the next, and a vector is added again only when what it is in
grows by half. No graph ever grows, so nobody waits for one, and growth is never a pause. While a large one is made, the
tail becomes smaller ones beside it. A fact that goes is marked in its graph; one with many marks is made anew, which
gives their room back. When it is quiet, they become one. The first is made of all facts, and the matrix is searched
until it is there. More than `GRAPH_ROWS_MAX` are several graphs: to begin and to free one takes time in which nothing
else runs.

A search asks each graph for the nearest `width` and each tail for the best k. In `settle`, on the loop, what is gone
is left out and the rest is ranked by exact keys from the matrix: similarities, and the order among what is returned,
are those of the exact index; only who is found may differ. A graph that gave fewer than k that count, while it has
more, was asked too narrowly: the caller searches again, wider, and at some width the matrix is searched, which ends it.
That is also done for facts among few, for a large k, and for vectors that float32 products would be wrong for.

Nothing here knows threads. `begin` starts a merge, whoever drives it calls `Merge.next` and does what that gives,
somewhere else, and `publish` puts the graph in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from amemdb.index import graph as graphs
from amemdb.index.exact import FLOAT32, SLACK, ExactIndex, Found, Search
from amemdb.index.few import Hit, Integers
from amemdb.index.graph import Graph, fits
from amemdb.index.merge import Merge
from amemdb.index.near import GraphSearch, Near, cost_floats
from amemdb.index.similarity import COSINE, Query, Vector

CROSSOVER_FLOATS = 3_000_000
"""Components of all vectors up to which the matrix is faster, exact, and enough. So it is for a few hundred facts."""
TAIL_SHARE = 3
"""A tail that holds one in so many of them becomes a graph."""
GRAPH_ROWS_MAX = 1 << 17
JOINED = 2
GONE_SHARE = 0.3
"""A graph with more marks than that is made anew."""
MERGES_MAX = 2
"""Graphs that are made at the same time: a large one, and one of what came since."""
LIVING_SHARE = 0.1
"""With fewer than that left a graph walks so far that the matrix is faster."""
QUIET_SHARE = 0.1
"""When it is quiet, graphs beside the largest that have together more than that of it are joined with it, and one with
more marks is made anew."""
SPARE = 4
"""So many more than k of each graph are ranked exactly: float32 may have taken near equals for one another."""
FEW = 64
"""A tail of so many is ranked whole at the end of a search, without a look at it before."""
REACHING_MAX = 256
"""With more facts of tails that may be among the k, at once would take long."""
WIDTH_SHARE = 8
"""A search that would ask a graph for one in so many facts looks at the matrix instead."""


class State(NamedTuple):
    """What AMEM.SEM.INFO tells of an index."""

    kind: bytes
    tombstones: int
    """Marked vectors in graphs."""
    tail: int
    """Facts beside the graphs, which each search looks at."""
    graphs: int
    merged: int
    """Facts that the graphs that are being made have been given, of `merging`."""
    merging: int


_NO_IDS: set[int] = set()
"""Never added to: the many small memories share it."""


class TieredIndex:
    """Vectors of one dimension under one metric, by fact id."""

    __slots__ = (
        "_build_width",
        "_crossover_floats",
        "_first",
        "_given_width",
        "_links",
        "_quant",
        "_search_width",
        "_tail",
        "_uncovered",
        "_unfit",
        "dim",
        "epoch",
        "exact",
        "graphs",
        "merges",
        "metric",
        "unused",
    )

    OBJECTS_BYTES = ExactIndex.OBJECTS_BYTES + 176
    """Of an index without rows beside its tables, about."""

    def __init__(
        self,
        dim: int,
        metric: bytes,
        quant: bytes = FLOAT32,
        links: int = 0,
        build_width: int = 0,
        search_width: int = 0,
        crossover_floats: int = 0,
    ) -> None:
        """Of `links` (M), the widths (EF_CONSTRUCTION, EF_SEARCH) and the crossover 0 stands for what fits most."""
        self.dim = dim
        self.metric = metric
        self.exact = ExactIndex(dim, metric, quant)
        self.graphs: tuple[Graph, ...] = ()
        """Those that are searched. Replaced as a whole, as searches under way have the old ones."""
        self.epoch = 0
        """Counts what makes a search under way begin again: facts went from one place to another."""
        self.merges: tuple[Merge, ...] = ()
        """Those that were begun and not yet published."""
        self.unused: tuple[Graph | ExactIndex, ...] = ()
        """What nobody looks at any more and takes long to free: for whoever frees such things."""
        self._uncovered: Integers | None = None
        """Facts that were there before the first graph, and were not given to a merge yet."""
        self._first: tuple[Merge, ...] = ()
        """The merges of such facts. Graphs are not searched before they are done."""
        self._quant = quant
        self._links = links or graphs.LINKS
        self._build_width = build_width or graphs.BUILD_WIDTH
        self._given_width = search_width
        self._search_width = search_width or graphs.SEARCH_WIDTH
        self._crossover_floats = crossover_floats or CROSSOVER_FLOATS
        self._tail: ExactIndex | None = None
        """None until there is a graph, or one is being made: all facts are in the matrix anyway."""
        self._unfit = _NO_IDS
        """Facts in the tail that no graph takes."""

    def __len__(self) -> int:
        return len(self.exact)

    def __contains__(self, fact_id: int) -> bool:
        return fact_id in self.exact

    @property
    def kind(self) -> bytes:
        """How it is searched now."""
        return b"hnsw" if self._is_tiered else b"exact"

    @property
    def _is_tiered(self) -> bool:
        return bool(self.graphs) and not self._first and self._uncovered is None

    @property
    def is_large(self) -> bool:
        """Whether there are graphs, or should be: worth a look at `is_due` now and then."""
        return self._tail is not None or self._is_beyond_matrix

    @property
    def _is_beyond_matrix(self) -> bool:
        count = len(self.exact)
        is_worth_it = count * self.dim > self._crossover_floats and count > WIDTH_SHARE * FEW
        return is_worth_it and graphs.IS_AVAILABLE

    @property
    def vector_bytes(self) -> int:
        """Bytes of memory that one vector takes in the matrix."""
        return self.exact.vector_bytes

    @property
    def links(self) -> int:
        """Neighbours of a vector in its graphs (M): given, or what is usual."""
        return self._links

    @property
    def search_width(self) -> int:
        """How many candidates a graph keeps where a search does not say (EF_SEARCH): given, measured, or usual."""
        return self._search_width

    @property
    def generation(self) -> int:
        """Counts changes."""
        return self.exact.generation

    @property
    def tails(self) -> list[ExactIndex]:
        """What a search looks at beside the graphs."""
        return [tail for tail in self._all_tails() if len(tail)]

    def _all_tails(self) -> Iterator[ExactIndex]:
        if self._tail is not None:
            yield self._tail
        for merge in self.merges:
            if merge.aside is not None:
                yield merge.aside

    def dead_id(self, now_ms: int) -> int | None:
        """The id of a fact that has expired, the one whose time passed first; None if all live. O(1) if none can be."""
        return self.exact.dead_id(now_ms)

    def ids(self) -> Integers:
        """The ids of all facts, in no order. A copy."""
        return self.exact.ids()

    def live_count(self, now_ms: int) -> int:
        """How many facts have not expired."""
        return self.exact.live_count(now_ms)

    def vector(self, fact_id: int) -> Vector:
        """A copy of the vector of a fact that is in the index."""
        return self.exact.vector(fact_id)

    def memory_bytes(self) -> int:
        """Bytes of memory that arrays, tables and graphs take, those being made included."""
        count_bytes = self.exact.memory_bytes()
        if self._tail is None:
            return count_bytes
        count_bytes += sum([graph.memory_bytes() for graph in self.graphs])
        count_bytes += sum([merge.graph.memory_bytes() for merge in self.merges])
        return count_bytes + sum([ExactIndex.OBJECTS_BYTES + tail.memory_bytes() for tail in self._all_tails()])

    def state(self) -> State:
        """What is told of it."""
        return State(
            self.kind,
            sum([graph.gone for graph in self.graphs]),
            sum(map(len, self.tails)) if self._is_tiered else 0,
            len(self.graphs),
            sum([merge.done for merge in self.merges]),
            sum([merge.total for merge in self.merges]),
        )

    def free_some(self, count: int) -> int:
        """Free about `count` rows of an index that is out of use; how many they were. A graph goes in one go."""
        if self.graphs:
            self.graphs = self.graphs[1:]
            return count
        freed = 0
        for rows in (*self._all_tails(), self.exact):
            if freed < count:
                freed += rows.free_some(count - freed)
        if freed < count:
            self.merges = ()  # they know this index, and nothing collects cycles of old objects
        return freed

    # -- changes -----------------------------------------------------------------------------------

    def put(self, fact_id: int, vector: bytes, expire_at_ms: int) -> None:
        """Take in a vector of `dim` little-endian float32 under an id that was never used before."""
        self.exact.put(fact_id, vector, expire_at_ms)
        if self._tail is not None:
            self._tail.put(fact_id, vector, expire_at_ms)

    def remove(self, fact_id: int) -> None:
        """Let go of a fact that is in the index."""
        self.exact.remove(fact_id)
        if self._tail is None:
            return
        self._unfit.discard(fact_id)
        tails = [tail for tail in self._all_tails() if fact_id in tail]
        for tail in tails:  # one that does not fit may be in two, while the other is merged
            tail.remove(fact_id)
        if not tails:
            any(graph.remove(fact_id) for graph in self.graphs)
        for merge in self.merges:
            merge.gone.append(fact_id)
        if 2 * len(self.exact) * self.dim < self._crossover_floats:
            self._forget_graphs()

    def _forget_graphs(self) -> None:
        """So few are left that the matrix is enough."""
        self.unused = (*self.unused, *self.graphs, *self._all_tails())
        self.graphs, self.merges, self._first = (), (), ()
        self._tail = self._uncovered = None
        self._unfit = _NO_IDS
        self.epoch += 1

    # -- merges ------------------------------------------------------------------------------------

    def is_due(self, quiet: bool = False) -> bool:
        """Whether a merge is to be begun. When it is `quiet`, also one that only makes later searches faster."""
        if self._tail is None:
            return self._is_beyond_matrix
        if len(self.merges) == MERGES_MAX:
            return False
        if self._uncovered is not None and not self._first:
            return True
        waiting = len(self._tail) - len(self._unfit)
        if waiting * self.dim * TAIL_SHARE > self._crossover_floats:
            return True
        if self.merges:
            return False
        share = QUIET_SHARE if quiet else GONE_SHARE
        return any(_is_worn(graph, share) for graph in self.graphs) or (quiet and (waiting > FEW or self._are_many()))

    def _are_many(self) -> bool:
        """Whether there are graphs worth to be joined with the largest of them."""
        sizes = list(map(len, self._joinable()))
        return len(sizes) > 1 and sum(sizes) > (1 + QUIET_SHARE) * max(sizes)

    def _joinable(self) -> list[Graph]:
        """The smallest graphs, as many as one graph can hold, with the tail."""
        count = 0 if self._tail is None else len(self._tail)
        found = []
        for graph in sorted(self.graphs, key=len):
            count += len(graph)
            if count > GRAPH_ROWS_MAX:
                break
            found.append(graph)
        return found

    def begin(self, quiet: bool = False) -> Merge:
        """Begin the merge that is due."""
        assert len(self.merges) < MERGES_MAX
        aside: ExactIndex | None = None
        replaced: list[Graph] = []
        is_first = self._tail is None or (self._uncovered is not None and not self._first)
        if self._tail is None:
            self._uncovered = self.exact.ids()
            self._tail, self._unfit = ExactIndex(self.dim, self.metric, self._quant), set()
        if is_first:
            assert self._uncovered is not None
            parts = [self._uncovered[:GRAPH_ROWS_MAX]]
            rest = self._uncovered[GRAPH_ROWS_MAX:]
            self._uncovered = rest if len(rest) else None
        else:
            aside, self._tail = self._tail, ExactIndex(self.dim, self.metric, self._quant)
            self._unfit = set()
            self.epoch += 1
            replaced = self._replaced(len(aside), quiet)
            parts = [aside.ids(), *[graph.ids() for graph in replaced]]
        capacity = max(1, sum(map(len, parts)) - sum(graph.gone for graph in replaced))
        graph = Graph(self.dim, self.metric, capacity, self._links, self._build_width)
        is_tried = not self._given_width and 2 * capacity >= min(len(self.exact), GRAPH_ROWS_MAX)
        merge = Merge(self.exact, graph, parts, aside, replaced, self._keep, is_tried)
        if is_first:
            self._first = (*self._first, merge)
        self.merges = (*self.merges, merge)
        return merge

    def _replaced(self, count: int, quiet: bool) -> list[Graph]:
        """The graphs that go into a new one, with `count` others."""
        if quiet and self._are_many():
            return self._joinable()
        busy = [graph for merge in self.merges for graph in merge.replaced]
        share = QUIET_SHARE if quiet else GONE_SHARE
        chosen: list[Graph] = []
        if not self.merges:
            for graph in [graph for graph in self.graphs if _is_worn(graph, share)]:
                if count + len(graph) <= GRAPH_ROWS_MAX or not chosen:
                    chosen.append(graph)
                    count += len(graph)
        for graph in sorted(self.graphs, key=len):
            fits_in = len(graph) <= JOINED * count and count + len(graph) <= GRAPH_ROWS_MAX
            if fits_in and graph not in chosen and graph not in busy:
                chosen.append(graph)
                count += len(graph)
        return chosen

    def _keep(self, fact_id: int) -> None:
        """A fact stays beside the graphs: they would order it wrongly."""
        assert self._tail is not None
        if fact_id not in self._tail:
            self._unfit.add(fact_id)
            self._tail.put(fact_id, self.exact.vector(fact_id).tobytes(), self.exact.expire_at_ms(fact_id))

    def publish(self, merge: Merge) -> None:
        """Search the graph of a merge that is done from now on."""
        graph = merge.finish()
        self.merges = tuple([other for other in self.merges if other is not merge])
        kept = [old for old in self.graphs if old not in merge.replaced]
        unused: list[Graph | ExactIndex] = [*merge.replaced]
        (kept if len(graph) else unused).append(graph)
        if merge.aside is not None:
            unused.append(merge.aside)
        self.unused = (*self.unused, *unused)
        if merge.trial is not None:
            self._search_width = merge.trial.width or graphs.SEARCH_WIDTH
        self._first = tuple([other for other in self._first if other is not merge])
        self.graphs = tuple(kept)
        self.epoch += 1

    def adopt(self, kept: list[Graph], search_width: int) -> bool:
        """Search graphs that were made of these facts at another time; the facts in none of them become the tail.

        What is not marked in them is a fact that is here, with its vector. False, and nothing done, if that would not
        help: the graphs are to be made anew, or there are none to be.
        """
        assert self._tail is None
        assert not self.graphs
        covered = np.concatenate([np.empty(0, np.int64), *[graph.ids() for graph in kept]])
        ids = self.exact.ids()
        rest = np.setdiff1d(ids, covered)
        if not self._is_beyond_matrix or 2 * len(rest) > len(ids):
            return False
        self._tail, self._unfit = ExactIndex(self.dim, self.metric, self._quant), set()
        for fact_id in rest.tolist():
            if fits(np.sqrt(self.exact.squares_of([fact_id])), self.metric)[0]:
                self._tail.put(fact_id, self.exact.vector(fact_id).tobytes(), self.exact.expire_at_ms(fact_id))
            else:
                self._keep(fact_id)
        self.graphs = tuple(kept)
        self._search_width = self._given_width or search_width
        self.epoch += 1
        return True

    # -- searches ----------------------------------------------------------------------------------

    def search(
        self,
        query: Query,
        k: int,
        minimum: float,
        now_ms: int,
        slack: int = SLACK,
        among: Integers | None = None,
        width: int = 0,
    ) -> Search | GraphSearch:
        """Begin a search for the `k` facts most similar to `query`, each of a similarity of at least `minimum`.

        With `among`, ids of facts, for no others than these. `width` (EF) is how many a graph keeps in sight; 0 for
        what the namespace has.
        """
        wide = self._width(query, k, slack, among, width) if self._is_tiered else 0
        if wide:
            return GraphSearch(self, query, k, minimum, now_ms, wide, among, FEW)
        return self.exact.search(query, k, minimum, now_ms, slack, among)

    def _width(self, query: Query, k: int, slack: int, among: Integers | None, width: int) -> int:
        """How many each graph is asked for; 0 if the matrix is to be searched."""
        wide = max(width or self._search_width, k + SLACK) * max(1, slack // SLACK)
        if among is not None:
            wide = wide * len(self) // max(1, len(among))
        if wide * WIDTH_SHARE > len(self) and not width:
            return 0
        if wide > len(self):
            return 0
        for graph in self.graphs:
            if graph.gone and len(graph) < LIVING_SHARE * graph.count:
                return 0
        if not query.norm or (self.metric != COSINE and not fits(np.array([query.norm]), self.metric)[0]):
            return 0
        return wide

    def at_once(self, query: Query, k: int, now_ms: int, floats_max: int) -> list[Hit] | None:
        """The `k` facts most similar to `query` in this moment; None if that has to be a search like any other.

        That is when it may take more than `floats_max` on the scale of `cost_floats`, or once is not enough. It is what
        `search`, `work` and `settle` give, without what they have to remember, which takes as long as a dozen rows.
        """
        wide = self._width(query, k, SLACK, None, 0) if self._is_tiered else 0
        if not wide:
            search = self.search(query, k, -math.inf, now_ms)
            return self.settle(search, search.work(), now_ms) if search.cost_floats <= floats_max else None
        tails = [tail.search(query, k, -math.inf, now_ms) for tail in self.tails]
        tails_floats = sum([tail.cost_floats for tail in tails])
        if cost_floats(len(self.graphs), wide, self.dim) + tails_floats > floats_max:
            return None
        ids: set[int] = set()
        for graph in self.graphs:
            good = self._good(graph, graph.nearest(query, wide), k, now_ms, None)
            if good is None:
                return None
            ids.update(good)
        hits = self.exact.hits_of(ids, query, -math.inf, now_ms)
        least = hits[k - 1][0] if len(hits) >= k else -math.inf
        more = {fact_id for tail in tails for fact_id in tail.reaching(least)}
        if len(more) > REACHING_MAX:
            return None
        if not more <= ids:
            hits = self.exact.hits_of(ids | more, query, -math.inf, now_ms)
        return hits[:k]

    def _good(
        self, graph: Graph, nearest: Integers | None, k: int, now_ms: int, is_among: Callable[[int], bool] | None
    ) -> list[int] | None:
        """Those of the nearest of a graph that count; None if they are fewer than it can give."""
        if nearest is None:
            return None
        good = self.exact.living(nearest.tolist(), now_ms, is_among, k + SPARE)
        return None if len(good) < k and len(nearest) < len(graph) else good

    def settle(
        self,
        search: Search | GraphSearch,
        found: Found | Near,
        now_ms: int,
        is_among: Callable[[int], bool] | None = None,
    ) -> list[Hit] | None:
        """The hits as of now, best first and equal ones by fact id; None if the caller has to search again, wider.

        `is_among` tells of a search among given facts which fact is one of these.
        """
        if isinstance(search, Search):
            assert isinstance(found, Found)
            return self.exact.settle(search, found, now_ms, is_among)
        assert isinstance(found, Near)
        if search.epoch != self.epoch or now_ms < search.now_ms:
            return None
        if search.among is None:
            is_among = None
        ids: set[int] = set()
        for graph, nearest in zip(search.graphs, found.ids, strict=True):
            good = self._good(graph, nearest, search.k, now_ms, is_among)
            if good is None:
                return None
            ids.update(good)
        for (tail, part), best in zip(search.tails, found.found, strict=True):
            hits = tail.settle(part, best, now_ms, is_among)
            if hits is None:
                return None
            ids.update([fact_id for _, fact_id in hits])
        for tail in search.few:
            ids.update(self.exact.living(tail.ids().tolist(), now_ms, is_among, len(tail)))
        return self.exact.hits_of(ids, search.query, search.minimum, now_ms)[: search.k]


def _is_worn(graph: Graph, share: float) -> bool:
    return graph.gone > share * graph.count
