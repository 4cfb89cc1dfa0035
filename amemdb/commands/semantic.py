"""AMEM.SEM: facts with an embedding, per agent."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from amemdb.commands.context import Context, Deferred, Sliced
from amemdb.commands.declare import (
    Bytes,
    Choice,
    Expiry,
    Float,
    Integer,
    Json,
    Name,
    Option,
    Vector,
    command,
)
from amemdb.commands.scanning import SCAN, page
from amemdb.commands.vectors import any_vector, components, is_long, read_off_loop, vector_of
from amemdb.errors import CommandError
from amemdb.index.exact import SLACK
from amemdb.index.similarity import METRICS, Query, least_similarity
from amemdb.limits import DIMENSION_MAX, META_BYTES_MAX, NO_EXPIRY, RECALL_K_MAX
from amemdb.protocol.reply import BULK, COMPONENT, DOUBLE, INTEGER, NAMES, OK, SCAN_PAGE, ArrayOf, Elements, Labelled
from amemdb.stores import records
from amemdb.stores.semantic import Fact, Namespace

FAMILY = "amem-sem"
AGENT = Name("agent")
KEY = Name("key", entry=True)
K = Integer("k", 0, RECALL_K_MAX)
TOKENS = Vector("tokens")

KEYS_AT_ONCE = 512
"""Keys that are looked at at once; more are looked at in slices."""
INLINE_FLOATS_MAX = 500_000
"""A search that reads more than this (a few hundred microseconds' worth) leaves the event loop."""

_PROVENANCE = {"source": BULK, "trust": BULK, "meta": BULK, "stored_at": INTEGER, "expires_at": INTEGER}
RECALLED = ArrayOf(Labelled(key=BULK, content=BULK, similarity=DOUBLE, **_PROVENANCE))
FACT = Labelled(key=BULK, content=BULK, **_PROVENANCE, vector=ArrayOf(COMPONENT))

Recalled = list[tuple[Fact, float]]
"""Facts and their similarities, the most similar first."""


def memory_not_found() -> CommandError:
    """What a command answers that needs an agent's semantic memory and finds none."""
    return CommandError("semantic memory not found")


@command(
    "AMEM.SEM.CREATE",
    AGENT,
    Integer("dim", 1, DIMENSION_MAX),
    Option("METRIC", Choice("metric", tuple(metric.decode() for metric in METRICS))),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Open an agent's semantic memory for vectors of one dimension.",
)
def sem_create(ctx: Context, agent: bytes, dim: int, metric: bytes | None) -> None:
    """Again with the same dimension and metric is OK and changes nothing; a metric that is not given fits any."""
    namespace = ctx.stores.sem.namespaces.get(agent)
    if namespace is None:
        ctx.emit((records.NAMESPACE_CREATED, agent, dim, metric or METRICS[0], ctx.now_ms, 1))
        return
    asked = namespace.metric if metric is None else metric
    if (dim, asked) != (namespace.dim, namespace.metric):
        raise CommandError(
            f"semantic memory already exists with dim {namespace.dim}, metric {namespace.metric.decode()}; "
            f"asked for dim {dim}, metric {asked.decode()}"
        )


@command(
    "AMEM.SEM.STORE",
    AGENT,
    KEY,
    Bytes("content"),
    TOKENS,
    Expiry(),
    Option("SOURCE", Bytes("source", 0, META_BYTES_MAX)),
    Option("TRUST", Choice("trust", ("trusted", "untrusted"))),
    Option("META", Json("meta")),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Store a fact with its vector; one of that key is replaced whole.",
    cost="O(d) in the dimension",
)
def sem_store(
    ctx: Context,
    agent: bytes,
    key: bytes,
    content: bytes,
    tokens: list[bytes] | bytes,
    expire_at_ms: int | None,
    source: bytes | None,
    trust: bytes | None,
    meta: bytes | None,
) -> Any:
    """What is not given is absent afterwards, whatever the fact had before."""
    namespace = ctx.stores.sem.namespaces.get(agent)
    if namespace is None:
        raise memory_not_found()
    read = partial(vector_of, tokens, namespace.dim, namespace.metric)
    if is_long(tokens):
        given = (expire_at_ms, source, trust, meta)
        return read_off_loop(read, lambda ctx, vector: sem_store(ctx, agent, key, content, vector, *given))
    vector = read()
    trusted = None if trust is None else int(trust == b"trusted")
    rest = (expire_at_ms or NO_EXPIRY, source, trusted, meta, ctx.now_ms)
    ctx.emit((records.FACT_STORED, agent, key, namespace.next_fact_id, content, vector, *rest))
    return None


@command(
    "AMEM.SEM.RECALL",
    AGENT,
    K,
    TOKENS,
    Option("THRESHOLD", Float("threshold")),
    Option("WITHMETA", flag="with_meta"),
    access="read",
    reply=RECALLED,
    family=FAMILY,
    summary="The k facts most similar to a vector, best first.",
    cost="O(n d) in the facts and the dimension",
)
def sem_recall(
    ctx: Context,
    agent: bytes,
    k: int,
    tokens: list[bytes] | bytes,
    threshold: float | None,
    with_meta: bool,
) -> Any:
    """Exact; never a dead fact, and fewer than k only when no more live ones pass. An unknown agent has none."""

    def answer(found: Recalled) -> list[tuple[Any, ...]]:
        if not with_meta:
            return [(fact[1], fact[2], similarity) for fact, similarity in found]
        return [(fact[1], fact[2], similarity, *_provenance(fact)) for fact, similarity in found]

    return Recall(agent, k, tokens, threshold, answer).begin(ctx)


@command(
    "AMEM.SEM.FORGET",
    AGENT,
    KEY,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Remove a fact: content, vector and index entry.",
    cost="O(d) in the dimension",
    flags=("frees",),
)
def sem_forget(ctx: Context, agent: bytes, key: bytes) -> int:
    """1 when the fact existed."""
    namespace = ctx.stores.sem.namespaces.get(agent)
    if namespace is None or key not in namespace.facts:
        return 0
    lived = namespace.live(key, ctx.now_ms) is not None
    ctx.emit((records.FACT_FORGOTTEN, agent, key))
    return int(lived)


@command(
    "AMEM.SEM.LIST",
    AGENT,
    access="read",
    reply=NAMES,
    family=FAMILY,
    summary="The keys of an agent's facts, in the order in which they were last written.",
    cost="O(n) in the facts",
)
def sem_list(ctx: Context, agent: bytes) -> Sliced:
    """An unknown agent has none. Others are served while a long list is made: a fact that stays is in it, once."""
    return Sliced(_live_keys(ctx, agent))


def _live_keys(ctx: Context, agent: bytes) -> Generator[None, None, Elements]:
    """The keys that there are, then step by step those of them that are still alive."""
    namespace = ctx.stores.sem.namespaces.get(agent)
    keys = [] if namespace is None else list(namespace.facts)
    live = Elements(BULK)
    for begin in range(0, len(keys), KEYS_AT_ONCE):
        if begin:
            yield
        namespace = ctx.stores.sem.namespaces.get(agent)
        if namespace is not None:
            live.add(namespace.live_among(keys[begin : begin + KEYS_AT_ONCE], ctx.now_ms))
    return live


@command(
    "AMEM.SEM.GET",
    AGENT,
    KEY,
    Option("WITHVECTOR", flag="with_vector"),
    access="read",
    reply=FACT,
    family=FAMILY,
    summary="One fact by its key.",
    cost="O(1), O(d) with its vector",
)
def sem_get(ctx: Context, agent: bytes, key: bytes, with_vector: bool) -> tuple[Any, ...] | None:
    """The components are the shortest decimals that read back as the same float32."""
    namespace = ctx.stores.sem.namespaces.get(agent)
    fact = None if namespace is None else namespace.live(key, ctx.now_ms)
    if namespace is None or fact is None:
        return None
    found = (fact[1], fact[2], *_provenance(fact))
    if not with_vector:
        return found
    return (*found, [float(text) for text in namespace.vector(fact).astype("U")])


@command(
    "AMEM.SEM.INFO",
    AGENT,
    access="read",
    reply=Labelled(dim=INTEGER, metric=BULK, facts=INTEGER, index=BULK, tombstones=INTEGER, bytes=INTEGER),
    family=FAMILY,
    summary="Size and settings of an agent's semantic memory.",
    cost="O(n) in the facts",
)
def sem_info(ctx: Context, agent: bytes) -> tuple[Any, ...]:
    """The exact index leaves no tombstones."""
    namespace = ctx.stores.sem.namespaces.get(agent)
    if namespace is None:
        raise memory_not_found()
    facts = namespace.live_count(ctx.now_ms)
    return (namespace.dim, namespace.metric, facts, namespace.index.kind, 0, namespace.content_bytes())


@command(
    "AMEM.SEM.DROP",
    AGENT,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="End an agent's semantic memory with all its facts.",
    cost="O(n) in the facts",
    flags=("frees",),
)
def sem_drop(ctx: Context, agent: bytes) -> int:
    """1 when there was one."""
    if agent not in ctx.stores.sem.namespaces:
        return 0
    ctx.emit((records.NAMESPACE_DROPPED, agent))
    return 1


@command(
    "AMEM.SEM.SCAN",
    *SCAN,
    access="read",
    reply=SCAN_PAGE,
    family=FAMILY,
    summary="The names of agents with a semantic memory, page by page.",
    cost="O(n) in the page",
)
def sem_scan(ctx: Context, cursor: int, pattern: bytes | None, count: int | None) -> Sliced:
    """At most COUNT names a page; one that stays throughout is returned."""
    return page(lambda: ctx.stores.sem.names, cursor, pattern, count)


# -- recall, shared with AMEM.SEARCH -----------------------------------------------------------------


class Recall:
    """The facts nearest to a vector, as `answer` puts them: `begin` gives that, or for a long search a `Deferred`."""

    __slots__ = ("_agent", "_answer", "_k", "_threshold", "_tokens")

    def __init__(
        self,
        agent: bytes,
        k: int,
        tokens: list[bytes] | bytes,
        threshold: float | None,
        answer: Callable[[Recalled], Any],
    ) -> None:
        self._agent = agent
        self._k = k
        self._tokens = tokens
        self._threshold = threshold
        self._answer = answer

    def begin(self, ctx: Context) -> Any:
        """Check everything, then search. An unknown agent has no facts, yet a malformed vector is refused."""
        namespace = ctx.stores.sem.namespaces.get(self._agent)
        read = partial(any_vector, self._tokens)
        if namespace is not None:
            read = partial(vector_of, self._tokens, namespace.dim, namespace.metric)
        if is_long(self._tokens):
            return read_off_loop(read, self._begin_with)
        vector = read()
        if namespace is None or self._k == 0 or not namespace.facts:
            return self._answer([])
        return self._search(ctx, namespace, Query(namespace.metric, components(vector)), SLACK)

    def _begin_with(self, ctx: Context, vector: bytes) -> Any:
        self._tokens = vector
        return self.begin(ctx)

    def _search(self, ctx: Context, namespace: Namespace, query: Query, slack: int) -> Any:
        minimum = least_similarity(self._threshold, namespace.metric)
        search = namespace.index.search(query, self._k, minimum, ctx.now_ms, slack)

        def finish(ctx: Context, found: Any) -> Any:
            if ctx.stores.sem.namespaces.get(self._agent) is not namespace:  # dropped meanwhile, perhaps made anew
                return self.begin(ctx)
            hits = namespace.index.settle(search, found, ctx.now_ms)
            if hits is None:
                return self._search(ctx, namespace, query, slack * 4)
            return self._answer([(namespace.fact(fact_id), similarity) for similarity, fact_id in hits])

        if search.cost_floats <= INLINE_FLOATS_MAX:
            return finish(ctx, search.work())
        return Deferred(search.work, finish)


def _provenance(fact: Fact) -> tuple[Any, ...]:
    _, _, _, expire_at_ms, source, trusted, meta, stored_at_ms = fact
    trust = None if trusted is None else b"trusted" if trusted else b"untrusted"
    return source, trust, meta, stored_at_ms, expire_at_ms or -1
