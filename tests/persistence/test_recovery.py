"""Reading logs that were cut, spoilt and extended: what is loaded, what is cut off, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from amemdb.errors import CorruptLogError, StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence import opening, recovery
from amemdb.persistence.codec import (
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    SEGMENT_HEADER_BYTES,
    pack_block_header,
    pack_frame,
    parse_block_header,
)
from amemdb.persistence.manifest import segment_name
from amemdb.persistence.recovery import recover
from amemdb.stores.records import KEY_SET
from amemdb.stores.stores import Stores
from tests.persistence.made import LOG_ID, T, content, make_base, make_log
from tests.persistence.simulated import Driven, SimulatedDisk, frame

FIRST = segment_name(1)


@dataclass
class Place:
    """One block of a sample: where it lies, what it holds, what its header vouches for."""

    position: int
    end: int
    offset: int
    durable: int
    count: int
    """Frames up to its end."""


def sample(blocks: list[int], durables: list[int]) -> tuple[SimulatedDisk, list[Place]]:
    """A log of blocks of so many frames; `durables` counts, for each, the blocks that its header calls durable."""
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk, reserve=4096)
    name = driven.log.segments[0].name
    places: list[Place] = []
    position, offset, number = SEGMENT_HEADER_BYTES, 0, 0
    ends = [0]
    for count, durable in zip(blocks, durables, strict=True):
        payload = b"".join(frame(number + index) for index in range(count))
        header = pack_block_header(LOG_ID, 1, position, offset, ends[durable], payload)
        disk.file(name)[position : position + len(header + payload)] = header + payload
        number += count
        places.append(Place(position, position + len(header + payload), offset, ends[durable], number))
        position += len(header + payload)
        offset += len(payload)
        ends.append(offset)
    return disk, places


def load(disk: SimulatedDisk) -> tuple[list[int], object]:
    """The numbers of the frames that reading applies, and its report."""
    numbers: list[int] = []
    manifest = opening.read(disk)
    assert manifest is not None
    report = recover(disk, manifest, lambda record: numbers.append(record[2]))
    return numbers, report


# -- whole logs ------------------------------------------------------------------------------------


def test_a_whole_log_is_read_completely():
    disk, places = sample([1, 3, 2, 0], [0, 0, 2, 3])
    before = content(disk)
    numbers, report = load(disk)
    assert numbers == [0, 1, 2, 3, 4, 5]
    assert (report.frames, report.records, report.blocks, report.cut) == (6, 6, 4, None)
    assert report.last_time_ms == 1_700_000_000_005
    assert report.position == places[-1].end
    assert report.closed
    assert content(disk) == before


def test_an_empty_log_is_read():
    disk, _ = sample([], [])
    numbers, report = load(disk)
    assert numbers == []
    assert (report.offset, report.position, report.cut) == (0, SEGMENT_HEADER_BYTES, None)


def test_progress_is_told():
    disk, _ = sample([1, 1], [0, 0])
    told: list[tuple[int, int]] = []
    manifest = opening.read(disk)
    assert manifest is not None
    recover(disk, manifest, lambda record: None, lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == len(disk.file(FIRST))


def test_blocks_larger_than_what_is_read_at_once():
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk, reserve=1 << 20)
    sizes = [10, 3_000_000, 0, 1_048_000, 600_000, 600_000]
    for number, size in enumerate(sizes):
        assert driven.write(number, size)
        driven.run()
    driven.close()
    again = Driven(disk)
    assert [(record[2], len(record[3])) for record in again.applied] == list(enumerate(sizes))


# -- torn tails ------------------------------------------------------------------------------------


def test_every_prefix_loads_exactly_its_whole_blocks():
    disk, places = sample([1, 3, 2], [0, 0, 0])
    whole = bytes(disk.file(FIRST))
    for size in range(places[-1].end + 3):
        disk.file(FIRST)[:] = whole[:size]
        before = content(disk)
        numbers, report = load(disk)
        expected = max([0, *(place.count for place in places if place.end <= size)])
        assert numbers == list(range(expected))
        at_border = size in {SEGMENT_HEADER_BYTES, *(place.end for place in places)} or size > places[-1].end
        assert (report.cut is None) == at_border, f"cut at {size}"
        assert content(disk) == before, "reading changes nothing"


def test_after_a_cut_the_log_goes_on_and_survives():
    disk, places = sample([1, 1, 1], [0, 0, 0])
    whole = bytes(disk.file(FIRST))
    for size in range(places[1].end + 1, places[2].end):
        disk = SimulatedDisk(Random(size))
        driven = Driven(disk)
        disk.file(FIRST)[:] = whole[:size]
        driven = Driven(disk)
        assert driven.numbers == [0, 1]
        assert any(level == "warning" and "cut off" in text for level, text in driven.told)
        assert driven.write(7)
        driven.run()
        disk.kill()
        again = Driven(disk)
        assert again.numbers == [0, 1, 7]
        assert again.report.cut is None


@pytest.mark.parametrize("garbage", [b"*3\r\n$3\r\nSET\r\n$zz", b"\xff" * 5000, BLOCK_MAGIC * 30, b"\0" * 700 + b"x"])
def test_garbage_behind_the_last_block_is_cut_off(garbage: bytes):
    disk, places = sample([1, 1], [0, 1])
    end = places[-1].end
    disk.file(FIRST)[end : end + len(garbage)] = garbage
    numbers, report = load(disk)
    assert numbers == [0, 1]
    assert report.cut is not None
    assert (report.cut.position, report.cut.bytes) == (end, len(garbage))
    driven = Driven(disk)
    assert not bytes(disk.file(FIRST))[end:].strip(b"\0"), "what was cut off is gone before the first write"
    assert driven.write(9)
    driven.run()
    assert Driven(disk).numbers == [0, 1, 9]


@pytest.mark.parametrize("count", [1, 39, 40, 4096, 3_000_000])
def test_zeros_behind_the_last_block_are_no_damage(count: int):
    disk, places = sample([1, 1], [0, 1])
    disk.file(FIRST)[places[-1].end :] = bytes(count)
    numbers, report = load(disk)
    assert (numbers, report.cut) == ([0, 1], None)


def test_a_whole_block_behind_a_torn_one_is_not_taken():
    disk, places = sample([1, 1, 1], [0, 0, 0])
    data = disk.file(FIRST)
    data[places[1].position : places[1].end] = bytes(places[1].end - places[1].position)
    numbers, report = load(disk)
    assert numbers == [0]
    assert report.cut is not None
    assert report.cut.bytes >= places[2].end - places[1].position - 1, "but for a last byte that is zero"
    driven = Driven(disk)
    driven.write(5)
    driven.run()
    assert Driven(disk).numbers == [0, 5], "the old third block must not come back behind the new second"


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "durables"),
    [
        ([1, 2, 1], [0, 0, 0]),
        ([1, 2, 1], [0, 1, 2]),
        ([1, 2, 1, 0], [0, 0, 1, 3]),
        ([2, 1, 0, 1, 0], [0, 1, 2, 2, 4]),
    ],
)
def test_each_flipped_byte_is_refused_or_cut_where_it_may_be(blocks: list[int], durables: list[int]):
    disk, places = sample(blocks, durables)
    whole = bytes(disk.file(FIRST))
    for at in range(places[-1].end + 50):
        for flip in (0x01, 0x80, 0xFF):
            data = bytearray(whole)
            data[at] ^= flip
            disk.file(FIRST)[:] = data
            expected = expectation(places, at)
            before = content(disk)
            if expected is None:
                with pytest.raises(CorruptLogError) as refused:
                    load(disk)
                hit = next((place.position for place in places if place.position <= at < place.end), 0)
                assert refused.value.position == hit
                assert FIRST in refused.value.file
            else:
                numbers, report = load(disk)
                assert numbers == list(range(expected))
                assert report.cut is not None
            assert content(disk) == before


def expectation(places: list[Place], at: int) -> int | None:
    """How many frames are loaded when byte `at` is wrong; None if the log must be refused."""
    if at < SEGMENT_HEADER_BYTES:
        return None
    if at >= places[-1].end:
        return places[-1].count
    index = next(index for index, place in enumerate(places) if place.position <= at < place.end)
    header_hit = at < places[index].position + BLOCK_HEADER_BYTES
    vouched = [place.durable for number, place in enumerate(places) if number != index or not header_hit]
    if max(vouched, default=0) > places[index].offset:
        return None
    return places[index - 1].count if index else 0


def test_random_damage_never_gives_a_wrong_record():
    random = Random(5)
    disk, places = sample([1, 3, 2, 0, 1], [0, 1, 1, 3, 3])
    whole = bytes(disk.file(FIRST))
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            start = random.randrange(places[-1].end)
            count = random.choice([1, 2, 30, 200])
            match random.randrange(4):
                case 0:
                    data[start : start + count] = random.randbytes(count)
                case 1:
                    data[start : start + count] = bytes(count)
                case 2:
                    del data[start : start + count]
                case 3:
                    data[start:start] = data[random.randrange(len(data)) :][:count]
        disk.file(FIRST)[:] = data
        try:
            numbers, _ = load(disk)
        except CorruptLogError:
            continue
        assert numbers == list(range(len(numbers)))


def test_a_client_cannot_store_what_reads_as_a_header():
    """A value full of forged headers that vouch for everything lies in a torn block: it is cut, not refused."""
    forged = b"".join(
        pack_block_header(guess, 1, position, 10**9, 10**9, b"")
        for guess in (bytes(16), b"0123456789abcdeX")
        for position in range(300)
    )
    disk, places = sample([1], [0])
    end = places[-1].end
    payload = pack_frame(1, (KEY_SET, 0, 1, forged, 0))
    header = pack_block_header(LOG_ID, 1, end, places[-1].offset + len(frame(0)), 0, payload)
    disk.file(FIRST)[end:] = (header + payload)[:-1]
    numbers, report = load(disk)
    assert numbers == [0]
    assert report.cut is not None


def test_a_file_of_header_beginnings_is_searched_in_reasonable_time():
    disk, places = sample([1], [0])
    disk.file(FIRST)[places[-1].end :] = BLOCK_MAGIC * 100_000
    numbers, report = load(disk)
    assert (numbers, report.cut.bytes) == ([0], 400_000)


# -- content ---------------------------------------------------------------------------------------


def spoilt_payload(payload: bytes) -> SimulatedDisk:
    """A log whose second block is whole and holds `payload`."""
    disk, places = sample([1], [0])
    end = places[-1].end
    header = pack_block_header(LOG_ID, 1, end, len(frame(0)), 0, payload)
    disk.file(FIRST)[end:] = header + payload
    return disk


@pytest.mark.parametrize(
    ("payload", "reason", "place"),
    [
        (pack_frame(1, (63, b"x")), "unknown kind 63", 0),
        (frame(1) + pack_frame(1, (-3, b"x")), "unknown kind -3", len(frame(1))),
        (frame(1)[:-1], "cut off", None),
        (b"\xc1", "not msgpack", None),
        (b"\x07", "not an array", 0),
        (pack_frame(1), "not an array", 0),
    ],
)
def test_a_whole_block_with_unreadable_content_is_refused(payload: bytes, reason: str, place: int | None):
    disk = spoilt_payload(payload)
    before = content(disk)
    with pytest.raises(CorruptLogError, match=reason) as refused:
        load(disk)
    start = len(bytes(disk.file(FIRST))) - len(payload)
    if place is not None:
        assert refused.value.position == start + place
    assert refused.value.position >= start
    assert content(disk) == before


def test_a_bug_in_applying_is_not_taken_for_damage():
    disk, places = sample([1, 1], [0, 0])
    manifest = opening.read(disk)
    assert manifest is not None

    def apply(record: tuple) -> None:
        if record[2] == 1:
            raise KeyError(record[2])

    with pytest.raises(KeyError) as bug:
        recover(disk, manifest, apply)
    assert f"byte {places[1].position} of" in bug.value.__notes__[0]


# -- behind a base ---------------------------------------------------------------------------------


def based(base_count: int = 3) -> SimulatedDisk:
    """A base of so many records, and the frames 10 and 11."""
    disk = SimulatedDisk(Random(1))
    base = make_base(disk, [(KEY_SET, 0, number, b"v", 0) for number in range(base_count)], offset=500, time_ms=7)
    make_log(disk, [frame(10), frame(11)], base=base, number=41)
    return disk


def test_a_base_is_read_before_the_segments():
    disk = based()
    before = content(disk)
    numbers, report = load(disk)
    assert numbers == [0, 1, 2, 10, 11]
    base_bytes, segment_bytes = (len(disk.file(name)) for name in disk.names()[:2])
    assert (report.records, report.base_records, report.frames, report.blocks) == (5, 3, 2, 1)
    assert (report.bytes, report.base_bytes) == (base_bytes + segment_bytes, base_bytes)
    assert (report.offset, report.durable_offset) == (500 + 2 * len(frame(10)), 500)
    assert content(disk) == before


def test_progress_counts_the_base():
    disk = based()
    told: list[tuple[int, int]] = []
    manifest = opening.read(disk)
    assert manifest is not None
    recover(disk, manifest, lambda record: None, lambda done, total: told.append((done, total)))
    assert {total for _, total in told} == {sum(len(disk.file(name)) for name in manifest.names)}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] == told[-1][1]


def test_a_tail_behind_a_base_is_cut_and_the_base_is_not():
    disk = based()
    segment = segment_name(41)
    whole = bytes(disk.file(segment))
    for size in range(len(whole)):
        disk.file(segment)[:] = whole[:size]
        numbers, report = load(disk)
        assert numbers == [0, 1, 2]
        assert (report.offset, report.durable_offset) == (500, 500)
        assert (report.cut is None) == (size == SEGMENT_HEADER_BYTES)


def test_a_bug_in_applying_a_base_is_not_taken_for_damage():
    disk = based()
    manifest = opening.read(disk)
    assert manifest is not None

    def apply(record: tuple) -> None:
        if record[2] == 1:
            raise KeyError(record[2])

    with pytest.raises(KeyError) as bug:
        recover(disk, manifest, apply)
    assert "byte 64 of simulated/log-0000000040.base" in bug.value.__notes__[0]


# -- files -----------------------------------------------------------------------------------------


def rotated() -> SimulatedDisk:
    """A log of three segments with frames 0 to 5."""
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk, segment_bytes_max=150, reserve=300)
    for number in range(6):
        assert driven.write(number)
        driven.run(1.1)
    assert len(driven.log.segments) >= 3
    driven.close()
    return disk


def test_segments_are_read_one_after_the_other():
    assert Driven(rotated()).numbers == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("index", [0, 1, -1])
def test_a_missing_segment_is_refused(index: int):
    disk = rotated()
    segments = opening.read(disk).segments
    disk.remove(segments[index].name)
    before = content(disk)
    with pytest.raises(CorruptLogError, match="missing"):
        load(disk)
    assert content(disk) == before


def test_two_segments_swapped_are_refused():
    disk = rotated()
    first, second = (bytes(disk.file(segment.name)) for segment in opening.read(disk).segments[:2])
    disk.file(segment_name(1))[:] = second
    disk.file(segment_name(2))[:] = first
    with pytest.raises(CorruptLogError, match="another"):
        load(disk)


def test_any_damage_to_an_older_segment_is_refused():
    disk = rotated()
    name = opening.read(disk).segments[0].name
    whole = bytes(disk.file(name))
    for at in range(len(whole)):
        disk.file(name)[:] = whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :]
        try:
            numbers, report = load(disk)
        except CorruptLogError:
            continue
        assert (numbers, report.cut) == ([0, 1, 2, 3, 4, 5], None), "only what is void may be wrong unnoticed"
    for size in (0, 10, 64, 90, 150):
        disk.file(name)[:] = whole[:size]
        with pytest.raises(CorruptLogError):
            load(disk)


def test_each_spoilt_byte_of_the_manifest_is_refused():
    disk = rotated()
    whole = bytes(disk.file(manifests.NAME))
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x04]) + whole[at + 1 :]):
            disk.file(manifests.NAME)[:] = data
            with pytest.raises(StorageError, match=r"log\.manifest"):
                opening.read(disk)


def test_a_disk_that_cannot_be_read_is_no_bug():
    disk, _ = sample([1], [0])
    manifest = opening.read(disk)
    assert manifest is not None

    def broken(name: str, *, write: bool = False) -> object:
        raise OSError(5, "Input/output error")

    disk.open = broken
    with pytest.raises(StorageError, match="Input/output error"):
        recover(disk, manifest, lambda record: None)


@pytest.mark.parametrize("native_apply", [False, True])
def test_marks_are_where_blocks_begin_or_end(native_apply: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recovery, "MARK_BYTES", 300)
    disk = SimulatedDisk(Random(1))
    frames = [pack_frame(T + number, (KEY_SET, 0, b"k%d" % number, b"v" * 60, 0)) for number in range(60)]
    manifest = make_log(disk, frames[:20], frames[20:])
    stores, applied = Stores(), []
    report = recover(disk, manifest, stores.apply if native_apply else applied.append)
    data = bytes(disk.file(segment_name(2)))
    ends = {report.position: report.offset}
    starts = {SEGMENT_HEADER_BYTES: manifest.segments[1].start}
    position = SEGMENT_HEADER_BYTES
    while position < report.position:
        header = parse_block_header(data[position : position + BLOCK_HEADER_BYTES], LOG_ID, 2, position)
        assert header is not None
        starts[position] = header.offset
        position += BLOCK_HEADER_BYTES + header.length
    assert report.marks[0] == (manifest.segments[1].start, SEGMENT_HEADER_BYTES)
    assert all((starts | ends)[at] == offset for offset, at in report.marks)
    assert native_apply or len(report.marks) > 5
