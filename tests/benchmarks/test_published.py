"""The figures in the documentation are those of the published run, and every row can be told from it."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import BEGIN, END, PAGE, PLOT, PUBLISHED, _chosen, main, with_run
from benchmarks.measure import Bench, run_rows
from benchmarks.rows import ROWS


def test_the_page_shows_exactly_the_published_run():
    page = PAGE.read_text(encoding="utf-8")
    assert with_run(page, json.loads(PUBLISHED.read_text(encoding="utf-8"))) == page
    assert PLOT.stat().st_size > 0


def test_the_published_run_is_whole():
    run = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    said = re.search(r"Not in this run yet:([^.]*)\.", PAGE.read_text(encoding="utf-8"))
    missing = re.findall(r"`(\w+)`", said[1]) if said else []
    want = [
        (row.key, case.pipeline, case.target.floor if case.target else None)
        for row in ROWS
        if row.key not in missing
        for case in row.cases()
    ]
    assert [(result["row"], result["pipeline"], result["floor"]) for result in run["results"]] == want
    assert run["settings"]["rounds"] >= 3


def test_no_figure_of_speed_stands_outside_of_the_published_run():
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    prose = before + rest.partition(END)[2]
    assert re.findall(r"\d[\d.,]* ?(?:×|times|ops|µs|/s\b|bytes each)", prose) == []


def test_a_page_without_its_marks_is_not_written_over():
    with pytest.raises(AssertionError, match="lost its marks"):
        with_run("# Benchmarks\n", json.loads(PUBLISHED.read_text(encoding="utf-8")))


@pytest.mark.parametrize("option", ["--quick", "--only=get", "--pipelines=1"])
def test_part_of_a_run_is_not_published(option):
    refused = CliRunner().invoke(main, ["--publish", option])
    assert refused.exit_code == 2
    assert "whole runs" in refused.output


@pytest.mark.parametrize("what", ["get", "gte:16", "tailset:1", "get:0", "get:²", "get:x"])
def test_what_cannot_be_profiled_is_refused(what):
    refused = CliRunner().invoke(main, ["--profile", what])
    assert refused.exit_code == 2
    assert "such as get:16; keys are get, set," in refused.output


def test_rows_can_be_chosen_by_key_and_by_kind():
    assert [row.key for row in _chosen(["stalls", "get"])] == [
        "get",
        "stallidle",
        "stallreply",
        "stalldrop",
        "stallvectors",
        "stallgraphs",
    ]
    assert _chosen([]) == ROWS


def test_an_unknown_row_is_refused_with_those_there_are():
    refused = CliRunner().invoke(main, ["--only=gte"])
    assert refused.exit_code == 2
    assert "no row gte; there are get, set," in refused.output


class StubRow:
    """A row that measures nothing."""

    key, kind, note = "stub", "load", ""
    ours = redis = ROWS[0].ours

    def cases(self):
        return ROWS[0].cases()

    def measure(self, case, bench):
        return {"amemdb": [], "redis": []}


def test_pipelines_can_be_chosen_and_are_said():
    said: list[str] = []
    results = run_rows([StubRow()], [16], None, said.append)
    assert [result["pipeline"] for result in results] == [16]
    assert said == ["measuring GET against GET, pipeline 16"]


def test_the_order_of_the_servers_turns_around_every_round():
    bench = Bench(None, None, None, None, 0, rounds=3, seconds=1, paced_seconds=1, objects=1)
    assert list(bench.each_round()) == [("redis", "amemdb"), ("amemdb", "redis"), ("redis", "amemdb")]
    assert len(list(bench.each_round(2))) == 2
