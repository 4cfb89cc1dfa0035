"""One graph: what is checked before hnswlib sees it, and what it finds."""

from __future__ import annotations

import numpy as np
import pytest

from amemdb.index import graph as graphs
from amemdb.index.graph import Graph, fits
from amemdb.index.similarity import METRICS, Query

METRIC = pytest.mark.parametrize("metric", METRICS)
pytestmark = pytest.mark.skipif(not graphs.IS_AVAILABLE, reason="hnswlib is not installed")


def made(metric: bytes, count: int = 50, dim: int = 5, capacity: int = 0) -> tuple[Graph, np.ndarray]:
    vectors = np.random.default_rng(3).standard_normal((count, dim)).astype("f4")
    graph = Graph(dim, metric, capacity or count)
    graph.add(np.arange(1, count + 1) * 10, vectors)
    return graph, vectors


@METRIC
def test_the_nearest_come_in_order(metric: bytes) -> None:
    graph, vectors = made(metric, 200)
    graph.seal()
    query = np.random.default_rng(4).standard_normal(5).astype("f4")
    if metric == b"cosine":
        order = np.argsort(-(vectors @ query) / np.linalg.norm(vectors, axis=1))
    elif metric == b"ip":
        order = np.argsort(-(vectors @ query))
    else:
        order = np.argsort(np.linalg.norm(vectors - query, axis=1))
    found = graph.nearest(Query(metric, query), 30)
    assert found is not None
    assert len(set(found[:10].tolist()) & set(((order + 1) * 10)[:10].tolist())) >= 9
    assert found[0] == (order[0] + 1) * 10


def test_one_that_is_marked_is_not_found() -> None:
    graph, vectors = made(b"cosine")
    graph.seal()
    query = Query(b"cosine", vectors[7])
    assert graph.nearest(query, 1) == [80]
    assert graph.remove(80)
    assert not graph.remove(81)
    assert not graph.remove(100_000)
    assert (len(graph), graph.gone, graph.count) == (49, 1, 50)
    found = graph.nearest(query, 50)
    assert found is not None
    assert len(found) == 49
    assert 80 not in found


def test_more_than_there_are_is_all_there_are() -> None:
    graph, vectors = made(b"l2", 3)
    graph.seal()
    found = graph.nearest(Query(b"l2", vectors[0]), 1000)
    assert found is not None
    assert sorted(found.tolist()) == [10, 20, 30]
    for fact_id in (10, 20, 30):
        graph.remove(fact_id)
    assert graph.nearest(Query(b"l2", vectors[0]), 5).tolist() == []  # type: ignore[union-attr]


def test_vectors_that_cannot_be_reached_are_told() -> None:
    """hnswlib raises when it finds fewer than it is asked for: here a mark that its count does not know."""
    graph, vectors = made(b"l2", 10)
    graph.seal()
    graph._graph.mark_deleted(50)
    assert graph.nearest(Query(b"l2", vectors[0]), 10) is None
    assert graph.nearest(Query(b"l2", vectors[0]), 9) is not None


@pytest.mark.parametrize(
    ("ids", "shape"),
    [([1, 2], (2, 4)), ([1, 2], (2, 6)), ([1], (2, 5)), ([1, 2, 3], (2, 5)), ([1, 2, 3, 4], (4, 5))],
)
def test_what_does_not_fit_never_reaches_it(ids: list[int], shape: tuple[int, int]) -> None:
    graph = Graph(5, b"ip", 3)
    with pytest.raises(AssertionError):
        graph.add(np.array(ids), np.ones(shape, "f4"))
    assert graph.count == 0


def test_nothing_is_added_to_what_is_searched_and_nothing_searched_that_grows() -> None:
    graph, vectors = made(b"ip", capacity=60)
    with pytest.raises(AssertionError):
        graph.nearest(Query(b"ip", vectors[0]), 5)
    with pytest.raises(AssertionError):
        graph.remove(10)
    graph.seal()
    with pytest.raises(AssertionError):
        graph.add(np.array([5]), vectors[:1])
    with pytest.raises(AssertionError):
        graph.nearest(Query(b"ip", np.ones(6, "f4")), 5)
    with pytest.raises(AssertionError):
        graph.nearest(Query(b"ip", vectors[0]), 0)


def test_an_id_is_added_once() -> None:
    graph, vectors = made(b"ip", capacity=60)
    graph.add(np.array([20]), vectors[:1])
    with pytest.raises(AssertionError, match="twice"):
        graph.seal()


def test_what_float32_can_multiply() -> None:
    norms = np.array([0.0, 1e-45, 1e-20, 1e-10, 1.0, 1e14, 1e16, 1e38])
    assert fits(norms, b"l2").tolist() == [True, False, False, True, True, True, False, False]
    assert fits(norms, b"cosine").tolist() == [False, *[True] * 7]
    graph = Graph(2, b"l2", 5)
    with pytest.raises(AssertionError):
        graph.add(np.array([1]), np.array([[1e30, 0]], "f4"))
    long = Graph(2, b"cosine", 5)
    long.add(np.array([1, 2]), np.array([[3e38, 3e38], [1e-45, 0]], "f4"))
    long.seal()
    assert long.nearest(Query(b"cosine", np.array([1e-45, 1e-45], "f4")), 1) == [1]


def test_the_same_vectors_make_the_same_graph() -> None:
    (one, vectors), (other, _) = made(b"cosine", 500), made(b"cosine", 500)
    one.seal()
    other.seal()
    for vector in vectors[:20]:
        query = Query(b"cosine", -vector)
        assert one.nearest(query, 20).tolist() == other.nearest(query, 20).tolist()  # type: ignore[union-attr]


def test_freed_it_finds_nothing() -> None:
    graph, vectors = made(b"ip")
    graph.seal()
    assert graph.free_some(1000) < 1000
    assert len(graph) == 0
    assert graph.nearest(Query(b"ip", vectors[0]), 5) is None or len(graph.nearest(Query(b"ip", vectors[0]), 5)) == 0  # type: ignore[arg-type]
