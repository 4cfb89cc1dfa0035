"""Events: an append-only log of what happened, per agent, in the order of time.

An agent's log holds each event in one `Timeline` of all and, the very same tuple, in one of its type, so that a
query by type costs no more than its answer. Events of equal time keep their order of arrival: `seq` counts the
arrivals of a log, is part of the record, and never starts again while the log exists.

A log exists while it holds an event or a retention policy. Of the policy, MAXLEN is kept by the command that logs
an event (the trim is a record in the same frame) and MAXAGE by hiding: an event older than that is out of every
read at once, and the wheel, or the next write, removes it. What is hidden is always the oldest, so one count says
what a removal removes. The wheel holds one entry a log, for its oldest event.

Ids make a retried LOG harmless: those of the newest `EVENT_IDS_REMEMBERED` events, in stored order, are known.
That set follows from the events alone, so it is the same after a replay.
"""

from __future__ import annotations

from collections.abc import Iterator

from amemdb.limits import EVENT_IDS_REMEMBERED, EVENTS_REMOVED_AT_ONCE_MAX, INT64_MIN
from amemdb.stores import records
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record
from amemdb.stores.timeline import Event, Timeline
from amemdb.stores.wheel import BUCKET_SHIFT, Wheel


class EventLog:
    """One agent's events. `maxlen` and `maxage_ms` are 0 for none; the next event gets the number `next_seq`."""

    __slots__ = ("_ids", "by_type", "due_ms", "events", "maxage_ms", "maxlen", "next_seq")

    def __init__(self) -> None:
        self.maxlen = 0
        self.maxage_ms = 0
        self.next_seq = 1
        self.due_ms = 0
        """What the wheel was told: when the oldest event will be out of age, 0 for never."""
        self.clear()

    def clear(self) -> None:
        """Drop every event; policy and numbering stay."""
        self.events = Timeline()
        self.by_type: dict[bytes, Timeline] = {}
        self._ids: dict[bytes, Event] | None = None

    # -- reading ---------------------------------------------------------------------------------

    @property
    def has_policy(self) -> bool:
        """Whether events leave by themselves."""
        return self.maxlen > 0 or self.maxage_ms > 0

    def live_from_ms(self, now_ms: int) -> int:
        """The earliest time whose events are not out of age: an event exactly as old as MAXAGE still lives."""
        return now_ms - self.maxage_ms if self.maxage_ms else INT64_MIN

    def dead_count(self, now_ms: int) -> int:
        """How many events, the oldest ones, are out of age."""
        live_from_ms = self.live_from_ms(now_ms)
        if not self.events or self.events.oldest[0] >= live_from_ms:
            return 0
        return self.events.count_before((live_from_ms,))

    def holds_id(self, event_id: bytes, now_ms: int) -> bool:
        """Whether an event of that id is among the newest and not out of age."""
        event = None if self._ids is None else self._ids.get(event_id)
        return event is not None and event[0] >= self.live_from_ms(now_ms)

    def due_at_ms(self) -> int:
        """When the oldest event will be out of age, 0 for never."""
        return self.events.oldest[0] + self.maxage_ms + 1 if self.maxage_ms and self.events else 0

    # -- changes ---------------------------------------------------------------------------------

    def add(
        self, at_ms: int, seq: int, event_type: bytes, content: bytes, metadata: bytes | None, event_id: bytes | None
    ) -> None:
        """Take one event in."""
        of_type = self.by_type.get(event_type)
        if of_type is None:
            of_type = self.by_type[event_type] = Timeline(event_type)
        # The name of the type is the timeline's: one object, however often it is sent.
        event = (at_ms, seq, of_type.event_type, content, metadata, event_id)
        of_type.add(event)
        self.events.add(event)
        if seq >= self.next_seq:
            self.next_seq = seq + 1
        if self._ids is not None or event_id is not None:
            self._remember(event)

    def trim(self, count: int) -> None:
        """Drop the `count` oldest events, which are the oldest of their types as well."""
        counts: dict[bytes, int] = {}
        for event in self.events.drop_oldest(count):
            counts[event[2]] = counts.get(event[2], 0) + 1
            self._forget(event)
        for event_type, count_of_type in counts.items():
            of_type = self.by_type[event_type]
            of_type.drop_oldest(count_of_type)
            if not of_type:
                del self.by_type[event_type]

    def _remember(self, event: Event) -> None:
        """Keep the ids to those of the newest events, now that `event` is one of all."""
        if len(self.events) > EVENT_IDS_REMEMBERED:
            beyond = self.events.nth_newest(EVENT_IDS_REMEMBERED)
            if event <= beyond:
                return
            self._forget(beyond)
        if event[5] is not None:
            if self._ids is None:
                self._ids = {}
            self._ids[event[5]] = event

    def _forget(self, event: Event) -> None:
        event_id = event[5]
        if event_id is not None and self._ids is not None and self._ids.get(event_id) is event:
            del self._ids[event_id]
            if not self._ids:
                self._ids = None


