"""Recall of vectors: how many a second and how many of the true nearest, against raw hnswlib and Redis vector sets.

`python -m benchmarks.vectors --count 100000 --dim 384`. Vectors are clustered and made up (`clustered`). Each of the
three is asked by as many processes as `--clients` says, one request at a time each; hnswlib is asked in this process,
by as many threads. Widths (EF) of hnswlib and Redis are tried from small to large, and the first that finds `RECALL` of
the true ten nearest is the one that counts; ours is asked as it comes, without a width. Then ours again while facts
are stored, for the tail. A table in Markdown goes to standard output.

Stores are sent by one client, pipelined. A server that still makes its graphs is waited for.
"""

from __future__ import annotations

import multiprocessing
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import hiredis
import hnswlib
import numpy as np
import redis as redis_py
from numpy.typing import NDArray

from benchmarks import environment
from benchmarks.servers import Server, ours, redis_server, running

RECALL = 0.98
NEAREST = 10
QUERIES = 500
WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
PIPELINE = 100
READY_SECONDS_MAX = 1800
Vectors = NDArray[np.float32]


def clustered(count: int, dim: int, clusters: int, spread: float, seed: int) -> Vectors:
    """Vectors of length 1 around random centres; `spread` is their distance from them, in lengths of a centre."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((clusters, dim)).astype(np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    vectors = np.empty((count, dim), np.float32)
    for first in range(0, count, 10_000):
        part = vectors[first : first + 10_000]
        part[:] = centres[chance.integers(clusters, size=len(part))]
        part += chance.standard_normal(part.shape).astype(np.float32) * np.float32(spread / dim**0.5)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors


def nearest(vectors: Vectors, queries: Vectors) -> list[set[int]]:
    """The true nearest of each query."""
    return [set(np.argpartition(-(vectors @ query), NEAREST)[:NEAREST].tolist()) for query in queries]


@dataclass(frozen=True)
class Figures:
    """What was measured of one way of asking."""

    rate: float
    p50_ms: float
    p99_ms: float


def request(*words: bytes) -> bytes:
    """A request on the wire."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def _ask(port: int, requests: list[bytes], seconds: float, first: int, results: Any) -> None:
    """One client: send one request after the other, and give the time that each took."""
    reader = hiredis.Reader()
    taken = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            connection.sendall(requests[first % len(requests)])
            while (reply := reader.gets()) is False:
                reader.feed(connection.recv(1 << 16))
            if isinstance(reply, hiredis.ReplyError):
                raise reply
            taken.append(time.perf_counter() - began)
            first += 1
    results.put(taken)


