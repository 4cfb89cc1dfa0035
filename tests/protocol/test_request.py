"""The wire grammar case by case: both forms, every cut, every limit and the text of every refusal."""

from __future__ import annotations

import pytest

from amemdb.errors import ProtocolError
from amemdb.limits import ARGS_MAX, BULK_BYTES_MAX, INLINE_BYTES_MAX
from amemdb.protocol.request import RequestParser

PING = b"*1\r\n$4\r\nPING\r\n"


def array(*tokens: bytes) -> bytes:
    return b"*%d\r\n" % len(tokens) + b"".join(b"$%d\r\n%b\r\n" % (len(token), token) for token in tokens)


def requests_of(parser: RequestParser) -> list[list[bytes]]:
    found = []
    while (request := parser.next()) is not None:
        found.append(request)
    return found


def parsed(data: bytes, authenticated: bool = True) -> list[list[bytes]]:
    """The requests in `data`; whole and by bytes they must be the same, with nothing left."""
    parser = RequestParser(authenticated)
    parser.feed(data)
    whole = requests_of(parser)
    assert parser.buffered_bytes == 0
    parser = RequestParser(authenticated)
    by_bytes = []
    for index in range(len(data)):
        parser.feed(data[index : index + 1])
        by_bytes += requests_of(parser)
    assert by_bytes == whole
    return whole


def refusal(data: bytes, authenticated: bool = True, before: int = 0, **limits: int) -> str:
    """Why `data` is refused, after `before` requests; whole and by bytes it must be the same."""
    texts = []
    for step in (len(data), 1):
        parser = RequestParser(authenticated, **limits)
        count = 0
        with pytest.raises(ProtocolError) as error:  # noqa: PT012
            for start in range(0, len(data), step):
                parser.feed(data[start : start + step])
                while parser.next() is not None:
                    count += 1
        assert count == before
        texts.append(str(error.value))
    assert texts[0] == texts[1]
    return texts[0]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PING, [[b"PING"]]),
        (PING * 3, [[b"PING"]] * 3),
        (array(b"SET", b"k", b""), [[b"SET", b"k", b""]]),
        (array(b""), [[b""]]),
        (array(b"ECHO", b"a\r\nb\r\n"), [[b"ECHO", b"a\r\nb\r\n"]]),
        (array(b"ECHO", b"\r\n"), [[b"ECHO", b"\r\n"]]),
        (array(b"ECHO", b"*1\r\n$4\r\nPING\r\n"), [[b"ECHO", b"*1\r\n$4\r\nPING\r\n"]]),
        (array(bytes(range(256)), bytes(range(255, -1, -1))), [[bytes(range(256)), bytes(range(255, -1, -1))]]),
        (b"*-7\r\n*0\r\n\r\n" + PING, [[b"PING"]]),
        (b"*-1\r\n" * 50 + PING, [[b"PING"]]),
        (b"*01\r\n$0004\r\nPING\r\n", [[b"PING"]]),
        (b"PING\n", [[b"PING"]]),
        (b"PING\r\n", [[b"PING"]]),
        (b"\n\r\n \t\n\n  PING  \r\nPING\n", [[b"PING"], [b"PING"]]),
        (PING + b"GET k\n" + PING, [[b"PING"], [b"GET", b"k"], [b"PING"]]),
        (b"$4\r\n", [[b"$4"]]),
        (b"\r*1\r\n", [[b"*1"]]),
        (b'SET k "a b\\x41\\n"\r\n', [[b"SET", b"k", b"a bA\n"]]),
        (b"SET k 'it\\'s'\r\n", [[b"SET", b"k", b"it's"]]),
        (b"GET a\x00b\r\n", [[b"GET", b"a\x00b"]]),
    ],
)
def test_requests(data, expected):
    assert parsed(data) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"*\r\n", "invalid multibulk length"),
        (b"*a\r\n", "invalid multibulk length"),
        (b"*1\n$4\r\nPING\r\n", "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"* 1\r\n", "invalid multibulk length"),
        (b"*1 \r\n", "invalid multibulk length"),
        (b"*1_0\r\n", "invalid multibulk length"),
        (b"*--1\r\n", "invalid multibulk length"),
        (b"*1\rx\r\n", "invalid multibulk length"),
        ("*\u0661\r\n".encode(), "invalid multibulk length"),
        (b"*%d\r\n" % (ARGS_MAX + 1), "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*-99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$4\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$+4\r\nPING\r\n", "invalid bulk length"),
        (b"*1\r\n$4_0\r\n", "invalid bulk length"),
        (b"*1\r\n$%d\r\n" % (BULK_BYTES_MAX + 1), "invalid bulk length"),
        (b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        (b"*1\r\n*1\r\n", "expected '$', got '*'"),
        (b"*1\r\n" * 60_000, "expected '$', got '*'"),
        (b"*2\r\n$1\r\na\r\nb", "expected '$', got 'b'"),
        (b"*1\r\n\xff", "expected '$', got '?'"),
        (b"*1\r\n\r\n", "expected '$', got '?'"),
        (b"*1\r\n$4\r\nPINGx", "expected CRLF after a bulk"),
        (b"*1\r\n$4\r\nPING\rx", "expected CRLF after a bulk"),
        (b"*1\r\n$4\r\nPING\n", "expected CRLF after a bulk"),
        (b"*1\r\n$3\r\nPING\r\n", "expected CRLF after a bulk"),
        (b'SET k "open\r\n', "unbalanced quotes in request"),
        (b"SET k 'open\n", "unbalanced quotes in request"),
        (b'SET k "a"b\r\n', "unbalanced quotes in request"),
        (b"A" * 70_000, "too big inline request"),
        (b" " * 70_000 + b"\n", "too big inline request"),
        (b"*" + b"1" * 70_000, "too big mbulk count string"),
        (b"*1\r\n$" + b"1" * 70_000, "too big bulk count string"),
    ],
)
def test_refusals(data, reason):
    assert refusal(data) == reason
    assert refusal(PING + b"GET k\r\n" + PING + data, before=3) == reason


