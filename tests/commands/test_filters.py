"""The language of FILTER: what it says of a fact, what it refuses and where; short cuts change no verdict."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from amemdb.commands import filters
from amemdb.commands.filters import parse
from amemdb.errors import CommandError
from amemdb.limits import FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX
from amemdb.stores.semantic import Fact

META = {
    "year": 1999,
    "price": 9.5,
    "title": "Über den Wolken",
    "tag": "a",
    "tags": ["red", "blue", 7],
    "nested": {"deep": {"n": 1}, "odd name": "x", "a.b": 3},
    "draft": False,
    "live": True,
    "nothing": None,
    "empty": "",
    "none": [],
    "zero": 0,
    "huge": 2**63 + 1,
    "with-dash_1": 5,
    "and": 1,
}


def fact(meta: Any = META, key: bytes = b"inv:17", source: bytes | None = b"crm", **rest: Any) -> Fact:
    raw = meta if meta is None or isinstance(meta, bytes) else json.dumps(meta, ensure_ascii=False).encode()
    return (1, key, b"text", rest.get("expires", 0), source, rest.get("trusted", 1), raw, 1_700_000_000_000)


def passes(text: str | bytes, about: Fact | None = None) -> bool:
    return parse(text if isinstance(text, bytes) else text.encode()).passes(about or fact())


TRUE = [
    'source == "crm" and meta.price < 10 and meta.tag in ("a","b") and key ^= "inv:"',
    ".year > 1950",
    ".year>=1999 && .year<=1999",
    "1950 < .year",
    ".year == 1999.0",
    ".year != 2000",
    ".price == 9.5e0",
    ".price == 95e-1 and .price > .5",
    ".huge == 9223372036854775809",
    ".huge > 9223372036854775808 and .huge != 9223372036854775808",
    ".tag == 'a'",
    '.tag IN ["b", "a"] OR false == .live',
    '.tag not in ("b", "c")',
    '"red" in .tags',
    "7 in .tags and not 8 in .tags",
    '"green" not in .tags',
    '"Wolken" in .title',
    '.tag in "abc" and .tag not in "bcd"',
    '.title ^= "Über"',
    '.title == "\\Über den Wolken"',
    ".nested.deep.n == 1",
    "meta.nested.deep.n == 1 and meta.\"nested\".'deep'.n in (1)",
    '.nested."odd name" == "x"',
    '.nested."a.b" == 3',
    ".with-dash_1 == 5",
    ".and == 1 and.and == 1",
    ".live",
    ".live == true and .live == 1 and .draft == false and .draft == 0",
    "not .draft and !.draft and not not .live",
    "not (.draft or .zero or .empty or .none or .nothing or .missing)",
    ".nothing == null and .missing == null and null == .missing",
    ".year != null",
    "not (.missing == 1) and not (.missing != 1) and not (.missing < 1) and not (.missing in (1))",
    "not (.missing not in (1)) and not (1 not in .missing) and not (.missing ^= 'a')",
    "not (.nothing != 1) and not (.missing != null)",
    "not (.year < null) and not (null ^= .title)",
    'not (.year == "1999") and .year != "1999"',
    'not (.year < "2000") and not (.title < 5) and not (.tags < 5) and not (.tags < .tags)',
    ".tags == .tags and not (.tags != .tags) and .tags != .none",
    "not (.nested in (1)) and .nested not in (1)",
    ".year.deeper == null and .tags.deeper == null",
    'trust == "trusted" and trust != "untrusted"',
    "stored_at == 1700000000000 and stored_at < 1700000000001",
    "expires_at == null and not (expires_at > 0)",
    'key == "inv:17" and key > "inv:1" and "inv" in key and key in ("inv:17")',
    ".tag == 'a' or .tag == 'b' and .tag == 'c'",
    "not .draft and .live",
    "((((.live))))",
    "  .live\t\n",
    ".year > -1 and .year > -.5",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_filter_passes_what_it_describes_and_its_opposite_does_not(text: str) -> None:
    assert passes(text)
    assert not passes(f"not ({text})")
    assert parse(text.encode()).verdicts([fact(), fact()]) == [True, True]


def test_what_a_fact_has_not_is_no_value() -> None:
    bare = fact(None, source=None, trusted=None, expires=5)
    assert passes("source == null and trust == null and .a == null and expires_at == 5", bare)
    assert passes("expires_at <= 5 and not (source != 'crm') and not (trust in ('trusted', 'untrusted'))", bare)
    assert not passes(".a", bare)
    assert not passes(".a != 1", bare)
    assert passes('trust == "untrusted"', fact(trusted=0))


def test_names_are_read_as_utf8_and_what_is_none_is_kept() -> None:
    assert passes(b'key ^= "\xff\xfe"', fact(key=b"\xff\xfe\xfd"))
    assert not passes(b'key ^= "\xff\xff"', fact(key=b"\xff\xfe\xfd"))
    assert passes('source == "é"', fact(source="é".encode()))
    assert not passes(b'.a == "\xff"', fact({"a": "x"}))


@pytest.mark.parametrize("raw", [b'{"\\u0074ag":"a"}', b'{"tag":"\\u0061"}', b'{"tag":"a","x":"\\\\"}'])
def test_a_meta_that_spells_with_escapes_is_the_same(raw: bytes) -> None:
    assert passes('.tag == "a"', fact(raw))
    assert passes(".tag", fact(raw))


def test_a_text_that_needs_escapes_is_found() -> None:
    for text in ('say "hi"', "back\\slash", "line\nbreak", "tab\t", "sl/ash", "\u2028", "\x7f"):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        for raw in (json.dumps({"a": text}), json.dumps({"a": text}, ensure_ascii=False).replace("/", "\\/")):
            assert passes(f'.a == "{quoted}"', fact(raw.encode()))
            assert not passes(f'.a == "{quoted}!"', fact(raw.encode()))


def test_the_last_of_two_members_of_one_name_counts() -> None:
    assert passes(".a == 2 and not (.a == 1)", fact(b'{"a":1,"a":2}'))


def test_meta_that_is_none_has_no_members() -> None:
    """Nothing that STORE takes; what an old log or another's holds must not end a recall."""
    for raw in (b"", b"{", b"\xff", b"[1]", b"1", b"[" * 100_000):
        assert passes(".a == null", fact(raw))
        assert not passes(".a", fact(raw))


