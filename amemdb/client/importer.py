"""Import of a file in the import format: read line by line, send in pipelined batches, account for every line.

The file may be larger than memory: what is held is one batch. Order on the wire is the order of the file, on one
connection and without MULTI, so that a session exists before its turns do and one refusal does not undo its
neighbours. A batch is never sent a second time on its own: after a lost connection nobody knows how much of it
arrived, and turns without ids would double. `Interrupted` says which lines are certain.

Problems are told through a callback as they are found, with the line's number. No printing and no clock in here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

import redis

from amemdb.client.import_format import MARKS, Argv, LineError, parse_line
from amemdb.errors import printable

LINE_BYTES_MAX = 64 * 1024 * 1024
"""A longer line is a bad line: what is read at once must be bounded."""
BATCH_BYTES_MAX = 8 * 1024 * 1024
"""A batch is sent when it holds this much, however few lines that is."""

CUT = "the file was exported and ends here without its last line, so a part of it is missing"

_BOM = b"\xef\xbb\xbf"
_NOT_ABOUT_THE_LINE = ("MISCONF", "READONLY", "OOM", "NOAUTH")
"""Refusals that the next line would meet as well."""

OnProblem = Callable[[int, str], None]
OnProgress = Callable[[int], None]


class Pipeline(Protocol):
    """What is used of a redis-py pipeline."""

    def execute_command(self, *argv: bytes) -> Any:
        """Queue one command."""

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send what is queued; a reply or an exception a command."""


class Interrupted(Exception):
    """The import cannot go on. Lines up to `certain` were answered; the text says why it stopped."""

    def __init__(self, reason: str, certain: int) -> None:
        super().__init__(reason)
        self.certain = certain


@dataclass
class Totals:
    """What became of the lines: `done` counts by kind what the server took."""

    done: Counter[str] = field(default_factory=Counter)
    skipped: int = 0


@dataclass(frozen=True)
class Line:
    """One line of the file. `end` is the position behind it, in bytes; `data` is None when it was too long."""

    number: int
    end: int
    data: bytes | None


def read_lines(stream: BinaryIO) -> Iterator[Line]:
    """The lines that are not blank, numbered from 1, blank ones counted. Only a line feed ends a line."""
    number = end = 0
    while data := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        end += len(data)
        if len(data) > LINE_BYTES_MAX and not data.endswith(b"\n"):
            while not data.endswith(b"\n") and (data := stream.readline(LINE_BYTES_MAX)):
                end += len(data)
            yield Line(number, end, None)
            continue
        if number == 1:
            data = data.removeprefix(_BOM)
        if data and not data.isspace():
            yield Line(number, end, data)


def check_file(stream: BinaryIO, on_problem: OnProblem, on_progress: OnProgress) -> int:
    """Check every line and send nothing; how many are bad."""
    bad = number = 0
    whole = _Whole()
    for line in read_lines(stream):
        number = line.number
        try:
            whole.passed(*_command_of(line))
        except LineError as error:
            whole.lines += 1
            on_problem(number, str(error))
            bad += 1
        on_progress(line.end)
    if whole.is_cut:
        on_problem(number, CUT)
    return bad + whole.is_cut


def import_file(
    stream: BinaryIO, pipeline: Pipeline, batch_lines: int, on_problem: OnProblem, on_progress: OnProgress
) -> Totals:
    """Send the file through `pipeline` (no transaction), at most `batch_lines` at a time; what became of its lines.

    Bad lines and those that the server refuses are told, counted and skipped. `Interrupted` when the server cannot be
    reached any more, or takes nothing at all.
    """
    totals = Totals()
    batch = _Batch(pipeline, totals, on_problem)
    whole = _Whole()
    number = 0
    for line in read_lines(stream):
        number = line.number
        try:
            kind, argv = _command_of(line)
            whole.passed(kind, argv)
        except LineError as error:
            whole.lines += 1
            on_problem(number, str(error))
            totals.skipped += 1
            continue
        if kind in MARKS:
            continue
        batch.add(line.number, kind, argv)
        if len(batch) >= batch_lines or batch.size_bytes >= BATCH_BYTES_MAX:
            batch.send()
            on_progress(line.end)
    batch.send()
    if whole.is_cut:
        on_problem(number, CUT)
        totals.skipped += 1
    return totals


class _Whole:
    """Whether a file that was exported is all there: between `begin` and `end` are as many lines as `end` says."""

    def __init__(self) -> None:
        self.is_cut = False
        """Whether the `end` of a `begin` is still to come."""
        self.lines = 0

    def passed(self, kind: str, argv: Argv) -> None:
        """Count a line; `LineError` for an `end` that does not fit."""
        if kind == "begin":
            self.is_cut, self.lines = True, 0
        elif kind == "end":
            self.is_cut = False
            if int(argv[1]) != self.lines:
                raise LineError(f"lines: {int(argv[1])} were exported, and {self.lines} came before this one")
        else:
            self.lines += 1


class _Batch:
    """Commands on their way, each with the number and kind of its line."""

    def __init__(self, pipeline: Pipeline, totals: Totals, on_problem: OnProblem) -> None:
        self._pipeline = pipeline
        self._totals = totals
        self._on_problem = on_problem
        self._lines: list[tuple[int, str]] = []
        self._certain = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, number: int, kind: str, argv: Argv) -> None:
        """Take one command in."""
        self._pipeline.execute_command(*argv)
        self._lines.append((number, kind))
        self.size_bytes += sum(map(len, argv))

    def send(self) -> None:
        """Send what was taken in and account for every reply."""
        if not self._lines:
            return
        lines, self._lines, self.size_bytes = self._lines, [], 0
        try:
            replies = self._pipeline.execute(raise_on_error=False)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            raise Interrupted(_one_line(error), self._certain) from None
        for (number, kind), reply in zip(lines, replies, strict=True):
            if isinstance(reply, redis.ResponseError):
                self._refused(number, _one_line(reply))
            else:
                self._totals.done[kind] += 1
            self._certain = number

    def _refused(self, number: int, reason: str) -> None:
        if reason.startswith(_NOT_ABOUT_THE_LINE):
            raise Interrupted(f"the server takes nothing now: {reason}", self._certain)
        self._on_problem(number, f"refused by the server: {reason}")
        self._totals.skipped += 1


def _command_of(line: Line) -> tuple[str, Argv]:
    if line.data is None:
        raise LineError(f"longer than {LINE_BYTES_MAX} bytes")
    return parse_line(line.data)


def _one_line(error: redis.RedisError) -> str:
    code = f"{error.status_code} " if error.status_code else ""
    return code + printable(str(error).encode("utf-8", "replace"), 400)
