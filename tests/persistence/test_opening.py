"""What a crash leaves over, and what becomes of it before the next write."""

from __future__ import annotations

import errno
from random import Random
from zlib import crc32

import pytest

from amemdb.errors import StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import SEGMENT_HEADER_BYTES, pack_segment_header
from amemdb.persistence.manifest import Manifest, Segment, pack, parse, segment_name, segment_number
from amemdb.persistence.steps import TurnOver
from tests.persistence.simulated import Driven, SimulatedDisk, Stopped

LOG_ID = b"0123456789abcdef"


def stopped_log(*numbers: int) -> SimulatedDisk:
    """A log of those frames, stopped in order."""
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk)
    for number in numbers:
        driven.write(number)
    driven.close()
    return disk


def put(disk: SimulatedDisk, name: str, data: bytes) -> None:
    disk.create(name).write_at(0, data)
    disk.sync_folder()


def test_a_new_log_can_be_cut_short_anywhere_while_it_is_made():
    for count in range(30):
        for end in ("kill", "power_cut"):
            disk = SimulatedDisk(Random(count))
            disk.stop_in = count
            try:
                Driven(disk)
                complete = True
            except Stopped:
                complete = False
            getattr(disk, end)()
            driven = Driven(disk)
            assert driven.numbers == []
            driven.write(1)
            driven.close()
            assert Driven(disk).numbers == [1]
        if complete:
            return
    raise AssertionError("a log is never complete")


def test_segments_with_data_but_without_a_manifest_are_refused():
    disk = stopped_log(0, 1)
    disk.remove(manifests.NAME)
    before = {name: bytes(disk.file(name)) for name in disk.names()}
    with pytest.raises(StorageError, match=r"log\.manifest is missing"):
        Driven(disk)
    assert {name: bytes(disk.file(name)) for name in disk.names()} == before


def test_what_never_came_into_force_is_removed():
    disk = stopped_log(0, 1)
    put(disk, manifests.TEMPORARY_NAME, b"half a mani")
    put(disk, segment_name(2), b"")
    put(disk, segment_name(3), pack_segment_header(LOG_ID, 3, 50, 50) + bytes(1000))
    put(disk, segment_name(4), pack_segment_header(LOG_ID, 4, 50, 50)[:20])
    driven = Driven(disk)
    assert disk.names() == [segment_name(1), manifests.NAME]
    assert driven.numbers == [0, 1]
    assert [level for level, text in driven.told if "left over" in text] == ["notice"] * 3


def test_what_the_manifest_has_replaced_is_removed():
    disk = stopped_log(0, 1)
    manifest = manifests.read(disk)
    assert manifest is not None
    manifests.prepare(disk, Manifest(manifest.log_id, manifest.segments, 9))
    manifests.commit(disk)
    put(disk, segment_name(8), pack_segment_header(LOG_ID, 8, 0, 0) + b"what a failed attempt had written")
    assert Driven(disk).numbers == [0, 1]
    assert disk.names() == [segment_name(1), manifests.NAME]


def test_a_newer_segment_with_data_is_set_aside_and_never_removed():
    """As when a manifest was brought back from an older copy of the folder."""
    disk = stopped_log(0, 1)
    data = pack_segment_header(LOG_ID, 5, 50, 50) + b"data"
    for _ in range(2):
        put(disk, segment_name(5), data)
        driven = Driven(disk)
        assert driven.numbers == [0, 1]
        assert any(level == "warning" and "set aside" in text for level, text in driven.told)
    aside = [name for name in disk.names() if "unused" in name]
    assert len(aside) == 2
    assert all(bytes(disk.file(name)) == data for name in aside)


def test_other_files_in_the_folder_are_left_alone():
    disk = stopped_log(0)
    put(disk, "notes.txt", b"mine")
    put(disk, "log-1.segment", b"mine")
    put(disk, "log-00000000x1.segment", b"mine")
    driven = Driven(disk)
    assert driven.told == []
    assert {"notes.txt", "log-1.segment", "log-00000000x1.segment"} <= set(disk.names())


@pytest.mark.parametrize("size", range(SEGMENT_HEADER_BYTES))
def test_a_segment_that_lost_its_header_is_replaced(size: int):
    disk = stopped_log(0)
    del disk.file(segment_name(1))[size:]
    driven = Driven(disk)
    assert (driven.numbers, driven.report.offset) == ([], 0)
    assert any("header of the file is gone" in text for _, text in driven.told)
    assert disk.names() == [segment_name(2), manifests.NAME]
    driven.write(7)
    driven.close()
    assert Driven(disk).numbers == [7]


