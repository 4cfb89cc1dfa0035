"""The same random requests to this engine and to a real Redis, replies compared.

Strings, keys, expiry far ahead and transactions of two connections, by RESP2 and RESP3. Where an error text begins with
other words than Redis's, it is listed in `OTHER_WORDS`. Requests on which the contract differs on purpose are not
drawn: numbers that only one of the two grammars takes, options given twice.
"""

from __future__ import annotations

import math
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import hiredis
import pytest
from rig import Rig

REDIS = shutil.which("redis-server")
pytestmark = pytest.mark.skipif(REDIS is None, reason="no redis-server on PATH to compare with")

SEQUENCES = int(os.environ.get("AMEMDB_ORACLE_SEQUENCES", "60"))
STEPS = 250
TOLERANCE = 3000
OTHER_WORDS = ("unsupported option", "string exceeds maximum allowed size")

KEYS = [b"a", b"b", b"c", b"\x00\r\n\xff", b""]
VALUES = [b"", b"x", b"hello world", b"\x00\xff\r\n", b"10", b"-3", b"9223372036854775807", b"-9223372036854775808"]
FLOAT_KEYS = [b"f", b"g"]
FLOATS = [b"1.5", b"-0.25", b"-3", b"0.1", b"0.2", b"2.5e-3", b"3e0", b".5", b"abc", b"", b"1_0", b"nan"]
BAD_INTEGERS = [
    b"",
    b" 5",
    b"5 ",
    b"1_0",
    b"+5",
    b"1.0",
    b"9223372036854775808",
    b"0x10",
    b"\xd9\xa5",
    b"99999999999999999999",
]


