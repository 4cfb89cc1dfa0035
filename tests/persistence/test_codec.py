"""The bytes of headers and frames: what is readable, and that nothing else is."""

from __future__ import annotations

import msgpack
import pytest

from amemdb.persistence.codec import (
    BLOCK_HEADER_BYTES,
    KNOWN_KINDS,
    SEGMENT_HEADER_BYTES,
    FormatError,
    FrameReader,
    frame_start,
    misfit,
    pack_block_header,
    pack_frame,
    pack_segment_header,
    parse_block_header,
    parse_segment_header,
)
from amemdb.stores import records

LOG_ID = bytes(range(16))


def test_a_segment_header_says_what_was_written():
    data = pack_segment_header(LOG_ID, 7, 1000, 900)
    assert len(data) == SEGMENT_HEADER_BYTES == 64
    assert parse_segment_header(data) == (LOG_ID, 7, 1000, 900)
    assert parse_segment_header(data + b"more") == (LOG_ID, 7, 1000, 900)


def test_no_other_bytes_are_a_segment_header():
    data = pack_segment_header(LOG_ID, 7, 1000, 900)
    for at in range(len(data)):
        assert parse_segment_header(data[:at]) is None
        for bit in range(8):
            spoilt = bytearray(data)
            spoilt[at] ^= 1 << bit
            assert parse_segment_header(bytes(spoilt)) is None
    assert parse_segment_header(bytes(64)) is None


def test_a_segment_of_a_newer_version_is_not_taken_for_damage(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("amemdb.persistence.codec.FORMAT_VERSION", 2)
    newer = pack_segment_header(LOG_ID, 1, 0, 0)
    monkeypatch.undo()
    with pytest.raises(FormatError, match="version 2"):
        parse_segment_header(newer)


def test_a_block_header_says_what_was_written():
    data = pack_block_header(LOG_ID, 3, 64, 500, 400, b"payload")
    assert len(data) == BLOCK_HEADER_BYTES == 40
    header = parse_block_header(data, LOG_ID, 3, 64)
    assert header is not None
    assert (header.version, header.offset, header.durable, header.length) == (1, 500, 400, 7)


def test_no_other_bytes_are_a_block_header():
    data = pack_block_header(LOG_ID, 3, 64, 500, 400, b"payload")
    for at in range(len(data)):
        assert parse_block_header(data[:at], LOG_ID, 3, 64) is None
        for bit in range(8):
            spoilt = bytearray(data)
            spoilt[at] ^= 1 << bit
            assert parse_block_header(bytes(spoilt), LOG_ID, 3, 64) is None
    assert parse_block_header(bytes(40), LOG_ID, 3, 64) is None


def test_a_block_header_counts_only_where_it_was_written():
    data = pack_block_header(LOG_ID, 3, 64, 500, 400, b"payload")
    assert parse_block_header(data, LOG_ID, 3, 65) is None, "another position"
    assert parse_block_header(data, LOG_ID, 4, 64) is None, "another segment"
    assert parse_block_header(data, bytes(16), 3, 64) is None, "another log"


def test_a_header_cannot_vouch_for_what_comes_after_it():
    assert parse_block_header(pack_block_header(LOG_ID, 1, 64, 10, 11, b""), LOG_ID, 1, 64) is None


def test_frames_come_back_as_the_tuples_they_were():
    changes = [
        (records.KEY_SET, 0, b"k\x00\r\n\xff", b"", 0),
        (records.TURN_APPENDED, b"s", b"user", b"x", 5, None, None),
    ]
    payload = pack_frame(1, changes[0]) + pack_frame(2, *changes)
    assert FrameReader().read(payload) == [(1, changes[0]), (2, *changes)]


def test_a_reader_takes_block_after_block():
    reader = FrameReader()
    for now_ms in range(3):
        assert reader.read(pack_frame(now_ms, (records.ALL_FLUSHED,))) == [(now_ms, (records.ALL_FLUSHED,))]
        assert reader.read(b"") == []


def test_a_frame_ends_with_its_block():
    data = pack_frame(1, (records.KEY_SET, 0, b"k", b"v" * 50, 0))
    for count in range(1, len(data)):
        with pytest.raises(FormatError) as error:
            FrameReader().read(data + data[:count])
        assert error.value.at >= len(data), "the first frame was whole"


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",
        msgpack.packb({b"a": 1}),
        msgpack.packb((1, {b"a": 1})),
        msgpack.packb((1, msgpack.ExtType(1, b"x"))),
        msgpack.packb((1, (1, "x")))[:-1] + b"\xff",
        b"\x91" * 5000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ],
)
def test_what_the_format_does_not_have_is_refused(payload: bytes):
    with pytest.raises(FormatError):
        FrameReader().read(payload)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (7, "frame"),
        ((), "frame"),
        ((1,), "frame"),
        ((None, (records.ALL_FLUSHED,)), "frame"),
        ((True, (records.ALL_FLUSHED,)), "frame"),
        ((1, 5), "record"),
        ((1, ()), "record"),
        ((1, (b"x",)), "record"),
        ((1, (True, b"s")), "record"),
        ((1, (records.ALL_FLUSHED,), (0,)), "unknown kind 0"),
        ((1, (-1,)), "unknown kind -1"),
        ((1, (records.KIND_MAX + 1,)), "unknown kind"),
    ],
)
def test_a_misfit_is_told_apart(frame: object, reason: str):
    told = misfit(frame)
    assert told is not None
    assert reason in told


def test_every_kind_of_record_is_known():
    assert {records.CONVERSATION_SET, records.NOTE_SET, records.FACT_STORED, records.ALL_FLUSHED} <= KNOWN_KINDS
    assert all(0 < kind <= records.KIND_MAX for kind in KNOWN_KINDS)
    for kind in KNOWN_KINDS:
        assert misfit((1, (kind,))) is None


def test_the_place_of_a_frame_can_be_found_again():
    frames = [pack_frame(1, (records.ALL_FLUSHED,)), pack_frame(2, (records.KEY_DELETED, 0, b"k")), pack_frame(3, (7,))]
    payload = b"".join(frames)
    assert [frame_start(payload, index) for index in range(3)] == [0, len(frames[0]), len(frames[0] + frames[1])]
