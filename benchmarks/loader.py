"""Compiles and runs the load programs: `loader.c` keeps a server busy, `pacer.c` asks at a fixed rate.

Both take their requests from `templates` and print JSON, which becomes a `Load` or a `Pace` here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.templates import Templates

FOLDER = Path(__file__).parent
HEADERS = ("measuring.h", "replies.h", "requests.h")
CONNECTIONS = 50


class BenchmarkError(Exception):
    """Something keeps the benchmark from measuring what it says it measures; the text is for the user."""


@dataclass(frozen=True)
class Load:
    """What the loader saw, as it prints it."""

    operations: int
    seconds: float
    server_cpu_seconds: float
    loader_cpu_seconds: float
    reply_bytes: int
    errors: int
    nils: int
    empty: int
    p50_us: float
    p99_us: float
    p999_us: float
    first_error: str


@dataclass(frozen=True)
class Pace:
    """What the pacer saw, as it prints it. Latencies count from the moment a request was due."""

    operations: int
    seconds: float
    server_cpu_seconds: float
    pacer_cpu_seconds: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    late_p50_us: float
    late_p99_us: float
    late_p999_us: float
    late_max_us: float
    """How late the pacer itself was with its requests."""
    errors: int
    nils: int
    first_error: str


def compile_loader(folder: Path) -> Path:
    """Build the load program in `folder` unless it is there and newer than its sources; its path."""
    return _compiled("loader", folder)


def compile_pacer(folder: Path) -> Path:
    """The same for the program that asks at a fixed rate."""
    return _compiled("pacer", folder)


def _compiled(name: str, folder: Path) -> Path:
    program, source = folder / name, FOLDER / f"{name}.c"
    newest = max(path.stat().st_mtime for path in (source, *(FOLDER / header for header in HEADERS)))
    if program.exists() and program.stat().st_mtime > newest:
        return program
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise BenchmarkError("the load program needs a C compiler (cc, or what CC names), and there is none")
    folder.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O2", "-std=c11", "-o", str(program), str(source)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise BenchmarkError(f"the load program does not compile:\n{made.stderr}")
    return program


class Running:
    """A load program at work; `finish` waits for it and gives what it printed."""

    def __init__(self, command: list[str], what: Templates) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended; `finish` says why
            self._process.stdin.write(b"".join(what.requests))
            self._process.stdin.flush()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdin = None

    def finish(self) -> dict[str, Any]:
        """What it printed, once it has ended."""
        said, complaint = self._process.communicate()
        if self._process.returncode:
            raise BenchmarkError(f"the load program ended: {complaint.decode(errors='replace').strip()}")
        found: dict[str, Any] = json.loads(said)
        if found["errors"]:
            raise BenchmarkError(
                f"{found['errors']} of {found['operations']} operations were refused: {found['first_error']}"
            )
        return found

    def stop(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.communicate()


class Loader:
    """The compiled loader, and the core it runs on."""

    def __init__(self, program: Path, core: int | None) -> None:
        self._program = program
        self._core = core

    def run_seconds(
        self,
        port: int,
        pid: int,
        what: Templates,
        pipeline: int,
        seconds: float,
        seed: int,
        connections: int = CONNECTIONS,
    ) -> Load:
        """Load the server for a time with random choices that follow from `seed`."""
        return self._run(port, pid, what, ["seconds", str(seconds)], pipeline, seed, connections)

    def run_operations(self, port: int, pid: int, what: Templates, pipeline: int, operations: int) -> Load:
        """Send a number of operations, numbered from 0."""
        return self._run(port, pid, what, ["operations", str(operations)], pipeline, 1)

    def flood(
        self, port: int, pid: int, what: Templates, connections: int, pipeline: int, seconds: float, seed: int
    ) -> Running:
        """Begin to load the server, in the background and behind every other process on the core."""
        command = self._command(port, pid, what, ["seconds", str(seconds)], connections, pipeline, seed)
        return Running(pinned(idle(command), self._core), what)

    def _run(
        self,
        port: int,
        pid: int,
        what: Templates,
        until: Sequence[str],
        pipeline: int,
        seed: int,
        connections: int = CONNECTIONS,
    ) -> Load:
        command = self._command(port, pid, what, until, connections, pipeline, seed)
        return Load(**Running(pinned(command, self._core), what).finish())

    def _command(
        self, port: int, pid: int, what: Templates, until: Sequence[str], connections: int, pipeline: int, seed: int
    ) -> list[str]:
        numbers = [port, connections, pipeline, *until, pid, what.commands, seed, what.length]
        return [str(self._program), "load", *map(str, numbers), *map(str, what.fields)]


class Pacer:
    """The compiled pacer, and the core it runs on.

    Where the system allows it, it goes before every ordinary process there, to be punctual on a busy machine too.
    """

    def __init__(self, program: Path, core: int | None) -> None:
        self._program = program
        self._core = core

    def start(
        self, port: int, pid: int, what: Templates, connections: int, rate: float, operations: int, seed: int = 1
    ) -> Running:
        """Begin to send `operations` commands, `rate` a second, in the background."""
        assert what.commands == 1
        numbers = [port, connections, rate, operations, pid, seed, what.length]
        command = [str(self._program), *map(str, numbers), *map(str, what.fields)]
        return Running(pinned(first(command) if may_be_first() else command, self._core), what)

    def run(
        self, port: int, pid: int, what: Templates, connections: int, rate: float, operations: int, seed: int = 1
    ) -> Pace:
        """Send `operations` commands, `rate` a second, and wait for their replies."""
        return Pace(**self.start(port, pid, what, connections, rate, operations, seed).finish())


def pinned(command: list[str], core: int | None) -> list[str]:
    """The command line that runs `command` on one core, or anywhere when `core` is None."""
    return command if core is None else ["taskset", "--cpu-list", str(core), *command]


def idle(command: list[str]) -> list[str]:
    """The command line that runs `command` only while no other process wants its core, so that it delays none."""
    return ["chrt", "--idle", "0", *command]


def first(command: list[str]) -> list[str]:
    """The command line that runs `command` before every ordinary process on its core."""
    return ["chrt", "--fifo", "1", *command]


@cache
def may_be_first() -> bool:
    """Whether this user may do that."""
    return subprocess.run(first(["true"]), capture_output=True, check=False).returncode == 0