class Peer:
    """One connection to the real server."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        self.reader = hiredis.Reader()

    def send(self, argv: list[bytes]) -> Any:
        self.socket.sendall(hiredis.pack_command(tuple(argv)))
        while (reply := self.reader.gets()) is False:
            data = self.socket.recv(1 << 20)
            assert data, "the oracle closed the connection"
            self.reader.feed(data)
        return reply


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("oracle")
    path = folder / "redis.sock"
    assert REDIS is not None
    command = [
        REDIS,
        "--port",
        "0",
        "--unixsocket",
        str(path),
        "--save",
        "",
        "--appendonly",
        "no",
        "--dir",
        str(folder),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if path.exists():
                break
            assert process.poll() is None, "redis-server ended at once"
            time.sleep(0.05)
        yield path
    finally:
        process.terminate()
        process.wait()


class Requests:
    """Draws requests. Two connections, so that one can touch what the other watches."""

    def __init__(self, rng: Random, now_ms: int) -> None:
        self.rng = rng
        self.now_ms = now_ms
        self.queueing = False

    def draw(self, queueing: bool) -> list[bytes]:
        """`queueing` between MULTI and EXEC, where nothing is set to be over: nobody would look (`with_a_look`)."""
        self.queueing = queueing
        return getattr(self, self.rng.choice(FAMILIES))()

    def key(self) -> bytes:
        return self.rng.choice(KEYS)

    def value(self) -> bytes:
        return self.rng.choice(VALUES)

    def integer(self) -> bytes:
        if self.rng.random() < 0.15:
            return self.rng.choice(BAD_INTEGERS)
        return self.rng.choice([b"%d" % self.rng.randrange(-20, 20), b"9223372036854775807", b"-9223372036854775808"])

    def cased(self, word: str) -> bytes:
        return self.rng.choice([word, word.lower()]).encode()

    def lifetime(self) -> list[bytes]:
        """One of the four expiry options: mostly far ahead, else refused or over at once."""
        word = self.rng.choice(["EX", "PX", "EXAT", "PXAT"])
        number = self.rng.randrange(1000, 100_000) * (1 if word.startswith("EX") else 1000)
        if word == "EXAT":
            number += self.now_ms // 1000
        elif word == "PXAT":
            number += self.now_ms
        too_far = b"9223372036854775807" if word != "PXAT" else b"9223372036854775808"
        wrong = [b"0", b"-1", too_far, b"-9223372036854775808", b"x", b"1.5"]
        over = [b"1"] if word.endswith("AT") and not self.queueing else []
        chance = self.rng.random()
        text = b"%d" % number if chance < 0.7 or (not over and chance < 0.8) else self.rng.choice(over or wrong)
        if chance > 0.9:
            text = self.rng.choice(wrong)
        return [self.cased(word), text]

    def set(self) -> list[bytes]:
        options: list[list[bytes]] = []
        if self.rng.random() < 0.4:
            options.append(self.lifetime())
        if self.rng.random() < 0.2:
            options.append([self.cased("KEEPTTL")])
        if self.rng.random() < 0.3:
            options.append([self.cased("GET")])
        options += [[self.cased(word)] for word in ("NX", "XX") if self.rng.random() < 0.2]
        if self.rng.random() < 0.03:
            options.append([b"WHAT"])
        self.rng.shuffle(options)
        return [self.cased("SET"), self.key(), self.value(), *[token for option in options for token in option]]

    def getex(self) -> list[bytes]:
        options = self.rng.choice([[], [b"PERSIST"], [b"persist", b"EX", b"10"], [b"KEEPTTL"], self.lifetime()])
        return [b"GETEX", self.key(), *options]

    def set_relatives(self) -> list[bytes]:
        kind = self.rng.randrange(6)
        if kind < 2:
            word = [b"SETEX", b"PSETEX"][kind]
            number = self.rng.choice([b"5000000", b"0", b"-1", b"x", b"9223372036854775807"])
            return [word, self.key(), number, self.value()]
        if kind == 2:
            return [b"SETNX", self.key(), self.value()]
        if kind == 3:
            return [b"GETSET", self.key(), self.value()]
        pairs = [token for _ in range(self.rng.randrange(1, 4)) for token in (self.key(), self.value())]
        if self.rng.random() < 0.1:
            pairs.pop()
        return [[b"MSET", b"MSETNX"][kind - 4], *pairs]

    def read(self) -> list[bytes]:
        word = self.rng.choice([b"GET", b"GET", b"STRLEN", b"TYPE", b"MGET", b"EXISTS", b"TOUCH", b"GETDEL"])
        many = word in (b"MGET", b"EXISTS", b"TOUCH")
        return [word, *[self.key() for _ in range(self.rng.randrange(1, 4) if many else 1)]]

    def count(self) -> list[bytes]:
        word = self.rng.choice([b"INCR", b"DECR", b"INCRBY", b"DECRBY"])
        return [word, self.key()] if word in (b"INCR", b"DECR") else [word, self.key(), self.integer()]

    def count_floats(self) -> list[bytes]:
        """On keys of their own: the two add differently where more than 18 digits matter."""
        key = self.rng.choice(FLOAT_KEYS)
        if self.rng.random() < 0.3:
            return self.rng.choice([[b"GET", key], [b"DEL", key], [b"SET", key, self.rng.choice(FLOATS)]])
        return [b"INCRBYFLOAT", key, self.rng.choice(FLOATS)]

    def part(self) -> list[bytes]:
        word = self.rng.choice([b"APPEND", b"GETRANGE", b"SUBSTR", b"SETRANGE"])
        if word == b"APPEND":
            return [word, self.key(), self.value()]
        if word == b"SETRANGE":
            offset = self.rng.choice([b"0", b"1", b"3", b"7", b"-1", b"x", b"536870911", b"536870912"])
            value = self.rng.choice([b"", b"yz", b"\x00"])
            if len(offset) > 3 and value:
                offset = b"536870912"
            return [word, self.key(), offset, value]
        return [word, self.key(), self.integer(), self.integer()]

    def expire(self) -> list[bytes]:
        word = self.rng.choice(["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
        number = self.rng.randrange(1000, 100_000) * (1000 if word.startswith("P") else 1)
        if word.endswith("AT"):
            number += self.now_ms if word.startswith("P") else self.now_ms // 1000
        too_far = b"9223372036854775808" if word.startswith("P") else b"18446744073709561"
        odd = [b"0", b"-1", b"-100", b"-9223372036854775808", b"x", too_far]
        text = b"%d" % number if self.rng.random() < 0.7 else self.rng.choice(odd)
        options = [self.cased(option) for option in ("NX", "XX", "GT", "LT") if self.rng.random() < 0.15]
        return [self.cased(word), self.key(), text, *options]

    def ends(self) -> list[bytes]:
        return [self.rng.choice([b"TTL", b"PTTL", b"EXPIRETIME", b"PEXPIRETIME", b"PERSIST"]), self.key()]

    def move(self) -> list[bytes]:
        word = self.rng.choice([b"RENAME", b"RENAMENX", b"COPY"])
        options: list[bytes] = []
        if word == b"COPY":
            options = self.rng.choice(
                [[], [b"REPLACE"], [b"DB", b"1"], [b"db", b"1", b"replace"], [b"DB", b"99"], [b"DB"]]
            )
        return [word, self.key(), self.key(), *options]

    def delete(self) -> list[bytes]:
        if self.rng.random() < 0.05:
            return [self.rng.choice([b"FLUSHDB", b"FLUSHALL"]), *self.rng.choice([[], [b"ASYNC"], [b"SYNC"], [b"NOW"]])]
        return [self.rng.choice([b"DEL", b"UNLINK"]), *[self.key() for _ in range(self.rng.randrange(1, 3))]]

    def listing(self) -> list[bytes]:
        pattern = self.rng.choice([b"*", b"[ab]", b"?", b"a*", b"[^a]", b"\\a", b""])
        scan = [b"SCAN", b"0", b"COUNT", b"1000", *self.rng.choice([[], [b"MATCH", pattern], [b"TYPE", b"string"]])]
        return self.rng.choice(
            [[b"KEYS", pattern], scan, [b"DBSIZE"], [b"SCAN", b"x"], [b"SCAN", b"0", b"COUNT", b"0"]]
        )

    def transaction(self) -> list[bytes]:
        word = self.rng.choice([b"MULTI", b"MULTI", b"EXEC", b"EXEC", b"DISCARD", b"WATCH", b"WATCH", b"UNWATCH"])
        return [word, self.key()] if word == b"WATCH" else [word]

    def broken(self) -> list[bytes]:
        return self.rng.choice(
            [[b"GET"], [b"NOSUCH", b"x"], [b"EXEC", b"x"], [b"WATCH"], [b"OBJECT", b"nosuch"], [b"SET", b"a"]]
        )


FAMILIES = [
    *[
        "set",
        "set",
        "getex",
        "set_relatives",
        "read",
        "read",
        "read",
        "count",
        "count_floats",
        "count_floats",
        "part",
        "part",
    ],
    *["expire", "expire", "ends", "ends", "move", "delete", "listing", "transaction", "transaction", "transaction"],
    *["broken"],
]


def same(argv: list[bytes], ours: Any, theirs: Any) -> bool:
    word = argv[0].upper()
    if isinstance(theirs, hiredis.ReplyError):
        return isinstance(ours, hiredis.ReplyError) and same_refusal(argv, str(ours).lower(), str(theirs).lower())
    if word in (b"GETRANGE", b"SUBSTR") and ours == b"" and int(argv[3]) < 0:
        return len(theirs) <= 1  # an end before the first byte gave the first byte until Redis 8
    if word == b"GETEX" and theirs is None and isinstance(ours, hiredis.ReplyError):
        return True  # Redis does not look at the options when the key is missing
    if word in (b"PTTL", b"TTL", b"PEXPIRETIME", b"EXPIRETIME") and isinstance(theirs, int) and theirs > 0:
        return isinstance(ours, int) and abs(ours - theirs) <= (TOLERANCE if word[:1] == b"P" else TOLERANCE / 1000)
    if word == b"KEYS" and isinstance(theirs, list):
        return isinstance(ours, list) and sorted(ours) == sorted(theirs)
    if word == b"SCAN" and isinstance(theirs, list):
        return isinstance(ours, list) and (ours[0], sorted(ours[1])) == (theirs[0], sorted(theirs[1]))
    if len(argv) > 1 and argv[1] in FLOAT_KEYS and isinstance(theirs, bytes) and ours != theirs:
        return isinstance(ours, bytes) and math.isclose(float(ours), float(theirs), rel_tol=1e-15)
    return type(ours) is type(theirs) and ours == theirs


def same_refusal(argv: list[bytes], ours: str, theirs: str) -> bool:
    word = argv[0].upper()
    code, _, words = theirs.partition(" ")
    two_options = len(argv) > (5 if word == b"SET" else 4)
    if words.startswith(OTHER_WORDS) or word == b"SCAN" or two_options:  # of two mistakes either may be named
        return ours.startswith(code + " ")
    return ours.startswith(theirs.rstrip())


def test_replies_are_those_of_redis(oracle: Path) -> None:
    for seed in range(SEQUENCES):
        rng = Random(seed)
        rig = Rig(start_ms=time.time_ns() // 1_000_000)
        requests = Requests(rng, rig.now_ms)
        peers = [Peer(oracle), Peer(oracle)]
        sessions = [rig.session, rig.connect()]
        if rng.random() < 0.5:
            for peer, session in zip(peers, sessions, strict=True):
                peer.send([b"HELLO", b"3"])
                rig("HELLO", 3, session=session)
        peers[0].send([b"FLUSHALL"])
        queues: list[list[list[bytes]] | None] = [None, None]
        trail: list[tuple[int, list[bytes]]] = []
        for _ in range(STEPS):
            who = rng.randrange(2)
            drawn = requests.draw(queues[who] is not None)
            for argv in with_a_look(drawn) if queues[who] is None else [drawn]:
                rig.now_ms = time.time_ns() // 1_000_000
                theirs = peers[who].send(argv)
                ours = rig(*argv, session=sessions[who])
                trail.append((who, argv))
                queued, queues[who] = queues[who], queue_after(queues[who], argv, theirs)
                if argv == [b"EXEC"] and isinstance(theirs, list) and queued is not None:
                    assert len(ours) == len(theirs)
                    equal = all(map(same, queued, ours, theirs))
                else:
                    equal = same(argv, ours, theirs)
                assert equal, f"seed {seed}: {argv!r} gave {ours!r}, Redis {theirs!r}; before: {trail[-12:]!r}"
        rig.restart()
        for peer in peers:
            peer.socket.close()


def with_a_look(argv: list[bytes]) -> list[list[bytes]]:
    """A SET may leave a key that is over; Redis counts it until somebody looks, so somebody looks."""
    return [argv, [b"GET", argv[1]]] if argv[0].upper() == b"SET" else [argv]


def queue_after(queue: list[list[bytes]] | None, argv: list[bytes], reply: Any) -> list[list[bytes]] | None:
    """The commands that wait for EXEC."""
    if reply == b"QUEUED" and queue is not None:
        return [*queue, argv]
    if argv[0] == b"MULTI" and reply == b"OK":
        return []
    return None if argv[0] in (b"EXEC", b"DISCARD") else queue
