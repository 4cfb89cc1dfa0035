"""Semantic memory: per agent a namespace of facts, each a text under a key with a vector.

A fact is a tuple `(fact_id, key, content, expire_at_ms, source, trusted, meta, stored_at_ms)`. Its vector lies in the
index of the namespace and nowhere else. A key written again is a new fact with a new id: ids ascend in the order of
writing and are never used twice, so a search that was under way cannot take one fact for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amemdb.index.exact import ExactIndex
from amemdb.index.similarity import Vector
from amemdb.stores import memory, records
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

Fact = tuple[int, bytes, bytes, int, bytes | None, int | None, bytes | None, int]


class Namespace:
    """One agent's facts, in the order in which they were written."""

    __slots__ = (
        "_by_id",
        "_fact_bytes",
        "_text_bytes",
        "agent",
        "created_at_ms",
        "dim",
        "facts",
        "index",
        "metric",
        "next_fact_id",
    )

    def __init__(self, agent: bytes, dim: int, metric: bytes, created_at_ms: int, next_fact_id: int) -> None:
        self.agent = agent
        self.dim = dim
        self.metric = metric
        self.created_at_ms = created_at_ms
        self.next_fact_id = next_fact_id
        self.facts: dict[bytes, Fact] = {}
        self.index = ExactIndex(dim, metric)
        self._by_id: dict[int, Fact] = {}
        self._text_bytes = 0
        self._fact_bytes = 0

    def __len__(self) -> int:
        """How many facts it holds, those whose time has passed included."""
        return len(self.facts)

    def live(self, key: bytes, now_ms: int) -> Fact | None:
        """The fact under `key` if its time has not passed."""
        fact = self.facts.get(key)
        if fact is None or 0 < fact[3] <= now_ms:
            return None
        return fact

    def live_among(self, keys: Iterable[bytes], now_ms: int) -> list[bytes]:
        """Those of `keys` that have a fact whose time has not passed. `facts` has them in the order of writing."""
        facts = self.facts
        return [key for key in keys if (fact := facts.get(key)) is not None and not 0 < fact[3] <= now_ms]

    def live_count(self, now_ms: int) -> int:
        """How many facts have a time that has not passed."""
        return self.index.live_count(now_ms)

    def fact(self, fact_id: int) -> Fact:
        """The fact of an id that the index gave."""
        return self._by_id[fact_id]

    def vector(self, fact: Fact) -> Vector:
        """A copy of the fact's vector."""
        return self.index.vector(fact[0])

    def content_bytes(self) -> int:
        """Bytes of keys, contents, sources, metas and vectors held."""
        return self._text_bytes + 4 * self.dim * len(self.facts)

    def memory_bytes(self) -> int:
        """Bytes of memory that the namespace takes, about."""
        tables_bytes = memory.table(self.facts) + memory.table(self._by_id)
        return (
            _OBJECTS_BYTES + memory.text(len(self.agent)) + tables_bytes + self._fact_bytes + self.index.memory_bytes()
        )

    def walked_bytes(self) -> int:
        """The same, counted anew."""
        return self.memory_bytes() - self._fact_bytes + sum(map(_bytes_of, self.facts.values()))

    def free_some(self, count: int) -> int:
        """Free about `count` facts of a namespace that is out of use; how many they were."""
        freed = self.index.free_some(count)
        while self.facts and freed < count:
            self.facts.popitem()
            freed += 1
        while self._by_id and len(self._by_id) > len(self.facts):
            self._by_id.popitem()
        return freed

    def put(self, fact: Fact, vector: bytes) -> None:
        """Take in a fact whose key is free."""
        self.facts[fact[1]] = fact
        self._by_id[fact[0]] = fact
        self._text_bytes += _text_bytes(fact)
        self._fact_bytes += _bytes_of(fact)
        self.index.put(fact[0], vector, fact[3])
        self.next_fact_id = max(self.next_fact_id, fact[0] + 1)

    def take(self, key: bytes) -> Fact:
        """Let go of the fact under `key`: content, vector and index entry together."""
        fact = self.facts.pop(key)
        del self._by_id[fact[0]]
        self._text_bytes -= _text_bytes(fact)
        self._fact_bytes -= _bytes_of(fact)
        self.index.remove(fact[0])
        return fact


