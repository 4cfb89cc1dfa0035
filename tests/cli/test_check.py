"""`amemdb check`: what it says of whole and of spoilt folders, and what --fix makes of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any
from zlib import crc32

import pytest
import redis

from amemdb.errors import StorageError
from amemdb.persistence import inspection
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import pack_block_header, pack_frame
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.manifest import Manifest
from amemdb.persistence.view import folder_disk
from amemdb.stores.stores import Stores
from tests.cli.folders import (
    FRAMES,
    Called,
    amemdb,
    changes,
    content,
    full,
    loaded,
    manifest_of,
    prefix_digest,
    with_base,
)
from tests.persistence.simulated import Driven
from tests.process import ServerProcess

NOBODY = 65_534

HEADER = 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return full(tmp_path / "data")


def check(folder: Path, *options: str) -> Called:
    """A check that must not end otherwise than in words, nor, without --fix, change anything."""
    before = content(folder) if folder.is_dir() else {}
    done = amemdb("check", folder, *options)
    assert "Traceback" not in done.out + done.err
    if "--fix" not in options and folder.is_dir():
        assert content(folder) == before
    return done


def fixed(folder: Path) -> Called:
    """A fix after which the folder is whole, and the bytes that were there before are all still there."""
    before = content(folder)
    done = check(folder, "--fix", "--yes")
    assert done.code == 0, done.out + done.err
    assert check(folder).code == 0
    after = content(folder)
    for name, data in before.items():
        if not name.startswith("log-") or not data.strip(b"\0"):
            continue  # what a crash left over and never held anything may go
        kept = b"".join(after[other] for other in sorted(after) if other == name or other.startswith(f"{name}.cut-at-"))
        assert kept.startswith(data), f"a part of {name} is gone"
    return done


def spoil(path: Path, position: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


def segments(folder: Path) -> list[Path]:
    return [folder / segment.name for segment in manifest_of(folder).segments]


def frames_loaded(folder: Path) -> int:
    """How many frames are loaded, the state being that after exactly so many."""
    stores, report = loaded(folder)
    frames = report.frames
    if manifest_of(folder).base is not None:
        frames += 15
    assert stores.digest(0) == prefix_digest(frames)
    assert report.cut is None
    return frames


# -- whole -----------------------------------------------------------------------------------------


def test_a_whole_folder(folder):
    done = check(folder)
    assert done.code == 0
    assert "10 conversations, 10 turns, 10 notes, 10 facts, 10 events, 10 summaries, 10 keys" in done.out
    assert "60 frames, 80 records" in done.out
    assert "2023-11-14T22:13:20.000Z to 2023-11-14T22:13:20.059Z" in done.out
    assert done.out.splitlines()[-1] == "whole: a server starts on it"
    assert check(folder, "--fix").out.splitlines()[-1] == "nothing to fix"


def test_a_folder_with_a_base(tmp_path):
    done = check(with_base(tmp_path / "data"))
    assert done.code == 0
    assert "10 conversations, 10 turns, 10 notes, 10 facts, 10 events, 10 summaries, 10 keys" in done.out
    assert "7 segments and a base" in done.out


@pytest.mark.parametrize("make", [full, with_base])
def test_the_state_is_counted_by_parts_where_memory_is_short(tmp_path, monkeypatch, make):
    folder = make(tmp_path / "data")
    monkeypatch.setattr(inspection, "_EVERY_BLOCKS", 1)
    parts: list[int] = []
    only_part = inspection.only_part

    def counting(apply, index, count):
        parts.append(count)
        return only_part(apply, index, count)

    monkeypatch.setattr(inspection, "only_part", counting)
    disk = folder_disk(folder)
    found = inspection.inspect(disk, str(folder), 2_000)
    assert max(parts) >= 4
    whole = inspection.inspect(disk, str(folder), 1 << 30)
    assert found.held == whole.held
    assert set(found.held.values()) == {10}
    assert (found.records, found.first_time_ms, found.last_time_ms) == (
        whole.records,
        whole.first_time_ms,
        whole.last_time_ms,
    )
    disk.close()


def test_what_is_no_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    assert check(tmp_path / "none") == Called(2, "", f"amemdb: there is no folder {tmp_path / 'none'}\n")
    assert check(tmp_path / "file").err == f"amemdb: {tmp_path / 'file'} is a file, not a data folder\n"
    empty = check(tmp_path / "empty")
    assert (empty.code, empty.out.splitlines()[-1]) == (0, "no log here: a server would begin empty")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["", "log.manifest", "log-0000000002.segment"])
def test_what_may_not_be_read_is_one_line(folder, name):
    """As somebody other than root, who may read everything."""
    public = Path(mkdtemp())
    public.chmod(0o755)
    copy = shutil.copytree(folder, public / "data")
    for path in (copy, *copy.iterdir()):
        path.chmod(0o755)
    (copy / name).chmod(0)
    was_root = os.geteuid() == 0
    try:
        if was_root:
            os.seteuid(NOBODY)
        done = amemdb("check", copy)
    finally:
        if was_root:
            os.seteuid(0)
        (copy / name).chmod(0o755)
        shutil.rmtree(public)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "Permission denied" in done.err


def test_a_file_that_cannot_be_opened_is_one_line(folder):
    path = folder / "log-0000000002.segment"
    path.unlink()
    path.symlink_to(path.name)
    done = amemdb("check", folder)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "log-0000000002.segment cannot be read" in done.err


def test_files_that_are_not_ours_are_left_alone(folder):
    (folder / "notes.txt").write_bytes(b"mine")
    (folder / "log-0000000001.segment.cut-at-7").write_bytes(b"of an earlier fix")
    spoil(segments(folder)[4], 200, b"\xff")
    fixed(folder)
    assert (folder / "notes.txt").read_bytes() == b"mine"
    assert (folder / "log-0000000001.segment.cut-at-7").read_bytes() == b"of an earlier fix"


# -- torn tails ----------------------------------------------------------------------------------------


def torn(folder: Path) -> int:
    """Garbage behind the last block that nothing vouches for; where it begins."""
    last = segments(folder)[-1]
    position = last.stat().st_size
    with last.open("ab") as file:
        file.write(b"torn")
    return position


def test_a_torn_tail_is_told_and_may_be_fixed_ahead(folder):
    position = torn(folder)
    done = check(folder)
    assert done.code == 1
    assert f"damage    {segments(folder)[-1].name} at byte {position}: here should be the header of a block" in done.out
    assert "a cut     loses 4 B, nothing of it can be read" in done.out
    assert "a torn tail" in done.out.splitlines()[-1]
    fixed(folder)
    assert frames_loaded(folder) == FRAMES
    assert (folder / f"{segments(folder)[-1].name}.cut-at-{position}").read_bytes() == b"torn"


# -- damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [full, with_base])
def test_damage_in_the_middle(tmp_path, make):
    folder = make(tmp_path / "data")
    files = segments(folder)
    spoil(files[3], HEADER + 50, b"\xff\xff")
    done = check(folder)
    assert done.code == 2
    assert f"damage    {files[3].name} at byte 64: the checksum of a block of" in done.out
    assert "was known to be on disk" in done.out
    lost = re.search(r"of which (\d+) frames with (\d+) records can be read", done.out)
    assert lost is not None
    for store in ("conversations", "turns", "notes", "facts", "events", "summaries", "keys"):
        assert re.search(rf"\b{store} \d", done.out), f"{store} are not told"
    assert "the last that is kept is of 2023-11-14T22:13:20.0" in done.out
    assert "the first that can be read of what is lost is of 2023-11-14T22:13:20.0" in done.out
    assert f"amemdb check {folder} --fix" in done.out
    fixed(folder)
    assert f"{files[3].name}.cut-at-64, {files[4].name}.cut-at-0" in check(folder).out
    assert frames_loaded(folder) == FRAMES - int(lost[1]) - 1
    assert segments(folder) == files[:4]


def test_a_missing_segment(folder):
    files = segments(folder)
    files[2].unlink()
    done = check(folder)
    assert done.code == 2
    assert f"{files[2].name} at byte 0: the file is missing" in done.out
    fixed(folder)
    assert segments(folder)[:2] == files[:2]
    assert len(segments(folder)) == 3
    assert 0 < frames_loaded(folder) < FRAMES


@pytest.mark.parametrize("index", [0, 4])
def test_a_segment_of_another_log(folder, tmp_path, index):
    other = full(tmp_path / "other")
    files = segments(folder)
    data = bytearray((other / files[index].name).read_bytes())
    data[12] ^= 1
    data[60:64] = crc32(data[:60]).to_bytes(4, "little")
    files[index].write_bytes(data)
    done = check(folder)
    assert done.code == 2
    assert f"{files[index].name} at byte 0: the file belongs to another log" in done.out
    fixed(folder)
    assert (frames_loaded(folder) == 0) == (index == 0)


def test_a_fixed_log_goes_on(folder):
    spoil(segments(folder)[3], 0, b"\xff")
    fixed(folder)
    kept = frames_loaded(folder)
    with ServerProcess(folder) as server, redis.Redis(port=server.port) as client:
        client.set("new", "x")
    stores, report = loaded(folder)
    assert report.frames == kept + 1
    assert stores.keys.databases[0].values[b"new"] == b"x"
    assert check(folder).code == 0


def test_whatever_is_damaged_can_be_fixed(folder, tmp_path):
    """The state after a fix is always that after some number of frames, and not one fewer than was whole."""
    random = Random(4)
    whole = content(folder)
    names = [path.name for path in segments(folder)]
    for number in range(60):
        here = tmp_path / f"{number}"
        shutil.copytree(folder, here)
        name = random.choice(names)
        position = random.randrange(len(whole[name]))
        match random.randrange(3):
            case 0:
                spoil(here / name, position, random.randbytes(random.choice([1, 20])))
            case 1:
                (here / name).write_bytes(whole[name][:position])
            case 2:
                (here / name).unlink()
        if check(here).code:
            fixed(here)
        frames_loaded(here)


def test_it_asks_first(folder):
    spoil(segments(folder)[3], 200, b"\xff")
    before = content(folder)
    done = check(folder, "--fix")
    assert done.code == 2
    assert "needs a terminal, or --yes" in done.err
    assert {name: data for name, data in content(folder).items() if name != manifests.LOCK_NAME} == before


def test_no_is_an_answer(folder, monkeypatch):
    spoil(segments(folder)[3], 200, b"\xff")
    before = content(folder)
    monkeypatch.setattr("amemdb.cli.check.click.confirm", lambda question: False)
    monkeypatch.setattr("amemdb.cli.check._is_terminal", lambda: True)
    done = check(folder, "--fix")
    assert (done.code, done.err) == (2, "amemdb: nothing was changed\n")
    assert {name: data for name, data in content(folder).items() if name != manifests.LOCK_NAME} == before


class Stopped(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("case", ["block", "segment", "base", "manifest"])
def test_wherever_a_fix_is_interrupted_it_can_be_done_again(tmp_path, monkeypatch, case):
    """And the bytes that were there are all still there, also after the server's own clearing away."""
    whole = with_base(tmp_path / "whole")
    base, files = manifest_of(whole).base, segments(whole)
    assert base is not None
    match case:
        case "block":
            spoil(files[3], HEADER + 50, b"\xff\xff")
        case "segment":
            files[3].unlink()
        case "base":
            spoil(whole / base.name, 600, b"\xff")
        case "manifest":
            spoil(whole / manifests.NAME, 30, b"!")
    once = tmp_path / "once"
    shutil.copytree(whole, once)
    fixed(once)
    expected = loaded(once)[0].digest(0)
    left = 0
    for name in ("create", "rename", "remove", "sync_folder"):
        act = getattr(FolderDisk, name)

        def counted(self, *words, act=act, **options):
            nonlocal left
            left -= 1
            if left < 0:
                raise Stopped
            return act(self, *words, **options)

        monkeypatch.setattr(FolderDisk, name, counted)
    stops = 0
    for number in range(100):
        here = tmp_path / f"{number}"
        shutil.copytree(whole, here)
        left = number
        try:
            amemdb("check", here, "--fix", "--yes")
            break
        except Stopped:
            stops += 1
        left = 1000
        if check(here).code:
            assert check(here, "--fix", "--yes").code == 0
        assert loaded(here)[0].digest(0) == expected
        Driven(FolderDisk(str(here))).close()
        kept = content(here)
        for name, data in content(whole).items():
            if name.startswith("log-"):
                aside = [other for other in kept if other.startswith(f"{name}.cut-at-")]
                ends = [(int(other.split("-at-")[1].split(".")[0]), kept[other]) for other in aside]
                assert kept.get(name, b"").startswith(data) or any(data[at:] == part for at, part in ends), name
    assert stops > 3


