"""Server commands: INFO, CONFIG, SLOWLOG, TIME, DEBUG, SHUTDOWN."""

from __future__ import annotations

from typing import Any

import pytest

from amemdb import config
from amemdb.engine.answers import Pending
from amemdb.engine.info import REDIS_VERSION, SECTIONS, human
from amemdb.limits import CONFIG_PATTERNS_BYTES_MAX, CONFIG_PATTERNS_MAX, INFO_SECTIONS_MAX
from tests.commands.wire import NOW_MS, Error, Peer, Status, Text, Wire


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def peer(wire: Wire) -> Peer:
    return wire.connect()


def sections_of(text: str) -> dict[str, dict[str, str]]:
    """The lines of INFO by section; fails on a line that is not of its form."""
    found: dict[str, dict[str, str]] = {}
    for block in text.removesuffix("\r\n").split("\r\n\r\n"):
        title, *lines = block.split("\r\n")
        assert title.startswith("# ")
        found[title[2:].lower()] = dict(line.split(":", 1) for line in lines if line)
    return found


def info(peer: Peer, *sections: str) -> dict[str, dict[str, str]]:
    reply = peer("INFO", *sections)
    return sections_of(reply if isinstance(reply, str) else reply.decode())


# -- INFO --------------------------------------------------------------------------------------------


def test_info_is_text_in_resp3_and_a_string_in_resp2(wire: Wire) -> None:
    told = wire.connect(resp3=True)("INFO", "server")
    assert isinstance(told, Text)
    assert told.startswith("# Server\r\nredis_version:")
    assert wire.connect()("INFO", "cluster") == b"# Cluster\r\ncluster_enabled:0\r\n"


def test_the_sections_that_are_told(peer: Peer) -> None:
    assert set(info(peer)) == set(SECTIONS) - {"commandstats"}
    assert set(info(peer, "default")) == set(SECTIONS) - {"commandstats"}
    assert set(info(peer, "all")) == set(info(peer, "EVERYTHING")) == set(SECTIONS)
    assert list(info(peer, "Stats", "clients", "stats")) == ["clients", "stats"]
    assert peer("INFO", "no-such-section") == b""
    assert peer("INFO", b"\xff\x00") == b""
    for name in ("conversation", "semantic", "working", "episodic", "summary"):
        assert list(info(peer, name)) == [name]


def test_the_server_section_names_both_versions_and_what_the_process_knows(wire: Wire, peer: Peer) -> None:
    wire.state.facts["process_id"] = "4711"
    wire.mono_ns += (3 * 86_400 + 5) * 1_000_000_000
    told = info(peer)["server"]
    assert told["redis_version"] == REDIS_VERSION
    assert [int(part) for part in told["redis_version"].split(".")] >= [7, 4, 0]
    assert told["run_id"] == "ab" * 20
    assert told["process_id"] == "4711"
    assert (told["uptime_in_seconds"], told["uptime_in_days"]) == (str(3 * 86_400 + 5), "3")
    assert told["server_time_usec"] == str(NOW_MS * 1000)


def test_a_wall_clock_that_jumps_moves_no_uptime(wire: Wire, peer: Peer) -> None:
    wire.now_ms -= 3_600_000
    assert info(peer)["server"]["uptime_in_seconds"] == "0"
    wire.now_ms += 366 * 86_400_000
    assert info(peer)["server"]["uptime_in_seconds"] == "0"


def test_memory_is_what_the_server_measures(wire: Wire, peer: Peer) -> None:
    memory = wire.state.memory
    before = int(info(peer)["memory"]["used_memory"])
    memory.startup_bytes, memory.log_bytes, memory.resident_bytes = 3 << 20, lambda: 1 << 20, lambda: 6 << 20
    told = info(peer)["memory"]
    assert told["used_memory"] == str(before + (4 << 20))
    assert told["used_memory_rss_human"] == "6.00M"
    assert 1 < float(told["mem_fragmentation_ratio"]) < 1.6
    assert (told["used_memory_startup"], told["mem_aof_buffer"]) == (str(3 << 20), str(1 << 20))
    memory.log_bytes = lambda: 0
    again = info(peer)["memory"]
    assert (again["used_memory"], again["used_memory_peak"]) == (str(before + (3 << 20)), told["used_memory"])
    assert int(again["used_memory"]) == int(again["used_memory_overhead"]) + int(again["used_memory_dataset"])


