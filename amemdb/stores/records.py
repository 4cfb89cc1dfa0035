"""Every change of state there is, as records.

A record is a plain tuple `(kind, *fields)`: cheap to build, to apply and to pack. It carries every choice already
made (absolute expiry, ids, times, vector bytes), names one object, and applies without reading another, so that a
log can be replayed in parts, each part being the objects whose names hash to it. Kinds are never reused and fields
are only ever added at the end.

The table below is the format of the log's payload. Names and contents are `bytes`, times Unix milliseconds,
`expire_at_ms` is 0 for never, absent text is None.

=====  =======================  =====================================================================
kind   name                     fields
=====  =======================  =====================================================================
1      CONVERSATION_SET         session, window, expire_at_ms, created_at_ms, seq
2      TURN_APPENDED            session, role, content, at_ms, id, meta
3      CONVERSATION_CLEARED     session
4      CONVERSATION_DROPPED     session (its notes end with it)
5      CONVERSATION_EXPIRY_SET  session, expire_at_ms
10     NOTE_SET                 session, key, value, expire_at_ms
11     NOTE_DELETED             session, key
12     NOTES_CLEARED            session
20     NAMESPACE_CREATED        agent, dim, metric, created_at_ms, next_fact_id, m, ef_construction, ef_search,
                                quant, maxfacts, model, lang (0 or None: none given)
21     FACT_STORED              agent, key, fact_id, content, vector (float32, little endian), expire_at_ms,
                                source, trusted (1, 0 or None), meta, stored_at_ms
22     FACT_FORGOTTEN           agent, key
23     NAMESPACE_DROPPED        agent
24     FACTS_TOUCHED            agent, fact_ids (the longest unused first; what is gone is passed over)
25     NAMESPACE_MODEL_SET      agent, model (of a namespace that had none)
30     EVENT_LOGGED             agent, seq, at_ms, type, content, metadata, id
31     EVENTS_TRIMMED           agent, count (the oldest by time, then by arrival)
32     EVENTS_CLEARED           agent (the retention stays)
33     RETENTION_SET            agent, maxlen, maxage_ms (0 for none), next_seq
40     SUMMARY_SET              agent, text, version, updated_at_ms
41     SUMMARY_APPENDED         agent, line, version, updated_at_ms
42     SUMMARY_DROPPED          agent
50     KEY_SET                  db, key, value, expire_at_ms
51     KEY_DELETED              db, key
52     KEY_EXPIRY_SET           db, key, expire_at_ms
53     KEY_APPENDED             db, key, tail (the expiry stays; a missing key begins empty)
54     KEY_RANGE_SET            db, key, offset, data (the same; gaps are zero bytes)
55     KEY_EXPIRED              db, key (as KEY_DELETED, but its time had passed, so no WATCH is broken)
60     DATABASE_FLUSHED         db
61     ALL_FLUSHED              (no fields: every store and database)
=====  =======================  =====================================================================

CONVERSATION_SET creates a session or changes the settings of one that lives; `seq` is the number of turns ever
appended before it and is ignored on a session that lives.
"""

from __future__ import annotations

from typing import Any

Record = tuple[Any, ...]

CONVERSATION_SET = 1
TURN_APPENDED = 2
CONVERSATION_CLEARED = 3
CONVERSATION_DROPPED = 4
CONVERSATION_EXPIRY_SET = 5
NOTE_SET = 10
NOTE_DELETED = 11
NOTES_CLEARED = 12
NAMESPACE_CREATED = 20
FACT_STORED = 21
FACT_FORGOTTEN = 22
NAMESPACE_DROPPED = 23
FACTS_TOUCHED = 24
NAMESPACE_MODEL_SET = 25
EVENT_LOGGED = 30
EVENTS_TRIMMED = 31
EVENTS_CLEARED = 32
RETENTION_SET = 33
SUMMARY_SET = 40
SUMMARY_APPENDED = 41
SUMMARY_DROPPED = 42
KEY_SET = 50
KEY_DELETED = 51
KEY_EXPIRY_SET = 52
KEY_APPENDED = 53
KEY_RANGE_SET = 54
KEY_EXPIRED = 55
DATABASE_FLUSHED = 60
ALL_FLUSHED = 61

KIND_MAX = 63
"""Appliers are a list indexed by kind; this is its last index."""

FIELDS: dict[int, tuple[str, ...]] = {
    CONVERSATION_SET: ("session", "window", "expire_at_ms", "created_at_ms", "seq"),
    TURN_APPENDED: ("session", "role", "content", "at_ms", "id", "meta"),
    CONVERSATION_CLEARED: ("session",),
    CONVERSATION_DROPPED: ("session",),
    CONVERSATION_EXPIRY_SET: ("session", "expire_at_ms"),
    NOTE_SET: ("session", "key", "value", "expire_at_ms"),
    NOTE_DELETED: ("session", "key"),
    NOTES_CLEARED: ("session",),
    NAMESPACE_CREATED: (
        *("agent", "dim", "metric", "created_at_ms", "next_fact_id"),
        *("m", "ef_construction", "ef_search", "quant", "maxfacts", "model", "lang"),
    ),
    FACT_STORED: (
        *("agent", "key", "fact_id", "content", "vector", "expire_at_ms"),
        *("source", "trusted", "meta", "stored_at_ms"),
    ),
    FACT_FORGOTTEN: ("agent", "key"),
    NAMESPACE_DROPPED: ("agent",),
    FACTS_TOUCHED: ("agent", "fact_ids"),
    NAMESPACE_MODEL_SET: ("agent", "model"),
    EVENT_LOGGED: ("agent", "seq", "at_ms", "type", "content", "metadata", "id"),
    EVENTS_TRIMMED: ("agent", "count"),
    EVENTS_CLEARED: ("agent",),
    RETENTION_SET: ("agent", "maxlen", "maxage_ms", "next_seq"),
    SUMMARY_SET: ("agent", "text", "version", "updated_at_ms"),
    SUMMARY_APPENDED: ("agent", "line", "version", "updated_at_ms"),
    SUMMARY_DROPPED: ("agent",),
    KEY_SET: ("db", "key", "value", "expire_at_ms"),
    KEY_DELETED: ("db", "key"),
    KEY_EXPIRY_SET: ("db", "key", "expire_at_ms"),
    KEY_APPENDED: ("db", "key", "tail"),
    KEY_RANGE_SET: ("db", "key", "offset", "data"),
    KEY_EXPIRED: ("db", "key"),
    DATABASE_FLUSHED: ("db",),
    ALL_FLUSHED: (),
}
"""The names of the fields behind the kind, for what shows records to people. A test holds them to the table above."""

_FIRST_KEY_KIND = KEY_SET
_FIRST_FLUSH_KIND = DATABASE_FLUSHED


def object_of(record: Record) -> tuple[Any, ...] | None:
    """What identifies the object that `record` changes, or None when it concerns every object.

    Records with one object in common must be replayed together and in order; those of two objects need not be.
    A session's turns and its notes are one object. Source of the rule: `amemdb.persistence`, replay by parts.
    """
    kind: int = record[0]
    if kind >= _FIRST_FLUSH_KIND:
        return None
    if kind >= _FIRST_KEY_KIND:
        return ("key", record[1], record[2])
    if kind < 20:
        return ("session", record[1])
    return (kind // 10, record[1])
