"""The names of a KEYS that its peer does not read were held, and counted nowhere: neither limit nor maxmemory saw them.

And a few large events were one piece of a reply, made at once, however many megabytes they had together.
"""

from __future__ import annotations

from typing import Any

from amemdb.engine.answers import Parts
from amemdb.protocol.reply import BULK, ArrayOf, Elements
from amemdb.stores.graveyard import Graveyard
from tests.rig import Rig as EngineRig
from tests.server.fakes import Rig
from tests.server.test_connection import line

NAMES = ArrayOf(BULK)
NAME = b"n" * 1000


def test_an_answer_that_is_held_for_a_peer_counts_as_its_output():
    rig = Rig()
    held = Elements(BULK)
    for _ in range(50):
        held.add([NAME] * 100)

    def reply(session: Any, argv: list[bytes]) -> Parts:
        return Parts(argv, held, NAMES.pieces(held, False), Graveyard(), lambda: 0, lambda spent_ns: None)

    rig.engine.scripts[b"NAMES"] = reply
    connection, transport = rig.connect()
    transport.stuck = True
    connection.data_received(line("NAMES"))
    rig.loop.settle()
    connection.check(rig.hand.ns)
    assert connection.session.output_bytes > held.held_bytes > 50 * 100 * len(NAME)


def test_large_events_are_looked_at_one_by_one():
    rig = EngineRig()
    content = b"c" * 300_000
    for _ in range(40):
        rig("AMEM.EPIS.LOG", "a", "t", content)
    answer = rig.engine.execute(rig.session, [b"AMEM.EPIS.QUERY", b"a"], rig.now_ms)
    steps = 0
    while not isinstance(answer, Parts):
        assert not isinstance(answer, bytes)
        answer = rig.engine.resume(answer, None, rig.now_ms)
        steps += 1
    pieces = list(iter(answer.next, b""))
    assert len(pieces) > 30
    assert max(map(len, pieces)) < 5 * len(content)
    assert b"".join(pieces).count(content) == 40
