"""Compaction in a real server: what goes from the files, what stays, and what happens when it is disturbed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.durability.compactors import compactors_of
from tests.process import ServerProcess

MARKER = b"tell nobody about the blue notebook"
DEBUG = ("--enable-debug-command", "yes")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(folder: Path) -> Iterator[ServerProcess]:
    with ServerProcess(folder, *DEBUG) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port) as client:
        yield client


def info(client: redis.Redis) -> dict[str, Any]:
    told: dict[str, Any] = client.info("persistence")
    return told


def compact(server: ServerProcess, client: redis.Redis) -> None:
    """Compact and wait for it."""
    assert client.execute_command("BGREWRITEAOF")
    wait_for_the_end(server, client)


def wait_for_the_end(server: ServerProcess, client: redis.Redis) -> None:
    server.wait_until(lambda: not info(client)["aof_rewrite_in_progress"], "the compaction to end")


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def fill(client: redis.Redis, text: bytes) -> None:
    pipe = client.pipeline(transaction=False)
    for number in range(50):
        pipe.execute_command("AMEM.CONV.CREATE", f"s{number}", "WINDOW", 5)
        pipe.execute_command("AMEM.CONV.APPEND", f"s{number}", "user", text)
        pipe.execute_command("AMEM.WORK.SET", f"s{number}", "note", text)
    pipe.execute_command("AMEM.SEM.CREATE", "a", 2)
    pipe.execute_command("AMEM.SEM.STORE", "a", "key", text, 1, 0)
    pipe.execute_command("AMEM.EPIS.LOG", "a", "seen", text)
    pipe.execute_command("AMEM.SUMMARY.SET", "a", text)
    pipe.set("k", text)
    pipe.execute(raise_on_error=True)


def test_what_was_erased_is_gone_from_the_files(folder: Path, server: ServerProcess, client: redis.Redis):
    fill(client, MARKER)
    for number in range(50):
        client.execute_command("AMEM.CONV.DROP", f"s{number}")
    client.execute_command("AMEM.SEM.DROP", "a")
    client.execute_command("AMEM.EPIS.CLEAR", "a")
    client.execute_command("AMEM.SUMMARY.DROP", "a")
    client.delete("k")
    client.set("kept", b"this stays")
    client.set("short", MARKER, px=1)
    time.sleep(0.01)  # it is over; nobody has looked at it since
    assert MARKER in bytes_of(folder)
    compact(server, client)
    files = bytes_of(folder)
    assert MARKER not in files, [path for path in folder.iterdir() if MARKER in path.read_bytes()]
    assert b"this stays" in files
    assert client.get("kept") == b"this stays"


def test_a_restart_from_base_and_log_is_what_there_was(folder: Path):
    with ServerProcess(folder, *DEBUG) as server, redis.Redis(port=server.port) as client:
        fill(client, b"first")
        client.set("later", b"gone soon", px=60_000)
        compact(server, client)
        fill(client, b"second")
        compact(server, client)
        fill(client, b"third")
        client.persist("later")
        digest = client.execute_command("DEBUG", "DIGEST")
        told = info(client)
        assert (told["aof_rewrites"], told["aof_last_bgrewrite_status"], told["log_segments"]) == (2, "ok", 1)
        assert 0 < told["aof_base_size"] < told["aof_current_size"]
        server.kill()
        server.start()
        with redis.Redis(port=server.port) as again:
            assert again.execute_command("DEBUG", "DIGEST") == digest
            assert again.ttl("later") == -1
            assert info(again)["log_base_offset"] == told["log_base_offset"]


def test_save_answers_when_it_is_done(server: ServerProcess, client: redis.Redis):
    started = client.lastsave()
    fill(client, b"text")
    assert client.save() is True
    assert info(client)["aof_rewrites"] == 1
    assert client.lastsave() >= started
    assert client.save() is True, "with nothing new there is nothing to do"
    assert "nothing was written since the last one" in server.output


def test_one_at_a_time(server: ServerProcess, client: redis.Redis):
    fill(client, b"text")
    assert client.bgrewriteaof() is True
    with pytest.raises(redis.ResponseError, match="rewriting already in progress"):
        client.execute_command("BGREWRITEAOF")
    with pytest.raises(redis.ResponseError, match="save already in progress"):
        client.execute_command("SAVE")
    with pytest.raises(redis.ResponseError, match="save already in progress"):
        client.execute_command("BGSAVE")
    assert client.execute_command("BGSAVE", "SCHEDULE")
    assert info(client)["aof_rewrite_scheduled"] == 1
    server.wait_until(
        lambda: bool(compactors_of(server.pid)), "the process to start"
    )  # so the log is closed up to here
    client.set("another", 1)
    wait_for_the_end(server, client)
    assert info(client)["aof_rewrites"] == 2
    assert client.bgsave() is True


def test_save_has_no_place_in_a_transaction(client: redis.Redis):
    client.execute_command("MULTI")
    with pytest.raises(redis.ResponseError, match="not allowed inside a transaction"):
        client.execute_command("SAVE")
    with pytest.raises(redis.ResponseError, match="discarded"):
        client.execute_command("EXEC")


def test_it_begins_by_itself_when_the_log_has_grown(folder: Path):
    options = ("--auto-aof-rewrite-min-size", "100kb")
    with ServerProcess(folder, *options) as server, redis.Redis(port=server.port) as client:
        for number in range(300):
            client.set("k", b"%d" % number + b"x" * 1000)
        server.wait_until(lambda: info(client)["aof_rewrites"] == 1, "a compaction")
        assert info(client)["aof_base_size"] < 10_000
        client.config_set("auto-aof-rewrite-percentage", 0)
        for number in range(300):
            client.set("k", b"%d" % number + b"x" * 1000)
        time.sleep(1.2)
        assert info(client)["aof_rewrites"] == 1


def test_a_compactor_that_is_killed_leaves_the_log_as_it_was(folder: Path, server: ServerProcess, client: redis.Redis):
    fill(client, b"text")
    names = sorted(os.listdir(folder))
    client.execute_command("BGREWRITEAOF")
    server.wait_until(lambda: bool(compactors_of(server.pid)), "the process to start")
    for pid in compactors_of(server.pid):
        os.kill(pid, signal.SIGKILL)
    wait_for_the_end(server, client)
    told = info(client)
    assert told["aof_last_bgrewrite_status"] == "err"
    assert "signal 9" in told["compaction_error"]
    assert not [name for name in os.listdir(folder) if name.endswith(".base")]
    assert set(names) <= set(os.listdir(folder))
    digest = client.execute_command("DEBUG", "DIGEST")
    server.kill()
    server.start()
    with redis.Redis(port=server.port) as again:
        assert again.execute_command("DEBUG", "DIGEST") == digest
        compact(server, again)
        assert info(again)["aof_last_bgrewrite_status"] == "ok"


def test_a_stop_does_not_wait_for_it_and_leaves_no_process(folder: Path, server: ServerProcess, client: redis.Redis):
    fill(client, b"text")
    client.execute_command("BGREWRITEAOF")
    server.wait_until(lambda: bool(compactors_of(server.pid)), "the process to start")
    pids = compactors_of(server.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    assert server.stop() == 0
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]  # nor a zombie: no init may be there to take it
    assert "Traceback" not in server.output
    server.start()
    assert not [name for name in os.listdir(folder) if name.endswith(".base")]


def test_damage_in_what_it_reads_is_told_and_changes_nothing(folder: Path, server: ServerProcess, client: redis.Redis):
    client.config_set("auto-aof-rewrite-percentage", 0)
    fill(client, MARKER)
    time.sleep(0.05)
    segment = next(folder.glob("log-*.segment"))
    with segment.open("r+b") as file:
        file.seek(segment.read_bytes().index(MARKER))
        file.write(b"T")
    compact(server, client)
    told = info(client)
    assert told["aof_last_bgrewrite_status"] == "err"
    assert segment.name in told["compaction_error"]
    assert client.ping()
    assert segment.exists()
    assert not [name for name in os.listdir(folder) if name.endswith(".base")]
