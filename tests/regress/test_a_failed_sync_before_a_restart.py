"""When a sync fails, the system takes what it could not write for written: it can be read, and no later sync brings it
to the disk. A server that was killed then read it back at its next start, took it for durable after a sync of its own,
and after a power cut refused to start, as what it had written behind it spoke of it as durable.
"""

from __future__ import annotations

import errno
from random import Random

import pytest

from amemdb.persistence import recovery
from tests.persistence.simulated import Driven, SimulatedDisk


@pytest.mark.parametrize("before", [1, 40])
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_what_a_failed_sync_has_dropped_is_written_again_by_the_next_start(
    policy: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "MARK_BYTES", 300)
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        driven = Driven(disk, policy)
        for number in range(before):
            driven.write(number)
            driven.run(2.0)
        driven.write(before)
        disk.faults = {"sync": errno.EIO}
        driven.begin()
        while driven.step is not None or driven.sync is not None:
            driven.finish()
        disk.kill()
        driven = Driven(disk, policy)
        count = len(driven.numbers)
        driven.write(count)
        driven.run(2.0)
        disk.power_cut()
        assert Driven(disk).numbers == list(range(count + 1))


def test_a_closing_header_that_a_failed_sync_has_dropped_is_written_again() -> None:
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        driven = Driven(disk, "always")
        driven.write(0)
        driven.run(2.0)  # the closing header is not synced: nothing depends on it
        disk.kill()
        disk.faults = {"sync": errno.EIO}
        with pytest.raises(Exception, match="cannot be written"):
            Driven(disk)
        disk.faults = {}
        driven = Driven(disk, "always")
        driven.write(1)
        driven.run(2.0)
        disk.power_cut()
        assert Driven(disk).numbers == [0, 1]


def test_all_blocks_that_a_failed_sync_has_dropped_are_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: a start looks for the first of them near places that recovery remembers."""
    monkeypatch.setattr(recovery, "MARK_BYTES", 300)
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        driven = Driven(disk, "everysec")
        for number in range(40):
            driven.write(number)
            driven.run(1.0 if number < 20 else 0.0)
        disk.faults = {"sync": errno.EIO}
        driven.now += 1.0
        driven.begin()
        while driven.step is not None or driven.sync is not None:
            driven.finish()
        disk.kill()
        assert Driven(disk).numbers == list(range(40))
        disk.power_cut()
        assert Driven(disk).numbers == list(range(40))
