"""The process that compacts, as the server runs it: on a real folder, with its words on three pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amemdb.persistence.compaction import Compacted
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.manifest import Base, Manifest, base_name, segment_name
from amemdb.stores import records
from tests.persistence.made import T, frame, loaded, make_log, rebased, task_of

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "amemdb.persistence.compactor"]
LINUX = sys.platform == "linux"
TIMEOUT_S = 120
"""It runs only when nothing else wants to; other tests do."""


def make_folder(path: Path, count: int = 3000, size: int = 100) -> tuple[FolderDisk, Manifest, str]:
    """A folder with a log of so many keys, and the digest of what it holds."""
    disk = FolderDisk(str(path / "data"))
    frames = [frame((records.KEY_SET, 0, b"k%d" % n, b"v" * size, 0), at_ms=T + n) for n in range(count)]
    manifest = make_log(disk, frames[: count // 2], frames[count // 2 :], frames[:10])
    return disk, manifest, loaded(disk)[0].digest(0)


def compactor(folder: str, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, folder], input=line, capture_output=True, text=True, cwd=ROOT, check=False, timeout=TIMEOUT_S
    )


@pytest.mark.parametrize("memory_bytes", [1 << 30, 200_000])
def test_it_makes_a_base_and_says_so(tmp_path: Path, memory_bytes: int):
    disk, manifest, digest = make_folder(tmp_path)
    before = {name: (tmp_path / "data" / name).read_bytes() for name in disk.names()}
    task = task_of(manifest, memory_bytes=memory_bytes)
    ended = compactor(disk.folder, task.to_json() + "\n")
    assert (ended.returncode, ended.stderr) == (0, "")
    *told, last = map(json.loads, ended.stdout.splitlines())
    assert told
    for one in told:
        assert one.keys() == {"read", "of", "written", "part", "parts"}
    done = last["done"]
    peak_bytes = done.pop("peak_memory_bytes")
    assert 5 << 20 < peak_bytes < 500 << 20
    parts = done.pop("parts")
    assert (parts == 1) == (memory_bytes == 1 << 30)
    assert (done.pop("records"), done.pop("objects")) == (3000, 3000)
    base = Base(**done)
    path = tmp_path / "data" / base.name
    assert base == Base(task.number, task.end, T + 2999, path.stat().st_size)
    after = {name: (tmp_path / "data" / name).read_bytes() for name in disk.names() if name != base.name}
    assert after == before
    rebased(disk, manifest, Compacted(base, 3000, 3000, parts))
    stores, report = loaded(disk)
    assert stores.digest(0) == digest
    assert report.base_records == 3000
    disk.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "is no task"),
        ("{", "is no task"),
        ('{"end": 5}\n', "no member 'base'"),
        ("\udcff\n", "is no task"),
    ],
)
def test_what_is_no_task_is_one_clear_line(tmp_path: Path, line: str, words: str):
    ended = subprocess.run(
        [*COMMAND, str(tmp_path)],
        input=line.encode("utf-8", "surrogateescape"),
        capture_output=True,
        cwd=ROOT,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 1
    assert ended.stdout == b""
    (only,) = ended.stderr.decode().splitlines()
    assert words in only
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path):
    disk, manifest, _ = make_folder(tmp_path, 10)
    disk.close()
    ended = compactor(str(tmp_path / "other"), task_of(manifest).to_json())
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"{tmp_path}/other is no folder\n"
    assert os.listdir(tmp_path) == ["data"]


def test_damage_is_told_with_its_place_and_nothing_of_a_server(tmp_path: Path):
    disk, manifest, _ = make_folder(tmp_path, 10)
    path = tmp_path / "data" / segment_name(1)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    ended = compactor(disk.folder, task_of(manifest).to_json())
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"{path} is damaged at byte 64: ")
    assert ended.stderr.count("\n") == 1
    assert "server" not in ended.stderr
    disk.close()


def test_a_base_that_is_there_is_left_alone(tmp_path: Path):
    disk, manifest, _ = make_folder(tmp_path, 10)
    task = task_of(manifest)
    path = tmp_path / "data" / base_name(task.number)
    path.write_bytes(b"mine")
    ended = compactor(disk.folder, task.to_json())
    assert ended.returncode == 1
    assert ended.stderr.endswith("cannot be written: File exists\n")
    assert path.read_bytes() == b"mine"
    disk.close()


@pytest.mark.skipif(not LINUX, reason="process priorities are looked at as Linux has them")
def test_it_stands_back_and_ends_with_its_parent(tmp_path: Path):
    """With so many parts it would have work for long."""
    disk, manifest, _ = make_folder(tmp_path, 20_000)
    line = task_of(manifest, parts=2000).to_json().encode() + b"\n"
    start = "import subprocess, sys; child = subprocess.Popen(sys.argv[1:]); print(child.pid, flush=True); child.wait()"
    parent = subprocess.Popen(
        [sys.executable, "-c", start, *COMMAND, disk.folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    with parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stderr is not None
        child = int(parent.stdout.readline())
        parent.stdin.write(line)
        parent.stdin.flush()
        assert json.loads(parent.stdout.readline())["parts"] == 2000
        assert os.getpriority(os.PRIO_PROCESS, child) == 10
        parent.kill()
        rest = parent.stdout.read()  # to the end of all who could write to it
        assert b"done" not in rest
        assert parent.stderr.read().decode() == "the server that wanted it has gone\n"
    assert loaded(disk)[0].keys.databases[0].values
    disk.close()


def test_it_ends_when_nobody_listens(tmp_path: Path):
    disk, manifest, _ = make_folder(tmp_path, 20_000)
    with subprocess.Popen(
        [*COMMAND, disk.folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(task_of(manifest, parts=2000).to_json().encode() + b"\n")
        process.stdin.close()
        assert process.stderr.read().decode() == "the server that wanted it has gone\n"
        assert process.wait(TIMEOUT_S) == 1
    disk.close()
