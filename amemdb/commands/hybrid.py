"""Recall of facts by words, and by words and vectors together: TEXT without an embedder, and HYBRID.

Both give `Recalled`, as a recall by vectors does. By words alone, the similarity of a fact is its score as a part of
that of a full match, at most 1. Together, similarities stay those of the vectors, THRESHOLD is about them, and the
score that orders the answer is that of `amemdb.index.text.fuse`. What the vectors proposed is looked up by words and
what the words proposed by its vector, so that no candidate lacks either.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

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

        return search_words(feed, self._text, self.k, then, ctx)

    def _finish(
        self, ctx: Context, namespace: Namespace, feed: FactFeed, found: TextFound
    ) -> Generator[None, None, Any]:
        rejected: dict[int, bytes] = {}
        text_of = _texts(ctx, feed, self._filter, rejected)
        hits = yield from best_texts(feed, self._text, found, self.k, text_of)
        if ctx.stores.sem.namespaces.get(self._agent) is not namespace:  # dropped meanwhile, perhaps made anew
            return self.begin(ctx)
        full = found.full
        scored = [(fact, min(1.0, score / full)) for fact, score in _with_facts(ctx, feed, hits)][: self.k]
        if len(scored) < min(self.k, len(hits)):  # more have gone meanwhile than there were to spare
            return self.begin(ctx)
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

        return search_words(feed, self._text, self.pool, then, ctx)

    def _finish(
        self, ctx: Context, namespace: Namespace, feed: FactFeed, recalled: Recalled, found: TextFound
    ) -> Generator[None, None, Any]:
        there = yield from facts_by_words(ctx, feed, self._text, recalled, found, self.pool, self._filter)
        if ctx.stores.sem.namespaces.get(self._agent) is not namespace:  # dropped meanwhile: nothing of it is there
            return self._answer(ctx, Recalled())
        minimum = least_similarity(self._threshold, namespace.metric)
        near = [about for about in there if about[1] >= minimum]
        vectors = np.array([similarity for _, similarity, _ in near])
        lexical = np.array([score for _, _, score in near])
        joint = fuse.fused(lexical, found.full, vectors)
        ids = np.array([fact[0] for fact, _, _ in near], np.int64)
        places = fuse.order(joint, [lexical, vectors], ids, self._k)
        told = [near[place][:2] for place in places]
        scores = {int(ids[place]): (float(lexical[place]), float(joint[place])) for place in places}
        left_out = [about for about in recalled.left_out if about[0][0] not in scores]
        if self._explain:
            left_out += [(fact, similarity, BELOW_THRESHOLD) for fact, similarity, _ in there if similarity < minimum]
            left_out = sorted(left_out, key=lambda about: (-about[1], about[0][0]))[:EXPLAINED_MAX]
        return self._answer(ctx, Recalled(namespace, told, left_out, recalled.query, scores))


def facts_by_words(
    ctx: Context,
    feed: FactFeed,
    text: bytes,
    recalled: Recalled,
    found: TextFound,
    count: int,
    filter: Filter | None = None,
) -> Generator[None, None, list[tuple[Fact, float, float]]]:
    """The facts that were found by vector with the best `count` by words: similarity and score of each, by fact id.

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
    ids = sorted(near)
    scores = found.scores_of(np.array(ids, np.int64)).tolist()
    there: list[tuple[Fact, float, float]] = []
    for fact_id, score in zip(ids, scores, strict=True):
        fact = feed.fact(fact_id, ctx.now_ms)
        if fact is not None:
            there.append((fact, near[fact_id], raised.get(fact_id, score)))
    return there


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
