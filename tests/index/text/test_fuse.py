"""One ranking from two: neither leg is lost, whatever the scales."""

from __future__ import annotations

import numpy as np
import pytest

from amemdb.index.text import fuse

NAN = float("nan")


def ranking(lexical: list[float], similarities: list[float], k: int, full: float = 10.0) -> list[int]:
    legs = [np.array(lexical), np.array(similarities)]
    return fuse.order(fuse.fused(legs[0], full, legs[1]), legs, np.arange(len(lexical)), k)


def test_what_both_legs_praise_comes_first():
    assert ranking([9, 8, 0], [0.1, 0.8, 0.9], 3)[0] == 1


@pytest.mark.parametrize("scale", [(1.0, 0.0), (0.3, 0.7), (50.0, -20.0)])
def test_similarities_count_by_their_span(scale):
    times, plus = scale
    lexical, similarities = [9.0, 5.0, 0.0, 1.0], [0.1, 0.5, 0.95, 0.3]
    expected = ranking(lexical, similarities, 4)
    span = fuse.SPAN_MIN * abs(max(similarities) * times + plus)
    if times * 0.85 > span:
        assert ranking(lexical, [times * value + plus for value in similarities], 4) == expected


def test_nearly_equal_similarities_are_equally_near():
    scaled = fuse.vectors_scale(np.array([0.81, 0.80, 0.805]))
    assert scaled.min() > 0.8
    assert fuse.vectors_scale(np.array([0.0, 0.0])).tolist() == [1.0, 1.0]
    assert fuse.vectors_scale(np.array([])).tolist() == []


def test_a_chance_word_is_no_match():
    scaled = fuse.words_scale(np.array([1.0, 0.5]), 10.0)
    assert scaled.tolist() == pytest.approx([0.25, 0.125])
    assert fuse.words_scale(np.array([8.0, 4.0]), 10.0).tolist() == [1.0, 0.5]
    assert fuse.words_scale(np.array([0.0]), 0.0).tolist() == [0.0]


def test_an_exact_word_no_vector_knows_comes_through():
    lexical = [10.0] + [0.0] * 19
    similarities = [-1.0] + [0.9] * 19
    assert 0 in ranking(lexical, similarities, 2)


def test_a_perfect_vector_without_a_word_comes_through():
    lexical = [0.0] + [9.0 + number / 100 for number in range(19)]
    similarities = [1.0] + [0.95] * 19
    for k in (2, 5, 10):
        found = ranking(lexical, similarities, k)
        assert 0 in found
        assert 19 in found
        assert len(found) == k


def test_scores_still_descend_where_a_place_is_kept():
    lexical = [0.0] + [9.0 + number / 100 for number in range(19)]
    similarities = [1.0] + [0.95] * 19
    joint = fuse.fused(np.array(lexical), 10.0, np.array(similarities))
    places = ranking(lexical, similarities, 5)
    assert [joint[place] for place in places] == sorted([joint[place] for place in places], reverse=True)


def test_what_has_no_vector_is_last_in_that_leg():
    scaled = fuse.vectors_scale(np.array([NAN, 0.5, 0.1]))
    assert scaled[0] == 0.0
    assert fuse.vectors_scale(np.array([NAN])).tolist() == [0.0]


def test_equal_scores_are_newest_first():
    assert ranking([5.0, 5.0, 5.0], [0.5, 0.5, 0.5], 3) == [2, 1, 0]
    assert ranking([], [], 5) == []
    assert ranking([1.0], [1.0], 0) == []


def test_a_pool_is_wider_than_what_is_asked_for():
    assert fuse.pool_size(5) == fuse.POOL
    assert fuse.pool_size(100) > 100
    assert fuse.pool_size(100_000) < 110_000
