"""The index thread of a running node: graphs come by themselves, and nobody notices but by the speed."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hiredis
import numpy as np
import pytest

from amemdb.index import graph, tiered
from amemdb.server import indexing
from amemdb.server.indexing import Indexing
from amemdb.stores import records
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.semantic import SemanticStore
from amemdb.stores.wheel import Wheel
from tests.memory_walk import check
from tests.server.live import Live, line, live, until

DIM = 8
RNG = np.random.default_rng(1)
pytestmark = pytest.mark.skipif(not graph.IS_AVAILABLE, reason="hnswlib is not installed")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered, "CROSSOVER_FLOATS", 200 * DIM)
    monkeypatch.setattr(tiered, "WIDTH_SHARE", 1)
    monkeypatch.setattr(indexing, "TICK_S", 0.005)
    monkeypatch.setattr(indexing, "QUIET_S", 0.02)


def check_settled(state: tiered.State) -> None:
    """When it has been quiet for long: one graph, or a small one beside it, and next to nothing in none."""
    assert (state.kind, state.merging) == (b"hnsw", 0)
    assert state.graphs <= 2
    assert state.tail <= tiered.FEW


class Turns:
    """A store and an index thread on the loop of the test."""

    def __init__(self) -> None:
        self.graveyard = Graveyard()
        self.store = SemanticStore(Wheel(), self.graveyard)
        self.errors: list[BaseException] = []
        self.indexing = Indexing(asyncio.get_running_loop(), self.store, self._bug)
        self.count = 0

    def _bug(self, error: BaseException, argv: object) -> None:
        self.errors.append(error)

    def create(self, agent: bytes) -> None:
        self.store.apply_created((records.NAMESPACE_CREATED, agent, DIM, b"cosine", 1, 1))

    def put(self, agent: bytes, count: int) -> None:
        for _ in range(count):
            self.count += 1
            vector = RNG.standard_normal(DIM).astype("<f4").tobytes()
            fact = (b"k%d" % self.count, self.count, b"text", vector, 0, None, None, None, 1)
            self.store.apply_stored((records.FACT_STORED, agent, *fact))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            await until(condition)
        assert not self.errors

    def kind(self, agent: bytes) -> bytes:
        return self.store.namespaces[agent].index.kind


async def test_large_pages_are_asked_for_while_a_graph_gets_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    turns.create(b"a")
    turns.put(b"a", 300)
    index, asked = turns.store.namespaces[b"a"].index, []

    @contextmanager
    def for_what_comes(count_bytes: int) -> Iterator[None]:
        before = len(index.merges)
        yield
        asked.append((count_bytes, len(index.merges) - before))

    monkeypatch.setattr(indexing.huge_pages, "for_what_comes", for_what_comes)
    turns.indexing.start()
    await turns.until(lambda: turns.kind(b"a") == b"hnsw")
    turns.indexing.stop()
    assert asked[0] == (300 * DIM * 4, 1)


async def test_graphs_come_by_themselves_and_settle() -> None:
    turns = Turns()
    turns.indexing.start()
    for agent in (b"small", b"large"):
        turns.create(agent)
    turns.put(b"small", 100)
    turns.put(b"large", 500)
    assert turns.store.unsettled == {b"large"}
    await turns.until(lambda: turns.kind(b"large") == b"hnsw")
    for _ in range(20):
        turns.put(b"large", 40)
        await asyncio.sleep(0)
    await turns.until(lambda: not turns.store.unsettled)
    check_settled(turns.store.namespaces[b"large"].index.state())
    assert turns.kind(b"small") == b"exact"
    held = sum(namespace.walked_bytes() for namespace in turns.store.namespaces.values())
    assert turns.graveyard.ledger.semantic == held
    turns.indexing.stop()


async def test_what_was_loaded_before_the_start_is_made_a_graph() -> None:
    turns = Turns()
    turns.create(b"a")
    turns.put(b"a", 500)
    turns.indexing.start()
    await turns.until(lambda: turns.kind(b"a") == b"hnsw")
    turns.indexing.stop()


async def test_a_memory_that_is_dropped_or_made_anew_meanwhile_is_let_go() -> None:
    turns = Turns()
    turns.indexing.start()
    for _ in range(5):
        turns.create(b"a")
        turns.put(b"a", 2000)
        await turns.until(lambda: bool(turns.store.namespaces[b"a"].index.merges))
        turns.store.apply_dropped((records.NAMESPACE_DROPPED, b"a"))
        assert turns.graveyard.ledger.semantic == 0
    turns.create(b"b")
    turns.put(b"b", 2000)
    await turns.until(lambda: bool(turns.store.namespaces[b"b"].index.merges))
    turns.store.clear()
    await turns.until(lambda: not turns.indexing._merging and not turns.store.unsettled)
    while len(turns.graveyard):
        turns.graveyard.free(500)
    assert turns.graveyard.ledger.held == 0
    turns.indexing.stop()


async def test_a_stop_in_the_middle() -> None:
    turns = Turns()
    turns.create(b"a")
    turns.put(b"a", 3000)
    turns.indexing.start()
    await turns.until(lambda: bool(turns.store.namespaces[b"a"].index.merges))
    turns.indexing.stop()
    done = turns.store.namespaces[b"a"].index.state().merged
    await asyncio.sleep(0.05)
    assert turns.store.namespaces[b"a"].index.state().merged == done
    assert turns.kind(b"a") == b"exact"
    assert not turns.errors


async def test_a_bug_in_the_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    turns.create(b"a")
    turns.put(b"a", 300)

    def fail(*_: object) -> None:
        raise ValueError("made up")

    monkeypatch.setattr(graph.Graph, "seal", fail)
    turns.indexing.start()
    with pytest.raises(AssertionError):
        await turns.until(lambda: bool(turns.errors))
    assert str(turns.errors[0]) == "made up"
    turns.indexing.stop()


async def test_it_is_told_once_that_the_library_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(graph, "IS_AVAILABLE", False)
    monkeypatch.setattr(logging.getLogger("amemdb"), "propagate", True)
    turns = Turns()
    turns.create(b"a")
    turns.indexing.start()
    turns.put(b"a", 500)
    await asyncio.sleep(0.05)
    assert turns.kind(b"a") == b"exact"
    assert [record.getMessage() for record in caplog.records] == [
        "hnswlib is not installed: large semantic memories are searched exactly, which takes longer"
    ]
    turns.indexing.stop()


def test_a_node_answers_right_before_during_and_after() -> None:
    async def store_and_recall(server: Live) -> None:
        client = await server.client()
        reader = hiredis.Reader()

        async def ask(*words: bytes) -> Any:
            client.send(line(*words))
            while (reply := reader.gets()) is False:
                reader.feed(await client.reader.read(1 << 16))
            return reply

        assert await ask(b"AMEM.SEM.CREATE", b"a", b"%d" % DIM) == b"OK"
        stores = server.node.engine.stores
        for number in range(1200):
            vector = RNG.standard_normal(DIM).astype("<f4").tobytes()
            key = b"k%d" % (number if number < 1000 else number - 1000)
            assert await ask(b"AMEM.SEM.STORE", b"a", key, b"text", b"FP32", vector) == b"OK"
            if number % 10 == 0:
                found = await ask(b"AMEM.SEM.RECALL", b"a", b"5", b"FP32", vector)
                assert found[0][1] == key
                assert len(found) == min(5, len(stores.sem.namespaces[b"a"].facts))
            if number % 50 == 30:
                assert await ask(b"AMEM.SEM.FORGET", b"a", key) == 1
                found = await ask(b"AMEM.SEM.RECALL", b"a", b"5", b"FP32", vector)
                assert key not in [hit[1] for hit in found]
        await until(lambda: not stores.sem.unsettled)
        state = stores.sem.namespaces[b"a"].index.state()
        check_settled(state)
        check(stores)

    live(store_and_recall)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
async def test_the_loop_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    add = graph.Graph.add

    def noted(self: graph.Graph, fact_ids: Any, vectors: Any) -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        add(self, fact_ids, vectors)

    monkeypatch.setattr(graph.Graph, "add", noted)
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    turns = Turns()
    turns.create(b"a")
    turns.put(b"a", 300)
    turns.indexing.start()
    await turns.until(lambda: bool(seen))
    turns.indexing.stop()
    assert seen[0] == max(indexing.NICE, before)
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
