"""What a crash leaves over, and what becomes of it before the next write."""

from __future__ import annotations

import errno
from random import Random
from zlib import crc32

import pytest

from amemdb.errors import CorruptLogError, StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import BLOCK_HEADER_BYTES, SEGMENT_HEADER_BYTES, pack_segment_header
from amemdb.persistence.manifest import (
    Base,
    Manifest,
    Segment,
    base_name,
    base_number,
    pack,
    parse,
    segment_name,
    segment_number,
)
from amemdb.persistence.steps import TurnOver
from amemdb.stores.records import KEY_SET
from tests.persistence.made import LOG_ID, content, make_base, make_log, put_manifest
from tests.persistence.simulated import Driven, SimulatedDisk, Stopped, frame


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


# -- a base ----------------------------------------------------------------------------------------


def based_log() -> tuple[SimulatedDisk, Manifest]:
    """A base with frame 0 and a segment behind it with the frames 1 and 2."""
    disk = SimulatedDisk(Random(1))
    base = make_base(disk, [(KEY_SET, 0, 0, b"v", 0)], number=4, offset=50)
    return disk, make_log(disk, [frame(1), frame(2)], base=base, number=5)


def test_a_base_comes_before_the_segments_and_stays():
    disk, manifest = based_log()
    base = manifest.base
    assert base is not None
    driven = Driven(disk)
    assert driven.numbers == [0, 1, 2]
    assert driven.told == []
    assert driven.log.base == base
    report = driven.report
    assert (report.records, report.frames, report.base_records, report.base_bytes) == (3, 2, 1, base.size)
    assert report.offset == 50 + len(frame(1)) + len(frame(2)) == driven.log.offset
    assert driven.log.disk_bytes >= base.size + report.position
    assert report.bytes == base.size + report.position
    driven.write(3)
    driven.close()
    assert Driven(disk).numbers == [0, 1, 2, 3]
    assert manifests.read(disk) == manifest


def test_an_idle_base_tells_the_time():
    disk = SimulatedDisk(Random(1))
    make_log(disk, [], base=make_base(disk, [], offset=50, time_ms=77), number=5)
    driven = Driven(disk)
    assert (driven.numbers, driven.report.last_time_ms, driven.report.offset) == ([], 77, 50)
    assert driven.log.durable_offset == 50


def test_bases_that_the_manifest_does_not_name_are_removed():
    disk, manifest = based_log()
    assert manifest.base is not None
    put(disk, base_name(3), bytes(disk.file(manifest.base.name)))
    put(disk, base_name(99), b"half a ba")
    driven = Driven(disk)
    assert driven.numbers == [0, 1, 2]
    assert disk.names() == [manifest.base.name, manifest.segments[0].name, manifests.NAME]
    assert [level for level, text in driven.told if "base" in text] == ["notice"] * 2
    disk = stopped_log(0)
    put(disk, base_name(7), b"")
    assert Driven(disk).numbers == [0]
    assert disk.names() == [segment_name(1), manifests.NAME]


def test_a_base_without_a_manifest_is_refused():
    disk, manifest = based_log()
    assert manifest.base is not None
    disk.remove(manifests.NAME)
    before = content(disk)
    with pytest.raises(StorageError, match=r"\.base holds data, but .*log\.manifest is missing"):
        Driven(disk)
    disk.remove(manifest.segments[0].name)
    with pytest.raises(StorageError, match=r"log\.manifest is missing"):
        Driven(disk)
    assert bytes(disk.file(manifest.base.name)) == before[manifest.base.name]


def test_a_spoilt_base_is_refused_and_nothing_is_changed():
    disk, manifest = based_log()
    assert manifest.base is not None
    put(disk, base_name(99), b"half a ba")
    whole = bytes(disk.file(manifest.base.name))
    for data in (b"", whole[:-1], whole[:80] + b"!" + whole[81:], None):
        if data is None:
            disk.remove(manifest.base.name)
        else:
            disk.file(manifest.base.name)[:] = data
        before = content(disk)
        with pytest.raises(CorruptLogError) as refused:
            Driven(disk)
        assert refused.value.file.endswith(manifest.base.name)
        assert content(disk) == before


