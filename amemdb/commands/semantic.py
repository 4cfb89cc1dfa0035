"""AMEM.SEM: facts with an embedding, per agent."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from amemdb.commands.context import Context, Sliced
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
from amemdb.commands.embedding import embedded, embedder_for, require_room_for
from amemdb.commands.filters import parse
from amemdb.commands.hybrid import Fusion, WordRecall
from amemdb.commands.recall import Answer, Recall, Recalled, check_model, returned
from amemdb.commands.recalled import FOUND, PROVENANCE, RECALLED, SCORES, Items, provenance
from amemdb.commands.scanning import SCAN, page
from amemdb.commands.vectors import is_long, read_off_loop, rounded_to_16, vector_of
from amemdb.errors import CommandError, printable
from amemdb.index.exact import FLOAT16, QUANTS
from amemdb.index.similarity import METRICS
from amemdb.limits import (
    DIMENSION_MAX,
    FACTS_MAX,
    FILTER_BYTES_MAX,
    GRAPH_LINKS_MAX,
    GRAPH_LINKS_MIN,
    GRAPH_WIDTH_MAX,
    LANGUAGE_BYTES_MAX,
    META_BYTES_MAX,
    NAME_BYTES_MAX,
    NO_EXPIRY,
    RECALL_K_MAX,
    WORDS_BYTES_MAX,
)
from amemdb.protocol.reply import BULK, COMPONENT, INTEGER, NAMES, OK, SCAN_PAGE, ArrayOf, Elements, Labelled
from amemdb.stores import records
from amemdb.stores.last_use import TOUCHES_BYTES_MAX
from amemdb.stores.semantic import DEFAULTS, Fact, Settings

FAMILY = "amem-sem"
AGENT = Name("agent")
KEY = Name("key", entry=True)
K = Integer("k", 0, RECALL_K_MAX)
TOKENS = Vector("tokens")

EVICTION_BYTES_MAX = TOUCHES_BYTES_MAX + 4 * NAME_BYTES_MAX + 64
"""What the records take that make room for a fact."""
FACTS_AT_ONCE = 256
"""Facts of an answer that are put in words at once; more are in slices."""
KEYS_AT_ONCE = 512
"""Keys that are looked at at once; more are looked at in slices."""

FACT = Labelled(key=BULK, content=BULK, **PROVENANCE, vector=ArrayOf(COMPONENT))
INFO = Labelled(
    dim=INTEGER,
    metric=BULK,
    facts=INTEGER,
    index=BULK,
    tombstones=INTEGER,
    bytes=INTEGER,
    m=INTEGER,
    ef_construction=INTEGER,
    ef_search=INTEGER,
    quant=BULK,
    maxfacts=INTEGER,
    model=BULK,
    lang=BULK,
    tail=INTEGER,
    graphs=INTEGER,
    merged=INTEGER,
    merging=INTEGER,
)
MODEL = Option("MODEL", Bytes("model", 1, NAME_BYTES_MAX))


def memory_not_found() -> CommandError:
    """What a command answers that needs an agent's semantic memory and finds none."""
    return CommandError("semantic memory not found")


@command(
    "AMEM.SEM.CREATE",
    AGENT,
    Integer("dim", 1, DIMENSION_MAX),
    Option("METRIC", Choice("metric", tuple(metric.decode() for metric in METRICS))),
    Option("M", Integer("m", GRAPH_LINKS_MIN, GRAPH_LINKS_MAX)),
    Option("EF_CONSTRUCTION", Integer("ef_construction", 1, GRAPH_WIDTH_MAX)),
    Option("EF_SEARCH", Integer("ef_search", 1, GRAPH_WIDTH_MAX)),
    Option("QUANT", Choice("quant", tuple(quant.decode() for quant in QUANTS))),
    Option("MAXFACTS", Integer("maxfacts", 1, FACTS_MAX)),
    MODEL,
    Option("LANG", Bytes("lang", 1, LANGUAGE_BYTES_MAX)),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Open an agent's semantic memory for vectors of one dimension.",
)
def sem_create(
    ctx: Context,
    agent: bytes,
    dim: int,
    metric: bytes | None,
    m: int | None,
    ef_construction: int | None,
    ef_search: int | None,
    quant: bytes | None,
    maxfacts: int | None,
    model: bytes | None,
    lang: bytes | None,
) -> None:
    """Again with the same settings is OK and changes nothing; what is not given fits any, other ones are refused."""
    if lang is not None:
        lang = _language(lang)
    given = (m, ef_construction, ef_search, quant, maxfacts, model, lang)
    namespace = ctx.stores.sem.namespaces.get(agent)
    if namespace is None:
        settings = [default if value is None else value for value, default in zip(given, DEFAULTS, strict=True)]
        ctx.emit((records.NAMESPACE_CREATED, agent, dim, metric or METRICS[0], ctx.now_ms, 1, *settings))
        return
    has: dict[str, Any] = {"dim": namespace.dim, "metric": namespace.metric}
    asked: dict[str, Any] = {"dim": dim, "metric": namespace.metric if metric is None else metric}
    for name, value, there in zip(Settings._fields, given, namespace.settings, strict=True):
        if value is not None and value != there:
            has[name], asked[name] = there, value
    if has != asked:
        raise CommandError(f"semantic memory already exists with {_told(has)}; asked for {_told(asked)}")


