"""Rows of tails and stalls, measured for a moment with our server on both sides."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from benchmarks import paced, report
from benchmarks.loader import BenchmarkError, Loader, Pacer
from benchmarks.measure import Bench, Fill, Side, Target, run_rows
from benchmarks.paced import Flood, StallRow, Steps, TailRow
from benchmarks.servers import ours

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load program needs a C compiler")

SECONDS = 0.4
FILL = (Fill(3, "AMEM.CONV.CREATE s:{seq}"), Fill(60, "AMEM.CONV.APPEND s:{seq%3} user {text}"))
GET = Side("get", "AMEM.CONV.GET s:00000001", FILL)
STEP = Side("append", "AMEM.CONV.APPEND s:{seq} user {text}", (Fill(1, "AMEM.CONV.CREATE s:{seq}"),))
TARGET = Target(5.0, 2.0)


@pytest.fixture
def bench(programs, monkeypatch) -> Bench:
    monkeypatch.setattr(paced, "PAUSE_SECONDS", 0)
    loader, pacer = Loader(programs[0], None), Pacer(programs[1], None)
    other = replace(ours(), name="redis")
    return Bench(ours(), other, loader, pacer, None, rounds=1, seconds=0.1, paced_seconds=SECONDS, objects=100)


def measured(row, bench):
    """The result of its one case, and that the report can show it."""
    result = run_rows([row], None, bench, lambda said: None)[0]
    assert {name: len(samples) for name, samples in result["samples"].items()} == {"amemdb": 1, "redis": 1}
    shown = report.paced_table([result], "first")
    assert len(shown.splitlines()) == 4
    return [result["samples"][name][0] for name in ("amemdb", "redis")], shown


def test_a_tail_is_that_of_the_writes_themselves(bench):
    append = Side("append", "AMEM.CONV.APPEND s:{any%3} user {text}", FILL)
    samples, shown = measured(TailRow("tail", append, append, 500), bench)
    for sample in samples:
        assert sample["operations"] == 500 * SECONDS
        assert 0 < sample["p50_us"] <= sample["max_us"]
        assert sample["flushes"] >= 0
    assert "disk flushes" in shown
    assert "p99.9 to Redis's: **" in shown


@pytest.mark.parametrize(("others", "said"), [(0.1, False), (0.11, True)])
def test_a_tail_of_a_busy_machine_says_so(others, said):
    figures = dict.fromkeys(("p50_us", "p99_us", "p999_us", "max_us", "late_p999_us", "rate", "operations"), 1.0)
    samples = [{**figures, "others": others, "flushes": 1.0}]
    result = {"kind": "tail", "ours": "a", "redis": "b", "samples": {"amemdb": samples, "redis": samples}}
    assert (", machine busy" in report.paced_table([result], "first")) == said


def test_an_idle_server_only_answers_pings(bench):
    samples, shown = measured(StallRow("idle", Side("nothing", ""), Side("nothing", ""), None, TARGET), bench)
    for sample in samples:
        assert sample["operations"] == paced.PING_RATE * SECONDS
        assert "work_rate" not in sample
    assert "| nothing |" in shown


def test_a_flood_goes_on_from_before_the_first_ping_until_after_the_last(bench):
    samples, shown = measured(StallRow("get", GET, GET, Flood(1, 1, answer_bytes=20 * 120), TARGET), bench)
    for sample in samples:
        assert sample["work_operations"] >= sample["work_rate"] * SECONDS
        assert sample["work_p50_us"] > 0
    assert "of them, half in" in shown


def test_a_flood_of_replies_that_say_too_little_is_refused(bench):
    with pytest.raises(BenchmarkError, match="replies are too short"):
        measured(StallRow("get", GET, GET, Flood(1, 1, answer_bytes=1_000_000), TARGET), bench)


def test_steps_find_each_their_own_data(bench):
    row = StallRow("step", STEP, STEP, Steps(0.1), TARGET)
    for sample in measured(row, bench)[0]:
        assert sample["work_operations"] == 4  # appending to a session that is not there would have been refused


@pytest.mark.parametrize(("seconds", "count"), [(0.1, 1), (0.5, 1), (0.99, 1), (2.5, 5)])
def test_as_many_steps_are_done_as_fit(seconds, count):
    assert Steps(0.5).count(seconds) == count
