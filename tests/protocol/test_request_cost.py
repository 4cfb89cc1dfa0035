"""Time linear in the bytes and memory bounded by them, for whatever chunks they come in.

Time is compared with itself: eight times the bytes may take three times more than eight times as long, where
anything quadratic would take 64 times as long.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import pytest

from amemdb.protocol.request import RequestParser

PING = b"*1\r\n$4\r\nPING\r\n"


def read(data: bytes, chunk_bytes: int) -> int:
    """How many requests `data` gives in chunks of that size."""
    parser = RequestParser()
    count = 0
    for start in range(0, len(data), chunk_bytes):
        parser.feed(data[start : start + chunk_bytes])
        while parser.next() is not None:
            count += 1
    return count


def seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def bulk(size: int) -> bytes:
    return b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (size, b"x" * size)


@pytest.mark.parametrize(
    ("make", "small", "chunk_bytes"),
    [
        pytest.param(lambda n: b"A" * n + b"\n", 8_000, 1, id="inline line by bytes"),
        pytest.param(
            lambda n: b"'" + b"\\" * n + b"'' \"" + b"\\" * n + b'"\n', 3_000, 1 << 20, id="quoted backslashes"
        ),
        pytest.param(lambda n: b"a'b' " * n + b"\n", 1_500, 1 << 20, id="quotes within a line"),
        pytest.param(lambda n: b"*" + b"0" * n + b"1\r\n", 8_000, 1, id="header by bytes"),
        pytest.param(bulk, 200_000, 16, id="bulk by 16 bytes"),
        pytest.param(bulk, 2_000_000, 65_536, id="bulk by 64 KiB"),
        pytest.param(lambda n: bulk(n) * 2, 2_000_000, 1 << 40, id="bulk at once"),
        pytest.param(lambda n: PING * n, 5_000, 1 << 40, id="pipeline at once"),
        pytest.param(lambda n: PING * n, 500, 1, id="pipeline by bytes"),
        pytest.param(lambda n: b"*%d\r\n" % n + b"$2\r\nab\r\n" * n, 5_000, 1000, id="many arguments"),
        pytest.param(lambda n: (PING + b"PING\n") * n, 1_000, 1 << 40, id="both forms in turn"),
        pytest.param(lambda n: (PING * 9 + bulk(3000)) * n, 200, 1 << 40, id="plain and long in turn"),
        pytest.param(lambda n: (PING + b"*1\r\n$2\r\n\r\n\r\n") * n, 1_000, 1 << 40, id="plain and CRLF in turn"),
        pytest.param(lambda n: b"\r\n" * n + b"*0\r\n" * n, 5_000, 1 << 40, id="nothing but empty requests"),
        pytest.param(lambda n: PING + b"\n" * n + b"\r" * 50, 50_000, 1 << 40, id="blank lines"),
    ],
)
def test_time_is_linear(make, small, chunk_bytes):
    few, many = make(small), make(8 * small)
    read(few, chunk_bytes)
    assert seconds(lambda: read(many, chunk_bytes)) < 24 * seconds(lambda: read(few, chunk_bytes)) + 0.01


def test_a_hundred_thousand_commands_in_one_chunk():
    parser = RequestParser()
    parser.feed(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" * 100_000)
    count = 0
    while parser.next() is not None:
        count += 1
    assert count == 100_000


def test_asking_how_much_is_buffered_after_every_request_is_linear():
    def work(count: int) -> None:
        parser = RequestParser()
        parser.feed(PING * count)
        while parser.next() is not None:
            assert parser.buffered_bytes < len(PING) * count

    assert seconds(lambda: work(40_000)) < 24 * seconds(lambda: work(5_000)) + 0.01


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        peak: int = tracemalloc.get_traced_memory()[1]
        return peak
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"*1048576\r\n",
        b"*1048576\r\n$536870912\r\n",
        b"*2\r\n$3\r\nSET\r\n$536870912\r\n" + b"x" * 1000,
    ],
)
def test_an_announcement_costs_nothing(data):
    def work() -> None:
        parser = RequestParser()
        parser.feed(data)
        assert parser.next() is None

    assert peak_bytes(work) < 20_000


def test_a_long_bulk_is_held_once():
    chunk = b"x" * 65_536
    chunks = 512

    def work() -> None:
        parser = RequestParser()
        parser.feed(b"*2\r\n$3\r\nSET\r\n$%d\r\n" % (len(chunk) * chunks))
        for _ in range(chunks):
            assert parser.next() is None
            parser.feed(chunk)
        parser.feed(b"\r\n")
        request = parser.next()
        assert request is not None
        assert len(request[1]) == len(chunk) * chunks

    assert peak_bytes(work) < 1.5 * len(chunk) * chunks


def test_a_bulk_in_tiny_chunks_costs_no_more_than_its_bytes():
    size = 1_000_000

    def work() -> None:
        parser = RequestParser()
        parser.feed(b"*1\r\n$%d\r\n" % size)
        for _ in range(size // 10):
            parser.next()
            parser.feed(b"0123456789")
        parser.next()

    assert peak_bytes(work) < 1.5 * size


def test_small_commands_in_a_large_chunk_are_not_all_cut_at_once():
    data = PING * 60_000

    def work() -> None:
        parser = RequestParser()
        parser.feed(data)
        while parser.next() is not None:
            pass

    assert peak_bytes(work) < 2_000_000
