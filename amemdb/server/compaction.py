"""Compaction as the server runs it: when it begins, its process, what it tells, how it ends.

One at a time: what is dead by the clock is removed, as records; the log closes its segments; a process of low priority
(`amemdb.persistence.compactor`) makes of them a base; the log puts that in their place. The server goes on all the
while, and what is written meanwhile goes to the segments that follow. Whatever goes wrong, the log stays as it
was, and what the process has made of a base is removed.

It begins when asked for, or by itself once what was written since the last one is `auto-aof-rewrite-percentage` of the
base and more than `auto-aof-rewrite-min-size`. After a failure it waits longer and longer before it does so again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import amemdb
from amemdb.errors import StorageError
from amemdb.limits import EXPIRE_BATCH_MAX
from amemdb.persistence.compaction import Progress, Task
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.log import Report
from amemdb.persistence.manifest import Base, base_name
from amemdb.server.log_service import Closed

CHECK_S = 1.0
"""How often it is looked whether one is due."""
PAUSE_S_MIN, PAUSE_S_MAX = 60.0, 3600.0
"""How long none begins by itself after a failure; twice as long after each further one."""
TELL_S = 10.0
"""How often a long one tells how far it is."""
ROOM_FACTOR = 1.25
"""A part is planned to take so much less than the memory there is for it: names do not divide evenly."""
REAP_S = 5.0
"""How long a stop waits for a process that it has killed to be gone."""
NOTHING_YET = Progress(0, 0, 0, 0, 0)

_Tell = Callable[[], None]


class Log(Protocol):
    """What is asked of the log; see `amemdb.server.log_service`."""

    async def rotate(self) -> Closed:
        """Close the segments that hold what was appended so far."""

    async def rebase(self, base: Base) -> None:
        """Have `base` take the place of the closed segments before its offset."""

    def status(self) -> Any:
        """What INFO tells."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is looked at each time one may begin. Sizes in bytes."""

    percentage: int
    size_min: int
    memory: int


