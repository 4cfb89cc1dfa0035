"""What is written on the loop, what beside a sync, and what stays a step; units of several frames and their room."""

from __future__ import annotations

import errno
from random import Random

import pytest

from amemdb.persistence.codec import BLOCK_HEADER_BYTES
from amemdb.persistence.log import HERE_BYTES_MAX
from amemdb.persistence.steps import Append, Extend, Switch
from tests.persistence.simulated import Driven, SimulatedDisk, frame


def opened(policy: str = "everysec", **options: int) -> Driven:
    """A new log that has nothing to do."""
    driven = Driven(SimulatedDisk(Random(1)), policy, **options)
    driven.run()
    driven.run(2.0)
    driven.disk.operations.clear()
    driven.here = True
    return driven


def synced(policy: str = "everysec") -> Driven:
    """One that has written and synced just now, so that no sync is due."""
    driven = opened(policy)
    driven.write(0)
    driven.run()
    assert driven.log.durable_offset == driven.log.offset
    driven.disk.operations.clear()
    return driven


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_a_small_block_is_written_and_released_in_the_same_turn(policy: str):
    driven = opened(policy)
    driven.write(1)
    driven.write(2)
    driven.log.write_here(driven.now)
    assert driven.disk.operations == ["write"]
    assert driven.log.released_offset == driven.log.offset
    again = Driven(driven.disk)
    assert again.numbers == [1, 2]
    assert again.report.blocks == 2, "a closing header and one block"


def test_in_a_busy_second_there_is_nothing_more_to_ask_after_a_write():
    driven = synced()
    driven.write(1)
    assert driven.log.write_here(driven.now), "there is something to sync from now on"
    assert driven.log.due_at() == driven.now + 1.0
    for number in range(2, 20):
        driven.write(number)
        assert not driven.log.write_here(driven.now + number / 100)
    assert driven.log.kept_bytes > 0, "kept until it is synced"
    driven.run(1.0)
    assert driven.log.durable_offset == driven.log.offset
    assert driven.log.kept_bytes == 0


def test_always_writes_nothing_here():
    driven = opened("always")
    driven.write(1)
    assert driven.log.write_here(driven.now)
    assert driven.disk.operations == []
    driven.begin()
    assert isinstance(driven.step, Append)
    assert driven.step.sync


def test_what_is_more_than_a_block_is_left_to_the_thread():
    driven = opened(reserve=1 << 24, segment_bytes_max=1 << 30)
    driven.write(1, HERE_BYTES_MAX)
    assert driven.log.write_here(driven.now)
    assert driven.disk.operations == []
    driven.begin()
    assert isinstance(driven.step, Append)
    driven.finish_step()
    driven.write(2, HERE_BYTES_MAX - 100)
    driven.log.write_here(driven.now)
    assert driven.log.released_offset == driven.log.offset


def test_while_a_step_is_under_way_frames_gather():
    driven = opened(reserve=10_000)
    driven.write_until(Extend)
    driven.write(1)
    driven.begin()
    assert isinstance(driven.step, Append), "not here, as the room is just being changed, but beside that"
    released = driven.log.released_offset
    driven.write(2)
    driven.begin()
    driven.write(3)
    driven.begin()
    assert driven.log.released_offset == released
    driven.finish_step()
    driven.disk.operations.clear()
    driven.begin()
    driven.finish_step()
    assert driven.disk.operations == ["write"], "one block for both"
    assert driven.log.released_offset == driven.log.offset


def test_beside_a_sync_frames_are_written_by_a_step_and_released_before_the_sync_ends():
    driven = synced()
    driven.write(1)
    driven.begin()
    covered = driven.log.offset
    driven.now += 1.0
    driven.begin()
    assert driven.sync is not None
    assert driven.step is None
    driven.write(2)
    assert driven.log.write_here(driven.now), "a write may hang behind the sync"
    driven.begin()
    assert isinstance(driven.step, Append)
    assert not driven.step.sync
    driven.finish_step()
    assert driven.log.released_offset == driven.log.offset
    assert driven.log.durable_offset < covered
    driven.finish_sync()
    assert driven.log.durable_offset == covered, "what came after the sync had begun is not covered"
    assert driven.log.kept_bytes == driven.log.offset - covered
    driven.run(1.0)
    assert driven.log.durable_offset == driven.log.offset


