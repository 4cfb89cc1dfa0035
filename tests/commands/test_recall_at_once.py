"""Recalls without options are served natively, from a matrix and from graphs alike, with the reference's bytes."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from amemdb import native
from amemdb.commands import recall
from amemdb.index import graph, tiered
from tests.rig import Rig, request

pytestmark = pytest.mark.skipif(not native.ENABLED, reason="there is no native path")
DIM = 4


def fp32(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def natively(rig: Rig, *argv: bytes) -> bytes | None:
    reply: bytes | None = rig.engine.hot.request(rig.session, request(argv), rig.now_ms)
    return reply


def both(rig: Rig, *argv: bytes) -> bytes:
    """What both ways answer; it has to be the same."""
    reply = natively(rig, *argv)
    assert reply is not None, "the native path declined"
    assert rig.engine.execute(rig.session, list(argv), rig.now_ms) == reply
    return reply


def recalled(k: int, *numbers: float, agent: bytes = b"a") -> tuple[bytes, ...]:
    return b"AMEM.SEM.RECALL", agent, b"%d" % k, b"FP32", fp32(*numbers)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    for metric in ("cosine", "ip", "l2"):
        rig("AMEM.SEM.CREATE", metric, DIM, "METRIC", metric)
        for number, vector in enumerate([(1, 0, 0, 0), (3e-9, 1, 0, 0), (0, 0, 0, -7), (1, 1, 1, 1), (1e9, 5, 0, 0)]):
            rig("AMEM.SEM.STORE", metric, f"k{number}", "text " * number, "FP32", fp32(*vector))
    return rig


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("metric", [b"cosine", b"ip", b"l2"])
def test_numbers_are_written_as_the_reference_writes_them(rig: Rig, metric: bytes, protocol: int) -> None:
    """Among them 0, 1, whole numbers, very small and very large ones."""
    rig("HELLO", protocol)
    for vector in [(1, 0, 0, 0), (-1, 0, 0, 0), (0, 0, 0, 1e-20), (1e25, 0, 0, 0), (0.1, 0.2, 0.3, 0.4)]:
        reply = both(rig, *recalled(10, *vector, agent=metric))
        assert reply.count(b"similarity") == 5
        assert both(rig, *recalled(2, *vector, agent=metric)).count(b"similarity") == 2


def test_the_dead_are_not_found(rig: Rig) -> None:
    rig("AMEM.SEM.CREATE", "a", DIM)
    rig("AMEM.SEM.STORE", "a", "short", "t", "FP32", fp32(1, 0, 0, 0), "TTL", 1)
    rig("AMEM.SEM.STORE", "a", "long", "t", "FP32", fp32(1, 1, 0, 0))
    assert b"short" in both(rig, *recalled(2, 1, 0, 0, 0))
    rig.advance_ms(1000)
    assert both(rig, *recalled(2, 1, 0, 0, 0)).count(b"long") == 1
    assert b"short" not in both(rig, *recalled(2, 1, 0, 0, 0))
    rig("AMEM.SEM.FORGET", "a", "long")
    assert both(rig, *recalled(2, 1, 0, 0, 0)) == b"*0\r\n"


@pytest.mark.parametrize("quant", ["f32", "f16"])
@pytest.mark.skipif(not graph.IS_AVAILABLE, reason="hnswlib is not installed")
def test_graphs_are_asked_too(monkeypatch: pytest.MonkeyPatch, quant: str) -> None:
    monkeypatch.setattr(tiered, "CROSSOVER_FLOATS", 100 * DIM)
    monkeypatch.setattr(tiered, "WIDTH_SHARE", 1)
    rig = Rig()
    rig("AMEM.SEM.CREATE", "a", DIM, "QUANT", quant)
    rng = np.random.default_rng(1)
    for number in range(300):
        rig("AMEM.SEM.STORE", "a", f"k{number}", "t", "FP32", rng.standard_normal(DIM).astype("<f4").tobytes())
    index = rig.stores.sem.namespaces[b"a"].index
    merge = index.begin()
    while (work := merge.next()) is not None:
        work()
    index.publish(merge)
    for number in range(80):
        vector = rng.standard_normal(DIM)
        if number == 40:
            rig("AMEM.SEM.STORE", "a", "new", "t", "FP32", fp32(*rng.standard_normal(DIM)))
        assert both(rig, *recalled(10, *vector)).count(b"similarity") == 10
    assert index.kind == b"hnsw"


def test_what_is_more_than_plain_is_declined(rig: Rig) -> None:
    plain = recalled(3, 1, 0, 0, 0, agent=b"cosine")
    assert natively(rig, *plain) is not None
    assert natively(rig, *plain[:3], b"fp32", plain[4]) is not None
    rig("AMEM.SEM.CREATE", "empty", DIM)
    rig("AMEM.SEM.CREATE", "capped", DIM, "MAXFACTS", 5)  # what is returned is the last used
    rig("AMEM.SEM.STORE", "capped", "k", "t", "FP32", fp32(1, 0, 0, 0))
    rig("AMEM.SEM.CREATE", "wordy", DIM)
    rig("AMEM.SEM.STORE", "wordy", "k", "t" * 65_537, "FP32", fp32(1, 0, 0, 0))
    for agent in (b"empty", b"capped", b"wordy", b"nobody"):
        assert natively(rig, *recalled(3, 1, 0, 0, 0, agent=agent)) is None
    for vector in [(1, 0, 0), (1, 0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 0, math.nan), (math.inf, 0, 0, 0), ()]:
        assert natively(rig, *recalled(3, *vector, agent=b"cosine")) is None
    for k in (b"0", b"-1", b"501", b"+3", b"03", b"x", b""):
        assert natively(rig, *plain[:2], k, *plain[3:]) is None
    for form in (b"FP16", b"FP3", b"FP322", b"4"):
        assert natively(rig, *plain[:3], form, plain[4]) is None
    assert natively(rig, *plain[:4], plain[4][:-1]) is None
    assert natively(rig, *plain, b"WITHMETA") is None


def test_a_long_search_is_declined(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "AT_ONCE_FLOATS_MAX", 0)
    assert natively(rig, *recalled(3, 1, 0, 0, 0, agent=b"cosine")) is None


def test_a_long_answer_is_declined(rig: Rig) -> None:
    rig("AMEM.SEM.CREATE", "a", DIM)
    for number in range(6):
        rig("AMEM.SEM.STORE", "a", f"k{number}", "t" * 60_000, "FP32", fp32(1, number, 0, 0))
    assert natively(rig, *recalled(4, 1, 0, 0, 0)) is not None
    assert natively(rig, *recalled(6, 1, 0, 0, 0)) is None
