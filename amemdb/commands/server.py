"""Server: INFO, CONFIG, SLOWLOG, TIME, DEBUG, SHUTDOWN. COMMAND is in `commands.introspection`.

What is asked here is known to `context.Server`; these commands only parse and pass on.
"""

from __future__ import annotations

from typing import Any

from amemdb.commands.context import Context, Deferred
from amemdb.commands.declare import Bytes, Float, Rest, command
from amemdb.commands.parsing import integer, repeated_option, unknown_option
from amemdb.errors import CommandError, wrong_arity
from amemdb.limits import CONFIG_PATTERNS_BYTES_MAX, CONFIG_PATTERNS_MAX, INFO_SECTIONS_MAX, INT64_MAX
from amemdb.protocol.glob import matcher
from amemdb.protocol.reply import BULK, INTEGER, NAMES, OK, RAW, SIMPLE, VERBATIM, ArrayOf, MapOf, TupleOf

FAMILY = "server"
ADMIN = ("noscript", "loading")
SLOWLOG_COUNT_DEFAULT = 10
SLEEP_SECONDS_MAX = 86_400
TEXT_LINES = ArrayOf(SIMPLE)

CONFIG_HELP = [
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern> [<pattern> ...]",
    "    The settings whose names fit a pattern, with their values.",
    "SET <setting> <value> [<setting> <value> ...]",
    "    Change settings: all of them, or none if one cannot be changed.",
    "REWRITE",
    "    Write the settings in force to the file that the server was started with.",
    "RESETSTAT",
    "    Begin again to count what INFO tells.",
    "HELP",
    "    This text.",
]
SLOWLOG_HELP = [
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    The newest slow commands (default 10, -1 for all): id, Unix seconds, microseconds, arguments, address and",
    "    name of the client.",
    "LEN",
    "    How many are kept.",
    "RESET",
    "    Forget them.",
    "HELP",
    "    This text.",
]
DEBUG_HELP = [
    "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "DIGEST",
    "    40 hex digits that two servers with equal data share.",
    "SLEEP <seconds>",
    "    Stop the whole server for that long.",
    "HELP",
    "    This text.",
]


# -- INFO and TIME -----------------------------------------------------------------------------------


@command(
    "INFO",
    Rest("sections", Bytes("section"), count_min=0),
    access="server",
    reply=VERBATIM,
    family=FAMILY,
    summary="State and counters of the server, by section.",
    cost="O(n) in the connections and databases; O(n) in the objects for a store's section asked for by name",
    flags=("loading", "dangerous"),
)
def info(ctx: Context, sections: list[bytes]) -> str:
    """Sections by name in any case; `default`, `all` and `everything` stand for several, unknown ones for none."""
    if len(sections) > INFO_SECTIONS_MAX:
        raise CommandError(f"too many sections: at most {INFO_SECTIONS_MAX} can be asked for, got {len(sections)}")
    names = [section.lower().decode("ascii", "replace") for section in sections]
    return ctx.server.info(names, ctx.stores, ctx.now_ms)


