"""The hands of the log: one step in, one `Done` out.

`LogWriter` holds the current segment's file and does what a step says through a `Disk`. It decides nothing, keeps
no offsets, and takes failures of the disk back as values. One step at a time; whoever drives it (a thread, a
simulator) sees to that. The only thing that may happen meanwhile is `extend`, from the loop, while the step is an
Append, Sync or Mark.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import dataclass

from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import (
    BLOCK_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    pack_block_header,
    pack_segment_header,
)
from amemdb.persistence.disk import FILE_GONE, Disk, File
from amemdb.persistence.steps import Append, Block, Close, Done, Extend, Mark, Stage, Step, Switch, Sync


@dataclass(slots=True)
class SyncTimes:
    """How many syncs there were and how long they took, for INFO."""

    count: int = 0
    failures: int = 0
    last_ns: int = 0
    longest_ns: int = 0


class LogWriter:
    """Writes the segments of one log. `file` is the current segment of number `number`, already open for writing."""

    def __init__(
        self, disk: Disk, log_id: bytes, timer_ns: Callable[[], int], number: int = 0, file: File | None = None
    ) -> None:
        self.sync_times = SyncTimes()
        self._disk = disk
        self._log_id = log_id
        self._timer_ns = timer_ns
        self._number = number
        self._file = file
        self._abandoned: list[str] = []
        self._stage: Stage = ""

    def run(self, step: Step) -> Done:
        """Do `step`. Whatever the disk refuses is in the result; any other exception is a bug."""
        done = Done(step)
        try:
            match step:
                case Append():
                    self._append(step)
                case Sync():
                    self._sync(self._current())
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

    def extend(self, end: int, count_wanted: int, count_min: int) -> int:
        """Reserve room in the current segment from `end`, and return where it ends now."""
        return reserve(self._current(), end, count_wanted, count_min)

    def release(self) -> None:
        """Let go of the current file, whatever state it is in."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # all that mattered was synced before
                self._file.close()
        self._file = None

    # -- steps -----------------------------------------------------------------------------------

    def _append(self, step: Append) -> None:
        self._stage = "write"
        self._write_blocks(self._current(), self._number, step.position, step.blocks, step.durable)
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
            done.position = self._write_blocks(
                file, step.segment.number, SEGMENT_HEADER_BYTES, step.blocks, step.durable
            )
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
        self._file = file
        self._number = step.segment.number
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
        header = pack_block_header(self._log_id, self._number, position, offset, offset, b"")
        self._current().write_at(position, header)

    def _write_blocks(self, file: File, number: int, position: int, blocks: tuple[Block, ...], durable: int) -> int:
        for block in blocks:
            header = pack_block_header(self._log_id, number, position, block.offset, durable, block.payload)
            file.write_at(position, header, block.payload)
            position += block.file_bytes
        return position

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
        times.count += 1
        times.last_ns = self._timer_ns() - started_ns
        times.longest_ns = max(times.longest_ns, times.last_ns)

    def _current(self) -> File:
        assert self._file is not None, "the log has no segment open"
        return self._file


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
