"""Semantic memory: per agent a namespace of facts, each a text under a key with a vector.

A fact is a tuple `(fact_id, key, content, expire_at_ms, source, trusted, meta, stored_at_ms)`. Its vector lies in the
index of the namespace and nowhere else. A key written again is a new fact with a new id: ids ascend in the order of
writing and are never used twice, so a search that was under way cannot take one fact for another.

A namespace with `maxfacts` knows in which order its facts were last used (`amemdb.stores.last_use`). Records remove
what is beyond the bound, never a store by itself: whoever emits a FACT_STORED asks `evictions` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeVar

from amemdb.index.exact import FLOAT32
from amemdb.index.merge import Merge
from amemdb.index.similarity import Vector
from amemdb.index.text.postings import TextIndex
from amemdb.index.tiered import TieredIndex
from amemdb.stores import memory, records
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.last_use import TOUCHES_MAX, LastUse
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record
from amemdb.stores.wheel import Wheel

Fact = tuple[int, bytes, bytes, int, bytes | None, int | None, bytes | None, int]
Done = TypeVar("Done")

TOUCHES_AFTER_MS = 60_000
"""Uses are logged so long after the first that was not, at the earliest."""


class Settings(NamedTuple):
    """What CREATE can set beside dimension and metric, in the order of the record; 0 and None are not given."""

    m: int = 0
    ef_construction: int = 0
    ef_search: int = 0
    quant: bytes = FLOAT32
    maxfacts: int = 0
    model: bytes | None = None
    lang: bytes | None = None


DEFAULTS = Settings()


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
        "last_use",
        "metric",
        "next_fact_id",
        "settings",
        "text",
        "touches_due_ms",
    )

    def __init__(
        self,
        agent: bytes,
        dim: int,
        metric: bytes,
        created_at_ms: int,
        next_fact_id: int,
        settings: Settings = DEFAULTS,
    ) -> None:
        self.agent = agent
        self.dim = dim
        self.metric = metric
        self.created_at_ms = created_at_ms
        self.next_fact_id = next_fact_id
        self.facts: dict[bytes, Fact] = {}
        self.settings = settings
        graph_settings = (settings.m, settings.ef_construction, settings.ef_search)
        self.index = TieredIndex(dim, metric, settings.quant, *graph_settings)
        self.last_use = LastUse() if settings.maxfacts else None
        self.text: TextIndex | None = None
        """The index of its contents, once somebody has searched them by words (`amemdb.stores.texts`)."""
        self.touches_due_ms = 0
        """When the wheel asks for a record of what was used; 0 for never."""
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

    def facts_of(self, fact_ids: Iterable[int]) -> list[Fact]:
        """The facts of these ids that are still there."""
        find = self._by_id.get
        return [fact for fact_id in fact_ids if (fact := find(fact_id)) is not None]

    def written_since(self, fact_id: int) -> list[Fact]:
        """The facts whose id is at least `fact_id`, the newest first. As long as the answer."""
        newer: list[Fact] = []
        for found in reversed(self._by_id):
            if found < fact_id:
                break
            newer.append(self._by_id[found])
        return newer

    def evictions(self, key: bytes, now_ms: int) -> list[Record]:
        """What has to go before a fact under `key` can be stored: records that tell of uses and forget a fact."""
        last_use, maxfacts = self.last_use, self.settings.maxfacts
        if last_use is None or key in self.facts or len(self.facts) < maxfacts:
            return []
        dead_id = self.index.dead_id(now_ms)
        if dead_id is not None:
            return [(records.FACT_FORGOTTEN, self.agent, self._by_id[dead_id][1])]
        forgotten = (records.FACT_FORGOTTEN, self.agent, self._by_id[last_use.longest_unused()][1])
        if not last_use.is_touched:
            return [forgotten]
        return [(records.FACTS_TOUCHED, self.agent, last_use.touches()), forgotten]

    def vector(self, fact: Fact) -> Vector:
        """A copy of the fact's vector."""
        return self.index.vector(fact[0])

    def content_bytes(self) -> int:
        """Bytes of keys, contents, sources, metas and vectors held."""
        return self._text_bytes + self.index.vector_bytes * len(self.facts)

    def memory_bytes(self) -> int:
        """Bytes of memory that the namespace takes, about."""
        tables_bytes = memory.table(self.facts) + memory.table(self._by_id)
        if self.last_use is not None:
            tables_bytes += self.last_use.memory_bytes()
        return (
            _OBJECTS_BYTES + memory.text(len(self.agent)) + tables_bytes + self._fact_bytes + self.index.memory_bytes()
        )

    def graph_bytes_max(self) -> int:
        """What the vectors take in a graph of all facts, about."""
        return 4 * self.dim * len(self.facts)

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
        if self.last_use is not None and freed < count:
            freed += self.last_use.free_some(count - freed)
        return freed

    def put(self, fact: Fact, vector: bytes) -> None:
        """Take in a fact whose key is free."""
        self.facts[fact[1]] = fact
        self._by_id[fact[0]] = fact
        self._text_bytes += _text_bytes(fact)
        self._fact_bytes += _bytes_of(fact)
        self.index.put(fact[0], vector, fact[3])
        if self.last_use is not None:
            self.last_use.add(fact[0])
        self.next_fact_id = max(self.next_fact_id, fact[0] + 1)

    def take(self, key: bytes) -> Fact:
        """Let go of the fact under `key`: content, vector and index entry together."""
        fact = self.facts.pop(key)
        del self._by_id[fact[0]]
        self._text_bytes -= _text_bytes(fact)
        self._fact_bytes -= _bytes_of(fact)
        self.index.remove(fact[0])
        if self.text is not None:
            self.text.remove(fact[0])
        if self.last_use is not None:
            self.last_use.discard(fact[0])
        return fact


