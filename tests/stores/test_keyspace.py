"""The keyspace store by itself: appliers, growing strings, watching, dumps and what the wheel is told."""

from __future__ import annotations

import pytest

from amemdb.limits import DATABASES
from amemdb.stores import records
from amemdb.stores.graveyard import LARGE_MIN, Graveyard
from amemdb.stores.keyspace import Keyspace, type_of
from amemdb.stores.wheel import Wheel

NOW_MS = 1_700_000_000_000


@pytest.fixture
def graveyard() -> Graveyard:
    return Graveyard()


@pytest.fixture
def keys(graveyard: Graveyard) -> Keyspace:
    return Keyspace(graveyard)


def wheel(keys: Keyspace, db: int = 0) -> Wheel:
    return keys.databases[db].wheel


def put(keys: Keyspace, key: bytes, value: bytes = b"v", expire_at_ms: int = 0, db: int = 0) -> None:
    keys.apply_set((records.KEY_SET, db, key, value, expire_at_ms))


def dump(keys: Keyspace, key: bytes, now_ms: int = NOW_MS, db: int = 0) -> list[tuple[object, ...]]:
    return list(keys.dump(db, key, now_ms))


def test_a_key_is_hidden_from_the_very_moment_it_ends(keys: Keyspace) -> None:
    put(keys, b"k", expire_at_ms=NOW_MS)
    assert keys.live(0, b"k", NOW_MS - 1) == b"v"
    assert keys.live(0, b"k", NOW_MS) is None
    assert not keys.is_dead(0, b"k", NOW_MS - 1)
    assert keys.is_dead(0, b"k", NOW_MS)
    assert not keys.is_dead(0, b"missing", NOW_MS)
    assert not keys.is_dead(1, b"k", NOW_MS)


def test_setting_again_replaces_value_and_expiry_in_both_dicts_and_the_wheel(keys: Keyspace) -> None:
    put(keys, b"k", b"1", NOW_MS + 5000)
    put(keys, b"k", b"2", NOW_MS + 9000)
    assert (len(wheel(keys)), keys.expire_at_ms(0, b"k")) == (1, NOW_MS + 9000)
    put(keys, b"k", b"3")
    assert len(wheel(keys)) == 0
    assert keys.databases[0].expires == {}
    assert keys.live(0, b"k", NOW_MS * 2) == b"3"


def test_one_name_in_two_databases_is_two_keys(keys: Keyspace) -> None:
    put(keys, b"k", b"zero", NOW_MS + 1)
    put(keys, b"k", b"last", NOW_MS + 1, db=DATABASES - 1)
    keys.apply_deleted((records.KEY_DELETED, 0, b"k"))
    assert keys.live(DATABASES - 1, b"k", NOW_MS) == b"last"
    assert (len(wheel(keys)), len(wheel(keys, DATABASES - 1))) == (0, 1)


def test_names_follow_values(keys: Keyspace) -> None:
    put(keys, b"a")
    put(keys, b"a", b"again")
    keys.apply_appended((records.KEY_APPENDED, 0, b"b", b"x"))
    keys.apply_range_set((records.KEY_RANGE_SET, 0, b"c", 2, b"x"))
    assert sorted(keys.databases[0].names.page(0, 100)[1]) == [b"a", b"b", b"c"]
    for key in (b"a", b"b", b"c"):
        keys.apply_expired((records.KEY_EXPIRED, 0, key))
    assert keys.databases[0].names.page(0, 100) == (0, [])


@pytest.mark.parametrize(
    ("before", "offset", "data", "after"),
    [
        (b"", 0, b"abc", b"abc"),
        (b"", 3, b"x", b"\0\0\0x"),
        (b"hello", 1, b"AB", b"hABlo"),
        (b"hello", 4, b"WXYZ", b"hellWXYZ"),
        (b"hello", 5, b"!", b"hello!"),
        (b"hello", 7, b"!", b"hello\0\0!"),
    ],
)
def test_a_range_overwrites_extends_and_fills_gaps(
    keys: Keyspace, before: bytes, offset: int, data: bytes, after: bytes
) -> None:
    put(keys, b"k", before, NOW_MS + 10)
    keys.apply_range_set((records.KEY_RANGE_SET, 0, b"k", offset, data))
    assert dump(keys, b"k") == [(records.KEY_SET, 0, b"k", after, NOW_MS + 10)]


def test_a_dump_is_not_reached_by_later_appends(keys: Keyspace) -> None:
    keys.apply_appended((records.KEY_APPENDED, 0, b"k", b"one"))
    before = dump(keys, b"k")
    keys.apply_appended((records.KEY_APPENDED, 0, b"k", b"two"))
    assert before == [(records.KEY_SET, 0, b"k", b"one", 0)]
    assert type(before[0][3]) is bytes


def test_the_value_of_a_record_is_not_changed_by_appends(keys: Keyspace) -> None:
    record = (records.KEY_SET, 0, b"k", b"one", 0)
    keys.apply_set(record)
    keys.apply_appended((records.KEY_APPENDED, 0, b"k", b"two"))
    assert record[3] == b"one"


def test_a_dead_key_is_dumped_only_when_all_is_asked_for(keys: Keyspace) -> None:
    put(keys, b"k", expire_at_ms=NOW_MS)
    assert dump(keys, b"k", NOW_MS) == []
    assert dump(keys, b"k", 0) == [(records.KEY_SET, 0, b"k", b"v", NOW_MS)]


