"""`amemdb backup`: the copy made under load loads, and holds all that was answered before it began, whole."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest
import redis

from amemdb.persistence import copying
from amemdb.persistence import manifest as manifests
from amemdb.persistence.disk import FolderDisk
from tests.cli.folders import FRAMES, amemdb, content, full, loaded, manifest_of, prefix_digest, with_base
from tests.process import ServerProcess

WRITERS = 3


class Writer(threading.Thread):
    """Appends numbered turns, and notes with the same number, in one transaction each, until it is told to stop."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        self.session = f"w{number}"
        self.sent = self.acknowledged = 0
        self.over = False
        self._client = redis.Redis(port=port)
        self._client.execute_command("AMEM.CONV.CREATE", self.session, "WINDOW", 1_000_000)

    def run(self) -> None:
        while not self.over:
            self.sent += 1
            with self._client.pipeline(transaction=True) as pipe:
                pipe.execute_command("AMEM.CONV.APPEND", self.session, "user", str(self.sent) + "x" * 200)
                pipe.execute_command("AMEM.WORK.SET", self.session, "n", str(self.sent))
                pipe.execute()
            self.acknowledged = self.sent
        self._client.close()


def numbers_of(folder: Path, session: str) -> list[int]:
    """The numbers of a writer's turns in a copy, whose note must say the same."""
    stores, report = loaded(folder)
    assert report.cut is None
    numbers = [int(turn[1].rstrip(b"x")) for turn in stores.conv.sessions[session.encode()].newest(10**6)]
    note = stores.work.get(session.encode(), b"n")
    assert (note is None) == (not numbers)
    assert note is None or int(note[0]) == numbers[-1]
    return numbers


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
@pytest.mark.parametrize("segment", ["64mb", "16kb"])
def test_under_load(tmp_path, policy, segment):
    """With the small segments the files change all the time, and a compaction removes some."""
    options = ["--appendfsync", policy, "--log-segment-bytes", segment, "--log-reserve-bytes", "64kb"]
    with ServerProcess(tmp_path / "data", *options) as server, redis.Redis(port=server.port) as client:
        writers = [Writer(server.port, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        made = []
        for number in range(3):
            wanted = [writer.acknowledged + 50 for writer in writers]
            server.wait_until(
                lambda wanted=wanted: all(
                    writer.acknowledged > count for writer, count in zip(writers, wanted, strict=True)
                ),
                "writes",
            )
            if number == 1:
                client.execute_command("BGREWRITEAOF")
            if number == 2:
                server.wait_until(lambda: manifest_of(tmp_path / "data").base is not None, "the compaction")
            acknowledged = [writer.acknowledged for writer in writers]
            done = amemdb("backup", tmp_path / "data", tmp_path / f"copy{number}")
            assert (done.code, done.err) == (0, "")
            made.append((acknowledged, [writer.sent for writer in writers]))
        for writer in writers:
            writer.over = True
        for writer in writers:
            writer.join(timeout=30)
    assert manifest_of(tmp_path / "copy2").base is not None
    for number, (before, after) in enumerate(made):
        for writer, answered, sent in zip(writers, before, after, strict=True):
            numbers = numbers_of(tmp_path / f"copy{number}", writer.session)
            assert numbers == list(range(1, len(numbers) + 1)), "turns are missing or out of order"
            assert answered <= len(numbers) <= sent


@pytest.mark.parametrize("make", [full, with_base])
def test_without_a_server(tmp_path, make):
    folder = make(tmp_path / "data")
    (folder / "notes.txt").write_bytes(b"mine")
    before = content(folder)
    done = amemdb("backup", folder, tmp_path / "deep" / "copy")
    assert (done.code, done.err) == (0, "")
    assert "read back whole" in done.out
    assert "holds 80 records, up to 2023-11-14T22:13:20.059Z (offset 3,146)" in done.out
    copy = tmp_path / "deep" / "copy"
    assert content(folder) == before
    assert list(content(copy)) == [name for name in before if name.startswith("log-") or name == manifests.NAME]
    assert manifest_of(copy) == manifest_of(folder)
    stores, report = loaded(copy)
    assert (stores.digest(0), report.cut) == (prefix_digest(FRAMES), None)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in copy.iterdir()} == {0o600}
    assert os.listdir(tmp_path / "deep") == ["copy"]


def test_the_copy_is_a_data_folder(tmp_path):
    with ServerProcess(tmp_path / "data") as server, redis.Redis(port=server.port) as client:
        client.set("k", "v")
        assert amemdb("backup", tmp_path / "data", tmp_path / "copy").code == 0
        client.set("k", "later")
    with ServerProcess(tmp_path / "copy") as server, redis.Redis(port=server.port) as client:
        assert client.get("k") == b"v"


def test_what_exists_is_kept(tmp_path):
    folder = full(tmp_path / "data")
    (tmp_path / "copy").mkdir()
    done = amemdb("backup", folder, tmp_path / "copy")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"amemdb: {tmp_path / 'copy'} exists and is kept: give the backup another name\n"
    assert amemdb("backup", tmp_path / "none", tmp_path / "other").err == (
        f"amemdb: there is no folder {tmp_path / 'none'}\n"
    )
    (tmp_path / "empty").mkdir()
    assert "holds no log" in amemdb("backup", tmp_path / "empty", tmp_path / "other").err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "data", "empty"]


