"""The twin that writes blocks and syncs without the interpreter: the same bytes, the same failures, no GIL.

A real disk cannot be made to fail on command, but a descriptor can be made to mean another file: /dev/full takes
nothing, and /dev/null takes everything and cannot be synced.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from amemdb import native
from amemdb.persistence import log as logs
from amemdb.persistence.codec import BLOCK_HEADER_BYTES, pack_block_header
from amemdb.persistence.disk import FILE_GONE
from amemdb.persistence.log import Policy
from amemdb.persistence.writer import failure
from amemdb.server.log_service import LogService
from tests.persistence.simulated import frame

pytestmark = pytest.mark.skipif(not native.ENABLED, reason=f"needs the twins: {native.MISSING}")
if native.ENABLED:
    from amemdb.persistence._writing import Jobs, Tail

LOG_ID = bytes(range(16))
PATIENCE_S = 20


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


def become(descriptor: int, path: str) -> None:
    """Have `descriptor` mean another file."""
    other = os.open(path, os.O_RDWR)
    os.dup2(other, descriptor, inheritable=False)
    os.close(other)


# -- blocks ----------------------------------------------------------------------------------------


def test_headers_are_those_of_the_reference():
    random = Random(1)
    for _ in range(2000):
        log_id, number = random.randbytes(16), random.getrandbits(random.choice([8, 63]))
        offset = random.getrandbits(random.choice([10, 63]))
        place = random.getrandbits(random.choice([16, 62])), offset, random.randint(0, offset)
        payload = random.randbytes(random.choice([0, 1, 7, 8, 9, 15, 16, 17, 150, 5000]))
        expected = pack_block_header(log_id, number, *place, payload)
        assert Tail(-1, log_id, number).header(*place, payload) == expected


def test_a_block_is_header_and_payload_where_it_belongs(file: int):
    tail = Tail(file, LOG_ID, 3)
    assert tail.write(1000, 50, 20, b"payload") == 0
    assert os.pread(file, 2000, 1000) == pack_block_header(LOG_ID, 3, 1000, 50, 20, b"payload") + b"payload"


def test_failures_come_back_as_the_systems_numbers(file: int, tmp_path: Path):
    tail = Tail(file, LOG_ID, 1)
    (tmp_path / "file").unlink()
    assert tail.write(0, 0, 0, b"x") == errno.ENOENT
    assert (failure(errno.ENOENT).errno, failure(errno.ENOENT).strerror) == (errno.ENOENT, FILE_GONE)
    become(file, "/dev/full")
    assert tail.write(0, 0, 0, b"x") == errno.ENOSPC
    assert str(failure(errno.ENOSPC)) == str(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert Tail(-1, LOG_ID, 1).write(0, 0, 0, b"x") == errno.EBADF


@pytest.mark.parametrize("limit", [1, 39, 40, 41, 500])
def test_a_write_that_the_system_takes_in_part_goes_on_behind_it(tmp_path: Path, limit: int):
    """In a process of its own: a file size limit has the system take what fits, and refuse the rest."""
    program = f"""
        import errno, os, resource, signal
        from amemdb.persistence._writing import Tail
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        file = os.open({str(tmp_path / "file")!r}, os.O_RDWR | os.O_CREAT)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, -1))
        assert Tail(file, {LOG_ID!r}, 1).write(0, 0, 0, b"p" * 1000) == errno.EFBIG
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
    whole = pack_block_header(LOG_ID, 1, 0, 0, 0, b"p" * 1000) + b"p" * 1000
    assert (tmp_path / "file").read_bytes() == whole[:limit]


# -- the thread ------------------------------------------------------------------------------------


