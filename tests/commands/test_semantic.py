"""AMEM.SEM on the wire: shapes, refusals that leave no trace, and recall that is never wrong about what lives."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import hiredis
import numpy as np
import pytest
from rig import START_MS, Rig, decode, records_of

from amemdb.commands import recall, vectors
from amemdb.engine.answers import Parts, Pending
from amemdb.index.exact import ROW_FLOATS

NOW = START_MS


class Node(Rig):
    """A rig called by one line. `between` runs before and after the work of a search that leaves the loop."""

    deferred = 0

    def raw(self, *argv: bytes, session: Any = None) -> bytes:
        self.log.asked = 0
        answer = self.engine.execute(session or self.session, list(argv), self.now_ms)
        while isinstance(answer, Pending):
            self.deferred += 1
            self.between()
            result = answer.work()
            self.between()
            answer = self.engine.resume(answer, result, self.now_ms)
        return answer.whole() if isinstance(answer, Parts) else answer

    def between(self) -> None:
        """For tests to replace."""

    def line(self, line: str, resp3: bool = False) -> Any:
        return self.run(*line.split(), resp3=resp3)

    def run(self, *words: bytes | str | float, resp3: bool = False) -> Any:
        self.session.resp3 = resp3
        return decode(self.raw(*(word if isinstance(word, bytes) else str(word).encode() for word in words)))

    def refused(self, *words: bytes | str | float) -> str:
        """The error, once it is certain that nothing changed and nothing was logged."""
        before, logged = self.digest(), len(self.log.frames)
        reply = self.run(*(words[0].split() if len(words) == 1 and isinstance(words[0], str) else words))
        assert isinstance(reply, hiredis.ReplyError), f"{words} was not refused: {reply!r}"
        assert (self.digest(), len(self.log.frames)) == (before, logged)
        code, _, text = str(reply).partition(" ")
        assert code == "ERR"
        return text

    def last_record(self) -> list[Any]:
        return records_of(self.log.frames[-1])[-1]


def labelled(items: list[list[Any]]) -> list[dict[bytes, Any]]:
    return [dict(zip(item[::2], item[1::2], strict=True)) for item in items]


def keys(items: list[list[Any]]) -> list[bytes]:
    return [item[b"key"] for item in labelled(items)]


@pytest.fixture
def node() -> Node:
    node = Node()
    assert node.line("AMEM.SEM.CREATE a 4") == b"OK"
    return node


# -- shapes ------------------------------------------------------------------------------------------


def test_a_fact_is_stored_recalled_listed_and_forgotten(node: Node) -> None:
    assert node.run("AMEM.SEM.STORE", "a", "vat", b"30 days.\r\n\x00\xff", 0.1, 0.2, 0.3, 0) == b"OK"
    assert node.line("AMEM.SEM.STORE a other text 0 0 0 1") == b"OK"
    assert node.line("AMEM.SEM.RECALL a 1 0.1 0.2 0.3 0") == [
        [b"key", b"vat", b"content", b"30 days.\r\n\x00\xff", b"similarity", b"1"]
    ]
    assert node.line("amem.sem.recall a 1 .2 4e-1 0.6 -0", resp3=True) == [
        {b"key": b"vat", b"content": b"30 days.\r\n\x00\xff", b"similarity": pytest.approx(1.0, abs=1e-6)}
    ]
    assert node.line("AMEM.SEM.LIST a") == [b"vat", b"other"]
    assert node.line("AMEM.SEM.FORGET a vat") == 1
    assert node.line("AMEM.SEM.FORGET a vat") == 0
    assert node.line("AMEM.SEM.LIST a") == [b"other"]
    assert keys(node.line("AMEM.SEM.RECALL a 9 0.1 0.2 0.3 0")) == [b"other"]


def test_what_is_unknown_is_empty_on_reads_and_an_error_on_writes(node: Node) -> None:
    assert node.line("AMEM.SEM.RECALL nobody 3 1 0 0") == []
    assert node.line("AMEM.SEM.RECALL a 3 1 0 0 0") == []
    assert node.line("AMEM.SEM.LIST nobody") == node.line("AMEM.SEM.LIST a") == []
    assert (
        node.line("AMEM.SEM.FORGET nobody k")
        == node.line("AMEM.SEM.FORGET a k")
        == node.line("AMEM.SEM.DROP nobody")
        == 0
    )
    assert node.line("AMEM.SEM.GET nobody k") is node.line("AMEM.SEM.GET a k") is None
    assert node.refused("AMEM.SEM.STORE nobody k text 1 0 0 0") == "semantic memory not found"
    assert node.refused("AMEM.SEM.INFO nobody") == "semantic memory not found"


def test_what_was_not_given_is_told_as_absent(node: Node) -> None:
    node.line("AMEM.SEM.STORE a k1 one 1 0 0 0")
    node.run(
        "AMEM.SEM.STORE", "a", "k2", "two", 1, 0, 0, 1, "META", b'{"n": 1}', "trust", "UNTRUSTED", "SOURCE", "mail"
    )
    node.now_ms += 5
    node.line("AMEM.SEM.STORE a k3 three 1 0 1 1 TRUST trusted TTL 60")
    one, two, three = labelled(node.line("AMEM.SEM.RECALL a 3 1 0 0 0 WITHMETA"))
    told = (b"source", b"trust", b"meta", b"stored_at", b"expires_at")
    assert list(one) == [b"key", b"content", b"similarity", *told]
    assert [one[label] for label in told] == [None, None, None, NOW, -1]
    assert [two[label] for label in told] == [b"mail", b"untrusted", b'{"n": 1}', NOW, -1]
    assert [three[label] for label in told] == [None, b"trusted", None, NOW + 5, NOW + 60_005]
    assert labelled([node.line("AMEM.SEM.GET a k2")]) == [
        {label: value for label, value in two.items() if label != b"similarity"}
    ]


def test_a_vector_is_read_back_as_it_was_written(node: Node) -> None:
    node.line("AMEM.SEM.STORE a k text 0.1 -2 1e-7 3.4028235e38")
    fact = labelled([node.line("AMEM.SEM.GET a k WITHVECTOR", resp3=False)])[0]
    assert fact[b"vector"] == [b"0.1", b"-2", b"0.0000001", b"340282350000000000000000000000000000000"]
    assert node.line("AMEM.SEM.GET a k withvector", resp3=True)[b"vector"] == [0.1, -2.0, 1e-7, 3.4028235e38]


def test_info_counts_what_lives(node: Node) -> None:
    node.line("AMEM.SEM.STORE a k text 1 0 0 0")
    node.line("AMEM.SEM.STORE a l text 1 0 0 0 TTL 1")
    assert labelled([node.line("AMEM.SEM.INFO a")])[0] == {
        b"dim": 4,
        b"metric": b"cosine",
        b"facts": 2,
        b"index": b"exact",
        b"tombstones": 0,
        b"bytes": 2 * (1 + 4 + 16),
        b"m": 0,
        b"ef_construction": 0,
        b"ef_search": 0,
        b"quant": b"f32",
        b"maxfacts": 0,
        b"model": None,
        b"lang": None,
        b"tail": 0,
        b"graphs": 0,
        b"merged": 0,
        b"merging": 0,
    }
    node.now_ms += 1000
    assert node.line("AMEM.SEM.INFO a", resp3=True)[b"facts"] == 1


def test_float32_bytes_and_numbers_are_the_same_vector(node: Node) -> None:
    node.line("AMEM.SEM.STORE a k text 0.25 -1 3 0.1")
    record = node.last_record()
    node.run("AMEM.SEM.STORE", "a", "k", "text", "fp32", struct.pack("<4f", 0.25, -1, 3, 0.1), "TTL", "5")
    assert node.last_record()[5] == record[5] == struct.pack("<4f", 0.25, -1, 3, 0.1)
    query = ("FP32", struct.pack("<4f", 1, 0, 0, 0))
    assert node.run("AMEM.SEM.RECALL", "a", 1, *query) == node.line("AMEM.SEM.RECALL a 1 1 0 0 0")
    for data in (b"", bytes(15), bytes(17), bytes(12)):
        assert "4 components" in node.refused("AMEM.SEM.STORE", "a", "k", "text", "FP32", data)
    wrong = "vector must have 4 components, 16 bytes of float32; got "
    assert node.refused("AMEM.SEM.RECALL", "a", 1, "FP32", bytes(12)) == wrong + "3 in 12 bytes"
    assert node.refused("AMEM.SEM.RECALL", "a", 1, "FP32", bytes(13)) == wrong + "13 bytes"
    assert "FP32" in node.refused("AMEM.SEM.STORE a k text FP32")
    assert "unexpected 'FP32'" in node.refused("AMEM.SEM.RECALL", "a", 1, *query, *query)
    for bad in (float("nan"), float("inf"), float("-inf")):
        data = struct.pack("<4f", 1, 0, bad, 0)
        assert "component 3 of the vector" in node.refused("AMEM.SEM.STORE", "a", "k", "text", "FP32", data)
        assert "component 3 of the vector" in node.refused("AMEM.SEM.RECALL", "a", 1, "FP32", data)


# -- namespaces --------------------------------------------------------------------------------------


def test_a_namespace_is_made_once(node: Node) -> None:
    node.line("AMEM.SEM.STORE a k text 1 0 0 0")
    before, logged = node.digest(), len(node.log.frames)
    assert node.line("AMEM.SEM.CREATE a 4") == node.line("AMEM.SEM.CREATE a 4 METRIC Cosine") == b"OK"
    assert (node.digest(), len(node.log.frames)) == (before, logged)
    assert node.refused("AMEM.SEM.CREATE a 8") == (
        "semantic memory already exists with dim 4, metric cosine; asked for dim 8, metric cosine"
    )
    assert "dim 4, metric cosine; asked for dim 4, metric l2" in node.refused("AMEM.SEM.CREATE a 4 METRIC l2")
    node.line("AMEM.SEM.CREATE p 4 METRIC ip")
    assert node.line("AMEM.SEM.CREATE p 4") == b"OK", "a metric that is not given fits any"
    assert node.line("AMEM.SEM.DROP a") == 1
    assert node.line("AMEM.SEM.DROP a") == 0
    assert node.line("AMEM.SEM.CREATE a 8") == b"OK"
    assert node.line("AMEM.SEM.LIST a") == []


@pytest.mark.parametrize("dim", ["0", "-1", "65537", "1000000000", "4.0", "four", ""])
def test_a_dimension_has_bounds(node: Node, dim: str) -> None:
    assert "dim" in node.refused("AMEM.SEM.CREATE", "b", dim)
    assert node.line("AMEM.SEM.CREATE c 65536") == b"OK"


def test_namespaces_are_scanned(node: Node) -> None:
    for number in range(30):
        node.line(f"AMEM.SEM.CREATE n{number} 2")
    seen, cursor = [], b"0"
    while True:
        cursor, names = node.run("AMEM.SEM.SCAN", cursor, "COUNT", 4)
        assert len(names) <= 4
        seen += names
        if cursor == b"0":
            break
    assert sorted(seen) == sorted([b"a", *(b"n%d" % number for number in range(30))])
    assert node.line("AMEM.SEM.SCAN 0 MATCH [m-n]7 COUNT 100") == [b"0", [b"n7"]]


# -- vectors that must not get in ----------------------------------------------------------------------

HOSTILE = ["nan", "NaN", "-nan", "inf", "-inf", "+inf", "Infinity", "-Infinity", "1e39", "-1e39", "1e400", "-1e400"]
HOSTILE += [
    "3.4028236e38",
    "1_0",
    "0x10",
    "",
    " ",
    " 1",
    "1 ",
    "1,2",
    "1\n2",
    "\n",
    "1\r",
    "1.",
    "1.e3",
    ".",
    "-",
    "--1",
]
HOSTILE += [
    "+1",
    "1e",
    "1e+",
    "e5",
    "1.2.3",
    "\u0661",
    "\uff11",
    "1\x00",
    "\x00",
    "1d5",
    "1f",
    "½",
    "0b1",
    "1e1.5",
    "1\t",
]


@pytest.mark.parametrize("bad", HOSTILE)
def test_a_component_is_a_finite_number_of_the_grammar(node: Node, bad: str) -> None:
    node.line("AMEM.SEM.STORE a bad before 1 0 0 0")
    for place in (1, 4):
        vector: list[str | float] = [1, 0, 0, 0]
        vector[place - 1] = bad
        told = [node.refused("AMEM.SEM.STORE", "a", "bad", "text", *vector)]
        told += [node.refused("AMEM.SEM.STORE", "a", "bad", "text", *vector, "TTL", 60)]
        told += [node.refused("AMEM.SEM.RECALL", "a", 1, *vector)]
        told += [node.refused("AMEM.SEM.RECALL", "nobody", 1, *vector)]
        told += [node.refused("AMEM.SEARCH", "a", 1, *vector)]
        for text in told:
            assert f"component {place} of the vector" in text or "syntax error" in text
    assert node.line("AMEM.SEM.LIST a") == [b"bad"]
    assert labelled(node.line("AMEM.SEM.RECALL a 1 1 0 0 0")) == [
        {b"key": b"bad", b"content": b"before", b"similarity": b"1"}
    ]


def test_a_refused_component_is_shown_without_its_control_bytes(node: Node) -> None:
    told = node.refused("AMEM.SEM.STORE", "a", "k", "text", 1, 0, b"1\r\n-x" + b"9" * 500, 0)
    assert told.startswith("component 3 of the vector must be a finite number, got '1??-x9")
    assert len(told) < 250


@pytest.mark.parametrize("given", [0, 1, 3, 5, 8, 400])
def test_a_vector_has_exactly_the_dimension(node: Node, given: int) -> None:
    node.line("AMEM.SEM.STORE a f before 1 0 0 0")
    expected = f"vector must have 4 components, got {given}"
    vector = [1] * given
    if given:
        assert node.refused("AMEM.SEM.STORE", "a", "f", "text", *vector) == expected
        assert node.refused("AMEM.SEM.RECALL", "a", 1, *vector) == expected
        assert node.refused("AMEM.SEARCH", "a", 1, *vector) == expected
    assert node.refused("AMEM.SEM.STORE", "a", "f", "text", *vector, "TTL", 60) == expected
    assert node.refused("AMEM.SEM.STORE", "a", "f", "text", *vector, "source", 60, "PXAT", 1) == expected
    assert node.refused("AMEM.SEM.RECALL", "a", 1, *vector, "THRESHOLD", 0) == expected


def test_an_option_needs_its_value_and_does_not_take_it_from_the_vector(node: Node) -> None:
    assert "TTL" in node.refused("AMEM.SEM.STORE a f text 1 0 0 0 TTL")
    assert "TTL" in node.refused("AMEM.SEM.STORE a f text 1 0 0 TTL")
    assert "syntax error" in node.refused("AMEM.SEM.STORE a f text TTL 1 0 0 0")
    assert "repeated" in node.refused("AMEM.SEM.STORE a f text 1 0 0 0 TTL 5 PXAT 99")
    assert "repeated" in node.refused("AMEM.SEM.RECALL a 1 1 0 0 0 WITHMETA WITHMETA")
    assert "trust" in node.refused("AMEM.SEM.STORE a f text 1 0 0 0 TRUST maybe")
    assert "JSON" in node.refused("AMEM.SEM.STORE a f text 1 0 0 0 META [1]")
    assert "threshold" in node.refused("AMEM.SEM.RECALL a 1 1 0 0 0 THRESHOLD nan")


@pytest.mark.parametrize(
    "line",
    [
        "AMEM.SEM.STORE a k text 1 0 0 0 NONSENSE 5",
    ],
)
def test_an_option_that_is_not_there_is_a_syntax_error_that_names_it(node: Node, line: str) -> None:
    told = node.refused(line)
    assert told.startswith("syntax error")
    assert any(f"'{word}'" in told for word in line.split()[2:])


def test_without_direction_there_is_no_cosine(node: Node) -> None:
    node.line("AMEM.SEM.STORE a x text 1 0 0 0")
    for zero in ("0 0 0 0", "-0 0.0 0e5 .0", "1e-60 0 0 0", "-7e-46 0 0 7e-46"):
        assert "all zeros" in node.refused(f"AMEM.SEM.STORE a z zero {zero}")
        assert "all zeros" in node.refused(f"AMEM.SEM.RECALL a 3 {zero}")
    assert "all zeros" in node.refused("AMEM.SEM.STORE", "a", "z", "zero", "FP32", bytes(16))
    denormal = "0." + "0" * 44 + "14"
    assert node.run("AMEM.SEM.STORE", "a", "tiny", "t", denormal, 0, 0, 0) == b"OK"
    node.line("AMEM.SEM.STORE a y text 0.9 0.1 0 0")
    found = labelled(node.line("AMEM.SEM.RECALL a 3 1 0 0 0"))
    assert [item[b"key"] for item in found] == [b"x", b"tiny", b"y"]
    assert float(found[1][b"similarity"]) == 1.0
    for metric in ("ip", "l2"):
        node.line(f"AMEM.SEM.CREATE {metric} 2 METRIC {metric}")
        node.line(f"AMEM.SEM.STORE {metric} z zero 0 0")
        assert keys(node.line(f"AMEM.SEM.RECALL {metric} 1 0 0")) == [b"z"]


@pytest.mark.parametrize("k", ["-1", "abc", "", "1.0", "100001", "99999999999999999999", "+1"])
def test_k_is_a_count(node: Node, k: str) -> None:
    assert "k " in node.refused("AMEM.SEM.RECALL", "a", k, 1, 0, 0, 0)
    assert "k " in node.refused("AMEM.SEARCH", "a", k, 1, 0, 0, 0)
    assert node.line("AMEM.SEM.RECALL a 0 1 0 0 0") == node.line("AMEM.SEM.RECALL nobody 0 1 0 0 0") == []


# -- what lives --------------------------------------------------------------------------------------


def test_fewer_than_k_are_all_there_are(node: Node) -> None:
    assert node.line("AMEM.SEM.RECALL a 5 1 0 0 0") == []
    for number in range(1000):
        node.line(f"AMEM.SEM.STORE a k{number} text {number + 1} 1 0 0")
    assert len(set(keys(node.line("AMEM.SEM.RECALL a 1000 1 0 0 0")))) == 1000
    assert len(node.line("AMEM.SEM.RECALL a 100000 1 0 0 0")) == 1000
    for number in range(997):
        assert node.line(f"AMEM.SEM.FORGET a k{number}") == 1
    assert keys(node.line("AMEM.SEM.RECALL a 10 1 0 0 0")) == [b"k999", b"k998", b"k997"]
    assert len(node.line("AMEM.SEM.LIST a")) == 3


def test_k_is_refilled_past_the_dead(node: Node) -> None:
    for number in range(100):
        node.line(f"AMEM.SEM.STORE a k{number:02} text {number + 1} 1 0 0" + (" TTL 10" if number % 2 else ""))
    node.now_ms += 10_000
    found = keys(node.line("AMEM.SEM.RECALL a 10 1 0 0 0"))
    assert found == [b"k%02d" % number for number in range(98, 79, -2)]
    assert len(node.line("AMEM.SEM.LIST a")) == 50
    assert node.line("AMEM.SEM.GET a k01") is None
    assert node.line("AMEM.SEM.FORGET a k01") == 0
    assert node.line("AMEM.SEM.FORGET a k01") == 0
    assert node.stores.sem.namespaces[b"a"].facts.get(b"k01") is None, "a write drops what it finds dead"


def test_a_time_in_the_past_replaces_and_is_over(node: Node) -> None:
    node.line("AMEM.SEM.STORE a k text 1 0 0 0")
    for past in ("1", "0", "-5", str(NOW)):
        assert node.line(f"AMEM.SEM.STORE a k gone 1 0 0 0 PXAT {past}") == b"OK"
        assert node.line("AMEM.SEM.LIST a") == node.line("AMEM.SEM.RECALL a 5 1 0 0 0") == []
    assert node.last_record()[6] == NOW
    assert node.line("AMEM.SEM.STORE a k back 1 0 0 0") == b"OK"
    assert keys(node.line("AMEM.SEM.RECALL a 5 1 0 0 0")) == [b"k"]


def test_a_replaced_fact_is_found_by_its_new_vector_only(node: Node) -> None:
    node.line("AMEM.SEM.STORE a k1 A 1 0 0 0")
    node.line("AMEM.SEM.STORE a k2 B 0 1 0 0")
    node.line("AMEM.SEM.STORE a k1 C 0 0 1 0")
    found = labelled(node.line("AMEM.SEM.RECALL a 5 1 0 0 0"))
    assert sorted((item[b"key"], item[b"content"]) for item in found) == [(b"k1", b"C"), (b"k2", b"B")]
    assert {item[b"similarity"] for item in found} == {b"0"}


def test_forgotten_and_stored_again_in_any_order_each_is_found_by_its_own_vector(node: Node) -> None:
    vectors = {"k1": "1 0 0 0", "k2": "0 1 0 0", "k3": "0 0 1 0"}
    for away, back in itertools.product(itertools.permutations(vectors), repeat=2):
        for key in away:
            node.line(f"AMEM.SEM.FORGET a {key}")
        for key in back:
            node.line(f"AMEM.SEM.STORE a {key} of-{key} {vectors[key]}")
        for key, vector in vectors.items():
            best = labelled(node.line(f"AMEM.SEM.RECALL a 3 {vector}"))[0]
            assert (best[b"key"], best[b"content"]) == (key.encode(), b"of-" + key.encode())
        assert node.line("AMEM.SEM.LIST a") == [key.encode() for key in back]


def test_the_threshold_is_a_similarity(node: Node) -> None:
    for key, cosine in (("k95", 0.95), ("k60", 0.6), ("k10", 0.1), ("k-40", -0.4)):
        node.line(f"AMEM.SEM.STORE a {key} text {cosine} {(1 - cosine**2) ** 0.5} 0 0")
    counts = {"0.7": 1, "0.0": 3, "0": 3, "-1": 4, "1.0": 0, "0.95": 1, "0.6": 2, "2": 0, "-3e5": 4}
    for threshold, count in counts.items():
        assert len(node.line(f"AMEM.SEM.RECALL a 9 1 0 0 0 THRESHOLD {threshold}")) == count
    assert len(node.line("AMEM.SEM.RECALL a 9 1 0 0 0")) == 4
    assert len(node.line("AMEM.SEM.RECALL a 1 1 0 0 0 THRESHOLD -1")) == 1
    node.line("AMEM.SEM.STORE a same text 0.3 0.1 0.7 0.123")
    assert keys(node.line("AMEM.SEM.RECALL a 9 0.3 0.1 0.7 0.123 THRESHOLD 1.0")) == [b"same"]


def test_expired_facts_go_by_records(node: Node) -> None:
    node.line("AMEM.SEM.STORE a k text 1 0 0 0 TTL 1")
    node.line("AMEM.SEM.STORE a stays text 1 0 0 0 TTL 100")
    node.advance_ms(5000)
    assert node.tick() == 1
    assert node.last_record() == [22, b"a", b"k"]
    assert len(node.stores.sem.namespaces[b"a"].index) == 1
    assert node.line("AMEM.SEM.LIST a") == [b"stays"]
    node.restart()


def test_a_transaction_is_one_frame_and_sees_its_own_facts(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "INLINE_FLOATS_MAX", 0)
    frames = len(node.log.frames)
    node.line("MULTI")
    node.line("AMEM.SEM.STORE a k text 1 0 0 0")
    node.line("AMEM.SEM.RECALL a 1 1 0 0 0")
    node.line("AMEM.SEM.STORE a k text 1 0 0")
    node.line("AMEM.SEM.FORGET a k")
    stored, found, refused, forgotten = node.line("EXEC")
    assert (stored, keys(found), forgotten) == (b"OK", [b"k"], 1)
    assert "got 3" in str(refused)
    assert len(node.log.frames) == frames + 1


def test_names_keys_and_texts_are_any_bytes_also_after_a_restart(node: Node) -> None:
    every, composed, decomposed = bytes(range(256)), "\u00f6".encode(), "o\u0308".encode()
    node.run("AMEM.SEM.CREATE", every, 4)
    node.run("AMEM.SEM.STORE", every, every, every[::-1], 1, 0, 0, 0, "SOURCE", every)
    node.run("AMEM.SEM.STORE", every, composed, b"one letter", 0, 1, 0, 0)
    node.run("AMEM.SEM.STORE", every, decomposed, b"two marks", 0, 0, 1, 0)
    for restart in (False, True):
        if restart:
            node.restart()
        assert node.run("AMEM.SEM.LIST", every) == [every, composed, decomposed]
        (nearest,) = labelled(node.run("AMEM.SEM.RECALL", every, 1, 1, 0, 0, 0, "WITHMETA"))
        assert (nearest[b"key"], nearest[b"content"], nearest[b"source"]) == (every, every[::-1], every)
        assert labelled([node.run("AMEM.SEM.GET", every, decomposed)])[0][b"content"] == b"two marks"
        assert node.run("AMEM.SEM.SCAN", 0, "MATCH", b"\x00*") == [b"0", [every]]


def test_a_log_replayed_is_the_same_state_and_gives_the_same_bytes(node: Node) -> None:
    rng = np.random.default_rng(3)
    for number in range(200):
        vector = " ".join(map(str, rng.integers(-2, 3, 4) + np.array([0, 0, 0, 0.5])))
        node.line(f"AMEM.SEM.STORE a k{rng.integers(60)} text{number} {vector}" + (" TTL 9" if number % 7 == 0 else ""))
        if number % 5 == 0:
            node.line(f"AMEM.SEM.FORGET a k{rng.integers(60)}")
    lines = ("AMEM.SEM.RECALL a 50 1 1 1 1 WITHMETA", "AMEM.SEM.RECALL a 7 -1 0 2 0", "AMEM.SEM.LIST a")
    live = [node.line(line) for line in lines]
    dumped = Node()
    for record in itertools.chain.from_iterable(node.stores.dumps(0)):
        dumped.stores.apply(record)
    assert dumped.digest() == node.digest()
    assert [dumped.line(line) for line in lines] == live
    node.restart()
    assert [node.line(line) for line in lines] == live


# -- long searches -----------------------------------------------------------------------------------


@pytest.fixture
def long(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node on which every search leaves the loop."""
    monkeypatch.setattr(recall, "INLINE_FLOATS_MAX", 0)
    for number in range(120):
        node.line(f"AMEM.SEM.STORE a k{number:03} text{number} {number + 1} 1 0 0")
    return node


