"""What happens by the clock: ten times a second expiry and a tenth of the connections, once a second the log.

Ticks run by the monotonic clock of the event loop, so a jump of the system clock neither stops nor floods them. Each
does a bounded amount of work and lets others in between, and a tick that comes late is not made up for.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from amemdb.clock import Clock
from amemdb.engine.engine import Engine
from amemdb.engine.state import ServerState
from amemdb.limits import EXPIRE_BATCH_MAX
from amemdb.server.listener import Listener
from amemdb.server.turn import Turn

TICK_S = 0.1
TICKS_PER_SWEEP = 10
EXPIRE_BATCHES_MAX = 32
"""Batches of expired objects that one tick removes, each in a turn of its own."""


class Log(Protocol):
    """What is used of the log."""

    def tick(self) -> None:
        """Do what is due by time."""


class Ticks:
    """The ticks of one server, from `start` to `stop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        state: ServerState,
        clock: Clock,
        turn: Turn,
        log: Log,
        listener: Listener,
    ) -> None:
        self._loop = loop
        self._engine = engine
        self._state = state
        self._clock = clock
        self._turn = turn
        self._log = log
        self._listener = listener
        self._handle: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._count = 0
        self._expiring = False
        self._stopped = False

    def start(self) -> None:
        """Tick from now on."""
        self._due_s = self._loop.time() + TICK_S
        self._handle = self._loop.call_at(self._due_s, self._tick)

    def stop(self) -> None:
        """Tick no more, and remove nothing more: the log is about to be closed."""
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick(self) -> None:
        late_s = max(0.0, self._loop.time() - self._due_s)
        self._due_s += TICK_S if late_s < TICK_S else late_s + TICK_S
        self._handle = self._loop.call_at(self._due_s, self._tick)
        self.run_once(round(late_s * 1_000_000_000))

    def run_once(self, late_ns: int) -> None:
        """One tick, which came `late_ns` late."""
        self._count += 1
        state = self._state
        state.loop_lag_ns = late_ns
        state.loop_lag_ns_max = max(state.loop_lag_ns_max, late_ns)
        state.tick()
        if not self._expiring:
            self._expire(EXPIRE_BATCHES_MAX)
        if self._count % TICKS_PER_SWEEP == 0:
            self._log.tick()
        self._listener.sweep(self._clock.monotonic_ns(), TICKS_PER_SWEEP)

    def _expire(self, batches_left: int) -> None:
        """Remove one batch of what is dead; the next one in the next turn."""
        if self._stopped:
            return
        due = self._engine.expire(self._clock.now_ms(), EXPIRE_BATCH_MAX)
        if due:
            self._turn.touch()
        self._expiring = due >= EXPIRE_BATCH_MAX and batches_left > 1
        if self._expiring:
            self._loop.call_soon(self._expire, batches_left - 1)
