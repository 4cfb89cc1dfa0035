"""What a handler may see and do: time, stores, its session, and `emit`.

A handler decides; a record changes. `emit` is the only way to change state: it applies the record at once and puts it
in the frame that the engine commits when the command, or the whole transaction, is done. Everything a handler
needs to decide must be checked before the first `emit`: after it, a refusal is a bug.

`Server` is what commands about the server itself may ask of it, as an interface, so that no command imports the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import Any, Protocol

from amemdb.commands.session import Session
from amemdb.errors import CommandError
from amemdb.stores import records
from amemdb.stores.conversation import Conversation
from amemdb.stores.records import Record
from amemdb.stores.stores import Stores


class Compaction(Protocol):
    """Compaction, as commands see it; see `amemdb.server.compaction`."""

    @property
    def running(self) -> bool:
        """Whether one is under way."""

    @property
    def error(self) -> str:
        """Why the last one failed; empty if it did not."""

    @property
    def last_save_s(self) -> int:
        """When the last one went well, as Unix time; before the first, when the server started."""

    def start(self) -> None:
        """Begin one. None may be under way."""

    def schedule(self) -> None:
        """Begin one, now or when the one under way is over."""

    def when_over(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the one under way is over."""


class Embedder(Protocol):
    """What makes vectors of texts, as commands see it; see `amemdb.server.embedding`."""

    @property
    def model(self) -> bytes:
        """The name that is kept with what it made."""

    @property
    def dim(self) -> int:
        """Components of its vectors; 0 until the first are there."""

    def begin(self, text: str, tell: Callable[[bytes | CommandError], None]) -> None:
        """Have `tell` called once, on the loop, with the vector of `text` as float32, or with why there is none."""

    def lines(self) -> list[tuple[str, object]]:
        """What INFO tells of it."""

    def reset(self) -> None:
        """Count from zero, for CONFIG RESETSTAT."""


class Server(Protocol):
    """The running server, as commands see it. Implemented by `amemdb.engine.state.ServerState`."""

    random: Random
    sessions: dict[int, Session]
    shutdown_requested: bool
    conv_window: int
    """The setting of that name: the window of a session that is made without one."""
    monotonic_ns: Callable[[], int]
    sleep: Callable[[float], None]
    """Stop everything for some seconds (DEBUG SLEEP)."""

    @property
    def login_required(self) -> bool:
        """Whether a connection has to log in first."""

    def check_password(self, user: bytes, password: bytes) -> bool:
        """Whether these may log in. A refusal is counted."""

    def kill(self, session: Session) -> None:
        """Have the server close another connection."""

    def config_get(self, name: str) -> str:
        """A setting's value as text."""

    def config_names(self) -> list[str]:
        """Every setting's name."""

    def config_set(self, changes: list[tuple[str, str]]) -> None:
        """Change settings, all or none; `CommandError` names the one that cannot be."""

    @property
    def config_rewrite(self) -> Callable[[], str | None] | None:
        """Writes the settings to the file they came from, on any thread, and tells why it could not; None: no file."""

    def info(self, sections: list[str], stores: Stores, now_ms: int) -> str:
        """The text of INFO."""

    def memory_report(self) -> Any:
        """What all takes in memory: an `amemdb.engine.memory.Report`."""

    def reset_statistics(self) -> None:
        """CONFIG RESETSTAT."""

    def slowlog(self, count: int = -1) -> list[Any]:
        """Slow commands, newest first, at most `count` of them; all if it is negative."""

    def slowlog_len(self) -> int:
        """How many slow commands are kept."""

    def slowlog_reset(self) -> None:
        """Forget slow commands."""

    def request_shutdown(self) -> None:
        """Have the server stop in order."""

    @property
    def compaction(self) -> Compaction | None:
        """Compaction of the log; None where there is no log to compact."""

    @property
    def embedder(self) -> Embedder | None:
        """What makes vectors of texts; None where no embedder is set."""

    def require_room(self, count_bytes: int) -> None:
        """Refuse with `MISCONF` unless the log can take a frame of that size; see `Context.require_room`."""


class Deferred:
    """A handler's answer that takes long: `work` runs off the event loop, then `finish` on it.

    `work()` must not touch the stores beyond what it was given, and may not raise: a refusal that it comes to is
    returned, for `finish` to raise. `finish(ctx, result)` returns the value, or another `Deferred`. Inside a
    transaction both run at once.
    """

    __slots__ = ("finish", "work")

    def __init__(self, work: Callable[[], Any], finish: Callable[[Context, Any], Any]) -> None:
        self.work = work
        self.finish = finish


class Awaited:
    """A handler's answer that waits for something to happen, on the event loop, while others are served.

    `begin(tell)` has `tell(result)` called once, on the loop, later; `finish(ctx, result)` returns the value. A command
    that gives one is refused inside a transaction.
    """

    __slots__ = ("begin", "finish")

    def __init__(self, begin: Callable[[Callable[[Any], None]], None], finish: Callable[[Context, Any], Any]) -> None:
        self.begin = begin
        self.finish = finish


class Sliced:
    """A handler's answer that takes long on the event loop: done in steps, with others served in between.

    `steps` yields now and then (every few tenths of a millisecond of work) and at its end returns the value. It is
    the answer of a read: it emits nothing. The stores may be another's from one step to the next, and the context
    tells session and time of this command again at each. Inside a transaction it runs to its end at once.
    """

    __slots__ = ("_steps",)

    def __init__(self, steps: Generator[None, None, Any]) -> None:
        self._steps = steps

    def advance(self, is_over: Callable[[], bool]) -> Any:
        """The value; or this object itself, once `is_over` says that the slice is."""
        try:
            while True:
                next(self._steps)
                if is_over():
                    return self
        except StopIteration as end:
            return end.value

    def run(self) -> Any:
        """The value."""
        return self.advance(lambda: False)


class Context:
    """One command's view of the node. Reused from command to command by the engine, which owns it."""

    __slots__ = ("frame", "now_ms", "run_queued", "server", "session", "stores")

    def __init__(self, stores: Stores, server: Server) -> None:
        self.stores = stores
        self.server = server
        self.session = Session(0)
        self.now_ms = 0
        self.frame: list[Record] = []
        self.run_queued: Callable[[list[Any]], bytes] = _no_engine

    def emit(self, record: Record) -> None:
        """Apply `record` and put it in the frame."""
        self.frame.append(record)
        self.stores.apply(record)

    def emit_all(self, batch: list[Record]) -> None:
        """`emit` for each of many records, in order."""
        self.frame += batch
        self.stores.apply_all(batch)

    def require_room(self, count_bytes: int) -> None:
        """Refuse now if the log could not take `count_bytes`.

        The engine has made sure of room for a frame the size of the request. A handler whose records can be much
        larger than what was sent (RENAME and COPY carry a value, SETRANGE makes one) asks for it before it emits.
        """
        self.server.require_room(count_bytes)

    # -- sessions: shared by the conversation, working and search families --------------------------

    def conversation_to_write(self, session: bytes) -> Conversation | None:
        """The live session, or None; one whose time has passed is dropped, as a record, on the way."""
        conversation = self.stores.conv.sessions.get(session)
        if conversation is not None and 0 < conversation.expire_at_ms <= self.now_ms:
            self.emit((records.CONVERSATION_DROPPED, session))
            return None
        return conversation


def _no_engine(queue: list[Any]) -> bytes:
    raise AssertionError("transactions run inside an engine")
