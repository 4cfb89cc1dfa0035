"""A whole world from one seed: machine, disk, network, clients and the server, in one thread, without a real clock.

A world has several lives of the server, each ended by a kill, a power cut or in order, at a moment or in the middle of
an operation of the disk, the start included. What is demanded, at each start:

1. What came back is exactly a beginning of what the log took, up to the end of a frame; replayed without a file those
   frames give the same digest.
2. It is the state of the model behind the requests of those frames, seen by reading all there is.
3. It holds what was promised (`promises`).

And all the while: each reply is the model's, at the time that the server's clock showed, so nothing is read that has
ended; at the end of a life the server holds what its log says; and where nothing is wrong, nothing is refused.

`run` gives a digest of all that happened. The same seed has the same one, in any process of this implementation.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, NoReturn

from amemdb.errors import CorruptLogError, StorageError
from tests.persistence.simulated import Stopped
from tests.server.fakes import BugShown
from tests.simulation.chronicle import Chronicle
from tests.simulation.clients import Client, Mayflies, Remembering, Secrets, Transfers
from tests.simulation.disk import WorldDisk
from tests.simulation.drawing import QuickModel, accept, everything
from tests.simulation.facts import orders_of
from tests.simulation.journal import MISSING, Journal, Request, Violation, is_refusal
from tests.simulation.life import Life, outside
from tests.simulation.network import Link
from tests.simulation.profile import Profile
from tests.simulation.promises import RECOVERY_S, Promises
from tests.simulation.schedule import MS, S, Schedule
from tests.simulation.troubles import Changes, Compactions, Cuts, Faults, Jumps
from tests.simulation.workload import Workload

WALL_START_MS = 1_700_000_000_000
EVENTS_MAX = 50_000
STOP_OPERATIONS_MAX = 9
"""A life that ends in the middle of a step of the disk ends within so many operations of it."""


class World:
    """Everything that a seed brings about."""

    def __init__(self, seed: int, first: World | None = None) -> None:
        """With `first`, a world of that seed which has ended well: the same again, without a check."""
        self.seed = seed
        self.checks = first is None
        self._reads: deque[list[list[bytes]]] = deque() if first is None else first._reads
        """What was read at each start."""
        self.random = Random(seed)
        self.profile = Profile(self.random)
        self.schedule = Schedule()
        self.chronicle = Chronicle(self.schedule)
        self.note = self.chronicle.note
        self.disk = WorldDisk(self.random, self.note)
        self.links: list[Link] = []
        self.model = QuickModel()
        self.journal = Journal(self.model)
        self.promises = Promises(self.journal)
        self.policy = ""
        self.life: Life
        self.alive = False
        """Whether a server is there."""
        self.failed: BaseException | None = None
        """What showed where it could not be raised."""
        self.quiet = False
        """Whether clients are to ask nothing."""
        self.ending = False
        """Whether nothing is to go wrong any more."""
        self._jump_ns = 0
        """By how much the machine's clock was set."""
        self._stop_step: str | None = None
        """In which step of the disk this life is to end."""
        self._power = False
        """Whether there was a power cut since a server was there."""
        self.workloads = self._workloads()

    def _workloads(self) -> list[Workload]:
        kinds: tuple[type[Client], ...] = (Client, Client, Transfers, Mayflies, Secrets, Remembering, Remembering)
        clients = [self.random.choice(kinds)(self, f"c{number}") for number in range(self.profile.clients)]
        return [*clients, Faults(self), Cuts(self), Jumps(self), Changes(self), Compactions(self)]

    # -- for everybody -------------------------------------------------------------------------------

    def wall_ns(self) -> int:
        """What the machine's clock shows."""
        return WALL_START_MS * MS + self.schedule.now_ns + self._jump_ns

    def wall_ms(self) -> int:
        """The same in milliseconds."""
        return self.wall_ns() // MS

    def jump(self, ns: int) -> None:
        """Somebody sets the machine's clock."""
        self._jump_ns += ns
        self.note("clock set by", ns)

    def delay_ns(self) -> int:
        """How long something is under way in the network."""
        return int(min(self.random.expovariate(1 / self.profile.network_ms), 500) * MS)

    def disk_ns(self) -> int:
        """How long a step of the disk takes."""
        if self.random.random() < self.profile.slow_chance:
            return self.random.randint(20 * MS, 1500 * MS)
        return self.random.randint(50_000, 3 * MS)

    def may_stop_in(self, step: str) -> None:
        """A step of the disk begins, which may be the last one."""
        if step == self._stop_step and self.random.random() < 0.6:
            self._stop_step = None
            self.disk.stop_in = self.random.randint(0, STOP_OPERATIONS_MAX)

    def bug(self, error: BaseException, argv: list[bytes] | None = None) -> NoReturn:
        """The process would stop here."""
        if isinstance(error, Stopped | BugShown | Violation | GeneratorExit):
            if isinstance(error, Violation):
                self.failed = self.failed or error
            raise error
        shown = BugShown(f"{error!r} while {argv and argv[0]!r} ran")
        shown.__cause__ = error
        self.failed = self.failed or shown
        raise shown

    def appended(self, frames: bytes, count: int) -> None:
        """The log took frames."""
        if self.checks:
            self.journal.appended(frames, count)

    def told_by_log(self, level: str, text: str) -> None:
        """The log, or compaction, has something to say to people."""
        self.note("log says", level, text)
        if "the log failed in" in text:
            self.promises.fails(self.life.log._log, self.schedule.now_ns)
        elif "the log is written again" in text:
            self.promises.works()
        elif "compaction failed" in text and "signal 9" not in text and self._is_well():
            self.failed = self.failed or Violation(f"without a fault of the disk: {text}")

    def _is_well(self) -> bool:
        """Whether there was no fault of the disk in this life."""
        return self.promises.healed_ns is None and not self.disk.is_broken()

    def told(self, request: Request) -> None:
        """A reply has left the server."""
        if not is_refusal(request.reply):
            self.promises.told(request, self.life.log._log.policy, self.schedule.now_ns)
        elif not self.disk.is_broken():
            self.promises.require_reason(request, self.schedule.now_ns)

    def heal(self) -> None:
        """The disk is well again."""
        self.disk.heal()
        self.promises.healed_ns = self.schedule.now_ns
        self.note("healed")

    # -- lives ---------------------------------------------------------------------------------------

    def run(self) -> str:
        """All lives, one after the other; the trace."""
        with outside(self):
            try:
                for _ in range(self.profile.lives):
                    self._live()
                self._last_life()
            except CorruptLogError as error:
                if not self.promises.forgot:
                    raise Violation(f"refused, though nothing that was durable is missing: {error}") from error
                self.note("refused", str(error))
            finally:
                asyncio._set_running_loop(None)
        return self.chronicle.trace()

    def _live(self) -> None:
        random = self.random
        self.disk.stop_in = self._stop_step = None
        if random.random() < self.profile.stop_chance:
            if random.random() < 0.5:
                self.disk.stop_in = random.randint(0, random.choice((12, 50, 200)))
            else:
                self._stop_step = random.choice(self.profile.stop_steps)
        try:
            self._start()
            self._pass(int(self.profile.life_s * random.random() * S))
            if random.random() < 0.1:
                self._stop()
        except Stopped:
            pass
        self._end(power=random.random() < 0.6)

    def _last_life(self) -> None:
        """All is well again: writes are taken, and everything is there after a stop in order."""
        self._stop_step = None
        self._start()
        self._pass(int(self.profile.life_s * self.random.random() * S))
        self.ending = True
        if self.profile.faults:
            self.heal()
            self._pass(int(RECOVERY_S * S) + S)
        self._pass(S)
        probe = Request([b"SET", b"probe", b"1"], lambda reply: self._probe(reply), writes=True)
        Link(self, "probe").send_now([probe])
        self._pass(5 * S, lambda: probe.reply is not MISSING)
        if probe.reply != b"OK":
            raise Violation(f"long after the last fault a write is answered {probe.reply!r}")
        self._stop()
        self._end(power=True)
        self.life = Life(self)
        self._check_returned(self.life.recovered_offset)
        if self.checks and self.life.recovered_offset != self.journal.offset:
            raise Violation("after a stop in order something is missing")

    def _probe(self, reply: Any) -> None:
        assert self.model.set(0, b"probe", b"1", None, False, "", False) == reply

    def _start(self) -> None:
        """Start the server, however often that takes, and look at what came back."""
        self.policy = self.random.choice(self.profile.policies)
        self.promises.healed_ns = None
        if self.profile.faults and not self.ending and self.random.random() < 0.2:
            self.disk.break_down()
        while True:
            try:
                self.life = Life(self)
                break
            except CorruptLogError:
                raise
            except StorageError as error:
                if not self.disk.is_broken():
                    raise Violation(f"does not start: {error}") from error
                self.note("does not start", str(error))
                self.heal()
        self._check_returned(self.life.recovered_offset)
        asyncio._set_running_loop(self.life.loop)  # type: ignore[arg-type]
        self.life.serve()
        self.alive = True
        self.model.now = self.life.now_ms()
        self._read_everything()
        for workload in self.workloads:
            if self.checks:
                workload.check()
            workload.setup()

    def _pass(self, ns: int, until: Callable[[], bool] = lambda: False) -> None:
        """Have everything happen that does within that time."""
        schedule, disk = self.schedule, self.disk
        end_ns = schedule.now_ns + ns
        for _ in range(EVENTS_MAX):
            if until():
                return
            if not schedule.step(end_ns):
                schedule.pass_to(end_ns)
                return
            if self.failed is not None:
                raise self.failed
            if disk.stopped:
                raise Stopped
        raise Violation("the world never comes to rest")

    def _stop(self) -> None:
        """Stop the server in order."""
        self.note("stops")
        since = len(self.chronicle.events)
        task = self.life.loop.create_task(self.life.stop())
        self._pass(20 * S, task.done)
        if not task.done():
            raise Violation("the server does not stop")
        try:
            task.result()
        except StorageError as error:
            if not any(event[1] == "fails" for event in self.chronicle.events[since:]):
                raise Violation(f"does not stop in order: {error}") from error
            self.note("stopped without", str(error))
        else:
            self.promises.told_of_everything(self.life.log.offset)

    def _end(self, *, power: bool) -> None:
        """The process is gone, or the machine."""
        self.note("power cut" if power else "kill")
        if self.alive:
            self.alive = False
            self.disk.stopped = True
            self._look_back()
            self.life.loop.die()
            asyncio._set_running_loop(None)
            self.promises.ended(self.schedule.now_ns)
        self._power |= power
        if power:
            self.disk.power_cut()
        else:
            self.disk.kill()
        self.schedule.clear()
        self.links.clear()
        if not power:
            self._orphan()
        self.schedule.pass_to(self.schedule.now_ns + int(self.random.random() * S))

    def _orphan(self) -> None:
        """The process that compacted for a server which was killed does at most one more block, some time."""
        process = self.life.compaction.process if hasattr(self, "life") and hasattr(self.life, "compaction") else None
        if process is None or self.random.random() < 0.3:
            return
        if self.random.random() < 0.5:
            process.orphaned()
        else:
            self.schedule.after(self.random.randint(S, 2 * S), process.orphaned)

    def _look_back(self) -> None:
        """What the process that is gone had executed, and whether it held what its log says."""
        life = self.life
        whole = not life.node.engine._context.frame  # else it ended in the middle of a transaction
        if whole:
            life.hand_over()
        if not self.checks:
            return
        for link in list(self.links):
            link.find_replies()
        self.journal.forget_unanswered()
        if whole and life.stores.digest(0) != self.journal.digest():
            raise Violation("the log does not say what the server held")

    # -- checks --------------------------------------------------------------------------------------

    def _check_returned(self, offset: int) -> None:
        """1 and 3."""
        if self.checks:
            journal = self.journal
            if self.life.stores.digest(0) != journal.digest(journal.boundary(offset)):
                raise Violation(f"{offset} bytes of frames came back, and not as they were")
            if orders_of(self.life.stores, 0) != journal.orders(journal.boundary(offset)):
                raise Violation("facts were used in another order than the log tells")
            self.promises.require_kept(offset, power=self._power)
            journal.cut(offset, journal.states(offset))
        self.promises.begin(offset)
        self._power = self.quiet = False

    def _read_everything(self) -> None:
        """2, and a new beginning from there."""
        now_ms = self.life.now_ms()
        if self.checks:
            self.journal.adopt(self.journal.starts[-1])
            requests = everything(self.model)
            self._reads.append([request.argv for request in requests])
        else:
            requests = [Request(argv, accept) for argv in self._reads.popleft()]
        link = Link(self, "reader", journaled=False)
        link.send_now(requests)
        self._pass(S, lambda: requests[-1].reply is not MISSING)
        link.cut()
        if self.checks:
            self.journal.begin(self._state_read(requests, now_ms), orders_of(self.life.stores, 0))
            self.model.now = now_ms

    def _state_read(self, requests: list[Request], now_ms: int) -> bytes:
        """That of the model's states which was read."""
        failures = []
        for state in self.journal.starts:
            self.journal.adopt(state)
            self.model.now = now_ms
            self.model.purge()
            try:
                for request in requests:
                    request.check(request.reply)
            except AssertionError as error:
                failures.append(f"{request.argv!r}: {error}")
            else:
                return state
        raise Violation(f"what came back is not the model's state: {failures}")
