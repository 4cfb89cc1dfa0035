"""One server without network, disk or clock, for the differential fuzzer: real connections on transports in the hand.

`World.do` takes one step of `traffic` and gives an `Outcome`: everything that could be told apart from outside. Nothing
in here looks at which implementation runs; the environment of the process has decided that.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, NamedTuple, NoReturn, cast

import msgpack

from amemdb.clock import Clock
from amemdb.config import Config
from amemdb.engine.engine import Engine
from amemdb.engine.state import ServerState
from amemdb.server.connection import Connection, Host
from amemdb.server.listener import Listener
from amemdb.server.node import Turn
from amemdb.stores.stores import Stores
from tests.rig import replay
from tests.server.fakes import BugShown, FakeLoop, FakeTransport

START_MS = 1_700_000_000_000
BASES_NS = (1_000_000_000, 1 << 61)
"""Where monotonic time stands. Native code looks at the real clock to end a slice: behind the first, never behind the
second, so that slices are as short or as long as they can be."""
Step = tuple[Any, ...]


class Outcome(NamedTuple):
    """What one step did."""

    sent: list[tuple[int, bytes]]
    """By connection, the bytes that its peer got."""
    frames: bytes
    """What went to the log."""
    ends: list[tuple[int, str]]
    """Connections that are over, and how."""
    state: Any = None
    """Digests and counters, where the step asks for them."""


class FuzzLog:
    """A log in memory that can refuse, gate reads and hold replies back."""

    def __init__(self) -> None:
        self.gates_reads = False
        self.eager = True
        self.refusal: str | None = None
        self.unreadable: str | None = None
        self.unit_bytes_max = 1 << 40
        self.units: list[bytes] = []
        self.offset = 0
        self.released_offset = 0
        self.touched = True
        self.flushed_offset = 0
        self._asked = 0

    def append(self, frames: bytes, count: int = 1) -> None:
        assert count >= 1
        assert len(frames) <= self._asked, f"{len(frames)} bytes, but room for {self._asked} was asked for"
        self.units.append(frames)
        self.offset += len(frames)
        self._asked -= len(frames)

    @property
    def room(self) -> int:
        return 0 if self.refusal is not None else self._asked

    def refuse_write(self, count_bytes: int) -> str | None:
        if self.refusal is None and count_bytes > self.unit_bytes_max:
            return "no space left"
        if self.refusal is None:
            self._asked = max(self._asked, count_bytes)
        return self.refusal

    def change(self, refusal: str | None, unreadable: str | None, unit_bytes_max: int) -> None:
        """Refuse from now on, or no longer. What was granted is taken back."""
        self.refusal, self.unreadable, self.unit_bytes_max = refusal, unreadable, unit_bytes_max
        self._asked = 0

    def refuse_read(self) -> str | None:
        return self.unreadable

    def flush(self) -> None:
        self.flushed_offset = self.offset
        self._asked = 0
        if self.eager:
            self.released_offset = self.offset


class SocketTransport(FakeTransport):
    """One with a socket below it, which the server may send to past the transport; `received` reads its other end."""

    def __init__(self) -> None:
        super().__init__()
        self._socket, self._peer = socket.socketpair()
        for end in (self._socket, self._peer):
            end.setblocking(False)
        self._late = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket if name == "socket" else super().get_extra_info(name, default)

    def write(self, data: Any) -> None:
        super().write(data)
        data, self.writes = b"".join(self.writes), []
        if not self._late:
            data = self._unsendable(data)
        self._late += data
        self._unsent = len(self._late)

    def drain(self, count: int | None = None) -> None:
        self._late = self._unsendable(self._late)
        super().drain(self._unsent - len(self._late))

    def _unsendable(self, data: bytes) -> bytes:
        """What the system does not take of `data`."""
        try:
            return data[self._socket.send(data) :] if data else b""
        except BlockingIOError:
            return data

    def received(self) -> bytes:
        """What has arrived since the last call."""
        parts = []
        while True:
            try:
                parts.append(self._peer.recv(1 << 20))
            except BlockingIOError:
                return b"".join(parts)

    def close_socket(self) -> None:
        self._socket.close()
        self._peer.close()


class World:
    """A server, from `Traffic`'s first step to its last."""

    def __init__(self, base_ns: int, settings: dict[str, Any]) -> None:
        self._ns = base_ns
        self._base_ns = base_ns
        self._settings = settings
        self._frames: list[bytes] = []
        self.served: dict[str, int] = {}
        """Calls by command that native code served."""
        self._boot(Stores())

    def _boot(self, stores: Stores) -> None:
        self._clock = Clock(lambda: START_MS * 1_000_000 + self._ns - self._base_ns, lambda: self._ns)
        self._loop = FakeLoop()
        self._log = FuzzLog()
        self._stores = stores
        self._state = ServerState(Config(self._settings), lambda: self._ns, Random(1))
        add_calls = self._state.add_calls

        def note_calls(name: str, calls: int, spent_ns: int) -> None:
            self.served[name] = self.served.get(name, 0) + calls
            add_calls(name, calls, spent_ns)

        self._state.add_calls = note_calls  # type: ignore[method-assign]
        self._engine = Engine(stores, self._log, self._state, lambda: 0)
        self._turn = Turn(cast(Any, self._loop), self._log)
        self._host = Host(
            loop=cast(Any, self._loop),
            engine=self._engine,
            state=self._state,
            clock=self._clock,
            turn=self._turn,
            threads=cast(ThreadPoolExecutor, None),
            query_bytes_max=1 << 20,
            output_bytes_max=1 << 28,
            stall_ns=1 << 60,
            idle_ns=0,
            bug=self._bug,
            hot=self._engine.hot,
        )
        self._listener = Listener(self._host, 100, 0)
        self._state.on_kill = self._listener.kill
        self._slots: dict[int, tuple[Connection, FakeTransport]] = {}
        self._units_told = 0

    def _bug(self, error: BaseException, argv: list[bytes] | None) -> NoReturn:
        raise BugShown(f"{error!r} while {argv and argv[0]!r} ran") from error

    # -- steps -------------------------------------------------------------------------------------

    def do(self, step: Step) -> Outcome:
        """Take one step, let everything come to rest, and tell what happened."""
        kind, *rest = step
        state = getattr(self, f"_{kind}")(*rest)
        return self._settled(state)

    def _data(self, slot: int, chunk: bytes, on_socket: bool) -> None:
        """Bytes from a peer; one that has been cut off comes again with a new connection."""
        if slot not in self._slots:
            transport = SocketTransport() if on_socket else FakeTransport()
            connection = Connection(self._host, self._listener)
            transport.protocol = connection
            connection.connection_made(transport)
            self._slots[slot] = connection, transport
        transport = self._slots[slot][1]
        if not transport.reading:
            self._loop.settle()
        if transport.reading:
            transport.protocol.data_received(chunk)

    def _pieces(self, slot: int, chunks: list[bytes], on_socket: bool) -> None:
        """Bytes that come in several reads, some of them in one turn of the loop."""
        for index, chunk in enumerate(chunks):
            self._data(slot, chunk, on_socket)
            if index % 2:
                self._loop.settle()

    def _burst(self, reads: list[tuple[int, bytes | list[bytes], bool]]) -> None:
        """Bytes of several peers in one turn of the loop."""
        for slot, data, on_socket in reads:
            self._data(slot, data if isinstance(data, bytes) else b"".join(data), on_socket)

    def _eof(self, slot: int) -> None:
        if slot in self._slots:
            self._slots[slot][1].protocol.eof_received()

    def _lose(self, slot: int) -> None:
        if slot in self._slots:
            self._forget(slot)

    def _time(self, ms: int) -> None:
        self._ns += ms * 1_000_000

    def _tick(self, count_max: int) -> None:
        self._engine.expire(self._clock.now_ms(), count_max)
        self._turn.touch()

    def _sweep(self) -> None:
        self._listener.sweep(self._ns)

    def _policy(self, gates_reads: bool, eager: bool) -> None:
        self._log.gates_reads = gates_reads
        self._log.eager = eager
        self._release()

    def _release(self) -> None:
        self._log.released_offset = self._log.flushed_offset
        self._turn.released()

    def _refuse(self, writes: str | None, reads: str | None, unit_bytes_max: int) -> None:
        self._log.change(writes, reads, unit_bytes_max)

    def _restart(self) -> Any:
        """Lose everything but the log, and load it."""
        for slot in list(self._slots):
            self._forget(slot)
        frames = list(_frames(b"".join(self._frames + self._log.units)))
        stores = replay(frames)
        assert stores.digest(0) == self._stores.digest(0), "the log does not rebuild what is held"
        self._state.settle()
        self._frames += self._log.units
        self._boot(stores)

    def _check(self) -> Any:
        state = self._state
        calls = {name: (count, failed, rejected) for name, (count, _, failed, rejected) in state.calls().items()}
        return {
            "now": self._clock.now_ms(),
            "digest": self._stores.digest(0),
            "live": self._stores.digest(self._clock.now_ms()),
            "calls": sorted(calls.items()),
            "errors": sorted(state.errors.items()),
            "slow": len(state.slow_commands),
            "expired": state.expired,
            # With short slices a reply may leave on the other side of a CONFIG RESETSTAT.
            "bytes": (state.traffic.input_bytes, state.traffic.output_bytes) if self._base_ns == BASES_NS[1] else None,
            "protocol errors": state.protocol_errors,
            "sessions": [
                (session.id, session.authenticated, session.resp3, session.db, session.name, session.reply_mode)
                for session in state.sessions.values()
            ],
        }

    # -- coming to rest ----------------------------------------------------------------------------

    def _settled(self, state: Any) -> Outcome:
        sent: dict[int, bytes] = {}
        self._settle(lambda: self._collect(sent))
        ends = []
        for slot in sorted(self._slots):
            transport = self._slots[slot][1]
            if transport.closing or transport.ended:
                how = "aborted" if transport.aborted else "closed" if transport.closing else "ended"
                ends.append((slot, how))
                self._forget(slot)
        frames = b"".join(self._log.units[self._units_told :])
        self._units_told = len(self._log.units)
        return Outcome(sorted(sent.items()), frames, ends, state)

    def _settle(self, collect: Callable[[], None]) -> None:
        """Turns, work off the loop and peers that read, until nothing moves any more."""
        while True:
            turns = self._loop.settle()
            work, self._loop.work = self._loop.work, []
            for future in work:
                future.finish()
            collect()
            drained = False
            for _, transport in list(self._slots.values()):
                if transport._unsent and not transport.closing:
                    before = transport._unsent
                    transport.drain()
                    drained |= transport._unsent < before
            if not (turns or work or drained):
                return

    def _collect(self, sent: dict[int, bytes]) -> None:
        for slot, (_, transport) in self._slots.items():
            if isinstance(transport, SocketTransport):
                data = transport.received()
            else:
                data = transport.sent
                transport.writes.clear()
            if data:
                sent[slot] = sent.get(slot, b"") + data

    def _forget(self, slot: int) -> None:
        _, transport = self._slots.pop(slot)
        transport.lose()
        if isinstance(transport, SocketTransport):
            transport.close_socket()


def _frames(data: bytes) -> Iterator[bytes]:
    """The frames that lie one behind the other."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(data)
    before = 0
    for _ in unpacker:
        yield data[before : unpacker.tell()]
        before = unpacker.tell()
