"""Writes were acknowledged into a log whose files had been removed from the data folder.

A file that is open stays writable after its name is gone. The server wrote and synced it, said at the end that
everything was on disk, and a restart found nothing.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from amemdb.persistence.disk import FILE_GONE, FolderDisk
from amemdb.persistence.manifest import Manifest, Segment
from amemdb.persistence.steps import Append, Block, Point, Switch
from amemdb.persistence.writer import LogWriter

LOG_ID = bytes(16)
FIRST, SECOND = Segment(1, 0), Segment(2, 3)


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    """The writer of a log of one segment with room."""
    writer = LogWriter(FolderDisk(str(tmp_path)), LOG_ID, lambda: 0)
    done = writer.run(Switch(FIRST, 0, (), 4096, 4096, Manifest(LOG_ID, (FIRST,), 2), ()))
    assert done.error is None
    return writer


def append() -> Append:
    return Append(Point(1, 4096), (Block(0, b"abc"),), 0, False)


def test_a_write_to_a_removed_file_fails(writer: LogWriter, tmp_path: Path) -> None:
    assert writer.run(append()).error is None
    (tmp_path / FIRST.name).unlink()
    done = writer.run(append())
    assert done.stage == "write"
    assert done.error is not None
    assert (done.error.errno, done.error.strerror) == (errno.ENOENT, FILE_GONE)


def test_a_renamed_folder_is_still_the_folder(writer: LogWriter, tmp_path: Path) -> None:
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    assert writer.run(append()).error is None
    moved.rename(tmp_path)


def test_no_new_segment_makes_good_for_one_that_is_gone(writer: LogWriter, tmp_path: Path) -> None:
    (tmp_path / FIRST.name).unlink()
    manifest = Manifest(LOG_ID, (FIRST, SECOND), 3)
    done = writer.run(Switch(SECOND, 3, (), 0, 4096, manifest, ()))
    assert done.stage == "prepare"
    assert done.error is not None
    assert done.error.strerror == FILE_GONE
    assert not (tmp_path / SECOND.name).exists()


def test_a_new_segment_in_place_of_the_only_one_needs_none(writer: LogWriter, tmp_path: Path) -> None:
    (tmp_path / FIRST.name).unlink()
    renewed = Segment(2, 0)
    blocks = (Block(0, b"abc"),)
    done = writer.run(Switch(renewed, 0, blocks, 0, 4096, Manifest(LOG_ID, (renewed,), 3), (FIRST,)))
    assert done.error is None
    assert (tmp_path / renewed.name).exists()
