"""A few facts ranked exactly: what the twin gives is what the reference gives, bit by bit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from amemdb import native
from amemdb.index import few
from amemdb.index.exact import FLOAT16, FLOAT32, ExactIndex
from amemdb.index.half import rounded16
from amemdb.index.similarity import METRICS, Query

NOW = 1_700_000_000_000


def filled(metric: bytes, dim: int, count: int, quant: bytes = FLOAT32, seed: int = 1) -> ExactIndex:
    """An index in which some facts have expired, and some are twice there."""
    rng = np.random.default_rng(seed)
    index = ExactIndex(dim, metric, quant)
    vectors = rng.standard_normal((count, dim)) * 10.0 ** rng.integers(-3, 4, (count, 1))
    for fact_id in range(1, count + 1):
        vector = vectors[fact_id // 2 if fact_id % 9 == 0 else fact_id - 1].astype("<f4")
        if quant == FLOAT16:
            vector = rounded16(vector)
        index.put(fact_id, vector.tobytes(), (0, NOW, NOW + 1)[fact_id % 3])
    return index


def asked(index: ExactIndex, seed: int) -> Query:
    return Query(index.metric, np.random.default_rng(seed).standard_normal(index.dim).astype("<f4"))


def arguments(index: ExactIndex) -> tuple[object, ...]:
    blocks, squares, expiries, _ = index.snapshot()
    return index._row_of, blocks, index.block_rows, squares, expiries


@pytest.mark.skipif(not native.ENABLED, reason="there is no twin")
@pytest.mark.parametrize("quant", [FLOAT32, FLOAT16])
@pytest.mark.parametrize("dim", [1, 3, 8, 130, 384, 1537])
@pytest.mark.parametrize("metric", METRICS)
def test_the_twin_gives_the_same_bits(metric: bytes, dim: int, quant: bytes) -> None:
    index = filled(metric, dim, 300, quant)
    rng = np.random.default_rng(dim)
    for seed, count in enumerate([0, 1, 2, 14, 64, 256, 257, 300]):
        ids = (rng.permutation(300)[:count] + 1).tolist()
        query = asked(index, seed)
        for minimum in (-math.inf, 0.1):
            rest = (*arguments(index), query, minimum, NOW)
            assert few.hits_of(ids, *rest) == few.plain_hits_of(ids, *rest)
            assert few.hits_of(set(ids), *rest) == few.plain_hits_of(ids, *rest)


@pytest.mark.skipif(not native.ENABLED, reason="there is no twin")
def test_the_twin_finds_the_same_living() -> None:
    index = filled(b"ip", 4, 90)
    row_of, blocks, block_rows, _, expiries = arguments(index)
    for count_max in (1, 7, 200):
        for is_among in (None, (7).__lt__):
            rest = (row_of, blocks, block_rows, expiries, NOW, count_max, is_among)
            assert few.living(range(0, 120, 2), *rest) == few.plain_living(range(0, 120, 2), *rest)


@pytest.mark.parametrize("metric", METRICS)
def test_keys_are_those_of_a_search(metric: bytes) -> None:
    index = filled(metric, 40, 200)
    for seed in range(20):
        query = asked(index, seed)
        search = index.search(query, 25, -math.inf, NOW)
        hits = index.settle(search, search.work(), NOW)
        assert index.hits_of(range(1, 201), query, -math.inf, NOW)[:25] == hits


def test_the_dead_the_gone_and_the_unlike_are_left_out() -> None:
    index = ExactIndex(2, b"cosine")
    for fact_id, vector, expire_at_ms in ((1, [1, 0], 0), (2, [1, 0], NOW), (3, [1, 1], NOW + 1), (4, [-1, 0], 0)):
        index.put(fact_id, np.array(vector, "<f4").tobytes(), expire_at_ms)
    query = Query(b"cosine", np.array([2, 0], "<f4"))
    assert index.living([9, 1, 2, 3, 4], NOW, None, 2) == [1, 3]
    assert index.living([9, 1, 2, 3, 4], NOW, (3).__le__, 9) == [3, 4]
    assert index.hits_of([4, 3, 2, 1], query, 0.0, NOW) == [(1.0, 1), (pytest.approx(0.5**0.5), 3)]
