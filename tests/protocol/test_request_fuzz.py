"""Random streams of requests, whole, by bytes, cut at random and damaged: always what the plain reference reads."""

from __future__ import annotations

import time
from random import Random

import pytest

from amemdb.errors import ProtocolError
from amemdb.protocol.request import RequestParser
from tests.protocol.reference import parse

STREAMS = 150
ODD_BYTES = b"*$\r\n-+0123456789 \"'\\x\x00\xff"


class Stream:
    """One random stream: the bytes, and what was put into them."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.requests: list[list[bytes]] = []
        self.login_after = rng.choice((0, 0, 0, 1, 3))
        self.query_max = rng.choice((1 << 30, 1 << 30, 1 << 20, rng.randrange(40, 70_000)))
        self.data = b"".join(self.piece() for _ in range(rng.choice((1, 3, 20, 100))))

    def piece(self) -> bytes:
        """A request in one of the two forms, or something that is skipped."""
        rng = self.rng
        if rng.random() < 0.1:
            return rng.choice((b"\r\n", b"\n", b"*0\r\n", b"*-7\r\n", b"*-1\r\n", b" \t \r\n", b"*00\r\n"))
        tokens = [self.token() for _ in range(rng.choice((1, 1, 2, 3, 3, 5, 11)))]
        self.requests.append(tokens)
        if rng.random() < 0.3 and sum(map(len, tokens)) < 16_000:
            return b" ".join(self.quoted(token) for token in tokens) + rng.choice((b"\n", b"\r\n", b" \r\n"))
        return b"*%d\r\n" % len(tokens) + b"".join(b"$%d\r\n%b\r\n" % (len(token), token) for token in tokens)

    def token(self) -> bytes:
        rng = self.rng
        kind = rng.random()
        if kind < 0.6:
            return rng.randbytes(rng.randrange(12)).hex().encode()
        if kind < 0.8:
            return bytes(rng.choices(ODD_BYTES, k=rng.randrange(9)))
        if kind < 0.97:
            return rng.randbytes(rng.randrange(40))
        return rng.randbytes(1) * rng.choice((511, 1025, 2048, 2049, 16_384, 16_385))

    def quoted(self, token: bytes) -> bytes:
        """A way to type `token`."""
        if token.isalnum() and self.rng.random() < 0.7:
            return token
        if self.rng.random() < 0.3 and b"\n" not in token and b"\r" not in token and b"\\" not in token:
            return b"'" + token.replace(b"'", b"\\'") + b"'"
        spelled = {34: b'\\"', 92: b"\\\\", 10: b"\\n", 13: b"\\r", 9: b"\\t", 7: b"\\a", 8: b"\\b"}
        escaped = self.rng.random() < 0.3
        return b'"%b"' % b"".join(
            spelled.get(byte) or (b"\\x%02x" % byte if escaped else bytes([byte])) for byte in token
        )

    def damaged(self) -> bytes:
        """The stream with a few bytes flipped, dropped, put in or cut off."""
        rng = self.rng
        data = bytearray(self.data)
        for _ in range(rng.randrange(1, 5)):
            if not data:
                break
            at = rng.randrange(min(len(data), 400)) if rng.random() < 0.7 else rng.randrange(len(data))
            damage = rng.randrange(5)
            if damage == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif damage == 1:
                del data[at : at + rng.randrange(1, 9)]
            elif damage == 2:
                data[at:at] = bytes(rng.choices(ODD_BYTES, k=rng.randrange(1, 9)))
            elif damage == 3:
                data[at] = rng.choice(ODD_BYTES)
            else:
                del data[at:]
        if rng.random() < 0.03:
            data[rng.randrange(len(data) + 1) :] = bytes([rng.choice(b"*$A'0")]) * rng.randrange(65_000, 66_000)
        return bytes(data)


def chunks_of(data: bytes, rng: Random, how: str) -> list[bytes]:
    if how == "whole":
        return [data]
    if how == "bytes":
        return [data[i : i + 1] for i in range(len(data))]
    size_max = rng.choice((3, 20, 300, 5000))
    chunks = []
    position = 0
    while position < len(data):
        size = rng.randrange(size_max + 1)
        chunks.append(data[position : position + size])
        position += size
    return chunks


def read(stream: Stream, chunks: list[bytes], eager: bool) -> tuple[list[list[bytes]], str | None, int]:
    """What the parser makes of `chunks`: requests, error, bytes left. Not `eager`: some pile up first."""
    parser = RequestParser(authenticated=stream.login_after == 0, query_bytes_max=stream.query_max)
    requests: list[list[bytes]] = []
    for index, chunk in enumerate(chunks):
        parser.feed(chunk)
        if eager or index % 7 == 6 or index == len(chunks) - 1:
            try:
                while (request := parser.next()) is not None:
                    requests.append(request)
                    parser.authenticated = len(requests) >= stream.login_after
            except ProtocolError as error:
                return requests, str(error), parser.buffered_bytes
    return requests, None, parser.buffered_bytes


def check(seed: int) -> None:
    stream = Stream(seed)
    healthy = parse(stream.data, 0, 1 << 30)
    assert healthy == (stream.requests, None, 0), f"seed {seed}: the stream is not what was meant"
    for data in (stream.data, stream.damaged()):
        expected = parse(data, stream.login_after, stream.query_max)
        for how in ("whole", "bytes", "cuts", "cuts"):
            if how == "bytes" and len(data) > 20_000 and seed % 10:
                continue
            got = read(stream, chunks_of(data, stream.rng, how), eager=stream.rng.random() < 0.8)
            assert got == expected, f"seed {seed}, read {how}, of {len(data)} bytes"
            assert all(type(token) is bytes for request in got[0] for token in request)


def test_random_streams():
    for seed in range(STREAMS):
        check(seed)


@pytest.mark.soak
def test_random_streams_for_long(soak_seconds):
    """Seeds that no other run had; the seed of a failure is in its message."""
    first = time.time_ns() if soak_seconds else STREAMS
    deadline = time.monotonic() + soak_seconds
    seed = first
    while seed < first + 20 or time.monotonic() < deadline:
        check(seed)
        seed += 1
