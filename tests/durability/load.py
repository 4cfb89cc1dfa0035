"""Clients that number what they write and try again when they are refused, and one that reads all the while.

For tests of a disk that fails: a refused write must leave no trace, an acknowledged one must be there once, and what
was not answered may be there or not. A reader must never see what nobody has been told yet and a crash could take back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tests.durability.wire import Wire, is_error

PAUSE_S = 0.01
JOIN_S_MAX = 20
CONTENT_BYTES = 1500
WINDOW = b"1000000"


class Client(threading.Thread):
    """A thread with a connection of its own, until `stop`, or until the server ends."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.wire = Wire(port)
        self.failure: BaseException | None = None
        self._stopping = False

    def run(self) -> None:
        try:
            while not self._stopping:
                self.once()
        except (ConnectionError, EOFError):
            pass
        except BaseException as error:
            self.failure = error

    def once(self) -> None:
        """One request, or a few that belong together."""
        raise NotImplementedError

    def stop(self) -> None:
        """Finish what it is at, and hang up."""
        self._stopping = True
        if self.ident is not None:
            self.join(JOIN_S_MAX)
            assert not self.is_alive(), "a client waits for an answer for ever"
        self.wire.close()
        if self.failure is not None:
            raise self.failure


class Appender(Client):
    """Appends numbered turns; with each one an event and a counter, all of it or nothing."""

    def __init__(self, port: int, number: int, begun: int = 0) -> None:
        super().__init__(port)
        self.session = b"a%d" % number
        self.sent = self.acknowledged = begun
        self.refused = 0
        self.refusals: set[str] = set()
        self.wire.ask([b"AMEM.CONV.CREATE", self.session, b"WINDOW", WINDOW])

    def once(self) -> None:
        self.sent = self.acknowledged + 1
        content = (b"%d " % self.sent).ljust(CONTENT_BYTES, b".")
        *_, reply = self.wire.ask(
            [b"MULTI"],
            [b"AMEM.CONV.APPEND", self.session, b"user", content],
            [b"AMEM.EPIS.LOG", self.session, b"n", b"%d" % self.sent],
            [b"INCR", self.session],
            [b"EXEC"],
        )
        if is_error(reply):
            self.sent = self.acknowledged
            self.refused += 1
            self.refusals.add(reply[1])
            time.sleep(PAUSE_S)
        else:
            assert reply[2] == self.sent, "a turn that was refused was counted, or one came twice"
            self.acknowledged = self.sent


class Reader(Client):
    """Reads the newest turn of a session."""

    def __init__(self, port: int, appender: Appender) -> None:
        super().__init__(port)
        self.appender = appender
        self.served = self.refused = 0
        self.slowest_s = 0.0
        self.seen = 0
        """The highest number that was read."""

    def once(self) -> None:
        known = self.appender.acknowledged
        started_s = time.monotonic()
        [reply] = self.wire.ask([b"AMEM.CONV.WINDOW", self.appender.session, b"1"])
        self.slowest_s = max(self.slowest_s, time.monotonic() - started_s)
        if is_error(reply):
            assert reply[1].startswith("MISCONF")
            self.refused += 1
        else:
            self.seen = numbers_in(reply)[-1] if reply else 0
            assert self.seen >= known, "what was acknowledged is not shown"
            self.served += 1
        time.sleep(PAUSE_S)


class Load:
    """Some appenders and a reader of the first one, as a context manager."""

    def __init__(self, port: int, begun: list[int]) -> None:
        self.appenders = [Appender(port, number, count) for number, count in enumerate(begun)]
        self.reader = Reader(port, self.appenders[0])
        self._stack = ExitStack()

    def __enter__(self) -> Load:
        for client in (*self.appenders, self.reader):
            self._stack.callback(client.stop)
            client.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:  # what went wrong is known: nobody need wait for answers
            for client in (*self.appenders, self.reader):
                client.wire.cut()
        self._stack.close()

    @property
    def acknowledged(self) -> list[int]:
        """By appender, how much it was told is there."""
        return [appender.acknowledged for appender in self.appenders]

    def check(self) -> None:
        """No client has met anything that it must not."""
        for client in (*self.appenders, self.reader):
            if client.failure is not None:
                raise client.failure

    def all_beyond(self, counts: list[int], by: int = 5) -> Callable[[], bool]:
        """Whether each appender has so many acknowledged turns more than it had; for `wait_until`."""
        pairs = list(zip(self.appenders, counts, strict=True))
        return lambda: self.check() or all(appender.acknowledged >= count + by for appender, count in pairs)


def numbers_in(turns: Any) -> list[int]:
    """The numbers of turns that were read."""
    return [int(content.split()[0]) for turn in turns for content in turn if content not in LABELS]


LABELS = (b"role", b"user", b"content")


def check(port: int, load: Load) -> list[int]:
    """What the server holds: of each appender every number once, and at least what was acknowledged. How many."""
    wire = Wire(port)
    counts = []
    for appender in load.appenders:
        turns, stats, counter = wire.ask(
            [b"AMEM.CONV.GET", appender.session], [b"AMEM.EPIS.STATS", appender.session], [b"GET", appender.session]
        )
        numbers = numbers_in(turns)
        assert numbers == list(range(1, len(numbers) + 1)), "turns are missing, repeated or out of order"
        assert appender.acknowledged <= len(numbers) <= appender.sent
        assert stats[1] == int(counter) == len(numbers)
        counts.append(len(numbers))
    wire.close()
    return counts