def test_every_cut_gives_the_same_requests():
    data = array(b"AMEM.CONV.APPEND", b"s", b"user", b"a\r\nb\r\n") + b"SET 'a b' \"\"\r\n\r\n" + PING
    expected = [[b"AMEM.CONV.APPEND", b"s", b"user", b"a\r\nb\r\n"], [b"SET", b"a b", b""], [b"PING"]]
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            parser = RequestParser()
            found = []
            for part in (data[:first], data[first:second], data[second:]):
                parser.feed(part)
                found += requests_of(parser)
            assert found == expected, f"cut at {first} and {second}"
            assert parser.buffered_bytes == 0


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"*2\r\n$1\r\na\r\n$$1\r\nb\r\n", "invalid bulk length"),
        (b"*2\r\n$1\r\na\r\n$1$1\r\nb\r\n", "invalid bulk length"),
        (b"**1\r\n$1\r\na\r\n", "invalid multibulk length"),
        (b"*1*1\r\n$1\r\na\r\n", "invalid multibulk length"),
        (b"*1\r\n$1\r\na\r\r\n$1\r\n", "expected CRLF after a bulk"),
        (b"a 'b\r\n*1\r\n$1\r\na\r\n", "unbalanced quotes in request"),
    ],
)
def test_every_cut_gives_the_same_refusal(data, reason):
    for cut in range(len(data)):
        parser = RequestParser()
        parser.feed(data[:cut])
        with pytest.raises(ProtocolError) as error:  # noqa: PT012
            assert parser.next() is None
            parser.feed(data[cut:])
            parser.next()
        assert str(error.value) == reason, f"cut at {cut}"


def test_a_count_too_high_waits_and_then_meets_an_array_where_a_bulk_is_due():
    data = b"*5\r\n" + array(b"AMEM.CONV.APPEND", b"s", b"user", b"text").split(b"\r\n", 1)[1]
    parser = RequestParser()
    parser.feed(data)
    assert parser.next() is None
    assert parser.buffered_bytes == len(data)
    parser.feed(PING)
    with pytest.raises(ProtocolError, match=r"expected '\$', got '\*'"):
        parser.next()


def test_an_error_is_final_and_holds_nothing():
    parser = RequestParser()
    parser.feed(PING + b"*x\r\n" + PING)
    assert parser.next() == [b"PING"]
    errors = []
    for _ in range(3):
        with pytest.raises(ProtocolError) as error:
            parser.next()
        errors.append(error.value)
        parser.feed(PING)
        assert parser.buffered_bytes == 0
    assert {str(error) for error in errors} == {"invalid multibulk length"}
    assert len({id(error) for error in errors}) == 3, "a raised exception is never raised again"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*1000000\r\n", "unauthenticated multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$400000000\r\n", "unauthenticated bulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
        (b"*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        (b"*99999999999\r\n", "invalid multibulk length"),
        (b"*1\r\n" * 60_000, "expected '$', got '*'"),
    ],
)
def test_limits_before_login(data, reason):
    assert refusal(data, authenticated=False) == reason


