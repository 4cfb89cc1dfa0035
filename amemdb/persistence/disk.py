"""The only door from persistence to the operating system.

`Disk` is one folder, `File` one open file in it, both as interfaces: what the log needs and no more, so that a
simulated disk that loses, tears and refuses can stand in. `FolderDisk` is the real one. Every failure is an
`OSError`, with one exception: a folder that is in use or cannot be used at all is a `StorageError`, whose text a
person reads.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import stat
from collections.abc import Callable, Sequence
from typing import Protocol

from amemdb.errors import StorageError

NO_LIMIT = 2**63 - 1
FILE_GONE = "a file of the log was removed from the data folder"
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


class File(Protocol):
    """One open file, addressed by position."""

    def write_at(self, position: int, *parts: bytes) -> None:
        """Write all of `parts` one behind the other, however many calls it takes; fails if the file was removed."""

    def read_at(self, position: int, count: int) -> bytes:
        """`count` bytes from `position`, fewer only where the file ends."""

    def size(self) -> int:
        """Bytes from the start to the end of the file."""

    def sync(self) -> None:
        """Return when what was written, and the size, are on the disk (fdatasync). After a failure: do not trust it."""

    def allocate(self, position: int, count: int) -> None:
        """Reserve real room for `count` bytes from `position`, which read as zeros; the file grows to hold them."""

    def truncate(self, size: int) -> None:
        """Make the file exactly `size` bytes."""

    def close(self) -> None:
        """Let go of the file."""


class Disk(Protocol):
    """One folder of files."""

    def create(self, name: str, *, replace: bool = False) -> File:
        """A new, empty file to write and read; one of that name is an error, or emptied with `replace`."""

    def open(self, name: str, *, write: bool = False) -> File:
        """An existing file."""

    def names(self) -> list[str]:
        """Every name in the folder, sorted."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name at once, in place of what may bear it."""

    def remove(self, name: str) -> None:
        """Take a file out of the folder."""

    def sync_folder(self) -> None:
        """Return when names created, renamed and removed are on the disk."""

    def file_bytes_max(self) -> int:
        """How large the system lets a file of this process grow right now."""

    def lock(self, name: str) -> Callable[[], None]:
        """Take the folder for this process and return what gives it back; `StorageError` if another one has it."""

    def path(self, name: str) -> str:
        """How a person finds the file."""


class FolderFile:
    """A file of a `FolderDisk`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        """What the system knows the file by, for native code."""
        return self._descriptor

    def write_at(self, position: int, *parts: bytes) -> None:
        total = sum(map(len, parts))
        done = self._write(parts, position)
        if done < total:
            rest = memoryview(b"".join(parts))
            while done < total:
                count = self._write([rest[done:]], position + done)
                if count <= 0:
                    raise OSError(errno.EIO, "a write wrote nothing")
                done += count
        if not os.fstat(self._descriptor).st_nlink:  # the system would go on taking what no restart can find
            raise OSError(errno.ENOENT, FILE_GONE)

    def _write(self, parts: Sequence[bytes | memoryview], position: int) -> int:
        return os.pwritev(self._descriptor, parts, position)

    def read_at(self, position: int, count: int) -> bytes:
        data = os.pread(self._descriptor, count, position)
        if len(data) == count or not data:
            return data
        pieces = [data]
        missing = count - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + count - missing)
            if not data:
                break
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def allocate(self, position: int, count: int) -> None:
        os.posix_fallocate(self._descriptor, position, count)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        os.close(self._descriptor)


class FolderDisk:
    """A folder of the real file system, made when it is not there.

    Names are resolved against the open folder, so nothing changes when the process changes its working directory or
    somebody renames the folder.
    """

    def __init__(self, folder: str, descriptor: int | None = None) -> None:
        """`descriptor` is of the folder where another process has opened it; `folder` is only its name then."""
        self.folder = os.path.abspath(folder)
        if descriptor is not None:
            self._descriptor = descriptor
            return
        try:
            _make_folder(self.folder)
            self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StorageError(f"the data folder {self.folder} cannot be used: {_what_to_do(error)}") from error

    @property
    def descriptor(self) -> int:
        """What the system knows the folder by."""
        return self._descriptor

    def create(self, name: str, *, replace: bool = False) -> FolderFile:
        return self._open(name, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL))

    def open(self, name: str, *, write: bool = False) -> FolderFile:
        return self._open(name, os.O_RDWR if write else os.O_RDONLY)

    def _open(self, name: str, flags: int) -> FolderFile:
        # Without O_NONBLOCK the opening of a pipe somebody put there would wait for another end.
        opened = os.open(name, flags | os.O_CLOEXEC | os.O_NONBLOCK, _FILE_MODE, dir_fd=self._descriptor)
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise OSError(errno.EINVAL, "it is not a regular file", name)
        return FolderFile(opened)

    def names(self) -> list[str]:
        # How far a listing has come belongs to what was opened, which other threads and processes share: a listing of
        # the folder as the constructor opened it would lose names to one of theirs.
        opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            return sorted(os.listdir(opened))
        finally:
            os.close(opened)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)

    def sync_folder(self) -> None:
        os.fsync(self._descriptor)

    def file_bytes_max(self) -> int:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        return NO_LIMIT if limit == resource.RLIM_INFINITY else limit

    def lock(self, name: str) -> Callable[[], None]:
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE, dir_fd=self._descriptor)
        except OSError as error:
            raise StorageError(f"the data folder {self.folder} cannot be written: {_what_to_do(error)}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = lock_owner(os.pread(descriptor, 20, 0))
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise StorageError(f"the data folder {self.folder} cannot be locked: {error.strerror}") from error
            raise StorageError(
                f"the data folder {self.folder} is in use by {owner}; each server needs its own"
            ) from None
        with contextlib.suppress(OSError):  # only the hint above depends on it
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        return lambda: os.close(descriptor)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._descriptor)


def _what_to_do(error: OSError) -> str:
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return f"{error.filename} is no folder. Choose another with --dir."
    if isinstance(error, PermissionError):
        return f"{error.strerror}. Let user {os.geteuid()} write there, who runs this, or choose another with --dir."
    return f"{error.strerror}. Choose another with --dir."


def _make_folder(folder: str) -> None:
    """Make `folder` and what is missing above it, each synced into its parent: a power cut must not lose them."""
    missing: list[str] = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        os.mkdir(path, _FOLDER_MODE)
        sync_parent(path)


def sync_parent(path: str) -> None:
    """Return when the name of `path`, which is absolute, is on the disk."""
    parent = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def lock_owner(content: bytes) -> str:
    """Who wrote that into a lock file, in words."""
    number = content.strip().decode("ascii", "replace")
    return f"process {number}" if number.isdigit() else "another process"
