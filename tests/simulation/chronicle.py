"""All that happens in a world, in order: its trace, by which two worlds are compared, and the tail that people read."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.simulation.schedule import START_NS, S, Schedule

TAIL = 60
"""Events that are told of a world in which something is wrong."""
LINE_CHARACTERS_MAX = 300


class Chronicle:
    """The events of one world."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.events: list[tuple[Any, ...]] = []

    def note(self, *what: Any) -> None:
        """Something happened."""
        self.events.append((self._schedule.now_ns, *what))

    def trace(self) -> str:
        """A digest of all that happened.

        Of answers it has what does not depend on the order of names in a list, which another process hashes in another
        way.
        """
        told = [event if event[1] != "answers" else (*event[:3], sum(event[3])) for event in self.events]
        return hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest()

    def tail(self) -> str:
        """The last events."""
        lines = []
        for time_ns, *what in self.events[-TAIL:]:
            line = f"{(time_ns - START_NS) / S:10.6f}  {' '.join(map(str, what))}"
            lines.append(line[:LINE_CHARACTERS_MAX])
        return "\n".join(lines)

    def difference(self, other: Chronicle) -> str:
        """Where they part."""
        pairs = enumerate(zip(self.events, other.events, strict=False))
        at = next((index for index, (one, another) in pairs if one != another), -1)
        return f"event {at}, {self.events[at]!r} and {other.events[at]!r}"
