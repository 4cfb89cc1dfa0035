"""Summaries: one rolling text per agent, with a version that counts its changes and the versions before.

The versions of a text that only grew share one buffer: a version is the length that the text had. So an append
costs its line, not the text, and the history of a text built line by line costs no more than the text. A text that
was set begins a buffer of its own.

Lines are joined with a newline. An empty text has no line that a newline could end, so the first line after it, or
after no text at all, stands alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amemdb.limits import SUMMARY_HISTORY_MAX
from amemdb.stores import memory, records
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.names import NameIndex
from amemdb.stores.records import Record


@dataclass(slots=True)
class Version:
    """One version of a text: the first `length` bytes of a buffer that may have grown since."""

    number: int
    updated_at_ms: int
    buffer: bytearray
    length: int

    @property
    def text(self) -> bytes:
        """A copy of the text."""
        if self.length == len(self.buffer):
            return bytes(self.buffer)
        with memoryview(self.buffer) as view, view[: self.length] as text:
            return bytes(text)


class Summary:
    """One agent's text: the kept versions, oldest first; the last is the current one."""

    __slots__ = ("_buffers_bytes", "versions")

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self._buffers_bytes = 0
        """Of all buffers but the current one."""

    def __len__(self) -> int:
        """How many versions there are."""
        return len(self.versions)

    def memory_bytes(self) -> int:
        """Bytes of memory that the versions take, about. O(1)."""
        current_bytes = _buffer_bytes(self.current.buffer) if self.versions else 0
        return _OBJECT_BYTES + len(self.versions) * _VERSION_BYTES + self._buffers_bytes + current_bytes

    def walked_bytes(self) -> int:
        """The same, counted anew."""
        buffers = {id(version.buffer): version.buffer for version in self.versions}
        return _OBJECT_BYTES + len(self.versions) * _VERSION_BYTES + sum(map(_buffer_bytes, buffers.values()))

    def free_some(self, count: int) -> int:
        """Free about `count` versions of a summary that is out of use; how many they were."""
        freed = min(count, len(self.versions))
        del self.versions[len(self.versions) - freed :]
        return freed

    @property
    def current(self) -> Version:
        """The newest version."""
        return self.versions[-1]

    def add(self, version: Version) -> None:
        """Make `version` the current one, and let the oldest go beyond the history's bound."""
        versions = self.versions
        if versions and versions[-1].buffer is not version.buffer:
            self._buffers_bytes += _buffer_bytes(versions[-1].buffer)
        versions.append(version)
        if len(versions) > SUMMARY_HISTORY_MAX:
            if versions[0].buffer is not versions[1].buffer:  # a buffer is that of versions in a row
                self._buffers_bytes -= _buffer_bytes(versions[0].buffer)
            del versions[0]


_OBJECT_BYTES = Summary.__basicsize__ + 16 + 80
_VERSION_BYTES = memory.small(Version.__basicsize__ + 16) + 2 * memory.NUMBER_BYTES + 9
"""A version, its time and its length, and its place in the list; its number is small."""


def _buffer_bytes(buffer: bytearray) -> int:
    return memory.BYTEARRAY_BYTES + memory.block(memory.table(buffer) - bytearray.__basicsize__)


def held_bytes(agent: bytes, summary: Summary) -> int:
    """Bytes of memory that a summary of the store takes, the agent's name included."""
    return summary.memory_bytes() + memory.text(len(agent))


class SummaryStore:
    """All summaries by agent."""

    def __init__(self, graveyard: Graveyard) -> None:
        self.summaries: dict[bytes, Summary] = {}
        self.names = NameIndex()
        self._graveyard = graveyard
        self._ledger = graveyard.ledger

    def current(self, agent: bytes) -> Version | None:
        """The agent's newest version, or None."""
        summary = self.summaries.get(agent)
        return None if summary is None else summary.current

    # -- changes ---------------------------------------------------------------------------------

    def apply_set(self, record: Record) -> None:
        """SUMMARY_SET."""
        _, agent, text, number, updated_at_ms = record
        summary = self._summary(agent)
        before_bytes = summary.memory_bytes()
        summary.add(Version(number, updated_at_ms, bytearray(text), len(text)))
        self._ledger.summary += summary.memory_bytes() - before_bytes

    def apply_appended(self, record: Record) -> None:
        """SUMMARY_APPENDED, which also begins a text."""
        _, agent, line, number, updated_at_ms = record
        summary = self._summary(agent)
        before_bytes = summary.memory_bytes()
        buffer = summary.current.buffer if summary.versions else bytearray()
        if buffer:
            buffer += b"\n"
        buffer += line
        summary.add(Version(number, updated_at_ms, buffer, len(buffer)))
        self._ledger.summary += summary.memory_bytes() - before_bytes

    def apply_dropped(self, record: Record) -> None:
        """SUMMARY_DROPPED."""
        agent = record[1]
        summary = self.summaries.pop(agent)
        self.names.discard(agent)
        count_bytes = held_bytes(agent, summary)
        self._ledger.summary -= count_bytes
        self._graveyard.bury(summary, count_bytes)

    def clear(self) -> None:
        """Forget every summary."""
        self._graveyard.bury(self.summaries, self._ledger.summary + memory.table(self.summaries))
        self._graveyard.bury(self.names, self.names.memory_bytes())
        self._ledger.summary = 0
        self.summaries = {}
        self.names = NameIndex()

    def _summary(self, agent: bytes) -> Summary:
        summary = self.summaries.get(agent)
        if summary is None:
            summary = self.summaries[agent] = Summary()
            self.names.add(agent)
            self._ledger.summary += held_bytes(agent, summary)
        return summary

    # -- whole state -----------------------------------------------------------------------------

    def dump(self, agent: bytes, now_ms: int) -> Iterator[Record]:
        """The records that rebuild the agent's text and its history; nothing of it expires.

        A version that is the one before it and a line more is written as that line, whichever way it came about:
        otherwise a long text would be written as often as it has versions, and come back without a shared buffer.
        """
        before: Version | None = None
        for version in self.summaries[agent].versions:
            line = None if before is None else _line_added(before, version)
            if line is None:
                yield (records.SUMMARY_SET, agent, version.text, version.number, version.updated_at_ms)
            else:
                yield (records.SUMMARY_APPENDED, agent, line, version.number, version.updated_at_ms)
            before = version


def _line_added(before: Version, version: Version) -> bytes | None:
    """What appending to `before` would make `version`, or None if nothing would."""
    if before.length == 0:
        return version.text
    begin = before.length + 1
    if version.length < begin or version.buffer[before.length] != _NEWLINE:
        return None
    if version.buffer is not before.buffer and not version.buffer.startswith(before.text):
        return None
    return bytes(version.buffer[begin : version.length])


_NEWLINE = ord("\n")
