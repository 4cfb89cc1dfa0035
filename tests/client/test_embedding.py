"""The client where the server makes the vector: nothing is sent in its place."""

from __future__ import annotations

import numpy as np

from amemdb.client import _requests


def test_a_store_without_a_vector_sends_none():
    assert list(_requests.sem_store("a", "k", "text", embed=True))[-1] == "EMBED"
    assert "FP32" not in _requests.sem_store("a", "k", "text", embed=True)


def test_a_store_with_a_vector_sends_it_as_before():
    vector = np.array([1, 2], "<f4")
    assert list(_requests.sem_store("a", "k", "text", vector)) == [
        "AMEM.SEM.STORE",
        "a",
        "k",
        "text",
        "FP32",
        vector.tobytes(),
    ]


def test_a_recall_by_text_sends_the_text():
    assert list(_requests.sem_recall("a", 3, text="query")) == ["AMEM.SEM.RECALL", "a", 3, "TEXT", "query"]
