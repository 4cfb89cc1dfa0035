"""AMEM.SEARCH: all that an agent remembers, searched at once: its facts, its events, and a session's notes and turns.

Facts are found by the vector, and by the words of TEXT as well where that is given, as HYBRID does. Everything else has
no vector and is found by the words alone. Its similarity is how much of a full match it is, from 0 to 1; a fact keeps
that of its vector. The answer is in the order of a score that compares them: words count by how well they match, on one
scale for all sources, and what has no vector gets half of that once more in place of what a vector would have told.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from amemdb.commands.context import Context, Sliced
from amemdb.commands.declare import Bytes, Name, Option, command
from amemdb.commands.hybrid import FACTS_AT_ONCE, facts_by_words
from amemdb.commands.recall import Recall, Recalled, returned
from amemdb.commands.semantic import AGENT, TOKENS, K
from amemdb.commands.words import best_texts, search_words
from amemdb.index.text import fuse
from amemdb.index.text.bm25 import TextFound
from amemdb.limits import WORDS_BYTES_MAX
from amemdb.protocol.reply import BULK, DOUBLE, ArrayOf, Labelled
from amemdb.stores.feeds import EventFeed, Feed, NoteFeed, TurnFeed
from amemdb.stores.semantic import Fact

SEMANTIC, EPISODIC, WORKING, CONVERSATION = b"semantic", b"episodic", b"working", b"conversation"
CONVINCING = 0.5
"""How much of a full match the best of a source must be to have a place in the answer for certain."""

Item = tuple[bytes, bytes, bytes, float]
"""Source, key, content and similarity."""


@command(
    "AMEM.SEARCH",
    AGENT,
    K,
    TOKENS,
    Option("TEXT", Bytes("text", 0, WORDS_BYTES_MAX)),
    Option("SESSION", Name("session")),
    access="read",
    reply=ArrayOf(Labelled(source=BULK, key=BULK, content=BULK, similarity=DOUBLE)),
    family="amem-search",
    summary="The k items of an agent's memory that fit a vector, and words, best: facts, events, notes and turns.",
    cost="O(n d) in the facts and the dimension, O(m) in the texts that hold a word",
)
def search_all(
    ctx: Context, agent: bytes, k: int, tokens: list[bytes] | bytes, text: bytes | None, session: bytes | None
) -> Any:
    """`source` says which store an item is from. An unknown agent or session has none. Without TEXT, facts only.

    `key` is that of a fact or note, `time-number` of an event, the number of a turn. Without SESSION: the session of
    the agent's name.
    """
    if text is None:
        return Recall(agent, k, tokens, None, _facts_alone).begin(ctx)
    hunt = _Hunt(agent, k, text, agent if session is None else session)
    return Recall(agent, fuse.pool_size(k) if k else 0, tokens, None, hunt.facts_found).begin(ctx)


def _facts_alone(ctx: Context, found: Recalled) -> list[Item]:
    returned(ctx, found)
    return [(SEMANTIC, fact[1], fact[2], similarity) for fact, similarity in found.facts]


class _Hunt:
    """One search with words, from source to source."""

    def __init__(self, agent: bytes, k: int, text: bytes, session: bytes) -> None:
        self._agent = agent
        self._k = k
        self._text = text
        self._session = session
        self._facts: list[tuple[Fact, float]] = []
        self._recalled = Recalled()
        self._items: list[Item] = []
        self._shares: list[float] = []
        """Of what was found so far, how much of a full match it is, and the source that it ends."""
        self._ends: list[int] = []

    def facts_found(self, ctx: Context, recalled: Recalled) -> Any:
        """Facts by vector are there: join those by words."""
        if self._k == 0:
            return []
        if recalled.namespace is None or recalled.query is None:
            return self._others(ctx)
        self._recalled = recalled
        feed = ctx.stores.texts.of_namespace(recalled.namespace)

        def then(ctx: Context, found: TextFound) -> Any:
            return Sliced(steps(ctx, found))

        def steps(ctx: Context, found: TextFound) -> Generator[None, None, Any]:
            near = yield from facts_by_words(ctx, feed, self._text, recalled, found, fuse.pool_size(self._k))
            if ctx.stores.sem.namespaces.get(self._agent) is recalled.namespace:  # not dropped meanwhile
                self._shares = (near.scores / (found.full or 1.0)).tolist()
                similarities = near.similarities.tolist()
                for begin in range(0, len(similarities), FACTS_AT_ONCE):
                    if begin:
                        yield
                    end = begin + FACTS_AT_ONCE
                    some = list(zip(near.facts[begin:end], similarities[begin:end], strict=True))
                    self._facts += some
                    self._items += [(SEMANTIC, fact[1], fact[2], similarity) for fact, similarity in some]
            return self._others(ctx)

        return search_words(feed, self._text, fuse.pool_size(self._k), then, ctx)

    def _others(self, ctx: Context) -> Any:
        """Search events, notes and turns, one source after the other, then answer."""
        self._ends = [len(self._items)]
        sources = [self._events, self._notes, self._turns]

        def go_on(ctx: Context) -> Any:
            if not sources:
                return self._answer(ctx)
            return sources.pop(0)(ctx, go_on)

        return go_on(ctx)

    def _events(self, ctx: Context, go_on: Callable[[Context], Any]) -> Any:
        log = ctx.stores.epis.logs.get(self._agent)
        if log is None:
            return self._source(ctx, None, _no_item, go_on)
        feed = ctx.stores.texts.of_log(self._agent, log)
        return self._source(ctx, feed, lambda ctx, number: _event_item(feed, number, ctx.now_ms), go_on)

    def _notes(self, ctx: Context, go_on: Callable[[Context], Any]) -> Any:
        notes = ctx.stores.work.sessions
        session = self._session
        if ctx.stores.conv.live(session, ctx.now_ms) is None or session not in notes:
            return self._source(ctx, None, _no_item, go_on)
        feed = ctx.stores.texts.of_notes(session, ctx.stores.work)

        def item(ctx: Context, number: int) -> tuple[bytes, bytes, bytes] | None:
            return _note_item(ctx, feed, session, number)

        return self._source(ctx, feed, item, go_on)

    def _turns(self, ctx: Context, go_on: Callable[[Context], Any]) -> Any:
        conversation = ctx.stores.conv.live(self._session, ctx.now_ms)
        if conversation is None:
            return self._source(ctx, None, _no_item, go_on)
        feed = ctx.stores.texts.of_conversation(conversation)
        session = self._session

        def item(ctx: Context, number: int) -> tuple[bytes, bytes, bytes] | None:
            return _turn_item(ctx, feed, session, number)

        return self._source(ctx, feed, item, go_on)

    def _source(
        self,
        ctx: Context,
        feed: Feed | None,
        item_of: Callable[[Context, int], tuple[bytes, bytes, bytes] | None],
        go_on: Callable[[Context], Any],
    ) -> Any:
        """Add what one source has, then go on."""
        if feed is None:
            self._ends.append(len(self._items))
            return go_on(ctx)

        def then(ctx: Context, found: TextFound) -> Any:
            return Sliced(steps(ctx, found))

        def steps(ctx: Context, found: TextFound) -> Generator[None, None, Any]:
            def text_of(number: int) -> bytes | None:
                item = None if feed.dropped else item_of(ctx, number)
                return None if item is None else item[2]

            hits = yield from best_texts(feed, self._text, found, self._k, text_of)
            there = [] if feed.dropped else [(score, item_of(ctx, number)) for score, number in hits]
            for score, item in [(score, item) for score, item in there if item is not None][: self._k]:
                share = score / found.full
                self._items.append((*item, min(1.0, share)))
                self._shares.append(share)
            self._ends.append(len(self._items))
            return go_on(ctx)

        return search_words(feed, self._text, self._k, then, ctx)

    def _answer(self, ctx: Context) -> list[Item]:
        shares = np.array(self._shares)
        words = fuse.words_scale(shares, 1.0)
        vectors = words / 2.0
        facts = len(self._facts)
        near = np.array([similarity for _, similarity in self._facts])
        vectors[:facts] = fuse.vectors_scale(near)
        scores = fuse.WORDS_WEIGHT * words + (1.0 - fuse.WORDS_WEIGHT) * vectors
        best = [np.where(np.arange(len(scores)) < facts, vectors, np.nan)]
        for begin, end in zip([0, *self._ends], self._ends, strict=False):
            leg = np.full(len(scores), np.nan)
            leg[begin:end] = np.where(shares[begin:end] >= CONVINCING, shares[begin:end], np.nan)
            best.append(leg)
        places = fuse.order(scores, best, -np.arange(len(scores)), self._k)
        found = [self._facts[place] for place in places if place < facts]
        returned(ctx, Recalled(self._recalled.namespace, found))
        return [self._items[place] for place in places]


def _no_item(ctx: Context, number: int) -> None:
    return None


def _event_item(feed: EventFeed, number: int, now_ms: int) -> tuple[bytes, bytes, bytes] | None:
    event = feed.event(number, now_ms)
    return None if event is None else (EPISODIC, b"%d-%d" % event[:2], event[3])


def _note_item(ctx: Context, feed: NoteFeed, session: bytes, number: int) -> tuple[bytes, bytes, bytes] | None:
    key = feed.key(number)
    note = None if key is None else ctx.stores.work.live(session, key, ctx.now_ms)
    if key is None or note is None or ctx.stores.conv.live(session, ctx.now_ms) is None:
        return None
    return WORKING, key, note[0]


def _turn_item(ctx: Context, feed: TurnFeed, session: bytes, number: int) -> tuple[bytes, bytes, bytes] | None:
    content = None if ctx.stores.conv.live(session, ctx.now_ms) is None else feed.turn(number)
    return None if content is None else (CONVERSATION, b"%d" % number, content)
