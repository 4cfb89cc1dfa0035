"""The servers that are compared: how each is started, on which core, and what the system says about its process.

Both get a loopback port and an empty data folder of their own, write an append-only log under the same fsync policy,
and neither compacts it unless it is told to.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.loader import BenchmarkError, pinned

START_SECONDS_MAX = 1200
"""Redis makes its graphs of vectors again while it reads its log, which takes minutes."""
ASK_SECONDS = 0.005
"""How often a server that starts is asked whether it is there."""
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
    start_seconds: float = 0.0
    """From the start of the process to the first PONG."""

    @property
    def resident_bytes(self) -> int:
        """Memory of the process that is in RAM (VmRSS)."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise BenchmarkError(f"{self.variant.name} is gone")

    @property
    def cpu_seconds(self) -> float:
        """User and system time of the process so far, all threads."""
        return cpu_seconds(self.pid)

    @property
    def children(self) -> list[int]:
        """The processes that it has started and that are not gone."""
        found: list[int] = []
        with suppress(OSError):  # a thread of it has ended meanwhile
            for thread in Path(f"/proc/{self.pid}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
        return found


def cpu_seconds(pid: int) -> float:
    """The same of any process; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ours() -> Variant:
    """The server of this repository, run by the Python that runs the benchmark."""
    from amemdb import __version__

    def command(port: int, folder: Path, fsync: str) -> list[str]:
        options = ["--port", str(port), "--dir", str(folder), "--appendfsync", fsync]
        options += ["--auto-aof-rewrite-percentage", "0"]
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
def on_core(server: Server, core: int | None) -> Iterator[None]:
    """Have a server that runs anywhere on one core, with all its threads, and those that it starts meanwhile.

    None leaves it as it is.
    """
    if core is None:
        yield
        return
    everywhere = os.sched_getaffinity(server.pid)

    def bind(cores: set[int]) -> None:
        for thread in Path(f"/proc/{server.pid}/task").iterdir():
            with suppress(OSError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread.name), cores)

    bind({core})
    try:
        yield
    finally:
        bind(everywhere)


@contextmanager
def data_folder(name: str) -> Iterator[Path]:
    """An empty folder for what a server keeps."""
    folder = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running(variant: Variant, fsync: str, core: int | None) -> Iterator[Server]:
    """A server of this variant with an empty data folder, which goes with it."""
    with data_folder(variant.name) as folder, serving(variant, fsync, core, folder) as server:
        yield server


@contextmanager
def serving(variant: Variant, fsync: str, core: int | None, folder: Path, keep: bool = False) -> Iterator[Server]:
    """A server on the data in `folder`. To keep what is there, it is stopped in order; else that may write a lot.

    Its Python may keep the modules that it compiles, as an installation does: else each start would compile them again.
    """
    port = _free_port()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    data, output = folder / "data", folder / "output"
    data.mkdir(exist_ok=True)
    with output.open("wb") as target:
        began = time.monotonic()
        process = subprocess.Popen(
            pinned(variant.command(port, data, fsync), core),
            stdout=target,
            stderr=target,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    try:
        _wait_until_ready(variant, port, process, output)
        yield Server(variant, port, process.pid, time.monotonic() - began)
        if keep:
            process.send_signal(signal.SIGTERM)
            if process.wait(START_SECONDS_MAX):
                raise BenchmarkError(f"{variant.name} did not stop in order:\n{_end_of(output)}")
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def _wait_until_ready(variant: Variant, port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    """Ask until the answer is PONG. One that says that it is loading, or says nothing, is not ready."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            while not _is_pong(connection):
                time.sleep(ASK_SECONDS)
            return
        time.sleep(ASK_SECONDS)
    raise BenchmarkError(f"{variant.name} did not start:\n{_end_of(output)}")


def _is_pong(connection: socket.socket) -> bool:
    connection.sendall(b"PING\r\n")
    answer = b""
    while not answer.endswith(b"\n"):
        received = connection.recv(1_000)
        if not received:
            raise ConnectionResetError
        answer += received
    return answer.startswith(b"+PONG")


def _end_of(output: Path) -> str:
    return output.read_text(errors="replace")[-2_000:]
