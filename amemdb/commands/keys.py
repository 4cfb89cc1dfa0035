"""Plain keys, whatever they hold: existence, listing, renaming, flushing. When they end is in `expiry`.

A key whose time has passed is missing to every command here, although it may still be held. AMEM objects are no keys:
only FLUSHALL touches them.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from itertools import islice

from amemdb.commands.context import Context, Sliced
from amemdb.commands.declare import Bytes, Integer, Key, Option, Rest, command
from amemdb.commands.scanning import SCAN, matching, page
from amemdb.errors import CommandError
from amemdb.limits import DATABASES, INT64_MAX, NO_EXPIRY
from amemdb.protocol.reply import BULK, INTEGER, OK, SCAN_PAGE, SIMPLE, ArrayOf, Elements, OneOf
from amemdb.stores import records
from amemdb.stores.keyspace import Value, text_of, type_of
from amemdb.stores.names import NameIndex

FAMILY = "keyspace"
KEY = Key("key")
KEYS = Rest("keys", KEY)
FLUSH_MODE = (
    Option("ASYNC", group="mode", flag="in_background"),
    Option("SYNC", group="mode", flag="at_once"),
)
"""Taken for the sake of clients: a flush is always complete when it is answered."""
RANDOM_AMONG = 16
"""From how many names behind a random place one is drawn: the first alone would favour names behind wide gaps."""


def drop_dead(ctx: Context, key: bytes) -> None:
    """Remove a key whose time has passed, as a record. For writes that will not replace it and can no longer fail."""
    if ctx.stores.keys.is_dead(ctx.session.db, key, ctx.now_ms):
        ctx.emit((records.KEY_EXPIRED, ctx.session.db, key))


def is_live(ctx: Context, key: bytes) -> bool:
    """Whether the key exists in the session's database."""
    return ctx.stores.keys.live(ctx.session.db, key, ctx.now_ms) is not None


def held_by(ctx: Context, keys: list[bytes]) -> list[Value | None]:
    """What each of many keys holds, None for a missing one. Without a call a key, as one request may name a million."""
    database = ctx.stores.keys.databases[ctx.session.db]
    values: list[Value | None] = list(map(database.values.get, keys))
    expires, now_ms = database.expires, ctx.now_ms
    if not expires or expires.keys().isdisjoint(keys):
        return values
    return [
        None if 0 < expires.get(key, NO_EXPIRY) <= now_ms else value for key, value in zip(keys, values, strict=True)
    ]


def no_such_key() -> CommandError:
    """The refusal of commands that cannot do without their key."""
    return CommandError("no such key")


# -- existence -------------------------------------------------------------------------------------


@command(
    "DEL",
    KEYS,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Delete keys.",
    cost="O(n) in the keys",
    flags=("frees",),
)
def del_(ctx: Context, keys: list[bytes]) -> int:
    """How many of them existed."""
    db = ctx.session.db
    held = ctx.stores.keys.databases[db].values
    once = [key for key in dict.fromkeys(keys) if key in held]
    lives = [value is not None for value in held_by(ctx, once)]
    kinds = (records.KEY_EXPIRED, records.KEY_DELETED)
    ctx.emit_all([(kinds[live], db, key) for key, live in zip(once, lives, strict=True)])
    return sum(lives)


@command(
    "UNLINK",
    KEYS,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Delete keys; the same as DEL.",
    cost="O(n) in the keys",
    flags=("frees",),
)
def unlink(ctx: Context, keys: list[bytes]) -> int:
    """How many of them existed."""
    return del_(ctx, keys)


@command(
    "EXISTS",
    KEYS,
    access="read",
    reply=INTEGER,
    family=FAMILY,
    summary="How many of the keys exist.",
    cost="O(n) in the keys",
)
def exists(ctx: Context, keys: list[bytes]) -> int:
    """A key named twice counts twice."""
    return len(keys) - held_by(ctx, keys).count(None)


@command(
    "TOUCH",
    KEYS,
    access="read",
    reply=INTEGER,
    family=FAMILY,
    summary="How many of the keys exist.",
    cost="O(n) in the keys",
)
def touch(ctx: Context, keys: list[bytes]) -> int:
    """As EXISTS: no time of last use is kept."""
    return exists(ctx, keys)


