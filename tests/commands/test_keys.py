"""Plain keys: existence, listing, moving, flushing, and how little a dead key shows."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from checks import EVERY_BYTE, NOW, logged, refused, run, scanned, silent, survives
from rig import Rig

from amemdb.stores import records


@pytest.fixture
def rig() -> Rig:
    return Rig()


def fill(rig: Rig, amount: int, *options: str, prefix: str = "key:") -> list[bytes]:
    for number in range(amount):
        rig("SET", f"{prefix}{number}", "x", *options)
    return [f"{prefix}{number}".encode() for number in range(amount)]


# -- existence -------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["DEL", "UNLINK"])
def test_deleting_counts_what_existed_once(rig: Rig, word: str) -> None:
    run(rig, "MSET a 1 b 2 c 3")
    assert logged(rig, f"{word} a missing a b") == [(records.KEY_DELETED, 0, b"a"), (records.KEY_DELETED, 0, b"b")]
    assert silent(rig, f"{word} a b") == 0
    assert run(rig, "KEYS *") == [b"c"]


def test_deleting_what_has_ended_counts_nothing_and_removes_it(rig: Rig) -> None:
    run(rig, "SET a 1 PX 10")
    run(rig, "SET b 1")
    rig.advance_ms(10)
    assert logged(rig, "DEL a b") == [(records.KEY_EXPIRED, 0, b"a"), (records.KEY_DELETED, 0, b"b")]
    assert rig.stores.keys.databases[0].values == {}
    survives(rig)


@pytest.mark.parametrize("word", ["EXISTS", "TOUCH"])
def test_existing_keys_count_as_often_as_they_are_named(rig: Rig, word: str) -> None:
    run(rig, "MSET a 1 b 2")
    run(rig, "PEXPIRE b 5")
    assert silent(rig, f"{word} a a b missing") == 3
    rig.advance_ms(5)
    assert silent(rig, f"{word} a a b missing") == 2


def test_type_knows_no_amem_objects(rig: Rig) -> None:
    run(rig, "SET k v PX 10")
    run(rig, "AMEM.CONV.CREATE s")
    assert rig.raw(b"TYPE", b"k") == b"+string\r\n"
    assert run(rig, "TYPE s") == run(rig, "TYPE missing") == b"none"
    rig.advance_ms(10)
    assert run(rig, "TYPE k") == b"none"


def test_dbsize_counts_the_living_of_one_database(rig: Rig) -> None:
    run(rig, "MSET a 1 b 2 c 3")
    run(rig, "SET d 4 PX 100")
    run(rig, "AMEM.CONV.CREATE s")
    assert silent(rig, "DBSIZE") == 4
    rig.advance_ms(100)
    assert silent(rig, "DBSIZE") == 3
    rig.tick()
    assert run(rig, "DBSIZE") == 3
    run(rig, "SELECT 1")
    assert run(rig, "DBSIZE") == 0


def test_databases_are_apart(rig: Rig) -> None:
    run(rig, "SET k zero")
    run(rig, "SELECT 15")
    assert run(rig, "GET k") is None
    assert logged(rig, "SET k fifteen") == [(records.KEY_SET, 15, b"k", b"fifteen", 0)]
    assert run(rig, "KEYS *") == [b"k"]
    run(rig, "DEL k")
    run(rig, "SELECT 0")
    assert run(rig, "GET k") == b"zero"


# -- listing ---------------------------------------------------------------------------------------


def test_keys_matches_by_redis_patterns_over_bytes(rig: Rig) -> None:
    names = [b"hello", b"hallo", b"hxllo", b"h*llo", b"line\nbreak", EVERY_BYTE, b""]
    for name in names:
        rig.send(b"SET", name, b"")
    assert sorted(rig.send(b"KEYS", b"*")) == sorted(names)
    assert sorted(rig.send(b"KEYS", b"h[^x]llo")) == [b"h*llo", b"hallo", b"hello"]
    assert rig.send(b"KEYS", b"h\\*llo") == [b"h*llo"]
    assert rig.send(b"KEYS", b"line?break") == [b"line\nbreak"]
    assert rig.send(b"KEYS", b"\x00*") == [EVERY_BYTE]
    assert rig.send(b"KEYS", b"") == [b""]


def test_listing_never_shows_what_has_ended_and_never_removes(rig: Rig) -> None:
    fill(rig, 100, "PX", "10", prefix="dead")
    alive = fill(rig, 100)
    rig.advance_ms(10)
    assert sorted(silent(rig, "KEYS *")) == sorted(alive)
    assert sorted(scanned(rig, "SCAN")) == sorted(alive)
    assert {run(rig, "RANDOMKEY") for _ in range(300)} <= set(alive)
    assert len(rig.stores.keys.databases[0].values) == 200


def test_a_page_never_exceeds_its_count(rig: Rig) -> None:
    fill(rig, 300)
    for size in (1, 3, 10, 1000):
        cursor, pages = b"0", 0
        while pages == 0 or cursor != b"0":
            cursor, page = rig("SCAN", cursor, "COUNT", size)
            assert len(page) <= size
            pages += 1
    assert len(rig("SCAN", 0)[1]) <= 10
    assert len(rig("SCAN", 0, "COUNT", 2**63 - 1)[1]) == 300


def test_deleting_every_key_of_every_page_leaves_nothing(rig: Rig) -> None:
    fill(rig, 1000)
    cursor = b"0"
    for page_number in count():
        cursor, page = rig("SCAN", cursor, "COUNT", 10)
        if page:
            rig("DEL", *page)
        if cursor == b"0":
            break
        assert page_number < 5000
    assert run(rig, "DBSIZE") == 0


def test_keys_that_stay_are_seen_once_whatever_comes_goes_and_ends_meanwhile(rig: Rig) -> None:
    stay = fill(rig, 400, prefix="stay")
    fill(rig, 300, prefix="go")
    fill(rig, 300, "PX", "50", prefix="end")
    seen: Counter[bytes] = Counter()
    cursor, page_number = b"0", 0
    while page_number == 0 or cursor != b"0":
        cursor, page = rig("SCAN", cursor, "COUNT", 7)
        seen.update(page)
        for number in range(5):
            rig("SET", f"new{page_number}-{number}", "x")
            rig("DEL", f"go{page_number * 5 + number}")
        if page_number == 20:
            rig.advance_ms(50)
            assert not any(name.startswith(b"end") for name in rig("KEYS", "*"))
            seen = Counter({name: times for name, times in seen.items() if not name.startswith(b"end")})
        page_number += 1
        assert page_number < 3000
    assert all(seen[name] == 1 for name in stay)
    assert not any(name.startswith(b"end") for name in seen)


def test_scan_options(rig: Rig) -> None:
    fill(rig, 50, prefix="a")
    fill(rig, 50, prefix="b")
    assert len(scanned(rig, "SCAN", b"match", b"a*", b"Count", b"9")) == 50
    assert scanned(rig, "SCAN", b"MATCH", b"nothing*") == []
    assert len(scanned(rig, "SCAN", b"TYPE", b"String")) == 100
    assert scanned(rig, "SCAN", b"TYPE", b"hash") == scanned(rig, "SCAN", b"TYPE", b"nosuch") == []


@pytest.mark.parametrize(
    "cursor", [b"-1", b"abc", b"", b" 0", b"1.0", b"18446744073709551616", b"9" * 30, "\u0663".encode()]
)
def test_malformed_cursors_are_errors(rig: Rig, cursor: bytes) -> None:
    refused(rig, "invalid cursor", "SCAN", cursor)


def test_foreign_cursors_end(rig: Rig) -> None:
    fill(rig, 20)
    for cursor in (b"999999999999", b"18446744073709551615"):
        for _ in range(100):
            cursor, page = rig("SCAN", cursor)
            assert len(page) <= 10
            if cursor == b"0":
                break
        assert cursor == b"0"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (b"COUNT 0", "count must be at least 1"),
        (b"COUNT -5", "count must be at least 1"),
        (b"COUNT x", "not an integer"),
        (b"COUNT", "syntax error"),
        (b"MATCH", "syntax error"),
        (b"COUNT 1 COUNT 2", "syntax error"),
        (b"NOW", "syntax error"),
    ],
)
def test_wrong_scan_options(rig: Rig, options: bytes, reason: str) -> None:
    refused(rig, reason, "SCAN 0", *options.split())


def test_randomkey(rig: Rig) -> None:
    assert silent(rig, "RANDOMKEY") is None
    names = fill(rig, 10)
    drawn = Counter(run(rig, "RANDOMKEY") for _ in range(1000))
    assert set(drawn) == set(names)
    assert max(drawn.values()) < 200, "each of ten names is drawn about a hundred times"
    fill(rig, 1000)
    assert len({run(rig, "RANDOMKEY") for _ in range(1000)}) > 400
    rig("DEL", *fill(rig, 1000)[1:])
    assert silent(rig, "RANDOMKEY") == names[0]


def test_randomkey_ends_where_all_is_dead(rig: Rig) -> None:
    fill(rig, 2000, "PX", "1")
    rig.advance_ms(1)
    assert silent(rig, "RANDOMKEY") is None
    run(rig, "SET alive x")
    assert silent(rig, "RANDOMKEY") == b"alive"


# -- moving ----------------------------------------------------------------------------------------


def test_rename_carries_value_and_expiry(rig: Rig) -> None:
    run(rig, "SET a v PX 500")
    run(rig, "SET b old PX 900")
    assert logged(rig, "RENAME a b") == [
        (records.KEY_SET, 0, b"b", b"v", NOW + 500),
        (records.KEY_DELETED, 0, b"a"),
    ]
    assert (run(rig, "EXISTS a"), run(rig, "GET b"), run(rig, "PTTL b")) == (0, b"v", 500)
    run(rig, "SET c plain")
    run(rig, "RENAME c b")
    assert run(rig, "TTL b") == -1
    survives(rig)


def test_rename_of_binary_names(rig: Rig) -> None:
    rig.send(b"SET", EVERY_BYTE, EVERY_BYTE)
    assert rig.send(b"RENAME", EVERY_BYTE, b"\r\n") == b"OK"
    rig.restart()
    assert rig.send(b"GET", b"\r\n") == EVERY_BYTE


def test_rename_of_a_missing_or_dead_key_is_refused(rig: Rig) -> None:
    run(rig, "SET a v PX 10")
    run(rig, "SET b w")
    rig.advance_ms(10)
    for line in ("RENAME a b", "RENAME a a", "RENAMENX a c", "RENAME missing b"):
        refused(rig, "no such key", line)
    assert run(rig, "GET b") == b"w"


def test_rename_onto_itself_changes_nothing(rig: Rig) -> None:
    run(rig, "SET a v EX 9")
    assert silent(rig, "RENAME a a") == b"OK"
    assert silent(rig, "RENAMENX a a") == 0
    assert (run(rig, "GET a"), run(rig, "TTL a")) == (b"v", 9)


def test_renamenx(rig: Rig) -> None:
    run(rig, "MSET a 1 b 2")
    assert silent(rig, "RENAMENX a b") == 0
    run(rig, "PEXPIRE b 10")
    rig.advance_ms(10)
    assert run(rig, "RENAMENX a b") == 1
    assert (run(rig, "GET b"), run(rig, "TTL b")) == (b"1", -1)
    survives(rig)


def test_copy(rig: Rig) -> None:
    run(rig, "SET a v PX 500")
    assert logged(rig, "COPY a b") == [(records.KEY_SET, 0, b"b", b"v", NOW + 500)]
    run(rig, "SET a w")
    assert silent(rig, "COPY a b") == 0
    assert run(rig, "COPY a b REPLACE") == 1
    assert (run(rig, "GET b"), run(rig, "TTL b")) == (b"w", -1)
    assert silent(rig, "COPY missing b REPLACE") == 0
    assert logged(rig, "COPY a a DB 3") == [(records.KEY_SET, 3, b"a", b"w", 0)]
    assert silent(rig, "COPY a a db 3") == 0
    run(rig, "APPEND a !")
    assert (run(rig, "GET a"), run(rig, "GET b")) == (b"w!", b"w")
    survives(rig)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("COPY a a", "source and destination objects are the same"),
        ("COPY a a DB 0 REPLACE", "source and destination objects are the same"),
        ("COPY missing missing", "source and destination objects are the same"),
        ("COPY a b DB 16", "DB index is out of range"),
        ("COPY a b DB -1", "DB index is out of range"),
        ("COPY a b DB one", "not an integer"),
        ("COPY a b DB", "syntax error"),
        ("COPY a b REPLACE REPLACE", "syntax error"),
        ("COPY a b NX", "syntax error"),
    ],
)
def test_copies_that_make_no_sense(rig: Rig, line: str, reason: str) -> None:
    run(rig, "SET a v")
    refused(rig, reason, line)


def test_copy_and_rename_ask_for_room_for_the_value(rig: Rig) -> None:
    rig.send(b"SET", b"big", b"x" * 100_000)
    rig.log.frame_bytes_max = 50_000
    for line in ("RENAME big other", "RENAMENX big other", "COPY big other"):
        reply = run(rig, line)
        assert str(reply).startswith("MISCONF ")
    assert run(rig, "KEYS *") == [b"big"]
    assert run(rig, "SET small v") == b"OK"
    rig.log.frame_bytes_max = 1 << 20
    assert run(rig, "COPY big other") == 1


# -- flushing --------------------------------------------------------------------------------------


def test_flushdb_empties_the_plain_keys_of_one_database(rig: Rig) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    run(rig, "AMEM.WORK.SET s n v")
    for db in (0, 1):
        run(rig, f"SELECT {db}")
        run(rig, "SET a 1 EX 100")
        run(rig, "SET b 2")
    assert logged(rig, "FLUSHDB ASYNC") == [(records.DATABASE_FLUSHED, 1)]
    assert silent(rig, "FLUSHDB") == b"OK"
    assert run(rig, "DBSIZE") == 0
    run(rig, "SELECT 0")
    assert run(rig, "DBSIZE") == 2
    assert run(rig, "AMEM.WORK.GET s n") == b"v"
    survives(rig)


def test_flushall_empties_everything(rig: Rig) -> None:
    run(rig, "AMEM.CONV.CREATE s TTL 5")
    run(rig, "AMEM.WORK.SET s n v TTL 5")
    run(rig, "AMEM.SUMMARY.SET a text")
    run(rig, "AMEM.EPIS.LOG a t content")
    run(rig, "SET a 1 EX 5")
    run(rig, "SELECT 7")
    run(rig, "SET b 1")
    assert logged(rig, "FLUSHALL sync") == [(records.ALL_FLUSHED,)]
    assert list(rig.stores.dumps(0)) == []
    assert len(rig.stores.wheel) == 0
    assert scanned(rig, "AMEM.CONV.SCAN") == scanned(rig, "SCAN") == []
    rig.restart()


@pytest.mark.parametrize("line", ["FLUSHDB NOW", "FLUSHALL ASYNC SYNC", "FLUSHALL SYNC SYNC", "FLUSHDB SYNC 1"])
def test_wrong_flush_options(rig: Rig, line: str) -> None:
    run(rig, "SET k v")
    refused(rig, "syntax error", line)


# -- insight ---------------------------------------------------------------------------------------


def test_object_says_what_is_true_and_no_more(rig: Rig) -> None:
    run(rig, "SET n 123 PX 10")
    assert silent(rig, "OBJECT ENCODING n") == b"raw"
    assert silent(rig, "OBJECT REFCOUNT n") == 1
    refused(rig, "not tracked", "OBJECT IDLETIME n")
    refused(rig, "not tracked", "object freq n")
    rig.advance_ms(10)
    for word in ("ENCODING", "REFCOUNT", "IDLETIME", "FREQ"):
        assert silent(rig, f"OBJECT {word} n") is None
    assert all(isinstance(line, bytes) for line in run(rig, "OBJECT HELP"))
    refused(rig, "unknown subcommand", "OBJECT WEIGHT n")
    refused(rig, "wrong number of arguments", "OBJECT ENCODING")


def test_a_dead_key_is_missing_to_every_read(rig: Rig) -> None:
    run(rig, "SET k v PX 10")
    rig.advance_ms(10)
    answers = {
        "GET k": None,
        "MGET k": [None],
        "STRLEN k": 0,
        "GETRANGE k 0 -1": b"",
        "EXISTS k": 0,
        "TOUCH k": 0,
        "TYPE k": b"none",
        "TTL k": -2,
        "PTTL k": -2,
        "EXPIRETIME k": -2,
        "PEXPIRETIME k": -2,
        "KEYS *": [],
        "DBSIZE": 0,
        "RANDOMKEY": None,
        "COPY k other": 0,
    }
    for line, answer in answers.items():
        if not line.startswith("COPY"):
            assert silent(rig, line) == answer
    assert run(rig, "COPY k other") == 0
    assert run(rig, "EXISTS other") == 0
