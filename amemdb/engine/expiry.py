"""What removes each kind of object when its time has passed, and what else the wheel asks for.

Live on the leader only, and only as records: followers and replay never expire anything by themselves.
"""

from __future__ import annotations

from amemdb.stores import records
from amemdb.stores.records import Record
from amemdb.stores.stores import Stores
from amemdb.stores.wheel import Entry


def removal_of(stores: Stores, entry: Entry, now_ms: int) -> Record | None:
    """The record that removes what `entry` of the wheel stands for, or None if an earlier record already did.

    What facts were used of a bounded namespace is asked for by the wheel as well: it is logged as one of these records.

    One batch can hold a session and its own note, so each entry is looked at again.
    """
    family = entry[0]
    if family == "session":
        conversation = stores.conv.sessions.get(entry[1])
        if conversation is not None and conversation.dead(now_ms):
            return (records.CONVERSATION_DROPPED, entry[1])
    elif family == "note":
        note = stores.work.get(entry[1], entry[2])
        if note is not None and 0 < note[1] <= now_ms:
            return (records.NOTE_DELETED, entry[1], entry[2])
    elif family == "fact":
        if stores.sem.is_dead(entry[1], entry[2], now_ms):
            return (records.FACT_FORGOTTEN, entry[1], entry[2])
    elif family == "touches":
        return stores.sem.touches(entry[1])
    elif family == "events":
        count = stores.epis.dead_count(entry[1], now_ms)
        if count:
            return (records.EVENTS_TRIMMED, entry[1], count)
    elif family == "key":
        if stores.keys.is_dead(entry[1], entry[2], now_ms):
            return (records.KEY_EXPIRED, entry[1], entry[2])
    else:
        raise AssertionError(f"the wheel holds an unknown entry {entry!r}")
    return None
