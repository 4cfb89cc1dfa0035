"""The request grammar once more, in the plainest way there is: whole input, one position, no chunks, no speed."""

from __future__ import annotations

import re

LINE_MAX = 65_536
BLANKS = b" \t\n\v\f\r"
CONTROL = {ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("a"): 7}


class Refused(Exception):
    """The input is no request; the text is that of the protocol error."""


def parse(data: bytes, login_after: int, query_max: int) -> tuple[list[list[bytes]], str | None, int]:
    """The requests in `data`, the error behind them or None, and how many bytes belong to no request yet.

    The limits before login hold for the first `login_after` requests.
    """
    requests: list[list[bytes]] = []
    start = 0
    try:
        while start < len(data):
            one = _request(data, start, len(requests) >= login_after, query_max)
            if one is None:
                break
            tokens, start = one
            if tokens:
                requests.append(tokens)
    except Refused as error:
        return requests, str(error), 0
    return requests, None, len(data) - start


def _request(data: bytes, start: int, logged_in: bool, query_max: int) -> tuple[list[bytes], int] | None:
    if data[start] != ord("*"):
        line = _line(data, start, query_max, "too big inline request")
        if line is None:
            return None
        return split(line.removesuffix(b"\r")), start + len(line) + 1
    line = _line(data, start, query_max, "too big mbulk count string")
    if line is None:
        return None
    count = _number(line)
    if count is None or count > 1_048_576:
        raise Refused("invalid multibulk length")
    if count > 10 and not logged_in:
        raise Refused("unauthenticated multibulk length")
    position = start + len(line) + 1
    if count <= 0:
        return [], position
    too_big = f"too big request, more than {query_max} bytes"
    if position - start > query_max:
        raise Refused(too_big)
    tokens: list[bytes] = []
    for _ in range(count):
        if position == len(data):
            return None
        if data[position] != ord("$"):
            got = chr(data[position]) if 32 <= data[position] < 127 else "?"
            raise Refused(f"expected '$', got '{got}'")
        line = _line(data, position, query_max, "too big bulk count string")
        if line is None:
            return None
        length = _number(line)
        if length is None or not 0 <= length <= 512 * 1024 * 1024:
            raise Refused("invalid bulk length")
        if length > 16_384 and not logged_in:
            raise Refused("unauthenticated bulk length")
        body = position + len(line) + 1
        position = body + length + 2
        if position - start > query_max:
            raise Refused(too_big)
        if not b"\r\n".startswith(data[body + length : position]):
            raise Refused("expected CRLF after a bulk")
        if position > len(data):
            return None
        tokens.append(data[body : body + length])
    return tokens, position


def _line(data: bytes, start: int, query_max: int, too_big: str) -> bytes | None:
    end = data.find(b"\n", start)
    if (end if end >= 0 else len(data)) - start > min(LINE_MAX, query_max):
        raise Refused(too_big)
    return data[start:end] if end >= 0 else None


def _number(line: bytes) -> int | None:
    text = line[1:]
    if re.fullmatch(rb"-?[0-9]+\r", text) is None:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def split(line: bytes) -> list[bytes]:
    """The quoting rules, byte by byte."""
    tokens: list[bytes] = []
    position = 0

    def byte(ahead: int = 0) -> int:
        return line[position + ahead] if position + ahead < len(line) else -1

    while True:
        while byte() >= 0 and byte() in BLANKS:
            position += 1
        if byte() < 0:
            return tokens
        token = bytearray()
        quote = 0
        while True:
            this = byte()
            if not quote:
                if this < 0 or this in b" \t\r\n":
                    break
                if this in b"\"'":
                    quote = this
                else:
                    token.append(this)
            elif this < 0:
                raise Refused("unbalanced quotes in request")
            elif this == quote:
                position += 1
                if byte() >= 0 and byte() not in BLANKS:
                    raise Refused("unbalanced quotes in request")
                break
            elif this == ord("\\") and quote == ord("'") and byte(1) == quote:
                token.append(quote)
                position += 1
            elif this == ord("\\") and quote == ord('"') and byte(1) >= 0:
                pair = line[position + 2 : position + 4]
                if byte(1) == ord("x") and re.fullmatch(rb"[0-9a-fA-F]{2}", pair):
                    token.append(int(pair, 16))
                    position += 3
                else:
                    token.append(CONTROL.get(byte(1), byte(1)))
                    position += 1
            else:
                token.append(this)
            position += 1
        tokens.append(bytes(token))
