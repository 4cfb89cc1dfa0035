"""The log as the event loop sees it: takes frames, decides what is written when, knows what is safe.

A state machine without I/O, threads or a clock. `append` takes a frame; `take(now)` gives the next step for the
writer, at most one at a time; `done(result, now)` takes back how it went. Whoever drives it passes monotonic
seconds.

Offsets, each at most the one before:

* `offset`: end of the frames appended.
* `written_offset`: end of what write(2) has taken.
* `durable_offset`: end of what a sync has covered.
* `released_offset`: end of what replies may tell of, the durable one under `always`, else the written one.

Room. A frame is applied before it is written, so its room in the file is reserved before it is accepted:
`refuse_write` counts what is pending (each frame as if it became a block of its own) against the room left, and
asks `Room` for more on the spot when the background has not kept up. Where there is none it refuses, and asks again
the next time, so writes come back by themselves. The room granted holds for one turn of the loop, since a file size
limit may be lowered at any time.

Failure. After a failed write or sync the segment is not trusted again. Blocks are kept in memory until durable
(under `no`: until written), so all of them are written to a new segment, at once and then once a second until it
works; meanwhile writes are refused, and under `always` reads as well while there is anything that is not durable.
Nothing is released that a crash could take back.

A new segment is also begun when the current one has reached its size. That is no emergency: while it cannot be
made, the current one goes on growing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from amemdb.persistence.codec import BLOCK_BYTES_SOFT, BLOCK_HEADER_BYTES, FRAME_BYTES_MAX
from amemdb.persistence.manifest import Manifest, Segment
from amemdb.persistence.steps import Append, Block, Close, Done, Extend, Mark, Step, Switch, Sync

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
_SLACK_BYTES = 4 * BLOCK_HEADER_BYTES
"""Room kept back for closing headers."""
_CHUNK_BYTES_MIN = 64 * 1024
_FILE_TOO_LARGE = "File too large"
_EVER = float("-inf")
_NEVER = float("inf")


class Room(Protocol):
    """What the log asks for on the spot, from inside `refuse_write`."""

    def file_bytes_max(self) -> int:
        """How large a file may grow right now."""

    def settle(self) -> None:
        """Return when the step under way, an Extend or a Switch, has gone back into `Log.done`."""

    def extend(self, end: int, count_wanted: int, count_min: int) -> int:
        """Reserve room behind `end` of the current segment and return its new end; `OSError` if there is none."""


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
        room: Room,
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
        self._kept: deque[Block] = deque()
        self._log_id = place.log_id
        self._next_number = place.next_number
        self._older_bytes = place.older_bytes
        self._position = place.position
        self._end = place.end
        self._policy: Policy = policy
        self._room = room
        self._report = report
        self._segment_bytes_max = segment_bytes_max
        self._reserve_bytes = reserve_bytes
        self._chunk_bytes = reserve_bytes
        self._granted = -1
        self._refusal: str | None = None
        self._refusal_told = False
        self._in_flight: Step | None = None
        self._marked = place.marked
        self._closing = False
        self._now = self._synced_at = self._quiet_at = _EVER
        self._retry_at = self._extend_at = self._rotate_at = self._refusal_tell_at = _EVER

    # -- frames in -------------------------------------------------------------------------------

    def append(self, frame: bytes) -> None:
        """Take one frame. `refuse_write` has been asked for its room before."""
        self.pending.append(frame)
        self.offset += len(frame)

    def refuse_write(self, count_bytes: int) -> str | None:
        """Why a frame of `count_bytes` cannot be taken now, or None when it can."""
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
            self._room.settle()
            if self.failure is not None:
                return self.failure
        limit = self._room.file_bytes_max()
        fits = self._room_offset(min(self._end, limit))
        if needed > fits:
            if limit < self._end:
                return self._refused(_FILE_TOO_LARGE)
            wanted = max(needed - fits, self._chunk_bytes)
            try:
                self._extended(self._room.extend(self._end, wanted, needed - fits), wanted)
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

    # -- steps out -------------------------------------------------------------------------------

    def take(self, now: float) -> Step | None:
        """The next step, or None: one is under way, or nothing is due."""
        self._now = now
        if self._in_flight is not None or self.closed:
            return None
        self._in_flight = self._next(now)
        return self._in_flight

    def _next(self, now: float) -> Step | None:
        if self.failure is not None:
            return self._rebuild() if now >= self._retry_at else None
        if self._closing:
            return Close(self._append(sync=True), self.offset)
        if self._sync_due_at() <= now:
            self._synced_at = now
            return Sync()
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
        if self._in_flight is not None or self.closed:
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
        blocks: list[Block] = []
        offset = self._taken_offset
        if self.offset - offset <= BLOCK_BYTES_SOFT or len(self.pending) == 1:
            blocks.append(Block(offset, b"".join(self.pending)))
        else:
            for group in _groups(self.pending):
                blocks.append(Block(offset, b"".join(group)))
                offset = blocks[-1].end
        self.pending.clear()
        self._taken_offset = self.offset
        self._kept.extend(blocks)
        self._marked = False
        return tuple(blocks)

    def _rotate(self, now: float) -> Switch:
        self._synced_at = now
        room = max(0, self._end - self._position)
        return self._switch(self.written_offset, self.written_offset, (), room, self._position)

    def _rebuild(self) -> Switch:
        """A new segment from the first frame on that memory still has and no sync has covered."""
        self._pending_blocks()
        blocks = tuple(self._kept)
        start = blocks[0].offset if blocks else self.offset
        return self._switch(start, self.durable_offset, blocks, _SLACK_BYTES, None)

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
        """Take back the step under way."""
        assert done.step is self._in_flight, "a step came back that was not under way"
        self._now = now
        self._in_flight = None
        match done.step:
            case Append() as step:
                self._appended(step, done, now)
            case Sync():
                if not self._failed(done, now):
                    self.durable_offset = self.written_offset
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

    def _failed(self, done: Done, now: float) -> bool:
        """Whether the step failed; if so, the segment is given up."""
        if done.error is None:
            return False
        text = _text(done.error)
        if self.failure is None:
            self._report("error", f"the log failed in {done.stage}, writes are refused: {text}")
            self._retry_at = now
        else:
            if text != self.failure:
                self._report("error", f"the log still cannot be written: {text}")
            self._retry_at = now + RETRY_SECONDS
        self.failure = self.last_error = text
        self._granted = -1
        return True

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
        """Let go of the blocks that are safe; of none while the file that holds them is not trusted."""
        if self.failure is not None:
            return
        safe = self.written_offset if self._policy == "no" else self.durable_offset
        kept = self._kept
        while kept and kept[0].end <= safe:
            kept.popleft()

    # -- for people ------------------------------------------------------------------------------

    @property
    def error(self) -> str:
        """Why writes are refused at present; empty when they are not."""
        return self.failure or self._refusal or ""

    @property
    def kept_bytes(self) -> int:
        """Bytes of frames in memory because they are not safe yet."""
        return self.offset - (self._kept[0].offset if self._kept else self._taken_offset)

    @property
    def disk_bytes(self) -> int:
        """Bytes that the files of the log take, reserved room included."""
        return self._older_bytes + self._end

    @property
    def room_bytes(self) -> int:
        """Bytes reserved in the current segment and not used yet."""
        return max(0, self._end - self._position)


def _groups(frames: list[bytes]) -> list[list[bytes]]:
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
