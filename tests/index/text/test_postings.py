"""The inverted index: what comes, goes and is written anew, against a model that counts by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator
from random import Random
from typing import Any

import pytest

from amemdb.index.text import analyse, postings, segment, terms
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


def result(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


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


def letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def test_very_many_terms_lie_in_several_tables_and_are_found(index, monkeypatch):
    monkeypatch.setattr(terms, "WHOLE_MAX", 50)
    for number in range(200):
        index.put(number, f"all {letters(number)}w {letters(number // 2)}p {letters(number // 2)}p".encode())
    assert len(index) == 1 + 200 + 100
    assert len(index._terms.first) < 60
    for number in (0, 7, 120, 199):
        assert list(scores(index, f"{letters(number)}w")) == [number]
        assert sorted(scores(index, f"{letters(number // 2)}p")) == [number & ~1, number | 1]
    assert index.held(b"all") == 200
    before_bytes = index.memory_bytes()
    for number in range(150):
        index.remove(number)
    run(index.purging())
    assert len(index) == 1 + 50 + 25
    assert index.memory_bytes() < before_bytes
    assert list(scores(index, f"{letters(180)}w")) == [180]
    freed = 0
    while more := index.free_some(10):
        freed += more
    assert freed == 76
    assert len(index) == 0


def test_a_text_of_very_many_words_is_entered_in_parts_with_the_same_counts(index, monkeypatch):
    text = b" ".join(b"w%d" % (number * number % 977) for number in range(20_000))
    whole = TextIndex(index.analyser)
    for each in (whole, index):
        each.put(1, b"w1 w1 w4")
    whole.put(2, text)
    monkeypatch.setattr(postings, "COUNTED_TERMS_MAX", 100)
    index.put(2, text)
    assert len(index) == len(whole) > 400
    for number in range(977):
        term = b"w%d" % number
        assert index.postings(term).tolist() == whole.postings(term).tolist()
    assert index.mean_length == whole.mean_length


HOSTILE = {
    "parts": b"a." * 20_000,
    "signs": b"a-._@:" * 8_000,
    "numbers": b"1,000" * 10_000,
    "emoji": "👩‍👩‍👧‍👦🇩🇪".encode() * 2_000,
    "scripts": "a東".encode() * 10_000,
    "marks": ("e" + "\u0301" * 40_000).encode(),
    "characters": "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(15_000)).encode(),
    "words": b" ".join(b"%x" % (number * 0x9E3779B97F4A7C15) for number in range(3_000)),
    "one": b"w" * 100_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_step_takes_more_than_a_few_tokens_apart(index, monkeypatch, text):
    """Counted in words that are folded, as all that are met for the first time are, but the plainest."""
    apart = most = 0

    def counted(method, cost):
        def call(*arguments):
            nonlocal apart
            apart += cost(*arguments)
            return method(*arguments)

        return call

    monkeypatch.setattr(analyse, "fold", counted(analyse.fold, lambda word: 1 + len(word) // 256))
    for _ in index.putting(1, text):
        most = max(most, apart)
        apart = 0
    assert most <= 500, f"{most} at once"
    assert index.live == 1


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_text_in_steps_is_the_text_at_once(index, text):
    """Wherever it is not cut: a piece is a text of its own."""
    piece = next(segment.pieces(text))
    at_once: Counter[bytes] = Counter()
    length = index.analyser.count(piece, at_once)
    in_steps: Counter[bytes] = Counter()
    steps = index.analyser.counting(piece, in_steps)
    assert result(steps) == length
    assert in_steps == at_once
    assert result(index.analyser.reading(piece)) == index.analyser.words(piece)
