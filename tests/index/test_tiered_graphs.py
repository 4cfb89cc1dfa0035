"""The graphs of a two-tier index: how many there are, what is in none of them, and what becomes of old ones."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from amemdb.index import graph as graphs
from amemdb.index import tiered
from amemdb.index.exact import SLACK, ExactIndex
from amemdb.index.similarity import Query
from amemdb.index.tiered import GraphSearch, TieredIndex
from tests.index.pair import METRIC, NEEDS_GRAPHS, NOW, Pair, small

__all__ = ["small"]
pytestmark = NEEDS_GRAPHS


# -- growth --------------------------------------------------------------------------------------------


def test_graphs_stay_few_and_become_one_when_it_is_quiet() -> None:
    pair = Pair(b"cosine", crossover_rows=60)
    most = 0
    for number in range(3000):
        pair.put()
        if number % 3 == 0:
            pair.step()
        most = max(most, pair.index.state().graphs)
        if number % 100 == 0:
            pair.check()
    assert 2 <= most <= 8
    pair.settle()
    assert pair.index.state() == (b"hnsw", 0, 0, 1, 0, 0)
    assert len(pair.index.graphs[0]) == 3000
    pair.check_recall()


def test_a_small_graph_is_made_while_a_large_one_is() -> None:
    pair = Pair(b"cosine", crossover_rows=90)
    for _ in range(900):
        pair.put()
    first = pair.index.begin()
    for _ in range(100):
        pair.put()
    assert pair.index.is_due()
    second = pair.index.begin()
    while (work := second.next()) is not None:
        work()
    pair.index.publish(second)
    assert pair.index.kind == b"exact", "most facts are in no graph yet"
    query = pair.vector()
    assert pair.recall(query, 20) == pair.best(query, 20)
    for _ in range(100):
        pair.put()
    while (work := first.next()) is not None:
        work()
    pair.index.publish(first)
    assert pair.index.state()[:4] == (b"hnsw", 0, 100, 2)
    for _ in range(50):
        pair.check()
    pair.check_recall()


def test_many_facts_are_several_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered, "GRAPH_ROWS_MAX", 400)
    pair = Pair(b"cosine", crossover_rows=150)
    for _ in range(1000):
        pair.put()
    while pair.index.kind == b"exact":
        assert pair.step()
        for _ in range(3):
            pair.put()
            pair.remove()
        query = pair.vector()
        if pair.index.kind == b"exact":
            assert pair.recall(query, 10) == pair.best(query, 10)
    sizes = sorted(len(graph) for graph in pair.index.graphs)
    assert sum(sizes) + pair.index.state().tail == 1000
    assert 3 <= len(sizes) <= 4
    for number in range(1500):
        pair.put()
        pair.remove()
        if number % 2:
            pair.step()
        if number % 30 == 0:
            pair.check()
    pair.settle()
    sizes = sorted(len(graph) for graph in pair.index.graphs)
    assert sizes[-1] <= 400 + tiered.FEW
    assert len(sizes) <= 5
    assert sum(sizes) + pair.index.state().tail == 1000
    pair.check_recall()


# -- odd vectors, dimensions, settings -----------------------------------------------------------------


@METRIC
def test_lengths_that_float32_cannot_multiply_stay_beside_the_graphs(metric: bytes) -> None:
    pair = Pair(metric, dim=4)
    odd = []
    for number in range(400):
        if number % 20 == 0:
            odd.append(pair.put(pair.vector() * np.float32([1e30, 1e-30][number // 20 % 2])))
        else:
            pair.put()
    pair.settle()
    assert pair.index.state().tail == (0 if metric == b"cosine" else len(odd))
    assert not pair.index.is_due(quiet=True)
    for fact_id in (odd[0], odd[1], odd[-1]):
        vector = pair.exact.vector(fact_id)
        assert pair.recall(vector, 5) == pair.best(vector, 5)
    for _ in range(30):
        pair.check()
    for fact_id in odd[:10]:
        pair.remove(fact_id)
    for _ in range(200):
        pair.put()
    while pair.step(quiet=True):
        pair.check()
    assert pair.index.state().tail == (0 if metric == b"cosine" else len(odd) - 10)
    for fact_id in odd[10:]:
        pair.remove(fact_id)
        pair.check()
    assert pair.index.state().tail == 0


@METRIC
def test_zero_and_equal_vectors(metric: bytes) -> None:
    if metric == b"cosine":
        same = np.ones(6)
    else:
        same = np.zeros(6)
    pair = Pair(metric, dim=6)
    for number in range(400):
        pair.put(same if number < 200 else None)
    pair.settle()
    for k in (1, 10, 150, 400):
        hits = pair.recall(same if metric == b"cosine" else pair.vector(), k)
        assert len({i for _, i in hits}) == k
    assert len(pair.recall(np.zeros(6) if metric != b"cosine" else same, 10)) == 10


@METRIC
@pytest.mark.parametrize("dim", [1, 2, 3, 33, 2048])
def test_dimensions(metric: bytes, dim: int) -> None:
    pair = Pair(metric, dim=dim, crossover_rows=50)
    for _ in range(150):
        pair.put()
    pair.settle()
    assert pair.index.kind == b"hnsw"
    for _ in range(10):
        pair.check(5)
    for _ in range(60):
        pair.put()
        pair.remove()
    pair.settle()
    for _ in range(10):
        pair.check(5)
    if dim > 1:
        pair.check_recall(0.95)


def test_a_few_facts_of_any_dimension_need_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered, "WIDTH_SHARE", 8)
    monkeypatch.setattr(tiered, "FEW", 64)
    pair = Pair(b"l2", dim=2, crossover_rows=10)
    for _ in range(512):
        pair.put()
    assert not pair.index.is_large
    assert not pair.index.is_due(quiet=True)
    pair.put()
    assert pair.index.is_due()


def test_16_bit_vectors() -> None:
    index, exact = TieredIndex(8, b"cosine", b"f16", 0, 0, 48, 800), ExactIndex(8, b"cosine", b"f16")
    rng = np.random.default_rng(2)
    for fact_id in range(1, 401):
        vector = rng.standard_normal(8).astype(np.float16).astype("<f4").tobytes()
        index.put(fact_id, vector, 0)
        exact.put(fact_id, vector, 0)
    merge = index.begin()
    while (work := merge.next()) is not None:
        work()
    index.publish(merge)
    query = Query(b"cosine", rng.standard_normal(8).astype("<f4"))
    search, whole = index.search(query, 10, -math.inf, NOW), exact.search(query, 10, -math.inf, NOW)
    assert isinstance(search, GraphSearch)
    assert index.settle(search, search.work(), NOW) == exact.settle(whole, whole.work(), NOW)
    assert index.vector(7).tobytes() == exact.vector(7).tobytes()


def test_width_and_links_are_those_asked_for() -> None:
    pair = Pair(b"cosine", links=5, build_width=30, search_width=20)
    for _ in range(400):
        pair.put()
    pair.settle()
    made = pair.index.graphs[0]
    assert (made.links, made.build_width) == (5, 30)
    query = Query(b"cosine", pair.vector())

    def asked(**more: int) -> int:
        search = pair.index.search(query, 3, -math.inf, NOW, **more)
        assert isinstance(search, GraphSearch)
        return search.width

    assert asked() == 20
    assert asked(width=100) == 100
    assert asked(width=1) == 3 + SLACK
    assert asked(slack=4 * SLACK) == 80
    assert not isinstance(pair.index.search(query, 3, -math.inf, NOW, slack=64 * SLACK), GraphSearch)
    assert not isinstance(pair.index.search(query, 400, -math.inf, NOW), GraphSearch)


@METRIC
def test_a_graph_that_cannot_answer_leaves_it_to_the_matrix(metric: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(metric)
    for _ in range(400):
        pair.put()
    pair.settle()
    monkeypatch.setattr(graphs.Graph, "nearest", lambda *_: None)
    for k in (1, 10, 60):
        query = pair.vector()
        assert pair.recall(query, k) == pair.best(query, k)
    assert pair.by_graph
    assert pair.widened


# -- among given facts ---------------------------------------------------------------------------------


@METRIC
@pytest.mark.parametrize("every", [1, 2, 5, 100])
def test_among_given_facts(metric: bytes, every: int) -> None:
    pair = Pair(metric, dim=6)
    for _ in range(600):
        pair.put()
    pair.settle()
    for _ in range(20):
        pair.put()
    chosen = {i for i in pair.live if i % every == 0}
    among = np.array(sorted(chosen), np.int64)
    missed = 0
    for _ in range(20):
        query = Query(metric, pair.vector())
        slack, hits = SLACK, None
        while hits is None:
            search = pair.index.search(query, 8, -math.inf, NOW, slack, among)
            found = search.work()
            new = pair.put()
            hits = pair.index.settle(search, found, NOW, chosen.__contains__)
            slack *= 4
        pair.remove(new)
        whole = pair.exact.search(query, 8, -math.inf, NOW, 10_000, among)
        best = pair.exact.settle(whole, whole.work(), NOW, chosen.__contains__)
        assert best is not None
        assert len(hits) == len(best) == min(8, len(chosen))
        assert {i for _, i in hits} <= chosen
        missed += len({i for _, i in best} - {i for _, i in hits})
    assert missed <= 3


# -- without hnswlib -----------------------------------------------------------------------------------


def test_without_the_library_everything_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "IS_AVAILABLE", False)
    pair = Pair(b"cosine")
    for _ in range(400):
        pair.put()
    assert not pair.index.is_due(quiet=True)
    assert not pair.index.is_large
    query = pair.vector()
    assert pair.recall(query, 10) == pair.best(query, 10)


# -- the end -------------------------------------------------------------------------------------------


def test_memory_is_told_and_freed_bit_by_bit() -> None:
    pair = Pair(b"cosine", dim=32)
    for _ in range(2000):
        pair.put()
    exact_bytes = pair.index.memory_bytes()
    assert exact_bytes == pair.exact.memory_bytes()
    merge = pair.index.begin()
    while_merging = pair.index.memory_bytes()
    assert while_merging > exact_bytes + merge.graph.memory_bytes() > exact_bytes + 2000 * 4 * 32
    while (work := merge.next()) is not None:
        work()
    pair.index.publish(merge)
    assert pair.index.memory_bytes() == while_merging
    for _ in range(10):
        pair.put()
    while pair.index.free_some(100) >= 100:
        pass
    assert len(pair.index) == 0
    assert pair.index.graphs == ()


def test_a_search_in_a_graph_that_was_freed_begins_again() -> None:
    pair = Pair(b"cosine")
    for _ in range(300):
        pair.put()
    pair.settle()
    search = pair.index.search(Query(b"cosine", pair.vector()), 5, -math.inf, NOW)
    while len(pair.live) > 20:
        pair.remove()
    for thing in pair.index.unused:
        while thing.free_some(1000) >= 1000:
            pass
    assert pair.index.settle(search, search.work(), NOW) is None


# -- threads -------------------------------------------------------------------------------------------


def test_searches_in_threads_while_graphs_are_made_in_another() -> None:
    """The thread that makes graphs and those that search never use the same one; changes are the main thread's."""
    pair = Pair(b"cosine", dim=16, crossover_rows=200)
    for _ in range(600):
        pair.put()
    pair.settle()
    stopping = threading.Event()
    current: list[object] = [None]
    errors: list[BaseException] = []
    searched = [0]

    def searcher() -> None:
        while not stopping.is_set():
            search = current[0]
            if search is not None:
                try:
                    search.work()  # type: ignore[attr-defined]
                except BaseException as error:
                    errors.append(error)
                searched[0] += 1

    threads = [threading.Thread(target=searcher) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(1500):
            pair.put()
            pair.remove()
            current[0] = pair.index.search(Query(b"cosine", pair.vector()), 10, -math.inf, NOW)
            if number % 2 == 0:
                pair.step()
            if number % 50 == 0:
                pair.check()
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    assert not errors
    assert searched[0] > 100