def asked(port: int, requests: list[bytes], clients: int, seconds: float) -> Figures:
    """Ask by several processes at once."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [
        context.Process(target=_ask, args=(port, requests, seconds, 37 * number, results)) for number in range(clients)
    ]
    for process in processes:
        process.start()
    taken = [time_s for _ in processes for time_s in results.get()]
    for process in processes:
        process.join()
    return figures(taken, seconds)


def figures(taken: list[float], seconds: float) -> Figures:
    """Of the times of all requests."""
    p50, p99 = np.percentile(taken, [50, 99]) * 1000
    return Figures(len(taken) / seconds, float(p50), float(p99))


def store(port: int, vectors: Vectors, make: Callable[[int, bytes], tuple[bytes, ...]]) -> float:
    """Store all vectors, pipelined; how many a second."""
    began = time.perf_counter()
    with redis_py.Redis(port=port) as client:
        for first in range(0, len(vectors), PIPELINE):
            pipeline = client.pipeline(transaction=False)
            for number in range(first, min(first + PIPELINE, len(vectors))):
                pipeline.execute_command(*make(number, vectors[number].tobytes()))
            pipeline.execute()
    return len(vectors) / (time.perf_counter() - began)


class Storing:
    """Stores facts at a steady rate, while the block that it is used with runs."""

    def __init__(self, port: int, rate: float, vectors: Vectors) -> None:
        self._port, self._rate, self._vectors = port, rate, vectors
        self._over = multiprocessing.get_context("fork").Event()
        self._process = multiprocessing.get_context("fork").Process(target=self._run)

    def __enter__(self) -> None:
        self._process.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._process.join()

    def _run(self) -> None:
        began, count = time.perf_counter(), 0
        with redis_py.Redis(port=self._port) as client:
            while not self._over.is_set():
                vector = self._vectors[count % len(self._vectors)].tobytes()
                client.execute_command("AMEM.SEM.STORE", "bench", f"k{17 * count % 10_007}", "t", "FP32", vector)
                count += 1
                time.sleep(max(0.0, began + count / self._rate - time.perf_counter()))


def until_ready(client: redis_py.Redis) -> float:
    """Wait until all graphs are made; how long that took."""
    began = time.perf_counter()
    while time.perf_counter() - began < READY_SECONDS_MAX:
        info = client.execute_command("AMEM.SEM.INFO", "bench")
        if info[b"merging"] == 0 and info[b"tail"] < info[b"facts"] / 100:
            time.sleep(4)  # when it is quiet, more may be joined
            info = client.execute_command("AMEM.SEM.INFO", "bench")
            if info[b"merging"] == 0:
                break
        time.sleep(0.5)
    return time.perf_counter() - began


class Run:
    """The vectors and queries of one run, and what is done with them."""

    def __init__(self, count: int, dim: int, clusters: int, spread: float, clients: int, seconds: float) -> None:
        self.vectors = clustered(count, dim, clusters, spread, 1)
        self.queries = clustered(QUERIES, dim, clusters, spread, 2)
        self.truth = nearest(self.vectors, self.queries)
        self.clients, self.seconds = clients, seconds

    def found(self, answers: list[list[int]]) -> float:
        """The share of the true nearest that is in the answers."""
        hits = sum(len(truth.intersection(answer)) for truth, answer in zip(self.truth, answers, strict=True))
        return hits / (NEAREST * len(self.truth))

    def amemdb(self) -> Iterator[str]:
        """Rows of ours."""
        with running(ours(), "everysec", None) as server, redis_py.Redis(port=server.port) as client:
            client.execute_command("AMEM.SEM.CREATE", "bench", self.vectors.shape[1])
            rate = store(server.port, self.vectors, lambda n, vector: _fact(b"v%d" % n, vector))
            waited = until_ready(client)
            requests = [_recall(query) for query in self.queries]
            replies = [
                client.execute_command("AMEM.SEM.RECALL", "bench", 10, "FP32", q.tobytes()) for q in self.queries
            ]
            recall = self.found([[int(hit[b"key"][1:]) for hit in reply] for reply in replies])
            yield row(
                "amemdb", f"stored at {rate:,.0f}/s, ready {waited:.0f} s later", recall, self._of(server, requests)
            )
            with Storing(server.port, 500, clustered(2000, self.vectors.shape[1], 100, 0.7, 3)):
                yield row("amemdb, 500 stores/s", "", None, self._of(server, requests))

    def _of(self, server: Server, requests: list[bytes]) -> Figures:
        return asked(server.port, requests, self.clients, self.seconds)

    def redis(self, program: Path) -> Iterator[str]:
        """A row of Redis, at the least width that finds enough."""
        with running(redis_server(program), "everysec", None) as server, redis_py.Redis(port=server.port) as client:
            rate = store(
                server.port, self.vectors, lambda n, v: (b"VADD", b"bench", b"FP32", v, b"v%d" % n, b"NOQUANT")
            )
            for width in WIDTHS:
                asking = [(b"VSIM", b"bench", b"FP32", q.tobytes(), b"COUNT", b"10") for q in self.queries]
                asking = [(*words, b"EF", b"%d" % width) for words in asking]
                recall = self.found([[int(v[1:]) for v in client.execute_command(*words)] for words in asking])
                if recall >= RECALL or width == WIDTHS[-1]:
                    requests = [request(*words) for words in asking]
                    yield row(f"Redis, EF {width}", f"stored at {rate:,.0f}/s", recall, self._of(server, requests))
                    return

    def hnswlib(self) -> Iterator[str]:
        """A row of the library in this process, at the least width that finds enough."""
        index = hnswlib.Index("ip", self.vectors.shape[1])
        index.init_index(len(self.vectors), M=16, ef_construction=200)
        began = time.perf_counter()
        index.add_items(self.vectors, num_threads=self.clients)
        rate = len(self.vectors) / (time.perf_counter() - began)
        for width in WIDTHS:
            index.set_ef(width)
            labels, _ = index.knn_query(self.queries, NEAREST, num_threads=1)
            recall = self.found([list(map(int, found)) for found in labels])
            if recall >= RECALL or width == WIDTHS[-1]:
                yield row(f"hnswlib, ef {width}", f"added at {rate:,.0f}/s", recall, self._of_library(index))
                return

    def _of_library(self, index: hnswlib.Index) -> Figures:
        taken: list[float] = []
        end = time.perf_counter() + self.seconds

        def ask(first: int) -> None:
            while (began := time.perf_counter()) < end:
                index.knn_query(self.queries[first % QUERIES], NEAREST, num_threads=1)
                taken.append(time.perf_counter() - began)
                first += 1

        threads = [threading.Thread(target=ask, args=(37 * number,)) for number in range(self.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return figures(taken, self.seconds)


def _fact(key: bytes, vector: bytes) -> tuple[bytes, ...]:
    return (b"AMEM.SEM.STORE", b"bench", key, b"text", b"FP32", vector)


def _recall(query: Vectors) -> bytes:
    return request(b"AMEM.SEM.RECALL", b"bench", b"10", b"FP32", query.tobytes())


def row(name: str, note: str, recall: float | None, measured: Figures) -> str:
    """A line of the table."""
    found = "" if recall is None else f"{recall:.4f}"
    return f"| {name} | {found} | {measured.rate:,.0f} | {measured.p50_ms:.2f} | {measured.p99_ms:.2f} | {note} |"


@click.command()
@click.option("--count", type=click.IntRange(1_000, 10_000_000), default=100_000, show_default=True)
@click.option("--dim", type=click.IntRange(2, 4096), default=384, show_default=True)
@click.option("--clusters", type=click.IntRange(1, 1_000_000), default=1000, show_default=True)
@click.option("--spread", type=click.FloatRange(0.01, 10), default=0.7, show_default=True, help="Around the centres.")
@click.option("--clients", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--seconds", type=click.FloatRange(0.2, 600), default=5.0, show_default=True)
@click.option("--only", default="amemdb,redis,hnswlib", show_default=True)
@click.option("--redis", "program", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(
    count: int,
    dim: int,
    clusters: int,
    spread: float,
    clients: int,
    seconds: float,
    only: str,
    program: Path | None,
) -> None:
    """Measure recall of vectors on this machine."""
    run = Run(count, dim, clusters, spread, clients, seconds)
    click.echo(f"{count:,} x {dim}, {clusters:,} clusters, spread {spread}, {clients} clients\n")
    click.echo("| | recall@10 | a second | p50 ms | p99 ms | |\n|---|---|---|---|---|---|")
    ways: dict[str, Callable[[], Iterator[str]]] = {"amemdb": run.amemdb, "hnswlib": run.hnswlib}
    if "redis" in only:
        redis_program = environment.redis_program(program, lambda text: click.echo(text, err=True))
        ways["redis"] = lambda: run.redis(redis_program)
    for name in only.split(","):
        for line in ways[name]():
            click.echo(line)


if __name__ == "__main__":
    main()
