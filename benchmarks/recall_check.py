"""Whether enough of the true nearest are found, at full size and with nothing set: `--check` of `benchmarks.vectors`.

Three states of a memory: fresh; after three tenths of its facts were forgotten and as many of the others replaced; and
after every vector was replaced twice. Each is asked twice: at once, while graphs are being made and much is marked or
beside them, and when all is made. What is asked for is compared with a search of all vectors.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import redis

from benchmarks.arithmetic import RECALL_MIN
from benchmarks.facts import NAME, create, forget, recalled, send_all, store, until_graphs
from benchmarks.made_up import NEAREST, Vectors, VectorSet, nearest, recall_of
from benchmarks.servers import Variant, running

CHANGED_SHARE = 0.3
Say = Callable[[str], None]


@dataclass(frozen=True)
class Checked:
    """What was found in one state."""

    name: str
    recall: float
    worst: float
    """Of the single queries."""
    index: str
    """What was searched."""
    search_ms: float
    """Of time a query took, one after the other."""

    @property
    def is_enough(self) -> bool:
        """Whether that is what is asked for."""
        return self.recall >= RECALL_MIN


def check(made: VectorSet, variant: Variant, say: Say) -> Iterator[Checked]:
    """All states, one after the other, of one server."""
    places, vectors = np.arange(made.count), made.vectors.copy()
    with running(variant, "everysec", None) as server:
        port = server.port

        def asked(state: str) -> Iterator[Checked]:
            yield _compare(f"{state}, at once", port, made.queries, places, vectors)
            say(f"{state}: graphs made in {until_graphs(port):.0f} s more")
            yield _compare(f"{state}, graphs made", port, made.queries, places, vectors)

        send_all(port, [create(made.dim)])
        _store(port, places, vectors)
        yield from asked("fresh")

        chance = np.random.default_rng(4)
        changed = int(CHANGED_SHARE * made.count)
        shuffled = chance.permutation(made.count)
        send_all(port, (forget(place) for place in shuffled[:changed].tolist()))
        renewed = shuffled[changed : 2 * changed]
        vectors[renewed] = made.others(5, len(renewed))
        _store(port, renewed, vectors[renewed])
        places, vectors = np.sort(shuffled[changed:]), vectors[np.sort(shuffled[changed:])]
        yield from asked(f"{changed:,} forgotten and {len(renewed):,} replaced")

        for turn in (1, 2):
            vectors = made.others(5 + turn, len(places))
            _store(port, places, vectors)
        yield from asked("every vector replaced twice")


def _store(port: int, places: Any, vectors: Vectors) -> None:
    send_all(port, (store(place, vector) for place, vector in zip(places.tolist(), vectors, strict=True)))


def _compare(state: str, port: int, queries: Vectors, places: Any, vectors: Vectors) -> Checked:
    truth = [set(places[sorted(found)].tolist()) for found in nearest(vectors, queries)]
    with redis.Redis(port=port) as client:
        told = client.execute_command("AMEM.SEM.INFO", NAME)
    index = (
        f"{told[b'index'].decode()}, {told[b'graphs']} graphs, {told[b'tombstones']:,} marked, {told[b'tail']:,} beside"
    )
    began = time.monotonic()
    answers = recalled(port, queries)
    search_ms = (time.monotonic() - began) / len(queries) * 1e3
    singles = [len(true.intersection(answer)) / NEAREST for true, answer in zip(truth, answers, strict=True)]
    return Checked(state, recall_of(truth, answers), min(singles), index, search_ms)
