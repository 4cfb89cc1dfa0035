"""CLIENT: what a connection says of itself, and the list of all, which can be searched and ended.

A line of CLIENT LIST has the fields of Redis's, in its order, but for those about things that do not exist here.
"""

from __future__ import annotations

from collections.abc import Callable

from amemdb.commands.connection import DEFAULT_USER, FAMILY, checked_name
from amemdb.commands.context import Context
from amemdb.commands.declare import Bytes, Choice, Rest, command
from amemdb.commands.parsing import missing_value, repeated_option, unknown_option
from amemdb.commands.session import Session
from amemdb.errors import CommandError, printable
from amemdb.protocol.numbers import parse_integer
from amemdb.protocol.reply import BULK, INTEGER, OK, SIMPLE, VERBATIM, ArrayOf, OneOf

OWN = ("noscript", "loading")
NS_PER_SECOND = 1_000_000_000
TYPES = {b"normal": True, b"master": False, b"replica": False, b"slave": False, b"pubsub": False}
"""Kinds of connection; True for the one that there is."""

HELP = [
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    The name of this connection.",
    "ID",
    "    The id of this connection.",
    "INFO",
    "    The line of CLIENT LIST about this connection.",
    "KILL <ip:port>",
    "    Close the connection from that address.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Close the connections that all options fit; how many. Options: ADDR, LADDR, ID, USER, TYPE, MAXAGE (seconds),",
    "    SKIPME (yes or no, default yes).",
    "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)|ID <id> [<id> ...]]",
    "    A line about each connection.",
    "NO-EVICT (ON|OFF)",
    "    Whether this connection is spared when memory is short.",
    "NO-TOUCH (ON|OFF)",
    "    Whether this connection's reads leave the time of last use alone.",
    "REPLY (ON|OFF|SKIP)",
    "    Whether commands are answered; SKIP leaves out the next answer.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Tell the client library and its version.",
    "SETNAME <name>",
    "    Name this connection; an empty name takes it away.",
    "HELP",
    "    This text.",
]


@command("CLIENT|ID", access="connection", reply=INTEGER, family=FAMILY, summary="This connection's id.", flags=OWN)
def client_id(ctx: Context) -> int:
    """Ids grow and are never used again."""
    return ctx.session.id


@command(
    "CLIENT|SETNAME",
    Bytes("name"),
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Name this connection.",
    flags=OWN,
)
def client_setname(ctx: Context, name: bytes) -> None:
    """An empty name takes the name away."""
    ctx.session.name = checked_name(name, "client names")


@command("CLIENT|GETNAME", access="connection", reply=BULK, family=FAMILY, summary="This connection's name.", flags=OWN)
def client_getname(ctx: Context) -> bytes | None:
    """Nil without one."""
    return ctx.session.name or None


@command(
    "CLIENT|SETINFO",
    Bytes("attribute"),
    Bytes("value"),
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Tell the client library or its version.",
    flags=OWN,
)
def client_setinfo(ctx: Context, attribute: bytes, value: bytes) -> None:
    """`LIB-NAME` or `LIB-VER`, for CLIENT LIST."""
    word = attribute.lower()
    if word not in (b"lib-name", b"lib-ver"):
        raise CommandError(f"Unrecognized option '{printable(attribute)}': expected LIB-NAME or LIB-VER")
    checked_name(value, word.decode())
    if word == b"lib-name":
        ctx.session.library_name = value
    else:
        ctx.session.library_version = value


@command("CLIENT|INFO", access="connection", reply=VERBATIM, family=FAMILY, summary="About this connection.", flags=OWN)
def client_info(ctx: Context) -> str:
    """The line of CLIENT LIST about this connection."""
    return _line(ctx, ctx.session, "client|info")


@command(
    "CLIENT|LIST",
    Rest("filters", Bytes("filter"), count_min=0, syntax="TYPE type | ID id …"),
    access="admin",
    reply=VERBATIM,
    family=FAMILY,
    summary="A line about each connection, or those of a type, or of some ids.",
    cost="O(n) in the connections",
    flags=OWN,
)
def client_list(ctx: Context, filters: list[bytes]) -> str:
    """`type` is normal, master, replica or pubsub; all connections here are normal."""
    sessions = list(ctx.server.sessions.values())
    word = filters[0].upper() if filters else b""
    if word == b"TYPE" and len(filters) == 2:
        sessions = sessions if _is_normal(filters[1]) else []
    elif word == b"ID" and len(filters) > 1:
        wanted = dict.fromkeys(_client_id(token) for token in filters[1:])
        sessions = [ctx.server.sessions[id] for id in wanted if id in ctx.server.sessions]
    elif filters:
        unknown_option(filters[0])
    return "".join([_line(ctx, session, "client|list") for session in sessions])


@command(
    "CLIENT|KILL",
    Rest(
        "filters",
        Bytes("filter"),
        syntax="(address | (ID id | ADDR address | LADDR address | USER user | TYPE type | MAXAGE seconds | "
        "SKIPME (yes | no)) …)",
    ),
    access="admin",
    reply=OneOf(ok=True),
    family=FAMILY,
    summary="Close the connection of an address, or those that filters fit.",
    cost="O(n) in the connections",
    flags=OWN,
)
def client_kill(ctx: Context, filters: list[bytes]) -> bool | int:
    """OK for an address alone; filters, each at most once, answer how many connections fitted all of them."""
    if len(filters) == 1:
        if not _kill(ctx, [_has_address(filters[0])]):
            raise CommandError("No such client")
        return True
    if len(filters) % 2:
        missing_value(filters[-1])
    tests: dict[bytes, Callable[[Session], bool]] = {}
    for word, value in zip(filters[::2], filters[1::2], strict=True):
        option = word.upper()
        if option in tests:
            repeated_option(word)
        tests[option] = _kill_test(ctx, option, value)
    if b"SKIPME" not in tests:
        tests[b"SKIPME"] = _kill_test(ctx, b"SKIPME", b"yes")
    return _kill(ctx, list(tests.values()))


