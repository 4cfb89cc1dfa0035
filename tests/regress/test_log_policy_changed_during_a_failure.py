"""The policy goes from `everysec` to `no` while a failed segment waits to be written again.

Under `no`, frames leave memory once written, and so left all that the failed file held without having synced it; the
new segment then began behind them. Nothing leaves memory any more while the file that holds it is not trusted.
"""

from __future__ import annotations

import errno
from random import Random

from tests.persistence.simulated import Driven, SimulatedDisk


def test_nothing_leaves_memory_before_the_new_segment_has_it():
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk, "everysec")
    driven.run()
    for number in range(3):
        assert driven.write(number)
        driven.run()
    disk.faults = {"sync": errno.EIO}
    driven.run(1.0)
    assert driven.log.failure is not None
    kept_bytes = driven.log.kept_bytes
    assert kept_bytes > 0
    driven.log.set_policy("no")
    assert driven.log.kept_bytes == kept_bytes
    disk.faults = {}
    driven.run(1.0)
    assert driven.log.durable_offset == driven.log.offset
    disk.power_cut()
    assert Driven(disk).numbers == [0, 1, 2]
