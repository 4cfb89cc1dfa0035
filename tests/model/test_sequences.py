"""Random sequences over all families against a plain model, live, restarted, replayed and replayed in parts.

Each sequence takes at least 200 steps with time moving, the expiry wheel ticking, transactions, and a restart in
the middle. Every reply is compared with the model's, and at the end the digest of the live state with that of its
log replayed whole and in parts. `SOAK_SEQUENCES` says how many; a failure names its seed, and
`SOAK_SEED=<seed> pytest tests/model` takes that one again.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from model import Model
from rig import Rig, digest_by_parts
from steps import Check, Steps

STEPS_MIN = 200
SEQUENCES = int(os.environ.get("SOAK_SEQUENCES", "500"))
START_MS = 1_700_000_000_000


class Sequence:
    """One sequence: a model and an engine that take the same steps."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.rig = Rig(start_ms=START_MS)
        self.model = Model()
        self.model.now = START_MS
        self.steps = Steps(self.model, self.rng)

    def send(self, *argv: bytes) -> Any:
        return self.rig.send(*argv)

    def run(self) -> None:
        restart_at = self.rng.randrange(60, STEPS_MIN - 20)
        step = 0
        while step < STEPS_MIN or self.rig.session.queue is not None:
            if step == restart_at:
                self.rig.restart()
                self.steps.db = 0
            self.pass_time()
            self.model.purge()
            if self.rng.random() < 0.06:
                step += self.transaction()
            elif self.rng.random() < 0.02:
                self.steps.db = self.rng.randrange(2)
                assert self.send(b"SELECT", b"%d" % self.steps.db) == b"OK"
            else:
                argv, check = self.steps.draw()
                self.compare(check, self.send(*argv), argv)
            step += 1

    def transaction(self) -> int:
        """MULTI, a few steps, EXEC or DISCARD; how many steps were taken."""
        assert self.send(b"MULTI") == b"OK"
        queued = []
        for _ in range(self.rng.randrange(1, 6)):
            argv, check = self.steps.draw()
            assert self.send(*argv) == b"QUEUED", argv
            queued.append((argv, check))
        if self.rng.random() < 0.1:
            assert self.send(b"DISCARD") == b"OK"
            return 0
        frames = len(self.rig.log.frames)
        replies = self.send(b"EXEC")
        assert len(replies) == len(queued)
        assert len(self.rig.log.frames) - frames <= 1, "a transaction is one frame"
        for (argv, check), reply in zip(queued, replies, strict=True):
            self.compare(check, reply, argv)
        return len(queued)

    def pass_time(self) -> None:
        if self.rng.random() < 0.25:
            self.model.now += self.rng.choice([1, 50, 900, 1100, 2500, 7000])
            self.rig.now_ms = self.model.now
        if self.rng.random() < 0.1:
            self.rig.engine.expire(self.rig.now_ms, self.rng.randrange(1, 20))

    def compare(self, check: Check, reply: Any, argv: list[bytes]) -> None:
        try:
            check(reply)
        except AssertionError as error:
            raise AssertionError(f"{argv!r} answered {reply!r}: {error}") from error
        self.model.purge()


def seeds() -> list[int]:
    one = os.environ.get("SOAK_SEED")
    return [int(one)] if one else list(range(SEQUENCES))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(8))
def test_replies_and_digests_agree_with_the_model(block: int) -> None:
    for seed in seeds()[block::8]:
        sequence = Sequence(seed)
        try:
            sequence.run()
            rig = sequence.rig
            live = rig.stores.digest(rig.now_ms)
            assert rig.replayed().digest(rig.now_ms) == live
            assert rig.stores.digest(0) == rig.replayed().digest(0)
            assert digest_by_parts(rig.log.frames, 5, rig.now_ms) == live
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
