"""All state of one node: the families bound together, and the one door through which it changes.

`apply(record)` is how live writes, log replay and followers change anything. `dump_object` is its inverse: the
records that rebuild an object as it is. The digest is made of those dumps, so two copies with equal digests hold the
same data, whatever order it came in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

import msgpack

from amemdb.stores import memory, records
from amemdb.stores.conversation import ConversationStore
from amemdb.stores.episodic import EpisodicStore
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.keyspace import Keyspace
from amemdb.stores.records import Record
from amemdb.stores.semantic import SemanticStore
from amemdb.stores.summary import SummaryStore
from amemdb.stores.texts import Texts
from amemdb.stores.wheel import Entry, Wheel, due_of, wait_ms
from amemdb.stores.working import WorkingStore


class Stores:
    """The five stores, the keyspace and the expiry wheel."""

    def __init__(self) -> None:
        self.wheel = Wheel()
        self.graveyard = Graveyard()
        """What is out of use and large; no state. The server's ticks free it bit by bit."""
        self.ledger = self.graveyard.ledger
        """Bytes of memory that the objects take; the tables that they are found by are in `tables_bytes`."""
        self.conv = ConversationStore(self.wheel, self.graveyard)
        self.work = WorkingStore(self.wheel, self.graveyard, self.conv)
        self.sem = SemanticStore(self.wheel, self.graveyard)
        self.epis = EpisodicStore(self.wheel, self.graveyard)
        self.summary = SummaryStore(self.graveyard)
        self.keys = Keyspace(self.graveyard)
        self.texts = Texts(self.graveyard)
        """Caches for searching by words; no state."""
        self._appliers = self._table()

    def apply(self, record: Record) -> None:
        """Make the change that `record` names."""
        self._appliers[record[0]](record)

    def apply_all(self, batch: Iterable[Record]) -> None:
        """Make the changes that these records name, in order."""
        appliers = self._appliers
        for record in batch:
            appliers[record[0]](record)

    def due(self, now_ms: int, count_max: int) -> list[Entry]:
        """At most `count_max` entries of any wheel that are due (see `Wheel.due`)."""
        return due_of(self._wheels(), now_ms, count_max)

    def due_in_ms(self, now_ms: int) -> int:
        """In how many milliseconds all is due that has ended by `now_ms`; 0 if nothing may just have ended."""
        return wait_ms(self._wheels(), now_ms)

    def _wheels(self) -> tuple[Wheel, ...]:
        return (self.wheel, *(database.wheel for database in self.keys.databases))

    def _table(self) -> list[Callable[[Record], None]]:
        table: list[Callable[[Record], None]] = [_unknown] * (records.KIND_MAX + 1)
        conv, work, sem, epis, summary, keys = self.conv, self.work, self.sem, self.epis, self.summary, self.keys
        table[records.CONVERSATION_SET] = conv.apply_set
        table[records.TURN_APPENDED] = conv.apply_turn
        table[records.CONVERSATION_CLEARED] = conv.apply_cleared
        table[records.CONVERSATION_DROPPED] = self._apply_session_dropped
        table[records.CONVERSATION_EXPIRY_SET] = conv.apply_expiry_set
        table[records.NOTE_SET] = work.apply_set
        table[records.NOTE_DELETED] = work.apply_deleted
        table[records.NOTES_CLEARED] = work.apply_cleared
        table[records.NAMESPACE_CREATED] = sem.apply_created
        table[records.FACT_STORED] = sem.apply_stored
        table[records.FACT_FORGOTTEN] = sem.apply_forgotten
        table[records.NAMESPACE_DROPPED] = self._apply_namespace_dropped
        table[records.FACTS_TOUCHED] = sem.apply_touched
        table[records.NAMESPACE_MODEL_SET] = sem.apply_model_set
        table[records.EVENT_LOGGED] = epis.apply_logged
        table[records.EVENTS_TRIMMED] = self._trimming(epis.apply_trimmed)
        table[records.EVENTS_CLEARED] = self._trimming(epis.apply_cleared)
        table[records.RETENTION_SET] = self._trimming(epis.apply_retention)
        table[records.SUMMARY_SET] = summary.apply_set
        table[records.SUMMARY_APPENDED] = summary.apply_appended
        table[records.SUMMARY_DROPPED] = summary.apply_dropped
        table[records.KEY_SET] = keys.apply_set
        table[records.KEY_DELETED] = keys.apply_deleted
        table[records.KEY_EXPIRY_SET] = keys.apply_expiry_set
        table[records.KEY_APPENDED] = keys.apply_appended
        table[records.KEY_RANGE_SET] = keys.apply_range_set
        table[records.KEY_EXPIRED] = keys.apply_expired
        table[records.DATABASE_FLUSHED] = keys.apply_flushed
        table[records.ALL_FLUSHED] = self._apply_all_flushed
        return table

    def _apply_session_dropped(self, record: Record) -> None:
        self.conv.apply_dropped(record)
        self.work.apply_cleared(record)
        self.texts.drop_session(record[1])

    def _apply_namespace_dropped(self, record: Record) -> None:
        self.sem.apply_dropped(record)
        self.texts.drop_namespace(record[1])

    def _trimming(self, apply: Callable[[Record], None]) -> Callable[[Record], None]:
        """`apply` takes events out of a log, perhaps the log itself; what finds them by words has to know."""

        def applied(record: Record) -> None:
            apply(record)
            if self.texts.events:
                self.texts.trim_log(record[1], self.epis.logs.get(record[1]))

        return applied

    def _apply_all_flushed(self, record: Record) -> None:
        self.conv.clear()
        self.work.clear()
        self.sem.clear()
        self.epis.clear()
        self.summary.clear()
        self.keys.clear()
        self.texts.clear()
        wheel_bytes = self.wheel.memory_bytes()
        self.graveyard.bury(self.wheel.emptied(), wheel_bytes)

    # -- memory ----------------------------------------------------------------------------------

    def tables_bytes(self) -> dict[str, int]:
        """By family, bytes of memory that dicts, scan indexes and wheels take. Some microseconds, whatever is held."""
        table = memory.table
        found = {
            "conversation": table(self.conv.sessions) + self.conv.names.memory_bytes(),
            "working": table(self.work.sessions),
            "semantic": table(self.sem.namespaces) + self.sem.names.memory_bytes(),
            "episodic": table(self.epis.logs) + self.epis.names.memory_bytes(),
            "summary": table(self.summary.summaries) + self.summary.names.memory_bytes(),
            "text": self.texts.memory_bytes(),
            "expiry": self.wheel.memory_bytes(),
        }
        keyspace = 0
        for database in self.keys.databases:
            keyspace += table(database.values) + database.names.memory_bytes() + database.wheel.memory_bytes()
            keyspace += table(database.expires) + memory.NUMBER_BYTES * len(database.expires)
        found["keyspace"] = keyspace
        return found

    # -- whole state -----------------------------------------------------------------------------

    def count(self) -> int:
        """How many objects there are, whether their time has passed or not; a session and its notes are one."""
        agents = len(self.sem.namespaces) + len(self.epis.logs) + len(self.summary.summaries)
        return len(self.conv.sessions) + agents + sum([len(database.values) for database in self.keys.databases])

    def memory_bytes(self) -> int:
        """Bytes of memory that all objects take, and the tables by which they are found."""
        return self.ledger.held + sum(self.tables_bytes().values())

    def dumps(self, now_ms: int) -> Iterator[Iterator[Record]]:
        """For each object, the records that rebuild what of it is not expired at `now_ms` (0: all of it)."""
        for session in self.conv.sessions:
            yield self._dump_session(session, now_ms)
        for agent in self.sem.namespaces:
            yield self.sem.dump(agent, now_ms)
        for agent in self.epis.logs:
            yield self.epis.dump(agent, now_ms)
        for agent in self.summary.summaries:
            yield self.summary.dump(agent, now_ms)
        for db in range(len(self.keys.databases)):
            for key in self.keys.databases[db].values:
                yield self.keys.dump(db, key, now_ms)

    def _dump_session(self, session: bytes, now_ms: int) -> Iterator[Record]:
        conversation = self.conv.sessions[session]
        if not conversation.dead(now_ms):
            yield from self.conv.dump(session, now_ms)
            yield from self.work.dump(session, now_ms)

    def digest(self, now_ms: int) -> str:
        """40 hex digits that two equal states share: what is not expired at `now_ms` (0: everything held).

        The sum modulo 2^160 of a hash of each object's dump, so the order of objects does not matter. When facts were
        last used is left out: every node has its own knowledge of that.
        """
        total = 0
        for dump in self.dumps(now_ms):
            packed = [msgpack.packb(record) for record in dump if record[0] != records.FACTS_TOUCHED]
            if packed:
                total += int.from_bytes(hashlib.blake2b(b"".join(packed), digest_size=20).digest(), "big")
        return f"{total % (1 << 160):040x}"


def _unknown(record: Record) -> None:
    raise AssertionError(f"no store takes records of kind {record[0]!r}")
