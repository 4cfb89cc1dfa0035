"""The run as a plot: for each case the ratio with its spread, next to floor and goal.

Runs in the benchmarks' own environment, which has the plotting library: `python -m benchmarks.plot RUN.json OUT.svg`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.arithmetic import judge

COLOURS = {"goal": "#2a7f4f", "floor": "#4878a8", "below": "#b8553d", "undecided": "#a0a0a0"}
MARGIN = 1.15

KINDS = (
    ("load", "speed: Redis is 1, more is better"),
    ("memory", "memory: Redis is 1, less is better"),
    ("restart", "speed of a restart: Redis is 1, more is better"),
    ("recall", "searches of vectors: the other is 1, more is better"),
)


def shown(run: dict[str, Any]) -> list[tuple[list[dict[str, Any]], str]]:
    """The panels: those results that are ratios to Redis with a target, and their titles."""
    results = [result for result in run["results"] if result["floor"] is not None]
    return [(found, title) for kind, title in KINDS if (found := [r for r in results if r["kind"] == kind])]


def draw(run: dict[str, Any], target: Path) -> None:
    """Write the plot of `run` as SVG."""
    matplotlib: Any = importlib.import_module("matplotlib")  # not there where the types are checked
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "benchmarks"  # the same run gives the same file
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    panels = shown(run)
    heights = [len(results) + 1.5 for results, _ in panels]
    figure, axes = pyplot.subplots(
        len(panels), 1, figsize=(9, 0.34 * sum(heights) + 1), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for axis, (results, title) in zip(axes[:, 0], panels, strict=True):
        _draw_results(axis, results, title)
    marks = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    words = ["goal reached", "floor reached", "below floor", "undecided: machine busy"]
    figure.legend(marks, words, ncols=4, fontsize=8, frameon=False, loc="outside lower center")
    figure.savefig(target, metadata={"Date": None})


def _draw_results(axis: Any, results: list[dict[str, Any]], title: str) -> None:
    greatest = 1.0
    for place, result in enumerate(results):
        verdict = judge(result)
        ratio = verdict.ratio
        axis.barh(place, ratio.median, height=0.6, color=COLOURS[verdict.reached])
        axis.plot([ratio.least, ratio.greatest], [place, place], color="black", linewidth=1)
        for name, style in (("floor", "--"), ("goal", "-")):
            axis.plot([result[name]] * 2, [place - 0.42, place + 0.42], color="black", linestyle=style, linewidth=1.2)
        greatest = max(greatest, ratio.greatest, result["goal"], result["floor"])
    names = list(map(_name, results))
    axis.set_yticks(range(len(results)), names, fontsize=8)
    axis.set_xlim(0, greatest * MARGIN)
    axis.axvline(1, color="grey", linewidth=0.6)
    axis.set_ylim(len(results) - 0.4, -0.6)
    axis.set_title(f"{title} (dashed: floor, solid: goal; thin line: least to greatest round)", fontsize=9, loc="left")
    axis.spines[["top", "right"]].set_visible(False)


def _name(result: dict[str, Any]) -> str:
    if result["pipeline"]:
        return f"{result['ours']}, P={result['pipeline']}"
    if result.get("clients"):
        return f"{result['ours']} to {result['redis']}, {result['clients']} at a time"
    return str(result["ours"])


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
