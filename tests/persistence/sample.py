"""A small log with everything in it, and the truth about each byte: what tests of reading cut, spoil and compare.

The frames come from a whole engine, one for each command of `LIFE`, and hold every kind of record; what the engine
held after each of them is noted by digest. The files are laid out by hand, so that each block's place and what its
header vouches for are known: three segments, blocks of one to four frames, room behind the last one. The first segment
goes on after the second one begins, as it does when segments follow each other without a stop: that part is void.
`based` has a base of several blocks in place of the first two.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgpack

from amemdb.persistence import manifest as manifests
from amemdb.persistence import opening
from amemdb.persistence.codec import (
    BLOCK_HEADER_BYTES,
    KNOWN_KINDS,
    SEGMENT_HEADER_BYTES,
    pack_block_header,
    pack_segment_header,
)
from amemdb.persistence.compaction import Compacted, Progress, Task, compact
from amemdb.persistence.manifest import Manifest, Segment
from amemdb.persistence.recovery import RecoveryReport, recover
from amemdb.stores.stores import Stores
from tests.persistence.simulated import SimulatedDisk
from tests.rig import START_MS, Rig, records_of

LOG_ID = b"0123456789abcdef"
ROOM_BYTES = 150

LIFE = """
SET before x
AMEM.CONV.CREATE s WINDOW 3
FLUSHALL
AMEM.CONV.CREATE s WINDOW 4 TTL 3600
AMEM.CONV.APPEND s user hello ID i1 META {"a":1}
AMEM.CONV.APPEND s assistant hi
AMEM.CONV.EXPIRE s PERSIST
AMEM.WORK.SET s step one TTL 60
AMEM.WORK.SET s other two
AMEM.WORK.DEL s other
SET k v
APPEND k vv
SETRANGE k 5 end
PEXPIREAT k {hour}
SET short x PX 500
AMEM.WORK.SET s short x PXAT {second}
AMEM.SEM.CREATE a 2
AMEM.SEM.STORE a fact text 1 0 SOURCE mail META {"b":2}
AMEM.SEM.STORE a brief text 0 1 PXAT {second}
+2000
AMEM.SEM.STORE a other text 1 1
AMEM.SEM.FORGET a other
MULTI
AMEM.EPIS.LOG a seen first METADATA m ID e1
AMEM.EPIS.LOG a seen second
INCR n
AMEM.SUMMARY.SET a so-far
EXEC
AMEM.EPIS.RETAIN a MAXLEN 2
AMEM.EPIS.LOG a seen third
AMEM.SUMMARY.APPEND a so-good
SELECT 3
SET elsewhere x
FLUSHDB
SET elsewhere y
SELECT 0
AMEM.WORK.SET s late x
AMEM.WORK.CLEAR s
AMEM.CONV.CLEAR s
AMEM.CONV.APPEND s user again
RENAME k k2
MULTI
INCR n
AMEM.CONV.CREATE gone
AMEM.CONV.APPEND gone user x
AMEM.CONV.DROP gone
EXEC
AMEM.EPIS.CLEAR a
AMEM.EPIS.LOG a seen fourth
AMEM.SEM.CREATE b 2
AMEM.SEM.STORE b key text 1 0 MODEL some
AMEM.SEM.DROP b
AMEM.SEM.CREATE c 2 MAXFACTS 2
AMEM.SEM.STORE c one text 1 0
AMEM.SEM.STORE c two text 0 1
AMEM.SEM.RECALL c 1 1 0
AMEM.SEM.STORE c three text 1 1
AMEM.SUMMARY.SET b x
AMEM.SUMMARY.DROP b
AMEM.SUMMARY.APPEND a more
DEL k2
INCR n
AMEM.CONV.APPEND s tool last
"""
"""Commands of one connection; `+n` lets milliseconds pass and removes what is due."""


@dataclass(frozen=True)
class Place:
    """One block: where it lies, what it holds, what its header vouches for."""

    name: str
    position: int
    offset: int
    length: int
    durable: int

    @property
    def end(self) -> int:
        """Where the next block may begin."""
        return self.position + BLOCK_HEADER_BYTES + self.length

    @property
    def end_offset(self) -> int:
        """The offset behind its last frame."""
        return self.offset + self.length


@dataclass
class Sample:
    """The files of one log, and what is known of them."""

    files: dict[str, bytes]
    manifest: Manifest
    places: list[Place]
    """Every block of every segment, void ones as well, in order of file and position."""
    durables: dict[str, int]
    """What the header of each segment vouches for."""
    frames: list[bytes]
    states: dict[int, str] = field(default_factory=dict)
    """The digest of all that is held at each offset where a frame ends."""

    @property
    def offset(self) -> int:
        """Where the log ends."""
        return sum(map(len, self.frames))

    @property
    def last_name(self) -> str:
        """The file that would be written next."""
        return self.manifest.segments[-1].name

    def disk(self) -> SimulatedDisk:
        """A disk of its own with these files."""
        return disk_of(self.files)

    def counted_end(self, name: str) -> int:
        """Where the blocks of a file end that are part of the log; behind them a file is void, or holds zeros."""
        index = next(i for i, segment in enumerate(self.manifest.segments) if segment.name == name)
        later = self.manifest.segments[index + 1 :]
        ends = [
            place.end for place in self.places if place.name == name and (not later or place.offset < later[0].start)
        ]
        return max(ends, default=SEGMENT_HEADER_BYTES)

    def as_it_was(self, count: int) -> Sample:
        """The same log when only its first `count` segments were there."""
        manifest = replace(self.manifest, segments=self.manifest.segments[:count])
        names = set(manifest.names)
        files = {name: data for name, data in self.files.items() if name in names}
        files[manifests.NAME] = manifests.pack(manifest)
        places = [place for place in self.places if place.name in names]
        return Sample(files, manifest, places, self.durables, self.frames, self.states)


def live(lines: str = LIFE) -> tuple[list[bytes], dict[int, str], Rig]:
    """The frames that these commands make, what was held at the end of each, and the engine that did it."""
    rig = Rig()
    states = {0: rig.digest()}
    for line in filter(None, lines.splitlines()):
        if line.startswith("+"):
            rig.advance_ms(int(line))
            rig.tick()
        else:
            rig(*line.replace("{hour}", str(START_MS + 3_600_000)).replace("{second}", str(START_MS + 1000)).split())
        states[rig.log.offset] = rig.digest()
    frames = rig.log.frames
    assert {record[0] for frame in frames for record in records_of(frame)} == KNOWN_KINDS
    return frames, _at_frame_ends(frames, states), rig


def _at_frame_ends(frames: list[bytes], known: dict[int, str]) -> dict[int, str]:
    """A tick makes several frames at once: what was held between them is taken from a replay."""
    stores, offset, states = Stores(), 0, {0: known[0]}
    for frame in frames:
        offset += len(frame)
        apply(stores, frame)
        states[offset] = known.get(offset) or stores.digest(0)
    assert known.keys() <= states.keys()
    return states


def apply(stores: Stores, frame: bytes) -> None:
    """Make the changes of one frame."""
    _, *changes = msgpack.unpackb(frame, use_list=False)
    stores.apply_all(changes)


def sample(*, closed: bool, seed: int = 1) -> Sample:
    """`closed`: with a closing header at the end, as after a second of silence; else the log is in the middle of work,
    and no header vouches for its last blocks."""
    frames, states, _ = live()
    random = Random(seed)
    payloads = list(_payloads(frames, random))
    first, second = len(payloads) // 3, 2 * len(payloads) // 3
    ends = [0]
    for payload in payloads:
        ends.append(ends[-1] + len(payload))
    layout = [(0, first + 1), (first, second), (second, len(payloads))]  # the first one goes on for a block
    segments = tuple(Segment(2 * index + 1, ends[begin]) for index, (begin, _) in enumerate(layout))
    manifest = Manifest(LOG_ID, segments, 6)
    files = {manifests.NAME: manifests.pack(manifest)}
    places: list[Place] = []
    durables: dict[str, int] = {}
    for segment, (begin, end) in zip(segments, layout, strict=True):
        data = bytearray(pack_segment_header(LOG_ID, segment.number, segment.start, segment.start))
        durables[segment.name] = segment.start
        blocks = [(ends[index], payloads[index], ends[max(begin, index - 2)]) for index in range(begin, end)]
        if closed and segment is segments[-1]:
            blocks.append((ends[-1], b"", ends[-1]))
        for offset, payload, durable in blocks:
            places.append(Place(segment.name, len(data), offset, len(payload), durable))
            data += pack_block_header(LOG_ID, segment.number, len(data), offset, durable, payload) + payload
        if segment is not segments[0]:
            data += bytes(ROOM_BYTES)
        files[segment.name] = bytes(data)
    return Sample(files, manifest, places, durables, frames, states)


def based(whole: Sample) -> Sample:
    """The same log after all segments but the last one were compacted."""
    *closed, last = whole.manifest.segments
    disk, number = whole.disk(), whole.manifest.next_number
    base = _made(compact(disk, Task(LOG_ID, None, tuple(closed), last.start, number, 1 << 30, parts=4))).base
    manifest = Manifest(LOG_ID, (last,), number + 1, base)
    files = {
        manifests.NAME: manifests.pack(manifest),
        base.name: bytes(disk.file(base.name)),
        last.name: whole.files[last.name],
    }
    places = [place for place in whole.places if place.name == last.name]
    durables = {last.name: whole.durables[last.name]}
    return Sample(files, manifest, places, durables, whole.frames, whole.states)


def _made(work: Generator[Progress, None, Compacted]) -> Compacted:
    while True:
        try:
            next(work)
        except StopIteration as end:
            made: Compacted = end.value
            return made


def _payloads(frames: list[bytes], random: Random) -> Iterator[bytes]:
    index = 0
    while index < len(frames):
        count = random.randint(1, 4)
        yield b"".join(frames[index : index + count])
        index += count


def disk_of(files: dict[str, bytes]) -> SimulatedDisk:
    """A disk with these files, all of it synced."""
    disk = SimulatedDisk(Random(1))
    for name, data in files.items():
        file = disk.create(name)
        file.write_at(0, data)
        file.sync()
    disk.sync_folder()
    return disk


def content(disk: SimulatedDisk) -> dict[str, bytes]:
    """All files of a disk."""
    return {name: bytes(disk.file(name)) for name in disk.names()}


def load(disk: Any) -> tuple[Stores, RecoveryReport]:
    """What a server would hold after reading this disk, and the report."""
    manifest = opening.read(disk)
    assert manifest is not None
    stores = Stores()
    return stores, recover(disk, manifest, stores.apply)
