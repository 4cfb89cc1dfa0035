"""Compaction in a world: the server's side as it is, and in the place of its process a simulated one.

The process does the real work (`amemdb.persistence.compaction`), a block at a time, with others in between. It may be
killed, and it outlives a server that was killed by one block at most, as it looks for its parent between blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from amemdb.errors import StorageError
from amemdb.persistence.compaction import Compacted, Progress, Task, compact
from amemdb.server import compaction as compactions
from amemdb.server.compaction import Compaction, Settings
from tests.simulation.schedule import MS

if TYPE_CHECKING:
    from tests.simulation.life import Life
    from tests.simulation.world import World


class SimulatedProcess:
    """What `amemdb.persistence.compactor` would do."""

    def __init__(self, world: World, compaction: SimulatedCompaction, task: Task, result: asyncio.Future[Any]) -> None:
        self._world = world
        self._compaction = compaction
        self._result = result
        self._work = compact(world.disk, task)
        self._is_over = False
        world.note("compacts", task.end, task.number, len(task.segments), task.parts)
        self._plan()

    def _plan(self) -> None:
        self._world.schedule.after(int(self._world.random.expovariate(1) * MS), self._step)

    def _step(self) -> None:
        if self._is_over:
            return
        try:
            progress = next(self._work)
        except StopIteration as end:
            self._is_over = True
            self._compaction.ended(self._result, end.value)
        except StorageError as error:
            self._is_over = True
            self._compaction.ended(self._result, error)
        else:
            if self._world.random.random() < 0.1:
                self._compaction.heard(progress)
            self._plan()

    def kill(self) -> None:
        """Have it end at once."""
        if not self._is_over:
            self._is_over = True
            self._work.close()
            self._world.note("compactor killed")
            self._compaction.ended(self._result, StorageError("its process ended with signal 9"))

    def orphaned(self) -> None:
        """One more block, for nobody."""
        if not self._is_over:
            self._is_over = True
            self._world.note("orphan")
            with contextlib.suppress(StorageError, StopIteration):
                next(self._work)
            self._work.close()


class SimulatedCompaction(Compaction):
    """Compaction whose process is simulated."""

    def __init__(self, world: World, life: Life) -> None:
        profile, node = world.profile, life.node
        self._world = world
        super().__init__(
            life.loop,  # type: ignore[arg-type]
            life.log,
            world.disk,  # type: ignore[arg-type]
            settings=lambda: Settings(profile.compaction_percentage, 2000, profile.compaction_memory),
            expire=node.ticks.expire,
            expire_in_ms=lambda: life.stores.due_in_ms(life.clock.now_ms()),
            data_size=lambda: (life.stores.count(), life.stores.memory_bytes()),
            now_s=lambda: life.clock.now_ms() / 1000,
            monotonic_s=life.loop.time,
            report=world.told_by_log,
            bug=world.bug,
        )

    def _drive(self, task: Task, result: asyncio.Future[Any]) -> None:
        self._process = SimulatedProcess(self._world, self, task, result)  # type: ignore[assignment]

    @property
    def process(self) -> SimulatedProcess | None:
        """That of the compaction under way, or of the last one."""
        return self._process  # type: ignore[return-value]

    def ended(self, result: asyncio.Future[Any], how: Compacted | StorageError) -> None:
        """The process is over."""
        if isinstance(how, StorageError):
            self._call(compactions._fail, result, how)
        else:
            counts = {"records": how.records, "objects": how.objects, "parts": how.parts, "peak_memory_bytes": 0}
            self._call(compactions._succeed, result, asdict(how.base) | counts)

    def heard(self, progress: Progress) -> None:
        """The process has told how far it is."""
        self._call(self._told, progress)


class OnTheSpot:
    """In the place of `threading.Thread`: what it would do is done by `start`."""

    def __init__(self, target: Any, args: tuple[Any, ...], **how: Any) -> None:
        self._target = target
        self._args = args

    def start(self) -> None:
        self._target(*self._args)

    def is_alive(self) -> bool:
        return False
