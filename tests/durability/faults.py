"""A real server whose wall clock and disk obey the test: `faults.c`, compiled once and loaded into it.

The clock stands still where it is put. A failure of the disk is a number of `errno` that holds until it is taken back,
as in an outage; the server is not told, and finds out as it would from any disk.
"""

from __future__ import annotations

import errno
import struct
import subprocess
from mmap import mmap
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
FIELDS = ("wall_ns", "sync_errno", "write_errno", "reserve_errno", "write_short", "sync_wait_us", "syncs")
NS_PER_MS = 1_000_000


def compiled(folder: Path) -> Path:
    """The shim, made in `folder`."""
    library = folder / "faults.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return library


class Faults:
    """What one server is made to believe. Set the attributes at any time; `environment` is what it is started with."""

    def __init__(self, library: Path, folder: Path) -> None:
        file = folder / "faults.control"
        file.write_bytes(bytes(8 * len(FIELDS)))
        with file.open("r+b") as opened:
            self._control = mmap(opened.fileno(), 0)
        self.environment = {"LD_PRELOAD": str(library), "FAULTS_CONTROL": str(file)}

    def _set(self, field: str, value: int) -> None:
        struct.pack_into("<q", self._control, 8 * FIELDS.index(field), value)

    def _get(self, field: str) -> int:
        value: int = struct.unpack_from("<q", self._control, 8 * FIELDS.index(field))[0]
        return value

    # -- time ------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """What the wall clock says, 0 if it is the true one."""
        return self._get("wall_ns") // NS_PER_MS

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self._set("wall_ns", now_ms * NS_PER_MS)

    # -- the disk --------------------------------------------------------------------------------

    def fail(self, *, syncs: int = 0, writes: int = 0, room: int = 0, write_short: int = 0) -> None:
        """From now on syncs, writes and reservations fail with these; the first write after taking some bytes."""
        self._set("write_short", write_short)
        self._set("sync_errno", syncs)
        self._set("write_errno", writes)
        self._set("reserve_errno", room)

    def fill(self) -> None:
        """The disk is full."""
        self.fail(writes=errno.ENOSPC, room=errno.ENOSPC, write_short=20)

    def heal(self) -> None:
        """The disk works again."""
        self.fail()

    def hold_syncs(self, seconds: float) -> None:
        """Each sync takes this long at least."""
        self._set("sync_wait_us", int(seconds * 1_000_000))

    @property
    def syncs(self) -> int:
        """How many syncs the server has asked for."""
        return self._get("syncs")
