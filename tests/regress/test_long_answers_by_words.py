"""An answer of very many facts is put together in steps: joining ten thousand by words and vectors took 95 ms at once.

What is found is of one moment, whatever happens between the steps, and a fact that has gone by the time at which its
use is noted is no reason to fall over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rig import Rig

from amemdb.commands import hybrid, search, semantic
from amemdb.commands.context import Sliced
from amemdb.commands.session import Session
from amemdb.engine.answers import Parts, Pending
from amemdb.index.text import bm25

Query = tuple[str | int, ...]
QUERIES: list[Query] = [
    ("AMEM.SEM.RECALL", "a", 60, 1, 0, 0),
    ("AMEM.SEM.RECALL", "a", 60, "TEXT", "common words"),
    ("AMEM.SEM.RECALL", "a", 60, "TEXT", "common words", "FILTER", ".n < 60", "EXPLAIN", "WITHMETA"),
    ("AMEM.SEM.RECALL", "a", 60, "TEXT", "common words", "THRESHOLD", "0.5", "EXPLAIN"),
    ("AMEM.SEM.RECALL", "a", 60, 1, 0, 0, "HYBRID", "common 7"),
    ("AMEM.SEM.RECALL", "a", 60, 1, 0, 0, "HYBRID", "common 7", "FILTER", ".n < 60", "EXPLAIN"),
    ("AMEM.SEM.RECALL", "a", 60, 1, 0, 0, "HYBRID", "common 7", "THRESHOLD", "0.6", "EXPLAIN"),
    ("AMEM.SEM.RECALL", "a", 60, 1, 0, 0, "HYBRID", "?!"),
    ("AMEM.SEARCH", "a", 60, 1, 0, 0, "TEXT", "common 7"),
]


@pytest.fixture
def full() -> Rig:
    rig = Rig()
    rebuilt(rig)
    return rig


def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hybrid, search, semantic):
        monkeypatch.setattr(module, "FACTS_AT_ONCE", 7)
    monkeypatch.setattr(bm25, "HITS_AT_ONCE", 5)
    monkeypatch.setattr(bm25, "RANKED_AT_ONCE", 9)
    monkeypatch.setattr(Sliced, "advance", one_step)


def one_step(self: Sliced, is_over: Callable[[], bool]) -> Any:
    try:
        next(self._steps)
    except StopIteration as end:
        return end.value
    return self


def answer(rig: Rig, query: Query, between: Callable[[int], None]) -> tuple[bytes, int]:
    """The reply, and how many pauses there were; `between` is told each."""
    reply = rig.engine.execute(rig.session, [str(word).encode() for word in query], rig.now_ms)
    pauses = 0
    while isinstance(reply, Pending):
        between(pauses)
        pauses += 1
        reply = rig.engine.resume(reply, reply.work(), rig.now_ms)
    return (reply.whole() if isinstance(reply, Parts) else reply), pauses


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: " ".join(map(str, query)))
def test_in_steps_the_answer_is_the_same(full: Rig, monkeypatch: pytest.MonkeyPatch, query: Query) -> None:
    whole, _ = answer(full, query, lambda pause: None)
    few_at_once(monkeypatch)
    found, pauses = answer(full, query, lambda pause: None)
    assert found == whole
    assert pauses >= 5
    assert found.count(b"content") > 20


def replaced(rig: Rig, number: int, session: Session, *more: str | int) -> None:
    rig("AMEM.SEM.STORE", "a", f"k{number}", "common other", 1, 1, 1, *more, session=session)


def forget(rig: Rig, session: Session) -> None:
    for number in range(0, 70, 2):
        rig("AMEM.SEM.FORGET", "a", f"k{number}", session=session)


def replace(rig: Rig, session: Session) -> None:
    for number in range(0, 70, 2):
        replaced(rig, number, session)


def drop(rig: Rig, session: Session) -> None:
    rig("AMEM.SEM.DROP", "a", session=session)


def anew(rig: Rig, session: Session) -> None:
    drop(rig, session)
    rig("AMEM.SEM.CREATE", "a", 3, "MAXFACTS", 50, session=session)
    replaced(rig, 1, session)


def flush(rig: Rig, session: Session) -> None:
    rig("FLUSHALL", session=session)


def expire(rig: Rig, session: Session) -> None:
    replaced(rig, 1, session, "TTL", 1)
    rig.advance_ms(1000)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: " ".join(map(str, query)))
@pytest.mark.parametrize("change", [forget, replace, drop, anew, flush, expire])
def test_whatever_happens_between_the_steps(
    full: Rig, monkeypatch: pytest.MonkeyPatch, query: Query, change: Callable[[Rig, Session], None]
) -> None:
    few_at_once(monkeypatch)
    _, pauses = answer(full, query, lambda pause: None)
    for at in (1, pauses // 2, pauses - 1):
        other = full.connect()
        reply, _ = answer(full, query, lambda pause, at=at, other=other: change(full, other) if pause == at else None)
        assert reply.startswith(b"*"), reply
        full.advance_ms(60_000)
        full.tick()
        full("FLUSHALL")
        rebuilt(full)
    full.restart()


def rebuilt(rig: Rig) -> None:
    rig("AMEM.SEM.CREATE", "a", 3, "MAXFACTS", 200)
    for number in range(70):
        text = f"common words {number}" if number % 4 else f"number {number}"
        meta = f'{{"n":{number}}}'
        rig("AMEM.SEM.STORE", "a", f"k{number}", text, 1, number % 11 - 5, 1 + number % 3, "META", meta)


def test_without_words_equals_are_in_the_order_of_a_recall_without_words() -> None:
    rig = Rig()
    rig("AMEM.SEM.CREATE", "a", 2)
    for number in range(80):
        rig("AMEM.SEM.STORE", "a", f"k{number}", "the same", 1, 0)
    plain = [item[1] for item in rig("AMEM.SEM.RECALL", "a", 5, 1, 0)]
    for nothing in ("", "  ", "?!", "\u200b", "unheard"):
        assert [item[1] for item in rig("AMEM.SEM.RECALL", "a", 5, 1, 0, "HYBRID", nothing)] == plain
        assert rig("AMEM.SEM.RECALL", "a", 5, "TEXT", nothing) == []
        assert [item[3] for item in rig("AMEM.SEARCH", "a", 5, 1, 0, "TEXT", nothing)] == plain