def test_only_a_long_search_leaves_the_loop(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "INLINE_FLOATS_MAX", 2 * (4 + ROW_FLOATS))
    node.line("AMEM.SEM.STORE a k1 text 1 0 0 0")
    node.line("AMEM.SEM.STORE a k2 text 1 0 0 0")
    node.line("AMEM.SEM.RECALL a 1 1 0 0 0")
    assert node.deferred == 0
    node.line("AMEM.SEM.STORE a k3 text 1 0 0 0")
    assert node.line("AMEM.SEM.RECALL a 0 1 0 0 0") == []
    assert node.deferred == 0
    assert keys(node.line("AMEM.SEM.RECALL a 2 1 0 0 0")) == [b"k1", b"k2"]
    assert node.deferred == 1


def test_a_long_search_answers_for_the_state_at_its_end(long: Node) -> None:
    def change() -> None:
        other("AMEM.SEM.FORGET a k119")
        other("AMEM.SEM.STORE a k118 moved -1 0 0 0")
        other("AMEM.SEM.STORE a new new 1 0 0 0")
        other("AMEM.SEM.STORE a k117 over 1 0 0 0 PXAT 1")

    other = another(long)
    long.between = change  # type: ignore[method-assign]
    found = labelled(long.line("AMEM.SEM.RECALL a 3 1 0 0 0"))
    assert [(item[b"key"], item[b"content"]) for item in found] == [
        (b"new", b"new"),
        (b"k116", b"text116"),
        (b"k115", b"text115"),
    ]
    assert long.deferred == 1


