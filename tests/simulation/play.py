"""Playing seeds: each twice, the second time without a check, and what is told of one that fails.

`SIMULATION_SEED=7 .venv/bin/pytest tests/simulation -k seeds` plays a seed again. As a program,
`python -m tests.simulation.play FIRST END` tells the trace of each seed, for comparison between processes.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.simulation.world import World


class FoundError(AssertionError):
    """A seed shows that something is wrong."""


def play(seed: int, *, again: bool = True) -> str:
    """Play `seed`, twice with `again`, and give the trace. `FoundError` tells what is wrong, and how to see it once
    more.
    """
    world = World(seed)
    try:
        trace = world.run()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise FoundError(_told(world, f"{type(error).__name__}: {error}")) from error
    if again:
        other = World(seed, world)
        if other.run() != trace:
            raise FoundError(_told(other, f"the second time is another: {world.chronicle.difference(other.chronicle)}"))
    return trace


def play_all(seeds: Iterable[int], *, again: bool = True) -> None:
    """Play one after the other, up to the first that finds something."""
    gc.collect()
    gc.freeze()  # what is loaded is not looked at again each time; a tenth of the time
    try:
        for seed in seeds:
            play(seed, again=again)
    finally:
        gc.unfreeze()


def _told(world: World, what: str) -> str:
    command = f"SIMULATION_SEED={world.seed} .venv/bin/pytest tests/simulation -k seeds"
    return f"seed {world.seed}: {what}\n\nThe last events:\n{world.chronicle.tail()}\n\nTo see it again: {command}"


@contextmanager
def silence() -> Iterator[None]:
    """What the server logs is not of interest."""
    logger = logging.getLogger("amemdb")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def main(first: int, end: int) -> None:
    """Print the trace of each seed."""
    with silence():
        for seed in range(first, end):
            sys.stdout.write(f"{seed} {play(seed)}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
