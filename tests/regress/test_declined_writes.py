"""A native handler that declined left a mark, so that answers which wait for nothing waited for the next write.

And a look at the log for the sake of a request that was not whole was believed ever after.
"""

from __future__ import annotations

from tests.native.traffic import encoded
from tests.native.world import BASES_NS, World

UNKNOWN = encoded([b"AMEM.WORK.SET", b"nobody", b"k", b"v"])
PING = encoded([b"PING"])
SET = encoded([b"SET", b"k", b"v"])
GET = encoded([b"GET", b"k"])
NOT_FOUND = b"-ERR session not found\r\n"


def test_what_stands_before_a_write_does_not_wait_for_it():
    world = World(BASES_NS[1], {})
    world.do(("policy", False, False))
    assert world.do(("data", 0, UNKNOWN + PING + SET, False)).sent == [(0, NOT_FOUND + b"+PONG\r\n")]
    assert world.do(("release",)).sent == [(0, b"+OK\r\n")]


def test_half_a_request_does_not_keep_what_was_seen_of_the_log():
    world = World(BASES_NS[1], {})
    assert world.do(("data", 0, SET[:-3], False)).sent == []
    world.do(("refuse", "no space left", "no disk", 1 << 40))
    ((_, refused),) = world.do(("data", 0, SET[-3:] + GET, False)).sent
    assert refused.count(b"-MISCONF") == 2