# -- base --------------------------------------------------------------------------------------------


def objects(stores: Stores) -> set[tuple[Any, ...]]:
    """Every object, as the records that rebuild it."""
    return {tuple(dump) for dump in stores.dumps(0)}


def after(frames: int) -> Stores:
    """The state after so many frames."""
    stores = Stores()
    for number in range(frames):
        stores.apply_all(changes(number))
    return stores


@pytest.mark.parametrize("position", [0, 70, 600, 700, 800, 900, 1200])
def test_a_damaged_base(tmp_path, position):
    folder = with_base(tmp_path / "data")
    base = manifest_of(folder).base
    assert base is not None
    spoil(folder / base.name, position, b"\xff\xff")
    done = check(folder)
    assert done.code == 2
    assert f"damage    {base.name} at byte" in done.out
    assert "nothing that was written after it" in done.out
    before = content(folder)
    fixed(folder)
    stores, report = loaded(folder)
    assert (report.frames, report.offset) == (0, base.offset)
    kept, whole = objects(stores), objects(after(15))
    assert kept < whole, "only objects that are complete"
    assert bool(kept) == (position >= 600)
    assert content(folder)[f"{base.name}.cut-at-0"] == before[base.name]


def test_a_missing_base(tmp_path):
    folder = with_base(tmp_path / "data")
    base = manifest_of(folder).base
    assert base is not None
    (folder / base.name).unlink()
    assert f"{base.name} at byte 0: the file is missing" in check(folder).out
    fixed(folder)
    assert loaded(folder)[1].records == 0


