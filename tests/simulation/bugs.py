"""Bugs to be planted: each a mistake that a log can make, by name. The simulator has to find every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from amemdb.commands import recall
from amemdb.persistence import compaction, recovery
from amemdb.persistence import log as logs
from amemdb.persistence import manifest as manifests
from amemdb.persistence.base import BaseWriter
from amemdb.persistence.codec import BLOCK_HEADER_BYTES, KNOWN_KINDS, pack_segment_header, parse_block_header
from amemdb.persistence.log import Log
from amemdb.persistence.steps import Rebase
from amemdb.persistence.writer import LogWriter
from amemdb.server import log_service
from amemdb.stores import records
from amemdb.stores.records import Record
from amemdb.stores.semantic import SemanticStore
from tests.simulation.schedule import MS
from tests.simulation.world import WALL_START_MS

Plant = Callable[[pytest.MonkeyPatch], None]


def sync_left_out(patch: pytest.MonkeyPatch) -> None:
    """The log says that it has synced, and has not."""
    patch.setattr(LogWriter, "_timed_sync", lambda self, file: self.sync_times.took(0))


def reply_before_sync(patch: pytest.MonkeyPatch) -> None:
    """Under `always`, replies leave when their block is written, and it is synced behind that."""
    real = Log._append
    patch.setattr(Log, "_append", lambda self, *, sync: real(self, sync=False))
    patch.setattr(Log, "released_offset", property(lambda self: self.written_offset))


def reply_before_write(patch: pytest.MonkeyPatch) -> None:
    """Replies leave before their block is written."""
    patch.setattr(Log, "released_offset", property(lambda self: self.offset))


def sync_every_five_seconds(patch: pytest.MonkeyPatch) -> None:
    """Under `everysec`, the log is synced too rarely."""
    patch.setattr(logs, "SYNC_SECONDS", 5.0)


def replay_expires(patch: pytest.MonkeyPatch) -> None:
    """When the log is read, what has ended by the clock is left out."""
    real = recovery.recover

    def recover(disk: Any, manifest: Any, apply: Callable[[Record], None], on_progress: Any = None) -> Any:
        now_ms = WALL_START_MS + log_service.time.monotonic_ns() // MS

        def apply_live(record: Record) -> None:
            if record[0] != records.KEY_SET or not 0 < record[4] <= now_ms:
                apply(record)

        return real(disk, manifest, apply_live, on_progress)

    patch.setattr(log_service, "recover", recover)


def cut_inside_a_frame(patch: pytest.MonkeyPatch) -> None:
    """Of a torn block, the records that can be read are kept, be their frame whole or not."""
    real = recovery.Replay._damage

    def damage(self: Any, file: Any, position: int, reason: str) -> None:
        header = parse_block_header(
            file.read_at(position, BLOCK_HEADER_BYTES),
            self._manifest.log_id,
            self._manifest.segments[self.report.index].number,
            position,
        )
        if header is not None and header.offset == self.report.offset:
            self.report.offset += _applied(self._apply, file.read_at(position + BLOCK_HEADER_BYTES, header.length))
        real(self, file, position, reason)

    patch.setattr(recovery.Replay, "_damage", damage)


def _applied(apply: Callable[[Record], None], payload: bytes) -> int:
    """Apply the records at the beginning of `payload` that can be read; how many bytes they are."""
    unpacker = msgpack.Unpacker(use_list=False, max_buffer_size=0)
    unpacker.feed(payload)
    end = 0
    try:
        while True:
            count = unpacker.read_array_header()
            unpacker.unpack()
            for _ in range(count - 1):
                record = unpacker.unpack()
                if type(record) is not tuple or not record or record[0] not in KNOWN_KINDS:
                    return end
                apply(record)
                end = unpacker.tell()
    except (ValueError, msgpack.exceptions.UnpackException, TypeError, AssertionError, IndexError):
        return end


def manifest_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A manifest is put in force before it is on disk."""

    def prepare(disk: Any, manifest: Any) -> None:
        disk.create(manifests.TEMPORARY_NAME, replace=True).write_at(0, manifests.pack(manifest))

    patch.setattr(manifests, "prepare", prepare)


