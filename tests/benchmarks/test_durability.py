"""Rows of restart and compaction, measured for a moment, and the servers that keep their data from start to start."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from benchmarks import compaction, report, restart
from benchmarks.compaction import CompactionRow, CompactorRow, Watch, compact
from benchmarks.loader import BenchmarkError, Loader, Pacer
from benchmarks.measure import Bench, Fill, Side, Target, fill, run_rows
from benchmarks.restart import RestartRow
from benchmarks.servers import Variant, cpu_seconds, data_folder, ours, running, serving

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load program needs a C compiler")

OBJECTS = 2_000
SMALL = (Fill(500_000, "AMEM.CONV.CREATE s:{seq}"), Fill(500_000, "AMEM.CONV.APPEND s:{seq} user {text}"))
KEYS = (Fill(500_000, "SET key:{seq} {text}"),)


@pytest.fixture
def bench(programs, monkeypatch) -> Bench:
    monkeypatch.setattr(compaction, "PAUSE_SECONDS", 0)
    loader, pacer = Loader(programs[0], None), Pacer(programs[1], None)
    return Bench(ours(), replace(ours(), name="redis"), loader, pacer, None, 1, 0.1, 0.3, OBJECTS)


def measured(row: Any, bench: Bench) -> tuple[list[dict[str, float]], str]:
    """The samples of its one case, and what the report makes of it."""
    result = run_rows([row], None, bench, lambda said: None)[0]
    settings = {"objects": OBJECTS, "rounds": 1, "seconds": 1, "connections": 50, "paced_seconds": 1}
    facts = dict.fromkeys(("processor", "cores", "memory_gib", "kernel", "fdatasync_us"), 1)
    run = {"results": [result], "settings": settings, "machine": facts, "versions": {"amemdb": "1", "redis": "2"}}
    run |= {"date": "today", "command": "make bench", "seconds": 60, "load_average": [0, 0], "plausibility": []}
    return [result["samples"][name][0] for name in ("amemdb", "redis")], report.markdown(run)


@pytest.mark.parametrize(("compacted", "target"), [(False, Target(1.0, 3.0)), (True, None)])
def test_a_restart_is_that_of_the_same_data(bench, monkeypatch, compacted, target):
    prepared: list[str] = []
    monkeypatch.setattr(restart, "compact", lambda server: prepared.append(server.variant.name) or compact(server))
    monkeypatch.setattr(restart, "set_preamble", lambda server, wanted: prepared.append(f"{wanted}"))
    row = RestartRow("restart", Side("from", "", SMALL), Side("with", "", KEYS), target, compacted, preamble=True)
    samples, shown = measured(row, bench)
    assert prepared == (["amemdb", "True", "redis"] if compacted else [])
    for sample in samples:
        assert sample["cpu_seconds"] > 0
        assert 0 < sample["seconds"] < 60
        assert sample["resident_mib"] > 10
        assert sample["read_mib"] >= 0.1  # 1,000 contents of 120 bytes
    assert ("1 / 3" in shown) == (target is not None)
    assert "| restart, 2,000 records |" in shown
    assert "amemdb: from" in shown


def test_a_restart_that_lost_something_is_refused(bench, monkeypatch):
    told = iter(({"keys": 1}, {"keys": 1}, {"keys": 0}))
    monkeypatch.setattr(restart, "contents_of", lambda server: next(told))
    with pytest.raises(BenchmarkError, match=r"had \{'keys': 1\} before its restart, and \{'keys': 0\} after"):
        measured(RestartRow("restart", Side("a", "", KEYS), Side("b", "", KEYS), None), bench)


def test_what_a_server_has_is_counted_in_all_families(bench):
    with running(ours(), "no", None) as server:
        fill(server, [Fill(3, "AMEM.CONV.CREATE s:{seq}"), Fill(7, "AMEM.CONV.APPEND s:{seq%3} user x")], bench.loader)
        fill(server, [Fill(5, "AMEM.WORK.SET s:{seq%3} k:{seq} x"), Fill(2, "AMEM.EPIS.LOG a note x")], bench.loader)
        fill(server, [Fill(4, "SET key:{seq} x")], bench.loader)
        counted = {"keys": 4, "conversation_turns": 7, "working_notes": 5, "episodic_events": 2}
        assert restart.contents_of(server) == counted


def test_commands_are_measured_with_compactions_and_without(bench):
    row = CompactionRow("row", Side("SET", "SET key:{any%500} {text}", KEYS), Side("SET", "SET k v"), Target(2.0, 2.0))
    bench = replace(bench, paced_seconds=1.0)
    samples, shown = measured(row, bench)
    for sample in samples:
        assert sample["share"] > 0.3
        assert (sample["alone_share"], sample["alone_compactions"]) == (0, 0)
        assert sample["alone_process_cpu_seconds"] == 0
        assert sample["process_cpu_seconds"] > 0
        assert abs(sample["operations"] - sample["alone_operations"]) <= 1
        assert 0 < sample["p50_us"] <= sample["p99_us"]
        assert 0 < sample["alone_p50_us"] <= sample["alone_p99_us"]
    assert shown.count("| amemdb: SET |") == shown.count("| Redis: SET |") == 2
    assert shown.count("to that without: p99 **") == 2


def test_a_round_without_any_compaction_is_refused(bench, monkeypatch):
    monkeypatch.setattr(compaction, "Watch", lambda server, repeat: Watch(server, False))
    row = CompactionRow("row", Side("SET", "SET k {text}"), Side("SET", "SET k v"), Target(2.0, 2.0))
    with pytest.raises(BenchmarkError, match="row: no compaction was under way"):
        measured(row, bench)


@pytest.fixture
def memory_row() -> CompactorRow:
    big = Fill(100_000, "AMEM.CONV.APPEND s:00000000 user {text:10000}")
    keys = Fill(250_000, "SET key:{seq} {text:10000}")
    side = Side("big", "", (Fill(1, "AMEM.CONV.CREATE s:{seq}"), big, keys))
    return CompactorRow("row", side, side, 64, 4, "s:00000000", Target(1.0, 1.0))


def test_the_memory_of_a_compaction_is_held_against_its_bound(bench, memory_row, monkeypatch):
    """Both servers are ours here; that of the name redis has the default budget, and so takes as much as it likes."""
    once = CompactorRow._once

    def of_ours(self, server, bench):
        return once(self, replace(server, variant=replace(server.variant, name="amemdb")), bench)

    monkeypatch.setattr(CompactorRow, "_once", of_ours)
    samples, shown = measured(memory_row, bench)
    for sample in samples:
        assert sample["budget_mib"] == 1
        assert 1.8 < sample["largest_mib"] < 2.5  # 200 turns of 10,000 bytes
        assert sample["bound_mib"] == pytest.approx(61 + sample["largest_mib"], abs=0.11)
        assert 10 < sample["peak_mib"] <= sample["bound_mib"]
        assert sample["data_mib"] > 6
        assert sample["base_mib"] == pytest.approx(sample["log_mib"], rel=0.1)
        assert sample["seconds"] > 0
        assert sample["process_cpu_seconds"] > 0
    assert "| memory of a compaction |" in shown
    assert "goal reached" in shown


def test_too_little_data_for_the_memory_is_refused(bench, memory_row):
    with pytest.raises(BenchmarkError, match="bytes of data are too few"):
        measured(replace(memory_row, factor=400), replace(bench, redis=ours()))


def test_a_compaction_that_failed_is_refused():
    with running(ours(), "no", None) as server, redis.Redis(port=server.port) as client:
        client.set("k", "v")
        client.config_set("compaction-memory", 2**20)
        for segment in Path(f"/proc/{server.pid}/fd").iterdir():
            target = os.readlink(segment)
            if target.endswith(".segment"):
                os.unlink(target)
        with pytest.raises(BenchmarkError, match="a compaction failed: "):
            compact(server)


def test_the_process_that_compacts_may_run_where_the_benchmark_may():
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("there is one core only")
    seen: set[frozenset[int]] = set()
    with running(ours(), "no", min(cores)) as server, redis.Redis(port=server.port) as client:
        client.set("k", "v")
        watch = Watch(server, repeat=True)
        while frozenset(cores) not in seen and watch.completed < 20:
            for child in server.children:
                try:
                    seen.add(frozenset(os.sched_getaffinity(child)))
                except OSError:
                    continue
            client.set("k", "v")
        watch.finish()
    assert frozenset(cores) in seen


def test_data_is_there_after_an_orderly_stop_and_gone_with_its_folder():
    with data_folder("test") as folder:
        with serving(ours(), "everysec", None, folder, keep=True) as server, redis.Redis(port=server.port) as client:
            client.set("k", "v")
        with serving(ours(), "everysec", None, folder) as server, redis.Redis(port=server.port) as client:
            assert client.get("k") == b"v"
            assert server.cpu_seconds > 0
            assert 0 < server.start_seconds < 60
            pid = server.pid
        assert cpu_seconds(pid) == 0
    assert not folder.exists()


def test_a_start_is_not_one_that_compiles_all_modules_again(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with running(ours(), "no", None) as server:
        assert b"PYTHONDONTWRITEBYTECODE" not in Path(f"/proc/{server.pid}/environ").read_bytes()


LOADS_FOR_A_WHILE = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
began = time.monotonic()
while True:
    connection = listener.accept()[0]
    while connection.recv(100):
        done = time.monotonic() - began >= 0.3
        connection.sendall(b"+PONG\\r\\n" if done else b"-LOADING it is\\r\\n")
"""


def test_a_server_that_says_that_it_is_loading_is_not_ready(tmp_path):
    program = tmp_path / "server.py"
    program.write_text(LOADS_FOR_A_WHILE)
    variant = Variant("stub", "1", lambda port, folder, fsync: [sys.executable, str(program), str(port)])
    with running(variant, "no", None) as server:
        assert server.start_seconds >= 0.3


def test_a_server_that_does_not_start_says_why():
    program = "import sys; sys.exit('no such option')"
    variant = Variant("stub", "1", lambda port, folder, fsync: [sys.executable, "-c", program])
    with pytest.raises(BenchmarkError, match="stub did not start:\nno such option"), running(variant, "no", None):
        raise AssertionError


def test_ours_does_not_compact_by_itself():
    with running(ours(), "no", None) as server, redis.Redis(port=server.port) as client:
        assert client.config_get("auto-aof-rewrite-percentage") == {"auto-aof-rewrite-percentage": "0"}