# -- newer formats, and what nobody can apply --------------------------------------------------------


def append_block(folder: Path, payload: bytes) -> Path:
    """A whole block behind the last one."""
    manifest = manifest_of(folder)
    last = folder / manifest.segments[-1].name
    report = loaded(folder)[1]
    position = last.stat().st_size
    header = pack_block_header(manifest.log_id, manifest.segments[-1].number, position, report.offset, 0, payload)
    with last.open("ab") as file:
        file.write(header + payload)
    return last


def test_records_of_a_newer_version_are_not_cut_off(folder):
    last = append_block(folder, pack_frame(1, (62, b"x")))
    before = content(folder)
    done = check(folder)
    assert done.code == 2
    assert f"{last.name} at byte" in done.out
    assert "unknown kind 62" in done.out
    assert "Use the version of amemdb that wrote it" in done.out
    done = check(folder, "--fix", "--yes")
    assert done.code == 2
    assert "not fixed, nothing was changed" in done.err
    assert {name: data for name, data in content(folder).items() if name != manifests.LOCK_NAME} == before


def test_a_record_that_no_state_takes(folder):
    append_block(folder, pack_frame(1, (2, b"no such session", b"user", b"x", 1, None, None)))
    done = check(folder)
    assert done.code == 2
    assert "a record cannot be applied (KeyError)" in done.out
    assert "10 conversations, 10 turns" in done.out
    fixed(folder)
    assert frames_loaded(folder) == FRAMES


