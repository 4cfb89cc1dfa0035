"""What happens once per turn of the event loop: the log takes the turn's frames as one block, then replies leave.

Whatever executes requests joins the turn. The first to do so schedules its end, which runs after every socket that
was ready has been read: one flush however many connections wrote, one write for each connection however many
replies it has. A reply whose frame the log has not released yet keeps its connection here until it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Loop(Protocol):
    """What is used of an event loop."""

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Run `callback` in the next turn."""


class Log(Protocol):
    """What is used of the log; see `amemdb.server.log_service`."""

    @property
    def released_offset(self) -> int:
        """Replies to what was logged up to here may leave."""

    touched: bool
    """Whether `flush` has something to do."""

    def flush(self) -> None:
        """Take what was appended since the last call as one block."""


class Sender(Protocol):
    """A connection with replies to send."""

    def send(self, released_offset: int) -> bool:
        """Send what may leave; whether more waits for the log."""


class Turn:
    """The turn that is under way. `join` what has replies, `touch` after frames that nobody waits for."""

    def __init__(self, loop: Loop, log: Log) -> None:
        self._loop = loop
        self._log = log
        self._joined: list[Sender] = []
        self._waiting: dict[Sender, None] = {}
        self._scheduled = False

    def join(self, sender: Sender) -> None:
        """Have `sender` send at the end of this turn. Once a turn is enough; more does no harm."""
        self._joined.append(sender)
        self.touch()

    def touch(self) -> None:
        """Frames were appended: see that they are flushed."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end)

    def leave(self, sender: Sender) -> None:
        """`sender` is gone and waits for nothing any more."""
        self._waiting.pop(sender, None)

    def released(self) -> None:
        """The log released more: let replies go that waited for it."""
        released_offset = self._log.released_offset
        for sender in list(self._waiting):
            if not sender.send(released_offset):
                self._waiting.pop(sender, None)

    def _end(self) -> None:
        self._scheduled = False
        joined, self._joined = self._joined, []
        if self._log.touched:
            self._log.flush()
        released_offset = self._log.released_offset
        for sender in joined:
            if sender.send(released_offset):
                self._waiting[sender] = None
