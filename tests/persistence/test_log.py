"""When the log writes, syncs, marks, grows and begins new files, and what it refuses and releases meanwhile."""

from __future__ import annotations

import errno
from random import Random

import pytest

from amemdb.persistence.codec import BLOCK_BYTES_SOFT, BLOCK_HEADER_BYTES, FRAME_BYTES_MAX, SEGMENT_HEADER_BYTES
from amemdb.persistence.log import TELL_SECONDS
from amemdb.persistence.steps import Append, Close, Extend, Mark, TurnOver
from tests.persistence.simulated import Driven, SimulatedDisk, frame

POLICIES = ["always", "everysec", "no"]
NO_SPACE = "No space left on device"
IO_ERROR = "Input/output error"


def opened(policy: str = "everysec", **options: int) -> Driven:
    """A new log that has nothing to do."""
    driven = Driven(SimulatedDisk(Random(1)), policy, **options)
    driven.run()
    driven.run(2.0)
    driven.disk.operations.clear()
    return driven


# -- what is released when -------------------------------------------------------------------------


def test_always_releases_what_was_synced():
    driven = opened("always")
    start = driven.log.released_offset
    assert driven.write(1)
    assert driven.log.gates_reads
    assert driven.begin()
    assert driven.log.released_offset == start
    driven.finish()
    assert driven.log.released_offset == driven.log.offset == driven.log.durable_offset
    assert driven.disk.operations == ["write", "sync"]


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_the_other_policies_release_what_was_written(policy: str):
    driven = opened(policy)
    start = driven.log.released_offset
    driven.write(1)
    assert not driven.log.gates_reads
    driven.begin()
    assert driven.log.released_offset == start, "not before the write has returned"
    driven.finish()
    assert driven.log.released_offset == driven.log.offset
    assert driven.log.durable_offset == start
    assert driven.disk.operations == ["write"]


def test_one_sync_covers_all_that_came_while_the_writer_was_busy():
    driven = opened("always")
    driven.write(0)
    driven.begin()
    for number in range(1, 50):
        driven.write(number)
        driven.log.end_turn()
    driven.finish()
    driven.run()
    assert driven.disk.operations == ["write", "sync", "write", "sync"]
    assert driven.log.durable_offset == driven.log.offset
    assert Driven(driven.disk).report.blocks == 2 + 1, "the closing header of the start, and two blocks"


def test_everysec_syncs_at_most_once_a_second_and_only_what_is_new():
    driven = opened("everysec")
    syncs = 0
    for tick in range(100):  # ten seconds
        driven.write(tick)
        driven.run(0.1)
        syncs = driven.disk.operations.count("sync")
        assert syncs <= 1 + (tick + 1) // 10
    assert syncs >= 9
    driven.run(1.0)
    driven.disk.operations.clear()
    for _ in range(50):
        driven.run(0.1)
    assert "sync" not in driven.disk.operations, "nothing is left to sync"


def test_everysec_says_when_it_wants_to_sync():
    driven = opened("everysec")
    driven.write(1)
    driven.run()
    first = driven.disk.operations.count("sync")
    driven.write(2)
    driven.run()
    assert driven.log.durable_offset < driven.log.offset
    assert driven.log.due_at() == driven.now + 1.0
    driven.run(0.99)
    assert driven.disk.operations.count("sync") == first
    driven.run(0.01)
    assert driven.log.durable_offset == driven.log.offset


def test_no_never_syncs_by_itself():
    driven = opened("no")
    for number in range(20):
        driven.write(number)
        driven.run(1.0)
    assert "sync" not in driven.disk.operations
    assert driven.log.due_at() == float("inf")
    assert driven.log.kept_bytes == 0


@pytest.mark.parametrize(("policy", "kept"), [("always", False), ("everysec", True), ("no", False)])
def test_frames_are_kept_until_they_are_safe(policy: str, kept: bool):
    driven = opened(policy)
    driven.write(1)
    driven.run()
    driven.write(2)
    assert driven.log.kept_bytes >= len(frame(2))
    driven.run()
    assert (driven.log.kept_bytes > 0) == kept
    driven.run(1.0)
    assert driven.log.kept_bytes == 0


def test_the_policy_can_change_while_it_runs():
    driven = opened("no")
    driven.write(1)
    driven.run()
    driven.log.set_policy("always")
    assert driven.log.released_offset < driven.log.offset, "what was only written is no longer enough"
    driven.run()
    assert driven.log.released_offset == driven.log.offset
    driven.log.set_policy("everysec")
    driven.write(2)
    driven.run()
    assert driven.log.released_offset == driven.log.offset
    assert driven.log.policy == "everysec"


# -- blocks and closing headers --------------------------------------------------------------------