class EpisodicStore:
    """All event logs by agent."""

    def __init__(self, wheel: Wheel) -> None:
        self.logs: dict[bytes, EventLog] = {}
        self.names = NameIndex()
        self._wheel = wheel

    def dead_count(self, agent: bytes, now_ms: int) -> int:
        """How many of the agent's events are out of age and may go in one record, which bounds the work of a tick."""
        log = self.logs.get(agent)
        return 0 if log is None else min(log.dead_count(now_ms), EVENTS_REMOVED_AT_ONCE_MAX)

    # -- changes ---------------------------------------------------------------------------------

    def apply_logged(self, record: Record) -> None:
        """EVENT_LOGGED."""
        _, agent, seq, at_ms, event_type, content, metadata, event_id = record
        log = self._log(agent)
        log.add(at_ms, seq, event_type, content, metadata, event_id)
        if log.maxage_ms:
            self._settle(agent, log)

    def apply_trimmed(self, record: Record) -> None:
        """EVENTS_TRIMMED."""
        _, agent, count = record
        log = self.logs[agent]
        log.trim(count)
        self._settle(agent, log)

    def apply_cleared(self, record: Record) -> None:
        """EVENTS_CLEARED."""
        agent = record[1]
        log = self.logs[agent]
        log.clear()
        self._settle(agent, log)

    def apply_retention(self, record: Record) -> None:
        """RETENTION_SET: the policy, and from where numbering goes on. What goes by it is a record of its own."""
        _, agent, maxlen, maxage_ms, next_seq = record
        log = self._log(agent)
        log.maxlen = maxlen
        log.maxage_ms = maxage_ms
        log.next_seq = max(log.next_seq, next_seq)
        self._settle(agent, log)

    def clear(self) -> None:
        """Forget every log (the wheel is cleared by `Stores`)."""
        self.logs.clear()
        self.names.clear()

    def _log(self, agent: bytes) -> EventLog:
        log = self.logs.get(agent)
        if log is None:
            log = self.logs[agent] = EventLog()
            self.names.add(agent)
        return log

    def _settle(self, agent: bytes, log: EventLog) -> None:
        """After a change: have the wheel follow the oldest event, and let a log that holds nothing go."""
        due_ms, before_ms = log.due_at_ms(), log.due_ms
        if due_ms != before_ms:
            log.due_ms = due_ms
            # Within one bucket the entry can stay: a full log would otherwise pay for a move with every event.
            if not (due_ms and before_ms and due_ms >> BUCKET_SHIFT == before_ms >> BUCKET_SHIFT):
                if before_ms:
                    self._wheel.cancel(("events", agent), before_ms)
                if due_ms:
                    self._wheel.schedule(("events", agent), due_ms)
        if not log.events and not log.has_policy:
            del self.logs[agent]
            self.names.discard(agent)

    # -- whole state -----------------------------------------------------------------------------

    def dump(self, agent: bytes, now_ms: int) -> Iterator[Record]:
        """The records that rebuild the agent's log; without what is out of age at `now_ms`, unless that is 0.

        The policy comes last, so that rebuilding moves no entry of the wheel from event to event.
        """
        log = self.logs[agent]
        next_seq = 1
        low_ms = log.live_from_ms(now_ms) if now_ms else INT64_MIN
        for at_ms, seq, event_type, content, metadata, event_id in log.events.oldest_from((low_ms,)):
            next_seq = max(next_seq, seq + 1)
            yield (records.EVENT_LOGGED, agent, seq, at_ms, event_type, content, metadata, event_id)
        if log.has_policy or next_seq != log.next_seq:
            yield (records.RETENTION_SET, agent, log.maxlen, log.maxage_ms, log.next_seq)
