"""What the tests of the memory families ask of a rig again and again: a line sent, a refusal, records, a scan."""

from __future__ import annotations

from typing import Any

import hiredis
import rig as rigs
from rig import Rig

from amemdb.stores.records import Record

NOW = rigs.START_MS
EVERY_BYTE = bytes(range(256))
NOT_INTEGERS = [b"", b" 5", b"5 ", b"+5", b"1_0", b"1.5", b"1e3", b"x", b"0x10", "\u0665".encode(), b"9" * 20]


def run(rig: Rig, line: str, *rest: bytes) -> Any:
    """The reply to the words of `line` and the arguments behind them; an error is returned, not raised."""
    return rig.send(*line.encode().split(), *rest)


def refused(rig: Rig, reason: str, line: str, *rest: bytes) -> None:
    """The request is an error that says `reason`, and leaves no trace in memory or log."""
    before = rig.stores.digest(0), len(rig.log.frames)
    reply = run(rig, line, *rest)
    assert isinstance(reply, hiredis.ReplyError), f"{line} {rest!r} answered {reply!r}"
    assert reason in str(reply)
    assert (rig.stores.digest(0), len(rig.log.frames)) == before


def silent(rig: Rig, line: str, *rest: bytes) -> Any:
    """The reply to a request that is no error and changes and logs nothing."""
    before = rig.stores.digest(0), len(rig.log.frames)
    reply = run(rig, line, *rest)
    assert not isinstance(reply, hiredis.ReplyError), reply
    assert (rig.stores.digest(0), len(rig.log.frames)) == before
    return reply


def logged(rig: Rig, line: str, *rest: bytes) -> list[Record]:
    """The records of the one frame that a request makes; none when it makes no frame."""
    before = len(rig.log.frames)
    reply = run(rig, line, *rest)
    assert not isinstance(reply, hiredis.ReplyError), reply
    assert len(rig.log.frames) - before <= 1, "one command is at most one frame"
    return [record for frame in rig.log.frames[before:] for record in records_of(frame)]


def records_of(frame: bytes) -> list[Record]:
    """The records of a frame."""
    return [tuple(record) for record in rigs.records_of(frame)]


def scanned(rig: Rig, command: str, *options: bytes, pages_max: int = 10_000) -> list[bytes]:
    """All names that a whole scan gives."""
    names: list[bytes] = []
    cursor = b"0"
    for _ in range(pages_max):
        cursor, page = rig.send(command.encode(), cursor, *options)
        names += page
        if cursor == b"0":
            return names
    raise AssertionError(f"{command} does not end")


def survives(rig: Rig) -> None:
    """What the log holds and what a dump of every object holds are both exactly the state, hidden objects included."""
    for now_ms in (0, rig.now_ms):
        assert rig.replayed().digest(now_ms) == rig.stores.digest(now_ms)
        again = type(rig.stores)()
        for dump in rig.stores.dumps(now_ms):
            for record in dump:
                again.apply(record)
        assert again.digest(0) == rig.stores.digest(now_ms)
