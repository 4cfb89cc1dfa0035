"""Turns as a reply shows them, and the answers that hold many of them.

A long answer is a `LongTurns`: a snapshot of the session, out of which turns are taken while the reply is sent. The
compiled twin, `_turns.pyx`, encodes them where they lie, without an object for each.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, overload

from amemdb import native
from amemdb.commands.context import Sliced
from amemdb.commands.tokens import newest_within, turn_tokens
from amemdb.protocol.reply import (
    BULK,
    INTEGER,
    LONG_BYTES,
    LONG_ELEMENTS,
    NULL_BULK,
    RAW,
    ArrayOf,
    Elements,
    Labelled,
    Shape,
)
from amemdb.stores.conversation import Conversation, Turn

if native.ENABLED:
    from amemdb.commands._turns import pieces_of

Shown = tuple[Any, ...]

ROLES = (b"system", b"user", b"assistant", b"tool")
LABELS = {"role": BULK, "content": BULK, "seq": INTEGER, "at": INTEGER, "id": BULK, "meta": BULK}
TURN = Labelled(**LABELS)
STEP = 64
"""Turns that are looked at, or taken out of a snapshot, at once."""


class LongTurns(Sequence[Shown]):
    """The turns of a snapshot from `begin` on as the reply labels them, with all there is of them if `with_meta`."""

    def __init__(self, turns: Sequence[Turn], begin: int, seq: int, with_meta: bool) -> None:
        """`seq` is the number of the last turn."""
        self.turns = turns
        self.begin = begin
        self.first_seq = seq - len(turns) + begin + 1
        self.with_meta = with_meta

    def __len__(self) -> int:
        return max(len(self.turns) - self.begin, 0)

    @overload
    def __getitem__(self, place: int) -> Shown: ...

    @overload
    def __getitem__(self, place: slice) -> list[Shown]: ...

    def __getitem__(self, place: int | slice) -> Shown | list[Shown]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        if not 0 <= place < len(self):
            raise IndexError(place)
        return shown(self.turns[self.begin + place], self.first_seq + place, self.with_meta)

    def __iter__(self) -> Iterator[Shown]:
        seq = self.first_seq
        for begin in range(self.begin, len(self.turns), STEP):
            for turn in self.turns[begin : begin + STEP]:
                yield shown(turn, seq, self.with_meta)
                seq += 1

    def free_some(self, count: int) -> int:
        """Let go of about `count` turns of what nobody reads any more; how many."""
        turns = self.turns
        if isinstance(turns, list):
            before = len(turns)
            del turns[max(0, before - count) :]
            return before - len(turns)
        freed: int = turns.free_some(count)  # type: ignore[attr-defined]
        return freed


class TurnsReply(ArrayOf):
    """An array of turns."""

    def __init__(self) -> None:
        super().__init__(TURN)

    def is_long(self, value: Sequence[Any] | Elements | None) -> bool:
        return isinstance(value, LongTurns) or super().is_long(value)

    def elements(self, value: Sequence[Any] | Elements, resp3: bool) -> Iterator[tuple[Shape, Any]]:
        if not native.ENABLED or not isinstance(value, LongTurns) or isinstance(value.turns, list):
            yield from super().elements(value, resp3)
            return
        yield RAW, self.head(len(value), resp3)
        heads, labels = forms(value.with_meta, resp3)
        for piece in pieces_of(value.turns, value.begin, value.first_seq, heads, labels, NULL_BULK[resp3]):
            yield RAW, piece


TURNS = TurnsReply()


def shown(turn: Turn, seq: int, with_meta: bool) -> Shown:
    """A turn as the reply labels it."""
    role, content, at_ms, turn_id, meta = turn
    return (role, content, seq, at_ms, turn_id, meta) if with_meta else (role, content)


def forms(with_meta: bool, resp3: bool) -> tuple[list[bytes], list[bytes]]:
    """What stands around a turn's values: before the content, for each role, and the labels of the rest.

    Taken from what the shape makes of a turn, so that the form is said once.
    """
    rest: list[Any] = [0, 0, b"", b""] if with_meta else []
    heads = [TURN.encode((role, b"", *rest), resp3).partition(b"$0\r\n")[0] for role in ROLES]
    label = Labelled.label
    return heads, [label(name) for name in list(LABELS)[2:]] if with_meta else []


def answer(conversation: Conversation, count: int, budget_tokens: int | None, with_meta: bool) -> Any:
    """The newest `count` turns, or those of them that fit the budget, as the reply shows them."""
    if not _is_long(conversation, count):
        turns = conversation.newest(count)
        if budget_tokens is not None:
            turns = turns[len(turns) - newest_within(turns, budget_tokens) :]
        first_seq = conversation.seq - len(turns) + 1
        return [shown(turn, first_seq + index, with_meta) for index, turn in enumerate(turns)]
    snapshot, seq = conversation.snapshot(count), conversation.seq
    if budget_tokens is None:
        return LongTurns(snapshot, 0, seq, with_meta)
    return Sliced(_within(snapshot, budget_tokens, seq, with_meta))


def _within(turns: Sequence[Turn], budget_tokens: int, seq: int, with_meta: bool) -> Generator[None, None, LongTurns]:
    """`newest_within` in steps."""
    begin = len(turns)
    while begin > 0:
        for turn in reversed(turns[max(0, begin - STEP) : begin]):
            budget_tokens -= turn_tokens(turn)
            if budget_tokens < 0:
                return LongTurns(turns, begin, seq, with_meta)
            begin -= 1
        yield
    return LongTurns(turns, begin, seq, with_meta)


def _is_long(conversation: Conversation, count: int) -> bool:
    """Whether it takes long to take the turns out of the session."""
    return min(count, len(conversation)) > LONG_ELEMENTS or conversation.newest_bytes(count) > 4 * LONG_BYTES
