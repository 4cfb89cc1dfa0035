"""Compaction on demand, under the names that Redis has for snapshots and rewrites of its log.

There is one thing to do here, not two: BGREWRITEAOF and BGSAVE both have the log compacted, SAVE waits for it. Nothing
depends on it for safety, as the log has everything already; it makes restarts quick and has what was deleted
vanish from the files.
"""

from __future__ import annotations

from amemdb.commands.context import Awaited, Compaction, Context
from amemdb.commands.declare import Option, command
from amemdb.errors import CommandError
from amemdb.protocol.reply import INTEGER, OK, SIMPLE

FAMILY = "server"
ADMIN = ("noscript",)


def _compaction(ctx: Context) -> Compaction:
    compaction = ctx.server.compaction
    if compaction is None:
        raise CommandError("there is no log to compact")
    return compaction


@command(
    "BGREWRITEAOF",
    access="admin",
    reply=SIMPLE,
    family=FAMILY,
    summary="Compact the log in the background: what was overwritten, deleted or has expired goes from the files.",
    cost="O(n) in the files, by a process of low priority",
    flags=ADMIN,
)
def bgrewriteaof(ctx: Context) -> str:
    """Its progress and how it went are in `INFO persistence`."""
    compaction = _compaction(ctx)
    if compaction.running:
        raise CommandError("Background append only file rewriting already in progress")
    compaction.start()
    return "Background append only file rewriting started"


@command(
    "BGSAVE",
    Option("SCHEDULE"),
    access="admin",
    reply=SIMPLE,
    family=FAMILY,
    summary="The same as BGREWRITEAOF; with SCHEDULE also while a compaction is under way, to begin behind it.",
    cost="O(n) in the files, by a process of low priority",
    flags=ADMIN,
)
def bgsave(ctx: Context, schedule: bool) -> str:
    """In the words that Redis has for snapshots."""
    compaction = _compaction(ctx)
    if not compaction.running:
        compaction.start()
        return "Background saving started"
    if not schedule:
        raise CommandError("Background save already in progress")
    compaction.schedule()
    return "Background saving scheduled"


@command(
    "SAVE",
    access="admin",
    reply=OK,
    family=FAMILY,
    summary="Compact the log and answer when it is done. Others are served meanwhile.",
    cost="O(n) in the files, by a process of low priority",
    flags=(*ADMIN, "refuse_multi"),
)
def save(ctx: Context) -> Awaited:
    """Refused while a compaction is under way, which may have begun too early for what is meant to be saved."""
    compaction = _compaction(ctx)
    if compaction.running:
        raise CommandError("Background save already in progress")
    compaction.start()

    def finish(ctx: Context, error: str) -> None:
        if error:
            raise CommandError(f"the log could not be compacted: {error}")

    return Awaited(lambda tell: compaction.when_over(lambda: tell(compaction.error)), finish)


@command(
    "LASTSAVE",
    access="server",
    reply=INTEGER,
    family=FAMILY,
    summary="When the last compaction went well, in Unix seconds; before the first, when the server started.",
    flags=("loading",),
)
def lastsave(ctx: Context) -> int:
    """As in Redis, which counts the load of a snapshot as one."""
    return _compaction(ctx).last_save_s
