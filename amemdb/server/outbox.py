"""The replies of one connection that have not been given to its socket yet, in order.

Each reply comes with the offset of the log that must be released before it may leave. Offsets of one connection
never fall, so what waits is a queue: a group of replies leaves when its offset is released, and nothing leaves before
what stands in front of it. Replies of one turn share a group, since the log releases the frames of a turn together;
those that need not wait keep a group of their own.

No socket in here: `amemdb.server.connection` writes what `take` returns.
"""

from __future__ import annotations

from collections import deque


class Outbox:
    """Replies waiting to leave. `bytes_waiting` is their size."""

    __slots__ = ("_offset", "_older", "_open", "_parts", "bytes_waiting")

    def __init__(self) -> None:
        self.bytes_waiting = 0
        self._older: deque[tuple[int, list[bytes]]] = deque()
        self._parts: list[bytes] = []
        self._offset = 0
        """What the newest group, `_parts`, waits for."""
        self._open = False
        """The newest group was begun in this turn for a reply that waits, so that more may join it."""

    def __bool__(self) -> bool:
        return bool(self._parts or self._older)

    def put(self, reply: bytes, offset: int) -> None:
        """Add `reply`, which may leave once `offset` is released and all that was put before has left.

        An empty one, as CLIENT REPLY OFF gives, has nothing to wait with.
        """
        if not reply:
            return
        if offset > self._offset:
            if not self._open:
                self._open = True
                if self._parts:
                    self._older.append((self._offset, self._parts))
                    self._parts = []
            self._offset = offset
        self._parts.append(reply)
        self.bytes_waiting += len(reply)

    def take(self, released_offset: int) -> list[bytes]:
        """Remove and return what may leave; ends the turn, so that later replies begin a group of their own."""
        self._open = False
        older = self._older
        if self._offset <= released_offset and not older:  # nearly always
            taken, self._parts = self._parts, []
            self.bytes_waiting = 0
            return taken
        taken = []
        while older and older[0][0] <= released_offset:
            taken += older.popleft()[1]
        if self._offset <= released_offset:
            taken += self._parts
            self._parts = []
        self.bytes_waiting -= sum(map(len, taken))
        return taken

    def clear(self) -> None:
        """Forget everything: the connection is gone."""
        self._older.clear()
        self._parts = []
        self.bytes_waiting = 0
