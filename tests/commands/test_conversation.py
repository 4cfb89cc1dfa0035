"""AMEM.CONV on the wire: the window, expiry, retries, refusals and scans."""

from __future__ import annotations

from typing import Any

import pytest
from checks import EVERY_BYTE, NOT_INTEGERS, NOW, logged, records_of, refused, run, scanned, silent, survives
from rig import Rig

from amemdb.limits import EXPIRY_AHEAD_MS_MAX, INT64_MAX, TTL_SECONDS_MAX, WINDOW_MAX
from amemdb.stores import records


@pytest.fixture
def rig() -> Rig:
    return Rig(start_ms=NOW)


def contents(turns: list[list[bytes]]) -> list[bytes]:
    """The contents of RESP2 turns, whose labels are checked on the way."""
    assert all(turn[0::2] == [b"role", b"content"] for turn in turns)
    return [turn[3] for turn in turns]


def talk(rig: Rig, session: str, count: int, create: str = "") -> None:
    run(rig, f"AMEM.CONV.CREATE {session} {create}")
    for number in range(1, count + 1):
        run(rig, f"AMEM.CONV.APPEND {session} user t{number}")


# -- the window ----------------------------------------------------------------------------------


def test_the_newest_turns_are_shown_oldest_first(rig: Rig) -> None:
    talk(rig, "s", 5, "WINDOW 3")
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"t3", b"t4", b"t5"]
    assert contents(run(rig, "AMEM.CONV.WINDOW s 2")) == [b"t4", b"t5"]
    for more in ("3", "4", "99", str(INT64_MAX)):
        assert contents(run(rig, f"AMEM.CONV.WINDOW s {more}")) == [b"t3", b"t4", b"t5"]
    assert run(rig, "AMEM.CONV.WINDOW s 0") == []
    survives(rig)


@pytest.mark.parametrize("count", [*NOT_INTEGERS, b"-1", b"-0x"])
def test_a_count_of_turns_is_a_number_from_zero_on(rig: Rig, count: bytes) -> None:
    talk(rig, "s", 2)
    refused(rig, "out of range", "AMEM.CONV.WINDOW s", count)


@pytest.mark.parametrize(
    ("budget", "taken"),
    # From the newest back the turns cost 4 + 0, 4 + 1, 4 + 2 and 4 + 25 tokens.
    [(0, 0), (3, 0), (4, 1), (8, 1), (9, 2), (14, 2), (15, 3), (43, 3), (44, 4), (INT64_MAX, 4)],
)
def test_a_budget_takes_whole_turns_from_the_newest_back(rig: Rig, budget: int, taken: int) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    sent = [b"m" * 100, b"five5", b"four", b""]
    for content in sent:
        run(rig, "AMEM.CONV.APPEND s user", content)
    expected = sent[len(sent) - taken :]
    assert contents(silent(rig, f"AMEM.CONV.WINDOW s 99 TOKENS {budget}")) == expected
    assert contents(run(rig, f"AMEM.CONV.WINDOW s 2 tokens {budget}")) == expected[-2:]
    assert contents(run(rig, f"AMEM.CONV.WINDOW s 0 TOKENS {budget}")) == []


def test_a_turn_over_the_budget_hides_the_older_ones_that_would_fit(rig: Rig) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    for content in (b"old", b"m" * 100, b"new"):
        run(rig, "AMEM.CONV.APPEND s user", content)
    turns = run(rig, "AMEM.CONV.WINDOW s 9 WITHMETA TOKENS 20")
    assert [turn[1:6:2] for turn in turns] == [[b"user", b"new", 3]]
    assert run(rig, "AMEM.CONV.WINDOW nobody 9 TOKENS 20") == []


@pytest.mark.parametrize("budget", [*NOT_INTEGERS, b"-1"])
def test_a_budget_is_a_number_from_zero_on(rig: Rig, budget: bytes) -> None:
    talk(rig, "s", 2)
    refused(rig, "budget_tokens", "AMEM.CONV.WINDOW s 1 TOKENS", budget)
    refused(rig, "syntax error", "AMEM.CONV.WINDOW s 1 TOKENS 5 TOKENS", budget)


def test_the_window_stays_literal_when_it_cuts_a_tool_call_in_two(rig: Rig) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    for role in ("system", "user", "assistant", "tool", "tool", "assistant", "user"):
        run(rig, f"AMEM.CONV.APPEND s {role} x")
    assert [turn[1] for turn in run(rig, "AMEM.CONV.WINDOW s 4")] == [b"tool", b"tool", b"assistant", b"user"]


