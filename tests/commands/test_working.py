"""AMEM.WORK on the wire: values, expiry, and the session that owns them."""

from __future__ import annotations

import pytest
from checks import EVERY_BYTE, NOT_INTEGERS, NOW, logged, refused, run, silent, survives
from rig import Rig

from amemdb.limits import EXPIRY_AHEAD_MS_MAX, INT64_MAX, TTL_SECONDS_MAX
from amemdb.stores import records


@pytest.fixture
def rig() -> Rig:
    rig = Rig(start_ms=NOW)
    run(rig, "AMEM.CONV.CREATE s")
    return rig


def test_a_note_is_set_replaced_read_and_deleted(rig: Rig) -> None:
    assert run(rig, "AMEM.WORK.SET s k v") == b"OK"
    assert run(rig, "AMEM.WORK.SET s k w") == b"OK"
    assert run(rig, "AMEM.WORK.GET s k") == b"w"
    assert run(rig, "AMEM.WORK.DEL s k") == 1
    assert silent(rig, "AMEM.WORK.DEL s k") == 0
    assert silent(rig, "AMEM.WORK.GET s k") is None
    survives(rig)


def test_keys_and_values_come_back_byte_for_byte_also_after_a_restart(rig: Rig) -> None:
    run(rig, "AMEM.WORK.SET s", EVERY_BYTE, EVERY_BYTE)
    run(rig, "AMEM.WORK.SET s", b"e\xcc\x81", b"two")
    run(rig, "AMEM.WORK.SET s", b"\xc3\xa9", b"one")
    for _ in range(2):
        assert run(rig, "AMEM.WORK.GET s", EVERY_BYTE) == EVERY_BYTE
        assert run(rig, "AMEM.WORK.LIST s") == [EVERY_BYTE, b"e\xcc\x81", b"\xc3\xa9"]
        assert run(rig, "AMEM.WORK.GETALL s") == [EVERY_BYTE, EVERY_BYTE, b"e\xcc\x81", b"two", b"\xc3\xa9", b"one"]
        rig.restart()


def test_an_empty_value_is_there_and_reads_as_nil(rig: Rig) -> None:
    run(rig, "AMEM.WORK.SET s k", b"")
    assert run(rig, "AMEM.WORK.GET s k") is None
    assert run(rig, "AMEM.WORK.LIST s") == [b"k"]
    assert run(rig, "AMEM.WORK.GETALL s") == [b"k", b""]
    assert run(rig, "AMEM.WORK.TTL s k") == -1
    assert run(rig, "AMEM.WORK.DEL s k") == 1


def test_a_note_needs_a_session_that_lives(rig: Rig) -> None:
    refused(rig, "session not found", "AMEM.WORK.SET t k v")
    refused(rig, "session not found", "AMEM.WORK.SET t k v TTL 5")
    for line, reply in (("GET t k", None), ("DEL t k", 0), ("CLEAR t", 0), ("LIST t", []), ("GETALL t", [])):
        assert silent(rig, f"AMEM.WORK.{line}") == reply
    assert silent(rig, "AMEM.WORK.TTL t k") == -2


def test_all_notes_are_a_map_in_the_newer_protocol(rig: Rig) -> None:
    run(rig, "HELLO 3")
    run(rig, "AMEM.WORK.SET s k v")
    assert run(rig, "AMEM.WORK.GETALL s") == {b"k": b"v"}
    assert run(rig, "AMEM.WORK.GET s nothing") is None


def test_clear_deletes_the_notes_and_nothing_else(rig: Rig) -> None:
    run(rig, "AMEM.CONV.CREATE t")
    run(rig, "AMEM.CONV.APPEND s user x")
    for line in ("s k v", "s l w TTL 50", "t k v"):
        run(rig, f"AMEM.WORK.SET {line}")
    assert logged(rig, "AMEM.WORK.CLEAR s") == [(records.NOTES_CLEARED, b"s")]
    assert silent(rig, "AMEM.WORK.CLEAR s") == 0
    for _ in range(2):
        assert run(rig, "AMEM.WORK.LIST s") == []
        assert run(rig, "AMEM.WORK.GET t k") == b"v"
        assert len(run(rig, "AMEM.CONV.GET s")) == 1
        rig.restart()
    assert len(rig.stores.wheel) == 0


# -- expiry --------------------------------------------------------------------------------------


def test_a_note_has_the_time_that_it_was_set_with_last(rig: Rig) -> None:
    run(rig, "AMEM.WORK.SET s k v TTL 10")
    assert run(rig, "AMEM.WORK.TTL s k") == 10_000
    rig.now_ms += 1
    assert run(rig, "AMEM.WORK.TTL s k") == 9999
    run(rig, f"AMEM.WORK.SET s k v PXAT {NOW + 500}")
    assert run(rig, "AMEM.WORK.TTL s k") == 499
    run(rig, "AMEM.WORK.SET s k v")
    assert run(rig, "AMEM.WORK.TTL s k") == -1
    assert run(rig, "AMEM.WORK.TTL s nothing") == -2
    rig.now_ms += 100_000
    assert run(rig, "AMEM.WORK.GET s k") == b"v"
    assert len(rig.stores.wheel) == 0


BAD_TTL = [*NOT_INTEGERS, b"0", b"-5", b"%d" % (TTL_SECONDS_MAX + 1), b"%d" % INT64_MAX]
BAD_PXAT = [*NOT_INTEGERS, b"%d" % (NOW + EXPIRY_AHEAD_MS_MAX + 1), b"%d" % INT64_MAX]


