"""The rows of recall by themselves, and the check of recall in all its states."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks import facts, recall_check, vectors
from benchmarks.made_up import VectorSet
from benchmarks.recall_check import Checked, check
from benchmarks.servers import ours
from benchmarks.vectors import main, rows_of

MADE = VectorSet(1_000, 16, 20, 0.5)


def test_rows_can_be_chosen():
    assert [row.key for row in rows_of(MADE, ["stores", "redis"], (1,))] == ["redis", "stores"]
    assert [len(row.cases()) for row in rows_of(MADE, ["hnswlib", "stores"], (1, 2, 4))] == [3, 1]
    refused = CliRunner().invoke(main, ["--only=faiss"])
    assert refused.exit_code == 2
    assert "--only takes some of redis, hnswlib, stores, and not faiss" in refused.output


def test_every_state_is_checked(monkeypatch):
    monkeypatch.setattr(facts, "QUIET_SECONDS", 0)
    said: list[str] = []
    states = list(check(MADE, ours(), said.append))
    assert [state.name for state in states] == [
        "fresh, at once",
        "fresh, graphs made",
        "300 forgotten and 300 replaced, at once",
        "300 forgotten and 300 replaced, graphs made",
        "every vector replaced twice, at once",
        "every vector replaced twice, graphs made",
    ]
    assert {state.recall for state in states} == {state.worst for state in states} == {1.0}, "so few are all looked at"
    assert all(state.index == "exact, 0 graphs, 0 marked, 0 beside" for state in states)
    assert all(state.search_ms > 0 for state in states)
    assert len(said) == 3


def test_a_fact_that_is_not_found_counts(monkeypatch):
    monkeypatch.setattr(facts, "QUIET_SECONDS", 0)
    found = facts.recalled
    monkeypatch.setattr(recall_check, "recalled", lambda port, queries: [one[:9] for one in found(port, queries)])
    first = next(check(MADE, ours(), lambda text: None))
    assert (first.recall, first.worst, first.is_enough) == (pytest.approx(0.9), pytest.approx(0.9), False)


@pytest.mark.parametrize(("least", "code"), [(0.98, 0), (0.9799, 1)])
def test_one_state_with_too_low_recall_fails(monkeypatch, least, code):
    states = [Checked("a", 1.0, 1.0, "", 1), Checked("b", least, 0.5, "hnsw", 1), Checked("c", 1.0, 1.0, "", 1)]
    monkeypatch.setattr(vectors.recall_check, "check", lambda made, variant, say: states)
    ran = CliRunner().invoke(main, ["--check", "--count=1000"])
    assert ran.exit_code == code
    assert f"recall@10 {least:.4f}, worst query 0.5, 1.00 ms a query: b (hnsw)" in ran.output
