"""What a data folder holds, whether a server would start on it, and what a cut at the first damage would take away.

`inspect` reads everything and changes nothing. The state is counted as a start would build it, by parts of the name
space (`amemdb.persistence.parts`) where the whole is more than the memory that may be used: then the log is read once
for each part. What expires by the clock and was not removed yet is counted, as no clock is asked.

A manifest that is missing or cannot be read is put together again from the headers of the files, where that can be
done in one way only (`amemdb.persistence.rebuilding`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from amemdb.errors import StorageError
from amemdb.persistence import manifest as manifests
from amemdb.persistence.disk import Disk
from amemdb.persistence.manifest import Manifest, file_number
from amemdb.persistence.parts import halves, only_part
from amemdb.persistence.rebuilding import any_data, rebuild
from amemdb.persistence.view import FolderView, holder, holder_for_certain, open_view
from amemdb.persistence.walk import IN_BASE, Block, Damage, Lost, Walk, lost, records_of
from amemdb.stores import records
from amemdb.stores.stores import Stores

OnBlock = Callable[[int, int], None]
"""Takes the bytes read and the bytes in all, of the reading that is under way."""

STORES = ("conversations", "turns", "notes", "facts", "events", "summaries", "keys")
_STORE_OF = {records.TURN_APPENDED: ("turns",), records.ALL_FLUSHED: STORES} | {
    records.CONVERSATION_CLEARED: ("conversations", "turns"),
    records.CONVERSATION_DROPPED: ("conversations", "turns", "notes"),
}
_FIRST_KINDS = (
    (records.KEY_SET, "keys"),
    (records.SUMMARY_SET, "summaries"),
    (records.EVENT_LOGGED, "events"),
    (records.NAMESPACE_CREATED, "facts"),
    (records.NOTE_SET, "notes"),
)
"""The first kind of each store, from the last to the first; what is below them is about conversations."""
_OTHER_FORMAT = "its format is not"
"""What is said of a manifest that another version wrote: nothing to be put together again by this one."""
ASIDE = ".cut-at-"
"""Stands in the names of side files: see `amemdb.persistence.mending`."""
_EVERY_BLOCKS = 64
"""So often the memory is looked at and what was dropped is let go of."""
_FREED_AT_ONCE = 1_000_000


def stores_of(kind: int) -> tuple[str, ...]:
    """The stores that a record of that kind changes, the one that it is about first."""
    if kind in _STORE_OF:
        return _STORE_OF[kind]
    return (next((store for first, store in _FIRST_KINDS if kind >= first), "conversations"),)


@dataclass(slots=True)
class Inspection:
    """What was found. `manifest` is None where there is no log, `trouble` why the manifest on disk is not the one used.

    `used_by` is the process that has the folder, `strangers` segments and bases that the manifest does not name,
    `aside` what an earlier fix cut off.
    """

    folder: str
    manifest: Manifest | None = None
    trouble: str = ""
    used_by: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    walk: Walk | None = None
    first_time_ms: int | None = None
    last_time_ms: int | None = None
    records: Counter[int] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    damage: Damage | None = None
    lost: Lost = field(default_factory=Lost)

    @property
    def exit_code(self) -> int:
        """0 whole, 1 a torn tail that the next start would cut off, 2 what it would refuse."""
        if self.trouble or (self.damage is not None and self.damage.verdict != "torn"):
            return 2
        return 0 if self.damage is None else 1


class NotApplicable(Exception):
    """A record that reads well and that no state takes: a bug of amemdb, or a file put together by hand."""

    def __init__(self, block: Block, error: Exception) -> None:
        super().__init__(f"a record cannot be applied ({type(error).__name__})")
        self.block = block


def inspect(
    disk: Disk, folder: str, memory_bytes: int, on_block: OnBlock | None = None, *, locked: bool = False
) -> Inspection:
    """Look at everything. `StorageError` for what cannot be read at all. With `locked` the caller has the folder."""
    used_by = None if locked else holder(folder)
    found = _inspect(disk, folder, used_by, memory_bytes, on_block)
    if found.damage is not None and used_by is None and not locked:
        # A server that the system's list does not show may just be writing there. None could start on such a folder.
        used_by = holder_for_certain(folder)
        if used_by is not None:
            found = _inspect(disk, folder, used_by, memory_bytes, on_block)
    return found


def _inspect(disk: Disk, folder: str, used_by: str | None, memory_bytes: int, on_block: OnBlock | None) -> Inspection:
    found = Inspection(folder, used_by=used_by)
    view, found.trouble = view_of(disk, in_use=used_by is not None)
    if view is None:
        return found
    with view:
        found.manifest = view.manifest
        names = set(view.manifest.names)
        found.strangers = [name for name in disk.names() if file_number(name) is not None and name not in names]
        found.aside = [name for name in disk.names() if ASIDE in name]
        found.sizes = {name: view.open(name).size() for name in view.manifest.names}
        _State(view, found, memory_bytes, on_block).count()
        if found.damage is not None:
            found.lost = lost(view, found.damage)
    return found


def view_of(disk: Disk, *, in_use: bool) -> tuple[FolderView | None, str]:
    """The files to look at, and why not by the manifest on disk, if it is put together again. No view: no log."""
    trouble = ""
    try:
        manifests.read(disk)
    except StorageError as error:
        trouble = str(error).partition(". Nothing was changed")[0]
    except OSError as error:
        raise StorageError(f"{disk.path(manifests.NAME)} cannot be read: {error.strerror}") from error
    view = None if trouble else open_view(disk, in_use=in_use)
    if view is not None:
        return view, ""
    if not trouble:
        if not any_data(disk):
            return None, ""
        trouble = f"{disk.path(manifests.NAME)} is missing"
    manifest = None if _OTHER_FORMAT in trouble else rebuild(disk)
    return None if manifest is None else FolderView(disk, manifest), trouble


# -- the state -----------------------------------------------------------------------------------


class _TooLarge(Exception):
    """A part takes more memory than it may."""


class _State:
    """Counts what a walk would build, part by part. The first walk over everything counts records as well."""

    def __init__(self, view: FolderView, found: Inspection, memory_bytes: int, on_block: OnBlock | None) -> None:
        self._view = view
        self._found = found
        self._memory_bytes = memory_bytes
        self._on_block = on_block
        self._total = sum(found.sizes.values())
        self._end: Damage | None = None
        """A block that cannot be applied ends every walk."""

    def count(self) -> None:
        parts = [(0, 1)]
        while parts:
            index, count = parts.pop()
            try:
                stores = self._build(index, count)
            except _TooLarge:
                parts += halves(index, count)
            except NotApplicable as error:
                self._give_up(error)
                self._found.held.clear()
                parts = [(0, 1)]
            else:
                self._found.held.update(held_by(stores))

    def _give_up(self, error: NotApplicable) -> None:
        manifest, block = self._view.manifest, error.block
        name = manifest.base.name if block.index == IN_BASE and manifest.base else manifest.segments[block.index].name
        self._end = Damage("corrupt", block.index, name, block.position, block.position, block.offset, str(error))
        self._found.walk = None

    def _build(self, index: int, count: int) -> Stores:
        stores = Stores()
        apply = stores.apply if count == 1 else only_part(stores.apply, index, count)
        walk = Walk(self._view)
        seen: Counter[int] = Counter()
        first_ms, last_ms = None, None
        if self._view.manifest.base is not None:
            first_ms = last_ms = self._view.manifest.base.time_ms
        for number, block in enumerate(walk.blocks(), 1):
            if self._end is not None and (block.index, block.position) == (self._end.index, self._end.position):
                walk.damage = self._end
                break
            try:
                for record in records_of(block):
                    apply(record)
            except Exception as error:  # a start would be ended by it; here it is what was looked for
                raise NotApplicable(block, error) from error
            if block.index != IN_BASE and block.frames:
                seen.update(record[0] for record in records_of(block))
                first_ms = block.frames[0][0] if first_ms is None else first_ms
                last_ms = block.frames[-1][0]
            if number % _EVERY_BLOCKS == 0:
                self._look_at(stores, walk)
        if self._found.walk is None:
            self._found.walk, self._found.damage, self._found.records = walk, walk.damage, seen
            self._found.first_time_ms, self._found.last_time_ms = first_ms, last_ms
        return stores

    def _look_at(self, stores: Stores, walk: Walk) -> None:
        stores.graveyard.free(_FREED_AT_ONCE)
        if self._on_block is not None:
            self._on_block(sum(walk.ends.values()), self._total)
        if stores.ledger.held > self._memory_bytes and stores.count() > 1:
            raise _TooLarge


def held_by(stores: Stores) -> Counter[str]:
    """How many of each kind a state holds."""
    return Counter(
        conversations=len(stores.conv.sessions),
        turns=sum(map(len, stores.conv.sessions.values())),
        notes=sum(map(len, stores.work.sessions.values())),
        facts=sum(map(len, stores.sem.namespaces.values())),
        events=sum(map(len, stores.epis.logs.values())),
        summaries=len(stores.summary.summaries),
        keys=sum(len(database.values) for database in stores.keys.databases),
    )


def memory_free_bytes() -> int:
    """Half of the memory that is free on this machine, at least 256 MiB: what an inspection may take."""
    told = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            told[name] = int(rest.split()[0]) << 10
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        if limit.isdigit():
            told["MemAvailable"] = min(told["MemAvailable"], int(limit))
    except (OSError, ValueError, IndexError, KeyError):
        pass
    return max(256 << 20, told.get("MemAvailable", 2 << 30) // 2)
