"""What the engine gives for a request when it cannot give the bytes of the reply at once.

A reply that is worked out first is a `Pending`: its work is done in a thread, or on the loop in slices, or it is waited
for, and then goes to `Engine.resume`. A long reply whose value is known is a `Parts`, which gives its bytes piece by
piece. Whoever sends the replies keeps those of one connection in order; see `amemdb.server.connection`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from amemdb.commands.context import Awaited, Deferred, Sliced
from amemdb.commands.session import Session
from amemdb.commands.table import Command
from amemdb.protocol.reply import Elements
from amemdb.stores.graveyard import Graveyard


class Pending:
    """A reply that is being worked out: run `work`, then give its result to `Engine.resume`."""

    __slots__ = ("argv", "command", "deferred", "session", "spent_ns")

    def __init__(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        deferred: Awaited | Deferred | Sliced,
        spent_ns: int,
    ) -> None:
        self.session = session
        self.command = command
        self.argv = argv
        self.deferred = deferred
        self.spent_ns = spent_ns

    @property
    def sliced(self) -> bool:
        """Whether there is nothing to run off the loop: `Engine.resume` does a slice of what is left."""
        return isinstance(self.deferred, Sliced)

    @property
    def awaited(self) -> Awaited | None:
        """What it waits for, if there is no work to do."""
        return self.deferred if isinstance(self.deferred, Awaited) else None

    @property
    def work(self) -> Callable[[], Any]:
        """What to run off the loop, without arguments."""
        return self.deferred.work if isinstance(self.deferred, Deferred) else _nothing


class Parts:
    """A long reply, made while it is sent. `next` gives bytes until there are no more; `close` ends it early.

    Its value is its own: lists that handlers return are made for the reply, and are emptied behind it. The command
    counts as over, and as having taken the time of all its pieces, once it has given none or is closed.
    """

    __slots__ = ("_count", "_graveyard", "_pieces", "_spent_ns", "_timer_ns", "_value", "argv")

    def __init__(
        self,
        argv: list[bytes],
        value: Any,
        pieces: Iterator[bytes],
        graveyard: Graveyard,
        timer_ns: Callable[[], int],
        count: Callable[[int], None],
    ) -> None:
        """`count` is told the nanoseconds that were spent here, at the end."""
        self.argv = argv
        self._value = value
        self._pieces: Iterator[bytes] | None = pieces
        self._graveyard = graveyard
        self._timer_ns = timer_ns
        self._count = count
        self._spent_ns = 0

    @property
    def held_bytes(self) -> int:
        """Memory that is held for the reply alone, about, until it has been made or dropped."""
        values = self._value if isinstance(self._value, tuple) else (self._value,)
        return sum(value.held_bytes for value in values if isinstance(value, Elements))

    def next(self) -> bytes:
        """The next bytes of the reply; none at its end."""
        if self._pieces is None:
            return b""
        started_ns = self._timer_ns()
        piece = next(self._pieces, b"")
        self._spent_ns += self._timer_ns() - started_ns
        if not piece:
            self.close()
        return piece

    def close(self) -> None:
        """Make no more of it."""
        if self._pieces is None:
            return
        self._pieces = None
        for thing in self._value if isinstance(self._value, tuple) else (self._value,):
            if isinstance(thing, list) or hasattr(thing, "free_some"):
                self._graveyard.bury(thing)  # a million references are not let go of at once
        self._value = None
        self._count(self._spent_ns)

    def whole(self) -> bytes:
        """All that is left of it."""
        return b"".join(iter(self.next, b""))


def _nothing() -> None:
    return
