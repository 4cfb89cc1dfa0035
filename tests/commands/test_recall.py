"""FILTER and EXPLAIN of AMEM.SEM.RECALL: exact whatever passes, whatever changes meanwhile, and true about the rest."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from amemdb.commands import recall
from amemdb.index import exact
from amemdb.limits import EXPLAINED_MAX
from tests.commands.test_semantic import NOW, Node, another, keys, labelled


@pytest.fixture
def node() -> Node:
    node = Node()
    assert node.line("AMEM.SEM.CREATE a 2 METRIC ip") == b"OK"
    return node


@pytest.fixture
def paused(node: Node, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node on which every search and every verdict leaves the loop, a few facts at a time."""
    monkeypatch.setattr(recall, "INLINE_FLOATS_MAX", 0)
    monkeypatch.setattr(recall, "INLINE_FACTS_MAX", 0)
    monkeypatch.setattr(recall, "BATCH_FACTS_MAX", 7)
    monkeypatch.setattr(recall, "RANKED_SPARE", 2)
    monkeypatch.setattr(recall, "RANKED_FACTOR", 1)
    return node


def put(send: Any, number: int, rank: float, *options: str, **meta: Any) -> None:
    """A fact whose similarity to (1, 0) is `rank`."""
    given = ("META", json.dumps(meta, separators=(",", ":"))) if meta else ()
    send("AMEM.SEM.STORE", "a", f"k{number:04}", "text", rank, 1, *given, *options)


def recalled(node: Node, k: int, text: str, *options: str | float) -> list[bytes]:
    found = node.run("AMEM.SEM.RECALL", "a", k, 1, 0, "FILTER", text, *options)
    return keys(found)


def test_a_filter_says_which_facts_may_be_found(node: Node) -> None:
    node.run("AMEM.SEM.STORE", "a", "inv:1", "one", 3, 0, "META", '{"price":5,"tag":"a"}', "SOURCE", "crm")
    node.run("AMEM.SEM.STORE", "a", "inv:2", "two", 2, 0, "META", '{"price":15,"tag":"a"}', "SOURCE", "crm")
    node.run("AMEM.SEM.STORE", "a", "x:3", "three", 1, 0, "META", '{"price":5,"tag":"b"}', "SOURCE", "crm")
    node.run("AMEM.SEM.STORE", "a", "inv:4", "four", 9, 0, "TRUST", "trusted", "TTL", 60)
    assert recalled(node, 9, 'source == "crm" and .price < 10') == [b"inv:1", b"x:3"]
    assert recalled(node, 9, 'key ^= "inv:" and meta.tag in ("a", "b")') == [b"inv:1", b"inv:2"]
    assert recalled(node, 1, "not (.price < 10)") == [b"inv:4"]
    assert recalled(node, 9, f'trust == "trusted" and expires_at == {NOW + 60_000} and stored_at == {NOW}') == [
        b"inv:4"
    ]
    assert recalled(node, 9, ".price < 10", "THRESHOLD", 2) == [b"inv:1"]
    assert recalled(node, 0, ".price < 10") == []
    (item,) = labelled(node.run("AMEM.SEM.RECALL", "a", 1, 1, 0, "filter", ".price == 15", "WITHMETA"))
    assert list(item) == [b"key", b"content", b"similarity", b"source", b"trust", b"meta", b"stored_at", b"expires_at"]


def test_a_malformed_filter_is_refused_even_where_nobody_is_known(node: Node) -> None:
    for agent in ("a", "nobody"):
        told = node.refused("AMEM.SEM.RECALL", agent, 3, 1, 0, "FILTER", ".a = 1")
        assert told.startswith("filter: expected '=='")
        assert "1 to 4096 bytes" in node.refused("AMEM.SEM.RECALL", agent, 3, 1, 0, "FILTER", "")
        assert "1 to 4096 bytes" in node.refused("AMEM.SEM.RECALL", agent, 3, 1, 0, "FILTER", "x" * 4097)
    assert "FILTER" in node.refused("AMEM.SEM.RECALL", "a", 3, 1, 0, "FILTER")
    assert node.run("AMEM.SEM.RECALL", "nobody", 3, 1, 0, "FILTER", ".a == 1") == []


