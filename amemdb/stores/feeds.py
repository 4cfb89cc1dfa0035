"""What brings the texts of one object to its text index: the facts of a namespace, events, turns, or notes.

A write does nothing for an index: none of its numbers are ever used twice, and they ascend in the order of writing, so
what an index has not seen is what is newer than the last that it has. When somebody searches, the feed looks what that
is, and has the index take it in, step by step, so that others are served in between. Whoever searches in the meantime
goes on with the same steps; each waits for what was written before it asked, and no longer.

==========  ===============================  =========================================================
object      document                         what removes one
==========  ===============================  =========================================================
namespace   id of a fact, its content        `Namespace.take` says so
log         seq of an event, its content     it was older than the oldest event left by a trim: `Stores` says so
session     number of a turn, its content    it is below the first number that is in the window
notes       a number of its own, key and     another value lies under the key, or none
            value of a note
==========  ===============================  =========================================================

`amemdb.stores.texts` holds the feeds and drops them with their objects.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from operator import itemgetter

import numpy as np

from amemdb.index.text.analyse import Analyser
from amemdb.index.text.postings import Integers, TextIndex
from amemdb.limits import INT64_MAX, INT64_MIN
from amemdb.stores.conversation import Conversation
from amemdb.stores.episodic import EventLog
from amemdb.stores.semantic import Fact, Namespace
from amemdb.stores.timeline import Event
from amemdb.stores.working import WorkingStore

FEW = 1000
"""So many facts are picked one by one, and so many notes compared at once."""
EVENTS_AT_ONCE = 128
TURNS_AT_ONCE = 64

_NOTHING = (INT64_MIN, INT64_MIN)
Document = tuple[int, bytes, int]
"""Number, text and stamp."""


class Feed:
    """One object's text index, and how far it has come."""

    def __init__(self, analyser: Analyser, changed: Callable[[int], None]) -> None:
        """`changed` is told by how many bytes the index has grown."""
        self.index = TextIndex(analyser)
        self.dropped = False
        """Whether the object is gone."""
        self._seen = -1
        self._work: Generator[None, None, None] | None = None
        self._changed = changed
        self.counted_bytes = self.index.memory_bytes()

    def absorbing(self) -> Generator[None, None, None]:
        """Have the index take in, in steps, all that was written until now. Several may be at it at once."""
        newest = self.wanted_number()
        while not self.dropped:
            if self._seen >= newest and self._work is None:
                self.settle()
                if not self.index.wants_purging:
                    return
            self.advance()
            yield

    def advance(self) -> None:
        """One step."""
        if self._work is None:
            self._work = self._absorb()
        try:
            next(self._work)
        except StopIteration:
            self._work = None
        now_bytes = self.index.memory_bytes()
        if now_bytes != self.counted_bytes:
            self._changed(now_bytes - self.counted_bytes)
            self.counted_bytes = now_bytes

    def _absorb(self) -> Generator[None, None, None]:
        self.settle()
        if self.index.wants_purging:
            yield from self.index.purging()
            self.settle()
        newest = self.newest_number()
        for document in self.unseen(newest):
            if document is not None:
                yield from self.index.putting(*document)
            yield
        self._seen = newest

    def newest_number(self) -> int:
        """The number of the newest document that there is, or was."""
        raise NotImplementedError

    def wanted_number(self) -> int:
        """What the index must have come to for a search that begins now."""
        return self.newest_number()

    def unseen(self, newest: int) -> Iterator[Document | None]:
        """The documents behind the last that was taken in, up to `newest`, ascending.

        Time passes between them, so each is looked at again when its turn comes. None: nothing but time has passed.
        """
        raise NotImplementedError

    def settle(self) -> None:
        """Remove from the index what is gone."""
        raise NotImplementedError


class FactFeed(Feed):
    """Contents of the facts of a namespace."""

    def __init__(self, namespace: Namespace, analyser: Analyser, changed: Callable[[int], None]) -> None:
        super().__init__(analyser, changed)
        self._namespace = namespace

    def newest_number(self) -> int:
        return self._namespace.next_fact_id - 1

    def unseen(self, newest: int) -> Iterator[Document | None]:
        namespace = self._namespace
        if newest - self._seen > FEW:
            facts = list(namespace.facts.values())  # in the order of writing; takes microseconds
            del facts[: bisect_right(facts, self._seen, key=itemgetter(0))]
        else:
            facts = namespace.written_since(self._seen + 1)[::-1]
        for fact in facts:
            yield (fact[0], fact[2], 0) if namespace.facts.get(fact[1]) is fact else None

    def settle(self) -> None:
        """The namespace has told."""

    def fact(self, fact_id: int, now_ms: int) -> Fact | None:
        """The fact of that id if it is there and its time has not passed."""
        found = self._namespace.facts_of((fact_id,))
        return found[0] if found and not 0 < found[0][3] <= now_ms else None


