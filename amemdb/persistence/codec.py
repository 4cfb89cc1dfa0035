"""The format of the log's files: segments of blocks of frames.

Words
-----
A *record* is one change (`amemdb.stores.records`), packed as a msgpack array `[kind, field, …]`. A
*frame* is what one command or one MULTI did: `[now_ms, record, …]`, the unit of atomicity and of the offset. A
*block* holds the whole frames of one flush and is the unit of checksum. A *segment* is a file of blocks. All frames
of all segments, one behind the other, are the *stream*; an *offset* is a position in it and counts frame bytes
only, so that it means the same on every node, whatever the blocks are. Integers are little endian.

Segment header, 64 bytes at the start of a file
-----------------------------------------------
=======  =====  =======================================================================================
byte     size   content
=======  =====  =======================================================================================
0        8      magic ``AMEMSEG\\0``
8        4      format version, 1
12       16     log id, random, the same in every file of one log
28       8      segment number, never used twice in one log
36       8      start: stream offset of the segment's first frame
44       8      durable: offset known to be on disk when the segment was made (`start`, or less under policy `no`)
52       8      zero
60       4      CRC-32 of bytes 0 to 59
=======  =====  =======================================================================================

Block header, 40 bytes, followed by the payload
-----------------------------------------------
=======  =====  =======================================================================================
0        4      magic ``C1 41 4D 42`` (C1 occurs nowhere as a msgpack type)
4        2      format version, 1
6        2      zero
8        8      offset: stream offset of the payload's first byte
16       8      durable: highest offset known to be on disk when the block was written, at most `offset`
24       4      length of the payload
28       4      CRC-32 of the payload
32       8      check: keyed BLAKE2b of bytes 0 to 31, segment number and position in the file; the key is the log id
=======  =====  =======================================================================================

A *closing header* is a block header of length 0. It is written after a sync when the log falls idle and when it is
closed, and its only purpose is its `durable`. Behind the last block a segment holds zeros up to the end of the room
that was reserved, or nothing after a clean close.

The check of a block header is keyed because a reader looks for headers in damaged regions, which are full of what
clients wrote: with a plain CRC a client could store something that reads as a header and, after a crash, makes the
server refuse to start. The log id is therefore never shown to clients. Number and position are in it so that
neither a block moved elsewhere nor one of another file passes.

What makes a log valid
----------------------
1. The manifest (`amemdb.persistence.manifest`) names the segments; a segment counts from its start up to the start
   of the next one, what it holds beyond is void. A file that the manifest does not name is no part of the log.
2. A segment's header is valid and agrees with the manifest. Header and room were on disk before the manifest named
   the file, so a named file that is missing, or whose header is wrong, is damage. Only a file cut shorter than its
   header, or holding nothing but zeros, counts as a segment without blocks and is judged by rule 6.
3. Blocks lie one behind the other. The first that is not *whole* ends the reading. Whole means: header readable (magic,
   version, check), offset equal to the end of the block before, payload complete, CRC right.
4. Only zeros from there to the end of the last segment, or no more bytes: a clean end.
5. Anything else is damage. The reader goes on looking for readable headers behind it, in this file and in later ones.
6. Damage at offset x is *corruption* if any readable header says that more than x was durable: then nothing is
   changed and the server does not start. Otherwise it is a torn tail: everything from the start of the first block
   that is not whole is cut off, which is reported, before anything is written. Readers themselves change nothing.
7. In a whole block, anything but well-formed frames of known records means a bug or a newer format: refused, with
   position.

Crash story
-----------
Blocks are only ever added behind the last one, at a place that holds zeros; nothing is
overwritten. After a failed write or sync the file is never written again: a new segment starts where memory still
has the frames, and takes over with its manifest.

* One segment follows another: until the manifest that names the new file is in force, every block is written to both,
  and vouched for only when it is on disk in both. So the log is whole under either manifest; what the old file holds
  from the start of the new one on is void by rule 1, and a new file that did not come into force is no part of the log.
* The process is killed: the page cache has every write that returned; at most the last block is partial (its reply
  had not left). Rule 6 cuts it.
* The power fails: of what was written after the last sync any sector may be missing, in any order; missing ones
  read as zeros, since the room was reserved and zero. All of that lies above the last `durable` that a header can
  hold, because a header is written after the sync it speaks of. Rule 6 cuts at the first block touched. What was
  synced reads back whole.
* A tail that was cut is cut off and synced before the first new block, so a later crash cannot bring it back.
* Later damage (a bad sector, a careless copy) to what a header vouches for is told apart from a torn tail by rule
  6. The closing header extends that to the last blocks of an idle or closed log. Under load the last blocks, whose
  durability no header records yet, cannot be told apart.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any, NamedTuple
from zlib import crc32

import msgpack
from msgpack.exceptions import UnpackException

from amemdb.stores import records

FORMAT_VERSION = 1
SEGMENT_MAGIC = b"AMEMSEG\x00"
BLOCK_MAGIC = b"\xc1AMB"
LOG_ID_BYTES = 16

_FILE = struct.Struct("<8sI16sQQQQ")
_CRC = struct.Struct("<I")
_BLOCK = struct.Struct("<4sHHQQII")
_PLACE = struct.Struct("<QQ")
_CHECKED = struct.Struct(_BLOCK.format + "QQ")
"""What the check of a block header covers: its bytes and its place."""
_CHECK_BYTES = 8

FILE_HEADER_BYTES = SEGMENT_HEADER_BYTES = _FILE.size + _CRC.size
BLOCK_HEADER_BYTES = _BLOCK.size + _CHECK_BYTES

FRAME_BYTES_MAX = 2**31 - 1
"""Largest frame that is accepted. A block's length has twice that room, as a frame can turn out larger than
announced."""
BLOCK_BYTES_SOFT = 256 * 1024
"""A block takes no further frame beyond this, so that a reader needs little memory and stays in the processor's caches.
One frame may be larger."""

_NIL = b"\xc0"

KNOWN_KINDS = frozenset(
    kind
    for name, kind in vars(records).items()
    if type(kind) is int and name.isupper() and not name.startswith("_") and name != "KIND_MAX"
)
"""Kinds of records that this version can apply."""


class SegmentHeader(NamedTuple):
    """What the first bytes of a segment say."""

    log_id: bytes
    number: int
    start: int
    durable: int


class BlockHeader(NamedTuple):
    """What the bytes in front of a payload say."""

    version: int
    offset: int
    durable: int
    length: int
    crc: int


class FormatError(Exception):
    """Bytes that passed their checksum and are still not what this version can read. `at` counts from their start."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