@pytest.mark.parametrize("share", [1, 2, 10, 100, 997])
@pytest.mark.parametrize("where", ["inline", "paused"])
def test_never_fewer_than_k_when_k_pass(request: pytest.FixtureRequest, where: str, share: int) -> None:
    node: Node = request.getfixturevalue("node" if where == "inline" else "paused")
    for number in range(1000):
        put(node.run, number, 1000 - number, *(("TTL", "1") if number % 5 == 0 else ()), n=number % share)
    node.now_ms += 5000
    expected = [b"k%04d" % number for number in range(1000) if number % 5 and number % share == share - 1]
    for k in (1, 10, 300, 1000):
        assert recalled(node, k, f".n == {share - 1}") == expected[:k]
        assert recalled(node, k, f".n == {share - 1}", "THRESHOLD", 500.5) == [f for f in expected[:k] if f < b"k0500"]
    assert recalled(node, 10, ".n == -1") == []


def test_a_selective_filter_judges_each_fact_once(paused: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        put(paused.run, number, number, n=number)
    judged: list[int] = []
    verdicts = recall.Filter.verdicts

    def counted(self: Any, facts: Any) -> list[bool]:
        judged.extend(fact[0] for fact in facts)
        assert len(facts) <= 7
        return verdicts(self, facts)

    monkeypatch.setattr(recall.Filter, "verdicts", counted)
    assert recalled(paused, 3, ".n == 1") == [b"k0001"]
    assert sorted(judged) == list(range(1, 201))


def test_a_filter_that_most_pass_judges_few(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2000):
        put(node.run, number, number, n=number % 2)
    judged = 0
    verdicts = recall.Filter.verdicts

    def counted(self: Any, facts: Any) -> list[bool]:
        nonlocal judged
        judged += len(facts)
        return verdicts(self, facts)

    monkeypatch.setattr(recall.Filter, "verdicts", counted)
    assert recalled(node, 10, ".n == 1") == [b"k%04d" % number for number in range(1999, 1979, -2)]
    assert judged <= 64


def test_long_metas_leave_the_loop_a_few_at_a_time(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * 60_000
    for number in range(20):
        put(node.run, number, number, text=long, n=number)
    sizes: list[int] = []
    verdicts = recall.Filter.verdicts

    def counted(self: Any, facts: Any) -> list[bool]:
        sizes.append(len(facts))
        return verdicts(self, facts)

    monkeypatch.setattr(recall.Filter, "verdicts", counted)
    assert recalled(node, 3, ".n == 2") == [b"k0002"]
    assert max(sizes) <= recall.BATCH_META_BYTES_MAX // 60_000
    assert node.deferred == len(sizes) == 5


class Changing:
    """A node whose facts change in every pause, and what it holds."""

    def __init__(self, node: Node, seed: int, changes: int) -> None:
        self.node = node
        self.chance = Random(seed)
        self.changes = changes
        self.send = another(node)
        self.pauses = 0

    def change(self) -> None:
        self.pauses += 1
        if self.pauses > 150:  # some time it has to end
            return
        for _ in range(self.changes):
            number = self.chance.randrange(150)
            if self.chance.random() < 0.3:
                self.send(f"AMEM.SEM.FORGET a k{number:04}")
            else:
                ttl = self.chance.choice(("", "", f" PXAT {self.node.now_ms + self.chance.randrange(1, 60)}"))
                meta = f'{{"n":{self.chance.randrange(12)}}}'
                self.send(f"AMEM.SEM.STORE a k{number:04} t {self.chance.random()} 1 META {meta}{ttl}")
        self.node.now_ms += self.chance.randrange(3)

    def expected(self, passing: Any, threshold: float) -> list[tuple[float, bytes]]:
        namespace = self.node.stores.sem.namespaces[b"a"]
        found = []
        for fact in namespace.facts.values():
            rank = float(namespace.vector(fact)[0])
            if not 0 < fact[3] <= self.node.now_ms and passing(json.loads(fact[6])["n"]) and rank >= threshold:
                found.append((-rank, fact[0], fact[1]))
        return [(-rank, key) for rank, _, key in sorted(found)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("changes", [1, 5, 60])
def test_the_answer_is_that_of_the_moment_at_which_it_is_given(paused: Node, seed: int, changes: int) -> None:
    """Facts come, go, change and die in every pause, and the share that passes is anything."""
    facts = Changing(paused, seed, changes)
    for number in range(150):
        put(paused.run, number, facts.chance.random(), n=facts.chance.randrange(12))
    paused.between = facts.change  # type: ignore[method-assign]
    for least in (0, 3, 11):
        for k in (1, 8, 200):
            facts.pauses = 0
            for threshold in (-1.0, 0.5):
                words = ("FILTER", f".n >= {least}", "THRESHOLD", threshold, "EXPLAIN")
                found = labelled(paused.run("AMEM.SEM.RECALL", "a", k, 1, 0, *words))
                expected = facts.expected(lambda n, least=least: n >= least, threshold)[:k]
                told = [(float(i[b"similarity"]), i[b"key"]) for i in found if i[b"left_out"] is None]
                assert told == expected
                check_left_out(facts, found, least, threshold, k)


def check_left_out(facts: Changing, found: list[dict[bytes, Any]], least: int, threshold: float, k: int) -> None:
    """Each of those left out is there for its reason, and none is forgotten that ranks before the last found."""
    namespace = facts.node.stores.sem.namespaces[b"a"]
    left_out = [item for item in found if item[b"left_out"] is not None]
    for item in left_out:
        fact = namespace.facts[item[b"key"]]
        rank = float(namespace.vector(fact)[0])
        if 0 < fact[3] <= facts.node.now_ms:
            reason = b"expired"
        else:
            reason = b"below_threshold" if rank < threshold else b"filtered"
            assert reason == b"below_threshold" or json.loads(fact[6])["n"] < least
        assert item[b"left_out"] == reason
    if len(found) - len(left_out) < k:
        assert len(left_out) == min(EXPLAINED_MAX, len(namespace.facts) - len(found) + len(left_out))


@pytest.mark.parametrize("text", [".n >= 0", ".n == 1"])
def test_what_expires_while_others_are_judged_is_replaced(paused: Node, text: str) -> None:
    """Nothing changes but the time, so what was ranked is not ranked again."""
    for number in range(100):
        put(paused.run, number, number, *(("PXAT", str(NOW + number)) if number >= 90 else ()), n=1)
    paused.between = lambda: paused.advance_ms(30)  # type: ignore[method-assign]
    assert recalled(paused, 4, text) == [b"k0089", b"k0088", b"k0087", b"k0086"]


def test_what_was_dead_lives_when_the_clock_is_set_back(paused: Node) -> None:
    for number in range(100):
        put(paused.run, number, number, *(("PXAT", str(NOW + 50)) if number >= 90 else ()), n=1)
    paused.now_ms = NOW + 60
    pauses = 0

    def set_back() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            paused.now_ms = NOW

    paused.between = set_back  # type: ignore[method-assign]
    assert recalled(paused, 3, ".n == 1") == [b"k0099", b"k0098", b"k0097"]
    assert pauses > 3


def test_a_namespace_that_goes_while_facts_are_judged(paused: Node) -> None:
    for number in range(100):
        put(paused.run, number, number, n=number)
    other = another(paused)
    pauses = 0

    def change() -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 9:
            for line in ("AMEM.SEM.DROP a", "AMEM.SEM.CREATE a 2 METRIC ip", 'AMEM.SEM.STORE a new t 1 0 META {"n":1}'):
                assert other(line) in (b"OK", 1)

    paused.between = change  # type: ignore[method-assign]
    assert recalled(paused, 3, ".n == 1") == [b"new"]
    pauses = 8
    paused.between = lambda: other("FLUSHALL")  # type: ignore[method-assign]
    assert recalled(paused, 3, ".n == 1") == []


def test_inside_a_transaction_a_filter_is_worked_out_at_once(paused: Node) -> None:
    for number in range(50):
        put(paused.run, number, number, n=number)
    paused.line("MULTI")
    paused.line("AMEM.SEM.FORGET a k0049")
    paused.line("AMEM.SEM.RECALL a 2 1 0 FILTER .n>=3")
    paused.line("AMEM.SEM.RECALL a 2 1 0 FILTER .n>>3")
    forgotten, found, refused = paused.line("EXEC")
    assert (forgotten, keys(found)) == (1, [b"k0048", b"k0047"])
    assert "filter: expected" in str(refused)


def test_a_search_among_many_is_as_exact_as_one_among_few(paused: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "AMONG_FEW", 1)
    monkeypatch.setattr(recall, "WIDEN_SHARE", 10**9)
    for number in range(300):
        put(paused.run, number, number, n=number % 2)
    facts = Changing(paused, 3, 5)
    paused.between = facts.change  # type: ignore[method-assign]
    found = labelled(paused.run("AMEM.SEM.RECALL", "a", 60, 1, 0, "FILTER", ".n == 1"))
    assert [(float(i[b"similarity"]), i[b"key"]) for i in found] == facts.expected(lambda n: n == 1, -1)[:60]
    assert len(found) == 60


# -- explain -----------------------------------------------------------------------------------------


def explained(node: Node, *words: str | float, resp3: bool = False) -> list[tuple[bytes, bytes | None]]:
    reply = node.run("AMEM.SEM.RECALL", "a", *words, "EXPLAIN", resp3=resp3)
    return [(item[b"key"], item[b"left_out"]) for item in (reply if resp3 else labelled(reply))]


def test_explain_tells_what_was_left_out_and_why(node: Node) -> None:
    put(node.run, 1, 9, n=1)
    put(node.run, 2, 8, "TTL", "1", n=1)
    put(node.run, 3, 7, n=2)
    put(node.run, 4, 6, n=1)
    put(node.run, 5, 5, n=1)
    put(node.run, 6, 4, n=1)
    node.now_ms += 1000
    for resp3 in (False, True):
        assert explained(node, 2, 1, 0, "FILTER", ".n == 1", resp3=resp3) == [
            (b"k0001", None),
            (b"k0004", None),
            (b"k0002", b"expired"),
            (b"k0003", b"filtered"),
        ]
    assert explained(node, 9, 1, 0, "THRESHOLD", 5.5) == [
        (b"k0001", None),
        (b"k0003", None),
        (b"k0004", None),
        (b"k0002", b"expired"),
        (b"k0005", b"below_threshold"),
        (b"k0006", b"below_threshold"),
    ]
    assert explained(node, 3, 1, 0)[3:] == [(b"k0002", b"expired")], "what is merely beyond k was not left out"
    assert explained(node, 0, 1, 0) == []
    (found, *_) = labelled(node.line("AMEM.SEM.RECALL a 1 1 0 WITHMETA EXPLAIN"))
    told = [b"source", b"trust", b"meta", b"stored_at", b"expires_at"]
    assert list(found) == [b"key", b"content", b"similarity", *told, b"left_out"]
    assert node.line("AMEM.SEM.RECALL nobody 1 1 0 EXPLAIN") == []


def test_explain_names_a_bounded_number(node: Node) -> None:
    for number in range(100):
        put(node.run, number, number, n=number)
    told = explained(node, 5, 1, 0, "FILTER", ".n < 60")
    assert [key for key, _ in told] == [b"k%04d" % n for n in (*range(59, 54, -1), *range(99, 79, -1))]
    assert {reason for _, reason in told[5:]} == {b"filtered"}
    assert len(told) == 5 + EXPLAINED_MAX


def test_what_an_index_has_overlooked_was_not_filtered(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        put(node.run, number, number, n=number)
    settle = exact.ExactIndex.settle

    def overlooking(index: Any, search: Any, *rest: Any) -> Any:
        return [hit for hit in settle(index, search, *rest) or [] if hit[1] != 7 or search.minimum == -float("inf")]

    monkeypatch.setattr(exact.ExactIndex, "settle", overlooking)
    assert explained(node, 3, 1, 0, "THRESHOLD", 0) == [(b"k0008", None), (b"k0007", None)]
    told = explained(node, 3, 1, 0, "THRESHOLD", 0, "FILTER", ".n != 7")
    assert told == [(b"k0008", None), (b"k0005", None), (b"k0004", None), (b"k0007", b"filtered")]


def test_without_explain_the_shape_stays(node: Node) -> None:
    put(node.run, 1, 9, n=1)
    assert node.line("AMEM.SEM.RECALL a 1 1 0") == [[b"key", b"k0001", b"content", b"text", b"similarity", b"9"]]


def test_a_long_answer_with_any_options_is_the_same_in_parts(node: Node) -> None:
    for number in range(700):
        put(node.run, number, number, n=number)
    for words in ((), ("WITHMETA",), ("EXPLAIN", "THRESHOLD", 20)):
        found = labelled(node.run("AMEM.SEM.RECALL", "a", 690, 1, 0, *words))
        assert len({item[b"key"] for item in found}) == len(found) >= 680


def test_a_filter_of_few_facts_takes_no_thread(node: Node) -> None:
    for number in range(30):
        put(node.run, number, number, n=number)
    assert recalled(node, 5, ".n >= 3 and .n < 6") == [b"k0005", b"k0004", b"k0003"]
    assert node.deferred == 0
