"""Completion and the line of help, from what the server's COMMAND DOCS tells."""

from __future__ import annotations

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rig import Rig

from amemdb.cli.catalogue import Catalogue
from amemdb.cli.prompt import WordCompleter


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    rig = Rig()
    rig.session.resp3 = True
    return Catalogue.of(rig("COMMAND", "DOCS"))


def completed(catalogue: Catalogue, text: str) -> list[str]:
    completer = WordCompleter(lambda: catalogue)
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("name", "syntax"),
    [
        ("GET", "GET key"),
        (
            "AMEM.CONV.CREATE",
            "AMEM.CONV.CREATE session [WINDOW window] [TTL seconds | PXAT unix-time-milliseconds] [NX]",
        ),
        (
            "AMEM.CONV.APPEND",
            "AMEM.CONV.APPEND session system|user|assistant|tool content [ID id] [AT at-ms] [META meta]",
        ),
        ("MSET", "MSET key value [key value …]"),
        (
            "GETEX",
            "GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]",
        ),
        ("HELLO", "HELLO [(2 | 3) [AUTH user password] [SETNAME name]]"),
        ("CONFIG GET", "CONFIG GET pattern [pattern …]"),
        (
            "AMEM.SEM.RECALL",
            "AMEM.SEM.RECALL agent k (component [component …] | FP32 float32-bytes | TEXT text) [THRESHOLD threshold] "
            "[HYBRID hybrid] [FILTER filter] [EF ef] [WITHMETA] [EXPLAIN] [MODEL model]",
        ),
    ],
)
def test_syntax(catalogue, name, syntax):
    assert catalogue.commands[name].syntax == syntax


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("amem.work.g", ["AMEM.WORK.GET", "AMEM.WORK.GETALL"]),
        ("config g", ["CONFIG GET"]),
        ("CONFIG ", ["CONFIG GET", "CONFIG HELP", "CONFIG RESETSTAT", "CONFIG REWRITE", "CONFIG SET"]),
        ("amem.conv.append s ", ["system", "user", "assistant", "tool"]),
        ("amem.conv.append s a", ["assistant"]),
        ("amem.conv.append s user ", []),
        ("amem.conv.append s user hello ", ["ID", "AT", "META"]),
        ("amem.conv.append s user hello ID ", []),
        ("amem.conv.append s user hello ID 5 ", ["AT", "META"]),
        ("amem.conv.create s ttl 5 w", ["WINDOW"]),
        ("amem.conv.create s ttl 5 ", ["WINDOW", "NX"]),
        ("amem.sem.create a 3 metric ", ["cosine", "ip", "l2"]),
        ("amem.sem.recall a 3 ", ["FP32", "TEXT"]),
        ("amem.sem.recall a 3 0.1 0.2 with", ["WITHMETA"]),
        ("set k v ", ["NX", "XX", "GET", "EX", "PX", "EXAT", "PXAT", "KEEPTTL"]),
        ("nonsense ", []),
        ("he", ["HELLO", "help"]),
        ("help amem.conv.ap", ["AMEM.CONV.APPEND"]),
    ],
)
def test_completion(catalogue, text, words):
    found = completed(catalogue, text)
    assert sorted(found) == sorted(words)


def test_every_command_can_be_found_and_has_a_line(catalogue):
    for name, command in catalogue.commands.items():
        assert catalogue.find(name.lower().split()) == (command, [])
        assert command.summary
        assert command.syntax.startswith(name)
    assert "amem-conv" in catalogue.groups()


def test_of_a_server_that_tells_nothing_there_is_nothing():
    for reply in (None, [], Exception("NOAUTH"), {}):
        assert Catalogue.of(reply).commands == {}
    assert completed(Catalogue(), "amem.") == []
