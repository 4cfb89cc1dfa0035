"""`python -m benchmarks`, which `make bench` calls: measure, show the tables, keep JSON, Markdown and a plot.

What is kept goes to `benchmarks/results/`, which is not under version control. `--publish` also puts the run into
docs/benchmarks.md and beside it, and is for whole runs on a quiet machine.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks import environment, hotspots, machine, plot, report
from benchmarks.loader import CONNECTIONS, BenchmarkError, Loader, Pacer, compile_loader, compile_pacer, may_be_first
from benchmarks.measure import Bench, LoadRow, Row, run_rows
from benchmarks.plausible import compare_loaders
from benchmarks.rows import ROWS
from benchmarks.servers import OURS, REDIS, ours, redis_server

RESULTS = Path(__file__).parent / "results"
PUBLISHED = Path(__file__).parent / "published.json"
PAGE = environment.ROOT / "docs" / "benchmarks.md"
PLOT = PAGE.with_suffix(".svg")
BEGIN, END = "<!-- begin of the published run -->\n", "<!-- end of the published run -->\n"
QUICK = {"rounds": 2, "seconds": 0.25, "paced_seconds": 1.2, "objects": 50_000}
PLAUSIBILITY = "loader"


def _say(text: str) -> None:
    click.echo(text, err=True)


def _list(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]


def _chosen(only: list[str]) -> list[Row]:
    names = [*(row.key for row in ROWS), *dict.fromkeys(row.kind for row in ROWS), PLAUSIBILITY]
    unknown = set(only) - set(names)
    if unknown:
        raise click.UsageError(f"no row {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return [row for row in ROWS if not only or row.key in only or row.kind in only]


def _to_profile(value: str) -> tuple[LoadRow, int]:
    """The row and the pipeline depth of `--profile KEY:DEPTH`."""
    key, _, depth = value.partition(":")
    row = next((row for row in ROWS if isinstance(row, LoadRow) and row.key == key), None)
    if row is None or not depth.isascii() or not depth.isdigit() or not 1 <= int(depth) <= 1_000:
        known = ", ".join(row.key for row in ROWS if isinstance(row, LoadRow))
        raise click.UsageError(f"--profile takes KEY:DEPTH, such as get:16; keys are {known}")
    return row, int(depth)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--only", metavar="KEYS", help="Rows to measure, their keys or kinds separated by commas; see --list.")
@click.option("--pipelines", metavar="DEPTHS", help="Of the rows with several pipeline depths, only these.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="Times each server is asked.")
@click.option("--seconds", type=click.FloatRange(0.05, 600), default=0.8, show_default=True, help="Length of a round.")
@click.option(
    "--paced-seconds",
    type=click.FloatRange(0.5, 600),
    default=2.2,
    show_default=True,
    help="Length of a round of tails and stalls, at most 3 of them; twice as long beside compactions and stores.",
)
@click.option(
    "--objects",
    type=click.IntRange(1_000, 10_000_000),
    default=1_000_000,
    show_default=True,
    help="For memory and what follows it in --list; facts are a tenth.",
)
@click.option("--quick", is_flag=True, help="2 short rounds and 50,000 objects: to see that it works.")
@click.option(
    "--profile", metavar="KEY:DEPTH", help="Show where both servers spend their CPU time in that row, and end."
)
@click.option("--redis", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Redis to compare with.")
@click.option("--publish", is_flag=True, help="Put this run into docs/benchmarks.md.")
@click.option("--list", "list_rows", is_flag=True, help="Show the rows and end.")
def main(
    only: str | None,
    pipelines: str | None,
    rounds: int,
    seconds: float,
    paced_seconds: float,
    objects: int,
    quick: bool,
    profile: str | None,
    redis: Path | None,
    publish: bool,
    list_rows: bool,
) -> None:
    """Measure amemdb against Redis on this machine."""
    if list_rows:
        for row in ROWS:
            click.echo(f"{row.key:18}{row.kind:12}{row.ours.title} against {row.redis.title}")
        click.echo(f"{PLAUSIBILITY:30}the load program against redis-benchmark")
        return
    keys = _list(only)
    if publish and (keys or pipelines or quick):
        raise click.UsageError("--publish is for whole runs: without --only, --pipelines and --quick")
    settings: dict[str, Any] = {
        "rounds": rounds,
        "seconds": seconds,
        "paced_seconds": paced_seconds,
        "objects": objects,
    }
    settings |= QUICK if quick else {}
    to_profile = _to_profile(profile) if profile else None
    try:
        if to_profile is not None:
            row, depth = to_profile
            click.echo(hotspots.profile(row, depth, bench_of(settings, redis, _say)[0], _say))
            return
        run = _measure(_chosen(keys), not keys or PLAUSIBILITY in keys, _list(pipelines), settings, redis)
        _keep(run, publish)
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from None
    click.echo(report.markdown(run))


def bench_of(settings: dict[str, Any], redis: Path | None, say: Callable[[str], None]) -> tuple[Bench, int]:
    """What a measurement needs, and the core of the load programs."""
    loader_core, server_core = machine.two_cores()
    loader, pacer = Loader(compile_loader(RESULTS), loader_core), Pacer(compile_pacer(RESULTS), loader_core)
    redis_variant = redis_server(environment.redis_program(redis, say))
    return Bench(ours(), redis_variant, loader, pacer, server_core, **settings, say=say), loader_core


def _measure(
    rows: list[Row], plausibility: bool, depths: list[str], settings: dict[str, Any], redis: Path | None
) -> dict[str, Any]:
    bench, loader_core = bench_of(settings, redis, _say)
    facts, load_average, began = machine.facts(), machine.load_average(), time.monotonic()
    arguments = " ".join(argument for argument in sys.argv[1:] if argument != "--publish")
    _say(f"server on core {bench.server_core}, load on core {loader_core}, load average {load_average}")
    with bench.shared:
        results = run_rows(rows, [int(depth) for depth in depths], bench, _say)
    return {
        "date": datetime.date.today().isoformat(),
        "command": f'make bench ARGS="{arguments}"' if arguments else "make bench",
        "machine": facts,
        "versions": {OURS: bench.ours.version, REDIS: bench.redis.version},
        "settings": {**settings, "connections": CONNECTIONS, "pacer_first": may_be_first()},
        "results": results,
        "plausibility": compare_loaders(bench, loader_core, _say) if plausibility else [],
        "load_average": [load_average, machine.load_average()],
        "seconds": round(time.monotonic() - began, 1),
    }


def _keep(run: dict[str, Any], publish: bool) -> None:
    kept = RESULTS / "latest.json"
    kept.write_text(json.dumps(run, indent=1) + "\n")
    kept.with_suffix(".md").write_text(report.markdown(run))
    if publish:
        PUBLISHED.write_text(kept.read_text())
        PAGE.write_text(with_run(PAGE.read_text(), run))
    python = environment.plotting_python(_say) if plot.shown(run) else None
    if python is not None:
        for target in [kept.with_suffix(".svg"), *([PLOT] if publish else [])]:
            subprocess.run(
                [str(python), "-m", "benchmarks.plot", str(kept), str(target)], cwd=environment.ROOT, check=True
            )
    _say(f"kept in {RESULTS.relative_to(environment.ROOT)}: latest.json, latest.md{', latest.svg' if python else ''}")


def with_run(page: str, run: dict[str, Any]) -> str:
    """The page with the report of `run` in the place that is kept for it."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    assert after or rest.endswith(END), "the page has lost its marks"
    return f"{before}{BEGIN}\n{report.markdown(run)}\n{END}{after}"


if __name__ == "__main__":
    main(prog_name="benchmarks")
