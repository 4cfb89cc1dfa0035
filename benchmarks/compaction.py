"""Rows of compaction: what it does to the latency of commands, and the memory that its process takes.

Latency is that of commands at a fixed rate, half of what this very server does at most, once with compactions one after
the other and once without, in turns. So the beginning and the end of a compaction are in what is measured, not only its
middle. Server and load have a core each, as everywhere; what compacts may run on both, as it does where nobody pins
anything: the benchmark gives the process that the server starts its freedom.

Memory is that of a compaction of several times the data that it may hold at a time. Redis compacts in a copy of
itself, made by `fork`, so it stands beside for its time and for the pages that had to be copied.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from benchmarks.loader import CONNECTIONS, BenchmarkError
from benchmarks.machine import Others
from benchmarks.measure import Bench, Case, Fill, Samples, Side, Target, fill, one_by_one, side_of
from benchmarks.paced import PACED_ROUNDS_MAX, PAUSE_SECONDS, pace_sample, start_both
from benchmarks.servers import OURS, REDIS, Server, cpu_seconds, running
from benchmarks.templates import templates

MIB = 2**20
LOOK_SECONDS = 0.02
COMPACTION_SECONDS_MAX = 120.0
LENGTH_FACTOR = 2
"""A round is so much longer than others at a fixed rate: several compactions are to begin and end in it."""
RATE_SHARE = 0.5
SCALE_OBJECTS = 1_000_000
"""Counts in the rows are for so many objects, and go with their number."""
PROCESS_MIB = 60
"""What the process that compacts takes itself, as the setting's description has it."""
MEMORY_ROUNDS_MAX = 1