def test_a_segment_of_zeros_is_replaced():
    disk = stopped_log(0)
    data = disk.file(segment_name(1))
    data[:] = bytes(len(data))
    driven = Driven(disk)
    driven.write(7)
    driven.close()
    assert Driven(disk).numbers == [7]


def test_a_tail_that_begins_in_an_older_segment_takes_the_later_ones_with_it():
    """Only under the policy `no`, where a segment may be followed by the next before it was synced."""
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk, "no", segment_bytes_max=200)
    driven.write(0)
    driven.run()
    driven.early_chance = 0.0
    driven.write_until(TurnOver)
    disk.faults = {"sync": errno.EIO}
    driven.finish_sync()
    assert driven.log.failure is not None
    disk.faults = {}
    driven.run()
    assert len(driven.log.segments) == 2
    first, second = driven.log.segments
    header = disk.file(second.name)
    header[:SEGMENT_HEADER_BYTES] = pack_segment_header(LOG_ID, second.number, second.start, 0)
    del disk.file(first.name)[140:]
    disk.file(second.name)[SEGMENT_HEADER_BYTES:] = bytes(100)
    again = Driven(disk)
    assert again.numbers == [0]
    assert disk.names() == [first.name, manifests.NAME]
    again.write(9)
    again.close()
    assert Driven(disk).numbers == [0, 9]


def test_a_full_disk_is_no_obstacle_to_the_start():
    disk = stopped_log(0, 1)
    disk.space = 0
    driven = Driven(disk)
    assert driven.numbers == [0, 1]
    assert any("no room" in text for _, text in driven.told)
    assert not driven.write(2)
    disk.space = 1 << 20
    assert driven.write(2)
    driven.close()
    assert Driven(disk).numbers == [0, 1, 2]


@pytest.mark.parametrize("operation", ["sync", "sync_folder"])
def test_a_disk_that_does_not_sync_is_an_obstacle(operation: str):
    disk = stopped_log(0)
    disk.faults = {operation: errno.EIO}
    with pytest.raises(StorageError, match="cannot be written: Input/output error"):
        Driven(disk)


def test_offsets_go_on_where_they_ended():
    disk = stopped_log(0, 1)
    first = Driven(disk)
    assert first.log.offset == first.report.offset == first.log.durable_offset == first.log.released_offset > 0
    first.write(2)
    first.close()
    second = Driven(disk)
    assert second.log.offset > first.report.offset
    assert second.report.last_time_ms == 1_700_000_000_002


def test_starting_and_stopping_does_not_grow_an_idle_log():
    disk = stopped_log(0)
    for _ in range(3):
        driven = Driven(disk)
        driven.run(5.0)
        driven.close()
    sizes = [len(disk.file(segment_name(1)))]
    for _ in range(20):
        driven = Driven(disk)
        driven.run(5.0)
        disk.kill()
    driven = Driven(disk)
    driven.close()
    assert len(disk.file(segment_name(1))) <= sizes[0] + 40


# -- the manifest itself ---------------------------------------------------------------------------


def test_a_manifest_comes_back_as_it_was():
    manifest = Manifest(LOG_ID, (Segment(1, 0), Segment(4, 100)), 7)
    assert parse(pack(manifest)) == manifest


@pytest.mark.parametrize(
    "manifest",
    [
        Manifest(LOG_ID, (), 1),
        Manifest(LOG_ID, (Segment(1, 5),), 2),
        Manifest(LOG_ID, (Segment(1, 0), Segment(2, 0)), 3),
        Manifest(LOG_ID, (Segment(2, 0), Segment(1, 5)), 3),
        Manifest(LOG_ID, (Segment(1, 0),), 1),
        Manifest(b"short", (Segment(1, 0),), 2),
        Manifest(LOG_ID, (Segment(1, 0), Segment(-2, 5)), 3),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(manifest: Manifest):
    with pytest.raises(ValueError):
        parse(pack(manifest))


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"format": 2}', b'{"format": 1}', b"7", b"{", b"\xff"])
def test_a_manifest_of_another_shape_is_refused(body: bytes):
    line = body + b"\n"
    with pytest.raises(ValueError):
        parse(line + b"%08x\n" % crc32(line))


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("log-0000000001.segment", 1),
        ("log-0000000000.segment", 0),
        ("log-12345678901.segment", 12345678901),
        ("log-1.segment", None),
        ("log-000000000x.segment", None),
        ("log-0000000001.segment.unused0", None),
        ("log-00000000\u0661\u0662.segment", None),
        ("log.manifest", None),
        ("", None),
    ],
)
def test_only_our_own_names_are_segments(name: str, number: int | None):
    assert segment_number(name) == number
