"""The exact index: vectors in a matrix, searched whole. It holds the truth, and is the oracle of any other index.

Layout. Row i of the matrix is row `i % block_rows` of block `i // block_rows`. The first block grows by doubling, so an
agent with three facts does not cost megabytes; later ones come whole, so growth never copies more than one block.
Beside it lie four columns: fact id, expiry, sum of squares, and the generation at which the row last changed. Rows are
dense: the last one moves into the place of one removed. Row numbers therefore mean nothing outside, and no
result depends on them: equal sets of (fact id, vector, expiry) give equal answers in whatever order they came.

A search is in three parts, as a long one leaves the event loop while facts come and go:

1. `search` notes arrays and generation. Nothing is copied; nothing is ever resized in place.
2. `Search.work`, in any thread: coarse keys for all rows, the floor that surely `k + slack` of them reach, exact keys
   for the rows that may reach it. A row that changes meanwhile may be read torn; whatever comes of it is not used.
3. `settle`, on the loop: rows that changed since 1 are taken out and ranked anew, the dead go, and what is left at or
   above the floor is complete, since every unchanged row that was not ranked lies below it. If too few are left (many
   of the best went at once), the answer is None and the caller searches again, wider. Once the width is all rows,
   no floor is needed, so this ends.

A short search runs the same three parts at once.

A search *among* given facts looks at no others. Whether a fact that came meanwhile is one of them only the caller
knows, who is asked in 3. Few of them are ranked one by one, many like all rows.

Half the memory. With `quant` f16 the matrix has two bytes a component. What is put in must be exact in 16 bits
(`amemdb.index.half`), so that the vector that comes out is the one that was put in, bit by bit.

The matrix product is meant to run on one thread. On a busy machine a BLAS that waits for a second one was seen to take
24 ms for 8,000 rows of 384, and 0.25 ms alone; `amemdb serve` sees to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import getsizeof
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amemdb.index import few, half
from amemdb.index.few import PART_FLOATS, Hit, Integers
from amemdb.index.similarity import (
    Floats,
    Query,
    Vector,
    coarse_floor_of,
    coarse_keys,
    exact_keys,
    extreme,
    floor_of,
    similarities,
    sum_of_squares,
)
from amemdb.limits import INT64_MAX

BLOCK_FLOATS = 1 << 19
"""2 MB: the first block's last growth copies half of it, about half a millisecond."""
BLOCK_ROWS_MAX = 4096
COLUMN_ROWS_MIN = 8
BLOCK_ROWS_MIN = 2
"""What the first block begins with: an agent may have one fact, and its row may be 256 KB."""
ROW_FLOATS = 32
"""What a row costs in a search beside its own floats, in floats."""
AMONG_SHARE = 16
"""Facts that are searched among are ranked one by one if they are at most one in so many, or `AMONG_FEW`."""
AMONG_FEW = 1024
FLOAT32, FLOAT16 = b"f32", b"f16"
QUANTS = (FLOAT32, FLOAT16)
SLACK = 16
"""How many rows beyond k a search ranks, so that a few changes meanwhile do not cost another one."""