def test_unknown_sessions_are_empty_to_reads_and_an_error_to_appends(rig: Rig) -> None:
    assert silent(rig, "AMEM.CONV.GET s") == []
    assert silent(rig, "AMEM.CONV.WINDOW s 5") == []
    refused(rig, "session not found", "AMEM.CONV.APPEND s user x")
    refused(rig, "session not found", "AMEM.CONV.INFO s")
    for command in ("CLEAR s", "DROP s", "EXPIRE s TTL 5", "EXPIRE s PERSIST"):
        assert silent(rig, f"AMEM.CONV.{command}") == 0


def test_create_on_a_live_session_keeps_what_is_not_given(rig: Rig) -> None:
    talk(rig, "s", 3, "WINDOW 7 TTL 60")
    before = run(rig, "AMEM.CONV.INFO s")
    rig.now_ms += 5000
    assert silent(rig, "AMEM.CONV.CREATE s") == b"OK"
    assert silent(rig, "AMEM.CONV.CREATE s WINDOW 7") == b"OK"
    assert run(rig, "AMEM.CONV.INFO s") == before
    run(rig, "AMEM.CONV.CREATE s WINDOW 9")
    info = run(rig, "AMEM.CONV.INFO s")
    assert (info[3], info[9]) == (9, NOW + 60_000)
    run(rig, "AMEM.CONV.CREATE s TTL 100")
    info = run(rig, "AMEM.CONV.INFO s")
    assert (info[1], info[3], info[9]) == (3, 9, NOW + 105_000)
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"t1", b"t2", b"t3"]
    survives(rig)


def test_a_smaller_window_drops_the_oldest_at_once_and_for_good(rig: Rig) -> None:
    talk(rig, "s", 5, "WINDOW 10")
    assert run(rig, "AMEM.CONV.CREATE s WINDOW 2") == b"OK"
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"t4", b"t5"]
    run(rig, "AMEM.CONV.CREATE s WINDOW 10")
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"t4", b"t5"]
    run(rig, "AMEM.CONV.APPEND s user t6")
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"t4", b"t5", b"t6"]
    survives(rig)


def test_nx_refuses_a_session_that_lives_and_only_that(rig: Rig) -> None:
    assert run(rig, "AMEM.CONV.CREATE s TTL 1 NX") == b"OK"
    refused(rig, "already exists", "AMEM.CONV.CREATE s NX")
    refused(rig, "already exists", "AMEM.CONV.CREATE s NX WINDOW 1")
    rig.now_ms += 1000
    assert run(rig, "AMEM.CONV.CREATE s NX") == b"OK"


def test_the_default_window_is_a_setting_read_when_a_session_is_opened(rig: Rig) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    assert run(rig, "AMEM.CONV.INFO s")[3] == 1000
    assert run(rig, "CONFIG SET conv-window 2") == b"OK"
    talk(rig, "t", 3)
    assert contents(run(rig, "AMEM.CONV.GET t")) == [b"t2", b"t3"]
    assert silent(rig, "AMEM.CONV.CREATE s") == b"OK"
    assert rig.replayed().conv.sessions[b"t"].window == 2


@pytest.mark.parametrize("window", [*NOT_INTEGERS, b"0", b"-1", b"%d" % (WINDOW_MAX + 1)])
def test_a_window_is_a_number_within_its_bounds(rig: Rig, window: bytes) -> None:
    refused(rig, "out of range", "AMEM.CONV.CREATE s WINDOW", window)
    talk(rig, "t", 2, "WINDOW 5")
    refused(rig, "out of range", "AMEM.CONV.CREATE t WINDOW", window)
    assert silent(rig, "AMEM.CONV.CREATE t WINDOW 5") == b"OK"


# -- appending -----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [b"system", b"User", b"ASSISTANT", b"tOOL"])
def test_roles_are_taken_in_any_case_and_kept_in_lower_case(rig: Rig, role: bytes) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    run(rig, "AMEM.CONV.APPEND s", role, b"x")
    assert run(rig, "AMEM.CONV.GET s") == [[b"role", role.lower(), b"content", b"x"]]


