"""Simulated time: a queue of what is to happen when, and an event loop that lives on it.

Nothing here looks at a real clock, and nothing happens but what `Schedule.step` is asked to do: one event, the earliest
one; of those of one moment, the one that was planned first.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import math
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

START_NS = 1_000_000_000_000
"""Where monotonic time begins."""
MS = 1_000_000
S = 1_000 * MS


class Event:
    """Something planned. Serves as the handle of a timer, too."""

    __slots__ = ("_act", "_arguments")

    def __init__(self, act: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._act: Callable[..., Any] | None = act
        self._arguments = arguments

    def cancel(self) -> None:
        """Have it not happen."""
        self._act = None

    def cancelled(self) -> bool:
        """Whether it will not, or has already."""
        return self._act is None

    def happen(self) -> None:
        """Do it, once."""
        act = self._act
        if act is not None:
            self._act = None
            act(*self._arguments)


class Schedule:
    """What is to happen, and what time it is."""

    def __init__(self) -> None:
        self.now_ns = START_NS
        self._heap: list[tuple[int, int, Event]] = []
        self._count = 0
        self._held_up_ns = 0

    def at(self, time_ns: int, act: Callable[..., Any], *arguments: Any) -> Event:
        """Plan `act(*arguments)` for a moment; one that has passed means now."""
        event = Event(act, arguments)
        self._count += 1
        heapq.heappush(self._heap, (time_ns, self._count, event))
        return event

    def after(self, delay_ns: int, act: Callable[..., Any], *arguments: Any) -> Event:
        """Plan it for so much later."""
        return self.at(self.now_ns + delay_ns, act, *arguments)

    def pass_to(self, time_ns: int) -> None:
        """Let time pass; what was planned for the meantime comes late."""
        self.now_ns = max(self.now_ns, time_ns)

    def hold_up(self, until_ns: int) -> None:
        """What is just happening takes until then. It shows in the time when it is over, not in its middle."""
        self._held_up_ns = max(self._held_up_ns, until_ns)

    def step(self, end_ns: int) -> bool:
        """Have the next event happen, if there is one up to `end_ns`."""
        heap = self._heap
        if not heap or heap[0][0] > end_ns:
            return False
        time_ns, _, event = heapq.heappop(heap)
        if time_ns > self.now_ns:
            self.now_ns = time_ns
        event.happen()
        if self._held_up_ns > self.now_ns:
            self.now_ns = self._held_up_ns
        return True

    def clear(self) -> None:
        """Plan nothing any more: the process is gone, and with it everybody's connection."""
        self._heap.clear()


class SimulatedLoop:
    """What the server uses of an event loop.

    Callbacks are run in turns as asyncio's loops do it: what is ready when a turn begins. A turn comes a little after
    something has become ready; what sockets bring until then belongs to it.
    """

    def __init__(self, schedule: Schedule, random: Random) -> None:
        self._schedule = schedule
        self._random = random
        self._ready: list[Event] = []
        self._turn_planned = False
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self._schedule.now_ns / S

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Event:
        event = Event(callback, args)
        self._ready.append(event)
        if not self._turn_planned:
            self._turn_planned = True
            self._schedule.after(self._latency_ns(), self._turn)
        return event

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Event:
        event = Event(callback, args)
        self._schedule.after(math.ceil(max(0.0, delay) * S) + 1, self._timer, event)
        return event

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Event:
        return self.call_later(when - self.time(), callback, *args)

    def _timer(self, event: Event) -> None:
        if not event.cancelled():
            self.call_soon(event.happen)

    def _latency_ns(self) -> int:
        return self._random.choice((0, 20_000, 20_000, 100_000, 100_000, 5 * MS))

    def _turn(self) -> None:
        self._turn_planned = False
        ready, self._ready = self._ready, []
        for event in ready:
            event.happen()

    # -- futures and tasks -------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=self)  # type: ignore[arg-type]
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._tasks = [one for one in self._tasks if not one.done()]
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nothing: what is raised in a task was handed to the world where it was raised."""

    def die(self) -> None:
        """The process is gone: what was waiting never goes on. The disk lets nothing of it through."""
        for task in self._tasks:
            if not task.done():
                with contextlib.suppress(BaseException):  # its last words, which nobody hears
                    task.get_coro().close()  # type: ignore[union-attr]
