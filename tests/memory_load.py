"""Loads many objects of one kind into an engine and says by how much memory grew: as counted, and as the system tells.

Run as `python -m tests.memory_load KIND COUNT`, as only a fresh process can tell; prints two numbers of bytes.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from random import Random

from amemdb.config import Config
from amemdb.engine.answers import Parts, Pending
from amemdb.engine.engine import Engine
from amemdb.engine.state import ServerState
from amemdb.server.node import resident_bytes
from amemdb.stores.stores import Stores
from tests.rig import START_MS, request

TEXT = b"What was said is a line of text of about the usual length, as people and models write it: number %d, so far."
SESSIONS = 1000
DIM = 64


class Nowhere:
    """A log that keeps nothing."""

    gates_reads = False
    offset = 0
    room = 1 << 40

    def append(self, frames: bytes, count: int = 1) -> None:
        self.offset += len(frames)

    def refuse_write(self, count_bytes: int) -> str | None:
        return None

    def refuse_read(self) -> str | None:
        return None


class Load:
    """An engine that is sent to."""

    def __init__(self) -> None:
        self.stores = Stores()
        self.state = ServerState(Config(), time.monotonic_ns, Random(1))
        self.engine = Engine(self.stores, Nowhere(), self.state, time.perf_counter_ns)
        self.session = self.state.open_session()
        self.now_ms = START_MS

    def send(self, *argv: bytes) -> None:
        self.now_ms += 1
        # Every argument is an object of its own, as those of requests are.
        if self.engine.hot is not None and self.engine.hot.request(self.session, request(argv), self.now_ms):
            return
        answer = self.engine.execute(self.session, [bytes(bytearray(token)) for token in argv], self.now_ms)
        assert not isinstance(answer, (Pending, Parts))
        assert not answer.startswith(b"-"), answer

    @property
    def counted_bytes(self) -> int:
        return sum(self.stores.tables_bytes().values()) + self.stores.ledger.held


def turns(load: Load, number: int) -> None:
    if number < SESSIONS:
        load.send(b"AMEM.CONV.CREATE", b"session:%d" % number, b"WINDOW", b"1000000")
    load.send(b"AMEM.CONV.APPEND", b"session:%d" % (number % SESSIONS), b"user", TEXT % number)


def sessions(load: Load, number: int) -> None:
    load.send(b"AMEM.CONV.CREATE", b"session:%d" % number)
    load.send(b"AMEM.CONV.APPEND", b"session:%d" % number, b"user", TEXT % number)


def notes(load: Load, number: int) -> None:
    if number < SESSIONS:
        load.send(b"AMEM.CONV.CREATE", b"session:%d" % number)
    load.send(b"AMEM.WORK.SET", b"session:%d" % (number % SESSIONS), b"note:%d" % number, TEXT % number)


def events(load: Load, number: int) -> None:
    load.send(b"AMEM.EPIS.LOG", b"agent:%d" % (number % SESSIONS), b"action", TEXT % number)


def keys(load: Load, number: int) -> None:
    load.send(b"SET", b"key:%d" % number, TEXT % number)


def ending(load: Load, number: int) -> None:
    load.send(b"SET", b"key:%d" % number, TEXT % number, b"EX", b"%d" % (60 + number % 3600))


def facts(load: Load, number: int) -> None:
    agent = b"agent:%d" % (number % 10)
    if number < 10:
        load.send(b"AMEM.SEM.CREATE", agent, b"%d" % DIM)
    load.send(b"AMEM.SEM.STORE", agent, b"fact:%d" % number, TEXT % number, b"FP32", b"\x00\x00\x80\x3f" * DIM)


def summaries(load: Load, number: int) -> None:
    load.send(b"AMEM.SUMMARY.SET", b"agent:%d" % number, TEXT % number)


def searched(load: Load, number: int) -> None:
    agent = b"agent:%d" % (number % 10)
    load.send(b"AMEM.EPIS.LOG", agent, b"action", TEXT % number)
    if number % 1000 >= 990:
        for _ in load.stores.texts.of_log(agent, load.stores.epis.logs[agent]).absorbing():
            pass


KINDS: dict[str, Callable[[Load, int], None]] = {
    made.__name__: made for made in (turns, sessions, notes, events, keys, ending, facts, summaries, searched)
}


def main(kind: str, count: int) -> None:
    """Print how much was counted, and how much the process grew."""
    for _ in range(3):
        warm = Load()
        for number in range(2000):
            KINDS[kind](warm, number)
        del warm
        gc.collect()
    load = Load()
    before, resident = load.counted_bytes, resident_bytes()
    for number in range(count):
        KINDS[kind](load, number)
    sys.stdout.write(f"{load.counted_bytes - before} {resident_bytes() - resident}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
