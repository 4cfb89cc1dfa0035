"""The slow log: the commands that took longest lately, for SLOWLOG.

What is kept of a command is cut (32 arguments, 128 bytes each) and has its secrets taken out before it is stored,
so the log needs a bounded amount of memory and holds nothing that its readers may not see.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from amemdb.commands.session import Session
from amemdb.commands.table import Command

ARGS_KEPT = 32
ARG_BYTES_KEPT = 128

Entry = tuple[int, int, int, list[bytes], bytes, bytes]
"""Id, Unix seconds, microseconds spent, arguments, address and name of the client."""


class SlowLog:
    """The newest entries; ids grow for as long as the server runs, also across a reset."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._next_id = 0
        self.entries_max = 0

    def __len__(self) -> int:
        return len(self._entries)

    def limit(self, entries_max: int) -> None:
        """Keep at most that many from now on."""
        self.entries_max = entries_max
        self._trim()

    def add(self, command: Command, argv: list[bytes], session: Session, spent_ns: int, now_ms: int) -> None:
        """Take a command in; the oldest entry goes when there are too many."""
        arguments = kept(command.spec.redacted(argv))
        address = session.address.encode("utf-8")
        self._entries.appendleft((self._next_id, now_ms // 1000, spent_ns // 1000, arguments, address, session.name))
        self._next_id += 1
        self._trim()

    def newest(self, count: int) -> list[Entry]:
        """At most `count` entries, newest first; all of them if it is negative."""
        return list(self._entries if count < 0 else islice(self._entries, count))

    def clear(self) -> None:
        """Forget every entry."""
        self._entries.clear()

    def _trim(self) -> None:
        while len(self._entries) > self.entries_max:
            self._entries.pop()


def kept(argv: list[bytes]) -> list[bytes]:
    """`argv` cut to what an entry keeps, each cut told in place."""
    arguments = [_cut(argument) for argument in argv[:ARGS_KEPT]]
    if len(argv) > ARGS_KEPT:
        arguments[-1] = b"... (%d more arguments)" % (len(argv) - ARGS_KEPT + 1)
    return arguments


def _cut(argument: bytes) -> bytes:
    if len(argument) <= ARG_BYTES_KEPT:
        return argument
    return b"%b... (%d more bytes)" % (argument[:ARG_BYTES_KEPT], len(argument) - ARG_BYTES_KEPT)
