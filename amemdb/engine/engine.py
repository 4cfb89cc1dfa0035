"""The engine: one request in, the bytes of one reply out, and at most one frame to the log.

Order of things for a request: find the command, pass the gates (login, arity, transaction queue, log), parse and run
(one generated function), commit. Gates are inline tests, as a list of gate functions costs nine times as much. No
socket, no clock and no randomness in here: the time of a request is an argument, durations come from the timer given.

Only `CommandError` becomes a reply. Anything else that a handler raises is a bug of ours and leaves through
`execute`, so that the server can stop rather than serve a state it cannot trust.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgpack

from amemdb import native
from amemdb.commands.context import Awaited, Context, Deferred, Sliced
from amemdb.commands.session import Session
from amemdb.commands.table import Command, find
from amemdb.commands.transactions import unwatch_all
from amemdb.engine.answers import Parts, Pending
from amemdb.engine.expiry import removal_of
from amemdb.engine.state import ServerState
from amemdb.errors import CommandError, wrong_arity
from amemdb.limits import NAME_BYTES_MAX, REPLY_BYTES_MAX, REPLY_ELEMENTS_MAX, TRANSACTION_BYTES_MAX
from amemdb.protocol.reply import QUEUED_BYTES
from amemdb.stores.last_use import TOUCHES_BYTES_MAX
from amemdb.stores.records import FACTS_TOUCHED
from amemdb.stores.stores import Stores
from amemdb.stores.wheel import Entry

if not TYPE_CHECKING and native.ENABLED:
    from amemdb.engine._hot import HotPath
else:
    HotPath = None

REQUEST_OVERHEAD_BYTES = 512
"""What a frame holds beyond the bytes of its request, at most, for the room that gate 3 asks for."""
NAMES_AGAIN_BYTES_MAX = 2 * NAME_BYTES_MAX
"""A session and a key, or an agent and one: the names in a second record of one request."""
PACKER_BYTES_MAX = 1024 * 1024
"""A frame that may be larger is not packed by the packer that is kept, as that never gives memory back."""
SLICE_NS = 1_000_000
"""How long a command that is done in slices runs before others get their turn."""
QUEUED_OVERHEAD_BYTES = 64
"""What one argument of a queued command takes in memory beyond its bytes."""
REPLY_LEFT_OUT = b"-ERR the replies of this transaction would be longer than %d bytes\r\n" % REPLY_BYTES_MAX


class CommitLog(Protocol):
    """Where frames go. The engine knows neither files nor policies; see `amemdb.persistence.log`."""

    @property
    def offset(self) -> int:
        """Bytes of all frames appended so far."""

    @property
    def gates_reads(self) -> bool:
        """Whether reads, too, wait until what they may have seen is durable (policy `always`)."""

    def append(self, frames: bytes, count: int = 1) -> None:
        """Take one unit: `count` whole frames one behind the other. Its room has been asked for before."""

    @property
    def room(self) -> int:
        """How many bytes one more unit of this turn may have without `refuse_write` being asked; may be negative."""

    def refuse_write(self, count_bytes: int) -> str | None:
        """Why a unit of `count_bytes` cannot be taken now, or None when it can."""

    def refuse_read(self) -> str | None:
        """Why even reads must be refused now (policy `always` with frames that cannot be made durable), or None."""


class Engine:
    """One node's engine, bound to its stores, its log and the state of its server."""

    def __init__(self, stores: Stores, log: CommitLog, state: ServerState, timer_ns: Callable[[], int]) -> None:
        self.stores = stores
        self.log = log
        self.state = state
        self._timer_ns = timer_ns
        stores.texts.language = state.config.get("text-language").lower().encode("utf-8", "surrogateescape")
        self._packer = msgpack.Packer(autoreset=True)
        self._context = Context(stores, state)
        self._context.run_queued = self._run_queued
        self._asked_bytes = 0
        """Room that the command or transaction which is running has asked for."""
        state.require_log_room = self.require_room
        self.hot: Any = None if HotPath is None else HotPath(stores, log, state, timer_ns)
        """Serves hot commands past `execute`, as it would; see `amemdb.engine._hot`."""
        if self.hot is not None:
            state.settle = self.hot.settle
        self._memory = state.memory
        state.memory.bind(stores, lambda: log.offset, self.hot)

    # -- requests --------------------------------------------------------------------------------

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> bytes | Pending | Parts:
        """The reply to one request, in parts if it is long, or a `Pending` that will give it.

        `argv` has at least one token.
        """
        started_ns = self._timer_ns()
        if self.hot is not None:
            self.hot.hand_over()
        reply_offset = session.reply_offset
        if session.reply_mode == "skip_next":
            session.reply_mode = "skip"
        command: Command | None = None
        self._asked_bytes = 0
        try:
            command = find(argv)
            self._gates(session, command, argv)
            if session.queue is not None and not command.immediate:
                self._enqueue(session, command, argv)
                return self._spoken(session, QUEUED_BYTES)
        except CommandError as error:
            return self._rejected(session, command, error)
        self._have_reply_wait(session, command)
        context = self._context
        context.session = session
        context.now_ms = now_ms
        try:
            value = command.run(context, argv)
            if isinstance(value, Sliced):
                value = self._slice(value, started_ns)
        except CommandError as error:
            self.state.count_failure(command.name, error.code, True)
            assert not context.frame, f"{command.name} was refused after it had emitted"
            if error.code == "EXECABORT":  # nothing was looked at
                session.reply_offset = reply_offset
            return self._spoken(session, error.line)
        return self._finished(session, command, argv, value, started_ns, 0)

    def resume(self, pending: Pending, result: Any, now_ms: int) -> bytes | Pending | Parts:
        """Go on with a `Pending`, with what its work returned. The gates are passed again."""
        started_ns = self._timer_ns()
        if self.hot is not None:
            self.hot.hand_over()
        session, command = pending.session, pending.command
        context = self._context
        context.session = session
        context.now_ms = now_ms
        admitted = False
        self._asked_bytes = 0
        try:
            self._gates(session, command, pending.argv)
            admitted = True
            self._have_reply_wait(session, command)
            value = pending.deferred
            if isinstance(value, (Awaited, Deferred)):
                value = value.finish(context, result)
            if isinstance(value, Sliced):
                value = self._slice(value, started_ns)
        except CommandError as error:
            self.state.count_failure(command.name, error.code, admitted)
            assert not context.frame, f"{command.name} was refused after it had emitted"
            return self._spoken(session, error.line)
        return self._finished(session, command, pending.argv, value, started_ns, pending.spent_ns)

    def forget(self, session: Session) -> None:
        """A connection is gone: drop its transaction and its watches."""
        session.leave_transaction()
        self._context.session = session
        unwatch_all(self._context)

    def _gates(self, session: Session, command: Command, argv: list[bytes]) -> None:
        if not session.authenticated and not command.no_auth:
            raise CommandError("Authentication required.", "NOAUTH")
        count = len(argv)
        if count != command.arity and (command.arity >= 0 or count < -command.arity):
            raise wrong_arity(command.name)
        if command.write:
            if command.grows and self._memory.limit_bytes and self._memory.refuses():
                raise _full()
            self.require_room(_frame_bytes_max(argv))
        elif command.read:
            self._require_readable()

    def _have_reply_wait(self, session: Session, command: Command) -> None:
        """Under `always`, what may tell of data waits until that is durable.

        Called behind the gates: a refusal by one of them tells of nothing, and one for a log that cannot be written
        would wait for that very log.
        """
        if self.log.gates_reads and command.tells_of_data:
            session.reply_offset = self.log.offset

    def _rejected(self, session: Session, command: Command | None, error: CommandError) -> bytes:
        """The reply to a request that no gate let pass.

        It breaks a transaction that is being queued, and ends one whose EXEC it is: a client that pipelines has no
        other way to learn that a part of it was never taken.
        """
        self.state.count_failure(None if command is None else command.name, error.code, False)
        if command is not None and command.name == "EXEC":
            self.forget(session)
            error = _discarded(error)
        elif session.queue is not None:
            session.queue_broken = True
            session.queue.clear()
        return self._spoken(session, error.line)

    def _require_readable(self) -> None:
        reason = self.log.refuse_read()
        if reason is not None:
            raise _unwritten(reason)

    def require_room(self, count_bytes: int) -> None:
        """Refuse with `MISCONF` unless the frame of this command or transaction can take `count_bytes` more."""
        reason = self.log.refuse_write(self._asked_bytes + count_bytes)
        if reason is not None:
            raise _unwritten(reason)
        self._asked_bytes += count_bytes

    def _slice(self, sliced: Sliced, started_ns: int) -> Any:
        """Go on with what is done in slices, until the one that began at `started_ns` is over."""
        end_ns = started_ns + SLICE_NS
        return sliced.advance(lambda: self._timer_ns() >= end_ns)

    def _finished(
        self,
        session: Session,
        command: Command,
        argv: list[bytes],
        value: Any,
        started_ns: int,
        spent_ns: int,
    ) -> bytes | Pending | Parts:
        context = self._context
        if isinstance(value, (Awaited, Deferred, Sliced)):
            assert not context.frame, f"{command.name} emitted and is not done"
            return Pending(session, command, argv, value, spent_ns + self._timer_ns() - started_ns)
        if context.frame:
            self._commit(context.now_ms)
            session.reply_offset = self.log.offset
        try:
            if command.shape.is_long(value):
                return self._long(session, command, argv, value, spent_ns, started_ns)
            reply = command.encode(value, session.resp3)
        except CommandError as error:  # an answer too large for any client
            reply = error.line
        spent_ns += self._timer_ns() - started_ns
        self.state.count_call(command, argv, session, spent_ns, context.now_ms)
        return self._spoken(session, reply)

    def _long(
        self, session: Session, command: Command, argv: list[bytes], value: Any, spent_ns: int, started_ns: int
    ) -> bytes | Parts:
        """A long reply, in parts."""
        pieces = command.shape.pieces(value, session.resp3)
        spent_ns += self._timer_ns() - started_ns
        now_ms = self._context.now_ms

        def count(parts_ns: int) -> None:
            self.state.count_call(command, argv, session, spent_ns + parts_ns, now_ms)

        parts = Parts(argv, value, pieces, self.stores.graveyard, self._timer_ns, count)
        if session.reply_mode == "on":
            return parts
        parts.close()
        return self._spoken(session, b"")

    def _encoded(self, command: Command, value: Any, session: Session) -> bytes:
        try:
            return command.encode(value, session.resp3)
        except CommandError as error:  # an answer too large for any client
            return error.line

    def _spoken(self, session: Session, reply: bytes) -> bytes:
        """The reply, or nothing where CLIENT REPLY asked for silence."""
        if session.reply_mode == "on":
            return reply
        if session.reply_mode == "skip":
            session.reply_mode = "on"
        return b""

    # -- transactions ----------------------------------------------------------------------------

    def _enqueue(self, session: Session, command: Command, argv: list[bytes]) -> None:
        """Keep a command for EXEC, unless EXEC is bound to refuse anyway."""
        if command.refuse_multi:
            raise CommandError("Command not allowed inside a transaction")
        if session.queue is None or session.queue_broken:
            return
        session.queue_bytes += sum(map(len, argv)) + QUEUED_OVERHEAD_BYTES * len(argv)
        if session.queue_bytes > TRANSACTION_BYTES_MAX:
            raise CommandError(f"the transaction is too large: at most {TRANSACTION_BYTES_MAX} bytes can be queued")
        if len(session.queue) == REPLY_ELEMENTS_MAX:
            raise CommandError(f"the transaction is too long: at most {REPLY_ELEMENTS_MAX} commands can be queued")
        session.queue.append((command, argv))

    def _run_queued(self, queue: list[tuple[Command, list[bytes]]]) -> bytes:
        """Run the commands between MULTI and EXEC; their records stay in the one frame of EXEC.

        The gates that depend on the moment are passed again, once for all, before the first command runs.
        """
        try:
            if any(command.read for command, _ in queue):
                self._require_readable()
            if any(command.grows for command, _ in queue) and self._memory.refuses():
                raise _full()
            writes = [argv for command, argv in queue if command.write]
            if writes:
                self.require_room(sum(map(_frame_bytes_max, writes)))
        except CommandError as error:
            raise _discarded(error) from error
        context = self._context
        replies = [b"*%d\r\n" % len(queue)]
        room = REPLY_BYTES_MAX
        for command, argv in queue:
            started_ns = self._timer_ns()
            emitted = len(context.frame)
            try:
                value = command.run(context, argv)
                while isinstance(value, (Deferred, Sliced)):
                    value = value.run() if isinstance(value, Sliced) else value.finish(context, value.work())
                if isinstance(value, Awaited):
                    raise CommandError("Command not allowed inside a transaction: its answer has to be waited for")
            except CommandError as error:
                assert len(context.frame) == emitted, f"{command.name} was refused after it had emitted"
                self.state.count_failure(command.name, error.code, True)
                replies.append(error.line)
                continue
            reply = self._encoded(command, value, context.session)
            if len(reply) > room:  # a large value read again and again must not exhaust the memory
                reply = REPLY_LEFT_OUT
            room -= len(reply)
            replies.append(reply)
            spent_ns = self._timer_ns() - started_ns
            self.state.count_call(command, argv, context.session, spent_ns, context.now_ms)
        return b"".join(replies)

    # -- the log ---------------------------------------------------------------------------------

    def _commit(self, now_ms: int) -> None:
        """Hand what was emitted to the log as one frame: `[now_ms, record, …]` in msgpack."""
        frame = self._context.frame
        pack = self._packer.pack if self._asked_bytes <= PACKER_BYTES_MAX else msgpack.packb
        self.log.append(pack((now_ms, *frame)))
        if self.log.offset >= self._memory.fresh_until_offset:
            self._memory.refresh()
        frame.clear()

    def expire(self, now_ms: int, count_max: int) -> int:
        """Remove at most `count_max` objects whose time has passed, each as a record; how many were due.

        Does nothing while the log refuses writes: what is dead stays in the wheel, hidden from reads.
        """
        if self.hot is not None:
            self.hot.hand_over()
        due = self.stores.due(now_ms, count_max)
        self._asked_bytes = sum(map(_removal_bytes_max, due))
        if not due or self.log.refuse_write(self._asked_bytes) is not None:
            return 0
        context = self._context
        context.now_ms = now_ms
        for entry in due:
            record = removal_of(self.stores, entry, now_ms)
            if record is not None:
                context.emit(record)
                self.state.expired += record[0] != FACTS_TOUCHED
        if context.frame:
            self._commit(now_ms)
        return len(due)