@command("TYPE", KEY, access="read", reply=SIMPLE, family=FAMILY, summary="The data type of a key's value.")
def type_(ctx: Context, key: bytes) -> str:
    """`none` for a missing key, and for the name of an AMEM object."""
    value = ctx.stores.keys.live(ctx.session.db, key, ctx.now_ms)
    return "none" if value is None else type_of(value)


@command(
    "DBSIZE",
    access="read",
    reply=INTEGER,
    family=FAMILY,
    summary="How many keys the database has.",
    cost="O(1), O(n) in the keys that have ended in the last second",
)
def dbsize(ctx: Context) -> int:
    """Unlike in Redis, a key whose time has passed no longer counts."""
    return ctx.stores.keys.count(ctx.session.db, ctx.now_ms)


# -- listing ---------------------------------------------------------------------------------------


@command(
    "KEYS",
    Bytes("pattern"),
    access="read",
    reply=ArrayOf(BULK, use_instead="SCAN"),
    family=FAMILY,
    summary="All keys that match a pattern.",
    cost="O(n) in the keys of the database",
)
def keys_(ctx: Context, pattern: bytes) -> Sliced:
    """In no particular order. Others are served meanwhile: a key that stays throughout is given, once."""
    return Sliced(_all_keys(ctx, pattern))


def _all_keys(ctx: Context, pattern: bytes) -> Generator[None, None, Elements]:
    _, found = yield from matching(partial(_names, ctx), 0, pattern, INT64_MAX, partial(_live_among, ctx))
    return found


def _names(ctx: Context) -> NameIndex:
    return ctx.stores.keys.databases[ctx.session.db].names


def _live_among(ctx: Context, names: list[bytes]) -> list[bytes]:
    """Those of some names of the index whose time has not passed."""
    expires, now_ms = ctx.stores.keys.databases[ctx.session.db].expires, ctx.now_ms
    return [name for name in names if not 0 < expires.get(name, NO_EXPIRY) <= now_ms] if expires else names


@command(
    "SCAN",
    *SCAN,
    Option("TYPE", Bytes("type")),
    access="read",
    reply=SCAN_PAGE,
    family=FAMILY,
    summary="The keys of the database, page by page.",
    cost="O(n) in the page",
)
def scan(ctx: Context, cursor: int, pattern: bytes | None, count: int | None, type: bytes | None) -> Sliced:
    """At most COUNT names a page; a key that stays throughout is returned. An unknown type matches nothing."""
    wanted = None if type is None else type.lower()

    def shown_of(names: list[bytes]) -> list[bytes]:
        names = _live_among(ctx, names)
        if wanted is None:
            return names
        values = ctx.stores.keys.databases[ctx.session.db].values
        return [name for name in names if type_of(values[name]).encode() == wanted]

    return page(partial(_names, ctx), cursor, pattern, count, shown_of)


@command("RANDOMKEY", access="read", reply=BULK, family=FAMILY, summary="Some key of the database.")
def randomkey(ctx: Context) -> bytes | None:
    """Nil when there is none. Dead keys are stepped over once each, so it ends where there are no others."""
    random = ctx.server.random
    names = ctx.stores.keys.databases[ctx.session.db].names.from_position(random.getrandbits(64))
    found = list(islice((key for key in names if is_live(ctx, key)), RANDOM_AMONG))
    return random.choice(found) if found else None


# -- moving ----------------------------------------------------------------------------------------


def _carry(ctx: Context, source: bytes, db: int, destination: bytes) -> None:
    """Set `destination` to what the live `source` holds, expiry included. The record carries the value."""
    keys = ctx.stores.keys
    value = keys.databases[ctx.session.db].values[source]
    ctx.require_room(len(value))
    expire_at_ms = keys.expire_at_ms(ctx.session.db, source)
    ctx.emit((records.KEY_SET, db, destination, text_of(value), expire_at_ms))


@command(
    "RENAME",
    KEY,
    Key("new_key"),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Give a key another name, whatever that held.",
    cost="O(n) in the value's bytes",
    flags=("frees",),
)
def rename(ctx: Context, key: bytes, new_key: bytes) -> None:
    """The expiry moves along."""
    if not is_live(ctx, key):
        raise no_such_key()
    if key != new_key:
        _carry(ctx, key, ctx.session.db, new_key)
        ctx.emit((records.KEY_DELETED, ctx.session.db, key))


