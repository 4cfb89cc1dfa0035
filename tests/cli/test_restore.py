"""`amemdb restore`: only what is whole, only to where nothing is, and a server starts on it."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from amemdb.persistence import copying
from amemdb.persistence import manifest as manifests
from tests.cli.folders import FRAMES, amemdb, content, full, loaded, manifest_of, prefix_digest, with_base
from tests.process import ServerProcess


@pytest.fixture(params=[full, with_base])
def backup(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    request.param(tmp_path / "data")
    assert amemdb("backup", tmp_path / "data", tmp_path / "backup").code == 0
    return tmp_path / "backup"


@pytest.mark.parametrize("there", [False, True])
def test_it_comes_back_equal(backup, tmp_path, there):
    folder = tmp_path / "new"
    if there:
        folder.mkdir()
        (folder / "lost+found").mkdir()
    before = content(backup)
    done = amemdb("restore", backup, folder)
    assert (done.code, done.err) == (0, "")
    assert "10 conversations, 10 turns, 10 notes, 10 facts, 10 events, 10 summaries, 10 keys" in done.out
    assert f"amemdb serve --dir {folder}" in done.out
    assert content(backup) == before
    stores, report = loaded(folder)
    assert (stores.digest(0), report.cut) == (prefix_digest(FRAMES), None)
    assert amemdb("check", folder).code == 0
    with ServerProcess(folder) as server, redis.Redis(port=server.port) as client:
        assert client.get("n-3") == b"v" * 40


def test_a_folder_that_holds_something_is_kept(backup, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"mine")
    done = amemdb("restore", backup, folder)
    assert (done.code, done.out) == (1, "")
    assert "is not empty (it holds a.txt)" in done.err
    assert content(folder) == {"a.txt": b"mine"}
    assert "is not empty" in amemdb("restore", backup, tmp_path / "data").err
    assert "cannot be used: Not a directory" in amemdb("restore", backup, backup / manifests.NAME).err


def test_what_is_not_whole_is_refused(backup, tmp_path):
    path = backup / manifest_of(backup).segments[2].name
    data = bytearray(path.read_bytes())
    data[110] ^= 1
    path.write_bytes(data)
    done = amemdb("restore", backup, tmp_path / "new")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "nothing was restored" in done.err
    assert f"amemdb check {backup}" in done.err
    assert not (tmp_path / "new").exists()


def test_what_is_no_backup_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "holds no log" in amemdb("restore", tmp_path / "empty", tmp_path / "new").err
    assert "there is no folder" in amemdb("restore", tmp_path / "none", tmp_path / "new").err
    assert not (tmp_path / "new").exists()


def test_a_failure_leaves_nothing(backup, tmp_path, monkeypatch):
    copied = 0
    copy_file = copying._copy_file

    def fails_later(*arguments):
        nonlocal copied
        copied += 1
        if copied > 2:
            raise OSError(28, "No space left on device")
        return copy_file(*arguments)

    monkeypatch.setattr(copying, "_copy_file", fails_later)
    done = amemdb("restore", backup, tmp_path / "new")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "No space left on device" in done.err
    assert not (tmp_path / "new").exists()
    (tmp_path / "new").mkdir()
    assert amemdb("restore", backup, tmp_path / "new").code == 1
    assert [name for name in content(tmp_path / "new") if name != manifests.LOCK_NAME] == []