@pytest.mark.parametrize("role", [b"function", b"", b"user ", b"developer", b"us\xc3\xa9r", b"\xff"])
def test_any_other_role_is_refused(rig: Rig, role: bytes) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    refused(rig, "role must be system, user, assistant or tool", "AMEM.CONV.APPEND s", role, b"x")


@pytest.mark.parametrize(
    "content",
    [b"", EVERY_BYTE, b"\r\n", b"x" * (1 << 20), "\U0001f600".encode() * 20_000, b"\xed\xa0\xbd", b"e\xcc\x81"],
    ids=["empty", "every byte", "newline", "large", "emoji", "lone surrogate", "combining"],
)
def test_contents_come_back_byte_for_byte_also_after_a_restart(rig: Rig, content: bytes) -> None:
    run(rig, "AMEM.CONV.CREATE", EVERY_BYTE)
    run(rig, "AMEM.CONV.APPEND", EVERY_BYTE, b"tool", content)
    rig.restart()
    assert run(rig, "AMEM.CONV.GET", EVERY_BYTE) == [[b"role", b"tool", b"content", content]]
    assert scanned(rig, "AMEM.CONV.SCAN") == [EVERY_BYTE]


def test_names_that_look_alike_are_two_names(rig: Rig) -> None:
    for name in (b"e\xcc\x81", b"\xc3\xa9", b"E\xcc\x81"):
        run(rig, "AMEM.CONV.CREATE", name)
    assert len(scanned(rig, "AMEM.CONV.SCAN")) == 3


def test_an_append_that_is_sent_again_changes_nothing(rig: Rig) -> None:
    talk(rig, "s", 1, "WINDOW 2")
    run(rig, "AMEM.CONV.APPEND s user x ID i")
    assert silent(rig, "AMEM.CONV.APPEND s user x ID i") == b"OK"
    assert silent(rig, "AMEM.CONV.APPEND s tool another-content id i META {}") == b"OK"
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"t1", b"x"]
    run(rig, "AMEM.CONV.APPEND s user x ID I")
    run(rig, "AMEM.CONV.APPEND s user y")
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"x", b"y"]
    run(rig, "AMEM.CONV.APPEND s user x ID i")  # the turn of that id has left the window
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"y", b"x"]
    survives(rig)


def test_a_retry_is_still_known_after_a_restart_and_forgotten_with_a_clear(rig: Rig) -> None:
    talk(rig, "s", 0)
    run(rig, "AMEM.CONV.APPEND s user x ID i")
    rig.restart()
    assert silent(rig, "AMEM.CONV.APPEND s user x ID i") == b"OK"
    run(rig, "AMEM.CONV.CLEAR s")
    run(rig, "AMEM.CONV.APPEND s user x ID i")
    assert contents(run(rig, "AMEM.CONV.GET s")) == [b"x"]


@pytest.mark.parametrize("turn_id", [b"", b"x" * 1025])
def test_an_id_has_bounds(rig: Rig, turn_id: bytes) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    refused(rig, "id must be 1 to 1024 bytes", "AMEM.CONV.APPEND s user x ID", turn_id)
    run(rig, "AMEM.CONV.APPEND s user x ID", b"x" * 1024)


@pytest.mark.parametrize("meta", [b"{}", b' {"a": [1, null]} ', '{"ö": "\\ud83d"}'.encode(), b'{"n": 1e400}'])
def test_meta_is_kept_as_it_was_sent(rig: Rig, meta: bytes) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    assert run(rig, "AMEM.CONV.APPEND s user x META", meta) == b"OK"
    assert run(rig, "AMEM.CONV.GET s WITHMETA")[0][-1] == meta


@pytest.mark.parametrize(
    "meta",
    [
        *[b"", b"[]", b'"x"', b"1", b"null", b"true", b"{", b"{'a': 1}", b'{"a": NaN}', b'{"a": -Infinity}', b"{}{}"],
        *[b'{"a": "\xff"}', b"\xef\xbb\xbf{}", b'{"a": ' * 40_000, b'{"a": "' + b"x" * 65_536 + b'"}'],
    ],
    ids=lambda meta: repr(meta[:12]),
)
def test_meta_that_is_no_json_object_is_refused(rig: Rig, meta: bytes) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    refused(rig, "meta must be", "AMEM.CONV.APPEND s user x META", meta)


