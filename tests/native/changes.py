"""Changes of every kind at random, as a log has them: valid ones for a replay, and what becomes of them when spoilt."""

from __future__ import annotations

from random import Random
from struct import pack
from typing import Any

import msgpack

from amemdb.stores import records
from amemdb.stores.records import Record
from amemdb.stores.stores import Stores

T = 1_700_000_000_000
ROLES = (b"user", b"assistant", b"system", b"tool")
DIM = 3
COMMON = (
    *((records.TURN_APPENDED, 30), (records.NOTE_SET, 25), (records.EVENT_LOGGED, 25), (records.KEY_SET, 25)),
    *((records.CONVERSATION_SET, 8), (records.FACT_STORED, 8), (records.SUMMARY_APPENDED, 4)),
)
"""These come so much more often than the others."""
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, -40, -200, 0, 1, 16, 255, 65_535, 70_000, 1 << 40, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
    *(b"", b"x", b"user", b"x" * 70_000, "text", 1.5, (), (1,), {}, {b"k": 1}, msgpack.ExtType(5, b"ext")),
)
"""What a field may turn into."""


class Changes:
    """Makes one record after the other, each of which can be applied to what the ones before have made."""

    def __init__(self, random: Random, *, names: int = 4, fields_max: int = 200) -> None:
        self.stores = Stores()
        """What they come to, when each is applied by itself."""
        self.now_ms = T
        self._random = random
        self._names = [b"name-%d" % number for number in range(names)] + [b"n" * 300, b""]
        self._fields_max = fields_max
        weights = dict.fromkeys(records.FIELDS, 2) | {records.ALL_FLUSHED: 0.2, records.DATABASE_FLUSHED: 0.5}
        weights |= dict(COMMON)
        self._kinds, self._weights = list(weights), list(weights.values())
        self._fact_id = 0

    def record(self) -> Record:
        """The next record."""
        while True:
            kind = self._random.choices(self._kinds, self._weights)[0]
            fields = self._fields(kind, self._random.choice(self._names))
            if fields is not None:
                record = (kind, *fields)
                self.stores.apply(record)
                return record

    def frame(self) -> tuple[Any, ...]:
        """The next frame, most often of one record."""
        self.now_ms += self._random.choice([0, 1, 1000])
        return (self.now_ms, *(self.record() for _ in range(self._random.choice([1, 1, 1, 1, 1, 2, 5, 20]))))

    def _text(self) -> bytes:
        size = self._random.choice([0, 1, 20, self._random.randint(0, self._fields_max), 255, 256, 300])
        return self._random.randbytes(min(size, self._fields_max))

    def _maybe(self) -> bytes | None:
        return self._random.choice([None, None, None, self._text()])

    def _expiry(self) -> int:
        return self._random.choice([0, 0, 0, self.now_ms + self._random.randint(1, 10**7)])

    def _at(self) -> int:
        return self._random.choice([self.now_ms, self.now_ms, self.now_ms - 5000, 0, -3, -(10**12)])

    def _fields(self, kind: int, name: bytes) -> tuple[Any, ...] | None:
        """Fields for a record of that kind about an object of that name; None if there can be none now."""
        random, stores = self._random, self.stores
        session = stores.conv.sessions.get(name)
        notes = stores.work.sessions.get(name)
        space = stores.sem.namespaces.get(name)
        log = stores.epis.logs.get(name)
        db = random.choice([0, 0, 0, 15, 3])
        value = stores.keys.databases[db].values.get(name)
        match kind:
            case records.CONVERSATION_SET:
                return name, random.choice([1, 3, 100]), self._expiry(), self.now_ms, random.choice([0, 0, 300])
            case records.TURN_APPENDED if session is not None:
                return name, random.choice(ROLES), self._text(), self._at(), self._maybe(), self._maybe()
            case records.CONVERSATION_CLEARED | records.CONVERSATION_DROPPED if session is not None:
                return (name,)
            case records.CONVERSATION_EXPIRY_SET if session is not None:
                return name, self._expiry()
            case records.NOTE_SET if session is not None:
                return name, random.choice(self._names), self._text(), self._expiry()
            case records.NOTE_DELETED if notes is not None:
                return name, random.choice([key for key, _ in notes.items()])
            case records.NOTES_CLEARED:
                return (name,)
            case records.NAMESPACE_CREATED if space is None:
                model, maxfacts = random.choice([None, b"m"]), random.choice([0, 5])
                settings = (0, 0, 0, random.choice([b"f32", b"f16"]), maxfacts, model, random.choice([None, b"en"]))
                earlier = random.random() < 0.2  # which had no settings
                return name, DIM, b"cosine", self.now_ms, self._fact_id, *(() if earlier else settings)
            case records.FACT_STORED if space is not None:
                self._fact_id += 1
                vector = pack(f"<{DIM}f", *(random.random() for _ in range(DIM)))
                trusted = random.choice([None, 0, 1])
                fact = (random.choice(self._names), self._fact_id, self._text(), vector, self._expiry())
                return name, *fact, self._maybe(), trusted, self._maybe(), self.now_ms
            case records.FACT_FORGOTTEN if space is not None and space.facts:
                return name, random.choice(list(space.facts))
            case records.NAMESPACE_DROPPED if space is not None:
                return (name,)
            case records.FACTS_TOUCHED if space is not None and space.facts:
                ids = [fact[0] for fact in space.facts.values()]
                return name, [*random.sample(ids, random.randint(1, len(ids))), self._fact_id + 9]
            case records.NAMESPACE_MODEL_SET if space is not None and space.settings.model is None:
                return name, b"later"
            case records.EVENT_LOGGED:
                seq = (1 if log is None else log.next_seq) + random.choice([0, 0, 0, 0, 5])
                return name, seq, self._at(), random.choice([b"seen", b"done"]), self._text(), *self._extras()
            case records.EVENTS_TRIMMED if log is not None and len(log.events):
                return name, random.randint(1, len(log.events))
            case records.EVENTS_CLEARED if log is not None:
                return (name,)
            case records.RETENTION_SET:
                return name, random.choice([0, 5]), random.choice([0, 0, 10**6]), random.choice([0, 50])
            case records.SUMMARY_SET | records.SUMMARY_APPENDED:
                return name, self._text(), random.randint(1, 1000), self.now_ms
            case records.SUMMARY_DROPPED if name in stores.summary.summaries:
                return (name,)
            case records.KEY_SET:
                return db, name, self._text(), self._expiry()
            case records.KEY_DELETED | records.KEY_EXPIRED if value is not None:
                return db, name
            case records.KEY_EXPIRY_SET if value is not None:
                return db, name, self._expiry()
            case records.KEY_APPENDED:
                return db, name, self._text()
            case records.KEY_RANGE_SET:
                return db, name, random.choice([0, 3, 100]), self._text()
            case records.DATABASE_FLUSHED:
                return (db,)
            case records.ALL_FLUSHED:
                return ()
        return None

    def _extras(self) -> tuple[bytes | None, bytes | None]:
        return (None, None) if self._random.random() < 0.8 else (self._maybe(), self._maybe())


