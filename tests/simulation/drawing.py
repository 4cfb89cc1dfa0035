"""The random steps of `tests/model` for a world: what is sent now is executed later, at a time that nobody knows yet.

A step that names a duration therefore gives its model a `Lapse`, which becomes a moment when the model takes the step.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from model import Model
from steps import AGENTS, SESSIONS, Step, Steps

from tests.simulation.facts import FactsModel, FactSteps
from tests.simulation.journal import Request


class Lapse(NamedTuple):
    """So long after the moment at which a request is executed."""

    ms: int


class QuickModel(FactsModel):
    """The model, which looks for what has ended without making everything anew."""

    def purge(self) -> None:
        now = self.now
        for session in list(self.sessions):
            if 0 < self.sessions[session].expire <= now:
                del self.sessions[session]
                continue
            notes = self.sessions[session].notes
            for key in [key for key, note in notes.items() if 0 < note[1] <= now]:
                del notes[key]
        for space in self.spaces.values():
            for key in [key for key, fact in space.facts.items() if 0 < fact["expire"] <= now]:
                del space.facts[key]
        for agent, log in list(self.logs.items()):
            if log.maxage:
                log.events = [event for event in log.events if event[0] >= now - log.maxage]
            if not (log.events or log.maxlen or log.maxage):
                del self.logs[agent]
        for db in self.dbs:
            if db:
                for key in [key for key, value in db.items() if 0 < value[1] <= now]:
                    del db[key]


class PunctualModel:
    """A model whose methods take a `Lapse` for a moment. `now` tells those who draw steps what time it is about."""

    def __init__(self, model: Model, now_ms: Callable[[], int]) -> None:
        self._model = model
        self._now_ms = now_ms

    @property
    def now(self) -> int:
        return self._now_ms()

    def __getattr__(self, name: str) -> Any:
        model, method = self._model, getattr(self._model, name)
        if not callable(method):
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            for key, value in options.items():
                if type(value) is Lapse:
                    options[key] = model.now + value.ms
            return method(*[model.now + one.ms if type(one) is Lapse else one for one in arguments], **options)

        return call


class WorldSteps(FactSteps):
    """Draws the steps of one connection."""

    def __init__(self, model: Model, random: Random, now_ms: Callable[[], int]) -> None:
        super().__init__(PunctualModel(model, now_ms), random)  # type: ignore[arg-type]
        self._whole = model

    def expiry(self, chance: float = 0.4) -> tuple[list[bytes], Any]:
        if self.rng.random() >= chance:
            return [], None
        if self.rng.random() < 0.5:
            seconds = self.rng.choice([1, 1, 2, 60])
            return [b"ttl", b"%d" % seconds], Lapse(1000 * seconds)
        at = self.model.now + self.rng.choice([-5000, -1, 0, 1, 300, 900, 2500, 100_000])
        return [b"PXAT", b"%d" % at], at

    def set(self) -> Step:
        db, key = self.db, self.key()
        value = self.rng.choice([self.text(), b"%d" % self.rng.randrange(-9, 9), b"v" * self.rng.choice([1, 600])])
        argv, expire, keep = [b"SET", key, value], None, False
        kind = self.rng.randrange(5)
        if kind == 1:
            ms = self.rng.choice([1, 40, 500, 1500])
            argv, expire = [*argv, b"PX", b"%d" % ms], Lapse(ms)
        elif kind == 2:
            at = max(1, self.model.now + self.rng.choice([-10, 0, 1, 1500]))
            argv, expire = [*argv, b"PXAT", b"%d" % at], at  # type: ignore[assignment]
        elif kind == 3:
            argv, keep = [*argv, b"keepttl"], True
        cond = self.rng.choice(["", "", "", "NX", "XX"])
        get = self.rng.random() < 0.2
        argv = [*argv, *([cond.encode()] if cond else []), *([b"GET"] if get else [])]
        return argv, self.same(lambda: self.model.set(db, key, value, expire, keep, cond, get))

    def flushall(self) -> Step:
        def run() -> Any:
            now = self._whole.now
            reply = self._whole.flushall()
            self._whole.now = now
            return reply

        return [b"FLUSHALL"], self.same(run)


def everything(model: Model) -> list[Request]:
    """Reads of all that there is, in both databases, as a new connection would send them.

    Lists of names come for all that may be; what there is by `model` is looked at one by one.
    """
    steps = Steps(model, Random(0))
    requests: list[Request] = []

    def ask(argv: list[bytes], run: Any, **how: Any) -> None:
        requests.append(Request(argv, steps.same(run, **how)))

    for s in SESSIONS:
        ask([b"AMEM.CONV.INFO", s], lambda s=s: model.conv_info(s))
        if s in model.sessions:
            ask([b"AMEM.CONV.GET", s, b"WITHMETA"], lambda s=s: model.conv_get(s, True))
            ask([b"AMEM.WORK.GETALL", s], lambda s=s: model.work_getall(s), pairs=True)
            for key in model.sessions[s].notes:
                ask([b"AMEM.WORK.TTL", s, key], lambda s=s, key=key: model.work_ttl(s, key))
    for a in AGENTS:
        ask([b"AMEM.SEM.LIST", a], lambda a=a: model.sem_list(a), ordered=False)
        ask([b"AMEM.EPIS.QUERY", a], lambda a=a: model.epis_query(a, None, None, None, None, False))
        if a in model.summaries:
            ask([b"AMEM.SUMMARY.GET", a], lambda a=a: model.summary_get(a))
    ask([b"AMEM.SUMMARY.LIST"], model.summary_list, ordered=False)
    for db in (1, 0):
        requests.append(Request([b"SELECT", b"%d" % db], accept, gated=False))
        ask([b"KEYS", b"*"], lambda db=db: model.keys(db), ordered=False)
        for key in model.dbs[db]:
            ask([b"GET", key], lambda db=db, key=key: model.get(db, key))
            ask([b"PTTL", key], lambda db=db, key=key: model.pttl(db, key))
    return requests


def accept(reply: Any) -> None:
    """Whatever the reply is."""
