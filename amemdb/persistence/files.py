"""The files of a log as it goes on: which there are, which comes next, what a base may replace.

Bookkeeping without I/O and without time, for `amemdb.persistence.log`, which decides when. A method that gives a step
gives it with everything in it; its twin takes back how the step went.

Compaction replaces closed segments by a base (`amemdb.persistence.compaction`), which is made elsewhere. `rotate` asks
for the next segment to take over early, so that everything appended before lies in closed ones; `rebase` asks for the
base to be put in force, upon which what it stands for is removed. If either fails, nothing has changed.

While a manifest may or may not be in force, because the disk failed in the middle of its commit, the files that either
of the two names stay.
"""

from __future__ import annotations

from amemdb.persistence.codec import SEGMENT_HEADER_BYTES
from amemdb.persistence.manifest import Base, Manifest, Segment
from amemdb.persistence.place import OpenFile, Place
from amemdb.persistence.steps import Done, Point, Prepare, Rebase, Retire, Switch, TurnOver

PREPARED_BYTES_MAX = 64 * 1024 * 1024
"""Room that a segment gets before it is needed, at most."""


class Files:
    """The files of the log at `place`."""

    def __init__(self, place: Place, segment_bytes_max: int, reserve_bytes: int) -> None:
        self.segments = place.segments
        self.base = place.base
        self.current = OpenFile(place.segments[-1].number, place.position, place.end)
        """The segment that is written."""
        self.next: OpenFile | None = None
        """The one that is prepared."""
        self.retiring: Retire | None = None
        """What is to be done with the one that was written before, or was prepared for nothing."""
        self.compaction_error: str | None = None
        """Why the last `rotate` or `rebase` came to nothing."""
        self._segment_bytes_max = segment_bytes_max
        self._reserve_bytes = reserve_bytes
        self._log_id = place.log_id
        self._next_number = place.next_number
        self._older_bytes = place.older_bytes
        self._rotate_offset: int | None = None
        """Everything before it is to lie in closed segments."""
        self._new_base: Base | None = None
        """What is to be the base."""
        self._doubtful: list[Segment] = []
        """Segments that a manifest may name which may be in force."""
        self._doubtful_bases: list[str] = []
        """The same of bases."""

    def take_number(self) -> int:
        """A number that no file of the log has had."""
        self._next_number += 1
        return self._next_number - 1

    def _manifest(self, segments: tuple[Segment, ...], base: Base | None = None) -> Manifest:
        return Manifest(self._log_id, segments, self._next_number, base or self.base)

    @property
    def disk_bytes(self) -> int:
        """Bytes that all of them take, reserved room included."""
        return self._older_bytes + self.current.end + (0 if self.next is None else self.next.end)

    # -- one segment follows another ---------------------------------------------------------------

    def next_is_due(self, appended_offset: int, written_offset: int) -> bool:
        """Whether the next segment is to be prepared, or to take over; there are frames up to these offsets."""
        position, rotate_offset = self.current.position, self._rotate_offset
        if self.next is None:
            wanted = position >= self._segment_bytes_max // 2 or rotate_offset is not None
            return wanted and self.closed_offset < appended_offset
        return position >= self._segment_bytes_max or (rotate_offset is not None and written_offset >= rotate_offset)

    def prepare(self, filled: bool) -> Prepare:
        """Have the next segment made. What was granted in the current one must fit there, too."""
        number = self.take_number()
        room_min = SEGMENT_HEADER_BYTES + max(0, self.current.end - self.current.position)
        if self._rotate_offset is None:
            room_wanted = room_min + min(self._segment_bytes_max, PREPARED_BYTES_MAX) + self._reserve_bytes
        else:
            room_wanted = max(room_min, SEGMENT_HEADER_BYTES + self._reserve_bytes)
        return Prepare(number, room_wanted, room_min, filled, self._manifest(self.segments))

    def prepared(self, step: Prepare, done: Done) -> None:
        """It was made."""
        self.next = OpenFile(step.number, SEGMENT_HEADER_BYTES, done.end)

    def lacking_bytes(self) -> int:
        """How much room the next segment lacks to take over; 0 or less if none."""
        assert self.next is not None
        return max(0, self.current.end - self.current.position) - (self.next.end - self.next.position)

    def turn_over(self, written_offset: int) -> TurnOver:
        """Have the next segment take over at `written_offset`."""
        assert self.next is not None
        segment = Segment(self.next.number, written_offset)
        old = Point(self.current.number, self.current.position)
        return TurnOver(old, segment, self._manifest((*self.segments, segment)))

    def turned_over(self, step: TurnOver, done: Done) -> None:
        """It has, or has not, or nobody knows."""
        assert self.next is not None
        file, self.next = self.next, None
        if done.error is None:
            self.segments = step.manifest.segments
            self._older_bytes += step.old.position
            self.current = file
            self.retiring = Retire(step.old.number, step.old.position)
            self._end_rotation()
        elif done.stage == "commit":
            self._doubtful.append(step.segment)
        else:
            self.retiring = Retire(file.number, None)

    def take_retiring(self) -> Retire | None:
        """What is to be done with a file that is not written any more, if there is one."""
        step, self.retiring = self.retiring, None
        return step

    def switch(self, start: int) -> tuple[Segment, Manifest, tuple[Segment, ...], tuple[int, ...]]:
        """A new segment from `start` on in place of those from there on: itself, its manifest, what it replaces, and
        the numbers of segments that were prepared and will not be needed.
        """
        segment = Segment(self.take_number(), start)
        stays = tuple(old for old in self.segments if old.start < start)
        replaced = (*self.segments[len(stays) :], *self._doubtful)
        unused = [] if self.next is None else [self.next.number]
        if self.retiring is not None and self.retiring.end is None:
            unused.append(self.retiring.number)
        self.next = self.retiring = None
        return segment, self._manifest((*stays, segment)), replaced, tuple(unused)

    def switched(self, step: Switch, done: Done) -> None:
        """It is in force."""
        if len(step.manifest.segments) > len(self.segments):
            self._older_bytes += self.current.end
        self.segments = step.manifest.segments
        self.current = OpenFile(step.segment.number, done.position, done.end)
        self._doubtful.clear()
        self._end_rotation()

    # -- compaction ------------------------------------------------------------------------------

    @property
    def closed_offset(self) -> int:
        """Up to where segments are closed: nothing is written to them any more, and all of it is durable."""
        return self.segments[-1].start

    @property
    def closed_segments(self) -> tuple[Segment, ...]:
        """Those that a new base may replace."""
        return self.segments[:-1]

    @property
    def compacting(self) -> bool:
        """Whether a `rotate` or a `rebase` is still to be done."""
        return self._rotate_offset is not None or self._new_base is not None

    @property
    def base_is_due(self) -> bool:
        """Whether there is a base to be put in force."""
        return self._new_base is not None

    def rotate(self, offset: int) -> None:
        """Everything before `offset` is to end up in closed segments."""
        self.compaction_error = None
        self._rotate_offset = offset
        self._end_rotation()

    def _end_rotation(self) -> None:
        if self._rotate_offset is not None and self.closed_offset >= self._rotate_offset:
            self._rotate_offset = None

    def rebase(self, base: Base) -> None:
        """`base`, which is on disk, is to stand for everything before its offset, the start of a segment."""
        assert any(segment.start == base.offset for segment in self.segments), "a base ends where a segment starts"
        self.compaction_error = None
        self._new_base = base

    def put_base(self) -> Rebase:
        """Have it done."""
        base = self._new_base
        assert base is not None
        stays = tuple(segment for segment in self.segments if segment.start >= base.offset)
        replaced = [segment.name for segment in self.segments if segment.start < base.offset]
        if self.base is not None:
            replaced.append(self.base.name)
        return Rebase(self._manifest(stays, base), (*replaced, *self._doubtful_bases))

    def rebased(self, step: Rebase, done: Done, failure: str | None) -> None:
        """It is in force, or why not."""
        base, self._new_base = step.manifest.base, None
        assert base is not None
        if failure is None:
            self.segments, self.base = step.manifest.segments, base
            self._older_bytes = max(0, self._older_bytes + base.size - done.end)
            self._doubtful_bases.clear()
        else:
            self._doubtful_bases.append(base.name)
            self.compaction_error = failure

    def call_off(self, why: str, rebasing: bool) -> None:
        """What compaction asked for will not be done, unless it is: `rebasing` says that a Rebase is under way."""
        if self._rotate_offset is not None or (self._new_base is not None and not rebasing):
            self._rotate_offset = self._new_base = None
            self.compaction_error = why
