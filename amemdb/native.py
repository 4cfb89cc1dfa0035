"""Whether the compiled twins are in use, and why not where they are not.

Some modules have a twin written in Cython beside them, with an underscore in front: `stores/conversation.py` is the
reference, `stores/_conversation.pyx` the twin. They are all used or none, so that a process is one of two well-tested
things. The environment variable `AMEMDB_NATIVE=0` chooses the reference.

What is native, why, and how to make more of it so, is told in `amemdb.engine._hot`.
"""

from __future__ import annotations

import os
from importlib.util import find_spec, module_from_spec

MODULES = (
    "amemdb._clock",
    "amemdb.commands._session",
    "amemdb.index._few",
    "amemdb.protocol._numbers",
    "amemdb.protocol._replies",
    "amemdb.protocol._requests",
    "amemdb.stores._conversation",
    "amemdb.stores._database",
    "amemdb.stores._episodic",
    "amemdb.stores._memory",
    "amemdb.stores._names",
    "amemdb.stores._timeline",
    "amemdb.stores._working",
    "amemdb.commands._turns",
    "amemdb.persistence._replay",
    "amemdb.persistence._writing",
    "amemdb.engine._hot",
    "amemdb.engine._traffic",
    "amemdb.server._outbox",
    "amemdb.server._pump",
    "amemdb.server._turn",
)
"""The twins."""

DECLINED = os.environ.get("AMEMDB_NATIVE", "") == "0"
"""Whether the reference was chosen on purpose."""


def _missing() -> str:
    """Why the twins are not used; empty when they are."""
    if DECLINED:
        return "AMEMDB_NATIVE=0 is set"
    for name in MODULES:
        spec = find_spec(name)
        if spec is None:
            return f"it was not built (no C compiler or Python headers at the installation?), {name} is missing"
        try:
            module_from_spec(spec)  # has the system load the file, and runs nothing of it yet
        except ImportError as error:
            return f"{name} cannot be loaded: {error}"
    return ""


MISSING = _missing()
"""Why the reference is in use; empty when the twins are."""
ENABLED = not MISSING
