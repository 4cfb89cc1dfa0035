"""Which fact of a bounded namespace was not used for the longest time: what MAXFACTS removes first.

Reads count as use and yet emit nothing. So the order of use is memory of this node alone, exact as long as it runs: a
fact that is written or returned goes to its end, at once. What others know of it are FACTS_TOUCHED records, one a
minute at most and one before every removal. Replay and followers take the facts that such a record names for used just
then. So they may order what was used within the same minute otherwise, and a crash loses the last minute. What was
removed is a record and never in doubt, which is why the order is no part of a state's digest. It is in its dump: a log
that was written anew still tells what was used long ago.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from sys import getsizeof

TOUCHES_MAX = 1000
"""Most facts that one record names, so that it is made and applied in a fraction of a millisecond."""
TOUCHES_BYTES_MAX = 9 * TOUCHES_MAX + 16
"""Most bytes that they take in a record."""


class LastUse:
    """The facts of one namespace by their last use."""

    __slots__ = ("_order", "_touched")

    def __init__(self) -> None:
        self._order: OrderedDict[int, None] = OrderedDict()
        self._touched: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[int]:
        """Fact ids, the longest unused first."""
        return iter(self._order)

    @property
    def is_touched(self) -> bool:
        """Whether there is something to log."""
        return bool(self._touched)

    def memory_bytes(self) -> int:
        """Bytes of memory that it takes. O(1)."""
        return getsizeof(self._order) + getsizeof(self._touched)

    def add(self, fact_id: int) -> None:
        """A fact was written."""
        self._order[fact_id] = None

    def discard(self, fact_id: int) -> None:
        """A fact is gone."""
        del self._order[fact_id]
        self._touched.pop(fact_id, None)

    def apply(self, fact_ids: Iterable[int]) -> None:
        """A record names facts that were used, in this order. Those that were used here are in their place already."""
        order, touched = self._order, self._touched
        for fact_id in fact_ids:
            if fact_id in touched:
                del touched[fact_id]
            elif fact_id in order:
                order.move_to_end(fact_id)

    def touch(self, fact_ids: Iterable[int]) -> None:
        """Facts were returned by a read. One that has gone since it was found is not here any more."""
        order, touched = self._order, self._touched
        for fact_id in fact_ids:
            if fact_id not in order:
                continue
            order.move_to_end(fact_id)
            touched[fact_id] = None
            touched.move_to_end(fact_id)

    def touches(self) -> list[int]:
        """What the next record has to name, at most `TOUCHES_MAX` facts."""
        return list(islice(self._touched, TOUCHES_MAX))

    def longest_unused(self) -> int:
        """The fact that is to go."""
        return next(iter(self._order))

    def free_some(self, count: int) -> int:
        """Free about `count` facts of a namespace that is out of use; how many they were."""
        freed = 0
        while freed < count and (self._order or self._touched):
            (self._order or self._touched).popitem()
            freed += 1
        return freed
