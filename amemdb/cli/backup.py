"""`amemdb backup`: a consistent copy of a data folder, made beside the running server, checked before it has its name.

Exit codes: 0 when the copy is there, 1 when it could not be made (nothing is left of it), 2 when called wrongly.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from amemdb.cli.folders import Undone, counted, folder_argument, instant, progress, refusals
from amemdb.cli.showing import readable, size
from amemdb.persistence import copying


@click.command("backup", short_help="Copy a data folder, also of a running server.")
@folder_argument("folder", "DIR")
@folder_argument("destination", "DEST")
def backup(folder: Path, destination: Path) -> int:
    """Copy the data folder DIR to the new folder DEST, beside a running server or without one.

    All that was answered before the copy began is in it, under every policy of appendfsync; what is answered while it
    is made may be. It is read from beginning to end before it gets its name. DEST must not exist. The copy is as good
    as the disk that it is on: put it on another one, better on another machine.
    """
    started = time.monotonic()
    with refusals(Undone), progress() as on_bytes:
        copied = copying.backup(folder, destination, on_bytes)
    report = copied.report
    click.echo(
        f"{readable(str(destination))}: {counted(copied.files, 'files')} of {size(copied.bytes)}, read back whole in "
        f"{time.monotonic() - started:.1f} s"
    )
    until = f", up to {instant(report.last_time_ms)}" if report.last_time_ms else ""
    click.echo(f"holds {counted(report.records, 'records')}{until} (offset {report.offset:,})")
    return 0
