"""The scale of similarity, and the claim that an exact key depends on the vector alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from amemdb.index.similarity import (
    METRICS,
    Query,
    coarse_keys,
    exact_keys,
    extreme,
    least_similarity,
    similarities,
    sum_of_squares,
)


@pytest.mark.parametrize("dim", [*range(1, 20), 64, 127, 128, 129, 384, 1000, 1536, 4099])
def test_a_row_has_the_same_key_alone_and_in_any_company(dim: int) -> None:
    rng = np.random.default_rng(dim)
    rows = rng.standard_normal((41, dim)).astype(np.float32).astype(np.float64)
    squares = np.array([sum_of_squares(row) for row in rows])
    for metric in METRICS:
        query = Query(metric, rng.standard_normal(dim).astype(np.float32))
        together = exact_keys(rows, squares, query)
        alone = [exact_keys(rows[i : i + 1].copy(), squares[i : i + 1], query)[0] for i in range(41)]
        assert together.tolist() == alone
        assert exact_keys(rows[3:30], squares[3:30], query).tolist() == alone[3:30]
        assert exact_keys(rows[::-1], squares[::-1], query).tolist() == alone[::-1]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_the_bound_of_a_coarse_key_holds(metric: bytes, scale: float) -> None:
    rng = np.random.default_rng(1)
    for dim in (1, 5, 384, 3000):
        rows = (rng.standard_normal((60, dim)) * scale).astype(np.float32)
        query = Query(metric, (rows[7] * 1.001 + scale / 1e4).astype(np.float32))
        wide = rows.astype(np.float64)
        squares = np.array([sum_of_squares(row) for row in wide])
        products = (rows @ query.unit32).astype(np.float64)
        keys, errors = coarse_keys(products, np.sqrt(squares), query)
        exact = exact_keys(wide, squares, query)
        if metric == b"l2":
            exact = -(exact * exact)
        assert np.all(np.abs(keys - exact) <= errors)
        assert not extreme(np.sqrt(squares)).any()


def test_every_scale_puts_better_higher() -> None:
    keys = np.array([-4.0, -1.0, 0.0])
    assert similarities(keys, b"l2").tolist() == [0.2, 0.5, 1.0]
    assert similarities(keys, b"ip").tolist() == keys.tolist()
    assert 0.0 < similarities(np.array([-1e40]), b"l2")[0] < 1e-39


def test_zero_is_a_threshold_and_none_is_none() -> None:
    for metric in METRICS:
        assert least_similarity(None, metric) == -math.inf
        assert -1e-5 < least_similarity(0.0, metric) <= 0.0
        assert 1 - 2e-6 < least_similarity(1.0, metric) < 1.0
    assert least_similarity(1e-9, b"l2") > 0.0
    assert least_similarity(-1e9, b"ip") < -1e9
