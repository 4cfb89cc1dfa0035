"""Looking at the bytes of segments: by position, for the end of what is not zero, and for headers behind damage."""

from __future__ import annotations

from collections.abc import Iterator

from amemdb.persistence.codec import (
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    SEGMENT_HEADER_BYTES,
    BlockHeader,
    FormatError,
    SegmentHeader,
    parse_block_header,
    parse_segment_header,
)
from amemdb.persistence.disk import Disk, File
from amemdb.persistence.manifest import Manifest, Segment, base_number, segment_number

CHUNK_BYTES = 1024 * 1024


class Window:
    """The bytes of a file by position. Reads a chunk, or what is asked for if that is more, and keeps only that."""

    def __init__(self, file: File) -> None:
        self.size = file.size()
        self._file = file
        self._data = b""
        self._base = 0

    def view(self, position: int, count: int) -> memoryview:
        """`count` bytes from `position`, fewer only where the file ends."""
        count = max(0, min(count, self.size - position))
        start = position - self._base
        if start < 0 or start + count > len(self._data):
            self._data = b""
            self._data = self._file.read_at(position, min(max(count, CHUNK_BYTES), self.size - position))
            self._base, start = position, 0
        return memoryview(self._data)[start : start + count]

    def held(self, position: int) -> memoryview:
        """What is kept from `position` on, which was looked at just now."""
        return memoryview(self._data)[position - self._base :]


def nonzero_end(file: File, position: int) -> int:
    """The position behind the last byte from `position` on that is not zero; `position` if there is none."""
    end = position
    size = file.size()
    zeros = bytes(CHUNK_BYTES)
    for base in range(position, size, CHUNK_BYTES):
        data = file.read_at(base, min(CHUNK_BYTES, size - base))
        if data != (zeros if len(data) == CHUNK_BYTES else zeros[: len(data)]):
            end = base + len(data.rstrip(b"\0"))
    return end


def is_without_blocks(file: File) -> bool:
    """Whether a segment provably holds no frames: nothing but zeros behind its header."""
    return nonzero_end(file, SEGMENT_HEADER_BYTES) == SEGMENT_HEADER_BYTES


def has_blocks(disk: Disk, name: str) -> bool:
    """Whether the segment in file `name` may hold frames."""
    file = disk.open(name)
    try:
        return not is_without_blocks(file)
    finally:
        file.close()


def holds_data(disk: Disk, name: str) -> bool:
    """Whether that file is of a log which has, or had, a manifest."""
    return base_number(name) is not None or (segment_number(name) is not None and has_blocks(disk, name))


def readable_headers(file: File, log_id: bytes, number: int, position: int) -> Iterator[BlockHeader]:
    """Every block header that can be read from `position` on, whatever lies between."""
    return (header for _, header in placed_headers(file, log_id, number, position))


def placed_headers(file: File, log_id: bytes, number: int, position: int) -> Iterator[tuple[int, BlockHeader]]:
    """The same, each with the position of its first byte.

    A payload behind a readable header is passed over: the check is keyed, so the header is ours and its length is
    right.
    """
    size = file.size()
    while position + BLOCK_HEADER_BYTES <= size:
        data = file.read_at(position, min(CHUNK_BYTES, size - position))
        at = data.find(BLOCK_MAGIC)
        while 0 <= at <= len(data) - BLOCK_HEADER_BYTES:
            header = parse_block_header(data[at : at + BLOCK_HEADER_BYTES], log_id, number, position + at)
            if header is None:
                at = data.find(BLOCK_MAGIC, at + 1)
            else:
                yield position + at, header
                behind = at + BLOCK_HEADER_BYTES + header.length
                at = data.find(BLOCK_MAGIC, behind)
                if at < 0 and behind > len(data) - len(BLOCK_MAGIC):
                    at = behind
        position += at if at >= 0 else max(1, len(data) - len(BLOCK_MAGIC) + 1)


def segment_header(file: File, manifest: Manifest, segment: Segment) -> SegmentHeader | None:
    """The header of `segment` if it can be read and is the one that the manifest means."""
    try:
        header = parse_segment_header(file.read_at(0, SEGMENT_HEADER_BYTES))
    except FormatError:
        return None
    if header is None or header[:3] != (manifest.log_id, segment.number, segment.start):
        return None
    return header


def durable_behind(disk: Disk, manifest: Manifest, index: int, position: int, enough: int) -> int:
    """The highest durable offset that any header records from `position` of segment `index` on.

    Stops early once it is above `enough`.
    """
    highest = 0
    for segment in manifest.segments[index:]:
        file = disk.open(segment.name)
        try:
            if position == 0 and (header := segment_header(file, manifest, segment)) is not None:
                highest = max(highest, header.durable)
            for block in readable_headers(file, manifest.log_id, segment.number, position):
                highest = max(highest, block.durable)
                if highest > enough:
                    break
        finally:
            file.close()
        if highest > enough:
            break
        position = 0
    return highest