ERRORS = {
    "": "expected a member of the fact or a value, 'not' or '(' at character 1, got the end",
    "year > 5": "expected a member of the fact or a value, 'not' or '(' at character 1, got 'year'",
    ".a = 1": "expected '==' (one '=' is no comparison) at character 4, got '= 1'",
    ".a ==": "expected a member of the fact or a value at character 6, got the end",
    ".a == and": "expected a member of the fact or a value at character 7, got 'and'",
    "(.a == 1": "expected ')', 'and' or 'or' at character 9, got the end",
    ".a == 1 )": "expected 'and', 'or' or the end at character 9, got ')'",
    ".a == 1 .b": "expected 'and', 'or' or the end at character 9, got '.b'",
    ".a < 1 < 2": "expected 'and', 'or' or the end at character 8, got '<'",
    ".a in ()": "expected a text, a number, true or false at character 8, got ')'",
    ".a in (1 2)": "expected ',' or ')' at character 10, got '2'",
    ".a in [1)": "expected ',' or ']' at character 9, got ')'",
    ".a in (.b)": "expected a text, a number, true or false at character 8, got '.b'",
    ".a in (1, null)": "expected a text, a number, true or false at character 11, got 'null'",
    ".a in 5": "expected '(' and values, a member or a text at character 7, got '5'",
    ".a not 5": "expected 'in' at character 8, got '5'",
    "5": "expected a comparison at character 2, got the end",
    "true and .a": "expected a comparison at character 6, got 'and'",
    '.a == "x': "expected a text that ends at character 7, got '\"x'",
    ".a == 'x\\'": "expected a text that ends at character 7, got ''x\\''",
    ".a == 1e999": "expected a finite number at character 7, got '1e999'",
    ".a == 01x": "expected a member, a value or an operator at character 7, got '01x'",
    ".a == +1": "expected a member, a value or an operator at character 7, got '+1'",
    ".a + 1 == 2": "expected a member, a value or an operator at character 4, got '+ 1 == 2'",
    "meta == 1": "expected a member of the fact or a value, 'not' or '(' at character 1, got 'meta'",
    "key.x == 1": "expected 'and', 'or' or the end at character 4, got '.x'",
    ".a == 1 and ": "expected a member of the fact or a value, 'not' or '(' at character 13, got the end",
    "not": "expected a member of the fact or a value, 'not' or '(' at character 4, got the end",
    ". a": "expected a member, a value or an operator at character 1, got '. a'",
    "@\r\n\x00": "expected a member, a value or an operator at character 1, got '@???'",
}


@pytest.mark.parametrize("text", ERRORS)
def test_a_refusal_says_where_and_what_was_expected(text: str) -> None:
    with pytest.raises(CommandError) as told:
        parse(text.encode())
    assert told.value.message == "filter: " + ERRORS[text]


def test_a_refused_filter_is_shown_cut_and_on_one_line() -> None:
    with pytest.raises(CommandError) as told:
        parse(b"." + b"@" * 4000)
    assert len(told.value.message) < 150
    assert told.value.line.count(b"\n") == 1