@command(
    "RENAMENX",
    KEY,
    Key("new_key"),
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Give a key another name, if that is free.",
    cost="O(n) in the value's bytes",
    flags=("frees",),
)
def renamenx(ctx: Context, key: bytes, new_key: bytes) -> int:
    """1 when it was renamed."""
    if not is_live(ctx, key):
        raise no_such_key()
    if is_live(ctx, new_key):
        return 0
    rename(ctx, key, new_key)
    return 1


@command(
    "COPY",
    KEY,
    Key("destination"),
    Option("DB", Integer("db")),
    Option("REPLACE"),
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Copy a key, expiry included.",
    cost="O(n) in the value's bytes",
)
def copy(ctx: Context, key: bytes, destination: bytes, db: int | None, replace: bool) -> int:
    """1 when it was copied, 0 when the source is missing or the destination exists and is not to be replaced."""
    db = ctx.session.db if db is None else db
    if not 0 <= db < DATABASES:
        raise CommandError("DB index is out of range")
    if (db, destination) == (ctx.session.db, key):
        raise CommandError("source and destination objects are the same")
    if not is_live(ctx, key):
        drop_dead(ctx, key)
        return 0
    if not replace and ctx.stores.keys.live(db, destination, ctx.now_ms) is not None:
        return 0
    _carry(ctx, key, db, destination)
    return 1


# -- flushing --------------------------------------------------------------------------------------


@command(
    "FLUSHDB",
    *FLUSH_MODE,
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Delete every plain key of the database.",
    cost="O(n) in the keys",
    flags=("frees",),
)
def flushdb(ctx: Context, in_background: bool, at_once: bool) -> None:
    """AMEM objects belong to no database and stay."""
    if ctx.stores.keys.databases[ctx.session.db].values:
        ctx.emit((records.DATABASE_FLUSHED, ctx.session.db))


@command(
    "FLUSHALL",
    *FLUSH_MODE,
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Delete everything: all databases and all AMEM objects.",
    cost="O(n) in everything",
    flags=("frees",),
)
def flushall(ctx: Context, in_background: bool, at_once: bool) -> None:
    """Nothing stays."""
    ctx.emit((records.ALL_FLUSHED,))


# -- insight ---------------------------------------------------------------------------------------


@command("OBJECT|ENCODING", KEY, access="read", reply=BULK, family=FAMILY, summary="How a key's value is held.")
def object_encoding(ctx: Context, key: bytes) -> bytes | None:
    """`raw`: a string is held as its bytes, whatever they spell. Nil for a missing key."""
    return b"raw" if is_live(ctx, key) else None


@command("OBJECT|REFCOUNT", KEY, access="read", reply=OneOf(), family=FAMILY, summary="1: values are not shared.")
def object_refcount(ctx: Context, key: bytes) -> int | None:
    """Nil for a missing key."""
    return 1 if is_live(ctx, key) else None


@command("OBJECT|IDLETIME", KEY, access="read", reply=OneOf(), family=FAMILY, summary="Refused: not tracked.")
def object_idletime(ctx: Context, key: bytes) -> None:
    """Nil for a missing key."""
    if is_live(ctx, key):
        raise CommandError("idle time not tracked: plain keys keep no time of last use")


@command("OBJECT|FREQ", KEY, access="read", reply=OneOf(), family=FAMILY, summary="Refused: not tracked.")
def object_freq(ctx: Context, key: bytes) -> None:
    """Nil for a missing key."""
    if is_live(ctx, key):
        raise CommandError("access frequency not tracked: plain keys keep no count of their uses")


@command("OBJECT|HELP", access="read", reply=ArrayOf(SIMPLE), family=FAMILY, summary="What OBJECT can tell.")
def object_help(ctx: Context) -> list[str]:
    """One line of text an element."""
    return [
        "OBJECT <subcommand> <key>. Subcommands are:",
        "ENCODING: how the value is held.",
        "REFCOUNT: how many references the value has, always 1.",
        "IDLETIME, FREQ: refused, as neither is tracked.",
    ]
