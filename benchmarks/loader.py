"""Compiles and runs `loader.c`, the program that keeps a server busy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.templates import Templates

SOURCES = (Path(__file__).parent / "loader.c", Path(__file__).parent / "replies.h")
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


def compile_loader(folder: Path) -> Path:
    """Build the loader in `folder` unless it is there and newer than its sources; its path."""
    program = folder / "loader"
    newest = max(source.stat().st_mtime for source in SOURCES)
    if program.exists() and program.stat().st_mtime > newest:
        return program
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise BenchmarkError("the load program needs a C compiler (cc, or what CC names), and there is none")
    folder.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-O2", "-std=c11", "-o", str(program), str(SOURCES[0])]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise BenchmarkError(f"the load program does not compile:\n{made.stderr}")
    return program


class Loader:
    """The compiled loader, and the core it runs on."""

    def __init__(self, program: Path, core: int | None) -> None:
        self._program = program
        self._core = core

    def run_seconds(self, port: int, pid: int, what: Templates, pipeline: int, seconds: float, seed: int) -> Load:
        """Load the server for a time with random choices that follow from `seed`."""
        return self._run(port, pid, what, ["seconds", str(seconds)], pipeline, seed)

    def run_operations(self, port: int, pid: int, what: Templates, pipeline: int, operations: int) -> Load:
        """Send a number of operations, numbered from 0."""
        return self._run(port, pid, what, ["operations", str(operations)], pipeline, 1)

    def _run(self, port: int, pid: int, what: Templates, until: Sequence[str], pipeline: int, seed: int) -> Load:
        numbers = [port, CONNECTIONS, pipeline, *until, pid, what.commands, seed, what.length]
        command = [str(self._program), "load", *map(str, numbers), *map(str, what.fields)]
        ran = subprocess.run(
            pinned(command, self._core), input=b"".join(what.requests), capture_output=True, check=False
        )
        if ran.returncode:
            raise BenchmarkError(f"the load program ended: {ran.stderr.decode(errors='replace').strip()}")
        load = Load(**json.loads(ran.stdout))
        if load.errors:
            raise BenchmarkError(f"{load.errors} of {load.operations} operations were refused: {load.first_error}")
        return load


def pinned(command: list[str], core: int | None) -> list[str]:
    """The command line that runs `command` on one core, or anywhere when `core` is None."""
    return command if core is None else ["taskset", "--cpu-list", str(core), *command]
