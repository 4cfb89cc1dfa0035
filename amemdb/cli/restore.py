"""`amemdb restore`: a backup into a new data folder, after it was read from beginning to end.

Exit codes: 0 when the folder is there, 1 when not (nothing is left of it), 2 when called wrongly.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from amemdb.cli.folders import Undone, folder_argument, in_words, instant, progress, refusals
from amemdb.cli.showing import readable, size
from amemdb.persistence import copying
from amemdb.persistence.inspection import Inspection, inspect, memory_free_bytes
from amemdb.persistence.view import folder_disk, open_view


@click.command("restore", short_help="Bring a backup back as a data folder.")
@folder_argument("source", "BACKUP")
@folder_argument("folder", "DIR")
def restore(source: Path, folder: Path) -> int:
    """Copy BACKUP, which is read from beginning to end first, to DIR, which must not exist or be empty.

    BACKUP stays as it is. Run this as the user who runs the server, then start it: amemdb serve --dir DIR.
    """
    started = time.monotonic()
    with refusals(Undone), progress() as on_bytes:
        copying.require_empty(folder)
        disk = folder_disk(source)
        try:
            found = inspect(disk, str(source), memory_free_bytes(), lambda done, all_: on_bytes("reading", done, all_))
            _require_whole(found, source)
            view = open_view(disk, in_use=found.used_by is not None)
            if view is None:
                raise Undone(f"{source} holds no log")
            with view:
                copied = copying.restore(view, folder, on_bytes)
        finally:
            disk.close()
    until = f", up to {instant(found.last_time_ms)}" if found.last_time_ms is not None else ""
    click.echo(f"{readable(str(folder))}: {size(copied.bytes)} in {time.monotonic() - started:.1f} s{until}")
    click.echo(f"holds {in_words(found.held)}, what has ended since included: it goes at the start")
    click.echo(f"start it: amemdb serve --dir {readable(str(folder))}")
    return 0


def _require_whole(found: Inspection, source: Path) -> None:
    if found.manifest is None and not found.trouble:
        raise Undone(f"{source} holds no log: name the folder that 'amemdb backup' made")
    if found.exit_code:
        reason = found.trouble or (found.damage.reason if found.damage is not None else "")
        raise Undone(f"nothing was restored, as {source} is not whole: {reason}; see 'amemdb check {source}'")
