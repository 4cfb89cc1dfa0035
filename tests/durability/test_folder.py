"""What may happen to the folder of a running server: removed, renamed, not writable, wanted by another server."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.durability.faults import Faults
from tests.durability.load import Load, check
from tests.durability.wire import Wire, info, is_error
from tests.process import ServerProcess

POLICIES = ("always", "everysec", "no")
NEW = [0, 0]


def line_of_refusal(folder: Path) -> str:
    """The one line of a server that does not start on `folder`."""
    command = [sys.executable, "-m", "amemdb", "serve", "--port", "0", "--dir", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1, ended.stderr
    [line] = ended.stderr.splitlines()
    assert line.startswith("amemdb: ")
    return line


@pytest.mark.parametrize("policy", POLICIES)
def test_a_removed_folder_takes_no_writes(tmp_path: Path, policy: str) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder, "--appendfsync", policy) as server:
        with closing(Wire(server.port)) as wire:
            assert wire.ask([b"SET", b"k", b"v"]) == [b"OK"]
            shutil.rmtree(folder)
            wire.send([[b"SET", b"k", b"w"]])  # whoever finds out waits for an answer that may never come
            with closing(Wire(server.port)) as other:
                server.wait_until(lambda: info(other, "persistence")["log_error"] != "", "the server to find out")
                refusal = "MISCONF Errors writing to the log: a file of the log was removed from the data folder"
                assert other.ask([b"SET", b"other", b"v"]) == [("error", refusal)]
                read, ping = other.ask([b"GET", b"other"], [b"PING"])
                assert is_error(read) if policy == "always" else read is None
                assert ping == b"PONG"
                time.sleep(1.2)  # trying again does not help, and makes nothing worse
                [reply] = other.ask([b"SET", b"other", b"v"])
                assert is_error(reply)
        assert server.stop() == 1
        assert "could not be written" in server.output
        assert "everything is on disk" not in server.output
        assert "Traceback" not in server.output
        assert not folder.exists(), "a folder that somebody removed is not made again"


def test_a_renamed_folder_is_still_the_folder(tmp_path: Path) -> None:
    """Somebody moves it while writes go on and files follow each other; it is opened where it is now."""
    folder, moved = tmp_path / "data", tmp_path / "moved"
    with ServerProcess(folder, "--log-segment-bytes", "4kb", "--log-reserve-bytes", "8kb") as server:
        with Load(server.port, NEW) as load:
            server.wait_until(load.all_beyond(NEW), "writes")
            folder.rename(moved)
            server.wait_until(load.all_beyond(load.acknowledged, by=20), "writes to a folder of another name")
        server.kill()
    with ServerProcess(moved) as server:
        check(server.port, load)
    assert not folder.exists()


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A folder that cannot be written, whoever we are."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    if os.geteuid():
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    mounting = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("as root this needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_folder_that_cannot_be_written_is_one_line(read_only: Path) -> None:
    line = line_of_refusal(read_only)
    assert str(read_only) in line
    assert "cannot be written" in line
    assert list(read_only.iterdir()) == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_system_that_turns_read_only_and_back(tmp_path: Path, faults: Faults, policy: str) -> None:
    """As a kernel does to one whose disk fails; and an administrator mounts it again."""
    with ServerProcess(tmp_path / "data", "--appendfsync", policy, environment=faults.environment) as server:
        with Load(server.port, NEW) as load:
            server.wait_until(load.all_beyond(NEW), "writes")
            faults.fail(writes=errno.EROFS, room=errno.EROFS)
            with closing(Wire(server.port)) as wire:
                server.wait_until(
                    lambda: info(wire, "persistence")["log_error"] == "Read-only file system", "a refusal"
                )
                [reply] = wire.ask([b"SET", b"k", b"v"])
                assert reply == ("error", "MISCONF Errors writing to the log: Read-only file system")
            faults.heal()
            server.wait_until(load.all_beyond(load.acknowledged), "writes to come back")
            server.kill()
        server.start()
        check(server.port, load)


def test_a_second_server_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder, "--log-segment-bytes", "4kb", "--log-reserve-bytes", "8kb") as server:
        with Load(server.port, NEW) as load:
            for _ in range(2):
                assert f"{folder} is in use by process {server.pid}" in line_of_refusal(folder)
                server.wait_until(load.all_beyond(load.acknowledged), "writes")
            server.kill()
        server.start()
        check(server.port, load)
