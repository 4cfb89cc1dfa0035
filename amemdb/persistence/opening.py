"""Making a folder ready for the next write: the only place that changes files before the server runs.

`read` looks at what is there; `recovery` reads the log itself; `open_log` then, and only then, cuts off a torn
tail, removes what a crash left over, reserves room, and gives back the place where the log goes on together with
its writer.

What may be left over, and what becomes of it:

* ``log.manifest.tmp``: a manifest that never came into force. Removed.
* A segment that the manifest does not name, of a number below its `next_number`: replaced by that manifest, or made
  for what was to come, whose blocks the log holds elsewhere as well (`log`, on new segments). Removed.
* One of a number from `next_number` on, without blocks: the switch to it did not happen. Removed.
* Such a one with blocks: no reply depended on it (see `manifest`), but a folder put together from two copies would
  look the same. Set aside under another name and reported, never removed.
* A base that the manifest does not name: it was being made, or has been replaced. Removed.
* Segments without any manifest: a new log whose creation was cut short, if none of them has blocks and there is no
  base; else the manifest was lost and the folder is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amemdb.errors import StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.codec import BLOCK_HEADER_BYTES, SEGMENT_HEADER_BYTES, parse_block_header
from amemdb.persistence.disk import Disk, File
from amemdb.persistence.log import Report
from amemdb.persistence.manifest import Manifest, Segment, base_number, segment_number
from amemdb.persistence.place import Place
from amemdb.persistence.recovery import RecoveryReport
from amemdb.persistence.scan import CHUNK_BYTES, Window, has_blocks, holds_data
from amemdb.persistence.steps import Done, Switch
from amemdb.persistence.writer import LogWriter, reserve


def read(disk: Disk) -> Manifest | None:
    """The manifest of the folder, or None if it holds no log yet. `StorageError` if it cannot be used."""
    try:
        manifest = manifests.read(disk)
        if manifest is None:
            for name in disk.names():
                if holds_data(disk, name):
                    raise StorageError(
                        f"{disk.path(name)} holds data, but {disk.path(manifests.NAME)} is missing. Nothing was "
                        f"changed; 'amemdb check' may put it together again, else restore a backup."
                    )
        return manifest
    except OSError as error:
        raise StorageError(f"{disk.path('')} cannot be read: {error.strerror}") from error


def open_log(
    disk: Disk,
    manifest: Manifest | None,
    recovery: RecoveryReport,
    *,
    new_log_id: Callable[[], bytes],
    timer_ns: Callable[[], int],
    reserve_bytes: int,
    report: Report,
    filled: bool = False,
) -> tuple[Place, LogWriter]:
    """Make the log that was read as `recovery` ready for writing, or a new one where there is no manifest.

    With `filled`, the room that it gets is filled ahead (`steps.Extend`), for the policy `always`.
    A full disk is no obstacle here: the log opens without room and refuses writes until there is some.
    """
    try:
        if manifest is None:
            return _create(disk, new_log_id(), timer_ns, reserve_bytes, filled)
        _clear_leftovers(disk, manifest, report)
        cut = recovery.cut
        if cut is not None:
            report("warning", f"{cut.file}: {cut.bytes} bytes cut off at byte {cut.position}: {cut.reason}")
        if recovery.position == 0:
            return _replace(disk, manifest, recovery, timer_ns, reserve_bytes)
        if recovery.index + 1 < len(manifest.segments):
            manifest = _shorten(disk, manifest, recovery)
        return _go_on(disk, manifest, recovery, timer_ns, reserve_bytes, report, filled)
    except OSError as error:
        raise StorageError(f"{disk.path('')} cannot be written: {error.strerror}") from error


def _create(
    disk: Disk, log_id: bytes, timer_ns: Callable[[], int], reserve_bytes: int, filled: bool
) -> tuple[Place, LogWriter]:
    """A new log of one empty segment."""
    for name in disk.names():
        if segment_number(name) is not None:
            disk.remove(name)
    segment = Segment(1, 0)
    writer = LogWriter(disk, log_id, timer_ns)
    step = Switch(segment, 0, (), 0, reserve_bytes, Manifest(log_id, (segment,), 2), (), filled=filled)
    return _switched(writer, step, 0)


def _replace(
    disk: Disk, manifest: Manifest, recovery: RecoveryReport, timer_ns: Callable[[], int], reserve_bytes: int
) -> tuple[Place, LogWriter]:
    """A new segment in place of one that has lost its header, and of those behind it."""
    segment = Segment(manifest.next_number, recovery.offset)
    stays = manifest.segments[: recovery.index]
    renewed = replace(manifest, segments=(*stays, segment), next_number=manifest.next_number + 1)
    writer = LogWriter(disk, manifest.log_id, timer_ns)
    replaced = manifest.segments[recovery.index :]
    step = Switch(segment, recovery.offset, (), 0, reserve_bytes, renewed, replaced)
    return _switched(writer, step, recovery.bytes)


def _switched(writer: LogWriter, step: Switch, older_bytes: int) -> tuple[Place, LogWriter]:
    done: Done = writer.run(step)
    if done.error is not None:
        raise done.error
    place = Place(
        log_id=step.manifest.log_id,
        segments=step.manifest.segments,
        next_number=step.manifest.next_number,
        offset=step.segment.start,
        position=done.position,
        end=done.end,
        older_bytes=older_bytes,
        marked=False,
        base=step.manifest.base,
    )
    return place, writer


def _shorten(disk: Disk, manifest: Manifest, recovery: RecoveryReport) -> Manifest:
    """Take the segments behind a cut out of the log. They go only when the manifest without them is on disk."""
    gone = manifest.segments[recovery.index + 1 :]
    shorter = replace(manifest, segments=manifest.segments[: recovery.index + 1])
    manifests.prepare(disk, shorter)
    manifests.commit(disk)
    for segment in gone:
        disk.remove(segment.name)
    return shorter


def _go_on(
    disk: Disk,
    manifest: Manifest,
    recovery: RecoveryReport,
    timer_ns: Callable[[], int],
    reserve_bytes: int,
    report: Report,
    filled: bool,
) -> tuple[Place, LogWriter]:
    """Go on behind the last whole block of the last segment."""
    segment = manifest.segments[-1]
    position = recovery.position
    file = disk.open(segment.name, write=True)
    size = file.size()
    if recovery.cut is not None or size > position + reserve_bytes:
        file.truncate(position if recovery.cut is not None else position + reserve_bytes)
    try:
        end = reserve(file, position, reserve_bytes, reserve_bytes, filled=filled)
    except OSError as error:
        report("warning", f"no room can be reserved for the log: {error.strerror}")
        end = position
    # What was read may so far be in the page cache only: blocks, a cut, even the manifest, if the last process
    # was killed between renaming it and syncing the folder. All must be on disk before anything is built on it.
    _write_again(file, manifest.log_id, segment.number, recovery)
    file.sync()
    disk.sync_folder()
    place = Place(
        log_id=manifest.log_id,
        segments=manifest.segments,
        next_number=manifest.next_number,
        offset=recovery.offset,
        position=position,
        end=end,
        older_bytes=recovery.bytes - position,
        marked=recovery.closed,
        base=manifest.base,
    )
    return place, LogWriter(disk, manifest.log_id, timer_ns, segment.number, file)


def _write_again(file: File, log_id: bytes, number: int, recovery: RecoveryReport) -> None:
    """Write what no header says was durable once more, as it is, so that a sync covers it: blocks and closing headers.

    When a sync fails, the system takes what it could not write for written. It is read back from the page cache for
    as long as that lasts, by the next process as well, and a later sync that goes well says nothing about it.
    """
    window, position = Window(file), SEGMENT_HEADER_BYTES
    for offset, marked in recovery.marks:
        if offset < recovery.durable_offset:
            position = marked
    while position < recovery.position:
        header = parse_block_header(window.view(position, BLOCK_HEADER_BYTES), log_id, number, position)
        assert header is not None, "recovery has read it"
        if header.offset >= recovery.durable_offset:  # and so have all behind it
            break
        position += BLOCK_HEADER_BYTES + header.length
    for at in range(position, recovery.position, CHUNK_BYTES):
        file.write_at(at, file.read_at(at, min(CHUNK_BYTES, recovery.position - at)))


def _clear_leftovers(disk: Disk, manifest: Manifest, report: Report) -> None:
    named = {segment.number for segment in manifest.segments}
    names = disk.names()
    for name in names:
        number = segment_number(name)
        if name == manifests.TEMPORARY_NAME:
            disk.remove(name)
        elif base_number(name) is not None:
            if name not in manifest.names:
                disk.remove(name)
                report("notice", f"removed {disk.path(name)}, a base that was not finished or has been replaced")
        elif number is not None and number not in named:
            if number < manifest.next_number or not has_blocks(disk, name):
                disk.remove(name)
                report("notice", f"removed {disk.path(name)}, left over from before the last stop")
            else:
                aside = next(
                    other for count in range(len(names) + 1) if (other := f"{name}.unused{count}") not in names
                )
                disk.rename(name, aside)
                report("warning", f"{disk.path(name)} is no part of the log; it was set aside as {aside}")
