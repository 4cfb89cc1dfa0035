"""What the loader is given to send: encoded requests, and where digits are written over them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.rows import ROWS
from benchmarks.templates import BINARY_VECTORS, TEXT_BYTES, TEXTS, Field, as_they_are, templates


def test_a_plain_command_is_one_request_without_fields():
    made = templates("LRANGE s:7 -10 -1")
    assert made.requests == (b"*4\r\n$6\r\nLRANGE\r\n$3\r\ns:7\r\n$3\r\n-10\r\n$2\r\n-1\r\n",)
    assert (made.fields, made.commands) == ((), 1)


def test_fields_point_at_their_digits_also_with_several_in_one_argument():
    made = templates("GET a{any%50}b{seq/3}c{seq/3%7}")
    request = made.requests[0]
    assert [str(field).split(",", 1)[1] for field in made.fields] == ["r,1,50", "s,3,100000000", "s,3,7"]
    assert [request[field.offset - 1 : field.offset + 8] for field in made.fields] == [
        b"a00000000",
        b"b00000000",
        b"c00000000",
    ]


def test_commands_of_one_operation_are_one_request():
    made = templates("RPUSH s:{any%9} x ; LTRIM s:{any%9} -20 -1")
    assert made.commands == 2
    assert made.requests[0].count(b"s:00000000") == 2
    assert [field.source for field in made.fields] == ["r", "r"]


def test_texts_differ_and_have_one_length():
    made = templates("SET k {text}")
    assert len(set(made.requests)) == len(made.requests) == TEXTS
    assert all(b"$%d\r\n" % TEXT_BYTES in request for request in made.requests)


def test_a_text_can_be_of_another_length():
    made = templates("SET k {text:2000}")
    assert len(set(made.requests)) == TEXTS
    assert all(b"$2000\r\n" in request for request in made.requests)


def test_a_vector_is_as_many_arguments_of_one_length():
    made = templates("VADD v VALUES 20 {vector:20} f:{any}")
    assert len(set(made.requests)) == len(made.requests) == TEXTS
    assert len({len(request) for request in made.requests}) == 1
    for request in made.requests:
        arguments = request.split(b"\r\n")[2::2]
        assert arguments[:4] == [b"VADD", b"v", b"VALUES", b"20"]
        assert len(arguments) == 4 + 20 + 1
        assert all(-1 < float(number) < 1 for number in arguments[4:24])
        assert request[made.fields[0].offset :].startswith(b"00000000\r\n")


def test_a_binary_vector_is_one_argument_of_four_bytes_a_number():
    made = templates("SET f:{any} {text} FP32 {fp32:20}")
    assert len(set(made.requests)) == len(made.requests) == BINARY_VECTORS
    seen = set()
    for request in made.requests:
        place = request.index(b"$80\r\n") + 5
        vector = np.frombuffer(request[place : place + 80], "<f4")
        assert request[place + 80 :] == b"\r\n"
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)
        seen.add(vector.tobytes())
        assert request[made.fields[0].offset :].startswith(b"00000000\r\n")
    assert len(seen) == BINARY_VECTORS
    assert len(made.fields) == 1


def test_whole_requests_are_sent_as_they_are():
    made = as_they_are([b"PING\r\n", b"ECHO\r\n"])
    assert (made.requests, made.fields, made.commands, made.length) == ((b"PING\r\n", b"ECHO\r\n"), (), 1, 6)
    with pytest.raises(AssertionError):
        as_they_are([b"PING\r\n", b"TIME a\r\n"])


def test_a_number_behind_a_text_is_refused_since_it_has_no_place():
    with pytest.raises(AssertionError, match="fixed place"):
        templates("SET k {text}{seq}")


def test_a_field_is_written_as_the_loader_reads_it():
    assert str(Field(12, "r", 1, 99)) == "12,r,1,99"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_the_lines_of_every_row_can_be_made(row):
    for side in (row.ours, row.redis):
        for line in (side.request, *(part.line for part in side.fill)):
            made = templates(line)
            assert not any(re.search(rb"\{(any|seq|text|vector|fp32)", request) for request in made.requests)


def test_rows_have_keys_of_their_own():
    assert len({row.key for row in ROWS}) == len(ROWS)
