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

A long value is not written at once, as that would keep everybody else waiting: `is_long` tells, cheaply, and `pieces`
gives the same bytes as `encode` a few at a time. Such a value must not change until the last piece was taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice, repeat
from typing import Any

from amemdb.errors import CommandError
from amemdb.limits import REPLY_ELEMENTS_MAX

OK_BYTES = b"+OK\r\n"
QUEUED_BYTES = b"+QUEUED\r\n"
NULL_BULK = (b"$-1\r\n", b"_\r\n")
NULL_ARRAY = (b"*-1\r\n", b"_\r\n")
LONG_ELEMENTS = 500
LONG_BYTES = 64 * 1024
"""A value of more elements, or with more bytes in one string, is long."""
PIECE_PARTS = 8
PIECE_BYTES = 64 * 1024
"""A piece of a reply is made of so many parts, or ends when it is as long: some tenths of a millisecond."""
BATCH_ELEMENTS = 16
"""So many elements of an array, if none is long, are one part."""


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

    def encode_all(self, values: Iterable[Any], resp3: bool) -> bytes:
        """The bytes of `values`, one behind the other."""
        encode = self.encode
        return b"".join([encode(value, resp3) for value in values])

    def is_long(self, value: Any) -> bool:
        """Whether `value` takes so long to encode that it is better done by pieces."""
        return False

    def pieces(self, value: Any, resp3: bool) -> Iterator[bytes]:
        """What `encode` gives, piece by piece; what it refuses is refused now and not later."""
        self.check(value)
        return _gathered([(self, value)], resp3)

    may_refuse = False
    """Whether `check` can refuse anything."""

    def check(self, value: Any) -> None:
        """Refuse a value with `CommandError` if `encode` would."""
        return

    def elements(self, value: Any, resp3: bool) -> Iterable[tuple[Shape, Any]]:
        """The parts whose encodings, one behind the other, are that of a long `value`."""
        return ((self, value),)

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

    def encode_all(self, values: Iterable[Any], resp3: bool) -> bytes:
        null = NULL_BULK[resp3]
        return b"".join([null if value is None else b"$%d\r\n%b\r\n" % (len(value), value) for value in values])

    def is_long(self, value: bytes | bytearray | None) -> bool:
        """Never what can still change: that is copied now."""
        return type(value) is bytes and len(value) > LONG_BYTES

    def elements(self, value: bytes, resp3: bool) -> Iterator[tuple[Shape, Any]]:
        yield RAW, b"$%d\r\n" % len(value)
        for begin in range(0, len(value), PIECE_BYTES):
            yield RAW, value[begin : begin + PIECE_BYTES]
        yield RAW, b"\r\n"

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


class Elements:
    """Elements of an array that are found bit by bit, encoded as they come.

    A list of a million objects is slow to let go of, and whenever Python looks for garbage it looks at all of them.
    """

    __slots__ = ("_count", "_item", "_resp3", "chunks", "held_bytes")

    def __init__(self, item: Shape, resp3: bool = False) -> None:
        self.chunks: list[bytes] = []
        self.held_bytes = 0
        """What they take: an answer that the peer does not read is memory that is held for it."""
        self._item = item
        self._resp3 = resp3
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, values: Sequence[Any]) -> None:
        """These come next."""
        if values:
            self.chunks.append(self._item.encode_all(values, self._resp3))
            self.held_bytes += len(self.chunks[-1])
            self._count += len(values)

    def is_long(self) -> bool:
        """Whether they are better sent by pieces."""
        return self.held_bytes > LONG_BYTES