# -- headers -------------------------------------------------------------------------------------


def pack_segment_header(log_id: bytes, number: int, start: int, durable: int) -> bytes:
    """The 64 bytes that open a segment."""
    return pack_file_header(SEGMENT_MAGIC, log_id, number, start, durable)


def parse_segment_header(data: bytes | memoryview) -> SegmentHeader | None:
    """The header at the start of `data`, or None if there is none. `FormatError` if a newer version wrote it."""
    fields = parse_file_header(data, SEGMENT_MAGIC, "segment")
    return None if fields is None else SegmentHeader(*fields)


def pack_file_header(magic: bytes, log_id: bytes, number: int, first: int, second: int) -> bytes:
    """The 64 bytes that open a file of the log; what its last two numbers mean, the kind of file says."""
    head = _FILE.pack(magic, FORMAT_VERSION, log_id, number, first, second, 0)
    return head + _CRC.pack(crc32(head))


def parse_file_header(data: bytes | memoryview, magic: bytes, kind: str) -> tuple[bytes, int, int, int] | None:
    """What `pack_file_header` was given behind the magic, or None if there is no such header at the start of `data`.

    `FormatError`, which names the `kind` of file, if a newer version wrote it.
    """
    if len(data) < FILE_HEADER_BYTES:
        return None
    found, version, log_id, number, first, second, _ = _FILE.unpack_from(data)
    if found != magic or crc32(data[: _FILE.size]) != _CRC.unpack_from(data, _FILE.size)[0]:
        return None
    if version != FORMAT_VERSION:
        raise FormatError(8, f"the {kind} has format version {version}, this server reads {FORMAT_VERSION}")
    return log_id, number, first, second


class BlockHeaders:
    """Packs the block headers of segment `number`. One is made for each turn of a busy loop: the key is hashed once."""

    __slots__ = ("_keyed", "_number")

    def __init__(self, log_id: bytes, number: int) -> None:
        self._keyed = _keyed(log_id)
        self._number = number

    def pack(self, position: int, offset: int, durable: int, payload: bytes) -> bytes:
        """The 40 bytes in front of `payload` at `position`."""
        length, crc = len(payload), crc32(payload)
        checked = _CHECKED.pack(BLOCK_MAGIC, FORMAT_VERSION, 0, offset, durable, length, crc, self._number, position)
        check = self._keyed.copy()
        check.update(checked)
        return checked[: _BLOCK.size] + check.digest()


