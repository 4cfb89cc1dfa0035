"""`maxmemory`: what is refused beyond it, what goes on, and how one gets below it again."""

from __future__ import annotations

from collections.abc import Iterator

import hiredis
import pytest

from amemdb.commands.declare import REGISTRY
from amemdb.errors import CommandError
from amemdb.limits import NO_EXPIRY
from tests.memory_walk import check
from tests.rig import Rig

OOM = "OOM command not allowed when used memory > 'maxmemory'."
FULL = 1
"""A limit that is always passed."""
VECTOR = b"\x00\x00\x80\x3f" * 2
GROWING: dict[str, list[str | bytes]] = {
    "AMEM.CONV.CREATE": ["new"],
    "AMEM.CONV.APPEND": ["s", "user", "hi"],
    "AMEM.SEM.CREATE": ["new", "2"],
    "AMEM.SEM.STORE": ["a", "new", "text", "FP32", VECTOR],
    "AMEM.WORK.SET": ["s", "new", "value"],
    "AMEM.EPIS.LOG": ["a", "action", "more"],
    "AMEM.SUMMARY.SET": ["a", "text"],
    "AMEM.SUMMARY.APPEND": ["a", "line"],
    "SET": ["k", "value"],
    "SETNX": ["new", "value"],
    "SETEX": ["k", "10", "value"],
    "PSETEX": ["k", "10", "value"],
    "GETSET": ["k", "value"],
    "MSET": ["k", "value"],
    "MSETNX": ["new", "value"],
    "APPEND": ["k", "tail"],
    "SETRANGE": ["k", "1", "x"],
    "INCR": ["n"],
    "DECR": ["n"],
    "INCRBY": ["n", "2"],
    "DECRBY": ["n", "2"],
    "INCRBYFLOAT": ["n", "0.5"],
    "COPY": ["k", "new"],
}
FREEING: dict[str, tuple[list[str | bytes], object]] = {
    "AMEM.CONV.CLEAR": (["s"], 1),
    "AMEM.CONV.DROP": (["s"], 1),
    "AMEM.CONV.EXPIRE": (["s", "TTL", "10"], 1),
    "AMEM.SEM.FORGET": (["a", "f"], 1),
    "AMEM.SEM.DROP": (["a"], 1),
    "AMEM.WORK.DEL": (["s", "note"], 1),
    "AMEM.WORK.CLEAR": (["s"], 1),
    "AMEM.EPIS.CLEAR": (["a"], 1),
    "AMEM.EPIS.RETAIN": (["a", "MAXLEN", "1"], 1),
    "AMEM.SUMMARY.DROP": (["a"], 1),
    "DEL": (["k"], 1),
    "UNLINK": (["k"], 1),
    "RENAME": (["k", "other"], b"OK"),
    "RENAMENX": (["k", "other"], 1),
    "FLUSHDB": ([], b"OK"),
    "FLUSHALL": ([], b"OK"),
    "GETDEL": (["k"], b"value"),
    "GETEX": (["k", "EX", "10"], b"value"),
    "EXPIRE": (["k", "10"], 1),
    "PEXPIRE": (["k", "10"], 1),
    "EXPIREAT": (["k", "2000000000"], 1),
    "PEXPIREAT": (["k", "2000000000000"], 1),
    "PERSIST": (["ending"], 1),
}
WRITES = {name for name, spec in REGISTRY.items() if spec.access == "write"}


@pytest.fixture
def rig() -> Rig:
    """One object of every kind."""
    rig = Rig()
    for request in (
        ["AMEM.CONV.CREATE", "s"],
        ["AMEM.CONV.APPEND", "s", "user", "hello"],
        ["AMEM.WORK.SET", "s", "note", "text"],
        ["AMEM.SEM.CREATE", "a", "2"],
        ["AMEM.SEM.STORE", "a", "f", "text", "FP32", VECTOR],
        ["AMEM.EPIS.LOG", "a", "action", "one"],
        ["AMEM.EPIS.LOG", "a", "action", "two"],
        ["AMEM.SUMMARY.SET", "a", "text"],
        ["SET", "k", "value"],
        ["SET", "n", "1"],
        ["SET", "ending", "x", "EX", "100"],
    ):
        assert not isinstance(rig(*request), hiredis.ReplyError)
    return rig


