"""Reading a log: every change handed to `apply`, in order, or the reason why not. Changes nothing on disk.

The base comes first if there is one (`amemdb.persistence.base`), then the segments, by the rules of
`amemdb.persistence.codec`; numbers in comments are theirs. Memory is bounded by the largest block, not by the log.
Nothing happens by time in here: what has expired is applied like everything else, and goes when the server's clock
says so.

Closed segments, which compaction reads, were synced before the next one took over: there is no torn tail in them, and
any damage is corruption.

Where the records go straight into `Stores`, native code takes what it can from the front of each payload
(`_replay.pyx`), and what is left is read as everything is for any other `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amemdb import native
from amemdb.errors import CorruptLogError, StorageError
from amemdb.persistence.base import BaseReader
from amemdb.persistence.codec import (
    BLOCK_HEADER_BYTES,
    FORMAT_VERSION,
    KNOWN_KINDS,
    SEGMENT_HEADER_BYTES,
    BlockHeader,
    FormatError,
    FrameReader,
    frame_start,
    misfit,
    parse_block_header,
    parse_segment_header,
    why_not_whole,
)
from amemdb.persistence.disk import Disk, File
from amemdb.persistence.manifest import Base, Manifest, Segment
from amemdb.persistence.scan import Window, durable_behind, nonzero_end
from amemdb.stores.records import Record
from amemdb.stores.stores import Stores

if TYPE_CHECKING or native.ENABLED:
    from amemdb.persistence._replay import Replayer
    from amemdb.persistence._writing import Tail

Progress = Callable[[int, int], None]
"""Takes the bytes read and the bytes in all."""

MARK_BYTES = 1024 * 1024
_PROGRESS_BYTES = 16 * 1024 * 1024
_STORES_APPLY = Stores.apply
_OFFSET_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Cut:
    """A torn tail: from `position` of `file` on nothing counts; `bytes` is how much lay there, zeros aside."""

    file: str
    position: int
    bytes: int
    reason: str


@dataclass(slots=True)
class RecoveryReport:
    """What was read. `offset` is where the log ends, `position` where in segment number `index` of the manifest.

    `position` 0 means that this segment has lost its header. `durable_offset` is the highest that a header recorded.
    `records` and `bytes` are those of the base and the segments together, `base_records` and `base_bytes` the
    base's alone; `frames` and `blocks` are the segments'. `closed` is true when a closing header covers everything.
    `duration_s` is left to the caller. `marks` are offset and position of some blocks of that segment, about one in
    `MARK_BYTES`.
    """

    offset: int = 0
    last_time_ms: int = 0
    frames: int = 0
    records: int = 0
    blocks: int = 0
    bytes: int = 0
    base_records: int = 0
    base_bytes: int = 0
    durable_offset: int = 0
    index: int = 0
    position: int = 0
    closed: bool = False
    cut: Cut | None = None
    duration_s: float = 0.0
    marks: list[tuple[int, int]] = field(default_factory=list, compare=False, repr=False)


def replayer_of(apply: Callable[[Record], None]) -> Replayer | None:
    """What does natively what `apply` does, if that is the method of some `Stores` and nothing lies in between."""
    stores = getattr(apply, "__self__", None)
    if native.ENABLED and type(stores) is Stores and getattr(apply, "__func__", None) is _STORES_APPLY:
        return Replayer(stores)
    return None


def recover(
    disk: Disk, manifest: Manifest, apply: Callable[[Record], None], on_progress: Progress | None = None
) -> RecoveryReport:
    """Apply every record of the log of `manifest`, in order.

    Raises `CorruptLogError` for damage below what was known durable (6), for content that cannot be read (2, 7), and
    for any damage to a base; `StorageError` when the disk does not give its bytes. An exception of `apply` is a bug
    and passes, with a note of where it happened.
    """
    replay = Replay(disk, manifest, apply)
    progress_at = 0
    for read_bytes in replay.blocks():
        if on_progress is not None and read_bytes >= progress_at:
            progress_at = read_bytes + _PROGRESS_BYTES
            on_progress(read_bytes, replay.total_bytes)
    if on_progress is not None:
        on_progress(replay.total_bytes, replay.total_bytes)
    return replay.report


class Replay:
    """One reading of a log, block after block. With `end`, of closed segments that count up to that offset."""

    def __init__(self, disk: Disk, manifest: Manifest, apply: Callable[[Record], None], end: int | None = None) -> None:
        self.report = RecoveryReport()
        self.total_bytes = 0
        """Size of all files, known after the first block."""
        self._disk = disk
        self._manifest = manifest
        self._apply = apply
        self._replayer = replayer_of(apply)
        self._end = end
        self._reader = FrameReader()
        self._bytes_before = 0

    def blocks(self) -> Generator[int, None, None]:
        """Read and apply everything; yields after each block how many bytes of the files are behind it."""
        base, name = self._manifest.base, ""
        try:
            self._measure()
            if base is not None:
                name = base.name
                yield from self._base(base)
                self._bytes_before += base.size
            for index, segment in enumerate(self._manifest.segments):
                name = segment.name
                self.report.index = index
                file = self._disk.open(name)
                try:
                    yield from self._segment(segment, file)
                    if self.report.cut is not None:
                        break
                    self._bytes_before += file.size()
                finally:
                    file.close()
        except OSError as error:
            raise StorageError(f"{self._disk.path(name)} cannot be read: {error.strerror}") from error

    def _measure(self) -> None:
        """All files are there (2), and how large they are."""
        names = set(self._disk.names())
        for name in self._manifest.names:
            if name not in names:
                raise CorruptLogError(self._disk.path(name), 0, "the file is missing")
            file = self._disk.open(name)
            try:
                self.total_bytes += file.size()
            finally:
                file.close()

    def _base(self, base: Base) -> Iterator[int]:
        report, apply, replayer = self.report, self._apply, self._replayer
        report.offset = report.durable_offset = base.offset
        report.last_time_ms = base.time_ms
        reader = BaseReader(self._disk, self._manifest.log_id, base)
        for position, payload in reader.payloads():
            taken = 0
            if replayer is not None:
                with self._applying(base, position):
                    taken = replayer.take_records(payload)
                report.base_records += replayer.record_count
            records = reader.records(position, payload, taken)
            with self._applying(base, position):
                for record in records:
                    apply(record)
            report.base_records += len(records)
            yield position + BLOCK_HEADER_BYTES + len(payload)
        report.records = report.base_records
        report.bytes = report.base_bytes = base.size

    @contextmanager
    def _applying(self, base: Base, position: int) -> Iterator[None]:
        """A bug in applying passes on, and says in which block it was."""
        try:
            yield
        except BaseException as bug:
            self._note(bug, base, position)
            raise

    # -- one segment -----------------------------------------------------------------------------

    def _segment(self, segment: Segment, file: File) -> Iterator[int]:
        report = self.report
        report.position = 0
        window = Window(file)
        if not self._header(segment, file, window):
            return
        end = self._stops_at()
        position = report.position = SEGMENT_HEADER_BYTES
        report.marks = [(report.offset, position)]
        log_id, number = self._manifest.log_id, segment.number
        # Compaction looks at its memory, and whether it is still wanted, after each block.
        tail = None if self._replayer is None or self._end is not None else Tail(-1, log_id, number)
        while report.offset != end:
            view = window.view(position, BLOCK_HEADER_BYTES)
            if tail is not None and (taken := self._small_blocks(tail, segment, window.held(position))):
                position += taken
                self._mark()
                yield self._bytes_before + position
                continue
            header = parse_block_header(view, log_id, number, position)
            if header is None:
                if end is None and nonzero_end(file, position) == position:  # 4
                    break
                self._damage(file, position, "here should be the header of a block")
                return
            payload = window.view(position + BLOCK_HEADER_BYTES, header.length)
            reason = self._why_not_whole(header, payload, segment, position)
            if reason is not None:
                self._damage(file, position, reason)
                return
            self._block(segment, position, header, payload)
            position += BLOCK_HEADER_BYTES + header.length
            report.position = position
            self._mark()
            yield self._bytes_before + position
        report.bytes += report.position

    def _mark(self) -> None:
        report = self.report
        if report.position >= report.marks[-1][1] + MARK_BYTES:
            report.marks.append((report.offset, report.position))

    def _stops_at(self) -> int | None:
        """The offset at which the segment being read stops counting, or None in one that is open (1)."""
        later = self._manifest.segments[self.report.index + 1 :]
        return later[0].start if later else self._end

    def _header(self, segment: Segment, file: File, window: Window) -> bool:
        """Whether the segment's header is there (2); without it the segment may still be a torn tail."""
        data = window.view(0, SEGMENT_HEADER_BYTES)
        try:
            header = parse_segment_header(data)
        except FormatError as error:
            raise self._corrupt(segment, error.at, error.reason) from None
        if header is None:
            if len(data) == SEGMENT_HEADER_BYTES and nonzero_end(file, 0):
                raise self._corrupt(segment, 0, "the header of the file is not what was written")
            self._damage(file, 0, "the header of the file is gone")
            return False
        if header[:3] != (self._manifest.log_id, segment.number, segment.start):
            raise self._corrupt(segment, 0, "the file belongs to another log or to another place in it")
        self.report.durable_offset = max(self.report.durable_offset, header.durable)
        return True

    def _why_not_whole(self, header: BlockHeader, payload: memoryview, segment: Segment, position: int) -> str | None:
        if header.version != FORMAT_VERSION:
            raise self._corrupt(segment, position + 4, f"a block has format version {header.version}")
        reason = why_not_whole(header, self.report.offset, payload)
        end = self._stops_at()
        if reason is None and end is not None and header.offset + header.length > end:
            raise self._corrupt(segment, position, "a block reaches into the next file")
        return reason

    def _small_blocks(self, tail: Tail, segment: Segment, held: memoryview) -> int:
        """Apply what native code takes of the blocks that begin `held`; how many bytes they are."""
        report, replayer, end = self.report, self._replayer, self._stops_at()
        assert replayer is not None
        try:
            end = _OFFSET_MAX if end is None else end
            taken = replayer.take_blocks(tail, held, report.position, report.offset, end)
        except BaseException as bug:  # passes on; only the place is added
            self._note(bug, segment, report.position + replayer.begun)
            raise
        if taken:
            report.position += taken
            report.blocks += replayer.block_count
            report.offset += replayer.payload_bytes
            report.durable_offset = max(report.durable_offset, replayer.durable)
            report.closed = replayer.closed
            self._count(replayer)
        return taken

    # -- one block -------------------------------------------------------------------------------

    def _block(self, segment: Segment, position: int, header: BlockHeader, payload: memoryview) -> None:
        report = self.report
        report.blocks += 1
        report.offset += header.length
        report.durable_offset = max(report.durable_offset, header.durable)
        report.closed = header.length == 0
        taken = 0
        try:
            if self._replayer is not None:
                taken = self._replayer.take_frames(payload)
                self._count(self._replayer)
            if taken < len(payload):
                rest = payload[taken:]
                self._frames(self._reader.read(rest), rest)
        except FormatError as error:
            at = position + BLOCK_HEADER_BYTES + taken + error.at
            raise self._corrupt(segment, at, error.reason) from None
        except BaseException as bug:  # passes on; only the place is added
            self._note(bug, segment, position)
            raise

    def _count(self, replayer: Replayer) -> None:
        """Count what was taken natively."""
        report = self.report
        report.records += replayer.record_count
        if replayer.frame_count:
            report.frames += replayer.frame_count
            report.last_time_ms = replayer.time_ms

    def _note(self, bug: BaseException, file: Base | Segment, position: int) -> None:
        bug.add_note(f"while applying the block at byte {position} of {self._disk.path(file.name)}")

    def _frames(self, frames: list[tuple[Any, ...]], payload: memoryview) -> None:
        """Apply the frames of one block (7). Nearly all have one record, and a load is made of millions of them."""
        report, apply, known = self.report, self._apply, KNOWN_KINDS
        records = 0
        for frame in frames:
            if type(frame) is tuple and len(frame) == 2:
                now_ms, record = frame
                is_one = type(now_ms) is int and type(record) is tuple and len(record) > 0
                if is_one and type(record[0]) is int and record[0] in known:
                    apply(record)
                    records += 1
                    continue
            reason = misfit(frame)
            if reason is not None:
                index = next(index for index, one in enumerate(frames) if one is frame)
                raise FormatError(frame_start(payload, index), reason)
            for record in frame[1:]:
                apply(record)
            records += len(frame) - 1
        report.frames += len(frames)
        report.records += records
        report.last_time_ms = frames[-1][0]

    # -- damage ----------------------------------------------------------------------------------

    def _damage(self, file: File, position: int, reason: str) -> None:
        """Something that is no whole block: a torn tail, or corruption (5, 6)."""
        report, segments = self.report, self._manifest.segments
        segment = segments[report.index]
        if self._end is not None:
            raise self._corrupt(segment, position, reason)
        durable = durable_behind(self._disk, self._manifest, report.index, position, report.offset)
        if durable > report.offset:
            raise self._corrupt(
                segment, position, f"{reason}; it is whole up to offset {report.offset}, and {durable} was durable"
            )
        report.closed = False
        report.position = position
        report.bytes += position
        count = nonzero_end(file, position) - position
        for later in segments[report.index + 1 :]:
            other = self._disk.open(later.name)
            try:
                count += nonzero_end(other, 0)
            finally:
                other.close()
        report.cut = Cut(self._disk.path(segment.name), position, count, reason)

    def _corrupt(self, segment: Segment, position: int, reason: str) -> CorruptLogError:
        return CorruptLogError(self._disk.path(segment.name), position, reason)