class SemanticStore:
    """All namespaces by agent."""

    def __init__(self, wheel: Wheel, graveyard: Graveyard) -> None:
        self.namespaces: dict[bytes, Namespace] = {}
        self.names = NameIndex()
        self._wheel = wheel
        self._graveyard = graveyard
        self._ledger = graveyard.ledger

    def is_dead(self, agent: bytes, key: bytes, now_ms: int) -> bool:
        """Whether that fact is here and its time has passed."""
        namespace = self.namespaces.get(agent)
        fact = None if namespace is None else namespace.facts.get(key)
        return fact is not None and 0 < fact[3] <= now_ms

    # -- changes ---------------------------------------------------------------------------------

    def apply_created(self, record: Record) -> None:
        """NAMESPACE_CREATED."""
        _, agent, dim, metric, created_at_ms, next_fact_id = record
        assert agent not in self.namespaces, "a namespace is created once"
        namespace = self.namespaces[agent] = Namespace(agent, dim, metric, created_at_ms, next_fact_id)
        self.names.add(agent)
        self._ledger.semantic += namespace.memory_bytes()

    def apply_stored(self, record: Record) -> None:
        """FACT_STORED: nothing of a fact that had the key before remains."""
        _, agent, key, fact_id, content, vector, expire_at_ms, source, trusted, meta, stored_at_ms = record
        namespace = self.namespaces[agent]
        if key in namespace.facts:
            self._take(namespace, key)
        before_bytes = namespace.memory_bytes()
        namespace.put((fact_id, key, content, expire_at_ms, source, trusted, meta, stored_at_ms), vector)
        self._ledger.semantic += namespace.memory_bytes() - before_bytes
        if expire_at_ms:
            self._wheel.schedule(("fact", namespace.agent, key), expire_at_ms)

    def apply_forgotten(self, record: Record) -> None:
        """FACT_FORGOTTEN."""
        _, agent, key = record
        self._take(self.namespaces[agent], key)

    def apply_dropped(self, record: Record) -> None:
        """NAMESPACE_DROPPED."""
        agent = record[1]
        namespace = self.namespaces.pop(agent)
        for key, fact in namespace.facts.items():
            if fact[3]:
                self._wheel.cancel(("fact", agent, key), fact[3])
        self.names.discard(agent)
        count_bytes = namespace.memory_bytes()
        self._ledger.semantic -= count_bytes
        self._graveyard.bury(namespace, count_bytes)

    def clear(self) -> None:
        """Forget every namespace (the wheel is cleared by `Stores`)."""
        self._graveyard.bury(self.namespaces, self._ledger.semantic + memory.table(self.namespaces))
        self._graveyard.bury(self.names, self.names.memory_bytes())
        self._ledger.semantic = 0
        self.namespaces = {}
        self.names = NameIndex()

    def _take(self, namespace: Namespace, key: bytes) -> None:
        before_bytes = namespace.memory_bytes()
        expire_at_ms = namespace.take(key)[3]
        self._ledger.semantic += namespace.memory_bytes() - before_bytes
        if expire_at_ms:
            self._wheel.cancel(("fact", namespace.agent, key), expire_at_ms)

    # -- whole state -----------------------------------------------------------------------------

    def dump(self, agent: bytes, now_ms: int) -> Iterator[Record]:
        """The records that rebuild the namespace of `agent` with the facts that have not expired at `now_ms`."""
        namespace = self.namespaces[agent]
        created = (namespace.dim, namespace.metric, namespace.created_at_ms, namespace.next_fact_id)
        yield (records.NAMESPACE_CREATED, agent, *created)
        for fact in namespace.facts.values():
            fact_id, key, content, expire_at_ms, source, trusted, meta, stored_at_ms = fact
            if not 0 < expire_at_ms <= now_ms:
                vector = namespace.vector(fact).tobytes()
                rest = (expire_at_ms, source, trusted, meta, stored_at_ms)
                yield (records.FACT_STORED, agent, key, fact_id, content, vector, *rest)


def _text_bytes(fact: Fact) -> int:
    return len(fact[1]) + len(fact[2]) + len(fact[4] or b"") + len(fact[6] or b"")


_OBJECTS_BYTES = Namespace.__basicsize__ + 16 + ExactIndex.OBJECTS_BYTES
_TUPLE_BYTES = memory.tuple_of(8) + 2 * memory.NUMBER_BYTES
"""Of a fact: the tuple, its id and the number of its row."""


def _bytes_of(fact: Fact) -> int:
    """What a fact takes in memory, without its vector."""
    _, key, content, expire_at_ms, source, _, meta, stored_at_ms = fact
    count_bytes = _TUPLE_BYTES + memory.text(len(key)) + memory.text(len(content))
    count_bytes += memory.number(expire_at_ms) + memory.number(stored_at_ms)
    return count_bytes + memory.optional_text(source) + memory.optional_text(meta)