class ArrayOf(Shape):
    """An array of any length whose elements have one shape; None is the missing array."""

    may_refuse = True

    def __init__(self, item: Shape, use_instead: str = "") -> None:
        self.item = item
        self.use_instead = use_instead

    def head(self, count: int, resp3: bool) -> bytes:
        """What stands before so many elements."""
        return b"*%d\r\n" % count

    def encode(self, value: Sequence[Any] | Elements | None, resp3: bool) -> bytes:
        if value is None:
            return NULL_ARRAY[resp3]
        check_elements(len(value), self.use_instead)
        if isinstance(value, Elements):
            return self.head(len(value), resp3) + b"".join(value.chunks)
        return self.head(len(value), resp3) + self.item.encode_all(value, resp3)

    def is_long(self, value: Sequence[Any] | Elements | None) -> bool:
        if isinstance(value, Elements):
            return value.is_long()
        return value is not None and (len(value) > LONG_ELEMENTS or any(map(self.item.is_long, value)))

    def check(self, value: Sequence[Any] | Elements | None) -> None:
        if value is not None:
            check_elements(len(value), self.use_instead)
            if self.item.may_refuse and not isinstance(value, Elements):
                for item in value:
                    self.item.check(item)

    def elements(self, value: Sequence[Any] | Elements, resp3: bool) -> Iterator[tuple[Shape, Any]]:
        yield RAW, self.head(len(value), resp3)
        if isinstance(value, Elements):
            yield from zip(repeat(RAW), value.chunks)
            return
        item, left = self.item, iter(value)
        while batch := list(islice(left, BATCH_ELEMENTS)):
            if any(map(item.is_long, batch)):
                yield from zip(repeat(item), batch)
            else:
                yield RAW, item.encode_all(batch, resp3)

    def describe(self) -> str:
        return f"array of {self.item.describe()}"


class SetOf(ArrayOf):
    """An array whose order means nothing: a set in RESP3."""

    def head(self, count: int, resp3: bool) -> bytes:
        return b"~%d\r\n" % count if resp3 else super().head(count, resp3)

    def describe(self) -> str:
        return f"set of {self.item.describe()}"


class TupleOf(Shape):
    """A fixed sequence of shapes as an array; None is a missing string (HotKV's habit for one absent object)."""

    def __init__(self, *items: Shape) -> None:
        self.items = items
        self.may_refuse = any(shape.may_refuse for shape in items)

    def encode(self, value: Sequence[Any] | None, resp3: bool) -> bytes:
        if value is None:
            return NULL_BULK[resp3]
        parts = [shape.encode(item, resp3) for shape, item in zip(self.items, value, strict=True)]
        return b"*%d\r\n%b" % (len(parts), b"".join(parts))

    def is_long(self, value: Sequence[Any] | None) -> bool:
        return value is not None and any(shape.is_long(item) for shape, item in zip(self.items, value, strict=True))

    def check(self, value: Sequence[Any] | None) -> None:
        for shape, item in zip(self.items, value or (), strict=False):
            shape.check(item)

    def elements(self, value: Sequence[Any], resp3: bool) -> Iterator[tuple[Shape, Any]]:
        yield RAW, b"*%d\r\n" % len(self.items)
        yield from zip(self.items, value, strict=True)

    def describe(self) -> str:
        return "[" + ", ".join(shape.describe() for shape in self.items) + "]"


class Labelled(Shape):
    """Named fields in a fixed order: a flat array in RESP2, a map in RESP3.

    The value is a tuple in the order of the fields. A shorter tuple leaves the last fields out.
    """

    def __init__(self, **fields: Shape) -> None:
        self.fields = fields
        self._heads = [self.label(name) for name in fields]
        self._shapes = list(fields.values())
        self.may_refuse = any(shape.may_refuse for shape in self._shapes)

    @staticmethod
    def label(name: str) -> bytes:
        """What stands before the value of a field."""
        return bulk(name.encode("ascii"))

    def encode(self, value: Sequence[Any] | None, resp3: bool) -> bytes:
        if value is None:
            return NULL_ARRAY[resp3]
        assert len(value) <= len(self._heads), "a labelled reply has more values than labels"
        out = [_map_head(len(value), resp3)]
        for head, shape, item in zip(self._heads, self._shapes, value, strict=False):
            out.append(head)
            out.append(shape.encode(item, resp3))
        return b"".join(out)

    def is_long(self, value: Sequence[Any] | None) -> bool:
        return value is not None and any(shape.is_long(item) for shape, item in zip(self._shapes, value, strict=False))

    def check(self, value: Sequence[Any] | None) -> None:
        for shape, item in zip(self._shapes, value or (), strict=False):
            shape.check(item)

    def elements(self, value: Sequence[Any], resp3: bool) -> Iterator[tuple[Shape, Any]]:
        yield RAW, _map_head(len(value), resp3)
        for head, shape, item in zip(self._heads, self._shapes, value, strict=False):
            yield RAW, head
            yield shape, item

    def describe(self) -> str:
        return "labelled " + ", ".join(self.fields)


