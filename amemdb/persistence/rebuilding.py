"""A manifest put together again from the headers of the files it named, for when it is missing or cannot be read.

Only if there is one way to do it: all segments of one log, their numbers and starts rising, each reaching the start of
the next, and a base of the right offset where the first one does not begin at 0. Segments without blocks count for
nothing, as they were only prepared. Whatever can be told in two ways is not guessed. Changes nothing on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from amemdb.errors import StorageError
from amemdb.persistence.base import BASE_HEADER_BYTES, parse_base_header
from amemdb.persistence.codec import SEGMENT_HEADER_BYTES, FormatError, SegmentHeader, parse_segment_header
from amemdb.persistence.disk import Disk
from amemdb.persistence.manifest import Base, Manifest, Segment, base_number, file_number, segment_number
from amemdb.persistence.scan import has_blocks, holds_data
from amemdb.persistence.view import FolderView
from amemdb.persistence.walk import Walk


def rebuild(disk: Disk) -> Manifest | None:
    """The one manifest that fits the files, or None if there is none, or more than one."""
    segments: list[SegmentHeader] = []
    bases: list[tuple[bytes, Base]] = []
    numbers = [0]
    for name in disk.names():
        number = file_number(name)
        if number is not None:
            numbers.append(number)
            header = _segment(disk, name)
            if header is not None:
                segments.append(header)
            elif base_number(name) is None and _asked(has_blocks, disk, name):
                return None
            bases += _base(disk, name)
    segments.sort(key=lambda header: header.number)
    if not segments or len({header.log_id for header in segments}) > 1:
        return None
    if any(before.start >= after.start for before, after in pairwise(segments)):
        return None
    log_id = segments[0].log_id
    fitting = [base for of, base in bases if of == log_id]
    chosen = tuple(Segment(header.number, header.start) for header in segments)
    found = _with_base(log_id, chosen, max(numbers) + 1, fitting)
    return found if found is not None and _fits(disk, found) else None


def _with_base(log_id: bytes, segments: tuple[Segment, ...], next_number: int, bases: list[Base]) -> Manifest | None:
    """The manifest with the base that the segments begin at, if they do not begin at 0 by themselves."""
    if segments[0].start == 0:
        return Manifest(log_id, segments, next_number)
    starts = {segment.start: index for index, segment in enumerate(segments)}
    usable = [base for base in bases if base.offset in starts]
    first = [base for base in usable if base.offset == segments[0].start] or usable
    if len(first) != 1:
        return None
    return Manifest(log_id, segments[starts[first[0].offset] :], next_number, first[0])


def _fits(disk: Disk, manifest: Manifest) -> bool:
    """Whether each file reaches the start of the next one, so that none is missing between them."""
    with FolderView(disk, manifest) as view:
        walk = Walk(view)
        for _ in walk.blocks():
            pass
        return walk.damage is None or walk.damage.index == len(manifest.segments) - 1


def _segment(disk: Disk, name: str) -> SegmentHeader | None:
    if segment_number(name) is None:
        return None
    try:
        header = parse_segment_header(_head(disk, name, SEGMENT_HEADER_BYTES)[0])
    except FormatError:
        return None
    return header if header is not None and header.number == segment_number(name) else None


def _base(disk: Disk, name: str) -> list[tuple[bytes, Base]]:
    if base_number(name) is None:
        return []
    data, size = _head(disk, name, BASE_HEADER_BYTES)
    try:
        header = parse_base_header(data)
    except FormatError:
        return []
    if header is None or header.number != base_number(name):
        return []
    return [(header.log_id, Base(header.number, header.offset, header.time_ms, size))]


def _head(disk: Disk, name: str, count: int) -> tuple[bytes, int]:
    try:
        file = disk.open(name)
        try:
            return file.read_at(0, count), file.size()
        finally:
            file.close()
    except OSError as error:
        raise StorageError(f"{disk.path(name)} cannot be read: {error.strerror}") from error


def any_data(disk: Disk) -> bool:
    """Whether there are files of a log that are not empty."""
    return any(_asked(holds_data, disk, name) for name in disk.names())


def _asked(question: Callable[[Disk, str], bool], disk: Disk, name: str) -> bool:
    try:
        return question(disk, name)
    except OSError as error:
        raise StorageError(f"{disk.path(name)} cannot be read: {error.strerror}") from error
