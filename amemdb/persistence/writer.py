"""The hands of the log: one step in, one `Done` out.

`LogWriter` holds the files of the segments that are open (the current one, and while one follows another both) and
does what a step says through a `Disk`. It decides nothing, keeps no offsets, and takes failures of the disk back as
values. One step at a time; whoever drives it (a thread, a simulator) sees to that, with two exceptions: an Append or
a Mark may run beside one of `steps.Beside`, and while no step is under way that changes the room of the file, the
loop may `extend` it. `write_block` is the loop's alone, and only while no step is under way but one
of `steps.ELSEWHERE`.

Where the compiled twins are in use and the file is a real one, `tail` gives the native way to it.
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
from amemdb.persistence.manifest import Manifest, segment_name
from amemdb.persistence.steps import (
    Append,
    Beside,
    Block,
    Close,
    Done,
    Extend,
    Mark,
    Point,
    Prepare,
    Rebase,
    Retire,
    Stage,
    Step,
    Switch,
    Sync,
    TurnOver,
)

if TYPE_CHECKING or native.ENABLED:
    from amemdb.persistence._writing import Tail


_FILL_BYTES = 256 * 1024
"""So much is filled and synced at a time: a sync of blocks in the same file has to wait for no more."""


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


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A segment's file, and what packs its headers."""

    file: File
    headers: BlockHeaders
    tail: Tail | None


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
        self._disk = disk
        self.log_id = log_id
        self._timer_ns = timer_ns
        self._in_doubt: list[str] = []
        self._stage: Stage = ""
        self._native = native.ENABLED
        self._open: dict[int, OpenSegment] = {}
        if file is not None:
            self._use(file, number)

    def _use(self, file: File, number: int) -> None:
        """`file` is that of segment `number`."""
        tail = None
        if self._native and type(file) is FolderFile:
            tail = Tail(file.descriptor, self.log_id, number)
        self._open[number] = OpenSegment(file, BlockHeaders(self.log_id, number), tail)

    def stay_plain(self) -> None:
        """Do without the twin, for good."""
        self._native = False
        for number, segment in list(self._open.items()):
            self._use(segment.file, number)

    def tail(self, number: int) -> Tail | None:
        """The twin's way to segment `number`, which is open, if there is one."""
        return self._open[number].tail

    def write_block(self, number: int, position: int, offset: int, durable: int, payload: bytes) -> None:
        """Write one block to segment `number`; `OSError` if the disk refuses."""
        segment = self._open[number]
        if segment.tail is None:
            segment.file.write_at(position, segment.headers.pack(position, offset, durable, payload), payload)
        elif error := segment.tail.write(position, offset, durable, payload):
            raise failure(error)

    def run(self, step: Step) -> Done:
        """Do `step`. Whatever the disk refuses is in the result; any other exception is a bug."""
        done = Done(step)
        match step:
            case Sync() | Extend() | Prepare() | TurnOver() | Retire() | Rebase():
                self._run_beside(step, done)
                return done
        try:
            match step:
                case Append():
                    self._append(step)
                case Mark():
                    self._stage = "write"
                    self._write_mark(step.at, step.offset)
                case Switch():
                    self._switch(step, done)
                case Close():
                    self._close(step)
        except OSError as error:
            done.error = error
            done.stage = self._stage
        return done

    def extend(self, number: int, end: int, count_wanted: int, count_min: int) -> int:
        """Reserve room in segment `number` from `end`, and return where it ends now."""
        return reserve(self._open[number].file, end, count_wanted, count_min)

    def release(self) -> None:
        """Let go of all files, whatever state they are in."""
        for number in list(self._open):
            self._close_file(number)

    def _close_file(self, number: int) -> None:
        with contextlib.suppress(OSError):  # all that mattered was synced before
            self._open.pop(number).file.close()

    # -- steps beside which an Append may run: not a word to `_stage` ------------------------------

    def _run_beside(self, step: Beside, done: Done) -> None:
        try:
            match step:
                case Sync():
                    done.stage = "sync"
                    self._timed_sync(self._open[step.number].file)
                case Extend():
                    file = self._open[step.number].file
                    done.end = reserve(file, step.end, step.count, step.count, filled=step.filled)
                case Prepare():
                    done.end = self._prepare(step)
                case TurnOver():
                    self._turn_over(step, done)
                case Retire():
                    self._retire(step)
                case Rebase():
                    self._rebase(step, done)
        except OSError as error:
            done.error = error
            if isinstance(error, UnsyncedError):
                done.stage = "sync"
        else:
            done.stage = ""

    def _prepare(self, step: Prepare) -> int:
        manifests.prepare(self._disk, step.manifest)
        manifests.commit(self._disk)
        name = segment_name(step.number)
        file = self._disk.create(name)
        try:
            end = reserve(file, 0, step.room_wanted, step.room_min, filled=step.filled)
            file.sync()
            self._disk.sync_folder()
        except OSError:
            with contextlib.suppress(OSError):
                file.close()
            self._remove([name])
            raise
        self._use(file, step.number)
        return end

    def _turn_over(self, step: TurnOver, done: Done) -> None:
        segment, file = step.segment, self._open[step.segment.number].file
        done.stage = "sync"
        self._timed_sync(self._open[step.old.number].file)
        done.stage = "prepare"
        self._require_older(step.manifest)
        file.write_at(0, pack_segment_header(self.log_id, segment.number, segment.start, segment.start))
        self._timed_sync(file)
        manifests.prepare(self._disk, step.manifest)
        done.stage = "commit"
        manifests.commit(self._disk)

    def _retire(self, step: Retire) -> None:
        """Failing here costs only room on disk."""
        if step.end is None:
            self._remove([segment_name(step.number)])
        else:
            with contextlib.suppress(OSError):
                self._open[step.number].file.truncate(step.end)
        self._close_file(step.number)

    def _rebase(self, step: Rebase, done: Done) -> None:
        """The base is on disk, and nothing else of the new manifest is new."""
        done.stage = "prepare"
        self._require_older(step.manifest)
        manifests.prepare(self._disk, step.manifest)
        done.stage = "commit"
        manifests.commit(self._disk)
        for name in step.replaced:
            with contextlib.suppress(OSError):
                file = self._disk.open(name)
                done.end += file.size()
                file.close()
        self._remove(list(step.replaced))

    # -- steps -----------------------------------------------------------------------------------

    def _append(self, step: Append) -> None:
        spots = (step.at,) if step.copy is None else (step.at, step.copy)
        self._stage = "write"
        for number, position in spots:
            segment = self._open[number]
            _write_blocks(segment.file, segment.headers, position, step.blocks, step.durable)
        if step.sync:
            self._stage = "sync"
            for number, _ in spots:
                self._timed_sync(self._open[number].file)

    def _close(self, step: Close) -> None:
        number, position = step.append.at
        file = self._open[number].file
        self._append(step.append)
        self._stage = "finish"
        position += sum(block.file_bytes for block in step.append.blocks)
        self._write_mark(Point(number, position), step.offset)
        file.truncate(position + BLOCK_HEADER_BYTES)
        self._timed_sync(file)
        self.release()
        if step.unused is not None:
            self._remove([segment_name(step.unused)])

    def _switch(self, step: Switch, done: Done) -> None:
        self._stage = "prepare"
        for number in step.unused:
            self._close_file(number)
            self._remove([segment_name(number)])
        self._require_older(step.manifest)
        name = step.segment.name
        file = self._disk.create(name)
        try:
            header = pack_segment_header(self.log_id, step.segment.number, step.segment.start, step.durable)
            file.write_at(0, header)
            blocks_bytes = sum(block.file_bytes for block in step.blocks)
            done.end = reserve(
                file,
                SEGMENT_HEADER_BYTES,
                blocks_bytes + step.room_wanted,
                blocks_bytes + step.room_min,
                filled=step.filled,
            )
            headers = BlockHeaders(self.log_id, step.segment.number)
            done.position = _write_blocks(file, headers, SEGMENT_HEADER_BYTES, step.blocks, step.durable)
            self._timed_sync(file)
            self._disk.sync_folder()
            manifests.prepare(self._disk, step.manifest)
            self._stage = "commit"
            manifests.commit(self._disk)
        except OSError:
            self._give_up(name, file)
            raise
        self.release()
        self._use(file, step.segment.number)
        self._remove([*self._in_doubt, *(segment.name for segment in step.replaced)])
        self._in_doubt.clear()

    def _require_older(self, manifest: Manifest) -> None:
        """A log that has lost one of its files must not be said to be well again: no restart could read it."""
        older = manifest.names[:-1]
        if older and not set(older) <= set(self._disk.names()):
            raise OSError(errno.ENOENT, FILE_GONE)

    def _give_up(self, name: str, file: File) -> None:
        """Take back a new segment that did not come into force, unless a manifest on disk may already name it."""
        with contextlib.suppress(OSError):
            file.close()
        if self._stage == "commit":
            self._in_doubt.append(name)
        else:
            self._remove([name])

    def _remove(self, names: list[str]) -> None:
        """Remove files that do not count. One that cannot be removed costs only room, until the next start."""
        for name in names:
            with contextlib.suppress(OSError):
                self._disk.remove(name)

    def _write_mark(self, at: Point, offset: int) -> None:
        segment = self._open[at.number]
        segment.file.write_at(at.position, segment.headers.pack(at.position, offset, offset, b""))

    def _timed_sync(self, file: File) -> None:
        times = self.sync_times
        started_ns = self._timer_ns()
        try:
            file.sync()
        except OSError:
            times.failures += 1
            raise
        times.took(self._timer_ns() - started_ns)