def pack_block_header(log_id: bytes, number: int, position: int, offset: int, durable: int, payload: bytes) -> bytes:
    """The 40 bytes in front of `payload` at `position` of segment `number`."""
    return BlockHeaders(log_id, number).pack(position, offset, durable, payload)


def parse_block_header(data: bytes | memoryview, log_id: bytes, number: int, position: int) -> BlockHeader | None:
    """The header at the start of `data`, which was read at `position` of segment `number`; None if unreadable."""
    if len(data) < BLOCK_HEADER_BYTES:
        return None
    magic, version, _, offset, durable, length, crc = _BLOCK.unpack_from(data)
    if magic != BLOCK_MAGIC or durable > offset:
        return None
    if _check(data[: _BLOCK.size], log_id, number, position) != data[_BLOCK.size : BLOCK_HEADER_BYTES]:
        return None
    return BlockHeader(version, offset, durable, length, crc)


def why_not_whole(header: BlockHeader, offset: int, payload: bytes | memoryview) -> str | None:
    """Why a block with that readable header is not whole where `offset` is due (3), or None if it is."""
    if header.offset != offset:
        return f"a block of offset {header.offset} stands where offset {offset} should be"
    if len(payload) < header.length:
        return f"the file ends inside a block of {header.length} bytes"
    if crc32(payload) != header.crc:
        return f"the checksum of a block of {header.length} bytes is wrong"
    return None


def _check(head: bytes | memoryview, log_id: bytes, number: int, position: int) -> bytes:
    check = _keyed(log_id)
    check.update(bytes(head) + _PLACE.pack(number, position))
    return check.digest()


def _keyed(log_id: bytes) -> blake2b:
    return blake2b(digest_size=_CHECK_BYTES, key=log_id)


# -- frames --------------------------------------------------------------------------------------


def pack_frame(now_ms: int, *changes: records.Record) -> bytes:
    """The bytes of a frame: what the engine makes of a command's records."""
    packed: bytes = msgpack.packb((now_ms, *changes))
    return packed


class FrameReader:
    """Gives back the frames of one payload after the other, strictly.

    A frame is a tuple `(now_ms, record, …)` of tuples. The format has no maps and no extension types, and a frame never
    reaches over the end of its block. Whether it is one that this version knows, `misfit` tells. It reads the bare
    records of a base (`amemdb.persistence.base`) as well.
    """

    __slots__ = ("_fed", "_unpacker")

    def __init__(self) -> None:
        self._unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0, max_map_len=0, max_ext_len=0)
        self._fed = 0

    def read(self, payload: bytes | memoryview) -> list[tuple[Any, ...]]:
        """All frames of one block. `FormatError` if there is anything else; the reader is of no use then."""
        unpacker, start = self._unpacker, self._fed
        unpacker.feed(payload)
        unpacker.feed(_NIL)  # comes back as itself only if no frame is still waiting for more
        self._fed += len(payload) + len(_NIL)
        try:
            frames = list(unpacker)
        except (ValueError, UnpackException) as error:
            raise FormatError(unpacker.tell() - start, f"not msgpack of this format ({error})") from None
        if not frames or frames.pop() is not None:
            raise FormatError(len(payload), "what comes last is cut off by the end of its block")
        return frames


def misfit(frame: Any) -> str | None:
    """Why `frame` is not a frame of this version, or None if it is one."""
    if type(frame) is not tuple or len(frame) < 2 or type(frame[0]) is not int:
        return "a frame is not an array of a time and records"
    for record in frame[1:]:
        reason = misfit_record(record)
        if reason is not None:
            return reason
    return None


def misfit_record(record: Any) -> str | None:
    """Why `record` is not a record of this version, or None if it is one."""
    if type(record) is not tuple or not record or type(record[0]) is not int:
        return "a record is not an array that begins with its kind"
    if record[0] not in KNOWN_KINDS:
        return f"a record has the unknown kind {record[0]}; was it written by a newer version?"
    return None


def frame_start(payload: bytes | memoryview, index: int) -> int:
    """Where frame number `index` of a payload begins."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(payload)
    for _ in range(index):
        unpacker.skip()
    start: int = unpacker.tell()
    return start
