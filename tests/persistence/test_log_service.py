"""The log with its threads on a real folder: releases, slow and failing disks, bugs, stops, and two servers.

All of it with both kinds of threads. A disk that fails on command is one that the twin does not know, so that steps
run in Python in either; what the twin does with files is in `test_log_native.py`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from amemdb import native
from amemdb.errors import StorageError
from amemdb.persistence import log as logs
from amemdb.persistence.disk import FolderDisk, FolderFile
from amemdb.persistence.log import Policy
from amemdb.persistence.steps import Append, Step
from amemdb.persistence.writer import SyncTimes
from amemdb.server.log_service import LogService
from tests.persistence.simulated import frame

PATIENCE_S = 20
needs_native = pytest.mark.skipif(not native.ENABLED, reason=f"needs the twins: {native.MISSING}")


class FaultyFile(FolderFile):
    def __init__(self, descriptor: int, disk: FaultyDisk) -> None:
        super().__init__(descriptor)
        self.disk = disk

    def _write(self, parts: Sequence[bytes | memoryview], position: int) -> int:
        data = b"".join(parts)
        if "write" in self.disk.faults:
            if len(data) < 2:
                self.disk.check("write")
            data = data[: len(data) // 2]  # half of it, and then the error
            if len(data) < 30:
                self.disk.check("write")
        return super()._write([data], position)

    def sync(self) -> None:
        self.disk.check("sync")
        super().sync()

    def allocate(self, position: int, count: int) -> None:
        self.disk.check("allocate")
        super().allocate(position, count)


class FaultyDisk(FolderDisk):
    """A real folder that fails on command, or waits: `hold` makes an operation of the writer's thread wait for `go`."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.faults: dict[str, BaseException] = {}
        self.counts: dict[str, int] = {}
        self.hold: str | None = None
        self.held = threading.Event()
        self.go = threading.Event()

    def check(self, operation: str) -> None:
        self.counts[operation] = self.counts.get(operation, 0) + 1
        if operation == self.hold and threading.current_thread() is not threading.main_thread():
            self.held.set()
            assert self.go.wait(PATIENCE_S)
        if operation in self.faults:
            raise self.faults[operation]

    def _open(self, name: str, flags: int) -> FaultyFile:
        return FaultyFile(os.open(name, flags | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor), self)


