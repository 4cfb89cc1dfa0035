"""The scan index, both kinds: what every SCAN promises, under change, for any cursor, and at what cost."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import pytest

from amemdb.stores import names as names_module
from amemdb.stores.names import PlainNameIndex

try:
    from amemdb.stores._names import NameIndex as NativeNameIndex
except ImportError:
    KINDS = [PlainNameIndex]
else:
    KINDS = [PlainNameIndex, NativeNameIndex]

NameIndex = PlainNameIndex
LAST_CURSOR = 2**64 - 1
_HASH_OFFSET = bytes.__basicsize__ - 1 - ctypes.sizeof(ctypes.c_ssize_t)


@pytest.fixture(autouse=True, params=KINDS, ids=lambda kind: kind.__module__.rpartition(".")[2])
def kind(request, monkeypatch):
    """Each test runs with every kind of index."""
    monkeypatch.setitem(globals(), "NameIndex", request.param)
    return request.param


def placed(text: bytes, position: int) -> bytes:
    """A name with a hash of our choice, which a bytes object keeps in itself; -1 would say that it has none yet."""
    assert len(text) > 1, "shorter ones are shared by everybody"
    assert position != LAST_CURSOR
    name = bytes(bytearray(text))
    ctypes.c_ssize_t.from_address(id(name) + _HASH_OFFSET).value = position - (position >> 63 << 64)
    assert names_module._position(name) == position
    return name


def index_of(names: list[bytes]) -> NameIndex:
    index = NameIndex()
    for name in names:
        index.add(name)
    return index


def numbered(count: int, prefix: bytes = b"name") -> list[bytes]:
    return [b"%b:%d" % (prefix, number) for number in range(count)]


def pages(index: NameIndex, count: int, between: Callable[[list[bytes]], None] | None = None) -> Iterator[list[bytes]]:
    """The pages of one scan; it must end, and no page may hold more than `count`."""
    cursor = 0
    for _ in range(4 * len(index) + 1000):
        before = cursor
        cursor, page = index.page(cursor, count)
        assert len(page) <= count
        assert 0 <= cursor <= LAST_CURSOR
        assert cursor == 0 or cursor > before
        yield page
        if cursor == 0:
            return
        if between is not None:
            between(page)
    raise AssertionError("the scan does not end")


def scan(index: NameIndex, count: int, between: Callable[[list[bytes]], None] | None = None) -> list[bytes]:
    return [name for page in pages(index, count, between) for name in page]


@pytest.mark.parametrize("size", [0, 1, 2, 11, 12, 13, 24, 25, 100, 1000, 5000])
@pytest.mark.parametrize("count", [1, 2, 10, 1000, 10**6])
def test_a_scan_returns_each_name_once(size, count):
    names = numbered(size)
    assert sorted(scan(index_of(names), count)) == sorted(names)


def test_random_changes_against_a_set():
    rng = Random(1)
    index, model = NameIndex(), set[bytes]()
    for step in range(30_000):
        growing = step // 3000 % 2 == 0
        name = b"%d" % rng.randrange(4000)
        if name in model and rng.random() < (0.3 if growing else 0.9):
            index.discard(name)
            model.remove(name)
        elif name not in model and growing:
            index.add(name)
            model.add(name)
        assert len(index) == len(model)
        if step % 1000 == 999:
            assert sorted(scan(index, rng.choice((1, 7, 100)))) == sorted(model)
            check(index)
    index.clear()
    assert len(index) == 0
    assert scan(index, 10) == []


def check(index: NameIndex) -> None:
    """The structure is what its essay says."""
    if not isinstance(index, PlainNameIndex):
        return
    coarse, fine, split, level = index._coarse, index._fine, index._split, index._level
    assert len(coarse) == 1 << level
    assert len(fine) == 2 * split
    assert 0 <= split <= len(coarse)
    assert all(bucket is names_module._MOVED for bucket in coarse[:split])
    assert names_module._MOVED == []
    for number, bucket in enumerate(coarse[split:], split):
        assert all(names_module._position(name) >> (64 - level) == number for name in bucket)
    for number, bucket in enumerate(fine):
        assert all(names_module._position(name) >> (63 - level) == number for name in bucket)
    buckets = len(fine) + len(coarse) - split
    assert len(index) <= 12 * buckets
    assert buckets == 1 or len(index) >= 3 * buckets - 3


@pytest.mark.parametrize("count", [1, 3, 10, 100])
def test_deleting_what_was_returned_skips_nothing(count):
    names = numbered(3000)
    index = index_of(names)

    def delete(page: list[bytes]) -> None:
        for name in page:
            index.discard(name)

    assert sorted(scan(index, count, delete)) == sorted(names)


@pytest.mark.parametrize("seed", range(8))
def test_names_that_stay_are_returned_exactly_once_whatever_else_happens(seed):
    rng = Random(seed)
    staying, leaving = numbered(500), numbered(rng.choice((0, 500, 4000)), b"leaving")
    index = index_of([*staying, *leaving])
    coming = iter(numbered(100_000, b"coming"))
    count = rng.choice((1, 10, 50))
    coming_a_page = rng.choice((0, count // 2, count))  # much more than COUNT, and a scan goes on for very long

    def change(_: list[bytes]) -> None:
        for _ in range(rng.randrange(coming_a_page + 1)):
            index.add(next(coming))
        for _ in range(min(len(leaving), rng.randrange(60))):
            index.discard(leaving.pop(rng.randrange(len(leaving))))

    found = scan(index, count, change)
    assert sorted(name for name in found if name.startswith(b"name")) == sorted(staying)
    assert len(set(found)) == len(found)


def test_any_cursor_is_taken_and_leads_to_an_end():
    rng = Random(2)
    for size in (0, 1, 100, 3000):
        index = index_of(numbered(size))
        cursors = [0, 1, 2**63 - 1, 2**63, LAST_CURSOR, 999_999_999_999]
        for cursor in cursors + [rng.randrange(2**64) for _ in range(200)]:
            following, page = index.page(cursor, 10)
            assert len(page) <= 10
            assert following == 0 or following > cursor
            assert [names_module._position(name) >= cursor for name in page] == [True] * len(page)


def test_pages_are_full_and_in_one_go_when_count_allows():
    names = numbered(5000)
    index = index_of(names)
    cursor, page = index.page(0, len(names))
    assert (cursor, sorted(page)) == (0, sorted(names))
    sizes = [len(page) for page in pages(index, 10)]
    assert sizes[:-1] == [10] * (len(sizes) - 1)


def test_names_of_one_hash_come_together_and_stop_no_scan():
    names = [placed(b"name:%d" % number, 0 if number < 5 else LAST_CURSOR - 1) for number in range(10)]
    index = index_of(names)
    for cursor_count in (1, 3, 5, 7, 10, 100):
        found, cursor = [], 0
        for _ in range(10):
            cursor, page = index.page(cursor, cursor_count)
            found += page
            if cursor == 0:
                break
        assert sorted(found) == names
    for name in names:
        index.discard(name)
    assert index.page(0, 1) == (0, [])


def test_a_tie_across_the_end_of_a_page_is_left_for_the_next_one():
    names = [placed(b"name:%d" % number, number // 2) for number in range(5)]
    index = index_of(names)
    cursor, page = index.page(0, 3)
    assert sorted(page) == names[:2]
    cursor, page = index.page(cursor, 3)
    assert (cursor, sorted(page)) == (0, names[2:])


def test_a_page_of_empty_buckets_is_cut_short(monkeypatch):
    """Nothing but a hash that gathers all names in one place makes so many buckets empty."""
    index = index_of([placed(b"name:%d" % number, LAST_CURSOR - 1 - number) for number in range(9000)])
    visited = []
    bucket_and_end = PlainNameIndex._bucket_and_end
    monkeypatch.setattr(
        PlainNameIndex, "_bucket_and_end", lambda self, cursor: visited.append(cursor) or bucket_and_end(self, cursor)
    )
    cursor, page = index.page(0, 10)
    assert page == []
    assert cursor == (238 + 36) << 55  # 2 * 238 halves of split buckets, and 36 whole ones: 512
    assert len(visited) == (512 if isinstance(index, PlainNameIndex) else 0)
    while not page:
        cursor, page = index.page(cursor, 10)
    assert len(page) == 10


def test_growing_and_shrinking_move_one_bucket_at_a_time(monkeypatch):
    """Counted by the hashes that are looked at while a bucket is split; a table may not be filled with new buckets.

    Of the reference alone; that the other one does the same, pages and cursors tell.
    """
    looked_at = 0
    position = names_module._position

    def counted(name: bytes) -> int:
        nonlocal looked_at
        looked_at += 1
        return position(name)

    monkeypatch.setattr(names_module, "_position", counted)
    index = PlainNameIndex()
    for name in numbered(8_000):
        looked_at = 0
        index.add(name)
        assert looked_at < 150
    for name in numbered(8_000):
        looked_at = 0
        index.discard(name)
        assert looked_at < 150
        moved = index._coarse[: index._split]
        assert {id(bucket) for bucket in moved} <= {id(names_module._MOVED)}, "a whole table of buckets was made"
    assert len(index._coarse) == 1
    check(index)


@pytest.mark.parametrize("size", [0, 1, 5, 40, 1000])
def test_from_a_position_each_name_comes_once(size):
    rng = Random(3)
    names = numbered(size)
    index = index_of(names)
    in_order = sorted(names_module._position(name) for name in names)
    for cursor in [0, 1, LAST_CURSOR, *in_order[:5], *(rng.randrange(2**64) for _ in range(30))]:
        found = list(index.from_position(cursor))
        assert sorted(found) == sorted(names)
        positions = [names_module._position(name) for name in found]
        falls = sum(after < before for before, after in pairwise(positions))
        assert falls <= 1
        if positions and max(positions) >= cursor:
            assert positions[0] >= cursor


def test_names_are_any_bytes():
    names = [b"", b"\x00", b"\xff" * 1024, bytes(range(256)), b"a\r\nb", "e\u0301".encode(), "\u00e9".encode()]
    index = index_of(names)
    assert sorted(scan(index, 2)) == sorted(names)
    for name in names:
        index.discard(name)
    assert len(index) == 0


def test_discarding_what_is_not_there_is_a_bug_of_ours():
    index = index_of([b"a"])
    with pytest.raises(ValueError):
        index.discard(b"b")
    assert len(index) == 1


@pytest.mark.parametrize("seed", range(4))
def test_both_kinds_give_the_same_pages_and_cursors(seed):
    rng = Random(seed)
    indexes = [kind() for kind in KINDS]
    held: list[bytes] = []
    names = iter(numbered(100_000))
    count_max = rng.choice((5, 300, 6000))
    for step in range(12_000):
        growing = step // 3000 % 2 == 0
        if rng.random() < (0.9 if growing else 0.2) and len(held) < count_max:
            held.append(next(names))
            for index in indexes:
                index.add(held[-1])
        elif held:
            at = rng.randrange(len(held))
            held[at], held[-1] = held[-1], held[at]
            name = held.pop()
            if rng.random() < 0.5:
                name = bytes(bytearray(name))  # the name that is sent is another object than the one that was kept
            for index in indexes:
                index.discard(name)
        if step % 100 == 0:
            cursor, count = rng.choice((0, LAST_CURSOR, rng.randrange(2**64))), rng.choice((1, 10, 10**6))
            assert len({len(index) for index in indexes}) == 1
            pages = [index.page(cursor, count) for index in indexes]
            walks = [list(index.from_position(cursor)) for index in indexes]
            assert pages[:-1] == pages[1:]
            assert walks[:-1] == walks[1:]


def references(names: list[bytes]) -> list[int]:
    return [sys.getrefcount(name) for name in names]


def test_an_index_out_of_use_is_freed_bit_by_bit():
    names = numbered(5000)
    before = references(names)
    index = index_of(names)
    freed = [index.free_some(300)]
    while freed[-1] >= 300:
        freed.append(index.free_some(300))
    assert sum(freed) == 5000
    assert max(freed) < 400
    assert len(index) == 0
    assert references(names) == before


def test_names_are_let_go_of_with_the_index():
    names = numbered(1000)
    before = references(names)
    index = index_of(names)
    for third in range(0, len(names), 3):
        index.discard(names[third])
    index.clear()
    assert references(names) == before
    assert len(index) == 0
    index = index_of(names)
    assert sorted(scan(index, 10)) == sorted(names)
    del index
    assert references(names) == before
