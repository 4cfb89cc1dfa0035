"""Cells and tables in Markdown, for the reports. What is to be shown is decided there."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.arithmetic import OURS, REDIS, Spread, Verdict, column, spread

REACHED = {"goal": "goal reached", "floor": "floor reached", "below": "below floor", "undecided": "undecided"}
NAMES = {OURS: "amemdb", REDIS: "Redis"}


def table(head: list[str], rows: list[list[str]]) -> str:
    """The whole table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def titles(result: dict[str, Any]) -> str:
    """What is compared, said once where both are asked the same."""
    return f"{result['ours']} against {result['redis']}" if result["ours"] != result["redis"] else str(result["ours"])


def title(result: dict[str, Any], server: str) -> str:
    """One side of it."""
    return f"{NAMES[server]}: {result['ours' if server == OURS else 'redis']}"


def outcome(verdict: Verdict) -> str:
    """What decides, and what of the targets is reached, if there are any."""
    reached = f", {REACHED[verdict.reached]}" if verdict.reached else ""
    return f"**{verdict.ratio.median:.2f}** ({verdict.ratio.least:.2f}..{verdict.ratio.greatest:.2f}){reached}"


def away(verdict: Verdict) -> str:
    """By which factor the goal is missed."""
    if verdict.away is None or verdict.reached == "goal":
        return ""
    return f"{verdict.away:.2f} ×"


def ratios_decided(verdict: Verdict, target: str) -> list[str]:
    """Cells of a verdict on speed: both ratios, which of them decides, the target, and what of it is reached."""
    assert verdict.throughput_ratio is not None
    assert verdict.cpu_ratio is not None
    shown = [with_range(ratio) for ratio in (verdict.throughput_ratio, verdict.cpu_ratio)]
    return [*shown, verdict.decided_by, target, outcome(verdict), away(verdict)]


def with_range(shown: Spread, digits: int = 2) -> str:
    """A median with the least and the greatest round."""
    median, least, greatest = (f"{value:.{digits}f}" for value in (shown.median, shown.least, shown.greatest))
    return f"{median} ({least}..{greatest})"


def milliseconds(result: dict[str, Any], server: str, figure: str) -> str:
    """A figure in microseconds with its range, in milliseconds."""
    return with_range(spread([value / 1e3 for value in column(result, server, figure)]))


def median(result: dict[str, Any], server: str, figure: str, digits: int) -> str:
    """A median, or a dash for a run that has no such figure."""
    samples = result["samples"][server]
    if any(figure not in sample for sample in samples):
        return "–"
    return f"{statistics.median(column(result, server, figure)):.{digits}f}"