def scaled(parts: tuple[Fill, ...], objects: int) -> list[Fill]:
    """The data of a row for so many objects in all."""
    return [Fill(max(1, part.count * objects // SCALE_OBJECTS), part.line) for part in parts]


class Watch:
    """Looks at a server's compactions from a thread of its own, and begins them if it is told to.

    It looks just as often where there are none, so that the looking is on both sides of a comparison.
    """

    def __init__(self, server: Server, repeat: bool) -> None:
        """With `repeat` a compaction begins at once and another when one is over."""
        self._server = server
        self._repeat = repeat
        self._client = redis.Redis(port=server.port)
        self._stop = threading.Event()
        self._looks = self._running = 0
        self._cpu: dict[int, float] = {}
        self._failure: BaseException | None = None
        self.completed = 0
        self.most: dict[str, int] = {}
        """The greatest of what INFO said while one was under way, of each figure."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def share(self) -> float:
        """Of the looks so far, those that found a compaction under way."""
        return self._running / max(1, self._looks)

    @property
    def process_cpu_seconds(self) -> float:
        """CPU time of the processes that compacted, up to the last look."""
        return sum(self._cpu.values())

    def finish(self) -> None:
        """Look no more, and wait for the compaction that is under way."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        wait_for_compaction(self._client)

    def _run(self) -> None:
        try:
            begun = 0
            while not self._stop.is_set():
                told = self._client.info("persistence")
                running = bool(told["aof_rewrite_in_progress"])
                if self._repeat and not running:
                    require_success(told)
                    self.completed = begun
                    self._client.bgrewriteaof()
                    begun += 1
                elif running:
                    self._keep(told)
                if running or begun != 1 or self._looks:  # the first look is the one that begins
                    self._looks += 1
                    self._running += running
                self._let_run_anywhere()
                self._stop.wait(LOOK_SECONDS)
        except BaseException as error:  # it belongs to whoever waits for this
            self._failure = error

    def _keep(self, told: dict[str, Any]) -> None:
        for name, value in told.items():
            if isinstance(value, int):
                self.most[name] = max(self.most.get(name, 0), value)

    def _let_run_anywhere(self) -> None:
        cores = os.sched_getaffinity(0)
        for pid in self._server.children:
            with suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), cores)
            self._cpu[pid] = max(self._cpu.get(pid, 0.0), cpu_seconds(pid))


def compact(server: Server) -> tuple[float, Watch]:
    """Have the server compact once; how long it took, and what was seen meanwhile."""
    with redis.Redis(port=server.port) as client:
        watch = Watch(server, repeat=False)
        began = time.monotonic()
        client.bgrewriteaof()
        wait_for_compaction(client)
        seconds = time.monotonic() - began
        watch.finish()
    return seconds, watch


def wait_for_compaction(client: redis.Redis) -> dict[str, Any]:
    """Wait until none is under way, and require that the last one went well; what INFO says then."""
    deadline = time.monotonic() + COMPACTION_SECONDS_MAX
    while True:
        told: dict[str, Any] = client.info("persistence")
        if not told["aof_rewrite_in_progress"] and not told["aof_rewrite_scheduled"]:
            require_success(told)
            return told
        if time.monotonic() > deadline:
            raise BenchmarkError(f"a compaction took more than {COMPACTION_SECONDS_MAX:.0f} s")
        time.sleep(LOOK_SECONDS / 2)


def require_success(told: dict[str, Any]) -> None:
    """Refuse to go on after a compaction that failed."""
    if told["aof_last_bgrewrite_status"] != "ok":
        raise BenchmarkError(f"a compaction failed: {told.get('compaction_error', 'its log says why')}")


@dataclass(frozen=True)
class CompactionRow:
    """Latency of a command at half of the greatest rate, with compactions and without."""

    key: str
    ours: Side
    redis: Side
    """Counts of both fills are for `SCALE_OBJECTS` objects."""
    target: Target
    """Our p99 with compactions, divided by that without."""
    note: str = ""

    kind = "compaction"

    def cases(self) -> list[Case]:
        """Only one."""
        return [Case(None, self.target)]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Both servers up, taking turns; each is measured with and without, in turned order."""
        with ExitStack() as stack:
            servers = start_both("everysec", bench, stack)
            rates = {}
            for name, server in servers.items():
                side = side_of(self, name)
                fill(server, scaled(side.fill, bench.objects), bench.loader)
                load = bench.loader.run_seconds(server.port, server.pid, templates(side.request), 1, bench.seconds, 1)
                rates[name] = RATE_SHARE * load.operations / load.seconds
            samples: Samples = {OURS: [], REDIS: []}
            for number, order in enumerate(bench.each_round(PACED_ROUNDS_MAX)):
                for name in order:
                    parts: dict[bool, dict[str, float]] = {}
                    for compacting in (False, True) if number % 2 else (True, False):
                        parts[compacting] = self._once(servers[name], rates[name], compacting, bench, number + 1)
                    samples[name].append(joined(parts[True], parts[False]))
        return samples

    def _once(self, server: Server, rate: float, compacting: bool, bench: Bench, seed: int) -> dict[str, float]:
        time.sleep(PAUSE_SECONDS)
        what = templates(side_of(self, server.variant.name).request)
        operations = int(rate * bench.paced_seconds * LENGTH_FACTOR)
        others = Others()
        watch = Watch(server, repeat=compacting)
        try:
            pace = bench.pacer.run(server.port, server.pid, what, CONNECTIONS, rate, operations, seed)
            own_seconds = pace.server_cpu_seconds + pace.pacer_cpu_seconds + watch.process_cpu_seconds
            share, completed, others_share = watch.share, watch.completed, others.share(own_seconds)
        finally:
            watch.finish()
        if compacting and not (share or completed):
            raise BenchmarkError(f"{self.key}: no compaction was under way")
        return {
            **pace_sample(pace),
            "late_p99_us": pace.late_p99_us,
            "others": round(others_share, 3),
            "compactions": completed,
            "share": round(share, 3),
            "process_cpu_seconds": round(watch.process_cpu_seconds, 2),
        }


def joined(beside: dict[str, float], alone: dict[str, float]) -> dict[str, float]:
    """One sample of both: the figures without other work go by `alone_`, and what disturbed either counts."""
    return {
        **beside,
        **{f"alone_{name}": value for name, value in alone.items()},
        "others": max(beside["others"], alone["others"]),
    }


@dataclass(frozen=True)
class CompactorRow:
    """The greatest memory of the process that compacts, against what it is allowed."""

    key: str
    ours: Side
    redis: Side
    """Counts of both fills are for `SCALE_OBJECTS` objects."""
    memory_mib: int
    """The setting `compaction-memory`, for as many objects."""
    factor: float
    """By which the data has to be larger than that."""
    largest: str
    """The session that is larger than every other object."""
    target: Target
    note: str = ""

    kind = "compaction"

    def cases(self) -> list[Case]:
        """Only one."""
        return [Case(None, self.target)]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """A fresh server each time."""

        def once(name: str) -> dict[str, float]:
            with running(bench.variant(name), "everysec", bench.server_core) as server:
                return self._once(server, bench)

        return one_by_one(bench, MEMORY_ROUNDS_MAX, once)

    def _once(self, server: Server, bench: Bench) -> dict[str, float]:
        fill(server, scaled(side_of(self, server.variant.name).fill, bench.objects), bench.loader)
        with redis.Redis(port=server.port) as client:
            ours = server.variant.name == OURS
            budget = max(MIB, self.memory_mib * MIB * bench.objects // SCALE_OBJECTS)
            largest = 0
            if ours:
                client.config_set("compaction-memory", budget)
                largest = client.execute_command("MEMORY USAGE", self.largest, "SESSION")
            data_bytes = client.info("memory")["used_memory_dataset"]
            if data_bytes < self.factor * budget:
                raise BenchmarkError(f"{self.key}: {data_bytes:,} bytes of data are too few for {budget:,} at a time")
            time.sleep(PAUSE_SECONDS)
            before = client.info("persistence")
            others, server_cpu = Others(), server.cpu_seconds
            seconds, watch = compact(server)
            own_seconds = server.cpu_seconds - server_cpu + watch.process_cpu_seconds
            others_share = others.share(own_seconds)
            after = client.info("persistence")
        return {
            "peak_mib": round(after["compaction_peak_memory" if ours else "aof_last_cow_size"] / MIB, 1),
            "bound_mib": round((budget + largest) / MIB + PROCESS_MIB, 1),
            "budget_mib": round(budget / MIB, 1),
            "largest_mib": round(largest / MIB, 1),
            "data_mib": round(data_bytes / MIB, 1),
            "log_mib": round(before["aof_current_size"] / MIB, 1),
            "base_mib": round(after["aof_base_size"] / MIB, 1),
            "read_mib": round(watch.most.get("compaction_read_bytes_total", 0) / MIB, 1),
            "seconds": round(seconds, 2),
            "process_cpu_seconds": round(watch.process_cpu_seconds, 2),
            "others": round(others_share, 3),
        }
