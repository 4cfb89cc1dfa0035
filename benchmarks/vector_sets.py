"""Made-up vectors with the true nearest of each query, and the talk with servers that hold them.

Vectors are clustered: around random centres, as those of real texts lie around subjects, and as graphs find hard. The
same arguments always give the same vectors. What is measured with them is in `recall` and `recall_check`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from benchmarks.loader import BenchmarkError
from benchmarks.servers import Server

Vectors = NDArray[np.float32]

NEAREST = 10
QUERIES = 500
CLUSTERS = 1000
SPREAD = 0.7
NAME = b"bench"
"""Of our agent, and of Redis's key."""
PIPELINE = 100
READY_SECONDS_MAX = 1800
LOOK_SECONDS = 0.25
QUIET_SECONDS = 4.0
"""When nothing changed for so long, the server may join graphs that it has."""


@dataclass(frozen=True)
class VectorSet:
    """So many vectors of one dimension, and queries of the same clusters."""

    count: int
    dim: int
    clusters: int = CLUSTERS
    spread: float = SPREAD

    @cached_property
    def vectors(self) -> Vectors:
        """Those that are stored."""
        return self.more(1, self.count)

    @cached_property
    def queries(self) -> Vectors:
        """Those that are asked for."""
        return self.more(2, QUERIES)

    @cached_property
    def truth(self) -> list[set[int]]:
        """The true nearest of each query, as places in `vectors`."""
        return nearest(self.vectors, self.queries)

    def more(self, seed: int, count: int) -> Vectors:
        """Other vectors of the same clusters."""
        return clustered(count, self.dim, self.clusters, self.spread, seed)


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
    """The true nearest of each query, as places in `vectors`."""
    return [set(np.argpartition(-(vectors @ query), NEAREST)[:NEAREST].tolist()) for query in queries]


def recall_of(truth: Sequence[set[int]], answers: Sequence[Sequence[int]]) -> float:
    """The share of the true nearest that is in the answers."""
    hits = sum(len(true.intersection(answer)) for true, answer in zip(truth, answers, strict=True))
    return hits / (NEAREST * len(truth))


def send_all(port: int, commands: Sequence[tuple[bytes, ...]] | Any) -> float:
    """Send commands, pipelined, on one connection; the seconds that took."""
    began = time.monotonic()
    with redis.Redis(port=port) as client:
        pipeline = client.pipeline(transaction=False)
        for number, words in enumerate(commands, 1):
            pipeline.execute_command(*words)
            if number % PIPELINE == 0:
                pipeline.execute()
        pipeline.execute()
    return time.monotonic() - began


def fact(place: int, vector: Vectors) -> tuple[bytes, ...]:
    """The command that stores a vector with us."""
    return (b"AMEM.SEM.STORE", NAME, key_of(place), b"text", b"FP32", vector.tobytes())


def key_of(place: int) -> bytes:
    """The name of a vector in either server."""
    return b"f:%08d" % place


def recall_words(query: Vectors) -> tuple[bytes, ...]:
    """The command that asks us, as it comes: without a width."""
    return (b"AMEM.SEM.RECALL", NAME, b"%d" % NEAREST, b"FP32", query.tobytes())


def recalled(port: int, queries: Vectors) -> list[list[int]]:
    """The places of what we find for each query."""
    with redis.Redis(port=port) as client:
        replies = [client.execute_command(*recall_words(query)) for query in queries]
    return [[int(hit[b"key"][2:]) for hit in reply] for reply in replies]


def until_graphs(port: int, say: Callable[[str], None] = lambda said: None) -> float:
    """Wait until all graphs of ours are made, and joined as they will be; the seconds until that was seen first."""
    began = time.monotonic()
    quiet_since: float | None = None
    with redis.Redis(port=port) as client:
        while (now := time.monotonic()) - began < READY_SECONDS_MAX:
            told: dict[bytes, Any] = client.execute_command("AMEM.SEM.INFO", NAME)
            if told[b"merging"] or told[b"tail"] > told[b"facts"] / 100 or not _is_settled(told):
                say(f"graphs: {told[b'merged']:,} of {told[b'merging']:,}")
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            elif now - quiet_since > QUIET_SECONDS:
                return quiet_since - began
            time.sleep(LOOK_SECONDS)
    raise BenchmarkError(f"graphs were not made in {READY_SECONDS_MAX:,} s")


def _is_settled(told: dict[bytes, Any]) -> bool:
    """Whether nothing is to be begun: it is small, or there is a graph."""
    return bool(told[b"graphs"]) or told[b"facts"] * told[b"dim"] <= 3_000_000


def count_of(server: Server) -> int:
    """How many vectors we have."""
    with redis.Redis(port=server.port) as client:
        told = client.execute_command("AMEM.SEM.INFO", NAME)
    return int(told[b"facts"])
