"""A silenced write left an empty reply that waited for the log, and with it the end of a connection that was over."""

from __future__ import annotations

from tests.native.traffic import encoded
from tests.native.world import BASES_NS, World


def test_a_peer_that_wants_no_reply_and_goes_is_seen_off_without_the_log():
    world = World(BASES_NS[1], {})
    world.do(("policy", False, False))
    silent = encoded([b"CLIENT", b"REPLY", b"OFF"]) + encoded([b"SET", b"k", b"v"])
    assert world.do(("data", 0, silent, False)).sent == []
    assert world.do(("eof", 0)).ends == [(0, "closed")]


def test_what_stands_behind_a_silenced_write_waits_for_it():
    world = World(BASES_NS[1], {})
    world.do(("policy", False, False))
    silent = encoded([b"CLIENT", b"REPLY", b"SKIP"]) + encoded([b"SET", b"k", b"v"])
    assert world.do(("data", 0, silent + encoded([b"PING"]), False)).sent == []
    assert world.do(("release",)).sent == [(0, b"+PONG\r\n")]
