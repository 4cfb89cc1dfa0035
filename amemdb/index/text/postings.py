"""The inverted index: which documents hold a term, and how often.

A document comes under a number larger than any before it and gets the next *slot*. A term leads to its postings in the
order of slots, each one number: the slot shifted by six bits, and how often the term occurs, up to 63. Most terms of
any collection occur in one document only, so a single posting is kept as it is. Two or more lie in a `bytearray`: that
of hundreds of thousands of them the garbage collector looks at none, as it would at objects of `array`.

A document that is removed leaves its postings behind and is only marked. That makes a removal independent of its text,
and leaves every figure exact, as a search counts the living of the postings that it reads anyway. Once the dead are
the larger part, `purging` writes the index anew.

Nothing here holds the text. `putting` and `purging` are generators that yield every few tenths of a millisecond, for
whoever drives them to serve others in between; they may not be mixed, `remove` may come at any time. What is being put
in is found once it is all there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from itertools import islice
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amemdb.index.text.analyse import Analyser
from amemdb.index.text.segment import pieces
from amemdb.index.text.terms import SHARD_MASK, Held, Terms

COUNT_BITS = 6
COUNT_MAX = (1 << COUNT_BITS) - 1
SLOTS_MAX = 1 << (32 - COUNT_BITS)
DEAD_MIN = 256
"""With fewer dead than this an index is not written anew."""
TERMS_AT_ONCE, PURGED_AT_ONCE = 500, 32
AT_ONCE_BYTES = 512
"""A text of at most that is taken in at once; a longer one in steps."""
COUNTED_TERMS_MAX = 20_000
"""Of a text with more terms than that, those counted so far are entered before others are counted."""
SLOTS_MIN = 16

Integers = NDArray[np.int64]
Postings = NDArray[np.uint32]

OBJECTS_BYTES = 1024
"""Of an index without documents, about: itself, its arrays and what feeds it."""
_TERM_BYTES = 48 + 32
"""Of a term that occurs once: its bytes and the number of its posting, about."""
_ARRAY_BYTES = 64 + 16
"""Of a row of postings beside them, in place of a number."""
POSTING = np.dtype("<u4")
POSTING_BYTES = 4
_pack = Struct("<I").pack


class TextIndex:
    """Documents by number, and the postings of their terms."""

    __slots__ = (
        *("_alive", "_first", "_held_bytes", "_ids", "_lengths", "_putting_id", "_stamps", "_terms", "_words"),
        *("analyser", "count", "live"),
    )

    def __init__(self, analyser: Analyser) -> None:
        self.analyser = analyser
        self.count = 0
        """Slots in use, those of the dead included."""
        self.live = 0
        self._words = 0
        self._first = 0
        self._held_bytes = 0
        self._putting_id = -1
        self._terms = Terms()
        self._ids: Integers = np.empty(SLOTS_MIN, np.int64)
        self._stamps: Integers = np.empty(SLOTS_MIN, np.int64)
        self._lengths: NDArray[np.uint32] = np.empty(SLOTS_MIN, np.uint32)
        self._alive: NDArray[np.bool_] = np.zeros(SLOTS_MIN, np.bool_)

    def __len__(self) -> int:
        """How many terms there are: the parts that it is freed by."""
        return len(self._terms)

    @property
    def last_id(self) -> int:
        """The number of the newest document that was ever put in, -1 without."""
        return int(self._ids[self.count - 1]) if self.count else -1

    @property
    def mean_length(self) -> float:
        """Words of a document, on the average."""
        return self._words / self.live if self.live else 0.0

    def memory_bytes(self) -> int:
        """Bytes of memory that it takes, about. O(1)."""
        columns = self._ids.nbytes + self._stamps.nbytes + self._lengths.nbytes + self._alive.nbytes
        return OBJECTS_BYTES + self._held_bytes + columns + self._terms.memory_bytes()

    def free_some(self, count: int) -> int:
        """Free about `count` terms of an index that is out of use; how many they were."""
        return self._terms.free_some(count)

    def postings(self, term: bytes) -> Postings:
        """A copy of a term's postings, the dead included."""
        held = self._terms.get(term)
        if held is None:
            return _NONE
        if isinstance(held, int):
            return np.array((held,), np.uint32)
        return np.frombuffer(held, POSTING).astype(np.uint32)  # a copy, as more may come

    def held(self, term: bytes) -> int:
        """How many postings of a term there are."""
        held = self._terms.get(term)
        return 0 if held is None else 1 if isinstance(held, int) else len(held) // POSTING_BYTES

    def columns(self) -> tuple[Integers, NDArray[np.uint32], NDArray[np.bool_]]:
        """Numbers and lengths of the documents by slot, which do not change, and a copy of who is alive."""
        return self._ids[: self.count], self._lengths[: self.count], self._alive[: self.count].copy()

    def holds(self, doc_id: int) -> bool:
        """Whether a document is in the index and alive."""
        slot = self._slot(doc_id)
        return slot >= 0 and bool(self._alive[slot])

    def stamp(self, doc_id: int) -> int:
        """What a document that is in the index was stamped with."""
        return int(self._stamps[self._slot(doc_id)])

    # -- changes -----------------------------------------------------------------------------------

    def put(self, doc_id: int, text: bytes, stamp: int = 0) -> None:
        """Take in a document at once."""
        for _ in self.putting(doc_id, text, stamp):
            pass

    def putting(self, doc_id: int, text: bytes, stamp: int = 0) -> Generator[None, None, None]:
        """Take in a document whose number is larger than any before; `stamp` is kept with it for its owner."""
        assert doc_id > self.last_id, "documents are taken in by ascending number"
        assert self.count < SLOTS_MAX, "a text index is full"
        counts: Counter[bytes] = Counter()
        gone = False
        if len(text) <= AT_ONCE_BYTES:
            length = self.analyser.count(text, counts)
            self._enter(counts)
        else:
            self._putting_id = doc_id
            length = 0
            is_first = True
            for piece in pieces(text):
                length += yield from self.analyser.counting(piece, counts)
                yield
                if len(counts) >= COUNTED_TERMS_MAX:
                    yield from self._entering(counts, is_first)
                    counts, is_first = Counter(), False
            yield from self._entering(counts, is_first)
            gone = self._putting_id != doc_id
        self._putting_id = -1
        self._begin(doc_id, length, stamp, not gone)

    def remove(self, doc_id: int) -> None:
        """Let go of a document. One that was never taken in is no mistake: it was removed before."""
        if doc_id == self._putting_id:
            self._putting_id = -1
            return
        slot = self._slot(doc_id)
        if slot >= 0 and self._alive[slot]:
            self._alive[slot] = False
            self.live -= 1
            self._words -= int(self._lengths[slot])

    def remove_before(self, doc_id: int) -> None:
        """Let go of all documents with smaller numbers."""
        if self._putting_id < doc_id:
            self._putting_id = -1
        end = int(np.searchsorted(self._ids[: self.count], doc_id))
        if end > self._first:
            alive = self._alive[self._first : end]
            self.live -= int(np.count_nonzero(alive))
            self._words -= int(self._lengths[self._first : end][alive].sum(dtype=np.int64))
            alive[:] = False
            self._first = end

    def remove_older(self, stamp: int, doc_id: int) -> None:
        """Let go of all documents that an earlier stamp was put on, and of those of the same with smaller numbers."""
        stamps = self._stamps[: self.count]
        older = (stamps < stamp) | ((stamps == stamp) & (self._ids[: self.count] < doc_id))
        older &= self._alive[: self.count]
        self.live -= int(np.count_nonzero(older))
        self._words -= int(self._lengths[: self.count][older].sum(dtype=np.int64))
        self._alive[: self.count][older] = False

    @property
    def wants_purging(self) -> bool:
        """Whether the dead are the larger part."""
        return self.count - self.live > max(DEAD_MIN, self.live)

    def purging(self) -> Generator[None, None, None]:
        """Write the index anew without the dead."""
        keep = np.flatnonzero(self._alive[: self.count])
        moved_to = np.full(self.count, -1, np.int64)
        moved_to[keep] = np.arange(len(keep))
        fresh = TextIndex(self.analyser)
        for number, (term, held) in enumerate(self._terms.items()):
            if number % PURGED_AT_ONCE == 0:
                yield
            if isinstance(held, int):
                slot = int(moved_to[held >> COUNT_BITS])
                if slot >= 0:
                    fresh._adopt(term, slot << COUNT_BITS | held & COUNT_MAX, _TERM_BYTES)
                continue
            old = np.frombuffer(held, POSTING)
            slots = moved_to[old >> COUNT_BITS]
            stay = slots >= 0
            packed = (slots[stay] << COUNT_BITS) | (old[stay] & COUNT_MAX)
            if len(packed) == 1:
                fresh._adopt(term, int(packed[0]), _TERM_BYTES)
            elif len(packed):
                more_bytes = _TERM_BYTES + _ARRAY_BYTES + 4 * len(packed)
                fresh._adopt(term, bytearray(packed.astype(POSTING).tobytes()), more_bytes)
        replaced, self._terms = self._terms, fresh._terms
        self._held_bytes = fresh._held_bytes
        # Who was removed meanwhile is marked in the columns, which go along as they are now.
        room = max(SLOTS_MIN, len(keep))
        self._ids = _moved(self._ids[keep], room)
        self._stamps = _moved(self._stamps[keep], room)
        self._lengths = _moved(self._lengths[keep], room)
        self._alive = _moved(self._alive[keep], room)
        self.count = len(keep)
        self._first = 0
        while replaced.free_some(TERMS_AT_ONCE):  # to let go of all at once would take milliseconds
            yield

    def _adopt(self, term: bytes, held: Held, held_bytes: int) -> None:
        self._terms.table(term)[term] = held
        self._held_bytes += held_bytes + (len(term) & ~15)
        self._terms.came(1)

    def _entering(self, counts: Counter[bytes], is_first: bool) -> Generator[None, None, None]:
        """`_enter` in steps, for terms of a document of which others were entered before unless `is_first`."""
        terms = iter(counts.items())
        while part := dict(islice(terms, TERMS_AT_ONCE)):
            if not is_first:
                self._join(part)
            self._enter(part)
            yield

    def _join(self, counts: dict[bytes, int]) -> None:
        """Take out of `counts` what the document has been given a posting of, and add it there."""
        slot, get = self.count, self._terms.get
        for term in list(counts):
            held = get(term)
            if held is None:
                continue
            last = held if isinstance(held, int) else int.from_bytes(held[-POSTING_BYTES:], "little")
            if last >> COUNT_BITS == slot:
                last = slot << COUNT_BITS | min(COUNT_MAX, (last & COUNT_MAX) + counts.pop(term))
                if isinstance(held, int):
                    self._terms.table(term)[term] = last
                else:
                    held[-POSTING_BYTES:] = _pack(last)

    def _enter(self, counts: dict[bytes, int]) -> None:
        """Add the postings of a document that gets the next slot."""
        terms = self._terms
        first, shards = terms.first, terms.shards
        shifted = self.count << COUNT_BITS
        more_bytes = more_terms = 0
        for term, count in counts.items():
            posting = shifted | (count if count < COUNT_MAX else COUNT_MAX)
            table = first
            held = first.get(term)
            if held is None and shards:
                table = shards[hash(term) & SHARD_MASK]
                held = table.get(term)
            if held is None:
                table[term] = posting
                more_terms += 1
                more_bytes += _TERM_BYTES + (len(term) & ~15)
            elif isinstance(held, int):
                table[term] = bytearray(_pack(held) + _pack(posting))
                more_bytes += _ARRAY_BYTES + 8
            else:
                held += _pack(posting)
                more_bytes += 4
        self._held_bytes += more_bytes
        if more_terms:
            terms.came(more_terms)

    def _begin(self, doc_id: int, length: int, stamp: int, alive: bool) -> None:
        slot = self.count
        if slot == len(self._ids):
            room = slot + slot // 2
            self._ids = _moved(self._ids, room)
            self._stamps = _moved(self._stamps, room)
            self._lengths = _moved(self._lengths, room)
            self._alive = _moved(self._alive, room)
        self._ids[slot] = doc_id
        self._stamps[slot] = stamp
        self._lengths[slot] = length
        self._alive[slot] = alive
        self.count = slot + 1
        if alive:
            self.live += 1
            self._words += length

    def _slot(self, doc_id: int) -> int:
        ids = self._ids[: self.count]
        slot = int(np.searchsorted(ids, doc_id))
        return slot if slot < self.count and ids[slot] == doc_id else -1


def _moved(column: NDArray[Any], room: int) -> NDArray[Any]:
    moved: NDArray[Any] = np.zeros(room, column.dtype)
    moved[: len(column)] = column
    return moved


_NONE: Postings = np.empty(0, np.uint32)