class EventFeed(Feed):
    """Contents of the events of a log."""

    def __init__(self, log: EventLog, analyser: Analyser, changed: Callable[[int], None]) -> None:
        super().__init__(analyser, changed)
        self._log = log
        self._gone = _NOTHING
        """Time and seq below which events have gone since this was last told to the index."""

    def newest_number(self) -> int:
        return self._log.next_seq - 1

    def unseen(self, newest: int) -> Iterator[Document | None]:
        """Looked for from the end of the log, until all are found that are missing; then taken in by seq."""
        log = self._log
        missing = len(log) - self.index.live
        pages: list[Integers] = []
        high: tuple[int, ...] = (INT64_MAX, INT64_MAX)
        while missing > 0:
            page = log.newest_between(None, (INT64_MIN,), high, EVENTS_AT_ONCE)
            if not page:
                break
            high = page[0][:2]
            found = [[event[1], event[0]] for event in page if self._seen < event[1] <= newest]
            pages.append(np.array(found, np.int64).reshape(-1, 2))
            missing -= len(found)
            yield None
        ordered = np.concatenate([*pages[::-1], np.empty((0, 2), np.int64)])
        if np.any(np.diff(ordered[:, 0]) < 0):  # not where none was told late
            ordered = ordered[np.argsort(ordered[:, 0], kind="stable")]
        for begin in range(0, len(ordered), EVENTS_AT_ONCE):
            for seq, at_ms in ordered[begin : begin + EVENTS_AT_ONCE].tolist():
                there = self.find(seq, at_ms)
                yield None if there is None else (seq, there[3], at_ms)

    def settle(self) -> None:
        if self._gone != _NOTHING:
            self.index.remove_older(*self._gone)
            self._gone = _NOTHING

    def trimmed(self) -> None:
        """Events have gone, the oldest ones. It has to be noted now: one that is older still may come any moment."""
        log = self._log
        oldest = log.events.oldest[:2] if len(log) else (INT64_MAX, INT64_MAX)
        self._gone = max(self._gone, oldest)

    def find(self, seq: int, at_ms: int) -> Event | None:
        """An event that is in the log."""
        found = self._log.newest_between(None, (at_ms, seq), (at_ms, seq + 1), 1)
        return found[0] if found else None

    def event(self, seq: int, now_ms: int) -> Event | None:
        """The event of a number that the index gave, if it is there and not out of age."""
        if not self.index.holds(seq):
            return None
        at_ms = self.index.stamp(seq)
        return self.find(seq, at_ms) if at_ms >= self._log.live_from_ms(now_ms) else None


class TurnFeed(Feed):
    """Contents of the turns of a session."""

    def __init__(self, conversation: Conversation, analyser: Analyser, changed: Callable[[int], None]) -> None:
        super().__init__(analyser, changed)
        self._conversation = conversation

    def newest_number(self) -> int:
        return self._conversation.seq

    @property
    def _first_number(self) -> int:
        return self._conversation.seq - len(self._conversation) + 1

    def unseen(self, newest: int) -> Iterator[Document | None]:
        conversation = self._conversation
        turns = conversation.snapshot(min(len(conversation), conversation.seq - self._seen))
        first = conversation.seq - len(turns) + 1
        for begin in range(0, len(turns), TURNS_AT_ONCE):
            for number, turn in enumerate(turns[begin : begin + TURNS_AT_ONCE], first + begin):
                yield (number, turn[1], 0) if number >= self._first_number else None

    def settle(self) -> None:
        self.index.remove_before(self._first_number)

    def turn(self, number: int) -> bytes | None:
        """The content of the turn of that number, if it is in the window."""
        conversation = self._conversation
        if not self._first_number <= number <= conversation.seq:
            return None
        return conversation.snapshot(conversation.seq - number + 1)[0][1]


class NoteFeed(Feed):
    """Keys and values of the notes of a session. There are few, so they are compared with what the index has."""

    def __init__(self, session: bytes, store: WorkingStore, analyser: Analyser, changed: Callable[[int], None]) -> None:
        super().__init__(analyser, changed)
        self._session = session
        self._store = store
        self._known: dict[bytes, tuple[int, bytes]] = {}
        self._keys: dict[int, bytes] = {}
        self._next = 0

    def newest_number(self) -> int:
        """The number of a comparison, as anything may have been written since the last."""
        return self._seen + 1

    def wanted_number(self) -> int:
        """One that begins from now on."""
        return self._seen + (1 if self._work is None else 2)

    def unseen(self, newest: int) -> Iterator[Document | None]:
        notes = self._store.sessions.get(self._session)
        items = [] if notes is None else notes.items()
        there = dict(items)
        for key in [key for key in self._known if key not in there]:
            self._forget(key)
        for at, (key, (value, _)) in enumerate(items):
            if at % FEW == FEW - 1:
                yield None
            known = self._known.get(key)
            if known is not None and known[1] == value:
                continue
            if known is not None:
                self._forget(key)
            number = self._next = self._next + 1
            self._known[key] = (number, value)
            self._keys[number] = key
            yield (number, key + b"\n" + value, 0)

    def settle(self) -> None:
        """`unseen` does."""

    def key(self, number: int) -> bytes | None:
        """The key of a note that the index gave."""
        return self._keys.get(number)

    def _forget(self, key: bytes) -> None:
        number, _ = self._known.pop(key)
        del self._keys[number]
        self.index.remove(number)
