"""Graphs in files: what comes back is what was there, and nothing that was forgotten or is of something else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from amemdb.index.graph_layout import Layout
from amemdb.index.similarity import Query
from amemdb.index.tiered import TieredIndex
from amemdb.persistence import graph_files
from amemdb.stores import records
from amemdb.stores.semantic import Namespace
from amemdb.stores.stores import Stores

DIM = 8
COUNT = 900
K = 10


def vectors(seed: int = 1, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, DIM)).astype("<f4")


def filled(rows: np.ndarray, metric: bytes = b"cosine", agents: tuple[bytes, ...] = (b"a",)) -> Stores:
    """Stores with a memory of these vectors for each agent, whose index has graphs from some hundred facts on."""
    stores = Stores()
    for agent in agents:
        stores.apply((records.NAMESPACE_CREATED, agent, DIM, metric, 1, 1))
        namespace = stores.sem.namespaces[agent]
        namespace.index = TieredIndex(DIM, metric, crossover_floats=600 * DIM)
        for number, row in enumerate(rows, 1):
            store(stores, number, row, agent)
    return stores


def store(stores: Stores, number: int, row: np.ndarray, agent: bytes = b"a") -> None:
    rest = (0, None, None, None, 1)
    stores.apply((records.FACT_STORED, agent, b"k%d" % number, number, b"text", row.astype("<f4").tobytes(), *rest))


def forget(stores: Stores, *numbers: int) -> None:
    for number in numbers:
        stores.apply((records.FACT_FORGOTTEN, b"a", b"k%d" % number))


def settle(stores: Stores) -> None:
    """Make all graphs."""
    for namespace in stores.sem.namespaces.values():
        index = namespace.index
        while index.is_due(True):
            merge = index.begin(True)
            while (work := merge.next()) is not None:
                work()
            index.publish(merge)


def index_of(stores: Stores, agent: bytes = b"a") -> TieredIndex:
    return stores.sem.namespaces[agent].index


def found(stores: Stores, row: np.ndarray, k: int = K, metric: bytes = b"cosine") -> list[int]:
    index = index_of(stores)
    search = index.search(Query(metric, row), k, -np.inf, 5, width=200)
    hits = index.settle(search, search.work(), 5)
    assert hits is not None
    return [fact_id for _, fact_id in hits]


class Folder:
    """A folder with graphs, and what was said of it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.lines: list[str] = []

    def save(self, stores: Stores, is_late: bool = False) -> graph_files.Done:
        return graph_files.save(self.path, stores.sem, lambda: is_late, self._tell)

    def load(self, stores: Stores) -> graph_files.Done:
        return graph_files.load(self.path, stores.sem, self._tell)

    def _tell(self, level: str, line: str) -> None:
        self.lines.append(line)

    @property
    def names(self) -> list[str]:
        return sorted(os.listdir(self.path))

    @property
    def graph(self) -> str:
        (name,) = [name for name in self.names if name.endswith(graph_files.SUFFIX)]
        return os.path.join(self.path, name)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize("metric", [b"cosine", b"ip", b"l2"])
def test_a_start_searches_the_graphs_of_the_last_stop(folder: Folder, metric: bytes) -> None:
    rows = vectors()
    stores = filled(rows, metric)
    settle(stores)
    assert folder.save(stores) == (1, COUNT)
    assert folder.names[-1] == graph_files.LIST_NAME
    again = filled(rows, metric)
    assert index_of(again).kind == b"exact"
    assert folder.load(again) == (1, COUNT)
    index = index_of(again)
    assert (index.kind, index.state().tail, index.is_due()) == (b"hnsw", 0, False)
    assert index.search_width == index_of(stores).search_width
    for row in vectors(2, 30):
        assert found(again, row, metric=metric) == found(stores, row, metric=metric)
    assert folder.lines == []


def test_files_are_for_their_owner_alone(folder: Folder) -> None:
    stores = filled(vectors())
    settle(stores)
    folder.save(stores)
    modes = {stat.S_IMODE(os.stat(os.path.join(folder.path, name)).st_mode) for name in folder.names}
    assert modes == {0o600}


def test_what_came_and_went_since_is_so(folder: Folder) -> None:
    """A crash after the stop: the files are older than the log."""
    rows = vectors()
    stores = filled(rows)
    settle(stores)
    folder.save(stores)
    again = filled(rows)
    forget(again, *range(1, 101))
    newer = vectors(3, 60)
    for number, row in enumerate(newer, COUNT + 1):
        store(again, number, row)
    store(again, COUNT + 61, newer[0])  # another vector under a key that was there
    assert folder.load(again) == (1, COUNT - 100)
    state = index_of(again).state()
    assert (state.kind, state.tombstones, state.tail) == (b"hnsw", 100, 61)
    exact = index_of(again).exact
    for row in [*newer[:5], *rows[:20]]:
        search = exact.search(Query(b"cosine", row), K, -np.inf, 5)
        best = exact.settle(search, search.work(), 5)
        assert best is not None
        assert found(again, row) == [fact_id for _, fact_id in best]
    settle(again)
    assert index_of(again).state().tombstones == 0
    assert folder.save(again) == (1, COUNT - 100 + 61)


def test_no_file_has_the_vector_of_a_forgotten_fact(folder: Folder) -> None:
    rows = vectors()
    stores = filled(rows)
    settle(stores)
    forget(stores, *range(1, 200))
    graph = index_of(stores).graphs[0]
    assert graph.gone == 199
    folder.save(stores)
    with open(folder.graph, "rb") as file:
        content = file.read()
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    held = (rows.astype(np.float64) / norms).astype("<f4")
    assert [number for number in range(199) if held[number].tobytes() in content] == []
    assert all(held[number].tobytes() in content for number in range(199, COUNT))
    again = filled(rows)
    forget(again, *range(1, 200))
    assert folder.load(again) == (1, COUNT - 199)
    assert index_of(again).state().tombstones == 199
    hits = [found(again, row) for row in rows[:40]]
    assert all(min(ids) > 199 and len(ids) == K for ids in hits)


