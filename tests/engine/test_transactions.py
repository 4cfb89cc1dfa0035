"""MULTI, EXEC, DISCARD, WATCH and UNWATCH, and how the engine queues, runs and commits."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest
from checks import logged, run, silent
from rig import Rig, records_of

from amemdb.commands.session import Session


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def other(rig: Rig) -> Session:
    """A second connection."""
    return rig.connect()


def script(rig: Rig, text: str) -> list[Any]:
    """The replies to requests parted by `;`."""
    return [rig(*line.split()) for line in text.split(";")]


def said(reply: Any) -> str:
    assert isinstance(reply, hiredis.ReplyError), reply
    return str(reply)


# -- queueing and running --------------------------------------------------------------------------


def test_replies_come_in_order_and_nothing_runs_before_exec(rig: Rig, other: Session) -> None:
    assert script(rig, "MULTI; SET k 1; INCR k; GET k") == [b"OK", b"QUEUED", b"QUEUED", b"QUEUED"]
    assert rig("GET", "k", session=other) is None
    assert run(rig, "EXEC") == [b"OK", 2, b"2"]
    assert rig("GET", "k", session=other) == b"2"


def test_a_transaction_is_one_frame(rig: Rig) -> None:
    run(rig, "SET c 5")
    before = len(rig.log.frames)
    script(rig, "MULTI; SET a 1; GET a; AMEM.CONV.CREATE s; AMEM.CONV.APPEND s user hi; DEL c; INCR a; EXEC")
    assert len(rig.log.frames) == before + 1
    assert [record[0] for record in records_of(rig.log.frames[-1])] == [50, 1, 2, 51, 50]
    rig.restart()
    assert run(rig, "GET a") == b"2"


@pytest.mark.parametrize("queued", ["GET k; EXISTS k; AMEM.CONV.GET s", "DEL k; GETDEL k; SET k v XX", "PING"])
def test_a_transaction_that_changes_nothing_is_no_frame(rig: Rig, queued: str) -> None:
    script(rig, f"MULTI; {queued}")
    silent(rig, "EXEC")


def test_an_empty_transaction(rig: Rig) -> None:
    run(rig, "MULTI")
    assert rig.raw(b"EXEC") == b"*0\r\n"
    script(rig, "HELLO 3; MULTI")
    assert rig.raw(b"EXEC") == b"*0\r\n"


def test_replies_inside_are_of_the_protocol_spoken(rig: Rig) -> None:
    script(rig, "MULTI; GET missing; MGET missing")
    assert rig.raw(b"EXEC") == b"*2\r\n$-1\r\n*1\r\n$-1\r\n"
    script(rig, "HELLO 3; MULTI; GET missing; MGET missing")
    assert rig.raw(b"EXEC") == b"*2\r\n_\r\n*1\r\n_\r\n"


def test_a_refusal_inside_does_not_stop_the_others(rig: Rig) -> None:
    script(rig, "SET k text; MULTI; SET a 1; INCR k; AMEM.CONV.APPEND nosession user hi; SET b 2")
    replies = run(rig, "EXEC")
    assert (replies[0], replies[3]) == (b"OK", b"OK")
    assert said(replies[1]) == "ERR value is not an integer or out of range"
    assert "session not found" in said(replies[2])
    assert run(rig, "MGET a b k") == [b"1", b"2", b"text"]
    assert len(records_of(rig.log.frames[-1])) == 2


def test_wrong_arguments_are_found_only_when_it_runs(rig: Rig) -> None:
    assert script(rig, "MULTI; SET k v NX XX; SET k v EX zero; SET k w") == [b"OK", b"QUEUED", b"QUEUED", b"QUEUED"]
    replies = run(rig, "EXEC")
    assert "syntax error" in said(replies[0])
    assert "not an integer" in said(replies[1])
    assert replies[2] == b"OK"


def test_select_inside_counts_for_what_follows(rig: Rig) -> None:
    script(rig, "MULTI; SET k zero; SELECT 1; SET k one; EXEC")
    assert run(rig, "GET k") == b"one"
    run(rig, "SELECT 0")
    assert run(rig, "GET k") == b"zero"


def test_time_stands_still_inside(rig: Rig) -> None:
    script(rig, "SET k v PX 100; MULTI; PTTL k; PTTL k")
    rig.advance_ms(60)
    assert run(rig, "EXEC") == [40, 40]


# -- what breaks it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("NOSUCH a b", "ERR unknown command 'NOSUCH'"),
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("OBJECT NOSUCH k", "ERR unknown subcommand 'NOSUCH'"),
        ("MULTI now", "ERR wrong number of arguments for 'multi' command"),
        ("WATCH", "ERR wrong number of arguments for 'watch' command"),
        ("DISCARD all", "ERR wrong number of arguments for 'discard' command"),
    ],
)
def test_what_cannot_be_queued_has_exec_refuse_everything(rig: Rig, line: str, reason: str) -> None:
    script(rig, "MULTI; SET k v")
    assert said(run(rig, line)).startswith(reason)
    assert run(rig, "SET k w") == b"QUEUED"
    assert said(silent_error(rig, "EXEC")) == "EXECABORT Transaction discarded because of previous errors."
    assert rig.session.queue is None
    assert run(rig, "GET k") is None
    assert run(rig, "SET k x") == b"OK"


def silent_error(rig: Rig, line: str) -> Any:
    before = rig.stores.digest(0), len(rig.log.frames)
    reply = run(rig, line)
    assert (rig.stores.digest(0), len(rig.log.frames)) == before
    return reply


def test_a_broken_transaction_keeps_nothing_queued(rig: Rig) -> None:
    script(rig, "MULTI; SET k v; NOSUCH; SET k w")
    assert rig.session.queue == []
    assert run(rig, "DISCARD") == b"OK"


def test_nested_multi_and_watch_inside_are_refused_and_the_transaction_goes_on(rig: Rig) -> None:
    script(rig, "MULTI; SET k v")
    assert said(run(rig, "MULTI")) == "ERR MULTI calls can not be nested"
    assert said(run(rig, "WATCH k")) == "ERR WATCH inside MULTI is not allowed"
    assert run(rig, "EXEC") == [b"OK"]


def test_exec_with_arguments_ends_the_transaction(rig: Rig) -> None:
    script(rig, "WATCH w; MULTI; SET k v")
    reason = "wrong number of arguments for 'exec' command"
    assert said(run(rig, "EXEC now")) == f"EXECABORT Transaction discarded because of: {reason}"
    assert (rig.session.queue, rig.session.watched) == (None, {})
    assert said(run(rig, "EXEC")) == "ERR EXEC without MULTI"


def test_what_may_not_stand_in_a_transaction_breaks_it(rig: Rig) -> None:
    run(rig, "MULTI")
    assert said(run(rig, "SHUTDOWN")) == "ERR Command not allowed inside a transaction"
    assert said(run(rig, "EXEC")).startswith("EXECABORT ")


def test_exec_and_discard_need_multi(rig: Rig) -> None:
    assert said(run(rig, "EXEC")) == "ERR EXEC without MULTI"
    assert said(run(rig, "DISCARD")) == "ERR DISCARD without MULTI"


def test_discard_forgets_queue_and_watches(rig: Rig, other: Session) -> None:
    script(rig, "WATCH k; MULTI; SET k v; DISCARD")
    assert (rig.session.queue, rig.session.watched) == (None, {})
    rig("SET", "k", "other", session=other)
    assert script(rig, "MULTI; GET k; EXEC")[-1] == [b"other"]


def test_a_connection_that_goes_takes_its_transaction_and_watches_along(rig: Rig) -> None:
    script(rig, "WATCH k; MULTI; SET k v")
    rig.engine.forget(rig.session)
    assert (rig.session.queue, rig.session.watched) == (None, {})
    assert rig("GET", "k", session=rig.connect()) is None
    with pytest.raises(KeyError):
        rig.stores.keys.watch_version(0, b"k")


# -- limits ----------------------------------------------------------------------------------------


def test_too_many_commands_break_the_transaction(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amemdb.engine.engine.REPLY_ELEMENTS_MAX", 3)
    script(rig, "MULTI; PING; PING; PING")
    assert "too long" in said(run(rig, "PING"))
    assert said(run(rig, "EXEC")).startswith("EXECABORT ")
    assert script(rig, "MULTI; PING; PING; PING; EXEC")[-1] == [b"PONG"] * 3


def test_too_many_bytes_break_the_transaction(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amemdb.engine.engine.TRANSACTION_BYTES_MAX", 5000)
    for _ in range(2):
        run(rig, "MULTI")
        assert rig.send(b"SET", b"k", b"x" * 4000) == b"QUEUED"
        assert "too large" in said(rig.send(b"SET", b"k", b"x" * 4000))
        assert rig.session.queue == []
        assert said(run(rig, "EXEC")).startswith("EXECABORT ")


def test_replies_that_together_are_too_long_are_left_out_and_the_rest_is_answered(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amemdb.engine.engine.REPLY_BYTES_MAX", 1000)
    rig.send(b"SET", b"k", b"x" * 400)
    replies = script(rig, "MULTI; GET k; GET k; GET k; SET j v; EXEC")[-1]
    assert replies[:2] == [b"x" * 400] * 2
    assert "longer than" in said(replies[2])
    assert (replies[3], run(rig, "GET j")) == (b"OK", b"v")


# -- the log ---------------------------------------------------------------------------------------


def test_a_write_that_the_log_cannot_take_is_not_queued(rig: Rig) -> None:
    run(rig, "MULTI")
    rig.log.frame_bytes_max = 0
    assert said(run(rig, "SET k v")).startswith("MISCONF ")
    rig.log.frame_bytes_max = 1 << 30
    assert said(run(rig, "EXEC")).startswith("EXECABORT ")


def test_a_log_that_fills_up_before_exec_has_it_refused_whole(rig: Rig) -> None:
    script(rig, "WATCH w; MULTI; SET a 1; GET a")
    rig.log.frame_bytes_max = 0
    reply = said(silent_error(rig, "EXEC"))
    assert reply.startswith("EXECABORT Transaction discarded because of: MISCONF Errors writing to the log")
    assert (rig.session.queue, rig.session.watched) == (None, {})
    rig.log.frame_bytes_max = 1 << 30
    assert script(rig, "MULTI; GET a; EXEC")[-1] == [None]


def test_reads_in_exec_are_refused_where_reads_are(rig: Rig) -> None:
    script(rig, "SET k v; MULTI; GET k")
    rig.log.unreadable = "frames that cannot be made durable"
    assert said(run(rig, "EXEC")).startswith("EXECABORT Transaction discarded because of: MISCONF ")
    assert said(run(rig, "GET k")).startswith("MISCONF ")


def test_under_always_the_reply_of_exec_waits_for_what_it_saw(rig: Rig) -> None:
    rig.log.gates_reads = True
    run(rig, "SET k v")
    rig.session.reply_offset = 0
    script(rig, "MULTI; GET k; EXEC")
    assert rig.session.reply_offset == rig.log.offset


# -- watching --------------------------------------------------------------------------------------

TOUCHES = """SET k w|SET k v|SET k w KEEPTTL|APPEND k x|APPEND k|SETRANGE k 1 x|INCRBYFLOAT n 1|INCR n|DEL k|UNLINK k
GETDEL k|GETSET k v|GETEX k EX 100|EXPIRE k 100|PEXPIRE k -1|PERSIST t|RENAME k z|RENAME z k|RENAMENX k y
COPY z k REPLACE
MSET k 1|MSET a 1 k 2|FLUSHDB|FLUSHALL|SET missing v|SETNX missing v|MSETNX missing 1|RENAME k missing|COPY k missing
SET missing v EXAT 1""".replace("\n", "|").split("|")
LEAVES = """GET k|EXISTS k|TYPE k|TTL k|TOUCH k|SET other v|DEL missing|SETNX k v|SET k v NX|SET missing v XX|PERSIST k
EXPIRE k 100 XX|EXPIRE missing 5|RENAMENX k z|RENAME k k|COPY z k|GETEX k|MSETNX k 1 missing 2|SETRANGE k 0|INCR z
AMEM.CONV.CREATE k|KEYS *|COPY k k DB 1""".replace("\n", "|").split("|")


def prepared(rig: Rig) -> None:
    script(rig, "MSET k v z text n 1; SET t v EX 1000; WATCH k missing n t; MULTI; PING")


def words_of(line: str) -> list[str]:
    """`APPEND k` and `SETRANGE k 0` lack their last argument, which is empty."""
    words = line.split()
    return [*words, ""] if words in (["APPEND", "k"], ["SETRANGE", "k", "0"]) else words


@pytest.mark.parametrize("line", TOUCHES)
@pytest.mark.parametrize("resp3", [False, True])
def test_a_touched_key_stops_exec(rig: Rig, other: Session, line: str, resp3: bool) -> None:
    rig.session.resp3 = resp3
    prepared(rig)
    reply = rig(*words_of(line), session=other)
    assert not isinstance(reply, hiredis.ReplyError)
    assert rig.raw(b"EXEC") == (b"_\r\n" if resp3 else b"*-1\r\n")
    assert script(rig, "MULTI; PING; EXEC")[-1] == [b"PONG"]


@pytest.mark.parametrize("line", LEAVES)
def test_what_touches_nothing_does_not_stop_exec(rig: Rig, other: Session, line: str) -> None:
    prepared(rig)
    rig(*words_of(line), session=other)
    assert run(rig, "EXEC") == [b"PONG"]


def test_ones_own_touch_counts_too(rig: Rig) -> None:
    assert script(rig, "SET k v; WATCH k; SET k w; MULTI; PING; EXEC")[-1] is None
    assert script(rig, "WATCH k; MULTI; SET k x; EXEC; MULTI; GET k; EXEC")[-1] == [b"x"]


def test_a_key_of_that_name_in_another_database_is_another_key(rig: Rig, other: Session) -> None:
    script(rig, "WATCH k; MULTI; PING")
    rig("SELECT", 1, session=other)
    rig("SET", "k", "v", session=other)
    assert run(rig, "EXEC") == [b"PONG"]
    script(rig, "SELECT 1; WATCH k; SELECT 0; MULTI; PING")
    rig("SET", "k", "w", session=other)
    assert run(rig, "EXEC") is None


@pytest.mark.parametrize("ticks", [False, True])
def test_a_watched_key_that_ends_stops_exec(rig: Rig, ticks: bool) -> None:
    script(rig, "SET k v PX 100; WATCH k; MULTI; PING")
    rig.advance_ms(5000)
    if ticks:
        assert rig.tick() == 1
    assert run(rig, "EXEC") is None


@pytest.mark.parametrize("cleanup", ["tick", "DEL k", "PERSIST k", "GETDEL k", "FLUSHDB", "FLUSHALL", "GET k", ""])
def test_a_key_that_had_ended_before_it_was_watched_does_not(rig: Rig, other: Session, cleanup: str) -> None:
    run(rig, "SET k v PX 100")
    rig.advance_ms(5000)
    script(rig, "WATCH k; MULTI; PING")
    if cleanup == "tick":
        assert rig.tick() == 1
    elif cleanup:
        rig(*cleanup.split(), session=other)
    assert run(rig, "EXEC") == [b"PONG"]


def test_a_key_that_ends_and_is_set_again_stops_exec(rig: Rig, other: Session) -> None:
    for lived in (True, False):
        run(rig, "SET k v PX 100")
        if not lived:
            rig.advance_ms(5000)
        script(rig, "WATCH k; MULTI; PING")
        rig.advance_ms(5000)
        rig.tick()
        rig("SET", "k", "v", session=other)
        assert run(rig, "EXEC") is None


def test_a_broken_and_dirty_transaction_says_that_it_is_broken(rig: Rig, other: Session) -> None:
    script(rig, "WATCH k; MULTI; NOSUCH")
    rig("SET", "k", "v", session=other)
    assert said(run(rig, "EXEC")).startswith("EXECABORT ")


def test_unwatch_forgets_at_once_and_is_queued_inside(rig: Rig, other: Session) -> None:
    script(rig, "WATCH k; UNWATCH; MULTI; PING")
    rig("SET", "k", "1", session=other)
    assert run(rig, "EXEC") == [b"PONG"]
    assert script(rig, "WATCH k; MULTI; UNWATCH") == [b"OK", b"OK", b"QUEUED"]
    rig("SET", "k", "2", session=other)
    assert run(rig, "EXEC") is None


def test_watching_twice_and_by_two(rig: Rig, other: Session) -> None:
    script(rig, "WATCH k k; WATCH k")
    rig("WATCH", "k", session=other)
    rig("SET", "k", "1", session=other)
    rig("UNWATCH", session=other)
    assert script(rig, "MULTI; PING; EXEC")[-1] is None
    with pytest.raises(KeyError):
        rig.stores.keys.watch_version(0, b"k")


def test_a_watch_placed_after_the_change_does_not_see_it(rig: Rig, other: Session) -> None:
    run(rig, "WATCH k")
    rig("SET", "k", "1", session=other)
    rig("WATCH", "k", session=other)
    rig("MULTI", session=other)
    assert rig("EXEC", session=other) == []
    assert script(rig, "MULTI; EXEC")[-1] is None


def test_a_dirty_exec_changes_and_logs_nothing(rig: Rig, other: Session) -> None:
    script(rig, "WATCH k; MULTI; SET k mine; SET j mine")
    rig("SET", "k", "theirs", session=other)
    assert logged(rig, "EXEC") == []
    assert run(rig, "MGET k j") == [b"theirs", None]
