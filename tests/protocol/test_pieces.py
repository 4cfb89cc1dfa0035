"""Long values, encoded piece by piece: the same bytes as at once, in pieces that are short to make."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from amemdb.errors import CommandError
from amemdb.limits import REPLY_ELEMENTS_MAX
from amemdb.protocol.reply import (
    BATCH_ELEMENTS,
    BULK,
    DOUBLE,
    INTEGER,
    LONG_BYTES,
    LONG_ELEMENTS,
    NAMES,
    OK,
    PIECE_BYTES,
    PIECE_PARTS,
    SCAN_PAGE,
    VERBATIM,
    ArrayOf,
    Elements,
    Labelled,
    MapOf,
    OneOf,
    SetOf,
    Shape,
    TupleOf,
)

TURN = Labelled(role=BULK, content=BULK, seq=INTEGER)


def random_shape(rng: Random, depth: int = 2) -> Shape:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([BULK, BULK, INTEGER, DOUBLE, VERBATIM])
    inner = [random_shape(rng, depth - 1) for _ in range(3)]
    return rng.choice(
        [
            ArrayOf(inner[0]),
            SetOf(inner[0]),
            TupleOf(*inner),
            Labelled(**{f"field{n}": shape for n, shape in enumerate(inner)}),
            MapOf(BULK, inner[0]),
            OneOf(array=ArrayOf(inner[0])),
        ]
    )


def random_value(rng: Random, shape: Shape) -> Any:
    if shape is BULK:
        return rng.choice([None, b"", rng.randbytes(rng.choice([5, 100, LONG_BYTES + rng.randrange(3)]))])
    if shape is INTEGER:
        return rng.randrange(1 << 40)
    if shape is DOUBLE:
        return rng.random()
    if shape is VERBATIM:
        return "text"
    if isinstance(shape, OneOf):
        return rng.choice([None, True, 7, b"x" * (2 * LONG_BYTES), "OK", random_value(rng, shape.array)])
    if isinstance(shape, MapOf):
        pairs = [(b"%d" % n, random_value(rng, shape.item)) for n in range(rng.choice([0, 1, 3]))]
        return rng.choice([dict(pairs), pairs])
    if isinstance(shape, ArrayOf):
        value = random_value(rng, shape.item)
        return rng.choice([None, [], [value], [value] * 3, [value] * BATCH_ELEMENTS * PIECE_PARTS])
    if isinstance(shape, TupleOf):
        return rng.choice([None, tuple(random_value(rng, item) for item in shape.items)])
    assert isinstance(shape, Labelled)
    return tuple(random_value(rng, item) for item in list(shape.fields.values())[: rng.randrange(4)])


@pytest.mark.parametrize("seed", range(20))
def test_the_pieces_of_any_value_are_its_encoding(seed: int):
    rng = Random(seed)
    for _ in range(20):
        shape = random_shape(rng)
        value = random_value(rng, shape)
        for resp3 in (False, True):
            pieces = list(shape.pieces(value, resp3))
            assert b"".join(pieces) == shape.encode(value, resp3)
            assert all(pieces), "an empty piece is the end of a reply"


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (NAMES, [b"name"] * 10_000),
        (SetOf(BULK), [b"name"] * 10_000),
        (ArrayOf(TURN), [(b"user", b"c" * 300, 7)] * 5_000),
        (SCAN_PAGE, (b"0", [b"name"] * 10_000)),
        (MapOf(BULK, BULK), [(b"key", b"value")] * 5_000),
        (MapOf(BULK, BULK), {b"%d" % n: b"value" for n in range(5_000)}),
        (BULK, bytes(3_000_001)),
        (ArrayOf(BULK), [b"short", bytes(3_000_000), b"short"]),
        (ArrayOf(TURN), [(b"user", bytes(3_000_000), 7)]),
        (TupleOf(BULK, INTEGER), (bytes(3_000_000), 1)),
        (Labelled(text=BULK), (bytes(3_000_000),)),
        (OneOf(), bytes(3_000_000)),
        (OneOf(array=NAMES), [b"name"] * 10_000),
    ],
)
@pytest.mark.parametrize("resp3", [False, True])
def test_what_is_long_comes_in_many_short_pieces(shape: Shape, value: Any, resp3: bool):
    assert shape.is_long(value)
    pieces = list(shape.pieces(value, resp3))
    assert max(map(len, pieces)) <= 2 * PIECE_BYTES
    assert len(pieces) > 5
    assert b"".join(pieces) == shape.encode(value, resp3)


def test_a_piece_is_made_when_it_is_asked_for():
    taken = []

    class Watched(list):
        def __iter__(self):
            for item in super().__iter__():
                taken.append(item)
                yield item

    pieces = NAMES.pieces(Watched([b"name"] * 10_000), False)
    next(pieces)
    assert len(taken) <= BATCH_ELEMENTS * PIECE_PARTS


def test_what_is_usual_is_not_long():
    for shape, value in [
        (OK, None),
        (BULK, b"x" * LONG_BYTES),
        (BULK, None),
        (NAMES, [b"name"] * LONG_ELEMENTS),
        (NAMES, None),
        (ArrayOf(TURN), [(b"user", b"hello", 1)] * 10),
        (SCAN_PAGE, (b"0", [b"name"] * 10)),
        (TupleOf(BULK), None),
        (Labelled(text=BULK), None),
        (MapOf(BULK, BULK), iter([(b"key", b"value")])),
        (MapOf(BULK, BULK), {b"key": b"value"}),
        (OneOf(), True),
        (OneOf(), None),
        (OneOf(), 10**30),
    ]:
        assert not shape.is_long(value)


def test_a_value_that_can_still_change_is_not_kept_for_later():
    value = bytearray(10 * LONG_BYTES)
    assert not BULK.is_long(value)
    assert not OneOf().is_long(value)


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (ArrayOf(INTEGER, "THAT"), [1] * (REPLY_ELEMENTS_MAX + 1)),
        (TupleOf(INTEGER, ArrayOf(INTEGER, "THAT")), (1, [1] * (REPLY_ELEMENTS_MAX + 1))),
        (Labelled(one=INTEGER, two=ArrayOf(INTEGER, "THAT")), (1, [1] * (REPLY_ELEMENTS_MAX + 1))),
        (ArrayOf(ArrayOf(INTEGER, "THAT")), [[1], [1] * (REPLY_ELEMENTS_MAX + 1)]),
        (MapOf(BULK, ArrayOf(INTEGER, "THAT")), {b"k": [1] * (REPLY_ELEMENTS_MAX + 1)}),
        (MapOf(BULK, INTEGER, "THAT"), [(b"k", 1)] * (REPLY_ELEMENTS_MAX // 2 + 1)),
        (OneOf(array=ArrayOf(INTEGER, "THAT")), [1] * (REPLY_ELEMENTS_MAX + 1)),
    ],
    ids=["array", "tuple", "labelled", "nested", "map of arrays", "map", "one of"],
)
def test_what_is_refused_is_refused_before_the_first_byte(shape: Shape, value: Any):
    with pytest.raises(CommandError, match="more than 1048576 in one reply; use THAT"):
        shape.pieces(value, False)


@pytest.mark.parametrize("resp3", [False, True])
def test_elements_that_come_bit_by_bit_are_encoded_as_a_list_of_them(resp3: bool):
    turns = [(b"user", b"c" * 300, n) for n in range(2000)]
    gathered = Elements(TURN, resp3)
    assert ArrayOf(TURN).encode(gathered, resp3) == ArrayOf(TURN).encode([], resp3)
    for begin in range(0, 2000, 100):
        gathered.add(turns[begin : begin + 100])
        gathered.add([])
    shape = ArrayOf(TURN)
    assert len(gathered) == 2000
    assert shape.encode(gathered, resp3) == shape.encode(turns, resp3)
    assert shape.is_long(gathered)
    pieces = list(shape.pieces(gathered, resp3))
    assert b"".join(pieces) == shape.encode(turns, resp3)
    assert len(pieces) > 5


def test_too_many_elements_are_refused_however_they_came():
    gathered = Elements(INTEGER)
    gathered.add([1] * (REPLY_ELEMENTS_MAX + 1))
    for encode in (ArrayOf(INTEGER).encode, ArrayOf(INTEGER).pieces):
        with pytest.raises(CommandError, match="1048577 elements"):
            encode(gathered, False)