class Search:
    """A search under way, made by `ExactIndex.search`."""

    __slots__ = (
        "_block_rows",
        "_blocks",
        "_expiries",
        "_ids",
        "_squares",
        "among",
        "count",
        "generation",
        "k",
        "minimum",
        "now_ms",
        "query",
        "slack",
    )

    def __init__(
        self,
        index: ExactIndex,
        query: Query,
        k: int,
        minimum: float,
        now_ms: int,
        slack: int,
        among: Integers | None,
    ) -> None:
        self.query = query
        self.among = among
        self.k = k
        self.minimum = minimum
        self.now_ms = now_ms
        self.slack = slack
        self.count = len(index)
        self.generation = index.generation
        self._block_rows = index.block_rows
        self._blocks, self._squares, self._expiries, self._ids = index.snapshot()

    @property
    def cost_floats(self) -> int:
        """What the duration depends on: about this many floats are read."""
        dim = len(self.query.vector)
        if self.among is not None and self._are_few(len(self.among)):
            return len(self.among) * dim + self.count * ROW_FLOATS
        return self.count * (dim + ROW_FLOATS)

    def _are_few(self, count: int) -> bool:
        """Whether so many facts are better ranked one by one."""
        return count <= max(AMONG_FEW, self.count // AMONG_SHARE)

    def work(self) -> Found:
        """Rank the rows as they are noted. Runs in any thread."""
        others: NDArray[np.bool_] | None = None
        if self.among is not None:
            others = ~np.isin(self._ids[: self.count], self.among)
        with np.errstate(all="ignore"):  # of extreme rows, whose float32 products are replaced, and of torn ones
            if others is not None and self.among is not None and self._are_few(len(self.among)):
                rows = np.flatnonzero(~others)
                return Found(rows, ranked(self._blocks, self._block_rows, rows, self._squares, self.query), -math.inf)
            keys, errors = self._coarse()
            lower = keys - errors
            void = dead_mask(self._expiries[: self.count], self.now_ms) | ~np.isfinite(lower)
            if others is not None:
                void |= others
            keys[void] = lower[void] = -math.inf
            wanted = self.k + self.slack
            floor = -math.inf
            if wanted < self.count:
                floor = float(np.partition(lower, self.count - wanted)[self.count - wanted])
            rows = np.flatnonzero((keys + errors >= floor) & (keys > -math.inf))
            exact = ranked(self._blocks, self._block_rows, rows, self._squares, self.query)
        return Found(rows, exact, floor_of(floor, self.query.metric))

    def reaching(self, similarity: float) -> list[int]:
        """The ids of all facts that are at least that similar, and of few others. Only as long as nothing changes."""
        with np.errstate(all="ignore"):
            keys, errors = self._coarse()
            below = keys + errors < coarse_floor_of(similarity, self.query.metric)
        ids: list[int] = self._ids[: self.count][~below].tolist()  # with those whose keys are not numbers
        return ids

    def _coarse(self) -> tuple[Floats, Floats]:
        products: Floats = np.empty(self.count, np.float64)
        for first in range(0, self.count, self._block_rows):
            last = min(first + self._block_rows, self.count)
            block = self._blocks[first // self._block_rows][: last - first]
            if block.dtype == np.float32:
                products[first:last] = block @ self.query.unit32
            else:
                half.products(block.view(np.float16), self.query.unit32, products[first:last])
        norms = np.sqrt(self._squares[: self.count])
        odd = np.flatnonzero(extreme(norms))
        if odd.size:
            for place, rows in widened(self._blocks, self._block_rows, odd):
                products[odd[place]] = rows @ self.query.unit
        return coarse_keys(products, norms, self.query)


class Found:
    """What `Search.work` found: rows in ascending order, their exact keys, and the floor above which they are all."""

    __slots__ = ("floor", "keys", "rows")

    def __init__(self, rows: Integers, keys: Floats, floor: float) -> None:
        self.rows = rows
        self.keys = keys
        self.floor = floor


class ExactIndex:
    """Vectors of one dimension under one metric, by fact id."""

    kind = b"exact"
    OBJECTS_BYTES = 1024
    """Of an index without rows beside its tables, about: arrays, lists and itself."""

    def __init__(self, dim: int, metric: bytes, quant: bytes = FLOAT32) -> None:
        self.dim = dim
        self.metric = metric
        self._component: type[np.floating[Any]] = np.float16 if quant == FLOAT16 else np.float32
        self.block_rows = max(8, min(BLOCK_ROWS_MAX, BLOCK_FLOATS // dim))
        self.generation = 0
        self._expiry_min = INT64_MAX
        """No fact expires before that; it may be earlier than the first that does."""
        self._row_of: dict[int, int] = {}
        self._blocks: list[Vector] = []
        self._ids: Integers = np.empty(COLUMN_ROWS_MIN, np.int64)
        self._expiries: Integers = np.empty(COLUMN_ROWS_MIN, np.int64)
        self._changed: Integers = np.empty(COLUMN_ROWS_MIN, np.int64)
        self._squares: Floats = np.empty(COLUMN_ROWS_MIN, np.float64)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, fact_id: int) -> bool:
        return fact_id in self._row_of

    @property
    def vector_bytes(self) -> int:
        """Bytes of memory that one vector takes."""
        return self.dim * np.dtype(self._component).itemsize

    def dead_id(self, now_ms: int) -> int | None:
        """The id of a fact that has expired, the one whose time passed first; None if all live. O(1) if none can be."""
        if now_ms < self._expiry_min:
            return None
        expiries = self._expiries[: len(self)]
        expiring = np.flatnonzero(expiries > 0)
        if not len(expiring):
            self._expiry_min = INT64_MAX
            return None
        self._expiry_min = int(expiries[expiring].min())
        if now_ms < self._expiry_min:
            return None
        first = expiring[expiries[expiring] == self._expiry_min]
        return int(self._ids[first].min())

    def ids(self) -> Integers:
        """The ids of all facts, in no order. A copy."""
        return self._ids[: len(self)].copy()

    def live_count(self, now_ms: int) -> int:
        """How many rows have not expired."""
        return len(self) - int(np.count_nonzero(dead_mask(self._expiries[: len(self)], now_ms)))

    def memory_bytes(self) -> int:
        """Bytes of memory that arrays and tables take, room that is not used yet included. O(1)."""
        rows = len(self._blocks[0]) + (len(self._blocks) - 1) * self.block_rows if self._blocks else 0
        columns = self._ids, self._expiries, self._changed, self._squares
        return self.vector_bytes * rows + sum([column.nbytes for column in columns]) + getsizeof(self._row_of)

    def free_some(self, count: int) -> int:
        """Free about `count` rows of an index that is out of use; how many they were."""
        freed = 0
        while self._blocks and freed < count:
            freed += len(self._blocks.pop())
        if not self._blocks:
            while self._row_of and freed < count:
                self._row_of.popitem()
                freed += 1
        return freed

    def vector(self, fact_id: int) -> Vector:
        """A copy of the vector of a fact that is in the index."""
        return self._row(self._row_of[fact_id]).astype(np.float32)

    def vectors(self, fact_ids: Sequence[int]) -> Vector:
        """Copies of the vectors of facts that are in the index, a row each."""
        copies: Vector = np.empty((len(fact_ids), self.dim), np.float32)
        for place, fact_id in enumerate(fact_ids):
            copies[place] = self._row(self._row_of[fact_id])
        return copies

    def squares_of(self, fact_ids: Sequence[int]) -> Floats:
        """The sums of squares of their vectors."""
        return self._squares[[self._row_of[fact_id] for fact_id in fact_ids]]

    def expire_at_ms(self, fact_id: int) -> int:
        """When a fact that is in the index expires, 0 for never."""
        return int(self._expiries[self._row_of[fact_id]])

    # -- changes ---------------------------------------------------------------------------------

    def put(self, fact_id: int, vector: bytes, expire_at_ms: int) -> None:
        """Take in a vector of `dim` little-endian float32 under an id that was never used before."""
        assert fact_id not in self._row_of, f"fact id {fact_id} is used twice"
        narrow = np.frombuffer(vector, "<f4")
        row = len(self._row_of)
        self._resize(row + 1)
        self._row(row)[:] = narrow
        self._ids[row] = fact_id
        self._expiries[row] = expire_at_ms
        if expire_at_ms:
            self._expiry_min = min(self._expiry_min, expire_at_ms)
        self._squares[row] = sum_of_squares(narrow.astype(np.float64))
        self._row_of[fact_id] = row
        self.generation += 1
        self._changed[row] = self.generation

    def remove(self, fact_id: int) -> None:
        """Let go of a fact that is in the index."""
        row = self._row_of.pop(fact_id)
        last = len(self._row_of)
        self.generation += 1
        if row != last:
            self._row(row)[:] = self._row(last)
            for column in (self._ids, self._expiries, self._squares):
                column[row] = column[last]
            self._row_of[int(self._ids[row])] = row
            self._changed[row] = self.generation
        self._resize(last)

    def _row(self, row: int) -> Vector:
        view: Vector = self._blocks[row // self.block_rows][row % self.block_rows]
        return view

    def _resize(self, count: int) -> None:
        """Make room for `count` rows, or give back what they no longer need. Arrays are replaced, never resized."""
        capacity = _capacity_for(count, len(self._ids), COLUMN_ROWS_MIN)
        if capacity != len(self._ids):
            self._ids = _moved(self._ids, capacity)
            self._expiries = _moved(self._expiries, capacity)
            self._changed = _moved(self._changed, capacity)
            self._squares = _moved(self._squares, capacity)
        blocks, size = self._blocks, self.block_rows
        if not blocks:
            blocks.append(np.empty((BLOCK_ROWS_MIN, self.dim), self._component))
        if len(blocks) == 1:
            capacity = min(size, _capacity_for(count, len(blocks[0]), BLOCK_ROWS_MIN))
            if capacity != len(blocks[0]):
                blocks[0] = _moved(blocks[0], capacity)
        needed = -(-count // size)
        if needed > len(blocks):
            blocks.append(np.empty((size, self.dim), self._component))
        elif len(blocks) > 1 and count < (len(blocks) - 1) * size - size // 2:
            blocks.pop()  # not sooner, or a fact rewritten at the border would cost a block each time

    # -- searches --------------------------------------------------------------------------------

    def snapshot(self) -> tuple[list[Vector], Floats, Integers, Integers]:
        """The arrays that a search reads: blocks, sums of squares, expiries, fact ids."""
        return self._blocks[:], self._squares, self._expiries, self._ids

    def search(
        self,
        query: Query,
        k: int,
        minimum: float,
        now_ms: int,
        slack: int = SLACK,
        among: Integers | None = None,
    ) -> Search:
        """Begin a search for the `k` facts most similar to `query`, each of a similarity of at least `minimum`.

        With `among`, ids of facts, for no others than these.
        """
        return Search(self, query, k, minimum, now_ms, slack, among)

    def settle(
        self, search: Search, found: Found, now_ms: int, is_among: Callable[[int], bool] | None = None
    ) -> list[Hit] | None:
        """The hits as of now, best first and equal ones by fact id; None if `search` was overtaken by changes.

        `is_among` tells of a search among given facts which of those that came or moved since are to be found.
        """
        if now_ms < search.now_ms:  # the clock was set back: what was left out as dead may live
            return None
        sure = found.keys >= found.floor
        rows, keys = found.rows[sure], found.keys[sure]
        if search.generation != self.generation:
            rows, keys = self._renewed(rows, keys, search, found.floor, is_among)
        scores = similarities(keys, self.metric)
        keep = (scores >= search.minimum) & ~dead_mask(self._expiries[rows], now_ms)
        rows, keys, scores = rows[keep], keys[keep], scores[keep]
        if len(rows) < search.k and found.floor > -math.inf and self._similarity(found.floor) >= search.minimum:
            return None
        ids = self._ids[rows]
        order = np.lexsort((ids, -keys))[: search.k]
        return list(zip(scores[order].tolist(), ids[order].tolist(), strict=True))

    def _renewed(
        self, rows: Integers, keys: Floats, search: Search, floor: float, is_among: Callable[[int], bool] | None
    ) -> tuple[Integers, Floats]:
        """`rows` without those that changed since `search` began, with all changed ones that reach `floor`."""
        there = rows < len(self)
        rows, keys = rows[there], keys[there]
        same = self._changed[rows] <= search.generation
        changed = np.flatnonzero(self._changed[: len(self)] > search.generation)
        if search.among is not None:
            assert is_among is not None, "only the caller knows who of the new ones belongs to these"
            changed = changed[[is_among(fact_id) for fact_id in self._ids[changed].tolist()]]
        new_keys = ranked(self._blocks, self.block_rows, changed, self._squares, search.query)
        high = new_keys >= floor
        return np.concatenate((rows[same], changed[high])), np.concatenate((keys[same], new_keys[high]))

    def living(
        self, fact_ids: Iterable[int], now_ms: int, is_among: Callable[[int], bool] | None, count_max: int
    ) -> list[int]:
        """The first `count_max` of these facts that are in the index, live, and are among those asked for."""
        return few.living(
            *(fact_ids, self._row_of, self._blocks, self.block_rows, self._expiries),
            *(now_ms, count_max, is_among),
        )

    def hits_of(self, fact_ids: Iterable[int], query: Query, minimum: float, now_ms: int) -> list[Hit]:
        """The hits among these facts, all of which are in the index: best first and equal ones by fact id."""
        return few.hits_of(
            *(fact_ids, self._row_of, self._blocks, self.block_rows, self._squares, self._expiries),
            *(query, minimum, now_ms),
        )

    def _similarity(self, key: float) -> float:
        return float(similarities(np.array([key]), self.metric)[0])


def ranked(blocks: Sequence[Vector], block_rows: int, rows: Integers, squares: Floats, query: Query) -> Floats:
    """The exact keys of `rows`, which ascend."""
    keys: Floats = np.empty(len(rows), np.float64)
    for place, wide in widened(blocks, block_rows, rows):
        keys[place] = exact_keys(wide, squares[rows[place]], query)
    return keys


def widened(blocks: Sequence[Vector], block_rows: int, rows: Integers) -> Iterator[tuple[slice, Floats]]:
    """The vectors of `rows`, which ascend, as float64 in parts; each with its place in `rows`."""
    edges = np.searchsorted(rows, np.arange(len(blocks) + 1) * block_rows).tolist()
    for number, block in enumerate(blocks):
        step = max(1, PART_FLOATS // block.shape[1])
        for start in range(edges[number], edges[number + 1], step):
            place = slice(start, min(start + step, edges[number + 1]))
            yield place, block[rows[place] - number * block_rows].astype(np.float64)


def dead_mask(expiries: Integers, now_ms: int) -> NDArray[np.bool_]:
    """Which of these have a time that has passed."""
    return (expiries > 0) & (expiries <= now_ms)


def _capacity_for(count: int, capacity: int, least: int) -> int:
    """Doubled when full, halved when only a quarter is used, so that the two do not follow one another."""
    if count > capacity:
        return capacity * 2
    return max(least, capacity // 2) if count * 4 <= capacity else capacity


def _moved(array: NDArray[Any], capacity: int) -> NDArray[Any]:
    moved: NDArray[Any] = np.empty((capacity, *array.shape[1:]), array.dtype)
    count = min(capacity, len(array))
    moved[:count] = array[:count]
    return moved
