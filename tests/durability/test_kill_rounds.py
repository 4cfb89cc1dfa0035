"""Rounds of kill -9 on one folder: after each restart the state is, to the digest, what the writers know it to be.

One set of clients writes to all families through all rounds, in transactions, pipelines and single requests, with times
of expiry of which the next step of the clock passes some. Policy and size of segments change from round to round. In a
third of the rounds the log is compacted meanwhile, and the kill comes before, in the middle of or after that. What was
acknowledged is there, what was under way is there as a whole or not at all, and nothing else is.

`KILL_ROUNDS=300 pytest tests/durability/test_kill_rounds.py` takes more of them, `KILL_SEED` others.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from amemdb.persistence import opening
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.recovery import recover
from amemdb.stores.stores import Stores
from tests.durability.faults import Faults
from tests.durability.wire import Wire, info, plain
from tests.durability.writers import Writer, differences, match
from tests.process import ServerProcess
from tests.rig import START_MS

ROUNDS = int(os.environ.get("KILL_ROUNDS", "20"))
SEED = int(os.environ.get("KILL_SEED", "1"))
WRITERS = 4
POLICIES = ("always", "everysec", "no")
SEGMENTS = ("4kb", "64kb", "64mb")
ENDS_IN_ORDER = 0.1
"""How many of the ends are a SIGTERM under load."""


class Rounds:
    """One folder, one server after the other, and the same writers all the time."""

    def __init__(self, folder: Path, faults: Faults, seed: int) -> None:
        self.folder = folder
        self.faults = faults
        self.random = Random(seed)
        self.now_ms = START_MS
        self.writers = [Writer(number, seed * WRITERS + number, START_MS) for number in range(WRITERS)]
        self.compactions: dict[str, int] = {}
        """How often a round ended with a compaction `begun` (the reply had just come), `going on`, or `done`."""
        self.can_compact = False
        faults.now_ms = START_MS

    def server(self, number: int) -> ServerProcess:
        """The server of that round."""
        policy, segment = POLICIES[number % 3], self.random.choice(SEGMENTS)
        options = ["--appendfsync", policy, "--log-segment-bytes", segment, "--log-reserve-bytes", "64kb"]
        options += ["--enable-debug-command", "yes"]
        return ServerProcess(self.folder, *options, environment=self.faults.environment)

    def run(self, count: int, until: float) -> int:
        """So many rounds, or more until that moment; how many it were."""
        number = 0
        try:
            while number < count or time.monotonic() < until:
                with self.server(number) as server:
                    try:
                        self.round(server, number)
                    except BaseException as error:
                        error.add_note(f"round {number}, {server._options}, KILL_SEED={SEED}\n{server.output[-2000:]}")
                        raise
                number += 1
            with self.server(number) as server:
                self.begin(server)
        finally:
            for writer in self.writers:
                writer.leave()
        return number

    def round(self, server: ServerProcess, number: int) -> None:
        """See what is there, write, let time pass, write on, and end."""
        self.begin(server)
        compacts = self.can_compact and number % 3 == self.random.choice([0, 1, 2])
        with closing(Wire(server.port)) as wire:
            self.write(server, self.random.randint(0, 150))
            for writer in self.writers:
                writer.pause()
            self.check(wire, connected=True)
            if self.random.random() < 0.15:
                for writer in self.writers:
                    writer.ask([b"FLUSHALL"])
                self.check(wire, connected=True)
            self.pass_time()
            if compacts:
                self.write(server, self.random.randint(0, 50))
                self.compact(server, wire)
            else:
                self.write(server, self.random.randint(0, 300))
        if self.random.random() < ENDS_IN_ORDER:
            assert server.stop() == 0
        else:
            server.kill()
        for writer in self.writers:
            writer.join()
            writer.leave()
        if self.random.random() < 0.5:
            self.pass_time()

    def begin(self, server: ServerProcess) -> None:
        """The server has just started: it holds what it must."""
        with closing(Wire(server.port)) as wire:
            self.check(wire, connected=False)
            self.can_compact = wire.ask([b"COMMAND", b"INFO", b"BGREWRITEAOF"]) != [[None]]
        for writer in self.writers:
            writer.connect(server.port)

    def pass_time(self) -> None:
        """Step the clock; what is due is dead from now on, whether it was removed or not."""
        self.now_ms += self.random.choice([1, 400, 2000, 7000, 20_000])
        self.faults.now_ms = self.now_ms

    def write(self, server: ServerProcess, count: int) -> None:
        """Have all write until each has had so many answers more; they do not stop then."""
        goals = []
        for writer in self.writers:
            goals.append(writer.answered + count)
            if not writer.is_writing:
                writer.start(self.now_ms)
        pairs = list(zip(self.writers, goals, strict=True))
        server.wait_until(lambda: all(w.answered >= goal or w.failure is not None for w, goal in pairs), "answers")

    def compact(self, server: ServerProcess, wire: Wire) -> None:
        """Begin a compaction, and wait for some of it."""
        [reply] = wire.ask([b"BGREWRITEAOF"])
        assert isinstance(reply, bytes), reply
        end = self.random.choice(["begun", "going on", "done", "done"])
        if end == "going on":
            server.wait_until(lambda: not _is_compacting(wire) or self.random.random() < 0.1, "a compaction")
        elif end == "done":
            server.wait_until(lambda: not _is_compacting(wire), "a compaction to end")
            assert info(wire, "persistence")["aof_last_bgrewrite_status"] == "ok"
            self.write(server, self.random.randint(0, 50))
        self.compactions[end] = self.compactions.get(end, 0) + 1

    def check(self, wire: Wire, *, connected: bool) -> None:
        """The server's digest is that of one state of each writer, and what it answers is what they answer."""
        choices = [writer.settle(self.now_ms) for writer in self.writers]
        [digest] = wire.ask([b"DEBUG", b"DIGEST"])
        states = match(choices, digest.decode())
        if states is None:
            told = "\n".join(differences(self.on_disk(), self.writers, self.now_ms))
            raise AssertionError(f"what is held is not what was acknowledged:\n{told}")
        for writer, state in zip(self.writers, states, strict=True):
            writer.rig.now_ms = self.now_ms
            writer.go_on_from(state, connected=connected)
            writer.check_numbers()
            self.compare(wire, writer)

    def compare(self, wire: Wire, writer: Writer) -> None:
        """All that can be read is as it is in the rig."""
        questions = [[b"SELECT", b"%d" % writer.number], *writer.questions()]
        for argv, reply in zip(questions, wire.ask(*questions), strict=True):
            assert reply == plain(writer.rig.send(*argv)), argv

    def on_disk(self) -> Stores:
        """What the folder holds, read here."""
        disk, stores = FolderDisk(str(self.folder)), Stores()
        try:
            manifest = opening.read(disk)
            assert manifest is not None
            recover(disk, manifest, stores.apply)
        finally:
            disk.close()
        return stores


def _is_compacting(wire: Wire) -> bool:
    return info(wire, "persistence")["aof_rewrite_in_progress"] == "1"


@pytest.mark.soak
def test_each_restart_has_exactly_what_the_writers_know(tmp_path: Path, faults: Faults, soak_seconds: int) -> None:
    rounds = Rounds(tmp_path / "data", faults, SEED)
    count = rounds.run(ROUNDS, time.monotonic() + soak_seconds)
    if rounds.can_compact and count >= 20:
        assert sum(rounds.compactions.values()) >= count // 6, rounds.compactions
        assert rounds.compactions.get("done"), rounds.compactions