def test_a_turn_has_the_time_given_or_that_of_its_arrival(rig: Rig) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    run(rig, "AMEM.CONV.APPEND s user old AT 5 ID i META {}")
    rig.now_ms += 7
    run(rig, "AMEM.CONV.APPEND s user new")
    assert run(rig, "AMEM.CONV.GET s WITHMETA") == [
        [b"role", b"user", b"content", b"old", b"seq", 1, b"at", 5, b"id", b"i", b"meta", b"{}"],
        [b"role", b"user", b"content", b"new", b"seq", 2, b"at", NOW + 7, b"id", None, b"meta", None],
    ]
    assert run(rig, "AMEM.CONV.WINDOW s 1 WITHMETA")[0][5] == 2
    latest = b"%d" % (rig.now_ms + EXPIRY_AHEAD_MS_MAX)
    assert run(rig, "AMEM.CONV.APPEND s user x AT", latest) == b"OK"


@pytest.mark.parametrize("at", [*NOT_INTEGERS, b"-1", b"%d" % (NOW + EXPIRY_AHEAD_MS_MAX + 1)])
def test_a_turn_without_a_proper_time_is_refused(rig: Rig, at: bytes) -> None:
    run(rig, "AMEM.CONV.CREATE s")
    refused(rig, "out of range", "AMEM.CONV.APPEND s user x AT", at)


def test_turns_are_maps_in_the_newer_protocol(rig: Rig) -> None:
    run(rig, "HELLO 3")
    talk(rig, "s", 1)
    assert run(rig, "AMEM.CONV.GET s") == [{b"role": b"user", b"content": b"t1"}]
    assert run(rig, "AMEM.CONV.INFO s")[b"expires_at"] == -1


# -- clear, drop, info ---------------------------------------------------------------------------


def test_clear_keeps_session_window_expiry_notes_and_numbering(rig: Rig) -> None:
    talk(rig, "s", 3, "WINDOW 4 TTL 60")
    run(rig, "AMEM.WORK.SET s k v")
    assert run(rig, "AMEM.CONV.CLEAR s") == 1
    assert run(rig, "AMEM.CONV.GET s") == []
    assert silent(rig, "AMEM.CONV.CLEAR s") == 1
    info = run(rig, "AMEM.CONV.INFO s")
    assert info[0::2] == [b"turns", b"window", b"seq", b"created", b"expires_at", b"bytes"]
    assert info[1::2] == [0, 4, 3, NOW, NOW + 60_000, 0]
    assert run(rig, "AMEM.WORK.GET s k") == b"v"
    run(rig, "AMEM.CONV.APPEND s user x")
    assert run(rig, "AMEM.CONV.GET s WITHMETA")[0][5] == 4
    survives(rig)


def test_drop_ends_the_notes_too_and_the_next_session_of_that_name_is_clean(rig: Rig) -> None:
    talk(rig, "s", 3, "WINDOW 4 TTL 60")
    run(rig, "AMEM.WORK.SET s k v")
    run(rig, "AMEM.WORK.SET s l w TTL 5")
    assert logged(rig, "AMEM.CONV.DROP s") == [(records.CONVERSATION_DROPPED, b"s")]
    assert silent(rig, "AMEM.CONV.DROP s") == 0
    assert len(rig.stores.wheel) == 0
    run(rig, "AMEM.CONV.CREATE s")
    assert run(rig, "AMEM.WORK.LIST s") == []
    assert run(rig, "AMEM.CONV.GET s") == []
    info = run(rig, "AMEM.CONV.INFO s")
    assert (info[3], info[5], info[9]) == (1000, 0, -1)
    survives(rig)


def test_what_is_done_to_one_session_is_never_done_to_another(rig: Rig) -> None:
    for name in ("s1", "s2", "s*", "s"):
        talk(rig, name, 2)
        run(rig, f"AMEM.WORK.SET {name} k v")
    for line in ("CONV.CLEAR s1", "CONV.DROP s*", "WORK.CLEAR s", "CONV.CLEAR nobody", "WORK.CLEAR nobody"):
        run(rig, f"AMEM.{line}")
    for _ in range(2):
        assert contents(run(rig, "AMEM.CONV.GET s2")) == [b"t1", b"t2"]
        assert run(rig, "AMEM.WORK.GET s2 k") == b"v"
        assert run(rig, "AMEM.CONV.GET s1") == []
        assert run(rig, "AMEM.WORK.GET s1 k") == b"v"
        assert contents(run(rig, "AMEM.CONV.GET s")) == [b"t1", b"t2"]
        assert run(rig, "AMEM.WORK.LIST s") == []
        assert sorted(scanned(rig, "AMEM.CONV.SCAN")) == [b"s", b"s1", b"s2"]
        rig.restart()


