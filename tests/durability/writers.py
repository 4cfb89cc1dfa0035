"""Clients that write all the time, and know at every moment what the server must hold: exactly, whatever happens to it.

A `Writer` has names and a database of its own, so what it does depends on nobody else. It notes each request with its
reply, or that there was none. Beside it stands a `Rig`, an engine in the memory of the test that nothing ever happens
to, at the same time as the server (whose wall clock the test sets): `settle` gives the same requests to it, compares
every reply, and says which states the server may be in, as what was under way when it ended may be there or not.
"""

from __future__ import annotations

import threading
from itertools import product
from random import Random
from typing import Any, NamedTuple

from model import Model
from steps import AGENTS, FIELDS, SESSIONS, Steps

from amemdb.persistence.codec import pack_frame
from amemdb.persistence.parts import sum_digests
from amemdb.stores.stores import Stores
from tests.durability.wire import Argv, Wire, plain
from tests.rig import Rig, replay

JOIN_SECONDS_MAX = 120
LEFT_OUT = frozenset({"sem_recall", "summary_list"})
"""Steps whose answers are about all names there are, or in no certain order."""
SPARE_DATABASE = 8
"""From here on databases that a writer fills and flushes."""
EVENTS_KEPT = b"50"


class State(NamedTuple):
    """What a writer's part of the server may be: after so many frames of its rig."""

    frames: int
    digest: str


