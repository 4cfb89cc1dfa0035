"""A support agent's session typed into `redis-cli`, line by line, and inline commands over `nc`-like raw sockets."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from process import ServerProcess

pytestmark = pytest.mark.skipif(shutil.which("redis-cli") is None, reason="needs redis-cli (Debian: redis-tools)")

TYPED = """\
AMEM.CONV.CREATE session-42 WINDOW 50 TTL 86400
AMEM.CONV.APPEND session-42 user "My invoice shows the wrong VAT number."
AMEM.WORK.SET session-42 ticket "INV-1932" TTL 3600
AMEM.EPIS.LOG agent-support action "Looked up invoice INV-1932"
AMEM.SEM.CREATE support-kb 3
AMEM.SEM.STORE support-kb vat-policy "VAT details can be corrected within 30 days." 0.1 0.2 0.3
AMEM.SEM.RECALL support-kb 3 0.1 0.2 0.3
AMEM.CONV.WINDOW session-42 10
"""

ANSWERED = """\
OK
OK
OK
OK
OK
OK
key
vat-policy
content
VAT details can be corrected within 30 days.
similarity
1
role
user
content
My invoice shows the wrong VAT number.
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_lines_typed_as_they_stand(server: ServerProcess, protocol: str) -> None:
    cli = ["redis-cli", "-p", str(server.port), protocol]
    subprocess.run([*cli, "FLUSHALL"], check=True, capture_output=True, timeout=30)
    told = subprocess.run(cli, input=TYPED, text=True, check=True, capture_output=True, timeout=30)
    answered = [line for line in told.stdout.splitlines() if line]
    expected = ANSWERED.splitlines()
    if protocol == "-3":  # a map prints one pair a line
        pairs = [f"{expected[i]} {expected[i + 1]}" for i in range(6, len(expected), 2)]
        expected = expected[:6] + pairs
    assert answered == expected


def test_arguments_on_the_command_line(server: ServerProcess) -> None:
    def cli(*words: str) -> str:
        done = subprocess.run(
            ["redis-cli", "-p", str(server.port), *words], text=True, capture_output=True, timeout=30, check=True
        )
        return done.stdout.strip()

    assert cli("PING") == "PONG"
    assert cli("SET", "k", "a b") == "OK"
    assert cli("GET", "k") == "a b"
    assert cli("--scan", "--pattern", "k*") == "k"
    assert "redis_version:" in cli("INFO", "server")
    assert cli("AMEM.CONV.APPEND", "nobody", "user", "x").startswith("ERR session not found")