def _full() -> CommandError:
    """What is answered while more than `maxmemory` is used, in the words of Redis."""
    return CommandError("command not allowed when used memory > 'maxmemory'.", "OOM")


def _unwritten(reason: str) -> CommandError:
    """What is answered while the log cannot do its part."""
    return CommandError(f"Errors writing to the log: {reason}", "MISCONF")


def _discarded(error: CommandError) -> CommandError:
    """What EXEC answers when it was itself refused because of `error`."""
    reason = error.message if error.code == "ERR" else f"{error.code} {error.message}"
    return CommandError(f"Transaction discarded because of: {reason}", "EXECABORT")


def _frame_bytes_max(argv: list[bytes]) -> int:
    """More than the records take that a write emits, if they carry only what was sent.

    A write that meets something dead, or a full log of events, names its object once more in the record that
    removes it. Of plain keys, whose names have no such bound, the handlers ask for that themselves.
    """
    sent_bytes = sum(map(len, argv))
    return sent_bytes + min(sent_bytes, NAMES_AGAIN_BYTES_MAX) + REQUEST_OVERHEAD_BYTES + 16 * len(argv)


def _removal_bytes_max(entry: Entry) -> int:
    """More than the record takes that removes what `entry` stands for: its names and some numbers."""
    names_bytes = sum(len(part) for part in entry if isinstance(part, bytes))
    return REQUEST_OVERHEAD_BYTES + names_bytes + (TOUCHES_BYTES_MAX if entry[0] == "touches" else 0)
