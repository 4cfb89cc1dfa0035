"""AMEM.CONV: a bounded window of turns per session."""

from __future__ import annotations

from typing import Any

from amemdb.commands.context import Context, Sliced
from amemdb.commands.declare import Bytes, Expiry, Id, Integer, Json, Name, Option, Role, TimeMs, command
from amemdb.commands.scanning import SCAN, page
from amemdb.commands.turns import TURNS, answer
from amemdb.errors import CommandError
from amemdb.limits import NO_EXPIRY, WINDOW_MAX
from amemdb.protocol.reply import INTEGER, OK, SCAN_PAGE, Labelled
from amemdb.stores import records

FAMILY = "amem-conv"
SESSION = Name("session")


def session_not_found() -> CommandError:
    """What every write to a session that does not live answers."""
    return CommandError("session not found")


@command(
    "AMEM.CONV.CREATE",
    SESSION,
    Option("WINDOW", Integer("window", 1, WINDOW_MAX)),
    Expiry(),
    Option("NX"),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Open a session, or change the window and expiry of one that is open.",
    cost="O(1), O(n) in the turns that a smaller window drops",
)
def conv_create(ctx: Context, session: bytes, window: int | None, expire_at_ms: int | None, nx: bool) -> None:
    """A live session keeps its turns, and what is not given stays as it is."""
    conversation = ctx.stores.conv.live(session, ctx.now_ms)
    if conversation is not None and nx:
        raise CommandError("session already exists")
    if conversation is None:
        ctx.conversation_to_write(session)
        window = ctx.server.conv_window if window is None else window
        ctx.emit((records.CONVERSATION_SET, session, window, expire_at_ms or NO_EXPIRY, ctx.now_ms, 0))
        return
    window = conversation.window if window is None else window
    expire_at_ms = conversation.expire_at_ms if expire_at_ms is None else expire_at_ms
    if (window, expire_at_ms) != (conversation.window, conversation.expire_at_ms):
        ctx.emit((records.CONVERSATION_SET, session, window, expire_at_ms, conversation.created_at_ms, 0))


@command(
    "AMEM.CONV.APPEND",
    SESSION,
    Role("role"),
    Bytes("content"),
    Option("ID", Id()),
    Option("AT", TimeMs("at_ms")),
    Option("META", Json("meta")),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Append a turn; the oldest goes when the window is full.",
    flags=("native",),
)
def conv_append(
    ctx: Context,
    session: bytes,
    role: bytes,
    content: bytes,
    id: bytes | None,
    at_ms: int | None,
    meta: bytes | None,
) -> None:
    """With `ID`, an append that is sent again while the turn is in the window changes nothing."""
    conversation = ctx.stores.conv.live(session, ctx.now_ms)
    if conversation is None:
        raise session_not_found()
    if id is not None and conversation.holds_id(id):
        return
    ctx.emit((records.TURN_APPENDED, session, role, content, ctx.now_ms if at_ms is None else at_ms, id, meta))


@command(
    "AMEM.CONV.GET",
    SESSION,
    Option("WITHMETA", flag="with_meta"),
    access="read",
    reply=TURNS,
    family=FAMILY,
    summary="All turns in the window, oldest first.",
    cost="O(n) in the turns returned",
    flags=("native",),
)
def conv_get(ctx: Context, session: bytes, with_meta: bool) -> Any:
    """An unknown session is an empty one."""
    return conv_window(ctx, session, WINDOW_MAX, None, with_meta)


@command(
    "AMEM.CONV.WINDOW",
    SESSION,
    Integer("n", 0),
    Option("TOKENS", Integer("budget_tokens", 0)),
    Option("WITHMETA", flag="with_meta"),
    access="read",
    reply=TURNS,
    family=FAMILY,
    summary="The newest n turns, or the newest of them that fit a budget of tokens, oldest first.",
    cost="O(n) in the turns",
    flags=("native",),
)
def conv_window(ctx: Context, session: bytes, n: int, budget_tokens: int | None, with_meta: bool) -> Any:
    """Literally the newest n: a prompt builder drops orphan tool turns, this command does not.

    With `TOKENS` it stops before the first turn, from the newest back, that would go over the budget; none is cut.
    """
    conversation = ctx.stores.conv.live(session, ctx.now_ms)
    return [] if conversation is None else answer(conversation, n, budget_tokens, with_meta)


@command(
    "AMEM.CONV.CLEAR",
    SESSION,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Drop every turn; session, window, expiry and notes stay.",
    cost="O(n) in the turns",
    flags=("frees",),
)
def conv_clear(ctx: Context, session: bytes) -> int:
    """1 when the session existed."""
    conversation = ctx.conversation_to_write(session)
    if conversation is None:
        return 0
    if len(conversation):
        ctx.emit((records.CONVERSATION_CLEARED, session))
    return 1


@command(
    "AMEM.CONV.DROP",
    SESSION,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="End a session, its turns and its notes.",
    cost="O(n) in the turns and notes",
    flags=("frees",),
)
def conv_drop(ctx: Context, session: bytes) -> int:
    """1 when the session existed."""
    if ctx.conversation_to_write(session) is None:
        return 0
    ctx.emit((records.CONVERSATION_DROPPED, session))
    return 1


@command(
    "AMEM.CONV.EXPIRE",
    SESSION,
    Expiry(persist=True, required=True),
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Set when a session ends, or that it does not.",
    flags=("frees",),
)
def conv_expire(ctx: Context, session: bytes, expire_at_ms: int) -> int:
    """1 when the session existed."""
    conversation = ctx.conversation_to_write(session)
    if conversation is None:
        return 0
    if conversation.expire_at_ms != expire_at_ms:
        ctx.emit((records.CONVERSATION_EXPIRY_SET, session, expire_at_ms))
    return 1


@command(
    "AMEM.CONV.INFO",
    SESSION,
    access="read",
    reply=Labelled(turns=INTEGER, window=INTEGER, seq=INTEGER, created=INTEGER, expires_at=INTEGER, bytes=INTEGER),
    family=FAMILY,
    summary="Size, settings and times of a session.",
    cost="O(n) in the turns",
)
def conv_info(ctx: Context, session: bytes) -> tuple[int, ...]:
    """`expires_at` is -1 for a session without expiry."""
    conversation = ctx.stores.conv.live(session, ctx.now_ms)
    if conversation is None:
        raise session_not_found()
    return (
        len(conversation),
        conversation.window,
        conversation.seq,
        conversation.created_at_ms,
        conversation.expire_at_ms or -1,
        conversation.content_bytes(),
    )


@command(
    "AMEM.CONV.SCAN",
    *SCAN,
    access="read",
    reply=SCAN_PAGE,
    family=FAMILY,
    summary="The names of sessions, page by page.",
    cost="O(n) in the page",
)
def conv_scan(ctx: Context, cursor: int, pattern: bytes | None, count: int | None) -> Sliced:
    """At most COUNT names a page; a session that stays throughout is returned."""
    conv = ctx.stores.conv

    def shown_of(names: list[bytes]) -> list[bytes]:
        return [session for session in names if conv.live(session, ctx.now_ms) is not None]

    return page(lambda: conv.names, cursor, pattern, count, shown_of)