def limit(rig: Rig, count_bytes: int) -> None:
    assert rig("CONFIG", "SET", "maxmemory", count_bytes) == b"OK"


def used(rig: Rig) -> int:
    lines = rig("INFO", "memory").decode().split("\r\n")
    return int(dict(line.split(":", 1) for line in lines if ":" in line)["used_memory"])


def refused(reply: object) -> bool:
    return isinstance(reply, hiredis.ReplyError) and str(reply) == OOM


def fill(rig: Rig) -> Iterator[int]:
    """Set keys until one is refused; gives the number of each that was set."""
    for number in range(100_000):
        reply = rig("SET", f"filling:{number}", b"x" * 1000)
        if refused(reply):
            return
        assert reply == b"OK"
        yield number
    raise AssertionError("nothing was ever refused")


# -- which commands ----------------------------------------------------------------------------------


def test_every_write_is_one_or_the_other() -> None:
    assert set(GROWING) | set(FREEING) == WRITES, "say here what the new command does beyond maxmemory"
    assert {name for name in WRITES if REGISTRY[name].grows} == set(GROWING)


@pytest.mark.parametrize("name", sorted(WRITES))
def test_command_says_so(name: str) -> None:
    assert ("denyoom" in REGISTRY[name].command_flags) == (name in GROWING)
    assert "write" in REGISTRY[name].command_flags


def test_nothing_but_writes_is_flagged() -> None:
    for name, spec in REGISTRY.items():
        assert name in WRITES or ("denyoom" not in spec.command_flags and "frees" not in spec.flags), name


@pytest.mark.parametrize("name", sorted(GROWING))
def test_what_grows_is_refused_and_leaves_nothing(rig: Rig, name: str) -> None:
    digest, frames, held = rig.digest(), len(rig.log.frames), rig.stores.ledger.held
    limit(rig, FULL)
    assert refused(rig(name, *GROWING[name]))
    assert (rig.digest(), len(rig.log.frames), rig.stores.ledger.held) == (digest, frames, held)
    assert rig.state.errors["OOM"] == 1
    limit(rig, 0)
    assert not isinstance(rig(name, *GROWING[name]), hiredis.ReplyError)


@pytest.mark.parametrize("name", sorted(FREEING))
def test_what_frees_goes_on(rig: Rig, name: str) -> None:
    limit(rig, FULL)
    arguments, reply = FREEING[name]
    assert rig(name, *arguments) == reply
    check(rig.stores)


def test_reads_and_the_rest_go_on(rig: Rig) -> None:
    limit(rig, FULL)
    assert rig("GET", "k") == b"value"
    assert len(rig("AMEM.CONV.GET", "s")) == 1
    assert len(rig("AMEM.SEM.RECALL", "a", "1", "FP32", VECTOR)) == 1
    assert rig("PING") == b"PONG"


# -- transactions ------------------------------------------------------------------------------------


def test_a_transaction_is_broken_by_what_cannot_be_queued(rig: Rig) -> None:
    limit(rig, FULL)
    assert rig("MULTI") == b"OK"
    assert rig("DEL", "k") == b"QUEUED"
    assert refused(rig("SET", "k", "more"))
    assert str(rig("EXEC")).startswith("EXECABORT")
    assert rig("GET", "k") == b"value"


def test_exec_is_refused_as_a_whole(rig: Rig) -> None:
    rig("MULTI")
    rig("DEL", "k")
    rig("SET", "n", "2")
    other = rig.connect()
    assert rig("CONFIG", "SET", "maxmemory", FULL, session=other) == b"OK"
    assert str(rig("EXEC")) == f"EXECABORT Transaction discarded because of: {OOM}"
    assert (rig("GET", "k"), rig("GET", "n")) == (b"value", b"1")


def test_exec_of_what_frees_goes_on(rig: Rig) -> None:
    limit(rig, FULL)
    rig("MULTI")
    rig("DEL", "k")
    rig("AMEM.CONV.DROP", "s")
    assert rig("EXEC") == [1, 1]


