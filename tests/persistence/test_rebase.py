"""A base takes the place of closed segments: what any instant of it, and any failure, leaves of the log."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest

from amemdb.errors import StorageError
from amemdb.persistence.codec import pack_frame
from amemdb.persistence.compaction import Task, compact
from amemdb.persistence.log import Policy
from amemdb.persistence.manifest import Base, base_number
from amemdb.persistence.steps import Append, Prepare, Rebase, TurnOver
from amemdb.stores.records import KEY_DELETED, KEY_SET
from amemdb.stores.stores import Stores
from tests.persistence.simulated import Driven, SimulatedDisk, Stopped

POLICIES: list[Policy] = ["always", "everysec", "no"]
KEYS = 7
T = 1_700_000_000_000


class Compacting(Driven):
    """A log of a few keys that are set again and again, which can be compacted."""

    def __init__(self, disk: SimulatedDisk, policy: Policy = "everysec", **options: int) -> None:
        super().__init__(disk, policy, **options)
        self.stores = Stores()
        for record in self.applied:
            self.stores.apply(record)

    def write(self, number: int, size: int = 10) -> bool:
        key = b"k%d" % (number % KEYS)
        held = key in self.stores.keys.databases[0].values
        record = (KEY_DELETED, 0, key) if held and number % 5 == 4 else (KEY_SET, 0, key, b"%d" % number, 0)
        data = pack_frame(T + number, record)
        if self.log.refuse_write(len(data)) is not None:
            return False
        self.log.append(data)
        self.stores.apply(record)
        return True

    def write_some(self, count: int, first: int = 0) -> None:
        for number in range(first, first + count):
            assert self.write(number)
            self.run()

    def base(self) -> Base:
        """Make a base of all closed segments."""
        log = self.log
        closed = tuple(segment for segment in log.segments if segment.start < log.files.closed_offset)
        task = Task(
            log_id=self.writer.log_id,
            base=log.base,
            segments=closed,
            end=log.files.closed_offset,
            number=log.files.take_number(),
            memory_bytes=1 << 20,
        )
        steps = compact(self.disk, task)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value.base  # type: ignore[no-any-return]

    def compact(self) -> None:
        self.log.rotate()
        self.run(1.0)
        assert self.log.files.compaction_error is None
        self.log.rebase(self.base())
        self.run(1.0)

    @property
    def bases(self) -> list[str]:
        return [name for name in self.disk.names() if base_number(name) is not None]


def digest_of(disk: Any) -> str:
    return Compacting(disk).stores.digest(0)


def started(policy: Policy, seed: int = 1, **options: int) -> Compacting:
    options = {"reserve": 300, **options}
    driven = Compacting(SimulatedDisk(Random(seed)), policy, **options)
    driven.write_some(30)
    return driven


@pytest.mark.parametrize("policy", POLICIES)
def test_a_base_takes_the_place_of_all_that_was_closed(policy: Policy):
    driven = started(policy)
    before = set(driven.disk.names())
    driven.compact()
    log = driven.log
    assert log.base is not None
    assert log.base.offset == log.offset == log.files.closed_offset
    assert len(log.segments) == 1
    assert before & set(driven.disk.names()) == {"log.manifest"}, "what it stands for is gone"
    driven.write_some(20, 30)
    assert digest_of(driven.disk) == driven.stores.digest(0)
    driven.compact()
    assert driven.bases == [log.base.name]
    assert digest_of(driven.disk) == driven.stores.digest(0)
    driven.close()
    assert digest_of(driven.disk) == driven.stores.digest(0)


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_written_meanwhile_follows_the_base(policy: Policy):
    driven = started(policy)
    driven.log.rotate()
    number = 30
    while driven.log.files.compacting:
        driven.write_some(1, number)
        number += 1
        assert number < 50
    base = driven.base()
    driven.write_some(20, number)
    driven.log.rebase(base)
    driven.write_some(20, number + 20)
    assert driven.log.base == base
    assert base.offset < driven.log.offset
    assert digest_of(driven.disk) == driven.stores.digest(0)


@pytest.mark.parametrize("policy", POLICIES)
def test_replies_do_not_wait_for_a_rebase(policy: Policy):
    driven = started(policy)
    driven.early_chance = 0.0
    driven.log.rotate()
    driven.run(1.0)
    driven.log.rebase(driven.base())
    driven.begin()
    assert isinstance(driven.sync, Rebase)
    driven.write(31)
    driven.begin()
    assert isinstance(driven.step, Append)
    driven.finish_step()
    assert driven.log.released_offset == driven.log.offset
    assert driven.log.base is None
    driven.run()
    assert driven.log.base is not None
    assert digest_of(driven.disk) == driven.stores.digest(0)


def test_closing_what_is_closed_already_is_over_at_once():
    driven = started("everysec")
    driven.compact()
    segments = driven.log.segments
    driven.log.rotate()
    assert not driven.log.files.compacting
    driven.run(5.0)
    assert driven.log.segments == segments


def test_room_does_not_grow_with_each_compaction():
    driven = started("everysec", reserve=300)
    sizes = []
    for number in range(30, 40):
        driven.write_some(1, number)
        driven.compact()
        sizes.append(driven.log.room_bytes)
    assert max(sizes) < 1000


@pytest.mark.parametrize(
    ("policy", "end"),
    [("always", "kill"), ("always", "power_cut"), ("everysec", "kill"), ("everysec", "power_cut"), ("no", "kill")],
)
def test_any_instant_of_a_compaction_leaves_the_whole_log(policy: Policy, end: str):
    """Under `no` a power cut may take what was written last, with or without a compaction."""
    instants = 0
    for seed in range(6):
        for stop_in in range(200):
            driven = started(policy, seed, segment_bytes_max=[400, 1 << 20][seed // 2 % 2])
            driven.run(2.0)  # everything is durable
            disk, wanted = driven.disk, driven.stores.digest(0)
            if seed % 2:
                driven.compact()
                driven.write_some(1, 30)
                driven.run(2.0)
                wanted = driven.stores.digest(0)
            disk.stop_in = stop_in
            try:
                driven.compact()
                stopped = False
            except Stopped:
                stopped = True
            getattr(disk, end)()
            assert digest_of(disk) == wanted, f"seed {seed}, operation {stop_in}"
            instants += stopped
            if not stopped:
                break
    assert instants > 6 * 15


@pytest.mark.parametrize("policy", POLICIES)
def test_any_failure_in_a_compaction_leaves_the_log_and_the_next_one_makes_good(policy: Policy):
    failures = 0
    for operation in ("create", "write", "sync", "allocate", "rename", "sync_folder", "remove"):
        for skip in range(8):
            driven = started(policy)
            driven.run(2.0)
            failed = fail_once(driven.disk, operation, skip)
            try:
                driven.compact()
            except (AssertionError, StorageError):
                assert failed
            failures += bool(failed)
            del driven.disk.step  # type: ignore[method-assign]
            driven.write_some(3, 30)
            driven.run(2.0)
            assert driven.log.failure is None
            driven.compact()
            assert driven.log.base is not None
            assert driven.bases[-1] == driven.log.base.name
            assert digest_of(driven.disk) == driven.stores.digest(0), f"{operation} {skip}"
    assert failures > 20


def fail_once(disk: SimulatedDisk, operation: str, skip: int) -> list[str]:
    """Have an operation fail after it went well `skip` times; a list of those that have."""
    failed: list[str] = []
    step = disk.step
    left = skip

    def stepped(name: str) -> None:
        nonlocal left
        if name == operation and not failed:
            left -= 1
            if left < 0:
                failed.append(name)
                disk.faults = {operation: errno.EIO}
        try:
            step(name)
        finally:
            disk.faults = {}

    disk.step = stepped  # type: ignore[method-assign]
    return failed


def test_a_base_that_may_be_in_force_is_removed_only_when_another_one_is():
    """After a commit that failed, a restart may find either manifest: both sets of files must be there."""
    driven = started("everysec")
    driven.log.rotate()
    driven.run(1.0)
    base = driven.base()
    failed = fail_once(driven.disk, "sync_folder", 0)
    driven.log.rebase(base)
    driven.run(1.0)
    assert failed
    assert driven.log.files.compaction_error == "Input/output error"
    assert driven.log.base is None
    assert driven.bases == [base.name]
    assert all(segment.name in driven.disk.names() for segment in driven.log.segments)
    driven.write_some(1, 30)
    driven.compact()
    assert driven.log.base is not None
    assert driven.bases == [driven.log.base.name] != [base.name]


@pytest.mark.parametrize("kind", [Prepare, TurnOver])
def test_a_failing_log_calls_off_what_compaction_asked_for(kind: type):
    driven = started("everysec")
    driven.log.rotate()
    driven.early_chance = 0.0
    while not isinstance(driven.sync, kind):
        assert driven.begin()
        if not isinstance(driven.sync, kind):
            driven.finish()
    driven.disk.faults = {"write": errno.EIO}
    driven.write(30)
    driven.begin()
    driven.finish_step()
    assert driven.log.failure is not None
    assert not driven.log.files.compacting
    assert driven.log.files.compaction_error == "Input/output error"
    driven.disk.faults = {}
    driven.run(3.0)
    assert driven.log.failure is None
    driven.compact()
    assert digest_of(driven.disk) == driven.stores.digest(0)


def test_a_log_that_stops_calls_it_off():
    driven = started("everysec")
    driven.log.rotate()
    driven.close()
    assert driven.log.files.compaction_error == "the server is shutting down"
    assert digest_of(driven.disk) == driven.stores.digest(0)


def test_a_base_that_no_manifest_names_is_removed_at_the_start():
    driven = started("everysec")
    driven.log.rotate()
    driven.run(1.0)
    driven.base()
    assert driven.bases
    driven.close()
    again = Compacting(driven.disk)
    assert again.bases == []
    assert again.stores.digest(0) == driven.stores.digest(0)
