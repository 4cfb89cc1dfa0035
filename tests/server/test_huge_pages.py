"""Large pages for large graphs: what is asked for, and that the system takes it so."""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path

import pytest

from amemdb.server import huge_pages
from amemdb.server.huge_pages import PAGE_BYTES, advise, for_what_comes, mapped, without

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what is mapped")
HAS_THEM = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="the system has no large pages"
)


def flags_of(place: int) -> list[str]:
    """What the system notes of the memory there."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if "-" in name and not name.endswith(":"):
            begin, _, end = name.partition("-")
            inside = int(begin, 16) <= place < int(end, 16)
        elif inside and name == "VmFlags:":
            return rest.split()
    raise AssertionError("nothing is there")


@pytest.mark.parametrize(
    ("ranges", "others", "left"),
    [
        ([], [(0, 9)], []),
        ([(1, 5)], [], [(1, 5)]),
        ([(1, 5)], [(1, 5)], []),
        ([(1, 5)], [(0, 1), (5, 9)], [(1, 5)]),
        ([(1, 9)], [(3, 5)], [(1, 3), (5, 9)]),
        ([(1, 9)], [(0, 3), (8, 12)], [(3, 8)]),
        ([(1, 9), (20, 30)], [(2, 3), (4, 25)], [(1, 2), (3, 4), (25, 30)]),
    ],
)
def test_what_is_new(ranges: huge_pages.Ranges, others: huge_pages.Ranges, left: huge_pages.Ranges) -> None:
    assert without(ranges, others) == left


@ON_LINUX
@HAS_THEM
@pytest.mark.parametrize("there", [False, True])
def test_new_memory_is_asked_for_and_old_is_left_alone(there: bool) -> None:
    size = huge_pages.ADVISED_BYTES_MIN
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as old:
        before = mapped()
        with for_what_comes(size, there):
            new = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            new[::4096] = b"x" * (size // 4096)
        ((begin, end),) = [part for part in without(mapped(), before) if part[1] - part[0] >= size]
        assert "hg" in flags_of(begin + PAGE_BYTES)
        assert "hg" in flags_of(end - PAGE_BYTES - 1)
        assert "hg" not in flags_of(ctypes.addressof(ctypes.c_char.from_buffer(old)))
        assert new[::4096] == b"x" * (size // 4096)
        new.close()


@ON_LINUX
def test_little_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "mapped", lambda: pytest.fail("what is mapped was looked at"))
    with for_what_comes(huge_pages.ADVISED_BYTES_MIN - 1):
        pass


def test_where_nothing_is_told_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "mapped", list)
    with for_what_comes(huge_pages.ADVISED_BYTES_MIN):
        pass
    assert advise([]) == advise([(1, PAGE_BYTES)]) == 0
