"""The log at work: the state machine of `amemdb.persistence.log` on the event loop, its writer in threads.

The loop does not wait for the disk. `flush`, once per turn of the loop, has the log write a small block into the
page cache at once, where that is enough for the replies to leave (policies `everysec` and `no`); they leave in the
same turn then. Everything else is a step for a thread: one does what nobody waits for (`steps.Beside`), the other one
all the rest. While a thread is busy, what comes meanwhile gathers and goes with the next step, so a slow disk makes
larger blocks and not a longer queue. When a step has come back and `released_offset` has risen, `on_release` is
called on the loop.

The one exception is room: a frame larger than the room reserved ahead reserves its own on the spot, and waits for
the thread if that is just reserving or changing files. A reservation that fails slowly is not repeated for ten
times as long as it took, so that refusing writes on a full disk costs little.

An exception in here that is not the disk's is a bug of ours: it goes to `on_bug`, which must stop the process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amemdb import native
from amemdb.errors import StorageError
from amemdb.persistence import opening
from amemdb.persistence.codec import LOG_ID_BYTES
from amemdb.persistence.disk import FolderDisk
from amemdb.persistence.log import RESERVE_BYTES, SEGMENT_BYTES_MAX, Log, Policy, Report
from amemdb.persistence.manifest import LOCK_NAME, Base, Segment
from amemdb.persistence.recovery import Progress, RecoveryReport, recover
from amemdb.persistence.steps import Beside, Step
from amemdb.persistence.writer import LogWriter
from amemdb.server.log_hands import Hand, NativeHand, PlainHand, Result
from amemdb.stores.records import Record

_CLOSE_FAILURES_MAX = 2
"""Closing tries the file, then a new one, then gives up."""
_SLOW_S = 0.0005
_LIMIT_S = 0.1
"""How long a file size limit is believed to be what it was."""
_PAUSE_FACTOR = 10
"""A refused reservation that took longer than the one is not tried again for that time, times the other."""


@dataclass(frozen=True, slots=True)
class LogStatus:
    """What INFO tells of the log. Sizes in bytes, times in milliseconds.

    `error` says why writes are refused and is empty when they are not; `last_error` is what the disk last refused.
    """

    policy: Policy
    offset: int
    written_offset: int
    durable_offset: int
    pending_bytes: int
    kept_bytes: int
    error: str
    last_error: str
    syncs: int
    sync_failures: int
    last_sync_ms: float
    longest_sync_ms: float
    segments: int
    disk_bytes: int
    room_bytes: int
    base_bytes: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class Closed:
    """What compaction may replace: the files that hold everything before `offset`, and a number for the new base."""

    log_id: bytes
    base: Base | None
    segments: tuple[Segment, ...]
    offset: int
    number: int


class LogService:
    """The log of the folder `directory`. Use: `recover`, `start`, then `append` and `flush`, in the end `close`.

    Satisfies `amemdb.engine.engine.CommitLog` from `recover` on.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        policy: Policy,
        *,
        on_release: Callable[[], None],
        on_log: Report,
        on_bug: Callable[[BaseException], None],
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        reserve_bytes: int = RESERVE_BYTES,
        disk: FolderDisk | None = None,
        use_native: bool = native.ENABLED,
    ) -> None:
        self.disk = disk or FolderDisk(os.fspath(directory))
        self._unlock = self.disk.lock(LOCK_NAME)
        self._policy: Policy = policy
        self._on_release = on_release
        self._on_log = on_log
        self._on_bug = on_bug
        self._segment_bytes_max = segment_bytes_max
        self._reserve_bytes = reserve_bytes
        self._log: Log
        self._writer: LogWriter
        self._loop: asyncio.AbstractEventLoop
        self._use_native = use_native
        self._hand: Hand | None = None
        self._sync_hand: Hand | None = None
        self._busy = False
        """Whether `_hand` has a step."""
        self._syncing = False
        """Whether `_sync_hand` has one."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._step_waiters: list[asyncio.Future[None]] = []
        self.touched = False
        """Whether room was asked for or something was appended since the last `flush`."""
        self._frames = 0
        """How many were appended."""
        self._group = 0
        """How many the last step took that takes what is pending."""
        self._frames_begun = 0
        """How many of them when it began."""
        self._gathering = False
        """Whether what is pending waits for more; see `_go_on`."""
        self._gathered_frames = 0
        self._gathered_until = 0.0
        self._released_told = 0

    # -- start -----------------------------------------------------------------------------------

    def recover(self, apply: Callable[[Record], None], on_progress: Progress | None = None) -> RecoveryReport:
        """Read the log into `apply` and open it for writing. Blocks; belongs before the loop runs.

        `StorageError`, or its kin `CorruptLogError`, says why the folder cannot be used; nothing was changed then.
        """
        started_ns = time.monotonic_ns()
        manifest = opening.read(self.disk)
        recovery = RecoveryReport() if manifest is None else recover(self.disk, manifest, apply, on_progress)
        place, self._writer = opening.open_log(
            self.disk,
            manifest,
            recovery,
            new_log_id=lambda: secrets.token_bytes(LOG_ID_BYTES),
            timer_ns=time.monotonic_ns,
            reserve_bytes=self._reserve_bytes,
            report=self._on_log,
            filled=self._policy == "always",
        )
        if not self._use_native:
            self._writer.stay_plain()
        self._log = Log(
            place,
            self._policy,
            _Spot(self),
            self._on_log,
            segment_bytes_max=self._segment_bytes_max,
            reserve_bytes=self._reserve_bytes,
        )
        self._released_told = self._log.released_offset
        recovery.duration_s = (time.monotonic_ns() - started_ns) / 1e9
        return recovery

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the writer's threads; from here on everything but `append` belongs to `loop`."""
        self._loop = loop
        kind = NativeHand if self._use_native else PlainHand
        self._hand = kind(self._writer, "amemdb-log")
        self._sync_hand = kind(self._writer, "amemdb-sync")
        self._hand.start(loop, self._on_result)
        self._sync_hand.start(loop, self._on_sync_result)
        self._advance()

    # -- what the engine asks --------------------------------------------------------------------

    def append(self, frames: bytes, count: int = 1) -> None:
        """Take one unit of `count` whole frames one behind the other; its room has been asked for before."""
        self.touched = True
        self._frames += count
        self._log.append(frames)

    def refuse_write(self, count_bytes: int) -> str | None:
        """Why a unit of `count_bytes` cannot be taken now, or None when it can."""
        self.touched = True
        return self._log.refuse_write(count_bytes)

    @property
    def room(self) -> int:
        """How many bytes one more unit of this turn may have without `refuse_write` being asked; may be negative."""
        return self._log.room

    def refuse_read(self) -> str | None:
        """Why even reads must be refused now, or None."""
        return self._log.refuse_read()

    @property
    def offset(self) -> int:
        """Bytes of all frames appended so far."""
        return self._log.offset

    @property
    def gates_reads(self) -> bool:
        """Whether reads, too, wait for `released_offset`."""
        return self._log.gates_reads

    @property
    def kept_bytes(self) -> int:
        """Bytes of frames in memory because they are not safe yet."""
        return self._log.kept_bytes

    @property
    def released_offset(self) -> int:
        """Up to which offset replies may tell of changes."""
        return self._log.released_offset

    # -- what the server asks --------------------------------------------------------------------

    def flush(self) -> None:
        """The loop's turn is over: have what is pending written, here or by the thread if that is free.

        What was written here is released when this returns, without a call of `on_release`.
        """
        log = self._log
        self.touched = False
        log.end_turn()
        if self._gathering and self._frames < self._gathered_frames:
            return
        self._gathering = False
        if log.pending and not self._busy and log.write_here(time.monotonic()):
            self._advance()

    def set_policy(self, policy: Policy) -> None:
        """Change when the log is synced, from now on."""
        self._policy = policy
        self._log.set_policy(policy)
        self._advance()
        self._tell_release()

    def status(self) -> LogStatus:
        """What INFO tells."""
        log, times = self._log, self._writer.sync_times
        return LogStatus(
            policy=log.policy,
            offset=log.offset,
            written_offset=log.written_offset,
            durable_offset=log.durable_offset,
            pending_bytes=log.offset - log.written_offset,
            kept_bytes=log.kept_bytes,
            error=log.error,
            last_error=log.last_error or "",
            syncs=times.count,
            sync_failures=times.failures,
            last_sync_ms=times.last_ns / 1e6,
            longest_sync_ms=times.longest_ns / 1e6,
            segments=len(log.segments),
            disk_bytes=log.disk_bytes,
            room_bytes=log.room_bytes,
            base_bytes=0 if log.base is None else log.base.size,
            base_offset=0 if log.base is None else log.base.offset,
        )

    async def rotate(self) -> Closed:
        """Close the segments that hold what was appended so far. `StorageError` says why that cannot be."""
        log = self._log
        log.rotate()
        await self._compacted()
        files = log.files
        number = files.take_number()
        return Closed(self._writer.log_id, files.base, files.closed_segments, files.closed_offset, number)

    async def rebase(self, base: Base) -> None:
        """Have `base` take the place of the closed segments before its offset. `StorageError` says why it cannot."""
        self._log.rebase(base)
        await self._compacted()

    async def _compacted(self) -> None:
        """What was asked of the log for compaction is done, or will not be."""
        log = self._log
        self._advance()
        while log.files.compacting:
            await self._step_over()
        if log.files.compaction_error is not None:
            raise StorageError(log.files.compaction_error)

    async def _step_over(self) -> None:
        """Wait until a step has come back and what follows has begun."""
        waiter = self._loop.create_future()
        self._step_waiters.append(waiter)
        await waiter

    async def close(self) -> None:
        """Write, sync and close; no frame may be appended any more. `StorageError` if not everything is on disk."""
        lost = "" if self._hand is None else await self._finish()
        for hand in (self._hand, self._sync_hand):
            if hand is not None:
                hand.stop()
        if self._timer is not None:
            self._timer.cancel()
        if hasattr(self, "_writer"):
            self._writer.release()
        self._unlock()
        self.disk.close()
        if lost:
            raise StorageError(lost)

    async def _finish(self) -> str:
        """Have the log do its last steps; what was lost, in words, if they cannot be done."""
        log = self._log
        while self._syncing:  # how it ends is no attempt to close
            await self._step_over()
        log.close()
        failures = 0
        while not log.closed and failures < _CLOSE_FAILURES_MAX:
            self._advance()
            await self._step_over()
            failures += log.failure is not None
        if log.closed:
            return ""
        count = log.offset - log.durable_offset
        return f"the last {count} bytes of changes could not be written to {self.disk.folder}: {log.failure}"

    # -- the loop's side -------------------------------------------------------------------------

    def _advance(self) -> None:
        """Have done what is due, or see to it that the time when something will be is not missed."""
        assert self._hand is not None
        assert self._sync_hand is not None
        now = time.monotonic()
        if self._log.pending:
            self._log.write_here(now)
        while (step := self._log.take(now)) is not None:
            if isinstance(step, Beside):
                self._syncing = True
                self._sync_hand.give(step)
            else:
                self._busy = True
                self._group, self._frames_begun = self._frames - self._frames_begun, self._frames
                self._hand.give(step)
        due = self._log.due_at()
        if due == float("inf") or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_later(max(0.0, due - now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._guarded(self._advance)

    def _on_result(self) -> None:
        self._guarded(self._take_from, self._hand)

    def _on_sync_result(self) -> None:
        self._guarded(self._take_from, self._sync_hand)

    def _take_from(self, hand: Hand) -> None:
        result = hand.take()
        if result is not None:
            self._take_back(result)
            self._go_on()

    def _take_back(self, result: Result) -> None:
        if isinstance(result, BaseException):
            raise result
        if isinstance(result.step, Beside):
            self._syncing = False
        else:
            self._busy = False
        self._log.done(result, time.monotonic())

    def _go_on(self) -> None:
        """After a step: the replies that have been waiting first, then what is next.

        Under `always` each step is a sync, and fewer and larger ones are quicker for all. Those who just got their
        replies mostly have more to say, so the next step waits for as many frames as the last one made durable. It
        waits while the loop's turns bring any, and not longer than the last sync took.
        """
        self._tell_release()
        if self._log.gates_reads and self._group > 1:
            self._gathering = True
            self._gathered_frames = self._frames + self._group
            self._gathered_until = time.monotonic() + self._writer.sync_times.last_ns / 1e9
            self._loop.call_soon(self._guarded, self._gather, -1)
        else:
            self._loop.call_soon(self._guarded, self._begin_next)

    def _gather(self, frames: int) -> None:
        """Go on unless the last turn brought some; there were `frames` before it."""
        if not self._gathering or self._frames == frames or time.monotonic() >= self._gathered_until:
            self._begin_next()
        else:  # the turn after the next one has what the sockets bring in the next one
            self._loop.call_soon(self._loop.call_soon, self._guarded, self._gather, self._frames)

    def _begin_next(self) -> None:
        self._gathering = False
        self._advance()
        self._tell_release()  # what was pending may have been written here
        waiters, self._step_waiters = self._step_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _tell_release(self) -> None:
        released = self._log.released_offset
        if released != self._released_told:  # a change of policy can lower it
            self._released_told = released
            self._on_release()

    def _guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        """A loop only prints what a callback raises; a bug must not end there."""
        try:
            act(*arguments)
        except BaseException as bug:
            self._on_bug(bug)

    def _settle(self, step: Step) -> None:
        """Wait, on the loop, for `step`, which is under way. What follows from it happens in the next turn."""
        hand = self._sync_hand if isinstance(step, Beside) else self._hand
        assert hand is not None
        self._take_back(hand.wait())
        self._loop.call_soon(self._guarded, self._go_on)


class _Spot:
    """How the log asks for what it needs on the spot."""

    def __init__(self, service: LogService) -> None:
        self._service = service
        self.write_block = service._writer.write_block
        self._file_bytes_max = 0
        self._limit_until = 0.0
        self._pause_until = 0.0
        self._refused_count = 0
        self._last_error: OSError | None = None

    def file_bytes_max(self) -> int:
        """The system is asked now and then, not each turn.

        What is accepted meanwhile under a limit just lowered is not lost: its write fails, is not released, and the
        frames, which memory still has, go to a new file, which is below the limit.
        """
        now = time.monotonic()
        if now >= self._limit_until:
            self._file_bytes_max = self._service.disk.file_bytes_max()
            self._limit_until = now + _LIMIT_S
        return self._file_bytes_max

    def settle(self, step: Step) -> None:
        self._service._settle(step)

    def extend(self, number: int, end: int, count_wanted: int, count_min: int) -> int:
        started = time.monotonic()
        if self._last_error is not None and count_min >= self._refused_count and started < self._pause_until:
            raise self._last_error
        try:
            end = self._service._writer.extend(number, end, count_wanted, count_min)
        except OSError as error:
            self._last_error = error
            self._refused_count = count_min
            ended = time.monotonic()
            if ended - started > _SLOW_S:
                self._pause_until = ended + _PAUSE_FACTOR * (ended - started)
            raise
        self._last_error = None
        return end