@pytest.mark.parametrize("command", ["CLEAR", "DROP", "GET", "INFO", "CREATE"])
def test_a_missing_or_empty_name_means_nothing_at_all(rig: Rig, command: str) -> None:
    talk(rig, "s", 2)
    refused(rig, "session must be 1 to 1024 bytes", f"AMEM.CONV.{command}", b"")
    refused(rig, "session must be 1 to 1024 bytes", f"AMEM.CONV.{command}", b"x" * 1025)
    refused(rig, "wrong number of arguments", f"AMEM.CONV.{command}")
    longest = b"x" * 1024
    assert run(rig, "AMEM.CONV.CREATE", longest) == b"OK"


# -- expiry --------------------------------------------------------------------------------------

BAD_TTL = [*NOT_INTEGERS, b"0", b"-5", b"%d" % (TTL_SECONDS_MAX + 1), b"%d" % INT64_MAX]
BAD_PXAT = [*NOT_INTEGERS, b"%d" % (NOW + EXPIRY_AHEAD_MS_MAX + 1), b"%d" % INT64_MAX]
BAD_EXPIRY = [*[(b"TTL", value) for value in BAD_TTL], *[(b"PXAT", value) for value in BAD_PXAT]]


@pytest.mark.parametrize(("word", "value"), BAD_EXPIRY)
def test_an_expiry_that_cannot_be_is_refused_and_the_old_one_stays(rig: Rig, word: bytes, value: bytes) -> None:
    refused(rig, word.decode(), "AMEM.CONV.CREATE s", word, value)
    assert scanned(rig, "AMEM.CONV.SCAN") == []
    talk(rig, "s", 1, "TTL 60")
    refused(rig, word.decode(), "AMEM.CONV.CREATE s WINDOW 3", word, value)
    refused(rig, word.decode(), "AMEM.CONV.EXPIRE s", word, value)
    assert run(rig, "AMEM.CONV.INFO s")[9] == NOW + 60_000


@pytest.mark.parametrize(
    "options", ["TTL 5 PXAT 9", "PXAT 9 TTL 5", "TTL 5 TTL 5", "PXAT 9 PXAT 9", "NX NX", "WINDOW 1 window 2"]
)
def test_options_exclude_each_other_and_themselves(rig: Rig, options: str) -> None:
    refused(rig, "syntax error", f"AMEM.CONV.CREATE s {options}")


def test_an_expiry_is_needed_by_the_command_that_sets_it(rig: Rig) -> None:
    talk(rig, "s", 1)
    refused(rig, "wrong number of arguments", "AMEM.CONV.EXPIRE")
    for options in ("", "TTL", "PXAT", "PERSIST PERSIST", "PERSIST TTL 5", "TTL 5 PERSIST", "NEVER", "TTL 5 x"):
        refused(rig, "syntax error", f"AMEM.CONV.EXPIRE s {options}")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("WINDOW", "'WINDOW' needs a value"),
        ("NX ttl", "'ttl' needs a value"),
        ("x", "unexpected 'x'"),
        ("WINDOW 5 WITHMETA", "unexpected 'WITHMETA'"),
    ],
)
def test_an_unknown_or_unfinished_option_is_named(rig: Rig, options: str, reason: str) -> None:
    refused(rig, f"syntax error: {reason}", f"AMEM.CONV.CREATE s {options}")


def test_options_come_in_any_order_and_case(rig: Rig) -> None:
    assert run(rig, "amem.conv.create s tTl 60 nx Window 3") == b"OK"
    info = run(rig, "AMEM.CONV.INFO s")
    assert (info[3], info[9]) == (3, NOW + 60_000)


def test_the_largest_expiry_is_taken_and_never_wraps(rig: Rig) -> None:
    assert run(rig, f"AMEM.CONV.CREATE s TTL {TTL_SECONDS_MAX}") == b"OK"
    assert run(rig, f"AMEM.CONV.CREATE t PXAT {NOW + EXPIRY_AHEAD_MS_MAX}") == b"OK"
    rig.now_ms += EXPIRY_AHEAD_MS_MAX - 1
    assert sorted(scanned(rig, "AMEM.CONV.SCAN")) == [b"s", b"t"]
    rig.now_ms += 1
    assert scanned(rig, "AMEM.CONV.SCAN") == []


