"""The base: a file that holds the state at an offset, in place of the log up to there. Its format, writing, reading.

A base is made by compaction (`amemdb.persistence.compaction`) and named by the manifest, which also has its offset,
time and size. It holds the records that rebuild every object (`Stores.dumps`), an object's in a row, so that the
records of the base and of the segments from its offset on give the same state as the whole log. What had ended by the
clock but had not been removed is in it with its expiry: no clock is asked when it is made, and a record that comes
after the base finds what it found in the log.

Base header, 64 bytes at the start of the file
----------------------------------------------
=======  =====  =======================================================================================
byte     size   content
=======  =====  =======================================================================================
0        8      magic ``AMEMBASE``
8        4      format version, 1
12       16     log id
28       8      number, shared with the segments: never used twice in one log
36       8      offset: position in the stream up to which the base stands for the log
44       8      time_ms: time of the last frame before that offset
52       8      zero
60       4      CRC-32 of bytes 0 to 59
=======  =====  =======================================================================================

Blocks follow, one behind the other, with the headers of segments' blocks (`amemdb.persistence.codec`), each bound to
log id, number and position in the file. In a base `offset` counts the bytes of the base's own payloads before the
block, and `durable` is 0. The payload is whole packed records one behind the other, without frames or times. The end
is a closing header: length 0, offset and durable the bytes of all payloads.

What makes a base valid
-----------------------
1. The file has exactly the size that the manifest says.
2. Its header is readable and agrees with the manifest in log id, number, offset and time.
3. Every block is whole, in the sense of the codec's rule 3, down to the closing header, which is the end of the file.
4. Every payload is well-formed records of known kinds.

There is no torn base: the whole file was on disk before a manifest named it. So anything else than the above is
corruption, and the file is refused with the position. A base that no manifest names is of no use, whatever it holds:
it was being made when the process ended, or has been replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgpack

from amemdb.errors import CorruptLogError
from amemdb.persistence.codec import (
    BLOCK_BYTES_SOFT,
    BLOCK_HEADER_BYTES,
    FILE_HEADER_BYTES,
    FORMAT_VERSION,
    KNOWN_KINDS,
    BlockHeader,
    BlockHeaders,
    FormatError,
    FrameReader,
    frame_start,
    misfit_record,
    pack_file_header,
    parse_block_header,
    parse_file_header,
    why_not_whole,
)
from amemdb.persistence.disk import Disk, File
from amemdb.persistence.manifest import Base
from amemdb.persistence.scan import Window
from amemdb.stores.records import Record

BASE_MAGIC = b"AMEMBASE"
BASE_HEADER_BYTES = FILE_HEADER_BYTES

SYNC_BYTES = 4 * 1024 * 1024
"""So much is synced at a time, so that the disk is never busy with it for long while others wait."""


class BaseHeader(NamedTuple):
    """What the first bytes of a base say."""

    log_id: bytes
    number: int
    offset: int
    time_ms: int


def pack_base_header(log_id: bytes, number: int, offset: int, time_ms: int) -> bytes:
    """The 64 bytes that open a base."""
    return pack_file_header(BASE_MAGIC, log_id, number, offset, time_ms)


def parse_base_header(data: bytes | memoryview) -> BaseHeader | None:
    """The header at the start of `data`, or None if there is none. `FormatError` if a newer version wrote it."""
    fields = parse_file_header(data, BASE_MAGIC, "base")
    return None if fields is None else BaseHeader(*fields)


# -- writing -------------------------------------------------------------------------------------


class BaseWriter:
    """Writes one base to a new, empty file, and keeps it open until `close`. It counts once a manifest names it."""

    def __init__(self, file: File, log_id: bytes, number: int, offset: int, time_ms: int) -> None:
        self.records = 0
        self.position = BASE_HEADER_BYTES
        """Where the next block goes: the size of the file so far."""
        self._file = file
        self._number = number
        self._stands_for = (offset, time_ms)
        self._headers = BlockHeaders(log_id, number)
        self._offset = 0
        self._synced = 0
        file.write_at(0, pack_base_header(log_id, number, offset, time_ms))

    def write(self, records: Iterable[Record]) -> Iterator[int]:
        """Write `records`; yields the size of the file after each block. The last block is not left waiting."""
        pack: Callable[[Record], bytes] = msgpack.Packer().pack
        pieces: list[bytes] = []
        size = 0
        for record in records:
            piece = pack(record)
            if size and size + len(piece) > BLOCK_BYTES_SOFT:
                self._block(pieces)
                pieces, size = [], 0
                yield self.position
            pieces.append(piece)
            size += len(piece)
        if pieces:
            self._block(pieces)
            yield self.position

    def _block(self, pieces: list[bytes]) -> None:
        payload = b"".join(pieces)
        self._file.write_at(self.position, self._headers.pack(self.position, self._offset, 0, payload), payload)
        self.position += BLOCK_HEADER_BYTES + len(payload)
        self._offset += len(payload)
        self.records += len(pieces)
        if self.position - self._synced >= SYNC_BYTES:
            self._file.sync()
            self._synced = self.position

    def close(self) -> Base:
        """Write what closes the file, and sync it; its name is for the caller to sync."""
        total = self._offset
        self._file.write_at(self.position, self._headers.pack(self.position, total, total, b""))
        self.position += BLOCK_HEADER_BYTES
        self._file.sync()
        return Base(self._number, *self._stands_for, self.position)


# -- reading -------------------------------------------------------------------------------------


class BaseBlock(NamedTuple):
    """One block of a base as it was read: where it lies, and what is in it."""

    position: int
    end: int
    records: list[Record]


def read_base(disk: Disk, log_id: bytes, base: Base) -> Iterator[BaseBlock]:
    """Every block of `base`, the last one of no records. `CorruptLogError` if the file is not what was written.

    `OSError` when the disk does not give its bytes.
    """
    reader = BaseReader(disk, log_id, base)
    for position, payload in reader.payloads():
        yield BaseBlock(position, position + BLOCK_HEADER_BYTES + len(payload), reader.records(position, payload))


class BaseReader:
    """What `read_base` does, in two steps, for whoever can do without the records."""

    def __init__(self, disk: Disk, log_id: bytes, base: Base) -> None:
        self._disk = disk
        self._path = disk.path(base.name)
        self._log_id = log_id
        self._base = base
        self._reader = FrameReader()

    def payloads(self) -> Iterator[tuple[int, memoryview]]:
        """The position of every block, and its payload, which is whole; the last one is empty."""
        if self._base.name not in self._disk.names():
            raise self._corrupt(0, "the file is missing")
        file = self._disk.open(self._base.name)
        try:
            yield from self._payloads(Window(file))
        finally:
            file.close()

    def _payloads(self, window: Window) -> Iterator[tuple[int, memoryview]]:
        base = self._base
        if window.size != base.size:  # 1
            at = min(window.size, base.size)
            raise self._corrupt(at, f"the file has {window.size} bytes instead of {base.size}")
        self._require_header(window)
        position, offset = BASE_HEADER_BYTES, 0
        while True:
            header = self._block_header(window, position, offset)
            start, end = position + BLOCK_HEADER_BYTES, position + BLOCK_HEADER_BYTES + header.length
            payload = window.view(start, header.length)
            if not header.length:
                break
            reason = why_not_whole(header, offset, payload)
            if reason is not None:
                raise self._corrupt(position, reason)
            yield position, payload
            position, offset = end, offset + header.length
        if header.durable != offset or end != base.size:
            raise self._corrupt(position, "what closes the file is not at its end")
        yield position, payload

    def _require_header(self, window: Window) -> None:
        base = self._base
        try:
            header = parse_base_header(window.view(0, BASE_HEADER_BYTES))
        except FormatError as error:
            raise self._corrupt(error.at, error.reason) from None
        if header is None:  # 2
            raise self._corrupt(0, "the header of the file is not what was written")
        if header != (self._log_id, base.number, base.offset, base.time_ms):
            raise self._corrupt(0, "the file belongs to another log or to another place in it")

    def _block_header(self, window: Window, position: int, offset: int) -> BlockHeader:
        view = window.view(position, BLOCK_HEADER_BYTES)
        header = parse_block_header(view, self._log_id, self._base.number, position)
        if header is None:  # 3
            raise self._corrupt(position, "here should be the header of a block")
        if header.version != FORMAT_VERSION:
            raise self._corrupt(position + 4, f"a block has format version {header.version}")
        if header.offset != offset:
            raise self._corrupt(position, f"a block of offset {header.offset} stands where {offset} should be")
        if header.length and header.durable:
            raise self._corrupt(position, "a block says that something is durable, which no base does")
        return header

    def records(self, position: int, payload: memoryview, start: int = 0) -> list[Record]:
        """The records of the block at `position` from byte `start` of its payload on."""
        payload = payload[start:]
        if not payload:
            return []
        try:
            records = self._reader.read(payload)
            if not _all_known(records):  # 4
                index, reason = next((i, why) for i, one in enumerate(records) if (why := misfit_record(one)))
                raise FormatError(frame_start(payload, index), reason)
        except FormatError as error:
            raise self._corrupt(position + BLOCK_HEADER_BYTES + start + error.at, error.reason) from None
        return records

    def _corrupt(self, position: int, reason: str) -> CorruptLogError:
        return CorruptLogError(self._path, position, reason)


def _all_known(records: list[Any]) -> bool:
    """Whether `misfit_record` finds nothing in any of them. A load is made of millions."""
    known = KNOWN_KINDS
    for record in records:
        if type(record) is not tuple or not record or type(record[0]) is not int or record[0] not in known:
            return False
    return True
