"""The program that asks at a fixed rate: it goes on asking while a server stands still, and blames the right one."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import getpid

import pytest
import redis

from benchmarks.loader import BenchmarkError, Pacer, compile_pacer
from benchmarks.servers import Server, ours, running
from benchmarks.templates import templates

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load program needs a C compiler")

STILL_SECONDS = 0.3


@pytest.fixture(scope="module")
def pacer(tmp_path_factory: pytest.TempPathFactory) -> Pacer:
    return Pacer(compile_pacer(tmp_path_factory.mktemp("pacer")), None)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(ours(), "no", None) as started:
        yield started


def a_command_that_is_counted(connection: socket.socket, received: list[int]) -> None:
    """Answer every whole line, of the first PING and of each request of `templates("PING")`, with one reply."""
    while data := connection.recv(65_536):
        count = data.count(b"PING\r\n")
        received.append(count)
        connection.sendall(b"+PONG\r\n" * count)


@contextmanager
def scripted(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server of one connection, which does what `serve` says; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection = listener.accept()[0]
            with connection:
                serve(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(timeout=10)
        assert not thread.is_alive()


def test_every_request_is_sent_once_and_at_its_rate(pacer, server):
    with redis.Redis(port=server.port) as client:
        client.flushall()
        pace = pacer.run(server.port, server.pid, templates("SET k:{seq} {text}"), 7, 1_000, 300)
        assert client.dbsize() == 300
        assert client.exists("k:00000000", "k:00000299") == 2
    assert (pace.operations, pace.errors, pace.nils) == (300, 0, 0)
    assert 0.3 <= pace.seconds < 3
    assert 0 < pace.p50_us <= pace.p99_us <= pace.p999_us <= pace.max_us * 1.02  # percentiles are middles of buckets


def test_a_server_that_stands_still_is_seen_by_everything_that_was_due(pacer):
    """A program that waited for its reply would have met the pause once in 1,000 requests, and shown no p99 of it."""
    received: list[int] = []

    def serve(connection: socket.socket) -> None:
        connection.sendall(b"+PONG\r\n" * connection.recv(100).count(b"PING"))
        time.sleep(STILL_SECONDS)
        a_command_that_is_counted(connection, received)

    with scripted(serve) as port:
        pace = pacer.run(port, getpid(), templates("PING"), 1, 1_000, 1_000)
    assert sum(received) == 1_000
    assert max(received) >= STILL_SECONDS * 1_000 * 0.5, "it stopped asking while it waited"
    # of a second 0.3 s were lost, evenly spread waits from 0.3 s down to nothing: a fifth waits 0.1 s or more
    assert pace.max_us >= STILL_SECONDS * 0.9e6
    assert pace.p99_us >= STILL_SECONDS * 0.9e6
    assert pace.late_p50_us < 50_000, "the pause was taken for lateness of the program itself"


def test_requests_that_the_kernel_does_not_take_count_from_when_they_were_due(pacer):
    """A server that does not read: buffers fill, and what waits in the program waits for the server."""
    line, count = "SET k {text:100000}", 200
    length = templates(line).length

    def serve(connection: socket.socket) -> None:
        connection.sendall(b"+PONG\r\n" * connection.recv(100).count(b"PING"))
        time.sleep(STILL_SECONDS)
        left = length * count
        while left:
            left -= len(connection.recv(1 << 20))
        connection.sendall(b"+OK\r\n" * count)

    with scripted(serve) as port:
        pace = pacer.run(port, getpid(), templates(line), 1, 2_000, count)
    assert pace.operations == count
    assert pace.p50_us >= STILL_SECONDS * 0.5e6
    assert pace.late_p99_us < STILL_SECONDS * 0.5e6, "what the server did not take is not the program's lateness"


def test_a_refused_request_ends_the_run_with_its_reason(pacer, server):
    with pytest.raises(BenchmarkError, match=r"5 of 5 operations were refused: ERR session not found"):
        pacer.run(server.port, server.pid, templates("AMEM.CONV.APPEND nobody user x"), 1, 1_000, 5)


def test_a_server_that_is_not_there_ends_the_run_with_its_reason(pacer):
    with pytest.raises(BenchmarkError, match="connecting to port 1: Connection refused"):
        pacer.run(1, getpid(), templates("PING"), 1, 1_000, 1)
