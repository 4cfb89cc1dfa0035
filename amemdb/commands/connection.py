"""Connection: PING, ECHO, login, protocol, database, RESET and QUIT. CLIENT is in `commands.client`.

What is sent in a login is declared secret as a whole, and no error here repeats an argument.
"""

from __future__ import annotations

from typing import Any

from amemdb import __version__
from amemdb.commands.context import Context
from amemdb.commands.declare import Bytes, Integer, Rest, command
from amemdb.commands.parsing import repeated_option
from amemdb.commands.session import Session
from amemdb.commands.transactions import unwatch_all
from amemdb.errors import CommandError, wrong_arity
from amemdb.limits import DATABASES, NAME_BYTES_MAX
from amemdb.protocol.numbers import parse_integer
from amemdb.protocol.reply import BULK, INTEGER, OK, SIMPLE, ArrayOf, Labelled, OneOf

FAMILY = "connection"
LOGIN = ("no_auth", "noscript", "loading")
DEFAULT_USER = b"default"

HELLO_REPLY = Labelled(
    server=BULK, version=BULK, proto=INTEGER, id=INTEGER, mode=BULK, role=BULK, modules=ArrayOf(BULK)
)
SERVER_NAME = b"amemdb"
"""Clients look at the name only to find out whether features of Redis's own (client-side caching) may be asked for."""

_WORD_BYTES = bytes(range(33, 127))


@command(
    "PING",
    Rest("messages", Bytes("message"), count_min=0, syntax="message"),
    access="connection",
    reply=OneOf(),
    family=FAMILY,
    summary="PONG, or the message given.",
    flags=("loading", "native"),
)
def ping(ctx: Context, messages: list[bytes]) -> str | bytes:
    """Shows that the connection works."""
    if len(messages) > 1:
        raise wrong_arity("PING")
    return messages[0] if messages else "PONG"


@command(
    "ECHO",
    Bytes("message"),
    access="connection",
    reply=BULK,
    family=FAMILY,
    summary="The message given.",
    flags=("loading",),
)
def echo(ctx: Context, message: bytes) -> bytes:
    """What was sent, byte for byte."""
    return message


@command(
    "HELLO",
    Rest(
        "options",
        Bytes("option"),
        count_min=0,
        secret=True,
        syntax="(2 | 3) [AUTH user password] [SETNAME name]",
    ),
    access="connection",
    reply=HELLO_REPLY,
    family=FAMILY,
    summary="Choose the protocol (2 or 3), and on the way log in and name the connection.",
    flags=LOGIN,
)
def hello(ctx: Context, options: list[bytes]) -> tuple[Any, ...]:
    """A refusal leaves the connection as it was in everything."""
    session = ctx.session
    resp3, login, name = _hello_options(session, options)
    if login is not None and not ctx.server.check_password(*login):
        raise wrong_password()
    if login is None and not session.authenticated:
        raise CommandError(
            "HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> "
            "<pass> option can be used to authenticate the client and select the RESP protocol version at the same "
            "time",
            "NOAUTH",
        )
    if login is not None:
        _log_in(session, login[0])
    if name is not None:
        session.name = name
    session.resp3 = resp3
    return (SERVER_NAME, __version__.encode(), 3 if resp3 else 2, session.id, b"standalone", b"master", [])


@command(
    "AUTH",
    Rest("credentials", Bytes("credential"), secret=True, syntax="[user] password"),
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Log in, as the default user or the one named first.",
    flags=LOGIN,
)
def auth(ctx: Context, credentials: list[bytes]) -> None:
    """The user is `default` where none is named."""
    if len(credentials) > 2:
        raise CommandError("syntax error: AUTH takes a password, or a user and a password")
    if len(credentials) == 1 and not ctx.server.login_required:
        raise CommandError(
            "AUTH <password> called without any password configured for the default user. Are you sure your "
            "configuration is correct?"
        )
    user = credentials[0] if len(credentials) == 2 else DEFAULT_USER
    if not ctx.server.check_password(user, credentials[-1]):
        raise wrong_password()
    _log_in(ctx.session, user)


@command(
    "SELECT",
    Integer("index"),
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Choose the database of plain keys for this connection.",
    flags=("loading",),
)
def select(ctx: Context, index: int) -> None:
    """AMEM objects are the same in every database."""
    if not 0 <= index < DATABASES:
        raise CommandError("DB index is out of range")
    ctx.session.db = index


@command(
    "RESET",
    access="connection",
    reply=SIMPLE,
    family=FAMILY,
    summary="Put the connection back to how it was when it was opened.",
    flags=(*LOGIN, "no_multi"),
)
def reset(ctx: Context) -> str:
    """Drops login, transaction, watches, database, name and modes; the client library stays known."""
    session = ctx.session
    session.leave_transaction()
    unwatch_all(ctx)
    session.authenticated = not ctx.server.login_required
    session.user = DEFAULT_USER
    session.resp3 = False
    session.db = 0
    session.name = b""
    session.reply_mode = "on"
    session.no_evict = False
    session.no_touch = False
    return "RESET"


@command(
    "QUIT",
    Rest("ignored", Bytes("argument"), count_min=0),
    access="connection",
    reply=OK,
    family=FAMILY,
    summary="Close the connection, after the replies to what was sent before.",
    flags=(*LOGIN, "no_multi"),
)
def quit_(ctx: Context, ignored: list[bytes]) -> None:
    """Arguments mean nothing, as in Redis."""
    ctx.session.close_after_reply = True


def checked_name(name: bytes, what: str) -> bytes:
    """A name that CLIENT LIST can show as one word: ASCII from `!` to `~`, or empty for none."""
    if len(name) > NAME_BYTES_MAX:
        raise CommandError(f"{what} must be at most {NAME_BYTES_MAX} bytes long, got {len(name)}")
    if name.translate(None, _WORD_BYTES):
        raise CommandError(f"{what} cannot contain spaces, newlines or special characters.")
    return name


def wrong_password() -> CommandError:
    """One answer for an unknown user and for a wrong password."""
    return CommandError("invalid username-password pair or user is disabled.", "WRONGPASS")


def _hello_options(session: Session, options: list[bytes]) -> tuple[bool, tuple[bytes, bytes] | None, bytes | None]:
    """Whether RESP3 is wanted, the login and the name."""
    if not options:
        return session.resp3, None, None
    version = parse_integer(options[0])
    if version is None:
        raise CommandError("Protocol version is not an integer or out of range")
    if version not in (2, 3):
        raise CommandError("unsupported protocol version", "NOPROTO")
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    at = 1
    while at < len(options):
        word = options[at].upper()
        if (word == b"AUTH" and login is not None) or (word == b"SETNAME" and name is not None):
            repeated_option(word)
        if word == b"AUTH" and at + 2 < len(options):
            login = (options[at + 1], options[at + 2])
            at += 3
        elif word == b"SETNAME" and at + 1 < len(options):
            name = checked_name(options[at + 1], "client names")
            at += 2
        else:
            raise CommandError("syntax error: HELLO takes a version, AUTH <user> <password> and SETNAME <name>")
    return version == 3, login, name


def _log_in(session: Session, user: bytes) -> None:
    session.authenticated = True
    session.user = user
