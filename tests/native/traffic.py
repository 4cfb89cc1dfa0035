"""What the differential fuzzer sends: seeded steps of several clients, time, and a log that has its moods.

Mostly valid requests of the native commands in every spelling, among everything else that touches the same objects,
and now and then bytes that are no request. A step is a tuple, `(kind, …)`, for the method `_kind` of `World`. Nothing
here depends on what is answered, so that a seed is the same sequence whoever plays it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

from tests.native.world import BASES_NS, START_MS, Step

LONG = b"n" * 1024
NAMES = [*[b"s", b"s1"] * 8, *[b"S", b"s\r\n", b"\x00\xff", "é".encode(), b"x" * 31, b"", LONG, LONG + b"n"]]
KEYS = [*[b"k", b"k1", b"k2"] * 6, b"", b"K", b"\r\n", b"\xff\x00", LONG, LONG + b"n"]
ROLES = [*[b"user", b"assistant", b"tool", b"system"] * 5, b"User", b"TOOL", b"robot", b"", b"users"]
KINDS = [b"action", b"action", b"note", b"", b"\x00", LONG, LONG + b"n"]
SIZES = [*[0, 1, 2, 9, 10, 31, 32, 80] * 6, 127, 128, 255, 256, 257, 1000, 4096]
LARGE = [65534, 65535, 65536]
LARGER = [65537, 70_000]
NUMBERS = [
    *(b"1", b"2", b"3", b"10", b"100") * 5,
    *(b"0", b"00", b"01", b"-1", b"-0", b"+1", b" 1", b"1 ", b"1.0", b"1e1", b"", b"x", b"999999999", b"1000000000"),
    *(b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"\xd9\xa1", b"1_0", b"0x1"),
]
TTLS = [b"1", b"1", b"2", b"3", b"60", b"0", b"-1", b"x", b"3000000000", b"9999999999"]
OPTIONS = [
    b"NX",
    b"XX",
    b"GET",
    b"EX",
    b"PX",
    b"TTL",
    b"PXAT",
    b"ID",
    b"AT",
    b"META",
    b"WITHMETA",
    b"KEEPTTL",
    b"BOO",
    b"",
]
MALFORMED = [
    *(b"*1\r\n$-1\r\n", b"*-1\r\n", b"*0\r\n", b"\r\n", b"\n", b"*\r\n", b"*1\r\n$\r\n", b"*a\r\n", b"*1\r\n:1\r\n"),
    *(b"*2\r\n$3\r\nGET\r\n+x\r\n", b"*1\r\n$4\r\nPINGxx", b"*1\r\n$4\r\nPING\n\n"),
    *(b"*1\n$4\nPING\n", b"*2\r\n$3\r\nGET"),
    *(b"*99999999999\r\n", b"*9999999\r\n", b"*1048577\r\n", b"*1\r\n$99999999999\r\n"),
    *(b"*1\r\n*1\r\n$4\r\nPING\r\n", b"GET 'x\r\n", b'GET "\\x00\r\n'),
    *(b"*01\r\n$04\r\nPING\r\n", b"*+1\r\n$4\r\nPING\r\n", b"*1\r\n$+4\r\nPING\r\n"),
    *(b"\x00\x01\x02\r\n", b"* 1\r\n$4\r\nPING\r\n"),
    *(b"*1 \r\n$4\r\nPING\r\n", b"*1\r\n$4 \r\nPING\r\n", b"$4\r\nPING\r\n", b"PING\x00\r\n"),
]  # fmt: skip
CROSS_PROTOCOL = [b"POST / HTTP/1.1\r\n", b"host: x\r\n"]
SECONDS_MS = [1, 1, 50, 500, 999, 1000, 1001, 2500, 61_000, 3_600_000]
PASSWORD = b"open"


class Traffic:
    """The steps of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self.base_ns = random.choice(BASES_NS)
        """Where monotonic time stands; see `world`."""
        self._in_step = self.base_ns == BASES_NS[1]
        """Both sides have the same slices, if no answer is one that only native code gives in one piece. Else what
        depends on the turn of the loop is left out."""
        self.settings: dict[str, Any] = {
            "conv-window": random.choice([1, 3, 200 if self._in_step else 1000]),
            "slowlog-log-slower-than": -1,  # later perhaps 0: no command, or any, but not by how long one really took
        }
        if random.random() < 0.2:
            self.settings["requirepass"] = PASSWORD.decode()
        self._window = random.choice([1, 2, 5, 200])
        self._slots = random.randrange(1, 5)
        self._now_ms = START_MS
        self._hot = [
            self._ping,
            self._set,
            self._get,
            self._append,
            self._turns,
            self._note,
            self._note_of,
            self._event,
            self._recall,
        ]
        self._cold = [
            *[self._key, self._key, self._string, self._string, self._conversation, self._conversation],
            *[self._notes, self._events, self._transaction, self._connection, self._rest, self._fact],
        ]

    def steps(self, count: int) -> Iterator[Step]:
        """`count` steps, the last of which looks at the whole state."""
        random = self._random
        for slot in range(self._slots):
            yield "data", slot, self._setup(), random.random() < 0.4
        for _ in range(count - self._slots - 2):
            yield self._step()
        yield ("restart",)
        yield ("check",)

    def _setup(self) -> bytes:
        requests = [[b"AUTH", PASSWORD]] if "requirepass" in self.settings else []
        for name in (b"s", b"s1", LONG):
            requests += [
                [b"AMEM.CONV.CREATE", name, b"WINDOW", b"%d" % self._window],
                [b"AMEM.EPIS.LOG", name, b"t", b"c"],
                [b"AMEM.SEM.CREATE", name, b"3", b"METRIC", self._pick([b"cosine", b"ip", b"l2"])],
                *([b"AMEM.SEM.STORE", name, key, b"text", b"1", b"2", key[1:] or b"3"] for key in (b"k", b"k1", b"k2")),
            ]
        return b"".join(map(encoded, requests))

    def _step(self) -> Step:
        random = self._random
        chance = random.random()
        if chance < 0.62:
            return self._data()
        if chance < 0.72 and self._in_step:
            return "burst", [self._data()[1:] for _ in range(random.randrange(2, 5))]
        if chance < 0.82:
            ms = random.choice(SECONDS_MS)
            self._now_ms += ms
            return "time", ms
        kinds: list[Step] = [
            ("tick", random.choice([1, 2, 1000])),
            ("tick", 1000),
            ("check",),
            ("check",),
            ("policy", random.random() < 0.3, random.random() < 0.8 or not self._in_step),
            ("release",),
            ("release",),
            self._mood(),
            ("sweep",),
            ("eof", random.randrange(self._slots)),
            ("lose", random.randrange(self._slots)),
            ("restart",),
        ]
        return random.choice(kinds)

    def _mood(self) -> Step:
        """The log refuses, or takes everything again, which is more likely."""
        random = self._random
        if random.random() < 0.6:
            return "refuse", None, None, 1 << 40
        return (
            "refuse",
            random.choice([None, "no space left"]),
            random.choice([None, "no disk"]),
            random.choice([50, 1 << 40]),  # no request's, or any: in between each side asks for what it needs itself
        )

    def _data(self) -> Step:
        """A few requests of one client, whole or in pieces, of which the last may come with the next step."""
        random = self._random
        count = random.choice([1, 1, 2, 5, 16, 40, 150])
        hot = random.random() < 0.7
        chunk = b"".join(self._request(0.95 if hot else 0.4) for _ in range(count))
        if random.random() < 0.03:
            chunk += random.choice(MALFORMED + CROSS_PROTOCOL if self._in_step else MALFORMED)
        cuts = sorted(random.randrange(len(chunk) + 1) for _ in range(random.choice([0, 0, 0, 1, 1, 3])))
        slot, on_socket = random.randrange(self._slots), random.random() < 0.4
        if cuts:
            borders = [0, *cuts, len(chunk)]
            pieces = [chunk[start:end] for start, end in pairwise(borders) if end > start]
            return "pieces", slot, pieces, on_socket
        if len(chunk) < 300 and random.random() < 0.1:
            return "pieces", slot, [chunk[at : at + 1] for at in range(len(chunk))], on_socket
        return "data", slot, chunk, on_socket

    def _request(self, hot: float) -> bytes:
        random = self._random
        argv = random.choice(self._hot)() if random.random() < hot else random.choice(self._cold)()
        chance = random.random()
        if chance < 0.02 and len(argv) > 1:
            argv.pop()
        elif chance < 0.05:
            argv += random.choices(OPTIONS + NUMBERS, k=random.choice([1, 1, 2]))
        argv[0] = self._spelled(argv[0])
        if random.random() < 0.04 and all(map(_is_plain, argv)):
            return b" ".join(argv) + random.choice([b"\r\n", b"\n"])
        return encoded(argv)

    def _spelled(self, word: bytes) -> bytes:
        chance = self._random.random()
        if chance < 0.75:
            return word
        if chance < 0.95:
            return word.lower()
        return bytes(self._random.choice([letter, letter ^ 32]) if chr(letter).isalpha() else letter for letter in word)

    # -- arguments -------------------------------------------------------------------------------

    def _pick(self, choices: list[bytes]) -> bytes:
        return self._random.choice(choices)

    def _text(self) -> bytes:
        random = self._random
        size = random.choice(SIZES)
        if random.random() < 0.01:
            size = random.choice(LARGE if self._in_step else LARGE + LARGER)
        pattern = random.choice([b"x", b"abc ", b"\r\n", b"\x00\xff", b"$3\r\nGET\r\n", b"7"])
        return (pattern * (size // len(pattern) + 1))[:size]

    def _expiry(self, chance: float) -> list[bytes]:
        if self._random.random() >= chance:
            return []
        if self._random.random() < 0.7:
            return [self._spelled(b"TTL"), self._pick(TTLS)]
        return [b"PXAT", b"%d" % (self._now_ms + self._random.choice([-1000, -1, 0, 1, 999, 2000, 10**13]))]

    # -- native commands -------------------------------------------------------------------------

    def _ping(self) -> list[bytes]:
        return [b"PING"]

    def _set(self) -> list[bytes]:
        return [b"SET", self._pick(KEYS), self._text()]

    def _get(self) -> list[bytes]:
        return [b"GET", self._pick(KEYS)]

    def _append(self) -> list[bytes]:
        return [b"AMEM.CONV.APPEND", self._pick(NAMES), self._pick(ROLES), self._text()]

    def _turns(self) -> list[bytes]:
        if self._random.random() < 0.3:
            return [b"AMEM.CONV.GET", self._pick(NAMES)]
        return [b"AMEM.CONV.WINDOW", self._pick(NAMES), self._pick(NUMBERS)]

    def _note(self) -> list[bytes]:
        return [b"AMEM.WORK.SET", self._pick(NAMES), self._pick(KEYS), self._text()]

    def _note_of(self) -> list[bytes]:
        return [b"AMEM.WORK.GET", self._pick(NAMES), self._pick(KEYS)]

    def _event(self) -> list[bytes]:
        return [b"AMEM.EPIS.LOG", self._pick(NAMES), self._pick(KINDS), self._text()]

    def _recall(self) -> list[bytes]:
        form = self._pick([*[b"FP32"] * 6, b"fp32", b"Fp32", b"FP16", b"3"])
        return [b"AMEM.SEM.RECALL", self._pick(NAMES), self._pick(NUMBERS), form, self._floats()]

    def _floats(self) -> bytes:
        """A vector of 3, mostly, each component a number, mostly."""
        choice = self._random.choice
        count = choice([*[3] * 20, 2, 4, 0])
        odd = [0.0, -0.0, 1e-30, 1e30, float("inf"), float("nan")]
        found = [choice([*range(-3, 4)] * 9 + odd) / choice([1, 3]) for _ in range(count)]
        return struct.pack(f"<{count}f", *found) + choice([b""] * 20 + [b"\x00"])

    # -- what touches the same objects -------------------------------------------------------------

    def _key(self) -> list[bytes]:
        key, other = self._pick(KEYS), self._pick(KEYS)
        return self._random.choice([
            *([b"DEL", key], [b"UNLINK", key, other], [b"EXISTS", key], [b"TYPE", key], [b"PERSIST", key]),
            *([b"EXPIRE", key, self._pick(TTLS)], [b"PEXPIRE", key, b"1500"], [b"PTTL", key], [b"TTL", key]),
            *([b"PEXPIREAT", key, b"%d" % (self._now_ms + 900)], [b"RENAME", key, other], [b"RENAMENX", key, other]),
            *([b"COPY", key, other, b"REPLACE"], [b"KEYS", b"*"], [b"SCAN", b"0", b"COUNT", b"100"], [b"DBSIZE"]),
            *([b"RANDOMKEY"], [b"TOUCH", key], [b"OBJECT", b"ENCODING", key]),
        ])  # fmt: skip

    def _string(self) -> list[bytes]:
        key, text = self._pick(KEYS), self._text()
        return self._random.choice([
            *([b"APPEND", key, text], [b"SETRANGE", key, self._pick([b"0", b"3", b"70000"]), text], [b"STRLEN", key]),
            *([b"GETRANGE", key, b"1", b"-2"], [b"GETSET", key, text], [b"GETDEL", key]),
            *([b"INCR", key], [b"DECRBY", key, b"3"]),
            *([b"SET", key, text, b"EX", self._pick(TTLS)], [b"SET", key, text, b"KEEPTTL"]),
            *([b"SET", key, text, b"NX"],),
            *([b"SET", key, text, b"XX", b"GET"], [b"SET", key, b"%d" % self._random.randrange(99), b"PX", b"1200"]),
            *([b"MSET", key, text, self._pick(KEYS), text], [b"MGET", key, self._pick(KEYS)], [b"SETNX", key, text]),
            *([b"GETEX", key, b"PX", b"700"], [b"SETEX", key, b"1", text]),
        ])  # fmt: skip

    def _conversation(self) -> list[bytes]:
        name = self._pick(NAMES)
        window = [b"WINDOW", self._pick([b"1", b"2", b"7", b"200", b"0"])] if self._random.random() < 0.4 else []
        return self._random.choice([
            *([b"AMEM.CONV.CREATE", name, *window, *self._expiry(0.4)], [b"AMEM.CONV.CREATE", name, *window]),
            *([b"AMEM.CONV.CREATE", name, b"NX"], [b"AMEM.CONV.CLEAR", name], [b"AMEM.CONV.DROP", name]),
            *([b"AMEM.CONV.EXPIRE", name, *self._expiry(1)], [b"AMEM.CONV.EXPIRE", name, b"PERSIST"]),
            *([b"AMEM.CONV.INFO", name], [b"AMEM.CONV.SCAN", b"0"], [b"AMEM.CONV.GET", name, b"WITHMETA"]),
            *([b"AMEM.CONV.WINDOW", name, self._pick(NUMBERS), b"WITHMETA"],),
            *([b"AMEM.CONV.WINDOW", name, b"50", b"TOKENS", self._pick([b"0", b"5", b"40"])],),
            [*self._append(), b"ID", self._pick([b"i", b"j", b"", LONG])],
            [*self._append(), b"AT", b"%d" % (self._now_ms - self._random.choice([0, 5, 10**6]))],
            [*self._append(), b"META", self._pick([b"{}", b'{"a":1}', b"[", b"null"])],
        ])  # fmt: skip

    def _notes(self) -> list[bytes]:
        name, key = self._pick(NAMES), self._pick(KEYS)
        return self._random.choice([
            *([*self._note(), *self._expiry(1)], [*self._note(), *self._expiry(1)], [b"AMEM.WORK.DEL", name, key]),
            *([b"AMEM.WORK.CLEAR", name], [b"AMEM.WORK.LIST", name], [b"AMEM.WORK.GETALL", name]),
            [b"AMEM.WORK.TTL", name, key],
        ])  # fmt: skip

    def _events(self) -> list[bytes]:
        name = self._pick(NAMES)
        return self._random.choice([
            *([*self._event(), b"ID", self._pick([b"i", b"j"])], [*self._event(), b"METADATA", self._text()]),
            *([*self._event(), b"AT", b"%d" % (self._now_ms - self._random.choice([0, 1, 1500, 10**7]))],),
            *([b"AMEM.EPIS.RETAIN", name, b"MAXLEN", self._pick([b"1", b"3", b"50"])], [b"AMEM.EPIS.CLEAR", name]),
            *([b"AMEM.EPIS.RETAIN", name, b"MAXAGE", self._pick([b"1", b"3", b"4000"])], [b"AMEM.EPIS.STATS", name]),
            *([b"AMEM.EPIS.QUERY", name, b"LIMIT", self._pick(NUMBERS)],),
            *([b"AMEM.EPIS.QUERY", name, b"TYPE", b"action"],),
            *([b"AMEM.EPIS.PAGE", name, b"0", b"COUNT", b"5"], [b"AMEM.EPIS.QUERY", name, b"REV"]),
            [b"AMEM.EPIS.QUERY", name, b"FROM", b"%d" % (self._now_ms - 2000), b"TO", b"%d" % self._now_ms],
        ])  # fmt: skip

    def _transaction(self) -> list[bytes]:
        return self._random.choice([
            *([b"MULTI"], [b"EXEC"], [b"EXEC"], [b"DISCARD"], [b"WATCH", self._pick(KEYS)], [b"UNWATCH"]),
            [b"WATCH", self._pick(KEYS), self._pick(KEYS)],
        ])  # fmt: skip

    def _connection(self) -> list[bytes]:
        return self._random.choice([
            *([b"HELLO", b"2"], [b"HELLO", b"3"]),
            *([b"HELLO", b"4"], [b"SELECT", self._pick([b"0", b"0", b"1", b"15", b"16"])]),
            *([b"RESET"], [b"AUTH", PASSWORD], [b"AUTH", b"wrong"]),
            *([b"AUTH", b"default", PASSWORD], [b"PING", self._text()]),
            *([b"CLIENT", b"REPLY", self._pick([b"ON", b"ON", b"OFF", b"SKIP"])], [b"CLIENT", b"REPLY", b"ON"]),
            *([b"CLIENT", b"ID"],),
            *([b"CLIENT", b"SETNAME", b"n"], [b"CLIENT", b"GETNAME"], [b"ECHO", self._text()]),
            *([b"SELECT", b"0"], [b"SELECT", b"0"]),
        ])  # fmt: skip

    def _fact(self) -> list[bytes]:
        name = self._pick(NAMES)
        vector = [b"%d" % self._random.randrange(-3, 4) for _ in range(3)]
        return self._random.choice([
            *([b"AMEM.SEM.CREATE", name, b"3"], [b"AMEM.SEM.STORE", name, self._pick(KEYS), self._text(), *vector]),
            *([b"AMEM.SEM.RECALL", name, b"2", *vector], [b"AMEM.SEM.LIST", name]),
            [b"AMEM.SEM.STORE", name, self._pick(KEYS), self._text(), b"FP32", self._floats()],
            [b"AMEM.SEM.STORE", name, self._pick(KEYS), self._text(), *vector, b"TTL", self._pick(TTLS)],
            *([b"AMEM.SEM.FORGET", name, self._pick(KEYS)], [*self._recall(), b"THRESHOLD", b"0.5"]),
            [b"AMEM.SEM.CREATE", name, b"3", b"MAXFACTS", b"2"],
        ])  # fmt: skip

    def _rest(self) -> list[bytes]:
        """What is rare, and what concerns everything."""
        chance = self._random.random()
        if chance < 0.04:
            return [b"FLUSHALL"]
        if chance < 0.12:
            return [b"FLUSHDB"]
        if chance < 0.14:
            return [b"QUIT"]
        return self._random.choice([
            *([b"SLOWLOG", b"LEN"], [b"NOPE", self._text()], [b"GETT", b"k"], [b"CONFIG", b"GET", b"conv-window"]),
            *([b"AMEM.CONV", b"s"], [b"COMMAND", b"COUNT"], [b"CONFIG", b"RESETSTAT"], [b"SLOWLOG", b"RESET"]),
            *([b"CONFIG", b"SET", b"slowlog-log-slower-than", self._pick([b"0", b"-1", b"-1"])], [b""]),
            *([b"CONFIG", b"SET", b"conv-window", b"4"], [b"AMEM.SUMMARY.APPEND", self._pick(NAMES), self._text()]),
        ])  # fmt: skip


def encoded(argv: list[bytes]) -> bytes:
    """The bytes of a request."""
    return b"*%d\r\n" % len(argv) + b"".join([b"$%d\r\n%b\r\n" % (len(token), token) for token in argv])


def _is_plain(token: bytes) -> bool:
    return token.isalnum() or (bool(token) and token.replace(b".", b"").isalnum())
