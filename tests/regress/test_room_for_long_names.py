"""Room for a frame was asked by the size of the request, but a write that meets something dead names it twice.

With names of the greatest length the frame was larger than the room reserved for it, so that a log at its limit
could have been handed a frame that it had no place for. The rig's log asserts that no frame exceeds what was asked.
"""

from __future__ import annotations

import pytest
from rig import Rig

NAME = b"n" * 1024
KEY = b"k" * 1024


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_session_that_replaces_a_dead_one(rig: Rig) -> None:
    rig("AMEM.CONV.CREATE", NAME, "TTL", 1)
    rig.advance_ms(1000)
    assert len(rig.frames_of("AMEM.CONV.CREATE", NAME)[0]) == 2


def test_a_note_that_replaces_a_dead_one(rig: Rig) -> None:
    rig("AMEM.CONV.CREATE", NAME)
    rig("AMEM.WORK.SET", NAME, KEY, "", "TTL", 1)
    rig.advance_ms(1000)
    assert len(rig.frames_of("AMEM.WORK.SET", NAME, KEY, "")[0]) == 2


def test_an_event_in_a_full_log(rig: Rig) -> None:
    rig("AMEM.EPIS.RETAIN", NAME, "MAXLEN", 1)
    rig("AMEM.EPIS.LOG", NAME, KEY, "")
    assert len(rig.frames_of("AMEM.EPIS.LOG", NAME, KEY, "")[0]) == 2


def test_a_retention_that_trims(rig: Rig) -> None:
    rig("AMEM.EPIS.LOG", NAME, KEY, "")
    rig("AMEM.EPIS.LOG", NAME, KEY, "")
    assert len(rig.frames_of("AMEM.EPIS.RETAIN", NAME, "MAXLEN", 1)[0]) == 2


def test_all_of_it_in_a_transaction(rig: Rig) -> None:
    rig("AMEM.CONV.CREATE", NAME)
    rig("AMEM.EPIS.RETAIN", NAME, "MAXLEN", 1)
    for number in range(20):
        rig("AMEM.WORK.SET", NAME, KEY[:-2] + b"%02d" % number, "", "TTL", 1)
    rig.advance_ms(1000)
    rig("MULTI")
    for number in range(20):
        rig("AMEM.WORK.SET", NAME, KEY[:-2] + b"%02d" % number, "")
        rig("AMEM.EPIS.LOG", NAME, KEY, "")
    assert rig("EXEC") == [b"OK"] * 40
