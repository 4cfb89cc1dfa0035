"""Walking and starting are of one mind: what a start loads, cuts or refuses, the walk says of every damaged log."""

from __future__ import annotations

from random import Random

import pytest

from amemdb.errors import CorruptLogError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import pack_frame
from amemdb.persistence.recovery import recover
from amemdb.persistence.view import FolderView
from amemdb.persistence.walk import IN_BASE, Walk, lost, offsets_in, records_of
from amemdb.stores.records import Record
from tests.cli.folders import FRAMES, content, full, with_base
from tests.persistence.simulated import SimulatedDisk

ROUNDS = 400


@pytest.fixture(scope="module", params=["segments", "base"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("walk") / "data"
    return content(full(folder) if request.param == "segments" else with_base(folder))


def disk_of(files: dict[str, bytes]) -> SimulatedDisk:
    disk = SimulatedDisk(Random(1))
    for name, data in files.items():
        disk.create(name).write_at(0, data)
    return disk


def compare(disk: SimulatedDisk) -> Walk:
    """Read it both ways; the walk."""
    manifest = manifests.read(disk)
    assert manifest is not None
    started: list[Record] = []
    walked: list[Record] = []
    with FolderView(disk, manifest) as view:
        walk = Walk(view)
        for block in walk.blocks():
            walked += records_of(block)
        behind = None if walk.damage is None else lost(view, walk.damage)
    damage = walk.damage
    refused: CorruptLogError | None = None
    try:
        report = recover(disk, manifest, started.append)
    except CorruptLogError as error:
        refused = error
    if refused is not None:
        assert damage is not None
        assert damage.verdict in ("corrupt", "newer")
        assert disk.path(damage.name) == refused.file
        if damage.index != IN_BASE or "bytes instead of" not in refused.reason:
            assert damage.at == refused.position
            assert walked == started
        return walk
    assert walked == started
    assert (walk.frames, walk.offset, walk.base_records) == (report.frames, report.offset, report.base_records)
    assert walk.durable_offset == report.durable_offset
    assert walk.closed == report.closed
    if report.cut is None:
        assert damage is None
        assert walk.bytes == report.bytes
    else:
        assert damage is not None
        assert damage.verdict == "torn"
        assert (disk.path(damage.name), damage.position) == (report.cut.file, report.cut.position)
        assert damage.reason == report.cut.reason
        assert behind is not None
        assert behind.bytes == report.cut.bytes
    return walk


def test_a_whole_log(files):
    walk = compare(disk_of(files))
    assert walk.damage is None
    assert list(walk.ends) == manifests.parse(files[manifests.NAME]).names


def test_single_flipped_bytes(files):
    random = Random(2)
    names = [name for name in files if name.startswith("log-")]
    for _ in range(ROUNDS):
        name = random.choice(names)
        data = bytearray(files[name])
        data[random.randrange(len(data))] ^= random.choice([1, 0x80, 0xFF])
        compare(disk_of({**files, name: bytes(data)}))


def test_cut_torn_and_mixed_files(files):
    random = Random(3)
    names = [name for name in files if name.startswith("log-")]
    verdicts = set()
    for _ in range(ROUNDS):
        spoilt = dict(files)
        for _ in range(random.randint(1, 2)):
            name = random.choice([*names, names[-1], names[-2]])
            data = bytearray(spoilt[name])
            start = random.randrange(len(data))
            match random.randrange(4):
                case 0:
                    del data[start:]
                case 1:
                    data[start : start + random.choice([1, 30, 512])] = b""
                case 2:
                    data[start:] = bytes(len(data) - start)
                case 3:
                    data[start : start + 50] = spoilt[random.choice(names)][:50]
            spoilt[name] = bytes(data)
        damage = compare(disk_of(spoilt)).damage
        verdicts.add(damage and damage.verdict)
    assert {"corrupt", "torn"} <= verdicts


def test_every_prefix_of_the_last_file_but_one(files):
    """The closing header is gone with the last file, so that what is cut off here may be a torn tail."""
    manifest = manifests.parse(files[manifests.NAME])
    last, name = manifest.segments[-1].name, manifest.segments[-2].name
    shorter = manifests.Manifest(manifest.log_id, manifest.segments[:-1], manifest.next_number, manifest.base)
    for size in range(0, len(files[name]), 3):
        spoilt = {**files, name: files[name][:size], manifests.NAME: manifests.pack(shorter)}
        del spoilt[last]
        compare(disk_of(spoilt))


def test_what_is_lost_is_counted(files):
    manifest = manifests.parse(files[manifests.NAME])
    index = 3
    name = manifest.segments[index].name
    data = bytearray(files[name])
    data[64 + 40] ^= 1  # the first block of that file
    disk = disk_of({**files, name: bytes(data)})
    with FolderView(disk, manifest) as view:
        walk = Walk(view)
        for _ in walk.blocks():
            pass
        assert walk.damage is not None
        assert (walk.damage.verdict, walk.damage.index, walk.damage.position) == ("corrupt", index, 64)
        behind = lost(view, walk.damage)
    in_base = 15 if manifest.base is not None else 0
    assert walk.frames + behind.frames == FRAMES - in_base - 1, "all but the damaged block can be read"
    assert behind.first_time_ms is not None
    assert behind.last_time_ms == 1_700_000_000_000 + FRAMES - 1


def test_frames_of_a_block_have_their_offsets():
    frames = [pack_frame(1, (50, 0, b"k" * size, b"v", 0)) for size in (1, 300, 2)]
    assert offsets_in(b"".join(frames), 3) == [0, len(frames[0]), len(frames[0]) + len(frames[1])]