# -- the manifest ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [full, with_base])
@pytest.mark.parametrize("damage", ["missing", "flipped", "empty"])
def test_a_manifest_is_put_together_again(tmp_path, make, damage):
    folder = make(tmp_path / "data")
    path = folder / manifests.NAME
    before = manifest_of(folder)
    match damage:
        case "missing":
            path.unlink()
        case "flipped":
            spoil(path, 30, b"!")
        case "empty":
            path.write_bytes(b"")
    with pytest.raises((StorageError, AssertionError)):
        loaded(folder)
    done = check(folder)
    assert done.code == 2
    assert "put together again" in done.out
    assert "nothing is lost by that" in done.out
    fixed(folder)
    after = manifest_of(folder)
    assert (after.log_id, after.segments, after.base) == (before.log_id, before.segments, before.base)
    assert frames_loaded(folder) == FRAMES


def test_a_segment_that_was_only_prepared_is_none(folder):
    before = manifest_of(folder)
    (folder / manifests.segment_name(99)).write_bytes(bytes(4096))
    (folder / manifests.NAME).unlink()
    fixed(folder)
    assert manifest_of(folder) == Manifest(before.log_id, before.segments, 100, None)


@pytest.mark.parametrize("case", ["gap", "first", "two logs", "no header", "starts"])
def test_what_can_be_told_in_more_than_one_way_is_not_guessed(folder, case):
    files = segments(folder)
    match case:
        case "gap":
            files[3].unlink()
        case "first":
            files[0].unlink()
        case "two logs":
            data = bytearray(files[3].read_bytes())
            data[12] ^= 1
            data[60:64] = crc32(data[:60]).to_bytes(4, "little")
            files[3].write_bytes(data)
        case "no header":
            spoil(files[3], 0, b"\xff")
        case "starts":
            data = bytearray(files[3].read_bytes())
            data[28] = 50
            data[60:64] = crc32(data[:60]).to_bytes(4, "little")
            (folder / manifests.segment_name(50)).write_bytes(data)
    (folder / manifests.NAME).unlink()
    before = content(folder)
    done = check(folder)
    assert done.code == 2
    assert "restore a backup" in done.out
    assert check(folder, "--fix", "--yes").code == 2
    assert {name: data for name, data in content(folder).items() if name != manifests.LOCK_NAME} == before