def test_sizes_for_people() -> None:
    assert [human(n) for n in (0, 1023, 1024, 1536 * 1024, 1 << 62)] == ["0B", "1023B", "1.00K", "1.50M", "4096.00P"]


def test_keyspace_and_stores_are_counted(peer: Peer) -> None:
    peer("SET", "a", "1")
    peer("SET", "b", "1", "EX", "100")
    peer("SELECT", 3)
    peer("SET", "c", "1")
    peer("AMEM.CONV.CREATE", "s")
    peer("AMEM.CONV.APPEND", "s", "user", "hello")
    peer("AMEM.CONV.APPEND", "s", "user", "again")
    peer("AMEM.WORK.SET", "s", "k", "v")
    peer("AMEM.SEM.CREATE", "a", 2)
    peer("AMEM.SEM.STORE", "a", "f", "text", 1, 0)
    peer("AMEM.EPIS.LOG", "a", "t", "e")
    peer("AMEM.SUMMARY.SET", "a", "text")
    cheap = info(peer)
    assert cheap["keyspace"] == {"db0": "keys=2,expires=1,avg_ttl=0", "db3": "keys=1,expires=0,avg_ttl=0"}
    assert cheap["conversation"] == {"conversation_sessions": "1"}, "no walk over all objects unless asked for"
    told = info(peer, "everything")
    assert told["conversation"] == {"conversation_sessions": "1", "conversation_turns": "2"}
    assert told["semantic"] == {
        "semantic_namespaces": "1",
        "semantic_facts": "1",
        "semantic_graphs_merging": "0",
        "semantic_facts_merged": "0",
        "semantic_facts_merging": "0",
    }
    assert told["working"] == {"working_sessions": "1", "working_notes": "1"}
    assert told["episodic"] == {"episodic_agents": "1", "episodic_events": "1"}
    assert told["summary"] == {"summary_agents": "1", "summary_versions": "1"}
    assert info(peer, "working")["working"]["working_notes"] == "1"


def test_persistence_tells_of_the_log(wire: Wire, peer: Peer) -> None:
    class Status:
        policy, offset, durable_offset, segments, error = "always", 900, 700, 2, ""
        base_bytes, base_offset, disk_bytes = 50, 300, 4096
        syncs, sync_failures, last_sync_ms, longest_sync_ms = 7, 1, 0.5, 12.25

    status = Status()
    wire.state.log_status = lambda: status
    told = info(peer)["persistence"]
    assert told["aof_last_write_status"] == "ok"
    assert (told["log_offset"], told["log_durable_offset"], told["log_undurable_bytes"]) == ("900", "700", "200")
    assert (told["aof_base_size"], told["aof_current_size"]) == ("50", "650")
    assert (told["log_syncs"], told["log_sync_failures"]) == ("7", "1")
    assert (told["log_sync_usec"], told["log_sync_usec_max"]) == ("500", "12250")
    status.error = "No space left on device\r\nrole:slave"
    told = info(peer)["persistence"]
    assert told["aof_last_write_status"] == "err"
    assert told["log_error"] == "No space left on device role:slave"
    assert info(peer)["replication"]["role"] == "master"
    assert info(peer)["replication"]["master_repl_offset"] == "900"


def test_command_statistics(wire: Wire, peer: Peer) -> None:
    wire.work_ns = 250_000
    for words in (("GET", "k"), ("GET", "k"), ("GET",), ("CONFIG", "GET", "x"), ("INCRBY", "k", "x")):
        peer(*words)
    told = info(peer, "commandstats")["commandstats"]
    assert told["cmdstat_get"] == "calls=2,usec=500,usec_per_call=250.00,rejected_calls=1,failed_calls=0"
    assert told["cmdstat_config|get"].startswith("calls=1,")
    assert told["cmdstat_incrby"] == "calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1"


def test_errors_are_counted_by_code(wire: Wire, peer: Peer) -> None:
    for words in (("NO-SUCH",), ("GET",), ("AUTH", "d", "x"), ("EXEC",)):
        peer(*words)
    told = info(peer)
    assert told["errorstats"] == {"errorstat_ERR": "count=3", "errorstat_WRONGPASS": "count=1"}
    assert told["stats"]["total_error_replies"] == "4"
    assert told["stats"]["acl_access_denied_auth"] == "1"


