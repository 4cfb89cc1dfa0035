"""The rows of recall by themselves, of any size, and whether enough of the true nearest are found.

`python -m benchmarks.vectors --count 100000 --dim 384`: the same rows as in `make bench` (see `recall`), of vectors as
many and as wide as asked for. `--check` measures recall instead (see `recall_check`), and ends with 1 where it is too
low.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmarks import recall_check
from benchmarks.__main__ import bench_of
from benchmarks.arithmetic import RECALL_MIN
from benchmarks.compaction import SCALE_OBJECTS
from benchmarks.loader import BenchmarkError
from benchmarks.made_up import CLUSTERS, SPREAD, VectorSet
from benchmarks.measure import Row, run_rows
from benchmarks.recall import LIBRARY, RecallRow, RecallTailRow
from benchmarks.report_recall import recall_table, recall_tail_table
from benchmarks.rows import RECALL_TAIL, RECALL_TO_LIBRARY, RECALL_TO_REDIS
from benchmarks.servers import REDIS, ours

STORES = "stores"
PACED_SECONDS = 2.2


def _say(text: str) -> None:
    click.echo(text, err=True)


def rows_of(made: VectorSet, only: list[str], clients: tuple[int, ...]) -> list[Row]:
    """The rows of that size."""
    rows: dict[str, Row] = {
        REDIS: RecallRow("redis", made, REDIS, RECALL_TO_REDIS, clients),
        LIBRARY: RecallRow("library", made, LIBRARY, RECALL_TO_LIBRARY, clients),
        STORES: RecallTailRow("stores", made, RECALL_TAIL),
    }
    unknown = [name for name in only if name not in rows]
    if unknown:
        raise click.UsageError(f"--only takes some of {', '.join(rows)}, and not {', '.join(unknown)}")
    return [row for name, row in rows.items() if name in only]


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--count", type=click.IntRange(1_000, 10_000_000), default=100_000, show_default=True)
@click.option("--dim", type=click.IntRange(2, 4096), default=384, show_default=True)
@click.option("--clusters", type=click.IntRange(1, 1_000_000), default=CLUSTERS, show_default=True)
@click.option(
    "--spread", type=click.FloatRange(0.01, 10), default=SPREAD, show_default=True, help="Around the centres."
)
@click.option("--clients", type=click.IntRange(1, 64), multiple=True, default=(1, 2), show_default=True)
@click.option("--seconds", type=click.FloatRange(0.2, 600), default=2.0, show_default=True, help="Length of a round.")
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True)
@click.option("--only", default=f"{REDIS},{LIBRARY},{STORES}", show_default=True, help="What to compare with.")
@click.option("--redis", "program", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Measure only how many of the nearest are found; takes many minutes.")
def main(
    count: int,
    dim: int,
    clusters: int,
    spread: float,
    clients: tuple[int, ...],
    seconds: float,
    rounds: int,
    only: str,
    program: Path | None,
    check: bool,
) -> None:
    """Measure recall of vectors on this machine."""
    made = VectorSet(count, dim, clusters, spread)
    if check:
        states = []
        click.echo(f"{made.title}, {clusters:,} clusters, spread {spread:g}\n")
        for state in recall_check.check(made, ours(), _say):
            states.append(state)
            click.echo(
                f"recall@10 {state.recall:.4f}, worst query {state.worst:.1f}, {state.search_ms:.2f} ms a query: "
                f"{state.name} ({state.index})"
            )
        if not all(state.is_enough for state in states):
            raise click.ClickException(f"less than {RECALL_MIN} of the true nearest")
        return
    rows = rows_of(made, [name for name in only.split(",") if name], clients)
    settings: dict[str, Any] = {"rounds": rounds, "seconds": seconds, "paced_seconds": PACED_SECONDS}
    settings["objects"] = SCALE_OBJECTS
    try:
        bench, _ = bench_of(settings, program, _say)
        with bench.shared:
            results = run_rows(rows, None, bench, _say)
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from None
    for kind, table in (("recall", recall_table), ("recalltail", recall_tail_table)):
        shown = [result for result in results if result["kind"] == kind]
        if shown:
            click.echo(f"{table(shown)}\n")


if __name__ == "__main__":
    main(prog_name="benchmarks.vectors")