@command(
    "TIME",
    access="server",
    reply=NAMES,
    family=FAMILY,
    summary="The server's time: Unix seconds, and microseconds within the second.",
    flags=("loading",),
)
def time(ctx: Context) -> list[bytes]:
    """The moment at which the command ran, to the millisecond."""
    return [b"%d" % (ctx.now_ms // 1000), b"%d" % (ctx.now_ms % 1000 * 1000)]


# -- CONFIG ------------------------------------------------------------------------------------------


@command(
    "CONFIG|GET",
    Rest("patterns", Bytes("pattern")),
    access="admin",
    reply=MapOf(BULK, BULK),
    family=FAMILY,
    summary="Settings whose names fit one of the patterns.",
    cost="O(n * m) in settings and patterns",
    flags=ADMIN,
)
def config_get(ctx: Context, patterns: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Each setting once, in the order of the documentation."""
    if len(patterns) > CONFIG_PATTERNS_MAX or sum(map(len, patterns)) > CONFIG_PATTERNS_BYTES_MAX:
        raise CommandError(
            f"too many patterns: at most {CONFIG_PATTERNS_MAX}, of {CONFIG_PATTERNS_BYTES_MAX} bytes together"
        )
    chosen: set[str] = set()
    names = ctx.server.config_names()
    for pattern in dict.fromkeys(pattern.lower() for pattern in patterns):
        matches = matcher(pattern)
        chosen.update(name for name in names if name not in chosen and matches(name.encode()))
    return [(name.encode(), _bytes(ctx.server.config_get(name))) for name in names if name in chosen]


@command(
    "CONFIG|SET",
    Rest("changes", Bytes("setting"), step=2, secret=True),
    access="admin",
    reply=OK,
    family=FAMILY,
    summary="Change settings, all or none.",
    cost="O(n) in the settings changed",
    flags=ADMIN,
)
def config_set(ctx: Context, changes: list[bytes]) -> None:
    """Values never show in SLOWLOG, as one may be a password."""
    ctx.server.config_set(
        [(_text(setting), _text(value)) for setting, value in zip(changes[::2], changes[1::2], strict=True)]
    )


@command(
    "CONFIG|REWRITE",
    access="admin",
    reply=OK,
    family=FAMILY,
    summary="Write the settings in force to the file that the server was started with.",
    cost="O(n) in the file; the disk is waited for",
    flags=ADMIN,
)
def config_rewrite(ctx: Context) -> Deferred:
    """Others are served while the file is written."""
    rewrite = ctx.server.config_rewrite
    if rewrite is None:
        raise CommandError("The server is running without a config file")

    def finish(ctx: Context, failure: str | None) -> None:
        if failure is not None:
            raise CommandError(f"Rewriting config file: {failure}")

    return Deferred(rewrite, finish)


@command(
    "CONFIG|RESETSTAT",
    access="admin",
    reply=OK,
    family=FAMILY,
    summary="Begin again to count what INFO tells.",
    flags=ADMIN,
)
def config_resetstat(ctx: Context) -> None:
    """SLOWLOG stays; it has a RESET of its own."""
    ctx.server.reset_statistics()


@command(
    "CONFIG|HELP",
    access="server",
    reply=TEXT_LINES,
    family=FAMILY,
    summary="The subcommands of CONFIG.",
    flags=("loading",),
)
def config_help(ctx: Context) -> list[str]:
    """Lines of text."""
    return CONFIG_HELP


# -- SLOWLOG -----------------------------------------------------------------------------------------


@command(
    "SLOWLOG|GET",
    Rest("counts", Bytes("count"), count_min=0, syntax="count"),
    access="admin",
    reply=ArrayOf(TupleOf(INTEGER, INTEGER, INTEGER, NAMES, BULK, BULK)),
    family=FAMILY,
    summary="The newest slow commands.",
    cost="O(n) in the entries returned",
    flags=("loading",),
)
def slowlog_get(ctx: Context, counts: list[bytes]) -> list[Any]:
    """Newest first; -1 for all."""
    if len(counts) > 1:
        raise wrong_arity("SLOWLOG|GET")
    return ctx.server.slowlog(integer(counts[0], "count", -1, INT64_MAX) if counts else SLOWLOG_COUNT_DEFAULT)


@command(
    "SLOWLOG|LEN",
    access="admin",
    reply=INTEGER,
    family=FAMILY,
    summary="How many slow commands are kept.",
    flags=("loading",),
)
def slowlog_len(ctx: Context) -> int:
    """At most the setting `slowlog-max-len`."""
    return ctx.server.slowlog_len()


@command(
    "SLOWLOG|RESET",
    access="admin",
    reply=OK,
    family=FAMILY,
    summary="Forget the slow commands.",
    cost="O(n) in the entries",
    flags=("loading",),
)
def slowlog_reset(ctx: Context) -> None:
    """Ids go on from where they were."""
    ctx.server.slowlog_reset()


@command(
    "SLOWLOG|HELP",
    access="server",
    reply=TEXT_LINES,
    family=FAMILY,
    summary="The subcommands of SLOWLOG.",
    flags=("loading",),
)
def slowlog_help(ctx: Context) -> list[str]:
    """Lines of text."""
    return SLOWLOG_HELP


# -- DEBUG -------------------------------------------------------------------------------------------


@command(
    "DEBUG|DIGEST",
    access="admin",
    reply=SIMPLE,
    family=FAMILY,
    summary="A digest that two servers with equal data share.",
    cost="O(n) in all data",
    flags=(*ADMIN, "tells_of_data"),
)
def debug_digest(ctx: Context) -> str:
    """Of what has not expired by now."""
    _require_debug(ctx)
    return ctx.stores.digest(ctx.now_ms)


@command(
    "DEBUG|SLEEP",
    Float("seconds"),
    access="admin",
    reply=OK,
    family=FAMILY,
    summary="Stop the whole server for some seconds.",
    cost="as long as asked for",
    flags=ADMIN,
)
def debug_sleep(ctx: Context, seconds: float) -> None:
    """For tests of clients and of failover: nothing else runs meanwhile."""
    _require_debug(ctx)
    if not 0 <= seconds <= SLEEP_SECONDS_MAX:
        raise CommandError(f"value is out of range: seconds must be from 0 to {SLEEP_SECONDS_MAX}")
    ctx.server.sleep(seconds)


@command(
    "DEBUG|HELP",
    access="admin",
    reply=TEXT_LINES,
    family=FAMILY,
    summary="The subcommands of DEBUG.",
    flags=ADMIN,
)
def debug_help(ctx: Context) -> list[str]:
    """Lines of text."""
    _require_debug(ctx)
    return DEBUG_HELP


# -- SHUTDOWN ----------------------------------------------------------------------------------------


@command(
    "SHUTDOWN",
    Rest("modes", Bytes("mode"), count_min=0, syntax="[NOSAVE | SAVE] [NOW] [FORCE] | ABORT"),
    access="admin",
    reply=RAW,
    family=FAMILY,
    summary="Stop the server in order.",
    flags=(*ADMIN, "refuse_multi"),
)
def shutdown(ctx: Context, modes: list[bytes]) -> bytes:
    """No reply when it stops, as in Redis: the connection closes. The log is written and closed in every mode."""
    given: set[bytes] = set()
    for mode in modes:
        word = mode.upper()
        if word not in (b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"ABORT"):
            unknown_option(mode)
        if word in given:
            repeated_option(mode)
        given.add(word)
    if {b"SAVE", b"NOSAVE"} <= given or (b"ABORT" in given and len(given) > 1):
        raise CommandError("syntax error: SAVE excludes NOSAVE, and ABORT stands alone")
    if b"ABORT" in given:
        if not ctx.server.shutdown_requested:
            raise CommandError("No shutdown in progress.")
        raise CommandError("The shutdown has begun and cannot be called off.")
    ctx.server.request_shutdown()
    return b""


def _require_debug(ctx: Context) -> None:
    if ctx.server.config_get("enable-debug-command") != "yes":
        raise CommandError("DEBUG command not allowed. Start the server with enable-debug-command yes to use it.")


def _text(token: bytes) -> str:
    """Bytes as a setting's name or value; what is no UTF-8 survives the way there and back."""
    return token.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
