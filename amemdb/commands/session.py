"""What the server knows of one connection: protocol, database, login, transaction, names.

Plain state, changed by connection and transaction commands and read by the engine's gates. Sockets, buffers and
peers' addresses as objects are `amemdb.server`'s; here the address is text for CLIENT LIST. The compiled twin is
`_session.pyx`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amemdb import native

Queued = tuple[Any, list[bytes]]


@dataclass(slots=True, eq=False)
class PlainSession:
    """One connection. Times are monotonic nanoseconds, offsets those of the log."""

    id: int
    address: str = ""
    local_address: str = ""
    created_at_ns: int = 0
    authenticated: bool = True
    user: bytes = b"default"
    resp3: bool = False
    db: int = 0
    name: bytes = b""
    library_name: bytes = b""
    library_version: bytes = b""
    queue: list[Queued] | None = None
    """Commands between MULTI and EXEC, or None outside."""
    queue_broken: bool = False
    """A command could not be queued, so EXEC will refuse."""
    queue_bytes: int = 0
    watched: dict[tuple[int, bytes], tuple[int, bool]] = field(default_factory=dict)
    """Watched keys, each with its version and whether it was alive when it was watched."""
    reply_mode: str = "on"
    """`on`, `off`, `skip_next` or `skip`, of CLIENT REPLY."""
    no_evict: bool = False
    no_touch: bool = False
    reply_offset: int = 0
    """The reply to the last command may leave once the log has released this offset."""
    last_command: str = ""
    last_active_ns: int = 0
    close_after_reply: bool = False
    query_bytes: int = 0
    output_bytes: int = 0
    kill: bool = False
    """Set by CLIENT KILL; the server closes the connection."""

    @property
    def plain(self) -> bool:
        """Whether a request is simply executed and answered: logged in, no transaction, replies wanted."""
        return self.queue is None and self.authenticated and self.reply_mode == "on"

    def leave_transaction(self) -> None:
        """Forget queued commands; watches are given back by `commands.transactions`."""
        self.queue = None
        self.queue_broken = False
        self.queue_bytes = 0


if TYPE_CHECKING or not native.ENABLED:
    Session = PlainSession
else:
    from amemdb.commands._session import Session as Session
