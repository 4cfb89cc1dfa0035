"""Vectors of 16 bits: every one is widened right, and the index that holds them is exact about what it holds."""

from __future__ import annotations

import numpy as np
import pytest

from amemdb.index.exact import FLOAT16, ExactIndex
from amemdb.index.half import products, rounded16, widen
from amemdb.index.similarity import METRICS
from tests.index.test_exact import float32, one_by_one, recall

ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = ALL[np.isfinite(ALL)]


def test_every_half_is_widened_to_its_number() -> None:
    wide = np.empty(len(FINITE), np.float32)
    widen(FINITE, wide)
    assert wide.tobytes() == FINITE.astype(np.float32).tobytes()


@pytest.mark.parametrize("dim", [1, 7, 384, 40_000])
def test_products_are_those_of_the_numbers(dim: int) -> None:
    rng = np.random.default_rng(dim)
    rows = rng.standard_normal((300, dim)).astype(np.float16)
    unit = float32(rng.standard_normal(dim) / np.sqrt(dim))
    out = np.empty(300)
    products(rows, unit, out)
    assert out == pytest.approx(rows.astype(np.float64) @ unit.astype(np.float64), abs=1e-4)


def test_rounding_is_to_the_nearest_and_done_once() -> None:
    vector = float32([1 / 3, -65519, 1e-8, 65520])
    rounded = rounded16(vector)
    assert rounded.tolist()[:3] == [0.333251953125, -65504.0, 0.0]
    assert np.isinf(rounded[3])
    assert rounded16(rounded[:3]).tobytes() == rounded[:3].tobytes()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dim", [3, 384])
def test_an_index_of_halves_is_exact(metric: bytes, dim: int) -> None:
    rng = np.random.default_rng(dim)
    index = ExactIndex(dim, metric, FLOAT16)
    vectors = {i: rounded16(float32(rng.standard_normal(dim) * rng.choice([1e-4, 1, 100]))) for i in range(1, 501)}
    for fact_id, vector in vectors.items():
        index.put(fact_id, vector.tobytes(), 0)
    for fact_id in list(vectors)[::3]:
        index.remove(fact_id)
        del vectors[fact_id]
    assert all(index.vector(fact_id).tobytes() == vector.tobytes() for fact_id, vector in vectors.items())
    for k in (1, 10, 400):
        query = rng.standard_normal(dim)
        assert recall(index, query, k) == one_by_one(metric, vectors, query, k)


def test_halves_take_half_the_memory_and_find_nearly_the_same() -> None:
    rng = np.random.default_rng(9)
    centres = rng.standard_normal((40, 96))
    data = float32(centres[rng.integers(40, size=3000)] + 0.4 * rng.standard_normal((3000, 96)))
    whole, halved = ExactIndex(96, b"cosine"), ExactIndex(96, b"cosine", FLOAT16)
    for fact_id, vector in enumerate(data, 1):
        whole.put(fact_id, vector.tobytes(), 0)
        halved.put(fact_id, rounded16(vector).tobytes(), 0)
    assert halved.vector_bytes * 2 == whole.vector_bytes
    assert halved.memory_bytes() < 0.7 * whole.memory_bytes()
    same = 0
    for query in data[::100] + 0.05:
        found = [{fact_id for _, fact_id in recall(index, query, 10)} for index in (whole, halved)]
        same += len(found[0] & found[1])
    assert same >= 0.98 * 300
