"""Logs written by earlier versions, kept for ever: each must load as it did when it was written."""

from __future__ import annotations

import shutil
from pathlib import Path

from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.manifest import Base
from amemdb.stores import records
from amemdb.stores.stores import Stores
from tests.persistence.simulated import Driven

GOLDEN = Path(__file__).parent / "golden"
T = 1_700_000_000_000

FORMAT_1 = [
    (records.CONVERSATION_SET, b"s", 1000, 0, T, 0),
    (records.TURN_APPENDED, b"s", b"user", b"hello\r\n\x00\xff", T, b"id-1", b'{"a":1}'),
    (records.NOTE_SET, b"s", b"step", b"", T + 3_600_000),
    (records.NAMESPACE_CREATED, b"a", 2, b"cosine", T, 0),
    (records.FACT_STORED, b"a", b"k", 0, b"a fact", bytes.fromhex("0000803f00000000"), 0, None, None, None, T),
    (records.EVENT_LOGGED, b"a", 0, T, b"seen", b"something", None, None),
    (records.SUMMARY_SET, b"a", b"so far", 1, T),
    (records.SUMMARY_APPENDED, b"a", b"so good", 2, T + 1),
    (records.KEY_SET, 0, b"k", b"v", 0),
    (records.KEY_APPENDED, 0, b"k", b"vv"),
    (records.KEY_RANGE_SET, 0, b"k", 5, b"end"),
    (records.KEY_EXPIRY_SET, 0, b"k", T + 1000),
    (records.KEY_SET, 3, b"gone", b"v", 0),
    (records.DATABASE_FLUSHED, 3),
    (records.KEY_SET, 0, b"large", b"x" * 300, 0),
]

FORMAT_1_BASE = [
    *FORMAT_1[:3],
    (records.NAMESPACE_CREATED, b"a", 2, b"cosine", T, 1),
    *FORMAT_1[4:8],
    (records.KEY_SET, 0, b"k", b"vvv\0\0end", T + 1000),
    (records.KEY_SET, 0, b"large", b"x" * 300, 0),
]
"""What the base holds that was made of `FORMAT_1`."""
FORMAT_1_TAIL = [
    (records.KEY_EXPIRY_SET, 0, b"k", 0),
    (records.TURN_APPENDED, b"s", b"user", b"after the base", T + 101, None, None),
    (records.NOTE_DELETED, b"s", b"step"),
]


def test_a_log_of_format_1(tmp_path: Path):
    shutil.copytree(GOLDEN / "format-1", tmp_path / "data")
    disk = FolderDisk(str(tmp_path / "data"))
    loaded = Driven(disk)
    assert loaded.applied == FORMAT_1
    report = loaded.report
    assert (report.frames, report.last_time_ms, report.offset) == (10, T + 9, 709)
    assert report.closed
    assert report.cut is None
    assert len(loaded.log.segments) == 2
    loaded.write(1)
    loaded.close()
    again = Driven(disk)
    assert again.applied[:-1] == FORMAT_1
    disk.close()


def test_a_base_of_format_1(tmp_path: Path):
    shutil.copytree(GOLDEN / "format-1-base", tmp_path / "data")
    disk = FolderDisk(str(tmp_path / "data"))
    loaded = Driven(disk)
    assert loaded.applied == FORMAT_1_BASE + FORMAT_1_TAIL
    report = loaded.report
    assert (report.base_records, report.base_bytes, report.frames) == (10, 715, 2)
    assert (report.last_time_ms, report.offset, report.cut) == (T + 101, 835, None)
    assert loaded.log.base == Base(7, 759, T + 14, 715)
    loaded.write(1)
    loaded.close()
    again = Driven(disk)
    assert again.applied[:-1] == FORMAT_1_BASE + FORMAT_1_TAIL
    disk.close()


def test_its_base_is_the_log_it_was_made_of():
    whole, based = Stores(), Stores()
    whole.apply_all(FORMAT_1 + FORMAT_1_TAIL)
    based.apply_all(FORMAT_1_BASE + FORMAT_1_TAIL)
    assert whole.digest(0) == based.digest(0)
    assert based.keys.expire_at_ms(0, b"k") == 0


def test_its_records_still_apply():
    stores = Stores()
    for record in FORMAT_1:
        stores.apply(record)
    assert stores.conv.sessions[b"s"].seq == 1
    assert stores.keys.databases[0].values[b"k"] == b"vvv\0\0end"
