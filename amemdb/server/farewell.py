"""The end of a connection: let the peer read the last words before the socket is closed.

Closing a socket whose input has not been read makes the system reset the connection, and the reset overtakes what
the peer has not read yet: the very error line that says why it was closed. So the sending side is closed first
(the peer sees the end after the last words), and what still comes in is thrown away until the peer closes, or for a
short time. Nobody is served meanwhile: the session has ended already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LINGER_NS = 1_000_000_000
LINGER_BYTES_MAX = 16 * 1024 * 1024
"""Input that is thrown away before patience ends; each chunk is dropped as it comes."""


class Progress:
    """Whether a peer reads: told the bytes written and unsent now and then, it knows since when nothing moved."""

    __slots__ = ("_moved_at_ns", "_sent", "_unsent")

    def __init__(self, now_ns: int) -> None:
        self._sent = 0
        self._unsent = 0
        self._moved_at_ns = now_ns

    def stalled_ns(self, written: int, unsent: int, now_ns: int) -> int:
        """For how long output has been waiting without a byte of it leaving."""
        sent = written - unsent
        if sent != self._sent or not unsent or not self._unsent:
            self._sent = sent
            self._moved_at_ns = now_ns
        self._unsent = unsent
        return now_ns - self._moved_at_ns


class Farewell(asyncio.Protocol):
    """Takes a transport over from a connection that has written its last reply.

    `begin` closes the sending side; `check` is called about once a second and ends what takes too long.
    """

    def __init__(
        self, transport: asyncio.Transport, now_ns: int, stall_ns: int, on_gone: Callable[[Farewell], None]
    ) -> None:
        self._transport = transport
        self._stall_ns = stall_ns
        self._until_ns = now_ns + LINGER_NS
        self._progress = Progress(now_ns)
        self._bytes_left = LINGER_BYTES_MAX
        self._on_gone = on_gone

    def begin(self, peer_has_ended: bool) -> None:
        """Close the sending side, or the whole connection when the peer has closed its own."""
        self._transport.set_protocol(self)
        if peer_has_ended or not self._transport.can_write_eof():
            self._transport.close()
        else:
            self._transport.write_eof()

    @property
    def unsent_bytes(self) -> int:
        """Last words that are still on their way."""
        return self._transport.get_write_buffer_size()

    def check(self, now_ns: int) -> None:
        """End it if the peer has had its time, or does not read what is left for it."""
        unsent = self.unsent_bytes
        if unsent:
            if self._progress.stalled_ns(0, unsent, now_ns) > self._stall_ns:
                self.abort()
        elif now_ns > self._until_ns:
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Throw away what nobody will answer."""
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self.abort()

    def eof_received(self) -> None:
        """The peer has closed as well: the transport closes itself."""

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed."""
        self._on_gone(self)
