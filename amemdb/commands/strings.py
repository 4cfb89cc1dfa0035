"""Strings: SET and GET in all their forms, several keys at once, and parts of a value. Counting is in `counters`."""

from __future__ import annotations

from amemdb.commands.context import Context
from amemdb.commands.declare import Arg, Bytes, Integer, Key, KeyExpiry, Option, Rest, command
from amemdb.commands.keys import drop_dead, held_by
from amemdb.errors import CommandError, wrong_type
from amemdb.limits import BULK_BYTES_MAX, NO_EXPIRY, REPLY_BYTES_MAX
from amemdb.protocol.reply import BULK, INTEGER, OK, ArrayOf, OneOf
from amemdb.stores import records
from amemdb.stores.keyspace import text_of

FAMILY = "string"
KEY = Key("key")
VALUE = Bytes("value")


def expiry_options(command_name: str) -> tuple[Option, ...]:
    """EX, PX, EXAT and PXAT, of which one may be given."""
    kinds = (("EX", 1000, False), ("PX", 1, False), ("EXAT", 1000, True), ("PXAT", 1, True))
    return tuple(
        Option(word, KeyExpiry("expire_at_ms", command_name, unit_ms, absolute), group="expiry")
        for word, unit_ms, absolute in kinds
    )


def string_held(ctx: Context, key: bytes) -> bytes | bytearray | None:
    """The live string as it is held, which may change later, or None; any other type is refused."""
    value = ctx.stores.keys.live(ctx.session.db, key, ctx.now_ms)
    if value is None or isinstance(value, (bytes, bytearray)):
        return value
    raise wrong_type()


def string(ctx: Context, key: bytes) -> bytes | None:
    """The live string, or None; any other type is refused."""
    value = string_held(ctx, key)
    return None if value is None else text_of(value)


def _set(ctx: Context, key: bytes, value: bytes, expire_at_ms: int = NO_EXPIRY) -> None:
    ctx.emit((records.KEY_SET, ctx.session.db, key, value, expire_at_ms))


# -- whole values ----------------------------------------------------------------------------------


@command(
    "SET",
    KEY,
    VALUE,
    Option("NX", group="condition"),
    Option("XX", group="condition"),
    Option("GET"),
    *expiry_options("set"),
    Option("KEEPTTL", group="expiry", flag="keep_expiry"),
    access="write",
    reply=OneOf(ok=True),
    family=FAMILY,
    summary="Set a key, whatever it held.",
    flags=("native",),
)
def set_(
    ctx: Context,
    key: bytes,
    value: bytes,
    nx: bool,
    xx: bool,
    get: bool,
    expire_at_ms: int | None,
    keep_expiry: bool,
) -> bytes | bool | None:
    """OK, or nil when NX or XX forbade it; with GET the old value either way. A time in the past is already over."""
    old: bytes | None = None
    if get:
        old = string(ctx, key)
    if nx or xx or keep_expiry:
        keys = ctx.stores.keys
        exists = keys.live(ctx.session.db, key, ctx.now_ms) is not None
        if (nx and exists) or (xx and not exists):
            return old
        if keep_expiry and exists:
            expire_at_ms = keys.expire_at_ms(ctx.session.db, key)
    ctx.emit((records.KEY_SET, ctx.session.db, key, value, expire_at_ms or NO_EXPIRY))
    return old if get else True


@command("GET", KEY, access="read", reply=BULK, family=FAMILY, summary="A key's value.", flags=("native",))
def get(ctx: Context, key: bytes) -> bytes | None:
    """Nil for a missing key."""
    return string(ctx, key)


@command(
    "GETDEL",
    KEY,
    access="write",
    reply=BULK,
    family=FAMILY,
    summary="A key's value, which is deleted.",
    flags=("frees",),
)
def getdel(ctx: Context, key: bytes) -> bytes | None:
    """Nil for a missing key."""
    value = string(ctx, key)
    if value is None:
        drop_dead(ctx, key)
    else:
        ctx.emit((records.KEY_DELETED, ctx.session.db, key))
    return value


@command(
    "GETEX",
    KEY,
    *expiry_options("getex"),
    Option("PERSIST", group="expiry"),
    access="write",
    reply=BULK,
    family=FAMILY,
    summary="A key's value, and set when the key ends.",
    flags=("frees",),
)
def getex(ctx: Context, key: bytes, expire_at_ms: int | None, persist: bool) -> bytes | None:
    """Without an option nothing is set. A time in the past deletes the key."""
    value = string(ctx, key)
    db = ctx.session.db
    if value is None:
        drop_dead(ctx, key)
    elif persist:
        if ctx.stores.keys.expire_at_ms(db, key):
            ctx.emit((records.KEY_EXPIRY_SET, db, key, NO_EXPIRY))
    elif expire_at_ms is not None:
        if expire_at_ms <= ctx.now_ms:
            ctx.emit((records.KEY_DELETED, db, key))
        else:
            ctx.emit((records.KEY_EXPIRY_SET, db, key, expire_at_ms))
    return value


@command("GETSET", KEY, VALUE, access="write", reply=BULK, family=FAMILY, summary="Set a key; its old value.")
def getset(ctx: Context, key: bytes, value: bytes) -> bytes | None:
    """Like SET with GET: the expiry goes."""
    old = string(ctx, key)
    _set(ctx, key, value)
    return old


@command("SETNX", KEY, VALUE, access="write", reply=INTEGER, family=FAMILY, summary="Set a key that does not exist.")
def setnx(ctx: Context, key: bytes, value: bytes) -> int:
    """1 when it was set."""
    if ctx.stores.keys.live(ctx.session.db, key, ctx.now_ms) is not None:
        return 0
    _set(ctx, key, value)
    return 1


