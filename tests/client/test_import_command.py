"""`amemdb import` against a real server: what is in afterwards, exit codes, what it prints."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ServerProcess(tmp_path_factory.mktemp("import") / "data") as process:
        yield process


@pytest.fixture
def client(server):
    with redis.Redis(port=server.port) as connection:
        connection.flushall()
        yield connection


def amemdb_import(server: ServerProcess, file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    url = f"redis://127.0.0.1:{server.port}/0"
    command = [sys.executable, "-m", "amemdb", "import", str(file), "--url", url, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def written(tmp_path: Path, *lines: dict[str, Any] | str) -> Path:
    file = tmp_path / "memory.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return file


ALL_KINDS: tuple[dict[str, Any], ...] = (
    {"kind": "session", "session": "s", "window": 5, "ttl": 3600},
    {"kind": "turn", "session": "s", "role": "User", "content": "höy\n🙂", "id": "t1", "at": 1000, "meta": {"n": 1}},
    {"kind": "turn", "session": "s", "role": "assistant", "content": {"base64": "AP8="}, "id": "t2"},
    {"kind": "note", "session": "s", "key": "step", "content": "three"},
    {"kind": "note", "session": "s", "key": "old", "value": "gone", "expire_at_ms": 1},
    {"kind": "namespace", "agent": "a", "dim": 3, "metric": "l2"},
    {
        "kind": "fact",
        "agent": "a",
        "key": "f",
        "content": "c",
        "vector": [1, 0.5, -2],
        "source": "x",
        "trust": "untrusted",
    },
    {"kind": "fact", "agent": "a", "key": "past", "content": "c", "vector": [1, 1, 1], "expire_at_ms": 1000},
    {"kind": "event", "agent": "a", "type": "action", "content": "did", "at": 2000, "id": "e1", "metadata": {"ms": 12}},
    {"kind": "summary", "agent": "a", "content": "so far"},
)


def test_every_kind_of_line_is_in_and_what_is_past_is_not_revived(server, client, tmp_path):
    done = amemdb_import(server, written(tmp_path, *ALL_KINDS))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("imported 10 lines in ")
    assert done.stdout.endswith(": 1 session, 2 turns, 2 notes, 1 namespace, 2 facts, 1 event, 1 summary; skipped 0\n")
    turns = client.execute_command("AMEM.CONV.GET", "s", "WITHMETA")
    assert [(turn[b"role"], turn[b"content"], turn[b"id"]) for turn in turns] == [
        (b"user", "höy\n🙂".encode(), b"t1"),
        (b"assistant", b"\0\xff", b"t2"),
    ]
    assert (turns[0][b"at"], turns[0][b"meta"]) == (1000, b'{"n":1}')
    assert client.execute_command("AMEM.WORK.LIST", "s") == [b"step"]
    facts = client.execute_command("AMEM.SEM.RECALL", "a", 9, 1, 0.5, -2, "WITHMETA")
    assert [(fact[b"key"], fact[b"similarity"], fact[b"trust"]) for fact in facts] == [(b"f", 1.0, b"untrusted")]
    events = client.execute_command("AMEM.EPIS.QUERY", "a")
    assert [(event[b"timestamp"], event[b"metadata"]) for event in events] == [(2000, b'{"ms":12}')]
    assert client.execute_command("AMEM.SUMMARY.GET", "a")[:2] == [b"so far", 1]


def test_a_second_run_changes_nothing_that_has_an_identity(server, client, tmp_path):
    file = written(tmp_path, *(line for line in ALL_KINDS if line["kind"] != "summary"))
    amemdb_import(server, file)
    assert amemdb_import(server, file).returncode == 0
    assert client.execute_command("AMEM.CONV.INFO", "s")[b"turns"] == 2
    assert client.execute_command("AMEM.EPIS.STATS", "a")[b"total_events"] == 1
    assert client.execute_command("AMEM.SEM.INFO", "a")[b"facts"] == 1


MIXED = (
    {"kind": "session", "session": "s"},
    "{not json",
    {"kind": "turn", "session": "s", "role": "user", "content": "in"},
    {"kind": "turn", "session": "nobody", "role": "user", "content": "lost"},
    "",
    {"kind": "note", "session": "s", "key": "k"},
)


def test_bad_lines_and_refused_lines_are_told_by_number_and_counted(server, client, tmp_path):
    done = amemdb_import(server, written(tmp_path, *MIXED))
    assert done.returncode == 1
    assert sorted(line.split(":", 1)[0] for line in done.stderr.splitlines()) == ["line 2", "line 4", "line 6"]
    assert "line 4: refused by the server: " in done.stderr
    assert "session not found" in done.stderr
    assert ": 1 session, 1 turn; skipped 3" in done.stdout
    assert client.execute_command("AMEM.CONV.INFO", "s")[b"turns"] == 1


def test_strict_sends_nothing_when_a_line_is_bad(server, client, tmp_path):
    done = amemdb_import(server, written(tmp_path, *MIXED), "--strict")
    assert done.returncode == 1
    assert "line 2: " in done.stderr
    assert "line 6: content: missing, a note needs it" in done.stderr
    assert done.stderr.endswith("amemdb: refused: 2 bad lines, nothing was sent\n")
    assert done.stdout == ""
    assert client.execute_command("AMEM.CONV.SCAN", 0)[1] == []


def test_strict_sends_a_file_that_is_good(server, client, tmp_path):
    done = amemdb_import(server, written(tmp_path, *ALL_KINDS), "--strict", "--batch", "3")
    assert done.returncode == 0, done.stderr
    assert client.execute_command("AMEM.CONV.INFO", "s")[b"turns"] == 2


def test_only_the_first_problems_are_told_one_by_one(server, client, tmp_path):
    done = amemdb_import(server, written(tmp_path, *["{"] * 250))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 101
    assert done.stderr.endswith("… and 150 more\n")
    assert "skipped 250" in done.stdout


def test_thousands_of_lines_arrive_in_order(server, client, tmp_path):
    turns = [{"kind": "turn", "session": "s", "role": "user", "content": str(number)} for number in range(5000)]
    done = amemdb_import(server, written(tmp_path, {"kind": "session", "session": "s", "window": 10_000}, *turns))
    assert done.returncode == 0, done.stderr
    contents = [turn[b"content"] for turn in client.execute_command("AMEM.CONV.GET", "s")]
    assert contents == [b"%d" % number for number in range(5000)]


def test_a_ttl_counts_from_the_import(server, client, tmp_path):
    before_ms = time.time_ns() // 1_000_000
    amemdb_import(server, written(tmp_path, {"kind": "session", "session": "s", "ttl": 60}))
    expires_at_ms = client.execute_command("AMEM.CONV.INFO", "s")[b"expires_at"]
    assert before_ms + 60_000 <= expires_at_ms <= time.time_ns() // 1_000_000 + 60_000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--url", "redis://127.0.0.1:1/0"), "amemdb: nothing answers at 127.0.0.1:1: "),
        (("--url", "nonsense"), "amemdb: --url: "),
        (("--batch", "0"), "amemdb: Invalid value for '--batch': must be a whole number from 1 to 100000, got '0'"),
        (("--batch", "many"), "amemdb: Invalid value for '--batch': must be a whole number from 1 to 100000, got 'm"),
    ],
)
def test_what_prevents_an_import_is_one_line(server, tmp_path, options, told):
    done = amemdb_import(server, written(tmp_path, *ALL_KINDS), *options)
    assert done.returncode == 2
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1


def test_a_missing_file_is_one_line(server, tmp_path):
    done = amemdb_import(server, tmp_path / "none.jsonl")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "does not exist" in done.stderr


def test_a_wrong_password_is_one_line_and_does_not_show(server, client, tmp_path):
    client.config_set("requirepass", "correct")
    try:
        file = written(tmp_path, *ALL_KINDS)
        wrong = amemdb_import(server, file, "--url", f"redis://:mistaken@127.0.0.1:{server.port}")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
        assert "mistaken" not in wrong.stderr
        none = amemdb_import(server, file)
        for refused in (wrong, none):
            assert refused.stderr.startswith(
                f"amemdb: 127.0.0.1:{server.port} asks for a password, or another one: --url"
            )
        right = amemdb_import(server, file, "--url", f"redis://:correct@127.0.0.1:{server.port}")
        assert right.returncode == 0, right.stderr
    finally:
        client.config_set("requirepass", "")