def test_facts_that_die_under_way_are_replaced_by_others(long: Node) -> None:
    for number in range(20, 120):
        long.line(f"AMEM.SEM.STORE a k{number:03} text {number + 1} 1 0 0 TTL 10")
    long.between = lambda: setattr(long, "now_ms", NOW + 10_000)  # type: ignore[method-assign]
    assert keys(long.line("AMEM.SEM.RECALL a 3 1 0 0 0")) == [b"k019", b"k018", b"k017"]
    assert long.deferred == 2


def test_a_search_ends_however_much_changes_under_way(long: Node) -> None:
    """The best facts go in every round, so each answer must be looked for again, wider."""

    def change() -> None:
        best = labelled(other("AMEM.SEM.RECALL a 30 1 0 0 0"))
        for item in best:
            other(f"AMEM.SEM.FORGET a {item[b'key'].decode()}")

    other = another(long)
    long.between = change  # type: ignore[method-assign]
    assert len(keys(long.line("AMEM.SEM.RECALL a 3 1 0 0 0"))) <= 3
    assert long.deferred <= 5


def test_a_namespace_gone_under_way_has_nothing_to_tell(long: Node) -> None:
    other = another(long)
    long.between = lambda: other("AMEM.SEM.DROP a")  # type: ignore[method-assign]
    assert long.line("AMEM.SEM.RECALL a 3 1 0 0 0") == []
    long.line("AMEM.SEM.CREATE a 4")
    long.line("AMEM.SEM.STORE a k text 1 0 0 0")
    long.between = lambda: other("FLUSHALL")  # type: ignore[method-assign]
    assert long.line("AMEM.SEARCH a 3 1 0 0 0") == []


