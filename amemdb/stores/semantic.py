"""Semantic memory: per agent a namespace of facts, each a text under a key with a vector.

A fact is a tuple `(fact_id, key, content, expire_at_ms, source, trusted, meta, stored_at_ms)`. Its vector lies in the
index of the namespace and nowhere else. A key written again is a new fact with a new id: ids ascend in the order of
writing and are never used twice, so a search that was under way cannot take one fact for another.
"""

from __future__ import annotations

from collections.abc import Iterator

from amemdb.index.exact import ExactIndex
from amemdb.index.similarity import Vector
from amemdb.stores import records
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

Fact = tuple[int, bytes, bytes, int, bytes | None, int | None, bytes | None, int]


class Namespace:
    """One agent's facts, in the order in which they were written."""

    __slots__ = ("_by_id", "_text_bytes", "created_at_ms", "dim", "facts", "index", "metric", "next_fact_id")

    def __init__(self, dim: int, metric: bytes, created_at_ms: int, next_fact_id: int) -> None:
        self.dim = dim
        self.metric = metric
        self.created_at_ms = created_at_ms
        self.next_fact_id = next_fact_id
        self.facts: dict[bytes, Fact] = {}
        self.index = ExactIndex(dim, metric)
        self._by_id: dict[int, Fact] = {}
        self._text_bytes = 0

    def live(self, key: bytes, now_ms: int) -> Fact | None:
        """The fact under `key` if its time has not passed."""
        fact = self.facts.get(key)
        if fact is None or 0 < fact[3] <= now_ms:
            return None
        return fact

    def live_keys(self, now_ms: int) -> list[bytes]:
        """Keys of facts whose time has not passed, the one written last at the end."""
        return [key for key, fact in self.facts.items() if not 0 < fact[3] <= now_ms]

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

    def put(self, fact: Fact, vector: bytes) -> None:
        """Take in a fact whose key is free."""
        self.facts[fact[1]] = fact
        self._by_id[fact[0]] = fact
        self._text_bytes += _text_bytes(fact)
        self.index.put(fact[0], vector, fact[3])
        self.next_fact_id = max(self.next_fact_id, fact[0] + 1)

    def take(self, key: bytes) -> Fact:
        """Let go of the fact under `key`: content, vector and index entry together."""
        fact = self.facts.pop(key)
        del self._by_id[fact[0]]
        self._text_bytes -= _text_bytes(fact)
        self.index.remove(fact[0])
        return fact


class SemanticStore:
    """All namespaces by agent."""

    def __init__(self, wheel: Wheel) -> None:
        self.namespaces: dict[bytes, Namespace] = {}
        self.names = NameIndex()
        self._wheel = wheel

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
        self.namespaces[agent] = Namespace(dim, metric, created_at_ms, next_fact_id)
        self.names.add(agent)

    def apply_stored(self, record: Record) -> None:
        """FACT_STORED: nothing of a fact that had the key before remains."""
        _, agent, key, fact_id, content, vector, expire_at_ms, source, trusted, meta, stored_at_ms = record
        namespace = self.namespaces[agent]
        if key in namespace.facts:
            self._take(agent, namespace, key)
        namespace.put((fact_id, key, content, expire_at_ms, source, trusted, meta, stored_at_ms), vector)
        if expire_at_ms:
            self._wheel.schedule(("fact", agent, key), expire_at_ms)

    def apply_forgotten(self, record: Record) -> None:
        """FACT_FORGOTTEN."""
        _, agent, key = record
        self._take(agent, self.namespaces[agent], key)

    def apply_dropped(self, record: Record) -> None:
        """NAMESPACE_DROPPED."""
        agent = record[1]
        for key, fact in self.namespaces.pop(agent).facts.items():
            if fact[3]:
                self._wheel.cancel(("fact", agent, key), fact[3])
        self.names.discard(agent)

    def clear(self) -> None:
        """Forget every namespace (the wheel is cleared by `Stores`)."""
        self.namespaces.clear()
        self.names.clear()

    def _take(self, agent: bytes, namespace: Namespace, key: bytes) -> None:
        expire_at_ms = namespace.take(key)[3]
        if expire_at_ms:
            self._wheel.cancel(("fact", agent, key), expire_at_ms)

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
