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
disk is a step. One step at a time, but an Append may be taken while one of `steps.Beside` is under way, so that
replies need not wait for it (while a Sync is, only under `everysec`: it covers what was written when it began).
Nothing is written on the loop meanwhile, as a write may hang behind the sync of its file, unless the step is at
another file (`steps.ELSEWHERE`).

Room. A frame is applied before it is written, so its room in the file is reserved before it is accepted:
`refuse_write` counts what is pending (each unit, which is what one `append` brings, as if it became a block of its
own) against the room left, and asks for more on the spot when the background has not kept up. Where there is none it
refuses, and asks again the next time, so writes come back by themselves. The room granted holds for one turn of the
loop; `room` says what is left of it.

Failure. After a failed write or sync the segment is not trusted again. Frames are kept in memory until durable
(under `no`: until written), so all of them are written to a new segment, at once and then once a second until it
works; meanwhile writes are refused, and under `always` reads as well while there is anything that is not durable.
Nothing is released that a crash could take back.

A new segment is also begun when the current one has reached its size. That is no emergency: while it cannot be
made, the current one goes on growing. And nobody waits for it:

* Once half of the current segment is full, a Prepare makes the file of the next one, with all its room.
* Once it is full, a TurnOver has the next one begin at what was written so far, and what is written while that is
  under way goes to both files. A crash leaves the old manifest, under which the old file goes on, or the new one,
  under which what the old file holds from there on is void (`codec`, rule 1); either way all that was written is
  there. It is durable when a sync has covered both, which an Append under `always` sees to; no Sync is taken.
* When it has come back, and with it any Append that still wrote to both, a Retire gives back the rest of the old file,
  or removes the new one, if that did not come into force.

Which files there are, and how compaction replaces some of them, is told in `amemdb.persistence.files`.

A segment that is prepared also helps a full disk: it takes over when there is no other room, or gives its own back.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Literal

from amemdb.persistence.codec import BLOCK_BYTES_SOFT, BLOCK_HEADER_BYTES, FRAME_BYTES_MAX
from amemdb.persistence.disk import FILE_GONE, NO_LIMIT
from amemdb.persistence.files import Files
from amemdb.persistence.manifest import Base, Segment
from amemdb.persistence.place import OpenFile, Place, Spot
from amemdb.persistence.steps import (
    ELSEWHERE,
    Append,
    Beside,
    Block,
    Close,
    Done,
    Extend,
    Mark,
    Point,
    Prepare,
    Rebase,
    Stage,
    Step,
    Switch,
    Sync,
    TurnOver,
    blocks_of,
)

Policy = Literal["always", "everysec", "no"]
Report = Callable[[str, str], None]
"""Takes a level (`notice`, `warning`, `error`) and a line for people."""

