"""The notes' store by its records: expiry, what ends with the session, and dumps that rebuild it."""

from __future__ import annotations

import pytest

from amemdb.stores import records
from amemdb.stores.wheel import Wheel
from amemdb.stores.working import WorkingStore

NOW = 1_700_000_000_000


class Held:
    """A store with its wheel, fed with records."""

    def __init__(self) -> None:
        self.wheel = Wheel()
        self.store = WorkingStore(self.wheel)

    def set(self, key: bytes, value: bytes, expire_at_ms: int = 0, session: bytes = b"s") -> None:
        self.store.apply_set((records.NOTE_SET, session, key, value, expire_at_ms))

    def delete(self, key: bytes) -> None:
        self.store.apply_deleted((records.NOTE_DELETED, b"s", key))

    def due(self, now_ms: int) -> list[tuple[object, ...]]:
        return self.wheel.due(now_ms, 99)


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
