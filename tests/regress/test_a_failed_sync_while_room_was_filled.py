"""Under `always`, room is filled ahead and synced. When that sync failed, it was taken for a lack of room, and the next
sync of the same file, which went well, for a sign that all was on disk: but the first one had dropped what else was
unsynced in it. A new segment could lose its header so, and a current one the blocks that were just being written.
"""

from __future__ import annotations

import errno
import os
from random import Random

import pytest

from amemdb.errors import StorageError
from amemdb.persistence import opening
from amemdb.persistence.recovery import RecoveryReport
from amemdb.persistence.steps import Done, Extend
from tests.persistence.simulated import Driven, SimulatedDisk


class FirstSyncFails(SimulatedDisk):
    """A disk on which one sync fails, and no other."""

    failed = False

    def step(self, operation: str) -> None:
        super().step(operation)
        if operation == "sync" and not self.failed:
            self.failed = True
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def open_filled(disk: SimulatedDisk) -> None:
    manifest = opening.read(disk)
    opening.open_log(
        disk,
        manifest,
        RecoveryReport(),
        new_log_id=lambda: b"0123456789abcdef",
        timer_ns=lambda: 0,
        reserve_bytes=20_000,
        report=lambda level, text: None,
        filled=True,
    )


def test_a_new_segment_is_not_trusted() -> None:
    for seed in range(20):
        disk = FirstSyncFails(Random(seed))
        with pytest.raises(StorageError, match="cannot be written"):
            open_filled(disk)
        open_filled(disk)
        disk.power_cut()
        assert Driven(disk).report.offset == 0


def test_the_current_segment_is_given_up() -> None:
    disk = SimulatedDisk(Random(1))
    driven = Driven(disk, "always", reserve=4000)
    driven.write_until(Extend)
    step, driven.sync, driven.synced = driven.sync, None, None
    assert isinstance(step, Extend)
    assert step.filled
    while driven.step is not None:
        driven.finish_step()
    driven.log.done(Done(step, OSError(errno.EIO, os.strerror(errno.EIO)), "sync"), driven.now)
    assert driven.log.failure == os.strerror(errno.EIO)
    driven.run(1.1)
    assert driven.log.failure is None
    assert driven.log.segments[-1].number > step.number, "a new one has taken its place"
