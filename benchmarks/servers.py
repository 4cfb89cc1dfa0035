"""The servers that are compared: how each is started, on which core, and what the system says about its process.

Both get a loopback port and an empty data folder of their own, write an append-only log under the same fsync policy,
and neither compacts it during a run.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

from benchmarks.loader import BenchmarkError, pinned

START_SECONDS_MAX = 30
OURS, REDIS = "amemdb", "redis"


@dataclass(frozen=True)
class Variant:
    """One of the servers to compare."""

    name: str
    version: str
    command: Callable[[int, Path, str], list[str]]
    """The command line for a port, a data folder and an fsync policy."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    variant: Variant
    port: int
    pid: int

    @property
    def resident_bytes(self) -> int:
        """Memory of the process that is in RAM (VmRSS)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise BenchmarkError(f"{self.variant.name} is gone")


def ours() -> Variant:
    """The server of this repository, run by the Python that runs the benchmark."""
    from amemdb import __version__

    def command(port: int, folder: Path, fsync: str) -> list[str]:
        options = ["--port", str(port), "--dir", str(folder), "--appendfsync", fsync]
        return [sys.executable, "-m", "amemdb", "serve", *options]

    return Variant(OURS, f"{__version__} on Python {sys.version.split()[0]}", command)


def redis_server(program: Path) -> Variant:
    """The Redis at `program`."""
    said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True).stdout
    version = next((word.removeprefix("v=") for word in said.split() if word.startswith("v=")), "of unknown version")

    def command(port: int, folder: Path, fsync: str) -> list[str]:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0"]
        return [str(program), *options]

    return Variant(REDIS, version, command)


@contextmanager
def running(variant: Variant, fsync: str, core: int | None) -> Iterator[Server]:
    """A server of this variant with an empty data folder, which goes with it."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{variant.name}-"))
    port = _free_port()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    data = folder / "data"
    data.mkdir()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            pinned(variant.command(port, data, fsync), core),
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    try:
        _wait_until_ready(variant, port, process, folder / "output")
        yield Server(variant, port, process.pid)
    finally:
        process.send_signal(signal.SIGKILL)  # nothing is to be kept, and a clean stop may write a lot
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _wait_until_ready(variant: Variant, port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    with redis.Redis(port=port, socket_timeout=5) as client:
        while True:
            try:
                client.ping()
                return
            except (redis.ConnectionError, redis.ResponseError):
                pass
            if process.poll() is not None or time.monotonic() > deadline:
                said = output.read_text(errors="replace")[-2000:]
                raise BenchmarkError(f"{variant.name} did not start:\n{said}")
            time.sleep(0.02)
