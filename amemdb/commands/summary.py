"""AMEM.SUMMARY: one rolling text per agent, versioned."""

from __future__ import annotations

from amemdb.commands.context import Context, Sliced
from amemdb.commands.declare import Bytes, Integer, Name, Option, command
from amemdb.commands.scanning import SCAN, page
from amemdb.errors import CommandError
from amemdb.limits import BULK_BYTES_MAX, REPLY_BYTES_MAX, SUMMARY_HISTORY_MAX
from amemdb.protocol.reply import BULK, INTEGER, SCAN_PAGE, ArrayOf, Labelled, TupleOf
from amemdb.stores import records

FAMILY = "amem-summary"
AGENT = Name("agent")


@command(
    "AMEM.SUMMARY.SET",
    AGENT,
    Bytes("text"),
    Option("IFVERSION", Integer("version", 0)),
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Replace an agent's summary; the reply is its new version.",
)
def summary_set(ctx: Context, agent: bytes, text: bytes, version: int | None) -> int:
    """With `IFVERSION`, only when that is the version there is; 0 stands for none."""
    have = _version(ctx, agent)
    if version is not None and version != have:
        raise CommandError(f"version mismatch: have {have}")
    ctx.emit((records.SUMMARY_SET, agent, text, have + 1, ctx.now_ms))
    return have + 1


@command(
    "AMEM.SUMMARY.APPEND",
    AGENT,
    Bytes("line"),
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Add a line to an agent's summary; the reply is its new version.",
)
def summary_append(ctx: Context, agent: bytes, line: bytes) -> int:
    """Joined with a newline; a summary that is absent or empty becomes the line."""
    current = ctx.stores.summary.current(agent)
    if current is not None and current.length + 1 + len(line) > BULK_BYTES_MAX:
        raise CommandError(
            f"the summary would be longer than {BULK_BYTES_MAX} bytes: it has {current.length}, the line {len(line)}"
        )
    version = 1 if current is None else current.number + 1
    ctx.emit((records.SUMMARY_APPENDED, agent, line, version, ctx.now_ms))
    return version


@command(
    "AMEM.SUMMARY.GET",
    AGENT,
    access="read",
    reply=TupleOf(BULK, INTEGER, INTEGER),
    family=FAMILY,
    summary="An agent's summary, its version, and when it was changed in Unix seconds.",
    cost="O(n) in the text",
)
def summary_get(ctx: Context, agent: bytes) -> tuple[bytes, int, int] | None:
    """Nil for an agent without one. The only time on the wire in whole seconds, as HotKV's clients read it."""
    current = ctx.stores.summary.current(agent)
    if current is None:
        return None
    return current.text, current.number, current.updated_at_ms // 1000


@command(
    "AMEM.SUMMARY.DROP",
    AGENT,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Delete an agent's summary and its history.",
    flags=("frees",),
)
def summary_drop(ctx: Context, agent: bytes) -> int:
    """1 when there was one. The next summary of the agent begins at version 1."""
    if ctx.stores.summary.current(agent) is None:
        return 0
    ctx.emit((records.SUMMARY_DROPPED, agent))
    return 1


@command(
    "AMEM.SUMMARY.LIST",
    access="read",
    reply=ArrayOf(BULK, use_instead="AMEM.SUMMARY.SCAN"),
    family=FAMILY,
    summary="The agents that have a summary.",
    cost="O(n) in the agents",
)
def summary_list(ctx: Context) -> list[bytes]:
    """In the order in which they first had one."""
    return list(ctx.stores.summary.summaries)


@command(
    "AMEM.SUMMARY.HISTORY",
    AGENT,
    Option("COUNT", Integer("count", 0)),
    access="read",
    reply=ArrayOf(Labelled(version=INTEGER, updated_at=INTEGER, text=BULK)),
    family=FAMILY,
    summary=f"The newest versions of an agent's summary, newest first: at most COUNT, at most {SUMMARY_HISTORY_MAX}.",
    cost="O(n) in the texts returned",
)
def summary_history(ctx: Context, agent: bytes, count: int | None) -> list[tuple[int, int, bytes]]:
    """`updated_at` is in milliseconds. Without `COUNT` all that are kept.

    Versions of a text that grew share its bytes in memory, but not in a reply: one that is too long is refused.
    """
    summary = ctx.stores.summary.summaries.get(agent)
    if summary is None:
        return []
    versions = summary.versions[::-1][: SUMMARY_HISTORY_MAX if count is None else count]
    if len(versions) > 1 and sum(version.length for version in versions) > REPLY_BYTES_MAX:
        raise CommandError(f"the answer is longer than {REPLY_BYTES_MAX} bytes; ask for fewer versions with COUNT")
    return [(version.number, version.updated_at_ms, version.text) for version in versions]


@command(
    "AMEM.SUMMARY.SCAN",
    *SCAN,
    access="read",
    reply=SCAN_PAGE,
    family=FAMILY,
    summary="The agents that have a summary, page by page.",
    cost="O(n) in the page",
)
def summary_scan(ctx: Context, cursor: int, pattern: bytes | None, count: int | None) -> Sliced:
    """At most COUNT agents a page; one whose summary stays throughout is returned."""
    return page(lambda: ctx.stores.summary.names, cursor, pattern, count)


def _version(ctx: Context, agent: bytes) -> int:
    current = ctx.stores.summary.current(agent)
    return 0 if current is None else current.number
