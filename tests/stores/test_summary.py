"""The summaries' store by its records: text, history, shared buffers, and dumps that rebuild it."""

from __future__ import annotations

from random import Random

import pytest

from amemdb.limits import SUMMARY_HISTORY_MAX
from amemdb.stores import records
from amemdb.stores.graveyard import Graveyard
from amemdb.stores.records import Record
from amemdb.stores.summary import SummaryStore

AGENT = b"a"


class Held:
    """A store fed with records, and the texts that it should hold."""

    def __init__(self) -> None:
        self.store = SummaryStore(Graveyard())
        self.expected: list[tuple[int, int, bytes]] = []

    def apply(self, *changes: Record) -> None:
        appliers = {
            records.SUMMARY_SET: self.store.apply_set,
            records.SUMMARY_APPENDED: self.store.apply_appended,
            records.SUMMARY_DROPPED: self.store.apply_dropped,
        }
        for change in changes:
            appliers[change[0]](change)

    def set(self, text: bytes) -> None:
        number = self.expected[-1][0] + 1 if self.expected else 1
        self.apply((records.SUMMARY_SET, AGENT, text, number, 1000 * number))
        self.expected = [*self.expected, (number, 1000 * number, text)][-SUMMARY_HISTORY_MAX:]

    def append(self, line: bytes) -> None:
        number = self.expected[-1][0] + 1 if self.expected else 1
        before = self.expected[-1][2] if self.expected else b""
        self.apply((records.SUMMARY_APPENDED, AGENT, line, number, 1000 * number))
        text = before + b"\n" + line if before else line
        self.expected = [*self.expected, (number, 1000 * number, text)][-SUMMARY_HISTORY_MAX:]

    def history(self) -> list[tuple[int, int, bytes]]:
        return [(v.number, v.updated_at_ms, v.text) for v in self.store.summaries[AGENT].versions]

    def dump(self) -> list[Record]:
        return [record for agent in self.store.summaries for record in self.store.dump(agent, 0)]


def rebuilt(held: Held) -> Held:
    again = Held()
    again.apply(*held.dump())
    again.expected = list(held.expected)
    return again


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([b"one"], b"one"),
        ([b"one", b"two", b"three"], b"one\ntwo\nthree"),
        ([b""], b""),
        ([b"", b"", b"one"], b"one"),
        ([b"one", b"", b"two"], b"one\n\ntwo"),
        ([b"\x00\xff", b"\r\n"], b"\x00\xff\n\r\n"),
    ],
)
def test_lines_are_joined_with_one_newline_and_an_empty_text_with_none(
    held: Held, lines: list[bytes], text: bytes
) -> None:
    for line in lines:
        held.append(line)
    assert held.store.current(AGENT) is not None
    assert held.history()[-1] == (len(lines), 1000 * len(lines), text)


def test_versions_before_an_append_keep_their_text(held: Held) -> None:
    held.set(b"base")
    held.append(b"a")
    held.append(b"b")
    assert held.history() == [(1, 1000, b"base"), (2, 2000, b"base\na"), (3, 3000, b"base\na\nb")]


def test_a_set_leaves_the_versions_before_it_alone(held: Held) -> None:
    held.append(b"a")
    held.set(b"new")
    held.append(b"b")
    assert [text for _, _, text in held.history()] == [b"a", b"new", b"new\nb"]


def test_history_is_bounded_and_keeps_the_newest(held: Held) -> None:
    for number in range(3 * SUMMARY_HISTORY_MAX):
        held.append(b"%d" % number)
    assert len(held.history()) == SUMMARY_HISTORY_MAX
    assert held.history() == held.expected


def test_a_text_read_before_an_append_does_not_change_with_it(held: Held) -> None:
    held.set(b"base")
    before = held.store.current(AGENT)
    assert before is not None
    text = before.text
    held.append(b"a")
    assert (text, before.text) == (b"base", b"base")


def test_appending_costs_the_line_and_not_the_text(held: Held) -> None:
    """All versions that grew from one text share one buffer, before and after a dump."""
    held.set(b"x" * 100_000)
    for _ in range(SUMMARY_HISTORY_MAX - 1):
        held.append(b"a line")
    for store in (held.store, rebuilt(held).store):
        assert len({id(version.buffer) for version in store.summaries[AGENT].versions}) == 1
    written = sum(len(record[2]) for record in held.dump())
    assert written == 100_000 + (SUMMARY_HISTORY_MAX - 1) * len(b"a line")


def test_a_dump_tells_the_same_of_equal_texts_however_they_came_about(held: Held) -> None:
    other = Held()
    for text in (b"", b"a", b"a\nb", b"a\nb\n"):
        other.set(text)
    held.set(b"")
    held.append(b"a")
    held.append(b"b")
    held.append(b"")
    assert held.dump() == other.dump() == rebuilt(other).dump()


@pytest.mark.parametrize("seed", range(30))
def test_rebuilt_summaries_are_the_same_and_go_on_the_same(seed: int) -> None:
    rng = Random(seed)
    held = Held()
    texts = [b"", b"a", b"\n", b"a\n", b"a\nb", b"a\nb\nc", bytes(range(256))]
    for _ in range(rng.randrange(1, 60)):
        text = rng.choice(texts)
        if rng.random() < 0.4:
            held.set(text)
        else:
            held.append(text)
    again = rebuilt(held)
    assert again.history() == held.history() == held.expected
    assert again.dump() == held.dump()
    for text in texts:
        held.append(text)
        again.append(text)
    assert again.history() == held.history() == held.expected


def test_a_drop_ends_text_and_history_and_the_next_begins_at_one(held: Held) -> None:
    held.set(b"one")
    held.append(b"two")
    held.apply((records.SUMMARY_DROPPED, AGENT))
    assert held.store.current(AGENT) is None
    assert len(held.store.names) == 0
    held.expected = []
    held.append(b"three")
    assert held.history() == [(1, 1000, b"three")]


def test_agents_do_not_share_texts(held: Held) -> None:
    held.set(b"mine")
    held.apply((records.SUMMARY_SET, b"b", b"theirs", 1, 5), (records.SUMMARY_APPENDED, b"b", b"more", 2, 6))
    held.apply((records.SUMMARY_DROPPED, b"b"))
    assert held.history() == [(1, 1000, b"mine")]
    held.store.clear()
    assert held.dump() == []
    assert len(held.store.names) == 0
