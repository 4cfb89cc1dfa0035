"""Recall of facts by words, and by words and vectors together: TEXT without an embedder, and HYBRID.

Both give `Recalled`, as a recall by vectors does. By words alone, the similarity of a fact is its score as a part of
that of a full match, at most 1. Together, similarities stay those of the vectors, THRESHOLD is about them, and the
score that orders the answer is that of `amemdb.index.text.fuse`. What the vectors proposed is looked up by words and
what the words proposed by its vector, so that no candidate lacks either.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amemdb.commands.context import Context, Sliced
from amemdb.commands.filters import Filter
from amemdb.commands.recall import BELOW_THRESHOLD, EXPIRED, FILTERED, Answer, Recalled
from amemdb.commands.words import best_texts, check_words, search_words
from amemdb.index.similarity import Query, exact_keys, least_similarity, similarities, sum_of_squares
from amemdb.index.text import fuse
from amemdb.index.text.bm25 import Hit, TextFound
from amemdb.limits import EXPLAINED_MAX
from amemdb.stores.feeds import FactFeed
from amemdb.stores.semantic import Fact, Namespace

WORDS_TOLERANCE = 1e-9
FACTS_AT_ONCE = 256
"""Of many, so many are looked at before others are served."""
LeftOut = list[tuple[Fact, float, bytes]]


class WordRecall:
    """The facts that hold the words of a text."""

    def __init__(
        self,
        agent: bytes,
        k: int,
        text: bytes,
        threshold: float | None,
        answer: Answer,
        filter: Filter | None = None,
        explain: bool = False,
    ) -> None:
        self.k = k
        self._agent = agent
        self._text = text
        self._minimum = -np.inf if threshold is None else threshold - WORDS_TOLERANCE
        self._answer = answer
        self._filter = filter
        self._explain = explain

    def begin(self, ctx: Context) -> Any:
        """Search. An unknown agent has no facts."""
        check_words(self._text, "text")
        namespace = ctx.stores.sem.namespaces.get(self._agent)
        if namespace is None or self.k == 0 or not namespace.facts:
            return self._answer(ctx, Recalled(namespace))
        feed = ctx.stores.texts.of_namespace(namespace)

        def then(ctx: Context, found: TextFound) -> Any:
            return Sliced(self._finish(ctx, namespace, feed, found))

        return search_words(feed, self._text, self.k, then, ctx, self._filter is not None)

    def _finish(
        self, ctx: Context, namespace: Namespace, feed: FactFeed, found: TextFound
    ) -> Generator[None, None, Any]:
        rejected: dict[int, bytes] = {}
        text_of = _texts(ctx, feed, self._filter, rejected)
        hits = yield from best_texts(feed, self._text, found, self.k, text_of)
        if ctx.stores.sem.namespaces.get(self._agent) is not namespace:  # dropped meanwhile, perhaps made anew
            return self.begin(ctx)
        full = found.full
        there = _with_facts(ctx, feed, hits)[: self.k]
        if len(there) < min(self.k, len(hits)):  # more have gone meanwhile than there were to spare
            return self.begin(ctx)
        scored: list[tuple[Fact, float]] = []
        for begin in range(0, len(there), FACTS_AT_ONCE):
            if begin:
                yield
            scored += [(fact, min(1.0, score / full)) for fact, score in there[begin : begin + FACTS_AT_ONCE]]
        told = [(fact, similarity) for fact, similarity in scored if similarity >= self._minimum]
        left_out: LeftOut = []
        if self._explain:
            left_out = [(fact, share, BELOW_THRESHOLD) for fact, share in scored if share < self._minimum]
            scores = found.scores_of(np.array(list(rejected), np.int64)).tolist()
            for (fact_id, reason), score in zip(rejected.items(), scores, strict=True):
                left_out += [(fact, min(1.0, score / full), reason) for fact in namespace.facts_of((fact_id,))]
            left_out = sorted(left_out, key=lambda about: (-about[1], -about[0][0]))[:EXPLAINED_MAX]
        return self._answer(ctx, Recalled(namespace, told, left_out))


class Fusion:
    """What becomes of facts that were found by a vector once they are joined by those found by words.

    `facts_found` is the answer of a recall by vector of `pool` facts without a threshold.
    """

    def __init__(
        self,
        agent: bytes,
        k: int,
        text: bytes,
        threshold: float | None,
        answer: Answer,
        filter: Filter | None = None,
        explain: bool = False,
    ) -> None:
        self.pool = fuse.pool_size(k) if k else 0
        self._agent = agent
        self._k = k
        self._text = text
        self._threshold = threshold
        self._answer = answer
        self._filter = filter
        self._explain = explain

    def facts_found(self, ctx: Context, recalled: Recalled) -> Any:
        """Go on with the words, then answer."""
        namespace = recalled.namespace
        if namespace is None or recalled.query is None:
            return self._answer(ctx, recalled)
        feed = ctx.stores.texts.of_namespace(namespace)

        def then(ctx: Context, found: TextFound) -> Any:
            return Sliced(self._finish(ctx, namespace, feed, recalled, found))

        return search_words(feed, self._text, self.pool, then, ctx, self._filter is not None)

    def _finish(
        self, ctx: Context, namespace: Namespace, feed: FactFeed, recalled: Recalled, found: TextFound
    ) -> Generator[None, None, Any]:
        there = yield from facts_by_words(ctx, feed, self._text, recalled, found, self.pool, self._filter)
        if ctx.stores.sem.namespaces.get(self._agent) is not namespace:  # dropped meanwhile: nothing of it is there
            return self._answer(ctx, Recalled())
        near = there.where(there.similarities >= least_similarity(self._threshold, namespace.metric))
        joint = fuse.fused(near.scores, found.full, near.similarities)
        # Where no word tells them apart, equal ones are in the order in which a recall without words has them.
        newest = near.ids if near.scores.any() else -near.ids
        places = fuse.order(joint, [near.scores, near.similarities], newest, self._k)
        told: list[tuple[Fact, float]] = []
        scores: dict[int, tuple[float, float]] = {}
        for begin in range(0, len(places), FACTS_AT_ONCE):
            if begin:
                yield
            for place in places[begin : begin + FACTS_AT_ONCE]:
                fact = near.facts[place]
                told.append((fact, float(near.similarities[place])))
                scores[fact[0]] = float(near.scores[place]), float(joint[place])
        left_out = [about for about in recalled.left_out if about[0][0] not in scores]
        if self._explain:
            minimum = least_similarity(self._threshold, namespace.metric)
            below = there.where(there.similarities < minimum)
            left_out += zip(below.facts, below.similarities.tolist(), repeat(BELOW_THRESHOLD))
            left_out = sorted(left_out, key=lambda about: (-about[1], about[0][0]))[:EXPLAINED_MAX]
        return self._answer(ctx, Recalled(namespace, told, left_out, recalled.query, scores))


class Candidates:
    """Facts with what ranks them: ids that ascend, similarities to the vector, and scores by words."""

    __slots__ = ("facts", "ids", "scores", "similarities")

    def __init__(
        self, ids: fuse.Integers, facts: Sequence[Fact | None], similarities: fuse.Floats, scores: fuse.Floats
    ) -> None:
        """Without those whose fact is None."""
        there = np.array([fact is not None for fact in facts], np.bool_)
        self.facts = [fact for fact in facts if fact is not None]
        self.ids, self.similarities, self.scores = ids[there], similarities[there], scores[there]

    def where(self, chosen: NDArray[np.bool_]) -> Candidates:
        """Those of them that are chosen."""
        if chosen.all():
            return self
        facts = [self.facts[place] for place in np.flatnonzero(chosen).tolist()]
        return Candidates(self.ids[chosen], facts, self.similarities[chosen], self.scores[chosen])


def facts_by_words(
    ctx: Context,
    feed: FactFeed,
    text: bytes,
    recalled: Recalled,
    found: TextFound,
    count: int,
    filter: Filter | None = None,
) -> Generator[None, None, Candidates]:
    """The facts that were found by vector with the best `count` by words, by fact id.

    What is gone or dead by the end is not among them.
    """
    namespace, query = recalled.namespace, recalled.query
    assert namespace is not None
    assert query is not None
    hits = yield from best_texts(feed, text, found, count, _texts(ctx, feed, filter, {}))
    raised = {fact_id: score for score, fact_id in hits}
    near = {fact[0]: similarity for fact, similarity in recalled.facts}
    for fact_id in raised:
        if fact_id not in near and feed.fact(fact_id, ctx.now_ms) is not None:
            near[fact_id] = similarity_of(namespace, fact_id, query)
            yield
    ids = np.sort(np.fromiter(near, np.int64, len(near)))
    scores = found.scores_of(ids)
    similarities = np.empty(len(ids))
    facts: list[Fact | None] = []
    for begin in range(0, len(ids), FACTS_AT_ONCE):
        if begin:
            yield
        some = ids[begin : begin + FACTS_AT_ONCE].tolist()
        facts += [feed.fact(fact_id, ctx.now_ms) for fact_id in some]
        for place, fact_id in enumerate(some, begin):
            similarities[place] = near[fact_id]
            scores[place] = raised.get(fact_id, scores[place])
    if len(ids) > FACTS_AT_ONCE:  # others were served
        facts = [fact and feed.fact(fact[0], ctx.now_ms) for fact in facts]
    return Candidates(ids, facts, similarities, scores)


def similarity_of(namespace: Namespace, fact_id: int, query: Query) -> float:
    """The similarity of one fact to a query, the same as a search gives."""
    vector = namespace.index.vector(fact_id).astype(np.float64)
    keys = exact_keys(vector[np.newaxis], np.array([sum_of_squares(vector)]), query)
    return float(similarities(keys, namespace.metric)[0])


def _texts(
    ctx: Context, feed: FactFeed, filter: Filter | None, rejected: dict[int, bytes]
) -> Callable[[int], bytes | None]:
    """The content of a fact that may be found; why others may not is noted in `rejected`, of the first few."""
    verdicts: dict[int, bool] = {}

    def text_of(fact_id: int) -> bytes | None:
        fact = feed.fact(fact_id, 0)
        if fact is None:
            return None
        reason = b""
        if 0 < fact[3] <= ctx.now_ms:
            reason = EXPIRED
        elif filter is not None:
            if fact_id not in verdicts:
                verdicts[fact_id] = filter.passes(fact)
            reason = b"" if verdicts[fact_id] else FILTERED
        if not reason:
            return fact[2]
        if len(rejected) < EXPLAINED_MAX:
            rejected[fact_id] = reason
        return None

    return text_of


def _with_facts(ctx: Context, feed: FactFeed, hits: list[Hit]) -> list[tuple[Fact, float]]:
    return [(fact, score) for score, fact_id in hits if (fact := feed.fact(fact_id, ctx.now_ms)) is not None]
