"""A log cut at every byte, and spoilt at twenty thousand: what is loaded is a state that there was, or nothing.

Cut anywhere, a log loads to exactly its whole blocks, takes writes, and keeps them. Spoilt anywhere, it is refused by
name and position, or cut where no readable header says that more was durable. What is held afterwards is always what
was held at the end of some frame; the only exceptions that come are those that a person is meant to read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random, SystemRandom

import pytest

from amemdb.errors import CorruptLogError, StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import BLOCK_HEADER_BYTES, SEGMENT_HEADER_BYTES, pack_frame
from amemdb.stores.records import KEY_SET
from amemdb.stores.stores import Stores
from tests.persistence import sample as samples
from tests.persistence.sample import Sample, apply, content, disk_of, load
from tests.persistence.simulated import Driven, SimulatedDisk

KINDS = ("closed", "busy", "based")
CORRUPTIONS = 20_000
SHARES = 8
"""Tests that the corruptions are divided among, for the sake of processors."""
EXTRA = pack_frame(1_800_000_000_000, (KEY_SET, 9, b"after", b"the damage", 0))


@cache
def sample(kind: str) -> Sample:
    """The sample of that kind; nobody changes it."""
    whole = samples.sample(closed=kind == "closed")
    return samples.based(whole) if kind == "based" else whole


def goes_on(disk: SimulatedDisk, state: Stores) -> None:
    """The log that was loaded to `state` takes a write, and has it after the next start."""
    driven = Driven(disk, "always")
    assert driven.log.refuse_write(len(EXTRA)) is None
    driven.log.append(EXTRA)
    driven.run()
    assert driven.log.released_offset == driven.log.offset
    disk.kill()
    again, report = load(disk)
    assert report.cut is None
    apply(state, EXTRA)
    assert again.digest(0) == state.digest(0)


# -- prefixes --------------------------------------------------------------------------------------


def prefixes(log: Sample, name: str) -> Iterator[tuple[int, SimulatedDisk]]:
    """The log with one file cut after each number of bytes, and once more with zeros where the rest was.

    With it comes how many bytes of the file are right, which may be more: some of the rest can be zeros anyhow.
    """
    whole = log.files[name]
    for size in range(len(whole) + 1):
        yield size, disk_of({**log.files, name: whole[:size]})
        right = size
        while right < len(whole) and not whole[right]:
            right += 1
        yield right, disk_of({**log.files, name: whole[:size] + bytes(len(whole) - size)})


def is_half_a_header(disk: SimulatedDisk, log: Sample, name: str) -> bool:
    """Whether a segment begins with a header of which a part was zeroed.

    No crash does that: it was on disk as a whole before it counted.
    """
    head, whole = disk.file(name)[:SEGMENT_HEADER_BYTES], log.files[name][:SEGMENT_HEADER_BYTES]
    return len(head) == SEGMENT_HEADER_BYTES and any(head) and head != whole


@pytest.mark.parametrize(("kind", "count"), [*product(("closed", "busy"), (1, 2, 3)), ("based", 1)])
def test_each_prefix_loads_to_its_whole_blocks(kind: str, count: int) -> None:
    """Each segment is cut as it was while it was the last one."""
    log = sample(kind).as_it_was(count)
    name = log.last_name
    places = [place for place in log.places if place.name == name]
    for number, (size, disk) in enumerate(prefixes(log, name)):
        before = content(disk)
        if is_half_a_header(disk, log, name):
            with pytest.raises(CorruptLogError, match="byte 0"):
                load(disk)
            assert content(disk) == before
            continue
        state, report = load(disk)
        whole = [place for place in places if place.end <= size]
        begun = log.manifest.segments[-1].start
        assert report.offset == (whole[-1].end_offset if whole else begun), f"cut after {size} bytes"
        assert state.digest(0) == log.states[report.offset], f"cut after {size} bytes"
        assert content(disk) == before, "reading changes nothing"
        ends = {SEGMENT_HEADER_BYTES, *(place.end for place in places)}
        if size >= SEGMENT_HEADER_BYTES and size in ends:
            assert report.cut is None, f"cut after {size} bytes, which is the end of a block"
        if number % 13 == 0 or size in ends:
            goes_on(disk, state)


@pytest.mark.parametrize("kind", ["closed", "busy"])
def test_a_prefix_of_an_older_segment_is_refused(kind: str) -> None:
    log = sample(kind)
    for segment in log.manifest.segments[:-1]:
        end = log.counted_end(segment.name)
        for size, disk in prefixes(log, segment.name):
            before = content(disk)
            if size < end and disk.file(segment.name) != log.files[segment.name]:
                with pytest.raises(CorruptLogError) as refused:
                    load(disk)
                assert segment.name in refused.value.file
                assert refused.value.position <= size
            else:
                state, report = load(disk)
                assert state.digest(0) == log.states[log.offset]
                assert report.cut is None
            assert content(disk) == before


def test_a_prefix_of_the_base_is_refused() -> None:
    """It was synced before anything named it."""
    log = sample("based")
    assert log.manifest.base is not None
    name = log.manifest.base.name
    for _, disk in prefixes(log, name):
        before = content(disk)
        if disk.file(name) != log.files[name]:
            with pytest.raises(CorruptLogError) as refused:
                load(disk)
            assert name in refused.value.file
        else:
            state, _ = load(disk)
            assert state.digest(0) == log.states[log.offset]
        assert content(disk) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_prefix_of_the_manifest_is_refused(kind: str) -> None:
    log = sample(kind)
    for size, disk in prefixes(log, manifests.NAME):
        if disk.file(manifests.NAME) != log.files[manifests.NAME]:
            with pytest.raises(StorageError, match=r"log\.manifest"):
                load(disk)
        else:
            assert size >= len(log.files[manifests.NAME]) - 1


# -- single bytes ----------------------------------------------------------------------------------


def expected(log: Sample, name: str, at: int) -> int | None:
    """Up to which offset the log loads when byte `at` of that file is wrong; None if it must be refused."""
    segments = [segment.name for segment in log.manifest.segments]
    if name not in segments or at < SEGMENT_HEADER_BYTES:
        return None
    if name != log.last_name and at >= log.counted_end(name):
        return log.offset
    hit = next((place for place in log.places if place.name == name and place.position <= at < place.end), None)
    if hit is None:
        return log.offset
    unread = hit if at < hit.position + BLOCK_HEADER_BYTES else None
    vouched = [*log.durables.values(), *(place.durable for place in log.places if place is not unread)]
    return None if max(vouched) > hit.offset else hit.offset


def spoil(log: Sample, random: Random) -> tuple[str, int, bytes]:
    """A file, a byte of it, and what the file is with that byte wrong."""
    [name] = random.choices(list(log.files), list(map(len, log.files.values())))
    data = log.files[name]
    at = random.randrange(len(data))
    old = data[at]
    new = random.choice([old ^ 1 << random.randrange(8), 0, 0xFF, random.randrange(256)])
    if new == old:
        new = old ^ 0x55
    return name, at, data[:at] + bytes([new]) + data[at + 1 :]


def corrupt(seed: int) -> bool:
    """One wrong byte; whether the log was refused."""
    random = Random(seed)
    log = sample(random.choice(KINDS))
    name, at, data = spoil(log, random)
    try:
        return is_refused(log, name, at, data, goes_on_after=not seed % 10)
    except BaseException as error:
        error.add_note(f"seed {seed}: byte {at} of {name} was {log.files[name][at]:#x} and is {data[at]:#x}")
        raise


def is_refused(log: Sample, name: str, at: int, data: bytes, *, goes_on_after: bool) -> bool:
    """Whether the log is refused, as it must or must not be, with `data` in that file, of which byte `at` is wrong."""
    disk = log.disk()
    disk.file(name)[:] = data
    before = content(disk)
    offset = expected(log, name, at)
    if offset is None:
        with pytest.raises(StorageError) as refused:
            load(disk)
        assert name in str(refused.value)
        assert content(disk) == before
        return True
    state, report = load(disk)
    assert report.offset == offset, "it was cut elsewhere"
    assert state.digest(0) == log.states[report.offset]
    assert content(disk) == before
    if goes_on_after:
        goes_on(disk, state)
    return False


@pytest.mark.soak
@pytest.mark.parametrize("share", range(SHARES))
def test_a_wrong_byte_is_refused_or_cut_and_never_served(share: int, soak_seconds: int) -> None:
    refused = 0
    for seed in range(share, CORRUPTIONS, SHARES):
        refused += corrupt(seed)
    assert 0.3 < refused / (CORRUPTIONS / SHARES) < 0.95, "the sample is not what it should be"
    until = time.monotonic() + soak_seconds / SHARES
    while time.monotonic() < until:
        corrupt(SystemRandom().getrandbits(48))