def test_a_namespace_made_anew_under_way_is_searched_from_the_start(long: Node) -> None:
    other = another(long)
    script = iter(["AMEM.SEM.DROP a", "AMEM.SEM.CREATE a 4 METRIC l2", "AMEM.SEM.STORE a k119 other 1 0 0 0"])

    def change() -> None:
        for line in script:
            other(line)

    long.between = change  # type: ignore[method-assign]
    assert labelled(long.line("AMEM.SEM.RECALL a 9 1 0 0 0")) == [
        {b"key": b"k119", b"content": b"other", b"similarity": b"1"}
    ]
    script = iter(["AMEM.SEM.DROP a", "AMEM.SEM.CREATE a 3", "AMEM.SEM.STORE a k119 other 1 0 0"])
    assert "vector must have 3 components, got 4" in str(long.line("AMEM.SEM.RECALL a 9 1 0 0 0"))


# -- long vectors ------------------------------------------------------------------------------------


@pytest.fixture
def reading(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node on which every vector of decimals is read off the loop."""
    monkeypatch.setattr(vectors, "LOOP_TOKENS_MAX", 0)
    return node


def test_only_a_long_vector_of_decimals_is_read_off_the_loop(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "LOOP_TOKENS_MAX", 4)
    node.line("AMEM.SEM.CREATE five 5")
    node.line("AMEM.SEM.STORE a k text 1 0 0 0")
    node.run("AMEM.SEM.STORE", "five", "k", "text", "FP32", struct.pack("<5f", 1, 0, 0, 0, 0))
    assert node.deferred == 0
    node.line("AMEM.SEM.STORE five k text 1 0 0 0 0")
    assert node.deferred == 1
    node.line("AMEM.SEM.RECALL five 1 1 0 0 0 0")
    node.line("AMEM.SEARCH five 1 1 0 0 0 0")
    assert node.deferred == 3


def test_a_vector_read_off_the_loop_is_stored_and_found_as_any(reading: Node) -> None:
    reading.line("AMEM.SEM.STORE a k text 0.25 -1 3 0.1 TTL 5 SOURCE mail TRUST trusted META {}")
    whole = struct.pack("<4f", 0.25, -1, 3, 0.1)
    assert reading.last_record()[1:] == [b"a", b"k", 1, b"text", whole, NOW + 5000, b"mail", 1, b"{}", NOW]
    (found,) = labelled(reading.line("AMEM.SEM.RECALL a 1 0.25 -1 3 0.1 WITHMETA"))
    assert (found[b"key"], found[b"similarity"], found[b"source"]) == (b"k", b"1", b"mail")
    assert keys(reading.line("AMEM.SEARCH a 1 0.25 -1 3 0.1")) == [b"k"]
    assert reading.line("AMEM.SEM.RECALL nobody 1 1 2 3") == []
    assert reading.deferred == 4
    reading.restart()


@pytest.mark.parametrize("vector", ["1 0 0", "1 0 0 0 0", "1 0 x- 0", "1 0 1x 0", "1 0 1e39 0", "1 0 nan 0", "0 0 0 0"])
def test_a_vector_is_refused_off_the_loop_in_the_same_words(
    node: Node, monkeypatch: pytest.MonkeyPatch, vector: str
) -> None:
    lines = [f"AMEM.SEM.STORE a k text {vector}", f"AMEM.SEM.RECALL a 1 {vector}", f"AMEM.SEM.RECALL nobody 1 {vector}"]
    inline = [str(node.line(line)) for line in lines]
    monkeypatch.setattr(vectors, "LOOP_TOKENS_MAX", 0)
    frames = len(node.log.frames)
    assert [str(node.line(line)) for line in lines] == inline
    assert node.deferred == 3
    assert len(node.log.frames) == frames


def test_a_namespace_that_went_while_the_vector_was_read(reading: Node) -> None:
    other = another(reading)
    reading.between = lambda: other("AMEM.SEM.DROP a")  # type: ignore[method-assign]
    assert "not found" in str(reading.line("AMEM.SEM.STORE a k text 1 0 0 0"))
    other("AMEM.SEM.CREATE a 4")
    script = iter(["AMEM.SEM.DROP a", "AMEM.SEM.CREATE a 3"])
    reading.between = lambda: [other(line) for line in script]  # type: ignore[method-assign]
    assert "vector must have 3 components" in str(reading.line("AMEM.SEM.STORE a k text 1 0 0 0"))
    assert reading.line("AMEM.SEM.LIST a") == []


def test_the_gates_are_passed_again_before_a_vector_is_stored(reading: Node) -> None:
    reading.between = lambda: setattr(reading.log, "frame_bytes_max", 0)  # type: ignore[method-assign]
    assert str(reading.line("AMEM.SEM.STORE a k text 1 0 0 0")).startswith("MISCONF")
    assert reading.line("AMEM.SEM.LIST a") == []


def test_inside_a_transaction_a_long_vector_is_read_in_line(reading: Node) -> None:
    reading.line("MULTI")
    reading.line("AMEM.SEM.STORE a k text 1 0 0 0")
    reading.line("AMEM.SEM.STORE a k text 1 0 0 1x")
    stored, refused = reading.line("EXEC")
    assert stored == b"OK"
    assert "component 4" in str(refused)


def test_float32_bytes_are_the_record_without_a_copy() -> None:
    sent = struct.pack("<4f", 0.25, -1, 3, 0.1)
    assert vectors.vector_of(sent, 4, b"cosine") is sent


def test_the_bad_one_of_many_numbers_is_named(node: Node) -> None:
    node.line("AMEM.SEM.CREATE wide 1000")
    for place in (1, 64, 65, 500, 1000):
        numbers = ["0.5"] * 1000
        numbers[place - 1] = "1e39"
        assert f"component {place} of the vector" in node.refused("AMEM.SEM.STORE", "wide", "k", "text", *numbers)


def another(node: Node) -> Any:
    """A second connection, whose searches are never told to wait."""
    session = node.connect()

    def send(line: str) -> Any:
        answer = node.engine.execute(session, line.encode().split(), node.now_ms)
        while isinstance(answer, Pending):
            answer = node.engine.resume(answer, answer.work(), node.now_ms)
        return decode(answer)

    return send


def test_a_vector_that_is_read_back_has_every_bit() -> None:
    rig = Rig()
    bits = [0x80000000, 0, 1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x3DCCCCCD]
    vector = struct.pack("<7I", *bits)
    rig("AMEM.SEM.CREATE", "a", 7, "METRIC", "ip")
    rig("AMEM.SEM.STORE", "a", "k", "c", "FP32", vector)
    for resp3 in (False, True):
        rig.session.resp3 = resp3
        fact = rig("AMEM.SEM.GET", "a", "k", "WITHVECTOR")
        told = fact[b"vector"] if resp3 else fact[-1]
        assert struct.pack("<7f", *map(float, told)) == vector
