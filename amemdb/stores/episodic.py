"""Events: an append-only log of what happened, per agent, in the order of time.

An agent's log holds each event in one `Timeline` of all and, the very same tuple, in one of its type, so that a
query by type costs no more than its answer; the native `EventLog` (`amemdb.stores._episodic`) packs them instead.
Events of equal time keep their order of arrival: `seq` counts the
arrivals of a log, is part of the record, and never starts again while the log exists.

A log exists while it holds an event or a retention policy. Of the policy, MAXLEN is kept by the command that logs
an event (the trim is a record in the same frame) and MAXAGE by hiding: an event older than that is out of every
read at once, and the wheel, or the next write, removes it. What is hidden is always the oldest, so one count says
what a removal removes. The wheel holds one entry a log, for its oldest event.

Ids make a retried LOG harmless: those of the newest `EVENT_IDS_REMEMBERED` events, in stored order, are known.
That set follows from the events alone, so it is the same after a replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from amemdb import native
from amemdb.limits import EVENT_IDS_REMEMBERED, EVENTS_REMOVED_AT_ONCE_MAX, INT64_MIN
from amemdb.stores import memory, records
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record
from amemdb.stores.timeline import Event, Probe, Timeline
from amemdb.stores.wheel import BUCKET_SHIFT, Wheel

_type_of = itemgetter(2)
_POINTERS_BYTES = 17
"""Of an event in the chunks of two timelines, which are an eighth larger than what they hold."""
_TIMELINE_BYTES = 240
"""Of a timeline beside its events, about."""


class PlainEventLog:
    """One agent's events. `maxlen` and `maxage_ms` are 0 for none; the next event gets the number `next_seq`."""

    __slots__ = ("_event_bytes", "by_type", "due_ms", "events", "ids", "maxage_ms", "maxlen", "next_seq")

    def __init__(self) -> None:
        self.maxlen = 0
        self.maxage_ms = 0
        self.next_seq = 1
        self.due_ms = 0
        """What the wheel was told: when the oldest event will be out of age, 0 for never."""
        self._event_bytes = 0
        self.events = Timeline()
        self.by_type: dict[bytes, Timeline] = {}
        self.ids: dict[bytes, Event] | None = None
        """The newest events that have an id, None for none."""

    def __len__(self) -> int:
        """How many events it holds, hidden ones included."""
        return len(self.events)

    def memory_bytes(self) -> int:
        """Bytes of memory that the log has to itself, about."""
        ids_bytes = 0 if self.ids is None else memory.table(self.ids)
        timelines_bytes = (1 + len(self.by_type)) * _TIMELINE_BYTES + memory.table(self.by_type)
        return _OBJECT_BYTES + timelines_bytes + self._event_bytes + ids_bytes

    def walked_bytes(self) -> int:
        """The same, counted anew."""
        return self.memory_bytes() - self._event_bytes + sum(map(_bytes_of, self.events))

    def free_some(self, count: int) -> int:
        """Free about `count` events of a log that is out of use; how many they were."""
        self.by_type = {}
        return self.events.free_some(count)

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
        event = None if self.ids is None else self.ids.get(event_id)
        return event is not None and event[0] >= self.live_from_ms(now_ms)

    def due_at_ms(self) -> int:
        """When the oldest event will be out of age, 0 for never."""
        return self.events.oldest[0] + self.maxage_ms + 1 if self.maxage_ms and self.events else 0

    def newest_between(self, event_type: bytes | None, low: Probe, high: Probe, count_max: int) -> list[Event]:
        """The newest `count_max` events, of a type or of all, from `low` up to, not including, `high`, oldest first."""
        timeline = self._of_type(event_type)
        return [] if timeline is None else timeline.newest_between(low, high, count_max)

    def count_between(self, event_type: bytes | None, low: Probe, high: Probe) -> int:
        """How many there are of those."""
        timeline = self._of_type(event_type)
        return 0 if timeline is None else timeline.count_between(low, high)

    def _of_type(self, event_type: bytes | None) -> Timeline | None:
        return self.events if event_type is None else self.by_type.get(event_type)

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
        self._event_bytes += _bytes_of(event)
        if seq >= self.next_seq:
            self.next_seq = seq + 1
        if self.ids is not None or event_id is not None:
            self._remember(event)

    def trim(self, count: int) -> Timeline | None:
        """Drop the `count` oldest events, which are the oldest of their types as well; what is left to be buried."""
        # Of those that go, only the newest of all can be known by an id.
        known_from = max(0, len(self.events) - EVENT_IDS_REMEMBERED)
        dropped = self.events.drop_oldest(count)
        self._event_bytes -= sum(map(_bytes_of, dropped))
        if self.ids is not None and count > known_from:
            for event in islice(dropped, known_from, None):
                self._forget(event)
        for event_type, count_of_type in Counter(map(_type_of, dropped)).items():
            of_type = self.by_type[event_type]
            of_type.drop_oldest(count_of_type)
            if not of_type:
                del self.by_type[event_type]
        return dropped

    def clear(self) -> Timeline | None:
        """Drop every event; policy and numbering stay. What is left to be buried."""
        dropped = self.events
        self.events = Timeline()
        self._event_bytes = 0
        # These may go at once: what they hold is held by the others as well, so it is nothing but pointers.
        self.by_type = {}
        self.ids = None
        return dropped

    def _remember(self, event: Event) -> None:
        """Keep the ids to those of the newest events, now that `event` is one of all."""
        if len(self.events) > EVENT_IDS_REMEMBERED:
            beyond = self.events.nth_newest(EVENT_IDS_REMEMBERED)
            if event <= beyond:
                return
            self._forget(beyond)
        if event[5] is not None:
            if self.ids is None:
                self.ids = {}
            self.ids[event[5]] = event

    def _forget(self, event: Event) -> None:
        event_id = event[5]
        if event_id is not None and self.ids is not None and self.ids.get(event_id) is event:
            del self.ids[event_id]
            if not self.ids:
                self.ids = None


