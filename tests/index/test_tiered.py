"""The two-tier index against the exact one: any order of changes, merges at any moment, and searches in between."""

from __future__ import annotations

import math
import random

import pytest

from amemdb.index.merge import GONE_AT_ONCE
from amemdb.index.similarity import Query
from tests.index.pair import METRIC, NEEDS_GRAPHS, NOW, Pair, small

__all__ = ["small"]
pytestmark = NEEDS_GRAPHS


# -- below and above the crossover ---------------------------------------------------------------------


@METRIC
def test_below_the_crossover_it_is_the_exact_index(metric: bytes) -> None:
    pair = Pair(metric, crossover_rows=100)
    for _ in range(100):
        pair.put()
    assert not pair.index.is_due(quiet=True)
    for k in (1, 10, 100):
        query = pair.vector()
        assert pair.recall(query, k) == pair.best(query, k)
    assert pair.index.state() == (b"exact", 0, 0, 0, 0, 0)
    assert not pair.by_graph


@METRIC
def test_beyond_it_a_graph_is_made_and_the_matrix_answers_until_it_is_there(metric: bytes) -> None:
    pair = Pair(metric)
    for _ in range(600):
        pair.put()
    assert pair.index.is_due()
    while pair.step():
        assert pair.index.kind == (b"hnsw" if not pair.index.merges else b"exact")
        query = pair.vector()
        if pair.index.merges:
            assert pair.recall(query, 10) == pair.best(query, 10)
    assert pair.index.state() == (b"hnsw", 0, 0, 1, 0, 0)
    for _ in range(50):
        pair.check()
    pair.check_recall()


def test_progress_is_told() -> None:
    pair = Pair(b"cosine")
    for _ in range(600):
        pair.put()
    told = []
    while pair.step():
        told.append(pair.index.state()[4:])
    assert told[0] == (256, 600)
    assert told[1] == (512, 600)
    assert told[-1] == (0, 0)


@METRIC
def test_what_comes_and_goes_while_the_first_graph_is_made_is_in_the_answers(metric: bytes) -> None:
    pair = Pair(metric)
    for _ in range(700):
        pair.put()
    while pair.step():
        for _ in range(5):
            pair.put()
            pair.remove()
            pair.check()
    pair.check_recall()
    assert pair.index.kind == b"hnsw"


@METRIC
def test_when_few_are_left_the_matrix_answers_again(metric: bytes) -> None:
    pair = Pair(metric)
    for _ in range(300):
        pair.put()
    pair.settle()
    before = pair.index.memory_bytes()
    while len(pair.live) > 49:
        pair.remove()
    assert pair.index.kind == b"exact"
    assert pair.index.state() == (b"exact", 0, 0, 0, 0, 0)
    assert pair.index.unused
    assert pair.index.memory_bytes() < before
    query = pair.vector()
    assert pair.recall(query, 60) == pair.best(query, 60)
    for _ in range(300):
        pair.put()
    pair.settle()
    assert pair.index.kind == b"hnsw"
    pair.check()


def test_a_merge_that_lost_its_facts_is_forgotten() -> None:
    pair = Pair(b"l2")
    for _ in range(300):
        pair.put()
    pair.step()
    assert pair.index.merges
    while len(pair.live) > 10:
        pair.remove()
    assert not pair.index.merges
    assert not pair.index.is_due()


# -- read your writes ----------------------------------------------------------------------------------


@METRIC
def test_what_was_stored_is_found_at_once_and_what_was_removed_never_again(metric: bytes) -> None:
    pair = Pair(metric)
    for _ in range(300):
        pair.put()
    pair.settle()
    for number in range(200):
        vector = pair.centres[number % 6] * 3 + pair.rng.standard_normal(8) / 100
        fact_id = pair.put(vector)
        found = [i for _, i in pair.recall(vector, 300)]
        assert fact_id in found
        if metric != b"ip":
            assert pair.recall(vector, 1)[0][1] == fact_id
        if number % 2:
            pair.remove(fact_id)
            assert fact_id not in [i for _, i in pair.recall(vector, 300)]
        pair.step()


