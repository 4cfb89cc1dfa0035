"""Keeps Python's garbage collector from stopping the server.

A full collection looks at every container there is: with a few hundred thousand sessions that is a stop of several
hundred milliseconds, to find nothing, since stores hold no cycles. What survives a full collection is therefore
frozen, that is, taken out of sight of later ones. Each object is looked at a bounded number of times, a full
collection sees only what came since the last one, and cycles still go as long as they are young. Code that lets go
of a long-lived object must break its cycles by hand (connections do).
"""

from __future__ import annotations

import gc
from typing import Any

THRESHOLDS = (1_000, 4, 3)
"""New containers before a young collection; young before a middle one; middle before a full one.

A full collection then sees some 20,000 objects, two to four milliseconds' work; by default it saw all of 300,000
sessions with a turn and a note each in 420 ms.
"""


def settle() -> None:
    """Collect once, freeze what was loaded, and keep freezing from now on."""
    gc.collect()
    gc.freeze()
    gc.collect()  # Python waits for a quarter of what the last full collection left: that must not be all of the data
    gc.set_threshold(*THRESHOLDS)
    if _freeze_survivors not in gc.callbacks:
        gc.callbacks.append(_freeze_survivors)


def unsettle() -> None:
    """Take everything back, for tests that run servers in their own process."""
    if _freeze_survivors in gc.callbacks:
        gc.callbacks.remove(_freeze_survivors)
    gc.set_threshold(700, 10, 10)
    gc.unfreeze()


def _freeze_survivors(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
