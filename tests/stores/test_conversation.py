"""The sessions' store by its records: window, ids, expiry, and dumps that rebuild it; with both kinds of session."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from amemdb.stores import conversation as conversation_module
from amemdb.stores import records
from amemdb.stores.conversation import ConversationStore, PlainConversation
from amemdb.stores.graveyard import LARGE_MIN, Graveyard
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

try:
    from amemdb.stores._conversation import Conversation as PackedConversation
except ImportError:
    KINDS = [PlainConversation]
else:
    KINDS = [PlainConversation, PackedConversation]

SESSION = b"s"
NOW = 1_700_000_000_000


class Held:
    """A store with its wheel, fed with records."""

    def __init__(self) -> None:
        self.wheel = Wheel()
        self.graveyard = Graveyard()
        self.store = ConversationStore(self.wheel, self.graveyard)

    def apply(self, *changes: Record) -> None:
        appliers = {
            records.CONVERSATION_SET: self.store.apply_set,
            records.TURN_APPENDED: self.store.apply_turn,
            records.CONVERSATION_CLEARED: self.store.apply_cleared,
            records.CONVERSATION_DROPPED: self.store.apply_dropped,
            records.CONVERSATION_EXPIRY_SET: self.store.apply_expiry_set,
        }
        for change in changes:
            appliers[change[0]](change)

    def set(self, window: int, expire_at_ms: int = 0, seq: int = 0) -> None:
        self.apply((records.CONVERSATION_SET, SESSION, window, expire_at_ms, NOW, seq))

    def append(self, content: bytes, id: bytes | None = None) -> None:
        self.apply((records.TURN_APPENDED, SESSION, b"user", content, NOW, id, None))

    def contents(self, count: int = 10**9) -> list[bytes]:
        return [turn[1] for turn in self.store.sessions[SESSION].newest(count)]

    def dump(self, now_ms: int = 0) -> list[Record]:
        return [record for session in self.store.sessions for record in self.store.dump(session, now_ms)]


@pytest.fixture(autouse=True, params=KINDS, ids=lambda kind: kind.__module__.rpartition(".")[2])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs with every kind of session."""
    monkeypatch.setattr(conversation_module, "Conversation", request.param)


def rebuilt(held: Held) -> Held:
    again = Held()
    again.apply(*held.dump())
    return again


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.mark.parametrize("window", [1, 2, 3, 63, 64, 65, 200])
def test_the_window_holds_the_newest_turns_oldest_first(held: Held, window: int) -> None:
    held.set(window)
    sent: list[bytes] = []
    for number in range(500):
        held.append(b"%d" % number)
        sent = [*sent, b"%d" % number][-window:]
        assert held.contents() == sent
        assert held.contents(2) == sent[-2:]
        assert len(held.store.sessions[SESSION]) == len(sent)
    assert held.contents(0) == []
    assert held.store.sessions[SESSION].seq == 500


def test_a_window_of_few_turns_stays_small_whatever_goes_through_it(held: Held) -> None:
    held.set(10)
    for number in range(20_000):
        held.append(b"%d" % number, id=b"%d" % number)
    conversation = held.store.sessions[SESSION]
    assert conversation.memory_bytes() < 10_000
    assert [number for number in range(20_000) if conversation.holds_id(b"%d" % number)] == list(range(19_990, 20_000))


def test_a_smaller_window_drops_the_oldest_and_a_larger_one_brings_none_back(held: Held) -> None:
    held.set(100)
    for number in range(100):
        held.append(b"%d" % number, id=b"i%d" % number)
    held.set(3)
    assert held.contents() == [b"97", b"98", b"99"]
    held.set(100)
    assert held.contents() == [b"97", b"98", b"99"]
    conversation = held.store.sessions[SESSION]
    assert not conversation.holds_id(b"i96")
    assert conversation.holds_id(b"i97")
    assert conversation.seq == 100


def test_ids_are_those_of_the_turns_in_the_window(held: Held) -> None:
    held.set(2)
    conversation = held.store.sessions[SESSION]
    held.append(b"one", id=b"x")
    held.append(b"two")
    assert conversation.holds_id(b"x")
    held.append(b"three")
    assert not conversation.holds_id(b"x")
    held.append(b"four", id=b"x")
    assert conversation.holds_id(b"x")
    held.apply((records.CONVERSATION_CLEARED, SESSION))
    assert not conversation.holds_id(b"x")


