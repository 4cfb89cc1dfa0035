"""Export, and import of what was exported into an empty server: equal objects, whatever they hold."""

from __future__ import annotations

import io
import json
import struct
from random import Random
from typing import Any

import hiredis
import pytest
from rig import START_MS, Rig

from amemdb.client.exporter import export, line_of, meta_of
from amemdb.client.import_format import KINDS, parse_line
from amemdb.client.importer import Totals, check_file, import_file

WORDS = [
    b"plain",
    "höy 🙂".encode(),
    "e\u0301".encode(),
    b"\xff\x00\xfe",
    b"",
    b'a"b\\c\r\nd\0',
    "\u2028\ufeff".encode(),
]
METAS = [
    None,
    b"{}",
    b'{"n":1}',
    b'{ "n" : 1.50 }',
    b'{"a":1,"a":2}',
    b'{"base64":"AA=="}',
    b'{"x":1e400}',
    '{"é":[]}'.encode(),
]
PATTERNS = [0, 0x80000000, 1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x00800000, 0x007FFFFF, 0x3EAAAAAB, 0x3F800001]


class Client:
    """A client of RESP3 to a rig, as the exporter and the importer use one."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.rig.session.resp3 = True
        self.sent: list[tuple[Any, ...]] = []

    def execute_command(self, *argv: Any) -> Any:
        self.sent.append(argv)
        reply = self.rig(*argv)
        if isinstance(reply, hiredis.ReplyError):
            import redis

            raise redis.ResponseError(str(reply))
        return reply

    def pipeline(self, transaction: bool) -> Pipeline:
        return Pipeline(self.rig, transaction)


class Pipeline:
    def __init__(self, rig: Rig, transaction: bool) -> None:
        self.rig, self.transaction = rig, transaction
        self.queue: list[tuple[Any, ...]] = []

    def execute_command(self, *argv: Any) -> None:
        self.queue.append(argv)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        assert not raise_on_error
        queue, self.queue = self.queue, []
        if not self.transaction:
            return [self.rig(*argv) for argv in queue]
        self.rig("MULTI")
        assert [self.rig(*argv) for argv in queue] == [b"QUEUED"] * len(queue)
        replies: list[Any] = self.rig("EXEC")
        return replies


def exported(rig: Rig, pattern: bytes | None = None) -> bytes:
    lines: list[bytes] = []
    problems: list[str] = []
    totals = export(Client(rig), lines.append, pattern, problems.append)
    assert (problems, totals.left_out) == ([], 0)
    assert totals.lines == len(lines) - 2
    return b"".join(lines)


def attempt(data: bytes, rig: Rig) -> tuple[Totals, list[tuple[int, str]]]:
    problems: list[tuple[int, str]] = []

    def told(number: int, reason: str) -> None:
        problems.append((number, reason))

    return import_file(io.BytesIO(data), Pipeline(rig, False), 100, told, lambda position: None), problems


def imported(data: bytes, now_ms: int) -> Rig:
    rig = Rig(start_ms=now_ms)
    totals, problems = attempt(data, rig)
    assert (problems, totals.skipped) == ([], 0)
    return rig


def objects(rig: Rig) -> dict[str, Any]:
    """Everything that a client can ask for, but for what an import cannot make again."""
    stores, now_ms = rig.stores, rig.now_ms
    told: dict[str, Any] = {}
    for name, conversation in stores.conv.sessions.items():
        if 0 < conversation.expire_at_ms <= now_ms:
            continue
        turns = [{**turn, b"seq": 0} for turn in rig("AMEM.CONV.GET", name, "WITHMETA")]
        notes = {key: stores.work.live(name, key, now_ms) for key in rig("AMEM.WORK.LIST", name)}
        told[f"session {name!r}"] = (conversation.window, conversation.expire_at_ms, turns, notes)
    for name, namespace in stores.sem.namespaces.items():
        keys = rig("AMEM.SEM.LIST", name)
        facts = [
            (fact[1:3], namespace.vector(fact).tobytes(), fact[4:7], fact[7 - 1])
            for fact in (namespace.live(key, now_ms) for key in keys)
        ]
        told[f"namespace {name!r}"] = (namespace.dim, namespace.metric, namespace.settings, keys, facts)
    for name, log in stores.epis.logs.items():
        events = rig("AMEM.EPIS.PAGE", name, 0, "COUNT", 10_000, "WITHMETA")[1]
        told[f"events {name!r}"] = (log.maxlen, log.maxage_ms, events)
    for name in stores.summary.summaries:
        told[f"summary {name!r}"] = [entry[b"text"] for entry in rig("AMEM.SUMMARY.HISTORY", name)]
    return told


def some_memory(seed: int) -> Rig:
    """Random objects of every kind with awkward contents, some of them dead already."""
    rig, random = Rig(seed=seed), Random(seed)
    rig.session.resp3 = True

    def expiry() -> list[Any]:
        return random.choice(
            [[], [], ["PXAT", START_MS + random.randint(-5, 10_000_000)], ["TTL", random.randint(1, 9999)]]
        )

    def maybe(word: str, values: list[Any]) -> list[Any]:
        value = random.choice(values)
        return [] if value is None else [word, value]

    def name() -> bytes:
        return random.choice(WORDS) or b"n" * 1024

    for _ in range(120):
        rig.advance_ms(random.randint(0, 50))
        session, agent = name(), name()
        rig("AMEM.CONV.CREATE", session, "WINDOW", random.randint(1, 9), *expiry())
        rig(
            "AMEM.CONV.APPEND",
            session,
            random.choice(["user", "TOOL"]),
            random.choice(WORDS),
            *maybe("META", METAS),
            *maybe("ID", [None, b"i", b"\xff"]),
            *maybe("AT", [None, 0, START_MS + 7]),
        )
        rig("AMEM.WORK.SET", session, name(), random.choice(WORDS), *expiry())
        dim = 1 + len(agent) % 7
        settings = [(), ("MAXFACTS", 99, "MODEL", agent, "LANG", "de", "M", 8, "EF_SEARCH", 7, "EF_CONSTRUCTION", 6)]
        rig("AMEM.SEM.CREATE", agent, dim, "METRIC", ["ip", "l2"][len(agent) % 2], *settings[len(agent) % 2])
        vector = struct.pack(f"<{dim}I", *random.choices(PATTERNS, k=dim))
        rig(
            "AMEM.SEM.STORE",
            agent,
            name(),
            random.choice(WORDS),
            "FP32",
            vector,
            *expiry(),
            *maybe("SOURCE", [None, *WORDS]),
            *maybe("TRUST", [None, "trusted", "untrusted"]),
            *maybe("META", METAS),
        )
        rig(
            "AMEM.EPIS.LOG",
            agent,
            name(),
            random.choice(WORDS),
            *maybe("METADATA", [None, *WORDS, *METAS]),
            *maybe("AT", [None, 0, START_MS - 3]),
            *maybe("ID", [None, b"e", b"\xff\xff", b"%d" % random.randint(0, 99)]),
        )
        if random.random() < 0.1:
            rig("AMEM.EPIS.RETAIN", agent, *maybe("MAXLEN", [None, 5]), *maybe("MAXAGE", [None, 1, 1_000_000]))
        rig("AMEM.SUMMARY.SET" if random.random() < 0.3 else "AMEM.SUMMARY.APPEND", agent, random.choice(WORDS))
    return rig  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_what_is_imported_again_is_equal(seed: int) -> None:
    before = some_memory(seed)
    data = exported(before)
    problems: list[Any] = []
    assert check_file(io.BytesIO(data), lambda *problem: problems.append(problem), lambda position: None) == 0
    after = imported(data, before.now_ms)
    after.session.resp3 = True
    assert objects(after) == objects(before)
    assert exported(after) == data


def test_nothing_dead_is_exported_and_nothing_is_revived() -> None:
    rig = Rig()
    rig("AMEM.CONV.CREATE", "gone", "TTL", 1)
    rig("AMEM.CONV.CREATE", "s", "TTL", 10)
    rig("AMEM.WORK.SET", "s", "old", "SECRET", "TTL", 1)
    rig("AMEM.WORK.SET", "s", "new", "v", "TTL", 5)
    rig("AMEM.SEM.CREATE", "a", 1)
    rig("AMEM.SEM.STORE", "a", "old", "SECRET", 1, "TTL", 1)
    rig("AMEM.EPIS.LOG", "a", "t", "SECRET", "AT", START_MS - 5000)
    rig("AMEM.EPIS.RETAIN", "a", "MAXAGE", 5)
    rig.advance_ms(1500)
    data = exported(rig)
    assert b"SECRET" not in data
    assert b"gone" not in data
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line["kind"] for line in lines] == ["begin", "session", "note", "namespace", "retention", "end"]
    assert lines[1]["expire_at_ms"] == START_MS + 10_000
    assert lines[2]["expire_at_ms"] == START_MS + 5_000
    later = imported(data, START_MS + 6_000)
    assert later("AMEM.WORK.LIST", "s") == []
    assert (
        later("AMEM.CONV.INFO", "s")[9 if isinstance(later("AMEM.CONV.INFO", "s"), list) else b"expires_at"]
        == START_MS + 10_000
    )


def test_a_pattern_chooses_sessions_and_agents() -> None:
    rig = Rig()
    for name in ("acme:1", "other"):
        rig("AMEM.CONV.CREATE", name)
        rig("AMEM.SEM.CREATE", name, 1)
        rig("AMEM.EPIS.LOG", name, "t", "c")
        rig("AMEM.SUMMARY.SET", name, "text")
    data = exported(rig, b"acme:*")
    assert b"other" not in data
    assert len(data.splitlines()) == 6


def test_many_names_facts_and_events_are_all_there() -> None:
    rig = Rig()
    rig("AMEM.SEM.CREATE", "a", 2)
    for number in range(2600):
        rig("AMEM.CONV.CREATE", f"s{number}")
        rig("AMEM.SEM.STORE", "a", f"k{number}", "c", number + 1, 2)
        rig("AMEM.EPIS.LOG", "a", "t", f"{number}", "AT", number // 7)
    data = exported(rig)
    assert json.loads(data.splitlines()[-1]) == {
        "kind": "end",
        "lines": 7801,
        "counts": {"session": 2600, "namespace": 1, "fact": 2600, "event": 2600},
    }
    contents = [json.loads(line)["content"] for line in data.splitlines() if b'"event"' in line[:20]]
    assert contents == [str(number) for number in range(2600)]


def test_an_id_that_came_again_long_after_does_not_lose_its_event() -> None:
    rig = Rig()
    rig("AMEM.EPIS.LOG", "a", "t", "first", "AT", 5, "ID", "x")
    for number in range(1000):
        rig("AMEM.EPIS.LOG", "a", "t", f"{number}", "AT", 100)
    rig("AMEM.EPIS.LOG", "a", "t", "again", "AT", 6, "ID", "x")
    after = imported(exported(rig), rig.now_ms)
    assert after("AMEM.EPIS.STATS", "a")[1] == 1002


def test_a_part_of_an_export_does_not_pass_for_the_whole() -> None:
    rig = Rig()
    rig("AMEM.CONV.CREATE", "s")
    rig("AMEM.CONV.APPEND", "s", "user", "x")
    whole = exported(rig).splitlines(keepends=True)
    for lines, said in (
        (whole[:-1], "ends here without its last line"),
        ([whole[0], whole[1], whole[3]], "lines: 2 were exported, and 1 came before"),
    ):
        data = b"".join(lines)
        totals, problems = attempt(data, Rig())
        assert totals.skipped == 1
        assert said in problems[0][1]
        assert check_file(io.BytesIO(data), lambda *problem: None, lambda position: None) == 1
    assert check_file(io.BytesIO(b"".join(whole + whole)), lambda *problem: None, lambda position: None) == 0


def test_a_file_of_a_later_version_is_refused() -> None:
    data = b'{"kind":"begin","version":2}\n{"kind":"end","lines":0}\n'
    _, problems = attempt(data, Rig())
    assert "version: expected an integer from 1 to 1" in problems[0][1]
    assert check_file(io.BytesIO(data), lambda *problem: None, lambda position: None) > 0


def test_what_makes_too_long_a_line_is_told_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amemdb.client.exporter.LINE_BYTES_MAX", 200)
    rig = Rig()
    rig("AMEM.CONV.CREATE", "s")
    rig("AMEM.CONV.APPEND", "s", "user", "x" * 300)
    rig("AMEM.CONV.APPEND", "s", "user", "short")
    problems: list[str] = []
    lines: list[bytes] = []
    totals = export(Client(rig), lines.append, None, problems.append)
    assert totals.left_out == len(problems) == 1
    assert "a turn of session 's' makes a line of" in problems[0]
    assert check_file(io.BytesIO(b"".join(lines)), lambda *problem: None, lambda position: None) == 0


def test_metadata_that_is_an_object_is_shown_as_one() -> None:
    assert meta_of(b'{"n":[1,"x"]}') == {"n": [1, "x"]}
    for exact in METAS[1:]:
        assert exact is not None
        line = line_of({"kind": "turn", "session": "s", "role": "user", "content": "", "meta": meta_of(exact)})
        assert parse_line(line)[1][-1] == exact


def test_every_kind_of_the_format_is_exported() -> None:
    kinds: set[str] = set()
    for seed in range(3):
        kinds |= {json.loads(line)["kind"] for line in exported(some_memory(seed)).splitlines()}
    assert kinds == set(KINDS)
