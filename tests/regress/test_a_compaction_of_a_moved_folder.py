"""A compaction went by the path of its folder. Where another server had come to use that path, a compaction that failed
removed the base of the other one, which bore the same number: all that was acknowledged there was lost.

Besides: what else than its own lines came from the process, as Python or what is installed in it may print, stopped the
server, or kept it waiting for ever; and a module in the working directory was run by the process.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis

from tests.process import ServerProcess
from tests.tidy.source import ROOT

DEBUG = ("--enable-debug-command", "yes")


def test_the_base_of_another_server_is_left_alone(tmp_path: Path):
    first = ServerProcess(tmp_path / "a", *DEBUG)
    second = ServerProcess(tmp_path / "a", *DEBUG)
    with first, redis.Redis(port=first.port) as one:
        one.set("x", 1)
        (tmp_path / "a").rename(tmp_path / "b")
        with second, redis.Redis(port=second.port) as other:
            other.set("y", 2)
            assert other.save() is True
            assert one.save() is True, "it has its folder still, whatever the name of that"
            digest = other.execute_command("DEBUG", "DIGEST")
            second.kill()
            second.start()
            with redis.Redis(port=second.port) as again:
                assert again.execute_command("DEBUG", "DIGEST") == digest
                assert again.get("y") == b"2"
    assert [path for path in (tmp_path / "b").iterdir() if path.suffix == ".base"]


@pytest.mark.parametrize(
    "said",
    ["print('hello')", "print('{\"read\": [')", "import sys; sys.stderr.write('x' * 300_000)"],
    ids=["a line", "half of a line", "more than a pipe takes"],
)
def test_what_python_prints_by_itself_disturbs_nothing(tmp_path: Path, said: str):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"import sys\nif '-P' in sys.orig_argv:\n    {said}\n")
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))}
    with ServerProcess(tmp_path / "data", environment=environment) as server, redis.Redis(port=server.port) as client:
        client.set("x", 1)
        assert client.save() is True
        assert client.info("persistence")["aof_last_bgrewrite_status"] == "ok"


def test_what_lies_in_the_working_directory_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with (
        ServerProcess(tmp_path / "data", environment={"PYTHONPATH": str(ROOT)}) as server,
        redis.Redis(port=server.port) as client,
    ):
        client.set("x", 1)
        for name in ("ctypes", "json", "signal"):
            (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\n")
        assert client.save() is True
    assert not (tmp_path / "run").exists()
