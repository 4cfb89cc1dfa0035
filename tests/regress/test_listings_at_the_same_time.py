"""A listing of the data folder does not disturb another one of the same descriptor.

The compactor has the server's descriptor of the folder, and how far a listing has come belongs to what was opened, not
to who reads it. When the server listed the folder meanwhile, the compactor missed files, and said the log was damaged.
"""

from __future__ import annotations

import os
from pathlib import Path

from amemdb.persistence.disk import FolderDisk

NAME_BYTES = 200
FILES = 1000
"""Their names are more than the system gives at once, which is 32 KB."""


def test_one_begins_while_another_is_under_way(tmp_path: Path) -> None:
    expected = sorted(f"{number:0{NAME_BYTES}}" for number in range(FILES))
    for name in expected:
        (tmp_path / name).touch()
    disk = FolderDisk(str(tmp_path))
    with os.scandir(disk.descriptor) as entries:
        found = [next(entries).name]
        assert disk.names() == expected
        found += [entry.name for entry in entries]
    assert sorted(found) == expected


def test_each_begins_at_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    disk = FolderDisk(str(tmp_path))
    shared = FolderDisk(str(tmp_path), os.dup(disk.descriptor))
    assert [disk.names(), shared.names(), disk.names()] == [["a"]] * 3
