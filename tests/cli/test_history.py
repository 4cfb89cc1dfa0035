"""The prompt's history never holds a secret."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from amemdb.cli.history import BYTES_MAX, SafeHistory, is_secret, path_of


@pytest.mark.parametrize(
    "line",
    [
        "AUTH hunter2",
        "  auth default hunter2",
        '"auth" hunter2',
        '"\\x61uth" hunter2',
        "HELLO 3 AUTH default hunter2",
        "hello 3 setname x auth default hunter2",
        "CONFIG SET requirepass hunter2",
        'config set timeout 1 "requirepass" hunter2',
        "CONFIG SET masterauth hunter2",
        "ACL SETUSER bob >hunter2",
        "MIGRATE h 1 k 0 1 AUTH hunter2",
        'AUTH "hunter2',
        'config set requirepass "hunter2',
        "AUTH",
    ],
)
def test_what_may_hold_a_password_is_secret(line):
    assert is_secret(line)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "GET auth",
        "CONFIG SET timeout 5",
        "CONFIG GET requirepass",
        "HELLO 3",
        'SET k "authority',
        "AMEM.CONV.GET s",
    ],
)
def test_what_holds_none_is_kept(line):
    assert not is_secret(line)


def test_nothing_secret_is_in_the_file_or_comes_back_by_the_arrow_key(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history"
    history = SafeHistory(path)
    for line in ("GET a", "AUTH hunter2", " GET hidden", "SET k 'é🙂'", "CONFIG SET requirepass hunter2"):
        history.append_string(line)
    assert history.get_strings() == ["GET a", "SET k 'é🙂'"]
    assert b"hunter2" not in path.read_bytes()
    assert b"hidden" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(SafeHistory(path).load_history_strings()) == ["SET k 'é🙂'", "GET a"]


def test_a_file_that_cannot_be_written_costs_only_the_history(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = SafeHistory(tmp_path / "file" / "history")
    history.append_string("GET a")
    assert history.get_strings() == ["GET a"]


def test_a_long_history_loses_its_older_half(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f"\n# then\n+GET {number:0100}\n" for number in range(BYTES_MAX // 100)))
    strings = list(SafeHistory(path).load_history_strings())
    assert path.stat().st_size <= BYTES_MAX // 2
    assert strings[0] == f"GET {BYTES_MAX // 100 - 1:0100}"
    assert all(len(string) == 104 for string in strings)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert path_of({"XDG_STATE_HOME": "/state"}) == Path("/state/amemdb/history")
    for environ in ({}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}):
        assert path_of(environ) == tmp_path / ".local" / "state" / "amemdb" / "history"