def test_resetstat_begins_again(wire: Wire, peer: Peer) -> None:
    peer("GET", "k")
    peer("NO-SUCH")
    wire.state.expired = 5
    assert peer("CONFIG", "RESETSTAT") == "OK"
    told = info(peer, "all")
    assert list(told["commandstats"]) == ["cmdstat_config|resetstat"]
    assert told["errorstats"] == {}
    assert (told["stats"]["expired_keys"], told["stats"]["total_connections_received"]) == ("0", "0")
    assert told["clients"]["connected_clients"] == "1", "a gauge is no counter"


def test_watches_are_counted(wire: Wire, peer: Peer) -> None:
    other = wire.connect()
    peer("WATCH", "a", "b")
    other("WATCH", "b")
    told = info(peer)["clients"]
    assert (told["watching_clients"], told["total_watched_keys"]) == ("2", "2")


def test_info_answers_while_the_log_refuses(wire: Wire, peer: Peer) -> None:
    wire.log.refusal = "disk full"
    assert peer("SET", "k", "v").startswith("MISCONF")
    assert info(peer)["errorstats"] == {"errorstat_MISCONF": "count=1"}


# -- TIME --------------------------------------------------------------------------------------------


def test_time_is_seconds_and_microseconds(wire: Wire, peer: Peer) -> None:
    wire.now_ms = 1_700_000_000_007
    assert peer("TIME") == [b"1700000000", b"7000"]


# -- CONFIG ------------------------------------------------------------------------------------------


def test_config_get_is_a_map_of_what_fits(wire: Wire, peer: Peer) -> None:
    assert wire.connect(resp3=True)("CONFIG", "GET", "save") == {b"save": b""}
    assert peer("CONFIG", "GET", "APPEND*", "appendonly", "maxclients") == [
        b"appendfsync", b"everysec", b"maxclients", b"10000", b"appendonly", b"yes",
    ]  # fmt: skip
    assert peer("CONFIG", "GET", "no-such") == []
    assert len(peer("CONFIG", "GET", "*")) == 2 * len(wire.config.names())
    assert isinstance(peer("CONFIG", "GET"), Error)


def test_what_one_request_may_ask_for_is_bounded(peer: Peer) -> None:
    assert isinstance(peer("INFO", *["server"] * INFO_SECTIONS_MAX), bytes)
    assert "too many sections: at most 64" in str(peer("INFO", *["server"] * (INFO_SECTIONS_MAX + 1)))
    assert peer("CONFIG", "GET", *["save"] * CONFIG_PATTERNS_MAX) == [b"save", b""]
    assert "too many patterns: at most 64" in str(peer("CONFIG", "GET", *["save"] * (CONFIG_PATTERNS_MAX + 1)))
    widest = "*" * (CONFIG_PATTERNS_BYTES_MAX - 4)
    assert len(peer("CONFIG", "GET", "save", widest)) == 2 * len(config.SETTINGS)
    assert "too many patterns" in str(peer("CONFIG", "GET", "save", widest + "*"))


def test_what_redis_benchmark_asks_for(peer: Peer) -> None:
    assert peer("CONFIG", "GET", "save") == [b"save", b""]
    assert peer("CONFIG", "GET", "appendonly") == [b"appendonly", b"yes"]


def test_config_set_takes_effect_at_once(peer: Peer) -> None:
    assert peer("CONFIG", "SET", "conv-window", "2", "SLOWLOG-MAX-LEN", "7") == "OK"
    assert peer("CONFIG", "GET", "conv-window", "slowlog-max-len") == [
        b"conv-window", b"2", b"slowlog-max-len", b"7",
    ]  # fmt: skip
    peer("AMEM.CONV.CREATE", "s")
    assert peer("AMEM.CONV.INFO", "s")[3] == 2


@pytest.mark.parametrize(
    "changes",
    [
        ("conv-window", "5", "no-such", "1"),
        ("conv-window", "5", "port", "1"),
        ("conv-window", "5", "slowlog-max-len", "many"),
        ("conv-window", "5", "slowlog-max-len", "-1"),
        ("conv-window", "5", "conv-window", "6"),
        ("conv-window", "5", "slowlog-max-len"),
    ],
)
def test_a_change_that_fails_changes_nothing(peer: Peer, changes: tuple[str, ...]) -> None:
    before = peer("CONFIG", "GET", "*")
    refusal = peer("CONFIG", "SET", *changes)
    assert isinstance(refusal, Error)
    assert changes[2] in refusal or "wrong number of arguments for 'config|set'" in refusal
    assert peer("CONFIG", "GET", "*") == before