_OBJECT_BYTES = PlainEventLog.__basicsize__ + 16
_TUPLE_BYTES = memory.tuple_of(6) + _POINTERS_BYTES


def _bytes_of(event: Event) -> int:
    """What an event takes in memory; its type is there once for all."""
    at_ms, seq, _, content, metadata, event_id = event
    count_bytes = _TUPLE_BYTES + memory.number(at_ms) + memory.number(seq) + memory.text(len(content))
    if metadata is not None:
        count_bytes += memory.text(len(metadata))
    return count_bytes if event_id is None else count_bytes + memory.text(len(event_id))


if TYPE_CHECKING or not native.ENABLED:
    EventLog = PlainEventLog
else:
    from amemdb.stores._episodic import EventLog


def held_bytes(agent: bytes, log: EventLog) -> int:
    """Bytes of memory that a log of the store takes, the agent's name included."""
    return log.memory_bytes() + memory.text(len(agent))


class EpisodicStore:
    """All event logs by agent."""

    def __init__(self, wheel: Wheel, graveyard: Graveyard) -> None:
        self.logs: dict[bytes, EventLog] = {}
        self.names = NameIndex()
        self._wheel = wheel
        self._graveyard = graveyard
        self._ledger = graveyard.ledger

    def dead_count(self, agent: bytes, now_ms: int) -> int:
        """How many of the agent's events are out of age and may go in one record, which bounds the work of a tick."""
        log = self.logs.get(agent)
        return 0 if log is None else min(log.dead_count(now_ms), EVENTS_REMOVED_AT_ONCE_MAX)

    # -- changes ---------------------------------------------------------------------------------

    def log_of(self, agent: bytes) -> EventLog:
        """The agent's log, which is begun if there is none: an event must follow in the same frame."""
        log = self.logs.get(agent)
        if log is None:
            log = self.logs[agent] = EventLog()
            self.names.add(agent)
            self._ledger.episodic += held_bytes(agent, log)
        return log

    def apply_logged(self, record: Record) -> None:
        """EVENT_LOGGED."""
        _, agent, seq, at_ms, event_type, content, metadata, event_id = record
        log = self.log_of(agent)
        before_bytes = log.memory_bytes()
        log.add(at_ms, seq, event_type, content, metadata, event_id)
        self._ledger.episodic += log.memory_bytes() - before_bytes
        if log.maxage_ms:
            self._settle(agent, log)

    def apply_trimmed(self, record: Record) -> None:
        """EVENTS_TRIMMED."""
        _, agent, count = record
        log = self.logs[agent]
        before_bytes = log.memory_bytes()
        self._bury(log, log.trim(count), before_bytes)
        self._settle(agent, log)

    def apply_cleared(self, record: Record) -> None:
        """EVENTS_CLEARED."""
        agent = record[1]
        log = self.logs[agent]
        before_bytes = log.memory_bytes()
        self._bury(log, log.clear(), before_bytes)
        self._settle(agent, log)

    def apply_retention(self, record: Record) -> None:
        """RETENTION_SET: the policy, and from where numbering goes on. What goes by it is a record of its own."""
        _, agent, maxlen, maxage_ms, next_seq = record
        log = self.log_of(agent)
        log.maxlen = maxlen
        log.maxage_ms = maxage_ms
        log.next_seq = max(log.next_seq, next_seq)
        self._settle(agent, log)

    def clear(self) -> None:
        """Forget every log (the wheel is cleared by `Stores`)."""
        self._graveyard.bury(self.logs, self._ledger.episodic + memory.table(self.logs))
        self._graveyard.bury(self.names, self.names.memory_bytes())
        self._ledger.episodic = 0
        self.logs = {}
        self.names = NameIndex()

    def _bury(self, log: EventLog, dropped: Timeline | None, before_bytes: int) -> None:
        """Bury what was dropped of a log that took `before_bytes` before."""
        dropped_bytes = before_bytes - log.memory_bytes()
        self._ledger.episodic -= dropped_bytes
        if dropped is not None:
            self._graveyard.bury(dropped, dropped_bytes)

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
            self._ledger.episodic -= held_bytes(agent, log)
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
