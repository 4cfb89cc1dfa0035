"""What the README shows is run as it stands: its lines for redis-cli, its Python, and its example of an import."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.process import ServerProcess

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
IMPORT_FORMAT = (ROOT / "docs" / "import-format.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("readme") / "data") as process:
        yield process


def test_the_lines_for_redis_cli(server):
    (session,) = blocks(README, "redis")
    with redis.Redis(port=server.port, decode_responses=True) as client:
        replies = [client.execute_command(*shlex.split(line)) for line in session.splitlines()]
    assert replies[:6] == ["OK"] * 6
    assert replies[6][0]["key"] == "vat-policy"
    assert replies[7] == [{"role": "user", "content": "My invoice shows the wrong VAT number."}]


@pytest.mark.parametrize(
    ("block", "printed"),
    [
        (0, ["user Do you ship to Norway?", "norway 1.0"]),
        (1, ["[{'role': 'user', 'content': 'Where is my order?'}]", "A-17"]),
    ],
)
def test_the_python(server, block, printed):
    program = blocks(README, "python")[block].replace("6379", str(server.port))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == printed


def test_the_example_of_an_import(server, tmp_path):
    file = tmp_path / "memory.jsonl"
    (example,) = blocks(IMPORT_FORMAT, "json")
    file.write_text(example, encoding="utf-8")
    url = f"redis://127.0.0.1:{server.port}"
    command = [sys.executable, "-m", "amemdb", "import", str(file), "--url", url, "--strict"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "imported 7 lines" in done.stdout
