"""When a compaction begins by itself, and how long it does not after it failed. What it does is in `durability`."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from amemdb.errors import StorageError
from amemdb.persistence.disk import FolderDisk
from amemdb.server import compaction
from amemdb.server.compaction import PAUSE_S_MAX, PAUSE_S_MIN, Compaction, Settings


@dataclass
class Status:
    offset: int = 0
    base_offset: int = 0
    base_bytes: int = 0
    error: str = ""


@dataclass
class Log:
    """One whose segments cannot be closed."""

    status_now: Status = field(default_factory=Status)
    rotations: int = 0

    def status(self) -> Status:
        return self.status_now

    async def rotate(self) -> Any:
        self.rotations += 1
        raise StorageError("no room")

    async def rebase(self, base: Any) -> None:
        raise AssertionError("there is no base")


class Rig:
    def __init__(self, folder: Path, percentage: int = 100, size_min: int = 1000) -> None:
        self.log = Log()
        self.now_s = 0.0
        self.told: list[tuple[str, str]] = []
        self.bugs: list[BaseException] = []
        self.dead = [0]
        self.wait_ms = 0
        self.expired: list[int] = []
        self.compaction = Compaction(
            asyncio.get_running_loop(),
            self.log,
            FolderDisk(str(folder)),
            settings=lambda: Settings(percentage, size_min, 1 << 20),
            expire=self._expire,
            expire_in_ms=lambda: self.wait_ms,
            data_size=lambda: (0, 0),
            now_s=lambda: 1_700_000_000.0,
            monotonic_s=lambda: self.now_s,
            report=lambda level, text: self.told.append((level, text)),
            bug=self.bugs.append,
        )

    def _expire(self, count_max: int) -> int:
        self.expired.append(count_max)
        return self.dead.pop(0)

    async def over(self) -> None:
        done = asyncio.Event()
        self.compaction.when_over(done.set)
        await done.wait()


@pytest.mark.parametrize(
    ("status", "due"),
    [
        (Status(offset=999), False),
        (Status(offset=1000), True),
        (Status(offset=5000, base_offset=4001, base_bytes=10), False),
        (Status(offset=5000, base_offset=2500, base_bytes=2501), False),
        (Status(offset=5000, base_offset=2500, base_bytes=2500), True),
        (Status(offset=5000, error="no space left"), False),
    ],
)
async def test_it_is_due_when_the_log_has_grown_enough(status: Status, due: bool, tmp_path: Path):
    rig = Rig(tmp_path)
    rig.log.status_now = status
    assert rig.compaction.due() == due


async def test_it_is_never_due_with_a_percentage_of_0_nor_without_a_change(tmp_path: Path):
    rig = Rig(tmp_path, percentage=0)
    rig.log.status_now = Status(offset=1 << 40)
    assert not rig.compaction.due()
    assert not Rig(tmp_path, size_min=0).compaction.due()


async def test_after_failures_it_waits_longer_and_longer_before_it_begins_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rig = Rig(tmp_path)
    rig.log.status_now = Status(offset=5000)
    monkeypatch.setattr(compaction, "CHECK_S", 3600.0)
    pauses = []
    for _ in range(9):
        begun = rig.log.rotations
        rig.dead = [0]
        rig.compaction._check()
        assert rig.compaction.running
        await rig.over()
        assert rig.log.rotations == begun + 1
        assert rig.compaction.error == "no room"
        failed_s = rig.now_s
        rig.compaction._check()
        assert not rig.compaction.running
        rig.now_s = rig.compaction._not_before_s
        pauses.append(rig.now_s - failed_s)
    assert pauses[:3] == [PAUSE_S_MIN, 2 * PAUSE_S_MIN, 4 * PAUSE_S_MIN]
    assert pauses[-1] == PAUSE_S_MAX < math.inf
    assert {level for level, _ in rig.told} == {"warning"}
    assert rig.bugs == []
    await rig.compaction.stop()


async def test_what_is_dead_is_removed_before_the_log_is_closed(tmp_path: Path):
    rig = Rig(tmp_path)
    batch = compaction.EXPIRE_BATCH_MAX
    rig.dead = [batch, batch, batch - 1]
    rig.compaction.start()
    await rig.over()
    assert rig.expired == [batch] * 3


async def test_what_has_just_died_is_waited_for(tmp_path: Path):
    rig = Rig(tmp_path)
    rig.wait_ms = 30
    rig.compaction.start()
    await asyncio.sleep(0.005)
    assert rig.expired == []
    await rig.over()
    assert len(rig.expired) == 1


async def test_a_bug_is_told_and_does_not_end_in_the_task(tmp_path: Path):
    rig = Rig(tmp_path)
    rig.dead = []
    rig.compaction.start()
    await rig.over()
    assert [type(bug) for bug in rig.bugs] == [IndexError]
