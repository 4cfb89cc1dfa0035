"""The base file: what is written comes back, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from struct import pack
from zlib import crc32

import pytest

from amemdb.errors import CorruptLogError
from amemdb.persistence.base import (
    BASE_HEADER_BYTES,
    BaseBlock,
    BaseHeader,
    pack_base_header,
    parse_base_header,
    read_base,
)
from amemdb.persistence.codec import (
    BLOCK_BYTES_SOFT,
    BLOCK_HEADER_BYTES,
    FormatError,
    pack_block_header,
    pack_segment_header,
)
from amemdb.persistence.manifest import Base
from amemdb.stores import records
from amemdb.stores.records import Record
from tests.persistence.made import LOG_ID, T, content, make_base
from tests.persistence.simulated import SimulatedDisk

CHANGES: list[Record] = [
    (records.CONVERSATION_SET, b"s", 1000, 0, T, 0),
    (records.TURN_APPENDED, b"s", b"user", b"hello\r\n\x00\xff", T, b"id-1", b'{"a":1}'),
    (records.KEY_SET, 0, b"k", b"v", T + 5),
    (records.SUMMARY_SET, b"a", b"so far", 1, T),
]
NAME = "log-0000000040.base"


def disk_with(changes: list[Record] = CHANGES) -> tuple[SimulatedDisk, Base]:
    disk = SimulatedDisk(Random(1))
    return disk, make_base(disk, changes)


def read(disk: SimulatedDisk, base: Base) -> list[Record]:
    return [record for block in read_base(disk, LOG_ID, base) for record in block.records]


def file_of(*payloads: bytes, closing: tuple[int, int] | None = None, version: int = 1) -> bytes:
    """The bytes of a base with those payloads; `closing` is offset and durable of what closes it."""
    data = pack_base_header(LOG_ID, 40, 1000, T)
    offset = 0
    for payload in payloads:
        data += pack_block_header(LOG_ID, 40, len(data), offset, 0, payload) + payload
        offset += len(payload)
    last = (offset, offset) if closing is None else closing
    return data + pack_block_header(LOG_ID, 40, len(data), *last, b"")


def disk_of(data: bytes) -> tuple[SimulatedDisk, Base]:
    disk = SimulatedDisk(Random(1))
    disk.create(NAME).write_at(0, data)
    return disk, Base(40, 1000, T, len(data))


def test_what_is_written_comes_back():
    disk, base = disk_with()
    assert base == Base(40, 1000, T, len(disk.file(NAME)))
    assert base.name == NAME
    assert read(disk, base) == CHANGES
    assert [block.end for block in read_base(disk, LOG_ID, base)][-1] == base.size


def test_nothing_is_a_base_as_well():
    disk, base = disk_with([])
    assert base.size == BASE_HEADER_BYTES + BLOCK_HEADER_BYTES
    assert list(read_base(disk, LOG_ID, base)) == [BaseBlock(BASE_HEADER_BYTES, base.size, [])]


def test_large_states_are_cut_into_blocks_of_whole_records():
    changes: list[Record] = [(records.KEY_SET, 0, b"%d" % number, b"v" * 1000, 0) for number in range(1000)]
    changes.insert(500, (records.KEY_SET, 0, b"large", b"l" * 3_000_000, 0))
    disk, base = disk_with(changes)
    blocks = list(read_base(disk, LOG_ID, base))
    assert [record for block in blocks for record in block.records] == changes
    alone = [block for block in blocks if block.end - block.position > BLOCK_BYTES_SOFT + BLOCK_HEADER_BYTES]
    assert [len(block.records) for block in alone] == [1]
    assert len(blocks) == 2 + 1 + 2 + 1, "the records before it, it, those after it, and what closes the file"
    assert disk.operations.count("sync") == 1


def test_it_is_synced_now_and_then_while_it_is_written():
    changes: list[Record] = [(records.KEY_SET, 0, b"%d" % number, b"v" * 100_000, 0) for number in range(130)]
    disk, base = disk_with(changes)
    assert disk.operations.count("sync") == 1 + base.size // (4 << 20)
    disk.power_cut()
    assert read(disk, base) == changes


def test_each_flipped_byte_is_refused():
    disk, base = disk_with()
    whole = bytes(disk.file(NAME))
    for at in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            disk.file(NAME)[at] = whole[at] ^ flip
            before = content(disk)
            with pytest.raises(CorruptLogError) as refused:
                read(disk, base)
            assert refused.value.file.endswith(NAME)
            assert refused.value.position == (0 if at < BASE_HEADER_BYTES else start_of_block(base, at))
            assert content(disk) == before
        disk.file(NAME)[at] = whole[at]
    assert read(disk, base) == CHANGES


def start_of_block(base: Base, at: int) -> int:
    """The sample has one block and what closes it."""
    closing = base.size - BLOCK_HEADER_BYTES
    return closing if at >= closing else BASE_HEADER_BYTES


def test_a_base_of_another_size_is_refused():
    disk, base = disk_with()
    whole = bytes(disk.file(NAME))
    for size in range(len(whole)):
        disk.file(NAME)[:] = whole[:size]
        with pytest.raises(CorruptLogError, match=f"{size} bytes instead of {base.size}") as refused:
            read(disk, base)
        assert refused.value.position == size
        with pytest.raises(CorruptLogError):  # a manifest that agrees is of no help
            read(disk, replace(base, size=size))
    for more in (b"\0", bytes(4096), whole):
        disk.file(NAME)[:] = whole + more
        with pytest.raises(CorruptLogError, match="instead of"):
            read(disk, base)
        with pytest.raises(CorruptLogError, match="not at its end"):
            read(disk, replace(base, size=len(whole + more)))


def test_a_base_that_is_not_there_is_refused():
    disk, base = disk_with()
    disk.remove(NAME)
    with pytest.raises(CorruptLogError, match="missing") as refused:
        read(disk, base)
    assert refused.value.position == 0


@pytest.mark.parametrize(
    "other",
    [
        {"number": 41},
        {"offset": 1001},
        {"time_ms": T + 1},
        {"log_id": b"0123456789abcdeX"},
    ],
)
def test_a_base_of_another_place_is_refused(other: dict):
    mine = {"log_id": LOG_ID, "number": 40, "offset": 1000, "time_ms": T}
    disk, base = disk_with()
    disk.file(NAME)[:BASE_HEADER_BYTES] = pack_base_header(**(mine | other))
    with pytest.raises(CorruptLogError, match="another log or to another place"):
        read(disk, base)


def test_a_segment_is_no_base():
    disk, base = disk_with()
    disk.file(NAME)[:BASE_HEADER_BYTES] = pack_segment_header(LOG_ID, 40, 1000, T)
    with pytest.raises(CorruptLogError, match="not what was written"):
        read(disk, base)


def test_a_newer_format_is_told_as_that():
    data = bytearray(pack_base_header(LOG_ID, 40, 1000, T))
    assert parse_base_header(bytes(data)) == BaseHeader(LOG_ID, 40, 1000, T)
    assert parse_base_header(bytes(data[:63])) is None
    newer = header_of_version_2()
    with pytest.raises(FormatError, match="version 2"):
        parse_base_header(newer)
    disk, base = disk_with()
    disk.file(NAME)[:BASE_HEADER_BYTES] = newer
    with pytest.raises(CorruptLogError, match="version 2") as refused:
        read(disk, base)
    assert refused.value.position == 8


def header_of_version_2() -> bytes:
    head = pack("<8sI16sQQQQ", b"AMEMBASE", 2, LOG_ID, 40, 1000, T, 0)
    return head + pack("<I", crc32(head))


PACKED = b"\x95\x32\x00\xc4\x01k\xc4\x01v\x00"
"""KEY_SET 0 k v 0."""


@pytest.mark.parametrize(
    ("payload", "at", "reason"),
    [
        (PACKED + b"\x92\x3f\xc4\x01k", len(PACKED), "unknown kind 63"),
        (PACKED + PACKED[:-1], None, "cut off"),
        (PACKED + b"\xc1", None, "not msgpack"),
        (PACKED + b"\x07", len(PACKED), "not an array"),
        (PACKED + b"\x90", len(PACKED), "not an array"),
        (PACKED + b"\x92\xc3\x00", len(PACKED), "not an array"),
        (b"\x92\x00" + PACKED, 0, "unknown kind 0"),
    ],
)
def test_blocks_of_anything_but_records_are_refused(payload: bytes, at: int | None, reason: str):
    """The last one is a frame."""
    disk, base = disk_of(file_of(PACKED, payload))
    with pytest.raises(CorruptLogError) as refused:
        read(disk, base)
    start = BASE_HEADER_BYTES + 2 * BLOCK_HEADER_BYTES + len(PACKED)
    if at is not None:
        assert refused.value.position == start + at
    assert start <= refused.value.position <= start + len(payload)
    assert reason in refused.value.reason


@pytest.mark.parametrize("closing", [(10, 9), (9, 9), (11, 11), (10, 0), (0, 0)])
def test_what_closes_a_base_says_how_much_there_is(closing: tuple[int, int]):
    assert len(PACKED) == 10
    disk, base = disk_of(file_of(PACKED, closing=(10, 10)))
    assert len(read(disk, base)) == 1
    disk, base = disk_of(file_of(PACKED, closing=closing))
    with pytest.raises(CorruptLogError):
        read(disk, base)


def test_what_closes_a_base_is_nowhere_else():
    middle = file_of(PACKED)
    rest = pack_block_header(LOG_ID, 40, len(middle), 10, 0, PACKED) + PACKED
    closing = pack_block_header(LOG_ID, 40, len(middle + rest), 20, 20, b"")
    disk, base = disk_of(middle + rest + closing)
    with pytest.raises(CorruptLogError, match="not at its end"):
        read(disk, base)


def test_a_block_of_a_base_vouches_for_nothing():
    first = file_of(PACKED)[: BASE_HEADER_BYTES + BLOCK_HEADER_BYTES + len(PACKED)]
    second = pack_block_header(LOG_ID, 40, len(first), 10, 10, PACKED) + PACKED
    closing = pack_block_header(LOG_ID, 40, len(first + second), 20, 20, b"")
    disk, base = disk_of(first + second + closing)
    with pytest.raises(CorruptLogError, match="durable") as refused:
        read(disk, base)
    assert refused.value.position == len(first)


def test_blocks_that_were_moved_are_refused():
    first, second = PACKED, PACKED.replace(b"v", b"w")
    data = file_of(first, second)
    size = BLOCK_HEADER_BYTES + len(PACKED)
    start = BASE_HEADER_BYTES
    swapped = (
        data[:start] + data[start + size : start + 2 * size] + data[start : start + size] + data[start + 2 * size :]
    )
    disk, base = disk_of(swapped)
    with pytest.raises(CorruptLogError, match="header of a block"):
        read(disk, base)


def test_a_disk_that_cannot_be_read_is_no_corruption():
    disk, base = disk_with()

    def broken(name: str, *, write: bool = False) -> object:
        raise OSError(5, "Input/output error")

    disk.open = broken
    with pytest.raises(OSError, match="Input/output"):
        read(disk, base)
