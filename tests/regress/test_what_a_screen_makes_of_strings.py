"""What is shown is shown as it is, whatever rich or the terminal's encoding would make of it.

`:smile:` as the name of a note became a smiley, a bracket in what a server told of itself ended `amemdb info` with an
error of rich's markup, its control characters went to the terminal, and a character that the terminal's encoding lacks
ended the command with a traceback.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import redis

from amemdb.cli.info import asked, screen
from amemdb.cli.replies import pretty
from amemdb.cli.showing import console

HOSTILE = "[/red][bold]:smile:\x1b[31m\u202e"
SHOWN = r"[/red][bold]:smile:\x1b[31m\xe2\x80\xae"


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_the_name_of_a_note_is_neither_markup_nor_an_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    name = HOSTILE.encode()
    console().print(pretty([b"AMEM.WORK.GETALL", b"s"], {name: name}))
    assert capsys.readouterr().out.split() == [SHOWN, SHOWN]


def test_what_a_server_tells_of_itself_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    told = ("amemdb_version", "process_id", "python_version", "log_policy", "log_error", "role")
    state = {**dict.fromkeys(told, HOSTILE), f"cmdstat_{HOSTILE}": {"calls": 1, "usec": 1, "usec_per_call": 1.0}}
    console().print(screen("here", state, {}, []))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert shown.count("[/red][bold]:smile:") == len(told)


def test_an_error_within_a_list_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(pretty([b"EXEC"], [ValueError(HOSTILE)]))
    assert capsys.readouterr().out == f"1) (error) {SHOWN}\n"


def test_what_an_encoding_lacks_is_escaped() -> None:
    code = (
        "import amemdb.__main__ as program, amemdb.cli.showing as showing;"
        "program.cli.main = lambda **options: showing.console().print('\\u03b1'); program.main()"
    )
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b"\\u03b1\n"


@pytest.mark.parametrize("reply", [7, None, [], "conversation_sessions:many"])
def test_another_kind_of_server_is_told(reply: Any) -> None:
    class Other(redis.Redis):
        def execute_command(self, *argv: Any, **options: Any) -> Any:
            return self.response_callbacks["INFO"](reply)

    with pytest.raises(redis.InvalidResponse, match="neither amemdb nor Redis"):
        asked(Other())
