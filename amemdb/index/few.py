"""A few facts, ranked exactly: the end of a search that has found who may be near.

Whoever searches a graph gets ids, some of facts that are gone, and has to say which of them are nearest now, by the
exact keys of `amemdb.index.similarity`. That is a dozen rows, somewhere in a large matrix; so the time goes into Python
and into waiting for memory, and a twin does it in a third (`_few.pyx`). Its keys are the same, bit by bit: it
multiplies as is done here, and has numpy sum.

Everything comes in as the arrays and tables of `amemdb.index.exact`, which says what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from amemdb import native
from amemdb.index.similarity import Floats, Query, Vector, exact_keys, similarities

Integers = NDArray[np.int64]
Hit = tuple[float, int]
"""Similarity and fact id."""
RowOf = dict[int, int]
"""Rows by fact id."""

PART_FLOATS = 15_000
"""Rows are widened to float64 in parts of about this size. They stay in the processor's cache, and below the 128 KB
from which on the C library may ask the system for memory each time, which took four times as long as the sums."""


def living(
    fact_ids: Iterable[int],
    row_of: RowOf,
    blocks: list[Vector],
    block_rows: int,
    expiries: Integers,
    now_ms: int,
    count_max: int,
    is_among: Callable[[int], bool] | None,
) -> list[int]:
    """The first `count_max` of these facts that are there, live, and are among those asked for.

    Their rows are looked at next: the twin has them fetched.
    """
    found: list[int] = []
    for fact_id in fact_ids:
        row = row_of.get(fact_id)
        if row is None or 0 < expiries[row] <= now_ms:
            continue
        if is_among is None or is_among(fact_id):
            found.append(fact_id)
            if len(found) == count_max:
                break
    return found


def hits_of(
    fact_ids: Iterable[int],
    row_of: RowOf,
    blocks: list[Vector],
    block_rows: int,
    squares: Floats,
    expiries: Integers,
    query: Query,
    minimum: float,
    now_ms: int,
) -> list[Hit]:
    """The hits among these facts, all of which are there: best first and equal ones by fact id."""
    ids = list(fact_ids)
    rows: Integers = np.array([row_of[fact_id] for fact_id in ids], np.int64)
    dim = len(query.vector)
    keys: Floats = np.empty(len(rows), np.float64)
    step = max(1, PART_FLOATS // dim)
    with np.errstate(all="ignore"):
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            wide = np.empty((len(part), dim), np.float64)
            for place, row in enumerate(part.tolist()):
                wide[place] = blocks[row // block_rows][row % block_rows]
            keys[first : first + step] = exact_keys(wide, squares[part], query)
    scores = similarities(keys, query.metric).tolist()
    ranked = [
        (-key, fact_id, score)
        for key, fact_id, score, expire_at_ms in zip(keys.tolist(), ids, scores, expiries[rows].tolist(), strict=True)
        if score >= minimum and not 0 < expire_at_ms <= now_ms
    ]
    ranked.sort()
    return [(score, fact_id) for _, fact_id, score in ranked]


if not TYPE_CHECKING and native.ENABLED:
    from amemdb.index import _few

    plain_living, plain_hits_of = living, hits_of
    living, hits_of = _few.living, _few.hits_of
