"""A two-tier index beside an exact one with the same facts: what tests of the former compare with and are driven by.

`small`, used by each test, lowers the bounds, so that some hundred facts have graphs.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from amemdb.index import graph as graphs
from amemdb.index import tiered
from amemdb.index.exact import SLACK, ExactIndex
from amemdb.index.merge import Merge
from amemdb.index.similarity import METRICS, Query
from amemdb.index.tiered import GraphSearch, TieredIndex

NOW = 1_700_000_000_000
METRIC = pytest.mark.parametrize("metric", METRICS)
NEEDS_GRAPHS = pytest.mark.skipif(not graphs.IS_AVAILABLE, reason="hnswlib is not installed")

Hits = list[tuple[float, int]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are asked even where they are so small that the matrix would do, and tails are looked at before."""
    monkeypatch.setattr(tiered, "WIDTH_SHARE", 1)
    monkeypatch.setattr(tiered, "FEW", 8)


class Pair:
    """A two-tier index and an exact one with the same facts, and what drives the merges of the first."""

    def __init__(self, metric: bytes, dim: int = 8, seed: int = 1, crossover_rows: int = 100, **settings: int) -> None:
        self.chance, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.dim, self.metric = dim, metric
        settings = {"search_width": 48, **settings}
        self.index = TieredIndex(dim, metric, crossover_floats=crossover_rows * dim, **settings)
        self.exact = ExactIndex(dim, metric)
        self.centres = self.rng.standard_normal((6, dim))
        self.ids = itertools.count(1)
        self.live: list[int] = []
        self.working: list[Merge] = []
        self.asked = self.missed = self.widened = self.by_graph = 0

    def vector(self) -> np.ndarray:
        centre = self.centres[self.rng.integers(len(self.centres))]
        return (centre + self.rng.standard_normal(self.dim) / 2).astype("<f4")

    def put(self, vector: np.ndarray | None = None, expire_at_ms: int = 0) -> int:
        fact_id = next(self.ids)
        data = (self.vector() if vector is None else np.asarray(vector, "<f4")).tobytes()
        self.index.put(fact_id, data, expire_at_ms)
        self.exact.put(fact_id, data, expire_at_ms)
        self.live.append(fact_id)
        return fact_id

    def remove(self, fact_id: int | None = None) -> None:
        if fact_id is None:
            fact_id = self.live[self.chance.randrange(len(self.live))]
        self.live.remove(fact_id)
        self.index.remove(fact_id)
        self.exact.remove(fact_id)

    # -- merges --------------------------------------------------------------------------------------

    def step(self, quiet: bool = False) -> bool:
        """One step of what an index thread does; whether there was one."""
        self.working = [merge for merge in self.working if merge in self.index.merges]
        if self.index.is_due(quiet):
            self.working.append(self.index.begin(quiet))
        if not self.working:
            return False
        merge = self.chance.choice(self.working)
        work = merge.next()
        if work is None:
            self.index.publish(merge)
        else:
            work()
        return True

    def settle(self) -> None:
        """Make all graphs there are to be made, as when it is quiet for long."""
        while self.step(quiet=True):
            pass

    # -- searches ------------------------------------------------------------------------------------

    def recall(self, query: np.ndarray, k: int, threshold: float = -math.inf, now_ms: int = NOW, during=None) -> Hits:
        """What the tiered index answers; `during` is called between the parts of the first search."""
        asked = Query(self.metric, np.asarray(query, "<f4"))
        slack = SLACK
        while True:
            search = self.index.search(asked, k, threshold, now_ms, slack)
            self.by_graph += isinstance(search, GraphSearch)
            if during:
                during()
            found = search.work()
            if during:
                during()
            hits = self.index.settle(search, found, now_ms)
            if hits is not None:
                return hits
            during = None
            slack *= 4
            self.widened += 1
            assert slack < SLACK * 4**8

    def best(self, query: np.ndarray, k: int, threshold: float = -math.inf, now_ms: int = NOW) -> Hits:
        """What the exact index answers."""
        search = self.exact.search(Query(self.metric, np.asarray(query, "<f4")), k, threshold, now_ms, 10_000)
        hits = self.exact.settle(search, search.work(), now_ms)
        assert hits is not None
        return hits

    def check(self, k: int = 10, threshold: float = -math.inf, now_ms: int = NOW, during=None) -> None:
        """Every promise of an answer but recall, which is counted."""
        query = self.vector()
        hits = self.recall(query, k, threshold, now_ms, during)
        everyone = dict(map(reversed, self.best(query, 10**6, threshold, now_ms)))
        assert len(hits) <= min(k, len(everyone))
        assert threshold > -math.inf or len(hits) == min(k, len(everyone)), "no fewer than k where k live"
        assert hits == sorted(hits, key=lambda hit: (-hit[0], hit[1]))
        assert all(everyone[fact_id] == score for score, fact_id in hits), "dead, or another similarity"
        self.asked += min(k, len(everyone))
        self.missed += len({i for _, i in self.best(query, k, threshold, now_ms)} - {i for _, i in hits})

    def check_recall(self, least: float = 0.98) -> None:
        assert self.by_graph > 0
        assert 1 - self.missed / self.asked >= least
