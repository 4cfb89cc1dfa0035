"""The clock: wall time that rides out small steps back, follows large ones and tells of them; monotonic time apart."""

from __future__ import annotations

import pytest

from amemdb.clock import HOLD_MS, Clock

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS


class Machine:
    """A computer whose time passes and whose wall clock can be set."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.mono_ms = 5000
        self.jumps: list[int] = []
        self.clock = Clock(lambda: self.wall_ms * 1_000_000, lambda: self.mono_ms * 1_000_000, self.jumps.append)

    def pass_ms(self, ms: int) -> int:
        self.wall_ms += ms
        self.mono_ms += ms
        return self.clock.now_ms()

    def set_ms(self, by_ms: int) -> int:
        self.wall_ms += by_ms
        return self.clock.now_ms()


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_time_passes(machine: Machine) -> None:
    assert machine.clock.now_ms() == START_MS
    assert machine.pass_ms(1234) == START_MS + 1234
    assert machine.clock.monotonic_ns() == 6_234_000_000
    assert machine.jumps == []


@pytest.mark.parametrize("back_ms", [1, 1000, HOLD_MS])
def test_a_small_step_back_stands_still_until_the_wall_has_caught_up(machine: Machine, back_ms: int) -> None:
    assert machine.set_ms(-back_ms) == START_MS
    assert machine.pass_ms(back_ms - 1) == START_MS
    assert machine.pass_ms(1) == START_MS
    assert machine.pass_ms(1) == START_MS + 1
    assert machine.jumps == []


@pytest.mark.parametrize("by_ms", [-HOLD_MS - 1, -HOUR_MS, -YEAR_MS, HOLD_MS + 1, HOUR_MS, YEAR_MS])
def test_a_large_jump_is_followed_and_told_once(machine: Machine, by_ms: int) -> None:
    assert machine.set_ms(by_ms) == START_MS + by_ms
    assert machine.jumps == [by_ms]
    assert machine.pass_ms(10) == START_MS + by_ms + 10
    assert machine.set_ms(-by_ms) == START_MS + 10
    assert machine.jumps == [by_ms, -by_ms]
    assert machine.clock.monotonic_ns() == 5_010_000_000


def test_small_steps_back_that_add_up_are_a_jump(machine: Machine) -> None:
    assert machine.set_ms(-HOLD_MS // 2) == START_MS
    assert machine.set_ms(-HOLD_MS // 2) == START_MS
    assert machine.set_ms(-1) == START_MS - HOLD_MS - 1
    assert machine.jumps == [-HOLD_MS - 1]


def test_a_long_pause_is_no_jump(machine: Machine) -> None:
    assert machine.pass_ms(HOUR_MS) == START_MS + HOUR_MS
    assert machine.jumps == []
    machine.mono_ms += HOUR_MS
    assert machine.set_ms(HOUR_MS + HOLD_MS + 1) == START_MS + 2 * HOUR_MS + HOLD_MS + 1
    assert machine.jumps == [HOLD_MS + 1]


def test_a_restart_begins_no_earlier_than_what_was_loaded_within_a_minute(machine: Machine) -> None:
    machine.clock.raise_to(START_MS - 1)
    assert machine.clock.now_ms() == START_MS
    machine.clock.raise_to(START_MS + HOLD_MS + 1)
    assert machine.clock.now_ms() == START_MS
    machine.clock.raise_to(START_MS + 500)
    assert machine.clock.now_ms() == START_MS + 500
    assert machine.pass_ms(499) == START_MS + 500
    assert machine.pass_ms(2) == START_MS + 501
    assert machine.jumps == []
