"""A bug stops the process with a dump that holds no data."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from amemdb.server.crash import EXIT_CODE, Crash, command_name, stripped
from tests.process import ServerProcess


class Exited(BaseException):
    pass


SECRET = b"my secret name"


def exiting(code: int) -> None:
    raise Exited(code)


def bug(secret: bytes) -> None:
    raise KeyError(secret)


def crashed(directory: Path | None) -> Exited:
    try:
        bug(SECRET)
    except KeyError as error:
        with pytest.raises(Exited) as exited:
            Crash(directory, exiting).stop(error, "AMEM.CONV.APPEND")
        return exited.value
    raise AssertionError


def test_the_dump_says_where_and_in_which_command_and_nothing_of_the_data(tmp_path, capsys):
    assert crashed(tmp_path).args == (EXIT_CODE,)
    [file] = tmp_path.glob("crash-*.txt")
    for text in (file.read_text(), capsys.readouterr().err):
        assert "AMEM.CONV.APPEND" in text
        assert "KeyError" in text
        assert "test_crash.py" in text
        assert "amemdb 0" in text
        assert "All threads:" in text
        assert SECRET.decode() not in text


@pytest.mark.parametrize("directory", [None, Path("no") / "such" / "folder"])
def test_without_a_folder_to_write_to_it_still_stops(directory, capsys):
    assert crashed(directory).args == (EXIT_CODE,)
    assert "KeyError" in capsys.readouterr().err


@pytest.mark.parametrize(
    "message",
    [
        "b'secret'",
        "could not use 'secret' here",
        'b"secret\'s"',
        "bytearray(b'\\'secret')",
        "'secret cut off",
        '["secret"]',
    ],
)
def test_messages_lose_what_they_quote(message):
    assert "secret" not in stripped(message)


def test_a_long_message_is_cut():
    assert len(stripped("no quotes " * 1000)) <= 300


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (None, ""),
        ([b"get", b"k"], "GET"),
        ([b"config", b"SET", b"requirepass", b"x"], "CONFIG|SET"),
        ([b"my data"], "unknown"),
    ],
)
def test_a_command_is_named_by_what_was_declared_never_by_what_was_sent(argv, name):
    assert command_name(argv) == name


def test_a_bug_in_a_callback_of_the_loop_or_in_a_thread_stops_too(tmp_path, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(logging.getLogger("asyncio"), "disabled", True)
    codes: list[int] = []
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        Crash(tmp_path, codes.append).install(loop)
        loop.call_exception_handler({"message": "in a callback", "exception": IndexError("x")})
    assert codes == [EXIT_CODE]
    with contextlib.suppress(AssertionError):
        threading.excepthook(threading.ExceptHookArgs((IndexError, IndexError("x"), None, None)))
    assert codes == [EXIT_CODE] * 2


def test_a_failure_of_the_network_stops_nothing(caplog):
    codes: list[int] = []
    loop = asyncio.new_event_loop()
    Crash(None, codes.append)._on_loop_error(
        loop,
        {"message": "Fatal error on transport", "exception": TimeoutError(110, "timed out"), "transport": object()},
    )
    loop.close()
    assert codes == []
    assert "timed out" in caplog.text


SCRIPT = """
import sys
from amemdb.commands.table import COMMANDS
from amemdb.config import Config
from amemdb.server.run import run

def broken(ctx, argv):
    raise TypeError("no " + repr(argv[1]))

def work_broken(ctx, argv):
    from amemdb.commands.context import Deferred
    return Deferred(lambda: broken(ctx, argv), None)

COMMANDS["ECHO"].run = broken if sys.argv[2] == "handler" else work_broken
sys.exit(run(Config({"dir": sys.argv[1], "port": 0})))
"""


@pytest.mark.parametrize("where", ["handler", "thread"])
def test_a_bug_ends_the_real_process_with_its_code_and_keeps_what_was_acknowledged(tmp_path, where):
    data = tmp_path / "data"
    command = [sys.executable, "-c", SCRIPT, str(data), where]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        port = next(int(text.split("127.0.0.1:")[1].split(",")[0]) for text in lines if "ready on" in text)
        with redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as client:
            client.set("k", "v")
            with pytest.raises(redis.ConnectionError):
                client.execute_command("ECHO", "private words")
        told = "".join(lines)
    assert process.returncode == EXIT_CODE
    assert "command: ECHO" in told
    assert "private words" not in told
    [file] = data.glob("crash-*.txt")
    assert "TypeError" in file.read_text()
    with ServerProcess(data) as server, redis.Redis(port=server.port) as client:
        assert client.get("k") == b"v"