@pytest.mark.parametrize("other", ["always", "no"])
def test_a_policy_that_changes_during_a_sync_waits_for_it(other: str):
    driven = synced()
    driven.write(1)
    driven.run()
    driven.now += 1.0
    driven.begin()
    assert driven.sync is not None
    driven.log.set_policy(other)
    driven.write(2)
    driven.begin()
    assert driven.step is None
    driven.finish_sync()
    driven.run()
    assert driven.log.released_offset == driven.log.offset
    assert driven.log.kept_bytes == 0
    driven.disk.power_cut() if other == "always" else driven.disk.kill()
    assert Driven(driven.disk).numbers == [0, 1, 2]


def test_a_stop_during_a_sync_waits_for_it():
    driven = synced()
    driven.write(1)
    driven.run()
    driven.now += 1.0
    driven.begin()
    driven.write(2)
    driven.log.close()
    driven.begin()
    assert driven.step is None
    driven.finish_sync()
    driven.run()
    assert driven.log.closed
    assert Driven(driven.disk).numbers == [0, 1, 2]


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["everysec", "no"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_write_that_fails_here_goes_to_a_new_segment(policy: str, number: int):
    driven = synced(policy) if policy == "everysec" else opened(policy)
    driven.disk.faults = {"write": number}
    driven.write(1)
    released = driven.log.released_offset
    driven.begin()
    assert driven.log.released_offset == released
    assert driven.log.failure is not None
    assert driven.log.refuse_write(10) == driven.log.failure
    assert driven.log.room < 0
    assert isinstance(driven.step, Switch), "at once"
    driven.finish_step()
    driven.run()
    driven.disk.faults = {}
    driven.run(1.0)
    assert driven.log.failure is None
    assert driven.log.released_offset == driven.log.offset
    assert driven.write(2)
    driven.run()
    assert [level for level, _ in driven.told] == ["error", "notice"]
    assert Driven(driven.disk).numbers == ([0, 1, 2] if policy == "everysec" else [1, 2])


@pytest.mark.parametrize("first", ["sync", "step"])
@pytest.mark.parametrize("fault", ["sync", "write"])
def test_a_failure_beside_another_step_waits_for_it_and_loses_nothing(fault: str, first: str):
    driven = synced()
    driven.write(1)
    driven.begin()
    driven.now += 1.0
    driven.begin()
    assert driven.sync is not None
    driven.synced = None
    driven.write(2)
    driven.begin()
    assert driven.step is not None
    driven.disk.faults = {fault: errno.EIO}
    ends = [driven.finish_sync, driven.finish_step]
    for end in ends if first == "sync" else reversed(ends):
        assert not isinstance(driven.step, Switch), "the file is still being written or synced"
        end()
        driven.begin()
    assert driven.log.failure is not None
    driven.disk.faults = {}
    driven.run(1.0)
    assert driven.log.failure is None
    assert driven.log.durable_offset == driven.log.offset
    assert driven.log.kept_bytes == 0
    driven.disk.power_cut()
    assert Driven(driven.disk).numbers == [0, 1, 2]


# -- units of several frames -----------------------------------------------------------------------


def test_a_unit_of_several_frames_is_never_divided():
    driven = opened(reserve=1 << 24, segment_bytes_max=1 << 30)
    units = [b"".join(frame(10 * unit + index, 60_000) for index in range(3)) for unit in range(4)]
    for unit in units:
        assert driven.log.refuse_write(len(unit)) is None
        driven.log.append(unit)
    driven.begin()
    assert isinstance(driven.step, Append)
    assert [block.payload for block in driven.step.blocks] == units
    driven.finish_step()
    assert driven.log.offset == sum(map(len, units))
    assert Driven(driven.disk).numbers == [10 * unit + index for unit in range(4) for index in range(3)]


def test_room_says_what_one_more_unit_may_have():
    driven = opened(reserve=1000)
    driven.disk.space = 0
    log = driven.log
    assert log.room < 0, "nothing is granted before somebody has asked"
    assert log.refuse_write(10) is None
    room = log.room
    assert 500 < room < 1000
    log.append(frame(0))
    assert log.room == room - len(frame(0)) - BLOCK_HEADER_BYTES
    assert log.refuse_write(log.room) is None
    assert log.refuse_write(log.room + 1) is not None
    last = frame(1, log.room - len(frame(1, 0)) - 5)
    last = frame(1, 300 + log.room - len(frame(1, 300)))
    log.append(last)
    assert log.room == -BLOCK_HEADER_BYTES
    log.end_turn()
    assert log.room < -len(last), "a grant is for one turn"
    driven.run()
    assert log.failure is None
    assert Driven(driven.disk).numbers == [0, 1]
