"""FILTER of a recall: the little language in which a caller says which facts may be found.

Grammar
-------
::

    filter   = both { ("or" | "||") both }
    both     = single { ("and" | "&&") single }
    single   = ("not" | "!") single | "(" filter ")" | operand [ test ]
    test     = ("==" | "!=" | "<" | "<=" | ">" | ">=" | "^=") operand
             | ["not"] "in" ( "(" literal {"," literal} ")" | "[" literal {"," literal} "]" | member | text )
    operand  = member | literal
    member   = "key" | "source" | "trust" | "stored_at" | "expires_at" | ["meta"] "." name { "." name }
    name     = a letter or "_", then letters, digits, "_", "-"; or anything in quotes
    literal  = "text" | 'text' | number | "true" | "false" | "null"

`.year` is `meta.year`, as Redis writes it. Words of the language are read in any case, names are not. In a text `\\`
makes the character behind it stand for itself.

Meaning
-------
1. What a fact does not have, and `null` in its META, is *no value*. `x == null` asks for that, `x != null` for the
   opposite. Any other test of no value fails, `!=` and `not in` as well; `not (…)` turns round whatever is inside.
2. `==` and `!=` compare texts, numbers, truth values, lists and objects; values of two kinds are not equal. `true` and
   `false` are 1 and 0. `<` and its kin order two numbers, or two texts by code point, and fail for anything else.
   Numbers are compared as what they say: 1 is 1.0, and no integer is rounded.
3. `x in (…)` asks whether x is one of them, `x in y` whether it is in that list, or a part of that text.
   `^=` asks whether a text begins with another.
4. An operand alone asks for any value but `false`, 0 and what is empty. It must be a member.
5. `stored_at` and `expires_at` are Unix milliseconds; a fact that never ends has no `expires_at`. `trust` is "trusted"
   or "untrusted". Names and sources are bytes: read as UTF-8, with what is none kept as it is.

A filter is compiled into closures. It reads nothing but the fact, which never changes under its id: so a verdict holds
for ever, wherever and whenever it was made, and a filter may run in any thread.

META is parsed when the first member of it is asked for, never on a write, and kept no longer than the verdict: parsed
objects take several times the memory of their text, and most filters need not parse most of them. What a fact must
contain byte by byte to pass, the names of members and texts that it must equal, is looked for in the raw META first,
in a tenth of the time. A META with a backslash may spell them differently, so it is always parsed.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from math import isfinite
from typing import Any, NoReturn

from amemdb.errors import CommandError, printable
from amemdb.limits import FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_TERMS_MAX
from amemdb.stores.semantic import Fact

Get = Callable[["_View"], Any]
Test = Callable[["_View"], bool]
_NEEDLES_NONE: frozenset[bytes] = frozenset()

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<member>(?:meta)?(?:\.(?:[^\W\d][\w-]*|"(?:[^"\\]|\\.)+"|'(?:[^'\\]|\\.)+'))+)
      | (?P<number>-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<word>[^\W\d]\w*)
      | (?P<sign>==|!=|<=|>=|\^=|&&|\|\||[<>!()\[\],])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_STEP = re.compile(r"""\.(?:"((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)'|([^.]+))""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_OPERAND = "a member of the fact or a value"
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS = frozenset({int, float, bool})
_decode = json.JSONDecoder().decode


class Filter:
    """A filter that was parsed. `passes` gives its verdict on a fact."""

    __slots__ = ("_needles", "_test")

    def __init__(self, test: Test, needles: frozenset[bytes]) -> None:
        self._test = test
        self._needles = tuple(sorted(needles, key=len, reverse=True))

    def passes(self, fact: Fact) -> bool:
        """Whether the fact may be found."""
        if self._needles:
            meta = fact[6]
            if meta is None:
                return False
            for needle in self._needles:
                if needle not in meta and b"\\" not in meta:
                    return False
        return self._test(_View(fact))

    def verdicts(self, facts: Iterable[Fact]) -> list[bool]:
        """`passes` for each of many."""
        passes = self.passes
        return [passes(fact) for fact in facts]


@lru_cache(maxsize=64)
def parse(source: bytes) -> Filter:
    """The filter that `source` spells; `CommandError` says where it goes wrong and what was expected there."""
    if len(source) > FILTER_BYTES_MAX:
        raise CommandError(f"filter must be at most {FILTER_BYTES_MAX} bytes long, got {len(source)}")
    parser = _Parser(source.decode("utf-8", "surrogateescape"))
    parsed = parser.any_of(0)
    if parser.kind != "end":
        parser.refuse("'and', 'or' or the end")
    return Filter(parsed.test, parsed.needles)


class _View:
    """A fact with its META, parsed once it is asked for."""

    __slots__ = ("_members", "fact")

    def __init__(self, fact: Fact) -> None:
        self.fact = fact
        self._members: Any = self

    @property
    def members(self) -> Any:
        """The object that META holds; None if there is none."""
        if self._members is self:
            meta = self.fact[6]
            try:
                self._members = None if meta is None else _decode(meta.decode())
            except (ValueError, RecursionError):  # nothing that STORE takes, but logs come from anywhere
                self._members = None
        return self._members


class _Part:
    """A part of a filter: its test, and what META must contain, letter by letter, for it to pass."""

    __slots__ = ("needles", "test")

    def __init__(self, test: Test, needles: frozenset[bytes]) -> None:
        self.test = test
        self.needles = needles


class _Operand:
    """What is compared: a constant, or what `get` finds, which needs `needles` in META to be any value."""

    __slots__ = ("get", "is_constant", "needles", "value")

    def __init__(self, get: Get, needles: frozenset[bytes], is_constant: bool = False, value: Any = None) -> None:
        self.get = get
        self.needles = needles
        self.is_constant = is_constant
        self.value = value

    @property
    def is_null(self) -> bool:
        return self.is_constant and self.value is None


class _Parser:
    """Recursive descent over the tokens of one filter; `kind` and `token` are the token to be read next."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._end = 0
        self._terms = 0
        self.kind, self.token, self._start = "", "", 0
        self._advance()

    # -- tokens ----------------------------------------------------------------------------------

    def _advance(self) -> str:
        """Step over the token; its text."""
        passed = self.token
        found = _TOKEN.match(self._source, self._end)
        if found is None:
            self._refuse_text(self._end)
        assert found.lastgroup is not None
        self.kind, self.token = found.lastgroup, found[found.lastgroup]
        self._start, self._end = found.start(found.lastgroup), found.end()
        if self.kind == "word":
            lower = self.token.lower()
            if lower in ("and", "or", "not", "in"):
                self.kind, self.token = "sign", {"and": "&&", "or": "||"}.get(lower, lower)
        elif self.token == "!":
            self.token = "not"
        return passed

    def _takes(self, *signs: str) -> bool:
        """Step over one of `signs` if it is next."""
        if self.kind != "sign" or self.token not in signs:
            return False
        self._advance()
        return True

    def refuse(self, expected: str) -> NoReturn:
        """What stands here is not what was expected."""
        got = "the end" if self.kind == "end" else f"'{_shown(self._source[self._start : self._end])}'"
        raise CommandError(f"filter: expected {expected} at character {self._start + 1}, got {got}")

    def _refuse_text(self, start: int) -> NoReturn:
        """What stands behind `start` is no token at all."""
        while self._source[start : start + 1].isspace():
            start += 1
        rest = self._source[start:]
        hints = {"=": "'==' (one '=' is no comparison)", '"': "a text that ends", "'": "a text that ends"}
        expected = hints.get(rest[0], "a member, a value or an operator")
        raise CommandError(f"filter: expected {expected} at character {start + 1}, got '{_shown(rest)}'")

    # -- grammar ---------------------------------------------------------------------------------

    def any_of(self, depth: int) -> _Part:
        """What is joined by `or`."""
        parts = [self._all_of(depth)]
        while self._takes("||"):
            parts.append(self._all_of(depth))
        if len(parts) == 1:
            return parts[0]
        return _Part(reduce(_either, [part.test for part in parts]), _shared(parts))

    def _all_of(self, depth: int) -> _Part:
        """What is joined by `and`."""
        parts = [self._single(depth)]
        while self._takes("&&"):
            parts.append(self._single(depth))
        if len(parts) == 1:
            return parts[0]
        needles = _NEEDLES_NONE.union(*(part.needles for part in parts))
        return _Part(reduce(_both, [part.test for part in parts]), needles)

    def _single(self, depth: int) -> _Part:
        if depth > FILTER_DEPTH_MAX:
            raise CommandError(f"filter: more than {FILTER_DEPTH_MAX} levels deep at character {self._start + 1}")
        if self._takes("not"):
            test = self._single(depth + 1).test
            return _Part(lambda view: not test(view), _NEEDLES_NONE)
        if self._takes("("):
            part = self.any_of(depth + 1)
            if not self._takes(")"):
                self.refuse("')', 'and' or 'or'")
            return part
        return self._term()

    def _term(self) -> _Part:
        """A comparison, or a member alone."""
        self._terms += 1
        if self._terms > FILTER_TERMS_MAX:
            raise CommandError(f"filter: more than {FILTER_TERMS_MAX} comparisons at character {self._start + 1}")
        left = self._operand(f"{_OPERAND}, 'not' or '('")
        sign = self.token if self.kind == "sign" else ""
        if sign in ("==", "!=", "^=", *_ORDERS):
            self._advance()
            return _comparison(left, sign, self._operand(_OPERAND))
        if sign in ("in", "not"):
            self._advance()
            if sign == "not" and not self._takes("in"):
                self.refuse("'in'")
            return self._membership(left, sign == "not")
        if left.is_constant:
            self.refuse("a comparison")
        get = left.get
        return _Part(lambda view: bool(get(view)), left.needles)

    def _membership(self, left: _Operand, negated: bool) -> _Part:
        """What stands behind `in`."""
        if self.kind in ("member", "text") or self.token in _FIELDS:
            right = self._operand(_OPERAND)
            return _Part(_contained(left.get, right.get, negated), left.needles | right.needles)
        closing = {"(": ")", "[": "]"}.get(self.token)
        if closing is None:
            self.refuse("'(' and values, a member or a text")
        self._advance()
        values = [self._literal()]
        while self._takes(","):
            values.append(self._literal())
        if not self._takes(closing):
            self.refuse(f"',' or '{closing}'")
        return _Part(_one_of(left.get, frozenset(values), negated), left.needles)

    def _literal(self) -> Any:
        """One of the values that `in` lists."""
        if self.kind not in ("text", "number") and self.token.lower() not in ("true", "false"):
            self.refuse("a text, a number, true or false")
        return self._operand(_OPERAND).value

    def _operand(self, expected: str) -> _Operand:
        kind, token = self.kind, self.token
        if kind == "member":
            steps = [_plain(double or single) or bare for double, single, bare in _STEP.findall(token)]
            operand = _Operand(_member(steps), frozenset(map(_spelt, steps)))
        elif kind == "word" and token in _FIELDS:
            operand = _Operand(_FIELDS[token], _NEEDLES_NONE)
        elif kind == "word" and token.lower() in _LITERALS:
            operand = _constant(_LITERALS[token.lower()])
        elif kind == "text":
            operand = _constant(_plain(token[1:-1]))
        elif kind == "number":
            operand = _constant(self._number(token))
        else:
            self.refuse(expected)
        self._advance()
        return operand

    def _number(self, token: str) -> int | float:
        if token.lstrip("-").isdigit():
            return int(token)
        value = float(token)
        if not isfinite(value):
            self.refuse("a finite number")
        return value


# -- meaning -----------------------------------------------------------------------------------------


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogateescape")


_TRUSTS = {None: None, 0: "untrusted", 1: "trusted"}
_FIELDS: dict[str, Get] = {
    "key": lambda view: _text(view.fact[1]),
    "source": lambda view: _text(view.fact[4]),
    "trust": lambda view: _TRUSTS[view.fact[5]],
    "stored_at": lambda view: view.fact[7],
    "expires_at": lambda view: view.fact[3] or None,
}


def _member(steps: list[str]) -> Get:
    """What META holds under those names, one inside the other."""

    def get(view: _View) -> Any:
        value = view.members
        for step in steps:
            if type(value) is not dict:
                return None
            value = value.get(step)
        return value

    return get


def _constant(value: Any) -> _Operand:
    return _Operand(lambda view: value, _NEEDLES_NONE, True, value)


def _both(first: Test, second: Test) -> Test:
    return lambda view: first(view) and second(view)


def _either(first: Test, second: Test) -> Test:
    return lambda view: first(view) or second(view)


def _comparison(left: _Operand, sign: str, right: _Operand) -> _Part:
    if left.is_null or right.is_null:
        return _absence(left.get if right.is_null else right.get, sign)
    get, other = left.get, right.get
    needles = left.needles | right.needles
    if sign in _ORDERS:
        return _Part(_ordered(get, _ORDERS[sign], other), needles)
    if sign == "^=":
        return _Part(_begins(get, other), needles)
    if sign == "!=":
        return _Part(lambda view: (a := get(view)) is not None and (b := other(view)) is not None and a != b, needles)
    for member, constant in ((left, right), (right, left)):
        if member.needles and isinstance(constant.value, str):
            needles |= {_spelt(constant.value)}
    return _Part(lambda view: (a := get(view)) is not None and a == other(view), needles)


def _absence(get: Get, sign: str) -> _Part:
    """A comparison with null."""
    if sign == "==":
        return _Part(lambda view: get(view) is None, _NEEDLES_NONE)
    if sign == "!=":
        return _Part(lambda view: get(view) is not None, _NEEDLES_NONE)
    return _Part(lambda view: False, _NEEDLES_NONE)


def _ordered(get: Get, holds: Callable[[Any, Any], bool], other: Get) -> Test:
    def test(view: _View) -> bool:
        a, b = get(view), other(view)
        if type(a) in _NUMBERS:
            return type(b) in _NUMBERS and holds(a, b)
        return type(a) is str and type(b) is str and holds(a, b)

    return test


def _begins(get: Get, other: Get) -> Test:
    def test(view: _View) -> bool:
        a, b = get(view), other(view)
        return type(a) is str and type(b) is str and a.startswith(b)

    return test


def _one_of(get: Get, values: frozenset[Any], negated: bool) -> Test:
    def test(view: _View) -> bool:
        a = get(view)
        if a is None:
            return False
        return (type(a) not in (list, dict) and a in values) is not negated

    return test


def _contained(get: Get, within: Get, negated: bool) -> Test:
    def test(view: _View) -> bool:
        a, b = get(view), within(view)
        if a is None or b is None:
            return False
        found = a in b if type(b) is list else type(a) is str and type(b) is str and a in b
        return found is not negated

    return test


def _shared(parts: list[_Part]) -> frozenset[bytes]:
    """What each of them needs."""
    return parts[0].needles.intersection(*(part.needles for part in parts[1:]))


def _plain(quoted: str) -> str:
    """A text without its escapes."""
    return _ESCAPE.sub(r"\1", quoted)


def _spelt(text: str) -> bytes:
    """A text as META spells it, unless with escapes that are not needed."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    return printable(text.encode("utf-8", "surrogateescape"), 32)
