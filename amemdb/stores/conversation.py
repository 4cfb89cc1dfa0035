"""Conversations: a bounded window of turns per session.

A turn is a tuple `(role, content, at_ms, id, meta)`; its sequence number follows from its place, as turns only
enter at the end and leave at the front. The turns lie in one list with a moving head, so that dropping the oldest
costs nothing and an empty session costs an empty list.
"""

from __future__ import annotations

from collections.abc import Iterator

from amemdb.limits import NO_EXPIRY
from amemdb.stores import records
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

Turn = tuple[bytes, bytes, int, bytes | None, bytes | None]

_HEAD_SLACK = 64


class Conversation:
    """One session. `seq` counts every turn ever appended; the newest turn has that number."""

    __slots__ = ("_head", "_ids", "_turns", "created_at_ms", "expire_at_ms", "seq", "window")

    def __init__(self, window: int, expire_at_ms: int, created_at_ms: int, seq: int) -> None:
        self.window = window
        self.expire_at_ms = expire_at_ms
        self.created_at_ms = created_at_ms
        self.seq = seq
        self._turns: list[Turn] = []
        self._head = 0
        self._ids: set[bytes] | None = None

    def __len__(self) -> int:
        return len(self._turns) - self._head

    def dead(self, now_ms: int) -> bool:
        """Whether the session's time has passed."""
        return 0 < self.expire_at_ms <= now_ms

    def newest(self, count: int) -> list[Turn]:
        """The newest `count` turns, oldest first."""
        return self._turns[max(self._head, len(self._turns) - count) :] if count > 0 else []

    def holds_id(self, turn_id: bytes) -> bool:
        """Whether a turn of that id is still in the window."""
        return self._ids is not None and turn_id in self._ids

    def content_bytes(self) -> int:
        """Bytes of roles, contents, ids and metas held."""
        return sum(
            len(role) + len(content) + len(turn_id or b"") + len(meta or b"")
            for role, content, _, turn_id, meta in self.newest(len(self))
        )

    def append(self, turn: Turn) -> None:
        """Take `turn` in, and let the oldest go when the window is full."""
        self._turns.append(turn)
        self.seq += 1
        if turn[3] is not None:
            if self._ids is None:
                self._ids = set()
            self._ids.add(turn[3])
        self.trim()

    def trim(self) -> None:
        """Drop the oldest turns beyond the window."""
        turns, head = self._turns, self._head
        excess = len(turns) - head - self.window
        if excess <= 0:
            return
        for index in range(head, head + excess):
            turn_id = turns[index][3]
            if turn_id is not None and self._ids is not None:
                self._ids.discard(turn_id)
            turns[index] = _GONE
        head += excess
        if head > _HEAD_SLACK and head * 2 > len(turns):
            del turns[:head]
            head = 0
        self._head = head

    def clear(self) -> None:
        """Drop every turn; the session stays."""
        self._turns = []
        self._head = 0
        self._ids = None


_GONE: Turn = (b"", b"", 0, None, None)


class ConversationStore:
    """All sessions by name."""

    def __init__(self, wheel: Wheel) -> None:
        self.sessions: dict[bytes, Conversation] = {}
        self.names = NameIndex()
        self._wheel = wheel

    def live(self, session: bytes, now_ms: int) -> Conversation | None:
        """The session if it exists and its time has not passed."""
        conversation = self.sessions.get(session)
        if conversation is None or 0 < conversation.expire_at_ms <= now_ms:
            return None
        return conversation

    # -- changes ---------------------------------------------------------------------------------

    def apply_set(self, record: Record) -> None:
        """CONVERSATION_SET: create, or change window and expiry."""
        _, session, window, expire_at_ms, created_at_ms, seq = record
        conversation = self.sessions.get(session)
        if conversation is None:
            conversation = self.sessions[session] = Conversation(window, NO_EXPIRY, created_at_ms, seq)
            self.names.add(session)
        conversation.window = window
        conversation.trim()
        self._set_expiry(session, conversation, expire_at_ms)

    def apply_turn(self, record: Record) -> None:
        """TURN_APPENDED."""
        _, session, role, content, at_ms, turn_id, meta = record
        self.sessions[session].append((role, content, at_ms, turn_id, meta))

    def apply_cleared(self, record: Record) -> None:
        """CONVERSATION_CLEARED."""
        self.sessions[record[1]].clear()

    def apply_dropped(self, record: Record) -> None:
        """CONVERSATION_DROPPED; the session's notes are ended by `Stores`, which knows both."""
        session = record[1]
        conversation = self.sessions.pop(session)
        self.names.discard(session)
        if conversation.expire_at_ms:
            self._wheel.cancel(("session", session), conversation.expire_at_ms)

    def apply_expiry_set(self, record: Record) -> None:
        """CONVERSATION_EXPIRY_SET."""
        _, session, expire_at_ms = record
        self._set_expiry(session, self.sessions[session], expire_at_ms)

    def clear(self) -> None:
        """Forget every session (the wheel is cleared by `Stores`)."""
        self.sessions.clear()
        self.names.clear()

    def _set_expiry(self, session: bytes, conversation: Conversation, expire_at_ms: int) -> None:
        if conversation.expire_at_ms == expire_at_ms:
            return
        if conversation.expire_at_ms:
            self._wheel.cancel(("session", session), conversation.expire_at_ms)
        if expire_at_ms:
            self._wheel.schedule(("session", session), expire_at_ms)
        conversation.expire_at_ms = expire_at_ms

    # -- whole state -----------------------------------------------------------------------------

    def dump(self, session: bytes, now_ms: int) -> Iterator[Record]:
        """The records that rebuild `session` as it is; none if its time has passed at `now_ms`."""
        conversation = self.sessions[session]
        if conversation.dead(now_ms):
            return
        turns = conversation.newest(len(conversation))
        yield (
            records.CONVERSATION_SET,
            session,
            conversation.window,
            conversation.expire_at_ms,
            conversation.created_at_ms,
            conversation.seq - len(turns),
        )
        for role, content, at_ms, turn_id, meta in turns:
            yield (records.TURN_APPENDED, session, role, content, at_ms, turn_id, meta)
