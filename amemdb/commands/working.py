"""AMEM.WORK: notes of a session, gone with it."""

from __future__ import annotations

from amemdb.commands.context import Context
from amemdb.commands.conversation import SESSION, session_not_found
from amemdb.commands.declare import Bytes, Expiry, Name, command
from amemdb.limits import NO_EXPIRY
from amemdb.protocol.reply import BULK, INTEGER, NAMES, OK, MapOf
from amemdb.stores import records

FAMILY = "amem-work"
KEY = Name("key", entry=True)


@command(
    "AMEM.WORK.SET",
    SESSION,
    KEY,
    Bytes("value"),
    Expiry(),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Set a note of a session.",
    flags=("native",),
)
def work_set(ctx: Context, session: bytes, key: bytes, value: bytes, expire_at_ms: int | None) -> None:
    """A note without TTL or PXAT lasts as long as its session."""
    if ctx.stores.conv.live(session, ctx.now_ms) is None:
        raise session_not_found()
    _drop_dead(ctx, session, key)
    ctx.emit((records.NOTE_SET, session, key, value, expire_at_ms or NO_EXPIRY))


@command(
    "AMEM.WORK.GET",
    SESSION,
    KEY,
    access="read",
    reply=BULK,
    family=FAMILY,
    summary="A note's value.",
    flags=("native",),
)
def work_get(ctx: Context, session: bytes, key: bytes) -> bytes | None:
    """Nil for a missing note and, as HotKV's clients expect, for an empty value."""
    if ctx.stores.conv.live(session, ctx.now_ms) is None:
        return None
    note = ctx.stores.work.live(session, key, ctx.now_ms)
    return note[0] or None if note is not None else None


@command(
    "AMEM.WORK.DEL",
    SESSION,
    KEY,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Delete a note.",
    flags=("frees",),
)
def work_del(ctx: Context, session: bytes, key: bytes) -> int:
    """1 when the note existed."""
    if ctx.conversation_to_write(session) is None or _drop_dead(ctx, session, key):
        return 0
    if ctx.stores.work.live(session, key, ctx.now_ms) is None:
        return 0
    ctx.emit((records.NOTE_DELETED, session, key))
    return 1


@command(
    "AMEM.WORK.CLEAR",
    SESSION,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Delete every note of a session.",
    cost="O(n) in the notes",
    flags=("frees",),
)
def work_clear(ctx: Context, session: bytes) -> int:
    """1 when the session had notes."""
    if ctx.conversation_to_write(session) is None or session not in ctx.stores.work.sessions:
        return 0
    had_live = bool(ctx.stores.work.live_items(session, ctx.now_ms))
    ctx.emit((records.NOTES_CLEARED, session))
    return int(had_live)


@command(
    "AMEM.WORK.LIST",
    SESSION,
    access="read",
    reply=NAMES,
    family=FAMILY,
    summary="The keys of a session's notes.",
    cost="O(n) in the notes",
)
def work_list(ctx: Context, session: bytes) -> list[bytes]:
    """An unknown session has no notes."""
    return [key for key, _ in _live_items(ctx, session)]


@command(
    "AMEM.WORK.GETALL",
    SESSION,
    access="read",
    reply=MapOf(BULK, BULK),
    family=FAMILY,
    summary="All notes of a session.",
    cost="O(n) in the notes",
)
def work_getall(ctx: Context, session: bytes) -> list[tuple[bytes, bytes]]:
    """Keys and values."""
    return _live_items(ctx, session)


@command(
    "AMEM.WORK.TTL",
    SESSION,
    KEY,
    access="read",
    reply=INTEGER,
    family=FAMILY,
    summary="How long a note still lives, in milliseconds.",
)
def work_ttl(ctx: Context, session: bytes, key: bytes) -> int:
    """-1 for a note without an expiry of its own, -2 for a missing one."""
    if ctx.stores.conv.live(session, ctx.now_ms) is None:
        return -2
    note = ctx.stores.work.live(session, key, ctx.now_ms)
    if note is None:
        return -2
    return note[1] - ctx.now_ms if note[1] else -1


def _live_items(ctx: Context, session: bytes) -> list[tuple[bytes, bytes]]:
    if ctx.stores.conv.live(session, ctx.now_ms) is None:
        return []
    return ctx.stores.work.live_items(session, ctx.now_ms)


def _drop_dead(ctx: Context, session: bytes, key: bytes) -> bool:
    """Delete a note whose time has passed, as a record; whether there was one."""
    note = ctx.stores.work.get(session, key)
    if note is None or not 0 < note[1] <= ctx.now_ms:
        return False
    ctx.emit((records.NOTE_DELETED, session, key))
    return True
