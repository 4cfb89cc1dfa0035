"""What lives long is taken out of the collector's sight; what is garbage and young still goes."""

from __future__ import annotations

import gc
import weakref

import pytest

from amemdb.server import collector


@pytest.fixture
def settled():
    collector.settle()
    yield
    collector.unsettle()


class Node:
    def __init__(self) -> None:
        self.me = self


@pytest.mark.usefixtures("settled")
def test_survivors_of_a_full_collection_are_frozen():
    kept = [[number] for number in range(50_000)]
    gc.collect()
    assert gc.get_freeze_count() > 50_000
    assert len(gc.get_objects()) < 10_000
    assert len(kept) == 50_000


@pytest.mark.usefixtures("settled")
def test_young_cycles_are_still_collected():
    seen = weakref.ref(Node())
    filler = [[number] for number in range(200_000)]
    assert seen() is None
    assert len(filler) == 200_000


@pytest.mark.usefixtures("settled")
def test_full_collections_stay_small_while_the_data_grows():
    seen: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(len(gc.get_objects(generation=2)))

    gc.callbacks.insert(0, count)
    try:
        data = [{"n": [number]} for number in range(600_000)]
    finally:
        gc.callbacks.remove(count)
    assert len(data) == 600_000
    assert len(seen) > 3, "no full collection happened, so that this shows nothing"
    assert max(seen) < 60_000


def test_settling_twice_and_taking_it_back_leaves_one_callback_and_then_none():
    before = list(gc.callbacks)
    collector.settle()
    collector.settle()
    assert len(gc.callbacks) == len(before) + 1
    collector.unsettle()
    assert gc.callbacks == before