def test_a_flush_empties_one_database_and_its_part_of_the_wheel(keys: Keyspace) -> None:
    for db in (3, 4):
        put(keys, b"a", expire_at_ms=NOW_MS + 1, db=db)
        put(keys, b"b", db=db)
    keys.apply_flushed((records.DATABASE_FLUSHED, 3))
    assert (keys.count(3, NOW_MS), keys.count(4, NOW_MS)) == (0, 2)
    assert wheel(keys, 4).due(NOW_MS + 10_000, 10) == [("key", 4, b"a")]
    assert wheel(keys, 3).due(NOW_MS + 10_000, 10) == []
    assert keys.databases[3].names.page(0, 10) == (0, [])


@pytest.mark.parametrize("everywhere", [False, True])
def test_what_a_flush_drops_is_freed_bit_by_bit(keys: Keyspace, graveyard: Graveyard, everywhere: bool) -> None:
    for number in range(LARGE_MIN):
        put(keys, b"%d" % number, expire_at_ms=NOW_MS + number, db=3)
    if everywhere:
        keys.clear()
    else:
        keys.apply_flushed((records.DATABASE_FLUSHED, 3))
    assert len(graveyard) == 4  # values, expiries, names, the wheel
    put(keys, b"7", expire_at_ms=NOW_MS, db=3)
    while graveyard.free(100) >= 100:
        pass
    assert len(graveyard) == 0
    assert keys.live(3, b"7", NOW_MS - 1) == b"v"
    assert wheel(keys, 3).due(NOW_MS + 10_000, 10) == [("key", 3, b"7")]
    keys.apply_deleted((records.KEY_DELETED, 3, b"7"))
    assert len(wheel(keys, 3)) == len(keys.databases[3].names) == 0


def test_clear_keeps_the_list_of_databases(keys: Keyspace) -> None:
    databases = keys.databases
    put(keys, b"k", db=5)
    keys.clear()
    assert keys.databases is databases
    assert not any(database.values for database in databases)


def test_count_leaves_out_what_has_ended_and_waits_for_removal(keys: Keyspace) -> None:
    for index in range(500):
        put(keys, b"%d" % index, expire_at_ms=NOW_MS + 10 * index)
    put(keys, b"ever")
    put(keys, b"other", expire_at_ms=NOW_MS, db=1)
    for passed_ms in (-1, 0, 5, 990, 2500, 4990, 100_000):
        alive = sum(10 * index > passed_ms for index in range(500)) + 1
        assert keys.count(0, NOW_MS + passed_ms) == alive


def test_a_version_is_raised_by_every_change_while_somebody_watches(keys: Keyspace) -> None:
    seen = [keys.watch(0, b"k")]
    for change in (
        lambda: put(keys, b"k"),
        lambda: keys.apply_expiry_set((records.KEY_EXPIRY_SET, 0, b"k", NOW_MS)),
        lambda: keys.apply_appended((records.KEY_APPENDED, 0, b"k", b"")),
        lambda: keys.apply_range_set((records.KEY_RANGE_SET, 0, b"k", 0, b"x")),
        lambda: keys.apply_deleted((records.KEY_DELETED, 0, b"k")),
    ):
        change()
        seen.append(keys.watch_version(0, b"k"))
    assert seen == sorted(set(seen))


def test_neither_expiry_nor_flushes_nor_other_keys_raise_a_version(keys: Keyspace) -> None:
    put(keys, b"k", expire_at_ms=NOW_MS)
    version = keys.watch(0, b"k")
    put(keys, b"other")
    put(keys, b"k", db=1)
    keys.apply_expired((records.KEY_EXPIRED, 0, b"k"))
    keys.apply_flushed((records.DATABASE_FLUSHED, 0))
    keys.clear()
    assert keys.watch_version(0, b"k") == version
    put(keys, b"k")
    assert keys.watch_version(0, b"k") != version


def test_a_watch_lasts_until_its_last_watcher_goes(keys: Keyspace) -> None:
    first, second = keys.watch(0, b"k"), keys.watch(0, b"k")
    assert first == second
    keys.unwatch(0, b"k")
    put(keys, b"k")
    assert keys.watch_version(0, b"k") != second
    keys.unwatch(0, b"k")
    with pytest.raises(KeyError):
        keys.watch_version(0, b"k")
    put(keys, b"k")
    with pytest.raises(KeyError):
        keys.unwatch(0, b"k")


@pytest.mark.parametrize(
    "record",
    [(records.KEY_DELETED, 0, b"no"), (records.KEY_EXPIRED, 0, b"no"), (records.KEY_EXPIRY_SET, 0, b"no", NOW_MS)],
)
def test_a_record_about_a_missing_key_is_a_bug(keys: Keyspace, record: tuple[int, int, bytes]) -> None:
    apply = {
        records.KEY_DELETED: keys.apply_deleted,
        records.KEY_EXPIRED: keys.apply_expired,
        records.KEY_EXPIRY_SET: keys.apply_expiry_set,
    }[record[0]]
    with pytest.raises((KeyError, AssertionError)):
        apply(record)


def test_types_are_told_in_one_place() -> None:
    assert type_of(b"x") == type_of(bytearray(b"x")) == "string"
    with pytest.raises(AssertionError):
        type_of({})  # type: ignore[arg-type]
