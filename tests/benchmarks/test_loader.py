"""The load program: that it counts replies rightly wherever they are cut, and a tiny run against a real server."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from benchmarks.loader import BenchmarkError, Loader, compile_loader
from benchmarks.servers import Server, ours, running
from benchmarks.templates import templates

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load program needs a C compiler")

TURN = b"*4\r\n$4\r\nrole\r\n$4\r\nuser\r\n$7\r\ncontent\r\n$3\r\na\r\n\r\n"  # the content is `a`, CR, LF
STREAM: list[tuple[bytes, dict[str, int]]] = [
    (b"+OK\r\n", {}),
    (b":-17\r\n", {}),
    (b"$-1\r\n", {"nils": 1}),
    (b"*-1\r\n", {"nils": 1}),
    (b"_\r\n", {"nils": 1}),
    (b"*0\r\n", {"empty": 1}),
    (b"%0\r\n", {"empty": 1}),
    (b"$0\r\n\r\n", {}),
    (b"*2\r\n" + TURN + TURN, {}),
    (b"*3\r\n*0\r\n*1\r\n*1\r\n:1\r\n$5\r\n*9\r\n:\r\n", {}),
    (b"%2\r\n$1\r\na\r\n,1.5\r\n+b\r\n~2\r\n#t\r\n(12345678901234567890\r\n", {}),
    (b"=7\r\ntxt:abc\r\n", {}),
    (b"-ERR session not found\r\n", {"errors": 1}),
    (b"-WRONGTYPE other\r\n", {"errors": 1}),
    (b"!5\r\nERR x\r\n", {"errors": 1}),
    (b"*2\r\n-ERR inside\r\n:1\r\n", {"errors": 1}),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_loader(tmp_path_factory.mktemp("loader"))


@pytest.fixture(scope="module")
def count(program: Path) -> Callable[[bytes, int], dict[str, Any]]:
    def counted(stream: bytes, piece: int) -> dict[str, Any]:
        command = [str(program), "replies", str(piece)]
        ran = subprocess.run(command, input=stream, capture_output=True, check=True)
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    return counted


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(ours(), "no", None) as started:
        yield started


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 64, 10_000])
def test_replies_are_counted_wherever_they_are_cut(count, piece):
    found = count(b"".join(reply for reply, _ in STREAM), piece)
    assert (found["replies"], found["missing"], found["damaged"]) == (len(STREAM), 0, False)
    for name in ("errors", "nils", "empty"):
        assert found[name] == sum(what.get(name, 0) for _, what in STREAM)
    assert found["first_error"].strip() == "ERR session not found"


def test_a_reply_that_is_not_whole_is_not_counted(count):
    whole = b"*2\r\n" + TURN + TURN
    for end in range(1, len(whole)):
        assert count(whole[:end], 4096)["replies"] == 0
    assert count(whole, 4096)["replies"] == 1


@pytest.mark.parametrize("stream", [b"HTTP/1.1 200\r\n", b"+OK\r\n>1\r\n+x\r\n", b"$x\r\n", b"*99999999999999\r\n"])
def test_what_is_not_a_reply_is_damage(count, stream):
    assert count(stream, 3)["damaged"]


def test_a_very_long_error_is_cut(count):
    found = count(b"-" + b"e" * 5_000 + b"\r\n+OK\r\n", 100)
    assert (found["replies"], found["first_error"]) == (2, "e" * 120)


@pytest.mark.parametrize("pipeline", [1, 16])
def test_exactly_the_operations_asked_for_are_done_each_once(program, server, pipeline):
    with redis.Redis(port=server.port) as client:
        client.flushall()
        what = templates("SET k:{seq/2%300}:{seq%2} {text} ; INCR total")
        load = Loader(program, None).run_operations(server.port, server.pid, what, pipeline, 601)
        assert (load.operations, load.errors, load.nils) == (601, 0, 0)
        assert client.get("total") == b"601"
        assert client.exists("k:00000000:00000000", "k:00000299:00000001") == 2
        assert client.dbsize() == 600 + 1  # operation 600 meets the key of operation 0


def test_a_timed_load_of_nested_replies_counts_what_the_server_counts(program, server):
    with redis.Redis(port=server.port) as client:
        client.flushall()
        client.execute_command("AMEM.CONV.CREATE", "s")
        for number in range(12):
            client.execute_command("AMEM.CONV.APPEND", "s", "user", f"turn {number}\r\n")
        client.config_resetstat()
        load = Loader(program, None).run_seconds(
            server.port, server.pid, templates("AMEM.CONV.WINDOW s 10"), 16, 0.1, 1
        )
        calls = client.info("commandstats")["cmdstat_amem.conv.window"]["calls"]
    assert load.operations == calls > 0
    assert load.seconds >= 0.1
    assert load.reply_bytes % load.operations == 0
    assert 0 < load.p50_us <= load.p99_us <= load.p999_us


def test_as_many_connections_are_used_as_asked_for(program, server):
    with redis.Redis(port=server.port) as client:
        before = client.info("stats")["total_connections_received"]
        Loader(program, None).run_seconds(server.port, server.pid, templates("PING"), 1, 0.05, 1, 3)
        assert client.info("stats")["total_connections_received"] == before + 3


def test_a_refused_operation_ends_the_run_with_its_reason(program, server):
    with pytest.raises(BenchmarkError, match=r"50 of 50 operations were refused: ERR session not found"):
        Loader(program, None).run_operations(
            server.port, server.pid, templates("AMEM.CONV.APPEND nobody user x"), 1, 50
        )


def test_a_server_that_is_not_there_ends_the_run_with_its_reason(program, server):
    with pytest.raises(BenchmarkError, match="connecting to port 1: Connection refused"):
        Loader(program, None).run_operations(1, server.pid, templates("PING"), 1, 1)


def test_a_compiler_that_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BenchmarkError, match="needs a C compiler"):
        compile_loader(tmp_path)
