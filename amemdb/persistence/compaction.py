"""Compaction: from a base and closed segments to a new base, in bounded memory and without a clock.

It replays what it is given into fresh stores and writes their state to the new base (`amemdb.persistence.base`), by
parts of the name space (`amemdb.persistence.parts`), one part after the other, each with a reading of all files. One
part is the common case.

How much memory it takes: a part whose stores have more than `memory_bytes`, its largest object left out, is given up
and divided in two. So what the stores have stays below `memory_bytes` and the largest object together, but for what
one block adds, since it is looked at between blocks. Besides, there are one block as it is read or written, and the
largest object once more as records while it is written.

It creates the file of the new base and changes no other. If it fails or is given up, what there is of that file is of
no use, and is for the server to remove, or for the next start: it might bear the name of another's by now. Damage
in what is read is corruption, wherever it is: closed segments have no torn tail.

`compact` is a generator that does some of the work each time it is asked: a block read or written. That makes it a
process (`amemdb.persistence.compactor`), and lets a simulator stop it anywhere. When it runs, and what becomes of
the new base, is the server's affair (`amemdb.server.compaction`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from operator import methodcaller
from typing import Any

from amemdb.errors import StorageError
from amemdb.persistence.base import BaseWriter
from amemdb.persistence.codec import LOG_ID_BYTES
from amemdb.persistence.disk import Disk, File
from amemdb.persistence.manifest import Base, Manifest, Segment, base_name
from amemdb.persistence.parts import halves, only_part
from amemdb.persistence.recovery import Replay
from amemdb.stores.conversation import Conversation
from amemdb.stores.keyspace import value_bytes
from amemdb.stores.records import ALL_FLUSHED, Record
from amemdb.stores.stores import Stores

PARTS_MAX = 1 << 20
"""A part of so many is not divided further, whatever it has."""
_FREED_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be compacted: `base` and the closed `segments`, in order, up to offset `end`.

    `number` is that of the new base, which nothing had before. `memory_bytes` is how much memory the stores of a part
    may take, `parts` a first guess of how many parts that makes.
    """

    log_id: bytes
    base: Base | None
    segments: tuple[Segment, ...]
    end: int
    number: int
    memory_bytes: int
    parts: int = 1

    def to_json(self) -> str:
        """One line that `from_json` reads."""
        return json.dumps(asdict(self) | {"log_id": self.log_id.hex()})

    @classmethod
    def from_json(cls, line: str | bytes) -> Task:
        """The task in `line`; `ValueError` says what is wrong with it."""
        body = json.loads(line)
        if not isinstance(body, dict):
            raise ValueError("it is not an object")
        try:
            base = None if body["base"] is None else Base(**_naturals(body["base"]))
            segments = tuple(Segment(**_naturals(entry)) for entry in body["segments"])
            log_id = bytes.fromhex(body["log_id"])
            names = ("end", "number", "memory_bytes", "parts")
            task = cls(log_id, base, segments, **_naturals({name: body[name] for name in names}))
        except KeyError as error:
            raise ValueError(f"it has no member {error}") from None
        except TypeError as error:
            raise ValueError(str(error)) from None
        if len(log_id) != LOG_ID_BYTES or not segments or not 0 < task.parts <= PARTS_MAX:
            raise ValueError("its log id, segments or parts make no sense")
        return task


