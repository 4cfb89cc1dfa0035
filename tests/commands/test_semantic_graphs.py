"""Recall of a memory that has graphs: what commands promise holds there as well."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from memory_walk import check

from amemdb.index import graph, tiered
from amemdb.index.exact import SLACK
from amemdb.index.tiered import TieredIndex
from tests.commands.test_semantic import Node, labelled

DIM = 6
COUNT = 400
pytestmark = pytest.mark.skipif(not graph.IS_AVAILABLE, reason="hnswlib is not installed")


def settle(node: Node) -> None:
    """Make the graphs there are to be made, as the index thread of a server does."""
    sem = node.stores.sem
    for agent in list(sem.unsettled):
        namespace = sem.namespaces[agent]
        while namespace.index.is_due(True):
            merge = sem.tend(namespace, lambda index: index.begin(True))
            while (work := sem.tend(namespace, lambda index, merge=merge: merge.next())) is not None:
                work()
            sem.tend(namespace, lambda index, merge=merge: index.publish(merge))


class Many:
    """A node with so many facts that they have a graph."""

    def __init__(self, options: str = "") -> None:
        self.node = Node()
        self.rng = np.random.default_rng(5)
        self.vectors: dict[bytes, np.ndarray] = {}
        self.node.line(f"AMEM.SEM.CREATE a {DIM} {options}")
        for number in range(COUNT):
            self.store(b"k%d" % number, *(("TTL", "5") if number % 4 == 0 else ()), META=number)
        settle(self.node)

    def store(self, key: bytes, *more: str, META: int = 0) -> None:
        self.vectors[key] = self.rng.standard_normal(DIM).astype("<f4")
        meta = b'{"n": %d, "odd": %d}' % (META, META % 2)
        words = [word.encode() for word in more]
        reply = self.node.send(
            b"AMEM.SEM.STORE", b"a", key, b"text", b"FP32", self.vectors[key].tobytes(), *words, b"META", meta
        )
        assert reply == b"OK"

    def recall(self, k: int, vector: np.ndarray, *more: bytes) -> list[dict[bytes, Any]]:
        data = struct.pack(f"<{DIM}f", *vector)
        return labelled(self.node.send(b"AMEM.SEM.RECALL", b"a", b"%d" % k, b"FP32", data, *more))

    def nearest(self, vector: np.ndarray, keys: list[bytes]) -> list[bytes]:
        cosines = {key: self.vectors[key] @ vector / np.linalg.norm(self.vectors[key]) for key in keys}
        return sorted(keys, key=lambda key: -cosines[key])

    def info(self) -> dict[bytes, Any]:
        return labelled([self.node.line("AMEM.SEM.INFO a")])[0]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered, "CROSSOVER_FLOATS", 100 * DIM)
    monkeypatch.setattr(tiered, "WIDTH_SHARE", 1)


@pytest.fixture
def many() -> Many:
    return Many()


def test_info_tells_of_the_graph(many: Many) -> None:
    told = many.info()
    assert (told[b"index"], told[b"graphs"], told[b"tail"], told[b"tombstones"]) == (b"hnsw", 1, 0, 0)
    many.store(b"new")
    many.node.line("AMEM.SEM.FORGET a k1")
    told = many.info()
    assert (told[b"graphs"], told[b"tail"], told[b"tombstones"], told[b"facts"]) == (1, 1, 1, COUNT)
    merge = many.node.stores.sem.tend(many.node.stores.sem.namespaces[b"a"], lambda index: index.begin())
    assert many.info()[b"merging"] == merge.total
    told = many.node.line("INFO semantic").decode()
    assert f"semantic_graphs_merging:1\r\nsemantic_facts_merged:0\r\nsemantic_facts_merging:{merge.total}" in told
    check(many.node.stores)


def test_what_was_stored_is_recalled_and_what_was_forgotten_is_not(many: Many) -> None:
    for number in range(100):
        key = b"k%d" % (3 * number)
        many.store(key)
        assert many.recall(1, many.vectors[key])[0][b"key"] == key
        if number % 2:
            assert many.node.line(f"AMEM.SEM.FORGET a {key.decode()}") == 1
            assert key not in [hit[b"key"] for hit in many.recall(20, many.vectors.pop(key))]


def test_k_is_refilled_after_expiry(many: Many) -> None:
    many.node.now_ms += 6000
    living = [b"k%d" % number for number in range(COUNT) if number % 4]
    vector = many.rng.standard_normal(DIM)
    for k in (5, 50, 300, 350):
        found = [hit[b"key"] for hit in many.recall(k, vector)]
        assert len(found) == min(k, 300)
        assert len(set(found) & set(many.nearest(vector, living)[:k])) >= 0.97 * len(found)


@pytest.mark.parametrize("given", ["@odd == 1", "@n < 6", "@n >= 0", "@n == 17"])
def test_filters_get_all_they_ask_for(many: Many, given: str) -> None:
    def passes(number: int) -> bool:
        return {"@odd == 1": number % 2 == 1, "@n < 6": number < 6, "@n == 17": number == 17}.get(given, True)

    expression = given.replace("@odd", "meta.odd").replace("@n", "meta.n").encode()
    passing = [b"k%d" % number for number in range(COUNT) if passes(number)]
    for _ in range(10):
        vector = many.rng.standard_normal(DIM)
        found = [hit[b"key"] for hit in many.recall(10, vector, b"FILTER", expression)]
        assert len(found) == min(10, len(passing))
        assert set(found) <= set(passing)
        assert len(set(found) & set(many.nearest(vector, passing)[:10])) >= len(found) - 1


def test_ef_is_how_wide_a_graph_is_searched(many: Many, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    search = TieredIndex.search

    def noted(index: TieredIndex, *arguments: Any, **more: Any) -> Any:
        found = search(index, *arguments, **more)
        widths.append(found.width)  # type: ignore[union-attr]
        return found

    monkeypatch.setattr(TieredIndex, "search", noted)
    vector = many.rng.standard_normal(DIM)
    many.recall(5, vector, b"EF", b"300")
    many.recall(5, vector, b"EF", b"1")
    assert widths == [300, 5 + SLACK]
    assert many.node.refused("AMEM.SEM.RECALL a 5 1 1 1 1 1 1 EF 0").endswith("ef must be from 1 to 10000, got 0")


def test_settings_of_create_are_those_of_the_graph() -> None:
    many = Many("M 7 EF_CONSTRUCTION 33 EF_SEARCH 44")
    made = many.node.stores.sem.namespaces[b"a"].index.graphs[0]
    assert (made.links, made.build_width) == (7, 33)


def test_graphs_are_no_part_of_the_state(many: Many) -> None:
    before = many.node.stores.digest(0)
    many.node.restart()
    assert many.node.stores.digest(0) == before
    assert many.info()[b"index"] == b"exact"
    vector = many.rng.standard_normal(DIM)
    exact = many.recall(10, vector)
    settle(many.node)
    assert many.info()[b"index"] == b"hnsw"
    assert many.recall(10, vector) == exact


def test_dropped_and_made_anew(many: Many) -> None:
    assert many.node.line("AMEM.SEM.DROP a") == 1
    assert many.node.stores.ledger.semantic == 0
    many.node.line(f"AMEM.SEM.CREATE a {DIM}")
    many.store(b"k1")
    assert [hit[b"key"] for hit in many.recall(5, many.vectors[b"k1"])] == [b"k1"]
    while len(many.node.stores.graveyard):
        many.node.stores.graveyard.free(100)
    check(many.node.stores)


def test_all_forgotten_one_by_one(many: Many) -> None:
    for number in range(COUNT):
        assert many.node.line(f"AMEM.SEM.FORGET a k{number}") == 1
        if number % 40 == 0:
            assert len(many.recall(500, many.rng.standard_normal(DIM))) == COUNT - number - 1
            check(many.node.stores)
    assert many.info()[b"index"] == b"exact"
    assert many.recall(5, np.ones(DIM)) == []
