"""The packed turns and notes against the plain ones: the same calls, the same answers, whatever the order and size."""

from __future__ import annotations

from random import Random

import pytest

from amemdb.stores.conversation import PlainConversation, Turn
from amemdb.stores.working import PlainNotes

conversation_twin = pytest.importorskip("amemdb.stores._conversation")
working_twin = pytest.importorskip("amemdb.stores._working")

ROLES = (b"system", b"user", b"assistant", b"tool")
EDGES = (0, 1, 126, 127, 128, 129, 4000, 4096, 16_370, 16_383, 16_384, 65_536, 2_097_151, 2_097_152)
"""Lengths around those at which a length takes one byte more, or a chunk is full."""


def text(rng: Random, largest: int) -> bytes:
    return rng.randbytes(min(rng.choice(EDGES), largest) if rng.random() < 0.1 else rng.randrange(min(300, largest)))


def turn(rng: Random, number: int, largest: int = 70_000) -> Turn:
    turn_id = b"%d" % number + text(rng, 50) if rng.random() < 0.3 else None
    meta = text(rng, 5000) if rng.random() < 0.2 else None
    return rng.choice(ROLES), text(rng, largest), rng.choice([0, 1, rng.randrange(1 << 62)]), turn_id, meta


def make_both(window: int, seq: int = 0) -> tuple[PlainConversation, PlainConversation]:
    return PlainConversation(b"s", window, 7, 9, seq), conversation_twin.Conversation(b"s", window, 7, 9, seq)


def require_same(plain: PlainConversation, packed: PlainConversation, rng: Random) -> None:
    assert len(packed) == len(plain)
    assert packed.content_bytes() == plain.content_bytes()
    for count in (-1, 0, 1, rng.randrange(1, len(plain) + 2), len(plain), 10**9):
        assert packed.newest(count) == plain.newest(count)


@pytest.mark.parametrize("seed", range(30))
def test_any_sequence_of_changes_leaves_the_same_turns(seed: int) -> None:
    rng = Random(seed)
    window = rng.choice([1, 2, 10, 40, 1000])
    plain, packed = make_both(window, rng.choice([0, 5]))
    ids: list[bytes] = []
    snapshots: list[tuple[list[Turn], conversation_twin.Turns]] = []
    for step in range(600):
        draw = rng.random()
        if draw < 0.01:
            plain.window = packed.window = rng.choice([1, 3, 30, 300])
            plain.trim()
            packed.trim()
        elif draw < 0.013:
            plain.clear()
            packed.clear()
        elif draw < 0.03:
            count = rng.choice([0, 1, rng.randrange(40), 10**6])
            snapshots.append((plain.newest(count), packed.snapshot(count)))
        elif draw < 0.04 and snapshots:
            snapshots.pop(rng.randrange(len(snapshots)))
        else:
            new = turn(rng, step, rng.choice([2, 200, 200, 200, 20_000]))
            ids += [new[3]] if new[3] is not None else []
            plain.append(new)
            packed.append(new)
        if step % 20 == 0:
            require_same(plain, packed, rng)
            assert [packed.holds_id(id) for id in ids[-200:]] == [plain.holds_id(id) for id in ids[-200:]]
            assert not packed.holds_id(b"never")
    require_same(plain, packed, rng)
    assert [packed.holds_id(id) for id in ids] == [plain.holds_id(id) for id in ids]
    assert (packed.seq, packed.window, packed.name) == (plain.seq, plain.window, plain.name)
    assert (packed.expire_at_ms, packed.created_at_ms) == (7, 9)
    del plain, packed
    for expected, snapshot in snapshots:
        require_same_sequence(expected, snapshot, rng)


def require_same_sequence(expected: list[Turn], snapshot: conversation_twin.Turns, rng: Random) -> None:
    assert len(snapshot) == len(expected)
    assert list(snapshot) == expected
    for _ in range(5):
        place = slice(rng.choice([None, rng.randrange(-50, 50)]), rng.choice([None, rng.randrange(-50, 50)]))
        assert snapshot[place] == expected[place]
    assert snapshot[::-3] == expected[::-3]
    if expected:
        index = rng.randrange(-len(expected), len(expected))
        assert snapshot[index] == expected[index]
    with pytest.raises(IndexError):
        snapshot[len(expected)]


@pytest.mark.parametrize("size", EDGES)
def test_a_turn_of_any_size_is_read_from_both_ends(size: int) -> None:
    plain, packed = make_both(10)
    for number in range(4):
        for fields in ((b"x" * size, None, None), (b"", b"%d" % number + b"i" * size, None), (b"y", None, b"m" * size)):
            content, turn_id, meta = fields
            for conversation in (plain, packed):
                conversation.append((b"tool", content, 2**62, turn_id, meta))
            assert packed.newest(2) == plain.newest(2)
    assert packed.newest(99) == plain.newest(99)


