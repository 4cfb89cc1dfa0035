"""What expires, and the log: in a compaction, in a replay, before a PERSIST, under a RENAME. Nothing dead comes back.

Other servers got each of these wrong: a rewrite wrote an entry whose time ran out meanwhile without its expiry, so that
it lived for ever; a replay that looked at the clock dropped what later records built on; a PERSIST that came too late
was repeated by the log in time; a RENAME lost the expiry, or gave it to another. Here every family goes through all
of it, and what is held afterwards is compared with an engine that was never stopped, at times before, at and after
the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from amemdb.stores.stores import Stores
from tests.persistence.made import loaded, make_log, rebased, run, task_of
from tests.persistence.simulated import SimulatedDisk
from tests.rig import START_MS, Rig

END = START_MS + 60_000
"""When everything here expires that does."""
LONG_AFTER = END + 2000
"""By when it is removed, which happens by the second."""
TIMES = (START_MS, END - 1, END, END + 1, END + 3_600_000)
WRITES = {
    "key": ["SET k v PXAT {end}"],
    "session": ["AMEM.CONV.CREATE s PXAT {end}", "AMEM.CONV.APPEND s user hello", "AMEM.WORK.SET s n v"],
    "note": ["AMEM.CONV.CREATE s", "AMEM.WORK.SET s n v PXAT {end}"],
    "fact": ["AMEM.SEM.CREATE a 2", "AMEM.SEM.STORE a f text 1 0 PXAT {end}"],
    "events": ["AMEM.EPIS.RETAIN a MAXAGE 60", "AMEM.EPIS.LOG a t first"],
}
READS = [
    "GET k",
    "PTTL k",
    "EXISTS k",
    "KEYS *",
    "AMEM.CONV.GET s",
    "AMEM.CONV.SCAN 0",
    "AMEM.WORK.GET s n",
    "AMEM.WORK.TTL s n",
    "AMEM.SEM.GET a f",
    "AMEM.SEM.LIST a",
    "AMEM.SEM.RECALL a 5 1 0",
    "AMEM.EPIS.QUERY a",
    "AMEM.EPIS.STATS a",
]


def do(rig: Rig, *lines: str) -> list[Any]:
    """The replies to these."""
    return [rig(*line.format(end=END).split()) for line in lines]


def seen(stores: Stores, now_ms: int) -> list[Any]:
    """All that a client could read at that time of what is in `stores`."""
    rig = Rig(start_ms=now_ms)
    rig._boot(stores)
    return do(rig, *READS)


def compacted(frames: Sequence[bytes], at: int, parts: int = 1) -> Stores:
    """What is loaded after a compaction of the first `at` frames, to which the others were added meanwhile."""
    disk = SimulatedDisk(Random(1))
    manifest = make_log(disk, frames[:at], frames[at:])
    rebased(disk, manifest, run(disk, task_of(manifest, parts=parts)))
    stores, report = loaded(disk)
    assert report.cut is None
    return stores


def agree(rig: Rig) -> None:
    """Replayed, and compacted at every frame, in one part and in several, the log is what the engine holds."""
    frames = rig.log.frames
    states = [rig.replayed()]
    for at in range(1, len(frames) + 1):
        states += [compacted(frames, at), compacted(frames, at, parts=3)]
    for state in states:
        assert state.digest(0) == rig.stores.digest(0)
        for now_ms in TIMES:
            assert state.digest(now_ms) == rig.stores.digest(now_ms)
            assert seen(state, now_ms) == seen(rig.stores, now_ms)


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("family", WRITES)
def test_in_a_compaction(family: str, removed: bool) -> None:
    """It is written with its expiry, however late it is; a compaction asks for no time at all."""
    rig = Rig()
    do(rig, *WRITES[family])
    alive, dead = seen(rig.stores, END - 1), seen(rig.stores, END + 1)
    assert alive != dead
    rig.now_ms = LONG_AFTER
    if removed:
        assert rig.tick() >= 1
    do(rig, "SET other x")
    agree(rig)
    rig._boot(compacted(rig.log.frames, len(rig.log.frames)))
    rig.tick()
    assert rig.stores.digest(0) == rig.stores.digest(LONG_AFTER), "what was loaded does not know when it ends"


@pytest.mark.parametrize("family", WRITES)
def test_in_a_replay(family: str) -> None:
    """What came after the end of the old one was built on nothing, and is so again, whenever it is loaded."""
    rig = Rig()
    do(rig, *WRITES[family])
    rig.now_ms = END + 5
    again = ["INCR k", "AMEM.CONV.CREATE s", "AMEM.WORK.SET s n w", "AMEM.SEM.CREATE a 2"]
    do(rig, *again, "AMEM.SEM.STORE a f new 0 1", "AMEM.EPIS.LOG a t second")
    assert do(rig, "GET k", "AMEM.CONV.GET s", "AMEM.WORK.GET s n") == [b"1", [], b"w"]
    agree(rig)


def test_before_a_persist() -> None:
    """Too late it does nothing, for ever; in time it keeps the object, for ever."""
    late = Rig()
    do(late, *WRITES["key"], *WRITES["session"])
    late.now_ms = END
    assert do(late, "PERSIST k", "AMEM.CONV.EXPIRE s PERSIST") == [0, 0]
    agree(late)
    for now_ms in TIMES[2:]:
        assert seen(late.replayed(), now_ms) == seen(Stores(), now_ms)

    early = Rig()
    do(early, *WRITES["key"], *WRITES["session"])
    early.now_ms = END - 1
    assert do(early, "PERSIST k", "AMEM.CONV.EXPIRE s PERSIST") == [1, 1]
    agree(early)
    assert seen(early.replayed(), END + 1)[:2] == [b"v", -1]
    early.now_ms = LONG_AFTER
    assert early.tick() == 0, "an end that was taken back is not due"


@pytest.mark.parametrize("target", ["none", "lasting", "expiring later", "dead"])
def test_under_a_rename(target: str) -> None:
    """The expiry goes with the value, and what was at the other name goes with its own."""
    makes = {
        "none": [],
        "lasting": ["SET to old"],
        "expiring later": [f"SET to old PXAT {END + 1_000_000}"],
        "dead": [f"SET to old PXAT {START_MS + 10}"],
    }
    rig = Rig()
    do(rig, *makes[target], "SET k v PXAT {end}")
    rig.now_ms = START_MS + 20
    do(rig, "RENAME k to")
    assert do(rig, "EXISTS k", "GET to", "PEXPIRETIME to") == [0, b"v", END]
    agree(rig)
    rig.now_ms = END
    assert do(rig, "GET to", "EXISTS k") == [None, 0]
    rig.now_ms = LONG_AFTER
    assert rig.tick() == 1
    agree(rig)
    assert rig.replayed().digest(0) == Stores().digest(0)


def test_a_rename_of_what_is_dead() -> None:
    """There is no such key, and what is at the other name stays."""
    rig = Rig()
    do(rig, "SET to lasting", "SET k v PXAT {end}")
    rig.now_ms = END
    [reply] = do(rig, "RENAME k to")
    assert "no such key" in str(reply)
    assert do(rig, "GET to", "PTTL to") == [b"lasting", -1]
    agree(rig)
