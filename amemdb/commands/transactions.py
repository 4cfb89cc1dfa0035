"""MULTI, EXEC, DISCARD, WATCH, UNWATCH, as Redis 8 does them.

Queueing is the engine's: between MULTI and EXEC it checks that a command exists, has the right number of arguments
and may be run, and queues it. A whole transaction is one frame of the log. WATCH is about plain keys.
"""

from __future__ import annotations

from amemdb.commands.context import Context
from amemdb.commands.declare import Key, Rest, command
from amemdb.errors import CommandError
from amemdb.protocol.reply import NULL_ARRAY, OK, RAW

FAMILY = "transaction"
IMMEDIATE = ("no_multi", "noscript", "loading")


@command("MULTI", access="connection", reply=OK, family=FAMILY, summary="Begin a transaction.", flags=IMMEDIATE)
def multi(ctx: Context) -> None:
    """What follows is queued until EXEC or DISCARD."""
    if ctx.session.queue is not None:
        raise CommandError("MULTI calls can not be nested")
    ctx.session.queue = []


@command(
    "EXEC",
    access="connection",
    reply=RAW,
    family=FAMILY,
    summary="Run the queued commands as one.",
    cost="that of the queued commands",
    flags=(*IMMEDIATE, "tells_of_data"),
)
def exec_(ctx: Context) -> bytes:
    """Nil when a watched key was touched; nothing is run when a command could not be queued."""
    session = ctx.session
    queue, broken = session.queue, session.queue_broken
    if queue is None:
        raise CommandError("EXEC without MULTI")
    intact = watches_intact(ctx)
    session.leave_transaction()
    unwatch_all(ctx)
    if broken:
        raise CommandError("Transaction discarded because of previous errors.", "EXECABORT")
    if not intact:
        return NULL_ARRAY[session.resp3]
    return ctx.run_queued(queue)


@command("DISCARD", access="connection", reply=OK, family=FAMILY, summary="Drop the queue.", flags=IMMEDIATE)
def discard(ctx: Context) -> None:
    """Forget the queue and the watches."""
    if ctx.session.queue is None:
        raise CommandError("DISCARD without MULTI")
    ctx.session.leave_transaction()
    unwatch_all(ctx)


@command(
    "WATCH",
    Rest("keys", Key("key")),
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Have the next EXEC fail if one of these keys is touched before it.",
    cost="O(1) a key",
    flags=IMMEDIATE,
)
def watch(ctx: Context, keys: list[bytes]) -> None:
    """A watched key that expires breaks the transaction as well; one that had expired before does not."""
    session = ctx.session
    if session.queue is not None:
        raise CommandError("WATCH inside MULTI is not allowed")
    for key in keys:
        watched = (session.db, key)
        if watched not in session.watched:
            alive = ctx.stores.keys.live(session.db, key, ctx.now_ms) is not None
            session.watched[watched] = (ctx.stores.keys.watch(session.db, key), alive)


@command(
    "UNWATCH",
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Forget every WATCH.",
    flags=("noscript", "loading"),
)
def unwatch(ctx: Context) -> None:
    """Inside MULTI this is queued like any other command."""
    unwatch_all(ctx)


def watches_intact(ctx: Context) -> bool:
    """Whether no watched key was touched and none that lived has run out."""
    keys = ctx.stores.keys
    return all(
        keys.watch_version(db, key) == version and (not alive or keys.live(db, key, ctx.now_ms) is not None)
        for (db, key), (version, alive) in ctx.session.watched.items()
    )


def unwatch_all(ctx: Context) -> None:
    """Give every watch of the session back to the keyspace."""
    for db, key in ctx.session.watched:
        ctx.stores.keys.unwatch(db, key)
    ctx.session.watched.clear()
