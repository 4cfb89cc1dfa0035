"""The importer against a pipeline that records: batches, counts, bad lines, refusals, a lost connection."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
import redis

from amemdb.client import importer
from amemdb.client.importer import Interrupted, check_file, import_file, read_lines


class RecordingPipeline:
    """Takes commands as redis-py's pipeline does. `answer` gives the reply to one, or raises for the whole batch."""

    def __init__(self, answer: Callable[[tuple[bytes, ...]], Any] = lambda argv: b"OK") -> None:
        self.batches: list[list[tuple[bytes, ...]]] = []
        self._answer = answer
        self._queue: list[tuple[bytes, ...]] = []

    def execute_command(self, *argv: bytes) -> None:
        self._queue.append(argv)

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        assert not raise_on_error, "one refusal must not hide the replies behind it"
        batch, self._queue = self._queue, []
        self.batches.append(batch)
        return [self._answer(argv) for argv in batch]


def turn(content: str) -> bytes:
    return json.dumps({"kind": "turn", "session": "s", "role": "user", "content": content}).encode()


def run(data: bytes, pipeline: RecordingPipeline, batch_lines: int = 1000):
    problems: list[tuple[int, str]] = []
    positions: list[int] = []
    totals = import_file(
        io.BytesIO(data),
        pipeline,
        batch_lines,
        lambda number, reason: problems.append((number, reason)),
        positions.append,
    )
    return totals, problems, positions


def test_lines_go_out_in_order_and_in_batches():
    pipeline = RecordingPipeline()
    totals, problems, positions = run(b"\n".join(turn(str(n)) for n in range(7)), pipeline, batch_lines=3)
    assert [len(batch) for batch in pipeline.batches] == [3, 3, 1]
    assert [argv[3] for batch in pipeline.batches for argv in batch] == [b"%d" % n for n in range(7)]
    assert totals.done == {"turn": 7}
    assert problems == []
    assert positions == sorted(positions)


def test_large_lines_make_small_batches(monkeypatch):
    monkeypatch.setattr(importer, "BATCH_BYTES_MAX", 1000)
    pipeline = RecordingPipeline()
    run(b"\n".join([turn("x" * 600)] * 4), pipeline)
    assert [len(batch) for batch in pipeline.batches] == [2, 2]


def test_counts_by_kind():
    lines = [
        {"kind": "session", "session": "s"},
        {"kind": "summary", "agent": "a", "content": "c"},
        {"kind": "session", "session": "t"},
    ]
    totals, _, _ = run("\n".join(map(json.dumps, lines)).encode(), RecordingPipeline())
    assert totals.done == {"session": 2, "summary": 1}


def test_a_bad_line_is_told_with_its_number_and_its_neighbours_go_in():
    data = b"\n".join([turn("a"), b"", b"{", turn("b"), b'{"kind":"turn"}', turn("c")])
    pipeline = RecordingPipeline()
    totals, problems, _ = run(data, pipeline)
    assert [argv[3] for argv in pipeline.batches[0]] == [b"a", b"b", b"c"]
    assert [number for number, _ in problems] == [3, 5]
    assert (totals.done["turn"], totals.skipped) == (3, 2)


def test_a_refusal_of_the_server_is_told_with_the_number_of_its_line():
    def answer(argv):
        return redis.ResponseError("ERR session not found") if argv[3] == b"b" else b"OK"

    totals, problems, _ = run(b"\n".join([b"", turn("a"), turn("b"), turn("c")]), RecordingPipeline(answer))
    assert problems == [(3, "refused by the server: ERR session not found")]
    assert (totals.done["turn"], totals.skipped) == (2, 1)


def test_a_server_that_takes_nothing_stops_the_import():
    def answer(argv):
        return redis.ResponseError("MISCONF Errors writing to the log: disk is full") if argv[3] >= b"3" else b"OK"

    with pytest.raises(Interrupted, match="MISCONF Errors writing") as stop:
        run(b"\n".join(turn(str(n)) for n in range(9)), RecordingPipeline(answer), batch_lines=2)
    assert stop.value.certain == 3


def test_a_lost_connection_says_what_is_certain_and_sends_nothing_twice():
    def answer(argv):
        if argv[3] == b"5":
            raise redis.ConnectionError("Connection closed by server.")
        return b"OK"

    pipeline = RecordingPipeline(answer)
    with pytest.raises(Interrupted, match="Connection closed by server") as stop:
        run(b"\n".join(turn(str(n)) for n in range(9)), pipeline, batch_lines=4)
    assert stop.value.certain == 4
    assert [len(batch) for batch in pipeline.batches] == [4, 4]


def test_a_check_sends_nothing_and_finds_every_bad_line():
    problems: list[int] = []
    data = b"\n".join([turn("a"), b"{", b"[]", turn("b")])
    assert check_file(io.BytesIO(data), lambda number, reason: problems.append(number), lambda position: None) == 2
    assert problems == [2, 3]


def test_only_a_line_feed_ends_a_line():
    data = '{"content":"a\u2028b\u0085c"}\r\n\r\n  \n{}'.encode()
    assert [(line.number, line.end) for line in read_lines(io.BytesIO(data))] == [(1, 24), (4, len(data))]


def test_a_mark_of_byte_order_in_front_is_no_part_of_the_first_line():
    totals, problems, _ = run(b"\xef\xbb\xbf" + turn("a") + b"\n" + turn("b"), RecordingPipeline())
    assert totals.done == {"turn": 2}
    assert problems == []


def test_an_overlong_line_is_a_bad_line_and_the_next_one_is_found(monkeypatch):
    monkeypatch.setattr(importer, "LINE_BYTES_MAX", 200)
    exactly = turn("x" * (200 - len(turn(""))))
    assert len(exactly) == 200
    data = b"\n".join([turn("a"), turn("y" * 900), exactly, turn("z" * 300)])
    pipeline = RecordingPipeline()
    totals, problems, _ = run(data, pipeline)
    assert problems == [(2, "longer than 200 bytes"), (4, "longer than 200 bytes")]
    assert totals.done == {"turn": 2}
    assert [line.end for line in read_lines(io.BytesIO(data))][-1] == len(data)


def test_an_empty_file_is_no_mistake():
    totals, problems, _ = run(b"\n\n", RecordingPipeline())
    assert (sum(totals.done.values()), totals.skipped, problems) == (0, 0, [])


def test_what_a_server_says_cannot_break_out_of_its_line():
    _, problems, _ = run(turn("a"), RecordingPipeline(lambda argv: redis.ResponseError("ERR a\x1b[31m\nb")))
    assert problems == [(1, "refused by the server: ERR a?[31m?b")]
