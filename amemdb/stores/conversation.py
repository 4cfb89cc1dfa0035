"""Conversations: a bounded window of turns per session.

A turn is a tuple `(role, content, at_ms, id, meta)`; its sequence number follows from its place, as turns only
enter at the end and leave at the front.

A session is a `Conversation`: `PlainConversation`, or its compiled twin, which packs the turns (`_conversation.pyx`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from amemdb import native
from amemdb.limits import NO_EXPIRY
from amemdb.stores import memory, records
from amemdb.stores.graveyard import Graveyard, is_large
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

Turn = tuple[bytes, bytes, int, bytes | None, bytes | None]

_HEAD_SLACK = 64


class PlainConversation:
    """One session. `seq` counts every turn ever appended; the newest turn has that number.

    The turns lie in one list with a moving head, so that dropping the oldest costs nothing and an empty session costs
    an empty list.
    """

    __slots__ = (
        *("_head", "_ids", "_turn_bytes", "_turns"),
        *("created_at_ms", "expire_at_ms", "name", "notes", "seq", "window"),
    )

    def __init__(self, name: bytes, window: int, expire_at_ms: int, created_at_ms: int, seq: int) -> None:
        self.name = name
        self.window = window
        self.expire_at_ms = expire_at_ms
        self.created_at_ms = created_at_ms
        self.seq = seq
        self.notes: Any = None
        """The session's notes, set by `WorkingStore`, which keeps them; None while there are none."""
        self._turns: list[Turn] = []
        self._turn_bytes = 0
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

    def snapshot(self, count: int) -> Sequence[Turn]:
        """The newest `count` turns as they are now, whatever becomes of the session."""
        return self.newest(count)

    def holds_id(self, turn_id: bytes) -> bool:
        """Whether a turn of that id is still in the window."""
        return self._ids is not None and turn_id in self._ids

    def content_bytes(self) -> int:
        """Bytes of roles, contents, ids and metas held."""
        return self.newest_bytes(len(self))

    def newest_bytes(self, count: int) -> int:
        """The same of the newest `count` turns."""
        return sum(
            len(role) + len(content) + len(turn_id or b"") + len(meta or b"")
            for role, content, _, turn_id, meta in self.newest(count)
        )

    def memory_bytes(self) -> int:
        """Bytes of memory that the session has to itself, about."""
        ids_bytes = 0 if self._ids is None else memory.table(self._ids)
        return _OBJECT_BYTES + memory.table(self._turns) + self._turn_bytes + ids_bytes

    def walked_bytes(self) -> int:
        """The same, counted anew."""
        return self.memory_bytes() - self._turn_bytes + sum(map(_bytes_of, self.newest(len(self))))

    def append(self, turn: Turn) -> None:
        """Take `turn` in, and let the oldest go when the window is full."""
        self._turns.append(turn)
        self._turn_bytes += _bytes_of(turn)
        self.seq += 1
        if turn[3] is not None:
            if self._ids is None:
                self._ids = set()
            self._ids.add(turn[3])
        self.trim()

    def trim(self) -> None:
        """Drop the oldest turns beyond the window."""
        turns, begin = self._turns, self._head
        end = len(turns) - self.window
        if end <= begin:
            return
        self._turn_bytes -= sum(map(_bytes_of, turns[begin:end]))
        if self._ids is not None:
            self._ids.difference_update([turn[3] for turn in turns[begin:end] if turn[3] is not None])
        if end > _HEAD_SLACK and end * 2 > len(turns):
            del turns[:end]
            self._head = 0
        else:
            turns[begin:end] = [_GONE] * (end - begin)
            self._head = end

    def free_some(self, count: int) -> int:
        """Free at most `count` turns of a session that is out of use; how many."""
        before = len(self._turns)
        del self._turns[max(0, before - count) :]
        self._head = 0
        return before - len(self._turns)

    def clear(self) -> None:
        """Drop every turn; the session stays."""
        self._turns = []
        self._turn_bytes = 0
        self._head = 0
        self._ids = None


_GONE: Turn = (b"", b"", 0, None, None)
_ROLES: dict[bytes, bytes] = {role: role for role in (b"system", b"user", b"assistant", b"tool")}
_OBJECT_BYTES = memory.small(PlainConversation.__basicsize__ + 16) + memory.NUMBER_BYTES + 16
"""A session without turns beside its name and its list, with its time; and what rounding adds to the list."""
_TUPLE_BYTES = memory.tuple_of(5)


