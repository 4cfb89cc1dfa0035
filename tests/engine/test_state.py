"""The server's state: connections, counters, the hot path's cost in memory, rates, settings that take effect."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amemdb.commands.table import COMMANDS
from amemdb.config import Config
from amemdb.engine.memory import CLIENT_BYTES, ROUND_TICKS
from amemdb.engine.slowlog import ARG_BYTES_KEPT, ARGS_KEPT, SlowLog, kept
from amemdb.engine.state import SAMPLES_MAX, ServerState
from amemdb.errors import CommandError
from amemdb.stores.stores import Stores

NOW_MS = 1_700_000_000_000
SECOND_NS = 1_000_000_000


class Clock:
    now_ns = 7 * SECOND_NS

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> ServerState:
    return ServerState(Config(), clock, Random(1))


def lines(state: ServerState, section: str) -> dict[str, str]:
    text = state.info([section], Stores(), NOW_MS)
    return dict(line.split(":", 1) for line in text.split("\r\n")[1:] if line)


# -- connections -------------------------------------------------------------------------------------


def test_sessions_come_and_go(state: ServerState, clock: Clock) -> None:
    clock.now_ns += 5
    first = state.open_session("a:1", "b:2")
    second = state.open_session()
    assert list(state.sessions) == [first.id, second.id]
    assert (first.created_at_ns, first.last_active_ns) == (clock.now_ns, clock.now_ns)
    assert (first.address, first.local_address, first.authenticated) == ("a:1", "b:2", True)
    state.close_session(first)
    state.close_session(first)
    assert list(state.sessions) == [second.id]
    assert state.connections_received == 2


def test_a_kill_is_flagged_before_the_server_hears_of_it(state: ServerState) -> None:
    session = state.open_session()
    heard: list[bool] = []
    state.on_kill = lambda killed: heard.append(killed is session and killed.kill)
    state.kill(session)
    assert heard == [True]


def test_a_server_without_hooks_takes_every_call(state: ServerState) -> None:
    session = state.open_session()
    state.kill(session)
    state.request_shutdown()
    state.sleep(1.0)
    state.require_room(1 << 40)
    state.tick()
    assert state.shutdown_requested


def test_room_is_asked_of_the_engine(state: ServerState) -> None:
    asked: list[int] = []
    state.require_log_room = asked.append
    state.require_room(123)
    assert asked == [123]


# -- logins ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "password", "accepted"),
    [
        (b"default", b"secret", True),
        (b"default", b"secre", False),
        (b"default", b"secret\x00", False),
        (b"default", b"", False),
        (b"admin", b"secret", False),
        (b"", b"secret", False),
    ],
)
def test_passwords(clock: Clock, user: bytes, password: bytes, accepted: bool) -> None:
    state = ServerState(Config({"requirepass": "secret"}), clock, Random(1))
    assert state.check_password(user, password) is accepted
    assert state.logins_failed == (not accepted)
    assert not state.open_session().authenticated


# -- counting ----------------------------------------------------------------------------------------


def test_calls_failures_and_rejections_are_told_apart(state: ServerState) -> None:
    session = state.open_session()
    for _ in range(3):
        state.count_call(COMMANDS["CONFIG|GET"], [b"CONFIG", b"GET", b"x"], session, 2_000, NOW_MS)
    state.count_failure("CONFIG|GET", "ERR", True)
    state.count_failure("CONFIG|GET", "NOAUTH", False)
    state.count_failure(None, "ERR", False)
    assert state.calls() == {"CONFIG|GET": (4, 6_000, 1, 1)}
    assert state.calls_total() == 4
    assert state.errors == {"ERR": 2, "NOAUTH": 1}
    assert session.last_command == "CONFIG|GET"


def test_what_is_told_of_calls_cannot_be_used_to_change_them(state: ServerState) -> None:
    session = state.open_session()
    state.count_call(COMMANDS["PING"], [b"PING"], session, 1, NOW_MS)
    told = state.calls()
    state.count_call(COMMANDS["PING"], [b"PING"], session, 1, NOW_MS)
    assert told == {"PING": (1, 1, 0, 0)}


def test_a_reset_forgets_counters_and_keeps_gauges(state: ServerState) -> None:
    state.open_session()
    for name in (
        "connections_rejected", "output_limit_cuts", "stall_cuts", "idle_timeouts", "protocol_errors",
        "logins_failed", "expired", "loop_lag_ns_max",
    ):  # fmt: skip
        setattr(state, name, 5)
    state.traffic.input_bytes = state.traffic.output_bytes = 5
    state.loop_lag_ns = 3_000
    state.count_failure("GET", "ERR", True)
    state.reset_statistics()
    told = lines(state, "stats")
    assert {name for name, value in told.items() if value not in ("0", "0.00")} == {"event_loop_lag_usec"}
    assert state.calls() == {}
    assert len(state.sessions) == 1


def test_every_counter_of_the_server_is_told(state: ServerState) -> None:
    for value, name in enumerate(
        ("connections_received", "connections_rejected", "output_limit_cuts", "stall_cuts", "idle_timeouts",
         "protocol_errors", "input_bytes", "output_bytes", "logins_failed", "expired"), 1001,
    ):  # fmt: skip
        setattr(state.traffic if hasattr(state.traffic, name) else state, name, value)
    state.loop_lag_ns_max = 1_011_999
    assert {str(value) for value in range(1001, 1012)} <= set(lines(state, "stats").values())


# -- rates -------------------------------------------------------------------------------------------


def test_rates_are_of_the_last_ticks(state: ServerState, clock: Clock) -> None:
    session = state.open_session()

    def second_of(calls: int, bytes_in: int) -> None:
        for _ in range(calls):
            state.count_call(COMMANDS["PING"], [b"PING"], session, 1, NOW_MS)
        state.traffic.input_bytes += bytes_in
        clock.now_ns += SECOND_NS
        state.tick()

    assert state.rates() == (0, 0, 0)
    state.tick()
    assert state.rates() == (0, 0, 0)
    second_of(200, 2048)
    assert state.rates() == (200, 2048, 0)
    assert lines(state, "stats")["instantaneous_ops_per_sec"] == "200"
    assert lines(state, "stats")["instantaneous_input_kbps"] == "2.00"
    for _ in range(SAMPLES_MAX):
        second_of(0, 0)
    assert state.rates() == (0, 0, 0)


def test_ticks_at_one_moment_divide_by_nothing(state: ServerState) -> None:
    state.tick()
    state.traffic.input_bytes = 10
    state.tick()
    assert state.rates().input_bytes > 0


def test_a_reset_between_ticks_makes_no_negative_rate(state: ServerState, clock: Clock) -> None:
    session = state.open_session()
    state.count_call(COMMANDS["PING"], [b"PING"], session, 1, NOW_MS)
    state.tick()
    state.reset_statistics()
    clock.now_ns += SECOND_NS
    state.tick()
    assert state.rates() == (0, 0, 0)


def test_the_peak_is_seen_by_ticks(state: ServerState) -> None:
    for used in (10, 50, 20):
        state.memory.log_bytes = lambda used=used: used << 20  # type: ignore[misc]
        state.tick()
    peak, now = (int(lines(state, "memory")[name]) for name in ("used_memory_peak", "used_memory"))
    assert peak - now == 30 << 20


def test_buffers_of_connections_count(state: ServerState) -> None:
    sessions = [state.open_session() for _ in range(25)]
    assert int(lines(state, "memory")["mem_clients_normal"]) == 25 * CLIENT_BYTES
    for session in sessions:
        session.query_bytes, session.output_bytes, session.queue_bytes = 1000, 100, 10
    for _ in range(2 * ROUND_TICKS + 2):
        state.tick()
    assert state.memory.clients_bytes == 25 * (CLIENT_BYTES + 1110)
    for session in sessions:
        state.close_session(session)
    assert lines(state, "memory")["mem_clients_normal"] == "0"


# -- settings ----------------------------------------------------------------------------------------


def test_settings_of_the_hot_path_follow_config_set(state: ServerState) -> None:
    session = state.open_session()

    def call(spent_us: int) -> int:
        state.count_call(COMMANDS["PING"], [b"PING"], session, spent_us * 1000, NOW_MS)
        return state.slowlog_len()

    assert call(9_999) == 0
    assert call(10_000) == 1
    state.config_set([("slowlog-log-slower-than", "-1")])
    assert call(10**12) == 1
    state.config_set([("slowlog-log-slower-than", "0"), ("slowlog-max-len", "2")])
    assert [call(0), call(0), call(0)] == [2, 2, 2]
    state.config_set([("slowlog-max-len", "1")])
    assert state.slowlog_len() == 1


def test_a_refused_change_leaves_the_hot_path_alone(state: ServerState) -> None:
    with pytest.raises(CommandError):
        state.config_set([("slowlog-log-slower-than", "0"), ("slowlog-max-len", "-7")])
    state.count_call(COMMANDS["PING"], [b"PING"], state.open_session(), 0, NOW_MS)
    assert state.slowlog() == []


def test_settings_are_told_as_text(state: ServerState) -> None:
    assert state.config_get("conv-window") == "1000"
    assert set(state.config_names()) == set(Config().names())


# -- the slow log ------------------------------------------------------------------------------------


def test_what_is_kept_of_a_command_is_bounded() -> None:
    argv = [b"x" * 10_000] * 10_000
    assert len(b"".join(kept(argv))) < ARGS_KEPT * (ARG_BYTES_KEPT + 40)
    assert kept([b"a"] * ARGS_KEPT) == [b"a"] * ARGS_KEPT
    assert kept([b"a"] * (ARGS_KEPT + 1)) == [*[b"a"] * (ARGS_KEPT - 1), b"... (2 more arguments)"]
    assert kept([b"y" * ARG_BYTES_KEPT]) == [b"y" * ARG_BYTES_KEPT]


def test_a_secret_beyond_the_cut_is_redacted_all_the_same(state: ServerState) -> None:
    log = SlowLog()
    log.limit(1)
    argv: list[Any] = [b"CONFIG", b"SET", *[b"conv-window", b"hunter2"] * 100]
    log.add(COMMANDS["CONFIG|SET"], argv, state.open_session(), 1, NOW_MS)
    assert b"hunter2" not in b"".join(log.newest(1)[0][3])
