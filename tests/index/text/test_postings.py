"""The inverted index: what comes, goes and is written anew, against a model that counts by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from random import Random

import pytest

from amemdb.index.text import postings
from amemdb.index.text.analyse import Analyser
from amemdb.index.text.bm25 import K1, B, TextSearch
from amemdb.index.text.postings import DEAD_MIN, TextIndex
from amemdb.index.text.segment import PIECE_BYTES

WORDS = [first + second + "o" for first in "bcdfghkl" for second in "aeiou"]


@pytest.fixture
def index() -> TextIndex:
    return TextIndex(Analyser(b"none"))


def run(steps: Generator[None, None, None]) -> int:
    return sum(1 for _ in steps)


def scores(index: TextIndex, query: str) -> dict[int, float]:
    found = TextSearch(index, index.analyser.query(query.encode())).work()
    return dict(zip(found.ids.tolist(), found.scores.tolist(), strict=True))


def by_hand(texts: dict[int, str], query: str) -> dict[int, float]:
    """BM25 as the formula says."""
    counts = {number: Counter(text.split()) for number, text in texts.items()}
    mean = sum(map(len, map(str.split, texts.values()))) / max(1, len(texts))
    total: dict[int, float] = {}
    for word, weight in Counter(query.split()).items():
        holding = [number for number in texts if counts[number][word]]
        idf = math.log(1 + (len(texts) - len(holding) + 0.5) / (len(holding) + 0.5))
        for number in holding:
            count, length = counts[number][word], len(texts[number].split())
            total[number] = total.get(number, 0.0) + weight * idf * count * (K1 + 1) / (
                count + K1 * (1 - B + B * length / mean)
            )
    return total


@pytest.mark.parametrize("seed", range(6))
def test_scores_are_those_of_the_formula_whatever_came_and_went(index, seed):
    random = Random(seed)
    texts: dict[int, str] = {}
    for number in range(1, 900):
        texts[number] = " ".join(random.choices(WORDS, k=random.randint(0, 12)))
        index.put(number, texts[number].encode())
        while texts and random.random() < 0.45:
            gone = random.choice(list(texts))
            del texts[gone]
            index.remove(gone)
        if index.wants_purging:
            run(index.purging())
        if number % 90 == 0:
            query = " ".join(random.choices(WORDS, k=3))
            assert scores(index, query) == pytest.approx(by_hand(texts, query))
    assert index.live == len(texts)


def test_removals_before_a_number_and_by_stamp(index):
    for number in range(1, 101):
        index.put(number, b"word", number // 10)
    index.remove(3)
    index.remove_before(41)
    index.remove_before(41)
    assert set(scores(index, "word")) == set(range(41, 101))
    index.remove_older(5, 55)
    assert set(scores(index, "word")) == set(range(55, 101))
    assert (index.live, index.stamp(60), index.holds(54), index.holds(55)) == (46, 6, False, True)
    index.remove(999)
    index.remove(3)
    assert index.live == 46


def test_writing_anew_forgets_the_dead_and_gives_memory_back(index):
    for number in range(2000):
        index.put(number, b"common only%d" % number)
    before = index.memory_bytes()
    for number in range(1900):
        index.remove(number)
    assert index.wants_purging
    expected = scores(index, "common only1950")
    assert run(index.purging()) > 3
    assert (index.count, index.live, index.wants_purging) == (100, 100, False)
    assert scores(index, "common only1950") == expected
    assert index.memory_bytes() < before / 5
    index.put(2000, b"common")
    assert 2000 in scores(index, "common")


def test_what_goes_while_it_is_written_anew_is_gone(index):
    for number in range(3 * DEAD_MIN):
        index.put(number, b"word%d all" % number)
    for number in range(2 * DEAD_MIN):
        index.remove(number)
    steps = index.purging()
    next(steps)
    index.remove(700)
    run(steps)
    assert 700 not in scores(index, "all")
    assert len(scores(index, "all")) == index.live == DEAD_MIN - 1


def test_a_long_text_comes_in_steps_and_is_found_once_it_is_there(index):
    index.put(1, b"word")
    text = b" ".join(b"long%d" % number for number in range(4000)) + b" word"
    assert len(text) > 3 * PIECE_BYTES
    steps = index.putting(2, text)
    seen = 0
    for _ in steps:
        seen += 1
        assert set(scores(index, "word")) == {1}
    assert seen > 8
    assert set(scores(index, "word")) == {1, 2}
    assert set(scores(index, "long3999")) == {2}


@pytest.mark.parametrize("how", ["remove", "remove_before"])
def test_a_text_that_is_removed_while_it_comes_in_stays_out(index, how):
    index.put(1, b"word")
    steps = index.putting(2, b"word " * PIECE_BYTES)
    next(steps)
    if how == "remove":
        index.remove(2)
    else:
        index.remove_before(3)
    run(steps)
    assert 2 not in scores(index, "word")
    index.put(3, b"word")
    assert 3 in scores(index, "word")


def test_a_search_under_way_sees_what_was_there_when_it_began(index):
    for number in range(20):
        index.put(number, b"word")
    search = TextSearch(index, {b"word": 1.0})
    index.remove(4)
    index.put(20, b"word")
    assert len(search.work()) == 20


def test_a_count_beyond_what_fits_is_the_most_that_fits(index):
    index.put(1, b"word " * 1000)
    assert index.postings(b"word").tolist() == [postings.COUNT_MAX]


def test_numbers_ascend(index):
    index.put(5, b"word")
    with pytest.raises(AssertionError):
        index.put(5, b"word")


def test_it_is_freed_bit_by_bit(index):
    for number in range(50):
        index.put(number, b"%d" % number)
    assert len(index) == 50
    assert index.free_some(30) == 30
    assert index.free_some(30) == 20
    assert index.free_some(30) == 0
