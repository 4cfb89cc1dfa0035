"""How wide a graph is searched is measured when it is made."""

from __future__ import annotations

import numpy as np
import pytest

from amemdb.index import graph as graphs
from amemdb.index.exact import ExactIndex
from amemdb.index.graph import Graph
from amemdb.index.similarity import METRICS
from amemdb.index.tiered import TieredIndex
from amemdb.index.widths import QUERIES, WIDTHS, Trial

pytestmark = pytest.mark.skipif(not graphs.IS_AVAILABLE, reason="hnswlib is not installed")


def tried(vectors: np.ndarray, metric: bytes = b"cosine", links: int = 16) -> Trial:
    exact = ExactIndex(vectors.shape[1], metric)
    for fact_id, vector in enumerate(vectors.astype("<f4"), 1):
        exact.put(fact_id, vector.tobytes(), 0)
    graph = Graph(vectors.shape[1], metric, max(1, len(vectors)), links, 40)
    graph.add(np.arange(1, len(vectors) + 1), vectors.astype("f4"))
    graph.seal()
    trial = Trial(exact, graph)
    steps = 0
    while (work := trial.next()) is not None:
        work()
        steps += 1
    assert steps <= 2 * QUERIES
    return trial


def test_easy_vectors_need_little_and_hard_ones_more() -> None:
    rng = np.random.default_rng(5)
    easy = tried(rng.standard_normal((3000, 4)))
    hard = tried(rng.standard_normal((3000, 200)), links=4)
    assert easy.width == WIDTHS[1]
    assert hard.width == WIDTHS[-1]


@pytest.mark.parametrize("metric", METRICS)
def test_the_same_graph_gives_the_same(metric: bytes) -> None:
    vectors = np.random.default_rng(6).standard_normal((1500, 24))
    assert tried(vectors, metric).width == tried(vectors, metric).width >= WIDTHS[1]


def test_where_there_is_nothing_nothing_is_said() -> None:
    assert tried(np.empty((0, 4))).width == 0


def test_what_came_and_went_meanwhile_does_not_count() -> None:
    rng = np.random.default_rng(7)
    index = TieredIndex(6, b"l2", crossover_floats=600)
    for fact_id in range(1, 1001):
        index.put(fact_id, rng.standard_normal(6).astype("<f4").tobytes(), 0)
    merge = index.begin()
    fact_id = 1000
    while (work := merge.next()) is not None:
        work()
        fact_id += 1
        index.put(fact_id, rng.standard_normal(6).astype("<f4").tobytes(), 0)
        index.remove(fact_id - 1000)
    assert merge.trial is not None
    assert merge.trial.width in WIDTHS[1:4]
    index.publish(merge)


def test_a_width_that_was_given_stays() -> None:
    index = TieredIndex(6, b"l2", search_width=77, crossover_floats=60)
    for fact_id in range(1, 101):
        index.put(fact_id, bytes(24), 0)
    assert index.begin().trial is None
