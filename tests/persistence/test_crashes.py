"""Random lives of a log: writes, failures of the disk, kills and power cuts, and what each policy promised through
them."""

from __future__ import annotations

import time
from random import Random, SystemRandom

import pytest

from amemdb.errors import CorruptLogError
from tests.persistence.simulated import AMPLE, FAULTS, Driven, SimulatedDisk, Stopped

POLICIES = ["always", "everysec", "no"]
SEEDS = 600


class Life:
    """One log from its first start through several ends."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk(self.random)
        self.policy = self.random.choice(POLICIES)
        self.power = False
        self.accepted: list[tuple[int, int]] = []
        """Number and size of each frame."""
        self.ends: list[int] = []
        """The offset behind each accepted frame."""
        self.told_offset = 0
        """Highest offset that replies were allowed to tell of."""
        self.durable_offset = 0
        """Highest one that must survive a power cut: said to be durable, or told of under `always`."""
        self.forgot = False
        """A failure came after frames had left memory unsynced, which only the policy `no` allows."""

    def run(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            driven = self._start()
            driven.after_step = self._note
            self.disk.stop_in = self.random.choice([None, self.random.randint(0, 60)])
            try:
                self._live(driven)
                if self.random.random() < 0.2:
                    self.disk.faults, self.disk.space = {}, AMPLE
                    driven.close()
            except Stopped:
                pass
            self.power = self.random.random() < 0.7
            if self.power:
                self.disk.power_cut()
            else:
                self.disk.kill()
            self._check()

    def _start(self) -> Driven:
        segment, reserve = self.random.choice([500, 3000, 1 << 20]), self.random.choice([300, 4000, 65536])
        driven = Driven(self.disk, self.policy, segment_bytes_max=segment, reserve=reserve)
        driven.here = self.random.random() < 0.5
        return driven

    def _live(self, driven: Driven) -> None:
        log = driven.log
        for _ in range(self.random.randint(1, 40)):
            action = self.random.random()
            if action < 0.5:
                number = len(self.accepted)
                size = self.random.choice([0, 10, 700])
                if driven.write(number, size):
                    self.accepted.append((number, size))
                    self.ends.append(log.offset)
            elif action < 0.7:
                driven.begin()
            elif action < 0.8 and driven.step is not None:
                driven.finish_step()
            elif action < 0.83:
                driven.here = not driven.here
            elif action < 0.9:
                driven.now += self.random.choice([0.01, 0.3, 1.0, 2.0])
            elif action < 0.92:
                self.disk.faults = dict(self.random.choice(FAULTS))
                self.disk.fault_chance = self.random.choice([0.3, 0.7, 1.0])
            elif action < 0.94:
                self.disk.space = self.random.randint(0, 2000)
            elif action < 0.97:
                self.disk.faults, self.disk.space = {}, AMPLE
            else:
                self.policy = self.random.choice(POLICIES)
                log.set_policy(self.policy)
            if driven.step is None:
                driven.begin()
            if driven.step is not None and self.random.random() < 0.6:
                driven.finish_step()
            if driven.sync is not None and self.random.random() < 0.4:
                driven.finish_sync()

    def _note(self, driven: Driven) -> None:
        """What replies may have told by now, under the policy of this moment."""
        log = driven.log
        self.told_offset = max(self.told_offset, log.released_offset)
        safe = log.released_offset if log.policy == "always" else log.durable_offset
        self.durable_offset = max(self.durable_offset, safe)
        if log.failure is not None and log.durable_offset < log.offset - log.kept_bytes:
            self.forgot = True

    def _check(self) -> None:
        """Start again: exactly a beginning of what was accepted, and at least what was promised."""
        try:
            driven = Driven(self.disk, self.policy)
        except CorruptLogError:
            assert self.forgot, "refused although nothing that was durable is missing"
            raise
        count = len(driven.applied)
        assert [(record[2], len(record[3])) for record in driven.applied] == self.accepted[:count]
        promised = self.durable_offset if self.power else self.told_offset
        if not (self.power and self.forgot):
            assert driven.report.offset >= promised
        assert driven.report.offset == ([0, *self.ends])[count]
        self.accepted, self.ends = self.accepted[:count], self.ends[:count]
        self.told_offset = self.durable_offset = driven.report.offset


def live(seed: int) -> None:
    life = Life(seed)
    try:
        life.run()
    except CorruptLogError:
        assert life.forgot, f"seed {seed}"
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.soak
def test_what_was_promised_survives(soak_seconds: int) -> None:
    if not soak_seconds:
        for seed in range(SEEDS):
            live(seed)
    until = time.monotonic() + soak_seconds
    while time.monotonic() < until:
        live(SystemRandom().getrandbits(48))


@pytest.mark.parametrize("policy", POLICIES)
def test_what_was_accepted_always_has_its_room(policy: str) -> None:
    """On a disk that fills and empties, a frame may be refused, but once taken it never fails to be written."""
    for seed in range(60):
        random = Random(seed)
        disk = SimulatedDisk(random)
        driven = Driven(disk, policy, segment_bytes_max=random.choice([400, 5000]), reserve=random.choice([200, 3000]))
        accepted = refused = 0
        for _ in range(60):
            disk.space = random.choice([0, 100, 1000, 5000])
            for _ in range(random.randint(1, 4)):
                if driven.write(accepted, random.choice([0, 50, 900])):
                    accepted += 1
                else:
                    refused += 1
            driven.run(random.choice([0, 0.4, 1.1]))
            assert driven.log.failure is None
        disk.space = AMPLE
        assert driven.write(accepted), "there is room again"
        driven.close()
        assert refused
        assert Driven(disk).numbers == list(range(accepted + 1))
