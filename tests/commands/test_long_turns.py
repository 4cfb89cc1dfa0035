"""Long answers of turns: the same bytes as short ones have, from a snapshot, whichever class holds the session."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amemdb.commands.turns import ROLES, STEP, TURNS, LongTurns, answer
from amemdb.engine.answers import Parts, Pending
from amemdb.protocol.reply import LONG_ELEMENTS, PIECE_BYTES
from amemdb.stores.conversation import Conversation, PlainConversation
from tests.rig import Rig

KINDS = [PlainConversation] if Conversation is PlainConversation else [PlainConversation, Conversation]


def session(kind: type, rng: Random, count: int, sizes: tuple[int, ...] = (0, 5, 100, 1000)) -> Any:
    conversation = kind(b"s", 1_000_000, 0, 1, 0)
    for n in range(count):
        turn_id = rng.choice([None, b"", b"id%d" % n])
        meta = rng.choice([None, b"{}", rng.randbytes(300)])
        at_ms = rng.choice([0, -5, 1_700_000_000_000 + n])
        conversation.append((rng.choice(ROLES), rng.randbytes(rng.choice(sizes)), at_ms, turn_id, meta))
    return conversation


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_meta", [False, True])
@pytest.mark.parametrize("resp3", [False, True])
def test_a_long_answer_is_what_its_turns_make(kind: type, with_meta: bool, resp3: bool):
    rng = Random(7)
    conversation = session(kind, rng, 3000)
    for count in (LONG_ELEMENTS + 1, 1000, 3000, 10_000):
        value = answer(conversation, count, None, with_meta)
        assert isinstance(value, LongTurns)
        turns = conversation.newest(count)
        first_seq = 3000 - len(turns) + 1
        plain = [(t[0], t[1], first_seq + n, *t[2:]) if with_meta else t[:2] for n, t in enumerate(turns)]
        assert list(value) == plain
        assert len(value) == len(plain)
        assert value[0] == plain[0]
        assert value[3:70] == plain[3:70]
        wanted = TURNS.encode(plain, resp3)
        assert TURNS.encode(value, resp3) == wanted
        pieces = list(TURNS.pieces(value, resp3))
        assert b"".join(pieces) == wanted
        assert max(map(len, pieces)) < 3 * PIECE_BYTES


@pytest.mark.parametrize("kind", KINDS)
def test_long_contents_are_cut(kind: type):
    conversation = session(kind, Random(8), 5, (3 * PIECE_BYTES, 1_000_000))
    for with_meta in (False, True):
        value = answer(conversation, 5, None, with_meta)
        assert TURNS.is_long(value)
        pieces = list(TURNS.pieces(value, True))
        assert max(map(len, pieces)) < 2 * PIECE_BYTES
        assert b"".join(pieces) == TURNS.encode(value, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [0, 3, 100, 5_000, 100_000, 10**9])
def test_a_budget_takes_the_same_turns_out_of_a_long_session_as_out_of_a_short_one(kind: type, budget: int):
    conversation = session(kind, Random(9), 3 * STEP + LONG_ELEMENTS)
    long = answer(conversation, 10_000, budget, True).run()
    tokens, wanted = 0, []
    for turn in reversed(conversation.newest(10_000)):
        tokens += 4 + -(-len(turn[1]) // 4)
        if tokens > budget:
            break
        wanted.append(turn)
    assert [(row[0], row[1], *row[3:]) for row in long] == wanted[::-1]
    assert [row[2] for row in long] == list(range(conversation.seq - len(wanted) + 1, conversation.seq + 1))
    assert b"".join(TURNS.pieces(long, False)) == TURNS.encode(list(long), False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_answer_is_let_go_of_bit_by_bit(kind: type):
    value = answer(session(kind, Random(10), 2000), 2000, None, False)
    while value.free_some(100):
        pass
    assert len(value) == 0


def test_whatever_becomes_of_the_session_the_answer_stays():
    for end in ("AMEM.CONV.DROP s", "AMEM.CONV.CLEAR s", "AMEM.CONV.CREATE s WINDOW 5", "FLUSHALL"):
        rig = Rig()
        rig("AMEM.CONV.CREATE", "s", "WINDOW", 5000)
        for n in range(5000):
            rig("AMEM.CONV.APPEND", "s", "user", f"turn {n} " + "x" * 40)
        reply = rig.engine.execute(rig.session, [b"AMEM.CONV.GET", b"s"], rig.now_ms)
        assert isinstance(reply, Parts)
        data = reply.next() + reply.next()
        for n in range(600):
            rig("AMEM.CONV.APPEND", "s", "user", f"later {n}")
        rig(*end.split())
        while rig.stores.graveyard.free(1000):
            pass
        rig("AMEM.CONV.CREATE", "s")
        for _ in range(100):
            rig("AMEM.CONV.APPEND", "s", "user", "y" * 1000)
        data += reply.whole()
        assert data.startswith(b"*5000\r\n")
        assert data.count(b"turn ") == 5000
        assert b"later" not in data
        assert b"yyyy" not in data


def test_the_slices_of_a_budget_see_the_session_as_it_was(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("amemdb.engine.engine.SLICE_NS", 1)
    rig = Rig()
    rig("AMEM.CONV.CREATE", "s", "WINDOW", 5000)
    for n in range(1000):
        rig("AMEM.CONV.APPEND", "s", "user", f"turn {n}")
    words = [b"AMEM.CONV.WINDOW", b"s", b"900", b"TOKENS", b"100000"]
    reply = rig.engine.execute(rig.session, words, rig.now_ms)
    assert isinstance(reply, Pending)
    rig("AMEM.CONV.CLEAR", "s", session=rig.connect())
    while isinstance(reply, Pending):
        reply = rig.engine.resume(reply, None, rig.now_ms)
    assert isinstance(reply, Parts)
    assert reply.whole().count(b"turn ") == 900
