"""Finding facts by a vector: the search behind AMEM.SEM.RECALL and AMEM.SEARCH, in line or off the event loop.

What a command answers with what was found is its own: it hands in a function.

How a filter is kept exact and quick
------------------------------------
The index ranks, the filter judges, and both take time in which facts come and go. Facts never change under their id, so
a verdict once made holds for ever; what has to be of one instant is the ranking. So the index is asked again
(`settle`) after every pause, and the answer is given only in a moment in which every fact that matters has its verdict:

1. *In order of rank.* Rank a few times k facts, and judge them from the best on until k pass. Most filters end here.
   If they do not, rank as many as it should take by the share that has passed so far.
2. *All.* Where that would be more than a part of all facts (`WIDEN_SHARE`), judge every one of them, those that
   come meanwhile as well, and search among those that pass.

Judging is done in a thread, some hundred facts at a time, so that neither the event loop nor another search waits
for long; a few facts with little META are judged at once.

An index takes part if it gives hits in the order of their rank for any k, exact ones with `among`; see
`amemdb.index.exact`. It may be one whose ranking is not exact: then what passes among the hits is as good as they are.

EXPLAIN ranks once more, all facts as if none had expired and nothing were asked of them. What stands there before the
last fact of the answer, and is not in the answer, was left out for a reason; if the answer has fewer than k facts, all
others were. Both rankings are settled in the same moment, so they tell of the same facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from amemdb.commands.context import Context, Deferred
from amemdb.commands.filters import Filter
from amemdb.commands.vectors import FLOAT_BYTES, any_vector, components, is_long, read_off_loop, vector_of
from amemdb.errors import CommandError, printable
from amemdb.index.exact import SLACK
from amemdb.index.few import Hit, Integers
from amemdb.index.similarity import Query, least_similarity
from amemdb.limits import EXPLAINED_MAX
from amemdb.stores.semantic import Fact, Namespace

INLINE_FLOATS_MAX = 2_500_000
"""A search that takes more than reading so many floats, some 300 microseconds, leaves the event loop. To go to a thread
and come back takes 100, and more while others run; a graph is asked in 100 to 300, thousands of facts in 300."""
AT_ONCE_FLOATS_MAX = 4_500_000
"""The same for a search in one moment, which does less beside reading: about a millisecond."""
INLINE_FACTS_MAX = 64
INLINE_META_BYTES_MAX = 16 * 1024
"""So many facts with so much META are judged on the event loop: a tenth of a millisecond, usually."""
BATCH_FACTS_MAX = 1024
BATCH_META_BYTES_MAX = 256 * 1024
"""What is judged in a thread at a time: a few milliseconds, then others have their turn there."""
RANKED_SPARE = 48
RANKED_FACTOR = 4
"""With a filter, so many times k facts and some more are ranked first."""
WIDEN_SHARE = 8
WIDEN_MAX = 2048
"""Ranking is widened up to one in so many facts, and up to so many (or as many times k); then all are judged. To settle
so many takes half a millisecond on the event loop."""

EXPIRED, FILTERED, BELOW_THRESHOLD = b"expired", b"filtered", b"below_threshold"


@dataclass(slots=True)
class Recalled:
    """What was found in `namespace` (None: there is none): facts and their similarities, the most similar first.

    `left_out` is for EXPLAIN: facts, similarities, and why they are not among the others.
    """

    namespace: Namespace | None = None
    facts: list[tuple[Fact, float]] = field(default_factory=list)
    left_out: list[tuple[Fact, float, bytes]] = field(default_factory=list)
    query: Query | None = None
    """What was searched for, where that was a vector."""
    scores: dict[int, tuple[float, float]] = field(default_factory=dict)
    """By fact id, where words were searched as well (`amemdb.commands.hybrid`): by them alone, and both together."""


Answer = Callable[[Context, Recalled], Any]


def check_model(namespace: Namespace, model: bytes | None) -> None:
    """Refuse vectors of another model than that of the namespace, where both are known."""
    known = namespace.settings.model
    if model is not None and known is not None and model != known:
        raise CommandError(f"semantic memory has vectors of model '{printable(known)}', not of '{printable(model)}'")


def returned(ctx: Context, found: Recalled) -> None:
    """Note that these facts were used, the most similar last. To be called by whoever answers with them."""
    if found.namespace is not None:
        ctx.stores.sem.touch(found.namespace, [fact for fact, _ in reversed(found.facts)], ctx.now_ms)


class Recall:
    """The facts nearest to a vector, as `answer` puts them: `begin` gives that, or for a long search a `Deferred`.

    `filter` and `explain` are those of AMEM.SEM.RECALL. With `model`, the vector must be of the namespace's. `width` is
    how wide graphs are searched (EF), 0 for what the namespace has.
    """

    __slots__ = ("_agent", "_model", "_threshold", "_tokens", "answer", "explain", "filter", "k", "width")

    def __init__(
        self,
        agent: bytes,
        k: int,
        tokens: list[bytes] | bytes,
        threshold: float | None,
        answer: Answer,
        filter: Filter | None = None,
        explain: bool = False,
        model: bytes | None = None,
        width: int = 0,
    ) -> None:
        self.k = k
        self.width = width
        self.answer = answer
        self.filter = filter
        self.explain = explain
        self._agent = agent
        self._tokens = tokens
        self._threshold = threshold
        self._model = model

    def begin(self, ctx: Context) -> Any:
        """Check everything, then search. An unknown agent has no facts, yet a malformed vector is refused."""
        namespace = self.namespace(ctx)
        read = partial(any_vector, self._tokens)
        if namespace is not None:
            check_model(namespace, self._model)
            read = partial(vector_of, self._tokens, namespace.dim, namespace.metric)
        if is_long(self._tokens):
            return read_off_loop(read, self.begin_with)
        vector = read()
        if self.is_empty(ctx):
            return self.answer(ctx, Recalled(namespace))
        assert namespace is not None
        minimum = least_similarity(self._threshold, namespace.metric)
        return _Hunt(self, namespace, Query(namespace.metric, components(vector)), minimum).rank(ctx)

    def begin_with(self, ctx: Context, vector: bytes) -> Any:
        """The same with a vector that came later."""
        self._tokens = vector
        return self.begin(ctx)

    def is_empty(self, ctx: Context) -> bool:
        """Whether the answer is empty whatever the vector."""
        namespace = self.namespace(ctx)
        return namespace is None or self.k == 0 or not namespace.facts

    def namespace(self, ctx: Context) -> Namespace | None:
        """That of the agent as it is now."""
        return ctx.stores.sem.namespaces.get(self._agent)


def hits_at_once(namespace: Namespace, k: int, vector: bytes, now_ms: int) -> list[Hit] | None:
    """The hits of a recall without options, in this moment; None where that is not the whole of it.

    So it is where the search is long, the vector is not one of the namespace's, or what is returned has to be noted.
    `k` is at least 1, `vector` whole and finite.
    """
    if namespace.last_use is not None or len(vector) != FLOAT_BYTES * namespace.dim or not namespace.facts:
        return None
    query = Query(namespace.metric, components(vector))
    if not query.norm:
        return None
    return namespace.index.at_once(query, k, now_ms, AT_ONCE_FLOATS_MAX)


class _Ranking:
    """Facts that were ranked, for the answer and for EXPLAIN, and what that was when it was last settled."""

    __slots__ = ("everyone", "found", "generation", "hits", "now_ms", "searches", "slack")

    def __init__(self, searches: list[Any], found: list[Any], slack: int) -> None:
        self.searches = searches
        self.found = found
        self.slack = slack
        self.hits: list[Hit] = []
        self.everyone: list[Hit] = []
        self.generation = -1
        self.now_ms = -1

    def is_settled(self, generation: int, now_ms: int) -> bool:
        """Whether that is still so, but for what has expired since: no fact came or went, and time did not go back."""
        return self.generation == generation and 0 <= self.now_ms <= now_ms

    def settle(self, generation: int, now_ms: int, hits: list[Hit], everyone: list[Hit]) -> None:
        """This is so now."""
        self.generation, self.now_ms, self.hits, self.everyone = generation, now_ms, hits, everyone


class _Hunt:
    """One search in one namespace, from pause to pause."""

    __slots__ = (
        "_batch",
        "_filter",
        "_judged",
        "_judges_all",
        "_k",
        "_minimum",
        "_namespace",
        "_next_id",
        "_passed",
        "_query",
        "_recall",
        "_to_judge",
        "_wanted",
    )

    def __init__(self, recall: Recall, namespace: Namespace, query: Query, minimum: float) -> None:
        self._recall = recall
        self._filter = recall.filter
        self._k = recall.k
        self._namespace = namespace
        self._query = query
        self._minimum = minimum
        self._wanted = self._k if self._filter is None else self._k * RANKED_FACTOR + RANKED_SPARE
        self._batch = INLINE_FACTS_MAX // 2
        self._judged: set[int] = set()
        self._passed: set[int] = set()
        """Ids of facts that were judged in the order of rank, and of all that passed."""
        self._judges_all = False
        """Whether all were judged, and those that passed are searched among."""
        self._to_judge: Integers = np.empty(0, np.int64)
        self._next_id = 0
        """What is left of all while they are judged, and the first id that was not given out then."""

    def _is_overtaken(self, ctx: Context) -> bool:
        """Whether the namespace was dropped meanwhile, and perhaps made anew."""
        return self._recall.namespace(ctx) is not self._namespace

    # -- ranking ---------------------------------------------------------------------------------

    def rank(self, ctx: Context, slack: int = SLACK) -> Any:
        """Rank facts, then answer, or go on."""
        index = self._namespace.index
        among = np.fromiter(self._passed, np.int64, len(self._passed)) if self._judges_all else None
        searches = [
            index.search(self._query, self._wanted, self._minimum, ctx.now_ms, slack, among, self._recall.width)
        ]
        if self._recall.explain:  # at time 0 nothing has expired
            searches.append(index.search(self._query, self._k + EXPLAINED_MAX, -math.inf, 0, slack))

        def work() -> list[Any]:
            return [search.work() for search in searches]

        def finish(ctx: Context, found: list[Any]) -> Any:
            if self._is_overtaken(ctx):
                return self._recall.begin(ctx)
            return self._settle(ctx, _Ranking(searches, found, slack))

        if sum(search.cost_floats for search in searches) <= INLINE_FLOATS_MAX:
            return finish(ctx, work())
        return Deferred(work, finish)

    def _settle(self, ctx: Context, ranking: _Ranking) -> Any:
        """Answer from what was ranked, if that and the verdicts suffice at this moment."""
        if self._judges_all:
            new = self._new_facts()
            if new:
                return self._judge(ctx, new, partial(self._settle, ranking=ranking))
        index = self._namespace.index
        if not ranking.is_settled(index.generation, ctx.now_ms):
            hits = index.settle(ranking.searches[0], ranking.found[0], ctx.now_ms, self._passed.__contains__)
            everyone = index.settle(ranking.searches[1], ranking.found[1], 0) if self._recall.explain else []
            if hits is None or everyone is None:
                return self.rank(ctx, ranking.slack * 4)
            ranking.settle(index.generation, ctx.now_ms, hits, everyone)
        if self._filter is None or self._judges_all:
            return self._told(ctx, ranking, ranking.hits[: self._k])
        passed, unknown = self._sorted_out(ranking.hits)
        if unknown:
            facts = _first_of(self._namespace.facts_of(unknown))
            self._judged.update([fact[0] for fact in facts])
            return self._judge(ctx, facts, partial(self._settle, ranking=ranking))
        if len(passed) == self._k or len(ranking.hits) < self._wanted:
            return self._told(ctx, ranking, passed)
        return self._widen(ctx)

    def _sorted_out(self, hits: list[Hit]) -> tuple[list[Hit], list[int]]:
        """Those of the hits that pass, up to k, and ids of facts to be judged before that is certain."""
        judged, passed_ids = self._judged, self._passed
        passed: list[Hit] = []
        unknown: list[int] = []
        for hit in hits:
            if hit[1] not in judged:
                unknown.append(hit[1])
                if len(unknown) >= max(self._batch, self._k - len(passed)):
                    break
            elif hit[1] in passed_ids:
                passed.append(hit)
                if len(passed) == self._k:
                    break
        return passed, unknown

    def _widen(self, ctx: Context) -> Any:
        """Not enough of those that were ranked pass: rank more of them, or judge all."""
        share = max(len(self._passed), 0.5) / max(len(self._judged), 1)
        wanted = max(2 * self._wanted, math.ceil(1.25 * self._k / share))
        if wanted * WIDEN_SHARE <= len(self._namespace) and wanted <= max(WIDEN_MAX, WIDEN_SHARE * self._k):
            self._wanted = wanted
            return self.rank(ctx)
        self._to_judge = self._namespace.index.ids()
        self._next_id = self._namespace.next_fact_id
        return self._judge_all(ctx)

    def _told(self, ctx: Context, ranking: _Ranking, hits: list[Hit]) -> Any:
        """The answer, unless something of it has expired since the ranking was settled."""
        namespace, now_ms = self._namespace, ctx.now_ms
        facts = [(namespace.fact(fact_id), similarity) for similarity, fact_id in hits]
        if now_ms != ranking.now_ms and any(0 < fact[3] <= now_ms for fact, _ in facts):
            ranking.now_ms = -1
            return self._settle(ctx, ranking)
        left_out = self._left_out(hits, ranking.everyone, now_ms)
        return self._recall.answer(ctx, Recalled(namespace, facts, left_out, self._query))

    def _left_out(self, hits: list[Hit], everyone: list[Hit], now_ms: int) -> list[tuple[Fact, float, bytes]]:
        """The best of those that are not in the answer, and why."""
        answered = {fact_id for _, fact_id in hits}
        last = hits[-1][1] if len(hits) == self._k else None
        found: list[tuple[Fact, float, bytes]] = []
        for similarity, fact_id in everyone:
            if fact_id == last or len(found) == EXPLAINED_MAX:
                break
            if fact_id not in answered:
                fact = self._namespace.fact(fact_id)
                if 0 < fact[3] <= now_ms:
                    found.append((fact, similarity, EXPIRED))
                elif similarity < self._minimum:
                    found.append((fact, similarity, BELOW_THRESHOLD))
                elif self._is_filtered(fact):
                    found.append((fact, similarity, FILTERED))
        return found

    def _is_filtered(self, fact: Fact) -> bool:
        """Whether the filter keeps a fact out. If not, an index that is not exact has overlooked it."""
        if self._filter is None or fact[0] in self._passed:
            return False
        return self._judges_all or fact[0] in self._judged or not self._filter.passes(fact)

    # -- judging ---------------------------------------------------------------------------------

    def _judge(self, ctx: Context, facts: list[Fact], go_on: Callable[[Context], Any]) -> Any:
        """Judge some facts, then go on."""
        assert self._filter is not None
        self._batch = min(2 * self._batch, BATCH_FACTS_MAX)

        def finish(ctx: Context, verdicts: list[bool]) -> Any:
            if self._is_overtaken(ctx):
                return self._recall.begin(ctx)
            self._passed.update([fact[0] for fact, passes in zip(facts, verdicts, strict=True) if passes])
            return go_on(ctx)

        work = partial(self._filter.verdicts, facts)
        if len(facts) <= INLINE_FACTS_MAX and _meta_bytes(facts) <= INLINE_META_BYTES_MAX:
            return finish(ctx, work())
        return Deferred(work, finish)

    def _judge_all(self, ctx: Context) -> Any:
        """Judge what is left of all facts, then search among those that pass."""
        while len(self._to_judge):
            facts = self._next_facts()
            if facts:
                return self._judge(ctx, facts, self._judge_all)
        new = self._new_facts()
        if new:  # those that come once the search has begun are judged when it is settled
            return self._judge(ctx, new, self._judge_all)
        self._judges_all = True
        self._wanted = self._k
        return self.rank(ctx)

    def _next_facts(self) -> list[Fact]:
        """Some of those that are left, which are taken away from what is left."""
        ids = self._to_judge[:BATCH_FACTS_MAX].tolist()
        facts = self._namespace.facts_of([fact_id for fact_id in ids if fact_id not in self._judged])
        some = _first_of(facts)
        taken = ids.index(facts[len(some)][0]) if len(some) < len(facts) else len(ids)
        self._to_judge = self._to_judge[taken:]
        return some

    def _new_facts(self) -> list[Fact]:
        """Some of the facts that came since all were asked for, the first of them; each is given once."""
        some = _first_of(self._namespace.written_since(self._next_id)[::-1])
        if some:
            self._next_id = some[-1][0] + 1
        return some


def _first_of(facts: list[Fact]) -> list[Fact]:
    """As many of them as are judged at a time, at least one."""
    room = BATCH_META_BYTES_MAX
    for count, fact in enumerate(facts):
        room -= len(fact[6] or b"")
        if room < 0 or count == BATCH_FACTS_MAX:
            return facts[: max(count, 1)]
    return facts


def _meta_bytes(facts: list[Fact]) -> int:
    return sum([len(fact[6]) for fact in facts if fact[6] is not None])
