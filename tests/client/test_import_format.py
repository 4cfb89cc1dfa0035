"""Lines of the import format: the command each becomes, and how each kind of mistake is told."""

import base64
import json
import struct
from typing import Any

import pytest

from amemdb.client.import_format import KINDS, LineError, parse_line
from amemdb.limits import TTL_SECONDS_MAX


def parse(**fields: Any) -> list[bytes]:
    return parse_line(json.dumps(fields).encode())[1]


def mistake(line: bytes | str | dict[str, Any]) -> str:
    data = json.dumps(line) if isinstance(line, dict) else line
    with pytest.raises(LineError) as caught:
        parse_line(data.encode() if isinstance(data, str) else data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


TURN = {"kind": "turn", "session": "s", "role": "user", "content": "hello"}
FACT = {"kind": "fact", "agent": "a", "key": "k", "content": "c", "vector": [1, -0.5]}
SECONDS = f"a whole number of seconds from 1 to {TTL_SECONDS_MAX}"


# -- what a line becomes -------------------------------------------------------------------------------


def test_session():
    assert parse(kind="session", session="s") == [b"AMEM.CONV.CREATE", b"s"]
    assert parse(kind="session", session="s", window=5, ttl=60) == b"AMEM.CONV.CREATE s WINDOW 5 TTL 60".split()
    assert parse(kind="session", session="s", expire_at_ms=99) == b"AMEM.CONV.CREATE s PXAT 99".split()


def test_namespace():
    assert parse(kind="namespace", agent="a", dim=3) == b"AMEM.SEM.CREATE a 3".split()
    assert parse(kind="namespace", agent="a", dim=3, metric="L2") == b"AMEM.SEM.CREATE a 3 METRIC l2".split()
    settings = {
        "m": 16,
        "ef_construction": 9,
        "ef_search": 8,
        "quant": "F16",
        "maxfacts": 7,
        "model": "x",
        "lang": "en",
    }
    expected = b"AMEM.SEM.CREATE a 3 M 16 EF_CONSTRUCTION 9 EF_SEARCH 8 QUANT f16 MAXFACTS 7 MODEL x LANG en"
    assert parse(kind="namespace", agent="a", dim=3, **settings) == expected.split()


def test_turn():
    assert parse(**TURN) == b"AMEM.CONV.APPEND s user hello".split()
    full = parse(**{**TURN, "role": "Tool"}, id="t1", at=1700000000000, meta={"n": [1, "é"]})
    assert full == [*b"AMEM.CONV.APPEND s tool hello ID t1 AT 1700000000000 META".split(), '{"n":[1,"é"]}'.encode()]


def test_fact():
    vector = struct.pack("<2f", 1, -0.5)
    assert parse(**FACT) == [*b"AMEM.SEM.STORE a k c FP32".split(), vector]
    full = parse(**FACT, expire_at_ms=7, source="mail", trust="untrusted", meta={})
    assert full == [
        *b"AMEM.SEM.STORE a k c FP32".split(),
        vector,
        *b"PXAT 7 SOURCE mail TRUST untrusted META {}".split(),
    ]


def test_note():
    expected = b"AMEM.WORK.SET s step three TTL 5".split()
    assert parse(kind="note", session="s", key="step", content="three", ttl=5) == expected
    assert parse(kind="note", session="s", key="step", value="three", ttl=5) == expected


def test_event():
    assert parse(kind="event", agent="a", type="action", content="c") == b"AMEM.EPIS.LOG a action c".split()
    full = parse(kind="event", agent="a", type="action", content="c", metadata="m", at=5, id="e1")
    assert full == b"AMEM.EPIS.LOG a action c METADATA m AT 5 ID e1".split()
    assert parse(kind="event", agent="a", type="t", content="c", meta={"n": 1})[-1] == b'{"n":1}'


def test_summary():
    assert parse(kind="summary", agent="a", content="so far") == [b"AMEM.SUMMARY.SET", b"a", b"so far"]


def test_text_is_utf8_and_never_normalised():
    texts = ["", "é", "e\u0301", "🙂", "\u2028", "a\r\nb\0c", "日本"]
    for text in texts:
        assert parse(**{**TURN, "content": text})[3] == text.encode()


def test_bytes_travel_as_base64():
    data = bytes(range(256))
    wrapped = {"base64": base64.b64encode(data).decode()}
    assert parse(**{**TURN, "content": wrapped})[3] == data
    assert parse(kind="note", session=wrapped, key=wrapped, content="")[1:3] == [data, data]
    assert parse(kind="event", agent="a", type="t", content="c", metadata=wrapped)[-1] == data


def test_a_vector_may_be_its_bytes():
    data = struct.pack("<3f", 1, 2, 3)
    assert parse(**{**FACT, "vector": {"base64": base64.b64encode(data).decode()}})[5] == data


def test_null_is_not_given():
    assert parse(**TURN, id=None, at=None, meta=None) == parse(**TURN)
    assert mistake({**TURN, "content": None}) == "content: missing, a turn needs it"


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_needs_is_what_a_line_may_not_lack(kind):
    values: dict[str, Any] = {"dim": 2, "role": "user", "vector": [1, 2], "version": 1, "lines": 0}
    needed = {field.name: values.get(field.name, "x") for field in KINDS[kind].fields if field.required}
    assert parse(kind=kind, **needed)[0] == KINDS[kind].command
    for name in needed:
        lacking = {other: value for other, value in needed.items() if other != name}
        assert mistake({"kind": kind, **lacking}) == f"{name}: missing, a {kind} needs it"


# -- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "expected a JSON object: Expecting property name"),
        ("hello", "expected a JSON object: Expecting value"),
        ("[]", "expected a JSON object, got a list"),
        ("3", "expected a JSON object, got 3"),
        ('{"kind":"turn"} {"kind":"turn"}', "expected a JSON object: Extra data"),
        (b'{"kind":"turn","session":"\xff"}', "expected UTF-8, byte 27 is not"),
        ('{"kind":"turn","kind":"fact"}', "kind: given twice"),
        ('{"kind":"fact","vector":[NaN]}', "expected a JSON object: NaN is not a number of JSON"),
        ('{"kind":"fact","vector":[-Infinity]}', "expected a JSON object: -Infinity is not"),
        ('{"kind":"session","window":' + "9" * 5000 + "}", "expected a JSON object: "),
        ("[" * 100_000, "expected a JSON object: "),
        ("{}", "kind: expected session, namespace, turn, fact, note, event, retention or summary, got nothing"),
        (
            '{"kind":["turn"]}',
            "kind: expected session, namespace, turn, fact, note, event, retention or summary, got ",
        ),
        ('{"kind":"Turn"}', 'kind: expected session, namespace, turn, fact, note, event, retention or summary, got "T'),
    ],
)
def test_what_is_no_line_of_the_format(line, told):
    assert mistake(line).startswith(told)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({**TURN, "contnet": "x"}, "contnet: no field of a turn, which has session, role, content, id, at, meta"),
        ({**TURN, "ttl": 5}, "ttl: no field of a turn"),
        ({**TURN, "a\nb": 5}, "a?b: no field of a turn"),
        ({**TURN, "role": "bot"}, 'role: expected system, user, assistant or tool, got "bot"'),
        ({**TURN, "role": 1}, "role: expected system, user, assistant or tool, got 1"),
        ({**TURN, "content": 5}, 'content: expected text, or {"base64": "…"}, got 5'),
        ({**TURN, "content": {"text": "x"}}, "content: expected text"),
        ({**TURN, "content": "\ud800"}, "content: expected text of whole characters"),
        ({**TURN, "content": {"base64": "a"}}, "content: expected base64 text"),
        ({**TURN, "content": {"base64": "Zm9v\n"}}, "content: expected base64 text"),
        ({**TURN, "content": {"base64": "é"}}, "content: expected base64 text"),
        ({**TURN, "content": {"base64": 5}}, "content: expected base64 text"),
        ({**TURN, "session": ""}, "session: expected 1 to 1024 bytes, got 0"),
        ({**TURN, "session": "é" * 513}, "session: expected 1 to 1024 bytes, got 1026"),
        ({**TURN, "id": ""}, "id: expected 1 to 1024 bytes, got 0"),
        (
            {**TURN, "at": "2024-01-01"},
            'at: expected a whole number of Unix milliseconds of at least 0, got "2024-01-01"',
        ),
        ({**TURN, "at": 1.5}, "at: expected a whole number of Unix milliseconds of at least 0, got 1.5"),
        ({**TURN, "at": True}, "at: expected a whole number of Unix milliseconds of at least 0, got true"),
        ({**TURN, "at": -1}, "at: expected a whole number of Unix milliseconds of at least 0, got -1"),
        ({**TURN, "at": 2**63}, "at: expected a whole number of Unix milliseconds of at least 0"),
        ({**TURN, "meta": "[]"}, 'meta: expected a JSON object, or the text of one, got "[]"'),
        ({**TURN, "meta": "{"}, 'meta: expected a JSON object, or the text of one, got "{"'),
        ({**TURN, "meta": '{"a":NaN}'}, "meta: expected a JSON object, or the text of one, got"),
        ({**TURN, "meta": [1]}, "meta: expected a JSON object"),
        ({**TURN, "meta": {"x": "y" * 70_000}}, "meta: expected a JSON object of at most 65536 bytes"),
        ({**TURN, "meta": {"x": "\ud800"}}, "meta: expected text of whole characters"),
        ({"kind": "session", "session": "s", "ttl": 0}, f"ttl: expected {SECONDS}, got 0"),
        ({"kind": "session", "session": "s", "ttl": 1.0}, f"ttl: expected {SECONDS}, got 1.0"),
        ({"kind": "session", "session": "s", "ttl": "1h"}, f'ttl: expected {SECONDS}, got "1h"'),
        ({"kind": "session", "session": "s", "ttl": TTL_SECONDS_MAX + 1}, f"ttl: expected {SECONDS}"),
        ({"kind": "retention", "agent": "a", "maxage": "30d"}, f'maxage: expected {SECONDS}, got "30d"'),
        ({"kind": "session", "session": "s", "expire_at_ms": 0}, "expire_at_ms: expected a whole number of Unix"),
        ({"kind": "session", "session": "s", "expire_at_ms": -1}, "expire_at_ms: expected a whole number of Unix"),
        ({"kind": "session", "session": "s", "ttl": 1, "expire_at_ms": 2}, "ttl: excludes expire_at_ms"),
        ({"kind": "session", "session": "s", "window": 0}, "window: expected an integer from 1 to 1000000, got 0"),
        ({"kind": "namespace", "agent": "a", "dim": "3"}, 'dim: expected an integer from 1 to 65536, got "3"'),
        ({"kind": "namespace", "agent": "a", "dim": 3, "metric": "dot"}, "metric: expected cosine, ip or l2"),
        ({"kind": "note", "session": "s", "key": "k", "content": "a", "value": "b"}, "value: is another word for"),
        ({"kind": "note", "session": "s", "key": "k", "value": 5}, "value: expected text"),
        ({**FACT, "trust": True}, "trust: expected trusted or untrusted, got true"),
    ],
)
def test_a_wrong_field_is_named(line, told):
    assert mistake(line).startswith(told)


