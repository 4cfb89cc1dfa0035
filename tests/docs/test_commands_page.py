"""`docs/commands.md` is what the declarations say, for every command and subcommand."""

from __future__ import annotations

import re

from amemdb import commands_page
from amemdb.commands.declare import REGISTRY

PAGE = commands_page.PATH.read_text(encoding="utf-8")
ENTRIES = {entry.partition("\n")[0]: entry for entry in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]}


def test_the_page_is_up_to_date() -> None:
    assert commands_page.page() == PAGE, "run `make generate`"


def test_every_command_has_its_entry_and_no_other() -> None:
    assert {name.replace("|", " ") for name in REGISTRY} == set(ENTRIES)
    assert PAGE.count("\n### ") == len(REGISTRY)


def test_an_entry_has_syntax_bounds_reply_cost_and_access() -> None:
    entry = ENTRIES["AMEM.CONV.CREATE"]
    assert "`AMEM.CONV.CREATE session [WINDOW window] [TTL seconds | PXAT unix-time-milliseconds] [NX]`" in entry
    assert "| `WINDOW window` | integer from 1 to 1000000 |" in entry
    assert "- **Reply:** OK\n" in entry
    assert "- **Cost:** O(1), O(n) in the turns that a smaller window drops\n" in entry
    assert "- **Access:** write\n" in entry
    assert "A live session keeps its turns" in entry


def test_forms_of_arguments_that_differ() -> None:
    for name, syntax in (
        ("AMEM.SEM.RECALL", "agent k (number … | FP32 bytes | TEXT text) [THRESHOLD threshold]"),
        ("AMEM.SEARCH", "agent k (number … | FP32 bytes)"),
        ("AMEM.CONV.EXPIRE", "session (TTL seconds | PXAT unix-time-milliseconds | PERSIST)"),
        ("MSET", "(key value) …"),
        (
            "SET",
            "key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT",
        ),
        ("PEXPIREAT", "key unix-time-milliseconds [NX]"),
        ("PING", "[message]`"),
        ("HELLO", "[(2 | 3) [AUTH user password] [SETNAME name]]`"),
        ("AUTH", "[user] password`"),
        ("SHUTDOWN", "[[NOSAVE | SAVE] [NOW] [FORCE] | ABORT]`"),
        ("CONFIG GET", "pattern …"),
    ):
        assert f"\n`{name} {syntax}" in ENTRIES[name]
    assert "| `PERSIST` | no end any more |" in ENTRIES["AMEM.CONV.EXPIRE"]
    assert "| `key value` | 1 or more pairs: any bytes, any bytes |" in ENTRIES["MSET"]
    assert "| `increment` | integer |" in ENTRIES["INCRBY"]
    assert "|---" not in ENTRIES["MULTI"]