def _naturals(body: dict[str, Any]) -> dict[str, int]:
    for name, value in body.items():
        if type(value) is not int or value < 0:
            raise ValueError(f"its {name} is not a natural number")
    return body


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a compaction is: bytes `read` of so many, all readings together, bytes `written`, and parts done."""

    read: int
    of: int
    written: int
    part: int
    parts: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """What came of it."""

    base: Base
    records: int
    objects: int
    parts: int


def compact(disk: Disk, task: Task) -> Generator[Progress, None, Compacted]:
    """Make the new base of `task`, which is on disk when this returns, and tell how far it is after each block.

    Raises `CorruptLogError` for damage in what is read and `StorageError` when the disk refuses.
    """
    work = _Compaction(disk, task)
    try:
        return (yield from work.run())
    except OSError as error:
        raise StorageError(f"{disk.path(base_name(task.number))} cannot be written: {error.strerror}") from error
    finally:
        work.let_go()


class _Compaction:
    """The state of `compact`."""

    def __init__(self, disk: Disk, task: Task) -> None:
        self._objects = 0
        self._parts_done = 0
        self._disk = disk
        self._task = task
        self._manifest = Manifest(task.log_id, task.segments, task.number + 1, task.base)
        self._todo = [(index, task.parts) for index in reversed(range(task.parts))]
        self._stores = Stores()
        """Of the part under way. Always the same, emptied in between: so nothing waits for the garbage collector."""
        self._limit = _Limit(self._stores, task.memory_bytes)
        self._file: File | None = None
        self._writer: BaseWriter | None = None
        self._read = 0
        self._once = 0
        """Bytes of one reading."""

    def run(self) -> Generator[Progress, None, Compacted]:
        """Make the base."""
        while self._todo:
            index, count = self._todo.pop()
            time_ms = yield from self._replay(index, count)
            if time_ms is None:
                self._todo += halves(index, count)
            else:
                yield from self._write(time_ms)
                self._parts_done += 1
            if self._todo:
                self._stores.apply((ALL_FLUSHED,))
                self._free()
        assert self._writer is not None
        base = self._writer.close()
        self._disk.sync_folder()
        yield self._progress(0)
        return Compacted(base, self._writer.records, self._objects, self._parts_done)

    def _replay(self, index: int, count: int) -> Generator[Progress, None, int | None]:
        """Replay a part; the time at the end, or None if it is too large."""
        apply: Callable[[Record], None] = self._stores.apply
        if count > 1:
            apply = only_part(apply, index, count, self._task.log_id)
        replay = Replay(self._disk, self._manifest, apply, self._task.end)
        with closing(replay.blocks()) as blocks:
            for read in blocks:
                self._once = replay.total_bytes
                self._free()
                yield self._progress(read)
                if count < PARTS_MAX and self._limit.is_exceeded():
                    self._read += read
                    return None
        assert replay.report.offset == self._task.end, "the segments do not reach that far"
        self._read += replay.total_bytes
        return replay.report.last_time_ms

    def _write(self, time_ms: int) -> Iterator[Progress]:
        """Write what the stores hold."""
        task = self._task
        if self._writer is None:
            self._file = self._disk.create(base_name(task.number))
            self._writer = BaseWriter(self._file, task.log_id, task.number, task.end, time_ms)
        self._objects += self._stores.count()
        for _ in self._writer.write(chain.from_iterable(self._stores.dumps(0))):
            yield self._progress(0)

    def _free(self) -> None:
        graveyard = self._stores.graveyard
        while len(graveyard):
            graveyard.free(_FREED_AT_ONCE)

    def _progress(self, read: int) -> Progress:
        return Progress(
            read=self._read + read,
            of=self._read + self._once * (len(self._todo) + bool(read)),
            written=0 if self._writer is None else self._writer.position,
            part=self._parts_done,
            parts=self._parts_done + len(self._todo) + bool(read),
        )

    def let_go(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            with suppress(OSError):  # it was synced, or is of no use
                self._file.close()


# -- memory --------------------------------------------------------------------------------------

_Family = tuple[dict[bytes, Any], Callable[[Any], int]]


def _families(stores: Stores) -> list[_Family]:
    """Everything that can be told apart by name: tables of objects, and how many bytes one of them has."""
    notes = stores.work.sessions

    def session_bytes(conversation: Conversation) -> int:
        own = notes.get(conversation.name)
        return conversation.memory_bytes() + (0 if own is None else own.memory_bytes())

    return [
        (stores.conv.sessions, session_bytes),
        (stores.sem.namespaces, methodcaller("memory_bytes")),
        (stores.epis.logs, methodcaller("memory_bytes")),
        (stores.summary.summaries, methodcaller("memory_bytes")),
        *((database.values, value_bytes) for database in stores.keys.databases),
    ]


class _Limit:
    """Tells when stores have more than so many bytes, beside their largest object."""

    def __init__(self, stores: Stores, limit_bytes: int) -> None:
        """`stores` are empty still."""
        self._stores = stores
        self._limit_bytes = stores.memory_bytes() + limit_bytes
        self._largest: tuple[int, bytes] | None = None
        """Family and name of the object that was the largest when it was last looked for."""

    def is_exceeded(self) -> bool:
        """Whether it is so now. Some microseconds in the common cases; looks at all objects only in between."""
        beyond = self._stores.memory_bytes() - self._limit_bytes
        if beyond <= 0 or beyond <= self._largest_bytes() or self._stores.count() <= 1:
            return False
        largest_bytes, number, name = max(
            (bytes_of(one), number, name)
            for number, (objects, bytes_of) in enumerate(_families(self._stores))
            for name, one in objects.items()
        )
        self._largest = (number, name)
        return beyond > largest_bytes

    def _largest_bytes(self) -> int:
        if self._largest is None:
            return 0
        number, name = self._largest
        objects, bytes_of = _families(self._stores)[number]
        return bytes_of(objects[name]) if name in objects else 0
