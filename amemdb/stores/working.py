"""Working notes: keys and values of a session, ended with it.

A note is a tuple `(value, expire_at_ms)`. Whether the session lives is the conversation store's affair: nothing
here outlives a CONVERSATION_DROPPED, and commands look at the session first.

The notes of a session are a `Notes`: `PlainNotes`, or its compiled twin, which keeps each in a block of bytes
(`_working.pyx`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amemdb import native
from amemdb.stores import memory, records
from amemdb.stores.conversation import ConversationStore
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

Note = tuple[bytes, int]


class PlainNotes:
    """The notes of one session by key."""

    __slots__ = ("_note_bytes", "_notes")

    def __init__(self) -> None:
        self._notes: dict[bytes, Note] = {}
        self._note_bytes = 0

    def __len__(self) -> int:
        return len(self._notes)

    def get(self, key: bytes) -> Note | None:
        """Value and `expire_at_ms` of a note; None if there is none of that key."""
        return self._notes.get(key)

    def items(self) -> list[tuple[bytes, Note]]:
        """Every key with what `get` gives for it, in the order in which the keys first came."""
        return list(self._notes.items())

    def live_items(self, now_ms: int) -> list[tuple[bytes, bytes]]:
        """Keys and values of the notes whose time has not passed, in the same order."""
        return [(key, value) for key, (value, expire_at_ms) in self._notes.items() if not 0 < expire_at_ms <= now_ms]

    def expiries(self) -> list[tuple[bytes, int]]:
        """Key and `expire_at_ms` of each note with an expiry of its own."""
        return [(key, expire_at_ms) for key, (_, expire_at_ms) in self._notes.items() if expire_at_ms]

    def set(self, key: bytes, value: bytes, expire_at_ms: int) -> int:
        """Set a note; `expire_at_ms` that the note of that key had before, 0 without."""
        before = self._notes.get(key)
        note = self._notes[key] = (value, expire_at_ms)
        self._note_bytes += _bytes_of(key, note)
        if before is None:
            return 0
        self._note_bytes -= _bytes_of(key, before)
        return before[1]

    def delete(self, key: bytes) -> int:
        """Delete a note, which must be there; `expire_at_ms` that it had, 0 without."""
        note = self._notes.pop(key)
        self._note_bytes -= _bytes_of(key, note)
        return note[1]

    def free_some(self, count: int) -> int:
        """Free at most `count` notes, which are out of use; how many."""
        count = min(count, len(self._notes))
        for _ in range(count):
            key, note = self._notes.popitem()
            self._note_bytes -= _bytes_of(key, note)
        return count

    def memory_bytes(self) -> int:
        """Bytes of memory that the notes have to themselves, about."""
        return _OBJECT_BYTES + memory.table(self._notes) + self._note_bytes

    def walked_bytes(self) -> int:
        """The same, counted anew."""
        return self.memory_bytes() - self._note_bytes + sum(_bytes_of(key, note) for key, note in self._notes.items())


_OBJECT_BYTES = PlainNotes.__basicsize__ + 16
_TUPLE_BYTES = memory.tuple_of(2)


def _bytes_of(key: bytes, note: Note) -> int:
    """What a note takes in memory."""
    return _TUPLE_BYTES + memory.text(len(key)) + memory.text(len(note[0])) + memory.number(note[1])


if TYPE_CHECKING or not native.ENABLED:
    Notes = PlainNotes
else:
    from amemdb.stores._working import Notes


class WorkingStore:
    """Notes by session, then by key. A session without notes is not here."""

    def __init__(self, wheel: Wheel, graveyard: Graveyard, conv: ConversationStore | None = None) -> None:
        self.sessions: dict[bytes, Notes] = {}
        self._wheel = wheel
        self._graveyard = graveyard
        self._ledger = graveyard.ledger
        self._conv = conv

    def get(self, session: bytes, key: bytes) -> Note | None:
        """The note if it exists, whether its time has passed or not."""
        notes = self.sessions.get(session)
        return None if notes is None else notes.get(key)

    def live(self, session: bytes, key: bytes, now_ms: int) -> Note | None:
        """The note if it exists and its own time has not passed."""
        note = self.get(session, key)
        return None if note is None or 0 < note[1] <= now_ms else note

    def live_items(self, session: bytes, now_ms: int) -> list[tuple[bytes, bytes]]:
        """Keys and values whose time has not passed, in the order in which the keys first came."""
        notes = self.sessions.get(session)
        return [] if notes is None else notes.live_items(now_ms)

    def notes_of(self, session: bytes) -> Notes:
        """The session's notes, which are to have one more: made if it has none yet."""
        notes = self.sessions.get(session)
        if notes is None:
            # The conversation has the same name: one object for both.
            conversation = None if self._conv is None else self._conv.sessions.get(session)
            notes = self.sessions[session if conversation is None else conversation.name] = Notes()
            if conversation is not None:
                conversation.notes = notes
            self._ledger.working += notes.memory_bytes()
        return notes

    # -- changes ---------------------------------------------------------------------------------

    def apply_set(self, record: Record) -> None:
        """NOTE_SET."""
        _, session, key, value, expire_at_ms = record
        notes = self.notes_of(session)
        before_bytes = notes.memory_bytes()
        before_ms = notes.set(key, value, expire_at_ms)
        self._ledger.working += notes.memory_bytes() - before_bytes
        if before_ms:
            self._wheel.cancel(("note", session, key), before_ms)
        if expire_at_ms:
            self._wheel.schedule(("note", session, key), expire_at_ms)

    def apply_deleted(self, record: Record) -> None:
        """NOTE_DELETED."""
        _, session, key = record
        notes = self.sessions[session]
        before_bytes = notes.memory_bytes()
        expire_at_ms = notes.delete(key)
        self._ledger.working += notes.memory_bytes() - before_bytes
        if expire_at_ms:
            self._wheel.cancel(("note", session, key), expire_at_ms)
        if not notes:
            self._ledger.working -= notes.memory_bytes()
            del self.sessions[session]
            self._unlink(session)

    def apply_cleared(self, record: Record) -> None:
        """NOTES_CLEARED, and the notes' part of CONVERSATION_DROPPED."""
        session = record[1]
        notes = self.sessions.pop(session, None)
        if notes is not None:
            self._unlink(session)
            for key, expire_at_ms in notes.expiries():
                self._wheel.cancel(("note", session, key), expire_at_ms)
            self._ledger.working -= notes.memory_bytes()
            self._graveyard.bury(notes, notes.memory_bytes())

    def _unlink(self, session: bytes) -> None:
        """The session, if it is still there, has no notes any more."""
        conversation = None if self._conv is None else self._conv.sessions.get(session)
        if conversation is not None:
            conversation.notes = None

    def clear(self) -> None:
        """Forget every note (the wheel is cleared by `Stores`)."""
        self._graveyard.bury(self.sessions, self._ledger.working + memory.table(self.sessions))
        self._ledger.working = 0
        self.sessions = {}

    # -- whole state -----------------------------------------------------------------------------

    def dump(self, session: bytes, now_ms: int) -> Iterator[Record]:
        """The records that rebuild the notes of `session` that have not expired at `now_ms`."""
        notes = self.sessions.get(session)
        for key, (value, expire_at_ms) in [] if notes is None else notes.items():
            if not 0 < expire_at_ms <= now_ms:
                yield (records.NOTE_SET, session, key, value, expire_at_ms)