SEGMENT_BYTES_MAX = 64 * 1024 * 1024
RESERVE_BYTES = 8 * 1024 * 1024
SYNC_SECONDS = 1.0
RETRY_SECONDS = 1.0
QUIET_SECONDS = 1.0
TELL_SECONDS = 10.0
"""A failure that comes and goes is said to be over once it has not come for so long."""
HERE_BYTES_MAX = BLOCK_BYTES_SOFT
"""More than this, which is one block and costs the loop a tenth of a millisecond, is left to the thread."""
_SLACK_BYTES = 4 * BLOCK_HEADER_BYTES
"""Room kept back for closing headers."""
_CHUNK_BYTES_MIN = 64 * 1024
_FILE_TOO_LARGE = "File too large"
_EVER = float("-inf")
_NEVER = float("inf")


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
        self.files = Files(place, segment_bytes_max, reserve_bytes)
        self._taken_offset = place.offset
        self._kept: list[bytes] = []
        """What was taken and is not safe, as it was written: from `_kept_offset` to `_taken_offset`."""
        self._kept_offset = place.offset
        self._syncing_kept: list[bytes] = []
        """What of that the Sync under way covers: all before `_kept`. Two lists, so that thousands go at once."""
        self._policy: Policy = policy
        self._spot = spot
        self._report = report
        self._reserve_bytes = reserve_bytes
        self._chunk_bytes = reserve_bytes
        self._granted = -1
        self._refusal: str | None = None
        self._refusal_told = False
        self._in_flight: Step | None = None
        self._beside: Step | None = None
        self._marked = place.marked
        self._closing = False
        self._now = self._synced_at = self._quiet_at = _EVER
        self._retry_at = self._extend_at = self._segment_at = self._refused_at = _EVER

    # -- frames in -------------------------------------------------------------------------------

    def append(self, frames: bytes) -> None:
        """Take one unit: whole frames one behind the other, for whose room `refuse_write` has been asked."""
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
        limit = self._spot.file_bytes_max()
        if not self._is_turning:
            fits = self._room_offset(self.files.current, limit)
            if needed <= fits:
                self._granted = fits
                self._accepted()
                return None
        if needed > min(map(self._room_offset, self._files())) and self._settle():
            return self.failure
        for file in self._files():
            fits = self._room_offset(file, limit)
            if needed > fits:
                if limit < file.end:
                    return self._refused(_FILE_TOO_LARGE)
                wanted = max(needed - fits, self._chunk_bytes)
                try:
                    self._extended(file, self._spot.extend(file.number, file.end, wanted, needed - fits), wanted)
                except OSError as error:
                    return self._refused(_text(error))
        self._granted = min(self._room_offset(file, limit) for file in self._files())
        self._accepted()
        return None

    def _settle(self) -> bool:
        """Wait for what is just changing the room or the files; whether the log has failed since."""
        for step in (self._in_flight, self._beside):
            if isinstance(step, Extend | Switch):
                self._spot.settle(step)
        return self.failure is not None

    @property
    def _is_turning(self) -> bool:
        return isinstance(self._beside, TurnOver)

    def _files(self) -> tuple[OpenFile, ...]:
        """Where what is pending will be written."""
        if self._is_turning and self.files.next is not None:
            return self.files.current, self.files.next
        return (self.files.current,)

    def _refused(self, text: str) -> str:
        self._refused_at = self._now
        if not self._refusal_told:
            self._refusal_told = True
            self._report("error", f"the log cannot grow, writes are refused: {text}")
        self._refusal = self.last_error = text
        return text

    def _accepted(self) -> None:
        self._refusal = None
        if self._refusal_told and self._now >= self._refused_at + TELL_SECONDS:
            self._refusal_told = False
            self._report("notice", "the log can grow again, writes are accepted")

    def _extended(self, file: OpenFile, end: int, wanted: int) -> None:
        """Room now reaches to `end`; how much was wanted says whether the disk still gives freely."""
        if end - file.end >= wanted:
            self._chunk_bytes = min(self._reserve_bytes, self._chunk_bytes * 2)
        else:
            self._shrink_chunk()
        file.end = end

    def _shrink_chunk(self) -> None:
        self._chunk_bytes = max(self._chunk_bytes // 8, min(_CHUNK_BYTES_MIN, self._reserve_bytes))

    def _room_offset(self, file: OpenFile, limit: int = NO_LIMIT) -> int:
        """Up to which offset frames fit in `file` if it can be written up to `limit`."""
        return self._taken_offset + min(file.end, limit) - file.position - _SLACK_BYTES

    def _room_is_low(self) -> bool:
        return (self.files.current.end - self.files.current.position) * 2 < self._chunk_bytes

    # -- written here ----------------------------------------------------------------------------

    def write_here(self, now: float) -> bool:
        """Have what is pending written on the spot, if that is quick. Whether `take` is to be asked for more to do."""
        offset = self._taken_offset
        count_bytes = self.offset - offset
        if (
            self._in_flight is not None
            or not (self._beside is None or isinstance(self._beside, ELSEWHERE))
            or self._policy == "always"
            or not 0 < count_bytes <= HERE_BYTES_MAX
            or self.failure is not None
            or self._closing
        ):
            return True
        self._now = now
        pending, file = self.pending, self.files.current
        position = file.position
        payload = pending[0] if len(pending) == 1 else b"".join(pending)
        pending.clear()
        self._kept.append(payload)
        self._taken_offset = self.offset
        file.position = position + BLOCK_HEADER_BYTES + count_bytes
        self._marked = False
        self._quiet_at = now
        try:
            self._spot.write_block(file.number, position, offset, self.durable_offset, payload)
        except OSError as error:
            self._give_up("write", error, now)
            return True
        more = self.durable_offset == self.written_offset  # it was all synced: a sync, or the time of one, is new
        self.written_offset = self.offset
        if self._policy == "no":
            self._forget_kept()
        return more or self._segment_is_due() or self._room_is_low()

    # -- steps out -------------------------------------------------------------------------------

    def take(self, now: float) -> Step | None:
        """The next step, or None: nothing is due, or what is under way comes first. Ask until there is none."""
        self._now = now
        if self._in_flight is not None or self.closed:
            return None
        if self._beside is not None:
            return self._take_beside()
        step = self._next(now)
        if type(step) is not Append and isinstance(step, Beside):
            self._beside = step
        else:
            self._in_flight = step
        return step

    def _take_beside(self) -> Append | None:
        if not self.pending or self.failure is not None or self._closing:
            return None
        if isinstance(self._beside, Sync) and self._policy != "everysec":
            return None
        step = self._append(sync=self._policy == "always")
        self._in_flight = step
        return step

    def _next(self, now: float) -> Step | None:
        if self.failure is not None:
            return self._rebuild() if now >= self._retry_at else None
        if (retire := self.files.take_retiring()) is not None:
            return retire
        if self._closing:
            unused = None if self.files.next is None else self.files.next.number
            return Close(self._append(sync=True), self.offset, unused)
        file = self.files.current
        if self._sync_due_at() <= now:
            self._syncs(now)
            return Sync(file.number, self.written_offset)
        if self.files.base_is_due:
            return self.files.put_base()
        if self._segment_is_due() and (segment_step := self._segment_step(now)) is not None:
            return segment_step
        if self._room_is_low() and now >= self._extend_at:
            return Extend(file.number, file.end, self._chunk_bytes, self._fills)
        if self.pending:
            return self._append(sync=self._policy == "always")
        if self._mark_due_at() <= now:
            mark = Mark(Point(file.number, file.position), self.offset)
            file.position += BLOCK_HEADER_BYTES
            return mark
        return None

    def _syncs(self, now: float) -> None:
        """A sync begins that covers all that is written."""
        self._synced_at = now
        self._syncing_kept.extend(self._kept)
        self._kept = []

    @property
    def _fills(self) -> bool:
        """Whether room is filled ahead, for the sake of the sync that each reply waits for."""
        return self._policy == "always"

    def due_at(self) -> float:
        """When `take` will have something to do by time alone; infinity if only new frames can bring something."""
        if self._in_flight is not None or self._beside is not None or self.closed:
            return _NEVER
        if self.failure is not None:
            return self._retry_at
        if self.files.base_is_due:
            return _EVER
        due = min(self._sync_due_at(), self._mark_due_at())
        if self._segment_is_due():
            due = min(due, self._segment_at)
        if self._room_is_low():
            due = min(due, self._extend_at)
        return due

    def _sync_due_at(self) -> float:
        if self.durable_offset == self.written_offset or self._policy == "no":
            return _NEVER
        return self._synced_at + SYNC_SECONDS if self._policy == "everysec" else self._synced_at

    def _mark_due_at(self) -> float:
        """Never without room: what is written behind the end of it would be cut off when making more fails."""
        file = self.files.current
        if self._marked or self.durable_offset != self.offset or file.end - file.position < BLOCK_HEADER_BYTES:
            return _NEVER
        return self._quiet_at + QUIET_SECONDS

    def _segment_is_due(self) -> bool:
        """Whether the next segment is to be prepared, or to take over: also when the current one can get no room."""
        files = self.files
        if files.next is not None and self._refusal is not None:
            return True
        return files.next_is_due(self._taken_offset, self.written_offset)

    def _segment_step(self, now: float) -> Prepare | Extend | TurnOver | None:
        files = self.files
        if now < self._segment_at:
            return None
        if files.next is None:
            return files.prepare(self._fills)
        lacking = files.lacking_bytes()
        if lacking > 0:
            self._segment_at = now + RETRY_SECONDS
            return Extend(files.next.number, files.next.end, lacking, self._fills)
        self._syncs(now)
        return files.turn_over(self.written_offset)

    def _append(self, *, sync: bool) -> Append:
        """All pending frames as blocks behind the last one."""
        file, copy = self.files.current, self.files.next if self._is_turning else None
        position, copy_at = file.position, None
        blocks = self._pending_blocks()
        count_bytes = len(blocks) * BLOCK_HEADER_BYTES + sum([len(block.payload) for block in blocks])
        file.position = position + count_bytes
        file.end = max(file.end, file.position)
        if copy is not None:
            copy_at = Point(copy.number, copy.position)
            copy.position += count_bytes
            copy.end = max(copy.end, copy.position)
        return Append(Point(file.number, position), blocks, self.durable_offset, sync, copy_at)

    def _pending_blocks(self) -> tuple[Block, ...]:
        """Make blocks of the pending frames, and keep them until they are safe."""
        if not self.pending:
            return ()
        blocks = blocks_of(self._taken_offset, self.pending)
        self.pending.clear()
        self._taken_offset = self.offset
        self._kept.extend(block.payload for block in blocks)
        self._marked = False
        return blocks

    def _rebuild(self) -> Switch:
        """A new segment from the first frame on that memory still has and no sync has covered."""
        self._pending_blocks()
        start = self._kept_offset
        blocks = blocks_of(start, [*self._syncing_kept, *self._kept])
        segment, manifest, replaced, unused = self.files.switch(start)
        room_wanted = max(_SLACK_BYTES, self._reserve_bytes)
        durable = min(self.durable_offset, start)
        return Switch(segment, durable, blocks, _SLACK_BYTES, room_wanted, manifest, replaced, unused)

    # -- results in ------------------------------------------------------------------------------

    def done(self, done: Done, now: float) -> None:
        """Take back a step that was under way."""
        self._now = now
        if type(done.step) is not Append and isinstance(done.step, Beside):
            assert done.step is self._beside, "a step came back that was not under way"
            self._beside = None
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
            case Prepare() as step:
                self._prepared(step, done, now)
            case TurnOver() as step:
                self._turned_over(step, done, now)
            case Rebase() as step:
                self._rebased(step, done)
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
        if not self._failed(done, now):
            self._covered(step.offset)

    def _covered(self, offset: int) -> None:
        """A sync that began with `_syncs` has covered everything before `offset`."""
        self.durable_offset = max(self.durable_offset, offset)
        if self.failure is None and self._kept_offset < offset:
            self._syncing_kept.clear()
            self._kept_offset = offset

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
        self._call_off(text)

    def _extend_done(self, step: Extend, done: Done, now: float) -> None:
        if done.error is None:
            if step.number == self.files.current.number:
                self._extended(self.files.current, done.end, step.count)
            elif self.files.next is not None:
                self.files.next.end = done.end
                self._segment_at = _EVER
            return
        if done.stage == "sync" and step.number == self.files.current.number:
            self._failed(done, now)
            return
        if self.last_error != _text(done.error):
            self._report("warning", f"no room can be reserved ahead for the log: {_text(done.error)}")
        self.last_error = _text(done.error)
        self._extend_at = now + RETRY_SECONDS
        self._shrink_chunk()

    def _prepared(self, step: Prepare, done: Done, now: float) -> None:
        if done.error is None:
            self.files.prepared(step, done)
        else:
            self._put_off(done, now)

    def _put_off(self, done: Done, now: float) -> None:
        """The next segment could not be made or take over; nothing depends on that."""
        self._segment_at = now + RETRY_SECONDS
        self._call_off(_text(done.error))
        if self.last_error != _text(done.error):
            self._report("warning", f"a new log segment cannot be made, the old one grows on: {_text(done.error)}")
        self.last_error = _text(done.error)

    def _turned_over(self, step: TurnOver, done: Done, now: float) -> None:
        if done.stage != "sync":
            self._covered(step.segment.start)
        self.files.turned_over(step, done)
        if done.error is not None:
            if done.stage in ("sync", "commit"):
                self._failed(done, now)
            else:
                self._put_off(done, now)

    def _switched(self, step: Switch, done: Done, now: float) -> None:
        if self._failed(done, now):
            return
        self.files.switched(step, done)
        self.written_offset = self.durable_offset = self._taken_offset
        self._marked = False
        self._quiet_at = now
        if self.failure is not None:
            self.failure = None
            self._report("notice", f"the log is written again, to {step.segment.name}; nothing was lost")

    # -- compaction ------------------------------------------------------------------------------

    def rotate(self) -> None:
        """Have everything that was appended so far end up in closed segments, soon."""
        self._segment_at = _EVER
        self.files.rotate(self.offset)

    def rebase(self, base: Base) -> None:
        """Have `base` stand for everything before its offset, soon."""
        self.files.rebase(base)

    def _rebased(self, step: Rebase, done: Done) -> None:
        failure = None if done.error is None else _text(done.error)
        self.files.rebased(step, done, failure)
        self.last_error = failure or self.last_error

    def _call_off(self, text: str) -> None:
        """What compaction asked for and has not begun will not be done."""
        self.files.call_off(text, isinstance(self._beside, Rebase))

    # -- the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Take no more frames; the steps that follow end with a Close, after which `closed` is true."""
        self._closing = True
        self._granted = -1
        self._call_off("the server is shutting down")
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
    def segments(self) -> tuple[Segment, ...]:
        """The segments, in order; the last one is written."""
        return self.files.segments

    @property
    def base(self) -> Base | None:
        """What stands for the beginning of the log, if it was ever compacted."""
        return self.files.base

    @property
    def disk_bytes(self) -> int:
        """Bytes that the files of the log take, reserved room included."""
        return self.files.disk_bytes

    @property
    def room_bytes(self) -> int:
        """Bytes reserved in the current segment and not used yet."""
        return max(0, self.files.current.end - self.files.current.position)


def _text(error: OSError | None) -> str:
    """The system's words, without names of files, which are no business of clients.

    Nothing there under a name that the log knows is told alike, whichever step was the first to find out.
    """
    assert error is not None
    return FILE_GONE if error.errno == errno.ENOENT else error.strerror or type(error).__name__
