"""Worlds from 2,000 seeds, each of them twice. `--soak SECONDS` goes on with others until there were 20,000 and more.

`SIMULATION_SEED=7 .venv/bin/pytest tests/simulation -k seeds` plays one seed. One that has found something belongs in
`tests/regress/simulation_seeds.txt`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from random import SystemRandom

import pytest

from amemdb import native
from tests.simulation.play import play_all, silence
from tests.tidy.source import ROOT

SEEDS = 2_000 if native.ENABLED else 400
SOAK_SEEDS = 20_000
BLOCKS = 8
"""The seeds are divided, so that they can be played by several processes."""


def seeds(block: int, soak_seconds: int) -> Iterator[int]:
    """Those of a block: the same ones always, then in a soak random ones."""
    if "SIMULATION_SEED" in os.environ:
        if block == 0:
            yield int(os.environ["SIMULATION_SEED"])
        return
    yield from range(block, SEEDS, BLOCKS)
    if soak_seconds:
        until = time.monotonic() + soak_seconds / BLOCKS
        count = SEEDS // BLOCKS
        while time.monotonic() < until or count < SOAK_SEEDS // BLOCKS:
            yield SystemRandom().getrandbits(48)
            count += 1


@pytest.mark.soak
@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds(block: int, soak_seconds: int) -> None:
    with silence():
        play_all(seeds(block, soak_seconds))


def test_a_seed_is_the_same_in_every_process() -> None:
    traces = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation.play", "0", "6"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": number, "PYTHONPATH": f"{ROOT}:{ROOT}/tests:{ROOT}/tests/model"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "2")
    ]
    assert traces[0].count("\n") == 6
    assert traces[0] == traces[1]
