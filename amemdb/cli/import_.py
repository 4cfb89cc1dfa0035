"""`amemdb import`: a JSON-lines file into a running server, with a progress bar and a count at the end.

Exit codes: 0 when every line is in, 1 when some were skipped (or `--strict` refused the file), 2 when the command was
called wrongly or the server could not be reached or takes nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from amemdb.cli.connection import connected, url_option
from amemdb.client.importer import Interrupted, OnProgress, Totals, check_file, import_file

PROBLEMS_SHOWN_MAX = 100
"""A file of the wrong sort has a problem in each of its million lines."""
_PLURALS = {"summary": "summaries"}


class _Lines(click.IntRange):
    """A number of lines. What is no number is told the range as well, which click does only for numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"must be a whole number from {self.min} to {self.max}, got {str(value)!r}", param, ctx)


@click.command("import", short_help="Load a file of JSON lines into a running server.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE.jsonl")
@url_option
@click.option("--strict", is_flag=True, help="Check the whole file first; send nothing if a line is bad.")
@click.option(
    "--batch", type=_Lines(1, 100_000), default=1000, show_default=True, help="Lines sent at a time, at most."
)
def import_(file: Path, url: str, strict: bool, batch: int) -> int:
    """Load FILE.jsonl, one JSON object a line, into a running server.

    A bad line is told with its number, skipped and counted.
    """
    started = time.monotonic()
    problems = _Problems()
    try:
        with file.open("rb") as stream, connected(url) as client:
            if strict:
                _check(stream, problems)
            with _progress("importing", stream) as advance:
                totals = import_file(stream, client.pipeline(transaction=False), batch, problems, advance)
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from None
    except Interrupted as stop:
        raise click.UsageError(str(stop).rstrip(".") + _certainty(stop.certain)) from None
    finally:
        problems.close()
    click.echo(_summary(totals, time.monotonic() - started))
    return 1 if totals.skipped else 0


def _check(stream: BinaryIO, problems: _Problems) -> None:
    if not stream.seekable():
        raise click.UsageError("--strict reads the file twice, and this one can be read only once")
    with _progress("checking", stream) as advance:
        bad = check_file(stream, problems, advance)
    if bad:
        raise click.ClickException(f"refused: {bad} bad {'line' if bad == 1 else 'lines'}, nothing was sent")


class _Problems:
    """Tells the first problems one by one and counts the rest."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, number: int, reason: str) -> None:
        self._count += 1
        if self._count <= PROBLEMS_SHOWN_MAX:
            clear = "\r\033[K" if sys.stderr.isatty() else ""
            click.echo(f"{clear}line {number}: {reason}", err=True)

    def close(self) -> None:
        """Tell how many were not shown."""
        if self._count > PROBLEMS_SHOWN_MAX:
            click.echo(f"… and {self._count - PROBLEMS_SHOWN_MAX:,} more", err=True)


@contextmanager
def _progress(label: str, stream: BinaryIO) -> Iterator[OnProgress]:
    """A bar by bytes on standard error, if that is a terminal; the value takes the position reached."""
    length = 0
    if stream.seekable():
        length = stream.seek(0, os.SEEK_END)
        stream.seek(0)
    if not length or not sys.stderr.isatty():
        yield lambda position: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield lambda position: bar.update(position - bar.pos)
        bar.update(length - bar.pos)


def _certainty(certain: int) -> str:
    return f"; lines up to {certain} are in or were told, those behind it may be in" if certain else ""


def _summary(totals: Totals, seconds: float) -> str:
    lines = sum(totals.done.values())
    counts = [
        f"{count:,} {kind if count == 1 else _PLURALS.get(kind, kind + 's')}" for kind, count in totals.done.items()
    ]
    text = f"imported {lines:,} {'line' if lines == 1 else 'lines'} in {seconds:.1f} s"
    if counts:
        text += f": {', '.join(counts)}"
    return f"{text}; skipped {totals.skipped:,}"