def failure(number: int) -> OSError:
    """The exception for a number that the twin gave back."""
    return OSError(number, FILE_GONE if number == errno.ENOENT else os.strerror(number))


def _write_blocks(file: File, headers: BlockHeaders, position: int, blocks: tuple[Block, ...], durable: int) -> int:
    """Write `blocks` one behind the other, and return where they end."""
    for block in blocks:
        file.write_at(position, headers.pack(position, block.offset, durable, block.payload), block.payload)
        position += block.file_bytes
    return position


class UnsyncedError(OSError):
    """A sync of a file has failed. No lack of room: all else that was written to it is in doubt as well."""


def reserve(file: File, end: int, count_wanted: int, count_min: int, *, filled: bool = False) -> int:
    """Reserve room in `file` behind `end`, what is wanted or at least the minimum, and return where it ends.

    A refused reservation may have taken part of the room: it is given back, others need it. With `filled` the zeros
    are on disk in the end; `UnsyncedError` if a sync has failed meanwhile.
    """
    for count in (count_wanted, count_min):
        if count <= 0:
            return end
        try:
            file.allocate(end, count)
            if filled:
                _fill(file, end, count)
        except UnsyncedError:
            raise
        except OSError:
            file.truncate(end)
            if count == count_min:
                raise
        else:
            return end + count
    raise AssertionError("not reached")


def _fill(file: File, position: int, count: int) -> None:
    """Write and sync the zeros that room reads as.

    A file system only notes that reserved room holds nothing yet; the first sync of a block there has to change that
    note, which is a commit of its journal and doubles what the sync costs.
    """
    zeros = bytes(_FILL_BYTES)
    end = position + count
    while position < end:
        count = min(_FILL_BYTES, end - position)
        file.write_at(position, zeros[:count])
        try:
            file.sync()
        except OSError as error:
            raise UnsyncedError(error.errno, error.strerror) from error
        position += count
