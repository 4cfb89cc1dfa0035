"""Large graphs in pages of 2 MB, where the system has them for those who ask (Linux).

A search of a graph reads some hundred vectors, each somewhere else in hundreds of megabytes. With pages of 4 KB most of
them also cost a walk through the page tables, a quarter of the time of the search. Many systems give large pages only
to memory that asks for them (`/sys/kernel/mm/transparent_hugepage/enabled` says `madvise`), which hnswlib does not do.

Nor does it say where its memory is. So what is mapped is looked at before a graph is made and after it, and the system
is told of what has come: advice that changes nothing of what the memory holds. Other memory is left alone, as there a
large page may hold few things, and would be kept for them. Where anything of this is missing, nothing is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

ADVISED_BYTES_MIN = 32 << 20
"""From this size on the C library maps memory for the thing alone. To look at the map takes some tenths of a
millisecond, and what is smaller gains little."""
PAGE_BYTES = 2 << 20
MADV_HUGEPAGE = 14
MADV_COLLAPSE = 25
"""Make what is there already large pages, now. Linux 6.1; before that the system does it in its own time."""

Ranges = list[tuple[int, int]]
"""Addresses: where something begins, and where it ends."""


def mapped() -> Ranges:
    """The memory of this process that it can write to and that is of no file, ascending. Empty if that is not told."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found: Ranges = []
    for line in lines:
        fields = line.split()
        if len(fields) == 5 and fields[1] == "rw-p":
            begin, _, end = fields[0].partition("-")
            found.append((int(begin, 16), int(end, 16)))
    return found


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """What of `ranges` is in none of `others`; both ascend."""
    left: Ranges = []
    for begin, end in ranges:
        for other_begin, other_end in others:
            if other_end <= begin or other_begin >= end:
                continue
            if other_begin > begin:
                left.append((begin, other_begin))
            begin = max(begin, other_end)
        if begin < end:
            left.append((begin, end))
    return left


def advise(ranges: Ranges, there: bool = False) -> int:
    """Ask for large pages in `ranges`, with `there` also for what they hold already; bytes that will have them."""
    try:
        madvise = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return 0
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    count_bytes = 0
    for begin, end in ranges:
        first = -(-begin // PAGE_BYTES) * PAGE_BYTES
        size = end // PAGE_BYTES * PAGE_BYTES - first
        if size > 0 and madvise(first, size, MADV_HUGEPAGE) == 0:
            count_bytes += size
            if there:
                madvise(first, size, MADV_COLLAPSE)
    return count_bytes


@contextmanager
def for_what_comes(count_bytes: int, there: bool = False) -> Iterator[None]:
    """Ask for large pages in the memory that is mapped in the block, if about `count_bytes` are, and so much pays.

    `there`: in the block it is also filled.
    """
    if count_bytes < ADVISED_BYTES_MIN:
        yield
        return
    before = mapped()
    yield
    advise([(begin, end) for begin, end in without(mapped(), before) if 2 * (end - begin) > ADVISED_BYTES_MIN], there)
