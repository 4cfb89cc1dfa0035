"""Rows of recall: how many searches of vectors a second, and what storing facts does to the time that one takes.

Who is compared has to find `RECALL_MIN` of the true nearest, or it does not count. We are asked as we come, and find
more. Redis is asked at the least width (EF) that finds so many, and as it is fastest: with or without a thread for each
search, its vectors in 8 bits a number or whole.

hnswlib searches in this process, a query a call, at the least width that finds as many as we do: that is what the same
search costs without a server around it. It does so in one thread, as does our server, which searches graphs of this
size on its event loop, however many clients ask. Servers may run on all cores here, since Redis has a thread for each
search.

Our graphs are made once a run and size; several sizes are made at the same time, a core each.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.arithmetic import RECALL_MIN
from benchmarks.compaction import LENGTH_FACTOR, SCALE_OBJECTS, joined
from benchmarks.facts import (
    NAME,
    Words,
    fill_with_facts,
    found_by_redis,
    on_the_wire,
    recall,
    recalled,
    until_graphs,
    vsim,
)
from benchmarks.kept import BASE, library_graph, redis_facts
from benchmarks.loader import BenchmarkError
from benchmarks.machine import Others
from benchmarks.made_up import NEAREST, VectorSet, recall_of
from benchmarks.measure import Bench, Case, Samples, Side, Target, load_sample
from benchmarks.paced import LEAD_SECONDS, PACED_ROUNDS_MAX, PAUSE_SECONDS, pace_sample
from benchmarks.servers import OURS, REDIS, Server, data_folder, on_core, running, serving
from benchmarks.templates import Templates, as_they_are, templates

WIDTHS = (10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512, 1024)
TRY_SECONDS = 0.5
"""For each way to ask Redis, to see which is fastest."""
LIBRARY = "hnswlib"
CONNECTIONS = 4
"""Of searches at a fixed rate."""
RECALL_RATE = STORE_RATE = 500
"""A second, where both go on at a fixed rate: far below what either server can do."""
STORED_NAMES = 10_000
QUANTISATION = "QUANTISATION"
"""In a request, where the one stands that the vector set has."""

Ask = Callable[[int, float, int], dict[str, float]]
"""Asks with so many clients or threads, for so many seconds, beginning with a seed; gives the figures."""


@dataclass(frozen=True)
class Way:
    """A way to ask, which finds enough."""

    ask: Ask
    told: dict[str, float]
    """What is told of it in each sample: `recall`, and of others `width` and what they were set to."""
    server: Server | None = None
    requests: Templates | None = None


# -- ours -----------------------------------------------------------------------------------------------


def begin_ours(made: VectorSet, bench: Bench) -> Server:
    """Our server with these facts, perhaps without graphs yet."""

    def start(stack: ExitStack) -> Server:
        bench.say(f"storing {made.title} facts")
        server = stack.enter_context(running(bench.ours, "everysec", None))
        fill_with_facts(server, made)
        return server

    return bench.shared.get((OURS, made), start)


def ours(made: VectorSet, bench: Bench) -> Way:
    """Our server with these facts and their graphs."""

    def get_ready(stack: ExitStack) -> Way:
        server = begin_ours(made, bench)
        seconds = until_graphs(server.port)
        bench.say(f"waited {seconds:.0f} s more for graphs of {made.title}")
        share = recall_of(made.truth, recalled(server.port, made.queries))
        requests = as_they_are([on_the_wire(recall(query)) for query in made.queries])
        return Way(asking(server, requests, bench), {"recall": round(share, 4)}, server, requests)

    return bench.shared.get((OURS, made, "ready"), get_ready)


# -- others ---------------------------------------------------------------------------------------------


def fastest_redis(made: VectorSet, clients: int, bench: Bench) -> Way:
    """Redis as it answers so many clients fastest."""
    tried: list[tuple[float, Way]] = []
    for quantised in (True, False):
        for way in _ways_of_redis(made, quantised, bench):
            tried.append((way.ask(clients, TRY_SECONDS, 0)["rate"], way))
    if not tried:
        raise BenchmarkError(f"Redis does not find {RECALL_MIN} of the nearest of {made.title}")
    return max(tried, key=lambda one: one[0])[1]


def _ways_of_redis(made: VectorSet, quantised: bool, bench: Bench) -> list[Way]:
    def get_ready(stack: ExitStack) -> list[Way]:
        folder = stack.enter_context(data_folder(REDIS))
        shutil.copytree(redis_facts(made, quantised, bench) / BASE, folder / "data")
        server = stack.enter_context(serving(bench.redis, "everysec", None, folder))
        width, share = least_width(made, lambda width: found_by_redis(server.port, made.queries, width), RECALL_MIN)
        ways = []
        options: Words
        for options in ((), (b"NOTHREAD",)) if share >= RECALL_MIN else ():
            requests = as_they_are([on_the_wire(vsim(query, width, options)) for query in made.queries])
            told = {"recall": round(share, 4), "width": width, "nothread": len(options), "quantised": int(quantised)}
            ways.append(Way(asking(server, requests, bench), told, server, requests))
        return ways

    return bench.shared.get((REDIS, made, quantised), get_ready)


def library(made: VectorSet, as_ours: float, bench: Bench) -> Way:
    """hnswlib in this process, where it finds as much as we do."""

    def get_ready(stack: ExitStack) -> Way:
        index = library_graph(made, bench)

        def found(width: int) -> list[list[int]]:
            index.set_ef(width)
            labels, _ = index.knn_query(made.queries, NEAREST, num_threads=1)
            return [list(map(int, one)) for one in labels]

        width, share = least_width(made, found, max(RECALL_MIN, as_ours))
        if share < RECALL_MIN:
            raise BenchmarkError(f"hnswlib does not find {RECALL_MIN} of the nearest of {made.title}")
        index.set_ef(width)
        return Way(_asking_library(index, made), {"recall": round(share, 4), "width": width})

    return bench.shared.get((LIBRARY, made), get_ready)


def least_width(made: VectorSet, found: Callable[[int], list[list[int]]], enough: float) -> tuple[int, float]:
    """The least width that finds enough, and how much it finds; of the widest if none does."""
    for width in WIDTHS:
        share = recall_of(made.truth, found(width))
        if share >= enough:
            break
    return width, share


# -- asking ---------------------------------------------------------------------------------------------


def asking(server: Server, requests: Templates, bench: Bench) -> Ask:
    """To ask a server."""

    def ask(clients: int, seconds: float, seed: int) -> dict[str, float]:
        others = Others()
        load = bench.loader.run_seconds(server.port, server.pid, requests, 1, seconds, seed, clients)
        if load.nils or load.empty:
            raise BenchmarkError(f"{server.variant.name} found nothing for {load.nils + load.empty} queries")
        own_seconds = load.server_cpu_seconds + load.loader_cpu_seconds
        return {**load_sample(load), "others": round(others.share(own_seconds), 3)}

    return ask


def _asking_library(index: Any, made: VectorSet) -> Ask:
    def ask(clients: int, seconds: float, seed: int) -> dict[str, float]:
        times: list[float] = []
        others, cpu_seconds = Others(), time.process_time()
        place, began = 37 * seed, time.perf_counter()
        now = began
        while now < began + seconds:
            index.knn_query(made.queries[place % len(made.queries)], NEAREST, num_threads=1)
            before, now = now, time.perf_counter()
            times.append(now - before)
            place += 1
        cpu_seconds, whole = time.process_time() - cpu_seconds, time.perf_counter() - began
        p50, p99, p999 = np.percentile(times, [50, 99, 99.9]) * 1e6
        return {
            "rate": round(len(times) / whole),
            "cpu_us": round(cpu_seconds / len(times) * 1e6, 3),
            "loader_share": 0.0,
            "p50_us": round(float(p50), 1),
            "p99_us": round(float(p99), 1),
            "p999_us": round(float(p999), 1),
            "others": round(others.share(cpu_seconds), 3),
        }

    return ask


def _scaled(made: VectorSet, bench: Bench) -> VectorSet:
    return made.scaled(bench.objects / SCALE_OBJECTS)


# -- rows -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RecallRow:
    """Searches a second, one after the other from each client."""

    key: str
    made: VectorSet
    """As many as there are for `compaction.SCALE_OBJECTS` objects."""
    against: str
    """`REDIS` or `LIBRARY`."""
    target: Target
    clients: tuple[int, ...] = (1, 2)
    note: str = ""

    kind = "recall"

    @property
    def ours(self) -> Side:
        """Asked as we come."""
        return Side(f"RECALL, {self.made.dim} numbers", "")

    @property
    def redis(self) -> Side:
        """The other side."""
        return Side("VSIM" if self.against == REDIS else "raw hnswlib", "")

    def cases(self) -> list[Case]:
        """One for each number of clients."""
        return [Case(None, self.target, clients) for clients in self.clients]

    def begin(self, bench: Bench) -> None:
        """Have our graphs made."""
        begin_ours(_scaled(self.made, bench), bench)

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Get both ready, warm them up, then let them take turns."""
        assert case.clients is not None
        made = _scaled(self.made, bench)
        mine = ours(made, bench)
        if self.against == REDIS:
            other = fastest_redis(made, case.clients, bench)
        else:
            other = library(made, mine.told["recall"], bench)
        ways = {OURS: mine, REDIS: other}
        for way in ways.values():
            way.ask(case.clients, min(0.3, bench.seconds), 0)
        samples: Samples = {OURS: [], REDIS: []}
        for number, order in enumerate(bench.each_round()):
            for name in order:
                figures = ways[name].ask(case.clients, bench.seconds, number + 1)
                samples[name].append({**figures, **ways[name].told, "facts": made.count})
        return samples


