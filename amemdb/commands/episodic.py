"""AMEM.EPIS: an append-only log of timestamped events per agent."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import islice
from typing import Any

from amemdb.commands.context import Context, Sliced
from amemdb.commands.declare import Bytes, Id, Integer, Name, Option, TimeMs, command
from amemdb.commands.scanning import SCAN, page
from amemdb.errors import CommandError, printable
from amemdb.limits import (
    EVENTS_PAGE_BYTES_MAX,
    EVENTS_PAGE_DEFAULT,
    EVENTS_PAGE_MAX,
    INT64_MAX,
    INT64_MIN,
    REPLY_ELEMENTS_MAX,
    TTL_SECONDS_MAX,
)
from amemdb.protocol.numbers import parse_integer
from amemdb.protocol.reply import BULK, INTEGER, OK, SCAN_PAGE, ArrayOf, Elements, Labelled, TupleOf, check_elements
from amemdb.stores import records
from amemdb.stores.episodic import EventLog
from amemdb.stores.timeline import Event, Probe

FAMILY = "amem-epis"
AGENT = Name("agent")
TYPE = Name("type", entry=True)
EVENT = {"timestamp": INTEGER, "type": BULK, "content": BULK, "metadata": BULK}
EVENT_SHAPE = Labelled(**EVENT)
EVENTS = ArrayOf(EVENT_SHAPE)
EVENTS_AT_ONCE = 128
"""Events that are looked at at once, at most; more are looked at in slices."""
EVENTS_FIRST = 4
"""So many are looked at first: they may be large."""
EVENTS_BYTES_AT_ONCE = 256 * 1024
"""What those looked at at once are to have together, about."""

Shown = list[tuple[Any, ...]]


@command(
    "AMEM.EPIS.LOG",
    AGENT,
    TYPE,
    Bytes("content"),
    Option("METADATA", Bytes("metadata")),
    Option("AT", TimeMs("at_ms")),
    Option("ID", Id()),
    access="write",
    reply=OK,
    family=FAMILY,
    summary="Log an event; by the log's retention the oldest may go.",
    cost="O(log n)",
    flags=("native",),
)
def epis_log(
    ctx: Context,
    agent: bytes,
    event_type: bytes,
    content: bytes,
    metadata: bytes | None,
    at_ms: int | None,
    id: bytes | None,
) -> None:
    """With `ID`, an event that is sent again while it is among the newest changes nothing.

    An event that is older than the retention allows is logged and goes at once.
    """
    log = ctx.stores.epis.logs.get(agent)
    if id is not None and log is not None and log.holds_id(id, ctx.now_ms):
        return
    seq = 1 if log is None else log.next_seq
    at_ms = ctx.now_ms if at_ms is None else at_ms
    ctx.emit((records.EVENT_LOGGED, agent, seq, at_ms, event_type, content, metadata, id))
    if log is not None and log.has_policy:
        excess = len(log.events) - log.maxlen if log.maxlen else 0
        count = max(excess, ctx.stores.epis.dead_count(agent, ctx.now_ms))
        if count > 0:
            ctx.emit((records.EVENTS_TRIMMED, agent, count))


@command(
    "AMEM.EPIS.QUERY",
    AGENT,
    Option("TYPE", TYPE),
    Option("FROM", Integer("from_ms")),
    Option("TO", Integer("to_ms")),
    Option("LIMIT", Integer("limit", 0)),
    Option("REV", flag="newest_first"),
    access="read",
    reply=EVENTS,
    family=FAMILY,
    summary="Events by type and time, or the newest LIMIT of those, oldest first.",
    cost="O(log n), O(n) in the events returned",
)
def epis_query(
    ctx: Context,
    agent: bytes,
    event_type: bytes | None,
    from_ms: int | None,
    to_ms: int | None,
    limit: int | None,
    newest_first: bool,
) -> list[Any] | Sliced:
    """Both bounds are included; events of equal time stand in order of arrival. The filters come before the limit.

    Others are served while many are looked for: an event that stays is given, once.
    """
    log = ctx.stores.epis.logs.get(agent)
    if log is None:
        return []
    low = (max(INT64_MIN if from_ms is None else from_ms, log.live_from_ms(ctx.now_ms)),)
    high = ((INT64_MAX if to_ms is None else to_ms) + 1,)
    count_max = len(log.events) if limit is None else min(limit, len(log.events))
    if count_max > REPLY_ELEMENTS_MAX:
        check_elements(min(count_max, log.count_between(event_type, low, high)), "LIMIT or AMEM.EPIS.PAGE")
    return Sliced(_query(ctx, agent, event_type, low, high, count_max, newest_first))


def _query(
    ctx: Context, agent: bytes, event_type: bytes | None, low: Probe, high: Probe, count_max: int, newest_first: bool
) -> Generator[None, None, Elements]:
    """The events in steps, the newest first."""
    shown = Elements(EVENT_SHAPE, ctx.session.resp3)
    at_once = EVENTS_FIRST
    while (log := ctx.stores.epis.logs.get(agent)) is not None:
        wanted = min(count_max - len(shown), at_once)
        held_bytes = shown.held_bytes
        events = log.newest_between(event_type, low, high, wanted)
        shown.add([_shown(event) for event in (reversed(events) if newest_first else events)])
        if len(events) < wanted or len(shown) == count_max:
            break
        high = events[0][:2]
        each_bytes = (shown.held_bytes - held_bytes) // wanted
        at_once = max(1, min(4 * at_once, EVENTS_AT_ONCE, EVENTS_BYTES_AT_ONCE // max(1, each_bytes)))
        yield
    if not newest_first:
        shown.chunks.reverse()
    return shown


@command(
    "AMEM.EPIS.STATS",
    AGENT,
    Option("WITHMETA", flag="with_meta"),
    access="read",
    reply=Labelled(total_events=INTEGER, oldest_ts=INTEGER, newest_ts=INTEGER, maxlen=INTEGER, maxage=INTEGER),
    family=FAMILY,
    summary="How many events an agent has, and the times of the first and the last.",
)
def epis_stats(ctx: Context, agent: bytes, with_meta: bool) -> tuple[int, ...]:
    """Zeros for an agent without events. `WITHMETA` adds the retention, -1 where there is none."""
    log = ctx.stores.epis.logs.get(agent)
    counts = _counts(log, ctx.now_ms)
    if not with_meta:
        return counts
    if log is None:
        return *counts, -1, -1
    return *counts, log.maxlen or -1, log.maxage_ms // 1000 or -1


def _counts(log: EventLog | None, now_ms: int) -> tuple[int, int, int]:
    oldest = None if log is None else next(log.events.oldest_from((log.live_from_ms(now_ms),)), None)
    if log is None or oldest is None:
        return 0, 0, 0
    return len(log.events) - log.dead_count(now_ms), oldest[0], log.events.newest[0]


@command(
    "AMEM.EPIS.CLEAR",
    AGENT,
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Delete an agent's events; its retention stays.",
    cost="O(n) in the events",
    flags=("frees",),
)
def epis_clear(ctx: Context, agent: bytes) -> int:
    """1 when the agent had events or a retention."""
    log = ctx.stores.epis.logs.get(agent)
    if log is None:
        return 0
    if log.events:
        ctx.emit((records.EVENTS_CLEARED, agent))
    return 1


@command(
    "AMEM.EPIS.RETAIN",
    AGENT,
    Option("MAXLEN", Integer("maxlen", 1)),
    Option("MAXAGE", Integer("maxage_s", 1, TTL_SECONDS_MAX)),
    access="write",
    reply=INTEGER,
    family=FAMILY,
    summary="Set how many events an agent keeps and for how many seconds; the reply is how many went at once.",
    cost="O(n) in the events that go",
    flags=("frees",),
)
def epis_retain(ctx: Context, agent: bytes, maxlen: int | None, maxage_s: int | None) -> int:
    """Replaces the whole retention: what is not given no longer holds. It may be set before the first event."""
    log = ctx.stores.epis.logs.get(agent)
    policy = (maxlen or 0, (maxage_s or 0) * 1000)
    if log is None:
        if any(policy):
            ctx.emit((records.RETENTION_SET, agent, *policy, 1))
        return 0
    # Out of age already, hidden and not yet removed: a longer MAXAGE must not bring them back.
    hidden = log.dead_count(ctx.now_ms)
    if policy != (log.maxlen, log.maxage_ms):
        ctx.emit((records.RETENTION_SET, agent, *policy, log.next_seq))
    excess = len(log.events) - log.maxlen if log.maxlen else 0
    gone = max(hidden, log.dead_count(ctx.now_ms), excess)
    if gone:
        ctx.emit((records.EVENTS_TRIMMED, agent, gone))
    return gone - hidden


@command(
    "AMEM.EPIS.PAGE",
    AGENT,
    Bytes("cursor"),
    Option("COUNT", Integer("count", 1, EVENTS_PAGE_MAX)),
    Option("WITHMETA", flag="with_meta"),
    access="read",
    reply=TupleOf(BULK, ArrayOf(Labelled(**EVENT, id=BULK))),
    family=FAMILY,
    summary=f"All events of an agent page by page, oldest first: at most COUNT ({EVENTS_PAGE_DEFAULT}) a page.",
    cost="O(log n), O(n) in the page",
)
def epis_page(ctx: Context, agent: bytes, cursor: bytes, count: int | None, with_meta: bool) -> Sliced:
    """Cursor 0 begins and says that nothing follows; any other is the place of the last event given.

    `WITHMETA` adds the `id`, nil for an event without one.

    An event that stays is given once, whatever is logged or goes meanwhile; one that is logged before the cursor
    is not given. A page ends early when its events are large.
    """
    count_max = EVENTS_PAGE_DEFAULT if count is None else count
    return Sliced(_one_page(ctx, agent, _probe_behind(cursor), count_max, _with_meta if with_meta else _shown))


@command(
    "AMEM.EPIS.SCAN",
    *SCAN,
    access="read",
    reply=SCAN_PAGE,
    family=FAMILY,
    summary="The agents that have events or a retention, page by page.",
    cost="O(n) in the page",
)
def epis_scan(ctx: Context, cursor: int, pattern: bytes | None, count: int | None) -> Sliced:
    """At most COUNT agents a page; one whose log stays throughout is returned."""
    return page(lambda: ctx.stores.epis.names, cursor, pattern, count)


def _shown(event: Event) -> tuple[Any, ...]:
    """An event as the reply labels it: without a label for metadata that it does not have."""
    at_ms, _, event_type, content, metadata, _ = event
    return (at_ms, event_type, content) if metadata is None else (at_ms, event_type, content, metadata)


def _with_meta(event: Event) -> tuple[Any, ...]:
    """All that was given of an event, absent things as nil."""
    at_ms, _, event_type, content, metadata, event_id = event
    return at_ms, event_type, content, metadata, event_id


def _probe_behind(cursor: bytes) -> Probe:
    """Where the page after `cursor` begins."""
    if cursor == b"0":
        return (INT64_MIN,)
    at_text, _, seq_text = cursor.partition(b"-")
    at_ms, seq = parse_integer(at_text), parse_integer(seq_text)
    if at_ms is None or seq is None or seq < 0:
        raise CommandError(f"invalid cursor '{printable(cursor)}': expected the cursor of the page before, or 0")
    return at_ms, seq + 1


def _one_page(
    ctx: Context, agent: bytes, low: Probe, count_max: int, show: Callable[[Event], tuple[Any, ...]]
) -> Generator[None, None, tuple[bytes, Shown]]:
    """The events from `low` on in steps: at most `count_max`, none once there are `EVENTS_PAGE_BYTES_MAX` bytes."""
    shown: Shown = []
    room = EVENTS_PAGE_BYTES_MAX
    while (log := ctx.stores.epis.logs.get(agent)) is not None:
        count = 0
        for event in islice(log.events.oldest_from(max(low, (log.live_from_ms(ctx.now_ms),))), EVENTS_AT_ONCE):
            if len(shown) == count_max or room <= 0:
                at_ms, seq = low
                return b"%d-%d" % (at_ms, seq - 1), shown
            shown.append(show(event))
            room -= len(event[3]) + len(event[4] or b"")
            low = (event[0], event[1] + 1)
            count += 1
        if count < EVENTS_AT_ONCE:
            break
        yield
    return b"0", shown
