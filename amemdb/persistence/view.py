"""A data folder as it is at one moment, to be read beside the server that writes it. Changes nothing, takes no lock.

Reading a folder in use has three dangers, and each has its rule:

* *Files go.* A compaction removes what it has replaced, a log that begins anew after a failure what it does not trust.
  So all files of the manifest are opened first: what is open stays readable, whatever becomes of its name.
* *The manifest changes in between.* It is read again when all else is done, and if it names other files by then,
  everything begins anew. Until then the last segment of the first reading is the one to which every write went, so
  that all that was answered before is in it.
* *The last segment grows, and is cut off when its successor has taken over.* So it is copied, and the copy ends with
  its last whole block. A block of which a part is written is not whole; nothing can lie behind it. If something does,
  it was completed while the copy was made, or it is damage: another copy tells which, as blocks are not changed.

The older files of a log do not change any more: at most, what does not count is cut off behind the end of the newest.

Where no server writes, the last segment is read as it is, since what is broken there is what somebody wants to know.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO
from zlib import crc32

from amemdb.errors import StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import BLOCK_HEADER_BYTES, SEGMENT_HEADER_BYTES, parse_block_header
from amemdb.persistence.disk import Disk, File, FolderDisk, lock_owner
from amemdb.persistence.manifest import Manifest
from amemdb.persistence.scan import CHUNK_BYTES, Window, nonzero_end, placed_headers

ATTEMPTS_MAX = 200
"""How often the files may turn out to be others than the manifest said before it is given up."""
COPIED_IN_MEMORY_MAX = 64 << 20
"""A copy of the last segment that is larger goes to a temporary file."""


class FolderView:
    """A `Disk` for reading only: the files of `manifest`, opened together. `missing` are those that are not there.

    A missing file reads as an empty one, so that what lies before it can be read.
    """

    def __init__(self, disk: Disk, manifest: Manifest) -> None:
        self.manifest = manifest
        self.missing: list[str] = []
        self._disk = disk
        self._files: dict[str, File] = {}
        try:
            for name in manifest.names:
                self._open(name)
        except BaseException:
            self.close()
            raise

    def _open(self, name: str) -> None:
        try:
            self._files[name] = self._disk.open(name)
        except FileNotFoundError:
            self.missing.append(name)
            self._files[name] = _Nothing()
        except OSError as error:
            raise StorageError(f"{self._disk.path(name)} cannot be read: {error.strerror}") from error

    def settle(self, room: Path | None) -> None:
        """Put a copy of the last segment, up to its last whole block, in its place; a large one goes to `room`."""
        segment = self.manifest.segments[-1]
        file = self._files[segment.name]
        copy = _Copy(file, room)
        broken = -1
        while True:
            end, more = _whole_end(copy, self.manifest.log_id, segment.number)
            if not more:
                copy.truncate(end)
                break
            if end == broken:
                break  # that is damage
            broken = end
            copy.close()
            copy = _Copy(file, room)
        self._files[segment.name] = copy
        file.close()

    def __enter__(self) -> FolderView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    # -- Disk ------------------------------------------------------------------------------------

    def open(self, name: str, *, write: bool = False) -> File:
        if write:
            raise _read_only()
        return _Shared(self._files[name])

    def names(self) -> list[str]:
        return sorted(self._files)

    def path(self, name: str) -> str:
        return self._disk.path(name)

    def create(self, name: str, *, replace: bool = False) -> File:
        raise _read_only()

    def rename(self, old: str, new: str) -> None:
        raise _read_only()

    def remove(self, name: str) -> None:
        raise _read_only()

    def sync_folder(self) -> None:
        raise _read_only()

    def file_bytes_max(self) -> int:
        return self._disk.file_bytes_max()

    def lock(self, name: str) -> Callable[[], None]:
        raise _read_only()


def open_view(disk: Disk, *, in_use: bool, room: Path | None = None) -> FolderView | None:
    """What the folder holds now, None if there is no manifest. With `in_use` somebody may be writing.

    `StorageError` if the manifest cannot be used, or does not stand still.
    """
    for _ in range(ATTEMPTS_MAX):
        manifest = _manifest(disk)
        if manifest is None:
            return None
        view = FolderView(disk, manifest)
        try:
            if in_use:
                view.settle(room)
            now = _manifest(disk)
        except BaseException:
            view.close()
            raise
        if now is not None and (now.segments, now.base) == (manifest.segments, manifest.base):
            return view
        view.close()
    raise StorageError(f"the log in {disk.path('')} changes faster than it can be read; try again when less is written")


def _manifest(disk: Disk) -> Manifest | None:
    try:
        return manifests.read(disk)
    except OSError as error:
        raise StorageError(f"{disk.path(manifests.NAME)} cannot be read: {error.strerror}") from error


def _whole_end(file: File, log_id: bytes, number: int) -> tuple[int, bool]:
    """The end of the whole blocks at the beginning of a segment, and whether a readable header lies behind it."""
    window = Window(file)
    position = min(SEGMENT_HEADER_BYTES, window.size)
    while True:
        header = parse_block_header(window.view(position, BLOCK_HEADER_BYTES), log_id, number, position)
        behind = position + BLOCK_HEADER_BYTES
        if header is None:
            behind = position
            break
        payload = window.view(behind, header.length)
        if len(payload) < header.length or crc32(payload) != header.crc:
            break
        position = behind + header.length
    return position, next(placed_headers(file, log_id, number, behind), None) is not None


def _read_only() -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS))


# -- files -------------------------------------------------------------------------------------------


class _Nothing:
    """The file that is not there: empty, and as all of these for reading only."""

    def read_at(self, position: int, count: int) -> bytes:
        return b""

    def size(self) -> int:
        return 0

    def close(self) -> None:
        pass

    def write_at(self, position: int, *parts: bytes) -> None:
        raise _read_only()

    def sync(self) -> None:
        raise _read_only()

    def allocate(self, position: int, count: int) -> None:
        raise _read_only()

    def truncate(self, size: int) -> None:
        raise _read_only()


class _Shared(_Nothing):
    """A file of the view, which stays open when a reader closes it."""

    def __init__(self, file: File) -> None:
        self._file = file

    def read_at(self, position: int, count: int) -> bytes:
        return self._file.read_at(position, count)

    def size(self) -> int:
        return self._file.size()


class _Copy(_Nothing):
    """What `file` holds now. The zeros at its end, which is room, are not copied but read as such."""

    def __init__(self, file: File, room: Path | None) -> None:
        folder = None if room is None else str(room)
        self._stream: IO[bytes] = tempfile.SpooledTemporaryFile(COPIED_IN_MEMORY_MAX, dir=folder)  # noqa: SIM115
        self._size = file.size()
        self._copied = 0
        end = nonzero_end(file, 0)
        while self._copied < end:
            data = file.read_at(self._copied, min(CHUNK_BYTES, end - self._copied))
            if not data:  # cut off meanwhile: its successor has taken over
                self._size = self._copied
                break
            self._stream.write(data)
            self._copied += len(data)

    def read_at(self, position: int, count: int) -> bytes:
        end = max(position, min(position + count, self._size))
        self._stream.seek(position)
        data = self._stream.read(max(0, min(end, self._copied) - position))
        return data + bytes(end - position - len(data))

    def size(self) -> int:
        return self._size

    def truncate(self, size: int) -> None:
        self._size = size

    def close(self) -> None:
        self._stream.close()


# -- who has it --------------------------------------------------------------------------------------


def holder(folder: str | os.PathLike[str]) -> str | None:
    """The process that has the folder, as words; None if nobody has. Told from the system's list of locks.

    To try the lock could be what makes a server's start fail. A server in another container is not in the list.
    """
    path = Path(folder) / manifests.LOCK_NAME
    try:
        status = path.stat()
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        locked = any(device in line.split() for line in Path("/proc/locks").read_text().splitlines())
        return _who(path) if locked else None
    except OSError:
        return None


def holder_for_certain(folder: str | os.PathLike[str]) -> str | None:
    """The same by trying, for a moment: only for a folder on which no server could start."""
    path = Path(folder) / manifests.LOCK_NAME
    with contextlib.suppress(FileNotFoundError, PermissionError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _who(path)
        except OSError:
            return None
        finally:
            os.close(descriptor)
    return None


def _who(path: Path) -> str:
    try:
        return lock_owner(path.read_bytes()[:20])
    except OSError:
        return lock_owner(b"")


def folder_disk(folder: str | os.PathLike[str]) -> FolderDisk:
    """The folder, which must be there. `StorageError` says why it is not one that can be read."""
    path = os.fspath(folder)
    try:
        if not os.path.isdir(path):
            os.stat(path)
            raise StorageError(f"{path} is a file, not a data folder")
        os.listdir(path)
    except FileNotFoundError:
        raise StorageError(f"there is no folder {path}") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}; run this as the user who owns it") from None
    return FolderDisk(path)
