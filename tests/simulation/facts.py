"""Facts of worlds: memories with a bound and a model, recalls with filters, and the order in which facts were used.

Beside the model of `tests/model`, a space knows which of its facts was used longest ago. Within a life that is exact:
each store and each recall counts. Nobody logs a recall, so a life begins with the order that its log tells; the world
demands that it be this one, and has the model adopt it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hiredis
from model import Err, Model, Namespace
from steps import AGENTS, FIELDS, Step, Steps

from amemdb.stores.stores import Stores

MODELS = [b"mini", b"large"]
FACTS_MAX = 4

Orders = dict[bytes, list[bytes]]
"""Keys by their last use, the longest unused first, by agent; of memories with a bound."""

FILTERS: list[tuple[bytes, Callable[[bytes, dict[str, Any]], bool]]] = [
    (b".a == 1", lambda key, fact: fact["meta"] is not None),
    (b"not .a", lambda key, fact: fact["meta"] is None),
    (b"source == 'mail' or trust == 'trusted'", lambda key, fact: bool(fact["source"]) or fact["trust"] == b"trusted"),
    (b"trust != 'trusted'", lambda key, fact: fact["trust"] == b"untrusted"),
    (b"expires_at == null", lambda key, fact: not fact["expire"]),
    (b"key ^= 'k'", lambda key, fact: key.startswith(b"k")),
    (b"key in ('K', 'k2') and stored_at > 0", lambda key, fact: key in (b"K", b"k2")),
    (b"key == 'nobody'", lambda key, fact: False),
]
"""Filters as a client sends them, and as anybody would write them down."""


@dataclass
class Space(Namespace):
    """A semantic memory with its settings."""

    maxfacts: int = 0
    model: bytes | None = None
    used: dict[bytes, None] = field(default_factory=dict)
    """Keys by their last use; some may be gone."""

    def use(self, key: bytes) -> None:
        self.used.pop(key, None)
        self.used[key] = None

    def order(self) -> list[bytes]:
        return [key for key in self.used if key in self.facts]


class FactsModel(Model):
    """The model, which also knows bounds, embedding models and last uses."""

    def sem_create(
        self, a: bytes, dim: int, metric: bytes, maxfacts: int | None = None, model: bytes | None = None
    ) -> Any:
        found = self.spaces.get(a)
        if found is None:
            self.spaces[a] = Space(dim, metric, maxfacts=maxfacts or 0, model=model)
            return b"OK"
        assert isinstance(found, Space)
        fits = (found.dim, found.metric) == (dim, metric)
        fits &= maxfacts in (None, found.maxfacts) and model in (None, found.model)
        return b"OK" if fits else Err("already exists")

    def sem_store(self, a: bytes, key: bytes, content: bytes, vector: list[float], **options: Any) -> Any:
        space = self.spaces.get(a)
        model = options.pop("model", None)
        if space is not None:
            assert isinstance(space, Space)
            if None is not model != space.model is not None:
                return Err("vectors of model")
            if len(vector) == space.dim and (any(vector) or space.metric != b"cosine"):
                if space.maxfacts and key not in space.facts and len(space.facts) >= space.maxfacts:
                    del space.facts[space.order()[0]]
                space.model = space.model or model
                space.use(key)
        return super().sem_store(a, key, content, vector, **options)

    def recalled(self, a: bytes, keys: list[bytes]) -> None:
        """A recall has returned these facts, the most similar first."""
        space = self.spaces.get(a)
        assert isinstance(space, Space)
        for key in reversed(keys):
            space.use(key)

    def orders(self) -> Orders:
        """As of the server's stores."""
        return {a: space.order() for a, space in self.spaces.items() if isinstance(space, Space) and space.maxfacts}

    def adopt_orders(self, orders: Orders) -> None:
        """A life begins: what its log tells of uses is known, and no more."""
        for a, keys in orders.items():
            space = self.spaces.get(a)
            if isinstance(space, Space):
                space.used = dict.fromkeys(keys)


