"""A connection of a test to the real process, which shows replies as they are; no client library does that."""

from __future__ import annotations

import socket
from contextlib import closing, suppress
from typing import Any

import hiredis

from tests.rig import request

Argv = list[bytes]

ANSWER_SECONDS_MAX = 120


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS_MAX)
        self._reader = hiredis.Reader()

    def send(self, requests: list[Argv]) -> None:
        """Send these in one piece."""
        self._socket.sendall(b"".join(map(request, requests)))

    def receive(self) -> Any:
        """The next reply, `plain`; `EOFError` if the server has ended."""
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._reader.feed(data)
        return plain(reply)

    def ask(self, *requests: Argv) -> list[Any]:
        """The replies to these."""
        self.send(list(requests))
        return [self.receive() for _ in requests]

    def cut(self) -> None:
        """End what is under way, whatever thread waits for it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def plain(reply: Any) -> Any:
    """A reply in a form that can be compared; names come in any order."""
    if isinstance(reply, hiredis.ReplyError):
        return "error", str(reply)
    if isinstance(reply, list):
        items = [plain(item) for item in reply]
        return sorted(items) if all(isinstance(item, bytes) for item in items) else items
    return reply


def is_error(reply: Any) -> bool:
    """Whether a reply of `Wire` is an error."""
    return isinstance(reply, tuple)


def info(wire: Wire, section: str) -> dict[str, str]:
    """One section of INFO."""
    [text] = wire.ask([b"INFO", section.encode()])
    return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)


def log_told(port: int) -> dict[str, str]:
    """What INFO tells of the log to somebody who has just come."""
    with closing(Wire(port)) as wire:
        return info(wire, "persistence")
