"""Ratios, spreads, and which figure decides."""

from __future__ import annotations

import pytest

from benchmarks.arithmetic import Spread, compaction_ratio, judge, others_share, ratios, reached, spread, tally


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


def paced(kind: str, ours_us: list[float], redis_us: list[float], late_us: float = 10, others: float = 0.0):
    samples = {
        name: [{"p999_us": value, "late_p999_us": late_us, "others": others} for value in values]
        for name, values in (("amemdb", ours_us), ("redis", redis_us))
    }
    target = {"floor": 5.0, "goal": 2.0} if kind == "stalls" else {"floor": None, "goal": None}
    return {"kind": kind, **target, "samples": samples}


def test_a_tail_stands_beside_that_of_redis_and_nothing_is_asked_of_it():
    verdict = judge(paced("tail", [300, 200, 400], [100, 100, 100]))
    assert (verdict.ratio, verdict.reached, verdict.away) == (Spread(3.0, 2.0, 4.0), "", None)


@pytest.mark.parametrize(("ours_ms", "want"), [(2.0, "goal"), (2.1, "floor"), (5.0, "floor"), (5.1, "below")])
def test_of_a_stall_milliseconds_count_whatever_redis_does(ours_ms, want):
    verdict = judge(paced("stalls", [ours_ms * 1e3], [90_000]))
    assert (verdict.reached, verdict.ratio.median) == (want, ours_ms)


@pytest.mark.parametrize("disturbed", [{"late_us": 1_001}, {"others": 0.11}])
def test_a_stall_that_may_be_the_machines_is_not_held_against_the_server(disturbed):
    assert judge(paced("stalls", [6_000], [100], **disturbed)).reached == "undecided"
    assert judge(paced("stalls", [4_000], [100], **disturbed)).reached == "floor"


def test_how_far_the_goal_is_is_a_factor_above_one_while_it_is_missed():
    assert judge(load([sample(40, 10)], [sample(100, 5)])).away == 2.5
    assert judge(load([sample(200, 10)], [sample(100, 5)])).away == 0.5
    assert judge(paced("stalls", [8_000], [1])).away == 4.0
    memory = {"amemdb": [{"bytes": 220}], "redis": [{"bytes": 100}]}
    assert judge({"kind": "memory", "floor": 1.5, "goal": 1.1, "samples": memory}).away == 2.0


def test_cases_with_targets_are_counted():
    results = [load([sample(95, 10)], [sample(100, 5)]), paced("tail", [1], [1]), paced("stalls", [9_000], [1])]
    assert tally(results) == {"goal": 0, "floor": 1, "below": 1, "undecided": 0}


def restarted(ours: tuple[float, float], redis: tuple[float, float], others: float = 0.0, floor: float | None = 1.0):
    samples = {
        name: [{"seconds": seconds, "cpu_seconds": cpu, "others": others}]
        for name, (seconds, cpu) in (("amemdb", ours), ("redis", redis))
    }
    return {"kind": "restart", "floor": floor, "goal": floor and 3.0, "samples": samples}


@pytest.mark.parametrize(("ours_s", "want"), [(1.0, "goal"), (1.1, "floor"), (3.0, "floor"), (3.1, "below")])
def test_of_a_restart_less_time_is_better(ours_s, want):
    verdict = judge(restarted((ours_s, 9), (3.0, 1)))
    assert (verdict.decided_by, verdict.reached, verdict.ratio.median) == ("time", want, 3.0 / ours_s)


def test_a_restart_on_a_busy_machine_is_decided_by_cpu():
    verdict = judge(restarted((9, 1), (3, 2), others=0.11))
    assert (verdict.decided_by, verdict.reached, verdict.ratio.median) == ("CPU (machine busy)", "floor", 2.0)


def test_nothing_is_asked_of_a_restart_without_a_target():
    verdict = judge(restarted((1, 1), (3, 2), floor=None))
    assert (verdict.ratio.median, verdict.reached, verdict.away) == (3.0, "", None)


def beside_compactions(
    with_ms: list[float], without_ms: list[float], late_us: float = 10, others: float = 0.0, share: float = 0.8
):
    samples = [
        {"p99_us": a * 1e3, "alone_p99_us": b * 1e3, "late_p99_us": late_us, "others": others, "share": share}
        for a, b in zip(with_ms, without_ms, strict=True)
    ]
    return {"kind": "compaction", "floor": 2.0, "goal": 2.0, "samples": {"amemdb": samples, "redis": samples}}