# -- spoiling --------------------------------------------------------------------------------------


def spoilt(frame: tuple[Any, ...], random: Random, *, framed: bool) -> Any:
    """`frame`, or with `framed` false a record, with something in it that does not belong there."""
    path = [random.randrange(len(frame))]
    if framed and path[0] > 0:
        path.append(random.randrange(len(frame[path[0]])))
    return _changed(frame, path, random)


def _changed(value: Any, path: list[int], random: Random) -> Any:
    if not path:
        return random.choice(HOSTILE)
    parts = list(value)
    index = path[0]
    match random.randrange(8) if len(path) == 1 else 3:
        case 0:
            del parts[index]
        case 1:
            parts.insert(index, random.choice(HOSTILE))
        case 2 if index:
            del parts[index:]
        case _:
            parts[index] = _changed(parts[index], path[1:], random)
    return tuple(parts)


def mutated(payload: bytes, random: Random) -> bytes:
    """`payload` with some bytes changed, taken away or added."""
    data = bytearray(payload)
    for _ in range(random.choice([1, 1, 2, 5])):
        at = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0:
                del data[at : at + random.choice([1, 3, 40])]
            case 1:
                data[at:at] = random.randbytes(random.choice([1, 2, 9]))
            case 2:
                del data[at:]
            case 3:
                data[at : at + 1] = random.choice(
                    [b"\xc1", b"\xc0", b"\xc6", b"\xdd", b"\xdc", b"\x9f", b"\x80", b"\xd9"]
                )
            case _:
                data[at : at + 1] = random.randbytes(1)
    return bytes(data)
