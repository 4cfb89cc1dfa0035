"""Under `appendfsync always` a refusal for a log that cannot be written waited for that very log, so for ever.

The reply to a command waits until what it may tell of is durable. A command that no gate let pass tells of nothing:
its `MISCONF` has to leave at once, or clients hang instead of learning why.
"""

from __future__ import annotations

import pytest
from rig import Rig

from amemdb.commands.session import Session


@pytest.fixture
def rig() -> Rig:
    """One acknowledged write, after which nothing can be written or read."""
    rig = Rig()
    rig.log.gates_reads = True
    rig("SET", "k", "v")
    rig.log.frame_bytes_max = 0
    rig.log.unreadable = "the disk is gone"
    return rig


def refused(rig: Rig, session: Session, *words: str) -> str:
    return str(rig(*words, session=session)).partition(" ")[0]


@pytest.mark.parametrize("words", [("SET", "k", "w"), ("GET", "k"), ("MGET", "k"), ("AMEM.CONV.GET", "s")])
def test_a_refused_command_waits_for_nothing(rig: Rig, words: tuple[str, ...]) -> None:
    session = rig.connect()
    assert refused(rig, session, *words) == "MISCONF"
    assert session.reply_offset == 0


def test_a_refused_transaction_waits_for_nothing(rig: Rig) -> None:
    session = rig.connect()
    rig("MULTI", session=session)
    assert refused(rig, session, "SET", "k", "w") == "MISCONF"
    assert refused(rig, session, "EXEC") == "EXECABORT"
    assert session.reply_offset == 0


def test_a_transaction_refused_at_its_end_waits_for_nothing(rig: Rig) -> None:
    rig.log.frame_bytes_max = 1 << 30
    rig.log.unreadable = None
    session = rig.connect()
    for words in (("MULTI",), ("SET", "k", "w")):
        rig(*words, session=session)
    rig.log.frame_bytes_max = 0
    assert refused(rig, session, "EXEC") == "EXECABORT"
    assert session.reply_offset == 0


def test_what_was_let_through_still_waits(rig: Rig) -> None:
    rig.log.unreadable = None
    session = rig.connect()
    assert rig("GET", "k", session=session) == b"v"
    assert session.reply_offset == rig.log.offset > 0
    other = rig.connect()
    assert str(rig("AMEM.SEM.GET", "nobody", session=other)).startswith("ERR wrong number")
    assert other.reply_offset == 0
    for words in (("WATCH", "k"), ("MULTI",), ("EXEC",)):
        rig(*words, session=other)
    assert other.reply_offset == rig.log.offset
