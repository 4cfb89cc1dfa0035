"""Graphs across stops of a real server: an orderly one keeps them, and whatever is wrong with them costs only time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

from amemdb.index.tiered import FEW
from tests.process import ServerProcess

DIM = 1536
COUNT = 2100
"""Just enough components for a graph, and few vectors, as those take the time."""
NEAREST = ("AMEM.SEM.RECALL", "a", 10, "FP32")


@pytest.fixture(scope="module")
def vectors() -> list[bytes]:
    rows = np.random.default_rng(1).standard_normal((COUNT, DIM)).astype("<f4")
    return [row.tobytes() for row in rows]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(folder: Path) -> Iterator[ServerProcess]:
    with ServerProcess(folder, "--enable-debug-command", "yes") as server:
        yield server


def told(server: ServerProcess) -> dict[bytes, Any]:
    with redis.Redis(port=server.port, protocol=3) as client:
        answer: dict[bytes, Any] = client.execute_command("AMEM.SEM.INFO", "a")
        return answer


def recalled(server: ServerProcess, vectors: list[bytes]) -> list[Any]:
    with redis.Redis(port=server.port) as client:
        return [client.execute_command(*NEAREST, vector) for vector in vectors[:20]]


def fill(server: ServerProcess, vectors: list[bytes]) -> None:
    """Store the facts, and wait for the graph."""
    with redis.Redis(port=server.port) as client:
        client.execute_command("AMEM.SEM.CREATE", "a", DIM, "M", 8, "EF_CONSTRUCTION", 20, "EF_SEARCH", 600)
        pipe = client.pipeline(transaction=False)
        for number, vector in enumerate(vectors):
            pipe.execute_command("AMEM.SEM.STORE", "a", f"k{number}", "text", "FP32", vector)
        pipe.execute()
    wait_for_graphs(server)


def wait_for_graphs(server: ServerProcess) -> None:
    server.wait_until(lambda: has_graphs(server), "the graphs")


def has_graphs(server: ServerProcess) -> bool:
    """Whether all facts are in graphs, but for a few that came after a merge began: too few for one of their own."""
    state = told(server)
    return state[b"index"] == b"hnsw" and state[b"merging"] == 0 and state[b"tail"] <= FEW


def graph_files(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name == "graphs" or name.endswith(".graph")]


def test_the_next_start_has_the_graph_at_once(folder: Path, server: ServerProcess, vectors: list[bytes]) -> None:
    fill(server, vectors)
    before = recalled(server, vectors)
    assert graph_files(folder) == []
    assert server.stop() == 0
    found = re.search(r"saved \d graphs of ([\d,]+) vectors", server.output)
    assert found
    assert COUNT - FEW <= int(found[1].replace(",", "")) <= COUNT
    server.start()
    assert has_graphs(server)
    assert recalled(server, vectors) == before
    with redis.Redis(port=server.port) as client:
        client.execute_command("AMEM.SEM.FORGET", "a", "k0")
        digest = client.execute_command("DEBUG", "DIGEST")
    server.kill()
    server.start()  # with the files of a stop that was before what happened since
    state = told(server)
    assert (state[b"index"], state[b"facts"], state[b"tombstones"]) == (b"hnsw", COUNT - 1, 1)
    assert b"k0" not in str(recalled(server, vectors)).encode().replace(b"'", b" ").split()
    with redis.Redis(port=server.port) as client:
        assert client.execute_command("DEBUG", "DIGEST") == digest
        client.execute_command("BGREWRITEAOF")
        server.wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"], "the compaction")
        assert graph_files(folder) == [], "a file that may hold what was forgotten outlived a compaction"
    server.kill()
    server.start()
    assert told(server)[b"index"] == b"exact"
    wait_for_graphs(server)
    assert server.stop() == 0
    assert len(graph_files(folder)) >= 2


def test_none_are_kept_where_that_is_not_wanted(folder: Path, server: ServerProcess, vectors: list[bytes]) -> None:
    fill(server, vectors)
    assert server.stop() == 0
    assert len(graph_files(folder)) >= 2
    server.start()
    with redis.Redis(port=server.port) as client:
        client.config_set("save-graphs", "no")
    assert server.stop() == 0
    assert graph_files(folder) == []


def test_a_damaged_file_is_said_and_made_anew(folder: Path, server: ServerProcess, vectors: list[bytes]) -> None:
    fill(server, vectors)
    assert server.stop() == 0
    name = next(name for name in graph_files(folder) if name != "graphs")
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 4
    (folder / name).write_bytes(content)
    server.start()
    assert f"{name} is made anew: the file is not what was written" in server.output
    recalled(server, vectors)
    wait_for_graphs(server)