def test_a_secret_setting_does_not_show_in_errors(peer: Peer) -> None:
    assert b"hunter2" not in peer.raw("CONFIG", "SET", "requirepass", "hunter2\x00")
    assert b"hunter2" not in peer.raw("CONFIG", "SET", "requirepass", "hunter2", "no-such", "hunter2")


def test_rewrite_needs_a_file(peer: Peer) -> None:
    assert peer("CONFIG", "REWRITE") == "ERR The server is running without a config file"


def test_rewrite_is_done_beside_the_loop_and_tells_a_failure() -> None:
    wire = Wire()
    peer = wire.connect()
    results = [None, "No space left on device"]
    wire.state.config_rewrite = lambda: results.pop(0)
    for expected in ("+OK\r\n", "-ERR Rewriting config file: No space left on device\r\n"):
        pending = wire.engine.execute(peer.session, [b"CONFIG", b"rewrite"], wire.now_ms)
        assert isinstance(pending, Pending)
        assert wire.engine.resume(pending, pending.work(), wire.now_ms) == expected.encode()
    wire.state.config_rewrite = lambda: None
    peer("MULTI")
    peer("CONFIG", "REWRITE")
    assert peer("EXEC") == ["OK"]


def test_what_comes_later_is_an_unknown_command(peer: Peer) -> None:
    assert peer("MONITOR") == "ERR unknown command 'MONITOR', with args beginning with: "


# -- SLOWLOG -----------------------------------------------------------------------------------------


@pytest.fixture
def slow() -> Wire:
    """Every command enters the log."""
    return Wire(slowlog_log_slower_than=0)


