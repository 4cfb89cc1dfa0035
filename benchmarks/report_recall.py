"""The tables of recall: a line for each number of clients, and of searches beside stores two for each server."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.arithmetic import OURS, REDIS, column, compaction_ratio, judge
from benchmarks.tables import REACHED, away, median, milliseconds, ratios_decided, table, title


def recall_table(results: list[dict[str, Any]]) -> str:
    """Searches a second."""
    rows = []
    for result in results:
        verdict = judge(result)
        rows.append(
            [
                f"{result['ours']} against {other_of(result)}",
                _facts(result),
                str(result["clients"]),
                *(f"{statistics.median(column(result, side, 'recall')):.3f}" for side in (OURS, REDIS)),
                *(f"{statistics.median(column(result, side, 'rate')):,.0f}" for side in (OURS, REDIS)),
                *(median(result, side, "cpu_us", 0) for side in (OURS, REDIS)),
                *(milliseconds(result, side, "p99_us") for side in (OURS, REDIS)),
                *ratios_decided(verdict, f"{result['floor']:g} / {result['goal']:g}"),
            ]
        )
    head = ["searches of vectors", "facts", "at a time", "amemdb recall@10", "other's", "amemdb, a second", "other"]
    head += ["amemdb, CPU µs", "other's", "amemdb p99, ms", "other's", "throughput ratio", "CPU ratio", "decides"]
    return table([*head, "floor / goal", "result", "goal is away"], rows)


def _facts(result: dict[str, Any]) -> str:
    return f"{result['samples'][OURS][0]['facts']:,}"


def other_of(result: dict[str, Any]) -> str:
    """The other side and what it was set to."""
    told = result["samples"][REDIS][0]
    if "quantised" not in told:
        return f"{result['redis']}, EF {told['width']}"
    numbers = "8 bits a number" if told["quantised"] else "NOQUANT"
    return f"{result['redis']} EF {told['width']}{' NOTHREAD' * int(told['nothread'])}, {numbers}"


def recall_tail_table(results: list[dict[str, Any]]) -> str:
    """Two lines for each server: without stores, and with."""
    rows = []
    for result in results:
        for side in (OURS, REDIS):
            for prefix in ("alone_", ""):
                stored = 0.0 if prefix else statistics.median(column(result, side, "stored"))
                shown = [milliseconds(result, side, f"{prefix}{name}_us") for name in ("p50", "p99", "p999")]
                rows.append(
                    [
                        title(result, side),
                        _facts(result),
                        "nothing" if prefix else f"{stored:,.0f} facts, p99 {_store_ms(result, side)} ms",
                        f"{statistics.median(column(result, side, f'{prefix}rate')):,.0f}/s",
                        *shown,
                        milliseconds(result, side, f"{prefix}late_p99_us"),
                        "" if prefix else _outcome(result, side),
                    ]
                )
    head = ["searches at a fixed rate", "facts", "stored meanwhile", "rate", "p50, ms", "p99, ms", "p99.9, ms"]
    return table([*head, "pacer late p99, ms", "result"], rows)


def _store_ms(result: dict[str, Any], side: str) -> str:
    return f"{statistics.median(column(result, side, 'store_p99_us')) / 1e3:.2f}"


def _outcome(result: dict[str, Any], side: str) -> str:
    ratio = compaction_ratio(result, side)
    said = f"p99 to that without: **{ratio.median:.2f}** ({ratio.least:.2f}..{ratio.greatest:.2f})"
    if side != OURS:
        return said
    verdict = judge(result)
    missed = f", goal {away(verdict)} away" if away(verdict) else ""
    return f"{said} of {result['floor']:g} / {result['goal']:g}, {REACHED[verdict.reached]}{missed}"
