"""A disk in memory that does to files what real disks may do, and a log driven on it in one thread.

`SimulatedDisk` keeps for each file what the page cache shows and what has reached the platter. `kill` is the end of
the process: the cache survives. `power_cut` is worse: of everything since the last sync any sector may be missing,
in any order, and of names an arbitrary tail. It refuses on command: no space, failing writes (after writing a part)
and failing syncs (after which, as on Linux, a later sync claims success for what it never wrote).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random
from typing import Any

from amemdb.persistence import opening
from amemdb.persistence.codec import pack_frame
from amemdb.persistence.log import Log, Policy
from amemdb.persistence.recovery import RecoveryReport, recover
from amemdb.persistence.steps import ELSEWHERE, Beside, Done, Step
from amemdb.stores.records import KEY_SET

SECTOR = 512
AMPLE = 1 << 40
"""Space for all that a test writes."""
FAULTS: tuple[dict[str, int], ...] = (
    {"write": errno.EIO},
    {"sync": errno.EIO},
    {"write": errno.ENOSPC, "allocate": errno.ENOSPC},
    {"allocate": errno.ENOSPC},
    {"create": errno.EACCES},
    {"rename": errno.EIO},
    {"sync_folder": errno.EIO},
    {"remove": errno.EIO, "sync": errno.EIO},
)
"""What a disk may refuse at a time, and with what words."""
PAGE = 4096


class Stopped(BaseException):
    """The process ends here, in the middle of whatever it does."""


class Inode:
    """One file's bytes: `cache` as read, `platter` as they survive, `unsynced` what lies between, in order."""

    def __init__(self) -> None:
        self.cache = bytearray()
        self.platter = bytearray()
        self.unsynced: list[tuple[str, int, bytes]] = []


