"""The plain keys: sixteen databases of values by name, with an expiry or without.

A database is two dicts, values and expiries, as most keys have no expiry. A value's Python type is its data type, and
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

from amemdb.limits import DATABASES, NO_EXPIRY
from amemdb.stores import records
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


class Database:
    """One numbered database. `expires` holds only keys that end."""

    __slots__ = ("expires", "names", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, Value] = {}
        self.expires: dict[bytes, int] = {}
        self.names = NameIndex()


class Keyspace:
    """All databases, and the versions of watched keys."""

    def __init__(self, wheel: Wheel) -> None:
        self.databases = [Database() for _ in range(DATABASES)]
        self._wheel = wheel
        self._watched: dict[tuple[int, bytes], _Watched] = {}

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
        """How many live keys there are. The work is in those whose time has passed and that wait for removal."""
        database = self.databases[db]
        if not database.expires:
            return len(database.values)
        waiting = [entry[2] for entry in self._wheel.begun(now_ms) if entry[0] == "key" and entry[1] == db]
        return len(database.values) - sum(self.is_dead(db, key, now_ms) for key in waiting)

    # -- changes ---------------------------------------------------------------------------------

    def apply_set(self, record: Record) -> None:
        """KEY_SET: create or replace, expiry included."""
        _, db, key, value, expire_at_ms = record
        database = self.databases[db]
        if key not in database.values:
            database.names.add(key)
        database.values[key] = value
        if expire_at_ms or key in database.expires:
            self._set_expiry(db, key, expire_at_ms)
        if self._watched:
            self._touch(db, key)

    def apply_deleted(self, record: Record) -> None:
        """KEY_DELETED."""
        _, db, key = record
        self._remove(db, key)
        if self._watched:
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
        if self._watched:
            self._touch(db, key)

    def apply_appended(self, record: Record) -> None:
        """KEY_APPENDED; a key that is not there begins empty."""
        _, db, key, tail = record
        self._growable(db, key).extend(tail)
        if self._watched:
            self._touch(db, key)

    def apply_range_set(self, record: Record) -> None:
        """KEY_RANGE_SET; a key that is not there begins empty."""
        _, db, key, offset, data = record
        text = self._growable(db, key)
        if offset > len(text):
            text.extend(bytes(offset - len(text)))
        text[offset : offset + len(data)] = data
        if self._watched:
            self._touch(db, key)

    def apply_flushed(self, record: Record) -> None:
        """DATABASE_FLUSHED."""
        db = record[1]
        database = self.databases[db]
        for key, expire_at_ms in database.expires.items():
            self._wheel.cancel(("key", db, key), expire_at_ms)
        self.databases[db] = Database()

    def clear(self) -> None:
        """Forget every key (the wheel is cleared by `Stores`); who watches keeps watching."""
        self.databases[:] = [Database() for _ in range(DATABASES)]

    def _remove(self, db: int, key: bytes) -> None:
        database = self.databases[db]
        del database.values[key]
        database.names.discard(key)
        expire_at_ms = database.expires.pop(key, NO_EXPIRY)
        if expire_at_ms:
            self._wheel.cancel(("key", db, key), expire_at_ms)

    def _set_expiry(self, db: int, key: bytes, expire_at_ms: int) -> None:
        expires = self.databases[db].expires
        old_ms = expires.pop(key, NO_EXPIRY) if not expire_at_ms else expires.get(key, NO_EXPIRY)
        if old_ms == expire_at_ms:
            return
        if old_ms:
            self._wheel.cancel(("key", db, key), old_ms)
        if expire_at_ms:
            expires[key] = expire_at_ms
            self._wheel.schedule(("key", db, key), expire_at_ms)

    def _growable(self, db: int, key: bytes) -> bytearray:
        """The key's string, held from now on in a form that grows in place."""
        database = self.databases[db]
        value = database.values.get(key)
        if isinstance(value, bytearray):
            return value
        if value is None:
            database.names.add(key)
        text = database.values[key] = bytearray(value or b"")
        return text

    # -- watching --------------------------------------------------------------------------------

    def watch(self, db: int, key: bytes) -> int:
        """Count one more watcher of the key; its version now."""
        watched = self._watched.setdefault((db, key), _Watched())
        watched.watchers += 1
        return watched.version

    def unwatch(self, db: int, key: bytes) -> None:
        """Count one watcher less."""
        watched = self._watched[db, key]
        watched.watchers -= 1
        if not watched.watchers:
            del self._watched[db, key]

    def watch_version(self, db: int, key: bytes) -> int:
        """The version of a key that is being watched."""
        return self._watched[db, key].version

    def _touch(self, db: int, key: bytes) -> None:
        watched = self._watched.get((db, key))
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
