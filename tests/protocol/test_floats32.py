"""Decimals to float32 in bulk: the twin gives the bits of the reference, or declines where the reference does."""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from decimal import Context, Decimal
from random import Random

import pytest

from amemdb.protocol.numbers import plain_floats32, plain_numbers_end

twin = pytest.importorskip("amemdb.protocol._numbers")

TOKENS = 3000
BULK = 9000
"""More than are read under the lock of the interpreter."""
FLOAT_MAX_BITS = 0x7F7FFFFF
DIGITS = "0123456789"
_EXACT = Context(prec=1200)

EDGES = """
0 -0 0.0 -.0 0e0 0e999999999999 00000000000000000000000000000 1 01 .5 -.5 1e5 1E+5 1e-5 1e05 123456789
16777217 -16777219 9007199254740993 9007199254740992.5 18446744073709551615 18446744073709551616
99999999999999999999 1e22 1e23 8.5e22 1e-22 1e-23 1e64 1e-64 1e-65 1e65 3.4028234663852886e38
3.4028235677973365e38 3.4028235677973366e38 3.5e38 1e39 -1e39 1e308 1e309 1.7976931348623159e308
1e99999999999999999999 1e-99999999999999999999 1.401298464324817e-45 7.006492321624085e-46
7.006492321624086e-46 1e-46 1.1754943508222875e-38 1.1754942807573643e-38 0.1 0.30000001192092896
0.100000001490116119384765625 1.00000005960464477539062500000000000000000000000000001
1.000000059604644775390625 1.00000005960464477539062499999999999999999999999999999
1.00000017881393432617187500000000000001
"""
FAR_APART = ["0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400", "0." + "0" * 2_000_000 + "1e20000000", "7" * 30_000]
NO_NUMBERS = [
    *("", "-", "--1", "+1", ".", "-.", "1.", "-1.", "1.e5", "e5", ".e5", "1e", "1e+", "1e-", "1e1.5", "1e+-5", "1.2.3"),
    *(
        " 1",
        "1 ",
        "1\n",
        "\n1",
        "1\n2",
        "1\t",
        "1_0",
        "1,0",
        "0x10",
        "1d5",
        "1f",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "1\0",
    ),
    *("\u0661", "\uff11", "½", "/", ":", "1/", "1:"),
]


def of_bits(bits: int) -> float:
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value


def middle(random: Random) -> float:
    """What lies halfway between two float32 that follow one another."""
    spans = ((0, FLOAT_MAX_BITS), (0, 0x800000), (0x3C000000, 0x3F800000), (0, 3), (FLOAT_MAX_BITS - 2, FLOAT_MAX_BITS))
    bits = random.randint(*random.choice(spans))
    above = of_bits(bits + 1) if bits < FLOAT_MAX_BITS else 2.0**128
    return (of_bits(bits) + above) / 2


def beside_a_middle(random: Random) -> str:
    """A middle to its last digit, or off by a part in 10**5 to 10**40, in some number of digits."""
    exact = Decimal(middle(random))
    if random.random() < 0.3:
        return format(exact, random.choice("fe"))
    off = _EXACT.multiply(exact, 1 + random.choice((-1, 1, 3)) * Decimal(10) ** -random.randint(5, 40))
    return f"{off:.{random.randint(8, 60)}e}"


def by_random_digits(random: Random) -> str:
    whole, fraction = ("".join(random.choices(DIGITS, k=random.randint(1, 30))) for _ in range(2))
    return f"{whole}.{fraction}e{random.randint(-75, 45)}" if random.random() < 0.5 else f"{whole}.{fraction}"


WRITERS: tuple[Callable[[Random], str], ...] = (
    beside_a_middle,
    by_random_digits,
    lambda random: repr(random.gauss(0, 0.03)),
    lambda random: repr(of_bits(random.randrange(0x7F800000))),
    lambda random: repr(math.nextafter(middle(random), random.choice((-math.inf, math.inf)))),
    lambda random: f"{random.gauss(0, 1) * 10.0 ** random.randint(-50, 42):.{random.randint(0, 30)}e}",
    lambda random: "0." + "0" * random.randrange(50) + str(random.randrange(10 ** random.randint(1, 25))),
)


def tokens_of(seed: int) -> list[bytes]:
    random = Random(seed)
    return [(random.choice(("", "-")) + random.choice(WRITERS)(random)).encode() for _ in range(TOKENS)]


def compare(seed: int) -> None:
    finite = []
    for token in tokens_of(seed):
        expected = plain_floats32([token])
        assert twin.floats32([token]) == expected, (seed, token)
        if expected is not None:
            finite.append(token)
    bulk = (finite * (BULK // len(finite) + 1))[:BULK]
    assert twin.floats32(bulk) == plain_floats32(bulk), seed


@pytest.mark.parametrize("text", EDGES.split())
@pytest.mark.parametrize("sign", ["", "-"])
def test_edges(text: str, sign: str) -> None:
    token = (sign + text).encode()
    assert twin.floats32([token]) == plain_floats32([token])


@pytest.mark.parametrize("text", FAR_APART, ids=lambda text: f"{len(text)} bytes")
def test_digits_and_exponents_of_any_length(text: str) -> None:
    assert twin.floats32([text.encode()]) == plain_floats32([text.encode()])


@pytest.mark.parametrize("text", NO_NUMBERS)
@pytest.mark.parametrize("others", [0, 3, BULK])
def test_what_is_no_number_is_declined_wherever_it_stands(text: str, others: int) -> None:
    tokens = [b"0.25"] * others
    assert others == 0 or twin.floats32(tokens) is not None
    for place in {0, others // 2, others}:
        spoilt = [*tokens[:place], text.encode(), *tokens[place:]]
        assert plain_floats32(spoilt) is None
        assert twin.floats32(spoilt) is None


def test_both_round_to_double_first() -> None:
    """Just above the middle of two float32, but the double next to it is that middle, which goes to the even one."""
    text = b"1.00000005960464477539062500000000000000000000000000001"
    assert twin.floats32([text]) == plain_floats32([text]) == struct.pack("<f", 1)


def test_no_tokens_are_no_vector() -> None:
    assert twin.floats32([]) is plain_floats32([]) is None


def test_random_numbers() -> None:
    for seed in range(8):
        compare(seed)


def test_spoilt_numbers() -> None:
    random = Random(5)
    for token in tokens_of(5):
        spoilt = bytearray(token)
        spoilt[random.randrange(len(spoilt))] = random.choice(b"0123456789.-+eE \n\0x\xff")
        both = [bytes(spoilt)]
        assert twin.floats32(both) == plain_floats32(both), both


@pytest.mark.soak
def test_random_numbers_for_long(soak_seconds: int) -> None:
    seed = time.time_ns() if soak_seconds else 100
    deadline = time.monotonic() + soak_seconds
    while True:
        compare(seed)
        seed += 1
        if time.monotonic() >= deadline:
            return


def test_the_numbers_end_at_the_first_word() -> None:
    words = frozenset((b"TTL", b"META", b"\xff"))
    pool = [b"1", b"", b"ttl", b"TTL", b"9", b":", b"nan", b"-ttl", b"\xff", b"Meta ", b"mEtA", b"TT", b"0TTL"]
    random = Random(7)
    for _ in range(2000):
        argv = random.choices(pool, k=random.randrange(9))
        start = random.randrange(11)
        assert twin.numbers_end(argv, start, words) == plain_numbers_end(argv, start, words), (argv, start)
    assert twin.numbers_end([b"1", b"ttl"], 0, frozenset()) == 2