class SimulatedFile:
    def __init__(self, disk: SimulatedDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode

    def write_at(self, position: int, *parts: bytes) -> None:
        data = b"".join(parts)
        try:
            self._disk.step("write")
        except (OSError, Stopped):
            self._write(position, data[: self._disk.random.randint(0, len(data))])
            raise
        self._disk.use(max(0, position + len(data) - len(self._inode.cache)))
        self._write(position, data)

    def _write(self, position: int, data: bytes) -> None:
        cache = self._inode.cache
        if position + len(data) > len(cache):
            cache.extend(bytes(position + len(data) - len(cache)))
        cache[position : position + len(data)] = data
        self._inode.unsynced.append(("write", position, data))

    def read_at(self, position: int, count: int) -> bytes:
        return bytes(self._inode.cache[position : position + count])

    def size(self) -> int:
        return len(self._inode.cache)

    def sync(self) -> None:
        inode = self._inode
        try:
            self._disk.step("sync")
        except OSError:
            inode.platter = _survivor(inode, self._disk.random)
            inode.unsynced.clear()
            raise
        _apply(inode)

    def allocate(self, position: int, count: int) -> None:
        assert count > 0, "the system refuses to allocate nothing"
        self._disk.step("allocate")
        growth = max(0, position + count - len(self._inode.cache))
        if growth > self._disk.space:
            self._resize(len(self._inode.cache) + self._disk.space)  # as on a real disk, it takes what there is
            self._disk.space = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._disk.use(growth)
        self._resize(max(len(self._inode.cache), position + count))

    def truncate(self, size: int) -> None:
        self._disk.step("truncate")
        self._disk.space += max(0, len(self._inode.cache) - size)
        self._resize(size)

    def _resize(self, size: int) -> None:
        _resize(self._inode.cache, size)
        self._inode.unsynced.append(("size", size, b""))

    def close(self) -> None:
        pass


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def _apply(inode: Inode) -> None:
    """All that was not synced reaches the platter, in whole pages. What a failed sync has dropped does so only if it
    lies in a page that was written again.
    """
    cache, data = inode.cache, inode.platter
    for kind, position, _ in inode.unsynced:
        if kind == "size":
            _resize(data, position)  # what was cut off does not come back with the next growth
    _resize(data, len(cache))
    for kind, position, written in inode.unsynced:
        if kind == "write":
            start, end = position - position % PAGE, position + len(written)
            end = min(end + -end % PAGE, len(cache))
            data[start:end] = cache[start:end]
    inode.unsynced.clear()


def _survivor(inode: Inode, random: Random) -> bytearray:
    """What a power cut may leave of a file. Changes of size keep their order; sectors do not."""
    data = bytearray(inode.platter)
    chance = random.choice([0.0, 0.3, 0.7, 1.0])
    sizes_kept = random.randint(0, sum(kind == "size" for kind, _, _ in inode.unsynced))
    for kind, position, written in inode.unsynced:
        if kind == "size":
            if sizes_kept > 0:
                _resize(data, position)
            sizes_kept -= 1
            continue
        start = position
        while start < position + len(written):
            end = min(start - start % SECTOR + SECTOR, position + len(written))
            if random.random() < chance:
                if end > len(data):
                    data.extend(bytes(end - len(data)))
                data[start:end] = written[start - position : end - position]
            start = end
    return data


class SimulatedDisk:
    """One folder. `stop_in` ends the process after so many operations; `faults` maps an operation to its error."""

    def __init__(self, random: Random, space: int = 1 << 40) -> None:
        self.random = random
        self.space = space
        self.limit = (1 << 63) - 1
        self.faults: dict[str, int] = {}
        self.fault_chance = 1.0
        self.stop_in: int | None = None
        self.operations: list[str] = []
        self._names: dict[str, Inode] = {}
        self._platter_names: dict[str, Inode] = {}
        self._unsynced_names: list[tuple[str, str, Inode | None]] = []

    def step(self, operation: str) -> None:
        """Count an operation, and stop or fail if that is what is to happen."""
        self.operations.append(operation)
        if self.stop_in is not None:
            self.stop_in -= 1
            if self.stop_in < 0:
                raise Stopped
        if operation in self.faults and self.random.random() < self.fault_chance:
            number = self.faults[operation]
            raise OSError(number, os.strerror(number))

    def use(self, count: int) -> None:
        if count > self.space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.space -= count

    # -- Disk ------------------------------------------------------------------------------------

    def create(self, name: str, *, replace: bool = False) -> SimulatedFile:
        self.step("create")
        if name in self._names and not replace:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        if name not in self._names:
            self._names[name] = Inode()
            self._unsynced_names.append(("link", name, self._names[name]))
        else:
            SimulatedFile(self, self._names[name]).truncate(0)
        return SimulatedFile(self, self._names[name])

    def open(self, name: str, *, write: bool = False) -> SimulatedFile:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return SimulatedFile(self, self._names[name])

    def names(self) -> list[str]:
        return sorted(self._names)

    def rename(self, old: str, new: str) -> None:
        self.step("rename")
        self._names[new] = self._names.pop(old)
        self._unsynced_names.append(("rename", old, None))
        self._unsynced_names.append(("to", new, self._names[new]))

    def remove(self, name: str) -> None:
        self.step("remove")
        self.space += len(self._names.pop(name).cache)
        self._unsynced_names.append(("unlink", name, None))

    def sync_folder(self) -> None:
        self.step("sync_folder")
        self._platter_names = dict(self._names)
        self._unsynced_names.clear()

    def file_bytes_max(self) -> int:
        return self.limit

    def lock(self, name: str) -> Callable[[], None]:
        return lambda: None

    def path(self, name: str) -> str:
        return f"simulated/{name}"

    # -- what happens to it ----------------------------------------------------------------------

    def file(self, name: str) -> bytearray:
        """The bytes of a file, to look at or to spoil."""
        return self._names[name].cache

    def kill(self) -> None:
        """The process is gone; what it wrote is not."""
        self._restart()

    def power_cut(self) -> None:
        """The machine is gone: what was not synced may be gone as well."""
        names = dict(self._platter_names)
        kept = self.random.randint(0, len(self._unsynced_names))
        operations = self._unsynced_names[:kept]
        if operations and operations[-1][0] == "rename":  # a rename is one thing
            operations.pop()
        for kind, name, inode in operations:
            if kind in ("unlink", "rename"):
                names.pop(name, None)
            else:
                assert inode is not None
                names[name] = inode
        for inode in dict.fromkeys(names.values()):
            inode.cache = _survivor(inode, self.random)
            inode.platter = bytearray(inode.cache)
            inode.unsynced.clear()
        self._names = names
        self._platter_names = dict(names)
        self._unsynced_names.clear()
        self._restart()

    def _restart(self) -> None:
        self.stop_in = None
        self.faults.clear()
        self.space = 1 << 40
        self.limit = (1 << 63) - 1


class Driven:
    """A log on a disk, its writer driven by hand; `told` is what it had to say.

    `step` is the step under way, `sync` the one beside which it is. With `here`, turns end with a write on the spot.
    """

    def __init__(
        self, disk: Any, policy: Policy = "everysec", *, segment_bytes_max: int = 1 << 20, reserve: int = 65536
    ):
        self.disk = disk
        self.applied: list[tuple[Any, ...]] = []
        self.told: list[tuple[str, str]] = []
        self.now = 0.0
        self.step: Step | None = None
        self.sync: Step | None = None
        self.synced: Done | None = None
        """How that went, if the disk has done it already and the log was not told."""
        self.early_chance = 0.5
        """How often the disk does that before anything else."""
        self.here = False
        self.after_step: Callable[[Driven], None] = lambda driven: None
        manifest = opening.read(disk)
        self.report = RecoveryReport() if manifest is None else recover(disk, manifest, self.applied.append)
        place, self.writer = opening.open_log(
            disk,
            manifest,
            self.report,
            new_log_id=lambda: b"0123456789abcdef",
            timer_ns=lambda: 0,
            reserve_bytes=reserve,
            report=self._tell,
        )
        self.log = Log(place, policy, self, self._tell, segment_bytes_max=segment_bytes_max, reserve_bytes=reserve)

    def _tell(self, level: str, text: str) -> None:
        self.told.append((level, text))

    # -- Spot ------------------------------------------------------------------------------------

    def file_bytes_max(self) -> int:
        return self.disk.file_bytes_max()

    def settle(self, step: Step) -> None:
        if step is self.step:
            self.finish_step()
        else:
            assert step is self.sync
            self.finish_sync()

    def extend(self, number: int, end: int, count_wanted: int, count_min: int) -> int:
        return self.writer.extend(number, end, count_wanted, count_min)

    def write_block(self, number: int, position: int, offset: int, durable: int, payload: bytes) -> None:
        assert self.step is None, "somebody else is at the file"
        assert self.sync is None or isinstance(self.sync, ELSEWHERE), "somebody else is at the file"
        self.writer.write_block(number, position, offset, durable, payload)

    # -- by hand ---------------------------------------------------------------------------------

    def write(self, number: int, size: int = 10) -> bool:
        """Append frame `number` if the log takes it."""
        data = frame(number, size)
        if self.log.refuse_write(len(data)) is not None:
            return False
        self.log.append(data)
        return True

    def write_until(self, kind: type[Step]) -> int:
        """Write one frame a turn until a step of that kind is under way; how many they were."""
        for count in range(1, 10_000):
            assert self.write(count - 1)
            if self.begin() and (isinstance(self.step, kind) or isinstance(self.sync, kind)):
                return count
            while self.step is not None or self.sync is not None:
                self.finish()
        raise AssertionError(f"there was no {kind.__name__}")

    def begin(self) -> bool:
        """End the turn and take the next steps without doing them; whether any is under way."""
        self.log.end_turn()
        if self.here and self.log.pending:
            self.log.write_here(self.now)
            self.after_step(self)
        while (step := self.log.take(self.now)) is not None:
            if isinstance(step, Beside):
                assert self.sync is None
                self.sync = step
                if self.disk.random.random() < self.early_chance:  # what is written from now on is not covered
                    self.synced = self.writer.run(step)
            else:
                assert self.step is None
                self.step = step
        return self.step is not None or self.sync is not None

    def finish(self) -> None:
        """Do a step that was begun, the Sync beside another one last."""
        if self.step is not None:
            self.finish_step()
        else:
            self.finish_sync()

    def finish_step(self) -> None:
        assert self.step is not None
        step, self.step = self.step, None
        self._done(self.writer.run(step))

    def finish_sync(self) -> None:
        assert self.sync is not None
        done, step = self.synced, self.sync
        self.sync = self.synced = None
        self._done(done or self.writer.run(step))

    def _done(self, done: Done) -> None:
        self.log.done(done, self.now)
        self.after_step(self)

    def run(self, seconds: float = 0.0) -> None:
        """Let time pass, then do everything that is due."""
        self.now += seconds
        for _ in range(100):
            if not self.begin():
                return
            self.finish()
        raise AssertionError("the log never comes to rest")

    def close(self) -> None:
        """Stop in order."""
        while self.step is not None or self.sync is not None:
            self.finish()
        self.log.close()
        self.run(2.0)
        assert self.log.closed

    @property
    def numbers(self) -> list[int]:
        """The numbers of the frames that recovery applied."""
        return [record[2] for record in self.applied]


def frame(number: int, size: int = 10) -> bytes:
    """Frame `number`: one change whose key is the number."""
    return pack_frame(1_700_000_000_000 + number, (KEY_SET, 0, number, b"v" * size, 0))