@pytest.mark.parametrize("damage", ["corrupt", "missing"])
def test_a_damaged_log_is_not_copied(tmp_path, damage):
    folder = full(tmp_path / "data")
    path = folder / manifest_of(folder).segments[2].name
    if damage == "missing":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[110] ^= 1
        path.write_bytes(data)
    done = amemdb("backup", folder, tmp_path / "copy")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert path.name in done.err
    assert "amemdb check" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_torn_tail_is_left_out(tmp_path):
    """What a start would cut off, where nothing more lies behind it."""
    folder = full(tmp_path / "data")
    with (folder / manifest_of(folder).segments[-1].name).open("ab") as file:
        file.write(b"torn")
    assert amemdb("backup", folder, tmp_path / "copy").code == 0
    assert loaded(tmp_path / "copy")[1].cut is None


def test_what_an_interrupted_one_left_is_removed_and_nothing_else(tmp_path):
    folder = full(tmp_path / "data")
    partial = tmp_path / "copy.partial"
    shutil.copytree(folder, partial)
    (partial / "log-0000000009.segment.partial").write_bytes(b"half")
    (partial / "log-0000000099.segment").write_bytes(b"of another log")
    (partial / "mine.txt").write_bytes(b"x")
    done = amemdb("backup", folder, tmp_path / "copy")
    assert done.code == 1
    assert "mine.txt, which no backup left there" in done.err
    assert (partial / "mine.txt").exists()
    (partial / "mine.txt").unlink()
    assert amemdb("backup", folder, tmp_path / "copy").code == 0
    assert "log-0000000099.segment" not in content(tmp_path / "copy")
    assert not partial.exists()


def test_two_backups_do_not_meet(tmp_path):
    folder = full(tmp_path / "data")
    other = FolderDisk(str(tmp_path / "copy.partial"))
    unlock = other.lock(manifests.LOCK_NAME)
    done = amemdb("backup", folder, tmp_path / "copy")
    assert done.code == 1
    assert "is in use by process" in done.err
    unlock()
    other.close()


def test_a_full_disk_is_told_and_nothing_stays(tmp_path, monkeypatch):
    folder = full(tmp_path / "data")

    def no_room(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 5, 5))
    assert "MiB free" in amemdb("backup", folder, tmp_path / "copy").err
    monkeypatch.undo()
    monkeypatch.setattr(copying, "_copy_file", no_room)
    done = amemdb("backup", folder, tmp_path / "copy")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "the backup was not made" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_wherever_it_is_interrupted_no_copy_has_its_name(tmp_path, monkeypatch):
    """It ends at any point, as with kill -9: the next one works, and DEST is whole or not there."""
    folder = with_base(tmp_path / "data")

    class Stopped(BaseException):
        pass

    class Stopping(FolderDisk):
        left = 0

        def _count(self) -> None:
            Stopping.left -= 1
            if Stopping.left < 0:
                raise Stopped

        def create(self, name, *, replace=False):
            self._count()
            return super().create(name, replace=replace)

        def rename(self, old, new):
            self._count()
            super().rename(old, new)

        def sync_folder(self):
            self._count()
            super().sync_folder()

    monkeypatch.setattr(copying, "FolderDisk", Stopping)
    monkeypatch.setattr(copying, "_remove_folder", lambda target: None)
    monkeypatch.setattr(copying, "_empty", lambda target: None)
    stops = 0
    for left in range(100):
        Stopping.left = left
        partial = tmp_path / "copy.partial"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            copying.backup(folder, tmp_path / "copy", lambda label, done, total: None)
            break
        except Stopped:
            stops += 1
        assert not (tmp_path / "copy").exists()
        if manifests.NAME in content(partial):
            assert loaded(partial)[0].digest(0) == prefix_digest(FRAMES)
    assert stops > 15
    assert loaded(tmp_path / "copy")[0].digest(0) == prefix_digest(FRAMES)