@dataclass(frozen=True)
class RecallTailRow:
    """The time of searches at a moderate rate, with facts being stored and without."""

    key: str
    made: VectorSet
    target: Target
    """Our p99 with stores, divided by that without."""
    note: str = ""

    kind = "recalltail"

    @property
    def ours(self) -> Side:
        """What is stored with us."""
        line = f"AMEM.SEM.STORE {NAME.decode()} s:{{any%{STORED_NAMES}}} {{text}} FP32 {{fp32:{self.made.dim}}}"
        return Side(f"RECALL, {self.made.dim} numbers", line)

    @property
    def redis(self) -> Side:
        """The same in Redis, which looks for neighbours in a thread (CAS)."""
        line = f"VADD {NAME.decode()} FP32 {{fp32:{self.made.dim}}} s:{{any%{STORED_NAMES}}} CAS {QUANTISATION}"
        return Side(f"VSIM, {self.made.dim} numbers", line + ' SETATTR {"text":"{text}"}')

    def cases(self) -> list[Case]:
        """Only one."""
        return [Case(None, self.target)]

    def measure(self, case: Case, bench: Bench) -> Samples:
        """Both servers take turns; each is measured with stores and without, in turned order."""
        made = _scaled(self.made, bench)
        ways = {OURS: ours(made, bench), REDIS: fastest_redis(made, 1, bench)}
        with ExitStack() as stack:
            for way in ways.values():
                assert way.server is not None
                stack.enter_context(on_core(way.server, bench.server_core))
            return self._rounds(ways, made, bench)

    def _rounds(self, ways: dict[str, Way], made: VectorSet, bench: Bench) -> Samples:
        samples: Samples = {OURS: [], REDIS: []}
        for number, order in enumerate(bench.each_round(PACED_ROUNDS_MAX)):
            for name in order:
                parts: dict[bool, dict[str, float]] = {}
                for storing in (False, True) if number % 2 else (True, False):
                    parts[storing] = self._once(name, ways[name], storing, bench, number + 1)
                samples[name].append({**joined(parts[True], parts[False]), "facts": made.count})
        return samples

    def _once(self, name: str, way: Way, storing: bool, bench: Bench, seed: int) -> dict[str, float]:
        server, requests = way.server, way.requests
        assert server is not None
        assert requests is not None
        if name == OURS and not storing:
            until_graphs(server.port)  # of what was stored before: not in what is measured without stores
        time.sleep(PAUSE_SECONDS)
        seconds = bench.paced_seconds * LENGTH_FACTOR
        others = Others()
        cpu_seconds = server.cpu_seconds
        work = None
        if storing:
            line = self.ours.request if name == OURS else self.redis.request
            what = templates(line.replace(QUANTISATION, "Q8" if way.told.get("quantised") else "NOQUANT"))
            count = int(STORE_RATE * (seconds + 2 * LEAD_SECONDS))
            work = bench.pacer.start(server.port, server.pid, what, 1, STORE_RATE, count, seed)
        try:
            time.sleep(LEAD_SECONDS)
            asked = int(RECALL_RATE * seconds)
            pace = bench.pacer.run(server.port, server.pid, requests, CONNECTIONS, RECALL_RATE, asked, seed)
            done = work.finish() if work is not None else {}
        finally:
            if work is not None:
                work.stop()
        own_seconds = server.cpu_seconds - cpu_seconds + pace.pacer_cpu_seconds + done.get("pacer_cpu_seconds", 0.0)
        stored = {"stored": done["operations"], "store_p99_us": done["p99_us"]} if done else {}
        return {
            **pace_sample(pace),
            **stored,
            "late_p99_us": pace.late_p99_us,
            "others": round(others.share(own_seconds), 3),
        }