class Thread:
    """Jobs, and a thread that serves them."""

    def __init__(self) -> None:
        self.notice = os.eventfd(0, os.EFD_NONBLOCK)
        self.jobs = Jobs(self.notice)
        self.asked = 0
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self) -> None:
        while self.jobs.serve():
            self.asked += 1
            self.jobs.tell()

    def finish(self) -> None:
        """Wait for the job without letting any other thread have the GIL."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not self.jobs.finished():
                assert time.monotonic() < deadline, "the job needs the GIL"
        finally:
            sys.setswitchinterval(interval)


@pytest.fixture
def thread() -> Iterator[Thread]:
    thread = Thread()
    yield thread
    thread.jobs.stop()
    thread.thread.join(PATIENCE_S)
    assert not thread.thread.is_alive()
    os.close(thread.notice)


def test_blocks_are_written_and_synced_without_the_gil(thread: Thread, file: int):
    tail = Tail(file, LOG_ID, 2)
    blocks = tuple((100 + 10 * index, b"0123456789") for index in range(50))
    thread.jobs.append(tail, 64, blocks, 90, True)
    thread.finish()
    assert (thread.jobs.error, thread.jobs.synced) == (0, True)
    assert thread.jobs.sync_ns > 0
    position = 64
    for offset, payload in blocks:
        header = pack_block_header(LOG_ID, 2, position, offset, 90, payload)
        assert os.pread(file, BLOCK_HEADER_BYTES + len(payload), position) == header + payload
        position += BLOCK_HEADER_BYTES + len(payload)
    thread.jobs.append(tail, position, ((600, b"more"),), 600, False)
    thread.finish()
    assert (thread.jobs.error, thread.jobs.synced) == (0, False)
    thread.jobs.sync(tail)
    thread.finish()
    assert (thread.jobs.error, thread.jobs.synced) == (0, True)
    assert not thread.jobs.finished(), "each end is told once"
    assert thread.asked == 0


def test_blocks_are_written_and_synced_twice_while_one_file_follows_another(thread: Thread, file: int, tmp_path: Path):
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    tail, copy = Tail(file, LOG_ID, 2), Tail(other, LOG_ID, 3)
    blocks = ((7, b"one"), (10, b"two"))
    thread.jobs.append(tail, 500, blocks, 7, True, copy, 64)
    thread.finish()
    assert (thread.jobs.error, thread.jobs.synced) == (0, True)
    for descriptor, number, position in ((file, 2, 500), (other, 3, 64)):
        for offset, payload in blocks:
            whole = pack_block_header(LOG_ID, number, position, offset, 7, payload) + payload
            assert os.pread(descriptor, len(whole), position) == whole
            position += len(whole)
    for spoilt, synced in (("/dev/full", False), ("/dev/null", True)):
        become(other, spoilt)
        thread.jobs.append(tail, 0, blocks, 7, True, copy, 0)
        thread.finish()
        assert thread.jobs.error in (errno.ENOSPC, errno.EINVAL)
        assert thread.jobs.synced == synced
    thread.jobs.append(tail, 0, blocks, 7, True)
    thread.finish()
    assert thread.jobs.error == 0, "the other one is forgotten"
    os.close(other)


def test_a_step_for_python_leaves_the_loop_and_comes_back(thread: Thread, file: int):
    for count in range(1, 4):
        thread.jobs.ask()
        deadline = time.monotonic() + PATIENCE_S
        while not thread.jobs.finished():
            assert time.monotonic() < deadline
            time.sleep(0)
        assert thread.asked == count
        thread.jobs.sync(Tail(file, LOG_ID, 1))
        thread.finish()


def test_the_thread_tells_what_failed(thread: Thread, file: int):
    tail = Tail(file, LOG_ID, 1)
    become(file, "/dev/full")
    thread.jobs.append(tail, 0, ((0, b"x"), (1, b"y")), 0, True)
    thread.finish()
    assert (thread.jobs.error, thread.jobs.synced) == (errno.ENOSPC, False)
    become(file, "/dev/null")
    thread.jobs.append(tail, 0, ((0, b"x"),), 0, True)
    thread.finish()
    assert (thread.jobs.error, thread.jobs.synced) == (errno.EINVAL, True)
    thread.jobs.sync(tail)
    thread.finish()
    assert (thread.jobs.error, thread.jobs.synced) == (errno.EINVAL, True)


# -- the service on a real folder ------------------------------------------------------------------


class Server:
    """A log service that uses the twin."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        self.numbers: list[int] = []
        self.releases: list[int] = []
        self.told: list[str] = []
        self.bugs: list[BaseException] = []
        self.service = LogService(
            folder,
            policy,
            on_release=lambda: self.releases.append(self.service.released_offset),
            on_log=lambda level, text: self.told.append(level),
            on_bug=self.bugs.append,
        )
        self.service.recover(lambda record: self.numbers.append(record[2]))

    async def start(self) -> LogService:
        """Serve, and wait until there is nothing to do at first."""
        self.service.start(asyncio.get_running_loop())
        await self.until(lambda: not self.service._busy)
        assert self.service._writer.tail(1) is not None
        return self.service

    def write(self, number: int, size: int = 10) -> bool:
        data = frame(number, size)
        if self.service.refuse_write(len(data)) is not None:
            return False
        self.service.append(data)
        self.service.flush()
        return True

    def spoil(self, path: str) -> None:
        """Have the segment be another file from now on."""
        writer = self.service._writer
        file = writer._open[self.service._log.segments[-1].number].file
        become(file.descriptor, path)  # type: ignore[attr-defined]

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SYNC_SECONDS", "RETRY_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(logs, name, 0.02)


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
async def test_what_the_twin_wrote_reads_back(tmp_path: Path, policy: Policy):
    server = Server(tmp_path, policy)
    service = await server.start()
    for number in range(300):
        assert server.write(number, 600_000 if number == 100 else 10)
        if number % 7 == 0:
            await asyncio.sleep(0.001)
    await server.until(lambda: service.released_offset == service.offset)
    if policy != "no":
        await server.until(lambda: service.status().durable_offset == service.offset)
        assert 0 < service.status().last_sync_ms <= service.status().longest_sync_ms
    await service.close()
    assert server.bugs == []
    again = Server(tmp_path, policy)
    assert again.numbers == list(range(300))
    await again.service.close()


