"""One life of the server: the real node on the simulated loop, its real log on the simulated disk.

What is real: connections, parser, engine, native hot path, turns, ticks, `LogService`, `Log`, `LogWriter`, opening,
recovery, compaction. What is not: sockets, threads, the process that compacts, and where time and chance come from;
`outside` puts the simulated ones in the places of modules that look for the real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from amemdb.clock import Clock
from amemdb.config import Config
from amemdb.persistence.steps import Beside, Step
from amemdb.persistence.writer import LogWriter
from amemdb.server import compaction, log_service
from amemdb.server import node as nodes
from amemdb.server.log_service import LogService
from amemdb.server.node import Node
from amemdb.stores.stores import Stores
from tests.simulation.compacting import OnTheSpot, SimulatedCompaction
from tests.simulation.journal import Violation
from tests.simulation.schedule import S, SimulatedLoop

if TYPE_CHECKING:
    from tests.simulation.world import World

_OUTSIDE: tuple[tuple[Any, str], ...] = (
    (log_service, "time"),
    (log_service, "secrets"),
    (log_service, "PlainHand"),
    (nodes, "time"),
)
_OUTSIDE += ((nodes, "random"), (nodes, "ThreadPoolExecutor"), (compaction, "threading"))


@contextmanager
def outside(world: World) -> Iterator[None]:
    """Have the modules of the server find the time, chance and threads of `world`."""
    schedule = world.schedule
    time = SimpleNamespace(
        monotonic=lambda: schedule.now_ns / S,
        monotonic_ns=lambda: schedule.now_ns,
        perf_counter_ns=lambda: schedule.now_ns,
        sleep=lambda seconds: None,
    )
    chance = Random(world.seed)
    instead: dict[str, Any] = {
        "time": time,
        "secrets": SimpleNamespace(token_bytes=chance.randbytes),
        "PlainHand": lambda writer, name: Hand(world, writer),
        "random": SimpleNamespace(SystemRandom=lambda: chance, Random=Random),
        "threading": SimpleNamespace(Thread=OnTheSpot),
        "ThreadPoolExecutor": lambda count, thread_name_prefix: SimpleNamespace(shutdown=lambda **how: None),
    }
    before = [(module, name, getattr(module, name)) for module, name in _OUTSIDE]
    for module, name in _OUTSIDE:
        setattr(module, name, instead[name])
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


class Hand:
    """A thread that does the log's steps: each takes its time, and is done at some moment of it."""

    def __init__(self, world: World, writer: LogWriter) -> None:
        self._world = world
        self._writer = writer
        self._step: Step | None = None
        self._result: Any = None
        self._ends_ns = 0

    def start(self, loop: SimulatedLoop, on_result: Any) -> None:
        self._loop = loop
        self._on_result = on_result

    def give(self, step: Step) -> None:
        world = self._world
        assert self._step is None
        assert self._result is None, "the last result was not taken"
        self._step = step
        spent_ns = world.disk_ns()
        self._ends_ns = world.schedule.now_ns + spent_ns
        world.promises.step(world.schedule.now_ns, self._ends_ns)
        world.note("gives", type(step).__name__, spent_ns, isinstance(step, Beside))
        world.schedule.after(int(world.random.random() * spent_ns), self._do, step)
        world.schedule.at(self._ends_ns, self._tell)

    def _do(self, step: Step) -> None:
        if self._step is not step:  # `wait` was faster
            return
        self._step = None
        times = self._writer.sync_times
        syncs = times.count
        self._world.may_stop_in(type(step).__name__)
        self._result = self._writer.run(step)
        if times.count != syncs:
            times.last_ns = self._ends_ns - self._world.schedule.now_ns
        self._world.note("did", type(step).__name__, self._result.stage)

    def _tell(self) -> None:
        self._loop.call_soon(self._on_result)

    def take(self) -> Any:
        result, self._result = self._result, None
        return result

    def wait(self) -> Any:
        """The loop stands still until the step is done."""
        if self._step is not None:
            self._do(self._step)
        self._world.schedule.hold_up(self._ends_ns)
        return self.take()

    def stop(self) -> None:
        """Behind the step under way, whose end nobody learns of any more."""
        if self._step is not None:
            self._do(self._step)
        self._result = None


class Life:
    """The server from its start to its end, which may come at any operation of the disk, also in here."""

    def __init__(self, world: World) -> None:
        profile = world.profile
        self._world = world
        self.loop = SimulatedLoop(world.schedule, world.random)
        self.clock = Clock(world.wall_ns, lambda: world.schedule.now_ns, self._jumped)
        self._seen_ms = 0
        """What the clock showed last."""
        self.config = Config({"appendfsync": world.policy})
        self.stores = Stores()
        self.node: Node
        self.log = TappedLog(
            world,
            world.policy,
            segment_bytes_max=profile.segment_bytes_max,
            reserve_bytes=profile.reserve_bytes,
        )
        report = self.log.recover(self.stores.apply)
        self.recovered_offset = report.offset
        self.clock.raise_to(report.last_time_ms)
        world.note("starts", report.offset, report.durable_offset, report.last_time_ms, report.cut is not None)

    def serve(self) -> None:
        """Take connections from now on."""
        world = self._world
        self.node = Node(self.config, self.stores, self.log, self.clock, self.loop, world.bug)  # type: ignore[arg-type]
        self.log.node = self.node
        self.config.on_change("appendfsync", self.log.set_policy)
        self.log.start(self.loop)  # type: ignore[arg-type]
        self.node.ticks.start()
        self.compaction = self.node.state.compaction = SimulatedCompaction(world, self)
        self.compaction.watch()

    async def stop(self) -> None:
        """Stop in order."""
        await self.compaction.stop()
        await self.node.stop()

    def now_ms(self) -> int:
        """What the server's clock shows: it goes back only when the machine's was set back by more than a minute."""
        now_ms = self.clock.now_ms()
        if now_ms < self._seen_ms:
            raise Violation(f"the clock went back from {self._seen_ms} to {now_ms}")
        self._seen_ms = now_ms
        return now_ms

    def _jumped(self, ms: int) -> None:
        """The clock has followed a jump of the machine's."""
        self._world.note("jumped", ms)
        if abs(ms) <= 60_000:
            raise Violation(f"the clock followed a jump by {ms} ms")
        self._seen_ms = 0

    def offset(self) -> int:
        """Where the log will end with all that was executed."""
        hot = self.node.engine.hot
        return self.log.offset if hot is None else max(self.log.offset, hot.offset)

    def hand_over(self) -> None:
        """Have native code hand to the log what it has gathered."""
        if self.node.engine.hot is not None:
            self.node.engine.hot.hand_over()

    @property
    def failure(self) -> str | None:
        """Why the log cannot be written, if that is so."""
        return self.log._log.failure


class TappedLog(LogService):
    """The log of the world's server: what it takes is written down."""

    def __init__(self, world: World, policy: Any, **sizes: int) -> None:
        super().__init__(
            "",
            policy,
            on_release=self._released,
            on_log=world.told_by_log,
            on_bug=world.bug,
            disk=world.disk,  # type: ignore[arg-type]
            use_native=False,
            **sizes,
        )
        self._world = world
        self.node: Node

    def append(self, frames: bytes, count: int = 1) -> None:
        super().append(frames, count)
        self._world.appended(frames, count)

    def _released(self) -> None:
        self.node.released()
