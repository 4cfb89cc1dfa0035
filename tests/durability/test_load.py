"""A steady load by `redis-benchmark` from 50 clients: no error, and memory that stays flat once it is warm."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
import redis
from process import ServerProcess

COMMANDS = [
    ["SET", "key:__rand_int__", "a value of some length"],
    ["GET", "key:__rand_int__"],
    ["AMEM.CONV.APPEND", "s", "user", "what was said in this turn"],
    ["AMEM.CONV.WINDOW", "s", "10"],
    ["AMEM.WORK.SET", "s", "key:__rand_int__", "note"],
]
GROWTH_BYTES_MAX = 12 << 20
LOAD_SECONDS_MAX = 60


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("redis-benchmark") is None, reason="needs redis-benchmark (Debian: redis-tools)")
def test_memory_is_flat_under_steady_load(tmp_path: Path, soak_seconds: int) -> None:
    with ServerProcess(tmp_path / "data") as server, redis.Redis(port=server.port) as client:
        client.execute_command("AMEM.CONV.CREATE", "s", "WINDOW", "100")
        run(server, 10_000)
        warm = resident_bytes(server)
        until = time.monotonic() + min(soak_seconds, LOAD_SECONDS_MAX)
        rounds = 0
        while rounds < 2 or time.monotonic() < until:
            run(server, 10_000)
            rounds += 1
        grown = resident_bytes(server) - warm
        assert grown < GROWTH_BYTES_MAX, f"resident memory grew by {grown} bytes in {rounds} rounds"


def run(server: ServerProcess, requests: int) -> None:
    for pipeline in ("1", "16"):
        for command in COMMANDS:
            count = str(requests // len(COMMANDS))
            clients = ["redis-benchmark", "-p", str(server.port), "-c", "50", "-P", pipeline, "-q"]
            done = subprocess.run(
                [*clients, "-n", count, "-r", "1000", *command],
                capture_output=True,
                text=True,
                timeout=600,
            )
            assert done.returncode == 0, done.stderr
            assert "rror" not in done.stdout + done.stderr, done.stdout + done.stderr


def resident_bytes(server: ServerProcess) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * 4096
