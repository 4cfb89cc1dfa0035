"""A connection without a network: a transport, a loop, a log, a clock and an engine that tests hold in their hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, NoReturn, cast

from amemdb.clock import Clock
from amemdb.commands.context import Deferred
from amemdb.commands.session import Session
from amemdb.config import Config
from amemdb.engine.answers import Parts, Pending
from amemdb.engine.engine import Engine
from amemdb.engine.state import ServerState
from amemdb.server.connection import Connection, Host
from amemdb.server.listener import Listener
from amemdb.server.turn import Turn

START_MS = 1_700_000_000_000


class Hand:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000
        self.clock = Clock(lambda: START_MS * 1_000_000 + self.ns, lambda: self.ns)

    def pass_s(self, seconds: float) -> None:
        self.ns += int(seconds * 1_000_000_000)


class FakeFuture:
    """What `run_in_executor` returns: done when the test says so."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._callbacks: list[Callable[[Any], None]] = []
        self.was_cancelled = False

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    def cancelled(self) -> bool:
        return self.was_cancelled

    def result(self) -> Any:
        return self._work()

    def finish(self) -> None:
        for callback in self._callbacks:
            callback(self)


class FakeLoop:
    """Callbacks run when the test takes a turn."""

    def __init__(self) -> None:
        self.ready: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.work: list[FakeFuture] = []

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        self.ready.append((callback, args))

    def run_in_executor(self, threads: Any, work: Callable[[], Any]) -> FakeFuture:
        self.work.append(FakeFuture(work))
        return self.work[-1]

    def turn(self) -> None:
        """Run what is ready now, not what that makes ready."""
        ready, self.ready = self.ready, []
        for callback, args in ready:
            callback(*args)

    def settle(self) -> int:
        """Turns until nothing is ready."""
        count = 0
        while self.ready:
            self.turn()
            count += 1
            assert count < 10_000, "the loop never comes to rest"
        return count


class FakeLog:
    """A log whose releases the test decides, or that releases at once with `eager`."""

    gates_reads = False
    kept_bytes = 0

    def __init__(self, eager: bool = True) -> None:
        self.eager = eager
        self.offset = 0
        self.released_offset = 0
        self.touched = True
        self.flushes: list[int] = []
        self.closed = False
        self.refusal: str | None = None

    def append(self, frames: bytes, count: int = 1) -> None:
        self.offset += len(frames)

    @property
    def room(self) -> int:
        return 0

    def refuse_write(self, count_bytes: int) -> str | None:
        return self.refusal

    def refuse_read(self) -> str | None:
        return None

    def flush(self) -> None:
        self.flushes.append(self.offset)
        if self.eager:
            self.released_offset = self.offset

    def start(self, loop: Any) -> None:
        pass

    def status(self) -> Any:
        return None

    async def close(self) -> None:
        self.flush()
        self.closed = True


class FakeTransport(asyncio.Transport):
    """Keeps what is written. A `stuck` peer takes nothing until `drain`."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: Any = None
        self.writes: list[bytes] = []
        self.stuck = False
        self.reading = True
        self.closing = False
        self.aborted = False
        self.ended = False
        self._unsent = 0
        self._high = self._low = 0
        self._paused = False

    @property
    def sent(self) -> bytes:
        return b"".join(self.writes)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("203.0.113.7", 5555), "sockname": ("127.0.0.1", 6379)}.get(name, default)

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        assert low is not None
        self._high, self._low = high, low

    def get_write_buffer_size(self) -> int:
        return self._unsent

    def write(self, data: Any) -> None:
        assert not self.closing, "written after the end"
        assert not self.ended, "written after the end"
        if not data:
            return
        self.writes.append(bytes(data))
        if self.stuck:
            self._unsent += len(data)
            if self._unsent > self._high and not self._paused:
                self._paused = True
                self.protocol.pause_writing()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def drain(self, count: int | None = None) -> None:
        self._unsent -= self._unsent if count is None else min(count, self._unsent)
        if self._paused and self._unsent <= self._low:
            self._paused = False
            self.protocol.resume_writing()

    def is_closing(self) -> bool:
        return self.closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        assert not self.closing
        assert self.reading, "paused twice, which uvloop refuses"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed twice, which uvloop refuses"
        self.reading = True

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def lose(self) -> None:
        """The socket is gone."""
        self.closing = True
        self.protocol.connection_lost(None)


class BugShown(BaseException):
    """What `Host.bug` raises here instead of ending the process."""


class ScriptedEngine:
    """Answers with what was asked, unless a script for the first word says otherwise."""

    def __init__(self) -> None:
        self.executed: list[list[bytes]] = []
        self.times: list[int] = []
        self.forgotten: list[Session] = []
        self.scripts: dict[bytes, Callable[[Session, list[bytes]], bytes | Pending | Parts]] = {}

    def execute(self, session: Session, argv: list[bytes], now_ms: int) -> bytes | Pending | Parts:
        self.executed.append(argv)
        self.times.append(now_ms)
        script = self.scripts.get(argv[0])
        return script(session, argv) if script is not None else b"+%b\r\n" % b" ".join(argv)

    def resume(self, pending: Pending, result: Any, now_ms: int) -> bytes | Pending | Parts:
        return cast("bytes | Pending | Parts", pending.deferred.finish(cast(Any, None), result))

    def forget(self, session: Session) -> None:
        self.forgotten.append(session)

    def expire(self, now_ms: int, count_max: int) -> int:
        return 0


def pending(
    session: Session, argv: list[bytes], work: Callable[[], Any], finish: Callable[[Any], Any], command: Any = None
) -> Pending:
    """A reply that `finish` makes of what `work` returned."""
    return Pending(session, command, argv, Deferred(work, lambda ctx, result: finish(result)), 0)


class Rig:
    """One server's worth of fakes, and connections to it."""

    def __init__(self, eager: bool = True, clients_max: int = 100, engine: Any = None, **limits: int) -> None:
        self.hand = Hand()
        self.loop = FakeLoop()
        self.log = FakeLog(eager)
        self.engine = engine or ScriptedEngine()
        self.turn = Turn(self.loop, self.log)
        self.state = ServerState(Config(), lambda: self.hand.ns, Random(1))
        self.bugs: list[tuple[BaseException, list[bytes] | None]] = []
        defaults = {
            "query_bytes_max": 1 << 30,
            "output_bytes_max": 1 << 28,
            "stall_ns": 30_000_000_000,
            "idle_ns": 0,
        }
        self.host = Host(
            loop=cast(asyncio.AbstractEventLoop, self.loop),
            engine=cast(Engine, self.engine),
            state=self.state,
            clock=self.hand.clock,
            turn=self.turn,
            threads=cast(ThreadPoolExecutor, None),
            bug=self._bug,
            **(defaults | limits),
        )
        self.listener = Listener(self.host, clients_max, 0)
        self.state.on_kill = self.listener.kill

    def connect(self) -> tuple[Connection, FakeTransport]:
        transport = FakeTransport()
        connection = Connection(self.host, self.listener)
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport

    def release(self, offset: int | None = None) -> None:
        self.log.released_offset = self.log.offset if offset is None else offset
        self.turn.released()

    def writes(self, count_bytes: int = 10) -> None:
        """Have the word `W` write that much to the log before it is answered."""

        def write(session: Session, argv: list[bytes]) -> bytes:
            self.log.append(b"." * count_bytes)
            session.reply_offset = self.log.offset
            return b"+written\r\n"

        self.engine.scripts[b"W"] = write

    def _bug(self, error: BaseException, argv: list[bytes] | None) -> NoReturn:
        self.bugs.append((error, argv))
        raise BugShown from error
