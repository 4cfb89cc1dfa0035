"""Whether the load program can be believed: the same commands on the same Redis, by it and by `redis-benchmark`."""

from __future__ import annotations

import csv
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

from benchmarks.loader import CONNECTIONS, pinned
from benchmarks.measure import Bench, load_sample
from benchmarks.servers import Server, running
from benchmarks.templates import TEXT_BYTES, templates

ROUNDS_MAX = 3
REQUESTS = {1: 100_000, 16: 1_000_000}
LINES = {"SET": "SET key:{any%10000} {text}", "GET": "GET key:{any%10000}"}


def compare_loaders(bench: Bench, loader_core: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Rates of both programs, alternating; nothing when `redis-benchmark` is not installed."""
    program = shutil.which("redis-benchmark")
    if program is None:
        say("redis-benchmark is not installed: the load program is not compared with it")
        return []
    results = []
    with running(bench.redis, "everysec", bench.server_core) as server:
        for pipeline in REQUESTS:
            for command, line in LINES.items():
                say(f"comparing the load program with redis-benchmark: {command}, pipeline {pipeline}")
                what = templates(line)
                rounds = [
                    (
                        load_sample(
                            bench.loader.run_seconds(server.port, server.pid, what, pipeline, bench.seconds, 1)
                        ),
                        _redis_benchmark(program, server, command, pipeline, loader_core),
                    )
                    for _ in range(min(bench.rounds, ROUNDS_MAX))
                ]
                results.append({"command": command, "pipeline": pipeline, **_medians(rounds)})
    return results


def _medians(rounds: list[tuple[dict[str, float], dict[str, float]]]) -> dict[str, float]:
    figures = {"loader": [ours for ours, _ in rounds], "redis_benchmark": [theirs for _, theirs in rounds]}
    return {
        f"{name}_{figure}": statistics.median(sample[figure] for sample in samples)
        for name, samples in figures.items()
        for figure in ("rate", "loader_share")
    }


def _redis_benchmark(program: str, server: Server, command: str, pipeline: int, core: int) -> dict[str, float]:
    options = ["-p", server.port, "-t", command.lower(), "-c", CONNECTIONS, "-P", pipeline, "-d", TEXT_BYTES]
    options += ["-r", 10_000, "-n", REQUESTS[pipeline], "--csv"]
    before, began = os.times(), time.monotonic()
    said = subprocess.run(
        pinned([program, *map(str, options)], core), capture_output=True, text=True, check=True
    ).stdout
    seconds, after = time.monotonic() - began, os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    row = next(row for row in csv.reader(said.splitlines()) if row and row[0] == command)
    return {"rate": float(row[1]), "loader_share": round(busy / seconds, 3)}
