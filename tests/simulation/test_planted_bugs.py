"""The simulator can fail: it finds each bug that is planted, within so many seeds."""

from __future__ import annotations

import pytest

from tests.simulation.bugs import BUGS
from tests.simulation.play import FoundError, play_all, silence

SEEDS_MAX = 600
"""Each is found by one of so many; most by one of the first thirty."""


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[bug](monkeypatch)
    with silence(), pytest.raises(FoundError, match="SIMULATION_SEED="):
        play_all(range(SEEDS_MAX), again=False)