def test_length_depth_and_terms_have_bounds() -> None:
    longest = ".a == 1".ljust(FILTER_BYTES_MAX)
    assert not passes(longest)
    with pytest.raises(CommandError, match=f"at most {FILTER_BYTES_MAX} bytes long, got {FILTER_BYTES_MAX + 1}"):
        parse(longest.encode() + b" ")
    for opening, closing, levels in (("(", ")", 1), ("not ", "", 1), ("!(", ")", 2)):
        depth = FILTER_DEPTH_MAX // levels
        assert passes(opening * depth + ".live" + closing * depth)
        with pytest.raises(CommandError, match="levels deep at character"):
            parse((opening * (depth + 1) + ".live" + closing * (depth + 1)).encode())
    terms = " or ".join([".live"] * FILTER_TERMS_MAX)
    assert passes(terms)
    with pytest.raises(CommandError, match=f"more than {FILTER_TERMS_MAX} comparisons at character"):
        parse((terms + " or .live").encode())
    assert passes(f".year in ({','.join(map(str, range(1200, 2000)))})")


def test_a_filter_is_read_once() -> None:
    assert parse(b".once == 1") is parse(b".once == 1")


# -- verdicts of random filters -------------------------------------------------------------------------

VALUES: list[Any] = [None, True, False, 0, 1, 2, 2.5, -1, "", "a", "b", "ab", "\\", "é", [], ["a", 1], {"a": 1}]


def literal(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return json.dumps(value)


class Chance:
    """Random metas and filters, each filter with a function that says in plain Python what it means."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def meta(self) -> dict[str, Any]:
        pick = self.random.choice
        return {name: pick(VALUES) for name in "abc" if self.random.random() < 0.7} | {"d": {"a": pick(VALUES)}}

    def operand(self) -> tuple[str, Any]:
        if self.random.random() < 0.5:
            value = self.random.choice([value for value in VALUES if not isinstance(value, list | dict)])
            return literal(value), lambda meta: value
        name = self.random.choice(["a", "b", "c", "missing"])
        if self.random.random() < 0.2:
            return f".d.{name}", lambda meta: meta["d"].get(name)
        return f".{name}", lambda meta: meta.get(name)

    def term(self) -> tuple[str, Any]:
        (left, a), (right, b) = self.operand(), self.operand()
        sign = self.random.choice(["==", "==", "!=", "<", "<=", ">", ">=", "^=", "in"])
        if sign == "in":
            values = [value for value in self.random.choices(VALUES, k=3) if isinstance(value, str | int | float)]
            texts = ", ".join(map(literal, values))
            if values and self.random.random() < 0.7:
                return f"{left} in ({texts})", lambda meta: a(meta) is not None and a(meta) in values
            return f"{left} in .a", lambda meta: contained(a(meta), meta.get("a"))
        null = (left == "null") + (right == "null")
        return f"{left} {sign} {right}", lambda meta: holds(a(meta), sign, b(meta), null)

    def filter(self, depth: int) -> tuple[str, Any]:
        act = self.random.random()
        if depth == 0 or act < 0.2:
            return self.term()
        (left, f), (right, g) = self.filter(depth - 1), self.filter(depth - 1)
        if act < 0.4:
            return f"not ({left})", lambda meta: not f(meta)
        if act < 0.7:
            return f"({left}) and ({right})", lambda meta: f(meta) and g(meta)
        return f"({left}) or ({right})", lambda meta: f(meta) or g(meta)


def contained(value: Any, within: Any) -> bool:
    if value is None or within is None:
        return False
    if isinstance(within, list):
        return value in within
    return isinstance(value, str) and isinstance(within, str) and value in within


def holds(a: Any, sign: str, b: Any, null: int) -> bool:
    if null:
        value = a if b is None else b
        return (value is None) == (sign == "==") if sign in ("==", "!=") else False
    if a is None or b is None:
        return False
    if sign in ("==", "!="):
        return (a == b) == (sign == "==")
    if sign == "^=":
        return isinstance(a, str) and isinstance(b, str) and a.startswith(b)
    texts = isinstance(a, str) and isinstance(b, str)
    if not texts and (isinstance(a, str | list | dict) or isinstance(b, str | list | dict)):
        return False
    order = (a > b) - (a < b)
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


@pytest.mark.parametrize("seed", range(6))
def test_random_filters_say_what_plain_python_says(seed: int) -> None:
    chance = Chance(seed)
    verdicts = [0, 0]
    for _ in range(150):
        text, meaning = chance.filter(3)
        compiled = filters.parse.__wrapped__(text.encode())
        for _ in range(8):
            meta = chance.meta()
            ascii_only = chance.random.random() < 0.5
            about = fact(json.dumps(meta, ensure_ascii=ascii_only).encode())
            expected = bool(meaning(meta))
            assert compiled.passes(about) == expected, (text, meta)
            verdicts[expected] += 1
    assert min(verdicts) > 100
