"""The HTTP embedder against an endpoint that behaves well and badly."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np
import pytest

from amemdb.embed.embedder import EmbedError
from amemdb.embed.endpoint import BACKOFF_S, TRIES_MAX, EndpointEmbedder, Means
from amemdb.embed.service import Service
from tests.embed import endpoints
from tests.embed.endpoints import Server, embedder, entries, status, vector

SECRET = "sk-very-secret-0123456789"


class Hand:
    """Time that passes only by waiting."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds

    @property
    def means(self) -> Means:
        return Means(lambda: self.now_s, random.Random(1), self.wait)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def hand() -> Hand:
    return Hand()


def test_vectors_come_in_the_order_of_their_texts(server):
    model = embedder(server)
    vectors = model.embed(["one", "two", "three"])
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [vector("one"), vector("two"), vector("three")]
    assert model.dim == 4


def test_what_is_sent_is_what_openai_documents(server):
    model = embedder(server, key=SECRET)
    model.embed(["Grüße", "\ud800"])
    (seen,) = server.seen
    assert (seen["path"], seen["model"], seen["encoding_format"]) == ("/v1/embeddings", "m", "base64")
    assert (seen["key"], seen["input"]) == (f"Bearer {SECRET}", ["Grüße", "\ud800"])
    embedder(server).embed(["x"])
    assert server.seen[-1]["key"] is None


def test_base64_is_read(server):
    server.answers.append(endpoints.well_in_base64)
    assert embedder(server).embed(["a", "b"]).tolist() == [vector("a"), vector("b")]


def test_an_index_is_the_place(server):
    data = [{"index": 1, "embedding": [2, 0]}, {"index": 0, "embedding": [1, 0]}]
    server.answers.append(endpoints.body(json.dumps({"data": data}).encode()))
    assert embedder(server).embed(["a", "b"]).tolist() == [[1, 0], [2, 0]]


def test_without_an_index_they_are_in_order(server):
    server.answers.append(endpoints.body(b'{"data": [{"embedding": [1]}, {"embedding": [2]}], "note": "[1, 2] [3]"}'))
    assert embedder(server).embed(["a", "b"]).tolist() == [[1], [2]]


def test_an_endpoint_without_base64_is_asked_for_numbers_from_then_on(server):
    server.answers.append(status(400, "unknown parameter: encoding_format"))
    model = embedder(server)
    assert model.embed(["a"]).tolist() == [vector("a")]
    model.embed(["b"])
    assert ["encoding_format" in seen for seen in server.seen] == [True, False, False]


def test_a_connection_is_used_again(server):
    model = embedder(server)
    for text in "abc":
        model.embed([text])
    assert len({seen["peer"] for seen in server.seen}) == 1


def test_a_kept_connection_that_has_ended_is_replaced_without_a_word(server, hand):
    model = embedder(server, means=hand.means)
    model.embed(["a"])
    server.answers += [endpoints.hang_up, endpoints.well]
    assert model.embed(["b"]).tolist() == [vector("b")]
    assert hand.waits == []
    assert len(server.seen) == 3


# -- failures that pass ------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again_after_growing_waits(server, hand, code):
    server.answers += [status(code), status(code)]
    assert embedder(server, means=hand.means).embed(["a"]).tolist() == [vector("a")]
    first, second = hand.waits
    assert 0.75 * BACKOFF_S <= first <= 1.25 * BACKOFF_S
    assert 1.5 * BACKOFF_S <= second <= 2.5 * BACKOFF_S


def test_a_wait_is_as_long_as_the_endpoint_says(server, hand):
    server.answers += [status(429, Retry_After="7"), status(429, Retry_After="Fri, 31 Dec 1999 23:59:59 GMT")]
    embedder(server, means=hand.means).embed(["a"])
    assert hand.waits[0] == 7
    assert hand.waits[1] <= 2.5 * BACKOFF_S


def test_who_is_told_to_wait_longer_than_there_is_time_fails_at_once(server, hand):
    server.answers += [status(429, "slow down", Retry_After="60")]
    with pytest.raises(EmbedError, match=r"^embedder 'm': HTTP 429: slow down$"):
        embedder(server, means=hand.means).embed(["a"])
    assert hand.waits == []


