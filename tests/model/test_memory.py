"""The ledger of memory against a walk over everything, in the random sequences of the model, and down to nothing."""

from __future__ import annotations

import pytest
from test_sequences import Sequence

from tests.memory_walk import check, walked

SEEDS = 40
STEPS_BETWEEN = 40


class Watched(Sequence):
    """A sequence that looks at the ledger now and then."""

    taken = 0

    def pass_time(self) -> None:
        super().pass_time()
        self.taken += 1
        if self.taken % STEPS_BETWEEN == 0:
            check(self.rig.stores)


@pytest.mark.parametrize("block", range(4))
def test_the_ledger_never_drifts(block: int) -> None:
    for seed in range(block, SEEDS, 4):
        sequence = Watched(seed)
        sequence.run()
        rig = sequence.rig
        check(rig.stores)
        check(rig.replayed())
        # What shares memory or not, and what grew in which steps, is the same after a replay but for tables' room.
        held, again = sum(walked(rig.stores).values()), sum(walked(rig.replayed()).values())
        assert abs(held - again) < max(0.5 * held, 4000), f"seed {seed}"
        assert rig("FLUSHALL") == b"OK"
        while rig.stores.graveyard.free(100):
            pass
        assert rig.stores.ledger.held == 0, f"seed {seed}"
        check(rig.stores)
