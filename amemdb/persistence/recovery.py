"""Reading a log: every change handed to `apply`, in order, or the reason why not. Changes nothing on disk.

The rules are those of `amemdb.persistence.codec`; numbers in comments are theirs. Memory is bounded by the largest
block, not by the log. Nothing happens by time in here: what has expired is applied like everything else, and goes
when the server's clock says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from amemdb.errors import CorruptLogError, StorageError
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
)
from amemdb.persistence.disk import Disk, File
from amemdb.persistence.manifest import Manifest, Segment
from amemdb.persistence.scan import Window, durable_behind, nonzero_end
from amemdb.stores.records import Record

Progress = Callable[[int, int], None]
"""Takes the bytes read and the bytes in all."""

_PROGRESS_BYTES = 16 * 1024 * 1024


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
    `closed` is true when a closing header covers everything. `duration_s` is left to the caller.
    """

    offset: int = 0
    last_time_ms: int = 0
    frames: int = 0
    records: int = 0
    blocks: int = 0
    bytes: int = 0
    durable_offset: int = 0
    index: int = 0
    position: int = 0
    closed: bool = False
    cut: Cut | None = None
    duration_s: float = 0.0


def recover(
    disk: Disk, manifest: Manifest, apply: Callable[[Record], None], on_progress: Progress | None = None
) -> RecoveryReport:
    """Apply every record of the log of `manifest`, in order.

    Raises `CorruptLogError` for damage below what was known durable (6) and for content that cannot be read (2, 7),
    `StorageError` when the disk does not give its bytes. An exception of `apply` is a bug and passes, with a note of
    where it happened.
    """
    return _Replay(disk, manifest, apply, on_progress).run()


class _Replay:
    def __init__(
        self, disk: Disk, manifest: Manifest, apply: Callable[[Record], None], on_progress: Progress | None
    ) -> None:
        self._disk = disk
        self._manifest = manifest
        self._apply = apply
        self._on_progress = on_progress
        self._reader = FrameReader()
        self._report = RecoveryReport()
        self._bytes_before = 0
        self._bytes_total = 0
        self._progress_at = 0

    def run(self) -> RecoveryReport:
        name = ""
        try:
            self._measure()
            for index, segment in enumerate(self._manifest.segments):
                name = segment.name
                self._report.index = index
                file = self._disk.open(name)
                try:
                    self._segment(segment, file)
                    if self._report.cut is not None:
                        break
                    self._bytes_before += file.size()
                finally:
                    file.close()
        except OSError as error:
            raise StorageError(f"{self._disk.path(name)} cannot be read: {error.strerror}") from error
        if self._on_progress is not None:
            self._on_progress(self._bytes_total, self._bytes_total)
        return self._report

    def _measure(self) -> None:
        """All files are there (2), and how large they are."""
        names = set(self._disk.names())
        for segment in self._manifest.segments:
            if segment.name not in names:
                raise self._corrupt(segment, 0, "the file is missing")
            file = self._disk.open(segment.name)
            try:
                self._bytes_total += file.size()
            finally:
                file.close()

    # -- one segment -----------------------------------------------------------------------------

    def _segment(self, segment: Segment, file: File) -> None:
        report = self._report
        report.position = 0
        window = Window(file)
        if not self._header(segment, file, window):
            return
        end = self._start_of_next()
        position = report.position = SEGMENT_HEADER_BYTES
        log_id, number = self._manifest.log_id, segment.number
        while report.offset != end:
            header = parse_block_header(window.view(position, BLOCK_HEADER_BYTES), log_id, number, position)
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
        report.bytes += report.position

    def _start_of_next(self) -> int | None:
        """The offset at which the segment being read stops counting, or None in the last one (1)."""
        later = self._manifest.segments[self._report.index + 1 :]
        return later[0].start if later else None

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
        self._report.durable_offset = max(self._report.durable_offset, header.durable)
        return True

    def _why_not_whole(self, header: BlockHeader, payload: memoryview, segment: Segment, position: int) -> str | None:
        if header.version != FORMAT_VERSION:
            raise self._corrupt(segment, position + 4, f"a block has format version {header.version}")
        if header.offset != self._report.offset:
            return f"a block of offset {header.offset} stands where offset {self._report.offset} should be"
        if len(payload) < header.length:
            return f"the file ends inside a block of {header.length} bytes"
        if crc32(payload) != header.crc:
            return f"the checksum of a block of {header.length} bytes is wrong"
        end = self._start_of_next()
        if end is not None and header.offset + header.length > end:
            raise self._corrupt(segment, position, "a block reaches into the next file")
        return None

    # -- one block -------------------------------------------------------------------------------

    def _block(self, segment: Segment, position: int, header: BlockHeader, payload: memoryview) -> None:
        report = self._report
        report.blocks += 1
        report.offset += header.length
        report.durable_offset = max(report.durable_offset, header.durable)
        report.closed = header.length == 0
        try:
            frames = self._reader.read(payload)
            self._frames(frames, payload)
        except FormatError as error:
            raise self._corrupt(segment, position + BLOCK_HEADER_BYTES + error.at, error.reason) from None
        except BaseException as bug:  # passes on; only the place is added
            bug.add_note(f"while applying the block at byte {position} of {self._disk.path(segment.name)}")
            raise
        if self._on_progress is not None and self._bytes_before + position >= self._progress_at:
            self._progress_at = self._bytes_before + position + _PROGRESS_BYTES
            self._on_progress(self._bytes_before + position, self._bytes_total)

    def _frames(self, frames: list[tuple[Any, ...]], payload: memoryview) -> None:
        """Apply the frames of one block (7). Nearly all have one record, and a load is made of millions of them."""
        if not frames:
            return
        report, apply, known = self._report, self._apply, KNOWN_KINDS
        records = 0
        for frame in frames:
            if type(frame) is tuple and len(frame) == 2:
                now_ms, record = frame
                if type(now_ms) is int and type(record) is tuple and record and record[0] in known:
                    apply(record)
                    records += 1
                    continue
            reason = misfit(frame)
            if reason is not None:
                raise FormatError(frame_start(payload, frames.index(frame)), reason)
            for record in frame[1:]:
                apply(record)
            records += len(frame) - 1
        report.frames += len(frames)
        report.records += records
        report.last_time_ms = frames[-1][0]

    # -- damage ----------------------------------------------------------------------------------

    def _damage(self, file: File, position: int, reason: str) -> None:
        """Something that is no whole block: a torn tail, or corruption (5, 6)."""
        report, segments = self._report, self._manifest.segments
        segment = segments[report.index]
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
