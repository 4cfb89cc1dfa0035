"""The graveyard: everything goes, and never much at once."""

from __future__ import annotations

import gc
import weakref

from amemdb.stores.graveyard import LARGE_BYTES_MIN, LARGE_MIN, Graveyard, is_large


class Thing:
    """Something with parts that remembers how it was taken apart."""

    def __init__(self, parts: int, size: int = 0) -> None:
        self.parts = parts
        self.size = size
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.parts

    def free_some(self, count: int) -> int:
        self.asked.append(count)
        gone = min(count, self.parts)
        self.parts -= gone
        return gone

    def memory_bytes(self) -> int:
        return self.size


def test_large_is_what_has_many_parts_or_much_memory() -> None:
    assert not is_large([None] * (LARGE_MIN - 1))
    assert is_large([None] * LARGE_MIN)
    assert not is_large(Thing(3, LARGE_BYTES_MIN - 1))
    assert is_large(Thing(3, LARGE_BYTES_MIN))


def test_what_is_small_goes_at_once() -> None:
    graveyard = Graveyard()
    graveyard.bury([1, 2, 3])
    assert len(graveyard) == 0
    assert graveyard.free(100) == 0


def test_lists_and_dicts_go_bit_by_bit() -> None:
    graveyard = Graveyard()
    names = [b"%d" % number for number in range(2 * LARGE_MIN)]
    values = {name: (name, 1) for name in names}
    graveyard.bury(names)
    graveyard.bury(values)
    sizes = []
    while graveyard.free(300) == 300:
        sizes.append(len(names) + len(values))
    assert sizes == [4 * LARGE_MIN - 300 * (index + 1) for index in range(len(sizes))]
    assert (names, values) == ([], {})
    assert len(graveyard) == 0


def test_a_thing_with_parts_is_asked_for_no_more_than_is_wanted() -> None:
    graveyard = Graveyard()
    first, second = Thing(LARGE_MIN), Thing(LARGE_MIN + 50)
    graveyard.bury(first)
    graveyard.bury(second)
    assert graveyard.free(LARGE_MIN) == LARGE_MIN
    assert graveyard.free(LARGE_MIN) == LARGE_MIN
    assert graveyard.free(LARGE_MIN) == 50
    assert (first.asked, second.asked) == ([LARGE_MIN - 50, 50 + LARGE_MIN - 50], [LARGE_MIN, LARGE_MIN])


def test_what_lies_in_a_dict_is_taken_apart_or_counted() -> None:
    graveyard = Graveyard()
    large = Thing(3 * LARGE_MIN)
    stored: dict[int, Thing] = {number: Thing(9) for number in range(LARGE_MIN)}
    stored[LARGE_MIN] = large
    graveyard.bury(stored)
    assert graveyard.free(100) == 100
    assert large.parts == 3 * LARGE_MIN - 99, "the session goes before its neighbours, but not at once"
    assert graveyard.free(3 * LARGE_MIN - 99 + 50) == 3 * LARGE_MIN - 99 + 50
    assert len(stored) == LARGE_MIN - 5, "one with its nine parts counts ten"


def test_nothing_that_is_buried_stays() -> None:
    graveyard = Graveyard()
    things = [Thing(1) for _ in range(LARGE_MIN)]
    alive = weakref.WeakSet(things)
    graveyard.bury(things)
    del things
    while graveyard.free(64):
        pass
    gc.collect()
    assert len(alive) == 0