def test_a_turns_frames_are_one_block():
    driven = opened()
    for number in range(20):
        driven.write(number)
    driven.begin()
    assert isinstance(driven.step, Append)
    assert [block.payload for block in driven.step.blocks] == [b"".join(frame(number) for number in range(20))]


def test_a_flood_of_frames_becomes_several_blocks_of_whole_frames():
    driven = opened(reserve=1 << 24, segment_bytes_max=1 << 30)
    sizes = [BLOCK_BYTES_SOFT // 3] * 7 + [BLOCK_BYTES_SOFT * 2, 5, 5]
    for number, size in enumerate(sizes):
        assert driven.write(number, size)
    driven.begin()
    step = driven.step
    assert isinstance(step, Append)
    assert [len(block.payload) // BLOCK_BYTES_SOFT for block in step.blocks] == [0, 0, 0, 0, 2, 0]
    whole = {frame(number, size) for number, size in enumerate(sizes)}
    for before, after in zip(step.blocks, step.blocks[1:], strict=False):
        assert before.end == after.offset
    for block in step.blocks:
        assert len(block.payload) <= BLOCK_BYTES_SOFT or block.payload in whole
    driven.finish()
    assert Driven(driven.disk).numbers == list(range(10))


def test_an_idle_log_gets_one_closing_header():
    driven = opened("always")
    driven.write(1)
    driven.run()
    driven.disk.operations.clear()
    driven.run(0.9)
    assert driven.disk.operations == []
    assert driven.log.due_at() == pytest.approx(driven.now + 0.1)
    driven.now += 0.2
    driven.begin()
    assert isinstance(driven.step, Mark)
    driven.finish()
    for _ in range(5):
        driven.run(1.0)
    assert driven.disk.operations == ["write"]
    report = Driven(driven.disk).report
    assert report.closed
    assert report.durable_offset == report.offset


def test_nothing_is_vouched_for_that_is_not_durable():
    driven = opened("no")
    driven.write(1)
    driven.run()
    driven.run(5.0)
    assert Driven(driven.disk).report.durable_offset == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_a_clean_stop_leaves_exactly_the_blocks(policy: str):
    driven = opened(policy)
    for number in range(3):
        driven.write(number)
    driven.close()
    driven.disk.power_cut()
    again = Driven(driven.disk)
    assert again.numbers == [0, 1, 2]
    assert again.report.closed
    assert again.report.durable_offset == again.report.offset


def test_a_stopped_log_has_no_reserved_rest():
    driven = opened()
    driven.write(0)
    driven.close()
    assert len(driven.disk.file(driven.log.segments[-1].name)) == (
        SEGMENT_HEADER_BYTES + 3 * BLOCK_HEADER_BYTES + len(frame(0))
    )


def test_a_log_that_is_stopping_takes_nothing_more():
    driven = opened()
    driven.write(0)
    driven.log.close()
    assert "shutting down" in (driven.log.refuse_write(10) or "")
    driven.begin()
    assert isinstance(driven.step, Close)
    driven.finish()
    assert driven.log.take(driven.now) is None


# -- room ------------------------------------------------------------------------------------------


def test_room_is_reserved_ahead_in_the_background():
    driven = opened(reserve=10_000)
    for number in range(200):
        assert driven.write(number, 100)
        allocations = driven.disk.operations.count("allocate")
        driven.begin()
        assert driven.disk.operations.count("allocate") == allocations, "a frame of ordinary size finds its room"
        driven.finish()
        driven.run()
        assert driven.log.room_bytes >= 5_000


def test_a_frame_larger_than_the_room_reserves_its_own():
    driven = opened(reserve=1000)
    assert driven.write(0, 50_000)
    assert driven.disk.operations == ["allocate"]
    driven.run()
    assert Driven(driven.disk).numbers == [0]


def test_without_room_writes_are_refused_and_come_back_by_themselves():
    driven = opened(reserve=1000)
    driven.disk.space = 0
    accepted = 0
    while driven.write(accepted):
        accepted += 1
        driven.run()
        assert accepted < 100
    assert accepted > 5
    assert driven.log.refuse_write(100) == NO_SPACE
    assert driven.log.error == NO_SPACE
    assert driven.log.refuse_read() is None, "reads go on"
    assert driven.log.released_offset == driven.log.offset, "and all that was accepted was written"
    driven.disk.space = 1 << 20
    assert driven.write(accepted), "the next write after there is space again"
    assert driven.log.error == ""
    driven.run()
    assert Driven(driven.disk).numbers == list(range(accepted + 1))


def test_a_refusal_is_told_once_and_so_is_its_end():
    driven = opened(reserve=1000)
    driven.disk.space = 0
    for _ in range(100):
        driven.write(0, 5000)
        driven.run(0.01)
    driven.disk.space = 1 << 20
    driven.write(0, 5000)
    driven.run(TELL_SECONDS / 2)
    driven.disk.space = 0
    driven.write(0, 50_000)
    driven.run(0.01)
    told = [text for _, text in driven.told if "writes are" in text]
    assert len(told) == 1, "it comes and goes, so the last that is said must not be that it is over"
    assert NO_SPACE in told[0]
    driven.disk.space = 1 << 20
    for _ in range(3):
        driven.run(TELL_SECONDS)
        driven.write(0, 5000)
    told = [text for _, text in driven.told if "writes are" in text]
    assert len(told) == 2
    assert "accepted" in told[1]


def test_a_refused_reservation_gives_back_what_it_had_taken():
    driven = opened(reserve=1000)
    driven.disk.space = 30_000
    assert not driven.write(0, 50_000)
    assert driven.disk.space == 30_000
    assert driven.write(0, 20_000), "a smaller frame still fits"


def test_the_last_room_on_a_disk_is_used():
    driven = opened(reserve=100_000)
    driven.disk.space = 20_000
    written = 0
    while driven.write(written, 100):
        driven.run()
        written += 1
    assert driven.disk.space < 300
    assert written > 120_000 // 200


def test_a_lowered_file_size_limit_refuses_before_anything_is_accepted():
    driven = opened(reserve=10_000)
    driven.disk.limit = 100
    assert not driven.write(0)
    assert driven.log.error == "File too large"
    driven.disk.limit = 5_000
    assert driven.write(0), "what is reserved below the limit can be used"
    driven.run()
    driven.disk.limit = 100
    assert not driven.write(1), "the limit is looked at in every turn"
    driven.disk.limit = 1 << 40
    assert driven.write(1)


def test_room_is_counted_over_all_frames_of_a_turn():
    driven = opened(reserve=1000)
    driven.disk.space = 0
    accepted = 0
    while driven.write(accepted, 50):
        accepted += 1
        assert accepted < 50
    driven.run()
    assert driven.log.failure is None
    assert Driven(driven.disk).numbers == list(range(accepted))


def test_room_is_asked_for_only_when_nobody_else_is_at_the_file():
    driven = opened(reserve=1000)
    driven.write_until(Extend)
    assert driven.write(1, 30_000)
    assert driven.sync is None, "the reservation under way was settled first"
    driven.run()
    assert driven.log.failure is None


def test_a_change_that_no_block_can_hold_is_refused():
    driven = opened()
    assert "at once" in (driven.log.refuse_write(FRAME_BYTES_MAX + 1) or "")
    assert driven.log.error == "", "that is the caller's affair, not the disk's"


# -- new segments ----------------------------------------------------------------------------------


def test_a_full_segment_is_followed_by_a_new_one():
    driven = opened(segment_bytes_max=2000, reserve=1000)
    for number in range(60):
        assert driven.write(number)
        driven.run()
    segments = driven.log.segments
    assert len(segments) > 2
    for segment in segments[:-1]:
        assert len(driven.disk.file(segment.name)) < 2200, "without the reserved rest"
    assert driven.log.disk_bytes == sum(len(driven.disk.file(segment.name)) for segment in segments)
    assert Driven(driven.disk).numbers == list(range(60))


def test_while_a_new_segment_cannot_be_made_the_old_one_grows_on():
    driven = opened(segment_bytes_max=2000, reserve=1000)
    driven.disk.faults = {"create": errno.EACCES}
    for number in range(60):
        assert driven.write(number)
        driven.run(0.1)
    assert len(driven.log.segments) == 1
    attempts = driven.disk.operations.count("create")
    assert 2 <= attempts <= 7, "once a second"
    assert sum("cannot be made" in text for _, text in driven.told) == 1
    driven.disk.faults = {}
    driven.run(1.0)
    assert len(driven.log.segments) == 2
    assert Driven(driven.disk).numbers == list(range(60))


def test_an_empty_segment_is_not_followed_by_another():
    driven = opened(segment_bytes_max=10)
    driven.run(5.0)
    assert "create" not in driven.disk.operations
    driven.write(1)
    driven.run()
    assert driven.disk.operations.count("create") == 3, "one segment, one manifest before it and one with it"


def test_the_room_that_was_granted_survives_a_change_of_segments():
    driven = opened(segment_bytes_max=2000, reserve=1000)
    number = driven.write_until(TurnOver)
    driven.disk.space = 1200
    while driven.write(number):
        number += 1
    driven.run()
    assert driven.log.failure is None
    assert driven.log.written_offset == driven.log.offset
    assert Driven(driven.disk).numbers == list(range(number))


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_after_a_failure_everything_is_written_to_a_new_segment(policy: str, operation: str, number: int):
    driven = opened(policy)
    driven.write(0)
    driven.run(1.0)
    driven.disk.faults = {operation: number}
    driven.write(1)
    driven.run(1.0)
    driven.write(2)
    driven.run(1.0)
    driven.disk.faults = {}
    driven.run(1.0)
    if driven.log.failure is None and policy != "no":
        assert len(driven.log.segments) == 2
    assert driven.log.error == ""
    assert driven.log.durable_offset == driven.log.offset or policy == "no"
    assert driven.write(3)
    driven.close()
    numbers = Driven(driven.disk).numbers
    assert numbers in ([0, 1, 3], [0, 1, 2, 3]), "2 was refused unless the failure could not be noticed yet"


def test_while_a_failure_lasts_writes_are_refused_and_retried_once_a_second():
    driven = opened("everysec")
    driven.write(0)
    driven.run(1.0)
    driven.disk.faults = {"write": errno.EIO}
    driven.write(1)
    released = driven.log.released_offset
    driven.run()
    assert driven.log.refuse_write(10) == IO_ERROR
    assert driven.log.error == IO_ERROR
    assert driven.log.refuse_read() is None, "reads go on under everysec"
    assert driven.log.released_offset == released, "the reply to 1 must wait"
    driven.disk.operations.clear()
    for _ in range(50):
        driven.run(0.1)
    assert 4 <= driven.disk.operations.count("create") <= 6
    assert driven.log.due_at() <= driven.now + 1.0
    assert not any("unused" in name for name in driven.disk.names())
    driven.disk.faults = {}
    driven.run(1.0)
    assert driven.log.released_offset == driven.log.offset
    assert driven.log.durable_offset == driven.log.offset, "a new segment is trusted because it was synced"
    assert driven.write(2)
    driven.run()
    assert Driven(driven.disk).numbers == [0, 1, 2]
    assert [level for level, _ in driven.told] == ["error", "notice"], "its beginning and its end"


def test_a_sync_that_fails_once_is_not_asked_again():
    """The kernel reports a lost page once and calls the next sync a success; the file must not be believed."""
    driven = opened("always")
    driven.write(0)
    driven.run()
    driven.disk.faults = {"sync": errno.EIO}
    driven.write(1)
    driven.begin()
    driven.finish()
    assert driven.log.durable_offset < driven.log.offset
    driven.disk.faults = {}
    driven.run()
    assert [segment.number for segment in driven.log.segments] == [1, 2]
    assert driven.log.released_offset == driven.log.offset
    driven.disk.power_cut()
    assert Driven(driven.disk).numbers == [0, 1]


def test_under_always_reads_are_refused_while_something_is_not_durable():
    driven = opened("always")
    driven.write(0)
    driven.run()
    driven.disk.faults = {"sync": errno.EIO, "create": errno.EIO}
    assert driven.log.refuse_read() is None
    driven.write(1)
    driven.run()
    assert driven.log.refuse_read() == IO_ERROR
    driven.log.set_policy("everysec")
    assert driven.log.refuse_read() is None
    driven.log.set_policy("always")
    driven.disk.faults = {}
    driven.run(1.0)
    assert driven.log.refuse_read() is None


def test_under_always_reads_go_on_when_only_room_is_missing():
    driven = opened("always", reserve=1000)
    driven.disk.space = 0
    assert not driven.write(0, 5000)
    assert driven.log.refuse_read() is None


@pytest.mark.parametrize("operation", ["rename", "sync_folder"])
@pytest.mark.parametrize("end", ["kill", "power_cut"])
def test_a_manifest_that_may_be_in_force_is_reckoned_with(operation: str, end: str):
    """Replacing the manifest fails half way, more is written, and then everything stops: nothing is missing."""
    for seed in range(20):
        disk = SimulatedDisk(Random(seed))
        driven = Driven(disk, "always", segment_bytes_max=300)
        count = 0
        disk.fault_chance = 0.5
        disk.faults = {operation: errno.EIO}
        for _ in range(20):
            if driven.write(count):
                count += 1
            driven.run(0.3)
        safe = driven.log.durable_offset
        getattr(disk, end)()
        again = Driven(disk)
        assert again.report.offset >= safe
        assert again.numbers == list(range(len(again.numbers)))


def test_nothing_old_is_removed_before_the_new_is_in_force():
    driven = opened("always")
    driven.write(0)
    driven.disk.faults = {"sync": errno.EIO}
    driven.begin()
    driven.finish()
    assert len(driven.disk.names()) == 2
    driven.disk.faults = {}
    driven.run()
    assert [segment.start for segment in driven.log.segments] == [0], "the first one held nothing durable: replaced"
    assert driven.disk.names() == ["log-0000000002.segment", "log.manifest"]
    assert Driven(driven.disk).numbers == [0]
