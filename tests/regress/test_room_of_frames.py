"""Room in the log was asked for each command of a transaction by itself, and for removals by a fixed length of name.

Several COPYs of a large value in one EXEC, or the end of keys with very long names, made a frame larger than any room
that had been asked for. The rig's log asserts that no frame exceeds what was asked.
"""

from __future__ import annotations

import hiredis
import pytest
from rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_values_copied_in_one_transaction_add_up(rig: Rig) -> None:
    rig("SET", "big", "x" * 10_000)
    rig.log.frame_bytes_max = 35_000
    rig("MULTI")
    for name in "abcd":
        rig("COPY", "big", name)
    rig("SET", "e", "v")
    replies = rig("EXEC")
    assert [isinstance(reply, hiredis.ReplyError) for reply in replies] == [False, False, False, True, False]
    assert str(replies[3]).startswith("MISCONF ")
    assert rig("EXISTS", *"abcde") == 4
    rig.restart()


def test_removals_are_as_long_as_the_names(rig: Rig) -> None:
    rig("SET", "k" * 100_000, "v", "PX", 10)
    rig.advance_ms(5000)
    rig.log.frame_bytes_max = 50_000
    assert rig.tick() == 0
    rig.log.frame_bytes_max = 200_000
    assert rig.tick() == 1


def test_a_name_that_ended_and_is_written_again_is_named_twice(rig: Rig) -> None:
    key = "k" * 100_000
    rig("SET", key, "v", "PX", 10)
    rig.advance_ms(10)
    assert rig("SETRANGE", key, 0, "x") == 1
    for word in ("DEL", "PERSIST", "GETDEL"):
        rig("SET", key, "v", "PX", 10)
        rig.advance_ms(10)
        assert not rig(word, key)
    rig.restart()