@pytest.mark.parametrize(("word", "value"), [*[(b"TTL", v) for v in BAD_TTL], *[(b"PXAT", v) for v in BAD_PXAT]])
def test_an_expiry_that_cannot_be_keeps_the_old_note(rig: Rig, word: bytes, value: bytes) -> None:
    run(rig, "AMEM.WORK.SET s k old TTL 60")
    refused(rig, word.decode(), "AMEM.WORK.SET s k new", word, value)
    assert run(rig, "AMEM.WORK.GET s k") == b"old"
    assert run(rig, "AMEM.WORK.TTL s k") == 60_000


@pytest.mark.parametrize("options", ["TTL 5 PXAT 9", "PXAT 9 TTL 5", "TTL 5 TTL 5", "TTL", "NX", "5"])
def test_options_that_do_not_go_together_are_refused(rig: Rig, options: str) -> None:
    run(rig, "AMEM.WORK.SET s k old")
    refused(rig, "syntax error", f"AMEM.WORK.SET s k new {options}")


@pytest.mark.parametrize("past", [0, 1, -5, NOW - 1, NOW])
def test_an_end_in_the_past_replaces_the_note_and_has_passed(rig: Rig, past: int) -> None:
    run(rig, "AMEM.WORK.SET s k old")
    run(rig, "AMEM.WORK.SET s l stays")
    assert run(rig, f"AMEM.WORK.SET s k new PXAT {past}") == b"OK"
    for _ in range(2):
        assert silent(rig, "AMEM.WORK.GET s k") is None
        assert silent(rig, "AMEM.WORK.TTL s k") == -2
        assert silent(rig, "AMEM.WORK.LIST s") == [b"l"]
        survives(rig)
        rig.restart()
    rig.now_ms += 2000
    rig.engine.expire(rig.now_ms, 100)
    assert [key for key, _ in rig.stores.work.sessions[b"s"].items()] == [b"l"]
    survives(rig)


def test_a_note_is_hidden_from_the_very_millisecond_before_the_wheel_ran(rig: Rig) -> None:
    run(rig, "AMEM.WORK.SET s k v TTL 10")
    run(rig, "AMEM.WORK.SET s l w")
    rig.now_ms += 9999
    assert run(rig, "AMEM.WORK.GETALL s") == [b"k", b"v", b"l", b"w"]
    rig.now_ms += 1
    assert silent(rig, "AMEM.WORK.GET s k") is None
    assert silent(rig, "AMEM.WORK.GETALL s") == [b"l", b"w"]
    assert silent(rig, "AMEM.WORK.LIST s") == [b"l"]
    assert rig.stores.work.get(b"s", b"k") is not None, "reads remove nothing"


def test_writes_that_meet_a_dead_note_delete_it_first(rig: Rig) -> None:
    def dead() -> None:
        run(rig, "AMEM.WORK.SET s k v TTL 10")
        rig.now_ms += 10_000

    dead()
    assert logged(rig, "AMEM.WORK.SET s k w") == [
        (records.NOTE_DELETED, b"s", b"k"),
        (records.NOTE_SET, b"s", b"k", b"w", 0),
    ]
    dead()
    assert logged(rig, "AMEM.WORK.DEL s k") == [(records.NOTE_DELETED, b"s", b"k")]
    assert silent(rig, "AMEM.WORK.DEL s k") == 0
    dead()
    assert run(rig, "AMEM.WORK.CLEAR s") == 0, "what was out of time was no note any more"
    assert rig.stores.work.sessions == {}
    assert len(rig.stores.wheel) == 0
    survives(rig)


def test_a_dead_note_deleted_replies_that_there_was_none(rig: Rig) -> None:
    run(rig, "AMEM.WORK.SET s k v TTL 10")
    rig.now_ms += 10_000
    assert run(rig, "AMEM.WORK.DEL s k") == 0


def test_the_wheel_removes_notes_as_records_and_leaves_the_session(rig: Rig) -> None:
    run(rig, "AMEM.WORK.SET s k v TTL 10")
    run(rig, "AMEM.WORK.SET s l w TTL 100")
    frames = len(rig.log.frames)
    rig.now_ms += 12_000
    rig.engine.expire(rig.now_ms, 100)
    assert len(rig.log.frames) == frames + 1
    assert [key for key, _ in rig.stores.work.sessions[b"s"].items()] == [b"l"]
    assert b"s" in rig.stores.conv.sessions
    survives(rig)


def test_notes_of_an_ended_session_do_not_come_back_with_its_name(rig: Rig) -> None:
    run(rig, "AMEM.CONV.CREATE t TTL 10")
    run(rig, "AMEM.WORK.SET t k v")
    run(rig, "AMEM.WORK.SET t l w TTL 3600")
    rig.now_ms += 10_000
    run(rig, "AMEM.CONV.CREATE t")
    for _ in range(2):
        assert run(rig, "AMEM.WORK.LIST t") == []
        assert run(rig, "AMEM.WORK.GET t k") is None
        rig.restart()
    assert len(rig.stores.wheel) == 0


@pytest.mark.parametrize("key", [b"", b"x" * 1025])
def test_keys_have_bounds(rig: Rig, key: bytes) -> None:
    refused(rig, "key must be 1 to 1024 bytes", "AMEM.WORK.SET s", key, b"v")
    refused(rig, "key must be 1 to 1024 bytes", "AMEM.WORK.GET s", key)
    refused(rig, "key must be 1 to 1024 bytes", "AMEM.WORK.DEL s", key)
    refused(rig, "session must be 1 to 1024 bytes", "AMEM.WORK.CLEAR", key)
    refused(rig, "session must be 1 to 1024 bytes", "AMEM.WORK.SET", key, b"k", b"v")
