"""RECALL by words and by both: TEXT without an embedder, HYBRID, and what all options do with them."""

from __future__ import annotations

from typing import Any

import pytest
from rig import Rig

from amemdb.commands import words
from amemdb.engine.answers import Pending
from amemdb.limits import WORDS_BYTES_MAX


class Node(Rig):
    """A rig with an agent `a` whose facts have three components."""

    def __init__(self) -> None:
        super().__init__()
        self("AMEM.SEM.CREATE", "a", 3)

    def store(self, key: str, content: str | bytes, vector: str = "1 0 0", *more: str | int) -> None:
        assert self("AMEM.SEM.STORE", "a", key, content, *vector.split(), *more) == b"OK"

    def recall(self, *words: str | bytes | int) -> list[dict[str, Any]]:
        self.session.resp3 = True
        found = self("AMEM.SEM.RECALL", "a", *words)
        self.session.resp3 = False
        assert isinstance(found, list), found
        return [{label.decode(): value for label, value in item.items()} for item in found]

    def keys(self, *words: str | bytes | int) -> list[str]:
        return [item["key"].decode() for item in self.recall(*words)]


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def invoices(node: Node) -> Node:
    node.store("i17", "Invoice INV-2024-0017 was paid by Café Müller", "1 0 0")
    node.store("i18", "Invoice INV-2024-0018 is open", "0 1 0")
    node.store("cat", "The cat sleeps on the machine that learns", "0 0 1")
    node.store("ml", "They study machine learning at night", "0 1 1")
    return node


# -- TEXT ------------------------------------------------------------------------------------------


def test_text_without_an_embedder_finds_words(invoices):
    assert invoices.keys(3, "TEXT", "inv-2024-0017") == ["i17", "i18"]
    assert invoices.keys(1, "TEXT", "machine learning") == ["ml"]
    assert invoices.keys(2, "TEXT", "cafe MULLER paid") == ["i17"]
    assert invoices.keys(9, "TEXT", "nowhere") == invoices.keys(0, "TEXT", "cat") == invoices.keys(5, "TEXT", "") == []
    frames = len(invoices.log.frames)
    invoices.keys(3, "TEXT", "cat")
    assert len(invoices.log.frames) == frames, "a read emits nothing"


def test_similarity_by_words_is_the_part_of_a_full_match(invoices):
    (paid,) = invoices.recall(1, "TEXT", "INV-2024-0017 paid")
    assert paid["similarity"] == 1.0
    assert invoices.keys(9, "TEXT", "INV-2024-0017", "THRESHOLD", "0.9") == ["i17"]
    assert invoices.keys(9, "TEXT", "INV-2024-0017", "THRESHOLD", "0.1") == ["i17", "i18"]
    assert set(invoices.recall(1, "TEXT", "cat")[0]) == {"key", "content", "similarity"}


def test_what_was_just_written_is_found_and_what_is_gone_is_not(node):
    names = ("alpha", "beta", "gamma", "delta")
    for before, name in zip(("omega", *names), names, strict=False):
        node.store("k", f"version {name}")
        assert node.keys(3, "TEXT", name) == ["k"]
        assert node.keys(3, "TEXT", before) == []
    node("AMEM.SEM.FORGET", "a", "k")
    assert node.keys(3, "TEXT", "version") == []


def test_the_dead_are_left_out_and_made_up_for(node):
    for number in range(30):
        node.store(f"dying{number}", "one word", "1 0 0", "TTL", 5)
    for number in range(3):
        node.store(f"living{number}", "one word and others")
    node.advance_ms(5000)
    assert sorted(node.keys(3, "TEXT", "one word")) == ["living0", "living1", "living2"]
    assert sorted(node.keys(3, 1, 0, 0, "HYBRID", "one word")) == ["living0", "living1", "living2"]


def test_filters_are_made_up_for(node):
    for number in range(80):
        node.store(f"k{number}", "some words", "1 0 0", "META", f'{{"n":{number}}}')
    assert node.keys(2, "TEXT", "words", "FILTER", ".n < 5") == ["k4", "k3"]
    found = node.recall(2, "TEXT", "words", "FILTER", ".n < 1", "EXPLAIN", "WITHMETA")
    assert found[0]["key"] == b"k0"
    assert found[0]["left_out"] is None
    assert {item["left_out"] for item in found[1:]} == {b"filtered"}
    assert node.keys(3, 1, 0, 0, "HYBRID", "words", "FILTER", ".n >= 77") == ["k79", "k78", "k77"]


