"""Rows of restart: from the start of the process to the first answer that is not "loading", on data that was there.

Each server is filled once, may be told to compact, and is stopped in order. Then, in every round, each is started on
what it has left, timed, and stopped in order again. All its files are read before, so that both find them in the
system's page cache: what is measured is the work of loading, not the disk.

Where there are facts with vectors, Redis has them as it has them when nothing is set, 8 bits a number. Their commands
are written behind its log by the benchmark, as Redis would have; and its base is made of what is kept (`kept`). In the
row of the log ours is stopped before it has made graphs, so when it serves again searches look at all facts until they
are there; in that of the base it had them. How long it takes until they are there is measured once in each.
"""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from benchmarks.compaction import MIB, SCALE_OBJECTS, compact, scaled
from benchmarks.facts import count_of, fill_with_facts, on_the_wire, until_graphs, vadd
from benchmarks.kept import BASE, redis_facts
from benchmarks.loader import BenchmarkError
from benchmarks.machine import Others
from benchmarks.made_up import VectorSet
from benchmarks.measure import Bench, Case, Samples, Side, Target, fill, side_of
from benchmarks.servers import OURS, REDIS, Server, data_folder, serving

RESTART_ROUNDS_MAX = 3
COUNTS = ("conversation_turns", "working_notes", "episodic_events")
"""What INFO counts of ours, beside the keys."""


@dataclass(frozen=True)
class RestartRow:
    """Time to serve again."""

    key: str
    ours: Side
    redis: Side
    """Counts of both fills are for `compaction.SCALE_OBJECTS` objects."""
    target: Target | None
    """Redis's time divided by ours."""
    compacted: bool = False
    """Whether both have compacted before."""
    preamble: bool = False
    """Whether Redis's compacted file is a snapshot (`aof-use-rdb-preamble`) rather than commands."""
    facts: VectorSet | None = None
    """Facts that are there besides, for as many objects."""
    rounds_max: int = RESTART_ROUNDS_MAX
    note: str = ""

    kind = "restart"

    def cases(self) -> list[Case]:
        """Only one."""
        return [Case(None, self.target)]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Make the data of both, then let them take turns."""
        with ExitStack() as stack:
            folders: dict[str, Path] = {}
            contents: dict[str, dict[str, Any]] = {}
            for name in (OURS, REDIS):
                folders[name], contents[name] = self._prepared(name, stack, bench)
            samples: Samples = {OURS: [], REDIS: []}
            for order in bench.each_round(self.rounds_max):
                for name in order:
                    is_last = len(samples[name]) + 1 == min(bench.rounds, self.rounds_max)
                    samples[name].append(self._once(name, folders[name], contents[name], bench, is_last))
        return samples

    def _prepared(self, name: str, stack: ExitStack, bench: Bench) -> tuple[Path, dict[str, Any]]:
        """A folder with the data, and what there is."""
        facts = self._facts(bench)
        if facts is not None:
            return (
                self._prepared_of_redis(facts, stack, bench) if name == REDIS else self._prepared_of_ours(facts, bench)
            )
        folder = stack.enter_context(data_folder(name))
        with self._serving(name, folder, bench) as server:
            self._fill(server, bench)
            if self.compacted:
                if name == REDIS:
                    set_preamble(server, self.preamble)
                compact(server)
            return folder, contents_of(server)

    def _prepared_of_ours(self, facts: VectorSet, bench: Bench) -> tuple[Path, dict[str, Any]]:
        """The same with facts. What was written serves the row of the log, and then that of the base."""

        def write(shared: ExitStack) -> Path:
            folder = shared.enter_context(data_folder(OURS))
            with self._serving(OURS, folder, bench) as server:
                self._fill(server, bench)
                fill_with_facts(server, facts)
            return folder

        folder = bench.shared.get(("written", facts, self.ours.fill), write)
        with self._serving(OURS, folder, bench) as server:
            if self.compacted:
                until_graphs(server.port)
                compact(server)
            return folder, contents_of(server)

    def _prepared_of_redis(self, facts: VectorSet, stack: ExitStack, bench: Bench) -> tuple[Path, dict[str, Any]]:
        """The same with what is kept of vectors."""
        folder = stack.enter_context(data_folder(REDIS))
        if self.compacted:
            shutil.copytree(redis_facts(facts, True, bench) / BASE, folder / "data")
        with self._serving(REDIS, folder, bench) as server:
            self._fill(server, bench)
            if self.compacted:
                set_preamble(server, self.preamble)
                compact(server)
            contents = contents_of(server)
        if not self.compacted:
            append_facts(folder / "data", facts)
            contents["keys"] += 1
        return folder, contents

    def _facts(self, bench: Bench) -> VectorSet | None:
        return self.facts and self.facts.scaled(bench.objects / SCALE_OBJECTS)

    def _serving(self, name: str, folder: Path, bench: Bench) -> AbstractContextManager[Server]:
        return serving(bench.variant(name), "everysec", bench.server_core, folder, keep=True)

    def _fill(self, server: Server, bench: Bench) -> None:
        fill(server, scaled(side_of(self, server.variant.name).fill, bench.objects), bench.loader)

    def _once(self, name: str, folder: Path, contents: dict[str, Any], bench: Bench, is_last: bool) -> dict[str, float]:
        read_bytes = sum(len(path.read_bytes()) for path in (folder / "data").rglob("*") if path.is_file())
        others = Others()
        with self._serving(name, folder, bench) as server:
            cpu_seconds, resident_bytes = server.cpu_seconds, server.resident_bytes
            others_share = others.share(cpu_seconds)
            found = contents_of(server)
            if found != contents:
                raise BenchmarkError(f"{name} had {contents} before its restart, and {found} after")
            graphs: dict[str, float] = {}
            facts = self._facts(bench)
            if facts is not None:
                if count_of(server) != facts.count:
                    raise BenchmarkError(f"{name} had {facts.count} facts before its restart, and not after")
                if name == OURS and is_last:
                    graphs = {"graphs_seconds": round(until_graphs(server.port), 1)}
            return {
                "seconds": round(server.start_seconds, 3),
                "cpu_seconds": round(cpu_seconds, 2),
                "resident_mib": round(resident_bytes / MIB, 1),
                "read_mib": round(read_bytes / MIB, 1),
                "others": round(others_share, 3),
                **graphs,
            }


def append_facts(data: Path, facts: VectorSet) -> None:
    """Write behind a log of Redis what it would have written of these facts: the commands as they came."""
    (log,) = data.glob("appendonlydir/*.incr.aof")
    with log.open("ab") as file:
        for place, vector in enumerate(facts.vectors):
            file.write(on_the_wire(vadd(place, vector, ())))


def set_preamble(server: Server, wanted: bool) -> None:
    """Whether Redis begins a compacted file with a snapshot."""
    with redis.Redis(port=server.port) as client:
        client.config_set("aof-use-rdb-preamble", "yes" if wanted else "no")


def contents_of(server: Server) -> dict[str, Any]:
    """How much of what the server has."""
    with redis.Redis(port=server.port) as client:
        told = client.info("everything")
        return {"keys": client.dbsize(), **{name: told[name] for name in COUNTS if name in told}}
