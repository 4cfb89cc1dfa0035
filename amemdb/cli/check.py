"""`amemdb check`: is a data folder whole, where does it break, what would be left; with `--fix`, the cut itself.

Looking changes nothing and takes no lock, so a folder in use can be looked at: as it was at one moment. Exit codes: 0
whole, 1 a torn tail that the next start cuts off by itself, 2 damage that it refuses, or nothing to look at.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click
from rich.text import Text

from amemdb.cli.folders import Refused, counted, folder_argument, in_words, instant, progress, refusals
from amemdb.cli.showing import console as new_console
from amemdb.cli.showing import readable, size
from amemdb.errors import StorageError
from amemdb.persistence import mending
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.inspection import Inspection, inspect, memory_free_bytes, stores_of
from amemdb.persistence.manifest import LOCK_NAME
from amemdb.persistence.view import folder_disk
from amemdb.persistence.walk import IN_BASE
from amemdb.setting import Size, Unfit

VERDICTS = {
    0: ("whole: a server starts on it", "green"),
    1: (
        "a torn tail, as a crash of the machine leaves it: a server starts, cuts it off and goes on. What it had "
        "promised to be on disk is there",
        "yellow",
    ),
    2: ("damaged: no server starts on it", "bold red"),
}
_MEMORY = Size(1 << 20)
_LABEL_WIDTH = 10
_FILES_SHOWN_MAX = 12


def _bytes(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """A size with a unit, as in settings."""
    try:
        return None if value is None else _MEMORY.parse(value)
    except Unfit:
        raise click.BadParameter(f"must be {_MEMORY.expected}, got {value!r}") from None


@click.command("check", short_help="Is a data folder whole? With --fix, cut off what is not.")
@folder_argument("folder", "DIR")
@click.option("--fix", is_flag=True, help="Cut at the first damage, after putting aside what is cut off.")
@click.option("--yes", is_flag=True, help="Do not ask before --fix changes anything.")
@click.option(
    "--memory",
    callback=_bytes,
    metavar="BYTES",
    help="Memory to count the state in, like 2gb; more passes over the log with less. [default: half of what is free]",
)
def check(folder: Path, fix: bool, yes: bool, memory: int | None) -> int:
    """Read the whole log of the data folder DIR and say what is valid, where it breaks, and what a fix would lose.

    Changes nothing without --fix, and works beside a running server. Exit code 0: whole; 1: a torn tail, which the
    next start cuts off by itself; 2: damage.
    """
    with refusals():
        disk = folder_disk(folder)
        try:
            if fix:
                return _fix(disk, folder, yes, memory)
            found = _looked_at(disk, folder, memory)
            _show(found)
            return found.exit_code
        finally:
            disk.close()


def _looked_at(disk: FolderDisk, folder: Path, memory: int | None, *, locked: bool = False) -> Inspection:
    with progress() as on_bytes:
        return inspect(
            disk,
            str(folder),
            memory or memory_free_bytes(),
            lambda done, total: on_bytes("reading", done, total),
            locked=locked,
        )


# -- mending -------------------------------------------------------------------------------------


def _fix(disk: FolderDisk, folder: Path, yes: bool, memory: int | None) -> int:
    """Cut under the lock that a server would hold, then look again."""
    try:
        unlock = disk.lock(LOCK_NAME)
    except StorageError as error:
        raise Refused(f"{str(error).partition(';')[0]}: stop that first; without --fix it can be checked") from None
    try:
        found = _looked_at(disk, folder, memory, locked=True)
        _show(found)
        if found.exit_code == 0:
            click.echo("nothing to fix")
            return 0
        reason = mending.why_not(found)
        if reason is not None:
            raise Refused(f"not fixed, nothing was changed: {reason}")
        if not yes:
            _ask(found)
        for path in mending.mend(disk, found):
            click.echo(f"put aside: {readable(path)}")
        click.echo("fixed; looking again\n")
        again = _looked_at(disk, folder, memory, locked=True)
        _show(again)
        return again.exit_code
    finally:
        unlock()


def _ask(found: Inspection) -> None:
    if not _is_terminal():
        raise Refused("nothing was changed: --fix asks before it does, which needs a terminal, or --yes")
    what = "cut that off" if found.damage is not None else "write the manifest again"
    if not click.confirm(f"{what}, and put aside in this folder what was there?"):
        raise Refused("nothing was changed")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


# -- showing -------------------------------------------------------------------------------------


def _show(found: Inspection) -> None:
    console = new_console()

    def tell(line: str, style: str = "") -> None:  # the terminal folds it, so that a pipe has one line for one thing
        console.print(Text(readable(line), style=style), soft_wrap=True)

    tell(found.folder, "bold")
    for label, line in _rows(found):
        tell(f"  {label:<{_LABEL_WIDTH}}{line}")
    if found.manifest is None and not found.trouble:
        tell("no log here: a server would begin empty", "green")
        return
    text, style = VERDICTS[found.exit_code]
    if found.used_by is not None and found.exit_code == 0:
        text = "whole, as it was at that moment"
    tell(text, style)
    if found.exit_code == 2:
        tell(f"→ {_remedy(found)}", "cyan")


def _rows(found: Inspection) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if found.used_by is not None:
        rows.append(("in use", f"by {found.used_by}: this is how it was at one moment"))
    if found.trouble:
        rows.append(("manifest", found.trouble))
        if found.manifest is not None:
            rows.append(("", "put together again from the headers of the files; --fix writes it"))
    if found.manifest is None or found.walk is None:
        return rows
    if not found.trouble:
        rows.append(("manifest", _manifest(found)))
    rows += _files(found)
    walk = found.walk
    lines = [counted(walk.blocks_whole, "blocks"), counted(walk.frames, "frames")]
    lines.append(counted(found.records.total(), "records"))
    rows.append(("log", f"{', '.join(lines)}, up to offset {walk.offset:,}"))
    if walk.base_records:
        rows.append(("base", f"{counted(walk.base_records, 'records')}, which stand for the log before its segments"))
    if found.first_time_ms is not None and found.last_time_ms is not None:
        rows.append(("time", f"{instant(found.first_time_ms)} to {instant(found.last_time_ms)}"))
    rows.append(("holds", in_words(found.held)))
    rows += _damage(found)
    return rows


def _manifest(found: Inspection) -> str:
    assert found.manifest is not None
    segments = counted(len(found.manifest.segments), "segments")
    return f"{segments} and a base" if found.manifest.base is not None else segments


def _files(found: Inspection) -> list[tuple[str, str]]:
    """The files, those in the middle of a long log left out where nothing is the matter with them."""
    assert found.walk is not None
    damaged = None if found.damage is None else found.damage.name
    names = list(found.sizes)
    width = max(map(len, [*names, *found.strangers]))
    told: list[str] = []
    left_out = 0
    for place, name in enumerate(names):
        whole = found.walk.ends.get(name)
        state = "not read" if whole is None else "whole" if name != damaged else f"whole up to byte {whole:,}"
        if len(names) > _FILES_SHOWN_MAX and state == "whole" and 1 < place < len(names) - 2:
            left_out += 1
        else:
            told.append(f"{name:<{width}}  {size(found.sizes[name]):>9}  {state}")
    if left_out:
        told.insert(2, f"… and {counted(left_out, 'files')} more, all whole")
    why = "left over: a start clears it away" if found.used_by is None else "or not yet"
    told += [f"{name:<{width}}  no part of the log, {why}" for name in found.strangers]
    rows = [("files" if place == 0 else "", line) for place, line in enumerate(told)]
    if found.aside:
        rows.append(("aside", f"{', '.join(found.aside)}: cut off by an earlier fix, and of no use to a server"))
    return rows


def _damage(found: Inspection) -> list[tuple[str, str]]:
    damage, lost = found.damage, found.lost
    if damage is None:
        return []
    rows = [("damage", f"{damage.name} at byte {damage.at:,}: {damage.reason}")]
    if damage.durable > damage.offset:
        rows.append(("", f"whole up to offset {damage.offset:,}, and {damage.durable:,} was known to be on disk"))
    if damage.verdict == "newer":
        return rows
    readable_part = "nothing of it can be read"
    if lost.frames:
        stores: Counter[str] = Counter()
        for kind, count in lost.records.items():
            stores[stores_of(kind)[0]] += count
        changes = ", ".join(f"{store} {count:,}" for store, count in sorted(stores.items()))
        readable_part = (
            f"of which {counted(lost.frames, 'frames')} with {counted(lost.records.total(), 'records')} can be read "
            f"(changes of: {changes})"
        )
    rows.append(("a cut", f"loses {size(lost.bytes)}, {readable_part}"))
    if damage.index == IN_BASE:
        rows.append(("", "it keeps what the base holds before the damage, and nothing that was written after it"))
    if found.last_time_ms is not None:
        rows.append(("", f"the last that is kept is of {instant(found.last_time_ms)}"))
    if lost.first_time_ms is not None and lost.last_time_ms is not None:
        span = f"{instant(lost.first_time_ms)}, the last of {instant(lost.last_time_ms)}"
        rows.append(("", f"the first that can be read of what is lost is of {span}"))
    return rows


def _remedy(found: Inspection) -> str:
    reason = mending.why_not(found)
    if reason is not None:
        return reason
    if found.damage is None:
        return f"amemdb check {found.folder} --fix writes the manifest again; nothing is lost by that"
    return (
        f"copy the folder, look for failing hardware, then take the last backup (amemdb restore BACKUP DIR), or cut: "
        f"amemdb check {found.folder} --fix"
    )
