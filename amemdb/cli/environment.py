"""What `amemdb doctor` looks at on this machine: Python and its libraries, limits of the system, the data folder.

Nothing is changed, no lock is taken, and no folder is made: a check must not be what stops a server from starting.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from amemdb import native
from amemdb.cli.connection import is_loopback
from amemdb.cli.findings import Finding
from amemdb.cli.showing import size
from amemdb.config import BY_NAME
from amemdb.errors import printable
from amemdb.persistence import manifest
from amemdb.persistence.view import holder

FILES_BESIDE_CLIENTS = 512
FREE_BYTES_LOW, FREE_SHARE_LOW = 1 << 30, 0.05
MEMORY_SHARE_LOW = 0.1
LIBRARIES = ("uvloop", "numpy", "msgpack", "redis", "hiredis")
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"}
PASSING_FILE_SYSTEMS = {"tmpfs", "ramfs"}


# -- the machine -------------------------------------------------------------------------------------


def of_machine() -> Iterator[Finding]:
    """Python, libraries, limits."""
    yield Finding("ok", "Python", f"{platform.python_version()}, {platform.system()} {platform.release()}")
    if sys.flags.optimize:
        yield Finding("warn", "Python", "runs with -O, which takes the server's own checks away", "start it without -O")
    yield from _libraries()
    yield _native()
    yield _blas_threads()
    yield _open_files()
    yield from _memory()
    yield from _kernel()


def _libraries() -> Iterator[Finding]:
    found, missing = [], []
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("fail", "libraries", f"missing: {', '.join(missing)}", "install amemdb again: pip install amemdb")
    else:
        yield Finding("ok", "libraries", ", ".join(found))


def _native() -> Finding:
    if native.ENABLED:
        return Finding("ok", "native code", "built")
    if native.DECLINED:
        return Finding("ok", "native code", "not asked for: AMEMDB_NATIVE=0 is set")
    do = "install a C compiler and Python's headers, then amemdb again"
    return Finding("warn", "native code", f"not in use, {native.MISSING}: everything works, several times slower", do)


def _blas_threads() -> Finding:
    set_to = os.environ.get("OPENBLAS_NUM_THREADS", "")
    if set_to in ("", "1"):
        return Finding("ok", "numpy", "one BLAS thread in the server: searches do not fight with the event loop")
    text = f"OPENBLAS_NUM_THREADS is {printable(set_to.encode())}: searches may take the cores from the event loop"
    return Finding("warn", "numpy", text, "unset it; the server then uses 1 and has search-threads of its own")


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = BY_NAME["maxclients"].default + FILES_BESIDE_CLIENTS
    if hard in (resource.RLIM_INFINITY, -1) or hard >= needed:
        return Finding("ok", "open files", f"{soft:,}, which the server raises to what maxclients needs")
    text = f"at most {hard:,}, so fewer connections than the default maxclients of {BY_NAME['maxclients'].default:,}"
    return Finding(
        "warn", "open files", text, "raise it (LimitNOFILE= of systemd, ulimits of the container) or lower maxclients"
    )


def _memory() -> Iterator[Finding]:
    told = _first_numbers("/proc/meminfo")
    total, free = told.get("MemTotal", 0) << 10, told.get("MemAvailable", 0) << 10
    limit = _text("/sys/fs/cgroup/memory.max")
    within = f", {size(int(limit))} for this container" if limit.isdigit() else ""
    if total and free < total * MEMORY_SHARE_LOW:
        text = f"{size(free)} of {size(total)} free{within}"
        yield Finding("warn", "memory", text, "everything the server holds is in memory: make room or get more")
    elif total:
        yield Finding("ok", "memory", f"{size(free)} of {size(total)} free{within}")


def _kernel() -> Iterator[Finding]:
    if _text("/proc/sys/vm/overcommit_memory") == "2":
        text = "strict (vm.overcommit_memory 2): memory may be refused while there is some"
        yield Finding("warn", "overcommit", text, "sysctl vm.overcommit_memory=0, unless that is on purpose")
    else:
        yield Finding("ok", "overcommit", "memory is given when it is used")
    pages = _text("/sys/kernel/mm/transparent_hugepage/enabled")
    if "[always]" in pages:
        text = "always: memory in use grows, and the kernel stops the server now and then to make them"
        do = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        yield Finding("warn", "huge pages", text, do)
    elif pages:
        yield Finding("ok", "huge pages", "only where asked for")


# -- the data folder ---------------------------------------------------------------------------------


def of_folder(folder: Path) -> Iterator[Finding]:
    """Whether a server can keep its data there, or why one could not."""
    shown = printable(os.fsencode(folder))
    if not folder.exists():
        parent = next(path for path in folder.absolute().parents if path.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            yield Finding("ok", "folder", f"{shown} is not there yet; the server makes it")
            yield from _space(parent)
        else:
            yield Finding(
                "fail", "folder", f"{shown} is not there and cannot be made", f"make it, or allow writing in {parent}"
            )
        return
    if not folder.is_dir():
        yield Finding("fail", "folder", f"{shown} is a file", "give --dir another path")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        owner = folder.stat().st_uid
        text = f"{shown} belongs to user {owner} and cannot be written by user {os.geteuid()}"
        yield Finding("fail", "folder", text, f"chown -R {os.geteuid()} {shown}, or run as its owner")
        return
    yield Finding("ok", "folder", f"{shown} can be written")
    yield _lock(folder)
    yield _manifest(folder)
    yield _file_system(folder)
    yield from _space(folder)
    yield from _crash_files(folder)


def _lock(folder: Path) -> Finding:
    used_by = holder(folder)
    if used_by is not None:
        return Finding("ok", "lock", f"in use by the server of {used_by}")
    if not (folder / manifest.LOCK_NAME).exists():
        return Finding("ok", "lock", "no server has been here yet")
    return Finding("ok", "lock", "free: no server runs on this folder")


def _manifest(folder: Path) -> Finding:
    path, shown = folder / manifest.NAME, printable(os.fsencode(folder))
    try:
        found = manifest.parse(path.read_bytes())
    except FileNotFoundError:
        if any(manifest.file_number(path.name) is not None for path in folder.iterdir()):
            text = "missing, and there are files of a log: no server starts here"
            return Finding("fail", "manifest", text, f"amemdb check {shown} tells whether it can be put together again")
        return Finding("ok", "manifest", "none: the server begins empty")
    except (OSError, ValueError) as error:
        text = f"cannot be read: {printable(str(error).encode('utf-8', 'replace'))}"
        return Finding("fail", "manifest", text, f"amemdb check {shown} tells whether it can be put together again")
    missing = [name for name in found.names if not (folder / name).exists()]
    if missing:
        text = f"names files that are missing: {', '.join(missing)}"
        return Finding("fail", "manifest", text, f"restore a backup; amemdb check {shown} tells what is left")
    total = sum((folder / name).stat().st_blocks * 512 for name in found.names)
    text = f"{_files(len(found.names), 'log')}, {size(total)} on disk; amemdb check {shown} reads them"
    return Finding("ok", "manifest", text)


def _file_system(folder: Path) -> Finding:
    kind = _kind_of_file_system(folder)
    if kind in PASSING_FILE_SYSTEMS:
        return Finding(
            "fail", "file system", f"{kind}: memory, gone at the next restart of the machine", "put --dir on a disk"
        )
    if kind in NETWORK_FILE_SYSTEMS:
        text = f"{kind}: over the network, where locks and fsync may not mean what they should"
        return Finding("warn", "file system", text, "put --dir on a local disk")
    if kind == "overlay":
        return Finding("warn", "file system", "overlay: gone with the container", "mount a volume for --dir")
    return Finding("ok", "file system", kind or "unknown")


def _kind_of_file_system(folder: Path) -> str:
    best, kind = "", ""
    real = os.path.realpath(folder)
    for line in _text("/proc/self/mounts").splitlines():
        fields = line.split()
        if len(fields) > 2:
            place = fields[1].replace("\\040", " ")
            if (real == place or real.startswith(place.rstrip("/") + "/")) and len(place) >= len(best):
                best, kind = place, fields[2]
    return kind


def _space(folder: Path) -> Iterator[Finding]:
    told = os.statvfs(folder)
    free, total = told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize
    if told.f_files and not told.f_favail:
        yield Finding("fail", "space", "no inodes left: no file can be made", "remove small files on this disk")
    if free < 2 * BY_NAME["log-reserve-bytes"].default:
        yield Finding("fail", "space", f"{size(free)} free: writes are refused", "make room on this disk now")
    elif free < FREE_BYTES_LOW or free < total * FREE_SHARE_LOW:
        yield Finding("warn", "space", f"only {size(free)} of {size(total)} free", "make room before the log needs it")
    else:
        yield Finding("ok", "space", f"{size(free)} of {size(total)} free")


def folder_of(url: str, state: Mapping[str, Any], settings: Mapping[str, str]) -> Path | None:
    """The data folder of the server at `url`, where that runs on this machine and its folder can be seen."""
    told = settings.get("dir")
    if not told or not is_loopback(url):
        return None
    if os.path.isabs(told):
        return Path(told) if os.path.isdir(told) else None  # else it is in a container of its own
    try:
        return Path(os.readlink(f"/proc/{int(state['process_id'])}/cwd")) / told
    except (OSError, KeyError, ValueError):
        return None


def crashed_s_ago(folder: Path | None) -> float | None:
    """The age of the newest crash file; None where there is none, or none can be seen."""
    try:
        written_at = [path.stat().st_mtime for path in folder.glob("crash-*")] if folder is not None else []
    except OSError:
        return None
    return max(0.0, time.time() - max(written_at)) if written_at else None


def _crash_files(folder: Path) -> Iterator[Finding]:
    found = sorted(path.name for path in folder.glob("crash-*"))
    if found:
        text = (
            f"{len(found)} crash {'file' if len(found) == 1 else 'files'}, the newest {printable(found[-1].encode())}"
        )
        yield Finding("warn", "crashes", text, "read it, report it, then remove it")


def _files(count: int, kind: str) -> str:
    return f"{count:,} {kind} {'file' if count == 1 else 'files'}"


# -- reading -----------------------------------------------------------------------------------------


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _first_numbers(path: str) -> dict[str, int]:
    found = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(":")
        number = rest.split()[:1]
        if number and number[0].isdigit():
            found[name] = int(number[0])
    return found
