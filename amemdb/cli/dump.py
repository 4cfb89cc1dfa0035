"""`amemdb dump`: every record of a data folder, a line each, for people or as JSON for programs.

It works beside a running server, and on a damaged folder up to the damage, which is then told on standard error; the
exit codes are those of `amemdb check`. How a record is shown is in `record_lines`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from amemdb.cli.folders import BROKEN_EXIT_CODE, folder_argument, refusals
from amemdb.cli.record_lines import as_json, as_text
from amemdb.cli.showing import readable
from amemdb.errors import CommandError
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.inspection import STORES, stores_of, view_of
from amemdb.persistence.view import FolderView, folder_disk, holder, holder_for_certain
from amemdb.persistence.walk import IN_BASE, Block, Damage, Walk, offsets_in
from amemdb.protocol.glob import Matcher, matcher
from amemdb.stores.records import KEY_SET, Record

_OFFSET = re.compile(r"[0-9]{1,19}", re.ASCII)


@dataclass(frozen=True)
class Bound:
    """A place in the log: an offset, or a time in Unix milliseconds."""

    offset: int | None = None
    time_ms: int | None = None

    def reached(self, offset: int, time_ms: int) -> bool:
        """Whether what stands there is at or behind this place."""
        if self.offset is not None:
            return offset >= self.offset
        return self.time_ms is not None and time_ms >= self.time_ms


def _place(ctx: click.Context, param: click.Parameter, value: str | None) -> Bound | None:
    """An offset, or a date with or without a time, in UTC unless it says otherwise."""
    if value is None:
        return None
    if _OFFSET.fullmatch(value):
        return Bound(offset=int(value))
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"must be an offset, or a time like 2026-11-30 or 2026-11-30T20:15:00Z, got {value!r}"
        ) from None
    return Bound(time_ms=round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))


@click.command("dump", short_help="Show every record of a data folder.")
@folder_argument("folder", "DIR")
@click.option("--json", "json_lines", is_flag=True, help="JSON lines, complete; else lines for people, shortened.")
@click.option("--store", "stores", type=click.Choice(STORES), multiple=True, help="Only of this; may be repeated.")
@click.option("--name", metavar="PATTERN", help="Only of sessions, agents and keys whose names fit: 'acme:*'.")
@click.option("--from", "first", callback=_place, metavar="PLACE", help="From this offset or time on.")
@click.option("--to", "last", callback=_place, metavar="PLACE", help="Up to this offset or time, without it.")
def dump(
    folder: Path, json_lines: bool, stores: tuple[str, ...], name: str | None, first: Bound | None, last: Bound | None
) -> int:
    """Show every record of the log in the data folder DIR, in order: offset, time, kind and fields.

    Works beside a running server, and on a damaged folder up to the damage. A PLACE is an offset, or a time like
    2026-11-30T20:15:00Z. Exit code 1 when it ended at a torn tail, 2 at damage, as with 'amemdb check'.
    """
    try:
        chosen = _Chosen(stores, matcher(os.fsencode(name) if name is not None else None), first, last)
    except CommandError as error:
        raise click.UsageError(f"--name: {error.message}") from None
    with refusals():
        disk = folder_disk(folder)
        try:
            return _dump(disk, folder, chosen, as_json if json_lines else as_text)
        except BrokenPipeError:  # whoever reads has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        finally:
            disk.close()


@dataclass(frozen=True)
class _Chosen:
    """Which records are shown."""

    stores: tuple[str, ...]
    fits: Matcher
    first: Bound | None
    last: Bound | None

    def takes_frame(self, offset: int, time_ms: int) -> bool:
        if self.first is not None and not self.first.reached(offset, time_ms):
            return False
        return self.last is None or not self.last.reached(offset, time_ms)

    def takes(self, record: Record) -> bool:
        if self.stores and not set(self.stores) & set(stores_of(record[0])):
            return False
        named = record[2:3] if record[0] >= KEY_SET else record[1:2]
        return not named or not isinstance(named[0], bytes) or self.fits(named[0])

    def ended(self, block: Block) -> bool:
        """Whether nothing more can come: offsets rise, which times need not."""
        return self.last is not None and self.last.offset is not None and block.offset >= self.last.offset


def _dump(disk: FolderDisk, folder: Path, chosen: _Chosen, line: Callable[..., bytes]) -> int:
    used_by = holder(folder)
    view, trouble = view_of(disk, in_use=used_by is not None)
    if trouble:
        click.echo(f"amemdb: {readable(trouble)}" + (": read by the headers of the files" if view else ""), err=True)
    if view is None:
        return BROKEN_EXIT_CODE if trouble else 0
    with view:
        walk = Walk(view)
        out = sys.stdout.buffer
        for offset, time_ms, number, in_base, record in _chosen(view, walk, chosen):
            out.write(line(offset, time_ms, number, in_base, record))
        out.flush()
        damage = walk.damage
        if damage is not None and used_by is None and holder_for_certain(folder) is not None:
            damage = None  # the last block was just being written
        if damage is not None:
            _tell(damage, folder)
    if trouble or (damage is not None and damage.verdict != "torn"):
        return BROKEN_EXIT_CODE
    return 0 if damage is None else 1


def _chosen(view: FolderView, walk: Walk, chosen: _Chosen) -> Iterator[tuple[int, int, int, bool, Record]]:
    """Offset, time, number in its frame, whether it is of the base, and the record itself."""
    base = view.manifest.base
    for block in walk.blocks():
        if block.index == IN_BASE:
            assert base is not None
            if chosen.takes_frame(base.offset, base.time_ms):
                for record in block.frames:
                    if chosen.takes(record):
                        yield base.offset, base.time_ms, 0, True, record
            continue
        if chosen.ended(block):
            return
        starts = offsets_in(block.payload, len(block.frames))
        for start, (time_ms, *records) in zip(starts, block.frames, strict=True):
            if chosen.takes_frame(block.offset + start, time_ms):
                for number, record in enumerate(records):
                    if chosen.takes(record):
                        yield block.offset + start, time_ms, number, False, record


def _tell(damage: Damage, folder: Path) -> None:
    kind = "a torn tail" if damage.verdict == "torn" else "damage"
    click.echo(
        f"amemdb: {kind} at byte {damage.at:,} of {damage.name}: {damage.reason}; nothing behind it is shown. "
        f"'amemdb check {readable(str(folder))}' tells more",
        err=True,
    )
