"""The plain keys: sixteen databases of values by name, with an expiry or without.

A database is two dicts, values and expiries, as most keys have no expiry, and a wheel of its own, so that a flush is
to put an empty database in its place, whatever it held. A value's Python type is its data type, and
`type_of` is the one place that tells them apart: a further type adds a line there and its own records.

A string is `bytes`, or a `bytearray` from its first APPEND or SETRANGE on, so that appending again and again costs the
tail and not the whole. What changes in place must not leave: records and dumps carry `bytes` (`text_of`), or a frame
that is packed at the end of a transaction would hold what came after it.

WATCH is answered by versions, kept only while some session watches the key: `watch` counts a watcher in and gives
the version, each change of the key raises it, the last `unwatch` drops it. KEY_EXPIRED and flushes do not raise it:
whoever saw the key alive looks for it again at EXEC and misses it, and for whoever saw it dead or missing nothing has
changed. Whatever brings the key back afterwards raises the version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amemdb import native
from amemdb.limits import DATABASES, NO_EXPIRY
from amemdb.stores import memory, records
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

Value = bytes | bytearray


def type_of(value: Value) -> str:
    """The data type of a value, as TYPE tells it."""
    if isinstance(value, (bytes, bytearray)):
        return "string"
    raise AssertionError(f"the keyspace holds a value of unknown type {type(value).__name__}")


def text_of(value: Value) -> bytes:
    """A string value as bytes that no later change reaches."""
    return value if type(value) is bytes else bytes(value)


def value_bytes(value: Value) -> int:
    """What a value takes in memory."""
    if type(value) is bytes:
        return memory.text(len(value))
    return memory.BYTEARRAY_BYTES + memory.block(memory.table(value) - bytearray.__basicsize__)


def key_bytes(database: Database, key: bytes) -> int:
    """What a key of the database takes, its value and about its part of the tables included."""
    expiry_bytes = EXPIRY_BYTES if key in database.expires else 0
    return memory.text(len(key)) + value_bytes(database.values[key]) + memory.TABLE_BYTES + expiry_bytes


EXPIRY_BYTES = memory.NUMBER_BYTES + memory.tuple_of(3) + 96
"""Of an expiry and its entry of the wheel, about."""


class PlainDatabase:
    """One database. `expires` and `wheel` hold only keys that end. `held_bytes` are those of keys and values."""

    __slots__ = ("expires", "held_bytes", "names", "values", "wheel")

    def __init__(self) -> None:
        self.values: dict[bytes, Value] = {}
        self.expires: dict[bytes, int] = {}
        self.names = NameIndex()
        self.wheel = Wheel()
        self.held_bytes = 0


if TYPE_CHECKING or not native.ENABLED:
    Database = PlainDatabase
else:
    from amemdb.stores._database import Database as Database


class Keyspace:
    """All databases, and the versions of watched keys."""

    def __init__(self, graveyard: Graveyard) -> None:
        self.databases = [Database() for _ in range(DATABASES)]
        self._graveyard = graveyard
        self._ledger = graveyard.ledger
        self.watched: dict[tuple[int, bytes], _Watched] = {}
        """By database and key: who watches it. Always the same dict: native code looks whether it is empty."""

    def live(self, db: int, key: bytes, now_ms: int) -> Value | None:
        """The key's value if it exists and its time has not passed."""
        database = self.databases[db]
        value = database.values.get(key)
        if value is None:
            return None
        expire_at_ms = database.expires.get(key)
        if expire_at_ms is not None and expire_at_ms <= now_ms:
            return None
        return value

    def is_dead(self, db: int, key: bytes, now_ms: int) -> bool:
        """Whether the key is still held although its time has passed."""
        return 0 < self.databases[db].expires.get(key, NO_EXPIRY) <= now_ms

    def expire_at_ms(self, db: int, key: bytes) -> int:
        """When the key ends, 0 for never or for a key that is not held."""
        return self.databases[db].expires.get(key, NO_EXPIRY)

    def count(self, db: int, now_ms: int) -> int:
        """How many live keys there are. The work is in those that end in this second."""
        database = self.databases[db]
        if not database.expires:
            return len(database.values)
        wheel = database.wheel
        dead = wheel.passed_count(now_ms) + sum(self.is_dead(db, entry[2], now_ms) for entry in wheel.current(now_ms))
        return len(database.values) - dead

    # -- changes ---------------------------------------------------------------------------------

    def apply_set(self, record: Record) -> None:
        """KEY_SET: create or replace, expiry included."""
        _, db, key, value, expire_at_ms = record
        database = self.databases[db]
        before = database.values.get(key)
        if before is None:
            database.names.add(key)
            self._hold(database, memory.text(len(key)) + value_bytes(value))
        else:
            self._hold(database, value_bytes(value) - value_bytes(before))
        database.values[key] = value
        if expire_at_ms or key in database.expires:
            self._set_expiry(db, key, expire_at_ms)
        if self.watched:
            self._touch(db, key)

    def apply_deleted(self, record: Record) -> None:
        """KEY_DELETED."""
        _, db, key = record
        self._remove(db, key)
        if self.watched:
            self._touch(db, key)

    def apply_expired(self, record: Record) -> None:
        """KEY_EXPIRED: the same, but its time had passed, which is no change to whoever watches."""
        _, db, key = record
        self._remove(db, key)

    def apply_expiry_set(self, record: Record) -> None:
        """KEY_EXPIRY_SET."""
        _, db, key, expire_at_ms = record
        assert key in self.databases[db].values, "an expiry without a key"
        self._set_expiry(db, key, expire_at_ms)
        if self.watched:
            self._touch(db, key)

    def apply_appended(self, record: Record) -> None:
        """KEY_APPENDED; a key that is not there begins empty."""
        _, db, key, tail = record
        text = self._growable(db, key)
        before_bytes = value_bytes(text)
        text.extend(tail)
        self._hold(self.databases[db], value_bytes(text) - before_bytes)
        if self.watched:
            self._touch(db, key)

    def apply_range_set(self, record: Record) -> None:
        """KEY_RANGE_SET; a key that is not there begins empty."""
        _, db, key, offset, data = record
        text = self._growable(db, key)
        before_bytes = value_bytes(text)
        if offset > len(text):
            text.extend(bytes(offset - len(text)))
        text[offset : offset + len(data)] = data
        self._hold(self.databases[db], value_bytes(text) - before_bytes)
        if self.watched:
            self._touch(db, key)

    def apply_flushed(self, record: Record) -> None:
        """DATABASE_FLUSHED."""
        self._flush(record[1])

    def clear(self) -> None:
        """Forget every key; who watches keeps watching."""
        for db in range(DATABASES):
            self._flush(db)

    def _flush(self, db: int) -> None:
        database = self.databases[db]
        self.databases[db] = Database()
        self._ledger.keyspace -= database.held_bytes
        bury, table = self._graveyard.bury, memory.table
        bury(database.values, database.held_bytes + table(database.values))
        bury(database.expires, memory.NUMBER_BYTES * len(database.expires) + table(database.expires))
        bury(database.names, database.names.memory_bytes())
        bury(database.wheel, database.wheel.memory_bytes())

    def _remove(self, db: int, key: bytes) -> None:
        database = self.databases[db]
        value = database.values.pop(key)
        database.names.discard(key)
        self._hold(database, -memory.text(len(key)) - value_bytes(value))
        expire_at_ms = database.expires.pop(key, NO_EXPIRY)
        if expire_at_ms:
            database.wheel.cancel(("key", db, key), expire_at_ms)

    def _set_expiry(self, db: int, key: bytes, expire_at_ms: int) -> None:
        database = self.databases[db]
        expires = database.expires
        old_ms = expires.pop(key, NO_EXPIRY) if not expire_at_ms else expires.get(key, NO_EXPIRY)
        if old_ms == expire_at_ms:
            return
        if old_ms:
            database.wheel.cancel(("key", db, key), old_ms)
        if expire_at_ms:
            key = database.names.held(key)  # one object for all
            expires[key] = expire_at_ms
            database.wheel.schedule(("key", db, key), expire_at_ms)

    def _growable(self, db: int, key: bytes) -> bytearray:
        """The key's string, held from now on in a form that grows in place."""
        database = self.databases[db]
        value = database.values.get(key)
        if isinstance(value, bytearray):
            return value
        text = bytearray(value or b"")
        if value is None:
            database.names.add(key)
            self._hold(database, memory.text(len(key)) + value_bytes(text))
        else:
            self._hold(database, value_bytes(text) - value_bytes(value))
        database.values[key] = text
        return text

    def _hold(self, database: Database, count_bytes: int) -> None:
        """The database holds so many bytes more than it did."""
        database.held_bytes += count_bytes
        self._ledger.keyspace += count_bytes

    # -- watching --------------------------------------------------------------------------------

    def watch(self, db: int, key: bytes) -> int:
        """Count one more watcher of the key; its version now."""
        watched = self.watched.setdefault((db, key), _Watched())
        watched.watchers += 1
        return watched.version

    def unwatch(self, db: int, key: bytes) -> None:
        """Count one watcher less."""
        watched = self.watched[db, key]
        watched.watchers -= 1
        if not watched.watchers:
            del self.watched[db, key]

    def watch_version(self, db: int, key: bytes) -> int:
        """The version of a key that is being watched."""
        return self.watched[db, key].version

    def _touch(self, db: int, key: bytes) -> None:
        watched = self.watched.get((db, key))
        if watched is not None:
            watched.version += 1

    # -- whole state -----------------------------------------------------------------------------

    def dump(self, db: int, key: bytes, now_ms: int) -> Iterator[Record]:
        """The record that rebuilds the key as it is; none if its time has passed at `now_ms`."""
        database = self.databases[db]
        expire_at_ms = database.expires.get(key, NO_EXPIRY)
        if not 0 < expire_at_ms <= now_ms:
            yield (records.KEY_SET, db, key, text_of(database.values[key]), expire_at_ms)


class _Watched:
    """How many watch a key, and how often it changed since the first of them came."""

    __slots__ = ("version", "watchers")

    def __init__(self) -> None:
        self.watchers = 0
        self.version = 0
