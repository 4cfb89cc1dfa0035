"""What a row sends, written as one line of text, made into templates for the loader.

    AMEM.CONV.APPEND s:{any%2000} user {text}
    RPUSH s:{any%2000} user|{text} ; LTRIM s:{any%2000} -20 -1

Blanks part arguments and ` ; ` the commands of one operation. In braces:

- `{text}`: `TEXT_BYTES` bytes of words, `{text:2000}` so many; there are `TEXTS` different ones, used in turn;
- `{vector:1536}`: so many arguments, the numbers of a vector as decimal text; also `TEXTS` different ones;
- `{fp32:384}`: a vector of so many numbers as little-endian float32, one of `BINARY_VECTORS` in turn, made up and
  clustered (`made_up`), so that a graph of them is like one of real vectors;
- `{any}`, `{seq}`: eight digits, of a random number and of the running number of the operation. `{any/D%M}` is that
  number divided by D, modulo M. All `{any}` of one operation are made of the same number, so the two commands above
  meet the same key.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from benchmarks.made_up import STORED_LATER, VectorSet

DIGITS = 8
TEXT_BYTES = 120
TEXTS = 64
BINARY_VECTORS = 4096
NUMBER_BYTES = 9
"""Of a vector's number, such as 0.1234567 and -0.123456."""

_NUMBER = re.compile(r"\{(any|seq)(?:/(\d+))?(?:%(\d+))?\}")
_TEXT = re.compile(r"\{text(?::(\d+))?\}")
_VECTOR = re.compile(r"\{vector:(\d+)\}")
_BINARY = re.compile(r"\{fp32:(\d+)\}")
_SOURCES = {"any": "r", "seq": "s"}
_SAMPLE = (
    "the order was sent to a new address last week and customer asks when it will arrive because invoice shows "
    "another date than mail from shop agent looks up parcel finds that depot holds it"
)


@dataclass(frozen=True)
class Field:
    """Digits that the loader writes over a template."""

    offset: int
    source: str
    divisor: int
    modulus: int

    def __str__(self) -> str:
        return f"{self.offset},{self.source},{self.divisor},{self.modulus}"


@dataclass(frozen=True)
class Templates:
    """Requests of one length, ready to send but for their fields."""

    requests: tuple[bytes, ...]
    fields: tuple[Field, ...]
    commands: int
    """Commands, and so replies, of one operation."""

    @property
    def length(self) -> int:
        """Bytes of one operation."""
        return len(self.requests[0])


def texts(size: int = TEXT_BYTES) -> list[str]:
    """The contents: `TEXTS` strings of `size` ASCII characters, the same in every run."""
    chance = random.Random(120)
    return [" ".join(chance.choices(_SAMPLE.split(), k=size))[:size] for _ in range(TEXTS)]


def vectors(dim: int) -> list[list[str]]:
    """`TEXTS` vectors of `dim` numbers between -1 and 1, each of `NUMBER_BYTES` characters, the same in every run."""
    chance = random.Random(dim)
    return [[f"{chance.uniform(-1, 1):.8f}"[:NUMBER_BYTES] for _ in range(dim)] for _ in range(TEXTS)]


@cache
def templates(line: str) -> Templates:
    """The templates of a request line."""
    text, vector, binary = _TEXT.search(line), _VECTOR.search(line), _BINARY.search(line)
    contents = texts(int(text[1] or TEXT_BYTES)) if text else [""] * TEXTS
    numbers = vectors(int(vector[1])) if vector else [[]] * TEXTS
    variants = [(*variant, b"") for variant in zip(contents, numbers, strict=True)]
    if binary:
        rows = VectorSet(BINARY_VECTORS, int(binary[1])).others(STORED_LATER, BINARY_VECTORS)
        variants = [(*variants[place % TEXTS][:2], row.tobytes()) for place, row in enumerate(rows)]
    elif not (text or vector):
        variants = variants[:1]
    encoded = [_encode(line, *variant) for variant in variants]
    assert len({len(request) for request, _ in encoded}) == 1
    return Templates(tuple(request for request, _ in encoded), encoded[0][1], line.count(" ; ") + 1)


def as_they_are(requests: Sequence[bytes]) -> Templates:
    """Templates of whole requests of one length, a command each, with nothing to write over them."""
    assert len(set(map(len, requests))) == 1
    return Templates(tuple(requests), (), 1)


def _encode(line: str, text: str, numbers: list[str], binary: bytes) -> tuple[bytes, tuple[Field, ...]]:
    request = bytearray()
    fields: list[Field] = []
    for command in line.split(" ; "):
        arguments = _with_numbers(command.split(), numbers)
        request += b"*%d\r\n" % len(arguments)
        for argument in arguments:
            if _BINARY.fullmatch(argument):
                request += b"$%d\r\n%b\r\n" % (len(binary), binary)
                continue
            value = _TEXT.sub(text, _NUMBER.sub("0" * DIGITS, argument)).encode()
            request += b"$%d\r\n" % len(value)
            shift = len(request)
            for found in _NUMBER.finditer(argument):
                assert not _TEXT.search(argument[: found.start()]), "a number after a text has no fixed place"
                source, divisor, modulus = found.groups()
                fields.append(
                    Field(shift + found.start(), _SOURCES[source], int(divisor or 1), int(modulus or 10**DIGITS))
                )
                shift -= len(found[0]) - DIGITS
            request += value + b"\r\n"
    return bytes(request), tuple(fields)


def _with_numbers(arguments: list[str], numbers: list[str]) -> list[str]:
    place = next((place for place, argument in enumerate(arguments) if _VECTOR.fullmatch(argument)), None)
    return arguments if place is None else [*arguments[:place], *numbers, *arguments[place + 1 :]]
