"""Logs made by hand: frames of one's choice in segments of one's choice, and what compaction makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgpack

from amemdb.persistence import manifest as manifests
from amemdb.persistence.base import BaseWriter
from amemdb.persistence.codec import SEGMENT_HEADER_BYTES, pack_block_header, pack_segment_header
from amemdb.persistence.compaction import Compacted, Progress, Task, compact
from amemdb.persistence.disk import Disk
from amemdb.persistence.manifest import Base, Manifest, Segment, base_name
from amemdb.persistence.recovery import RecoveryReport, recover
from amemdb.stores.records import Record
from amemdb.stores.stores import Stores

LOG_ID = b"0123456789abcdef"
T = 1_700_000_000_000


def frame(*changes: Record, at_ms: int = T) -> bytes:
    """One frame."""
    packed: bytes = msgpack.packb((at_ms, *changes))
    return packed


def make_log(disk: Disk, *segments: Sequence[bytes], base: Base | None = None, number: int = 1) -> Manifest:
    """A log of those frames, two to a block; segments are numbered from `number` on, the last one is open."""
    offset = 0 if base is None else base.offset
    made: list[Segment] = []
    for frames in segments:
        segment = Segment(number + len(made), offset)
        file = disk.create(segment.name)
        file.write_at(0, pack_segment_header(LOG_ID, segment.number, offset, offset))
        position = SEGMENT_HEADER_BYTES
        for index in range(0, len(frames), 2):
            payload = b"".join(frames[index : index + 2])
            header = pack_block_header(LOG_ID, segment.number, position, offset, segment.start, payload)
            file.write_at(position, header, payload)
            position += len(header) + len(payload)
            offset += len(payload)
        file.sync()
        file.close()
        made.append(segment)
    manifest = Manifest(LOG_ID, tuple(made), number + len(made) + 50, base)
    put_manifest(disk, manifest)
    return manifest


def put_manifest(disk: Disk, manifest: Manifest) -> None:
    """Put it in force."""
    manifests.prepare(disk, manifest)
    manifests.commit(disk)


def make_base(disk: Disk, changes: Sequence[Record], *, number: int = 40, offset: int = 1000, time_ms: int = T) -> Base:
    """A base of those records."""
    file = disk.create(base_name(number))
    writer = BaseWriter(file, LOG_ID, number, offset, time_ms)
    for _ in writer.write(changes):
        pass
    base = writer.close()
    file.close()
    disk.sync_folder()
    return base


def task_of(manifest: Manifest, *, memory_bytes: int = 1 << 30, parts: int = 1) -> Task:
    """To compact all but the open segment."""
    *closed, last = manifest.segments
    number = manifest.next_number - 1
    return Task(manifest.log_id, manifest.base, tuple(closed), last.start, number, memory_bytes, parts)


def run(disk: Disk, task: Task, watch: Callable[[Progress], None] = lambda progress: None) -> Compacted:
    """Do it to the end."""
    work = compact(disk, task)
    while True:
        try:
            watch(next(work))
        except StopIteration as end:
            done: Compacted = end.value
            return done


def rebased(disk: Disk, manifest: Manifest, done: Compacted) -> Manifest:
    """The manifest with the new base, put in force."""
    renewed = Manifest(manifest.log_id, manifest.segments[-1:], manifest.next_number, done.base)
    put_manifest(disk, renewed)
    return renewed


def loaded(disk: Disk) -> tuple[Stores, RecoveryReport]:
    """What a start would load."""
    manifest = manifests.read(disk)
    assert manifest is not None
    stores = Stores()
    report = recover(disk, manifest, stores.apply)
    return stores, report


def content(disk: Any) -> dict[str, bytes]:
    """Every file of a simulated disk."""
    return {name: bytes(disk.file(name)) for name in disk.names()}