class MapOf(Shape):
    """Pairs with free keys: a flat array in RESP2, a map in RESP3. The value is a mapping or pairs."""

    may_refuse = True

    def __init__(self, key: Shape, item: Shape, use_instead: str = "") -> None:
        self.key = key
        self.item = item
        self.use_instead = use_instead

    def encode(self, value: Mapping[Any, Any] | Iterable[tuple[Any, Any]], resp3: bool) -> bytes:
        pairs = list(value.items() if isinstance(value, Mapping) else value)
        check_elements(len(pairs) * 2, self.use_instead)
        return _map_head(len(pairs), resp3) + self._encode_pairs(pairs, resp3)

    def _encode_pairs(self, pairs: list[tuple[Any, Any]], resp3: bool) -> bytes:
        encode_key, encode_item = self.key.encode, self.item.encode
        return b"".join([encode_key(key, resp3) + encode_item(item, resp3) for key, item in pairs])

    def is_long(self, value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> bool:
        """Only what has a length can be long, and only a list of pairs or a mapping should have many."""
        if not isinstance(value, (list, Mapping)):
            return False
        pairs = value.items() if isinstance(value, Mapping) else value
        return 2 * len(pairs) > LONG_ELEMENTS or any(self.key.is_long(k) or self.item.is_long(v) for k, v in pairs)

    def check(self, value: Mapping[Any, Any] | Sequence[tuple[Any, Any]]) -> None:
        check_elements(len(value) * 2, self.use_instead)
        if self.item.may_refuse:
            for item in value.values() if isinstance(value, Mapping) else [item for _, item in value]:
                self.item.check(item)

    def elements(
        self, value: Mapping[Any, Any] | Sequence[tuple[Any, Any]], resp3: bool
    ) -> Iterator[tuple[Shape, Any]]:
        yield RAW, _map_head(len(value), resp3)
        left = iter(value.items() if isinstance(value, Mapping) else value)
        while batch := list(islice(left, BATCH_ELEMENTS)):
            if any(self.key.is_long(key) or self.item.is_long(item) for key, item in batch):
                for key, item in batch:
                    yield self.key, key
                    yield self.item, item
            else:
                yield RAW, self._encode_pairs(batch, resp3)

    def describe(self) -> str:
        return f"map of {self.key.describe()} to {self.item.describe()}"


class OneOf(Shape):
    """One of several shapes, told by the type of the value: see `pick`."""

    def __init__(self, ok: bool = False, *, array: Shape | None = None, nil_array: bool = False) -> None:
        self.ok = ok
        self.array = array
        self.nil_array = nil_array
        self.may_refuse = array is not None and array.may_refuse

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

    def is_long(self, value: Any) -> bool:
        return self._of(value).is_long(value)

    def check(self, value: Any) -> None:
        self._of(value).check(value)

    def elements(self, value: Any, resp3: bool) -> Iterable[tuple[Shape, Any]]:
        return self._of(value).elements(value, resp3)

    def _of(self, value: Any) -> Shape:
        """The shape of a value that may be long."""
        if isinstance(value, bytes):
            return BULK
        return self.array if self.array is not None and isinstance(value, (list, tuple)) else OK

    def describe(self) -> str:
        names = ["OK"] if self.ok else []
        names += ["string or nil"]
        if self.array is not None:
            names.append(self.array.describe())
        return " or ".join(names)


def _map_head(count: int, resp3: bool) -> bytes:
    """What stands before so many pairs."""
    return b"%%%d\r\n" % count if resp3 else b"*%d\r\n" % (2 * count)


def _gathered(elements: Iterable[tuple[Shape, Any]], resp3: bool) -> Iterator[bytes]:
    """The encodings of `elements`, short ones joined and long ones taken apart."""
    out: list[bytes] = []
    room = PIECE_BYTES
    for shape, value in elements:
        is_long = shape.is_long(value)
        if not is_long:
            data = shape.encode(value, resp3)
            room -= len(data)
            out.append(data)
        if is_long or room <= 0 or len(out) == PIECE_PARTS:
            if out:
                yield out[0] if len(out) == 1 else b"".join(out)
            out, room = [], PIECE_BYTES
        if is_long:
            yield from _gathered(shape.elements(value, resp3), resp3)
    if out:
        yield b"".join(out)


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
