"""Order of what is found, phrases, and that few are touched where few are wanted."""

from __future__ import annotations

import pytest

from amemdb.index.text.analyse import Analyser
from amemdb.index.text.bm25 import READ_AGAIN_MAX, TERMS_MAX, TextFound, TextSearch
from amemdb.index.text.phrases import Phrases
from amemdb.index.text.postings import TextIndex


class Texts:
    """Some texts, indexed under their places from 1 on."""

    def __init__(self, *texts: str) -> None:
        self.texts = dict(enumerate([text.encode() for text in texts], 1))
        self.index = TextIndex(Analyser(b"en"))
        for number, text in self.texts.items():
            self.index.put(number, text)

    def found(self, query: str, wanted: int = READ_AGAIN_MAX) -> TextFound:
        return TextSearch(self.index, self.index.analyser.query(query.encode()), wanted).work()

    def best(self, query: str, k: int = 10, gone: tuple[int, ...] = ()) -> list[int]:
        found = self.found(query)
        phrases = Phrases(self.index.analyser, self.index.analyser.words(query.encode()), found.values)

        def text_of(number: int) -> bytes | None:
            return None if number in gone else self.texts[number]

        steps = found.best_with_phrases(k, phrases, text_of)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return [number for _, number in end.value]


def test_words_side_by_side_come_first():
    texts = Texts(
        "a machine was learning to dance at night",
        "learning about a machine and its parts",
        "machine learning by night, as they call it in the long course of last year",
    )
    assert texts.best("machine learning")[0] == 3
    assert texts.best("learning machine")[0] != 3


def test_an_exact_identifier_beats_all_that_share_its_parts():
    texts = Texts(*[f"invoice INV-2024-{number:04} INV 2024" for number in range(1, 60)])
    assert texts.best("INV-2024-0017")[0] == 17
    assert texts.best("inv-2024-0059")[0] == 59
    assert texts.best("0042")[0] == 42


def test_a_query_of_words_that_say_little_still_finds():
    texts = Texts("to be or not to be", "a ship at sea")
    assert texts.best("to be or not to be") == [1]


def test_words_that_say_little_do_not_outweigh_one_that_says_much():
    texts = Texts("when did you do that and how", "the support group met on Monday", "what is it that you did then")
    assert texts.best("When did the support group meet?")[0] == 2


def test_equal_scores_are_newest_first():
    texts = Texts(*["same words"] * 500)
    assert texts.best("same", 5) == [500, 499, 498, 497, 496]
    assert [number for _, number in texts.found("same", 5).ranked()] == list(range(500, 0, -1))


def test_ranked_is_the_whole_order_whatever_was_expected():
    texts = Texts(*[" ".join(["word"] * (1 + number % 7)) + " x" * (number % 5) for number in range(300)])
    expected = list(texts.found("word", 1000).ranked())
    assert expected == sorted(expected, key=lambda hit: (-hit[0], -hit[1]))
    for wanted in (1, 3, 64, 299, 300):
        assert list(texts.found("word", wanted).ranked()) == expected


def test_those_without_a_text_are_made_up_for():
    texts = Texts(*["some words here"] * 200)
    assert texts.best("words", 3, tuple(range(50, 201))) == [49, 48, 47]
    assert texts.best("some words", 3, tuple(range(50, 201))) == [49, 48, 47]
    assert texts.best("some words", 0) == []


def test_a_full_match_is_about_one():
    texts = Texts("red apple", "green pear", "blue plum")
    found = texts.found("red apple")
    assert next(found.ranked())[0] / found.full == pytest.approx(1.0)
    half = texts.found("red elephant")
    assert next(half.ranked())[0] / half.full < 0.6


def test_scores_of_others_are_nothing():
    texts = Texts("red", "green")
    found = texts.found("red")
    assert found.scores_of(texts.index.columns()[0])[1] == 0.0
    assert texts.found("nothing").scores_of(texts.index.columns()[0]).tolist() == [0.0, 0.0]
    assert len(texts.found("nothing")) == texts.found("").full == 0


def test_words_repeated_in_a_query_are_no_phrase():
    texts = Texts("boo boo", "boo")
    assert len(Phrases(texts.index.analyser, [b"boo", b"boo"], {})) == 0


def test_of_a_long_query_the_rarest_terms_are_looked_for():
    rare = [f"{first}{second}zq" for first in "bcdfghkl" for second in "aeioumnr"]
    texts = Texts("common words", *rare, "common words and xylophone")
    assert len(rare) == TERMS_MAX
    query = " ".join(["common words absent", *rare[1:], "xylophone"])
    found = texts.found(query)
    assert {b"absent", b"xylophon"} <= set(found.values)
    assert not {b"common", b"word"} & set(found.values)
    assert len(texts.best(query, 100)) == TERMS_MAX
