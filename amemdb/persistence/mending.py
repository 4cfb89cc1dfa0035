"""Making a damaged folder loadable again: cut at the first damage, and nothing of what is cut off is destroyed.

`mend` works on what `inspection.inspect` found, under the lock of the folder. What it cuts off goes to side files,
named after the file and the byte from which they hold it: ``log-0000000003.segment.cut-at-12345``, with ``-at-0`` the
whole file. No start looks at them or removes them.

What becomes of what is damaged:

* A block of a segment: the segment ends before it, later segments go.
* A segment that is missing or is not the one it should be: it goes, with the later ones, and a new, empty one takes its
  place.
* The base: a new one takes its place, of the objects that were read completely before the damage, and all segments
  go: their records speak of objects which may be gone.
* The manifest: it is written as it was put together again.

Crash story: side files are on disk before the new manifest, and files are cut and taken away only after it. Until then
the folder is as damaged as before and can be mended again; afterwards at most a side file is there twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from amemdb.errors import StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.base import BaseWriter
from amemdb.persistence.codec import SEGMENT_HEADER_BYTES, pack_segment_header
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.inspection import ASIDE, Inspection
from amemdb.persistence.manifest import Base, Manifest, Segment, base_name, file_number
from amemdb.persistence.scan import CHUNK_BYTES, nonzero_end
from amemdb.persistence.view import FolderView
from amemdb.persistence.walk import IN_BASE, Damage, Walk
from amemdb.stores.records import Record, object_of


def why_not(found: Inspection) -> str | None:
    """Why `mend` would refuse, or None."""
    if found.damage is not None and found.damage.verdict == "newer":
        return (
            f"{found.damage.reason}: this is not damage. Use the version of amemdb that wrote it; a cut would take "
            f"away what that one can read"
        )
    if found.trouble and found.manifest is None:
        return f"{found.trouble}, and the files do not tell in one way only how they belong together: restore a backup"
    return None


def mend(disk: FolderDisk, found: Inspection) -> list[str]:
    """Make the folder loadable; the paths of the side files. `StorageError` where that cannot be done."""
    reason = why_not(found)
    if reason is not None:
        raise StorageError(reason)
    assert found.manifest is not None, "there is nothing to mend"
    try:
        return _Mending(disk, found, found.manifest).run()
    except OSError as error:
        raise StorageError(f"{disk.path('')} cannot be mended: {error.strerror}") from error


class _Mending:
    def __init__(self, disk: FolderDisk, found: Inspection, manifest: Manifest) -> None:
        self._disk = disk
        self._found = found
        self._manifest = manifest
        self._aside: list[str] = []
        self._goes: list[str] = []
        """Files to take away in the end; each has a side file by then."""
        taken = (file_number(name) or 0 for name in disk.names())
        self._number = max(manifest.next_number, *(number + 1 for number in (0, *taken)))
        """The first number that no file has, not even one that a crash left over."""

    def run(self) -> list[str]:
        disk, damage = self._disk, self._found.damage
        if self._found.trouble and manifests.NAME in disk.names():
            self._copy_aside(manifests.NAME, 0)
        manifest = self._manifest if damage is None else self._cut(damage)
        disk.sync_folder()
        manifests.prepare(disk, manifest)
        manifests.commit(disk)
        if damage is not None and manifest.segments[-1] in self._manifest.segments:
            self._truncate(damage)
        for name in self._goes:
            disk.remove(name)
        disk.sync_folder()
        return [disk.path(name) for name in self._aside]

    def _cut(self, damage: Damage) -> Manifest:
        """Put aside what goes, and make what takes its place; the manifest of what stays."""
        manifest = self._manifest
        if damage.index == IN_BASE:
            assert manifest.base is not None
            return self._without(0, self._salvaged(manifest.base, damage), manifest.base.offset)
        if damage.position < SEGMENT_HEADER_BYTES:
            return self._without(damage.index, manifest.base, damage.offset)
        self._copy_aside(damage.name, damage.position)
        for segment in manifest.segments[damage.index + 1 :]:
            self._put_aside(segment.name)
        return Manifest(manifest.log_id, manifest.segments[: damage.index + 1], manifest.next_number, manifest.base)

    def _without(self, index: int, base: Base | None, offset: int) -> Manifest:
        """A new segment in place of those from `index` on."""
        manifest = self._manifest
        for segment in manifest.segments[index:]:
            self._put_aside(segment.name)
        segment = Segment(self._next_number(), offset)
        file = self._disk.create(segment.name)
        try:
            file.write_at(0, pack_segment_header(manifest.log_id, segment.number, offset, 0))
            file.sync()
        finally:
            file.close()
        return Manifest(manifest.log_id, (*manifest.segments[:index], segment), self._number, base)

    def _salvaged(self, base: Base, damage: Damage) -> Base:
        """A new base of the objects that are whole in front of the damage."""
        manifest = self._manifest
        number = self._next_number()
        file = self._disk.create(base_name(number))
        try:
            writer = BaseWriter(file, manifest.log_id, number, base.offset, base.time_ms)
            with FolderView(self._disk, manifest) as view:
                for _ in writer.write(_whole_objects(view, damage)):
                    pass
            renewed = writer.close()
        finally:
            file.close()
        self._put_aside(base.name)
        return renewed

    def _next_number(self) -> int:
        self._number += 1
        return self._number - 1

    # -- side files ------------------------------------------------------------------------------

    def _put_aside(self, name: str) -> None:
        """Give the file a second name; the first one goes in the end."""
        if name not in self._disk.names():
            return
        other = self._free_name(name, 0)
        try:
            os.link(self._disk.path(name), self._disk.path(other))
        except OSError:  # a file system without second names
            self._copy_aside(name, 0)
        else:
            self._aside.append(other)
        self._goes.append(name)

    def _copy_aside(self, name: str, position: int) -> None:
        """Keep what the file holds from `position` on. Its room is zeros, which take no room in the copy."""
        source = self._disk.open(name)
        try:
            end = nonzero_end(source, position)
            if end == position:
                return
            self._aside.append(self._free_name(name, position))
            copy = self._disk.create(self._aside[-1])
            try:
                for at in range(position, end, CHUNK_BYTES):
                    copy.write_at(at - position, source.read_at(at, min(CHUNK_BYTES, end - at)))
                copy.truncate(source.size() - position)
                copy.sync()
            except BaseException:
                with suppress(OSError):
                    self._disk.remove(self._aside[-1])
                raise
            finally:
                copy.close()
        finally:
            source.close()

    def _free_name(self, name: str, position: int) -> str:
        names = self._disk.names()
        wanted = f"{name}{ASIDE}{position}"
        numbered = (f"{wanted}.{count}" for count in range(1, len(names) + 2))
        return next(other for other in (wanted, *numbered) if other not in names)

    def _truncate(self, damage: Damage) -> None:
        file = self._disk.open(damage.name, write=True)
        try:
            file.truncate(damage.position)
            file.sync()
        finally:
            file.close()


def _whole_objects(view: FolderView, damage: Damage) -> Iterator[Record]:
    """The records of all objects of the base that end before the damage. The last one may be cut and is left out."""
    group: list[Record] = []
    for block in Walk(view).blocks():
        if block.index != IN_BASE or block.position >= damage.position:
            return
        for record in block.frames:
            if group and object_of(group[0]) != object_of(record):
                yield from group
                group = []
            group.append(record)
