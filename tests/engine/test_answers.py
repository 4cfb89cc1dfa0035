"""Replies that are not there at once: long ones in parts, and commands that are done in slices."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from amemdb.commands.context import Sliced
from amemdb.commands.table import COMMANDS
from amemdb.engine.answers import Parts, Pending
from amemdb.errors import CommandError
from tests.rig import Rig, decode

LARGE = bytes(200_000)


def fill(rig: Rig, count: int) -> None:
    for n in range(count):
        rig("SET", f"key:{n}", n)


def calls_of(rig: Rig, name: str) -> tuple[int, int]:
    """How often it ran, and the nanoseconds that were spent in it."""
    return rig.state.calls().get(name, (0, 0))[:2]


# -- parts -----------------------------------------------------------------------------------------


def test_a_long_reply_comes_in_parts_and_is_counted_at_its_end():
    rig = Rig()
    rig("SET", "k", LARGE)
    answer = rig.engine.execute(rig.session, [b"GET", b"k"], rig.now_ms)
    assert isinstance(answer, Parts)
    first = answer.next()
    assert first == b"$200000\r\n" + LARGE[: len(first) - 9]
    assert calls_of(rig, "GET") == (0, 0)
    rest = answer.whole()
    assert first + rest == b"$200000\r\n" + LARGE + b"\r\n"
    calls, spent_ns = calls_of(rig, "GET")
    assert calls == 1
    assert spent_ns >= 5 * 1000, "the pieces took time as well"
    assert answer.next() == b""
    assert calls_of(rig, "GET") == (calls, spent_ns)


def test_a_reply_in_parts_that_is_given_up_is_counted_once():
    rig = Rig()
    rig("SET", "k", LARGE)
    answer = rig.engine.execute(rig.session, [b"GET", b"k"], rig.now_ms)
    assert isinstance(answer, Parts)
    answer.next()
    answer.close()
    answer.close()
    assert answer.next() == b""
    assert calls_of(rig, "GET")[0] == 1


def test_slowlog_tells_of_a_reply_that_was_long_to_make():
    rig = Rig(settings={"slowlog-log-slower-than": 4})
    rig("SET", "k", LARGE)
    rig("SLOWLOG", "RESET")
    rig("GET", "k")
    assert rig("SLOWLOG", "GET")[0][3] == [b"GET", b"k"]


def test_later_writes_do_not_reach_a_reply_in_parts():
    rig = Rig()
    rig("SET", "k", LARGE)
    rig("APPEND", "grown", LARGE)
    fill(rig, 600)
    keys = [b"key:%d" % n for n in range(600)] + [b"grown"]
    answers = [
        rig.engine.execute(rig.session, argv, rig.now_ms)
        for argv in ([b"GET", b"k"], [b"GET", b"grown"], [b"MGET", *keys], [b"KEYS", b"*"])
    ]
    rig("APPEND", "k", "more")
    rig("SETRANGE", "grown", 0, "other")
    rig("FLUSHALL")
    while rig.stores.graveyard.free(1000):
        pass
    whole = [answer.whole() if isinstance(answer, Parts) else answer for answer in answers]
    assert whole[0] == whole[1] == b"$200000\r\n" + LARGE + b"\r\n"
    assert whole[2].endswith(whole[1])
    assert whole[2].startswith(b"*601\r\n$1\r\n0\r\n")
    assert whole[3].count(b"key:") == 600


def test_the_values_of_a_long_reply_are_freed_bit_by_bit():
    rig = Rig()
    fill(rig, 1500)
    answer = rig.engine.execute(rig.session, [b"MGET", *[b"key:%d" % n for n in range(1500)]], rig.now_ms)
    assert isinstance(answer, Parts)
    before = len(rig.stores.graveyard)
    answer.whole()
    assert len(rig.stores.graveyard) == before + 1
    while rig.stores.graveyard.free(1000):
        pass
    assert len(rig("KEYS", "*")) == 1500


def test_inside_a_transaction_everything_is_bytes():
    rig = Rig()
    rig("SET", "k", LARGE)
    fill(rig, 600)
    rig("MULTI")
    rig("GET", "k")
    rig("KEYS", "*")
    large, keys = rig("EXEC")
    assert large == LARGE
    assert len(keys) == 601


@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
def test_silence_is_kept_for_long_replies(mode: str):
    rig = Rig()
    rig("SET", "k", LARGE)
    rig("CLIENT", "REPLY", mode)
    assert rig.engine.execute(rig.session, [b"GET", b"k"], rig.now_ms) == b""
    assert calls_of(rig, "GET")[0] == 1
    after = rig.raw(b"PING")
    assert after == (b"" if mode == "OFF" else b"+PONG\r\n")


def test_all_parts_wait_for_what_the_command_saw():
    rig = Rig()
    rig.log.gates_reads = True
    rig("SET", "k", LARGE)
    offset = rig.log.offset
    answer = rig.engine.execute(rig.session, [b"GET", b"k"], rig.now_ms)
    assert isinstance(answer, Parts)
    assert rig.session.reply_offset == offset


def test_a_long_reply_to_a_write_waits_for_its_frame():
    rig = Rig()
    rig("SET", "k", LARGE)
    answer = rig.engine.execute(rig.session, [b"GETDEL", b"k"], rig.now_ms)
    assert isinstance(answer, Parts)
    assert rig.session.reply_offset == rig.log.offset
    assert answer.whole() == b"$200000\r\n" + LARGE + b"\r\n"


def test_parts_are_of_the_protocol_that_was_asked_for():
    rig = Rig()
    rig("AMEM.CONV.CREATE", "s")
    for n in range(600):
        rig("AMEM.WORK.SET", "s", n, "v")
    rig("HELLO", 3)
    raw = rig.raw(b"AMEM.WORK.GETALL", b"s")
    assert raw.startswith(b"%600\r\n")


# -- slices ----------------------------------------------------------------------------------------


def stepping(monkeypatch: pytest.MonkeyPatch, steps: Any) -> None:
    """Have PING be done in the steps that the function gives for a context."""
    monkeypatch.setattr(COMMANDS["ECHO"], "run", lambda ctx, argv: Sliced(steps(ctx)))


def test_a_command_in_slices_gives_way_after_about_a_millisecond(monkeypatch: pytest.MonkeyPatch):
    rig = Rig()

    def steps(ctx: Any) -> Generator[None, None, bytes]:
        for _ in range(2500):  # the timer of the rig takes a microsecond for each look at it
            yield
        return b"done"

    stepping(monkeypatch, steps)
    answer = rig.engine.execute(rig.session, [b"ECHO", b"x"], rig.now_ms)
    turns = 0
    while isinstance(answer, Pending):
        assert answer.sliced
        assert calls_of(rig, "ECHO")[0] == 0
        answer = rig.engine.resume(answer, answer.work(), rig.now_ms)
        turns += 1
    assert answer == b"$4\r\ndone\r\n"
    assert turns == 2
    calls, spent_ns = calls_of(rig, "ECHO")
    assert calls == 1
    assert spent_ns > 2_500_000


def test_each_slice_is_told_time_and_session_anew(monkeypatch: pytest.MonkeyPatch):
    rig = Rig()
    seen = []

    def steps(ctx: Any) -> Generator[None, None, bytes]:
        for _ in range(2500):
            seen.append((ctx.now_ms, ctx.session.id))
            yield
        return b"done"

    stepping(monkeypatch, steps)
    start_ms = rig.now_ms
    answer = rig.engine.execute(rig.session, [b"ECHO", b"x"], rig.now_ms)
    while isinstance(answer, Pending):
        rig.advance_ms(5)
        rig("PING", session=rig.connect())
        answer = rig.engine.resume(answer, None, rig.now_ms)
    assert {session for _, session in seen} == {rig.session.id}
    assert sorted({now_ms - start_ms for now_ms, _ in seen}) == [0, 5, 10]


def test_the_gates_are_passed_again_for_each_slice(monkeypatch: pytest.MonkeyPatch):
    rig = Rig()
    fill(rig, 2000)
    rig.log.gates_reads = True
    monkeypatch.setattr("amemdb.engine.engine.SLICE_NS", 1)
    answer = rig.engine.execute(rig.session, [b"KEYS", b"*"], rig.now_ms)
    assert isinstance(answer, Pending)
    rig("SET", "late", 1, session=rig.connect())
    answer = rig.engine.resume(answer, None, rig.now_ms)
    assert rig.session.reply_offset == rig.log.offset, "it may have seen what came later"
    rig.log.unreadable = "the disk is gone"
    answer = rig.engine.resume(answer, None, rig.now_ms)
    assert answer == b"-MISCONF Errors writing to the log: the disk is gone\r\n"


def test_a_refusal_in_a_later_slice_is_a_refusal(monkeypatch: pytest.MonkeyPatch):
    rig = Rig()

    def steps(ctx: Any) -> Generator[None, None, bytes]:
        for _ in range(1500):
            yield
        raise CommandError("no such thing")

    stepping(monkeypatch, steps)
    assert str(rig("ECHO", "x")) == "ERR no such thing"
    assert rig.state.calls()["ECHO"][2] == 1


def test_a_key_that_stays_is_given_once_whatever_comes_and_goes_meanwhile(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("amemdb.engine.engine.SLICE_NS", 1)
    rig = Rig()
    fill(rig, 3000)
    other = rig.connect()
    for argv in ([b"KEYS", b"key:*"], [b"SCAN", b"0", b"COUNT", b"1000000", b"MATCH", b"key:*"]):
        answer = rig.engine.execute(rig.session, argv, rig.now_ms)
        step = 0
        while isinstance(answer, Pending):
            for n in range(50):
                rig("SET", f"new:{step}:{n}", n, session=other)
                rig("DEL", f"new:{step - 1}:{n}", session=other)
            step += 1
            answer = rig.engine.resume(answer, None, rig.now_ms)
        assert step > 5
        found = answer.whole() if isinstance(answer, Parts) else answer
        assert all(found.count(b"\r\nkey:%d\r\n" % n) == 1 for n in range(0, 3000, 7))
        assert found.count(b"key:") == 3000


def test_a_flush_in_the_middle_of_keys_and_scan(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("amemdb.engine.engine.SLICE_NS", 1)
    rig = Rig()
    for argv in ([b"KEYS", b"*"], [b"SCAN", b"0", b"COUNT", b"100000", b"TYPE", b"string"]):
        fill(rig, 1500)
        answer = rig.engine.execute(rig.session, argv, rig.now_ms)
        assert isinstance(answer, Pending)
        rig("FLUSHALL", session=rig.connect())
        while rig.stores.graveyard.free(1000):
            pass
        while isinstance(answer, Pending):
            answer = rig.engine.resume(answer, None, rig.now_ms)
        found = answer.whole() if isinstance(answer, Parts) else answer
        assert found.count(b"key:") <= 300


@pytest.mark.parametrize("count", [10, 257, 700])
def test_a_page_of_a_scan_holds_no_more_than_was_asked_for(count: int):
    rig = Rig()
    fill(rig, 2000)
    cursor, seen = b"0", []
    while True:
        cursor, names = rig("SCAN", cursor, "COUNT", count)
        assert len(names) <= count
        seen += names
        if cursor == b"0":
            break
    assert sorted(seen) == sorted(b"key:%d" % n for n in range(2000))


def whole(rig: Rig, answer: bytes | Pending | Parts, meanwhile: Callable[[int], Any] = lambda step: None) -> Any:
    """The reply that comes of `answer`, read; `meanwhile` is called between the slices."""
    step = 0
    while isinstance(answer, Pending):
        meanwhile(step)
        step += 1
        answer = rig.engine.resume(answer, None, rig.now_ms)
    assert step > 3, "it was not done in slices"
    return decode(answer.whole() if isinstance(answer, Parts) else answer)


@pytest.mark.parametrize("resp3", [False, True])
def test_events_that_stay_are_given_once_whatever_is_logged_and_goes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, resp3: bool
):
    monkeypatch.setattr("amemdb.engine.engine.SLICE_NS", 1)
    rig = Rig()
    rig("HELLO", 3 if resp3 else 2)
    for n in range(1500):
        rig("AMEM.EPIS.LOG", "a", f"t{n % 2}", f"event {n}", "AT", 1000 + n // 7)
    other = rig.connect()

    def meanwhile(step: int) -> None:
        rig("AMEM.EPIS.LOG", "a", "t0", "late", session=other)
        rig("AMEM.EPIS.LOG", "a", "t0", "late", "AT", 1, session=other)

    def contents(*words: bytes) -> list[bytes]:
        answer = rig.engine.execute(rig.session, [b"AMEM.EPIS.QUERY", b"a", *words], rig.now_ms)
        shown = whole(rig, answer, meanwhile)
        rows = [row[b"content"] if resp3 else row[5] for row in shown]
        return [row for row in rows if row != b"late"]

    everything = [b"event %d" % n for n in range(1500)]
    assert contents() == everything
    assert contents(b"REV") == everything[::-1]
    assert contents(b"TYPE", b"t1") == everything[1::2]
    assert contents(b"TO", b"1100", b"LIMIT", b"600") == everything[: 7 * 101][-600:]


def test_a_page_of_events_in_slices_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("amemdb.engine.engine.SLICE_NS", 1)
    rig = Rig()
    for n in range(1500):
        rig("AMEM.EPIS.LOG", "a", "t", f"event {n}", "AT", 1000 + n // 7)
    other = rig.connect()
    seen, cursor = [], b"0"
    while True:
        answer = rig.engine.execute(rig.session, [b"AMEM.EPIS.PAGE", b"a", cursor, b"COUNT", b"700"], rig.now_ms)
        while isinstance(answer, Pending):
            rig("AMEM.EPIS.LOG", "a", "t", "early", "AT", 1, session=other)
            answer = rig.engine.resume(answer, None, rig.now_ms)
        cursor, rows = decode(answer.whole() if isinstance(answer, Parts) else answer)
        assert len(rows) <= 700
        seen += [row[5] for row in rows if row[5] != b"early"]
        if cursor == b"0":
            break
    assert seen == [b"event %d" % n for n in range(1500)]


def test_a_list_of_facts_in_slices_holds_those_that_stay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("amemdb.engine.engine.SLICE_NS", 1)
    rig = Rig()
    rig("AMEM.SEM.CREATE", "a", 2)
    for n in range(2500):
        rig("AMEM.SEM.STORE", "a", n, "content", 1, n)
    other = rig.connect()
    found = whole(
        rig,
        rig.engine.execute(rig.session, [b"AMEM.SEM.LIST", b"a"], rig.now_ms),
        lambda step: rig("AMEM.SEM.FORGET", "a", 2400 + step, session=other),
    )
    assert found[:2400] == [b"%d" % n for n in range(2400)]
    assert len(found) < 2500
    answer = rig.engine.execute(rig.session, [b"AMEM.SEM.LIST", b"a"], rig.now_ms)
    found = whole(rig, answer, lambda step: rig("AMEM.SEM.DROP", "a", session=other))
    assert len(found) < 2400