@command(
    "CLIENT|REPLY",
    Choice("mode", ("on", "off", "skip")),
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Whether commands are answered.",
    flags=(*OWN, "refuse_multi"),
)
def client_reply(ctx: Context, mode: bytes) -> None:
    """`OFF` and `SKIP` are not answered themselves; `SKIP` while off changes nothing."""
    if mode != b"skip":
        ctx.session.reply_mode = mode.decode()
    elif ctx.session.reply_mode != "off":
        ctx.session.reply_mode = "skip_next"


@command(
    "CLIENT|NO-EVICT",
    Choice("mode", ("on", "off")),
    access="admin",
    reply=OK,
    family=FAMILY,
    summary="Whether this connection is spared when memory is short.",
    flags=OWN,
)
def client_no_evict(ctx: Context, mode: bytes) -> None:
    """Shown in CLIENT LIST as flag `e`."""
    ctx.session.no_evict = mode == b"on"


@command(
    "CLIENT|NO-TOUCH",
    Choice("mode", ("on", "off")),
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Whether this connection's reads leave the time of last use alone.",
    flags=OWN,
)
def client_no_touch(ctx: Context, mode: bytes) -> None:
    """Shown in CLIENT LIST as flag `T`."""
    ctx.session.no_touch = mode == b"on"


@command(
    "CLIENT|HELP",
    access="connection",
    reply=ArrayOf(SIMPLE),
    family=FAMILY,
    summary="The subcommands of CLIENT.",
    flags=("loading",),
)
def client_help(ctx: Context) -> list[str]:
    """Lines of text."""
    return HELP


# -- killing -----------------------------------------------------------------------------------------


def _kill(ctx: Context, tests: list[Callable[[Session], bool]]) -> int:
    """Close the connections that pass every test, this one after its reply; how many."""
    chosen = [session for session in ctx.server.sessions.values() if all(test(session) for test in tests)]
    for session in chosen:
        if session is ctx.session:
            session.close_after_reply = True
        else:
            ctx.server.kill(session)
    return len(chosen)


def _kill_test(ctx: Context, option: bytes, value: bytes) -> Callable[[Session], bool]:
    """What one pair of CLIENT KILL asks of a connection."""
    if option == b"SKIPME":
        own = ctx.session if _yes(value) else None
        return lambda session: session is not own
    if option == b"ID":
        id = _client_id(value)
        return lambda session: session.id == id
    if option == b"ADDR":
        return _has_address(value)
    if option == b"LADDR":
        return lambda session: session.local_address.encode() == value
    if option == b"USER":
        if value != DEFAULT_USER:
            raise CommandError(f"No such user '{printable(value)}'")
        return lambda session: session.user == value
    if option == b"TYPE":
        normal = _is_normal(value)
        return lambda session: normal
    if option != b"MAXAGE":
        unknown_option(option)
    age_s = parse_integer(value)
    if age_s is None:
        raise CommandError("maxage is not an integer or out of range")
    if age_s <= 0:
        raise CommandError("maxage should be greater than 0")
    now_ns = ctx.server.monotonic_ns()
    return lambda session: (now_ns - session.created_at_ns) // NS_PER_SECOND >= age_s


def _has_address(address: bytes) -> Callable[[Session], bool]:
    return lambda session: session.address.encode() == address


def _client_id(token: bytes) -> int:
    id = parse_integer(token)
    if id is None:
        raise CommandError(f"Invalid client ID: '{printable(token)}' is not an integer or out of range")
    if id <= 0:
        raise CommandError("client-id should be greater than 0")
    return id


def _is_normal(token: bytes) -> bool:
    """Whether that type of connection is the one that all of them have."""
    normal = TYPES.get(token.lower())
    if normal is None:
        raise CommandError(f"Unknown client type '{printable(token)}'")
    return normal


def _yes(token: bytes) -> bool:
    word = token.lower()
    if word not in (b"yes", b"no"):
        raise CommandError(f"syntax error: SKIPME must be yes or no, got '{printable(token)}'")
    return word == b"yes"


# -- lines -------------------------------------------------------------------------------------------


def _line(ctx: Context, session: Session, command_name: str) -> str:
    """What CLIENT LIST says of `session`; `command_name` is the command at work, on whose connection it shows."""
    now_ns = ctx.server.monotonic_ns()
    command_name = command_name if session is ctx.session else session.last_command.lower() or "NULL"
    flags = "x" * (session.queue is not None) + "c" * session.close_after_reply + "A" * session.kill
    flags += "e" * session.no_evict + "T" * session.no_touch
    return (
        f"id={session.id} addr={session.address} laddr={session.local_address} name={session.name.decode('ascii')} "
        f"age={(now_ns - session.created_at_ns) // NS_PER_SECOND} "
        f"idle={(now_ns - session.last_active_ns) // NS_PER_SECOND} flags={flags or 'N'} db={session.db} "
        f"sub=0 psub=0 ssub=0 multi={-1 if session.queue is None else len(session.queue)} "
        f"watch={len(session.watched)} qbuf={session.query_bytes} omem={session.output_bytes} "
        f"cmd={command_name} user={printable(session.user)} redir=-1 resp={3 if session.resp3 else 2} "
        f"lib-name={session.library_name.decode('ascii')} lib-ver={session.library_version.decode('ascii')}\n"
    )
