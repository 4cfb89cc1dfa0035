"""The real process: how it starts, what it says, how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.process import ServerProcess

MIB = 1 << 20


def serve(*options: str) -> subprocess.CompletedProcess[str]:
    """A server that is expected not to start."""
    command = [sys.executable, "-m", "amemdb", "serve", "--port", "0", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def exit_code(server: ServerProcess) -> int:
    """Of a server that has been told to stop: `ServerProcess.stop` would tell it a second time."""
    process = server._process
    assert process is not None
    server._process = None
    return process.wait(timeout=30)


def refusal(ended: subprocess.CompletedProcess[str]) -> str:
    """The one line that it said."""
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    lines = [text for text in ended.stderr.splitlines() if text.startswith("amemdb: ")]
    assert len(lines) == 1, ended.stderr
    return lines[0]


def test_the_banner_says_what_there_is_to_know(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        assert "amemdb 0." in server.output
        assert f"loaded 0 records from {tmp_path / 'data'} in " in server.output
        assert f"ready on 127.0.0.1:{server.port}, appendfsync everysec" in server.output
        with redis.Redis(port=server.port) as client:
            client.set("k", "v")
            client.execute_command("AMEM.CONV.CREATE", "s")
            facts = client.info("server")
            assert facts["tcp_port"] == server.port
            assert facts["process_id"] == server.pid
            assert client.info("memory")["used_memory"] > MIB
        server.stop()
        server.start()
        assert "1 sessions, 1 keys" in server.output
        assert "password" not in server.output


def test_a_maxmemory_that_leaves_little_is_warned_of(tmp_path):
    with ServerProcess(tmp_path / "data") as server, redis.Redis(port=server.port) as client:
        assert "WARNING" not in server.output
        used = client.info("memory")["used_memory"]
        for limit in (used + 64 * MIB, 0):
            client.config_set("maxmemory", limit)
        assert "WARNING" not in server.output
        client.config_set("maxmemory", used + 8 * MIB)
        assert re.search(r"WARNING maxmemory is .* only [678]\.\d MiB are left for more data\n", server.output)
        client.config_set("maxmemory", "10mb")
        assert server.output.count("WARNING maxmemory is 10.0 MiB and ") == 1
        assert re.search(
            r", \d+\.\d MiB of them by the server itself: writes that add data are refused\n", server.output
        )
    with ServerProcess(tmp_path / "other", "--maxmemory", "20mb") as server:
        assert server.output.count("WARNING maxmemory is 20.0 MiB and ") == 1


def test_a_variable_that_chooses_nothing_is_warned_of(tmp_path, monkeypatch):
    monkeypatch.setenv("AMEMDB_NATIVE", "off")
    with ServerProcess(tmp_path / "data") as server:
        assert "amemdb: warning: AMEMDB_NATIVE is 'off', which changes nothing: expected 0" in server.output


def test_beyond_maxmemory_it_loads_and_refuses_and_says_so(tmp_path):
    with ServerProcess(tmp_path / "data") as server, redis.Redis(port=server.port) as client:
        for index in range(100):
            client.set(f"k{index}", b"x" * 1000)
    with ServerProcess(tmp_path / "data", "--maxmemory", "1mb") as server, redis.Redis(port=server.port) as client:
        assert client.dbsize() == 100
        for _ in range(3):
            with pytest.raises(redis.exceptions.OutOfMemoryError, match="used memory > 'maxmemory'"):
                client.set("k", "v")
        assert client.delete("k1") == 1
        assert client.memory_stats()["keys.count"] == 99
        assert client.memory_usage("k2") > 1000
        assert client.info("errorstats")["errorstat_OOM"] == {"count": 3}
        assert server.output.count("more than maxmemory (1048576 bytes) is used") == 1
        client.config_set("maxmemory", 0)
        assert client.set("k", "v")
        server.wait_until(lambda: "less than maxmemory is used again" in server.output, "the notice")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_in_order_and_everything_is_there_afterwards(tmp_path, number):
    with ServerProcess(tmp_path / "data") as server:
        with redis.Redis(port=server.port) as client:
            for index in range(500):
                client.set(f"k{index}", index)
            os.kill(server.pid, number)
            assert exit_code(server) == 0
        assert "goodbye" in server.output
        assert number.name in server.output
        server.start()
        with redis.Redis(port=server.port) as client:
            assert client.dbsize() == 500


def test_replies_that_are_owed_still_arrive_after_a_signal(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(b"SET k v\r\n" + b"PING\r\n" * 1000)
            assert sock.recv(5) == b"+OK\r\n"
            os.kill(server.pid, signal.SIGTERM)
            rest = b""
            while data := sock.recv(65_536):
                rest += data
        assert rest
        assert rest.replace(b"+PONG\r\n", b"") == b""
        assert exit_code(server) == 0


def test_shutdown_stops_in_order(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        with redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0)) as client:
            client.set("k", "v")
            client.shutdown()
        assert exit_code(server) == 0
        assert "SHUTDOWN" in server.output
        server.start()
        with redis.Redis(port=server.port) as client:
            assert client.get("k") == b"v"


def test_a_second_signal_leaves_at_once(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        with redis.Redis(port=server.port) as client:
            client.set("big", b"." * (32 * MIB))
        with socket.create_connection(("127.0.0.1", server.port)) as lazy:
            lazy.sendall(b"GET big\r\n")
            assert lazy.recv(1) == b"$"
            os.kill(server.pid, signal.SIGTERM)
            server.wait_until(lambda: "stopping" in server.output, "the server to stop")
            started = time.monotonic()
            assert server.stop() == 128 + signal.SIGTERM
            assert time.monotonic() - started < 3
        assert "goodbye" not in server.output


def test_a_port_in_use_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        line = refusal(serve("--dir", str(tmp_path / "data"), "--port", str(taken.getsockname()[1])))
    assert "another program uses this port" in line
    assert "--port" in line
    assert not (tmp_path / "data").exists(), "a server that does not start leaves nothing behind"


def test_a_folder_that_cannot_be_one_is_one_line(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    assert str(file) in refusal(serve("--dir", str(file)))
    assert file.read_text() == "not a folder"
    assert "/proc/nothing" in refusal(serve("--dir", "/proc/nothing"))


def test_a_folder_in_use_is_one_line(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        assert str(tmp_path / "data") in refusal(serve("--dir", str(tmp_path / "data")))
        with redis.Redis(port=server.port) as client:
            assert client.set("k", "v")


def test_a_damaged_log_is_one_line_and_is_left_as_it_was(tmp_path):
    data = tmp_path / "data"
    with ServerProcess(data) as server:
        with redis.Redis(port=server.port) as client:
            for index in range(100):
                client.set(f"k{index}", b"." * 1000)
        assert server.stop() == 0
    segment = max(data.iterdir(), key=_used_bytes)
    content = bytearray(segment.read_bytes())
    content[20_000] ^= 0xFF
    segment.write_bytes(content)
    line = refusal(serve("--dir", str(data)))
    assert segment.name in line
    assert "damaged at byte" in line
    assert segment.read_bytes() == content


def _used_bytes(file: Path) -> int:
    return len(file.read_bytes().rstrip(b"\0"))


def ready_lines(*options: str) -> list[str]:
    """What a server says up to its last line before it serves."""
    command = [sys.executable, "-m", "amemdb", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for text in process.stderr:
            lines.append(text)
            if "ready on" in text:
                break
        process.terminate()
        lines += process.stderr
    assert process.returncode == 0, lines
    return lines


def test_an_open_door_is_warned_of_and_a_password_is_never_told(tmp_path):
    data = ("--dir", str(tmp_path / "data"))
    assert any("set requirepass" in text for text in ready_lines(*data, "--host", "0.0.0.0"))
    lines = ready_lines(*data, "--host", "0.0.0.0", "--requirepass", "hushhush")
    assert not any("requirepass" in text or "hushhush" in text for text in lines)


def test_bad_requests_do_not_fill_the_log(tmp_path):
    with ServerProcess(tmp_path / "data") as server:
        before = len(server.output)
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(b"*1\r\n$x\r\n")
                assert client.recv(100).startswith(b"-ERR Protocol error")
        assert len(server.output) == before


def test_running_out_of_files_turns_connections_away_and_is_over_when_they_are(tmp_path):
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (110, 110));"
        "from amemdb.config import Config; from amemdb.server.run import run;"
        "sys.exit(run(Config({'dir': sys.argv[1], 'port': 0})))"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = []
        for text in process.stderr:
            lines.append(text)
            if "ready on" in text:
                break
        assert any("limit of open files" in text for text in lines)
        port = int(lines[-1].split("127.0.0.1:")[1].split(",")[0])
        for _ in range(3):
            crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
            crowd[0].sendall(b"PING\r\n")
            assert crowd[0].recv(100) == b"+PONG\r\n"
            for sock in crowd:
                sock.close()
            deadline = time.monotonic() + 10
            answer = b""
            while answer != b"+PONG\r\n" and time.monotonic() < deadline:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as sock:
                    sock.sendall(b"PING\r\n")
                    answer = sock.recv(100)
            assert answer == b"+PONG\r\n"
        process.terminate()
        process.stderr.read()
    assert process.returncode == 0
