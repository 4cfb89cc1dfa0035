"""Replies: a command declares the shape of its answer, the handler returns a plain value, the shape encodes it.

A shape turns one Python value into the bytes of RESP2 or RESP3. Declaring the shape instead of building
marked-up values keeps the handlers free of protocol, gives the documentation and the typed client their reply
types, and lets native code encode without looking at types at run time.

Differences between the two protocols, all of them here:

==============  ======================  ==================
value           RESP2                   RESP3
==============  ======================  ==================
missing string  `$-1`                   `_`
missing array   `*-1`                   `_`
double          bulk string             `,1.5`
labelled, map   flat array              `%n`
set             array                   `~n`
text for eyes   bulk string             `=n` with `txt:`
==============  ======================  ==================

A double is written in plain decimal, never with an exponent, as some published clients parse no exponent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from amemdb.errors import CommandError
from amemdb.limits import REPLY_ELEMENTS_MAX

OK_BYTES = b"+OK\r\n"
QUEUED_BYTES = b"+QUEUED\r\n"
NULL_BULK = (b"$-1\r\n", b"_\r\n")
NULL_ARRAY = (b"*-1\r\n", b"_\r\n")


def bulk(value: bytes | bytearray) -> bytes:
    """`value` as a bulk string, the same in both protocols."""
    return b"$%d\r\n%b\r\n" % (len(value), bytes(value))


def decimal_text(value: float) -> bytes:
    """The shortest plain decimal that reads back as `value`; `inf` and `-inf` for infinities.

    >>> decimal_text(1e-08), decimal_text(2.0), decimal_text(-0.0)
    (b'0.00000001', b'2', b'0')
    """
    if value == 0:
        return b"0"
    text = repr(float(value))
    if "e" in text:
        text = format(Decimal(text), "f")
    if text.endswith(".0"):
        text = text[:-2]
    assert not math.isnan(value), "a reply must never hold NaN"
    return text.encode("ascii")


class Shape:
    """How one kind of value is written; `resp3` is True or False (it also indexes the pairs above)."""

    def encode(self, value: Any, resp3: bool) -> bytes:
        """The bytes of `value`."""
        raise NotImplementedError

    def describe(self) -> str:
        """The shape in words, for `docs/commands.md` and the typed client."""
        raise NotImplementedError


class _Ok(Shape):
    def encode(self, value: Any, resp3: bool) -> bytes:
        return OK_BYTES

    def describe(self) -> str:
        return "OK"


class _Simple(Shape):
    def encode(self, value: Any, resp3: bool) -> bytes:
        return b"+%b\r\n" % (value if isinstance(value, bytes) else value.encode("ascii"))

    def describe(self) -> str:
        return "simple string"


class _Integer(Shape):
    def encode(self, value: Any, resp3: bool) -> bytes:
        return b":%d\r\n" % value

    def describe(self) -> str:
        return "integer"


class _Bulk(Shape):
    def encode(self, value: Any, resp3: bool) -> bytes:
        if value is None:
            return NULL_BULK[resp3]
        return b"$%d\r\n%b\r\n" % (len(value), value)

    def describe(self) -> str:
        return "string or nil"


class _Double(Shape):
    def encode(self, value: Any, resp3: bool) -> bytes:
        if value is None:
            return NULL_BULK[resp3]
        text = decimal_text(value)
        return b",%b\r\n" % text if resp3 else bulk(text)

    def describe(self) -> str:
        return "double"


class _Component(_Double):
    """A double that is data and not a measure: its zero keeps the sign, so that what is read back has every bit."""

    def encode(self, value: Any, resp3: bool) -> bytes:
        if value == 0 and math.copysign(1, value) < 0:
            return b",-0\r\n" if resp3 else bulk(b"-0")
        return super().encode(value, resp3)


class _Verbatim(Shape):
    def encode(self, value: Any, resp3: bool) -> bytes:
        data = value if isinstance(value, bytes) else value.encode("utf-8")
        return b"=%d\r\ntxt:%b\r\n" % (len(data) + 4, data) if resp3 else bulk(data)

    def describe(self) -> str:
        return "text"


class _Raw(Shape):
    def encode(self, value: Any, resp3: bool) -> bytes:
        assert isinstance(value, bytes)
        return value

    def describe(self) -> str:
        return "array, one reply a queued command, or nil"


class ArrayOf(Shape):
    """An array of any length whose elements have one shape; None is the missing array."""

    def __init__(self, item: Shape, use_instead: str = "") -> None:
        self.item = item
        self.use_instead = use_instead

    def encode(self, value: Sequence[Any] | None, resp3: bool) -> bytes:
        if value is None:
            return NULL_ARRAY[resp3]
        check_elements(len(value), self.use_instead)
        encode = self.item.encode
        return b"*%d\r\n%b" % (len(value), b"".join([encode(item, resp3) for item in value]))

    def describe(self) -> str:
        return f"array of {self.item.describe()}"


class SetOf(ArrayOf):
    """An array whose order means nothing: a set in RESP3."""

    def encode(self, value: Sequence[Any] | None, resp3: bool) -> bytes:
        data = super().encode(value, resp3)
        return b"~" + data[1:] if resp3 and value is not None else data

    def describe(self) -> str:
        return f"set of {self.item.describe()}"


class TupleOf(Shape):
    """A fixed sequence of shapes as an array; None is a missing string (HotKV's habit for one absent object)."""

    def __init__(self, *items: Shape) -> None:
        self.items = items

    def encode(self, value: Sequence[Any] | None, resp3: bool) -> bytes:
        if value is None:
            return NULL_BULK[resp3]
        parts = [shape.encode(item, resp3) for shape, item in zip(self.items, value, strict=True)]
        return b"*%d\r\n%b" % (len(parts), b"".join(parts))

    def describe(self) -> str:
        return "[" + ", ".join(shape.describe() for shape in self.items) + "]"


class Labelled(Shape):
    """Named fields in a fixed order: a flat array in RESP2, a map in RESP3.

    The value is a tuple in the order of the fields. A shorter tuple leaves the last fields out.
    """

    def __init__(self, **fields: Shape) -> None:
        self.fields = fields
        self._heads = [bulk(label.encode("ascii")) for label in fields]
        self._shapes = list(fields.values())

    def encode(self, value: Sequence[Any] | None, resp3: bool) -> bytes:
        if value is None:
            return NULL_ARRAY[resp3]
        assert len(value) <= len(self._heads), "a labelled reply has more values than labels"
        out = [b"%%%d\r\n" % len(value) if resp3 else b"*%d\r\n" % (2 * len(value))]
        for head, shape, item in zip(self._heads, self._shapes, value, strict=False):
            out.append(head)
            out.append(shape.encode(item, resp3))
        return b"".join(out)

    def describe(self) -> str:
        return "labelled " + ", ".join(self.fields)


class MapOf(Shape):
    """Pairs with free keys: a flat array in RESP2, a map in RESP3. The value is a mapping or pairs."""

    def __init__(self, key: Shape, item: Shape, use_instead: str = "") -> None:
        self.key = key
        self.item = item
        self.use_instead = use_instead

    def encode(self, value: Mapping[Any, Any] | Iterable[tuple[Any, Any]], resp3: bool) -> bytes:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        check_elements(len(pairs) * 2, self.use_instead)
        body = b"".join([self.key.encode(k, resp3) + self.item.encode(v, resp3) for k, v in pairs])
        return (b"%%%d\r\n" % len(pairs) if resp3 else b"*%d\r\n" % (2 * len(pairs))) + body

    def describe(self) -> str:
        return f"map of {self.key.describe()} to {self.item.describe()}"


class OneOf(Shape):
    """One of several shapes, told by the type of the value: see `pick`."""

    def __init__(self, ok: bool = False, *, array: Shape | None = None, nil_array: bool = False) -> None:
        self.ok = ok
        self.array = array
        self.nil_array = nil_array

    def encode(self, value: Any, resp3: bool) -> bytes:
        """None: nil; True: OK; an int: integer; bytes: bulk; str: simple string; a list or tuple: `array`."""
        if value is None:
            return (NULL_ARRAY if self.nil_array else NULL_BULK)[resp3]
        if value is True:
            return OK_BYTES
        if isinstance(value, int):
            return b":%d\r\n" % value
        if isinstance(value, (bytes, bytearray)):
            return bulk(value)
        if isinstance(value, str):
            return b"+%b\r\n" % value.encode("ascii")
        assert self.array is not None, "this command declared no array reply"
        return self.array.encode(value, resp3)

    def describe(self) -> str:
        names = ["OK"] if self.ok else []
        names += ["string or nil"]
        if self.array is not None:
            names.append(self.array.describe())
        return " or ".join(names)


def check_elements(count: int, use_instead: str) -> None:
    """Refuse an answer that published clients could not read; a reply of that size is a mistake anyway."""
    if count > REPLY_ELEMENTS_MAX:
        hint = f"; use {use_instead}" if use_instead else ""
        raise CommandError(f"the answer has {count} elements, more than {REPLY_ELEMENTS_MAX} in one reply{hint}")


OK = _Ok()
SIMPLE = _Simple()
INTEGER = _Integer()
BULK = _Bulk()
DOUBLE = _Double()
COMPONENT = _Component()
VERBATIM = _Verbatim()
RAW = _Raw()
NAMES = ArrayOf(BULK)
SCAN_PAGE = TupleOf(BULK, NAMES)
