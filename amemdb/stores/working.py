"""Working notes: keys and values of a session, ended with it.

A note is a tuple `(value, expire_at_ms)`. Whether the session lives is the conversation store's affair: nothing
here outlives a CONVERSATION_DROPPED, and commands look at the session first.
"""

from __future__ import annotations

from collections.abc import Iterator

from amemdb.stores import records
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

Note = tuple[bytes, int]


class WorkingStore:
    """Notes by session, then by key."""

    def __init__(self, wheel: Wheel) -> None:
        self.sessions: dict[bytes, dict[bytes, Note]] = {}
        self._wheel = wheel

    def live(self, session: bytes, key: bytes, now_ms: int) -> Note | None:
        """The note if it exists and its own time has not passed."""
        notes = self.sessions.get(session)
        note = None if notes is None else notes.get(key)
        if note is None or 0 < note[1] <= now_ms:
            return None
        return note

    def live_items(self, session: bytes, now_ms: int) -> list[tuple[bytes, bytes]]:
        """Keys and values whose time has not passed, in the order in which the keys first came."""
        notes = self.sessions.get(session)
        if notes is None:
            return []
        return [(key, value) for key, (value, expire_at_ms) in notes.items() if not 0 < expire_at_ms <= now_ms]

    # -- changes ---------------------------------------------------------------------------------

    def apply_set(self, record: Record) -> None:
        """NOTE_SET."""
        _, session, key, value, expire_at_ms = record
        notes = self.sessions.get(session)
        if notes is None:
            notes = self.sessions[session] = {}
        old = notes.get(key)
        if old is not None and old[1]:
            self._wheel.cancel(("note", session, key), old[1])
        notes[key] = (value, expire_at_ms)
        if expire_at_ms:
            self._wheel.schedule(("note", session, key), expire_at_ms)

    def apply_deleted(self, record: Record) -> None:
        """NOTE_DELETED."""
        _, session, key = record
        notes = self.sessions[session]
        _, expire_at_ms = notes.pop(key)
        if expire_at_ms:
            self._wheel.cancel(("note", session, key), expire_at_ms)
        if not notes:
            del self.sessions[session]

    def apply_cleared(self, record: Record) -> None:
        """NOTES_CLEARED, and the notes' part of CONVERSATION_DROPPED."""
        session = record[1]
        for key, (_, expire_at_ms) in self.sessions.pop(session, {}).items():
            if expire_at_ms:
                self._wheel.cancel(("note", session, key), expire_at_ms)

    def clear(self) -> None:
        """Forget every note (the wheel is cleared by `Stores`)."""
        self.sessions.clear()

    # -- whole state -----------------------------------------------------------------------------

    def dump(self, session: bytes, now_ms: int) -> Iterator[Record]:
        """The records that rebuild the notes of `session` that have not expired at `now_ms`."""
        for key, (value, expire_at_ms) in self.sessions.get(session, {}).items():
            if not 0 < expire_at_ms <= now_ms:
                yield (records.NOTE_SET, session, key, value, expire_at_ms)
