"""The facts' store by its records: what replaces what, ids, the wheel, and dumps that rebuild it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from amemdb.stores import records
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.records import Record
from amemdb.stores.semantic import SemanticStore
from amemdb.stores.wheel import Wheel

NOW = 1_700_000_000_000
LATER = NOW + 60_000


class Held:
    """A store with its wheel, fed with records."""

    def __init__(self) -> None:
        self.wheel = Wheel()
        self.store = SemanticStore(self.wheel, Graveyard())

    def apply(self, record: Record) -> None:
        store = self.store
        {
            records.NAMESPACE_CREATED: store.apply_created,
            records.FACT_STORED: store.apply_stored,
            records.FACT_FORGOTTEN: store.apply_forgotten,
            records.NAMESPACE_DROPPED: store.apply_dropped,
        }[record[0]](record)

    def create(self, agent: bytes = b"a", dim: int = 2, metric: bytes = b"ip", next_fact_id: int = 1) -> None:
        self.apply((records.NAMESPACE_CREATED, agent, dim, metric, NOW, next_fact_id))

    def put(self, key: bytes, vector: list[float], expire_at_ms: int = 0, agent: bytes = b"a", **fields: Any) -> None:
        fact_id = self.store.namespaces[agent].next_fact_id
        rest = (fields.get("source"), fields.get("trusted"), fields.get("meta"), NOW)
        data = np.array(vector, "<f4").tobytes()
        content = fields.get("content", b"text of " + key)
        self.apply((records.FACT_STORED, agent, key, fact_id, content, data, expire_at_ms, *rest))

    def forget(self, key: bytes) -> None:
        self.apply((records.FACT_FORGOTTEN, b"a", key))

    def drop(self, agent: bytes = b"a") -> None:
        self.apply((records.NAMESPACE_DROPPED, agent))

    def dump(self, now_ms: int = 0) -> list[list[Record]]:
        return [list(self.store.dump(agent, now_ms)) for agent in sorted(self.store.namespaces)]

    def rebuilt(self, now_ms: int = 0) -> Held:
        copy = Held()
        for dump in self.dump(now_ms):
            for record in dump:
                copy.apply(record)
        return copy


@pytest.fixture
def held() -> Held:
    held = Held()
    held.create()
    return held


def test_a_key_written_again_keeps_nothing_of_what_it_was(held: Held) -> None:
    held.put(b"k", [1, 0], LATER, content=b"old", source=b"mail", trusted=1, meta=b"{}")
    held.put(b"k", [0, 1], content=b"new")
    namespace = held.store.namespaces[b"a"]
    fact = namespace.live(b"k", NOW)
    assert fact == (2, b"k", b"new", 0, None, None, None, NOW)
    assert namespace.vector(fact).tolist() == [0, 1]
    assert (len(namespace.index), len(namespace.facts), namespace.next_fact_id) == (1, 1, 3)
    assert len(held.wheel) == 0


def test_an_id_is_never_used_twice(held: Held) -> None:
    for key in (b"x", b"y"):
        held.put(key, [1, 0])
        held.forget(key)
    held.put(b"x", [1, 0])
    assert held.store.namespaces[b"a"].facts[b"x"][0] == 3
    copy = held.rebuilt()
    held.forget(b"x")
    assert held.rebuilt().store.namespaces[b"a"].next_fact_id == 4
    assert copy.store.namespaces[b"a"].facts[b"x"][0] == 3


def test_a_fact_lives_up_to_and_not_at_its_end(held: Held) -> None:
    held.put(b"k", [1, 0], NOW)
    held.put(b"stays", [1, 0])
    namespace = held.store.namespaces[b"a"]
    assert namespace.live(b"k", NOW - 1) is not None
    assert namespace.live(b"k", NOW) is None
    assert namespace.live_among(namespace.facts, NOW - 1) == [b"k", b"stays"]
    assert namespace.live_among(namespace.facts, NOW) == [b"stays"]
    assert (namespace.live_count(NOW - 1), namespace.live_count(NOW)) == (2, 1)
    assert not held.store.is_dead(b"a", b"k", NOW - 1)
    assert held.store.is_dead(b"a", b"k", NOW)
    assert not held.store.is_dead(b"a", b"stays", NOW)
    assert not held.store.is_dead(b"a", b"nothing", NOW)
    assert not held.store.is_dead(b"nobody", b"k", NOW)


def test_the_wheel_follows_a_fact(held: Held) -> None:
    held.put(b"k", [1, 0], NOW)
    assert held.wheel.due(NOW + 2000, 9) == [("fact", b"a", b"k")]
    held.put(b"k", [1, 0], LATER)
    assert held.wheel.due(NOW + 2000, 9) == []
    assert held.wheel.due(LATER + 2000, 9) == [("fact", b"a", b"k")]
    held.forget(b"k")
    assert len(held.wheel) == 0


def test_a_namespace_takes_its_facts_and_their_ends_with_it(held: Held) -> None:
    held.create(b"other")
    held.put(b"k", [1, 0], LATER)
    held.put(b"l", [1, 0])
    held.put(b"k", [1, 0], LATER, agent=b"other")
    held.drop()
    assert held.wheel.due(LATER + 2000, 9) == [("fact", b"other", b"k")]
    assert len(held.wheel) == 1
    assert held.store.names.page(0, 9) == (0, [b"other"])
    held.create(b"a", dim=3)
    held.put(b"k", [1, 2, 3])
    assert list(held.store.namespaces[b"a"].facts) == [b"k"]
    held.store.clear()
    assert held.store.namespaces == {}
    assert held.store.names.page(0, 9) == (0, [])


def test_bytes_held_come_back_to_nothing(held: Held) -> None:
    namespace = held.store.namespaces[b"a"]
    held.put(b"k", [1, 0], content=b"12345", source=b"ab", meta=b"{}")
    assert namespace.content_bytes() == 1 + 5 + 2 + 2 + 8
    held.put(b"k", [1, 0], content=b"1")
    assert namespace.content_bytes() == 1 + 1 + 8
    held.forget(b"k")
    assert namespace.content_bytes() == 0


def test_vectors_come_back_bit_by_bit(held: Held) -> None:
    held.create(b"exact", 5)
    bits = np.array([-0.0, 1e-45, -3.4028235e38, 0.1, 1 / 3], "<f4")
    held.put(b"k", bits.tolist(), agent=b"exact")
    dumped = held.rebuilt().dump()[1][1]
    assert dumped[5] == bits.tobytes()


def test_a_dump_leaves_out_what_has_expired(held: Held) -> None:
    held.put(b"dead", [1, 0], NOW)
    held.put(b"alive", [1, 0], LATER)
    assert [record[2] for record in held.dump(NOW)[0][1:]] == [b"alive"]
    assert [record[2] for record in held.dump()[0][1:]] == [b"dead", b"alive"]


def test_any_history_is_rebuilt_by_its_dump() -> None:
    for seed in range(8):
        chance, held = random.Random(seed), Held()
        keys = [b"k%d" % i for i in range(12)]
        for _ in range(200):
            agent = chance.choice([b"a", b"b", b"c"])
            namespace = held.store.namespaces.get(agent)
            if namespace is None:
                held.create(agent, 2, chance.choice([b"cosine", b"ip", b"l2"]))
            elif chance.random() < 0.02:
                held.drop(agent)
            elif chance.random() < 0.3 and namespace.facts:
                held.apply((records.FACT_FORGOTTEN, agent, chance.choice(list(namespace.facts))))
            else:
                vector = [chance.random(), chance.random()]
                held.put(chance.choice(keys), vector, chance.choice([0, 0, NOW, LATER]), agent)
        for now_ms in (0, NOW, LATER):
            copy = held.rebuilt(now_ms)
            assert copy.dump() == held.dump(now_ms)
            assert len(copy.wheel) == sum(record[6] > 0 for dump in held.dump(now_ms) for record in dump[1:])
            for agent, namespace in copy.store.namespaces.items():
                other = held.store.namespaces[agent]
                live = namespace.live_among(namespace.facts, now_ms)
                assert live == other.live_among(other.facts, now_ms)
