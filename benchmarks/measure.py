"""The kinds of row, and how each is measured: both servers side by side, alternating, in several rounds.

Here are those of throughput and memory; those of latency at a fixed rate are in `paced`, those about the log in
`restart` and `compaction`, and those of searching vectors in `recall`. A row of any kind has a key, a title, `cases()`
(its points, such as two pipeline depths), and `measure()`, which returns the samples of one case, one a round, of each
server. A new kind of measurement is one more class like these; a new row of a kind that exists is one entry in `rows`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from benchmarks.loader import BenchmarkError, Load, Loader, Pacer
from benchmarks.machine import Others
from benchmarks.servers import OURS, REDIS, Server, Variant, running
from benchmarks.templates import templates

SETUP_PIPELINE = 16
MEMORY_ROUNDS_MAX = 1
"""A million objects are many, and memory hardly differs from round to round."""
PER_OWNER = 100
"""Objects of one session or agent in a row of memory."""
SETTLE_SECONDS = 1.3
"""Before memory is read: the log's buffers are written and freed within about a second."""

Samples = dict[str, list[dict[str, float]]]
Made = TypeVar("Made")


@dataclass(frozen=True)
class Target:
    """Ours against Redis: what is asked at least, and what is hoped for."""

    floor: float
    goal: float


@dataclass(frozen=True)
class Fill:
    """Data that is there before the measurement: a request line, sent `count` times."""

    count: int
    line: str


@dataclass(frozen=True)
class Side:
    """What one of the servers is asked in a row."""

    title: str
    request: str
    fill: tuple[Fill, ...] = ()


@dataclass(frozen=True)
class Case:
    """One point of a row."""

    pipeline: int | None
    target: Target | None
    clients: int | None = None
    """Connections, where a row has several numbers of them."""


class Shared:
    """What takes long to make and serves several rows of a run: made when it is first asked for, gone with the run."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._made.clear()
        self._stack.close()

    def get(self, key: Hashable, make: Callable[[ExitStack], Made]) -> Made:
        """What `make` gives the first time; what it leaves on the stack is undone at the end."""
        if key not in self._made:
            self._made[key] = make(self._stack)
        made: Made = self._made[key]
        return made


@dataclass(frozen=True)
class Bench:
    """What a measurement needs of the run it is part of."""

    ours: Variant
    redis: Variant
    loader: Loader
    pacer: Pacer
    server_core: int
    rounds: int
    seconds: float
    paced_seconds: float
    objects: int
    shared: Shared = field(default_factory=Shared)
    say: Callable[[str], None] = lambda said: None
    """What takes long is said."""

    def each_round(self, rounds_max: int = 1_000) -> Iterator[tuple[str, str]]:
        """The order of the servers in each round: turned around every time, so that a drift meets both."""
        for number in range(min(self.rounds, rounds_max)):
            yield (OURS, REDIS) if number % 2 else (REDIS, OURS)

    def variant(self, name: str) -> Variant:
        """The server of that name."""
        return self.ours if name == OURS else self.redis


class Row(Protocol):
    """What a row of any kind has."""

    @property
    def key(self) -> str:
        """What `--only` calls it."""

    @property
    def kind(self) -> str:
        """What its samples are: `load`, `tail`, `stalls`, `memory`, `restart`, `compaction`, `recall`, `recalltail`.

        See `arithmetic`.
        """

    @property
    def ours(self) -> Side:
        """What amemdb is asked."""

    @property
    def redis(self) -> Side:
        """What Redis is asked, or whoever stands on the other side."""

    @property
    def note(self) -> str:
        """What else the table is to say of it."""

    def cases(self) -> list[Case]:
        """Its points."""

    def measure(self, case: Case, bench: Bench) -> Samples:
        """The samples of one point."""


@runtime_checkable
class Begun(Protocol):
    """A row that needs what takes long to make and can be made beside what other rows of its kind need."""

    def begin(self, bench: Bench) -> None:
        """Have it made; called for all rows of the kind, before the first of them is measured."""


@dataclass(frozen=True)
class LoadRow:
    """Operations a second and server CPU of one command, with 50 connections."""

    key: str
    ours: Side
    redis: Side
    targets: dict[int, Target]
    """By pipeline depth."""
    answer_bytes: int = 0
    """The least that a reply has, so that a row cannot measure answers that say nothing."""
    fsync: str = "everysec"
    """Under `always` the disk is what is waited for, and CPU time cannot decide."""
    note: str = ""

    kind = "load"

    def cases(self) -> list[Case]:
        """One for each pipeline depth."""
        return [Case(pipeline, target) for pipeline, target in self.targets.items()]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Fill both servers, warm them up, then let them take turns."""
        assert case.pipeline is not None
        with ExitStack() as stack:
            servers: dict[str, Server] = {}
            for name, side in ((OURS, self.ours), (REDIS, self.redis)):
                servers[name] = stack.enter_context(running(bench.variant(name), self.fsync, bench.server_core))
                fill(servers[name], side.fill, bench.loader)
                self._once(servers[name], case.pipeline, bench, min(0.3, bench.seconds), 0)
            samples: Samples = {OURS: [], REDIS: []}
            for number, order in enumerate(bench.each_round()):
                for name in order:
                    samples[name].append(self._once(servers[name], case.pipeline, bench, bench.seconds, number + 1))
        return samples

    def _once(self, server: Server, pipeline: int, bench: Bench, seconds: float, seed: int) -> dict[str, float]:
        side = side_of(self, server.variant.name)
        others = Others()
        load = bench.loader.run_seconds(server.port, server.pid, templates(side.request), pipeline, seconds, seed)
        self._require_answers(side, load)
        return {
            **load_sample(load),
            "others": round(others.share(load.server_cpu_seconds + load.loader_cpu_seconds), 3),
        }

    def _require_answers(self, side: Side, load: Load) -> None:
        said_nothing = load.nils + load.empty
        if said_nothing or load.reply_bytes < load.operations * self.answer_bytes:
            raise BenchmarkError(f"{side.title}: {said_nothing} empty replies; the row measures something else")