class Writer:
    """One client, from the first start of a server through all its ends."""

    def __init__(self, number: int, seed: int, now_ms: int) -> None:
        self.number = number
        self.rig = Rig(start_ms=now_ms)
        self.failure: BaseException | None = None
        self.answered = 0
        """Requests, for the driver to see progress."""
        self._prefix = b"w%d:" % number
        self._random = Random(seed)
        self._model = Model()
        self._steps = Steps(self._model, self._random)
        self._makers = [make for make in self._steps._makers if make.__name__ not in LEFT_OUT]
        self._count = 0
        """Numbered transactions so far; the next one takes the next number."""
        self._done: list[tuple[Argv, Any]] = []
        self._waiting: list[Argv] = []
        self._wire: Wire | None = None
        self._thread: threading.Thread | None = None
        self._stop = False

    # -- the client's side -----------------------------------------------------------------------

    def connect(self, port: int) -> None:
        """A new connection, on the writer's own database."""
        self.leave()
        self._wire = Wire(port)
        self._exchange([[b"SELECT", b"%d" % self.number]])

    def leave(self) -> None:
        """Close the connection, if there is one."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    @property
    def is_writing(self) -> bool:
        """Whether it has been started, and neither paused nor cut off."""
        return self._thread is not None and self._thread.is_alive() and not self._stop

    def start(self, now_ms: int) -> None:
        """Write, in a thread, until `pause` or the end of the server. It is `now_ms` all the while."""
        self._model.now = self.rig.now_ms = now_ms
        self._stop = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Let it finish what it is at."""
        self._stop = True
        self.join()

    def join(self) -> None:
        """Wait for the end of the thread."""
        assert self._thread is not None
        self._thread.join(JOIN_SECONDS_MAX)
        assert not self._thread.is_alive(), f"writer {self.number} hangs"
        if self.failure is not None:
            raise self.failure

    def ask(self, *requests: Argv) -> None:
        """Send these now, outside of the thread, and note them like all others."""
        self._exchange(list(requests))

    def _run(self) -> None:
        try:
            while not self._stop:
                self._exchange(self._draw())
        except (ConnectionError, EOFError):
            pass
        except BaseException as error:
            self.failure = error

    def _exchange(self, requests: list[Argv]) -> None:
        assert self._wire is not None
        assert not self._waiting
        self._waiting = requests[:]
        self._wire.send(requests)
        for argv in requests:
            self._done.append((argv, self._wire.receive()))
            del self._waiting[0]
            self.answered += 1

    # -- what it sends ---------------------------------------------------------------------------

    def _draw(self) -> list[Argv]:
        """One unit of work: a numbered transaction, a request, a transaction or a pipeline of any kind."""
        kind = self._random.random()
        if kind < 0.4:
            return self._numbered()
        if kind < 0.6:
            return [self._any()]
        if kind < 0.63:
            spare = b"%d" % (SPARE_DATABASE + self.number)
            away, back = [b"SELECT", spare], [b"SELECT", b"%d" % self.number]
            return [away, [b"SET", b"x", b"1"], [b"FLUSHDB"], [b"SET", b"y", b"%d" % self._count], back]
        requests = [self._any() for _ in range(self._random.randint(2, 8))]
        return [[b"MULTI"], *requests, [b"EXEC"]] if kind < 0.8 else requests

    def _any(self) -> Argv:
        argv, _ = self._random.choice(self._makers)()
        return self._own(argv)

    def _own(self, argv: Argv) -> Argv:
        """The same about a name of this writer. Plain keys lie in its database anyhow."""
        return [argv[0], self._prefix + argv[1], *argv[2:]] if argv[0].upper().startswith(b"AMEM.") else argv

    def _numbered(self) -> list[Argv]:
        """One number in every family, all of it or nothing."""
        self._count += 1
        name, number = self._prefix + b"log", b"%d" % self._count
        requests = [
            [b"AMEM.CONV.CREATE", name, b"WINDOW", b"40"],
            [b"AMEM.CONV.APPEND", name, b"user", number],
            [b"AMEM.WORK.SET", name, b"last", number],
            [b"AMEM.EPIS.LOG", name, b"n", number],
            [b"AMEM.SUMMARY.SET", name, number],
            [b"AMEM.SEM.CREATE", name, b"2"],
            [b"AMEM.SEM.STORE", name, b"last", number, b"1", number],
            [b"INCR", b"count"],
            [b"SET", b"brief", number, b"PX", b"%d" % self._random.randrange(1, 5000)],
        ]
        if self._count == 1:
            requests.append([b"AMEM.EPIS.RETAIN", name, b"MAXLEN", EVENTS_KEPT])
        return [[b"MULTI"], *requests, [b"EXEC"]]

    # -- what must be there ----------------------------------------------------------------------

    def settle(self, digest_at_ms: int) -> list[State]:
        """Do in the rig what was sent since the last time; the states that the server may be in, seen at that time."""
        rig = self.rig
        for argv, reply in self._done:
            expected = plain(rig.send(*argv))
            assert reply == expected, f"writer {self.number}: {argv!r} answered {reply!r}, and not {expected!r}"
        self._done.clear()
        states = [State(len(rig.log.frames), rig.stores.digest(digest_at_ms))]
        for argv in self._waiting:
            rig.send(*argv)
            states.append(State(len(rig.log.frames), rig.stores.digest(digest_at_ms)))
        self._waiting.clear()
        return list(dict.fromkeys(states))

    def go_on_from(self, state: State, *, connected: bool) -> None:
        """The server has decided: the rig is put into that state, and forgets how it came there."""
        rig = self.rig
        if state.frames < len(rig.log.frames):
            stores = replay(rig.log.frames[: state.frames])
        else:
            stores = rig.stores
        frames = [pack_frame(rig.now_ms, *dump) for dump in map(list, stores.dumps(0))]
        assert replay(frames).digest(0) == stores.digest(0)
        rig.log.frames[:] = frames
        if stores is not rig.stores:
            assert not connected, "a server that goes on has lost nothing"
            rig._boot(stores)
        elif not connected:
            rig.session = rig.connect()
        rig.send(b"SELECT", b"%d" % self.number)
        self._count = int(rig.send(b"AMEM.CONV.INFO", self._prefix + b"log")[5]) if self._count_is_known else 0

    @property
    def _count_is_known(self) -> bool:
        return self._prefix + b"log" in self.rig.stores.conv.sessions

    def questions(self) -> list[Argv]:
        """Requests that between them show all that this writer may have written, in its own database."""
        found: list[Argv] = []
        for session in [*SESSIONS, b"log"]:
            for command in (b"AMEM.CONV.INFO", b"AMEM.WORK.GETALL"):
                found.append([command, self._prefix + session])
            found.append([b"AMEM.CONV.GET", self._prefix + session, b"WITHMETA"])
            found += [[b"AMEM.WORK.TTL", self._prefix + session, key] for key in FIELDS]
        for agent in [*AGENTS, b"log"]:
            name = self._prefix + agent
            found += [[b"AMEM.EPIS.QUERY", name], [b"AMEM.EPIS.STATS", name], [b"AMEM.SEM.LIST", name]]
            found += [[b"AMEM.SUMMARY.GET", name], [b"AMEM.SUMMARY.HISTORY", name]]
            found += [[b"AMEM.SEM.GET", name, key] for key in (*FIELDS, b"last")]
        keys = self.rig.stores.keys.databases[self.number].values
        found += [[b"KEYS", b"*"], *([b"GET", key] for key in keys), *([b"PTTL", key] for key in keys)]
        return found

    def check_numbers(self) -> None:
        """Of the numbered transactions each is there once, all of each, and none is missing."""
        send, name = self.rig.send, self._prefix + b"log"
        if self._count == 0:
            return
        numbers = [int(turn[3]) for turn in send(b"AMEM.CONV.GET", name)]
        assert numbers == list(range(max(1, self._count - 39), self._count + 1))
        events = [int(event[5]) for event in send(b"AMEM.EPIS.QUERY", name)]
        assert events == list(range(max(1, self._count - int(EVENTS_KEPT) + 1), self._count + 1))
        assert send(b"AMEM.SUMMARY.GET", name)[:2] == [b"%d" % self._count, self._count]
        assert int(send(b"GET", b"count")) == self._count


def match(choices: list[list[State]], digest: str) -> list[State] | None:
    """The one state of each writer that together make the server's digest; None if there are none."""
    for states in product(*choices):
        if sum_digests(state.digest for state in states) == digest:
            return list(states)
    return None


def differences(held: Stores, writers: list[Writer], now_ms: int) -> list[str]:
    """What the server holds otherwise than the rigs do, with all that was under way: for a failure's message."""
    expected: dict[Any, list[Any]] = {}
    for writer in writers:
        expected.update(objects(writer.rig.stores, now_ms))
    found = objects(held, now_ms)
    return [
        f"{key!r}: holds {found.get(key)!r}, expected {expected.get(key)!r}"
        for key in sorted({*found, *expected}, key=repr)
        if found.get(key) != expected.get(key)
    ]


def objects(stores: Stores, now_ms: int) -> dict[Any, list[Any]]:
    """Every object's records."""
    found = {}
    for dump in map(list, stores.dumps(now_ms)):
        if dump:
            found[dump[0][0] // 10, dump[0][1], dump[0][2] if dump[0][0] >= 50 else None] = dump
    return found