def test_a_snapshot_shares_what_it_holds_and_keeps_it() -> None:
    plain, packed = make_both(10**6)
    rng = Random(1)
    for number in range(3000):
        new = turn(rng, number, 200)
        plain.append(new)
        packed.append(new)
    snapshot = packed.snapshot(2500)
    assert abs(snapshot.memory_bytes() - packed.memory_bytes()) < packed.memory_bytes() / 4
    expected = plain.newest(2500)
    packed.clear()
    for number in range(50):
        packed.append((b"user", b"later %d" % number, 0, None, None))
    assert list(snapshot) == expected
    assert snapshot.free_some(100) >= 100
    left = len(snapshot)
    assert 0 < left < 2500
    assert list(snapshot) == expected[:left]
    while snapshot.free_some(100):
        pass
    assert len(snapshot) == 0
    assert [content for _, content, _, _, _ in packed.newest(2)] == [b"later 48", b"later 49"]


def test_memory_follows_what_is_held() -> None:
    _, packed = make_both(1000)
    empty_bytes = packed.memory_bytes()
    assert empty_bytes < 200
    for _ in range(1000):
        packed.append((b"user", b"x" * 120, 0, None, None))
    full_bytes = packed.memory_bytes()
    assert 120 * 1000 < full_bytes < 150 * 1000
    for _ in range(5000):
        packed.append((b"user", b"x" * 120, 0, None, None))
    assert packed.memory_bytes() < full_bytes * 1.15
    packed.window = 10
    packed.trim()
    assert packed.memory_bytes() < 12_000
    packed.clear()
    assert packed.memory_bytes() == empty_bytes


def test_a_small_window_lives_in_one_small_chunk() -> None:
    _, packed = make_both(20)
    for _ in range(2000):
        packed.append((b"user", b"x" * 120, 0, None, None))
        assert packed.memory_bytes() < 4096 + 300


def test_a_session_that_is_out_of_use_is_freed_in_parts() -> None:
    _, packed = make_both(10**6)
    for number in range(5000):
        packed.append((b"user", b"x" * 120, 0, b"%d" % number, None))
    before = packed.memory_bytes()
    assert 1000 <= packed.free_some(1000) < 2000
    assert 3000 < len(packed) <= 4000
    assert packed.memory_bytes() < before * 0.85
    while len(packed):
        packed.free_some(1)
    before = packed.memory_bytes()
    assert before > 5000 * 16
    assert packed.free_some(10) == 10
    assert packed.memory_bytes() == before - 10 * 4096
    while packed.free_some(10):
        pass
    assert packed.memory_bytes() < 200


def test_an_unknown_role_is_a_bug() -> None:
    _, packed = make_both(10)
    with pytest.raises(AssertionError, match="robot"):
        packed.append((b"robot", b"x", 0, None, None))


@pytest.mark.parametrize("keys", [3, 8, 9, 40, 600])
@pytest.mark.parametrize("seed", range(5))
def test_any_sequence_of_changes_leaves_the_same_notes(keys: int, seed: int) -> None:
    rng = Random(seed)
    plain, packed = PlainNotes(), working_twin.Notes()
    empty_bytes = packed.memory_bytes()
    names = [b"k%d" % number + text(rng, 40) for number in range(keys)]
    for step in range(2500):
        key = rng.choice(names)
        if rng.random() < 0.4 and plain.get(key) is not None:
            assert packed.delete(key) == plain.delete(key)
        else:
            note = text(rng, rng.choice([2, 150, 150, 5000])), rng.choice([0, 0, rng.randrange(1, 100)])
            assert packed.set(key, *note) == plain.set(key, *note)
        assert packed.get(key) == plain.get(key)
        assert len(packed) == len(plain)
        if step % 50 == 0:
            require_same_notes(plain, packed, names)
    require_same_notes(plain, packed, names)
    for key in [key for key, _ in plain.items()]:
        packed.delete(key)
    assert (len(packed), packed.items(), packed.expiring) == (0, [], 0)
    assert packed.memory_bytes() < empty_bytes + 40 * keys + 200
    with pytest.raises(KeyError):
        packed.delete(names[0])


def require_same_notes(plain: PlainNotes, packed: working_twin.Notes, names: list[bytes]) -> None:
    assert packed.items() == plain.items()
    assert packed.expiries() == plain.expiries()
    assert packed.expiring == len(plain.expiries())
    for now_ms in (0, 50, 1000):
        assert packed.live_items(now_ms) == plain.live_items(now_ms)
    assert [packed.get(name) for name in names] == [plain.get(name) for name in names]


def test_notes_take_little_more_than_keys_and_values() -> None:
    packed = working_twin.Notes()
    for number in range(1000):
        packed.set(b"k:%d" % number, b"x" * 120, 0)
    assert 125 * 1000 < packed.memory_bytes() < 190 * 1000
    for number in range(1000):
        packed.set(b"k:%d" % number, b"y" * 121, 0)
        packed.set(b"k:%d" % number, b"", number % 2)
    assert packed.memory_bytes() < 70 * 1000
    assert packed.expiring == 500


def test_notes_that_are_out_of_use_are_freed_in_parts() -> None:
    packed = working_twin.Notes()
    for number in range(1000):
        packed.set(b"k:%d" % number, b"x" * 120, 1)
    before = packed.memory_bytes()
    assert packed.free_some(600) == 600
    assert len(packed) == 400
    assert packed.memory_bytes() < before * 0.6
    assert packed.free_some(600) == 400
    assert len(packed) == 0
