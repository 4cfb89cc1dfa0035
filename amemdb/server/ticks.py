"""What happens by the clock, ten times a second: expiry, freeing what was dropped, looking at connections.

Ticks run by the monotonic clock of the event loop, so a jump of the system clock neither stops nor floods them. Each
does a bounded amount of work and lets others in between, and a tick that comes late is not made up for.
"""

from __future__ import annotations

import asyncio

from amemdb.clock import Clock
from amemdb.engine.engine import Engine
from amemdb.engine.state import ServerState
from amemdb.limits import EXPIRE_BATCH_MAX
from amemdb.server.listener import Listener
from amemdb.server.turn import Turn
from amemdb.stores.graveyard import Graveyard

TICK_S = 0.1
TICKS_PER_SWEEP = 10
EXPIRE_BATCHES_MAX = 32
"""Batches of expired objects that one tick removes, each in a turn of its own."""
FREE_COUNT = 500
FREE_SLICE_NS = 1_000_000
"""What was dropped is freed by so many parts at a time, until a slice of a turn is over."""
FREE_SLICES_MAX = 16
"""Slices of one tick, each in a turn of its own."""
FREE_SLICES_BEHIND = 80
BEHIND_TICKS = 10
"""The same once there has been something left for so many ticks: it must not heap up."""


class Ticks:
    """The ticks of one server, from `start` to `stop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        state: ServerState,
        clock: Clock,
        turn: Turn,
        listener: Listener,
        graveyard: Graveyard,
    ) -> None:
        self._loop = loop
        self._engine = engine
        self._state = state
        self._clock = clock
        self._turn = turn
        self._listener = listener
        self._graveyard = graveyard
        self._handle: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._expiring = False
        self._freeing = False
        self._ticks_behind = 0
        """Ticks since there was last nothing left to free."""
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
        state = self._state
        state.loop_lag_ns = late_ns
        state.loop_lag_ns_max = max(state.loop_lag_ns_max, late_ns)
        state.tick()
        if not self._expiring:
            self._expire(EXPIRE_BATCHES_MAX)
        self._ticks_behind = self._ticks_behind + 1 if len(self._graveyard) else 0
        if self._ticks_behind and not self._freeing:
            self._free(FREE_SLICES_MAX if self._ticks_behind < BEHIND_TICKS else FREE_SLICES_BEHIND)
        self._listener.sweep(self._clock.monotonic_ns(), TICKS_PER_SWEEP)

    def expire(self, count_max: int) -> int:
        """Remove at most `count_max` objects whose time has passed; how many were due."""
        due = self._engine.expire(self._clock.now_ms(), count_max)
        if due:
            self._turn.touch()
        return due

    def _expire(self, batches_left: int) -> None:
        """Remove one batch of what is dead; the next one in the next turn."""
        if self._stopped:
            return
        due = self.expire(EXPIRE_BATCH_MAX)
        self._expiring = due >= EXPIRE_BATCH_MAX and batches_left > 1
        if self._expiring:
            self._loop.call_soon(self._expire, batches_left - 1)

    def _free(self, slices_left: int) -> None:
        """Free some of what was dropped; more of it in the next turn."""
        if self._stopped:
            return
        monotonic_ns = self._clock.monotonic_ns
        slice_end_ns = monotonic_ns() + FREE_SLICE_NS
        more = True
        while more and monotonic_ns() < slice_end_ns:
            more = self._graveyard.free(FREE_COUNT) >= FREE_COUNT
        self._freeing = more and slices_left > 1
        if not more:
            self._ticks_behind = 0
        if self._freeing:
            self._loop.call_soon(self._free, slices_left - 1)