@pytest.mark.parametrize("past", [0, 1, -5, -(2**63), NOW - 1, NOW])
def test_an_end_in_the_past_is_taken_and_has_passed(rig: Rig, past: int) -> None:
    assert run(rig, f"AMEM.CONV.CREATE s PXAT {past}") == b"OK"
    talk(rig, "t", 2)
    run(rig, "AMEM.WORK.SET t k v")
    assert run(rig, f"AMEM.CONV.CREATE t PXAT {past}") == b"OK"
    talk(rig, "u", 2)
    assert run(rig, f"AMEM.CONV.EXPIRE u PXAT {past}") == 1
    for _ in range(2):
        for session in ("s", "t", "u"):
            refused(rig, "session not found", f"AMEM.CONV.APPEND {session} user x")
            assert silent(rig, f"AMEM.CONV.GET {session}") == []
        assert silent(rig, "AMEM.WORK.GET t k") is None
        assert scanned(rig, "AMEM.CONV.SCAN") == []
        survives(rig)
        rig.restart()
    rig.now_ms += 2000
    rig.engine.expire(rig.now_ms, 100)
    assert rig.stores.digest(0) == Rig(start_ms=NOW).stores.digest(0)
    assert len(rig.stores.wheel) == 0
    survives(rig)


def test_a_session_is_hidden_from_the_very_millisecond_before_the_wheel_ran(rig: Rig) -> None:
    talk(rig, "s", 2, "TTL 10")
    run(rig, "AMEM.WORK.SET s k v")
    rig.now_ms += 9999
    assert len(run(rig, "AMEM.CONV.GET s")) == 2
    rig.now_ms += 1
    assert silent(rig, "AMEM.CONV.GET s") == []
    assert silent(rig, "AMEM.CONV.WINDOW s 5") == []
    assert silent(rig, "AMEM.WORK.GET s k") is None
    assert silent(rig, "AMEM.WORK.LIST s") == []
    assert silent(rig, "AMEM.WORK.GETALL s") == []
    assert silent(rig, "AMEM.WORK.TTL s k") == -2
    assert silent(rig, "AMEM.CONV.SCAN 0") == [b"0", []]
    refused(rig, "session not found", "AMEM.CONV.INFO s")
    refused(rig, "session not found", "AMEM.CONV.APPEND s user x")
    refused(rig, "session not found", "AMEM.WORK.SET s k v")
    assert b"s" in rig.stores.conv.sessions, "reads and refusals remove nothing"


@pytest.mark.parametrize(
    ("line", "reply", "behind"),
    [
        ("AMEM.CONV.CREATE s", b"OK", [(records.CONVERSATION_SET, b"s", 1000, 0, NOW + 10_000, 0)]),
        ("AMEM.CONV.CREATE s NX", b"OK", [(records.CONVERSATION_SET, b"s", 1000, 0, NOW + 10_000, 0)]),
        ("AMEM.CONV.CLEAR s", 0, []),
        ("AMEM.CONV.DROP s", 0, []),
        ("AMEM.CONV.EXPIRE s PERSIST", 0, []),
        ("AMEM.WORK.DEL s k", 0, []),
        ("AMEM.WORK.CLEAR s", 0, []),
    ],
)
def test_a_write_that_meets_a_dead_session_drops_it_first(rig: Rig, line: str, reply: Any, behind: list[Any]) -> None:
    talk(rig, "s", 2, "TTL 10 WINDOW 5")
    run(rig, "AMEM.WORK.SET s k v")
    rig.now_ms += 10_000
    assert run(rig, line) == reply
    assert records_of(rig.log.frames[-1]) == [(records.CONVERSATION_DROPPED, b"s"), *behind]
    assert run(rig, "AMEM.CONV.GET s") == []
    assert run(rig, "AMEM.WORK.LIST s") == []
    survives(rig)


def test_the_wheel_removes_as_records_and_notes_go_with_their_session(rig: Rig) -> None:
    talk(rig, "s", 2, "TTL 10")
    talk(rig, "stays", 2, "TTL 100")
    run(rig, "AMEM.WORK.SET s k v TTL 10")
    run(rig, "AMEM.WORK.SET s l v")
    frames = len(rig.log.frames)
    rig.engine.expire(rig.now_ms + 9000, 100)
    assert len(rig.log.frames) == frames
    rig.now_ms += 12_000
    rig.engine.expire(rig.now_ms, 100)
    assert len(rig.log.frames) == frames + 1
    assert list(rig.stores.conv.sessions) == [b"stays"]
    assert rig.stores.work.sessions == {}
    assert len(rig.stores.wheel) == 1
    survives(rig)