def _told(settings: dict[str, Any]) -> str:
    """Settings in words, for a refusal."""
    texts = [printable(value) if isinstance(value, bytes) else value or "none" for value in settings.values()]
    return ", ".join(f"{name} {text}" for name, text in zip(settings, texts, strict=True))


def _language(code: bytes) -> bytes:
    """The code of a language in lower case."""
    if not code.replace(b"-", b"").isalnum():
        raise CommandError(f"lang must be a code such as en or zh-hant, got '{printable(code)}'")
    return code.lower()


@command(
    "AMEM.SEM.STORE",
    AGENT,
    KEY,
    Bytes("content"),
    Vector("tokens", instead="EMBED"),
    Expiry(),
    Option("SOURCE", Bytes("source", 0, META_BYTES_MAX)),
    Option("TRUST", Choice("trust", ("trusted", "untrusted"))),
    Option("META", Json("meta")),
    MODEL,
    Option("EMBED", flag="embed"),
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
    model: bytes | None,
    embed: bool = False,
) -> Any:
    """What is not given is absent afterwards, whatever the fact had before. MODEL must be that of the memory.

    EMBED: the server makes the vector. The first MODEL, or EMBED, gives a memory without a model its own.
    """
    namespace = ctx.stores.sem.namespaces.get(agent)
    if namespace is None:
        raise memory_not_found()
    if embed:
        embedder = embedder_for(ctx, "EMBED", tokens, model)
        made_by = embedder.model

        def store(ctx: Context, vector: bytes) -> Any:
            require_room_for(ctx, vector, made_by)
            return sem_store(ctx, agent, key, content, vector, expire_at_ms, source, trust, meta, made_by)

        return embedded(ctx, embedder, agent, content, "content", store)
    check_model(namespace, model)
    read = partial(vector_of, tokens, namespace.dim, namespace.metric)
    if is_long(tokens):
        given = (expire_at_ms, source, trust, meta, model)
        return read_off_loop(read, lambda ctx, vector: sem_store(ctx, agent, key, content, vector, *given))
    vector = read()
    if namespace.settings.quant == FLOAT16:
        vector = rounded_to_16(vector, namespace.metric)
    evictions = namespace.evictions(key, ctx.now_ms)
    if evictions:
        ctx.require_room(EVICTION_BYTES_MAX)
        ctx.emit_all(evictions)
    if model is not None and namespace.settings.model is None:
        ctx.emit((records.NAMESPACE_MODEL_SET, agent, model))
    trusted = None if trust is None else int(trust == b"trusted")
    rest = (expire_at_ms or NO_EXPIRY, source, trusted, meta, ctx.now_ms)
    ctx.emit((records.FACT_STORED, agent, key, namespace.next_fact_id, content, vector, *rest))
    return None


