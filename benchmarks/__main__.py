"""`python -m benchmarks`, which `make bench` calls: measure, show the table, keep JSON, Markdown and a plot.

What is kept goes to `benchmarks/results/`, which is not under version control. `--publish` also puts the run into
docs/benchmarks.md and beside it, and is for whole runs on a quiet machine.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from benchmarks import environment, machine, report
from benchmarks.loader import CONNECTIONS, BenchmarkError, Loader, compile_loader
from benchmarks.measure import Bench, Row, run_rows
from benchmarks.plausible import compare_loaders
from benchmarks.rows import ROWS
from benchmarks.servers import OURS, REDIS, ours, redis_server

RESULTS = Path(__file__).parent / "results"
PUBLISHED = Path(__file__).parent / "published.json"
PAGE = environment.ROOT / "docs" / "benchmarks.md"
PLOT = PAGE.with_suffix(".svg")
BEGIN, END = "<!-- begin of the published run -->\n", "<!-- end of the published run -->\n"
QUICK = {"rounds": 2, "seconds": 0.25, "objects": 50_000}
PLAUSIBILITY = "loader"


def _say(text: str) -> None:
    click.echo(text, err=True)


def _list(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]


def _chosen(only: list[str]) -> list[Row]:
    unknown = set(only) - {row.key for row in ROWS} - {PLAUSIBILITY}
    if unknown:
        known = ", ".join([*(row.key for row in ROWS), PLAUSIBILITY])
        raise click.UsageError(f"no row {', '.join(sorted(unknown))}; there are {known}")
    return [row for row in ROWS if not only or row.key in only]


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--only", metavar="KEYS", help="Rows to measure, their keys separated by commas; see --list.")
@click.option("--pipelines", metavar="DEPTHS", help="Of the rows with several pipeline depths, only these.")
@click.option("--rounds", type=click.IntRange(1, 100), default=5, show_default=True, help="Times each server is asked.")
@click.option("--seconds", type=click.FloatRange(0.05, 600), default=0.8, show_default=True, help="Length of a round.")
@click.option(
    "--objects", type=click.IntRange(1_000, 1_000_000), default=100_000, show_default=True, help="For memory."
)
@click.option("--quick", is_flag=True, help="2 rounds of 0.25 s and 50,000 objects: to see that it works.")
@click.option("--redis", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Redis to compare with.")
@click.option("--publish", is_flag=True, help="Put this run into docs/benchmarks.md.")
@click.option("--list", "list_rows", is_flag=True, help="Show the rows and end.")
def main(
    only: str | None,
    pipelines: str | None,
    rounds: int,
    seconds: float,
    objects: int,
    quick: bool,
    redis: Path | None,
    publish: bool,
    list_rows: bool,
) -> None:
    """Measure amemdb against Redis on this machine."""
    if list_rows:
        for row in ROWS:
            click.echo(f"{row.key:14}{row.ours.title} against {row.redis.title}")
        click.echo(f"{PLAUSIBILITY:14}the load program against redis-benchmark")
        return
    keys = _list(only)
    if publish and (keys or pipelines or quick):
        raise click.UsageError("--publish is for whole runs: without --only, --pipelines and --quick")
    settings = {"rounds": rounds, "seconds": seconds, "objects": objects, **(QUICK if quick else {})}
    try:
        run = _measure(_chosen(keys), not keys or PLAUSIBILITY in keys, _list(pipelines), settings, redis)
        _keep(run, publish)
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from None
    click.echo(report.markdown(run))


def _measure(
    rows: list[Row], plausibility: bool, depths: list[str], settings: dict[str, Any], redis: Path | None
) -> dict[str, Any]:
    loader_core, server_core = machine.two_cores()
    loader = Loader(compile_loader(RESULTS), loader_core)
    bench = Bench(ours(), redis_server(environment.redis_program(redis, _say)), loader, server_core, **settings)
    facts, load_average, began = machine.facts(), machine.load_average(), time.monotonic()
    arguments = " ".join(argument for argument in sys.argv[1:] if argument != "--publish")
    _say(f"server on core {server_core}, load on core {loader_core}, load average {load_average}")
    results = run_rows(rows, [int(depth) for depth in depths], bench, _say)
    return {
        "date": datetime.date.today().isoformat(),
        "command": f'make bench ARGS="{arguments}"' if arguments else "make bench",
        "machine": facts,
        "versions": {OURS: bench.ours.version, REDIS: bench.redis.version},
        "settings": {**settings, "connections": CONNECTIONS},
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
    python = environment.plotting_python(_say) if run["results"] else None
    if python is not None:
        for target in [kept.with_suffix(".svg"), *([PLOT] if publish else [])]:
            subprocess.run(
                [str(python), "-m", "benchmarks.plot", str(kept), str(target)], cwd=environment.ROOT, check=True
            )
    _say(f"kept in {RESULTS.relative_to(environment.ROOT)}: latest.json, latest.md, latest.svg")


def with_run(page: str, run: dict[str, Any]) -> str:
    """The page with the report of `run` in the place that is kept for it."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    assert after or rest.endswith(END), "the page has lost its marks"
    return f"{before}{BEGIN}\n{report.markdown(run)}\n{END}{after}"


if __name__ == "__main__":
    main(prog_name="benchmarks")