@pytest.mark.parametrize("size", [0, SEGMENT_HEADER_BYTES - 1])
def test_a_segment_that_lost_its_header_is_replaced_behind_a_base(size: int):
    disk, manifest = based_log()
    del disk.file(segment_name(5))[size:]
    driven = Driven(disk)
    assert (driven.numbers, driven.log.offset) == ([0], 50)
    renewed = manifests.read(disk)
    assert renewed is not None
    assert renewed.base == manifest.base == driven.log.base
    assert driven.log.disk_bytes > manifest.base.size
    driven.write(7)
    driven.close()
    assert Driven(disk).numbers == [0, 7]


def test_a_tail_behind_a_base_takes_later_segments_with_it():
    disk = SimulatedDisk(Random(1))
    base = make_base(disk, [(KEY_SET, 0, 0, b"v", 0)], number=4, offset=50)
    manifest = make_log(disk, [frame(1), frame(2), frame(3)], [], base=base, number=5)
    first, second = manifest.segments
    end = SEGMENT_HEADER_BYTES + BLOCK_HEADER_BYTES + 2 * len(frame(1))
    del disk.file(first.name)[end + 5 :]
    disk.file(second.name)[:] = pack_segment_header(LOG_ID, second.number, second.start, 0)
    driven = Driven(disk)
    assert driven.numbers == [0, 1, 2]
    renewed = manifests.read(disk)
    assert renewed == Manifest(LOG_ID, (first,), manifest.next_number, base)
    driven.write(9)
    driven.close()
    assert Driven(disk).numbers == [0, 1, 2, 9]


def test_a_base_that_replaces_segments_can_be_cut_short_anywhere():
    """As the writer does it: the new manifest, then the old files. Any crash leaves one of the two."""
    for count in range(40):
        for end in ("kill", "power_cut"):
            disk = SimulatedDisk(Random(count))
            manifest = make_log(disk, [frame(0), frame(1)], [frame(2)])
            last = manifest.segments[1]
            disk.stop_in = count
            try:
                changes = [(KEY_SET, 0, number, b"v", 0) for number in range(2)]
                base = make_base(disk, changes, number=9, offset=last.start)
                put_manifest(disk, Manifest(LOG_ID, (last,), 60, base))
                disk.remove(segment_name(1))
                complete = True
            except Stopped:
                complete = False
            getattr(disk, end)()
            driven = Driven(disk)
            assert driven.numbers == [0, 1, 2]
            assert len([name for name in disk.names() if name.endswith((".segment", ".base"))]) == 2
        if complete:
            return
    raise AssertionError("it is never complete")


# -- the manifest itself ---------------------------------------------------------------------------


def test_a_manifest_comes_back_as_it_was():
    manifest = Manifest(LOG_ID, (Segment(1, 0), Segment(4, 100)), 7)
    assert parse(pack(manifest)) == manifest
    with_base = Manifest(LOG_ID, (Segment(4, 100),), 7, Base(2, 100, 1_700_000_000_000, 4096))
    assert parse(pack(with_base)) == with_base
    assert with_base.names == ["log-0000000002.base", "log-0000000004.segment"]


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
        Manifest(LOG_ID, (Segment(1, 0),), 3, Base(2, 100, 0, 64)),
        Manifest(LOG_ID, (Segment(1, 100),), 2, Base(2, 100, 0, 64)),
        Manifest(LOG_ID, (Segment(2, 100),), 3, Base(2, 100, 0, 64)),
        Manifest(LOG_ID, (Segment(1, 100),), 3, Base(2, 100, -1, 64)),
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
    assert base_number(name) is None
    assert base_number(name.replace("segment", "base")) == number