class FactSteps(Steps):
    """Draws steps that have to do with facts."""

    def sem_create(self) -> Step:
        rng = self.rng
        a, dim, metric = rng.choice(AGENTS), rng.choice([3, 3, 3, 2]), rng.choice([b"cosine", b"cosine", b"ip", b"L2"])
        maxfacts = self.maybe(0.5, lambda: rng.randrange(1, FACTS_MAX))
        model = self.maybe(0.2, lambda: rng.choice(MODELS))
        argv = [b"AMEM.SEM.CREATE", a, b"%d" % dim, b"METRIC", metric]
        argv += [b"MAXFACTS", b"%d" % maxfacts] if maxfacts else []
        argv += [b"MODEL", model] if model else []
        return argv, self.same(lambda: self.model.sem_create(a, dim, metric.lower(), maxfacts, model))  # type: ignore[call-arg]

    def sem_store(self) -> Step:
        rng = self.rng
        a, key, content = rng.choice(AGENTS), rng.choice(FIELDS), self.text()
        vector = self.vector(rng.choice([3, 3, 3, 3, 2]))
        tokens, expire = self.expiry(0.3)
        source = self.maybe(0.3, lambda: b"mail")
        trust = self.maybe(0.3, lambda: rng.choice([b"trusted", b"untrusted"]))
        meta = self.maybe(0.3, lambda: b'{"a":1}')
        model = self.maybe(0.2, lambda: rng.choice(MODELS))
        argv = [b"AMEM.SEM.STORE", a, key, content, *self.components(vector), *tokens]
        for word, value in ((b"SOURCE", source), (b"TRUST", trust), (b"META", meta), (b"MODEL", model)):
            argv += [word, value] if value else []
        options = {"expire": expire, "source": source, "trust": trust, "meta": meta, "model": model}
        return argv, self.same(lambda: self.model.sem_store(a, key, content, vector, **options))

    def sem_recall(self) -> Step:
        rng = self.rng
        a, k, query = rng.choice(AGENTS), rng.randrange(6), self.vector(rng.choice([3, 3, 3, 2]))
        threshold = self.maybe(0.3, lambda: rng.choice([-1.0, 0.0, 0.5, 1.0]))
        where, passes = self.maybe(0.5, lambda: rng.choice(FILTERS)) or (b"", lambda key, fact: True)
        argv = [b"AMEM.SEM.RECALL", a, b"%d" % k, *self.components(query)]
        argv += [b"THRESHOLD", repr(threshold).encode()] if threshold is not None else []
        argv += [b"FILTER", where] if where else []
        model: Any = self.model

        def check(reply: Any) -> None:
            scores = model.sem_recall(a, k, query, threshold)
            if isinstance(scores, Err):
                assert isinstance(reply, hiredis.ReplyError), (reply, scores)
                return
            facts = model.spaces[a].facts if scores else {}
            scores = {key: score for key, score in scores.items() if passes(key, facts[key])}
            best = sorted(scores.values(), reverse=True)[:k]
            assert len(reply) == len(best), (reply, scores)
            got = [dict(zip(item[::2], item[1::2], strict=True)) for item in reply]
            keys = [item[b"key"] for item in got]
            assert len(set(keys)) == len(keys)
            for item, expected in zip(got, best, strict=True):
                similarity = float(item[b"similarity"])
                assert abs(similarity - expected) < 1e-6, (item, expected)
                assert abs(similarity - scores[item[b"key"]]) < 1e-6
                assert item[b"content"] == facts[item[b"key"]]["content"]
            if keys:
                model.recalled(a, keys)

        return argv, check


def orders_of(stores: Stores, now_ms: int) -> Orders:
    """Facts that live, by their last use."""
    return {
        agent: [fact[1] for fact in namespace.facts_of(namespace.last_use) if not 0 < fact[3] <= now_ms]
        for agent, namespace in stores.sem.namespaces.items()
        if namespace.last_use is not None
    }