class Compaction:
    """Compactions of one log. Everything is the loop's to call."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        disk: FolderDisk,
        *,
        settings: Callable[[], Settings],
        expire: Callable[[int], int],
        expire_in_ms: Callable[[], int],
        data_size: Callable[[], tuple[int, int]],
        now_s: Callable[[], float],
        monotonic_s: Callable[[], float],
        report: Report,
        bug: Callable[[BaseException], None],
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """`done` is called when one has gone well, and has the log without what was removed.

        `expire` removes at most so many dead objects and says how many there were, `expire_in_ms` in what time all
        that is dead now can be removed. `data_size` is how many objects there are and what they take in memory.
        """
        self._loop = loop
        self._log = log
        self._disk = disk
        self._settings = settings
        self._expire = expire
        self._expire_in_ms = expire_in_ms
        self._data_size = data_size
        self._now_s = now_s
        self._monotonic_s = monotonic_s
        self._report = report
        self._bug = bug
        self._done = done
        self.progress = NOTHING_YET
        self.scheduled = False
        """Whether another one begins when the one under way is over."""
        self.error = ""
        """Why the last one failed; empty if it did not."""
        self.count = 0
        self.last_s = -1.0
        """How long the last one took; negative if there was none."""
        self.last_save_s = int(now_s())
        """When the last one went well, as Unix time; before the first, when the server started."""
        self.parts = 0
        """Of how many parts the last one was made."""
        self.peak_bytes = 0
        """Memory that the process of the last one had at its peak."""
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._started_s = 0.0
        self._tell_at_s = TELL_S
        self._pause_s = 0.0
        self._not_before_s = -math.inf
        self._waiting: list[_Tell] = []

    # -- when ------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Look from now on whether one is due."""
        if not self._stopped:
            self._timer = self._loop.call_later(CHECK_S, self._check)

    def _check(self) -> None:
        if not self.running and self._monotonic_s() >= self._not_before_s and self.due():
            self.start()
        self.watch()

    def due(self) -> bool:
        """Whether enough was written since the last one."""
        settings, status = self._settings(), self._log.status()
        if not settings.percentage or status.error:
            return False
        grown = status.offset - status.base_offset
        return bool(grown >= max(settings.size_min, status.base_bytes * settings.percentage // 100, 1))

    @property
    def running(self) -> bool:
        """Whether one is under way."""
        return self._task is not None

    @property
    def current_s(self) -> float:
        """How long the one under way has taken so far; negative if there is none."""
        return self._monotonic_s() - self._started_s if self.running else -1.0

    def start(self) -> None:
        """Begin one. None may be under way."""
        assert not self.running, "one at a time"
        if self._stopped:
            return
        self.progress = NOTHING_YET
        self._started_s = self._monotonic_s()
        self._tell_at_s = TELL_S
        self._task = self._loop.create_task(self._run())

    def schedule(self) -> None:
        """Begin one, now or when the one under way is over."""
        if self.running:
            self.scheduled = True
        else:
            self.start()

    def when_over(self, tell: _Tell) -> None:
        """Call `tell` when the one under way is over; `error` says how it went."""
        self._waiting.append(tell)

    async def stop(self) -> None:
        """Give up the one under way and begin no more."""
        self._stopped = True
        self.scheduled = False
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._thread is not None and self._thread.is_alive():
            # It takes the killed process off the system's list; an init that would do so is not everywhere.
            await self._loop.run_in_executor(None, self._thread.join, REAP_S)

    # -- how -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            self.error = ""
            await self._compact()
            self._pause_s = 0.0
            self._not_before_s = -math.inf
            self.last_save_s = int(self._now_s())
        except StorageError as error:
            self.error = str(error)
            self._pause_s = min(PAUSE_S_MAX, max(PAUSE_S_MIN, 2 * self._pause_s))
            self._not_before_s = self._monotonic_s() + self._pause_s
            self._report("warning", f"compaction failed, the log stays as it was: {error}")
        except asyncio.CancelledError:
            self.error = "the server is shutting down"
        except BaseException as bug:
            self._bug(bug)
        self.last_s = self.current_s
        self._task = None
        self.progress = NOTHING_YET
        waiting, self._waiting = self._waiting, []
        for tell in waiting:
            tell()
        if self.scheduled:
            self.scheduled = False
            self.start()

    async def _compact(self) -> None:
        await asyncio.sleep(self._expire_in_ms() / 1000)
        due = EXPIRE_BATCH_MAX
        while due >= EXPIRE_BATCH_MAX:
            due = self._expire(EXPIRE_BATCH_MAX)
            await asyncio.sleep(0)
        closed = await self._log.rotate()
        if not closed.segments:
            self._report("notice", "compaction: nothing was written since the last one")
            return
        try:
            base = await self._make_base(closed)
        except BaseException:
            self._remove(closed.number)
            raise
        await self._log.rebase(base)  # from here on a manifest may name it
        self._done()
        self.count += 1
        log_bytes = closed.offset if closed.base is None else closed.base.size + closed.offset - closed.base.offset
        self._report(
            "notice",
            f"compaction: {log_bytes / 2**20:,.1f} MiB became {base.size / 2**20:,.1f} MiB in {self.current_s:,.1f} s, "
            f"with {self.peak_bytes / 2**20:,.0f} MiB of memory",
        )

    async def _make_base(self, closed: Closed) -> Base:
        """Have the process make the base; `StorageError` with its words if it could not."""
        memory = self._settings().memory
        count, count_bytes = self._data_size()
        parts = min(count, math.ceil(count_bytes * ROOM_FACTOR / memory))  # an object is never divided
        task = Task(
            log_id=closed.log_id,
            base=closed.base,
            segments=closed.segments,
            end=closed.offset,
            number=closed.number,
            memory_bytes=memory,
            parts=max(1, parts),
        )
        result: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        thread = threading.Thread(target=self._drive, args=(task, result), name="amemdb-compaction", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise StorageError(f"the thread for it cannot be started: {error}") from error
        self._thread = thread
        try:
            done = await result
        finally:
            if self._process is not None:
                self._process.kill()
        self.parts, self.peak_bytes = done["parts"], done["peak_memory_bytes"]
        return Base(done["number"], done["offset"], done["time_ms"], done["size"])

    def _drive(self, task: Task, result: asyncio.Future[dict[str, Any]]) -> None:
        """Run the process to its end; in a thread of its own, as a start of a process takes its time."""
        try:
            done = self._listen(task)
        except BaseException as error:
            self._call(_fail, result, error)
        else:
            self._call(_succeed, result, done)

    def _listen(self, task: Task) -> dict[str, Any]:
        package_folder = str(Path(amemdb.__file__).parents[1])
        paths = [package_folder, os.environ.get("PYTHONPATH", "")]
        folder, descriptor = self._disk.folder, self._disk.descriptor
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "amemdb.persistence.compactor", folder, str(descriptor)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(descriptor,),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            )
        except OSError as error:
            raise StorageError(f"the process for it cannot be started: {error.strerror}") from error
        with process:
            self._process = process
            if self._stopped:
                process.kill()
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(task.to_json().encode() + b"\n")
                process.stdin.close()
            done: dict[str, Any] | None = None
            words = ""
            for line in process.stdout:
                told = _parsed(line)
                if isinstance(told, Progress):
                    self._call(self._told, told)
                elif told is not None:
                    done = told
                else:
                    words = line.decode("utf-8", "replace").strip() or words
            code = process.wait()
        self._process = None
        if code or done is None:
            ending = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise StorageError(words or f"its process ended with {ending}")
        return done

    def _call(self, act: Callable[..., None], *arguments: Any) -> None:
        """Have the loop do it, if that is still there."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *arguments)

    def _told(self, progress: Progress) -> None:
        self.progress = progress
        if self.current_s >= self._tell_at_s:
            self._tell_at_s = self.current_s + TELL_S
            part = f", part {progress.part + 1} of {progress.parts}" if progress.parts > 1 else ""
            self._report(
                "notice",
                f"compaction: {progress.read >> 20:,} of {progress.of >> 20:,} MiB read, "
                f"{progress.written >> 20:,} MiB written{part}",
            )

    def _remove(self, number: int) -> None:
        """Nothing names the base; if this does not remove it, the next start does."""
        with contextlib.suppress(OSError):
            self._disk.remove(base_name(number))


def _parsed(line: bytes) -> Progress | dict[str, Any] | None:
    """How far the process is or what came of it; None for all else that Python, or what is installed in it, may say."""
    try:
        told = json.loads(line)
        return told["done"] if "done" in told else Progress(**told)
    except (ValueError, TypeError):
        return None


def _succeed(result: asyncio.Future[dict[str, Any]], done: dict[str, Any]) -> None:
    if not result.done():
        result.set_result(done)


def _fail(result: asyncio.Future[dict[str, Any]], error: BaseException) -> None:
    if not result.done():
        result.set_exception(error)
