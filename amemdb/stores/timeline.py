"""Events in the order of their time: a sorted sequence in chunks.

Almost every event arrives at the end and leaves at the front, while a search may begin at any time and an event
may carry one of long ago. One long list would move a million pointers for such an event; a tree of nodes would
cost several times the memory. So the events lie in chunks of at most `CHUNK_MAX`, each sorted, each before the next:

* find: a binary search over the chunks by their first event, then one inside a chunk: O(log n);
* add at the end: O(1); anywhere else: one chunk moves, and splits in half when it is full;
* drop the oldest: whole chunks at once, then the front of one.

Only the first and the last chunk can be less than half full, as nothing is ever taken from the middle.

An event is a tuple `(at_ms, seq, type, content, metadata, id)`. `seq` is unique in its log and grows with arrival,
so comparing tuples orders events by time, then by arrival, and never looks further. A *probe* is the beginning of
such a tuple: `(at_ms,)` lies before every event of that time, `(at_ms, seq)` before or at that one event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import chain
from operator import itemgetter

Event = tuple[int, int, bytes, bytes, bytes | None, bytes | None]
Probe = tuple[int, ...]

CHUNK_MAX = 512

_first = itemgetter(0)


class Timeline:
    """A sorted sequence of events, all of `event_type` if there is one. No chunk is ever empty.

    Its twin is `amemdb.stores._timeline`, which packs events and finds those of a type by itself.
    """

    __slots__ = ("_chunks", "_count", "event_type")

    def __init__(self, event_type: bytes = b"") -> None:
        self.event_type = event_type
        self._chunks: list[list[Event]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def oldest(self) -> Event:
        """The first event; there must be one."""
        return self._chunks[0][0]

    @property
    def newest(self) -> Event:
        """The last event; there must be one."""
        return self._chunks[-1][-1]

    # -- reading ---------------------------------------------------------------------------------

    def nth_newest(self, index: int) -> Event:
        """The event that `index` others come after; there must be so many. O(index / chunk)."""
        for chunk in reversed(self._chunks):
            if index < len(chunk):
                return chunk[-1 - index]
            index -= len(chunk)
        raise AssertionError("a timeline was asked for more events than it holds")

    def count_before(self, probe: Probe) -> int:
        """How many events lie before `probe`. O(log n) and one step a chunk before it."""
        at, offset = self._locate(probe)
        return sum(map(len, self._chunks[:at])) + offset

    def count_between(self, low: Probe, high: Probe) -> int:
        """How many events lie from `low` up to, not including, `high`. O(log n) and one step a chunk between."""
        if low >= high:
            return 0
        first, begin = self._locate(low)
        last, end = self._locate(high)
        return sum(map(len, self._chunks[first:last])) - begin + end

    def newest_between(self, low: Probe, high: Probe, count_max: int) -> list[Event]:
        """The newest `count_max` events from `low` up to, not including, `high`, oldest first. O(log n + answer)."""
        at, end = self._locate(high)
        parts: list[list[Event]] = []
        while count_max > 0:
            if end == 0:
                if at == 0:
                    break
                at -= 1
                end = len(self._chunks[at])
            chunk = self._chunks[at]
            begin = max(0, end - count_max)
            reached = chunk[begin] < low
            if reached:
                begin = bisect_left(chunk, low, begin, end)
            parts.append(chunk[begin:end])
            if reached:
                break
            count_max -= end - begin
            end = begin
        return [event for part in reversed(parts) for event in part]

    def oldest_from(self, low: Probe) -> Iterator[Event]:
        """The events from `low` on, oldest first, while nothing is added or dropped. O(log n) and a step an event."""
        at, begin = self._locate(low)
        for chunk in self._chunks[at:]:
            yield from chunk[begin:] if begin else chunk
            begin = 0

    def _locate(self, probe: Probe) -> tuple[int, int]:
        """Chunk and offset of the first event at or after `probe`; the offset may be the end of a chunk."""
        at = bisect_right(self._chunks, probe, key=_first) - 1
        if at < 0:
            return 0, 0
        return at, bisect_left(self._chunks[at], probe)

    # -- changes ---------------------------------------------------------------------------------

    def add(self, event: Event) -> None:
        """Take `event` to its place."""
        chunks = self._chunks
        self._count += 1
        if not chunks:
            chunks.append([event])
            return
        last = chunks[-1]
        if event > last[-1]:
            if len(last) < CHUNK_MAX:
                last.append(event)
            else:
                chunks.append([event])
            return
        at = max(0, bisect_right(chunks, event, key=_first) - 1)
        chunk = chunks[at]
        insort(chunk, event)
        if len(chunk) > CHUNK_MAX:
            half = len(chunk) // 2
            chunks.insert(at + 1, chunk[half:])
            del chunk[half:]

    def drop_oldest(self, count: int) -> Timeline:
        """Remove the oldest `count` events, of which there must be so many, and return them as a timeline."""
        assert 0 <= count <= self._count, "a timeline was told to drop more events than it holds"
        dropped = Timeline()
        dropped._count = count
        self._count -= count
        whole = 0
        for chunk in self._chunks:
            if count < len(chunk):
                break
            count -= len(chunk)
            whole += 1
        dropped._chunks = self._chunks[:whole]
        del self._chunks[:whole]
        if count:
            chunk = self._chunks[0]
            dropped._chunks.append(chunk[:count])
            del chunk[:count]
        return dropped

    def __iter__(self) -> Iterator[Event]:
        return chain.from_iterable(self._chunks)

    def free_some(self, count: int) -> int:
        """Free about `count` events, the newest ones, of a timeline that is out of use; how many they were."""
        freed = 0
        while self._chunks and freed < count:
            freed += len(self._chunks.pop())
        self._count -= freed
        return freed