def load_sample(load: Load) -> dict[str, float]:
    """The figures of one load that the report shows."""
    return {
        "rate": round(load.operations / load.seconds),
        "cpu_us": round(load.server_cpu_seconds / load.operations * 1e6, 3),
        "loader_share": round(load.loader_cpu_seconds / load.seconds, 3),
        "p50_us": load.p50_us,
        "p99_us": load.p99_us,
        "p999_us": load.p999_us,
        "reply_bytes": round(load.reply_bytes / load.operations, 1),
    }


def one_by_one(bench: Bench, rounds_max: int, once: Callable[[str], dict[str, float]]) -> Samples:
    """A sample of each server in each round, by `once`, where that needs a fresh server and takes long."""
    samples: Samples = {OURS: [], REDIS: []}
    for order in bench.each_round(rounds_max):
        for name in order:
            samples[name].append(once(name))
    return samples


@dataclass(frozen=True)
class MemoryRow:
    """By how much the process grows for each object, everything that belongs to it included."""

    key: str
    ours: Side
    redis: Side
    target: Target
    owner: str = ""
    """The request that makes an owner of ours, where one has to exist; sent once for `PER_OWNER` objects."""
    note: str = f"{PER_OWNER} of them a session or agent, which is included"

    kind = "memory"

    def cases(self) -> list[Case]:
        """Only one."""
        return [Case(None, self.target)]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Fill a fresh server each time."""
        return one_by_one(bench, MEMORY_ROUNDS_MAX, lambda name: self._once(bench.variant(name), bench))

    def _once(self, variant: Variant, bench: Bench) -> dict[str, float]:
        side = side_of(self, variant.name)
        with running(variant, "everysec", bench.server_core) as server:
            time.sleep(0.2)
            before = server.resident_bytes
            owners = [Fill(bench.objects // PER_OWNER, self.owner)] if self.owner and variant.name == OURS else []
            began = time.monotonic()
            fill(server, [*owners, Fill(bench.objects, side.request)], bench.loader)
            seconds = time.monotonic() - began
            time.sleep(SETTLE_SECONDS)
            after = server.resident_bytes
            return {
                "bytes": round((after - before) / bench.objects, 1),
                "resident_mib": round(after / 2**20, 1),
                "seconds": round(seconds, 2),
            }


def side_of(row: Row, name: str) -> Side:
    """What the server of that name is asked."""
    return row.ours if name == OURS else row.redis


def fill(server: Server, parts: Sequence[Fill], loader: Loader) -> None:
    """Send what is to be there."""
    for part in parts:
        loader.run_operations(server.port, server.pid, templates(part.line), SETUP_PIPELINE, part.count)


def run_rows(
    rows: list[Row], pipelines: list[int] | None, bench: Bench, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure every case of these rows, and say so as it goes."""
    results = []
    begun: set[str] = set()
    for row in rows:
        if isinstance(row, Begun) and row.kind not in begun:
            begun.add(row.kind)
            for other in rows:
                if isinstance(other, Begun) and other.kind == row.kind:
                    other.begin(bench)
        for case in row.cases():
            if pipelines and case.pipeline is not None and case.pipeline not in pipelines:
                continue
            at = f", pipeline {case.pipeline}" if case.pipeline else ""
            at += f", {case.clients} at a time" if case.clients else ""
            say(f"measuring {row.ours.title} against {row.redis.title}{at}")
            results.append(
                {
                    "row": row.key,
                    "kind": row.kind,
                    "ours": row.ours.title,
                    "redis": row.redis.title,
                    "note": row.note,
                    "waits_for_disk": isinstance(row, LoadRow) and row.fsync == "always",
                    "pipeline": case.pipeline,
                    "clients": case.clients,
                    "floor": case.target.floor if case.target else None,
                    "goal": case.target.goal if case.target else None,
                    "samples": row.measure(case, bench),
                }
            )
    return results