def test_an_entry_tells_when_what_and_who(slow: Wire) -> None:
    slow.work_ns = 12_345_000
    peer = slow.connect("10.1.2.3:77")
    peer("CLIENT", "SETNAME", "worker")
    peer("SET", b"k\xff", "v")
    assert peer("SLOWLOG", "GET", 1) == [
        [1, NOW_MS // 1000, 12_345, [b"SET", b"k\xff", b"v"], b"10.1.2.3:77", b"worker"]
    ]


def test_newest_first_as_many_as_asked(slow: Wire) -> None:
    peer = slow.connect()
    for n in range(20):
        peer("ECHO", n)
    assert [entry[0] for entry in peer("SLOWLOG", "GET")] == list(range(19, 9, -1))
    assert len(peer("SLOWLOG", "GET", -1)) == 21
    assert peer("SLOWLOG", "GET", 0) == []
    assert len(peer("SLOWLOG", "GET", 9_223_372_036_854_775_807)) == 23
    for count in ("-2", "x", "1.5"):
        assert isinstance(peer("SLOWLOG", "GET", count), Error)
    assert isinstance(peer("SLOWLOG", "GET", 1, 2), Error)


def test_the_log_is_bounded_and_can_be_emptied(slow: Wire) -> None:
    peer = slow.connect()
    peer("CONFIG", "SET", "slowlog-max-len", "3")
    for n in range(10):
        peer("ECHO", n)
    assert peer("SLOWLOG", "LEN") == 3
    assert peer("SLOWLOG", "RESET") == "OK"
    assert peer("SLOWLOG", "LEN") == 1, "the reset itself"
    last_id = peer("SLOWLOG", "GET")[0][0]
    assert last_id == 13, "ids are never used again"
    peer("CONFIG", "SET", "slowlog-max-len", "0")
    assert peer("SLOWLOG", "GET") == []


def test_the_threshold_is_in_microseconds_and_can_be_off() -> None:
    wire = Wire(slowlog_log_slower_than=1000)
    peer = wire.connect()
    for work_ns in (999_999, 1_000_000, 1_000_001):
        wire.work_ns = work_ns
        peer("ECHO", work_ns)
    wire.work_ns = 0
    assert [entry[3][1] for entry in peer("SLOWLOG", "GET")] == [b"1000001", b"1000000"]
    peer("CONFIG", "SET", "slowlog-log-slower-than", "-1")
    wire.work_ns = 10**15
    peer("ECHO", "never")
    assert peer("SLOWLOG", "LEN") == 2


def test_long_commands_are_cut(slow: Wire) -> None:
    peer = slow.connect()
    peer("MGET", *(f"k{n}" for n in range(1000)))
    peer("SET", "k", b"x" * 1000)
    long_value, many = peer("SLOWLOG", "GET", 2)
    assert long_value[3] == [b"SET", b"k", b"x" * 128 + b"... (872 more bytes)"]
    assert len(many[3]) == 32
    assert many[3][30:] == [b"k29", b"... (970 more arguments)"]


def test_secrets_never_enter_the_log(slow: Wire) -> None:
    peer = slow.connect()
    assert peer("CONFIG", "SET", "requirepass", "hunter2", "conv-window", "9") == "OK"
    for words in (
        ("AUTH", "hunter2"),
        ("AUTH", "default", "hunter2"),
        ("HELLO", "2", "SETNAME", "n", "AUTH", "default", "hunter2"),
        ("MULTI",),
        ("AUTH", "default", "hunter2"),
        ("EXEC",),
    ):
        assert not isinstance(peer(*words), Error)
    entries = [entry[3] for entry in peer("SLOWLOG", "GET", -1)]
    assert [b"AUTH", b"(redacted)"] in entries
    assert [b"CONFIG", b"SET", b"requirepass", b"(redacted)", b"conv-window", b"(redacted)"] in entries
    assert not [entry for entry in entries if b"hunter2" in b" ".join(entry)]


# -- DEBUG -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("DIGEST",), ("SLEEP", "0"), ("HELP",)])
def test_debug_needs_its_setting(peer: Peer, words: tuple[str, ...]) -> None:
    assert peer("DEBUG", *words).startswith("ERR DEBUG command not allowed.")
    assert peer("CONFIG", "SET", "enable-debug-command", "yes").startswith("ERR CONFIG SET failed")


def test_equal_data_has_equal_digests_whatever_the_way_to_it() -> None:
    one, two = (Wire(enable_debug_command=True).connect() for _ in range(2))
    assert one("DEBUG", "DIGEST") == two("DEBUG", "DIGEST") == "0" * 40
    one("SET", "a", "1")
    one("SET", "b", "2")
    assert one("DEBUG", "DIGEST") != two("DEBUG", "DIGEST")
    two("SET", "b", "other")
    two("SET", "a", "1")
    two("SET", "b", "2")
    assert one("DEBUG", "DIGEST") == two("DEBUG", "DIGEST")
    assert isinstance(one("DEBUG", "DIGEST"), Status)


def test_the_digest_is_of_what_has_not_expired() -> None:
    wire = Wire(enable_debug_command=True)
    peer = wire.connect()
    peer("SET", "a", "1", "PX", "50")
    assert peer("DEBUG", "DIGEST") != "0" * 40
    wire.now_ms += 50
    assert peer("DEBUG", "DIGEST") == "0" * 40


def test_debug_sleep_asks_the_server() -> None:
    wire = Wire(enable_debug_command=True)
    slept: list[float] = []
    wire.state.sleep = slept.append
    peer = wire.connect()
    assert peer("DEBUG", "SLEEP", "0.25") == "OK"
    for seconds in ("-1", "1e300", "nan", "inf", "x", "86401"):
        assert isinstance(peer("DEBUG", "SLEEP", seconds), Error)
    assert slept == [0.25]


# -- SHUTDOWN ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("modes", [(), ("NOSAVE",), ("save",), ("NOW", "FORCE"), ("NOSAVE", "now", "FORCE")])
def test_shutdown_asks_once_and_says_nothing(wire: Wire, peer: Peer, modes: tuple[str, ...]) -> None:
    asked: list[Any] = []
    wire.state.on_shutdown = lambda: asked.append(1)
    assert peer.raw("SHUTDOWN", *modes) == b""
    assert wire.state.shutdown_requested
    assert asked == [1]


@pytest.mark.parametrize("modes", [("SAVE", "NOSAVE"), ("ABORT", "NOW"), ("LATER",), ("ABORT",), ("NOW", "now")])
def test_a_refused_shutdown_stops_nothing(wire: Wire, peer: Peer, modes: tuple[str, ...]) -> None:
    assert isinstance(peer("SHUTDOWN", *modes), Error)
    assert not wire.state.shutdown_requested


def test_shutdown_is_no_part_of_a_transaction(wire: Wire, peer: Peer) -> None:
    peer("MULTI")
    assert peer("SHUTDOWN", "NOSAVE") == "ERR Command not allowed inside a transaction"
    assert peer("EXEC").startswith("EXECABORT")
    assert not wire.state.shutdown_requested


@pytest.mark.parametrize("word", ["CONFIG", "SLOWLOG", "COMMAND", "CLIENT"])
def test_help_is_lines_of_text(peer: Peer, word: str) -> None:
    lines = peer(word, "HELP")
    assert lines[0].startswith(f"{word} <subcommand>")
    assert all(isinstance(line, Status) for line in lines)
