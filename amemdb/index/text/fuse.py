"""One ranking from two: by words and by vectors.

Both legs are brought to a scale from 0 to 1 and added in equal parts, over the best `POOL` of each; what only one
of them proposed is scored by the other as well, where that is known.

* *Words*: the score by that of the best, or by `FULL_MIN` of a full match if the best is below that. A query whose
  words hardly occur has a best text all the same, and that must not count as a match.
* *Vectors*: the similarity on the span between the best and the worst of the pool. What a similarity of 0.8 means
  differs between embedders: of some it is a paraphrase, of some no relation at all; the span makes it comparable under
  every metric. A span smaller than `SPAN_MIN` of the best is taken as that, as three facts of nearly the same
  similarity are equally near, not near, middling and far.

The best of each leg is never left out of an answer of two or more: an exact word that no embedder knows, or the very
text in other words, comes through alone. If the sum would drop it, it takes the last place.

Why this and not reciprocal ranks or other scales: docs/decisions/0019-hybrid-fusion.md. A sum of scores by their
theoretical bounds is what S. Bruch, S. Gai and A. Ingber recommend (An Analysis of Fusion Functions for Hybrid
Retrieval, 2023); this one keeps its bound for the words and gives it up for vectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

POOL = 50
"""How many of the best of each leg are ranked at least; of more, five times what is asked for, or 250 beyond it."""
WORDS_WEIGHT = 0.5
FULL_MIN = 0.4
SPAN_MIN = 0.1

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def pool_size(k: int) -> int:
    """How many of the best of each leg are to be proposed for an answer of `k`."""
    return max(POOL, min(5 * k, k + 250))


def fused(lexical: Floats, full: float, similarities: Floats) -> Floats:
    """The joint scores, from 0 to 1, of candidates with these scores by words and similarities of vectors.

    A similarity that is not a number belongs to a candidate without a vector, or one that is not known; it counts as
    the worst. `full` is what a full match of the words scores (`amemdb.index.text.bm25`).
    """
    return WORDS_WEIGHT * words_scale(lexical, full) + (1.0 - WORDS_WEIGHT) * vectors_scale(similarities)


def words_scale(lexical: Floats, full: float) -> Floats:
    """Scores by words from 0 to 1."""
    top = max(float(lexical.max(initial=0.0)), FULL_MIN * full)
    return lexical / top if top > 0.0 else np.zeros(len(lexical))


def vectors_scale(similarities: Floats) -> Floats:
    """Similarities from 0 to 1."""
    known = ~np.isnan(similarities)
    if not known.any():
        return np.zeros(len(similarities))
    top, low = float(similarities[known].max()), float(similarities[known].min())
    span = max(top - low, SPAN_MIN * abs(top)) or 1.0
    scaled = 1.0 - (top - similarities) / span
    scaled[~known] = 0.0
    return scaled


def order(scores: Floats, legs: list[Floats], ids: Integers, k: int) -> list[int]:
    """Places of the best `k` candidates, equal ones newest first; the best of each leg is among them.

    A leg's best is what scores highest in it, if that is above 0 or the leg can be negative; a score that is not a
    number is none.
    """
    ranking = np.lexsort((-ids, -scores)).tolist()
    chosen: list[int] = ranking[:k]
    if k < len(legs):
        return chosen
    kept = {place for leg in legs if (place := _best(leg, ids)) is not None}
    missing = [place for place in ranking[k:] if place in kept]
    for place in missing:
        last = next(at for at in range(len(chosen) - 1, -1, -1) if chosen[at] not in kept)
        del chosen[last]
        chosen.append(place)
    return chosen


def _best(leg: Floats, ids: Integers) -> int | None:
    known = np.flatnonzero(~np.isnan(leg) & (leg != 0.0))
    if not len(known):
        return None
    return int(known[np.lexsort((-ids[known], -leg[known]))[0]])
