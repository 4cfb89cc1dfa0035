"""Ratios, spreads, and which figure decides."""

from __future__ import annotations

import pytest

from benchmarks.arithmetic import Spread, judge, others_share, ratios, reached, spread


def sample(rate: float, cpu_us: float, loader_share: float = 0.5, others: float = 0.0) -> dict[str, float]:
    return {"rate": rate, "cpu_us": cpu_us, "loader_share": loader_share, "others": others}


def load(ours: list[dict[str, float]], redis: list[dict[str, float]], disk: bool = False) -> dict[str, object]:
    samples = {"amemdb": ours, "redis": redis}
    return {"kind": "load", "floor": 0.9, "goal": 1.0, "waits_for_disk": disk, "samples": samples}


def test_the_median_is_shown_with_its_range():
    assert spread([5.0, 1.0, 3.0]) == Spread(3.0, 1.0, 5.0)


def test_ratios_are_made_round_by_round_so_that_a_drift_cancels():
    assert ratios([50.0, 100.0, 200.0], [100.0, 200.0, 400.0]) == Spread(0.5, 0.5, 0.5)


def test_throughput_decides_while_nothing_else_limits():
    verdict = judge(load([sample(95, 10)], [sample(100, 5)]))
    assert (verdict.decided_by, verdict.ratio.median, verdict.reached) == ("throughput", 0.95, "floor")


@pytest.mark.parametrize("side", [0, 1])
def test_a_busy_load_program_on_either_side_leaves_it_to_cpu(side):
    shares = [0.3, 0.3]
    shares[side] = 0.7
    verdict = judge(load([sample(100, 4, shares[0])], [sample(100, 8, shares[1])]))
    assert verdict.decided_by.startswith("CPU (load program")
    assert verdict.ratio.median == 2.0  # half of Redis's time is twice as good
    assert verdict.reached == "goal"


def test_a_busy_machine_leaves_it_to_cpu():
    verdict = judge(load([sample(100, 16, others=0.11)], [sample(50, 8)]))
    assert verdict.decided_by.startswith("CPU (machine")
    assert (verdict.ratio.median, verdict.reached) == (0.5, "below")


def test_cpu_never_decides_where_the_disk_is_waited_for():
    verdict = judge(load([sample(100, 99, 0.9, 0.9)], [sample(100, 1)], disk=True))
    assert (verdict.decided_by, verdict.ratio.median) == ("throughput (machine busy)", 1.0)
    assert verdict.reached == "undecided"
    assert judge(load([sample(100, 99, 0.9)], [sample(100, 1)], disk=True)).reached == "goal"


@pytest.mark.parametrize(("ours", "want"), [(110, "goal"), (111, "floor"), (150, "floor"), (151, "below")])
def test_of_memory_less_is_better(ours, want):
    samples = {"amemdb": [{"bytes": ours}], "redis": [{"bytes": 100}]}
    verdict = judge({"kind": "memory", "floor": 1.5, "goal": 1.1, "samples": samples})
    assert (verdict.reached, verdict.ratio.median) == (want, ours / 100)


@pytest.mark.parametrize(("value", "want"), [(1.0, "goal"), (0.99, "floor"), (0.9, "floor"), (0.89, "below")])
def test_a_target_is_reached_exactly(value, want):
    assert reached(value, 0.9, 1.0) == want


def test_what_others_took_is_over_all_loads():
    results = [load([sample(1, 1, others=0.1)], [sample(1, 1, others=0.3)])]
    assert others_share(results) == Spread(0.2, 0.1, 0.3)
    assert others_share([]) is None
