"""Random steps over every family: for each, the request to send and the check of its reply against the model.

A step is `(argv, check)`; `check(reply)` makes the same step in the model and compares. Names come from small pools,
so that steps meet each other; contents are short and binary. Everything is drawn from one `random.Random`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import hiredis
import numpy as np
from model import Err, Model

Check = Callable[[Any], None]
Step = tuple[list[bytes], Check]

SESSIONS = [b"s1", b"s2", b"s*"]
AGENTS = [b"a", b"a1", b"b\xff"]
FIELDS = [b"k", b"k2", b"\x00\r\n", b"K"]
KEYS = [b"x", b"y", b"n", b"\xc3\xa9", b"e\xcc\x81"]
TYPES = [b"action", b"note", b"obs"]
ROLES = [b"user", b"Assistant", b"SYSTEM", b"tool"]
IDS = [b"i1", b"i2", b"i3"]


class Steps:
    """Draws steps for one sequence; `model.now` tells the time."""

    def __init__(self, model: Model, rng: Random) -> None:
        self.model = model
        self.rng = rng
        self.db = 0
        self._makers = [
            *[self.conv_create, self.conv_append, self.conv_append, self.conv_window, self.conv_get] * 2,
            *[self.conv_clear, self.conv_drop, self.conv_expire, self.conv_info],
            *[self.work_set, self.work_set, self.work_get, self.work_del, self.work_list, self.work_getall],
            *[self.work_ttl, self.work_clear],
            *[self.sem_create, self.sem_store, self.sem_store, self.sem_store, self.sem_recall, self.sem_recall],
            *[self.sem_forget, self.sem_list, self.sem_drop],
            *[self.epis_log, self.epis_log, self.epis_log, self.epis_query, self.epis_query, self.epis_stats],
            *[self.epis_retain, self.epis_clear],
            *[self.summary_set, self.summary_append, self.summary_append, self.summary_get, self.summary_list],
            *[self.summary_drop],
            *[self.set, self.set, self.get, self.get, self.delete, self.exists, self.expire, self.persist],
            *[self.pttl, self.incr, self.append, self.setrange, self.rename, self.copy, self.keys, self.dbsize],
        ]

    def draw(self) -> Step:
        """One step of any family; rarely one that empties everything."""
        if self.rng.random() < 0.004:
            return self.rng.choice([self.flushdb, self.flushall])()
        return self.rng.choice(self._makers)()

    # -- drawing ---------------------------------------------------------------------------------

    def text(self) -> bytes:
        return self.rng.choice([b"", b"hi", b"a\r\nb", b"\x00\xff", b"x" * self.rng.randrange(40)])

    def maybe(self, chance: float, make: Callable[[], Any]) -> Any:
        return make() if self.rng.random() < chance else None

    def expiry(self, chance: float = 0.4) -> tuple[list[bytes], int | None]:
        """Option tokens of an AMEM expiry, and the moment they mean."""
        if self.rng.random() >= chance:
            return [], None
        if self.rng.random() < 0.5:
            seconds = self.rng.choice([1, 2, 3, 60])
            return [b"ttl", b"%d" % seconds], self.model.now + 1000 * seconds
        at = self.model.now + self.rng.choice([-5000, -1, 0, 1, 900, 2500, 100_000])
        return [b"PXAT", b"%d" % at], at

    def vector(self, dim: int) -> list[float]:
        return [float(self.rng.randrange(-3, 4)) / self.rng.choice([1, 2, 4]) for _ in range(dim)]

    def components(self, vector: list[float]) -> list[bytes]:
        if self.rng.random() < 0.3:
            return [b"FP32", np.array(vector, dtype="<f4").tobytes()]
        return [repr(component).encode() for component in vector]

    def same(self, run: Callable[[], Any], *, ordered: bool = True, pairs: bool = False) -> Check:
        def check(reply: Any) -> None:
            expected = run()
            if isinstance(expected, Err):
                assert isinstance(reply, hiredis.ReplyError), (reply, expected)
                assert expected.text in str(reply), (str(reply), expected.text)
                return
            if pairs:
                reply = sorted(zip(reply[::2], reply[1::2], strict=True))
            elif not ordered:
                reply = sorted(reply)
            assert reply == expected, (reply, expected)

        return check

    # -- conversation ----------------------------------------------------------------------------

    def conv_create(self) -> Step:
        s = self.rng.choice(SESSIONS)
        window = self.maybe(0.5, lambda: self.rng.randrange(1, 6))
        tokens, expire = self.expiry()
        nx = self.rng.random() < 0.1
        argv = [b"AMEM.CONV.CREATE", s, *tokens]
        argv += [b"window", b"%d" % window] if window else []
        argv += [b"NX"] if nx else []
        return argv, self.same(lambda: self.model.conv_create(s, window, expire, nx))

    def conv_append(self) -> Step:
        s, role, content = self.rng.choice(SESSIONS), self.rng.choice(ROLES), self.text()
        id = self.maybe(0.5, lambda: self.rng.choice(IDS))
        at = self.maybe(0.2, lambda: self.rng.randrange(10**12))
        meta = self.maybe(0.2, lambda: b'{"n":%d}' % self.rng.randrange(9))
        argv = [b"amem.conv.append", s, role, content]
        argv += [b"ID", id] if id else []
        argv += [b"AT", b"%d" % at] if at is not None else []
        argv += [b"META", meta] if meta else []
        return argv, self.same(lambda: self.model.conv_append(s, role, content, id, at, meta))

    def conv_window(self) -> Step:
        s, n, meta = self.rng.choice(SESSIONS), self.rng.randrange(7), self.rng.random() < 0.5
        budget = self.maybe(0.3, lambda: self.rng.randrange(60))
        argv = [b"AMEM.CONV.WINDOW", s, b"%d" % n, *([b"WITHMETA"] if meta else [])]
        argv += [b"Tokens", b"%d" % budget] if budget is not None else []
        return argv, self.same(lambda: self.model.conv_window(s, n, meta, budget))

    def conv_get(self) -> Step:
        s, meta = self.rng.choice(SESSIONS), self.rng.random() < 0.5
        return (
            [b"AMEM.CONV.GET", s, *([b"WITHMETA"] if meta else [])],
            self.same(lambda: self.model.conv_get(s, meta)),
        )

    def conv_clear(self) -> Step:
        s = self.rng.choice(SESSIONS)
        return [b"AMEM.CONV.CLEAR", s], self.same(lambda: self.model.conv_clear(s))

    def conv_drop(self) -> Step:
        s = self.rng.choice(SESSIONS)
        return [b"AMEM.CONV.DROP", s], self.same(lambda: self.model.conv_drop(s))

    def conv_expire(self) -> Step:
        s = self.rng.choice(SESSIONS)
        tokens, expire = self.expiry(0.8)
        tokens, at = (tokens, expire) if expire is not None else ([b"PERSIST"], 0)
        return [b"AMEM.CONV.EXPIRE", s, *tokens], self.same(lambda: self.model.conv_expire(s, at))

    def conv_info(self) -> Step:
        s = self.rng.choice(SESSIONS)
        return [b"AMEM.CONV.INFO", s], self.same(lambda: self.model.conv_info(s))

    # -- working notes ---------------------------------------------------------------------------

    def work_set(self) -> Step:
        s, key, value = self.rng.choice(SESSIONS), self.rng.choice(FIELDS), self.text()
        tokens, expire = self.expiry()
        argv = [b"AMEM.WORK.SET", s, key, value, *tokens]
        return argv, self.same(lambda: self.model.work_set(s, key, value, expire))

    def work_get(self) -> Step:
        s, key = self.rng.choice(SESSIONS), self.rng.choice(FIELDS)
        return [b"AMEM.WORK.GET", s, key], self.same(lambda: self.model.work_get(s, key))

    def work_del(self) -> Step:
        s, key = self.rng.choice(SESSIONS), self.rng.choice(FIELDS)
        return [b"AMEM.WORK.DEL", s, key], self.same(lambda: self.model.work_del(s, key))

    def work_ttl(self) -> Step:
        s, key = self.rng.choice(SESSIONS), self.rng.choice(FIELDS)
        return [b"AMEM.WORK.TTL", s, key], self.same(lambda: self.model.work_ttl(s, key))

    def work_clear(self) -> Step:
        s = self.rng.choice(SESSIONS)
        return [b"AMEM.WORK.CLEAR", s], self.same(lambda: self.model.work_clear(s))

    def work_list(self) -> Step:
        s = self.rng.choice(SESSIONS)
        return [b"AMEM.WORK.LIST", s], self.same(lambda: self.model.work_list(s), ordered=False)

    def work_getall(self) -> Step:
        s = self.rng.choice(SESSIONS)
        return [b"AMEM.WORK.GETALL", s], self.same(lambda: self.model.work_getall(s), pairs=True)

    # -- semantic --------------------------------------------------------------------------------

    def sem_create(self) -> Step:
        a, dim, metric = (
            self.rng.choice(AGENTS),
            self.rng.choice([3, 3, 3, 2]),
            self.rng.choice([b"cosine", b"ip", b"L2"]),
        )
        argv = [b"AMEM.SEM.CREATE", a, b"%d" % dim, b"METRIC", metric]
        return argv, self.same(lambda: self.model.sem_create(a, dim, metric.lower()))

    def sem_store(self) -> Step:
        a, key, content = self.rng.choice(AGENTS), self.rng.choice(FIELDS), self.text()
        vector = self.vector(self.rng.choice([3, 3, 3, 3, 2]))
        tokens, expire = self.expiry(0.3)
        source = self.maybe(0.2, lambda: b"mail")
        trust = self.maybe(0.2, lambda: self.rng.choice([b"trusted", b"untrusted"]))
        meta = self.maybe(0.2, lambda: b'{"a":1}')
        argv = [b"AMEM.SEM.STORE", a, key, content, *self.components(vector), *tokens]
        argv += [b"SOURCE", source] if source else []
        argv += [b"TRUST", trust] if trust else []
        argv += [b"META", meta] if meta else []
        options = {"expire": expire, "source": source, "trust": trust, "meta": meta}
        return argv, self.same(lambda: self.model.sem_store(a, key, content, vector, **options))

    def sem_recall(self) -> Step:
        a, k, query = self.rng.choice(AGENTS), self.rng.randrange(6), self.vector(self.rng.choice([3, 3, 3, 2]))
        threshold = self.maybe(0.3, lambda: self.rng.choice([-1.0, 0.0, 0.5, 1.0]))
        argv = [b"AMEM.SEM.RECALL", a, b"%d" % k, *self.components(query)]
        argv += [b"THRESHOLD", repr(threshold).encode()] if threshold is not None else []

        def check(reply: Any) -> None:
            scores = self.model.sem_recall(a, k, query, threshold)
            if isinstance(scores, Err):
                assert isinstance(reply, hiredis.ReplyError), (reply, scores)
                return
            best = sorted(scores.values(), reverse=True)[:k]
            assert len(reply) == len(best), (reply, scores)
            got = [dict(zip(item[::2], item[1::2], strict=True)) for item in reply]
            assert len({item[b"key"] for item in got}) == len(got)
            for item, expected in zip(got, best, strict=True):
                similarity = float(item[b"similarity"])
                assert abs(similarity - expected) < 1e-6, (item, expected)
                assert abs(similarity - scores[item[b"key"]]) < 1e-6
                assert item[b"content"] == self.model.spaces[a].facts[item[b"key"]]["content"]

        return argv, check

    def sem_forget(self) -> Step:
        a, key = self.rng.choice(AGENTS), self.rng.choice(FIELDS)
        return [b"AMEM.SEM.FORGET", a, key], self.same(lambda: self.model.sem_forget(a, key))

    def sem_list(self) -> Step:
        a = self.rng.choice(AGENTS)
        return [b"AMEM.SEM.LIST", a], self.same(lambda: self.model.sem_list(a), ordered=False)

    def sem_drop(self) -> Step:
        a = self.rng.choice(AGENTS)
        return [b"AMEM.SEM.DROP", a], self.same(lambda: self.model.sem_drop(a))

    # -- episodic --------------------------------------------------------------------------------

    def epis_log(self) -> Step:
        a, type, content = self.rng.choice(AGENTS), self.rng.choice(TYPES), self.text()
        metadata = self.maybe(0.3, self.text)
        at = self.maybe(0.3, lambda: max(0, self.model.now + self.rng.randrange(-6000, 3000)))
        id = self.maybe(0.5, lambda: self.rng.choice(IDS))
        argv = [b"AMEM.EPIS.LOG", a, type, content]
        argv += [b"METADATA", metadata] if metadata is not None else []
        argv += [b"AT", b"%d" % at] if at is not None else []
        argv += [b"ID", id] if id else []
        return argv, self.same(lambda: self.model.epis_log(a, type, content, metadata, at, id))

    def epis_query(self) -> Step:
        a = self.rng.choice(AGENTS)
        type = self.maybe(0.4, lambda: self.rng.choice(TYPES))
        start = self.maybe(0.4, lambda: self.model.now + self.rng.randrange(-9000, 100))
        end = self.maybe(0.4, lambda: self.model.now + self.rng.randrange(-9000, 3000))
        limit = self.maybe(0.5, lambda: self.rng.randrange(5))
        rev = self.rng.random() < 0.3
        argv = [b"AMEM.EPIS.QUERY", a]
        argv += [b"TYPE", type] if type else []
        argv += [b"FROM", b"%d" % start] if start is not None else []
        argv += [b"TO", b"%d" % end] if end is not None else []
        argv += [b"LIMIT", b"%d" % limit] if limit is not None else []
        argv += [b"REV"] if rev else []
        return argv, self.same(lambda: self.model.epis_query(a, type, start, end, limit, rev))

    def epis_stats(self) -> Step:
        a = self.rng.choice(AGENTS)
        return [b"AMEM.EPIS.STATS", a], self.same(lambda: self.model.epis_stats(a))

    def epis_clear(self) -> Step:
        a = self.rng.choice(AGENTS)
        return [b"AMEM.EPIS.CLEAR", a], self.same(lambda: self.model.epis_clear(a))

    def epis_retain(self) -> Step:
        a = self.rng.choice(AGENTS)
        maxlen = self.maybe(0.6, lambda: self.rng.randrange(1, 8))
        maxage = self.maybe(0.5, lambda: self.rng.randrange(1, 9))
        argv = [b"AMEM.EPIS.RETAIN", a]
        argv += [b"MAXLEN", b"%d" % maxlen] if maxlen else []
        argv += [b"MAXAGE", b"%d" % maxage] if maxage else []
        return argv, self.same(lambda: self.model.epis_retain(a, maxlen, 1000 * maxage if maxage else None))

    # -- summary ---------------------------------------------------------------------------------

    def summary_set(self) -> Step:
        a, text = self.rng.choice(AGENTS), self.text()
        version = self.maybe(0.3, lambda: self.rng.randrange(4))
        argv = [b"AMEM.SUMMARY.SET", a, text, *([b"IFVERSION", b"%d" % version] if version is not None else [])]
        return argv, self.same(lambda: self.model.summary_set(a, text, version))

    def summary_append(self) -> Step:
        a, line = self.rng.choice(AGENTS), self.text()
        return [b"AMEM.SUMMARY.APPEND", a, line], self.same(lambda: self.model.summary_append(a, line))

    def summary_get(self) -> Step:
        a = self.rng.choice(AGENTS)
        return [b"AMEM.SUMMARY.GET", a], self.same(lambda: self.model.summary_get(a))

    def summary_drop(self) -> Step:
        a = self.rng.choice(AGENTS)
        return [b"AMEM.SUMMARY.DROP", a], self.same(lambda: self.model.summary_drop(a))

    def summary_list(self) -> Step:
        return [b"AMEM.SUMMARY.LIST"], self.same(self.model.summary_list, ordered=False)

    # -- keys and strings ------------------------------------------------------------------------

    def key(self) -> bytes:
        return self.rng.choice(KEYS)

    def set(self) -> Step:
        db, key = self.db, self.key()
        value = self.rng.choice([self.text(), b"%d" % self.rng.randrange(-9, 9), b"9223372036854775807"])
        argv, expire, keep = [b"SET", key, value], None, False
        kind = self.rng.randrange(5)
        if kind == 1:
            seconds = self.rng.randrange(1, 4)
            argv, expire = [*argv, b"EX", b"%d" % seconds], self.model.now + 1000 * seconds
        elif kind == 2:
            expire = max(1, self.model.now + self.rng.choice([-10, 0, 1, 1500]))
            argv = [*argv, b"PXAT", b"%d" % expire]
        elif kind == 3:
            argv, keep = [*argv, b"keepttl"], True
        cond = self.rng.choice(["", "", "", "NX", "XX"])
        get = self.rng.random() < 0.2
        argv = [*argv, *([cond.encode()] if cond else []), *([b"GET"] if get else [])]
        return argv, self.same(lambda: self.model.set(db, key, value, expire, keep, cond, get))

    def get(self) -> Step:
        db, key = self.db, self.key()
        return [b"get", key], self.same(lambda: self.model.get(db, key))

    def delete(self) -> Step:
        db, keys = self.db, [self.key() for _ in range(self.rng.randrange(1, 3))]
        return [self.rng.choice([b"DEL", b"UNLINK"]), *keys], self.same(lambda: self.model.delete(db, keys))

    def exists(self) -> Step:
        db, keys = self.db, [self.key(), self.key()]
        return [b"EXISTS", *keys], self.same(lambda: self.model.exists(db, keys))

    def expire(self) -> Step:
        db, key = self.db, self.key()
        at = max(1, self.model.now + self.rng.choice([-100, 1, 1000, 5000]))
        return [b"PEXPIREAT", key, b"%d" % at], self.same(lambda: self.model.expire(db, key, at))

    def persist(self) -> Step:
        db, key = self.db, self.key()
        return [b"PERSIST", key], self.same(lambda: self.model.persist(db, key))

    def pttl(self) -> Step:
        db, key = self.db, self.key()
        return [b"PTTL", key], self.same(lambda: self.model.pttl(db, key))

    def incr(self) -> Step:
        db, key, by = self.db, self.key(), self.rng.randrange(-3, 4)
        return [b"INCRBY", key, b"%d" % by], self.same(lambda: self.model.incr(db, key, by))

    def append(self) -> Step:
        db, key, tail = self.db, self.key(), self.text()
        return [b"APPEND", key, tail], self.same(lambda: self.model.append(db, key, tail))

    def setrange(self) -> Step:
        db, key, offset, data = self.db, self.key(), self.rng.randrange(6), self.text()
        argv = [b"SETRANGE", key, b"%d" % offset, data]
        return argv, self.same(lambda: self.model.setrange(db, key, offset, data))

    def rename(self) -> Step:
        db, key, to = self.db, self.key(), self.key()
        return [b"RENAME", key, to], self.same(lambda: self.model.rename(db, key, to))

    def copy(self) -> Step:
        db, key, to, replace = self.db, self.key(), self.key(), self.rng.random() < 0.5
        argv = [b"COPY", key, to, *([b"REPLACE"] if replace else [])]
        return argv, self.same(lambda: self.model.copy(db, key, to, replace))

    def keys(self) -> Step:
        db = self.db
        return [b"KEYS", b"*"], self.same(lambda: self.model.keys(db), ordered=False)

    def dbsize(self) -> Step:
        db = self.db
        return [b"DBSIZE"], self.same(lambda: self.model.dbsize(db))

    def flushdb(self) -> Step:
        db = self.db
        return [b"FLUSHDB"], self.same(lambda: self.model.flushdb(db))

    def flushall(self) -> Step:
        now = self.model.now

        def run() -> Any:
            reply = self.model.flushall()
            self.model.now = now
            return reply

        return [b"FLUSHALL"], self.same(run)
