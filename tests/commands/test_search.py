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
