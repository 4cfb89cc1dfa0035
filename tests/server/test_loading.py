"""What a load does besides reading the log."""

from __future__ import annotations

from amemdb.server.run import _progress
from amemdb.stores.graveyard import LARGE_MIN, Graveyard


def test_what_records_have_dropped_does_not_pile_up_until_the_load_is_over() -> None:
    """A log may tell of a million events that were cleared, again and again; no tick frees them meanwhile."""
    graveyard = Graveyard()
    tell = _progress(graveyard)
    for _ in range(3):
        graveyard.bury([None] * LARGE_MIN)
    tell(1, 2)
    assert len(graveyard) == 0
