"""The notes' store by its records: expiry, what ends with the session, and dumps; with both kinds of notes."""

from __future__ import annotations

import pytest

from amemdb.stores import conversation as conversation_module
from amemdb.stores import records
from amemdb.stores import working as working_module
from amemdb.stores.conversation import ConversationStore, PlainConversation
from amemdb.stores.graveyard import LARGE_MIN, Graveyard
from amemdb.stores.wheel import Wheel
from amemdb.stores.working import PlainNotes, WorkingStore

try:
    from amemdb.stores._conversation import Conversation as PackedConversation
    from amemdb.stores._working import Notes as PackedNotes
except ImportError:
    KINDS = {PlainNotes: PlainConversation}
else:
    KINDS = {PlainNotes: PlainConversation, PackedNotes: PackedConversation}

NOW = 1_700_000_000_000


class Held:
    """A store with its wheel, fed with records."""

    def __init__(self) -> None:
        self.wheel = Wheel()
        self.graveyard = Graveyard()
        self.conv = ConversationStore(self.wheel, self.graveyard)
        self.store = WorkingStore(self.wheel, self.graveyard, self.conv)

    def set(self, key: bytes, value: bytes, expire_at_ms: int = 0, session: bytes = b"s") -> None:
        self.store.apply_set((records.NOTE_SET, session, key, value, expire_at_ms))

    def delete(self, key: bytes) -> None:
        self.store.apply_deleted((records.NOTE_DELETED, b"s", key))

    def due(self, now_ms: int) -> list[tuple[object, ...]]:
        return self.wheel.due(now_ms, 99)


@pytest.fixture(autouse=True, params=KINDS, ids=lambda kind: kind.__module__.rpartition(".")[2])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with every kind of notes."""
    monkeypatch.setattr(working_module, "Notes", request.param)
    monkeypatch.setattr(conversation_module, "Conversation", KINDS[request.param])


@pytest.fixture
def held() -> Held:
    return Held()


def test_a_note_lives_up_to_and_not_at_its_end(held: Held) -> None:
    held.set(b"k", b"v", NOW)
    held.set(b"stays", b"w")
    assert held.store.live(b"s", b"k", NOW - 1) == (b"v", NOW)
    assert held.store.live(b"s", b"k", NOW) is None
    assert held.store.live_items(b"s", NOW - 1) == [(b"k", b"v"), (b"stays", b"w")]
    assert held.store.live_items(b"s", NOW) == [(b"stays", b"w")]
    assert held.store.live(b"nobody", b"k", NOW) is None
    assert held.store.live_items(b"nobody", NOW) == []


def test_the_wheel_follows_a_note_that_is_set_again(held: Held) -> None:
    held.set(b"k", b"v", NOW)
    assert held.due(NOW + 2000) == [("note", b"s", b"k")]
    held.set(b"k", b"v", NOW + 60_000)
    assert held.due(NOW + 2000) == []
    held.set(b"k", b"v")
    assert len(held.wheel) == 0
    held.set(b"k", b"v", 1)
    assert held.due(NOW) == [("note", b"s", b"k")]
    held.delete(b"k")
    assert len(held.wheel) == 0


def test_the_last_note_takes_its_session_out_of_the_store(held: Held) -> None:
    held.set(b"k", b"v")
    held.set(b"l", b"w", NOW)
    held.delete(b"k")
    assert b"s" in held.store.sessions
    held.delete(b"l")
    assert held.store.sessions == {}


def test_clearing_one_session_leaves_the_others_and_no_entry_in_the_wheel(held: Held) -> None:
    held.set(b"k", b"v", NOW)
    held.set(b"k", b"v", NOW, session=b"t")
    held.store.apply_cleared((records.NOTES_CLEARED, b"s"))
    held.store.apply_cleared((records.NOTES_CLEARED, b"without notes"))
    assert list(held.store.sessions) == [b"t"]
    assert held.due(NOW + 2000) == [("note", b"t", b"k")]


def test_a_dump_rebuilds_the_notes_in_their_order_without_the_dead(held: Held) -> None:
    held.set(b"b", b"1")
    held.set(b"a", b"", NOW)
    held.set(b"c", bytes(range(256)), NOW + 1)
    held.set(b"b", b"2")
    dump = list(held.store.dump(b"s", 0))
    again = Held()
    for record in dump:
        again.store.apply_set(record)
    assert list(again.store.dump(b"s", 0)) == dump
    assert list(again.store.sessions[b"s"].items()) == list(held.store.sessions[b"s"].items())
    assert [record[2] for record in held.store.dump(b"s", NOW)] == [b"b", b"c"]
    assert len(again.wheel) == 2
    assert list(held.store.dump(b"nobody", 0)) == []


def test_the_notes_of_a_session_go_by_the_name_object_of_its_conversation(held: Held) -> None:
    held.conv.apply_set((records.CONVERSATION_SET, b"session", 5, 0, NOW, 0))
    held.set(b"k", b"v", session=bytes(bytearray(b"session")))
    (name,) = held.conv.sessions
    assert next(iter(held.store.sessions)) is name


def test_a_session_leads_to_its_notes_for_as_long_as_it_has_some(held: Held) -> None:
    held.conv.apply_set((records.CONVERSATION_SET, b"s", 5, 0, NOW, 0))
    (conversation,) = held.conv.sessions.values()
    assert conversation.notes is None
    for end in (held.delete, lambda key: held.store.apply_cleared((records.NOTES_CLEARED, b"s"))):
        held.set(b"k", b"v")
        assert conversation.notes is held.store.sessions[b"s"]
        end(b"k")
        assert conversation.notes is None


def test_many_notes_are_buried_when_they_go(held: Held) -> None:
    for number in range(LARGE_MIN):
        held.set(b"k%d" % number, b"v", NOW if number % 3 else 0)
    held.store.apply_cleared((records.NOTES_CLEARED, b"s"))
    assert held.store.live_items(b"s", 0) == []
    assert len(held.wheel) == 0
    assert len(held.graveyard) == 1
    assert held.graveyard.free(LARGE_MIN + 1) == LARGE_MIN
    assert len(held.graveyard) == 0


def test_clear_forgets_everything(held: Held) -> None:
    held.set(b"k", b"v")
    held.store.clear()
    assert held.store.get(b"s", b"k") is None
    assert held.store.sessions == {}
