"""What the log asks of its writer, one step at a time, and what comes back.

`amemdb.persistence.log` decides and makes steps, `amemdb.persistence.writer` carries them out. A step holds every
position and number that it needs, so the writer decides nothing. Positions are bytes in a file, offsets bytes of
the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from amemdb.persistence.codec import BLOCK_HEADER_BYTES
from amemdb.persistence.manifest import Manifest, Segment


class Block(NamedTuple):
    """Whole frames that are written together; `offset` is that of the first byte."""

    offset: int
    payload: bytes

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.offset + len(self.payload)

    @property
    def file_bytes(self) -> int:
        """What it takes in a file."""
        return BLOCK_HEADER_BYTES + len(self.payload)


@dataclass(frozen=True, slots=True)
class Append:
    """Write `blocks` from `position` of the current segment on, then sync if asked to."""

    position: int
    blocks: tuple[Block, ...]
    durable: int
    sync: bool


@dataclass(frozen=True, slots=True)
class Sync:
    """Sync the current segment, which makes everything before `offset` durable."""

    offset: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Write a closing header at `position`: everything before `offset` is durable."""

    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class Extend:
    """Reserve `count` more bytes behind `end`, the end of what is reserved."""

    end: int
    count: int


@dataclass(frozen=True, slots=True)
class Switch:
    """Make a new segment the current one: header, room, blocks, sync, manifest, in this order.

    `old_end` is where the blocks of a trusted old segment end, so that it can be synced before and its reserved
    rest given back after; None says that there is no old one, or that it is not to be touched again. At least
    `room_min` bytes are reserved behind the blocks, `room_wanted` if the disk has them. Files of `replaced` are
    removed in the end.
    """

    segment: Segment
    durable: int
    blocks: tuple[Block, ...]
    room_min: int
    room_wanted: int
    manifest: Manifest
    old_end: int | None
    replaced: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """The last step of a clean stop: blocks, sync, closing header, the reserved rest given back, sync."""

    append: Append
    offset: int


Step = Append | Sync | Mark | Extend | Switch | Close

Stage = Literal["", "write", "sync", "prepare", "commit", "finish"]


@dataclass(slots=True)
class Done:
    """How a step went.

    `error` is None on success; otherwise `stage` says what failed: a `write` or `sync` of the current segment, or
    making a new one, before (`prepare`) or after (`commit`) the moment from which the new manifest may be in force,
    or what a Close does once the data is safe (`finish`). `position` and `end` are where the blocks and the room of
    a new segment end (Switch), `end` alone also of an Extend.
    """

    step: Step
    error: OSError | None = None
    stage: Stage = ""
    position: int = 0
    end: int = 0