@command(
    "SETEX",
    KEY,
    KeyExpiry("expire_at_ms", "setex"),
    VALUE,
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Set a key that ends in some seconds.",
)
def setex(ctx: Context, key: bytes, expire_at_ms: int, value: bytes) -> None:
    """SET with EX."""
    _set(ctx, key, value, expire_at_ms)


@command(
    "PSETEX",
    KEY,
    KeyExpiry("expire_at_ms", "psetex", 1),
    VALUE,
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Set a key that ends in some milliseconds.",
)
def psetex(ctx: Context, key: bytes, expire_at_ms: int, value: bytes) -> None:
    """SET with PX."""
    _set(ctx, key, value, expire_at_ms)


# -- several keys ----------------------------------------------------------------------------------


@command(
    "MGET",
    Rest("keys", KEY),
    access="read",
    reply=ArrayOf(BULK),
    family=FAMILY,
    summary="The values of several keys.",
    cost="O(n) in the keys",
)
def mget(ctx: Context, keys: list[bytes]) -> list[bytes | None]:
    """Nil for a key that is missing or no string. One large key named many times may not exhaust the memory."""
    values = [value if isinstance(value, (bytes, bytearray)) else None for value in held_by(ctx, keys)]
    if sum(map(len, filter(None, values))) > REPLY_BYTES_MAX:
        raise CommandError(f"the answer is longer than {REPLY_BYTES_MAX} bytes; ask for fewer keys at once")
    return [bytes(value) if isinstance(value, bytearray) else value for value in values]  # a long reply is made later


@command(
    "MSET",
    Rest("pairs", KEY, step=2),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Set several keys at once.",
    cost="O(n) in the keys",
)
def mset(ctx: Context, pairs: list[bytes]) -> None:
    """Of a key given twice the last value stays."""
    db = ctx.session.db
    settings = zip(pairs[::2], pairs[1::2], strict=True)
    ctx.emit_all([(records.KEY_SET, db, key, value, NO_EXPIRY) for key, value in settings])


@command(
    "MSETNX",
    Rest("pairs", KEY, step=2),
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Set several keys at once, if none of them exists.",
    cost="O(n) in the keys",
)
def msetnx(ctx: Context, pairs: list[bytes]) -> int:
    """1 when all were set, 0 when none was."""
    keys = pairs[::2]
    if held_by(ctx, keys).count(None) < len(keys):
        return 0
    mset(ctx, pairs)
    return 1


# -- parts of a value ------------------------------------------------------------------------------


@command("STRLEN", KEY, access="read", reply=INTEGER, family=FAMILY, summary="The length of a value in bytes.")
def strlen(ctx: Context, key: bytes) -> int:
    """0 for a missing key."""
    return len(string_held(ctx, key) or b"")


@command(
    "APPEND",
    KEY,
    VALUE,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Append to a value; its new length.",
)
def append(ctx: Context, key: bytes, value: bytes) -> int:
    """A missing key is created; the expiry of one that exists stays."""
    held = string_held(ctx, key)
    if held is None:
        _set(ctx, key, value)
        return len(value)
    length = len(held) + len(value)
    _check_length(length)
    ctx.emit((records.KEY_APPENDED, ctx.session.db, key, value))
    return length


@command(
    "SETRANGE",
    KEY,
    Integer("offset"),
    VALUE,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Overwrite a value from an offset on; its new length.",
    cost="O(n) in the value given and the gap before it",
)
def setrange(ctx: Context, key: bytes, offset: int, value: bytes) -> int:
    """A gap is filled with zero bytes. An empty value changes nothing and creates nothing."""
    if offset < 0:
        raise CommandError("offset is out of range")
    held = string_held(ctx, key)
    length = len(held or b"")
    if not value:
        return length
    _check_length(offset + len(value))
    if held is None and ctx.stores.keys.is_dead(ctx.session.db, key, ctx.now_ms):
        ctx.require_room(len(key))
        drop_dead(ctx, key)
    ctx.emit((records.KEY_RANGE_SET, ctx.session.db, key, offset, value))
    return max(length, offset + len(value))


RANGE: tuple[Arg, ...] = (KEY, Integer("start"), Integer("end"))


@command(
    "GETRANGE",
    *RANGE,
    access="read",
    reply=BULK,
    family=FAMILY,
    summary="A part of a value, both ends included.",
    cost="O(n) in the part",
)
def getrange(ctx: Context, key: bytes, start: int, end: int) -> bytes:
    """Negative positions count from the end, and mean the first byte where they go beyond it, as in Redis."""
    held = string_held(ctx, key)
    if held is None or (start < 0 and end < 0 and start > end):
        return b""
    length = len(held)
    start = max(start + length, 0) if start < 0 else start
    end = max(end + length, 0) if end < 0 else end
    return bytes(held[start : end + 1]) if end >= start else b""


@command(
    "SUBSTR",
    *RANGE,
    access="read",
    reply=BULK,
    family=FAMILY,
    summary="GETRANGE under its old name.",
    cost="O(n) in the part",
)
def substr(ctx: Context, key: bytes, start: int, end: int) -> bytes:
    """As GETRANGE."""
    return getrange(ctx, key, start, end)


def _check_length(length: int) -> None:
    if length > BULK_BYTES_MAX:
        raise CommandError(f"string exceeds maximum allowed size: {length} bytes, at most {BULK_BYTES_MAX}")