def test_tries_have_an_end(server, hand):
    server.answers += [status(500, "oops")] * 20
    with pytest.raises(EmbedError, match=f"HTTP 500: oops, after {TRIES_MAX} tries"):
        embedder(server, means=hand.means).embed(["a"])
    assert len(server.seen) == TRIES_MAX


def test_a_closed_embedder_tries_no_more(server):
    server.answers += [status(500)] * 20
    model = embedder(server)
    model.close()
    with pytest.raises(EmbedError, match=r"HTTP 500: no$"):
        model.embed(["a"])


@pytest.mark.parametrize(
    "broken",
    [
        endpoints.hang_up,
        endpoints.cut,
        endpoints.raw(b"garbage\r\n\r\n"),
        endpoints.raw(b"HTTP/1.1 200 OK\r\n" + b"x" * 100_000),
        endpoints.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        endpoints.raw(b"\xff" * 100),
    ],
)
def test_a_connection_that_breaks_is_tried_again(server, hand, broken):
    server.answers.append(broken)
    assert embedder(server, means=hand.means).embed(["a"]).tolist() == [vector("a")]
    server.answers += [broken] * 20
    with pytest.raises(EmbedError, match=r"embedder 'm': 127\.0\.0\.1:\d+ cannot be reached: "):
        embedder(server, means=hand.means).embed(["a"])


def test_nobody_there_is_told(hand):
    model = EndpointEmbedder("m", "m", urlsplit("http://127.0.0.1:1/v1"), lambda: "", 20.0, hand.means)
    with pytest.raises(EmbedError, match=r"127\.0\.0\.1:1 cannot be reached: ConnectionRefusedError"):
        model.embed(["a"])


def test_https_is_spoken_or_nothing(server, hand):
    base = urlsplit(server.base.replace("http:", "https:"))
    model = EndpointEmbedder("m", "m", base, lambda: SECRET, 20.0, hand.means)
    with pytest.raises(EmbedError, match="cannot be reached: SSLError"):
        model.embed(["a"])
    assert server.seen == []


def test_an_answer_in_pieces_is_read(server):
    def in_pieces(handler, texts):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        whole = entries([vector(text) for text in texts])
        for begin in range(0, len(whole), 7):
            piece = whole[begin : begin + 7]
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    server.answers.append(in_pieces)
    model = embedder(server)
    assert model.embed(["a", "b"]).tolist() == [vector("a"), vector("b")]
    assert model.embed(["c"]).tolist() == [vector("c")]
    assert len({seen["peer"] for seen in server.seen}) == 1


def test_an_endpoint_that_takes_fewer_texts_at_a_time_gets_fewer(server):
    def few(handler, texts):
        if len(texts) > 3:
            handler.reply(413, b'{"error": "batch size 8 > maximum allowed batch size 3"}')
        else:
            endpoints.well(handler, texts)

    server.answers += [few] * 20
    service = Service(embedder(server), batch_max=8)
    texts = [f"t{number}" for number in range(8)]
    assert service.embed(texts, 20).tolist() == [vector(text) for text in texts]
    service.close()


def test_a_name_that_cannot_be_one_is_told(hand):
    model = EndpointEmbedder("m", "m", urlsplit("http://a..b/v1"), lambda: "", 20.0, hand.means)
    with pytest.raises(EmbedError, match=r"a\.\.b cannot be reached: "):
        model.embed(["a"])


def test_a_long_answer_is_read_piece_by_piece(server, monkeypatch):
    """While Python reads JSON no other thread runs, the event loop's neither."""
    row = [float(place) / 7 for place in range(1000)]
    whole = entries([row] * 32)
    sizes: list[int] = []
    loads = json.loads
    server.answers.append(endpoints.body(whole))
    monkeypatch.setattr("amemdb.embed.response.json.loads", lambda text: sizes.append(len(text)) or loads(text))
    assert embedder(server).embed([str(number) for number in range(32)]).shape == (32, 1000)
    assert len(sizes) > 32
    assert max(sizes) < len(whole) / 16


def test_an_answer_that_does_not_come_ends_in_time(server):
    server.answers.append(endpoints.slow)
    with pytest.raises(EmbedError, match=r"^embedder 'm': the endpoint did not answer within 0\.2 s$"):
        embedder(server, timeout_s=0.2).embed(["a"])