async def test_a_small_block_is_released_when_flush_returns(tmp_path: Path):
    server = Server(tmp_path, "no")
    service = await server.start()
    for number in range(100):
        assert server.write(number)
        assert service.released_offset == service.offset
    assert server.releases == [], "those who wait are told, and nobody had to"
    await service.close()


@pytest.mark.parametrize("path", ["/dev/full", "/dev/null"])
@pytest.mark.parametrize("policy", ["always", "everysec"])
async def test_a_file_that_fails_gives_way_to_a_new_one(tmp_path: Path, policy: Policy, path: str):
    server = Server(tmp_path, policy)
    service = await server.start()
    assert server.write(0)
    await server.until(lambda: service.status().durable_offset == service.offset)
    server.spoil(path)
    assert server.write(1)
    await server.until(lambda: server.told == ["error", "notice"])
    await server.until(lambda: service.status().durable_offset == service.offset)
    assert service.status().sync_failures == (path == "/dev/null")
    assert server.write(2)
    await server.until(lambda: service.released_offset == service.offset)
    await service.close()
    assert server.bugs == []
    again = Server(tmp_path, policy)
    assert again.numbers == [0, 1, 2]
    await again.service.close()


async def test_a_write_that_failed_on_the_loop_refuses_the_next(tmp_path: Path):
    server = Server(tmp_path, "everysec")
    service = await server.start()
    assert server.write(0)
    await server.until(lambda: service.status().durable_offset == service.offset)
    server.spoil("/dev/full")
    released = service.released_offset
    assert server.write(1)
    assert service.released_offset == released, "its reply waits"
    assert service.refuse_write(10) == os.strerror(errno.ENOSPC)
    assert service.refuse_read() is None
    await server.until(lambda: service.released_offset == service.offset)
    assert server.releases[-1] == service.offset, "and is told when it may leave"
    assert service.refuse_write(10) is None
    await service.close()
