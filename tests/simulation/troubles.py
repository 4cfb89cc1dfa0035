"""What befalls a world: faults of the disk, connections that are cut, a clock that is set, settings that are changed.

A compaction is in here as well, as something that somebody starts or kills at any time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.clients import Secrets
from tests.simulation.journal import Violation
from tests.simulation.schedule import MS, S
from tests.simulation.workload import Workload

if TYPE_CHECKING:
    from tests.simulation.world import World


class Faults(Workload):
    """The disk refuses something for a while."""

    def setup(self) -> None:
        self.again(self.world.profile.faults)

    def step(self) -> None:
        world, random = self.world, self.random
        if world.ending:
            return
        world.disk.break_down()
        world.schedule.after(int(random.choice((0.05, 0.5, 1.5)) * random.random() * S), self._over)

    def _over(self) -> None:
        if not self.world.ending:
            self.world.heal()
            self.again(self.world.profile.faults)


class Cuts(Workload):
    """Connections are cut."""

    def setup(self) -> None:
        self.again(self.world.profile.cuts)

    def step(self) -> None:
        if self.world.links:
            self.random.choice(self.world.links).cut()
        self.again(self.world.profile.cuts)


class Jumps(Workload):
    """Somebody sets the clock: forward at will, back by up to a minute at will, and further when that can be followed.

    By more than a minute the server follows the clock back, and what had ended but was not removed lives again. So that
    the model can tell what that is, everything that has ended is removed before, and that is durable.
    """

    def setup(self) -> None:
        self._back_ms = 0
        self.again(self.world.profile.jumps)

    def step(self) -> None:
        world, random = self.world, self.random
        if self._back_ms or (random.random() < 0.3 and world.policy != "no"):
            self._jump_far_back()
        elif random.random() < 0.5:
            self._jump_back(random.choice((1, 500, 5_000, 58_000)))
        else:
            world.jump(random.choice((1, 700, 5_000, 65_000, 3_600_000)) * MS)
        self.again(10.0 if self._back_ms else world.profile.jumps)

    def _jump_back(self, ms: int) -> None:
        """The server's clock is to wait, if it would not have to for more than a minute."""
        world = self.world
        ahead_ms = world.life.now_ms() - world.wall_ns() // MS
        if ahead_ms + ms < 60_000:
            world.jump(-ms * MS)

    def _jump_far_back(self) -> None:
        world = self.world
        life, log = world.life, world.life.log._log
        self._back_ms = self._back_ms or self.random.choice((61_000, 90_000, 3_600_000))
        world.quiet = True
        life.hand_over()
        now_ms = life.now_ms()
        if life.stores.digest(now_ms) == life.stores.digest(0) and log.durable_offset == log.offset:
            world.journal.happened(now_ms, log.offset, lambda: None)
            world.jump(-self._back_ms * MS)
            self._back_ms = 0
            world.quiet = False


class Changes(Workload):
    """Somebody changes `appendfsync`."""

    def setup(self) -> None:
        self.again(self.world.profile.changes)

    def step(self) -> None:
        policy = self.random.choice(("always", "everysec"))
        self.world.note("policy", policy)
        self.world.life.config.set_many([("appendfsync", policy)])
        self.again(self.world.profile.changes)


class Compactions(Workload):
    """Somebody has the log compacted, or kills the process that does it.

    In a world without faults of the disk, what was gone before one began is gone from the files when it is over.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._gone: set[bytes] = set()

    def setup(self) -> None:
        self.again(self.world.profile.compactions)

    def step(self) -> None:
        compaction = self.world.life.compaction
        if not compaction.running:
            compaction.start()
            compaction.when_over(partial(self._look_for, self._secrets_gone(), compaction))
        elif self.random.random() < 0.3 and compaction.process is not None:
            compaction.process.kill()
        else:
            compaction.schedule()
        self.again(self.world.profile.compactions)

    def _secrets_gone(self) -> list[bytes]:
        """Those that no client can read any more, and that must not come back."""
        found = [workload for workload in self.world.workloads if isinstance(workload, Secrets)]
        return [secret for workload in found for secret in workload.gone]

    def _look_for(self, secrets: list[bytes], compaction: Any) -> None:
        world = self.world
        world.note("compacted", compaction.error)
        if compaction.error or world.profile.faults:
            return
        for name, content in world.disk.contents().items():
            for secret in secrets:
                if secret in content:
                    what = f"{secret!r} was deleted before a compaction, and is in {name} behind it"
                    world.schedule.after(0, self._found, what)  # a task would keep what is raised in it

    def _found(self, what: str) -> None:
        raise Violation(what)
