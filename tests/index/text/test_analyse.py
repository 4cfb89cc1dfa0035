"""What a text is searched by: words, identifiers, runs of characters, whatever the bytes are."""

from __future__ import annotations

from collections import Counter

import pytest

from amemdb.index.text import analyse, segment
from amemdb.index.text.analyse import CHARACTER_WEIGHT, IDENTIFIER_WEIGHT, STOP_WEIGHT, Analyser
from amemdb.index.text.folding import fold
from amemdb.index.text.languages import CODES, stemmer_of


@pytest.fixture
def english() -> Analyser:
    return Analyser(b"en")


def terms(analyser: Analyser, text: str | bytes) -> set[str]:
    return {term.decode() for term in counts_of(analyser, text if isinstance(text, bytes) else text.encode())}


def counts_of(analyser: Analyser, text: bytes) -> Counter[bytes]:
    counts: Counter[bytes] = Counter()
    analyser.count(text, counts)
    return counts


def words(analyser: Analyser, text: str) -> list[str]:
    return [word.decode() for word in analyser.words(text.encode())]


def test_words_meet_in_their_stem_and_in_any_case(english):
    assert terms(english, "Running RUNS run") == {"run"}
    assert words(english, "The invoices were paid") == ["the", "invoic", "were", "paid"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Café", "cafe"),
        ("Cafe\u0301", "Café"),
        ("Straße", "STRASSE"),
        ("ＡＢＣ１２", "abc12"),
        ("Ελλάδα", "ΕΛΛΑΔΑ"),
        ("Ёлка", "елка"),
        ("İstanbul", "istanbul"),
        ("Łódź", "lodz"),
        ("٢٠٢٤", "2024"),
        ("مُحَمَّد", "محمد"),
        ("ﬁnance", "finance"),
    ],
)
def test_what_is_one_word_to_people_is_one_term(english, left, right):
    assert terms(english, left) == terms(english, right)


@pytest.mark.parametrize(("left", "right"), [("йога", "иога"), ("が", "か"), ("한", "하"), ("ही", "हा")])
def test_a_mark_that_makes_another_letter_stays(left, right):
    unstemmed = Analyser(b"none")
    assert terms(unstemmed, left) != terms(unstemmed, right)


def test_an_identifier_is_kept_whole_and_in_parts(english):
    assert terms(english, "see INV-2024-0017.") == {"see", "inv", "2024", "0017", "inv-2024-0017"}
    assert "a1b2c3" in terms(english, "(a1b2c3)")
    assert terms(english, "Ann@Example.org") >= {"ann@example.org", "ann"}
    assert "https://example.org/a/b" in terms(english, "at <https://example.org/a/b>")
    assert terms(english, "snake_case_name") >= {"snake_case_name", "snake", "name"}
    assert terms(english, "getUserName") == {"getusernam", "get", "user", "name"}
    assert terms(english, "iphone12") == {"iphone12", "iphon", "12"}
    assert terms(english, "C++ C# R&D") >= {"c++", "c#", "r&d"}
    assert terms(english, "1,024 and 3.14") >= {"1024", "3.14"}


def test_what_is_in_a_query_for_certain_weighs_more(english):
    weights = english.query(b"INV-2024-0017 of the Xerxes")
    assert weights[b"inv-2024-0017"] == IDENTIFIER_WEIGHT > weights[b"0017"] == weights[b"xerx"] == 1.0
    assert weights[b"of"] == STOP_WEIGHT


def test_apostrophes_of_genitives_contractions_and_elisions(english):
    assert words(english, "Caroline's don't o'brien") == ["carolin", "dont", "o", "brien"]
    assert words(Analyser(b"fr"), "l’homme d'affaires") == ["l", "homm", "d", "affair"]


