"""The way of one read: bytes come in, requests are executed, replies gather, and leave once per turn of the loop.

This is the half of a connection that every request passes. What happens less often (accepting, limits, replies that
are worked out elsewhere, the end) is `amemdb.server.connection`, which extends the class in here. The compiled twin
is `_pump.pyx`; this is the reference.

An exception other than a refusal is a bug of ours. Under uvloop it would end one connection and the server would go
on, so whatever executes requests hands it to `Host.bug`, which stops the process.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from amemdb.commands.session import Session
from amemdb.engine.answers import Parts, Pending
from amemdb.errors import ProtocolError
from amemdb.protocol.request import RequestParser
from amemdb.server.backlog import PATIENT_BYTES_MIN
from amemdb.server.outbox import Outbox

if TYPE_CHECKING:
    from amemdb.server.connection import Host

SLICE_REQUESTS_MAX = 128
"""A slice ends after so many requests, or after the one that passed the time that `backlog` allows."""
UNSENT_HIGH = 1024 * 1024
UNSENT_LOW = 256 * 1024
"""Unsent output at which requests are no longer executed, and at which they are again."""


class Pump:
    """The hot half of a connection. Flags are set by either half."""

    __slots__ = (
        "_blocked",
        "_ending",
        "_host",
        "_joined",
        "_open",
        "_outbox",
        "_parser",
        "_pending",
        "_reading",
        "_running",
        "_scheduled",
        "_transport",
        "_write_paused",
        "_written_bytes",
        "session",
    )

    _transport: asyncio.Transport
    _parser: RequestParser
    session: Session

    def __init__(self, host: Host) -> None:
        self._host = host
        self._outbox = Outbox()
        self._open = False
        """Between accept and the end of the session."""
        self._reading = True
        """The transport gives what arrives."""
        self._running = False
        """Inside the loop that executes requests."""
        self._scheduled = False
        """A further slice is due."""
        self._joined = False
        """Replies leave at the end of this turn."""
        self._pending: Pending | Parts | None = None
        """The request that is still worked on, or whose reply is being sent in parts; others wait."""
        self._write_paused = False
        """The transport holds more than `UNSENT_HIGH`."""
        self._blocked = False
        """Requests are left over until output has drained."""
        self._ending = False
        """No further request is executed; the connection ends when its replies have left."""
        self._written_bytes = 0
        """Given to the transport, or to the system, since the connection was made."""

    def begin(self, transport: asyncio.Transport, session: Session) -> None:
        """Serve `session` on `transport` from now on."""
        self._transport = transport
        self.session = session
        self._parser = RequestParser(session.authenticated, self._host.query_bytes_max)
        self._open = True

    @property
    def unread_bytes(self) -> int:
        """Bytes received that belong to no request executed so far."""
        return self._parser.buffered_bytes

    def data_received(self, data: bytes) -> None:
        """Take in one read of the socket and execute what is complete."""
        if self._ending or not self._open:
            return
        host = self._host
        try:
            host.state.traffic.input_bytes += len(data)
            self.session.last_active_ns = host.clock.monotonic_ns()
            self._parser.feed(data)
        except BaseException as error:
            host.bug(error, None)
        if len(data) < PATIENT_BYTES_MIN or not host.backlog or not self._may_run():
            self._run()
        else:
            self._continue_later()

    def send(self, released_offset: int) -> bool:
        """Write what the log has released; whether more waits for it. Called once per turn."""
        self._joined = False
        if not self._open or self._transport.is_closing():
            return False
        outbox = self._outbox
        before = outbox.bytes_waiting
        parts = outbox.take(released_offset)
        if parts:
            self._write(parts, before - outbox.bytes_waiting)
        waiting = bool(outbox)
        if waiting or self._write_paused or self._blocked or self._ending:
            self._sent(waiting)
        return waiting

    def _run(self) -> None:
        """Execute a slice of the requests that are complete."""
        if not self._may_run():
            return
        host, parser = self._host, self._parser
        monotonic_ns = host.clock.monotonic_ns
        argv: list[bytes] | None = None
        self._running = True
        try:
            now_ms = host.clock.now_ms()
            slice_end_ns = monotonic_ns() + host.backlog.slice_ns
            for _ in range(SLICE_REQUESTS_MAX):
                try:
                    argv = parser.next()
                except ProtocolError as error:
                    self._refuse(error)
                    break
                if argv is None:
                    self._resume_reading()
                    break
                if not self._execute(argv, now_ms):
                    break
                if monotonic_ns() > slice_end_ns or self._outbox.bytes_waiting > UNSENT_HIGH:
                    self._continue_later()
                    break
            else:
                self._continue_later()
            self.session.query_bytes = parser.buffered_bytes
        except BaseException as error:
            host.bug(error, argv)
        finally:
            self._running = False
        self._join()

    def _may_run(self) -> bool:
        """Whether requests may be executed now; pauses reading when they may not because of unsent output."""
        if self._pending is not None or self._scheduled or self._ending or not self._open:
            return False
        if self._write_paused or self._outbox.bytes_waiting > UNSENT_HIGH:
            self._blocked = True
            self._pause_reading()
            return False
        return True

    def _join(self) -> None:
        """Have replies, or the end, leave at the end of this turn."""
        if not self._joined and (self._outbox or self._ending):
            self._joined = True
            self._host.turn.join(self)

    # -- what the other half does ------------------------------------------------------------------

    def _execute(self, argv: list[bytes], now_ms: int) -> bool:
        """Execute one request; whether the next one may follow at once."""
        raise NotImplementedError

    def _refuse(self, error: ProtocolError) -> None:
        """The bytes make no sense."""
        raise NotImplementedError

    def _continue_later(self) -> None:
        """Go on in a later turn of the loop."""
        raise NotImplementedError

    def _write(self, parts: list[bytes], count: int) -> None:
        """Give `parts`, `count` bytes together, to the transport."""
        raise NotImplementedError

    def _sent(self, waiting: bool) -> None:
        """Replies have left, and not all is as it usually is."""
        raise NotImplementedError

    def _pause_reading(self) -> None:
        """Read no more from the socket."""
        raise NotImplementedError

    def _resume_reading(self) -> None:
        """Read from the socket again."""
        raise NotImplementedError
