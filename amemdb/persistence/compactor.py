"""The process that compacts: `python -m amemdb.persistence.compactor FOLDER [DESCRIPTOR]`, started by the server.

The server gives it the folder open, by its descriptor: the name may by now be another one's. It takes a task
(`compaction.Task`) as one line of JSON on standard input and tells on standard output, also a line of JSON each time,
how far it is: `{"read": …, "of": …, "written": …, "part": …, "parts": …}`, sizes in bytes. The last line says what came
of it: `{"done": {"number", "offset", "time_ms", "size", "records", "objects", "parts", "peak_memory_bytes"}}`. If
nothing did, the last line on standard error says why and the exit code is 1.

It takes from the server as little as it can: it has a low priority for the processor, though not the lowest, with which
it would never come to its end on a busy machine; reads and writes when no other wants the disk, where the system has
such a priority; and lets go of the pages of the files that it reads
and writes, so that they do not push out of memory what is of use. A server that has gone takes it along: it ends
with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import stat
import sys
import time
from dataclasses import asdict
from typing import Any

from amemdb.errors import CorruptLogError, StorageError
from amemdb.persistence.disk import FolderDisk, FolderFile

TELL_S = 0.2
"""How often it tells how far it is."""
_NICE = 10
"""A tenth of a processor that another process would have for itself."""
_PAGES_BYTES = 8 * 1024 * 1024
"""So much is read before its pages are let go of."""

# What `ioprio_set` is called on the machines where we know it; the C library has no function for it.
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_CLASS_IDLE = 3 << 13


class _PassingFile(FolderFile):
    """A file that is read or written from its beginning on, and whose pages nobody needs afterwards."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._used_to = 0
        self._kept_from = 0

    def read_at(self, position: int, count: int) -> bytes:
        data = super().read_at(position, count)
        self._used_to = max(self._used_to, position + len(data))
        if position - self._kept_from >= _PAGES_BYTES:
            self._let_go(position)
        return data

    def write_at(self, position: int, *parts: bytes) -> None:
        super().write_at(position, *parts)
        self._used_to = max(self._used_to, position + sum(map(len, parts)))

    def sync(self) -> None:
        super().sync()
        self._let_go(self._used_to)

    def close(self) -> None:
        self._kept_from = 0  # the system keeps a page of which only a part was let go of, and they can be large
        self._let_go(self._used_to)
        super().close()

    def _let_go(self, end: int) -> None:
        if hasattr(os, "posix_fadvise") and end > self._kept_from:
            with contextlib.suppress(OSError):  # advice; some file systems take none
                os.posix_fadvise(self.descriptor, self._kept_from, end - self._kept_from, os.POSIX_FADV_DONTNEED)
        self._kept_from = end


class _PassingDisk(FolderDisk):
    """A folder of such files."""

    def _open(self, name: str, flags: int) -> _PassingFile:
        return _PassingFile(super()._open(name, flags).descriptor)


class _OrphanedError(Exception):
    """Nobody waits for the result."""


def main(arguments: list[str]) -> int:
    """Compact in the folder that the arguments name; the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal it comes to the server as well, which decides
    gc.disable()  # what is loaded is no garbage, and the stores free what they drop
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded: a second thread takes memory
    parent = os.getppid()
    try:
        folder, *rest = arguments or [""]
        if not folder or len(rest) > 1 or not all(word.isdigit() for word in rest):
            raise StorageError("the folder of the log is wanted as an argument, and maybe its descriptor")
        _stand_back()
        _compact(folder, int(rest[0]) if rest else None, sys.stdin.buffer.readline(), parent)
    except CorruptLogError as error:
        return _refuse(f"{error.file} is damaged at byte {error.position}: {error.reason}")
    except StorageError as error:
        return _refuse(str(error))
    except (_OrphanedError, BrokenPipeError):
        return _refuse("the server that wanted it has gone")
    return 0


def _compact(folder: str, descriptor: int | None, line: bytes, parent: int) -> None:
    from amemdb.persistence.compaction import Task, compact

    try:
        task = Task.from_json(line)
    except ValueError as error:
        raise StorageError(f"what is on standard input is no task: {error}") from None
    try:
        is_folder = stat.S_ISDIR(os.stat(folder if descriptor is None else descriptor).st_mode)
    except OSError:
        is_folder = False
    if not is_folder:
        raise StorageError(f"{folder} is no folder")
    work = compact(_PassingDisk(folder, descriptor), task)
    told_s = 0.0
    while True:
        if os.getppid() != parent:
            raise _OrphanedError
        try:
            progress = next(work)
        except StopIteration as end:
            done = end.value
            break
        now_s = time.monotonic()
        if now_s - told_s >= TELL_S:
            told_s = now_s
            _tell(asdict(progress))
    rest = {"records": done.records, "objects": done.objects, "parts": done.parts}
    _tell({"done": asdict(done.base) | rest | {"peak_memory_bytes": _peak_memory_bytes()}})


def _stand_back() -> None:
    """Have the system prefer everybody else. What it does not have or does not allow is left out."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    number = _IOPRIO_SET.get(os.uname().machine)
    if sys.platform == "linux" and number is not None:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_CLASS_IDLE)


def _peak_memory_bytes() -> int:
    """The most memory that this process had in use. The first source does not count what its parent had."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _refuse(why: str) -> int:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{why}\n")
        sys.stderr.flush()
    return 1


if __name__ == "__main__":
    # Not by way of the interpreter's end, which would take apart millions of objects one by one.
    os._exit(main(sys.argv[1:]))