class Server:
    """A log service with what it tells."""

    use_native = False

    def __init__(self, folder: Path, policy: Policy = "everysec", **options: int) -> None:
        self.disk = FaultyDisk(str(folder))
        self.releases: list[int] = []
        self.told: list[tuple[str, str]] = []
        self.bugs: list[BaseException] = []
        self.numbers: list[int] = []
        self.service = LogService(
            folder,
            policy,
            on_release=lambda: self.releases.append(self.service.released_offset),
            on_log=lambda level, text: self.told.append((level, text)),
            on_bug=self.bugs.append,
            disk=self.disk,
            use_native=Server.use_native,
            **options,
        )
        self.report = self.service.recover(lambda record: self.numbers.append(record[2]))

    def start(self) -> LogService:
        self.service.start(asyncio.get_running_loop())
        return self.service

    def write(self, number: int, size: int = 10) -> bool:
        """Append frame `number` and end the turn."""
        data = frame(number, size)
        if self.service.refuse_write(len(data)) is not None:
            return False
        self.service.append(data)
        self.service.flush()
        return True

    def abandon(self) -> None:
        """What a kill does, as far as it can be done to oneself: no further step, and the lock is gone."""
        service = self.service
        service._log.closed = True
        for hand in (service._hand, service._sync_hand):
            if hand is not None:
                hand.stop()
        service._unlock()


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.001)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(autouse=True, params=[False, pytest.param(True, marks=needs_native)], ids=["plain", "native"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "use_native", request.param)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that happens once a second happens fifty times."""
    for name in ("SYNC_SECONDS", "RETRY_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(logs, name, 0.02)


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
async def test_frames_are_written_released_and_there_again(folder: Path, policy: Policy):
    server = Server(folder, policy)
    service = server.start()
    assert service.gates_reads == (policy == "always")
    for number in range(200):
        assert server.write(number)
        if number % 7 == 0:
            await asyncio.sleep(0)
    await until(lambda: service.released_offset == service.offset)
    assert server.releases == sorted(set(server.releases)), "told once for each rise"
    if policy == "always":
        assert server.releases[-1] == service.offset
    if policy == "always":
        assert service.status().durable_offset == service.offset
    server.abandon()
    again = Server(folder)
    assert again.numbers == list(range(200))
    assert again.report.cut is None
    again.start()
    await again.service.close()


async def test_nothing_is_released_before_its_sync_has_returned(folder: Path):
    server = Server(folder, "always")
    service = server.start()
    await until(lambda: not server.service._busy)
    server.disk.hold = "sync"
    start = service.released_offset
    server.write(1)
    await until(server.disk.held.is_set)
    await asyncio.sleep(0.02)
    assert service.released_offset == start
    assert server.releases == []
    server.disk.go.set()
    await until(lambda: service.released_offset == service.offset)
    await service.close()


async def test_a_slow_disk_makes_larger_blocks_and_not_a_slower_loop(folder: Path):
    server = Server(folder, "always")
    service = server.start()
    await until(lambda: not server.service._busy)
    server.disk.hold = "sync"
    server.write(0)
    await until(server.disk.held.is_set)
    for number in range(1, 500):
        assert server.write(number)
    before = server.disk.counts["sync"]
    server.disk.hold = None
    server.disk.go.set()
    await until(lambda: service.released_offset == service.offset)
    assert server.disk.counts["sync"] == before + 1, "one sync for all that came meanwhile"
    await service.close()
    again = Server(folder)
    assert again.numbers == list(range(500))
    assert again.report.blocks <= 5
    again.abandon()


async def test_everysec_syncs_by_itself_and_an_idle_log_is_marked(folder: Path):
    server = Server(folder, "everysec")
    service = server.start()
    server.write(1)
    await until(lambda: service.status().durable_offset == service.offset)
    await until(lambda: service._log._marked)
    server.abandon()
    again = Server(folder)
    assert again.report.closed
    again.abandon()


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
async def test_a_failing_disk_loses_nothing_and_comes_back(folder: Path, policy: Policy, operation: str, number: int):
    server = Server(folder, policy)
    service = server.start()
    accepted = 0
    for _ in range(5):
        assert server.write(accepted)
        accepted += 1
    await until(lambda: service.released_offset == service.offset)
    fault = OSError(number, os.strerror(number))
    server.disk.faults = {operation: fault, "allocate": fault}
    assert server.write(accepted)
    accepted += 1
    if not (policy == "no" and operation == "sync"):
        await until(lambda: service.status().error != "")
        assert service.status().error == os.strerror(number)
        assert not server.write(accepted)
        assert (service.refuse_read() is not None) == (policy == "always")
    server.disk.faults = {}
    await until(lambda: service.status().error == "")
    await until(lambda: service.released_offset == service.offset)
    assert server.write(accepted)
    await until(lambda: service.released_offset == service.offset)
    server.abandon()
    again = Server(folder)
    assert again.numbers == list(range(accepted + 1))
    again.abandon()
    assert server.bugs == []


async def test_a_stop_in_order_is_complete(folder: Path):
    server = Server(folder, "no")
    service = server.start()
    for number in range(50):
        server.write(number, 1000)
    await service.close()
    again = Server(folder)
    assert again.numbers == list(range(50))
    assert again.report.closed
    assert again.report.duration_s > 0
    again.abandon()


async def test_a_stop_tries_a_new_file_when_the_old_one_fails(folder: Path):
    server = Server(folder, "everysec")
    service = server.start()
    await until(lambda: not service._busy)
    calls = iter([OSError(errno.EIO, "Input/output error")])
    original = FaultyDisk.check

    def once(disk: FaultyDisk, operation: str) -> None:
        original(disk, operation)
        if operation == "sync" and (error := next(calls, None)) is not None:
            raise error

    server.disk.check = once.__get__(server.disk)
    server.write(1)
    await service.close()
    assert [level for level, _ in server.told] == ["error", "notice"]
    again = Server(folder)
    assert again.numbers == [1]
    again.abandon()


async def test_a_stop_that_loses_something_says_so(folder: Path):
    server = Server(folder, "everysec")
    service = server.start()
    server.write(0)
    await until(lambda: service.status().durable_offset == service.offset)
    server.disk.faults = {"write": OSError(errno.EIO, "Input/output error")}
    server.write(1)
    with pytest.raises(StorageError, match=f"{len(frame(1))} bytes of changes could not be written to {folder}"):
        await service.close()
    again = Server(folder)
    assert again.numbers == [0]
    again.abandon()


async def test_a_bug_in_the_thread_is_handed_over(folder: Path):
    server = Server(folder, "always")
    service = server.start()
    await until(lambda: not service._busy)
    bug = ValueError("not the disk's fault")
    server.disk.faults = {"sync": bug}
    server.write(1)
    await until(lambda: server.bugs != [])
    assert server.bugs == [bug]
    assert service.released_offset < service.offset
    server.abandon()


async def test_a_bug_in_what_is_called_back_is_handed_over(folder: Path):
    server = Server(folder, "always")
    bug = KeyError("a reply")

    def fail() -> None:
        raise bug

    server.service._on_release = fail
    service = server.start()
    server.write(1)
    await until(lambda: server.bugs != [])
    assert server.bugs == [bug]
    service._on_release = lambda: None
    await service.close()


def test_two_servers_do_not_share_a_folder(folder: Path):
    first = Server(folder)
    with pytest.raises(StorageError, match=f"{folder} is in use by process {os.getpid()}"):
        Server(folder)
    first.abandon()
    Server(folder).abandon()


async def test_a_large_frame_waits_for_the_thread_at_work_on_the_file(folder: Path):
    server = Server(folder, "always", reserve_bytes=20_000)
    service = server.start()
    await until(lambda: not service._busy)
    server.disk.hold = "allocate"
    number = 0
    while not server.disk.held.is_set():
        assert server.write(number, 500)
        number += 1
        await asyncio.sleep(0.001)
    threading.Timer(0.05, server.disk.go.set).start()
    assert server.write(number, 100_000)
    assert server.disk.go.is_set(), "it waited"
    await until(lambda: service.released_offset == service.offset)
    assert server.releases[-1] == service.offset
    await service.close()
    assert server.bugs == []
    again = Server(folder)
    assert again.numbers == list(range(number + 1))
    again.abandon()


async def test_refusing_costs_little_when_the_disk_takes_long_to_say_no(folder: Path):
    server = Server(folder, reserve_bytes=1000)
    service = server.start()
    await until(lambda: not service._busy)

    class Slow(OSError):
        """Takes its time."""

    def slow(operation: str) -> None:
        if operation == "allocate":
            server.disk.counts["slow"] = server.disk.counts.get("slow", 0) + 1
            time.sleep(0.01)
            raise Slow(errno.ENOSPC, "No space left on device")

    server.disk.check = slow
    started = time.monotonic()
    for _ in range(1000):
        assert service.refuse_write(5000) == "No space left on device"
    assert time.monotonic() - started < 5
    assert server.disk.counts["slow"] < 100
    assert service.refuse_write(100) is None, "what fits is taken all the same"
    del server.disk.check
    await asyncio.sleep(0.25)
    assert service.refuse_write(5000) is None
    await service.close()


async def test_status_tells_what_info_needs(folder: Path):
    server = Server(folder, "always", segment_bytes_max=4096)
    service = server.start()
    for number in range(40):
        server.write(number, 500)
        await until(lambda: service.released_offset == service.offset)
        await until(lambda: not service._busy and not service._syncing)
    status = service.status()
    assert (status.policy, status.error, status.last_error) == ("always", "", "")
    assert status.offset == status.written_offset == status.durable_offset == service.offset
    assert (status.pending_bytes, status.kept_bytes) == (0, 0)
    assert status.syncs >= 40
    assert status.sync_failures == 0
    assert 0 < status.last_sync_ms <= status.longest_sync_ms
    sizes = [os.stat(server.disk.path(name)).st_size for name in server.disk.names() if name.endswith(".segment")]
    assert len(sizes) - status.segments in (0, 1), "the next one may be prepared"
    assert status.segments > 3
    assert status.disk_bytes == sum(sizes)
    assert status.room_bytes > 0
    await service.close()


async def test_the_policy_changes_at_run_time(folder: Path):
    server = Server(folder, "no")
    service = server.start()
    server.write(0)
    await until(lambda: service.released_offset == service.offset)
    service.set_policy("always")
    assert service.gates_reads
    await until(lambda: service.released_offset == service.offset)
    assert service.status().durable_offset == service.offset
    server.write(1)
    await until(lambda: service.status().durable_offset == service.offset)
    service.set_policy("everysec")
    assert service.status().policy == "everysec"
    await service.close()


async def test_waiting_replies_are_told_when_the_policy_changes(folder: Path):
    """Their offset may be one that was released before the change, and is again after it."""
    server = Server(folder, "no")
    service = server.start()
    server.write(0)
    await until(lambda: service.released_offset == service.offset)
    server.releases.clear()
    service.set_policy("always")
    await until(lambda: server.releases[-1:] == [service.offset])
    await service.close()


def test_a_log_that_was_only_read_can_be_closed(folder: Path):
    server = Server(folder)
    asyncio.run(server.service.close())
    Server(folder).abandon()


def test_a_service_that_never_read_can_be_closed(folder: Path):
    service = LogService(
        folder, "no", on_release=lambda: None, on_log=lambda level, text: None, on_bug=lambda bug: None
    )
    asyncio.run(service.close())
    Server(folder).abandon()


async def test_what_waited_for_a_step_and_was_then_written_here_is_told(folder: Path):
    server = Server(folder, "no")
    service = server.start()
    await until(lambda: not service._busy and not service._syncing)
    service._busy = True
    assert server.write(0)
    assert service.released_offset < service.offset, "its reply waits"
    service._busy = False
    service._go_on()
    await until(lambda: server.releases[-1:] == [service.offset])
    await service.close()


async def test_the_file_size_limit_is_not_asked_for_each_turn(folder: Path, monkeypatch: pytest.MonkeyPatch):
    server = Server(folder)
    service = server.start()
    asked: list[int] = []
    monkeypatch.setattr(FolderDisk, "file_bytes_max", lambda disk: asked.append(1) or 1 << 62)
    turns = 0
    until_s = time.monotonic() + 0.25
    while time.monotonic() < until_s or turns < 10:
        assert server.write(turns, 10)
        turns += 1
    assert 1 <= len(asked) <= 4 + turns // 100
    await service.close()


def test_a_file_size_limit_refuses_writes_until_it_is_lifted(folder: Path):
    """In a process of its own, as the limit is the process's."""
    program = f"""
        import asyncio, resource
        from amemdb.server.log_service import LogService
        from tests.persistence.simulated import frame

        HARD = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

        def limit(count):
            resource.setrlimit(resource.RLIMIT_FSIZE, (count, HARD))

        async def settled(service):
            while service.released_offset < service.offset:
                await asyncio.sleep(0.001)

        async def main():
            told = dict(on_release=lambda: None, on_log=print, on_bug=print)
            service = LogService({str(folder)!r}, "everysec", **told, use_native={Server.use_native})
            service.recover(lambda record: None)
            service.start(asyncio.get_running_loop())
            number = 0
            for bound in (200_000, 300_000, 100):
                limit(bound)
                while service.refuse_write(2000) is None:
                    service.append(frame(number, 1900))
                    number += 1
                    service.flush()
                    await settled(service)
                assert service.status().error == "File too large", service.status()
                assert service.refuse_read() is None
            assert number > 100
            limit(HARD)
            while service.refuse_write(2000) is not None:  # a refusal that took long is repeated for a moment
                await asyncio.sleep(0.001)
            service.append(frame(number, 1900))
            service.flush()
            await service.close()
            print("count", number + 1)

        limit(100_000)
        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stdout + done.stderr
    again = Server(folder)
    assert f"count {len(again.numbers)}\n" in done.stdout
    assert again.numbers == list(range(len(again.numbers)))
    again.abandon()


class Writers:
    """Ten frames in one turn under `always`, then one in each turn; and what steps are made of them."""

    def __init__(self, server: Server, monkeypatch: pytest.MonkeyPatch, sync_ns: int) -> None:
        self.server = server
        self.service = server.start()
        self.groups: list[int] = []
        self.left = 0
        monkeypatch.setattr(SyncTimes, "took", lambda times, spent_ns: setattr(times, "last_ns", sync_ns))
        assert self.service._hand is not None
        self.give = self.service._hand.give
        monkeypatch.setattr(self.service._hand, "give", self._given)

    def _given(self, step: Step) -> None:
        if isinstance(step, Append):
            self.groups.append(sum(len(block.payload) for block in step.blocks) // len(frame(0, 10)))
        self.give(step)

    async def run(self, later: int) -> list[int]:
        """How many frames each step had when `later` of them came one by one after the first release."""
        for number in range(10):
            assert self.service.refuse_write(100) is None
            self.service.append(frame(number, 10))
        self.service.flush()
        self.left = later
        self.service._on_release = self._released
        await until(lambda: not self.left and self.service.released_offset == self.service.offset)
        await self.service.close()
        return [count for count in self.groups if count]

    def _released(self) -> None:
        if not self.server.releases:
            self.server.releases.append(self.service.released_offset)
            asyncio.get_running_loop().call_soon(self._write_one)

    def _write_one(self) -> None:
        if self.left:
            self.left -= 1
            assert self.server.write(99 - self.left)
            asyncio.get_running_loop().call_soon(self._write_one)


async def test_under_always_a_step_waits_for_as_many_frames_as_the_last_one_had(folder, monkeypatch):
    writers = Writers(Server(folder, "always"), monkeypatch, sync_ns=10**12)
    assert await writers.run(later=10) == [10, 10]


async def test_under_always_a_step_waits_no_longer_than_while_turns_bring_more(folder, monkeypatch):
    writers = Writers(Server(folder, "always"), monkeypatch, sync_ns=10**12)
    assert await writers.run(later=4) == [10, 4]


async def test_under_always_a_step_waits_no_longer_than_a_sync_takes(folder, monkeypatch):
    writers = Writers(Server(folder, "always"), monkeypatch, sync_ns=0)
    groups = await writers.run(later=10)
    assert len(groups) > 2
    assert sum(groups) == 20
