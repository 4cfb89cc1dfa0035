"""The hands of the log: one step in, one `Done` out.

`LogWriter` holds the current segment's file and does what a step says through a `Disk`. It decides nothing, keeps
no offsets, and takes failures of the disk back as values. One step at a time; whoever drives it (a thread, a
simulator) sees to that, with two exceptions: an Append may run beside a Sync, and while there is no other step than
an Append, Sync or Mark, the loop may `extend`. `write_block` is the loop's alone, and only when no step is under way.

Where the compiled twins are in use and the file is a real one, `tail` is the native way to it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amemdb import native
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import BLOCK_HEADER_BYTES, SEGMENT_HEADER_BYTES, BlockHeaders, pack_segment_header
from amemdb.persistence.disk import FILE_GONE, Disk, File, FolderFile
from amemdb.persistence.steps import Append, Block, Close, Done, Extend, Mark, Stage, Step, Switch, Sync

if TYPE_CHECKING or native.ENABLED:
    from amemdb.persistence._writing import Tail


@dataclass(slots=True)
class SyncTimes:
    """How many syncs there were and how long they took, for INFO."""

    count: int = 0
    failures: int = 0
    last_ns: int = 0
    longest_ns: int = 0

    def took(self, spent_ns: int) -> None:
        """Count one that went well."""
        self.count += 1
        self.last_ns = spent_ns
        self.longest_ns = max(self.longest_ns, spent_ns)


class LogWriter:
    """Writes the segments of one log. `file` is the current segment of number `number`, already open for writing."""

    def __init__(
        self,
        disk: Disk,
        log_id: bytes,
        timer_ns: Callable[[], int],
        number: int = 0,
        file: File | None = None,
    ) -> None:
        self.sync_times = SyncTimes()
        self.tail: Tail | None = None
        self._disk = disk
        self._log_id = log_id
        self._timer_ns = timer_ns
        self._abandoned: list[str] = []
        self._stage: Stage = ""
        self._native = native.ENABLED
        self._file: File | None = None
        if file is not None:
            self._use(file, number)

    def _use(self, file: File, number: int) -> None:
        """`file` is the current segment from now on."""
        self._file = file
        self._headers = BlockHeaders(self._log_id, number)
        if self._native and type(file) is FolderFile:
            self.tail = Tail(file.descriptor, self._log_id, number)

    def stay_plain(self) -> None:
        """Do without the twin, for good."""
        self._native = False
        self.tail = None

    def write_block(self, position: int, offset: int, durable: int, payload: bytes) -> None:
        """Write one block; `OSError` if the disk refuses."""
        if self.tail is None:
            self._current().write_at(position, self._headers.pack(position, offset, durable, payload), payload)
        elif number := self.tail.write(position, offset, durable, payload):
            raise failure(number)

    def run(self, step: Step) -> Done:
        """Do `step`. Whatever the disk refuses is in the result; any other exception is a bug."""
        if isinstance(step, Sync):
            return self._run_sync(step)
        done = Done(step)
        try:
            match step:
                case Append():
                    self._append(step)
                case Mark():
                    self._stage = "write"
                    self._write_mark(step.position, step.offset)
                case Extend():
                    done.end = self.extend(step.end, step.count, step.count)
                case Switch():
                    self._switch(step, done)
                case Close():
                    self._close(step)
        except OSError as error:
            done.error = error
            done.stage = self._stage
        return done

    def _run_sync(self, step: Sync) -> Done:
        """Beside which an Append may run: not a word to `_stage`."""
        try:
            self._timed_sync(self._current())
        except OSError as error:
            return Done(step, error, "sync")
        return Done(step)

    def extend(self, end: int, count_wanted: int, count_min: int) -> int:
        """Reserve room in the current segment from `end`, and return where it ends now."""
        return reserve(self._current(), end, count_wanted, count_min)

    def release(self) -> None:
        """Let go of the current file, whatever state it is in."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # all that mattered was synced before
                self._file.close()
        self._file = self.tail = None

    # -- steps -----------------------------------------------------------------------------------

    def _append(self, step: Append) -> None:
        self._stage = "write"
        _write_blocks(self._current(), self._headers, step.position, step.blocks, step.durable)
        if step.sync:
            self._sync(self._current())

    def _close(self, step: Close) -> None:
        file = self._current()
        self._append(step.append)
        self._stage = "finish"
        position = step.append.position + sum(block.file_bytes for block in step.append.blocks)
        self._write_mark(position, step.offset)
        file.truncate(position + BLOCK_HEADER_BYTES)
        self._timed_sync(file)
        self.release()

    def _switch(self, step: Switch, done: Done) -> None:
        old_file = self._file
        if old_file is not None and step.old_end is not None:
            self._sync(old_file)
        self._stage = "prepare"
        self._require_older(step)
        name = step.segment.name
        file = self._disk.create(name)
        try:
            header = pack_segment_header(self._log_id, step.segment.number, step.segment.start, step.durable)
            file.write_at(0, header)
            blocks_bytes = sum(block.file_bytes for block in step.blocks)
            done.end = reserve(
                file, SEGMENT_HEADER_BYTES, blocks_bytes + step.room_wanted, blocks_bytes + step.room_min
            )
            headers = BlockHeaders(self._log_id, step.segment.number)
            done.position = _write_blocks(file, headers, SEGMENT_HEADER_BYTES, step.blocks, step.durable)
            self._timed_sync(file)
            self._disk.sync_folder()
            manifests.prepare(self._disk, step.manifest)
            self._stage = "commit"
            manifests.commit(self._disk)
        except OSError:
            self._give_up(name, file)
            raise
        if old_file is not None and step.old_end is not None:
            with contextlib.suppress(OSError):  # the rest of the old segment is void, it only takes room
                old_file.truncate(step.old_end)
        self.release()
        self._use(file, step.segment.number)
        self._tidy(step)

    def _require_older(self, step: Switch) -> None:
        """A log that has lost one of its files must not be said to be well again: no restart could read it."""
        if len(step.manifest.segments) > 1:
            names = self._disk.names()
            if any(segment.name not in names for segment in step.manifest.segments[:-1]):
                raise OSError(errno.ENOENT, FILE_GONE)

    def _give_up(self, name: str, file: File) -> None:
        """Take back a new segment that did not come into force, unless a manifest on disk may already name it."""
        with contextlib.suppress(OSError):
            file.close()
        if self._stage == "commit":
            self._abandoned.append(name)
            return
        try:
            self._disk.remove(name)
        except OSError:
            self._abandoned.append(name)

    def _tidy(self, step: Switch) -> None:
        """What is left to do once the new manifest is in force; failing here costs only room on disk."""
        names = [*self._abandoned, *(segment.name for segment in step.replaced)]
        self._abandoned.clear()
        for name in names:
            with contextlib.suppress(OSError):
                self._disk.remove(name)

    def _write_mark(self, position: int, offset: int) -> None:
        self._current().write_at(position, self._headers.pack(position, offset, offset, b""))

    def _sync(self, file: File) -> None:
        self._stage = "sync"
        self._timed_sync(file)

    def _timed_sync(self, file: File) -> None:
        times = self.sync_times
        started_ns = self._timer_ns()
        try:
            file.sync()
        except OSError:
            times.failures += 1
            raise
        times.took(self._timer_ns() - started_ns)

    def _current(self) -> File:
        assert self._file is not None, "the log has no segment open"
        return self._file


def failure(number: int) -> OSError:
    """The exception for a number that the twin gave back."""
    return OSError(number, FILE_GONE if number == errno.ENOENT else os.strerror(number))


def _write_blocks(file: File, headers: BlockHeaders, position: int, blocks: tuple[Block, ...], durable: int) -> int:
    """Write `blocks` one behind the other, and return where they end."""
    for block in blocks:
        file.write_at(position, headers.pack(position, block.offset, durable, block.payload), block.payload)
        position += block.file_bytes
    return position


def reserve(file: File, end: int, count_wanted: int, count_min: int) -> int:
    """Reserve room in `file` behind `end`, what is wanted or at least the minimum, and return where it ends.

    A refused reservation may have taken part of the room: it is given back, others need it.
    """
    for count in (count_wanted, count_min):
        if count <= 0:
            return end
        try:
            file.allocate(end, count)
        except OSError:
            file.truncate(end)
            if count == count_min:
                raise
        else:
            return end + count
    raise AssertionError("not reached")