@METRIC
@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_changes_and_merges(metric: bytes, seed: int) -> None:
    pair = Pair(metric, seed=seed, crossover_rows=60)
    for number in range(2500):
        act = pair.chance.random()
        growing = (number // 500) % 3 != 2
        if act < (0.5 if growing else 0.2) or not pair.live:
            pair.put(expire_at_ms=pair.chance.choice([0, 0, 0, 0, NOW - 1, NOW + 1, NOW + 99]))
        elif act < 0.7:
            pair.remove()
        elif act < 0.9:
            pair.step(quiet=act > 0.85)
        else:
            changes = random.Random(number)

            def during(changes: random.Random = changes) -> None:
                for _ in range(changes.choice([0, 0, 1, 5])):
                    changes.choice([pair.put, pair.remove, pair.step])()

            pair.check(
                k=pair.chance.choice([1, 3, 10, 60]),
                threshold=pair.chance.choice([-math.inf, -math.inf, 0.3, 0.9]),
                now_ms=NOW + pair.chance.choice([0, 50]),
                during=during if len(pair.live) > 60 else None,
            )
    assert pair.widened < 200
    pair.check_recall(0.97)
    places = [set(tail.ids().tolist()) for tail in pair.index.tails]
    places += [{i for i in graph.ids().tolist() if i in pair.index} for graph in pair.index.graphs]
    if pair.index.kind == b"hnsw":
        assert set().union(*places) == set(pair.live)
        assert sum(map(len, places)) == len(pair.live)
        assert all(len(graph) == len(set(graph.ids().tolist()) & set(pair.live)) for graph in pair.index.graphs)


def test_a_search_that_a_merge_overtook_begins_again() -> None:
    pair = Pair(b"cosine")
    for _ in range(300):
        pair.put()
    pair.settle()
    for _ in range(40):
        pair.put()
    query = Query(b"cosine", pair.vector())
    search = pair.index.search(query, 5, -math.inf, NOW)
    found = search.work()
    assert pair.index.settle(search, found, NOW) is not None
    pair.settle()
    assert pair.index.settle(search, found, NOW) is None


def test_a_clock_set_back_begins_the_search_again() -> None:
    pair = Pair(b"cosine")
    for _ in range(300):
        pair.put(expire_at_ms=NOW + 5)
    pair.settle()
    search = pair.index.search(Query(b"cosine", pair.vector()), 5, -math.inf, NOW + 10)
    assert pair.index.settle(search, search.work(), NOW) is None


# -- removal and expiry --------------------------------------------------------------------------------


@METRIC
def test_k_is_refilled_where_the_best_are_gone_or_dead(metric: bytes) -> None:
    """The whole neighbourhood of a query goes: what is left of the answer lies elsewhere."""
    pair = Pair(metric, dim=12)
    for _ in range(500):
        pair.put(expire_at_ms=pair.chance.choice([0, NOW + 100]))
    pair.settle()
    query = pair.centres[0]
    for fact_id in [i for _, i in pair.best(query, 60)][::2]:
        pair.remove(fact_id)
    for now_ms in (NOW, NOW + 100):
        for k in (1, 10, 40, len(pair.live), 1000):
            hits = pair.recall(query, k, now_ms=now_ms)
            best = pair.best(query, k, now_ms=now_ms)
            assert len(hits) == len(best)
            assert len({i for _, i in hits} & {i for _, i in best}) >= 0.97 * len(best)


@METRIC
def test_a_graph_with_many_marks_is_made_anew(metric: bytes) -> None:
    pair = Pair(metric)
    for _ in range(600):
        pair.put()
    pair.settle()
    for _ in range(150):
        pair.remove()
    assert pair.index.state().tombstones == 150
    assert not pair.index.is_due()
    for _ in range(60):
        pair.remove()
    assert pair.index.is_due()
    while pair.step():
        pair.check()
    assert pair.index.state() == (b"hnsw", 0, 0, 1, 0, 0)
    assert pair.index.graphs[0].capacity == 390
    pair.check_recall()


@METRIC
def test_every_vector_replaced_twice(metric: bytes) -> None:
    pair = Pair(metric, dim=16, crossover_rows=200)
    for _ in range(800):
        pair.put()
    pair.settle()
    for _ in range(2):
        for fact_id in list(pair.live):
            pair.remove(fact_id)
            pair.put()
            if fact_id % 40 == 0:
                pair.check()
                pair.step()
    assert len(pair.index) == 800
    for _ in range(100):
        pair.check()
    pair.settle()
    for _ in range(100):
        pair.check()
    pair.check_recall()
    state = pair.index.state()
    assert state.graphs == 1
    assert (state.tombstones, state.tail) == (0, 0)


def test_marks_of_what_went_during_a_merge_are_set_before_it_is_searched() -> None:
    pair = Pair(b"cosine")
    for _ in range(700):
        pair.put()
    for _ in range(4):
        assert pair.step()
    merge = pair.index.merges[0]
    gone = pair.live[: 3 * GONE_AT_ONCE]
    for fact_id in gone:
        pair.remove(fact_id)
    assert len(merge.gone) == len(gone)
    work = merge.next()
    assert work is not None, "so many marks are not set on the loop"
    work()
    pair.remove()
    assert merge.next() is None
    pair.index.publish(merge)
    assert pair.index.state().tombstones == len(gone) + 1
    for _ in range(30):
        pair.check()


def test_a_graph_of_which_nothing_is_left_goes() -> None:
    pair = Pair(b"l2", crossover_rows=100)
    for _ in range(300):
        pair.put()
    pair.settle()
    old = list(pair.live)
    for _ in range(200):
        pair.put()
    for fact_id in old:
        pair.remove(fact_id)
        pair.check(3)
    pair.settle()
    assert [len(graph) for graph in pair.index.graphs] == [200]
