"""Replies as a reader, a program and a pipe get them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import redis
from rich.console import Console

from amemdb.cli.replies import as_json, bare, pretty


def shown(argv: str, reply: Any, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(pretty(argv.encode().split(), reply), markup=False)
    output = console.file
    assert isinstance(output, io.StringIO)
    return "\n".join(line.rstrip() for line in output.getvalue().rstrip("\n").split("\n"))


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (b"OK", "OK"),
        (b"value [red]\x1b[2J", '"value [red]\\x1b[2J"'),
        (b"", '""'),
        (None, "(nil)"),
        (7, "(integer) 7"),
        (0.5, "0.5"),
        (True, "true"),
        ([], "(empty)"),
        ({}, "(empty)"),
        ([b"a", 2, None], '1) "a"\n2) (integer) 2\n3) (nil)'),
        ([[b"x"], b"y"], '1) 1) "x"\n2) "y"'),
        (redis.ResponseError("no", status_code="ERR"), "(error) ERR no"),
    ],
)
def test_simple_replies(reply, line):
    assert shown("X", reply) == line


def test_turns_are_a_table_that_cannot_be_faked():
    turns = [
        {b"role": b"user", b"content": b"one\ntwo", b"seq": 1, b"at": 1000, b"id": None, b"meta": None},
        {b"role": b"tool", b"content": b"\x1b]0;title\x07 [bold]x", b"seq": 2, b"at": 0, b"id": None, b"meta": None},
    ]
    lines = shown("AMEM.CONV.GET s WITHMETA", turns).splitlines()
    assert lines[0].split() == ["role", "content", "seq", "at"]
    assert lines[2].split() == ["user", "one", "1", "1970-01-01", "00:00:01"]
    assert lines[3].split() == ["two"]
    assert "\\x1b]0;title\\a [bold]x" in lines[4]
    assert lines[-1] == "2 rows"


def test_blocks_pages_and_summaries():
    info = {b"turns": 4, b"window": 50, b"created": 5000, b"expires_at": -1}
    assert shown("AMEM.CONV.INFO s", info).splitlines() == [
        "turns       4",
        "window      50",
        "created     1970-01-01 00:00:05",
        "expires_at  never",
    ]
    assert shown("AMEM.CONV.SCAN 0", [b"0", [b"a"]]).splitlines() == ['1) "a"', "no more"]
    assert shown("SCAN 0", [b"17", []]).splitlines() == ["(empty)", "cursor of the next page: 17"]
    assert "1970-01-01 00:00:09" in shown("AMEM.SUMMARY.GET a", [b"text", 3, 9])
    assert shown("INFO server", b"# Server\r\nversion:1\r\n") == "# Server\nversion:1"


def test_everything_fits_the_width():
    rows = [{b"key": b"k" * 30, b"content": "é🙂 ".encode() * 200, b"similarity": 0.123456}]
    lines = shown("AMEM.SEM.RECALL a 1", rows, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert any("0.1235" in line for line in lines)


def test_json_is_one_line_that_can_be_read():
    reply = [
        {b"k": "é\n".encode(), b"\xff": b"\xff\x00"},
        {b"set"},
        None,
        1,
        0.5,
        redis.ResponseError("no", status_code="ERR"),
    ]
    line = as_json(reply)
    assert "\n" not in line
    assert json.loads(line) == [
        {"k": "é\n", "\\xff": {"base64": "/wA="}},
        ["set"],
        None,
        1,
        0.5,
        {"error": "ERR no"},
    ]


def test_bare_values_are_bytes_as_they_are():
    assert list(bare([b"\xff\n", 1, None, {b"a": [b"b"]}, 0.5])) == [b"\xff\n", b"1", b"", b"a", b"b", b"0.5"]
