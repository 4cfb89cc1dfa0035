"""Walking over a log block by block, for those who look at it: what is whole, and where and how that ends.

A start (`amemdb.persistence.recovery`) applies records as fast as it can and refuses at the first damage. Here every
block comes with its place, and damage ends the walk and is a value: `Walk.damage`. What counts as whole, and what is
corruption, is decided by the same rules (`amemdb.persistence.codec`); a test walks over thousands of damaged logs and
compares. `lost` goes on behind the damage and counts what can still be read there. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from zlib import crc32

import msgpack

from amemdb.errors import CorruptLogError, StorageError
from amemdb.persistence.base import read_base
from amemdb.persistence.codec import (
    BLOCK_HEADER_BYTES,
    FORMAT_VERSION,
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
from amemdb.persistence.manifest import Segment
from amemdb.persistence.scan import Window, durable_behind, nonzero_end, placed_headers
from amemdb.persistence.view import FolderView
from amemdb.stores.records import Record

Verdict = Literal["torn", "corrupt", "newer"]
"""A tail that the next start cuts off, damage that it refuses, or what only a newer version can read."""

_OF_NEWER = ("unknown kind", "format version")

IN_BASE = -1
"""`Damage.index` where it is the base that is damaged."""


@dataclass(frozen=True, slots=True)
class Block:
    """One whole block of the segment `index` of the manifest, or of the base: then `frames` are bare records.

    `position` is that of its header, `offset` that of its first frame in the stream.
    """

    index: int
    position: int
    offset: int
    payload: bytes
    frames: list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Damage:
    """Where what is whole ends, in file `name` of the manifest's segment `index`. All before `offset` is whole.

    `position` is where to cut: that of the first block which is not whole, 0 if the file is not what it should be.
    `at` is the byte that is wrong, which may lie within the block; `durable` is an offset behind the damage up to which
    everything was on disk, as far as one is known, else 0.
    """

    verdict: Verdict
    index: int
    name: str
    position: int
    at: int
    offset: int
    reason: str
    durable: int = 0


@dataclass(slots=True)
class Lost:
    """What lies behind damage: bytes that are not zero, and what of it can be read in whole blocks."""

    bytes: int = 0
    frames: int = 0
    records: Counter[int] = field(default_factory=Counter)
    """By kind."""
    first_time_ms: int | None = None
    last_time_ms: int | None = None


class Walk:
    """One walk over what `view` holds: `blocks`, once. The counts are those of what was walked over so far."""

    def __init__(self, view: FolderView) -> None:
        self.damage: Damage | None = None
        self.offset = 0
        self.durable_offset = 0
        self.blocks_whole = 0
        self.frames = 0
        self.base_records = 0
        self.bytes = 0
        """Of all files, as far as they have been read."""
        self.closed = False
        """Whether a closing header covers everything."""
        self.ends: dict[str, int] = {}
        """By name of a file, the position up to which it is whole and counts."""
        self._view = view
        self._manifest = view.manifest
        self._reader = FrameReader()

    def blocks(self) -> Iterator[Block]:
        """Every whole block in order, those of the base first; in the end `damage` says whether that was all."""
        try:
            yield from self._base()
            for index, segment in enumerate(self._manifest.segments):
                if self.damage is None:
                    yield from self._segment(index, segment)
        except OSError as error:
            name = self._manifest.names[0] if not self.ends else next(reversed(self.ends))
            raise StorageError(f"{self._view.path(name)} cannot be read: {error.strerror}") from error

    # -- the base --------------------------------------------------------------------------------

    def _base(self) -> Iterator[Block]:
        base = self._manifest.base
        if base is None:
            return
        position = self.ends[base.name] = 0
        size = self._view.open(base.name).size()
        try:
            # By the size that it has, so that what is whole in a file that was cut comes as well.
            for block in read_base(self._view, self._manifest.log_id, replace(base, size=size)):
                yield Block(IN_BASE, block.position, base.offset, b"", block.records)
                position = self.ends[base.name] = block.end
                self.base_records += len(block.records)
            if size != base.size:
                reason = f"the file has {size} bytes instead of {base.size}"
                raise CorruptLogError(self._view.path(base.name), size, reason)
        except CorruptLogError as error:
            reason = "the file is missing" if base.name in self._view.missing else error.reason
            self.damage = Damage(_verdict(reason), IN_BASE, base.name, position, error.position, 0, reason)
        self.offset = base.offset
        self.bytes += position

    # -- one segment -----------------------------------------------------------------------------

    def _segment(self, index: int, segment: Segment) -> Iterator[Block]:
        self.ends[segment.name] = 0
        file = self._view.open(segment.name)
        window = Window(file)
        if not self._header(index, segment, window):
            return
        end, log_id = self._end_of(index), self._manifest.log_id
        position = self.ends[segment.name] = SEGMENT_HEADER_BYTES
        while self.offset != end:
            header = parse_block_header(window.view(position, BLOCK_HEADER_BYTES), log_id, segment.number, position)
            if header is None:
                if end is None and nonzero_end(file, position) == position:
                    break
                self._stop(index, position, "here should be the header of a block")
                return
            payload = bytes(window.view(position + BLOCK_HEADER_BYTES, header.length))
            frames = self._frames(index, position, header, payload, end)
            if frames is None:
                return
            yield Block(index, position, self.offset, payload, frames)
            self._took(header, frames)
            position = self.ends[segment.name] = position + BLOCK_HEADER_BYTES + header.length
        self.bytes += position

    def _end_of(self, index: int) -> int | None:
        """The offset at which that segment stops counting, None for the last one."""
        later = self._manifest.segments[index + 1 :]
        return later[0].start if later else None

    def _header(self, index: int, segment: Segment, window: Window) -> bool:
        data = window.view(0, SEGMENT_HEADER_BYTES)
        try:
            header = parse_segment_header(data)
        except FormatError as error:
            return self._refuse(index, 0, error.reason, error.at)
        if header is None:
            if segment.name in self._view.missing:
                return self._refuse(index, 0, "the file is missing")
            if len(data) == SEGMENT_HEADER_BYTES and nonzero_end(self._view.open(segment.name), 0):
                return self._refuse(index, 0, "the header of the file is not what was written")
            self._stop(index, 0, "the header of the file is gone")
            return False
        if header[:3] != (self._manifest.log_id, segment.number, segment.start):
            return self._refuse(index, 0, "the file belongs to another log or to another place in it")
        self.durable_offset = max(self.durable_offset, header.durable)
        return True

    def _frames(
        self, index: int, position: int, header: BlockHeader, payload: bytes, end: int | None
    ) -> list[tuple[Any, ...]] | None:
        """The frames of a block if it is whole and belongs here; else the walk has ended."""
        if header.version != FORMAT_VERSION:
            self._refuse(index, position, f"a block has format version {header.version}", position + 4)
            return None
        reason = why_not_whole(header, self.offset, payload)
        if reason is not None:
            self._stop(index, position, reason)
            return None
        if end is not None and header.offset + header.length > end:
            self._refuse(index, position, "a block reaches into the next file")
            return None
        try:
            return _read(self._reader, payload)
        except FormatError as error:
            self._refuse(index, position, error.reason, position + BLOCK_HEADER_BYTES + error.at)
            return None

    def _took(self, header: BlockHeader, frames: list[tuple[Any, ...]]) -> None:
        self.blocks_whole += 1
        self.frames += len(frames)
        self.offset += header.length
        self.durable_offset = max(self.durable_offset, header.durable)
        self.closed = header.length == 0

    # -- the end ---------------------------------------------------------------------------------

    def _stop(self, index: int, position: int, reason: str) -> None:
        """What is no whole block: a torn tail, or corruption if more was durable."""
        durable = durable_behind(self._view, self._manifest, index, position, self.offset)
        gone = any(segment.name in self._view.missing for segment in self._manifest.segments[index:])
        if durable > self.offset or gone:
            self._end(index, position, position, reason, "corrupt", durable)
            return
        self._end(index, position, position, reason, "torn")

    def _refuse(self, index: int, position: int, reason: str, at: int | None = None) -> bool:
        self._end(index, position, position if at is None else at, reason, _verdict(reason))
        return False

    def _end(self, index: int, position: int, at: int, reason: str, verdict: Verdict, durable: int = 0) -> None:
        name = self._manifest.segments[index].name
        self.closed = False
        self.bytes += position
        self.damage = Damage(verdict, index, name, position, at, self.offset, reason, durable)


def lost(view: FolderView, damage: Damage) -> Lost:
    """What a cut at `damage` takes away, as far as it can be read. Frames that two files hold count once."""
    found = Lost()
    reader = FrameReader()
    manifest = view.manifest
    first, position = damage.index, damage.position
    if first == IN_BASE:
        assert manifest.base is not None
        found.bytes += max(0, view.open(manifest.base.name).size() - position)
        first, position = 0, 0
    counted = damage.offset
    for index, segment in enumerate(manifest.segments[first:], first):
        later = manifest.segments[index + 1 :]
        file = view.open(segment.name)
        try:
            found.bytes += nonzero_end(file, position) - position
            for at, header in placed_headers(file, manifest.log_id, segment.number, position):
                if header.offset < counted or (later and header.offset >= later[0].start):
                    continue
                payload = file.read_at(at + BLOCK_HEADER_BYTES, header.length)
                if len(payload) == header.length and crc32(payload) == header.crc:
                    try:
                        _count(found, _read(reader, payload))
                    except FormatError:
                        reader = FrameReader()
                    counted = header.offset + header.length
        except OSError:
            pass  # a bad sector; what is counted is "at least"
        position = 0
    return found


def _count(found: Lost, frames: list[tuple[Any, ...]]) -> None:
    if frames:
        found.frames += len(frames)
        found.records.update(record[0] for frame in frames for record in frame[1:])
        found.first_time_ms = frames[0][0] if found.first_time_ms is None else found.first_time_ms
        found.last_time_ms = frames[-1][0]


def offsets_in(payload: bytes, count: int) -> list[int]:
    """Where each of the `count` frames of a whole block's payload begins."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(payload)
    starts = []
    for _ in range(count):
        starts.append(unpacker.tell())
        unpacker.skip()
    return starts


def records_of(block: Block) -> Iterator[Record]:
    """The records of a block, of the base or of a segment."""
    if block.index == IN_BASE:
        yield from block.frames
    else:
        for frame in block.frames:
            yield from frame[1:]


def _read(reader: FrameReader, payload: bytes) -> list[tuple[Any, ...]]:
    """The frames of a payload. `FormatError` if they are not what this version knows."""
    frames = reader.read(payload)
    for index, frame in enumerate(frames):
        reason = misfit(frame)
        if reason is not None:
            raise FormatError(frame_start(payload, index), reason)
    return frames


def _verdict(reason: str) -> Verdict:
    return "newer" if any(words in reason for words in _OF_NEWER) else "corrupt"