def test_persist_and_a_later_end_hold_off_the_wheel(rig: Rig) -> None:
    for session in ("s", "t", "u"):
        talk(rig, session, 1, "TTL 10")
    assert run(rig, "AMEM.CONV.EXPIRE s PERSIST") == 1
    assert silent(rig, "AMEM.CONV.EXPIRE s PERSIST") == 1
    assert run(rig, "AMEM.CONV.CREATE t TTL 60") == b"OK"
    rig.now_ms += 20_000
    rig.engine.expire(rig.now_ms, 100)
    assert sorted(scanned(rig, "AMEM.CONV.SCAN")) == [b"s", b"t"]
    assert run(rig, "AMEM.CONV.INFO s")[9] == -1
    survives(rig)


def test_what_ended_while_the_server_was_down_is_not_back(rig: Rig) -> None:
    talk(rig, "s", 2, "TTL 10")
    rig.now_ms += 3_600_000
    rig.restart()
    assert run(rig, "AMEM.CONV.GET s") == []
    run(rig, "AMEM.CONV.CREATE s")
    assert run(rig, "AMEM.CONV.GET s") == []
    survives(rig)


# -- scan ----------------------------------------------------------------------------------------


def test_a_scan_gives_each_live_session_once_and_no_page_more_than_count(rig: Rig) -> None:
    for number in range(300):
        run(rig, f"AMEM.CONV.CREATE s{number} {'TTL 10' if number % 2 else ''}")
    rig.now_ms += 10_000
    cursor, seen = b"0", []
    while True:
        cursor, page = run(rig, "AMEM.CONV.SCAN", cursor, b"COUNT", b"7")
        assert len(page) <= 7
        seen += page
        if cursor == b"0":
            break
    assert sorted(seen) == sorted(b"s%d" % number for number in range(0, 300, 2))


def test_dropping_what_a_scan_returns_leaves_nothing_behind(rig: Rig) -> None:
    for number in range(300):
        run(rig, f"AMEM.CONV.CREATE s{number}")
    cursor = b"0"
    while True:
        cursor, page = run(rig, "AMEM.CONV.SCAN", cursor)
        for name in page:
            run(rig, "AMEM.CONV.DROP", name)
        if cursor == b"0":
            break
    assert len(rig.stores.conv.names) == 0


def test_a_scan_that_meets_new_sessions_still_gives_the_old_ones_once(rig: Rig) -> None:
    for number in range(200):
        run(rig, f"AMEM.CONV.CREATE old{number}")
    cursor, seen, made = b"0", [], 0
    while True:
        cursor, page = run(rig, "AMEM.CONV.SCAN", cursor)
        seen += page
        for _ in range(20):
            made += 1
            run(rig, f"AMEM.CONV.CREATE new{made}")
        if cursor == b"0" or made > 4000:
            break
    assert cursor == b"0"
    assert sorted(name for name in seen if name.startswith(b"old")) == sorted(b"old%d" % n for n in range(200))


def test_a_scan_filters_by_pattern_over_bytes(rig: Rig) -> None:
    for name in (b"a\x00b", b"ab", b"b\xff"):
        run(rig, "AMEM.CONV.CREATE", name)
    assert scanned(rig, "AMEM.CONV.SCAN", b"MATCH", b"a?b") == [b"a\x00b"]
    assert scanned(rig, "AMEM.CONV.SCAN", b"MATCH", b"nothing*") == []


@pytest.mark.parametrize("cursor", [b"", b"-1", b"abc", b"1.0", b"+1", b" 1", b"18446744073709551616"])
def test_a_cursor_that_none_gave_is_refused(rig: Rig, cursor: bytes) -> None:
    refused(rig, "invalid cursor", "AMEM.CONV.SCAN", cursor)


def test_a_page_without_room_is_refused(rig: Rig) -> None:
    for count in (b"0", b"-1", b"x", b""):
        refused(rig, "out of range", "AMEM.CONV.SCAN 0 COUNT", count)
    assert silent(rig, f"AMEM.CONV.SCAN 999999999999 COUNT {INT64_MAX}")[0] == b"0"
