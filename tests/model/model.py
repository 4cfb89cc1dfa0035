"""A model of the server's behaviour in plain dicts and lists: obviously right, and slow.

It knows nothing of records, frames, hidden dead objects or indexes: what is past its time is simply deleted before each
step. Every method is one command with already typed arguments and returns what a RESP2 client would read; `Err(text)`
stands for an error reply that contains `text`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

NEVER = 0


@dataclass(frozen=True)
class Err:
    """An error reply that contains `text`."""

    text: str


@dataclass
class Session:
    window: int
    expire: int
    created: int
    seq: int = 0
    turns: list[tuple[int, bytes, bytes, int, bytes | None, bytes | None]] = field(default_factory=list)
    notes: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)


@dataclass
class Namespace:
    dim: int
    metric: bytes
    next_id: int = 1
    facts: dict[bytes, dict[str, Any]] = field(default_factory=dict)


@dataclass
class Events:
    maxlen: int = 0
    maxage: int = 0
    next_seq: int = 1
    events: list[tuple[int, int, bytes, bytes, bytes | None, bytes | None]] = field(default_factory=list)


NOT_FOUND = Err("session not found")
NOT_INTEGER = Err("not an integer")


class Model:
    """All state of a server. `now` is set by the driver before each step."""

    def __init__(self, window: int = 1000) -> None:
        self.now = 0
        self.default_window = window
        self.sessions: dict[bytes, Session] = {}
        self.spaces: dict[bytes, Namespace] = {}
        self.logs: dict[bytes, Events] = {}
        self.summaries: dict[bytes, list[tuple[int, int, bytes]]] = {}
        self.dbs: list[dict[bytes, tuple[bytes, int]]] = [{} for _ in range(16)]

    def purge(self) -> None:
        """Delete what is past its time."""

        def dead(expire: int) -> bool:
            return 0 < expire <= self.now

        self.sessions = {k: s for k, s in self.sessions.items() if not dead(s.expire)}
        for session in self.sessions.values():
            session.notes = {k: n for k, n in session.notes.items() if not dead(n[1])}
        for space in self.spaces.values():
            space.facts = {k: f for k, f in space.facts.items() if not dead(f["expire"])}
        for log in self.logs.values():
            if log.maxage:
                log.events = [e for e in log.events if e[0] >= self.now - log.maxage]
        self.logs = {k: log for k, log in self.logs.items() if log.events or log.maxlen or log.maxage}
        self.dbs = [{k: v for k, v in db.items() if not dead(v[1])} for db in self.dbs]

    # -- conversation ----------------------------------------------------------------------------

    def conv_create(self, s: bytes, window: int | None, expire: int | None, nx: bool) -> Any:
        found = self.sessions.get(s)
        if found is None:
            self.sessions[s] = Session(window or self.default_window, expire or NEVER, self.now)
            return b"OK"
        if nx:
            return Err("already exists")
        if window is not None:
            found.window = window
            found.turns = found.turns[-window:]
        if expire is not None:
            found.expire = expire
        return b"OK"

    def conv_append(self, s: bytes, role: bytes, content: bytes, id: Any, at: Any, meta: Any) -> Any:
        found = self.sessions.get(s)
        if found is None:
            return NOT_FOUND
        if id is not None and any(turn[4] == id for turn in found.turns):
            return b"OK"
        found.seq += 1
        at = self.now if at is None else at
        found.turns = [*found.turns, (found.seq, role.lower(), content, at, id, meta)][-found.window :]
        return b"OK"

    def conv_window(self, s: bytes, n: int, meta: bool, budget: int | None = None) -> Any:
        found = self.sessions.get(s)
        turns = found.turns[max(0, len(found.turns) - n) :] if found else []
        while budget is not None and sum(4 + (len(t[2]) + 3) // 4 for t in turns) > budget:
            turns = turns[1:]
        plain = [[b"role", t[1], b"content", t[2]] for t in turns]
        if not meta:
            return plain
        return [[*p, b"seq", t[0], b"at", t[3], b"id", t[4], b"meta", t[5]] for p, t in zip(plain, turns, strict=True)]

    def conv_get(self, s: bytes, meta: bool) -> Any:
        return self.conv_window(s, 10**9, meta)

    def conv_clear(self, s: bytes) -> Any:
        found = self.sessions.get(s)
        if found is None:
            return 0
        found.turns = []
        return 1

    def conv_drop(self, s: bytes) -> Any:
        return int(self.sessions.pop(s, None) is not None)

    def conv_expire(self, s: bytes, expire: int) -> Any:
        if s not in self.sessions:
            return 0
        self.sessions[s].expire = expire
        return 1

    def conv_info(self, s: bytes) -> Any:
        found = self.sessions.get(s)
        if found is None:
            return NOT_FOUND
        size = sum(len(t[1]) + len(t[2]) + len(t[4] or b"") + len(t[5] or b"") for t in found.turns)
        values = (len(found.turns), found.window, found.seq, found.created, found.expire or -1, size)
        labels = (b"turns", b"window", b"seq", b"created", b"expires_at", b"bytes")
        return [item for pair in zip(labels, values, strict=True) for item in pair]

    # -- working notes ---------------------------------------------------------------------------

    def work_set(self, s: bytes, key: bytes, value: bytes, expire: int | None) -> Any:
        if s not in self.sessions:
            return NOT_FOUND
        self.sessions[s].notes[key] = (value, expire or NEVER)
        return b"OK"

    def work_get(self, s: bytes, key: bytes) -> Any:
        note = self.sessions[s].notes.get(key) if s in self.sessions else None
        return note[0] or None if note else None

    def work_del(self, s: bytes, key: bytes) -> Any:
        return int(s in self.sessions and self.sessions[s].notes.pop(key, None) is not None)

    def work_clear(self, s: bytes) -> Any:
        had = s in self.sessions and bool(self.sessions[s].notes)
        if had:
            self.sessions[s].notes = {}
        return int(had)

    def work_list(self, s: bytes) -> Any:
        return sorted(self.sessions[s].notes) if s in self.sessions else []

    def work_getall(self, s: bytes) -> Any:
        return sorted((k, v) for k, (v, _) in self.sessions[s].notes.items()) if s in self.sessions else []

    def work_ttl(self, s: bytes, key: bytes) -> Any:
        note = self.sessions[s].notes.get(key) if s in self.sessions else None
        if note is None:
            return -2
        return note[1] - self.now if note[1] else -1

    # -- semantic --------------------------------------------------------------------------------

    def sem_create(self, a: bytes, dim: int, metric: bytes) -> Any:
        found = self.spaces.get(a)
        if found is not None:
            return b"OK" if (found.dim, found.metric) == (dim, metric) else Err("already exists")
        self.spaces[a] = Namespace(dim, metric)
        return b"OK"

    def sem_store(self, a: bytes, key: bytes, content: bytes, vector: list[float], **options: Any) -> Any:
        space = self.spaces.get(a)
        if space is None:
            return Err("not found")
        if len(vector) != space.dim:
            return Err("vector")
        if space.metric == b"cosine" and not any(vector):
            return Err("zero")
        fact = {
            "id": space.next_id,
            "content": content,
            "vector": np.array(vector, dtype=np.float32).astype(np.float64),
            "expire": options["expire"] or NEVER,
            "source": options["source"],
            "trust": options["trust"],
            "meta": options["meta"],
            "stored": self.now,
        }
        space.next_id += 1
        if 0 < fact["expire"] <= self.now:
            space.facts.pop(key, None)
        else:
            space.facts[key] = fact
        return b"OK"

    def similarity(self, a: bytes, key: bytes, query: list[float]) -> float:
        space = self.spaces[a]
        v = space.facts[key]["vector"]
        q = np.array(query, dtype=np.float32).astype(np.float64)
        if space.metric == b"ip":
            return float(v @ q)
        if space.metric == b"l2":
            return float(1 / (1 + np.linalg.norm(v - q)))
        return float(v @ q / np.linalg.norm(v) / np.linalg.norm(q))

    def sem_recall(self, a: bytes, k: int, query: list[float], threshold: float | None) -> Any:
        """Not a reply but what one is checked against: the similarities of all that may be returned, by key."""
        space = self.spaces.get(a)
        if space is None:
            return {}
        if len(query) != space.dim:
            return Err("vector")
        if space.metric == b"cosine" and not any(query):
            return Err("zero")
        scores = {key: self.similarity(a, key, query) for key in space.facts}
        return {key: s for key, s in scores.items() if threshold is None or s >= threshold - 1e-6}

    def sem_forget(self, a: bytes, key: bytes) -> Any:
        return int(a in self.spaces and self.spaces[a].facts.pop(key, None) is not None)

    def sem_list(self, a: bytes) -> Any:
        return sorted(self.spaces[a].facts) if a in self.spaces else []

    def sem_drop(self, a: bytes) -> Any:
        return int(self.spaces.pop(a, None) is not None)

    # -- episodic --------------------------------------------------------------------------------

    def epis_log(self, a: bytes, type: bytes, content: bytes, metadata: Any, at: Any, id: Any) -> Any:
        log = self.logs.setdefault(a, Events())
        if id is not None and any(event[5] == id for event in log.events[-1000:]):
            return b"OK"
        event = (self.now if at is None else at, log.next_seq, type, content, metadata, id)
        log.next_seq += 1
        log.events = sorted([*log.events, event], key=lambda e: e[:2])
        self._trim(log)
        return b"OK"

    def _trim(self, log: Events) -> None:
        if log.maxlen:
            log.events = log.events[-log.maxlen :]

    def epis_query(self, a: bytes, type: Any, start: Any, end: Any, limit: Any, rev: bool) -> Any:
        events = self.logs[a].events if a in self.logs else []
        events = [e for e in events if type is None or e[2] == type]
        events = [e for e in events if (start is None or e[0] >= start) and (end is None or e[0] <= end)]
        if limit is not None:
            events = events[len(events) - limit :] if limit < len(events) else events
        if rev:
            events = events[::-1]
        return [self._event(e) for e in events]

    @staticmethod
    def _event(event: Any) -> list[Any]:
        item = [b"timestamp", event[0], b"type", event[2], b"content", event[3]]
        return item if event[4] is None else [*item, b"metadata", event[4]]

    def epis_stats(self, a: bytes) -> Any:
        events = self.logs[a].events if a in self.logs else []
        first, last = (events[0][0], events[-1][0]) if events else (0, 0)
        return [b"total_events", len(events), b"oldest_ts", first, b"newest_ts", last]

    def epis_clear(self, a: bytes) -> Any:
        if a not in self.logs:
            return 0
        self.logs[a].events = []
        return 1

    def epis_retain(self, a: bytes, maxlen: int | None, maxage_ms: int | None) -> Any:
        if a not in self.logs and not maxlen and not maxage_ms:
            return 0
        log = self.logs.setdefault(a, Events())
        log.maxlen, log.maxage = maxlen or 0, maxage_ms or 0
        before = len(log.events)
        self._trim(log)
        if log.maxage:
            log.events = [e for e in log.events if e[0] >= self.now - log.maxage]
        return before - len(log.events)

    # -- summary ---------------------------------------------------------------------------------

    def summary_set(self, a: bytes, text: bytes, version: int | None) -> Any:
        history = self.summaries.get(a, [])
        have = history[-1][0] if history else 0
        if version is not None and version != have:
            return Err(f"version mismatch: have {have}")
        self.summaries[a] = [*history, (have + 1, self.now, text)][-16:]
        return have + 1

    def summary_append(self, a: bytes, line: bytes) -> Any:
        history = self.summaries.get(a)
        text = history[-1][2] if history else b""
        return self.summary_set(a, text + b"\n" + line if text else line, None)

    def summary_get(self, a: bytes) -> Any:
        history = self.summaries.get(a)
        return [history[-1][2], history[-1][0], history[-1][1] // 1000] if history else None

    def summary_drop(self, a: bytes) -> Any:
        return int(self.summaries.pop(a, None) is not None)

    def summary_list(self) -> Any:
        return sorted(self.summaries)

    # -- keys and strings ------------------------------------------------------------------------

    def set(self, db: int, key: bytes, value: bytes, expire: int | None, keep: bool, cond: str, get: bool) -> Any:
        old = self.dbs[db].get(key)
        reply = (old[0] if old else None) if get else b"OK"
        if (cond == "NX" and old) or (cond == "XX" and not old):
            return reply if get else None
        self.dbs[db][key] = (value, old[1] if keep and old else expire or NEVER)
        self.purge()
        return reply

    def get(self, db: int, key: bytes) -> Any:
        return self.dbs[db][key][0] if key in self.dbs[db] else None

    def delete(self, db: int, keys: list[bytes]) -> Any:
        return sum(self.dbs[db].pop(key, None) is not None for key in dict.fromkeys(keys))

    def exists(self, db: int, keys: list[bytes]) -> Any:
        return sum(key in self.dbs[db] for key in keys)

    def expire(self, db: int, key: bytes, at: int) -> Any:
        if key not in self.dbs[db]:
            return 0
        self.dbs[db][key] = (self.dbs[db][key][0], at)
        self.purge()
        return 1

    def persist(self, db: int, key: bytes) -> Any:
        old = self.dbs[db].get(key)
        if not old or not old[1]:
            return 0
        self.dbs[db][key] = (old[0], NEVER)
        return 1

    def pttl(self, db: int, key: bytes) -> Any:
        old = self.dbs[db].get(key)
        return -2 if old is None else old[1] - self.now if old[1] else -1

    def incr(self, db: int, key: bytes, by: int) -> Any:
        old = self.dbs[db].get(key, (b"0", NEVER))
        digits = old[0].removeprefix(b"-")
        if not digits.isdigit() or len(digits) > 19 or not -(2**63) <= int(old[0]) < 2**63:
            return NOT_INTEGER
        total = int(old[0]) + by
        if not -(2**63) <= total < 2**63:
            return Err("overflow")
        self.dbs[db][key] = (b"%d" % total, old[1])
        return total

    def append(self, db: int, key: bytes, tail: bytes) -> Any:
        old = self.dbs[db].get(key, (b"", NEVER))
        self.dbs[db][key] = (old[0] + tail, old[1])
        return len(self.dbs[db][key][0])

    def setrange(self, db: int, key: bytes, offset: int, data: bytes) -> Any:
        old = self.dbs[db].get(key)
        if not data:
            return len(old[0]) if old else 0
        value = (old[0] if old else b"").ljust(offset, b"\0")
        value = value[:offset] + data + value[offset + len(data) :]
        self.dbs[db][key] = (value, old[1] if old else NEVER)
        return len(value)

    def rename(self, db: int, key: bytes, to: bytes) -> Any:
        if key not in self.dbs[db]:
            return Err("no such key")
        self.dbs[db][to] = self.dbs[db].pop(key) if key != to else self.dbs[db][key]
        return b"OK"

    def copy(self, db: int, key: bytes, to: bytes, replace: bool) -> Any:
        if key == to:
            return Err("same")
        if key not in self.dbs[db] or (to in self.dbs[db] and not replace):
            return 0
        self.dbs[db][to] = self.dbs[db][key]
        return 1

    def keys(self, db: int) -> Any:
        return sorted(self.dbs[db])

    def dbsize(self, db: int) -> Any:
        return len(self.dbs[db])

    def flushdb(self, db: int) -> Any:
        self.dbs[db] = {}
        return b"OK"

    def flushall(self) -> Any:
        self.__init__(self.default_window)  # type: ignore[misc]
        return b"OK"