@command(
    "AMEM.SEM.RECALL",
    AGENT,
    K,
    Vector("tokens", instead="TEXT"),
    Option("THRESHOLD", Float("threshold")),
    Option("HYBRID", Bytes("hybrid", 0, WORDS_BYTES_MAX)),
    Option("FILTER", Bytes("filter", 1, FILTER_BYTES_MAX)),
    Option("EF", Integer("ef", 1, GRAPH_WIDTH_MAX)),
    Option("WITHMETA", flag="with_meta"),
    Option("EXPLAIN", flag="explain"),
    MODEL,
    Option("TEXT", Bytes("text")),
    access="read",
    reply=RECALLED,
    family=FAMILY,
    summary="The k facts most similar to a vector, best first.",
    cost="O(n d) in the facts and the dimension",
    flags=("native",),
)
def sem_recall(
    ctx: Context,
    agent: bytes,
    k: int,
    tokens: list[bytes] | bytes,
    threshold: float | None,
    hybrid: bytes | None,
    filter: bytes | None,
    ef: int | None,
    with_meta: bool,
    explain: bool,
    model: bytes | None,
    text: bytes | None,
) -> Any:
    """Never a dead fact, and fewer than k only when no more live ones pass. An unknown agent has none.

    Of up to some thousand facts exact. Of more, a graph finds at least 98 of 100 of the nearest; similarities and their
    order are exact. EF: how many candidates the graph keeps in sight; the memory knows what is enough.

    TEXT: the server makes the vector, or, without an embedder, finds the facts that hold these words. HYBRID: facts
    that hold these words are found as well, and ranked by both; items add `lexical` and `score`.
    EXPLAIN adds the facts that were left out though more similar, and why: see [filters](memory/recall.md).
    """
    labels = (
        *FOUND,
        *(SCORES if hybrid is not None else ()),
        *(PROVENANCE if with_meta else ()),
        *(("left_out",) if explain else ()),
    )

    def answer(ctx: Context, found: Recalled) -> Any:
        returned(ctx, found)
        if len(found.facts) > FACTS_AT_ONCE:
            return Sliced(in_steps(found))
        return Items(labels, items(found, 0, FACTS_AT_ONCE) + left_out(found))

    def in_steps(found: Recalled) -> Generator[None, None, Items]:
        told: list[tuple[Any, ...]] = []
        for begin in range(0, len(found.facts), FACTS_AT_ONCE):
            told += items(found, begin, begin + FACTS_AT_ONCE)
            yield
        return Items(labels, told + left_out(found))

    def items(found: Recalled, begin: int, end: int) -> list[tuple[Any, ...]]:
        if len(labels) == len(FOUND):
            return [(fact[1], fact[2], similarity) for fact, similarity in found.facts[begin:end]]
        return [item(found, fact, similarity, None) for fact, similarity in found.facts[begin:end]]

    def left_out(found: Recalled) -> list[tuple[Any, ...]]:
        return [item(found, *about) for about in found.left_out]

    def item(found: Recalled, fact: Fact, similarity: float, left_out: bytes | None) -> tuple[Any, ...]:
        scores = found.scores.get(fact[0], (None, None)) if hybrid is not None else ()
        more = (*scores, *(provenance(fact) if with_meta else ()), *((left_out,) if explain else ()))
        return (fact[1], fact[2], similarity, *more)

    where = None if filter is None else parse(filter)
    if text is not None and not tokens and ctx.server.embedder is None:
        return WordRecall(agent, k, text, threshold, answer, where, explain).begin(ctx)
    by_vector: Answer = answer
    if hybrid is not None:
        fusion = Fusion(agent, k, hybrid, threshold, answer, where, explain)
        k, threshold, by_vector = fusion.pool, None, fusion.facts_found
    if text is not None:
        embedder = embedder_for(ctx, "TEXT", tokens, model)
        recall = Recall(agent, k, tokens, threshold, by_vector, where, explain, embedder.model, ef or 0)
        if recall.is_empty(ctx):
            return answer(ctx, Recalled())
        return embedded(ctx, embedder, agent, text, "text", recall.begin_with)
    return Recall(agent, k, tokens, threshold, by_vector, where, explain, model, ef or 0).begin(ctx)


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
    ctx.stores.sem.touch(namespace, (fact,), ctx.now_ms)
    found = (fact[1], fact[2], *provenance(fact))
    if not with_vector:
        return found
    return (*found, [float(text) for text in namespace.vector(fact).astype("U")])


@command(
    "AMEM.SEM.INFO",
    AGENT,
    access="read",
    reply=INFO,
    family=FAMILY,
    summary="Size and settings of an agent's semantic memory.",
    cost="O(n) in the facts",
)
def sem_info(ctx: Context, agent: bytes) -> tuple[Any, ...]:
    """What CREATE was not given is 0 or nil.

    `index` is exact or hnsw, which leaves `tombstones` and looks at a `tail` of facts that are in none of its graphs
    yet. `merged` of the `merging` facts are in graphs that are being made.
    """
    namespace = ctx.stores.sem.namespaces.get(agent)
    if namespace is None:
        raise memory_not_found()
    facts = namespace.live_count(ctx.now_ms)
    kind, tombstones, *graphs = namespace.index.state()
    size = (namespace.dim, namespace.metric, facts, kind, tombstones, namespace.content_bytes())
    return (*size, *namespace.settings, *graphs)


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
