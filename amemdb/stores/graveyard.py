"""What is out of use and too much to be freed at once: it is freed a little at a time.

A million objects take tens of milliseconds to free, in which nobody is served. So a store that throws away something
large takes it out of its state, which is one assignment, and hands it to the `Graveyard` of its `Stores`; whoever
drives the stores (the server's tick, the replay of a log) calls `free` again and again. What is buried is no part of
the state: nobody refers to it, and when it goes is of no consequence but memory.

What can be buried: lists, dicts and sets, which are emptied from the end, and objects with a length and a method
`free_some(count)`, which frees about so many parts and tells how many it freed, fewer only when nothing is left.
What of that kind is found inside is taken apart as well, anything else is freed whole.
"""

from __future__ import annotations

from typing import Any

from amemdb.stores.memory import Ledger

LARGE_MIN = 1000
"""What has fewer parts is let go of at once: it takes less than a tenth of a millisecond."""
LARGE_BYTES_MIN = 1 << 20
"""The same for the memory of something that tells it by `memory_bytes()`: to give back pages takes its time, too."""
_PLAIN = frozenset({tuple, bytes, int})
"""Types of parts that are freed whole, for certain."""


def is_large(thing: Any) -> bool:
    """Whether `thing`, which can be buried, is better not freed at once."""
    if len(thing) >= LARGE_MIN:
        return True
    return hasattr(thing, "memory_bytes") and thing.memory_bytes() >= LARGE_BYTES_MIN


class Graveyard:
    """Where the stores of one node put what is out of use. `ledger` is that of the stores."""

    __slots__ = ("_buried", "ledger")

    def __init__(self) -> None:
        self._buried: list[list[Any]] = []
        """Things, each with the bytes of memory that it counts with."""
        self.ledger = Ledger()

    def __len__(self) -> int:
        """How many things wait to be freed."""
        return len(self._buried)

    def bury(self, thing: Any, count_bytes: int = 0) -> None:
        """Take `thing`, which nobody may use from now on. What is small is let go of at once.

        `count_bytes` is the memory that will be free when it is gone; it counts as used until then, parts and bytes
        in proportion.
        """
        if is_large(thing):
            self._push(thing, count_bytes)

    def free(self, count_max: int) -> int:
        """Free about `count_max` parts, the last buried first; how many, fewer only when nothing is left.

        A thousand take some hundred microseconds at most.
        """
        freed = 0
        while self._buried and freed < count_max:
            thing, count_bytes = self._buried.pop()
            self.ledger.graveyard -= count_bytes
            wanted = count_max - freed
            if hasattr(thing, "free_some"):
                parts = len(thing)
                count = thing.free_some(wanted)
                if count >= wanted:
                    self._push(thing, count_bytes * len(thing) // parts if parts else 0)
                freed += count
            else:
                freed += self._empty(thing, count_bytes, wanted)
        return freed

    def _empty(self, thing: Any, count_bytes: int, count_max: int) -> int:
        """Free about `count_max` parts of a list, dict or set; how many. What is left of it is buried again."""
        keyed = isinstance(thing, dict)
        parts = len(thing)
        freed = 0
        while thing and freed < count_max:
            part = thing.popitem()[1] if keyed else thing.pop()
            freed += 1
            if type(part) in _PLAIN or not (hasattr(part, "free_some") or isinstance(part, list | dict | set)):
                continue
            if is_large(part):
                left = count_bytes * (len(thing) + 1) // parts
                part_bytes = min(part.memory_bytes(), left) if hasattr(part, "memory_bytes") else left - left // 2
                self._push(thing, left - part_bytes)
                self._push(part, part_bytes)
                return freed
            freed += len(part)
        if thing:
            self._push(thing, count_bytes * len(thing) // parts)
        return freed

    def _push(self, thing: Any, count_bytes: int) -> None:
        self._buried.append([thing, count_bytes])
        self.ledger.graveyard += count_bytes
