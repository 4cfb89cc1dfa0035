"""Text indexes of objects: they see all that was written, nothing that is gone, and cost nothing until asked for."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

import pytest
from rig import Rig

from amemdb.index.text.bm25 import TextSearch
from amemdb.stores import feeds as feeds_module
from amemdb.stores.feeds import EventFeed, FactFeed, Feed, NoteFeed, TurnFeed
from amemdb.stores.texts import Texts

WORDS = ["apple", "pear", "plum", "cherry", "grape", "lemon", "melon", "fig", "date", "quince"]


def run(steps: Generator[None, None, Any]) -> int:
    return sum(1 for _ in steps)


def holding(feed: Feed, word: str) -> list[int]:
    """Numbers of the documents that hold a word, once all is taken in."""
    run(feed.absorbing())
    found = TextSearch(feed.index, feed.index.analyser.query(word.encode())).work()
    return found.ids.tolist()


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig("AMEM.SEM.CREATE", "a", 2)
    rig("AMEM.CONV.CREATE", "s", "WINDOW", 50)
    return rig


def facts_of(rig: Rig) -> FactFeed:
    return rig.stores.texts.of_namespace(rig.stores.sem.namespaces[b"a"])


def events_of(rig: Rig) -> EventFeed:
    return rig.stores.texts.of_log(b"a", rig.stores.epis.logs[b"a"])


def turns_of(rig: Rig) -> TurnFeed:
    return rig.stores.texts.of_conversation(rig.stores.conv.sessions[b"s"])


def notes_of(rig: Rig) -> NoteFeed:
    return rig.stores.texts.of_notes(b"s", rig.stores.work)


def feeds(texts: Texts) -> list[Feed]:
    return [*texts.facts.values(), *texts.events.values(), *texts.turns.values(), *texts.notes.values()]


def store(rig: Rig, key: str, content: str) -> None:
    assert rig("AMEM.SEM.STORE", "a", key, content, 1, 1) == b"OK"


def test_nothing_is_made_until_somebody_searches(rig):
    store(rig, "k", "apple")
    rig("AMEM.EPIS.LOG", "a", "type", "apple")
    rig("AMEM.CONV.APPEND", "s", "user", "apple")
    texts = rig.stores.texts
    assert feeds(texts) == []
    assert texts.memory_bytes() == 0
    assert rig.stores.sem.namespaces[b"a"].text is None


def test_facts_that_are_replaced_or_forgotten_are_gone_at_once(rig):
    store(rig, "one", "apple")
    store(rig, "two", "apple pear")
    feed = facts_of(rig)
    assert holding(feed, "apple") == [1, 2]
    store(rig, "one", "plum")
    rig("AMEM.SEM.FORGET", "a", "two")
    assert holding(feed, "apple") == holding(feed, "pear") == []
    assert holding(feed, "plum") == [3]
    assert feed.index.live == 1


def test_a_fact_that_goes_before_its_turn_is_not_taken_in(rig):
    for number in range(10):
        store(rig, f"k{number}", "apple")
    feed = facts_of(rig)
    steps = feed.absorbing()
    next(steps)
    rig("AMEM.SEM.FORGET", "a", "k9")
    store(rig, "k8", "pear")
    run(steps)
    assert len(holding(feed, "apple")) == 8
    assert holding(feed, "pear") == [11]


def test_a_search_waits_for_what_was_written_before_it_and_no_longer(rig):
    for number in range(10):
        store(rig, f"k{number}", "apple")
    feed = facts_of(rig)
    first = feed.absorbing()
    next(first)
    store(rig, "later", "apple")
    second = feed.absorbing()
    for _ in second:
        store(rig, "again", "apple")  # a writer that never stops
    assert feed.index.holds(11)
    run(first)


def test_events_in_any_order_of_time(rig):
    now = rig.now_ms
    for at_ms in (now, now - 500, now + 900, now - 100):
        rig("AMEM.EPIS.LOG", "a", "type", "apple", "AT", at_ms)
    feed = events_of(rig)
    assert holding(feed, "apple") == [1, 2, 3, 4]
    for at_ms in (now - 50, now - 400):
        rig("AMEM.EPIS.LOG", "a", "type", "apple", "AT", at_ms)
    rig("AMEM.EPIS.LOG", "a", "type", "apple")
    assert holding(feed, "apple") == [1, 2, 3, 4, 5, 6, 7]
    assert feed.event(6, now)[0] == now - 400
    rig("AMEM.EPIS.RETAIN", "a", "MAXLEN", 5)  # those of now - 500 and now - 400 go
    assert holding(feed, "apple") == [1, 3, 4, 5, 7]
    assert feed.event(2, now) is None


def test_events_that_went_although_an_older_one_came_behind_them(rig):
    now = rig.now_ms
    for at_ms in (now - 3, now - 2, now - 1):
        rig("AMEM.EPIS.LOG", "a", "type", "apple", "AT", at_ms)
    feed = events_of(rig)
    assert holding(feed, "apple") == [1, 2, 3]
    rig("AMEM.EPIS.RETAIN", "a", "MAXLEN", 1)
    rig("AMEM.EPIS.RETAIN", "a", "MAXLEN", 9)
    rig("AMEM.EPIS.LOG", "a", "type", "apple", "AT", now - 9)
    assert holding(feed, "apple") == [3, 4]


def test_events_out_of_age_are_not_given(rig):
    rig("AMEM.EPIS.LOG", "a", "type", "apple")
    rig("AMEM.EPIS.RETAIN", "a", "MAXAGE", 10)
    feed = events_of(rig)
    assert holding(feed, "apple") == [1]
    rig.advance_ms(10_001)
    assert feed.event(1, rig.now_ms) is None
    rig.advance_ms(2000)
    assert rig.tick() == 1
    assert holding(feed, "apple") == []


def test_turns_that_leave_the_window_are_gone(rig):
    for number in range(60):
        rig("AMEM.CONV.APPEND", "s", "user", f"apple number{number}")
    feed = turns_of(rig)
    assert holding(feed, "apple") == list(range(11, 61))
    for _ in range(20):
        rig("AMEM.CONV.APPEND", "s", "user", "pear")
    assert holding(feed, "apple") == list(range(31, 61))
    assert feed.turn(31) == b"apple number30"
    assert feed.turn(30) is None
    rig("AMEM.CONV.CLEAR", "s")
    assert holding(feed, "apple") == holding(feed, "pear") == []
    rig("AMEM.CONV.APPEND", "s", "user", "apple again")
    assert holding(feed, "apple") == [81]
    assert feed.turn(81) == b"apple again"


def test_notes_are_those_of_the_moment(rig):
    rig("AMEM.WORK.SET", "s", "fruit", "apple")
    rig("AMEM.WORK.SET", "s", "other", "pear")
    feed = notes_of(rig)
    (number,) = holding(feed, "apple")
    assert feed.key(number) == b"fruit"
    assert holding(feed, "fruit") == [number], "a key is searched as well"
    rig("AMEM.WORK.SET", "s", "fruit", "plum")
    rig("AMEM.WORK.DEL", "s", "other")
    assert holding(feed, "apple") == holding(feed, "pear") == []
    assert feed.key(holding(feed, "plum")[0]) == b"fruit"
    rig("AMEM.WORK.CLEAR", "s")
    assert holding(feed, "plum") == []
    assert feed.index.live == 0


def test_notes_written_while_others_are_taken_in(rig):
    for number in range(5):
        rig("AMEM.WORK.SET", "s", f"k{number}", "apple")
    feed = notes_of(rig)
    first = feed.absorbing()
    next(first)
    rig("AMEM.WORK.SET", "s", "k0", "pear")
    rig("AMEM.WORK.SET", "s", "k9", "pear")
    run(feed.absorbing())
    assert len(holding(feed, "pear")) == 2
    assert len(holding(feed, "apple")) == 4
    run(first)


def test_very_many_notes_are_compared_in_steps(rig):
    for number in range(3 * feeds_module.FEW):
        rig("AMEM.WORK.SET", "s", f"k{number}", "apple")
    feed = notes_of(rig)
    assert len(holding(feed, "apple")) == 3 * feeds_module.FEW
    assert run(feed.absorbing()) >= 3, "nothing has changed, and yet all are looked at"
    rig("AMEM.WORK.SET", "s", "k2500", "pear")
    assert len(holding(feed, "pear")) == 1


def test_indexes_go_with_their_objects(rig):
    store(rig, "k", "apple")
    rig("AMEM.EPIS.LOG", "a", "type", "apple")
    rig("AMEM.CONV.APPEND", "s", "user", "apple")
    rig("AMEM.WORK.SET", "s", "k", "apple")

    def search_all() -> list[list[int]]:
        return [holding(feed, "apple") for feed in (facts_of(rig), events_of(rig), turns_of(rig), notes_of(rig))]

    assert search_all() == [[1]] * 4
    rig("AMEM.SEM.DROP", "a")
    rig("AMEM.EPIS.CLEAR", "a")
    rig("AMEM.CONV.DROP", "s")
    texts = rig.stores.texts
    assert feeds(texts) == []
    assert texts.held_bytes == 0
    rig("AMEM.SEM.CREATE", "a", 2)
    rig("AMEM.CONV.CREATE", "s")
    rig("AMEM.EPIS.LOG", "a", "type", "pear")
    assert holding(facts_of(rig), "apple") == holding(events_of(rig), "apple") == holding(turns_of(rig), "apple") == []
    rig("FLUSHALL")
    assert texts.held_bytes == 0
    assert feeds(texts) == []


def test_a_search_goes_on_whose_object_is_dropped(rig):
    for number in range(20):
        store(rig, f"k{number}", "apple")
    feed = facts_of(rig)
    steps = feed.absorbing()
    next(steps)
    rig("AMEM.SEM.DROP", "a")
    assert run(steps) <= 1
    assert feed.dropped


def test_a_session_that_expires_takes_its_index_along(rig):
    rig("AMEM.CONV.EXPIRE", "s", "TTL", 5)
    rig("AMEM.CONV.APPEND", "s", "user", "apple")
    holding(turns_of(rig), "apple")
    rig.advance_ms(6000)
    rig.tick()
    assert not rig.stores.texts.turns
    assert rig.stores.texts.held_bytes == 0


def test_memory_is_counted_as_it_is_taken(rig):
    before = rig.stores.tables_bytes()["text"]
    for number in range(300):
        store(rig, f"k{number}", f"number{number} of the apples")
    assert rig.stores.tables_bytes()["text"] == before == 0
    feed = facts_of(rig)
    run(feed.absorbing())
    texts = rig.stores.texts
    assert texts.held_bytes == feed.index.memory_bytes() > 30_000
    assert rig.stores.tables_bytes()["text"] > texts.held_bytes
    assert rig.stores.texts.facts[b"a"].counted_bytes == feed.index.memory_bytes()


def test_a_large_index_is_buried(rig):
    store(rig, "k", " ".join(f"number{number}" for number in range(2000)))
    run(facts_of(rig).absorbing())
    held = rig.stores.texts.held_bytes
    before = rig.stores.ledger.graveyard
    rig("AMEM.SEM.DROP", "a")
    assert rig.stores.ledger.graveyard - before >= held > 0
    assert rig.stores.texts.held_bytes == 0
    while rig.stores.graveyard.free(500):
        pass
    assert rig.stores.ledger.graveyard == 0


@pytest.mark.parametrize("seed", range(5))
def test_an_index_says_what_a_fresh_one_says_after_anything(rig, seed):
    random = Random(seed)
    for _ in range(400):
        content = " ".join(random.choices(WORDS, k=3))
        kind = random.randrange(9)
        if kind < 3:
            store(rig, f"k{random.randrange(40)}", content)
        elif kind == 3:
            rig("AMEM.SEM.FORGET", "a", f"k{random.randrange(40)}")
        elif kind == 4:
            rig("AMEM.EPIS.LOG", "a", "type", content, "AT", rig.now_ms - random.randrange(1000))
        elif kind == 5:
            rig("AMEM.EPIS.LOG", "a", "type", content)
            if random.random() < 0.2:
                rig("AMEM.EPIS.RETAIN", "a", "MAXLEN", random.randint(5, 40))
        elif kind == 6:
            rig("AMEM.CONV.APPEND", "s", "user", content)
        elif kind == 7:
            rig("AMEM.WORK.SET", "s", f"k{random.randrange(9)}", content)
        elif random.random() < 0.5:
            steps = facts_of(rig).absorbing()
            for _ in range(random.randrange(5)):
                next(steps, None)
        if random.random() < 0.1:
            compare(rig, random.choice(WORDS))
    compare(rig, "apple")


def compare(rig: Rig, word: str) -> None:
    """Every index of the rig against one that is made from what is there now."""
    namespace = rig.stores.sem.namespaces[b"a"]
    stem = rig.stores.texts.of_namespace(namespace).index.analyser.query(word.encode())

    def scores(feed: Feed) -> dict[int, float]:
        run(feed.absorbing())
        found = TextSearch(feed.index, stem).work()
        return dict(zip(found.ids.tolist(), found.scores.tolist(), strict=True))

    ours: list[Feed] = [facts_of(rig), turns_of(rig)]
    analyser = ours[0].index.analyser
    fresh: list[Feed] = [
        FactFeed(namespace, analyser, lambda _: None),
        TurnFeed(rig.stores.conv.sessions[b"s"], analyser, lambda _: None),
    ]
    if b"a" in rig.stores.epis.logs:
        ours.append(events_of(rig))
        fresh.append(EventFeed(rig.stores.epis.logs[b"a"], analyser, lambda _: None))
    for old, new in zip(ours, fresh, strict=True):
        assert scores(old) == scores(new)
    theirs = NoteFeed(b"s", rig.stores.work, analyser, lambda _: None)
    assert sorted(scores(notes_of(rig)).values()) == sorted(scores(theirs).values())


def test_many_facts_at_once_are_taken_in_once(rig, monkeypatch):
    monkeypatch.setattr(feeds_module, "FEW", 5)
    for number in range(10):
        store(rig, f"k{number}", "apple")
    feed = facts_of(rig)
    assert holding(feed, "apple") == list(range(1, 11))
    for number in range(5, 15):
        store(rig, f"k{number}", "apple")
    assert holding(feed, "apple") == [1, 2, 3, 4, 5, *range(11, 21)]