# -- the limit ---------------------------------------------------------------------------------------


def test_used_memory_stays_at_the_limit_and_writes_come_back(rig: Rig) -> None:
    limit(rig, used(rig) + 500_000)
    numbers = list(fill(rig))
    assert 350 < len(numbers) < 500
    maximum = rig.state.memory.limit_bytes
    assert maximum < used(rig) < maximum + 20_000
    for number in numbers[: len(numbers) // 4]:
        assert rig("DEL", f"filling:{number}") == 1
    assert used(rig) < maximum - 80_000
    assert 80 < len(list(fill(rig))) < 130


def test_a_value_that_grows_in_place_is_seen_at_once(rig: Rig) -> None:
    limit(rig, used(rig) + 200_000)
    assert rig("SETRANGE", "k", 1_000_000, "x") == 1_000_001
    assert refused(rig("SETRANGE", "k", 1_000_000, "x"))
    assert refused(rig("SET", "other", "x"))
    assert rig("DEL", "k") == 1
    assert rig("SET", "other", "x") == b"OK"


def test_small_objects_and_their_tables_are_seen_in_time(rig: Rig) -> None:
    limit(rig, used(rig) + 1_000_000)
    for number in range(100_000):
        if refused(rig("SET", f"{number}", "")):
            break
    assert used(rig) < rig.state.memory.limit_bytes + 400_000, "no more than a table that doubles"


def test_what_was_dropped_is_freed_before_a_write_is_refused(rig: Rig) -> None:
    for number in range(3000):
        rig("SET", f"{number}", b"x" * 100)
    assert rig("FLUSHALL") == b"OK"
    dropped_bytes = rig.stores.ledger.graveyard
    assert dropped_bytes > 400_000
    limit(rig, used(rig) - 150_000)
    assert rig("SET", "k", "v") == b"OK"
    assert rig.stores.ledger.graveyard < dropped_bytes - 140_000


def test_expiry_and_replay_go_on(rig: Rig) -> None:
    limit(rig, FULL)
    rig.advance_ms(200_000)
    assert rig.tick() == 1
    assert rig.stores.keys.expire_at_ms(0, b"ending") == NO_EXPIRY
    rig.restart()
    assert refused(rig("SET", "x", "y"))
    assert rig("GET", "k") == b"value"


def test_it_is_told_once_when_it_begins_and_once_when_it_ends(rig: Rig) -> None:
    told: list[bool] = []
    rig.state.memory.on_refusing = told.append
    limit(rig, FULL)
    rig.state.tick()
    assert told == [], "nothing was refused yet"
    for _ in range(5):
        assert refused(rig("SET", "x", "y"))
        rig.state.tick()
    limit(rig, 0)
    for _ in range(5):
        rig.state.tick()
    assert told == [True]
    for _ in range(5):
        rig.state.tick()
    assert told == [True, False]
    limit(rig, FULL)
    assert refused(rig("SET", "x", "y"))
    assert told == [True, False, True]


# -- the settings ------------------------------------------------------------------------------------


def test_the_limit_is_a_size_with_a_unit(rig: Rig) -> None:
    assert rig("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"0"]
    assert rig("CONFIG", "SET", "maxmemory", "100mb") == b"OK"
    assert rig("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"104857600"]
    assert "at least 0" in str(rig("CONFIG", "SET", "maxmemory", "-1"))
    assert b"maxmemory:104857600\r\nmaxmemory_human:100.00M\r\n" in rig("INFO", "memory")


def test_no_other_policy_is_taken(rig: Rig) -> None:
    assert rig("CONFIG", "SET", "maxmemory-policy", "noeviction") == b"OK"
    reply = rig("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert str(reply).endswith("expected noeviction, got 'allkeys-lru'")


def test_the_error_has_the_code_of_its_own() -> None:
    with pytest.raises(CommandError) as caught:
        raise CommandError(OOM.removeprefix("OOM "), "OOM")
    assert caught.value.line == f"-{OOM}\r\n".encode()
