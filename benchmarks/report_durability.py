"""The tables of restart and compaction: a line for each server, since what it began with differs."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.arithmetic import COMPACTION_P99_MS, OURS, REDIS, column, compaction_ratio, judge, spread
from benchmarks.tables import REACHED, away, median, milliseconds, outcome, table, title, with_range


def restart_table(results: list[dict[str, Any]], objects: int) -> str:
    """From the start of the process to the first answer."""
    has_graphs = any(_graphs_seconds(result, OURS) for result in results)
    rows = []
    for result in results:
        verdict = judge(result)
        assert verdict.throughput_ratio is not None
        assert verdict.cpu_ratio is not None
        targets = "" if result["floor"] is None else f"{result['floor']:g} / {result['goal']:g}"
        ours = [
            with_range(verdict.throughput_ratio),
            with_range(verdict.cpu_ratio),
            verdict.decided_by,
            targets,
            outcome(verdict),
            away(verdict),
        ]
        for server in (OURS, REDIS):
            rows.append(
                [
                    title(result, server),
                    median(result, server, "read_mib", 0),
                    with_range(spread(column(result, server, "seconds"))),
                    with_range(spread(column(result, server, "cpu_seconds"))),
                    median(result, server, "resident_mib", 0),
                    *([_graphs_seconds(result, server)] if has_graphs else []),
                    *(ours if server == OURS else [""] * len(ours)),
                ]
            )
    head = [f"restart, {objects:,} records", "files, MiB", "seconds", "CPU seconds", "resident, MiB"]
    head += ["then until graphs, s"] if has_graphs else []
    return table([*head, "time ratio", "CPU ratio", "decides", "floor / goal", "result", "goal is away"], rows)


def _graphs_seconds(result: dict[str, Any], server: str) -> str:
    """How long after its restart ours searched without graphs, where there are so many facts."""
    found = [sample["graphs_seconds"] for sample in result["samples"][server] if "graphs_seconds" in sample]
    return f"{statistics.median(found):.0f}" if found else ""


def compaction_table(results: list[dict[str, Any]]) -> str:
    """Two lines for each server: without a compaction, and with."""
    rows = []
    for result in results:
        for server in (OURS, REDIS):
            samples = result["samples"][server]
            for prefix in ("alone_", ""):
                shown = [milliseconds(result, server, f"{prefix}{name}_us") for name in ("p50", "p99", "p999")]
                rows.append(
                    [
                        title(result, server),
                        "no" if prefix else _what_was_compacted(samples),
                        f"{statistics.median(column(result, server, f'{prefix}rate')):,.0f}/s",
                        *shown,
                        f"{max(sample[f'{prefix}max_us'] for sample in samples) / 1e3:.2f}",
                        milliseconds(result, server, f"{prefix}late_p99_us"),
                        "" if prefix else _outcome(result, server),
                    ]
                )
    head = ["half of the most", "compaction", "rate", "p50, ms", "p99, ms", "p99.9, ms", "greatest, ms"]
    return table([*head, "pacer late p99, ms", "result"], rows)


def _what_was_compacted(samples: list[dict[str, float]]) -> str:
    whole = statistics.median(sample["compactions"] for sample in samples)
    share = statistics.median(sample["share"] for sample in samples)
    return f"{share:.0%} of the time, {whole:.0f} to their end"


def _outcome(result: dict[str, Any], server: str) -> str:
    p99, p999 = (compaction_ratio(result, server, figure) for figure in ("p99_us", "p999_us"))
    said = f"to that without: p99 **{p99.median:.2f}** ({p99.least:.2f}..{p99.greatest:.2f})"
    if server == OURS:
        said += f" of {result['floor']:g}, or {COMPACTION_P99_MS:g} ms, {REACHED[judge(result).reached]}"
    return f"{said}; p99.9 {with_range(p999)}"


def compactor_table(results: list[dict[str, Any]]) -> str:
    """Memory of the process that compacts."""
    rows = []
    for result in results:
        verdict = judge(result)
        for server in (OURS, REDIS):
            readings = [
                sample["read_mib"] / sample["log_mib"] for sample in result["samples"][server] if sample["read_mib"]
            ]
            ours = [
                f"{median(result, server, 'budget_mib', 0)} + {median(result, server, 'largest_mib', 0)}",
                median(result, server, "bound_mib", 0),
                f"{statistics.median(readings):.0f}" if readings else "–",
                outcome(verdict),
            ]
            rows.append(
                [
                    title(result, server),
                    *(median(result, server, f"{name}_mib", 0) for name in ("data", "log", "base")),
                    median(result, server, "seconds", 1),
                    median(result, server, "process_cpu_seconds", 1),
                    median(result, server, "peak_mib", 0 if server == OURS else 1),
                    *(ours if server == OURS else [""] * len(ours)),
                ]
            )
    head = ["memory of a compaction", "data, MiB", "log, MiB", "of it left, MiB", "seconds", "CPU seconds", "peak, MiB"]
    return table([*head, "setting + largest object, MiB", "bound, MiB", "readings", "peak to bound"], rows)
