"""`amemdb export`: all memory of a running server as a file of the import format.

The file appears under its name when it is complete, and only its owner can read it: it holds what agents remember of
people. Exit codes: 0, 1 when something could not be exported (each is told), 2 when the command was called wrongly or
the server could not be reached.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import click
import redis

from amemdb.cli.connection import connected, reason_of, url_option
from amemdb.client.exporter import Client, Exported, export

PROBLEMS_SHOWN_MAX = 100
PLURALS = {"summary": "summaries", "retention": "retentions"}


@click.command("export", short_help="Write all memory of a running server to a file of JSON lines.")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path), metavar="FILE.jsonl")
@url_option
@click.option("--force", is_flag=True, help="Replace FILE.jsonl where it exists.")
@click.option("--match", metavar="PATTERN", help="Only sessions and agents whose names fit: 'acme:*'.")
def export_(file: Path, url: str, force: bool, match: str | None) -> int:
    """Write all memory of a running server to FILE.jsonl (- for standard output), which `amemdb import` reads."""
    started = time.monotonic()
    if not force and str(file) != "-" and os.path.lexists(file):
        raise click.UsageError(f"{file} exists and is kept: give another name, or --force to replace it")
    client = connected(url)
    problems = _Problems()
    try:
        with _written(file) as stream, _progress() as on_progress:
            found = export(
                cast(Client, client), stream.write, os.fsencode(match) if match else None, problems, on_progress
            )
        keys = _plain_keys(client)
    except redis.RedisError as error:
        raise click.UsageError(f"the export is not complete and was not kept: {reason_of(error, url)}") from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from None
    finally:
        client.close()
    problems.close()
    click.echo(_summary(found, time.monotonic() - started), err=True)
    if keys:
        click.echo(
            f"not in it: {keys:,} plain {'key' if keys == 1 else 'keys'}, which the format has no line for", err=True
        )
    return 1 if found.left_out else 0


@contextmanager
def _written(file: Path) -> Iterator[BinaryIO]:
    """The file to write to, which takes its name when it is whole."""
    if str(file) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    beside = file.with_name(f"{file.name}.part")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb", buffering=1 << 20) as stream:
            os.fchmod(descriptor, 0o600)
            yield stream
            stream.flush()
            os.fsync(descriptor)
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _plain_keys(client: redis.Redis) -> int:
    keyspace = client.info("keyspace")
    return sum(entry["keys"] for entry in keyspace.values() if isinstance(entry, dict))


@contextmanager
def _progress() -> Iterator[Callable[[Exported], None]]:
    """A line that counts, on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda exported: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("exporting")
        yield lambda exported: progress.update(task, description=f"exporting: {exported.lines:,} lines")


class _Problems:
    """Tells the first problems one by one and counts the rest."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, problem: str) -> None:
        self._count += 1
        if self._count <= PROBLEMS_SHOWN_MAX:
            click.echo(problem, err=True)

    def close(self) -> None:
        """Tell how many were not shown."""
        if self._count > PROBLEMS_SHOWN_MAX:
            click.echo(f"… and {self._count - PROBLEMS_SHOWN_MAX:,} more", err=True)


def _summary(found: Exported, seconds: float) -> str:
    counts = [
        f"{count:,} {kind if count == 1 else PLURALS.get(kind, kind + 's')}" for kind, count in found.counts.items()
    ]
    text = f"exported {found.lines:,} {'line' if found.lines == 1 else 'lines'} in {seconds:.1f} s"
    if counts:
        text += f": {', '.join(counts)}"
    return f"{text}; left out {found.left_out:,}"