def test_explain_says_what_is_below_the_threshold_or_dead(node):
    node.store("full", "red apple")
    node.store("half", "red pear")
    node.store("dead", "red apple", "1 0 0", "TTL", 1)
    node.advance_ms(1000)
    found = node.recall(5, "TEXT", "red apple", "THRESHOLD", "0.9", "EXPLAIN")
    reasons = {item["key"]: item["left_out"] for item in found}
    assert reasons == {b"full": None, b"half": b"below_threshold", b"dead": b"expired"}


def test_the_language_of_the_memory_decides(node):
    node("AMEM.SEM.CREATE", "g", 1, "LANG", "de")
    node("AMEM.SEM.STORE", "g", "k", "Die Häuser am Fluss", 1)
    assert len(node("AMEM.SEM.RECALL", "g", 1, "TEXT", "haus")) == 1
    node("AMEM.SEM.CREATE", "n", 1, "LANG", "none")
    node("AMEM.SEM.STORE", "n", "k", "running houses", 1)
    assert node("AMEM.SEM.RECALL", "n", 1, "TEXT", "house") == []
    assert len(node("AMEM.SEM.RECALL", "n", 1, "TEXT", "houses")) == 1
    node.restart()
    assert len(node("AMEM.SEM.RECALL", "g", 1, "TEXT", "haus")) == 1


def test_any_bytes_can_be_stored_and_searched(node):
    node.store("k", b"\xff\xfe odd \x00 bytes")
    assert node.keys(1, "TEXT", b"\xfe odd \xc3") == ["k"]
    assert node.keys(1, "TEXT", b"\xff\xfe") == []


def test_who_has_nothing_finds_nothing(node):
    assert node("AMEM.SEM.RECALL", "nobody", 3, "TEXT", "word") == node.recall(3, "TEXT", "word") == []
    assert node("AMEM.SEM.RECALL", "nobody", 3, 1, 0, 0, "HYBRID", "word") == []
    assert node.recall(3, 1, 0, 0, "HYBRID", "word") == []