def _bytes_of(turn: Turn) -> int:
    """What a turn takes in memory; its role is there once for all."""
    _, content, at_ms, turn_id, meta = turn
    count_bytes = _TUPLE_BYTES + memory.text(len(content)) + memory.number(at_ms)
    if turn_id is not None:
        count_bytes += memory.text(len(turn_id))
    return count_bytes if meta is None else count_bytes + memory.text(len(meta))


if TYPE_CHECKING or not native.ENABLED:
    Conversation = PlainConversation
else:
    from amemdb.stores._conversation import Conversation


def held_bytes(conversation: Conversation) -> int:
    """Bytes of memory that a session of the store takes, its name included."""
    return conversation.memory_bytes() + memory.text(len(conversation.name))


class ConversationStore:
    """All sessions by name."""

    def __init__(self, wheel: Wheel, graveyard: Graveyard) -> None:
        self.sessions: dict[bytes, Conversation] = {}
        self.names = NameIndex()
        self._wheel = wheel
        self._graveyard = graveyard
        self._ledger = graveyard.ledger

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
            conversation = self.sessions[session] = Conversation(session, window, NO_EXPIRY, created_at_ms, seq)
            self.names.add(session)
            self._ledger.conversation += held_bytes(conversation)
        conversation.window = window
        if len(conversation) > window:
            self._drop_turns(conversation, conversation.trim)
        self._set_expiry(session, conversation, expire_at_ms)

    def apply_turn(self, record: Record) -> None:
        """TURN_APPENDED."""
        _, session, role, content, at_ms, turn_id, meta = record
        conversation = self.sessions[session]
        before_bytes = conversation.memory_bytes()
        # One object for each role, also where the log has it again and again.
        conversation.append((_ROLES.get(role) or role, content, at_ms, turn_id, meta))
        self._ledger.conversation += conversation.memory_bytes() - before_bytes

    def apply_cleared(self, record: Record) -> None:
        """CONVERSATION_CLEARED."""
        conversation = self.sessions[record[1]]
        self._drop_turns(conversation, conversation.clear)

    def apply_dropped(self, record: Record) -> None:
        """CONVERSATION_DROPPED; the session's notes are ended by `Stores`, which knows both."""
        session = record[1]
        conversation = self.sessions.pop(session)
        self.names.discard(session)
        if conversation.expire_at_ms:
            self._wheel.cancel(("session", session), conversation.expire_at_ms)
        count_bytes = held_bytes(conversation)
        self._ledger.conversation -= count_bytes
        self._graveyard.bury(conversation, count_bytes)

    def apply_expiry_set(self, record: Record) -> None:
        """CONVERSATION_EXPIRY_SET."""
        _, session, expire_at_ms = record
        self._set_expiry(session, self.sessions[session], expire_at_ms)

    def clear(self) -> None:
        """Forget every session (the wheel is cleared by `Stores`)."""
        self._graveyard.bury(self.sessions, self._ledger.conversation + memory.table(self.sessions))
        self._ledger.conversation = 0
        self.sessions = {}
        self._graveyard.bury(self.names, self.names.memory_bytes())
        self.names = NameIndex()

    def _drop_turns(self, conversation: Conversation, drop: Callable[[], None]) -> None:
        """Have `drop` drop turns of a session; those of a large one are freed bit by bit (`graveyard`)."""
        turns = conversation.snapshot(len(conversation)) if is_large(conversation) else []
        before_bytes = conversation.memory_bytes()
        drop()
        dropped_bytes = before_bytes - conversation.memory_bytes()
        self._ledger.conversation -= dropped_bytes
        self._graveyard.bury(turns, dropped_bytes)

    def _set_expiry(self, session: bytes, conversation: Conversation, expire_at_ms: int) -> None:
        if conversation.expire_at_ms == expire_at_ms:
            return
        if conversation.expire_at_ms:
            self._wheel.cancel(("session", session), conversation.expire_at_ms)
        if expire_at_ms:
            self._wheel.schedule(("session", conversation.name), expire_at_ms)
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
