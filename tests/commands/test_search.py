"""AMEM.SEARCH: facts by vector, labelled with where they are from."""

from __future__ import annotations

from typing import Any

import pytest
from rig import Rig


class Node(Rig):
    """A rig called by one line."""

    def line(self, line: str, resp3: bool = False) -> Any:
        self.session.resp3 = resp3
        return self(*line.split())


@pytest.fixture
def node() -> Node:
    node = Node()
    node.line("AMEM.SEM.CREATE a 3")
    return node


def test_each_item_says_where_it_is_from(node: Node) -> None:
    node.line("AMEM.SEM.STORE a best fact1 1 0 0")
    node.line("AMEM.SEM.STORE a worst fact2 -1 0 0")
    node.line("AMEM.SEM.STORE a none fact3 0 1 0")
    expected = [("best", "fact1", 1.0), ("none", "fact3", 0.0), ("worst", "fact2", -1.0)]
    assert node.line("AMEM.SEARCH a 9 2 0 0", resp3=True) == [
        {b"source": b"semantic", b"key": key.encode(), b"content": content.encode(), b"similarity": similarity}
        for key, content, similarity in expected
    ]
    assert node.line("AMEM.SEARCH a 1 2 0 0") == [
        [b"source", b"semantic", b"key", b"best", b"content", b"fact1", b"similarity", b"1"]
    ]
    assert len(node.log.frames) == 4, "a search emits nothing"


def test_who_has_no_facts_has_no_items(node: Node) -> None:
    assert node.line("AMEM.SEARCH nobody 3 1 0 0") == node.line("AMEM.SEARCH a 3 1 0 0") == []
    node.line("AMEM.SEM.STORE a k fact 1 0 0 TTL 5")
    assert len(node.line("AMEM.SEARCH a 3 1 0 0")) == 1
    assert node.line("AMEM.SEARCH a 0 1 0 0") == []
    node.advance_ms(5000)
    assert node.line("AMEM.SEARCH a 3 1 0 0") == []


# -- with words --------------------------------------------------------------------------------------


@pytest.fixture
def full(node: Node) -> Node:
    """An agent with a fact, an event, a note and a turn about one invoice, and some of each about other things."""
    node("AMEM.SEM.STORE", "a", "paid", "Invoice INV-2024-0017 was paid", 1, 0, 0)
    node("AMEM.SEM.STORE", "a", "cat", "The cat sleeps", 0, 1, 0)
    node("AMEM.CONV.CREATE", "a")
    node("AMEM.CONV.APPEND", "a", "user", "please pay INV-2024-0017 today")
    node("AMEM.CONV.APPEND", "a", "assistant", "I will do that")
    node("AMEM.EPIS.LOG", "a", "tool", "transfer for INV-2024-0017 made")
    node("AMEM.EPIS.LOG", "a", "tool", "looked at the weather")
    node("AMEM.WORK.SET", "a", "invoice", "INV-2024-0017")
    node("AMEM.WORK.SET", "a", "mood", "good")
    return node


def found(node: Node, *words: str | int) -> list[tuple[str, str]]:
    node.session.resp3 = False
    return [(item[1].decode(), item[3].decode()) for item in node("AMEM.SEARCH", "a", *words)]


def test_text_finds_in_all_that_the_agent_remembers(full: Node) -> None:
    items = found(full, 9, 0, 1, 0, "TEXT", "INV-2024-0017")
    event = ("episodic", f"{full.now_ms}-1")
    assert {("semantic", "paid"), ("working", "invoice"), ("conversation", "1"), event} <= set(items)
    assert ("conversation", "2") not in items
    assert len(items) == len(set(items))


def test_similarity_of_words_is_the_part_of_a_full_match(full: Node) -> None:
    items = full.line("AMEM.SEARCH a 9 0 1 0 TEXT transfer", resp3=True)
    by_source = {item[b"source"]: item[b"similarity"] for item in items}
    assert by_source[b"episodic"] == pytest.approx(1.0, abs=0.2)
    assert all(0.0 <= item[b"similarity"] <= 1.0 for item in items)


def test_the_nearest_fact_and_the_best_of_each_source_come_through(full: Node) -> None:
    for number in range(40):
        full("AMEM.CONV.APPEND", "a", "user", f"pay pay INV-2024-0017 today please {number}")
    items = found(full, 5, 0, 1, 0, "TEXT", "pay INV-2024-0017")
    assert {source for source, _ in items} >= {"semantic", "conversation", "episodic"}
    assert ("semantic", "cat") in items, "the nearest by vector"