def manifest_before_the_old_segment(patch: pytest.MonkeyPatch) -> None:
    """The next segment takes over, and says that all before it is durable, before the old one is synced."""

    def turn_over(self: Any, step: Any, done: Any) -> None:
        done.stage = "prepare"
        segment, file = step.segment, self._open[step.segment.number].file
        file.write_at(0, pack_segment_header(self.log_id, segment.number, segment.start, segment.start))
        self._timed_sync(file)
        manifests.prepare(self._disk, step.manifest)
        done.stage = "commit"
        manifests.commit(self._disk)
        self._timed_sync(self._open[step.old.number].file)

    patch.setattr(LogWriter, "_turn_over", turn_over)


def manifest_before_its_base(patch: pytest.MonkeyPatch) -> None:
    """A manifest names a base that was not synced."""
    real = BaseWriter.close

    def close(self: Any) -> Any:
        file, self._file = self._file, _Unsynced(self._file)
        base = real(self)
        self._file = file
        return base

    patch.setattr(BaseWriter, "close", close)


class _Unsynced:
    """A file that is never synced."""

    def __init__(self, file: Any) -> None:
        self.write_at = file.write_at

    def sync(self) -> None:
        """Nothing."""


def removed_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """What a base stands for is removed before the manifest with the base is in force."""

    def rebase(self: Any, step: Rebase, done: Any) -> None:
        done.stage = "prepare"
        self._remove(list(step.replaced))
        manifests.prepare(self._disk, step.manifest)
        done.stage = "commit"
        manifests.commit(self._disk)

    patch.setattr(LogWriter, "_rebase", rebase)


def compaction_expires(patch: pytest.MonkeyPatch) -> None:
    """What has ended by the time of the last frame is left out of a base."""
    real = compaction._Compaction._replay

    def replay(self: Any, index: int, count: int) -> Any:
        time_ms = yield from real(self, index, count)
        if time_ms is not None:
            self._stores = _Living(self._stores, time_ms)
        return time_ms

    patch.setattr(compaction._Compaction, "_replay", replay)


class _Living:
    """Stores that show only what has not ended."""

    def __init__(self, stores: Any, now_ms: int) -> None:
        self._stores = getattr(stores, "_stores", stores)
        self._now_ms = now_ms

    def dumps(self, now_ms: int) -> Any:
        return self._stores.dumps(self._now_ms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stores, name)


def compaction_forgets_a_part(patch: pytest.MonkeyPatch) -> None:
    """A part that is too large is divided, and one half of it is never written."""
    real = compaction._Compaction._replay

    def replay(self: Any, index: int, count: int) -> Any:
        time_ms = yield from real(self, index, count)
        if time_ms is not None and index >= self._task.parts and count > self._task.parts and self._todo:
            self._todo.pop()
        return time_ms

    patch.setattr(compaction._Compaction, "_replay", replay)


def recalls_are_no_use(patch: pytest.MonkeyPatch) -> None:
    """A full memory lets go of what was written longest ago, be it recalled all the time."""
    patch.setattr(SemanticStore, "touch", lambda self, namespace, facts, now_ms: None)


def filtered_after_the_search(patch: pytest.MonkeyPatch) -> None:
    """Of the k nearest those are left out that do not pass, and nothing takes their place."""
    real = recall._Hunt._sorted_out

    def sorted_out(self: Any, hits: list[Any]) -> Any:
        _, unknown = real(self, hits)
        return [hit for hit in hits[: self._k] if hit[1] in self._passed], unknown

    patch.setattr(recall._Hunt, "_sorted_out", sorted_out)


BUGS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        sync_left_out,
        reply_before_sync,
        reply_before_write,
        sync_every_five_seconds,
        replay_expires,
        cut_inside_a_frame,
        manifest_not_synced,
        manifest_before_the_old_segment,
        manifest_before_its_base,
        removed_before_the_commit,
        compaction_expires,
        compaction_forgets_a_part,
        recalls_are_no_use,
        filtered_after_the_search,
    )
}
