"""Where a log stands, and what it may ask for while it stands there: the words between the log and who drives it.

What is decided with them is `amemdb.persistence.log`'s affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from amemdb.persistence.manifest import Base, Segment
from amemdb.persistence.steps import Step


class Spot(Protocol):
    """What the log asks for on the spot, from inside `refuse_write` and `write_here`."""

    def file_bytes_max(self) -> int:
        """How large a file may grow right now."""

    def settle(self, step: Step) -> None:
        """Return when `step`, which is under way, has gone back into `Log.done`."""

    def extend(self, number: int, end: int, count_wanted: int, count_min: int) -> int:
        """Reserve room behind `end` of a segment and return its new end; `OSError` if there is none."""

    def write_block(self, number: int, position: int, offset: int, durable: int, payload: bytes) -> None:
        """Write a block to a segment; `OSError` if the disk refuses."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an opened log goes on: its files, and the end of blocks and of room in the last of them.

    `older_bytes` is the size of the others together, the base included, and `marked` whether a closing header is the
    last thing written.
    """

    log_id: bytes
    segments: tuple[Segment, ...]
    next_number: int
    offset: int
    position: int
    end: int
    older_bytes: int
    marked: bool
    base: Base | None = None


@dataclass(slots=True)
class OpenFile:
    """A segment that is being written: where the next block goes, and where its room ends."""

    number: int
    position: int
    end: int
