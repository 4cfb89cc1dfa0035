"""Rows of latency at a fixed rate: the tail of writes, and what one client's work does to another's PING.

Requests are due at fixed moments and counted from these, whether or not the server keeps up (see `pacer.c`): a moment
in which the server stands still costs every request that was due in it. Percentiles are those of a round; rounds of
both servers alternate as everywhere.

A row of tails sends the writes themselves at a rate far below what either server can do. A row of stalls sends PING on
a connection of its own, while another program does what may hold the server up. That one runs behind every other
process on its core, so that it cannot delay the one that measures.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.loader import BenchmarkError, Pace, Running
from benchmarks.machine import Others, disk_flushes
from benchmarks.measure import Bench, Case, Fill, Samples, Side, Target, fill, side_of
from benchmarks.servers import OURS, REDIS, Server, running
from benchmarks.templates import templates

PACED_ROUNDS_MAX = 3
PAUSE_SECONDS = 1.2
"""Before each measurement: under `everysec` whatever was written before, to either server, is on the disk by then."""
PING_RATE = 2_000
SHORT_PAUSE_SECONDS = 0.2
"""Where nothing is left to be written: every reply waited for the disk, or nothing is stored at all."""
LEAD_SECONDS = 0.2
"""By which the other work starts before the first PING, and goes on after the last."""


@dataclass(frozen=True)
class TailRow:
    """Latency of one kind of write, each alone, at a moderate rate."""

    key: str
    ours: Side
    redis: Side
    rate: int
    connections: int = 10
    fsync: str = "everysec"
    note: str = ""

    kind = "tail"

    def cases(self) -> list[Case]:
        """Only one, and nothing is asked of it: it stands beside Redis's."""
        return [Case(None, None)]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Both servers up, taking turns."""
        with ExitStack() as stack:
            servers = start_both(self.fsync, bench, stack)
            for server in servers.values():
                fill(server, side_of(self, server.variant.name).fill, bench.loader)
                self._pace(server, bench, 0.3, 0)
            samples: Samples = {OURS: [], REDIS: []}
            for number, order in enumerate(bench.each_round(PACED_ROUNDS_MAX)):
                for name in order:
                    time.sleep(SHORT_PAUSE_SECONDS if self.fsync == "always" else PAUSE_SECONDS)
                    samples[name].append(self._once(servers[name], bench, number + 1))
        return samples

    def _once(self, server: Server, bench: Bench, seed: int) -> dict[str, float]:
        others, flushes = Others(), disk_flushes()
        pace = self._pace(server, bench, bench.paced_seconds, seed)
        return {
            **pace_sample(pace),
            "others": round(others.share(pace.server_cpu_seconds + pace.pacer_cpu_seconds), 3),
            "flushes": disk_flushes() - flushes,
        }

    def _pace(self, server: Server, bench: Bench, seconds: float, seed: int) -> Pace:
        what = templates(side_of(self, server.variant.name).request)
        operations = int(self.rate * seconds)
        return bench.pacer.run(server.port, server.pid, what, self.connections, self.rate, operations, seed)


@dataclass(frozen=True)
class Flood:
    """Other work: as many requests as the server takes."""

    connections: int
    pipeline: int
    answer_bytes: int = 0
    """The least that a reply has."""
    stores: bool = False


@dataclass(frozen=True)
class Steps:
    """Other work: a request now and then. What `fill` has is made for each of them, before every measurement."""

    seconds_between: float

    stores = True

    def count(self, seconds: float) -> int:
        """How many there are in a measurement of that length."""
        return max(1, int(seconds / self.seconds_between))


@dataclass(frozen=True)
class StallRow:
    """Latency of PING while another connection has the server do what the sides say."""

    key: str
    ours: Side
    redis: Side
    work: Flood | Steps | None
    target: Target
    """In milliseconds, of our p99.9."""
    note: str = ""

    kind = "stalls"

    def cases(self) -> list[Case]:
        """Only one."""
        return [Case(None, self.target)]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Both servers up, taking turns."""
        with ExitStack() as stack:
            servers = start_both("everysec", bench, stack)
            if not isinstance(self.work, Steps):
                for name, server in servers.items():
                    fill(server, side_of(self, name).fill, bench.loader)
                time.sleep(PAUSE_SECONDS)
            samples: Samples = {OURS: [], REDIS: []}
            for number, order in enumerate(bench.each_round(PACED_ROUNDS_MAX)):
                for name in order:
                    samples[name].append(self._once(servers[name], bench, number + 1))
        return samples

    def _once(self, server: Server, bench: Bench, seed: int) -> dict[str, float]:
        if isinstance(self.work, Steps):
            steps = self.work.count(bench.paced_seconds)
            parts = side_of(self, server.variant.name).fill
            fill(server, [Fill(part.count * steps, part.line) for part in parts], bench.loader)
        time.sleep(PAUSE_SECONDS if self.work is not None and self.work.stores else SHORT_PAUSE_SECONDS)
        others = Others()
        work = self._start_work(server, bench, seed)
        try:
            if work is not None:
                time.sleep(LEAD_SECONDS)
            pings = int(PING_RATE * bench.paced_seconds)
            pace = bench.pacer.run(server.port, server.pid, templates("PING"), 1, PING_RATE, pings, seed)
            done = work.finish() if work is not None else {}
        finally:
            if work is not None:
                work.stop()
        own_seconds = done.get("server_cpu_seconds", pace.server_cpu_seconds) + pace.pacer_cpu_seconds
        own_seconds += done.get("loader_cpu_seconds", 0.0) + done.get("pacer_cpu_seconds", 0.0)
        return {
            **pace_sample(pace),
            **self._work_sample(done),
            "others": round(others.share(own_seconds), 3),
        }

    def _start_work(self, server: Server, bench: Bench, seed: int) -> Running | None:
        if self.work is None:
            return None
        what = templates(side_of(self, server.variant.name).request)
        if isinstance(self.work, Steps):
            count = self.work.count(bench.paced_seconds)
            return bench.pacer.start(server.port, server.pid, what, 1, 1 / self.work.seconds_between, count)
        seconds = bench.paced_seconds + 2 * LEAD_SECONDS
        return bench.loader.flood(
            server.port, server.pid, what, self.work.connections, self.work.pipeline, seconds, seed
        )

    def _work_sample(self, done: dict[str, float]) -> dict[str, float]:
        if not done:
            return {}
        if isinstance(self.work, Flood) and done["reply_bytes"] < done["operations"] * self.work.answer_bytes:
            raise BenchmarkError(f"{self.key}: replies are too short; the row measures something else")
        return {
            "work_operations": done["operations"],
            "work_rate": round(done["operations"] / done["seconds"], 1),
            "work_p50_us": done["p50_us"],
        }


def start_both(fsync: str, bench: Bench, stack: ExitStack) -> dict[str, Server]:
    """Both servers, running until `stack` is closed."""
    return {name: stack.enter_context(running(bench.variant(name), fsync, bench.server_core)) for name in (OURS, REDIS)}


def pace_sample(pace: Pace) -> dict[str, float]:
    """The figures of one pace that the report shows."""
    return {
        "operations": pace.operations,
        "rate": round(pace.operations / pace.seconds),
        "p50_us": pace.p50_us,
        "p99_us": pace.p99_us,
        "p999_us": pace.p999_us,
        "max_us": pace.max_us,
        "late_p999_us": pace.late_p999_us,
        "late_max_us": pace.late_max_us,
    }
