"""Facts with made-up vectors in our server, and the same in Redis: how each is given them and asked.

A fact has a vector and a text. In Redis it is an element of a vector set, its text an attribute; that is how somebody
would keep it there. Names are the same in both.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import redis

from benchmarks.loader import BenchmarkError
from benchmarks.made_up import NEAREST, Vectors, VectorSet
from benchmarks.servers import OURS, Server
from benchmarks.templates import texts

Words = tuple[bytes, ...]

NAME = b"bench"
"""Of our agent, and of Redis's key."""
PIPELINE = 100
STORING_CLIENTS = 4
READY_SECONDS_MAX = 1800.0
LOOK_SECONDS = 0.25
QUIET_SECONDS = 4.0
"""Of quiet, after which graphs may be begun, or joined that were left beside each other."""

_TEXTS = [text.encode() for text in texts()]


def key_of(place: int) -> bytes:
    """The name of a fact."""
    return b"f:%08d" % place


def place_of(key: bytes) -> int:
    """The place of the fact of that name."""
    return int(key[2:])


# -- ours -----------------------------------------------------------------------------------------------


def create(dim: int) -> Words:
    """Open our memory, with nothing set but its dimension."""
    return (b"AMEM.SEM.CREATE", NAME, b"%d" % dim)


def store(place: int, vector: Vectors) -> Words:
    """Store a fact with us."""
    return (b"AMEM.SEM.STORE", NAME, key_of(place), _TEXTS[place % len(_TEXTS)], b"FP32", vector.tobytes())


def forget(place: int) -> Words:
    """Forget a fact of ours."""
    return (b"AMEM.SEM.FORGET", NAME, key_of(place))


def recall(query: Vectors) -> Words:
    """Ask us, without saying how wide to search."""
    return (b"AMEM.SEM.RECALL", NAME, b"%d" % NEAREST, b"FP32", query.tobytes())


def recalled(port: int, queries: Vectors) -> list[list[int]]:
    """The places of what we find."""
    with redis.Redis(port=port) as client:
        replies = [client.execute_command(*recall(query)) for query in queries]
    return [[place_of(hit[b"key"]) for hit in reply] for reply in replies]


def until_graphs(port: int) -> float:
    """Wait until our graphs are made and joined as far as they will be; the seconds until they were made."""
    began = time.monotonic()
    made_at: float | None = None
    with redis.Redis(port=port) as client:
        while (now := time.monotonic()) - began < READY_SECONDS_MAX:
            told: dict[bytes, Any] = client.execute_command("AMEM.SEM.INFO", NAME)
            if told[b"merging"] or told[b"tail"] > told[b"facts"] / 100:
                made_at = None
            elif made_at is None:
                made_at = now
            elif now - made_at > QUIET_SECONDS:
                return made_at - began
            time.sleep(LOOK_SECONDS)
    raise BenchmarkError(f"graphs of all facts were not made in {READY_SECONDS_MAX:.0f} s")


# -- Redis ----------------------------------------------------------------------------------------------


def vadd(place: int, vector: Vectors, options: Words) -> Words:
    """Store a fact in Redis."""
    attribute = b'{"text":"%b"}' % _TEXTS[place % len(_TEXTS)]
    return (b"VADD", NAME, b"FP32", vector.tobytes(), key_of(place), *options, b"SETATTR", attribute)


def vsim(query: Vectors, width: int, options: Words) -> Words:
    """Ask Redis. It answers names only."""
    words = (b"VSIM", NAME, b"FP32", query.tobytes(), b"COUNT", b"%d" % NEAREST, b"EF", b"%d" % width)
    return (*words, *options)


def found_by_redis(port: int, queries: Vectors, width: int) -> list[list[int]]:
    """The places of what Redis finds."""
    with redis.Redis(port=port) as client:
        return [list(map(place_of, client.execute_command(*vsim(query, width, ())))) for query in queries]


# -- both -----------------------------------------------------------------------------------------------


def send_all(port: int, commands: Iterable[Words]) -> None:
    """Send commands, many to a packet, on one connection."""
    with redis.Redis(port=port) as client:
        pipeline = client.pipeline(transaction=False)
        for number, words in enumerate(commands, 1):
            pipeline.execute_command(*words)
            if number % PIPELINE == 0:
                pipeline.execute()
        pipeline.execute()


def fill_with_facts(server: Server, made: VectorSet, options: Words = ()) -> None:
    """Store all of them. Redis is given them by several clients, as it then uses several threads."""
    if server.variant.name == OURS:
        send_all(server.port, [create(made.dim)])
        send_all(server.port, (store(place, vector) for place, vector in enumerate(made.vectors)))
        return
    parts = np.array_split(np.arange(made.count), STORING_CLIENTS)

    def part_of(places: Any) -> Iterator[Words]:
        return (vadd(place, made.vectors[place], options) for place in places.tolist())

    with ThreadPoolExecutor(STORING_CLIENTS) as pool:
        for _ in pool.map(lambda places: send_all(server.port, part_of(places)), parts):
            pass


def count_of(server: Server) -> int:
    """How many facts the server has."""
    with redis.Redis(port=server.port) as client:
        if server.variant.name != OURS:
            return int(client.execute_command("VCARD", NAME))
        told = client.execute_command("AMEM.SEM.INFO", NAME)
        return int(told[b"facts"])


def on_the_wire(words: Sequence[bytes]) -> bytes:
    """A request."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])