def test_a_query_of_any_length_is_refused(node):
    node.store("k", "word")
    long = b"word " * (WORDS_BYTES_MAX // 5) + b"word "
    refusal = str(node("AMEM.SEM.RECALL", "a", 1, "TEXT", long))
    assert refusal == "ERR text must be at most 8192 bytes long to be searched by words, got 8195"
    assert "hybrid must be 0 to 8192 bytes long" in str(node("AMEM.SEM.RECALL", "a", 1, 1, 0, 0, "HYBRID", long))


# -- HYBRID ----------------------------------------------------------------------------------------


def test_hybrid_tells_both_scores_and_orders_by_their_sum(invoices):
    found = invoices.recall(4, 0, 1, 1, "HYBRID", "machine learning")
    assert found[0]["key"] == b"ml"
    assert list(found[0]) == ["key", "content", "similarity", "lexical", "score"]
    scores = [item["score"] for item in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0]["similarity"] == pytest.approx(1.0)
    assert found[0]["lexical"] > 0.0
    assert 0.0 <= scores[-1] <= scores[0] <= 1.0


def test_an_exact_word_comes_through_against_all_vectors(node):
    for number in range(200):
        node.store(f"k{number}", f"about nothing {number}", f"1 0 0.{number:03}")
    node.store("exact", "ticket ZX-4711", "-1 0 0")
    found = node.recall(5, 1, 0, 0, "HYBRID", "ZX-4711")
    assert b"exact" in [item["key"] for item in found]
    exact = next(item for item in found if item["key"] == b"exact")
    assert exact["similarity"] == pytest.approx(-1.0)


def test_a_perfect_vector_comes_through_against_all_words(node):
    for number in range(200):
        node.store(f"k{number}", "the very words of the query", f"1 0.5 0.{number:03}")
    node.store("perfect", "something else", "0 0 1")
    found = node.keys(5, 0, 0, 1, "HYBRID", "the very words of the query")
    assert "perfect" in found
    assert len(found) == 5


def test_the_threshold_of_hybrid_is_about_the_vector(invoices):
    assert invoices.keys(9, 0, 0, 1, "HYBRID", "INV-2024-0017", "THRESHOLD", "0.5") == ["cat", "ml"]
    found = invoices.recall(9, 0, 0, 1, "HYBRID", "INV-2024-0017", "THRESHOLD", "0.9", "EXPLAIN")
    left_out = {item["key"]: (item["left_out"], item["score"]) for item in found[1:]}
    assert left_out == dict.fromkeys([b"i17", b"i18", b"ml"], (b"below_threshold", None))


def test_hybrid_with_provenance_and_other_metrics(node):
    node("AMEM.SEM.CREATE", "l", 2, "METRIC", "l2")
    node("AMEM.SEM.CREATE", "p", 2, "METRIC", "ip")
    for agent in "lp":
        node("AMEM.SEM.STORE", agent, "near", "green pear", 100, 100, "SOURCE", "me")
        node("AMEM.SEM.STORE", agent, "far", "red apple", -100, 100)
        found = node("AMEM.SEM.RECALL", agent, 2, 100, 100, "HYBRID", "pear", "WITHMETA")
        assert [item[1] for item in found] == [b"near", b"far"]
        assert found[0][10:12] == [b"source", b"me"]


def test_similarities_are_those_of_a_recall_by_vector(node):
    for number in range(120):
        node.store(f"k{number}", f"word{number % 7} text", f"{number % 11 - 5} {number % 5} 1.{number}")
    exact = {item["key"]: item["similarity"] for item in node.recall(120, 1, 2, 3)}
    found = node.recall(40, 1, 2, 3, "HYBRID", "word3 text")
    assert {item["key"]: item["similarity"] for item in found} == {item["key"]: exact[item["key"]] for item in found}


# -- steps -----------------------------------------------------------------------------------------


class Steps:
    """One request that is driven by hand, from pause to pause."""

    def __init__(self, node: Node, *argv: str | int) -> None:
        self.node = node
        line = [str(word).encode() for word in argv]
        self.answer: Any = node.engine.execute(node.session, line, node.now_ms)

    @property
    def is_over(self) -> bool:
        return not isinstance(self.answer, Pending)

    def go_on(self) -> None:
        self.answer = self.node.engine.resume(self.answer, self.answer.work(), self.node.now_ms)

    def end(self) -> bytes:
        while not self.is_over:
            self.go_on()
        return self.answer if isinstance(self.answer, bytes) else self.answer.whole()


@pytest.mark.parametrize("query", [("TEXT", "common word"), (1, 0, 0, "HYBRID", "common word")])
@pytest.mark.parametrize("pauses", [0, 1, 3])
def test_what_changes_while_a_search_is_under_way(node, monkeypatch, query, pauses):
    monkeypatch.setattr(words, "INLINE_POSTINGS_MAX", 10)
    for number in range(3000):
        node.store(f"k{number}", f"common word {number}")
    steps = Steps(node, "AMEM.SEM.RECALL", "a", 5, *query)
    other = node.connect()
    for _ in range(pauses):
        steps.go_on()
    assert not steps.is_over
    for number in range(2990, 3000):
        node("AMEM.SEM.FORGET", "a", f"k{number}", session=other)
    node("AMEM.SEM.STORE", "a", "k2989", "nothing in it", 1, 0, 0, session=other)
    reply = steps.end()
    assert b"k299" not in reply
    assert reply.startswith(b"*5\r\n")


@pytest.mark.parametrize("query", [("TEXT", "common word"), (1, 0, 0, "HYBRID", "common word")])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("pauses", [1, 2, 5, 20])
def test_a_memory_that_is_dropped_while_a_search_is_under_way(node, monkeypatch, query, again, pauses):
    monkeypatch.setattr(words, "INLINE_POSTINGS_MAX", 10)
    for number in range(2000):
        node.store(f"k{number}", f"common word {number}")
    steps = Steps(node, "AMEM.SEM.RECALL", "a", 5, *query)
    for _ in range(pauses):
        if not steps.is_over:
            steps.go_on()
    was_over = steps.is_over
    node("AMEM.SEM.DROP", "a", session=node.connect())
    if again:
        node("AMEM.SEM.CREATE", "a", 3, session=node.connect())
    while node.stores.graveyard.free(1000):
        pass
    reply = steps.end()
    assert was_over or reply == b"*0\r\n"


def test_two_searches_share_the_work(node):
    for number in range(2000):
        node.store(f"k{number}", f"common word {number}")
    first = Steps(node, "AMEM.SEM.RECALL", "a", 2, "TEXT", "word 77")
    second = Steps(node, "AMEM.SEM.RECALL", "a", 2, "TEXT", "word 77")
    while not (first.is_over and second.is_over):
        for steps in (first, second):
            if not steps.is_over:
                steps.go_on()
    assert first.end() == second.end()
    assert node.stores.texts.facts[b"a"].index.count == 2000


def test_words_in_a_transaction(invoices):
    invoices("MULTI")
    invoices("AMEM.SEM.STORE", "a", "new", "fresh words", 1, 0, 0)
    invoices("AMEM.SEM.RECALL", "a", 1, "TEXT", "fresh")
    _, found = invoices("EXEC")
    assert found[0][1] == b"new"
