"""What the commands that work on a data folder share: the argument, refusals in a line, progress, counts in words.

They need no server. What they read was written by others, so all of it goes to the screen through `showing`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from amemdb.cli.showing import readable
from amemdb.errors import StorageError
from amemdb.persistence.inspection import STORES

BROKEN_EXIT_CODE = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SINGULARS = {"summaries": "summary"}


class Refused(click.ClickException):
    """What is broken and cannot be done, in one line that says what to do."""

    exit_code = BROKEN_EXIT_CODE

    def __init__(self, message: str) -> None:
        super().__init__(readable(message))


class Undone(Refused):
    """What could not be done, and left everything as it was."""

    exit_code = 1


@contextmanager
def refusals(kind: type[Refused] = Refused) -> Iterator[None]:
    """Turns what the disk and the files refuse into one line."""
    try:
        yield
    except StorageError as error:
        raise kind(str(error).rstrip(".")) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise kind(f"{place}{error.strerror or type(error).__name__}") from None


def folder_argument(name: str, metavar: str) -> Callable[[Any], Any]:
    """An argument that names a folder; whether it is one is for the command to say."""
    return click.argument(name, type=click.Path(path_type=Path), metavar=metavar)


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error, if that is a terminal: takes what is being done, the bytes done and the bytes in all."""
    if not sys.stderr.isatty():
        yield lambda label, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda label, done, total: bar.update(task, description=label, completed=done, total=total)


def in_words(counts: Mapping[str, int], nothing: str = "nothing") -> str:
    """Counts by store: `1 conversation, 12 turns`."""
    told = [counted(counts.get(store, 0), store) for store in STORES if counts.get(store)]
    return ", ".join(told) or nothing


def counted(count: int, plural: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{count:,} {_SINGULARS.get(plural, plural[:-1]) if count == 1 else plural}"


def instant(at_ms: int) -> str:
    """Unix milliseconds as ISO 8601 in UTC; a number that is no date stays one."""
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except OverflowError:
        return str(at_ms)
