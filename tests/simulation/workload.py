"""What goes on in a world, as parts: set up at the start of each life, they take steps until it ends.

What clients ask is in `clients`, what befalls disk, network, clock and settings in `troubles`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.schedule import S

if TYPE_CHECKING:
    from tests.simulation.world import World


class Workload:
    """The least of them does nothing."""

    keys: tuple[bytes, ...] = ()
    """Plain keys of database 0 that it uses, besides those of `tests/model`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random

    def setup(self) -> None:
        """A life begins."""

    def step(self) -> None:
        """Do something."""

    def check(self) -> None:
        """A life begins: what came back must be right."""

    def again(self, a_second: float) -> None:
        """Have `step` come so often a second, about."""
        if a_second:
            self.world.schedule.after(int(min(10.0, self.random.expovariate(a_second)) * S), self.step)
