"""Made-up vectors: the same each time, clustered, and the truth about them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.made_up import VectorSet, clustered, nearest, recall_of


def test_vectors_are_the_same_each_time_and_near_their_centres():
    vectors = clustered(500, 32, 10, 0.3, 1)
    assert vectors.tobytes() == clustered(500, 32, 10, 0.3, 1).tobytes()
    assert vectors.tobytes() != clustered(500, 32, 10, 0.3, 2).tobytes()
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    queries = clustered(20, 32, 10, 0.3, 2)
    assert ((queries @ vectors.T).max(axis=1) > 0.8).all(), "queries are of the same clusters"


def test_the_truth_is_the_ten_nearest():
    vectors, queries = clustered(300, 8, 5, 0.5, 1), clustered(5, 8, 5, 0.5, 2)
    for query, found in zip(queries, nearest(vectors, queries), strict=True):
        assert found == set(np.argsort(-(vectors @ query))[:10].tolist())


def test_recall_is_the_share_that_was_found():
    made = VectorSet(1000, 8, 5, 0.5)
    truth = [sorted(found) for found in made.truth]
    assert recall_of(made.truth, truth) == 1.0
    assert recall_of(made.truth, [[*found[:9], -1] for found in truth]) == pytest.approx(0.9)


def test_a_set_is_its_arguments_so_that_rows_share_it():
    assert VectorSet(1000, 8) == VectorSet(1000, 8)
    assert hash(VectorSet(1000, 8)) == hash(VectorSet(1000, 8))
    assert VectorSet(1000, 8) != VectorSet(1000, 16)
    assert VectorSet(100_000, 384).title == "100,000 x 384"


@pytest.mark.parametrize(("share", "count"), [(1, 100_000), (0.5, 50_000), (0.001, 2_000)])
def test_a_set_is_smaller_where_all_data_is(share, count):
    assert VectorSet(100_000, 8, 20, 0.5).scaled(share) == VectorSet(count, 8, 20, 0.5)


def test_a_small_set_stays_as_it_is_where_nothing_is_scaled():
    assert VectorSet(1_000, 8).scaled(1) == VectorSet(1_000, 8)