def test_before_login_ten_arguments_of_16_kib_pass():
    request = [b"AUTH", *[b"x" * 16_384] * 9]
    assert parsed(array(*request), authenticated=False) == [request]


@pytest.mark.parametrize("values", [[b"v"] * 10, [b"x" * 16_385], [b"v"] * 5000])
def test_a_login_counts_for_what_is_behind_it_in_the_same_chunk(values):
    parser = RequestParser(authenticated=False)
    parser.feed(array(b"AUTH", b"p") + array(b"MSET", *values) * 2)
    assert parser.next() == [b"AUTH", b"p"]
    parser.authenticated = True
    assert parser.next() == [b"MSET", *values]
    parser.authenticated = False
    with pytest.raises(ProtocolError, match="unauthenticated"):
        parser.next()


def test_the_largest_request_passes():
    request = [b"ab"] * ARGS_MAX
    parser = RequestParser()
    parser.feed(array(*request))
    assert parser.next() == request


def test_lines_of_exactly_the_limit_pass():
    assert parsed(b"A" * INLINE_BYTES_MAX + b"\n") == [[b"A" * INLINE_BYTES_MAX]]
    assert parsed(b"*" + b"1".rjust(INLINE_BYTES_MAX - 2, b"0") + b"\r\n$4\r\nPING\r\n") == [[b"PING"]]
    assert refusal(b"A" * (INLINE_BYTES_MAX + 1) + b"\n") == "too big inline request"
    assert refusal(b"*" + b"1".rjust(INLINE_BYTES_MAX - 1, b"0") + b"\r\n") == "too big mbulk count string"


@pytest.mark.parametrize("tokens", [[b"SET", b"k", b"v" * 100], [b"MSET", *[b"a"] * 30], [b"x" * 5000]])
def test_a_request_beyond_the_query_limit_is_refused_before_it_has_come(tokens):
    data = array(*tokens)
    parser = RequestParser(query_bytes_max=len(data))
    parser.feed(data * 3)
    assert requests_of(parser) == [tokens] * 3
    limit = len(data) - 1
    text = f"too big request, more than {limit} bytes"
    assert refusal(data, query_bytes_max=limit) == text
    assert refusal(PING + data, query_bytes_max=limit, before=1) == text
    announced = data[: data.rindex(b"$")] + b"$%d\r\n" % len(tokens[-1])
    assert refusal(announced, query_bytes_max=limit) == text


def test_buffered_bytes_are_those_of_no_request_yet():
    parser = RequestParser()
    assert parser.buffered_bytes == 0
    parser.feed(PING * 2 + b"*2\r\n$3\r\nG")
    assert parser.buffered_bytes == 2 * len(PING) + 9
    parser.next()
    assert parser.buffered_bytes == len(PING) + 9
    parser.feed(b"ET\r\n")
    assert parser.buffered_bytes == len(PING) + 13
    parser.next()
    assert parser.buffered_bytes == 13
    assert parser.next() is None
    assert parser.buffered_bytes == 13
    parser.feed(b"$1\r\nk\r\nPIN")
    assert parser.next() == [b"GET", b"k"]
    assert parser.buffered_bytes == 3


def test_tokens_are_bytes_and_requests_belong_to_the_caller():
    parser = RequestParser()
    for part in (PING, b"*2\r\n$1\r\na\r\n$5000\r\n", b"x" * 2500, b"x" * 2500 + b"\r\n", b"a b\r\n", PING):
        parser.feed(part)
        while (request := parser.next()) is not None:
            assert isinstance(request, list)
            assert all(type(token) is bytes for token in request)
            request.append(b"more")


def test_feeding_before_reading_keeps_the_order():
    parser = RequestParser()
    for index in range(1000):
        parser.feed(array(b"GET", b"%d" % index)[:9])
        parser.feed(b"")
        parser.feed(array(b"GET", b"%d" % index)[9:])
    assert requests_of(parser) == [[b"GET", b"%d" % index] for index in range(1000)]
