"""What the benchmark of vectors measures with: made-up vectors, the truth, and the figures of a run."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("hnswlib")

from benchmarks.vectors import Run, clustered, figures, nearest, request, row


def test_vectors_are_the_same_each_time_and_near_their_centres() -> None:
    vectors = clustered(500, 32, 10, 0.3, 1)
    assert vectors.tobytes() == clustered(500, 32, 10, 0.3, 1).tobytes()
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    queries = clustered(20, 32, 10, 0.3, 2)
    assert ((queries @ vectors.T).max(axis=1) > 0.8).all(), "queries are of the same clusters"


def test_the_truth_is_the_ten_nearest() -> None:
    vectors, queries = clustered(300, 8, 5, 0.5, 1), clustered(5, 8, 5, 0.5, 2)
    for query, found in zip(queries, nearest(vectors, queries), strict=True):
        assert found == set(np.argsort(-(vectors @ query))[:10].tolist())


def test_recall_is_the_share_that_was_found() -> None:
    run = Run(1000, 8, 5, 0.5, 1, 0.2)
    truth = [sorted(found) for found in run.truth]
    assert run.found(truth) == 1.0
    assert run.found([[*found[:9], -1] for found in truth]) == pytest.approx(0.9)


def test_figures_and_their_line() -> None:
    found = figures([0.001] * 99 + [0.011], 2.0)
    assert (found.rate, found.p50_ms) == (50.0, pytest.approx(1.0))
    assert row("x", "note", 0.99, found).startswith("| x | 0.9900 | 50 | 1.00 | ")
    assert request(b"GET", b"k") == b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"


def test_the_library_is_asked_at_the_least_width_that_is_enough() -> None:
    lines = list(Run(2000, 8, 5, 0.5, 2, 0.2).hnswlib())
    assert len(lines) == 1
    assert lines[0].startswith("| hnswlib, ef ")
    assert float(lines[0].split("|")[2]) >= 0.98
