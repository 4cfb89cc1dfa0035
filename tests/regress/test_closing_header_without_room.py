"""On a disk that was full at the start, a closing header was written where no room was reserved, and cut off again.

The log was opened without room, and marked as closed after a quiet second: the header lay behind the end of the room.
The next try to reserve some failed, and took back what it had got by cutting the file off at that end, header included.
When there was room again, the log went on behind the header that was no more. A restart read zeros there, and then a
header that vouched for what lay behind them: the log was refused as damaged, though every answer had been honest.
"""

from __future__ import annotations

from random import Random

import pytest

from tests.persistence.simulated import Driven, SimulatedDisk

LITTLE = 1000
"""Less than what is reserved, more than a header takes: as the rest of the last block of a file system that is full."""


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
def test_a_log_that_was_quiet_while_the_disk_was_full_is_whole(policy: str) -> None:
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk, policy, reserve=300)
    disk.space = 0
    count = 0
    while driven.write(count):
        driven.run()
        count += 1
    disk.kill()
    disk.space = LITTLE
    driven = Driven(disk, policy)
    for _ in range(3):
        driven.run(1.1)
        disk.space = LITTLE
    disk.space = 1 << 40
    assert driven.write(count)
    driven.run(1.1)
    assert driven.log.failure is None
    driven.close()
    again = Driven(disk, policy)
    assert again.numbers == list(range(count + 1))
    assert again.report.cut is None
