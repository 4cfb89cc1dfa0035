"""When plain keys end: EXPIRE and its kin, TTL and its kin, PERSIST.

A time in the past deletes the key. A time more than a hundred years ahead is refused, as are those that 64 bits cannot
hold, before anything changes.
"""

from __future__ import annotations

from amemdb.commands.context import Context
from amemdb.commands.declare import Key, KeyExpiry, Option, command
from amemdb.commands.keys import drop_dead, is_live
from amemdb.errors import CommandError
from amemdb.limits import NO_EXPIRY
from amemdb.protocol.reply import INTEGER
from amemdb.stores import records

FAMILY = "keyspace"
KEY = Key("key")
CONDITIONS = (Option("NX"), Option("XX"), Option("GT"), Option("LT"))


def _expire(ctx: Context, key: bytes, expire_at_ms: int, nx: bool, xx: bool, gt: bool, lt: bool) -> int:
    """1 when the expiry was set, or the key deleted because that time has passed. No expiry counts as infinite."""
    if nx and (xx or gt or lt):
        raise CommandError("NX and XX, GT or LT options at the same time are not compatible")
    if gt and lt:
        raise CommandError("GT and LT options at the same time are not compatible")
    db = ctx.session.db
    if not is_live(ctx, key):
        drop_dead(ctx, key)
        return 0
    current_ms = ctx.stores.keys.expire_at_ms(db, key)
    if (nx and current_ms) or (xx and not current_ms):
        return 0
    if gt and (not current_ms or expire_at_ms <= current_ms):
        return 0
    if lt and current_ms and expire_at_ms >= current_ms:
        return 0
    if expire_at_ms <= ctx.now_ms:
        ctx.emit((records.KEY_DELETED, db, key))
    else:
        ctx.emit((records.KEY_EXPIRY_SET, db, key, expire_at_ms))
    return 1


@command(
    "EXPIRE",
    KEY,
    KeyExpiry("expire_at_ms", "expire", past=True),
    *CONDITIONS,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Have a key end in some seconds.",
    flags=("frees",),
)
def expire(ctx: Context, key: bytes, expire_at_ms: int, nx: bool, xx: bool, gt: bool, lt: bool) -> int:
    """1 when it was set, 0 when the key is missing or a condition failed."""
    return _expire(ctx, key, expire_at_ms, nx, xx, gt, lt)


@command(
    "PEXPIRE",
    KEY,
    KeyExpiry("expire_at_ms", "pexpire", 1, past=True),
    *CONDITIONS,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Have a key end in some milliseconds.",
    flags=("frees",),
)
def pexpire(ctx: Context, key: bytes, expire_at_ms: int, nx: bool, xx: bool, gt: bool, lt: bool) -> int:
    """As EXPIRE."""
    return _expire(ctx, key, expire_at_ms, nx, xx, gt, lt)


@command(
    "EXPIREAT",
    KEY,
    KeyExpiry("expire_at_ms", "expireat", absolute=True, past=True),
    *CONDITIONS,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Have a key end at a Unix time in seconds.",
    flags=("frees",),
)
def expireat(ctx: Context, key: bytes, expire_at_ms: int, nx: bool, xx: bool, gt: bool, lt: bool) -> int:
    """As EXPIRE."""
    return _expire(ctx, key, expire_at_ms, nx, xx, gt, lt)


@command(
    "PEXPIREAT",
    KEY,
    KeyExpiry("expire_at_ms", "pexpireat", 1, absolute=True, past=True),
    *CONDITIONS,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Have a key end at a Unix time in milliseconds.",
    flags=("frees",),
)
def pexpireat(ctx: Context, key: bytes, expire_at_ms: int, nx: bool, xx: bool, gt: bool, lt: bool) -> int:
    """As EXPIRE."""
    return _expire(ctx, key, expire_at_ms, nx, xx, gt, lt)


@command(
    "PERSIST", KEY, access="write", reply=INTEGER, family=FAMILY, summary="Have a key never end.", flags=("frees",)
)
def persist(ctx: Context, key: bytes) -> int:
    """1 when it had an expiry."""
    if not is_live(ctx, key):
        drop_dead(ctx, key)
        return 0
    if not ctx.stores.keys.expire_at_ms(ctx.session.db, key):
        return 0
    ctx.emit((records.KEY_EXPIRY_SET, ctx.session.db, key, NO_EXPIRY))
    return 1


def _end(ctx: Context, key: bytes) -> int:
    """When the key ends in Unix milliseconds, -1 for never, -2 for a missing key."""
    if not is_live(ctx, key):
        return -2
    return ctx.stores.keys.expire_at_ms(ctx.session.db, key) or -1


def _seconds(ms: int) -> int:
    """Rounded to the nearest, as Redis does, so that a key just set to 10 s tells 10."""
    return (ms + 500) // 1000


@command("TTL", KEY, access="read", reply=INTEGER, family=FAMILY, summary="How long a key still lives, in seconds.")
def ttl(ctx: Context, key: bytes) -> int:
    """-1 for a key without expiry, -2 for a missing one."""
    end = _end(ctx, key)
    return end if end < 0 else _seconds(end - ctx.now_ms)


@command("PTTL", KEY, access="read", reply=INTEGER, family=FAMILY, summary="How long a key still lives, in ms.")
def pttl(ctx: Context, key: bytes) -> int:
    """-1 for a key without expiry, -2 for a missing one."""
    end = _end(ctx, key)
    return end if end < 0 else end - ctx.now_ms


@command("EXPIRETIME", KEY, access="read", reply=INTEGER, family=FAMILY, summary="When a key ends, in Unix seconds.")
def expiretime(ctx: Context, key: bytes) -> int:
    """-1 for a key without expiry, -2 for a missing one."""
    end = _end(ctx, key)
    return end if end < 0 else _seconds(end)


@command("PEXPIRETIME", KEY, access="read", reply=INTEGER, family=FAMILY, summary="When a key ends, in Unix ms.")
def pexpiretime(ctx: Context, key: bytes) -> int:
    """-1 for a key without expiry, -2 for a missing one."""
    return _end(ctx, key)
