"""Connections that have more to do than one slice: they go on in turn, all together for part of a millisecond a turn.

However many there are, whoever sends a small request in between waits for one such time and not for one from each.
A connection comes to the end of the queue again after each slice, and slices are short while others wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

SLICE_NS = 600_000
"""What is worked off in one turn of the loop, and the slice of a connection that has the server to itself."""
SHARED_SLICE_NS = 150_000
"""The slice of a connection while others wait."""
PATIENT_BYTES_MIN = 16 * 1024
"""A read that brings as much waits its turn while others do; with less it is served at once."""


class Loop(Protocol):
    """What is used of an event loop."""

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Run `callback` in the next turn."""


class Waiting(Protocol):
    """A connection with more to do."""

    def go_on(self) -> None:
        """Do one slice of it; whoever has more after that joins the queue again."""


class Backlog:
    """The queue. Its length is how many wait."""

    __slots__ = ("_loop", "_monotonic_ns", "_scheduled", "_waiting")

    def __init__(self, loop: Loop, monotonic_ns: Callable[[], int]) -> None:
        self._loop = loop
        self._monotonic_ns = monotonic_ns
        self._waiting: deque[Waiting] = deque()
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def slice_ns(self) -> int:
        """How long a connection may work at once."""
        return SHARED_SLICE_NS if self._waiting else SLICE_NS

    def add(self, connection: Waiting) -> None:
        """Have `connection` go on in a later turn of the loop."""
        self._waiting.append(connection)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._work_off)

    def _work_off(self) -> None:
        end_ns = self._monotonic_ns() + SLICE_NS
        for _ in range(len(self._waiting)):
            self._waiting.popleft().go_on()
            if self._monotonic_ns() > end_ns:
                break
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            self._loop.call_soon(self._work_off)
