"""From samples to what a table says: medians, spread, ratios, and which figure decides.

Ratios are ours divided by Redis, made round by round, since the rounds of both stand next to each other in time; their
median and their least and greatest are shown. For a load, throughput decides unless something other than the server may
have limited it: the load program, when it was busy for 70 % of a core or more on either side, or other processes, when
they took more than a tenth of the machine. Then server CPU per operation decides, its ratio turned around, so that more
is better there too. Where the disk is waited for, CPU says nothing and throughput decides always; a busy machine is
then named, and the case is left undecided. Of memory, less is better.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

LOADER_SHARE_MAX = 0.7
OTHERS_SHARE_MAX = 0.1
UNDECIDED = "throughput (machine busy)"
OURS, REDIS = "amemdb", "redis"


@dataclass(frozen=True)
class Spread:
    """A median and the range it lies in."""

    median: float
    least: float
    greatest: float


@dataclass(frozen=True)
class Verdict:
    """What a case came to."""

    decided_by: str
    ratio: Spread
    throughput_ratio: Spread | None
    cpu_ratio: Spread | None
    reached: str
    """`goal`, `floor`, or `below`: what of the targets is reached; `undecided` on a machine too busy to say."""


def spread(values: list[float]) -> Spread:
    """Median, least and greatest of at least one value."""
    return Spread(statistics.median(values), min(values), max(values))


def column(result: dict[str, Any], server: str, figure: str) -> list[float]:
    """One figure of a server's samples, a round each."""
    return [sample[figure] for sample in result["samples"][server]]


def ratios(above: list[float], below: list[float]) -> Spread:
    """The spread of `above / below`, round by round."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def loader_share(result: dict[str, Any]) -> float:
    """How busy the load program was, of the busier side."""
    return max(statistics.median(column(result, server, "loader_share")) for server in (OURS, REDIS))


def judge(result: dict[str, Any]) -> Verdict:
    """Decide a case of either kind."""
    if result["kind"] == "memory":
        ratio = ratios(column(result, OURS, "bytes"), column(result, REDIS, "bytes"))
        return Verdict("memory", ratio, None, None, reached(-ratio.median, -result["floor"], -result["goal"]))
    throughput = ratios(column(result, OURS, "rate"), column(result, REDIS, "rate"))
    cpu = ratios(column(result, REDIS, "cpu_us"), column(result, OURS, "cpu_us"))
    decided_by = what_decides(result)
    ratio = throughput if decided_by.startswith("throughput") else cpu
    what = reached(ratio.median, result["floor"], result["goal"]) if decided_by != UNDECIDED else "undecided"
    return Verdict(decided_by, ratio, throughput, cpu, what)


def what_decides(result: dict[str, Any]) -> str:
    """The figure that decides a load, with the reason when it is not throughput."""
    if result["waits_for_disk"]:
        return UNDECIDED if others_median(result) > OTHERS_SHARE_MAX else "throughput"
    if loader_share(result) >= LOADER_SHARE_MAX:
        return "CPU (load program busy)"
    if others_median(result) > OTHERS_SHARE_MAX:
        return "CPU (machine busy)"
    return "throughput"


def others_median(result: dict[str, Any]) -> float:
    """What other processes took of the machine, on the side that suffered more."""
    return max(statistics.median(column(result, server, "others")) for server in (OURS, REDIS))


def reached(value: float, floor: float, goal: float) -> str:
    """Which of the targets `value` reaches, where more is better."""
    return "goal" if value >= goal else "floor" if value >= floor else "below"


def others_share(results: list[dict[str, Any]]) -> Spread | None:
    """What other processes took of the machine during the loads."""
    shares = [
        share
        for result in results
        if result["kind"] == "load"
        for server in (OURS, REDIS)
        for share in column(result, server, "others")
    ]
    return spread(shares) if shares else None
