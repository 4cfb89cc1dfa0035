"""Copies of a data folder: a backup beside the running server, and the way back.

`backup` needs only the folder. It opens all files of the log together (`amemdb.persistence.view`), so everything that
was answered before it began is in the copy, under every policy: what was answered has at least been written. What comes
while it runs may be in it; the copy ends with a whole block, so a command or a transaction is in it as a whole or not.

Crash story. Files are copied under other names, ``….partial``, and synced; then they get their own, the last one first
so that no beginning of a log can be taken for the whole, and the manifest comes at the very end. A backup is made
in a folder ``….partial`` as well, which gets its name when the copy has been read from beginning to end. What is
left over of one that was interrupted is removed by the next.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from amemdb.errors import StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.disk import FolderDisk, sync_parent
from amemdb.persistence.manifest import Manifest, file_number
from amemdb.persistence.recovery import RecoveryReport, recover
from amemdb.persistence.scan import CHUNK_BYTES
from amemdb.persistence.view import FolderView, folder_disk, open_view

OnBytes = Callable[[str, int, int], None]
"""Takes what is being done, the bytes done and the bytes in all."""

PARTIAL = ".partial"
_NO_DATA = ("lost+found", manifests.LOCK_NAME)
"""What may lie in a folder that counts as empty: a new file system has the one, a failed start leaves the other."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds: `report` is that of reading it as a start would."""

    report: RecoveryReport
    bytes: int
    files: int


def backup(folder: Path, destination: Path, on_bytes: OnBytes) -> Copied:
    """A copy of `folder` as the new folder `destination`. `StorageError` if there is none that a start would take."""
    _require_absent(destination)
    if folder.resolve() in destination.resolve().parents:
        raise StorageError(f"{destination} lies in {folder}, which is what is to be copied: choose another place")
    source = folder_disk(folder)
    try:
        with _made(destination) as target:
            with _files_of(source, folder, Path(target.folder)) as view:
                copied = _copy(view, target, on_bytes)
            target.remove(manifests.LOCK_NAME)
            _require_absent(destination)
            os.rename(target.folder, destination)
            sync_parent(os.path.abspath(destination))
    except OSError as error:
        raise StorageError(f"the backup was not made: {error.filename or destination}: {error.strerror}") from error
    finally:
        source.close()
    return copied


def restore(view: FolderView, folder: Path, on_bytes: OnBytes) -> Copied:
    """Copy what `view` holds into `folder`, which must not exist or hold nothing. `StorageError` if that fails."""
    require_empty(folder)
    was_there = folder.exists()
    target = FolderDisk(os.fspath(folder))
    unlock = target.lock(manifests.LOCK_NAME)
    try:
        return _copy(view, target, on_bytes)
    except BaseException as error:
        _empty(target)
        if not was_there:
            _remove_folder(target)
        if isinstance(error, OSError):
            raise StorageError(f"nothing was restored: {target.folder}: {error.strerror}") from error
        raise
    finally:
        unlock()
        target.close()


def require_empty(folder: Path) -> None:
    """`StorageError` unless a log can be restored to `folder`."""
    try:
        held = [name for name in sorted(os.listdir(folder)) if name not in _NO_DATA]
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{folder} cannot be used: {error.strerror}") from None
    if held:
        raise StorageError(
            f"{folder} is not empty (it holds {held[0]}) and is kept as it is: name a new folder, or move that one away"
        )


# -- the parts -----------------------------------------------------------------------------------


def _require_absent(destination: Path) -> None:
    if os.path.lexists(destination):
        raise StorageError(f"{destination} exists and is kept: give the backup another name")


@contextmanager
def _files_of(source: FolderDisk, folder: Path, room: Path) -> Iterator[FolderView]:
    """The files to copy, as of now."""
    view = open_view(source, in_use=True, room=room)
    if view is None:
        raise StorageError(f"{folder} holds no log: there is nothing to back up")
    with view:
        if view.missing:
            missing = source.path(view.missing[0])
            raise StorageError(f"{missing} is missing: 'amemdb check {folder}' tells what is left")
        yield view


@contextmanager
def _made(destination: Path) -> Iterator[FolderDisk]:
    """The new folder under its name for now; it is removed again if that is still its name in the end."""
    target = FolderDisk(f"{destination}{PARTIAL}")
    unlock = target.lock(manifests.LOCK_NAME)
    try:
        _empty(target)
        strange = [name for name in target.names() if name != manifests.LOCK_NAME]
        if strange:
            raise StorageError(f"{target.folder} holds {strange[0]}, which no backup left there: move it away")
        try:
            yield target
        except BaseException:
            _empty(target)
            _remove_folder(target)
            raise
    finally:
        unlock()
        target.close()


def _copy(view: FolderView, target: FolderDisk, on_bytes: OnBytes) -> Copied:
    manifest = view.manifest
    total = sum(view.open(name).size() for name in manifest.names)
    free = shutil.disk_usage(target.folder).free
    if free < total:
        raise StorageError(f"the copy takes {total >> 20:,} MiB, and {target.folder} has {free >> 20:,} MiB free")
    done = 0
    for name in manifest.names:
        done = _copy_file(view, name, target, done, lambda bytes_done: on_bytes("copying", bytes_done, total))
    for name in reversed(manifest.names):
        target.rename(name + PARTIAL, name)
    target.sync_folder()
    report = _read(target, manifest, on_bytes)
    manifests.prepare(target, manifest)
    manifests.commit(target)
    return Copied(report, total, len(manifest.names))


def _copy_file(view: FolderView, name: str, target: FolderDisk, done: int, on_done: Callable[[int], None]) -> int:
    """Copy one file, sync it, and return the bytes copied by then in all."""
    source, copy = view.open(name), target.create(name + PARTIAL)
    try:
        size = source.size()
        for position in range(0, size, CHUNK_BYTES):
            data = source.read_at(position, min(CHUNK_BYTES, size - position))
            copy.write_at(position, data)
            done += len(data)
            on_done(done)
        copy.sync()
    finally:
        copy.close()
    return done


def _read(target: FolderDisk, manifest: Manifest, on_bytes: OnBytes) -> RecoveryReport:
    """Read the copy as a start would, but for its records being applied to anything."""
    try:
        report = recover(target, manifest, lambda record: None, lambda done, total: on_bytes("verifying", done, total))
        reason = report.cut.reason if report.cut is not None else ""
    except StorageError as error:
        reason = str(error).partition(". Data that was known")[0].replace(target.folder + os.sep, "")
    if reason:
        raise StorageError(f"no copy is kept, as the log itself is damaged: {reason}. 'amemdb check' tells more")
    return report


def _empty(target: FolderDisk) -> None:
    """Remove what a copy consists of, whole or not; nothing else."""
    with suppress(OSError):
        for name in target.names():
            own = name.removesuffix(PARTIAL)
            if own in (manifests.NAME, manifests.TEMPORARY_NAME) or file_number(own) is not None:
                target.remove(name)


def _remove_folder(target: FolderDisk) -> None:
    """Remove the folder that was made for a copy, if nobody has put anything there."""
    with suppress(OSError):
        target.remove(manifests.LOCK_NAME)
    with suppress(OSError):
        os.rmdir(target.folder)
