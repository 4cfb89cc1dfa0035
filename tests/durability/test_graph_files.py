"""Graphs across stops of a real server: an orderly one keeps them, and whatever is wrong with them costs only time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis

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
    server.wait_until(lambda: told(server)[b"tail"] == 0 and told(server)[b"index"] == b"hnsw", "the graph")


def graph_files(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name == "graphs" or name.endswith(".graph")]


def test_the_next_start_has_the_graph_at_once(folder: Path, server: ServerProcess, vectors: list[bytes]) -> None:
    fill(server, vectors)
    before = recalled(server, vectors)
    assert graph_files(folder) == []
    assert server.stop() == 0
    assert "saved 1 graphs of 2,100 vectors" in server.output
    server.start()
    state = told(server)
    assert (state[b"index"], state[b"tail"], state[b"merging"]) == (b"hnsw", 0, 0)
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
    assert len(graph_files(folder)) == 2


def test_none_are_kept_where_that_is_not_wanted(folder: Path, server: ServerProcess, vectors: list[bytes]) -> None:
    fill(server, vectors)
    assert server.stop() == 0
    assert len(graph_files(folder)) == 2
    server.start()
    with redis.Redis(port=server.port) as client:
        client.config_set("save-graphs", "no")
    assert server.stop() == 0
    assert graph_files(folder) == []


def test_a_damaged_file_is_said_and_made_anew(folder: Path, server: ServerProcess, vectors: list[bytes]) -> None:
    fill(server, vectors)
    assert server.stop() == 0
    (name,) = [name for name in graph_files(folder) if name != "graphs"]
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 4
    (folder / name).write_bytes(content)
    server.start()
    assert f"{name} is made anew: the file is not what was written" in server.output
    recalled(server, vectors)
    wait_for_graphs(server)
