"""An engine with connections in front of it, without sockets, and a reader of replies that tells RESP types apart."""

from __future__ import annotations

from random import Random
from typing import Any

from amemdb.commands.session import Session
from amemdb.config import Config
from amemdb.engine.answers import Parts, Pending
from amemdb.engine.engine import Engine
from amemdb.engine.state import ServerState
from amemdb.stores.stores import Stores

NOW_MS = 1_700_000_000_123
START_NS = 5_000_000_000


class Status(str):
    """A simple string."""


class Error(str):
    """An error line, without the `-`."""


class Text(str):
    """A verbatim string."""


class Unordered(list[Any]):
    """A set of RESP3."""


class OpenLog:
    """A log that takes everything and keeps only its size."""

    gates_reads = False

    def __init__(self) -> None:
        self.offset = 0
        self.refusal: str | None = None

    def append(self, frame: bytes) -> None:
        self.offset += len(frame)

    def refuse_write(self, count_bytes: int) -> str | None:
        return self.refusal

    def refuse_read(self) -> str | None:
        return None


class Wire:
    """One server without sockets. `mono_ns` is its monotonic clock, `now_ms` its wall clock."""

    def __init__(self, **settings: Any) -> None:
        self.mono_ns = START_NS
        self.now_ms = NOW_MS
        self.work_ns = 1000
        """What a command takes."""
        self.config = Config({name.replace("_", "-"): value for name, value in settings.items()})
        self.state = ServerState(self.config, lambda: self.mono_ns, Random(1), "ab" * 20)
        self.stores = Stores()
        self.log = OpenLog()
        self._timer_ns = 0
        self.engine = Engine(self.stores, self.log, self.state, self._timer)
        self.killed: list[Session] = []
        self.state.on_kill = self.killed.append

    def _timer(self) -> int:
        self._timer_ns += self.work_ns
        return self._timer_ns

    def connect(self, address: str = "127.0.0.1:50001", resp3: bool = False) -> Peer:
        peer = Peer(self, self.state.open_session(address, "127.0.0.1:6379"))
        peer.session.resp3 = resp3
        return peer


class Peer:
    """One connection."""

    def __init__(self, wire: Wire, session: Session) -> None:
        self.wire = wire
        self.session = session

    def raw(self, *words: bytes | str | int) -> bytes:
        """The bytes that answer one request."""
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        reply = self.wire.engine.execute(self.session, argv, self.wire.now_ms)
        assert not isinstance(reply, Pending)
        return reply.whole() if isinstance(reply, Parts) else reply

    def __call__(self, *words: bytes | str | int) -> Any:
        """The answer to one request, read."""
        value, rest = read(self.raw(*words))
        assert rest == b""
        return value


def read(data: bytes) -> tuple[Any, bytes]:
    """The first reply in `data`, and what follows it."""
    head, _, rest = data.partition(b"\r\n")
    kind, text = head[:1], head[1:]
    if kind == b"+":
        return Status(text.decode()), rest
    if kind == b"-":
        return Error(text.decode()), rest
    if kind == b":":
        return int(text), rest
    if kind == b"_" or text == b"-1":
        return None, rest
    if kind in b"$=":
        size = int(text)
        assert rest[size : size + 2] == b"\r\n"
        body = rest[:size]
        return Text(body[4:].decode()) if kind == b"=" else body, rest[size + 2 :]
    assert kind in b"*~%", head
    items = []
    for _ in range(int(text) * (2 if kind == b"%" else 1)):
        item, rest = read(rest)
        items.append(item)
    if kind == b"%":
        return dict(zip(items[::2], items[1::2], strict=True)), rest
    return Unordered(items) if kind == b"~" else items, rest