@pytest.mark.parametrize(
    ("with_ms", "without_ms", "want"), [(20, 10, "goal"), (21, 10, "below"), (4.9, 0.1, "goal"), (5, 0.1, "below")]
)
def test_a_compaction_may_double_the_p99_or_leave_it_small(with_ms, without_ms, want):
    verdict = judge(beside_compactions([with_ms], [without_ms]))
    assert (verdict.reached, verdict.ratio.median) == (want, with_ms / without_ms)


def test_with_and_without_a_compaction_are_compared_round_by_round():
    result = beside_compactions([10, 40, 90], [10, 20, 30])
    assert judge(result).ratio == compaction_ratio(result, "redis") == Spread(2.0, 1.0, 3.0)


@pytest.mark.parametrize("disturbed", [{"late_us": 1_001}, {"others": 0.11}])
def test_a_busy_machine_neither_blames_a_compaction_nor_hides_it(disturbed):
    assert judge(beside_compactions([30], [10], **disturbed)).reached == "undecided"
    assert judge(beside_compactions([20], [10], **disturbed)).reached == "undecided"
    assert judge(beside_compactions([4], [1], **disturbed)).reached == "goal"


def test_nothing_is_decided_where_there_was_hardly_a_compaction():
    assert judge(beside_compactions([1], [1], share=0.79)).reached == "undecided"


@pytest.mark.parametrize(("peak", "want"), [(100, "goal"), (101, "below")])
def test_the_process_that_compacts_may_have_its_bound(peak, want):
    samples = {"amemdb": [{"peak_mib": peak, "bound_mib": 100}], "redis": [{"peak_mib": 1}]}
    verdict = judge({"kind": "compaction", "floor": 1.0, "goal": 1.0, "samples": samples})
    assert (verdict.decided_by, verdict.reached, verdict.ratio.median) == ("memory", want, peak / 100)


def searched(ours: float, other: float, recall: float = 0.99, others: float = 0.0) -> dict[str, object]:
    result = load([{**sample(ours, 100 / ours, 0.1, others), "recall": recall}], [sample(other, 100 / other, 0.1)])
    return {**result, "kind": "recall", "floor": 0.6, "goal": 0.8}


@pytest.mark.parametrize(("ours", "want"), [(80, "goal"), (79, "floor"), (60, "floor"), (59, "below")])
def test_searches_are_judged_as_loads_are(ours, want):
    verdict = judge(searched(ours, 100))
    assert (verdict.decided_by, verdict.reached, verdict.ratio.median) == ("throughput", want, ours / 100)
    assert judge(searched(ours, 100, others=0.11)).decided_by == "CPU (machine busy)"


@pytest.mark.parametrize(("recall", "want"), [(0.98, "goal"), (0.9799, "below")])
def test_searches_that_find_too_little_reach_nothing(recall, want):
    assert judge(searched(300, 100, recall)).reached == want


def beside_stores(with_ms: float, without_ms: float, late_us: float = 10, others: float = 0.0) -> dict[str, object]:
    samples = [
        {"p99_us": with_ms * 1e3, "alone_p99_us": without_ms * 1e3, "late_p99_us": late_us, "others": others},
    ]
    return {"kind": "recalltail", "floor": 3.0, "goal": 1.5, "samples": {"amemdb": samples, "redis": samples}}


@pytest.mark.parametrize(("with_ms", "want"), [(1.5, "goal"), (1.6, "floor"), (3.0, "floor"), (3.1, "below")])
def test_stores_may_make_searches_slower_by_a_factor(with_ms, want):
    verdict = judge(beside_stores(with_ms, 1.0))
    assert (verdict.reached, verdict.ratio.median) == (want, with_ms)


@pytest.mark.parametrize("disturbed", [{"late_us": 201}, {"others": 0.11}])
def test_a_busy_machine_is_not_taken_for_what_stores_do(disturbed):
    assert judge(beside_stores(4.0, 1.0, **disturbed)).reached == "undecided"
    assert judge(beside_stores(2.0, 1.0, **disturbed)).reached == "floor"
