"""The log as the event loop sees it: takes frames, decides what is written when, knows what is safe.

A state machine without I/O, threads or a clock. `append` takes frames; at the end of a turn `write_here(now)` has
them written at once where that is quick; `take(now)` gives the next step for the writer; `done(result, now)` takes
back how it went. Whoever drives it passes monotonic seconds.

Offsets, each at most the one before:

* `offset`: end of the frames appended.
* `written_offset`: end of what write(2) has taken.
* `durable_offset`: end of what a sync has covered.
* `released_offset`: end of what replies may tell of, the durable one under `always`, else the written one.

Here or in a thread. Under `everysec` and `no` a reply needs no more than write(2), which is quicker than telling a
thread about it: what is pending is written on the loop, unless it is much or a step is under way. What waits for the
disk is a step. One step at a time, but under `everysec` an Append may be taken while a Sync is under way, so that
replies need not wait for the disk: the Sync covers what was written when it began. Nothing is written on the loop
meanwhile, as a write may hang behind the sync of its file.

Room. A frame is applied before it is written, so its room in the file is reserved before it is accepted:
`refuse_write` counts what is pending (each unit, which is what one `append` brings, as if it became a block of its
own) against the room left, and asks for more on the spot when the background has not kept up. Where there is none it
refuses, and asks again the next time, so writes come back by themselves. The room granted holds for one turn of the
loop, since a file size limit may be lowered at any time; `room` says what is left of it.

Failure. After a failed write or sync the segment is not trusted again. Frames are kept in memory until durable
(under `no`: until written), so all of them are written to a new segment, at once and then once a second until it
works; meanwhile writes are refused, and under `always` reads as well while there is anything that is not durable.
Nothing is released that a crash could take back.

A new segment is also begun when the current one has reached its size. That is no emergency: while it cannot be
made, the current one goes on growing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from amemdb.persistence.codec import BLOCK_BYTES_SOFT, BLOCK_HEADER_BYTES, FRAME_BYTES_MAX
from amemdb.persistence.manifest import Manifest, Segment
from amemdb.persistence.steps import Append, Block, Close, Done, Extend, Mark, Stage, Step, Switch, Sync

Policy = Literal["always", "everysec", "no"]
Report = Callable[[str, str], None]
"""Takes a level (`notice`, `warning`, `error`) and a line for people."""

SEGMENT_BYTES_MAX = 64 * 1024 * 1024
RESERVE_BYTES = 8 * 1024 * 1024
SYNC_SECONDS = 1.0
RETRY_SECONDS = 1.0
QUIET_SECONDS = 1.0
TELL_SECONDS = 10.0
"""A failure that comes and goes is told no more often than this."""
HERE_BYTES_MAX = BLOCK_BYTES_SOFT
"""More than this, which is one block and costs the loop a tenth of a millisecond, is left to the thread."""
_SLACK_BYTES = 4 * BLOCK_HEADER_BYTES
"""Room kept back for closing headers."""
_CHUNK_BYTES_MIN = 64 * 1024
_FILE_TOO_LARGE = "File too large"
_EVER = float("-inf")
_NEVER = float("inf")


class Spot(Protocol):
    """What the log asks for on the spot, from inside `refuse_write` and `write_here`."""

    def file_bytes_max(self) -> int:
        """How large a file may grow right now."""

    def settle(self) -> None:
        """Return when the step under way, an Extend or a Switch, has gone back into `Log.done`."""

    def extend(self, end: int, count_wanted: int, count_min: int) -> int:
        """Reserve room behind `end` of the current segment and return its new end; `OSError` if there is none."""

    def write_block(self, position: int, offset: int, durable: int, payload: bytes) -> None:
        """Write a block to the current segment; `OSError` if the disk refuses."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an opened log goes on: its files, and the end of blocks and of room in the last of them.

    `older_bytes` is the size of the others together, `marked` whether a closing header is the last thing written.
    """

    log_id: bytes
    segments: tuple[Segment, ...]
    next_number: int
    offset: int
    position: int
    end: int
    older_bytes: int
    marked: bool


class Log:
    """The log of one node, opened at `place`."""

    def __init__(
        self,
        place: Place,
        policy: Policy,
        spot: Spot,
        report: Report,
        *,
        segment_bytes_max: int = SEGMENT_BYTES_MAX,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        self.offset = place.offset
        self.written_offset = place.offset
        self.durable_offset = place.offset
        self.pending: list[bytes] = []
        self.failure: str | None = None
        self.last_error: str | None = None
        self.closed = False
        self.segments = place.segments
        self._taken_offset = place.offset
        self._kept: list[bytes] = []
        """What was taken and is not safe, as it was written: from `_kept_offset` to `_taken_offset`."""
        self._kept_offset = place.offset
        self._syncing_kept: list[bytes] = []
        """What of that the Sync under way covers: all before `_kept`. Two lists, so that thousands go at once."""
        self._log_id = place.log_id
        self._next_number = place.next_number
        self._older_bytes = place.older_bytes
        self._position = place.position
        self._end = place.end
        self._policy: Policy = policy
        self._spot = spot
        self._report = report
        self._segment_bytes_max = segment_bytes_max
        self._reserve_bytes = reserve_bytes
        self._chunk_bytes = reserve_bytes
        self._granted = -1
        self._refusal: str | None = None
        self._refusal_told = False
        self._in_flight: Step | None = None
        self._sync: Sync | None = None
        self._marked = place.marked
        self._closing = False
        self._now = self._synced_at = self._quiet_at = _EVER
        self._retry_at = self._extend_at = self._rotate_at = self._refusal_tell_at = _EVER

    # -- frames in -------------------------------------------------------------------------------

    def append(self, frames: bytes, count: int = 1) -> None:
        """Take one unit: `count` whole frames one behind the other, for whose room `refuse_write` has been asked."""
        self.pending.append(frames)
        self.offset += len(frames)

    @property
    def room(self) -> int:
        """How many bytes one more unit of this turn may have without `refuse_write` being asked; may be negative."""
        return self._granted - self.offset - BLOCK_HEADER_BYTES * (len(self.pending) + 1)

    def refuse_write(self, count_bytes: int) -> str | None:
        """Why a unit of `count_bytes` cannot be taken now, or None when it can."""
        if self.offset + count_bytes + BLOCK_HEADER_BYTES * (len(self.pending) + 1) <= self._granted:
            return None
        return self._make_room(count_bytes)

    def refuse_read(self) -> str | None:
        """Why even reads must be refused now: under `always`, applied frames that cannot be made durable."""
        if self.failure is not None and self._policy == "always" and self.durable_offset < self.offset:
            return self.failure
        return None

    def end_turn(self) -> None:
        """The loop's turn is over: what room there is will be looked at again."""
        self._granted = -1

    @property
    def gates_reads(self) -> bool:
        """Whether reads, too, wait until what they may have seen is released."""
        return self._policy == "always"

    @property
    def released_offset(self) -> int:
        """What replies may tell of."""
        return self.durable_offset if self._policy == "always" else self.written_offset

    @property
    def policy(self) -> Policy:
        """When the log is synced."""
        return self._policy

    def set_policy(self, policy: Policy) -> None:
        """Change the policy; the next step takes it into account."""
        self._policy = policy
        self._forget_kept()

    # -- room ------------------------------------------------------------------------------------

    def _make_room(self, count_bytes: int) -> str | None:
        """The slow way of `refuse_write`: look at the room there is, ask for more, grant it for this turn."""
        if self.failure is not None:
            return self.failure
        if count_bytes > FRAME_BYTES_MAX:
            return f"a change of {count_bytes} bytes is more than the log takes at once ({FRAME_BYTES_MAX})"
        if self._closing:
            return "the server is shutting down"
        needed = self.offset + count_bytes + BLOCK_HEADER_BYTES * (len(self.pending) + 1)
        if needed > self._room_offset(self._end) and isinstance(self._in_flight, Extend | Switch):
            self._spot.settle()
            if self.failure is not None:
                return self.failure
        limit = self._spot.file_bytes_max()
        fits = self._room_offset(min(self._end, limit))
        if needed > fits:
            if limit < self._end:
                return self._refused(_FILE_TOO_LARGE)
            wanted = max(needed - fits, self._chunk_bytes)
            try:
                self._extended(self._spot.extend(self._end, wanted, needed - fits), wanted)
            except OSError as error:
                return self._refused(_text(error))
            fits = self._room_offset(self._end)
        self._granted = fits
        self._accepted()
        return None

    def _refused(self, text: str) -> str:
        if not self._refusal_told and self._now >= self._refusal_tell_at:
            self._refusal_told = True
            self._refusal_tell_at = self._now + TELL_SECONDS
            self._report("error", f"the log cannot grow, writes are refused: {text}")
        self._refusal = self.last_error = text
        return text

    def _accepted(self) -> None:
        self._refusal = None
        if self._refusal_told:
            self._refusal_told = False
            self._report("notice", "the log can grow again, writes are accepted")

    def _extended(self, end: int, wanted: int) -> None:
        """Room now reaches to `end`; how much was wanted says whether the disk still gives freely."""
        if end - self._end >= wanted:
            self._chunk_bytes = min(self._reserve_bytes, self._chunk_bytes * 2)
        else:
            self._shrink_chunk()
        self._end = end

    def _shrink_chunk(self) -> None:
        self._chunk_bytes = max(self._chunk_bytes // 8, min(_CHUNK_BYTES_MIN, self._reserve_bytes))

    def _room_offset(self, end: int) -> int:
        """Up to which offset frames fit if the segment can be written up to `end`."""
        return self._taken_offset + end - self._position - _SLACK_BYTES

    def _room_is_low(self) -> bool:
        return (self._end - self._position) * 2 < self._chunk_bytes

    # -- written here ----------------------------------------------------------------------------

    def write_here(self, now: float) -> bool:
        """Have what is pending written on the spot, if that is quick. Whether `take` is to be asked for more to do."""
        offset = self._taken_offset
        count_bytes = self.offset - offset
        if (
            self._in_flight is not None
            or self._sync is not None
            or self._policy == "always"
            or not 0 < count_bytes <= HERE_BYTES_MAX
            or self.failure is not None
            or self._closing
        ):
            return True
        self._now = now
        pending, position = self.pending, self._position
        payload = pending[0] if len(pending) == 1 else b"".join(pending)
        pending.clear()
        self._kept.append(payload)
        self._taken_offset = self.offset
        self._position = position + BLOCK_HEADER_BYTES + count_bytes
        self._marked = False
        self._quiet_at = now
        try:
            self._spot.write_block(position, offset, self.durable_offset, payload)
        except OSError as error:
            self._give_up("write", error, now)
            return True
        more = self.durable_offset == self.written_offset  # it was all synced: a sync, or the time of one, is new
        self.written_offset = self.offset
        if self._policy == "no":
            self._forget_kept()
        return more or self._segment_is_full() or self._room_is_low()

    # -- steps out -------------------------------------------------------------------------------

    def take(self, now: float) -> Step | None:
        """The next step, or None: nothing is due, or what is under way comes first. Ask until there is none."""
        self._now = now
        if self._in_flight is not None or self.closed:
            return None
        if self._sync is not None:
            return self._take_beside_sync()
        step = self._next(now)
        if isinstance(step, Sync):
            self._sync = step
        else:
            self._in_flight = step
        return step

    def _take_beside_sync(self) -> Append | None:
        """Replies do not wait for the disk under `everysec`. Everything else does."""
        if not self.pending or self._policy != "everysec" or self.failure is not None or self._closing:
            return None
        step = self._append(sync=False)
        self._in_flight = step
        return step

    def _next(self, now: float) -> Step | None:
        if self.failure is not None:
            return self._rebuild() if now >= self._retry_at else None
        if self._closing:
            return Close(self._append(sync=True), self.offset)
        if self._sync_due_at() <= now:
            self._synced_at = now
            self._syncing_kept.extend(self._kept)
            self._kept = []
            return Sync(self.written_offset)
        if self._segment_is_full() and now >= self._rotate_at:
            return self._rotate(now)
        if self._room_is_low() and now >= self._extend_at:
            return Extend(self._end, self._chunk_bytes)
        if self.pending:
            return self._append(sync=self._policy == "always")
        if self._mark_due_at() <= now:
            mark = Mark(self._position, self.offset)
            self._position += BLOCK_HEADER_BYTES
            return mark
        return None

    def due_at(self) -> float:
        """When `take` will have something to do by time alone; infinity if only new frames can bring something."""
        if self._in_flight is not None or self._sync is not None or self.closed:
            return _NEVER
        if self.failure is not None:
            return self._retry_at
        due = min(self._sync_due_at(), self._mark_due_at())
        if self._segment_is_full():
            due = min(due, self._rotate_at)
        if self._room_is_low():
            due = min(due, self._extend_at)
        return due

    def _sync_due_at(self) -> float:
        if self.durable_offset == self.written_offset or self._policy == "no":
            return _NEVER
        return self._synced_at + SYNC_SECONDS if self._policy == "everysec" else self._synced_at

    def _mark_due_at(self) -> float:
        if self._marked or self.durable_offset != self.offset:
            return _NEVER
        return self._quiet_at + QUIET_SECONDS

    def _segment_is_full(self) -> bool:
        return self._position >= self._segment_bytes_max and self.segments[-1].start < self._taken_offset

    def _append(self, *, sync: bool) -> Append:
        """All pending frames as blocks behind the last one."""
        step = Append(self._position, self._pending_blocks(), self.durable_offset, sync)
        self._position += sum(block.file_bytes for block in step.blocks)
        self._end = max(self._end, self._position)
        return step

    def _pending_blocks(self) -> tuple[Block, ...]:
        """Make blocks of the pending frames, and keep them until they are safe."""
        if not self.pending:
            return ()
        blocks = _blocks(self._taken_offset, self.pending)
        self.pending.clear()
        self._taken_offset = self.offset
        self._kept.extend(block.payload for block in blocks)
        self._marked = False
        return blocks

    def _rotate(self, now: float) -> Switch:
        self._synced_at = now
        room = max(0, self._end - self._position)
        return self._switch(self.written_offset, self.written_offset, (), room, self._position)

    def _rebuild(self) -> Switch:
        """A new segment from the first frame on that memory still has and no sync has covered."""
        self._pending_blocks()
        blocks = _blocks(self._kept_offset, [*self._syncing_kept, *self._kept])
        return self._switch(self._kept_offset, self.durable_offset, blocks, _SLACK_BYTES, None)

    def _switch(
        self, start: int, durable: int, blocks: tuple[Block, ...], room_min: int, old_end: int | None
    ) -> Switch:
        segment = Segment(self._next_number, start)
        self._next_number += 1
        stays = tuple(old for old in self.segments if old.start < start)
        replaced = self.segments[len(stays) :]
        manifest = Manifest(self._log_id, (*stays, segment), self._next_number)
        room_wanted = max(room_min, self._reserve_bytes)
        return Switch(segment, min(durable, start), blocks, room_min, room_wanted, manifest, old_end, replaced)

    # -- results in ------------------------------------------------------------------------------

    def done(self, done: Done, now: float) -> None:
        """Take back a step that was under way."""
        self._now = now
        if isinstance(done.step, Sync):
            assert done.step is self._sync, "a sync came back that was not under way"
            self._sync = None
        else:
            assert done.step is self._in_flight, "a step came back that was not under way"
            self._in_flight = None
        match done.step:
            case Append() as step:
                self._appended(step, done, now)
            case Sync() as step:
                self._synced(step, done, now)
            case Mark():
                self._marked = not self._failed(done, now)
            case Extend() as step:
                self._extend_done(step, done, now)
            case Switch() as step:
                self._switched(step, done, now)
            case Close() as step:
                self._close_done(step, done, now)
        self._forget_kept()

    def _appended(self, step: Append, done: Done, now: float) -> None:
        self._quiet_at = now
        if done.stage == "sync":
            self.written_offset = self._taken_offset
        if self._failed(done, now):
            return
        self.written_offset = self._taken_offset
        if step.sync:
            self.durable_offset = self.written_offset
            self._synced_at = now

    def _synced(self, step: Sync, done: Done, now: float) -> None:
        if self._failed(done, now):
            return
        self.durable_offset = step.offset
        if self.failure is None and self._kept_offset < step.offset:
            self._syncing_kept.clear()
            self._kept_offset = step.offset

    def _failed(self, done: Done, now: float) -> bool:
        """Whether the step failed; if so, the segment is given up."""
        if done.error is None:
            return False
        self._give_up(done.stage, done.error, now)
        return True

    def _give_up(self, stage: Stage, error: OSError, now: float) -> None:
        """The segment is not trusted any more."""
        text = _text(error)
        if self.failure is None:
            self._report("error", f"the log failed in {stage}, writes are refused: {text}")
            self._retry_at = now
        else:
            if text != self.failure:
                self._report("error", f"the log still cannot be written: {text}")
            self._retry_at = now + RETRY_SECONDS
        self.failure = self.last_error = text
        self._granted = -1

    def _extend_done(self, step: Extend, done: Done, now: float) -> None:
        if done.error is None:
            self._extended(done.end, step.count)
            return
        if self.last_error != _text(done.error):
            self._report("warning", f"no room can be reserved ahead for the log: {_text(done.error)}")
        self.last_error = _text(done.error)
        self._extend_at = now + RETRY_SECONDS
        self._shrink_chunk()

    def _switched(self, step: Switch, done: Done, now: float) -> None:
        rotation = step.old_end is not None
        if rotation and done.stage == "prepare":
            self._rotate_at = now + RETRY_SECONDS
            if self.last_error != _text(done.error):
                self._report("warning", f"a new log segment cannot be made, the old one grows on: {_text(done.error)}")
            self.last_error = _text(done.error)
            self.durable_offset = self.written_offset  # the old one was synced before
            return
        if self._failed(done, now):
            return
        if len(step.manifest.segments) > len(self.segments):
            self._older_bytes += self._end if step.old_end is None else step.old_end
        self.segments = step.manifest.segments
        self._position, self._end = done.position, done.end
        self.written_offset = self.durable_offset = self._taken_offset
        self._marked = False
        self._quiet_at = now
        if self.failure is not None:
            self.failure = None
            self._report("notice", f"the log is written again, to {step.segment.name}; nothing was lost")

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more frames; the steps that follow end with a Close, after which `closed` is true."""
        self._closing = True
        self._granted = -1
        self._retry_at = _EVER

    def _close_done(self, step: Close, done: Done, now: float) -> None:
        if done.stage in ("", "finish"):
            self.written_offset = self.durable_offset = step.offset
            self.closed = True
            if done.error is not None:
                self._report("warning", f"the log is complete but could not be closed tidily: {_text(done.error)}")
        else:
            self._failed(done, now)

    def _forget_kept(self) -> None:
        """Let go of what is safe; of nothing while the file that holds it is not trusted."""
        if self.failure is not None:
            return
        safe = self.written_offset if self._policy == "no" else self.durable_offset
        if safe >= self._taken_offset:
            self._syncing_kept.clear()
            self._kept.clear()
            self._kept_offset = self._taken_offset

    # -- for people ------------------------------------------------------------------------------

    @property
    def error(self) -> str:
        """Why writes are refused at present; empty when they are not."""
        return self.failure or self._refusal or ""

    @property
    def kept_bytes(self) -> int:
        """Bytes of frames in memory because they are not safe yet."""
        return self.offset - self._kept_offset

    @property
    def disk_bytes(self) -> int:
        """Bytes that the files of the log take, reserved room included."""
        return self._older_bytes + self._end

    @property
    def room_bytes(self) -> int:
        """Bytes reserved in the current segment and not used yet."""
        return max(0, self._end - self._position)


def _blocks(offset: int, units: list[bytes]) -> tuple[Block, ...]:
    """`units`, the first at `offset`, as blocks; a unit is not divided between two."""
    blocks: list[Block] = []
    for group in _groups(units) if units else ():
        blocks.append(Block(offset, group[0] if len(group) == 1 else b"".join(group)))
        offset = blocks[-1].end
    return tuple(blocks)


def _groups(frames: Iterable[bytes]) -> list[list[bytes]]:
    """`frames` in order, cut into lists of about a block each."""
    groups: list[list[bytes]] = [[]]
    size = 0
    for frame in frames:
        if size and size + len(frame) > BLOCK_BYTES_SOFT:
            groups.append([])
            size = 0
        groups[-1].append(frame)
        size += len(frame)
    return groups


def _text(error: OSError | None) -> str:
    """The system's words, without names of files, which are no business of clients."""
    assert error is not None
    return error.strerror or type(error).__name__
