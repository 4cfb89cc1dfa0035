"""The disk of a simulated machine: that of `tests.persistence.simulated`, told of in the trace, for a whole world.

A process whose end has come (`Stopped`) does nothing any more, in whatever `finally` it may still run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random

from tests.persistence.simulated import AMPLE, FAULTS, SimulatedDisk, SimulatedFile, Stopped

WORLD_FAULTS: tuple[dict[str, int], ...] = (
    *FAULTS,
    {"open": errno.EIO},
    {"truncate": errno.EIO},
)


class WorldDisk(SimulatedDisk):
    """One folder of one machine."""

    folder = "simulated"

    def __init__(self, random: Random, note: Callable[..., None]) -> None:
        super().__init__(random)
        self._note = note
        self.stopped = False
        """The process was ended by an operation, and nothing it does counts any more."""

    def step(self, operation: str) -> None:
        if self.stopped:
            raise Stopped
        try:
            super().step(operation)
        except Stopped:
            self.stopped = True
            self._note("stopped in", operation)
            raise
        except OSError as error:
            self._note("fails", operation, error.errno)
            raise
        self.operations.clear()
        self._note(operation)

    def open(self, name: str, *, write: bool = False) -> SimulatedFile:
        self.step("open")
        return super().open(name, write=write)

    def remove(self, name: str) -> None:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        super().remove(name)

    def break_down(self) -> None:
        """From now on it refuses something."""
        if self.random.random() < 0.2:
            self.space = self.random.randint(0, 3000)
        else:
            self.faults = dict(self.random.choice(WORLD_FAULTS))
            self.fault_chance = self.random.choice((0.3, 0.7, 1.0))
        self._note("fault", self.faults, self.space)

    def heal(self) -> None:
        """Nothing is wrong with it any more."""
        self.faults = {}
        self.space = AMPLE
        self.limit = (1 << 63) - 1

    def is_broken(self) -> bool:
        """Whether it may refuse anything now."""
        return bool(self.faults) or self.space < AMPLE // 2 or self.limit < AMPLE

    def _restart(self) -> None:
        super()._restart()
        self.stopped = False

    def close(self) -> None:
        """The process lets go of the folder."""

    def contents(self) -> dict[str, bytes]:
        """What lies in each file, as a process would read it."""
        return {name: bytes(self.file(name)) for name in self.names()}