def test_the_session_is_that_of_the_agents_name_unless_one_is_named(full: Node) -> None:
    full("AMEM.CONV.CREATE", "other")
    full("AMEM.CONV.APPEND", "other", "user", "INV-2024-0017 elsewhere")
    assert ("conversation", "1") in found(full, 9, 0, 1, 0, "TEXT", "elsewhere", "SESSION", "other")
    assert found(full, 9, 0, 1, 0, "TEXT", "elsewhere") == found(full, 9, 0, 1, 0, "TEXT", "unheard")
    items = found(full, 9, 0, 1, 0, "TEXT", "INV-2024-0017", "SESSION", "missing")
    assert {source for source, _ in items} == {"semantic", "episodic"}


def test_without_text_only_facts_are_found(full: Node) -> None:
    assert {source for source, _ in found(full, 9, 0, 1, 0)} == {"semantic"}
    assert {source for source, _ in found(full, 9, 0, 1, 0, "SESSION", "a")} == {"semantic"}


def test_who_has_no_facts_may_have_the_rest(full: Node) -> None:
    full("AMEM.SEM.DROP", "a")
    assert {source for source, _ in found(full, 9, 1, 2, "TEXT", "INV-2024-0017")} == {
        "episodic",
        "working",
        "conversation",
    }
    assert found(full, 0, 1, 2, "TEXT", "INV-2024-0017") == []
    assert full.line("AMEM.SEARCH nobody 3 1 2 TEXT word") == []


def test_the_dead_are_not_found_anywhere(full: Node) -> None:
    full("AMEM.SEM.STORE", "a", "soon", "dying word", 1, 0, 0, "TTL", 1)
    full("AMEM.WORK.SET", "a", "soon", "dying word", "TTL", 1)
    full("AMEM.EPIS.RETAIN", "a", "MAXAGE", 1)
    full("AMEM.EPIS.LOG", "a", "tool", "dying word")
    full("AMEM.CONV.APPEND", "a", "user", "dying word")
    assert len([item for item in found(full, 9, 1, 0, 0, "TEXT", "dying") if item[0] != "semantic"]) == 3
    full("AMEM.CONV.EXPIRE", "a", "TTL", 1)
    full.advance_ms(1001)
    assert {source for source, _ in found(full, 9, 1, 0, 0, "TEXT", "dying")} == {"semantic"}
    assert "soon" not in {key for _, key in found(full, 9, 1, 0, 0, "TEXT", "dying")}


def test_a_search_with_words_emits_nothing_and_answers_alike_after_a_restart(full: Node) -> None:
    frames = len(full.log.frames)
    before = full("AMEM.SEARCH", "a", 9, 0, 1, 0, "TEXT", "INV-2024-0017 weather")
    assert len(full.log.frames) == frames
    full.restart()
    assert full("AMEM.SEARCH", "a", 9, 0, 1, 0, "TEXT", "INV-2024-0017 weather") == before


def test_the_setting_says_what_language_texts_are_in() -> None:
    for language, word in (("de", "laufe"), ("none", "laufe"), ("DE-at", "Läufe")):
        node = Node(settings={"text-language": language})
        node("AMEM.EPIS.LOG", "a", "note", "wir laufen")
        node("AMEM.CONV.CREATE", "a")
        node("AMEM.CONV.APPEND", "a", "user", "wir laufen")
        node("AMEM.WORK.SET", "a", "k", "wir laufen")
        node("AMEM.SEM.CREATE", "a", 1)
        node("AMEM.SEM.STORE", "a", "f", "wir laufen", 1)
        found = {item[1] for item in node("AMEM.SEARCH", "a", 9, 1, "TEXT", word)}
        expected = {b"semantic"} if language == "none" else {b"semantic", b"episodic", b"working", b"conversation"}
        assert found == expected
        assert len(node("AMEM.SEM.RECALL", "a", 9, "TEXT", word)) == (language != "none")
        node("AMEM.SEM.CREATE", "own", 1, "LANG", "en")
        node("AMEM.SEM.STORE", "own", "f", "they were running", 1)
        assert len(node("AMEM.SEM.RECALL", "own", 9, "TEXT", "runs")) == 1
