"""The run as a Markdown table: what was measured, on what, and how far from the targets.

Everything is computed from the samples of the JSON file, so the same file always gives the same text.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.arithmetic import OURS, REDIS, Spread, column, judge, loader_share, others_share, spread

REACHED = {"goal": "goal reached", "floor": "floor reached", "below": "below floor", "undecided": "undecided"}


def markdown(run: dict[str, Any]) -> str:
    """The whole report."""
    parts = [_head(run)]
    loads = [result for result in run["results"] if result["kind"] == "load"]
    memory = [result for result in run["results"] if result["kind"] == "memory"]
    if loads:
        parts.append(_load_table(loads))
        parts.append(_latency_table(loads))
    if memory:
        parts.append(_memory_table(memory, run["settings"]["objects"]))
    if run["plausibility"]:
        parts.append(_plausibility_table(run["plausibility"]))
    notes: dict[str, list[str]] = {}
    for result in run["results"]:
        if result["note"] and result["ours"] not in notes.setdefault(result["note"], []):
            notes[result["note"]].append(result["ours"])
    if notes:
        parts.append("\n".join(f"- {', '.join(titles)}: {note}." for note, titles in notes.items()))
    return "\n\n".join(parts) + "\n"


def _head(run: dict[str, Any]) -> str:
    machine, settings, versions = run["machine"], run["settings"], run["versions"]
    others = others_share(run["results"])
    lines = [
        f"Measured {run['date']} with `{run['command']}` in {run['seconds'] / 60:.1f} minutes.",
        "",
        f"- machine: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"{machine['kernel']}, fdatasync of 4 KiB {machine['fdatasync_us']} µs",
        f"- amemdb {versions[OURS]}; Redis {versions[REDIS]}",
        f"- {settings['rounds']} rounds of {settings['seconds']:g} s for each server, "
        f"{settings['connections']} connections",
        f"- load average {run['load_average'][0]} before and {run['load_average'][1]} after",
    ]
    if others is not None:
        lines.append(
            f"- other processes used {others.median:.0%} of the machine during a measurement (median), "
            f"{others.greatest:.0%} at most"
        )
    return "\n".join(lines)


def _load_table(results: list[dict[str, Any]]) -> str:
    rows = []
    for result in results:
        verdict = judge(result)
        assert verdict.throughput_ratio is not None
        assert verdict.cpu_ratio is not None
        rows.append(
            [
                f"{result['ours']} against {result['redis']}" if result["ours"] != result["redis"] else result["ours"],
                str(result["pipeline"]),
                *(_rate(column(result, server, "rate")) for server in (OURS, REDIS)),
                *(f"{statistics.median(column(result, server, 'cpu_us')):.2f}" for server in (OURS, REDIS)),
                f"{loader_share(result):.0%}",
                _ratio(verdict.throughput_ratio),
                _ratio(verdict.cpu_ratio),
                verdict.decided_by,
                f"{result['floor']} / {result['goal']}",
                f"**{verdict.ratio.median:.2f}**, {REACHED[verdict.reached]}",
            ]
        )
    head = ["workload", "pipeline", "amemdb, 1,000/s", "Redis, 1,000/s", "amemdb, CPU µs", "Redis, CPU µs"]
    head += ["load program", "throughput ratio", "CPU ratio", "decides", "floor / goal", "result"]
    return _table(head, rows)


def _latency_table(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"{result['ours']} against {result['redis']}" if result["ours"] != result["redis"] else result["ours"],
            str(result["pipeline"]),
            *(
                f"{statistics.median(column(result, server, figure)) / 1e3:.2f}"
                for server in (OURS, REDIS)
                for figure in ("p50_us", "p99_us", "p999_us")
            ),
        ]
        for result in results
    ]
    figures = [f"{server} {name}, ms" for server in ("amemdb", "Redis") for name in ("p50", "p99", "p99.9")]
    return _table(["workload", "pipeline", *figures], rows)


def _memory_table(results: list[dict[str, Any]], objects: int) -> str:
    rows = []
    for result in results:
        verdict = judge(result)
        rows.append(
            [
                f"{result['ours']} against {result['redis']}",
                *(_bytes(column(result, server, "bytes")) for server in (OURS, REDIS)),
                _ratio(verdict.ratio),
                f"{result['floor']} / {result['goal']}",
                f"**{verdict.ratio.median:.2f}**, {REACHED[verdict.reached]}",
            ]
        )
    head = [
        f"memory, {objects:,} objects",
        "amemdb, bytes each",
        "Redis, bytes each",
        "ratio",
        "floor / goal",
        "result",
    ]
    return _table(head, rows)


def _plausibility_table(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"{result['command']} on Redis",
            str(result["pipeline"]),
            f"{result['loader_rate'] / 1e3:.0f}",
            f"{result['redis_benchmark_rate'] / 1e3:.0f}",
            f"{result['loader_loader_share']:.0%}",
            f"{result['redis_benchmark_loader_share']:.0%}",
        ]
        for result in results
    ]
    head = ["load programs compared", "pipeline", "ours, 1,000/s", "redis-benchmark, 1,000/s", "ours busy"]
    return _table([*head, "redis-benchmark busy"], rows)


def _rate(values: list[float]) -> str:
    shown = spread(values)
    digits = 1 if shown.median < 10_000 else 0
    median, least, greatest = (f"{value / 1e3:.{digits}f}" for value in (shown.median, shown.least, shown.greatest))
    return f"{median} ({least}..{greatest})"


def _bytes(values: list[float]) -> str:
    shown = spread(values)
    return f"{shown.median:.0f} ({shown.least:.0f}..{shown.greatest:.0f})"


def _ratio(shown: Spread) -> str:
    return f"{shown.median:.2f} ({shown.least:.2f}..{shown.greatest:.2f})"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