def test_several_memories_and_those_without_graphs(folder: Folder) -> None:
    rows = vectors()
    stores = filled(rows, agents=(b"a", b"b"))
    stores.apply((records.NAMESPACE_CREATED, b"small", DIM, b"ip", 1, 1))
    settle(stores)
    assert folder.save(stores) == (2, 2 * COUNT)
    again = filled(rows, agents=(b"b",))
    assert folder.load(again) == (1, COUNT)
    assert folder.save(again) == (1, COUNT)
    assert len(folder.names) == 2, "files of the last time are gone"
    settle(again)
    again.apply((records.ALL_FLUSHED,))
    assert folder.save(again) == (0, 0)
    assert folder.names == []


@pytest.mark.parametrize("place", ["list", "list-cut", "graph", "graph-cut", "graph-gone", "version"])
def test_damage_costs_the_graph_and_nothing_else(folder: Folder, place: str) -> None:
    rows = vectors()
    stores = filled(rows)
    settle(stores)
    folder.save(stores)
    path = Path(folder.path, graph_files.LIST_NAME) if place[:4] in ("list", "vers") else Path(folder.graph)
    content = bytearray(path.read_bytes())
    if place.endswith("gone"):
        path.unlink()
    elif place.endswith("cut"):
        path.write_bytes(content[:-9])
    else:
        content[8 if place == "version" else -20] ^= 1
        path.write_bytes(content)
    again = filled(rows)
    assert folder.load(again) == (0, 0)
    assert index_of(again).kind == b"exact"
    assert len(folder.lines) == 1
    assert "anew" in folder.lines[0]
    assert str(path) in folder.lines[0]


def test_no_byte_that_is_damaged_is_taken(folder: Folder) -> None:
    rows = vectors()
    stores = filled(rows)
    settle(stores)
    folder.save(stores)
    path = Path(folder.graph)
    content = path.read_bytes()
    assert folder.load(filled(rows[:650])) == (1, 650)
    chance = np.random.default_rng(4)
    for _ in range(60):
        spoilt = bytearray(content)
        spoilt[int(chance.integers(len(content)))] ^= 1 << int(chance.integers(8))
        path.write_bytes(spoilt)
        assert folder.load(filled(rows[:650])) == (0, 0)


def test_a_graph_of_other_vectors_is_not_taken(folder: Folder) -> None:
    """A folder of files that were put beside another log: all checks of the bytes hold."""
    rows = vectors()
    stores = filled(rows)
    settle(stores)
    folder.save(stores)
    other = rows.copy()
    other[700] = -other[700]
    again = filled(other)
    assert folder.load(again) == (0, 0)
    assert "other vectors" in folder.lines[-1]
    assert folder.load(filled(rows, b"ip")) == (0, 0)
    assert "another metric" in folder.lines[-1]


def test_a_graph_of_another_dimension_is_refused(folder: Folder) -> None:
    stores = filled(vectors())
    settle(stores)
    folder.save(stores)
    for dim in (DIM - 1, DIM + 1, 2 * DIM):
        with pytest.raises(ValueError, match=f"no graph of {dim} dimensions"):
            Layout(np.fromfile(folder.graph, np.uint8), dim)


def test_a_graph_that_covers_less_than_half_is_made_anew(folder: Folder) -> None:
    stores = filled(vectors(count=700))
    settle(stores)
    folder.save(stores)
    again = filled(vectors(count=700))
    for number, row in enumerate(vectors(5, 900), 701):
        store(again, number, row)
    assert folder.load(again) == (0, 0)
    assert index_of(again).is_due()


def test_a_stop_that_has_no_time_saves_nothing_more(folder: Folder) -> None:
    stores = filled(vectors())
    settle(stores)
    assert folder.save(stores, is_late=True) == (0, 0)
    assert "no time" in folder.lines[0]
    assert folder.names == []


def test_a_folder_that_cannot_be_written_is_said(folder: Folder) -> None:
    stores = filled(vectors())
    settle(stores)
    folder.path = os.path.join(folder.path, "missing")
    assert folder.save(stores) == (0, 0)
    assert "could not be saved" in folder.lines[0]


def test_what_a_save_that_was_killed_has_left_goes_at_the_next_start(folder: Folder) -> None:
    rows = vectors()
    stores = filled(rows)
    settle(stores)
    folder.save(stores)
    Path(folder.path, "0badc0de-0" + graph_files.SUFFIX).write_bytes(b"half")
    Path(folder.path, "graphs.tmp").write_bytes(b"half")
    Path(folder.path, "log-0000000001").write_bytes(b"not ours")
    assert folder.load(filled(rows)) == (1, COUNT)
    assert [name for name in folder.names if not name.endswith(graph_files.SUFFIX)] == ["graphs", "log-0000000001"]
    graph_files.remove(folder.path)
    assert folder.names == ["log-0000000001"]


def test_memory_is_counted(folder: Folder) -> None:
    rows = vectors()
    stores = filled(rows)
    settle(stores)
    folder.save(stores)
    again = filled(rows)
    namespace: Namespace = again.sem.namespaces[b"a"]
    before_bytes, counted_bytes = namespace.memory_bytes(), again.graveyard.ledger.semantic
    folder.load(again)
    assert again.graveyard.ledger.semantic - counted_bytes == namespace.memory_bytes() - before_bytes
    assert namespace.memory_bytes() - before_bytes > index_of(again).graphs[0].memory_bytes()
