"""What the log asks of its writer, one step at a time, and what comes back.

`amemdb.persistence.log` decides and makes steps, `amemdb.persistence.writer` carries them out. A step holds every
position and number that it needs, so the writer decides nothing. Positions are bytes in a file, offsets bytes of
the stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from amemdb.persistence.codec import BLOCK_BYTES_SOFT, BLOCK_HEADER_BYTES
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


def blocks_of(offset: int, units: list[bytes]) -> tuple[Block, ...]:
    """`units`, the first at `offset`, as blocks; a unit is not divided between two."""
    if len(units) == 1 or sum(map(len, units)) <= BLOCK_BYTES_SOFT:
        return (Block(offset, b"".join(units)),) if units else ()
    blocks: list[Block] = []
    for group in _groups(units):
        blocks.append(Block(offset, group[0] if len(group) == 1 else b"".join(group)))
        offset = blocks[-1].end
    return tuple(blocks)


def _groups(frames: Iterable[bytes]) -> list[list[bytes]]:
    """`frames` in order, cut into lists of about a block each."""
    groups: list[list[bytes]] = [[]]
    size = 0
    for frame in frames:
        if size and size + len(frame) > BLOCK_BYTES_SOFT:
            groups.append([])
            size = 0
        groups[-1].append(frame)
        size += len(frame)
    return groups


class Point(NamedTuple):
    """A place in the file of segment `number`."""

    number: int
    position: int


class Append(NamedTuple):
    """Write `blocks` from `at` on, and from `copy` on if there is one, then sync what was written if asked to."""

    at: Point
    blocks: tuple[Block, ...]
    durable: int
    sync: bool
    copy: Point | None = None


@dataclass(frozen=True, slots=True)
class Sync:
    """Sync segment `number`, which makes everything before `offset` durable."""

    number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Write a closing header at `at`: everything before `offset` is durable."""

    at: Point
    offset: int


@dataclass(frozen=True, slots=True)
class Extend:
    """Reserve `count` more bytes of segment `number` behind `end`, the end of what is reserved.

    With `filled` the zeros are written and synced: a sync of a block that comes to lie there has no room to book then.
    """

    number: int
    end: int
    count: int
    filled: bool


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make the file of the next segment: nothing but room, on disk. `manifest` says that its number is taken."""

    number: int
    room_wanted: int
    room_min: int
    filled: bool
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class TurnOver:
    """Have `segment`, which was prepared, take over from segment `old` at its start.

    Appends go on beside it, to both files. Sync the old one, whose blocks count up to `old`; write the header of the
    new one and sync it; put `manifest` in force.
    """

    old: Point
    segment: Segment
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Retire:
    """Let go of the file of segment `number`: cut it off at `end`, or remove it where that is None."""

    number: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Rebase:
    """Put `manifest` in force, whose base is new, then remove the files `replaced`, which it stands for.

    `replaced` may name files that are gone already.
    """

    manifest: Manifest
    replaced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Switch:
    """Make a new segment the only one that is written: header, room, blocks, sync, manifest, in this order.

    At least `room_min` bytes are reserved behind the blocks, `room_wanted` if the disk has them. The files of the
    numbers `unused`, which no manifest can name, are removed first, those of `replaced` in the end.
    """

    segment: Segment
    durable: int
    blocks: tuple[Block, ...]
    room_min: int
    room_wanted: int
    manifest: Manifest
    replaced: tuple[Segment, ...]
    unused: tuple[int, ...] = ()
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Close:
    """The last step of a clean stop: blocks, sync, closing header, the reserved rest given back, sync.

    The file of segment `unused` is removed.
    """

    append: Append
    offset: int
    unused: int | None = None


Step = Append | Sync | Mark | Extend | Prepare | TurnOver | Retire | Rebase | Switch | Close
Beside = Sync | Extend | Prepare | TurnOver | Retire | Rebase
"""Those beside which an Append may run: they leave alone what it writes."""
ELSEWHERE = (Prepare, Retire, Rebase)
"""Those of them that are at a file which nobody writes."""

Stage = Literal["", "write", "sync", "prepare", "commit", "finish"]


@dataclass(slots=True)
class Done:
    """How a step went.

    `error` is None on success; otherwise `stage` says what failed: a `write` or `sync` of the current segment, or
    making a new file or manifest, before (`prepare`) or after (`commit`) the moment from which the new manifest may be
    in force, or what a Close does once the data is safe (`finish`). `position` and `end` are where the blocks and the
    room of a new segment end (Switch), `end` alone also of a Prepare and an Extend; of a Rebase, `end` is what the
    files took that were removed.
    """

    step: Step
    error: OSError | None = None
    stage: Stage = ""
    position: int = 0
    end: int = 0