# -- failures that stay ------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [400, 404, 413, 422])
def test_what_is_refused_for_good_is_told_at_once(server, hand, code):
    server.answers.append(status(code, "the text is too long"))
    with pytest.raises(EmbedError, match=f"HTTP {code}: the text is too long") as caught:
        embedder(server, means=hand.means).embed(["a"])
    assert caught.value.texts_at_fault == (code != 404)
    assert len(server.seen) == 1


def test_a_redirect_is_not_followed(server):
    server.answers.append(status(307, Location="http://127.0.0.1:1/"))
    with pytest.raises(EmbedError, match=r"redirect \(HTTP 307\)"):
        embedder(server, key=SECRET).embed(["a"])
    assert len(server.seen) == 1


@pytest.mark.parametrize("code", [400, 401, 403, 500])
def test_no_error_tells_the_key(server, hand, code):
    server.answers += [status(code, f"wrong key {SECRET}")] * TRIES_MAX
    with pytest.raises(EmbedError, match=f"HTTP {code}") as caught:
        embedder(server, key=SECRET, means=hand.means).embed(["a"])
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is not JSON"),
        (b"<html>", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "has no list 'data'"),
        (b'{"data": {}}', "has no list 'data'"),
        (b'{"data": [1.5, 2]}', "has no list 'data'"),
        (b'{"data": [1]}', "has no list 'data'"),
        (b'{"data": [null, null]}', "places of the vectors"),
        (entries([[1, 2]]), "expected 2 vectors, got 1"),
        (entries([]), "expected 2 vectors, got 0"),
        (entries([[1], [2], [3]]), "expected 2 vectors, got 3"),
        (entries([[1, 2], [1, 2, 3]]), "2 and 3 components"),
        (entries([[], []]), "got 0"),
        (entries([[1], [float("nan")]]), "vector 2 has a component that is not finite"),
        (entries([[1], [float("inf")]]), "vector 2 has a component that is not finite"),
        (entries([[1], [1e39]]), "vector 2 has a component that is not finite"),
        (entries([[1], ["2"]]), "vector 2 is not a row of numbers"),
        (entries([[1], [None]]), "vector 2 is not a row of numbers"),
        (entries([[1], [True]]), "vector 2 is not a row of numbers"),
        (entries([[1], [[2]]]), "neither base64 nor an array"),
        (entries([[1], None]), "neither base64 nor an array"),
        (entries([[1], 5]), "neither base64 nor an array"),
        (entries([[1], "%%%"]), "not base64"),
        (entries([[1], "AACA"]), "not whole float32"),
        (entries([[1], "AADAfw=="]), "vector 2 has a component that is not finite"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}', "places of the vectors"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]}', "places of the vectors"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": true, "embedding": [1]}]}', "places of the vectors"),
        (b'{"data": [{"embedding": [1]}, {"embedding": [1-1]}]}', "neither base64 nor an array"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_is_an_error(server, data, told):
    server.answers.append(endpoints.body(data))
    with pytest.raises(EmbedError, match=told) as caught:
        embedder(server).embed(["a", "b"])
    assert str(caught.value).startswith("embedder 'm': ")
    assert str(caught.value).isprintable()


def test_an_answer_without_end_is_not_read_to_its_end(server, monkeypatch):
    monkeypatch.setattr("amemdb.embed.endpoint.ANSWER_BYTES", 1000)
    monkeypatch.setattr("amemdb.embed.endpoint.ANSWER_BYTES_PER_TEXT", 10)
    server.answers.append(endpoints.body(b" " * 100_000))
    with pytest.raises(EmbedError, match="longer than 1010 bytes"):
        embedder(server).embed(["a"])


def test_a_dimension_that_changes_is_an_error(server):
    model = embedder(server)
    model.embed(["a"])
    server.answers.append(endpoints.body(entries([[1.0, 2.0]])))
    with pytest.raises(EmbedError, match="made vectors of 4 components before, and now of 2"):
        model.embed(["b"])
    assert model.embed(["c"]).shape == (1, 4)


def test_numbers_are_cut_out_of_json_without_changing_it(server):
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((3, 300)).astype(np.float32)
    server.answers.append(endpoints.body(entries([row.tolist() for row in vectors])))
    assert np.array_equal(embedder(server).embed(["a", "b", "c"]), vectors)