@pytest.mark.parametrize(
    ("vector", "told"),
    [
        ([], "a list of numbers"),
        ([1, "2"], "a list of numbers"),
        ([1, True], "a list of numbers"),
        ([1, None], "a list of numbers"),
        ([[1, 2]], "a list of numbers"),
        ("1 2", "a list of numbers"),
        ([1, 1e39], "numbers within the range of float32"),
        ([1, 10**400], "numbers within the range of float32"),
        ([0] * 65_537, "at most 65536 numbers, got 65537"),
        ({"base64": ""}, "float32 values in base64"),
        ({"base64": "AAAAAAA="}, "float32 values in base64, 4 bytes each, got 5 bytes"),
        ({"base64": base64.b64encode(struct.pack("<2f", 1, float("nan"))).decode()}, "finite numbers"),
    ],
)
def test_a_vector_is_finite_float32(vector, told):
    assert mistake({**FACT, "vector": vector}).startswith(f"vector: expected {told}")


def test_a_number_too_large_for_any_float_is_no_vector():
    line = json.dumps(FACT).replace("-0.5", "1e999")
    assert mistake(line) == "vector: expected finite numbers"
    line = json.dumps(TURN).replace('"hello"', '"hello", "meta": {"x": 1e999}')
    assert mistake(line).startswith("meta: expected a JSON object of finite numbers")


def test_a_line_with_very_many_fields_costs_no_more_than_it_is_long():
    names = ",".join(f'"f{index}":1' for index in range(200_000))
    assert mistake("{" + names + ',"f0":1}') == "f0: given twice"
