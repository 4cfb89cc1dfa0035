"""AMEM.CONV: a bounded window of turns per session."""

from __future__ import annotations

from typing import Any

from amemdb.commands.context import Context
from amemdb.commands.declare import Bytes, Expiry, Id, Integer, Json, Name, Option, Role, TimeMs, command
from amemdb.commands.scanning import SCAN, page
from amemdb.commands.tokens import newest_within
from amemdb.errors import CommandError
from amemdb.limits import NO_EXPIRY, WINDOW_MAX
from amemdb.protocol.reply import BULK, INTEGER, OK, SCAN_PAGE, ArrayOf, Labelled
from amemdb.stores import records
from amemdb.stores.conversation import Conversation

FAMILY = "amem-conv"
SESSION = Name("session")
TURNS = ArrayOf(Labelled(role=BULK, content=BULK, seq=INTEGER, at=INTEGER, id=BULK, meta=BULK))


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
        window = int(ctx.server.config_get("conv-window")) if window is None else window
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
)
def conv_get(ctx: Context, session: bytes, with_meta: bool) -> list[tuple[Any, ...]]:
    """An unknown session is an empty one."""
    return _turns(ctx, session, WINDOW_MAX, with_meta)


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
)
def conv_window(
    ctx: Context, session: bytes, n: int, budget_tokens: int | None, with_meta: bool
) -> list[tuple[Any, ...]]:
    """Literally the newest n: a prompt builder drops orphan tool turns, this command does not.

    With `TOKENS` it stops before the first turn, from the newest back, that would go over the budget; none is cut.
    """
    return _turns(ctx, session, n, with_meta, budget_tokens)


@command(
    "AMEM.CONV.CLEAR",
    SESSION,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Drop every turn; session, window, expiry and notes stay.",
    cost="O(n) in the turns",
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
def conv_scan(ctx: Context, cursor: int, pattern: bytes | None, count: int | None) -> tuple[bytes, list[bytes]]:
    """At most COUNT names a page; a session that stays throughout is returned."""
    live = ctx.stores.conv.live
    return page(ctx.stores.conv.names, cursor, pattern, count, lambda session: live(session, ctx.now_ms) is not None)


def _turns(
    ctx: Context, session: bytes, count: int, with_meta: bool, budget_tokens: int | None = None
) -> list[tuple[Any, ...]]:
    conversation: Conversation | None = ctx.stores.conv.live(session, ctx.now_ms)
    if conversation is None:
        return []
    turns = conversation.newest(count)
    if budget_tokens is not None:
        turns = turns[len(turns) - newest_within(turns, budget_tokens) :]
    if not with_meta:
        return [(role, content) for role, content, _, _, _ in turns]
    first_seq = conversation.seq - len(turns) + 1
    return [
        (role, content, first_seq + index, at_ms, turn_id, meta)
        for index, (role, content, at_ms, turn_id, meta) in enumerate(turns)
    ]
