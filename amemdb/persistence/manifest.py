"""The manifest: which files are the log, in which order. Replaced as a whole, at once, or not at all.

The file ``log.manifest`` is two lines of ASCII: a JSON object and the CRC-32 of that first line (with its line end) as
eight hex digits. Its members:

=============  ===============================================================================================
member         content
=============  ===============================================================================================
format         1
log_id         32 hex digits; also in every segment, and the key of every block's check
base           null: the log is complete from offset 0; else what stands for its beginning,
               ``{"number": n, "offset": o, "time_ms": t, "size": s}``
segments       the segments in order, each ``{"number": n, "start": offset}``
next_number    above every segment number handed out so far
=============  ===============================================================================================

A *base* (`amemdb.persistence.base`) is a file that holds the state at an offset, made by compaction. `time_ms` is the
time of the last frame before that offset, `size` the bytes of the file.

Rules: numbers and starts of segments rise; the first start is the base's offset, or 0 without one; every number is
below `next_number`, the base's as well, and no segment has it.

Crash story. A new manifest is written to ``log.manifest.tmp`` and synced (`prepare`), then renamed over the old one
and the folder is synced (`commit`). Until the rename the old one counts; afterwards a crash may show either, so
until `commit` has returned nothing may rely on the new one, and no file that either of them names may be removed. A
file is on disk before a manifest names it. A base that the manifest does not name is of no use. A segment file that
the manifest does not name is left over from a switch that did not happen (number at least `next_number`), was replaced
or prepared and had not taken over (number below it); no reply ever depended on it alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

from amemdb.errors import StorageError
from amemdb.persistence.codec import LOG_ID_BYTES
from amemdb.persistence.disk import Disk

NAME = "log.manifest"
TEMPORARY_NAME = "log.manifest.tmp"
LOCK_NAME = "log.lock"

_FORMAT = 1
_BYTES_MAX = 64 * 1024 * 1024
_PREFIX, _SEGMENT, _BASE = "log-", ".segment", ".base"
_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the log; it counts from `start` up to the start of the next one."""

    number: int
    start: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return segment_name(self.number)


@dataclass(frozen=True, slots=True)
class Base:
    """A file that stands for the log up to `offset`, where the time was `time_ms`; its file has `size` bytes."""

    number: int
    offset: int
    time_ms: int
    size: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return base_name(self.number)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of one log."""

    log_id: bytes
    segments: tuple[Segment, ...]
    next_number: int
    base: Base | None = None

    @property
    def names(self) -> list[str]:
        """The names of all its files."""
        names = [segment.name for segment in self.segments]
        return names if self.base is None else [self.base.name, *names]


def segment_name(number: int) -> str:
    """The file name of segment `number`."""
    return f"{_PREFIX}{number:0{_DIGITS}d}{_SEGMENT}"


def base_name(number: int) -> str:
    """The file name of base `number`."""
    return f"{_PREFIX}{number:0{_DIGITS}d}{_BASE}"


def segment_number(name: str) -> int | None:
    """The number in a segment's file name, or None if `name` is another kind of file."""
    return _number_in(name, _SEGMENT, segment_name)


def base_number(name: str) -> int | None:
    """The number in a base's file name, or None if `name` is another kind of file."""
    return _number_in(name, _BASE, base_name)


def file_number(name: str) -> int | None:
    """The number in the name of a segment or of a base, or None if `name` is another kind of file."""
    number = segment_number(name)
    return base_number(name) if number is None else number


def _number_in(name: str, suffix: str, name_of: Callable[[int], str]) -> int | None:
    digits = name.removeprefix(_PREFIX).removesuffix(suffix)
    if digits.isascii() and digits.isdigit() and name_of(int(digits)) == name:
        return int(digits)
    return None


def read(disk: Disk) -> Manifest | None:
    """The manifest of the folder, or None if there is none. `StorageError` if it cannot be trusted."""
    if NAME not in disk.names():
        return None
    file = disk.open(NAME)
    try:
        data = file.read_at(0, _BYTES_MAX)
    finally:
        file.close()
    try:
        return parse(data)
    except ValueError as error:
        raise StorageError(
            f"{disk.path(NAME)} cannot be used: {error}. Nothing was changed; 'amemdb check' may put it together "
            f"again, else restore a backup."
        ) from None


def prepare(disk: Disk, manifest: Manifest) -> None:
    """Put `manifest` on disk beside the current one. A failure leaves the current one as it is."""
    file = disk.create(TEMPORARY_NAME, replace=True)
    try:
        file.write_at(0, pack(manifest))
        file.sync()
    finally:
        file.close()


def commit(disk: Disk) -> None:
    """Put the prepared manifest in force. After a failure either of the two may be the one that a restart finds."""
    disk.rename(TEMPORARY_NAME, NAME)
    disk.sync_folder()


def pack(manifest: Manifest) -> bytes:
    """The bytes of the file."""
    body = {
        "format": _FORMAT,
        "log_id": manifest.log_id.hex(),
        "base": None if manifest.base is None else asdict(manifest.base),
        "segments": [{"number": segment.number, "start": segment.start} for segment in manifest.segments],
        "next_number": manifest.next_number,
    }
    line = json.dumps(body).encode("ascii") + b"\n"
    return line + b"%08x\n" % crc32(line)


def parse(data: bytes) -> Manifest:
    """The manifest in `data`; `ValueError` says what is wrong with it."""
    line, newline, checksum = data.partition(b"\n")
    line += newline
    if checksum != b"%08x\n" % crc32(line):
        raise ValueError("its checksum is wrong")
    body = json.loads(line)
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT}, the one this server knows")
    segments = tuple(
        Segment(_natural(entry, "number"), _natural(entry, "start")) for entry in _list(body.get("segments"))
    )
    log_id = bytes.fromhex(str(body.get("log_id")))
    manifest = Manifest(log_id, segments, _natural(body, "next_number"), _base(body.get("base")))
    _require_order(manifest)
    return manifest


def _require_order(manifest: Manifest) -> None:
    segments, base = manifest.segments, manifest.base
    if len(manifest.log_id) != LOG_ID_BYTES:
        raise ValueError("its log id has the wrong length")
    start = 0 if base is None else base.offset
    if not segments or segments[0].start != start:
        raise ValueError(f"its segments do not begin at offset {start}")
    for before, after in pairwise(segments):
        if before.number >= after.number or before.start >= after.start:
            raise ValueError("its segments are not in order")
    if segments[-1].number >= manifest.next_number:
        raise ValueError("its next number is already in use")
    if base is not None and (base.number >= manifest.next_number or base.number in {one.number for one in segments}):
        raise ValueError("the number of its base is not one of its own")


def _base(entry: Any) -> Base | None:
    if entry is None:
        return None
    return Base(*[_natural(entry, member) for member in ("number", "offset", "time_ms", "size")])


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("its segments are not a list")
    return value


def _natural(entry: Any, member: str) -> int:
    value = entry.get(member) if isinstance(entry, dict) else None
    if type(value) is not int or value < 0:
        raise ValueError(f"its {member} is not a natural number")
    return value