class SemanticStore:
    """All namespaces by agent."""

    def __init__(self, wheel: Wheel, graveyard: Graveyard) -> None:
        self.namespaces: dict[bytes, Namespace] = {}
        self.names = NameIndex()
        self.unsettled: set[bytes] = set()
        """Agents whose index may have graphs to make; whoever makes them takes out those that need no more."""
        self._wheel = wheel
        self._graveyard = graveyard
        self._ledger = graveyard.ledger

    def graph_bytes_max(self) -> int:
        """The same of all namespaces together."""
        return sum([namespace.graph_bytes_max() for namespace in self.namespaces.values()])

    def is_dead(self, agent: bytes, key: bytes, now_ms: int) -> bool:
        """Whether that fact is here and its time has passed."""
        namespace = self.namespaces.get(agent)
        fact = None if namespace is None else namespace.facts.get(key)
        return fact is not None and 0 < fact[3] <= now_ms

    def touch(self, namespace: Namespace, facts: Iterable[Fact], now_ms: int) -> None:
        """Facts were returned by a read: they are the last used, and a record will say so in a while."""
        last_use = namespace.last_use
        if last_use is None or self.namespaces.get(namespace.agent) is not namespace:
            return
        before_bytes = last_use.memory_bytes()
        last_use.touch([fact[0] for fact in facts])
        self._ledger.semantic += last_use.memory_bytes() - before_bytes
        if last_use.is_touched and not namespace.touches_due_ms:
            namespace.touches_due_ms = now_ms + TOUCHES_AFTER_MS
            self._wheel.schedule(("touches", namespace.agent), namespace.touches_due_ms)

    def touches(self, agent: bytes) -> Record | None:
        """The record that tells of what was used, if there is anything to tell."""
        namespace = self.namespaces.get(agent)
        if namespace is None or namespace.last_use is None or not namespace.last_use.is_touched:
            return None
        return (records.FACTS_TOUCHED, agent, namespace.last_use.touches())

    # -- changes ---------------------------------------------------------------------------------

    def apply_created(self, record: Record) -> None:
        """NAMESPACE_CREATED; those of earlier versions have no settings."""
        _, agent, dim, metric, created_at_ms, next_fact_id, *given = record
        assert agent not in self.namespaces, "a namespace is created once"
        settings = Settings(*given)
        namespace = self.namespaces[agent] = Namespace(agent, dim, metric, created_at_ms, next_fact_id, settings)
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
        if namespace.index.is_large:
            self.unsettled.add(namespace.agent)
        if expire_at_ms:
            self._wheel.schedule(("fact", namespace.agent, key), expire_at_ms)

    def apply_forgotten(self, record: Record) -> None:
        """FACT_FORGOTTEN."""
        _, agent, key = record
        self._take(self.namespaces[agent], key)

    def apply_touched(self, record: Record) -> None:
        """FACTS_TOUCHED."""
        namespace = self.namespaces[record[1]]
        if namespace.last_use is not None:
            before_bytes = namespace.last_use.memory_bytes()
            namespace.last_use.apply(record[2])
            self._ledger.semantic += namespace.last_use.memory_bytes() - before_bytes
            self._forget_touches(namespace)

    def apply_model_set(self, record: Record) -> None:
        """NAMESPACE_MODEL_SET."""
        _, agent, model = record
        namespace = self.namespaces[agent]
        assert namespace.settings.model is None, "the model of a namespace never changes"
        namespace.settings = namespace.settings._replace(model=model)

    def apply_dropped(self, record: Record) -> None:
        """NAMESPACE_DROPPED."""
        agent = record[1]
        namespace = self.namespaces.pop(agent)
        for key, fact in namespace.facts.items():
            if fact[3]:
                self._wheel.cancel(("fact", agent, key), fact[3])
        self._forget_touches(namespace, True)
        self.names.discard(agent)
        count_bytes = namespace.memory_bytes()
        self._ledger.semantic -= count_bytes
        self._graveyard.bury(namespace, count_bytes)

    def clear(self) -> None:
        """Forget every namespace (the wheel is cleared by `Stores`)."""
        self._graveyard.bury(self.namespaces, self._ledger.semantic + memory.table(self.namespaces))
        self._graveyard.bury(self.names, self.names.memory_bytes())
        self._ledger.semantic = 0
        self.unsettled.clear()
        self.namespaces = {}
        self.names = NameIndex()

    def _take(self, namespace: Namespace, key: bytes) -> None:
        before_bytes = namespace.memory_bytes()
        expire_at_ms = namespace.take(key)[3]
        self._ledger.semantic += namespace.memory_bytes() - before_bytes
        if namespace.index.is_large:
            self.unsettled.add(namespace.agent)
        if namespace.index.unused:
            self._bury_unused(namespace)
        if expire_at_ms:
            self._wheel.cancel(("fact", namespace.agent, key), expire_at_ms)
        self._forget_touches(namespace)

    def tend(self, namespace: Namespace, act: Callable[[TieredIndex], Done]) -> Done:
        """Do to the index of a namespace what changes how it is searched, and its memory, but nothing of the state."""
        assert self.namespaces.get(namespace.agent) is namespace
        before_bytes = namespace.memory_bytes()
        done = act(namespace.index)
        self._ledger.semantic += namespace.memory_bytes() - before_bytes
        self._bury_unused(namespace)
        return done

    def merges(self) -> list[Merge]:
        """The graphs that are being made."""
        found = [self.namespaces.get(agent) for agent in self.unsettled]
        return [merge for namespace in found if namespace is not None for merge in namespace.index.merges]

    def _bury_unused(self, namespace: Namespace) -> None:
        unused, namespace.index.unused = namespace.index.unused, ()
        for thing in unused:
            self._graveyard.bury(thing, thing.memory_bytes())

    def _forget_touches(self, namespace: Namespace, is_gone: bool = False) -> None:
        """The wheel need not ask for what was used, as nothing is left to tell."""
        due_ms = namespace.touches_due_ms
        if due_ms and (is_gone or namespace.last_use is None or not namespace.last_use.is_touched):
            namespace.touches_due_ms = 0
            self._wheel.cancel(("touches", namespace.agent), due_ms)

    # -- whole state -----------------------------------------------------------------------------

    def dump(self, agent: bytes, now_ms: int) -> Iterator[Record]:
        """The records that rebuild the namespace of `agent` with the facts that have not expired at `now_ms`."""
        namespace = self.namespaces[agent]
        created = (namespace.dim, namespace.metric, namespace.created_at_ms, namespace.next_fact_id)
        yield (records.NAMESPACE_CREATED, agent, *created, *namespace.settings)
        for fact in namespace.facts.values():
            fact_id, key, content, expire_at_ms, source, trusted, meta, stored_at_ms = fact
            if not 0 < expire_at_ms <= now_ms:
                vector = namespace.vector(fact).tobytes()
                rest = (expire_at_ms, source, trusted, meta, stored_at_ms)
                yield (records.FACT_STORED, agent, key, fact_id, content, vector, *rest)
        yield from self._dump_last_use(namespace, now_ms)

    def _dump_last_use(self, namespace: Namespace, now_ms: int) -> Iterator[Record]:
        """The records that put the facts in the order of their last use; none where that is the order of writing."""
        order = [fact[0] for fact in namespace.facts_of(namespace.last_use or ()) if not 0 < fact[3] <= now_ms]
        if any(before > behind for before, behind in pairwise(order)):
            for begin in range(0, len(order), TOUCHES_MAX):
                yield (records.FACTS_TOUCHED, namespace.agent, order[begin : begin + TOUCHES_MAX])


def _text_bytes(fact: Fact) -> int:
    return len(fact[1]) + len(fact[2]) + len(fact[4] or b"") + len(fact[6] or b"")


_OBJECTS_BYTES = Namespace.__basicsize__ + 16 + TieredIndex.OBJECTS_BYTES
_TUPLE_BYTES = memory.tuple_of(8) + 2 * memory.NUMBER_BYTES
"""Of a fact: the tuple, its id and the number of its row."""


def _bytes_of(fact: Fact) -> int:
    """What a fact takes in memory, without its vector."""
    _, key, content, expire_at_ms, source, _, meta, stored_at_ms = fact
    count_bytes = _TUPLE_BYTES + memory.text(len(key)) + memory.text(len(content))
    count_bytes += memory.number(expire_at_ms) + memory.number(stored_at_ms)
    return count_bytes + memory.optional_text(source) + memory.optional_text(meta)
