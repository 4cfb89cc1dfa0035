"""MEMORY: what an object takes of the memory, and what all takes.

Plain keys and AMEM objects do not share their names, so a word says of which kind the object is that is meant:
`MEMORY USAGE name SESSION` for a conversation with its notes, `NAMESPACE` for an agent's facts, `EVENTS`, `SUMMARY`;
without a word a plain key. What each takes is known to its store; the sum is `amemdb.engine.memory`'s.
"""

from __future__ import annotations

from typing import Any

from amemdb.commands.context import Context
from amemdb.commands.declare import Integer, Key, Option, command
from amemdb.protocol.reply import DOUBLE, INTEGER, NULL_BULK, SIMPLE, ArrayOf, Labelled, Shape
from amemdb.stores import conversation, episodic, keyspace, summary
from amemdb.stores.memory import TABLE_BYTES

FAMILY = "server"
STORE = Labelled(objects=INTEGER, bytes=INTEGER)
STATS = Labelled(
    **{
        "peak.allocated": INTEGER,
        "total.allocated": INTEGER,
        "startup.allocated": INTEGER,
        "replication.backlog": INTEGER,
        "clients.slaves": INTEGER,
        "clients.normal": INTEGER,
        "aof.buffer": INTEGER,
        "overhead.total": INTEGER,
        "keys.count": INTEGER,
        "keys.bytes-per-key": INTEGER,
        "dataset.bytes": INTEGER,
        "dataset.percentage": DOUBLE,
        "peak.percentage": DOUBLE,
        "fragmentation": DOUBLE,
        "fragmentation.bytes": INTEGER,
        "dropped.bytes": INTEGER,
        "expiry.bytes": INTEGER,
        "text.bytes": INTEGER,
        "conversation": STORE,
        "working": STORE,
        "semantic": STORE,
        "episodic": STORE,
        "summary": STORE,
        "keyspace": STORE,
    }
)


class _Size(Shape):
    """A number of bytes, or nil."""

    def encode(self, value: int | None, resp3: bool) -> bytes:
        return NULL_BULK[resp3] if value is None else b":%d\r\n" % value

    def describe(self) -> str:
        return "integer or nil"


SIZE = _Size()
HELP = [
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "USAGE <name> [SESSION | NAMESPACE | EVENTS | SUMMARY] [SAMPLES <count>]",
    "    Bytes that a key takes, or a session with its notes, an agent's facts, events or summary. SAMPLES is taken",
    "    and makes no difference: nothing is estimated from samples.",
    "STATS",
    "    What all takes, in bytes: by store, and beside the data.",
    "HELP",
    "    This text.",
]


@command(
    "MEMORY|USAGE",
    Key("name"),
    Option("SAMPLES", Integer("samples", 0)),
    Option("SESSION", group="kind"),
    Option("NAMESPACE", group="kind"),
    Option("EVENTS", group="kind"),
    Option("SUMMARY", group="kind"),
    access="read",
    reply=SIZE,
    family=FAMILY,
    summary="Bytes of memory that a key takes or, with a word that says so, an AMEM object.",
)
def memory_usage(
    ctx: Context, name: bytes, samples: int | None, session: bool, namespace: bool, events: bool, summary: bool
) -> int | None:
    """With the name, what finds it by words, and about its part of the tables.

    Nil for what does not exist, or whose time has passed.
    """
    if session:
        return _session_bytes(ctx, name)
    if namespace:
        facts = ctx.stores.sem.namespaces.get(name)
        return None if facts is None else facts.memory_bytes() + TABLE_BYTES + ctx.stores.texts.namespace_bytes(name)
    if events:
        log = ctx.stores.epis.logs.get(name)
        if log is None:
            return None
        return episodic.held_bytes(name, log) + TABLE_BYTES + ctx.stores.texts.log_bytes(name)
    if summary:
        return _summary_bytes(ctx, name)
    database = ctx.stores.keys.databases[ctx.session.db]
    if ctx.stores.keys.live(ctx.session.db, name, ctx.now_ms) is None:
        return None
    return keyspace.key_bytes(database, name)


def _session_bytes(ctx: Context, name: bytes) -> int | None:
    session = ctx.stores.conv.live(name, ctx.now_ms)
    if session is None:
        return None
    notes = ctx.stores.work.sessions.get(name)
    notes_bytes = 0 if notes is None else notes.memory_bytes() + TABLE_BYTES
    return conversation.held_bytes(session) + TABLE_BYTES + notes_bytes + ctx.stores.texts.session_bytes(name)


def _summary_bytes(ctx: Context, name: bytes) -> int | None:
    found = ctx.stores.summary.summaries.get(name)
    return None if found is None else summary.held_bytes(name, found) + TABLE_BYTES


@command(
    "MEMORY|STATS",
    access="server",
    reply=STATS,
    family=FAMILY,
    summary="Bytes of memory in use: all, by store, and beside the data.",
    cost="O(n) in the connections",
)
def memory_stats(ctx: Context) -> tuple[Any, ...]:
    """`bytes` of a store are those of its objects and of the tables by which they are found.

    `keys.bytes-per-key` has no more of the tables than `MEMORY USAGE` has: some are there before the first key.
    """
    server, stores = ctx.server, ctx.stores
    told = server.memory_report()
    keys = sum(len(database.values) for database in stores.keys.databases)
    counts = {
        "conversation": len(stores.conv.sessions),
        "working": len(stores.work.sessions),
        "semantic": len(stores.sem.namespaces),
        "episodic": len(stores.epis.logs),
        "summary": len(stores.summary.summaries),
        "keyspace": keys,
    }
    values: dict[str, Any] = {
        "peak.allocated": told.peak,
        "total.allocated": told.used,
        "startup.allocated": told.startup,
        "replication.backlog": 0,
        "clients.slaves": 0,
        "clients.normal": told.clients,
        "aof.buffer": told.log,
        "overhead.total": told.overhead,
        "keys.count": keys,
        "keys.bytes-per-key": stores.ledger.keyspace // keys + TABLE_BYTES if keys else 0,
        "dataset.bytes": told.dataset,
        "dataset.percentage": told.dataset_percentage,
        "peak.percentage": 100 * told.used / max(1, told.peak),
        "fragmentation": told.fragmentation,
        "fragmentation.bytes": told.resident - told.used,
        "dropped.bytes": told.dropped,
        "expiry.bytes": told.expiry,
        "text.bytes": told.text,
        **{family: (counts[family], told.families[family]) for family in counts},
    }
    return tuple(values[name] for name in STATS.fields)


@command(
    "MEMORY|HELP",
    access="server",
    reply=ArrayOf(SIMPLE),
    family=FAMILY,
    summary="The subcommands of MEMORY.",
    flags=("loading",),
)
def memory_help(ctx: Context) -> list[str]:
    """Lines of text."""
    return HELP
