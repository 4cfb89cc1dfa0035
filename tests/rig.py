"""A whole engine in one object, without socket, file or clock: what most tests of commands need.

`rig("SET", "k", "v")` sends a request and gives the reply as a client would read it. Time stands still until
`advance_ms`. What was committed lies in `log.frames`; `restart` replays it into fresh stores and demands the same
state. Every frame is checked against the room that was asked for before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any
from zlib import crc32

import hiredis
import msgpack

from amemdb.commands.session import Session
from amemdb.config import Config
from amemdb.engine.answers import Parts, Pending
from amemdb.engine.engine import Engine
from amemdb.engine.state import ServerState
from amemdb.stores.records import object_of
from amemdb.stores.stores import Stores

START_MS = 1_700_000_000_000


class MemoryLog:
    """A commit log that collects frames. Tests set the attributes to have it refuse."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.offset = 0
        self.gates_reads = False
        self.frame_bytes_max = 1 << 40
        """Largest frame that it takes."""
        self.asked = 0
        """Largest frame that the request, or tick, has asked room for."""
        self.unreadable: str | None = None

    def append(self, frame: bytes, count: int = 1) -> None:
        """Take one frame, for which room must have been asked."""
        assert count == 1, "a request has one frame"
        assert len(frame) <= self.asked, f"a frame of {len(frame)} bytes, but room for {self.asked} was asked for"
        self.frames.append(frame)
        self.offset += len(frame)

    @property
    def room(self) -> int:
        """What has been granted."""
        return self.asked

    def refuse_write(self, count_bytes: int) -> str | None:
        """Why a frame of that size cannot be taken."""
        if count_bytes > self.frame_bytes_max:
            return "no space left"
        self.asked = max(self.asked, count_bytes)
        return None

    def refuse_read(self) -> str | None:
        """Why nothing can be read."""
        return self.unreadable


def request(argv: Sequence[bytes]) -> bytes:
    """The bytes of a request."""
    return b"*%d\r\n" % len(argv) + b"".join([b"$%d\r\n%b\r\n" % (len(token), token) for token in argv])


class Rig:
    """Stores, engine, log and one session; `connect` makes further ones."""

    def __init__(self, start_ms: int = START_MS, seed: int = 1, settings: Mapping[str, Any] | None = None) -> None:
        self.now_ms = start_ms
        self.log = MemoryLog()
        self.random = Random(seed)
        self.config = Config(settings)
        self._ticks = itertools.count(step=1000)
        self._boot(Stores())

    def _boot(self, stores: Stores) -> None:
        self.stores = stores
        self.state = ServerState(self.config, self._ticks.__next__, self.random)
        self.engine = Engine(stores, self.log, self.state, self._ticks.__next__)
        self.session = self.state.open_session("127.0.0.1:50001", "127.0.0.1:6379")

    # -- requests --------------------------------------------------------------------------------

    def __call__(self, *words: str | bytes | int, session: Session | None = None) -> Any:
        """The reply to a request of words. An error reply is returned, not raised (`hiredis.ReplyError`)."""
        argv = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        return decode(self.raw(*argv, session=session))

    def send(self, *argv: bytes) -> Any:
        """The reply to a request of bytes."""
        return decode(self.raw(*argv))

    def raw(self, *argv: bytes, session: Session | None = None) -> bytes:
        """The bytes of the reply."""
        self.log.asked = 0
        session = session or self.session
        if self.engine.hot is not None:
            reply: bytes | None = self.engine.hot.request(session, request(argv), self.now_ms)
            if reply is not None:
                return reply
        answer = self.engine.execute(session, list(argv), self.now_ms)
        while isinstance(answer, Pending):
            self.log.asked = 0
            answer = self.engine.resume(answer, result_of(answer), self.now_ms)
        return answer.whole() if isinstance(answer, Parts) else answer

    def connect(self) -> Session:
        """A further connection's session, to be given as `session`."""
        return self.state.open_session("127.0.0.1:50002", "127.0.0.1:6379")

    def frames_of(self, *words: str | bytes | int) -> list[list[list[Any]]]:
        """The records of each frame that a request commits."""
        before = len(self.log.frames)
        self(*words)
        return [records_of(frame) for frame in self.log.frames[before:]]

    # -- time ------------------------------------------------------------------------------------

    def advance_ms(self, ms: int) -> None:
        """Let time pass. Nothing is removed by that alone."""
        self.now_ms += ms

    def tick(self, count_max: int = 1_000_000) -> int:
        """Have the engine remove what is due; how many entries were due."""
        self.log.asked = 0
        return self.engine.expire(self.now_ms, count_max)

    # -- whole state -----------------------------------------------------------------------------

    def replayed(self) -> Stores:
        """Fresh stores with every frame applied."""
        return replay(self.log.frames)

    def digest(self) -> str:
        """The digest of everything held, dead or not."""
        return self.stores.digest(0)

    def restart(self) -> None:
        """Lose everything but the log, load it, and demand the state as it was."""
        stores = self.replayed()
        assert stores.digest(0) == self.stores.digest(0), "the log does not rebuild what is held"
        assert stores.digest(self.now_ms) == self.stores.digest(self.now_ms)
        self._boot(stores)


def result_of(pending: Pending) -> Any:
    """What a pending answer goes on with. What is waited for is there at once, or the test is wrong."""
    if pending.awaited is None:
        return pending.work()
    told: list[Any] = []
    pending.awaited.begin(told.append)
    (result,) = told
    return result


def decode(reply: bytes) -> Any:
    """What a client reads; None for silence."""
    if not reply:
        return None
    reader = hiredis.Reader()
    reader.feed(reply)
    value = reader.gets()
    assert value is not False, f"the reply {reply[:200]!r} is not whole"
    assert reader.gets() is False, f"more than one reply in {reply[:200]!r}"
    return value


def records_of(frame: bytes) -> list[list[Any]]:
    """The records in a frame, each as a list."""
    _, *records = msgpack.unpackb(frame)
    return records


def replay(frames: Sequence[bytes]) -> Stores:
    """Fresh stores with `frames` applied."""
    stores = Stores()
    for frame in frames:
        for record in records_of(frame):
            stores.apply(tuple(record))
    return stores


def digest_by_parts(frames: Sequence[bytes], parts: int, now_ms: int) -> str:
    """The digest that replaying `frames` gives when the objects of one part after the other are replayed alone.

    Every part is a store of its own; an object belongs to one of them, so the parts' digests add up.
    """
    total = 0
    for part in range(parts):
        stores = Stores()
        for frame in frames:
            for record in map(tuple, records_of(frame)):
                identity = object_of(record)
                if identity is None or crc32(msgpack.packb(identity)) % parts == part:
                    stores.apply(record)
        total += int(stores.digest(now_ms), 16)
    return f"{total % (1 << 160):040x}"
