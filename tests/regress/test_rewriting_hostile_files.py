"""CONFIG REWRITE of a file that was changed into something hostile is refused, soon, and the server lives.

A value nested thousands deep, or an integer of thousands of digits, raised an error that no one awaited, which stopped
the server. A string left open took hours, as every further line was read with all before it, and so did the search for
the comment behind a value full of `#`. A pipe was waited for. No other rewrite came to its turn meanwhile.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amemdb.config import Config
from amemdb.config_file import STATEMENT_LINES_MAX, ConfigFile


@pytest.mark.parametrize(
    "text",
    [
        "conv-window = " + "[" * 5000 + "]" * 5000 + "\n",
        "conv-window = " + "9" * 5000 + "\n",
        'conv-window = """\n' + "x\n" * 200_000,
        "conv-window = " + "[\n" * 3000,
    ],
    ids=["deep", "digits", "open string", "open arrays"],
)
def test_a_file_that_cannot_be_read_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "amemdb.toml"
    path.write_text(text)
    refusal = ConfigFile(path, Config.load({"conv-window": "7"}, {}, None)).rewrite()
    assert refusal is not None
    assert refusal.startswith("the file is not TOML any more")
    assert path.read_text() == text


def test_an_integer_of_thousands_of_digits_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "amemdb.toml"
    path.write_text("conv-window = 0x" + "f" * 5000 + "\n")
    assert ConfigFile(path, Config.load({"conv-window": "7"}, {}, None)).rewrite() is None
    assert path.read_text() == "conv-window = 7\n"


def test_the_comment_behind_a_value_full_of_hashes_is_found_at_once(tmp_path: Path) -> None:
    path = tmp_path / "amemdb.toml"
    path.write_text(f'requirepass = "{"#" * 200_000}"  # "mine" # still\n')
    assert ConfigFile(path, Config.load({"requirepass": "new"}, {}, None)).rewrite() is None
    assert path.read_text() == 'requirepass = "new"  # "mine" # still\n'


@pytest.mark.parametrize(
    "value",
    ['"a#b"', "'a#b'", '""', '"a\\"#"', '"""a"#"b"""', '"""\na#\\"""#\n""""', "'''\na\\#''''", "''''''"],
)
def test_a_hash_within_a_string_begins_no_comment(tmp_path: Path, value: str) -> None:
    path = tmp_path / "amemdb.toml"
    path.write_text(f"requirepass = {value} # kept\n")
    assert ConfigFile(path, Config.load({"requirepass": "new"}, {}, None)).rewrite() is None
    assert path.read_text() == 'requirepass = "new"  # kept\n'


def test_a_value_of_some_lines_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "amemdb.toml"
    password = "x\n" * (STATEMENT_LINES_MAX - 2)
    path.write_text(f'requirepass = """\n{password}"""\n')
    before = path.read_text()
    assert ConfigFile(path, Config.load({"requirepass": password}, {}, None)).rewrite() is None
    assert path.read_text() == before


@pytest.mark.parametrize("name", ["amemdb.toml", f".amemdb.toml.{os.getpid()}.new"], ids=["file", "beside"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    assert ConfigFile(tmp_path / "amemdb.toml", Config.load({"conv-window": "7"}, {}, None)).rewrite() is not None