def test_scripts_without_blanks_are_searched_by_pairs(english):
    assert terms(english, "東京都") == {"東", "京", "都", "東京", "京都"}
    assert english.query("東京".encode())["東京".encode()] == 1.0
    assert english.query("東京".encode())["東".encode()] == CHARACTER_WEIGHT
    assert english.query("東".encode()) == {"東".encode(): 1.0}
    assert terms(english, "iPhoneを買う") == {"iphon", "i", "phone", "を", "買", "う", "を買", "買う"}
    assert "ไทย"[:2] in terms(english, "ภาษาไทย")
    assert terms(english, "한국어") >= {"한국", "국어"}


def test_vowel_signs_of_india_belong_to_their_word(english):
    assert len(words(english, "हिन्दी भाषा")) == 2


def test_each_script_has_its_stemmer_and_none_has_none():
    assert terms(Analyser(b"en"), "книги книга") == {"книг"}
    assert terms(Analyser(b"de"), "Häuser Haus") == {"haus"}
    assert terms(Analyser(b"de-AT"), "Häuser") == {"haus"}
    assert terms(Analyser(b"none"), "running книги") == {"running", "книги"}
    assert terms(Analyser(b"zh"), "running книги") == {"running", "книг"}, "no stemmer of Latin words is known"
    assert {"en", "de", "fr", "es", "ru"} <= set(CODES)
    for code in CODES:
        assert stemmer_of(code.encode())("word")


def test_any_bytes_are_a_text(english):
    assert terms(english, b"\xff\xfeabc\xff\x00def\xc3") == {"abc", "def"}
    assert terms(english, bytes(range(256)) * 3)
    assert terms(english, b"") == terms(english, b" \t\n") == terms(english, b"... !? --") == set()
    assert terms(english, "\u0301 \u200d") == set()
    assert terms(english, "🎉 party") == {"🎉", "parti"}


def test_a_term_is_never_long(english):
    for text in (b"x" * 5000, b"-".join([b"a1"] * 2000)):
        counts: Counter[bytes] = Counter()
        english.count(text, counts)
        assert max(map(len, counts)) <= 64
        assert len(counts) < 100
    assert english.query(b"x" * 5000) == dict.fromkeys(counts_of(english, b"X" * 5000), 1.0)
    assert counts_of(english, b"x" * 5000) != counts_of(english, b"x" * 4999)


def test_a_long_text_in_pieces_is_the_whole_text(english):
    text = ("INV-2024-0017 was paid by Müller, 東京. " * 900).encode()
    whole: Counter[bytes] = Counter()
    length = english.count(text, whole)
    parts: Counter[bytes] = Counter()
    pieces = list(segment.pieces(text))
    assert b"".join(pieces) == text
    assert max(map(len, pieces)) <= segment.PIECE_BYTES
    assert sum(english.count(piece, parts) for piece in pieces) == length
    assert parts == whole


@pytest.mark.parametrize("text", ["é" * 20_000, "東" * 9000, "🎉" * 5000])
def test_no_piece_ends_inside_a_character(text):
    pieces = list(segment.pieces(text.encode()))
    assert "".join(piece.decode() for piece in pieces) == text
    assert len(pieces) > 1


def test_what_is_remembered_is_bounded_and_counted(english, monkeypatch):
    monkeypatch.setattr(analyse, "_REMEMBERED_MAX", 10)
    for number in range(100):
        assert words(english, f"word{number} again") == [f"word{number}", "again"]
    assert 0 < english.memory_bytes() <= 20 * 450


def test_folding_leaves_plain_words_alone():
    assert fold("Word") == "word"
    assert fold("œuvre") == "oeuvre"


@pytest.mark.parametrize("chunk", ["Running", "runs,", "(the", "Zürich.", "USA", "iPhone", "c#", "a", "ﬁ", "don't"])
@pytest.mark.parametrize("language", [b"en", b"de", b"none"])
def test_a_plain_word_becomes_what_the_long_way_makes_of_it(language, chunk):
    alone = Analyser(language).query(chunk.encode())
    assert Analyser(language).query(f"{chunk}~".encode()) == alone, "not a plain word, as a sign is behind it"
