"""Connections that have more to do: in turn, and a millisecond together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amemdb.server.backlog import SHARED_SLICE_NS, SLICE_NS, Backlog


class World:
    """A loop that runs when told to, and a clock that work moves."""

    def __init__(self) -> None:
        self.ns = 0
        self.calls: list[Callable[..., Any]] = []
        self.done: list[str] = []
        self.backlog = Backlog(self, lambda: self.ns)

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        assert not args
        self.calls.append(callback)

    def turn(self) -> str:
        """One turn of the loop; who worked in it."""
        self.done.clear()
        calls, self.calls = self.calls, []
        for call in calls:
            call()
        return "".join(self.done)


class Busy:
    """A connection with so many slices to do."""

    def __init__(self, world: World, name: str, slices: int, slice_ns: int = SHARED_SLICE_NS) -> None:
        self.world, self.name, self.slices, self.slice_ns = world, name, slices, slice_ns
        world.backlog.add(self)

    def go_on(self) -> None:
        self.world.done.append(self.name)
        self.world.ns += self.slice_ns
        self.slices -= 1
        if self.slices:
            self.world.backlog.add(self)


def test_all_together_work_about_a_millisecond_a_turn_and_everyone_comes_round():
    world = World()
    for name in "abcdefghij":
        Busy(world, name, 2)
    assert [world.turn() for _ in range(5)] == ["abcde", "fghij", "abcde", "fghij", ""]
    assert (len(world.backlog), world.calls) == (0, [])


def test_one_that_works_long_ends_the_turn():
    world = World()
    Busy(world, "a", 2, 3 * SLICE_NS)
    Busy(world, "b", 1)
    assert [world.turn() for _ in range(3)] == ["a", "ba", ""]


def test_who_joins_again_waits_for_the_next_turn():
    world = World()
    Busy(world, "a", 3, 1)
    assert [world.turn() for _ in range(4)] == ["a", "a", "a", ""]


def test_slices_are_short_while_others_wait():
    world = World()
    assert world.backlog.slice_ns == SLICE_NS
    Busy(world, "a", 1)
    assert world.backlog.slice_ns == SHARED_SLICE_NS
    world.turn()
    assert world.backlog.slice_ns == SLICE_NS
