"""What a handler may see and do: time, stores, its session, and `emit`.

A handler decides; a record changes. `emit` is the only way to change state: it applies the record at once and puts it
in the frame that the engine commits when the command, or the whole transaction, is done. Everything a handler
needs to decide must be checked before the first `emit`: after it, a refusal is a bug.

`Server` is what commands about the server itself may ask of it, as an interface, so that no command imports the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from amemdb.commands.session import Session
from amemdb.stores import records
from amemdb.stores.conversation import Conversation
from amemdb.stores.records import Record
from amemdb.stores.stores import Stores


class Server(Protocol):
    """The running server, as commands see it. Implemented by `amemdb.engine.state.ServerState`."""

    random: Random
    sessions: dict[int, Session]
    shutdown_requested: bool
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

    def require_room(self, count_bytes: int) -> None:
        """Refuse with `MISCONF` unless the log can take a frame of that size; see `Context.require_room`."""


class Deferred:
    """A handler's answer that takes long: `work` runs off the event loop, then `finish` on it.

    `work()` must not touch the stores beyond what it was given. `finish(ctx, result)` returns the value, or another
    `Deferred`. Inside a transaction both run at once.
    """

    __slots__ = ("finish", "work")

    def __init__(self, work: Callable[[], Any], finish: Callable[[Context, Any], Any]) -> None:
        self.work = work
        self.finish = finish


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
