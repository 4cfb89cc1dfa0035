"""One client's connection: bytes in, requests to the engine, replies out in order.

Rules:

1. The clock is read once for each read of the socket (and for each later slice of what it brought).
2. A read that holds many requests is executed in slices of about a millisecond; others get their turn in between.
   While requests are left over, nothing more is read, so a fast sender is slowed down instead of buffered.
3. Replies are gathered and written once per turn of the loop (`turn`), and none before the log has released what
   it tells of (`outbox`).
4. A reply that is worked out in a thread, or in slices, keeps its place: later requests of this connection wait for
   it. So they do for a long reply, which is made while it is sent: at most about a millisecond's worth, and
   `PARTS_BYTES_MAX`, in one turn, and no more than `UNSENT_HIGH` ahead of what the peer has read.
5. A peer that does not read gets no more requests executed past `UNSENT_HIGH`; one that reads nothing at all for
   too long, or that has more waiting than the setting allows, is cut.
6. When framing is in doubt, earlier replies leave, then the error, then the connection ends (`farewell`).

An exception other than a refusal is a bug of ours. Under uvloop it would end one connection and the server would go
on, so everything here that executes requests hands it to `Host.bug`, which stops the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from amemdb import native
from amemdb.clock import Clock
from amemdb.commands.session import Session
from amemdb.engine.answers import Parts, Pending
from amemdb.engine.engine import Engine
from amemdb.engine.state import ServerState
from amemdb.errors import ProtocolError, printable
from amemdb.server.backlog import Backlog
from amemdb.server.farewell import Progress
from amemdb.server.pump import UNSENT_HIGH, UNSENT_LOW
from amemdb.server.turn import Turn

if TYPE_CHECKING or not native.ENABLED:
    from amemdb.server.pump import Pump
else:
    from amemdb.server._pump import Pump

JOIN_BYTES_MAX = 64 * 1024
"""Replies up to this are joined for one write; larger ones are handed over as they are, uncopied."""

PARTS_BYTES_MAX = 256 * 1024
"""What one turn makes of a long reply: about what a socket takes at once."""

CROSS_PROTOCOL = frozenset(
    "".join(letters).encode()
    for word in ("POST", "Host:")
    for letters in product(*((letter.lower(), letter.upper()) for letter in word))
)
"""First words of lines that a web page can make a browser send here."""

_log = logging.getLogger("amemdb")


@dataclass(slots=True, eq=False)
class Host:
    """What the connections of one server share."""

    loop: asyncio.AbstractEventLoop
    engine: Engine
    state: ServerState
    clock: Clock
    turn: Turn
    threads: Executor
    query_bytes_max: int
    output_bytes_max: int
    stall_ns: int
    """How long a peer with output waiting may read nothing."""
    idle_ns: int
    """After how long without a request a connection is closed; 0 for never."""
    bug: Callable[[BaseException, list[bytes] | None], NoReturn]
    """Stops the process; told what was raised and the request that was being executed."""
    hot: Any = None
    """The native hot path of the engine, if there is one."""
    work: set[asyncio.Future[Any]] = field(default_factory=set)
    """What is being worked on in `threads`."""
    backlog: Backlog = field(init=False)
    """Who has more to do."""

    def __post_init__(self) -> None:
        self.backlog = Backlog(self.loop, self.clock.monotonic_ns)


class Roster(Protocol):
    """Who keeps the connections; see `amemdb.server.listener`."""

    def admit(self, connection: Connection, transport: asyncio.Transport) -> Session | None:
        """The session of a new connection, or None when it was turned away (its transport is taken over then)."""

    def leave(self, connection: Connection) -> None:
        """The connection is over."""

    def see_off(self, connection: Connection, transport: asyncio.Transport, peer_has_ended: bool) -> None:
        """Take over the transport of a connection that has written its last reply."""


class Connection(Pump, asyncio.Protocol):
    """One client, from accept to close."""

    __slots__ = ("_peer_ended", "_progress", "_roster")

    _progress: Progress

    def __init__(self, host: Host, roster: Roster) -> None:
        super().__init__(host)
        self._roster = roster
        self._peer_ended = False

    # -- called by the transport -----------------------------------------------------------------

    def connection_made(self, base_transport: asyncio.BaseTransport) -> None:
        """Begin a session, unless there are too many."""
        transport = cast(asyncio.Transport, base_transport)  # uvloop's is one in all but ancestry
        session = self._roster.admit(self, transport)
        if session is None:
            return
        transport.set_write_buffer_limits(UNSENT_HIGH, UNSENT_LOW)
        self._progress = Progress(session.created_at_ns)
        self.begin(transport, session)

    def eof_received(self) -> bool:
        """The peer sends no more: what it is still owed is sent, then the connection ends."""
        self._peer_ended = True
        self._reading = False
        if self._open:
            self._end()
        return True

    def pause_writing(self) -> None:
        """The peer reads more slowly than it asks."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._write_paused = False
        self._unblock()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is closed, whoever closed it."""
        self._over()

    # -- called by the server --------------------------------------------------------------------

    def check(self, now_ns: int) -> None:
        """Look for limits that were passed, about once a second."""
        if not self._open:
            return
        host, session = self._host, self.session
        unsent = self._check_output()
        if self._transport.is_closing():
            return
        if unsent == 0:
            self._progress.stalled_ns(self._written_bytes, 0, now_ns)
            idle = not (self._outbox or self._pending or self._scheduled)
            if host.idle_ns and idle and now_ns - session.last_active_ns > host.idle_ns:
                host.state.idle_timeouts += 1
                _log.debug("closing idle connection %d from %s", session.id, session.address)
                self._cut()
        elif self._progress.stalled_ns(self._written_bytes, unsent, now_ns) > host.stall_ns:
            host.state.stall_cuts += 1
            _log.warning(
                "closing connection %d from %s: it read nothing for %d s with %d bytes waiting for it",
                *(session.id, session.address, host.stall_ns // 1_000_000_000, unsent),
            )
            self._cut()

    def kill(self) -> None:
        """CLIENT KILL: close at once, or after the reply if it is this connection that asked."""
        if self._open and not self._running:
            self._cut()

    def stop(self) -> None:
        """The server stops: execute nothing more, and end when the replies have left."""
        if self._open and not self._ending:
            self.session.close_after_reply = True  # seen by the loop of the connection that sent SHUTDOWN
            self._end()

    @property
    def owes_replies(self) -> bool:
        """Whether anything is still to be sent to the peer."""
        unsent = self._open and self._transport.get_write_buffer_size()
        return self._open and bool(self._outbox or self._pending or unsent)

    # -- requests --------------------------------------------------------------------------------

    def _execute(self, argv: list[bytes], now_ms: int) -> bool:
        """Execute one request; whether the next one may follow at once."""
        if argv[0] in CROSS_PROTOCOL:
            self._refuse_cross_protocol(argv[0])
            return False
        session = self.session
        reply = self._host.engine.execute(session, argv, now_ms)
        if not isinstance(reply, bytes):
            self._begin(reply)
            return False
        self._outbox.put(reply, session.reply_offset)
        if session.close_after_reply or session.kill:
            self._end()
            return False
        self._parser.authenticated = session.authenticated
        return True

    def _continue_later(self) -> None:
        self._scheduled = True
        self._pause_reading()
        self._host.backlog.add(self)

    def go_on(self) -> None:
        """Go on with what is pending, or else with the next requests."""
        self._scheduled = False
        pending = self._pending
        if pending is None:
            self._run()
        elif not self._transport.is_closing():
            if isinstance(pending, Parts):
                self._send_parts(pending)
            elif pending.sliced:
                self._resume(pending, None)

    def _unblock(self) -> None:
        """Go on with the requests, or the parts of a reply, that were left over, if output has drained enough."""
        if self._blocked and not self._write_paused and self._outbox.bytes_waiting <= UNSENT_HIGH:
            self._blocked = False
            if self._open and not self._scheduled and not (self._ending and self._pending is None):
                self._continue_later()

    # -- replies that are not there at once ----------------------------------------------------------

    def _begin(self, pending: Pending | Parts) -> None:
        """Go on with `pending` in later turns, or in a thread; nothing else is executed until it is answered."""
        self._pending = pending
        if isinstance(pending, Parts) or pending.sliced:
            self._continue_later()
            return
        self._pause_reading()
        future: asyncio.Future[Any]
        if (awaited := pending.awaited) is not None:
            future = self._host.loop.create_future()
            awaited.begin(lambda result: None if future.done() else future.set_result(result))
        else:
            future = self._host.loop.run_in_executor(self._host.threads, pending.work)
        self._host.work.add(future)
        future.add_done_callback(self._worked)

    def _worked(self, future: asyncio.Future[Any]) -> None:
        """Finish the request whose work is done, and go on with those behind it."""
        self._host.work.discard(future)
        pending = self._pending
        assert isinstance(pending, Pending)
        if future.cancelled():
            self._pending = None
            return
        try:
            result = future.result()
        except BaseException as error:
            self._host.bug(error, pending.argv)
        self._resume(pending, result)

    def _resume(self, pending: Pending, result: Any) -> None:
        """The work of `pending`, or a slice of it, is done."""
        self._pending = None
        if not self._open:
            return
        host, session = self._host, self.session
        try:
            reply = host.engine.resume(pending, result, host.clock.now_ms())
            session.last_active_ns = host.clock.monotonic_ns()
            if not isinstance(reply, bytes):
                self._begin(reply)
                return
            self._outbox.put(reply, session.reply_offset)
        except BaseException as error:
            host.bug(error, pending.argv)
        self._answered()

    def _send_parts(self, parts: Parts) -> None:
        """Make some more of a long reply, unless enough of it waits for the peer."""
        if self._write_paused or self._outbox.bytes_waiting > UNSENT_HIGH:
            self._blocked = True
            return
        session, outbox, monotonic_ns = self.session, self._outbox, self._host.clock.monotonic_ns
        piece, room = b"", PARTS_BYTES_MAX
        try:
            slice_end_ns = monotonic_ns() + self._host.backlog.slice_ns
            while room > 0:
                piece = parts.next()
                if not piece:
                    break
                outbox.put(piece, session.reply_offset)
                room = room - len(piece) if monotonic_ns() <= slice_end_ns else 0
        except BaseException as error:
            self._host.bug(error, parts.argv)
        if piece:
            self._join()
            self._continue_later()
        else:
            self._pending = None
            session.last_active_ns = monotonic_ns()
            self._answered()

    def _answered(self) -> None:
        """What was pending is answered: go on with the requests behind it."""
        if self.session.close_after_reply or self.session.kill:
            self._end()
        self._join()
        self._run()

    # -- the end ---------------------------------------------------------------------------------

    def _refuse(self, error: ProtocolError) -> None:
        session = self.session
        self._host.state.protocol_errors += 1
        _log.debug("closing connection %d from %s: %s", session.id, session.address, error)
        self._end(b"-ERR Protocol error: %b\r\n" % str(error).encode("ascii", "replace"))

    def _refuse_cross_protocol(self, word: bytes) -> None:
        self._host.state.protocol_errors += 1
        _log.warning(
            "possible attack: the connection from %s sent '%s', as a web browser does; closed, nothing was executed",
            *(self.session.address, printable(word)),
        )
        self._cut()

    def _end(self, last_words: bytes = b"") -> None:
        """Execute nothing more; see the peer off when everything, `last_words` at the end, has been written."""
        self._ending = True
        if last_words:
            self._outbox.put(last_words, 0)
        self._join()

    def _see_off(self) -> None:
        transport = self._transport
        self._resume_reading()
        self._over()
        self._roster.see_off(self, transport, self._peer_ended)

    def _cut(self) -> None:
        """Close at once; what is unsent is lost."""
        self._ending = True
        self._transport.abort()

    def _over(self) -> None:
        """End the session. Everything that points back here is let go: nothing collects cycles of old objects."""
        if not self._open:
            return
        self._open = False
        self._outbox.clear()
        host = self._host
        host.turn.leave(self)
        try:
            self._drop_pending()
            host.engine.forget(self.session)
        except BaseException as error:
            host.bug(error, None)
        self._roster.leave(self)

    def _drop_pending(self) -> None:
        """Work no longer on what only waits for its next turn; what is in a thread comes back by itself."""
        pending = self._pending
        if isinstance(pending, Parts):
            pending.close()
        if isinstance(pending, Parts) or (pending is not None and pending.sliced):
            self._pending = None

    # -- flow ------------------------------------------------------------------------------------

    def _write(self, parts: list[bytes], count: int) -> None:
        self._written_bytes += count
        self._host.state.traffic.output_bytes += count
        transport = self._transport
        if len(parts) == 1:
            transport.write(parts[0])
        elif count <= JOIN_BYTES_MAX:
            transport.write(b"".join(parts))
        else:
            transport.writelines(parts)

    def _sent(self, waiting: bool) -> None:
        if waiting or self._write_paused:
            self._check_output()
        if self._blocked:
            self._unblock()
        if self._ending and not waiting and self._pending is None and self._open:
            self._see_off()

    def _check_output(self) -> int:
        """Cut a connection that has too much waiting; how many bytes its socket has not taken yet."""
        transport, host, session = self._transport, self._host, self.session
        unsent = transport.get_write_buffer_size()
        session.output_bytes = self._outbox.bytes_waiting + unsent
        if isinstance(self._pending, Parts):
            session.output_bytes += self._pending.held_bytes
        if session.output_bytes > host.output_bytes_max and not self._transport.is_closing():
            host.state.output_limit_cuts += 1
            _log.warning(
                "closing connection %d from %s: %d bytes of replies wait for it, more than output-buffer-limit",
                *(session.id, session.address, session.output_bytes),
            )
            self._cut()
        return unsent

    def _pause_reading(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reading and not self._peer_ended and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()
