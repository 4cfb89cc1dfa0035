"""Data folders to look at, whole and spoilt, and the command line called in this process.

`full` is a log of several segments with records of every store, written by the real log on the real disk; `with_base`
has the state up to some offset in a base instead.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

from amemdb.__main__ import main
from amemdb.persistence import manifest as manifests
from amemdb.persistence.base import BaseWriter
from amemdb.persistence.codec import pack_frame
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.manifest import Manifest
from amemdb.persistence.recovery import RecoveryReport, recover
from amemdb.stores import records
from amemdb.stores.records import Record
from amemdb.stores.stores import Stores
from tests.persistence.simulated import Driven

T = 1_700_000_000_000
FRAMES = 60


@dataclass(frozen=True)
class Called:
    """How a call of the command line went."""

    code: int
    out: str
    err: str


def amemdb(*words: str | Path) -> Called:
    """The command line, in this process, with nothing to read and no terminal."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    code: int | str | None = 0
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "stdin", io.StringIO("")),
        patch.object(sys, "argv", ["amemdb", *map(str, words)]),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
    assert isinstance(code, int)
    return Called(code, out.read(), err.read())


def changes(number: int) -> list[Record]:
    """What frame `number` changes: all stores in turn."""
    name = b"n-%d" % (number // 6)
    match number % 6:
        case 0:
            return [
                (records.CONVERSATION_SET, name, 100, 0, T, 0),
                (records.TURN_APPENDED, name, b"user", b"turn %d" % number, T + number, None, None),
            ]
        case 1:
            return [(records.NOTE_SET, name, b"k", b"note %d" % number, T + 10_000)]
        case 2:
            return [
                (records.NAMESPACE_CREATED, name, 2, b"cosine", T, 0),
                (records.FACT_STORED, name, b"k", 0, b"fact", bytes(7) + b"?", 0, None, None, None, T),
            ]
        case 3:
            return [(records.EVENT_LOGGED, name, 0, T + number, b"seen", b"event", None, None)]
        case 4:
            return [(records.SUMMARY_SET, name, b"summary", 1, T)]
        case _:
            return [(records.KEY_SET, 0, name, b"v" * 40, 0)]


def full(folder: Path, frames: int = FRAMES, segment_bytes: int = 700) -> Path:
    """A log of so many frames in several segments, closed in order."""
    disk = FolderDisk(str(folder))
    disk.random = Random(1)  # the chance of what a thread may do first
    driven = Driven(disk, segment_bytes_max=segment_bytes, reserve=4096)
    for number in range(frames):
        data = pack_frame(T + number, *changes(number))
        assert driven.log.refuse_write(len(data)) is None
        driven.log.append(data)
        driven.run(2.0)
    driven.close()
    assert len(driven.log.segments) > 2
    disk.close()
    return folder


def with_base(folder: Path, segments_before: int = 2) -> Path:
    """The same log, the first segments of it replaced by a base."""
    full(folder)
    disk = FolderDisk(str(folder))
    manifest = manifests.read(disk)
    assert manifest is not None
    gone, stay = manifest.segments[:segments_before], manifest.segments[segments_before:]
    stores = Stores()
    time_ms = T
    offset = 0
    for number in range(FRAMES):
        if offset == stay[0].start:
            break
        offset += len(pack_frame(T + number, *changes(number)))
        stores.apply_all(changes(number))
        time_ms = T + number
    file = disk.create(manifests.base_name(manifest.next_number))
    writer = BaseWriter(file, manifest.log_id, manifest.next_number, offset, time_ms)
    for dump in stores.dumps(0):
        for record in dump:  # a block each, so that damage comes between the records of an object as well
            for _ in writer.write([record]):
                pass
    base = writer.close()
    file.close()
    manifests.prepare(disk, Manifest(manifest.log_id, stay, manifest.next_number + 1, base))
    manifests.commit(disk)
    for segment in gone:
        disk.remove(segment.name)
    disk.close()
    return folder


def loaded(folder: Path) -> tuple[Stores, RecoveryReport]:
    """What a start would load, and how that went. Raises what it would be refused with."""
    disk = FolderDisk(str(folder))
    try:
        manifest = manifests.read(disk)
        assert manifest is not None
        stores = Stores()
        return stores, recover(disk, manifest, stores.apply)
    finally:
        disk.close()


def prefix_digest(frames: int) -> str:
    """The digest of the state after so many frames."""
    stores = Stores()
    for number in range(frames):
        stores.apply_all(changes(number))
    return stores.digest(0)


def content(folder: Path) -> dict[str, bytes]:
    """Every file with its bytes."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def manifest_of(folder: Path) -> Manifest:
    """The manifest on disk."""
    return manifests.parse((folder / manifests.NAME).read_bytes())
