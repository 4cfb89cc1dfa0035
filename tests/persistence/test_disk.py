"""The real folder: whole writes, real reservations, locks, limits, and words that people understand."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from amemdb.errors import StorageError
from amemdb.persistence.disk import NO_LIMIT, FolderDisk, FolderFile


@pytest.fixture
def disk(tmp_path: Path) -> FolderDisk:
    return FolderDisk(str(tmp_path / "data"))


class HalvingFile(FolderFile):
    """A file on which each call writes at most three bytes."""

    def _write(self, parts: Sequence[bytes | memoryview], position: int) -> int:
        return super()._write([b"".join(parts)[:3]], position)


class DeafFile(FolderFile):
    """A file that takes nothing and does not say why."""

    def _write(self, parts: Sequence[bytes | memoryview], position: int) -> int:
        return 0


def descriptor(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


def test_what_is_written_is_read(disk: FolderDisk):
    file = disk.create("x")
    file.write_at(5, b"head", b"", b"tail")
    assert file.size() == 13
    assert file.read_at(0, 100) == bytes(5) + b"headtail"
    assert file.read_at(9, 2) == b"ta"
    assert file.read_at(13, 10) == b""
    file.truncate(6)
    assert file.read_at(0, 100) == bytes(5) + b"h"
    file.sync()
    file.close()


def test_a_partial_write_is_continued(tmp_path: Path):
    file = HalvingFile(descriptor(tmp_path / "x"))
    file.write_at(2, b"abcdefg", b"hijkl")
    assert file.read_at(0, 100) == b"\0\0abcdefghijkl"
    file.close()


def test_a_write_of_nothing_is_a_failure(tmp_path: Path):
    file = DeafFile(descriptor(tmp_path / "x"))
    with pytest.raises(OSError) as error:
        file.write_at(0, b"abc")
    assert error.value.errno == errno.EIO
    file.close()


def test_a_reservation_takes_real_room(disk: FolderDisk):
    file = disk.create("x")
    file.write_at(0, b"data")
    file.allocate(4, 1 << 20)
    blocks = os.stat(disk.path("x")).st_blocks
    assert file.size() == (1 << 20) + 4
    assert blocks * 512 >= 1 << 20, "a hole is no reservation"
    assert file.read_at(0, 10) == b"data" + bytes(6)
    file.close()


def test_a_file_is_created_only_once_unless_it_is_replaced(disk: FolderDisk):
    disk.create("x").close()
    with pytest.raises(FileExistsError):
        disk.create("x")
    file = disk.create("y")
    file.write_at(0, b"old")
    file.close()
    file = disk.create("y", replace=True)
    assert file.size() == 0
    file.close()
    assert disk.names() == ["x", "y"]
    disk.rename("y", "x")
    assert disk.names() == ["x"]
    disk.remove("x")
    disk.sync_folder()
    assert disk.names() == []


def test_files_are_private_and_folders_are_made(tmp_path: Path):
    folder = tmp_path / "a" / "b" / "c"
    disk = FolderDisk(str(folder))
    disk.create("x").close()
    assert (folder / "x").stat().st_mode & 0o077 == 0
    assert folder.stat().st_mode & 0o077 == 0
    disk.close()


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    disk = FolderDisk("data")
    monkeypatch.chdir("/")
    disk.create("x").close()
    assert (tmp_path / "data" / "x").exists()
    assert disk.path("x") == str(tmp_path / "data" / "x")
    disk.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    why = rf"cannot be used: {tmp_path}/file is no folder\. Choose another with --dir\.$"
    with pytest.raises(StorageError, match=rf"{tmp_path}/file/data {why}"):
        FolderDisk(str(tmp_path / "file" / "data"))
    with pytest.raises(StorageError, match=rf"{tmp_path}/file {why}"):
        FolderDisk(str(tmp_path / "file"))


def test_a_folder_that_may_not_be_written_says_who_would_have_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = FolderDisk(str(tmp_path))

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", denied)  # the superuser, who may run this, is denied nothing
    with pytest.raises(StorageError, match=rf"cannot be written: Permission denied\. Let user {os.geteuid()} write"):
        disk.lock("lock")
    monkeypatch.undo()
    disk.close()


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path: Path):
    first, second = FolderDisk(str(tmp_path)), FolderDisk(str(tmp_path))
    unlock = first.lock("lock")
    with pytest.raises(StorageError, match=f"{tmp_path} is in use by process {os.getpid()}"):
        second.lock("lock")
    unlock()
    second.lock("lock")()


def test_a_lock_ends_with_its_process(tmp_path: Path):
    program = f"""
        import os
        from amemdb.persistence.disk import FolderDisk
        FolderDisk({str(tmp_path)!r}).lock("lock")
        print("locked", flush=True)
        input()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    disk = FolderDisk(str(tmp_path))
    with pytest.raises(StorageError, match=f"process {process.pid}"):
        disk.lock("lock")
    process.kill()
    process.communicate()
    disk.lock("lock")()


def test_the_file_size_limit_is_told(disk: FolderDisk):
    assert disk.file_bytes_max() == NO_LIMIT
