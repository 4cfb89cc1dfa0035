"""The packer that the engine keeps held on to a buffer as large as the largest frame there ever was."""

from __future__ import annotations

import tracemalloc

from rig import Rig


def test_a_large_value_that_is_gone_takes_no_memory() -> None:
    rig = Rig()
    rig("SET", "k", "small")
    tracemalloc.start()
    try:
        rig.send(b"SET", b"k", bytes(8 << 20))
        rig("DEL", "k")
        rig.log.frames.clear()
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
