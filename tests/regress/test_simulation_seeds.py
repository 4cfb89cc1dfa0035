"""Seeds of the simulator that have once found something; see `simulation_seeds.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.play import play, silence

SEEDS = [
    int(line.split()[0])
    for line in Path(__file__).with_name("simulation_seeds.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_that_has_found_something(seed: int) -> None:
    with silence():
        play(seed)