def test_the_number_of_a_turn_never_comes_again(held: Held) -> None:
    held.set(5)
    held.append(b"one")
    held.apply((records.CONVERSATION_CLEARED, SESSION))
    held.append(b"two")
    assert held.store.sessions[SESSION].seq == 2
    assert rebuilt(held).store.sessions[SESSION].seq == 2


def test_the_wheel_follows_every_change_of_expiry(held: Held) -> None:
    entry = ("session", SESSION)
    held.set(5, NOW + 5000)
    assert held.wheel.due(NOW + 7000, 9) == [entry]
    held.set(5, NOW + 50_000)
    assert held.wheel.due(NOW + 7000, 9) == []
    held.apply((records.CONVERSATION_EXPIRY_SET, SESSION, NOW + 20_000))
    assert held.wheel.due(NOW + 22_000, 9) == [entry]
    held.apply((records.CONVERSATION_EXPIRY_SET, SESSION, 0))
    assert len(held.wheel) == 0
    held.apply((records.CONVERSATION_EXPIRY_SET, SESSION, 1))
    assert held.wheel.due(NOW, 9) == [entry]
    held.apply((records.CONVERSATION_DROPPED, SESSION))
    assert len(held.wheel) == 0


def test_a_session_is_live_up_to_and_not_at_its_end(held: Held) -> None:
    held.set(5, NOW)
    assert held.store.live(SESSION, NOW - 1) is not None
    assert held.store.live(SESSION, NOW) is None
    assert held.dump(NOW - 1) != []
    assert held.dump(NOW) == []


def test_content_bytes_counts_what_is_held(held: Held) -> None:
    held.set(2)
    for content in (b"gone", b"12345", b""):
        held.append(content, id=b"i")
    assert held.store.sessions[SESSION].content_bytes() == 2 * (len(b"user") + 1) + 5


@pytest.mark.parametrize("seed", range(8))
def test_a_rebuilt_session_is_the_same_and_goes_on_the_same(seed: int) -> None:
    rng = Random(seed)
    held = Held()
    held.set(rng.randrange(1, 100))
    for step in range(600):
        draw = rng.random()
        if draw < 0.02:
            held.set(rng.randrange(1, 100), rng.choice([0, 1, NOW + 7]))
        elif draw < 0.03:
            held.apply((records.CONVERSATION_CLEARED, SESSION))
        else:
            held.append(b"%d" % step, id=b"%d" % step if rng.random() < 0.3 else None)
    again = rebuilt(held)
    assert again.dump() == held.dump()
    before, after = held.store.sessions[SESSION], again.store.sessions[SESSION]
    ids = [b"%d" % step for step in range(600)]
    assert [after.holds_id(id) for id in ids] == [before.holds_id(id) for id in ids]
    for number in range(120):
        held.append(b"later %d" % number)
        again.append(b"later %d" % number)
    assert again.dump() == held.dump()


def test_clear_forgets_everything(held: Held) -> None:
    held.set(5)
    held.store.clear()
    assert held.dump() == []
    assert len(held.store.names) == 0


def change_window(held: Held) -> None:
    held.set(1)


def clear(held: Held) -> None:
    held.apply((records.CONVERSATION_CLEARED, SESSION))


def drop(held: Held) -> None:
    held.apply((records.CONVERSATION_DROPPED, SESSION))


def flush(held: Held) -> None:
    held.store.clear()


@pytest.mark.parametrize(("change", "left"), [(change_window, 1), (clear, 0), (drop, None), (flush, None)])
def test_what_a_large_session_loses_is_buried(held: Held, change: Callable[[Held], None], left: int | None) -> None:
    held.set(10**6)
    for number in range(LARGE_MIN + 1):
        held.append(b"%d" % number)
    if change is flush:  # a store is large by its sessions
        for number in range(LARGE_MIN):
            held.apply((records.CONVERSATION_SET, b"%d" % number, 5, 0, NOW, 0))
    change(held)
    conversation = held.store.sessions.get(SESSION)
    assert (None if conversation is None else len(conversation)) == left
    assert len(held.graveyard) == (2 if change is flush else 1)  # the names of all sessions, too
    while held.graveyard.free(100) >= 100:
        pass
    assert len(held.graveyard) == 0
    assert left != 1 or held.contents() == [b"%d" % LARGE_MIN]


def test_a_session_keeps_the_name_it_is_known_by(held: Held) -> None:
    held.set(5)
    (name,) = held.store.sessions
    assert held.store.sessions[SESSION].name is name
