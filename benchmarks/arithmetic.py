"""From samples to what a table says: medians, spread, ratios, and which figure decides.

Ratios are ours divided by Redis, made round by round, since the rounds of both stand next to each other in time; their
median and their least and greatest are shown. For a load, throughput decides unless something other than the server may
have limited it: the load program, when it was busy for 70 % of a core or more on either side, or other processes, when
they took more than a tenth of the machine. Then server CPU per operation decides, its ratio turned around, so that more
is better there too. Where the disk is waited for, CPU says nothing and throughput decides always; a busy machine is
then named, and the case is left undecided. Of memory, less is better.

What is measured at a fixed rate is a latency, of which less is better too. For tails the ratio of the p99.9 is shown
and nothing is asked. Of stalls our p99.9 itself is what has a target, in milliseconds; where it is missed, but the
program that measures was late by a fifth of what is allowed, or other processes took more than a tenth of the machine,
the case is left undecided, since the stall may not be the server's.

Of a restart Redis's time is divided by ours, so that more is better; on a busy machine CPU time decides, which is what
a load consists of. What a compaction does to others is the p99 beside it divided by that without, round by round, and
is good enough as well below `COMPACTION_P99_MS`. Else it is left undecided when the machine was busy, in the sense of
stalls: what others do to both sides can hide what compaction does. The process that compacts is held against the
memory it may have. Where there is only one target, floor and goal are the same.

Searches of vectors are judged as loads are, and whoever stands on the other side has the place of Redis; where we find
too few of the true nearest, the row is below its floor, however fast. What stores do to searches is the p99 beside them
divided by that without, as beside compactions; where that is above the floor while the machine was busy, in the sense
of stalls, it is left undecided.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

LOADER_SHARE_MAX = 0.7
OTHERS_SHARE_MAX = 0.1
LATE_SHARE_MAX = 0.2
COMPACTION_P99_MS = 5.0
"""Below this a p99 is well beside a compaction, whatever it is without one."""
COMPACTION_SHARE_MIN = 0.8
"""Of a round, in which a compaction has to be under way for it to be one beside compactions."""
RECALL_MIN = 0.98
"""Of the true nearest a search has to find."""
LATE_OF_ALONE_MAX = 0.2
"""How late the pacer may have been, in p99 without stores."""
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
    """What decides; of stalls not a ratio but milliseconds."""
    throughput_ratio: Spread | None
    cpu_ratio: Spread | None
    reached: str
    """`goal`, `floor`, or `below`: what of the targets is reached; `undecided` on a machine too busy to say;
    empty where nothing is asked."""
    away: float | None
    """The factor by which what decides has to get better for the goal; 1 or less when it is reached."""


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
    """Decide a case of any kind."""
    return _JUDGES[result["kind"]](result)


def _judge_memory(result: dict[str, Any]) -> Verdict:
    ratio = ratios(column(result, OURS, "bytes"), column(result, REDIS, "bytes"))
    what = reached(-ratio.median, -result["floor"], -result["goal"])
    return Verdict("memory", ratio, None, None, what, ratio.median / result["goal"])


def _judge_load(result: dict[str, Any]) -> Verdict:
    throughput = ratios(column(result, OURS, "rate"), column(result, REDIS, "rate"))
    cpu = ratios(column(result, REDIS, "cpu_us"), column(result, OURS, "cpu_us"))
    decided_by = what_decides(result)
    ratio = throughput if decided_by.startswith("throughput") else cpu
    what = reached(ratio.median, result["floor"], result["goal"]) if decided_by != UNDECIDED else "undecided"
    return Verdict(decided_by, ratio, throughput, cpu, what, result["goal"] / ratio.median)


def _judge_tail(result: dict[str, Any]) -> Verdict:
    ratio = ratios(column(result, OURS, "p999_us"), column(result, REDIS, "p999_us"))
    return Verdict("p99.9", ratio, None, None, "", None)


def _judge_stalls(result: dict[str, Any]) -> Verdict:
    p999_ms = spread([value / 1e3 for value in column(result, OURS, "p999_us")])
    what = reached(-p999_ms.median, -result["floor"], -result["goal"])
    late_ms = statistics.median(column(result, OURS, "late_p999_us")) / 1e3
    others = statistics.median(column(result, OURS, "others"))
    if what == "below" and (late_ms > LATE_SHARE_MAX * result["floor"] or others > OTHERS_SHARE_MAX):
        what = "undecided"
    return Verdict("p99.9", p999_ms, None, None, what, p999_ms.median / result["goal"])


def _judge_restart(result: dict[str, Any]) -> Verdict:
    seconds = ratios(column(result, REDIS, "seconds"), column(result, OURS, "seconds"))
    cpu = ratios(column(result, REDIS, "cpu_seconds"), column(result, OURS, "cpu_seconds"))
    busy = others_median(result) > OTHERS_SHARE_MAX
    decided_by, ratio = ("CPU (machine busy)", cpu) if busy else ("time", seconds)
    if result["floor"] is None:
        return Verdict(decided_by, ratio, seconds, cpu, "", None)
    what = reached(ratio.median, result["floor"], result["goal"])
    return Verdict(decided_by, ratio, seconds, cpu, what, result["goal"] / ratio.median)


def _judge_compaction(result: dict[str, Any]) -> Verdict:
    if "peak_mib" in result["samples"][OURS][0]:
        ratio = ratios(column(result, OURS, "peak_mib"), column(result, OURS, "bound_mib"))
        what = reached(-ratio.median, -result["floor"], -result["goal"])
        return Verdict("memory", ratio, None, None, what, ratio.median / result["goal"])
    ratio = compaction_ratio(result, OURS)
    p99_ms, late_ms = (statistics.median(column(result, OURS, name)) / 1e3 for name in ("p99_us", "late_p99_us"))
    others = statistics.median(column(result, OURS, "others"))
    share = statistics.median(column(result, OURS, "share"))
    if share < COMPACTION_SHARE_MIN:
        what = "undecided"
    elif p99_ms < COMPACTION_P99_MS:
        what = "goal"
    elif late_ms > LATE_SHARE_MAX * COMPACTION_P99_MS or others > OTHERS_SHARE_MAX:
        what = "undecided"
    else:
        what = reached(-ratio.median, -result["floor"], -result["goal"])
    return Verdict("p99", ratio, None, None, what, ratio.median / result["goal"])


def _judge_recall(result: dict[str, Any]) -> Verdict:
    verdict = _judge_load(result)
    is_enough = min(column(result, OURS, "recall")) >= RECALL_MIN
    return verdict if is_enough else replace(verdict, reached="below")


def _judge_recall_tail(result: dict[str, Any]) -> Verdict:
    ratio = compaction_ratio(result, OURS)
    what = reached(-ratio.median, -result["floor"], -result["goal"])
    late, alone = (statistics.median(column(result, OURS, name)) for name in ("late_p99_us", "alone_p99_us"))
    others = statistics.median(column(result, OURS, "others"))
    if what == "below" and (late > LATE_OF_ALONE_MAX * alone or others > OTHERS_SHARE_MAX):
        what = "undecided"
    return Verdict("p99", ratio, None, None, what, ratio.median / result["goal"])


def compaction_ratio(result: dict[str, Any], server: str, figure: str = "p99_us") -> Spread:
    """What a figure of one server is beside a compaction, or other work, divided by what it is without."""
    return ratios(column(result, server, figure), column(result, server, f"alone_{figure}"))


_JUDGES: dict[str, Callable[[dict[str, Any]], Verdict]] = {
    "load": _judge_load,
    "memory": _judge_memory,
    "tail": _judge_tail,
    "stalls": _judge_stalls,
    "restart": _judge_restart,
    "compaction": _judge_compaction,
    "recall": _judge_recall,
    "recalltail": _judge_recall_tail,
}


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
    """What other processes took of the machine during the measurements of time."""
    shares = [
        share
        for result in results
        if result["kind"] != "memory"
        for server in (OURS, REDIS)
        for share in column(result, server, "others")
    ]
    return spread(shares) if shares else None


def tally(results: list[dict[str, Any]]) -> dict[str, int]:
    """How many cases that have targets came to what."""
    found = {"goal": 0, "floor": 0, "below": 0, "undecided": 0}
    for result in results:
        if result["floor"] is not None:
            found[judge(result).reached] += 1
    return found
