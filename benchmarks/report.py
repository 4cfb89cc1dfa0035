"""The run as a Markdown table: what was measured, on what, and how far from the targets.

Everything is computed from the samples of the JSON file, so the same file always gives the same text.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.arithmetic import (
    OTHERS_SHARE_MAX,
    OURS,
    REDIS,
    Verdict,
    column,
    judge,
    loader_share,
    others_median,
    others_share,
    spread,
    tally,
)
from benchmarks.paced import PACED_ROUNDS_MAX
from benchmarks.report_durability import compaction_table, compactor_table, restart_table
from benchmarks.report_recall import recall_table, recall_tail_table
from benchmarks.tables import (
    REACHED,
    away,
    median,
    milliseconds,
    outcome,
    ratios_decided,
    table,
    title,
    titles,
    with_range,
)


def markdown(run: dict[str, Any]) -> str:
    """The whole report."""
    parts = [_head(run)]
    loads = [result for result in run["results"] if result["kind"] == "load"]
    memory = [result for result in run["results"] if result["kind"] == "memory"]
    if loads:
        parts.append(_load_table(loads))
        parts.append(_latency_table(loads))
    for kind, first in (("tail", "writes at a fixed rate"), ("stalls", "PING while there is")):
        paced = [result for result in run["results"] if result["kind"] == kind]
        if paced:
            parts.append(paced_table(paced, first))
    if memory:
        parts.append(_memory_table(memory, run["settings"]["objects"]))
    restarts = [result for result in run["results"] if result["kind"] == "restart"]
    compactions = [result for result in run["results"] if result["kind"] == "compaction"]
    compactors = [result for result in compactions if "peak_mib" in result["samples"][OURS][0]]
    compactions = [result for result in compactions if result not in compactors]
    if restarts:
        parts.append(restart_table(restarts, run["settings"]["objects"]))
    if compactions:
        parts.append(compaction_table(compactions))
    if compactors:
        parts.append(compactor_table(compactors))
    for kind, shown in (("recall", recall_table), ("recalltail", recall_tail_table)):
        recalls = [result for result in run["results"] if result["kind"] == kind]
        if recalls:
            parts.append(shown(recalls))
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
    if any(result["kind"] in ("tail", "stalls", "recalltail") for result in run["results"]):
        priority = "before every ordinary process" if settings["pacer_first"] else "without any priority"
        lines.append(
            f"- at a fixed rate: at most {PACED_ROUNDS_MAX} rounds of {settings['paced_seconds']:g} s; the pacer ran "
            f"{priority} on its core"
        )
    if others is not None:
        lines.append(
            f"- other processes used {others.median:.0%} of the machine during a measurement (median), "
            f"{others.greatest:.0%} at most"
        )
    counts = tally(run["results"])
    lines.append(
        f"- of {sum(counts.values())} cases with targets {counts['goal']} reach their goal, {counts['floor']} their "
        f"floor, {counts['below']} are below it, and {counts['undecided']} are undecided"
    )
    return "\n".join(lines)


def _load_table(results: list[dict[str, Any]]) -> str:
    rows = []
    for result in results:
        verdict = judge(result)
        rows.append(
            [
                titles(result),
                str(result["pipeline"]),
                *(_rate(column(result, server, "rate")) for server in (OURS, REDIS)),
                *(f"{statistics.median(column(result, server, 'cpu_us')):.2f}" for server in (OURS, REDIS)),
                f"{loader_share(result):.0%}",
                *ratios_decided(verdict, f"{result['floor']} / {result['goal']}"),
            ]
        )
    head = ["workload", "pipeline", "amemdb, 1,000/s", "Redis, 1,000/s", "amemdb, CPU µs", "Redis, CPU µs"]
    head += ["load program", "throughput ratio", "CPU ratio", "decides", "floor / goal", "result", "goal is away"]
    return table(head, rows)


def _latency_table(results: list[dict[str, Any]]) -> str:
    rows = [
        [
            titles(result),
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
    return table(["workload", "pipeline", *figures], rows)


def _memory_table(results: list[dict[str, Any]], objects: int) -> str:
    rows = []
    for result in results:
        verdict = judge(result)
        rows.append(
            [
                f"{result['ours']} against {result['redis']}",
                *(_bytes(column(result, server, "bytes")) for server in (OURS, REDIS)),
                *(median(result, server, "resident_mib", 0) for server in (OURS, REDIS)),
                *(median(result, server, "seconds", 1) for server in (OURS, REDIS)),
                f"{result['floor']} / {result['goal']}",
                outcome(verdict),
                away(verdict),
            ]
        )
    head = [
        f"memory, {objects:,} objects",
        "amemdb, bytes each",
        "Redis, bytes each",
        "amemdb resident, MiB",
        "Redis resident, MiB",
        "amemdb loaded in, s",
        "Redis loaded in, s",
        "floor / goal",
        "result",
        "goal is away",
    ]
    return table(head, rows)


def paced_table(results: list[dict[str, Any]], first: str) -> str:
    """A line for each server, since what is compared is a whole distribution."""
    rows = []
    for result in results:
        verdict = judge(result)
        for server in (OURS, REDIS):
            samples = result["samples"][server]
            shown = [milliseconds(result, server, figure) for figure in ("p50_us", "p99_us", "p999_us")]
            greatest = max(sample["max_us"] for sample in samples) / 1e3
            rows.append(
                [
                    title(result, server),
                    _what_went_on(samples),
                    *shown,
                    f"{greatest:.2f}",
                    milliseconds(result, server, "late_p999_us"),
                    f"{sum(sample['operations'] for sample in samples):,}",
                    _paced_outcome(result, verdict) if server == OURS else "",
                ]
            )
    head = [first, "meanwhile", "p50, ms", "p99, ms", "p99.9, ms", "greatest, ms", "pacer late p99.9, ms", "requests"]
    return table([*head, "result"], rows)


def _what_went_on(samples: list[dict[str, float]]) -> str:
    """What the table says happened during the measurement."""

    def middle(figure: str) -> float:
        return statistics.median(sample[figure] for sample in samples)

    if "flushes" in samples[0]:
        return f"{middle('rate'):,.0f}/s, {middle('flushes'):.0f} disk flushes"
    if "work_rate" not in samples[0]:
        return "nothing"
    return f"{middle('work_operations'):,.0f} of them, half in {middle('work_p50_us') / 1e3:.1f} ms"


def _paced_outcome(result: dict[str, Any], verdict: Verdict) -> str:
    if result["kind"] == "tail":
        shown = verdict.ratio
        busy = ", machine busy" if others_median(result) > OTHERS_SHARE_MAX else ""
        return f"p99.9 to Redis's: **{shown.median:.2f}** ({shown.least:.2f}..{shown.greatest:.2f}){busy}"
    missed = f", goal {away(verdict)} away" if away(verdict) else ""
    targets = f"{result['floor']:g} / {result['goal']:g}"
    return f"**{verdict.ratio.median:.2f}** of {targets}, {REACHED[verdict.reached]}{missed}"


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
    return table([*head, "redis-benchmark busy"], rows)


def _rate(values: list[float]) -> str:
    shown = spread([value / 1e3 for value in values])
    return with_range(shown, 1 if shown.median < 10 else 0)


def _bytes(values: list[float]) -> str:
    return with_range(spread(values), 0)