def test_a_manifest_of_a_newer_format_is_left_alone(folder):
    line = b'{"format": 2}\n'
    (folder / manifests.NAME).write_bytes(line + b"%08x\n" % crc32(line))
    done = check(folder)
    assert done.code == 2
    assert "its format is not 1" in done.out
    assert check(folder, "--fix", "--yes").code == 2


# -- beside a server ---------------------------------------------------------------------------------


def test_beside_a_running_server(folder):
    with ServerProcess(folder) as server, redis.Redis(port=server.port) as client:
        client.set("k", "v")
        done = amemdb("check", folder)
        assert done.code == 0
        assert f"in use    by process {server.pid}" in done.out
        assert "11 keys" in done.out
        refused = amemdb("check", folder, "--fix", "--yes")
        assert (refused.code, refused.out) == (2, "")
        assert f"is in use by process {server.pid}" in refused.err
        assert client.get("k") == b"v"


def test_beside_a_server_that_the_system_does_not_show(folder, monkeypatch):
    """As in another container: its block of which a part is written is no torn tail."""
    disk = FolderDisk(str(folder))
    unlock = disk.lock(manifests.LOCK_NAME)
    monkeypatch.setattr("amemdb.persistence.inspection.holder", lambda folder: None)
    monkeypatch.setattr("amemdb.cli.dump.holder", lambda folder: None)
    torn(folder)
    done = check(folder)
    assert (done.code, done.out.splitlines()[-1]) == (0, "whole, as it was at that moment")
    assert f"by process {os.getpid()}" in done.out
    dumped = amemdb("dump", folder)
    assert (dumped.code, dumped.err) == (0, "")
    unlock()
    assert check(folder).code == 1
    assert amemdb("dump", folder).code == 1
    disk.close()


def test_a_mistake_is_one_line():
    for words in (["check"], ["check", "a", "--memory", "lots"], ["dump", "a", "--from", "x"], ["backup", "a"]):
        done = amemdb(*words)
        assert (done.code, done.err.count("\n")) == (2, 1), done.err


def test_as_a_process(folder):
    done = subprocess.run(
        [sys.executable, "-m", "amemdb", "check", str(folder)], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_pipe_in_place_of_a_file_is_not_waited_for(folder):
    for name in ("log.manifest", "log-0000000002.segment"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        done = amemdb("check", folder)
        assert done.code == 2
        assert "not a regular file" in done.out + done.err
