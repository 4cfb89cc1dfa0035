"""One side of the differential fuzzer: a process that plays seeds and tells what came of them.

A line `seed steps` on standard input is answered by a block of msgpack: a digest for the outcome of each step, how
often native code served each command, and what an exception said, if there was one. Then `index` asks for the outcome
of that step of it in words. Which implementation runs, `AMEMDB_NATIVE` has decided. `python -m
tests.native.driver BUG` plants one of `BUGS` first, so that a test can show that a difference is found.
"""

from __future__ import annotations

import hashlib
import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any

import msgpack

from amemdb import native
from amemdb.commands.context import Context
from amemdb.stores import records
from amemdb.stores.keyspace import Keyspace
from amemdb.stores.working import WorkingStore
from tests.native.traffic import Traffic
from tests.native.world import Outcome, Step, World


def main() -> None:
    """Serve until the input ends."""
    logging.getLogger("amemdb").setLevel(logging.CRITICAL)
    if sys.argv[1:]:
        BUGS[sys.argv[1]]()
    out = sys.stdout.buffer
    _answer(out, {"native": native.ENABLED, "missing": native.MISSING})
    player = Player()
    for line in sys.stdin:
        numbers = list(map(int, line.split()))
        _answer(out, player.play(*numbers) if len(numbers) == 2 else player.explain(*numbers))


def _answer(out: Any, value: Any) -> None:
    data = msgpack.packb(value)
    out.write(len(data).to_bytes(4, "little") + data)
    out.flush()


class Player:
    """Plays seeds and remembers the last one: what depends on the moment would not come again."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._outcomes: list[Outcome] = []

    def play(self, seed: int, count: int) -> dict[str, Any]:
        """What came of a seed."""
        traffic = Traffic(seed)
        world = World(traffic.base_ns, traffic.settings)
        self._steps.clear()
        self._outcomes.clear()
        failure = ""
        for step in traffic.steps(count):
            self._steps.append(step)
            try:
                self._outcomes.append(world.do(step))
            except BaseException:
                failure = traceback.format_exc()
                break
        digests = [hashlib.blake2b(repr(outcome).encode(), digest_size=8).digest() for outcome in self._outcomes]
        return {"digests": digests, "served": world.served, "failure": failure}

    def explain(self, index: int) -> dict[str, Any]:
        """The outcome of one step of the last seed."""
        words = {name: repr(value) for name, value in self._outcomes[index]._asdict().items()}
        return {"step": repr(self._steps[index]), **words}


# -- bugs to be found ------------------------------------------------------------------------------------


def _dead_notes_live() -> None:
    WorkingStore.live = lambda self, session, key, now_ms: self.get(session, key)  # type: ignore[method-assign]


def _dead_keys_live() -> None:
    live = Keyspace.live
    Keyspace.live = lambda self, db, key, now_ms: live(self, db, key, 0)  # type: ignore[method-assign]


def _a_record_is_late() -> None:
    emit = Context.emit

    def emit_late(self: Context, record: records.Record) -> None:
        if record[0] == records.TURN_APPENDED:
            record = (*record[:4], record[4] + 1, *record[5:])
        emit(self, record)

    Context.emit = emit_late  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "dead-notes-live": _dead_notes_live,
    "dead-keys-live": _dead_keys_live,
    "a-record-is-late": _a_record_is_late,
}

if __name__ == "__main__":
    main()
