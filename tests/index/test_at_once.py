"""A search and its settling in one go gives what they give one after the other, and says when it cannot."""

from __future__ import annotations

import math

import numpy as np
import pytest

from amemdb.index import tiered
from amemdb.index.exact import ExactIndex
from amemdb.index.similarity import Query
from tests.index.pair import METRIC, NEEDS_GRAPHS, NOW, Pair, small

__all__ = ["small"]
NO_LIMIT = 1 << 60


def two_steps(pair: Pair, query: Query, k: int, now_ms: int = NOW) -> list[tuple[float, int]] | None:
    search = pair.index.search(query, k, -math.inf, now_ms)
    return pair.index.settle(search, search.work(), now_ms)


def query_of(pair: Pair) -> Query:
    return Query(pair.metric, pair.vector())


def settle(pair: Pair) -> None:
    """Have all graphs made that are due."""
    while pair.index.is_due(True):
        merge = pair.index.begin(True)
        while (work := merge.next()) is not None:
            work()
        pair.index.publish(merge)


@METRIC
@NEEDS_GRAPHS
def test_it_is_what_two_steps_give(metric: bytes) -> None:
    pair = Pair(metric)
    tails, kinds = set(), set()
    for number in range(260):
        pair.put(expire_at_ms=NOW + 1 if number % 7 == 0 else 0)
        if number % 5 == 4:
            victim = pair.live.pop(pair.chance.randrange(len(pair.live)))
            pair.index.remove(victim)
        if number in (150, 210):
            settle(pair)
        tails.add(sum(map(len, pair.index.tails)))
        kinds.add(pair.index.kind)
        for k in (1, 4, 30):
            query = query_of(pair)
            for now_ms in (NOW, NOW + 1):
                assert pair.index.at_once(query, k, now_ms, NO_LIMIT) == two_steps(pair, query, k, now_ms)
    assert kinds == {b"exact", b"hnsw"}
    assert tails >= {0, tiered.FEW, tiered.FEW + 1}


@NEEDS_GRAPHS
def test_a_fact_in_two_tails_is_found_once() -> None:
    pair = Pair(b"ip")
    for _ in range(150):
        pair.put()
    settle(pair)
    long = pair.put(np.full(8, 1e20, "<f4"))  # stays beside the graph, and is in the tail that was set aside as well
    merge = pair.index.begin(True) if pair.index.is_due(True) else None
    while merge is None:
        pair.put()
        merge = pair.index.begin(True) if pair.index.is_due(True) else None
    while (work := merge.next()) is not None:
        work()
    assert [long in tail for tail in pair.index.tails] == [True, True]
    hits = pair.index.at_once(query_of(pair), 10, NOW, NO_LIMIT)
    assert hits is not None
    assert len({fact_id for _, fact_id in hits}) == len(hits) == 10


@NEEDS_GRAPHS
def test_what_takes_long_is_left_to_a_search_like_any_other() -> None:
    pair = Pair(b"cosine")
    for _ in range(60):
        pair.put()
    query = query_of(pair)
    cost = pair.index.search(query, 3, -math.inf, NOW).cost_floats
    assert pair.index.at_once(query, 3, NOW, cost) is not None
    assert pair.index.at_once(query, 3, NOW, cost - 1) is None
    for _ in range(90):
        pair.put()
    settle(pair)
    cost = pair.index.search(query, 3, -math.inf, NOW).cost_floats
    assert pair.index.kind == b"hnsw"
    assert pair.index.at_once(query, 3, NOW, cost) is not None
    assert pair.index.at_once(query, 3, NOW, cost - 1) is None


@NEEDS_GRAPHS
def test_a_tail_of_near_equals_is_left_to_a_search_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(b"cosine")
    for _ in range(150):
        pair.put()
    settle(pair)
    query = query_of(pair)
    for _ in range(8):
        pair.put(query.vector.astype("<f4"))
    monkeypatch.setattr(tiered, "REACHING_MAX", 8)
    assert pair.index.at_once(query, 3, NOW, NO_LIMIT) == two_steps(pair, query, 3)
    monkeypatch.setattr(tiered, "REACHING_MAX", 7)
    assert pair.index.at_once(query, 3, NOW, NO_LIMIT) is None


@METRIC
def test_who_reaches_a_similarity_is_told_with_few_others(metric: bytes) -> None:
    chance = np.random.default_rng(3)
    index = ExactIndex(16, metric)
    for fact_id in range(1, 301):
        length = 10.0 ** chance.integers(-6, 7) if fact_id % 3 else 1.0
        index.put(fact_id, (chance.standard_normal(16) * length).astype("<f4").tobytes(), 0)
    for scale in (1.0, 1e-9, 1e9):
        query = Query(metric, (chance.standard_normal(16) * scale).astype("<f4"))
        search = index.search(query, 10, -math.inf, NOW)
        hits = index.hits_of(range(1, 301), query, -math.inf, NOW)
        for count in (1, 10, 299):
            least = hits[count - 1][0]
            reach = {fact_id for similarity, fact_id in hits if similarity >= least}
            found = set(search.reaching(least))
            assert found >= reach
            assert len(found) <= len(reach) + 30


@NEEDS_GRAPHS
def test_it_says_when_a_graph_gave_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(b"cosine")
    for _ in range(150):
        pair.put(expire_at_ms=NOW + 1)
    pair.put()
    settle(pair)
    monkeypatch.setattr(tiered.TieredIndex, "_width", lambda *_: 4)
    assert pair.index.at_once(query_of(pair), 3, NOW, NO_LIMIT) is not None
    assert pair.index.at_once(query_of(pair), 3, NOW + 1, NO_LIMIT) is None
