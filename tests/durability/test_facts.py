"""Facts of the real process: stored and forgotten while others recall them, then killed with -9 and started again.

The memory is one that graphs are being made of, its dimension so large that a few hundred facts are enough. Whoever has
the reply to a store finds the fact on any connection, by its vector and by its words; who has the reply to a FORGET
finds it no more; and so it is after a kill. What a bounded memory lets go of is in the log.
"""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import redis
from process import ServerProcess
from redis.exceptions import ConnectionError as Disconnected

DIM = 4096
FACTS = 900
WRITERS = 2


def vector(number: int) -> bytes:
    return np.random.default_rng(number).standard_normal(DIM).astype("<f4").tobytes()


def recall(client: redis.Redis, number: int, k: int, *more: str) -> list[bytes]:
    found = client.execute_command("AMEM.SEM.RECALL", "a", k, "FP32", vector(number), *more)
    return [item[b"key"] for item in found]


class Writer(threading.Thread):
    """Stores facts and forgets every fifth again, and looks from another connection whether that can be seen."""

    def __init__(self, port: int, number: int, count: int) -> None:
        super().__init__(daemon=True)
        self._port, self._numbers = port, range(number, count, WRITERS)
        self.there: set[int] = set()
        self.unknown: set[int] = set()
        self.wrong: list[str] = []

    def run(self) -> None:
        with redis.Redis(port=self._port, retry=None) as client, redis.Redis(port=self._port, retry=None) as other:
            try:
                for number in self._numbers:
                    self._store(client, other, number)
            except Disconnected:
                pass
            except Exception as error:  # shown by the test
                self.wrong.append(repr(error))

    def _store(self, client: redis.Redis, other: redis.Redis, number: int) -> None:
        key = b"k%d" % number
        self.unknown = {number}
        client.execute_command("AMEM.SEM.STORE", "a", key, f"words of INV-{number}", "FP32", vector(number))
        self.there.add(number)
        self.unknown = set()
        if number % 3 == 0 and recall(other, number, 1) != [key]:
            self.wrong.append(f"{number} is not the nearest to itself")
        if number % 7 == 0:
            found = other.execute_command("AMEM.SEM.RECALL", "a", 1, "TEXT", f"INV-{number}")
            if [item[b"key"] for item in found] != [key]:
                self.wrong.append(f"{number} is not found by its name")
        if number % 5 == 0:
            self.unknown = {number}
            self.there.discard(number)
            client.execute_command("AMEM.SEM.FORGET", "a", key)
            self.unknown = set()
            if key in recall(other, number, 5) or key in recall(other, number, 5, "HYBRID", f"INV-{number}"):
                self.wrong.append(f"{number} was forgotten and is found")


@pytest.mark.parametrize("after", [300, FACTS])
def test_nothing_is_missing_and_nothing_forgotten_comes_back(tmp_path: Path, after: int) -> None:
    with ServerProcess(tmp_path / "data", "--enable-debug-command", "yes") as server:
        with redis.Redis(port=server.port) as client:
            client.execute_command("AMEM.SEM.CREATE", "a", DIM, "M", 8, "EF_CONSTRUCTION", 20)
            writers = [Writer(server.port, number, FACTS) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            digest = None
            if after < FACTS:
                server.wait_until(lambda: len(writers[0].there) > after // WRITERS, "stores")
            else:
                for writer in writers:
                    writer.join(timeout=120)
                digest = client.execute_command("DEBUG", "DIGEST")
        server.kill()
        for writer in writers:
            writer.join(timeout=60)
            assert writer.wrong == []
        server.start()
        there = set().union(*[writer.there for writer in writers])
        unknown = set().union(*[writer.unknown for writer in writers])
        with redis.Redis(port=server.port) as client:
            keys = {int(key[1:]) for key in client.execute_command("AMEM.SEM.LIST", "a")}
            assert there - unknown <= keys <= there | unknown
            if digest is not None:
                assert client.execute_command("DEBUG", "DIGEST") == digest
            for number in sorted(keys)[::40]:
                assert recall(client, number, 1) == [b"k%d" % number]


def test_evictions_are_in_the_log_whatever_was_recalled(tmp_path: Path) -> None:
    """Recalls are not logged, what went because of them is."""
    with ServerProcess(tmp_path / "data", "--enable-debug-command", "yes") as server:
        with redis.Redis(port=server.port) as client:
            client.execute_command("AMEM.SEM.CREATE", "a", 2, "MAXFACTS", 20)
            for number in range(120):
                client.execute_command("AMEM.SEM.STORE", "a", f"k{number}", "text", 1, number)
                client.execute_command("AMEM.SEM.RECALL", "a", 2, 1, 0)
            keys = client.execute_command("AMEM.SEM.LIST", "a")
            digest = client.execute_command("DEBUG", "DIGEST")
        assert {b"k0", b"k1", b"k119"} <= set(keys)
        assert len(keys) == 20
        server.kill()
        server.start()
        with redis.Redis(port=server.port) as client:
            assert client.execute_command("AMEM.SEM.LIST", "a") == keys
            assert client.execute_command("DEBUG", "DIGEST") == digest
            client.execute_command("AMEM.SEM.STORE", "a", "new", "text", 1, 500)
            left = set(client.execute_command("AMEM.SEM.LIST", "a"))
        assert {b"k0", b"k1", b"new"} <= left, "the log told that these were used"
