"""How well texts answer a query of words: BM25 over the postings of a `TextIndex`.

For each term of the query that a document holds it gets

    weight * idf * count * (K1 + 1) / (count + K1 * (1 - B + B * length / mean length))
    idf = ln(1 + (documents - holding + 0.5) / (holding + 0.5))

(S. Robertson and H. Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009; the idf that is never
negative is that of Lucene.) K1 and B are those that A. Trotman, A. Puurula and B. Burgess found best over many
collections (Improvements to BM25 and Language Models Examined, 2014), as Anserini has them by default: what agents
remember is short, and of short texts neither the repetition of a word nor the length says much.

`full` is what a document of average length gets that holds every term of the query once. Scores divided by it can be
compared with those of another index and another query: 1 is a full match.

A search is in three parts, as a long one leaves the event loop while documents come and go: making a `TextSearch`
copies what it reads, which is postings and a mark per document; `work` scores, in any thread; what it gives names
documents by number, and the caller leaves out those that went meanwhile. Equal scores are ordered newest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from amemdb.index.text.phrases import Phrases
from amemdb.index.text.postings import COUNT_BITS, COUNT_MAX, Integers, TextIndex

READ_AGAIN_MAX = 64
"""How many texts are read again for phrases at most."""
TERMS_MAX = 64
"""Of those that occur at all, the rarest are looked for."""
HITS_AT_ONCE = 256
RANKED_AT_ONCE = 2048
"""So many more are put in order where those that were expected do not suffice: a few tenths of a millisecond."""
K1 = 0.9
B = 0.4

ALL = 1 << 62

Floats = NDArray[np.float64]
Hit = tuple[float, int]
"""Score and number of a document."""


class TextSearch:
    """A search under way."""

    __slots__ = ("_alive", "_documents", "_ids", "_lengths", "_mean_length", "_terms", "_wanted", "cost")

    def __init__(self, index: TextIndex, weights: Mapping[bytes, float], wanted: int = READ_AGAIN_MAX) -> None:
        """`weights` are the terms of the query (`Analyser.query`); about `wanted` of the best will be asked for.

        Who rejects most of what is found, such as a filter, does well to have all put in order off the loop: `ALL`.
        """
        self._wanted = wanted
        self._ids, self._lengths, self._alive = index.columns()
        self._documents = index.live
        self._mean_length = index.mean_length
        # In an order that does not depend on how the query was written, so that sums are the same bits.
        ordered = sorted(weights, key=lambda term: (index.held(term), term))
        absent = sum([index.held(term) == 0 for term in ordered])
        self._terms = [(term, weights[term], index.postings(term)) for term in ordered[: absent + TERMS_MAX]]
        self.cost = len(self._ids) + sum([len(packed) for _, _, packed in self._terms])
        """What the duration depends on: documents, and postings that are read."""

    def work(self) -> TextFound:
        """Score every document that holds a term of the query. Runs in any thread."""
        scores: Floats = np.zeros(len(self._ids), np.float64)
        values: dict[bytes, float] = {}
        for term, weight, packed in self._terms:
            slots = (packed >> COUNT_BITS).astype(np.int64)
            if len(slots) and slots[-1] >= len(self._ids):  # of a document that is being put in
                slots = slots[slots < len(self._ids)]
            counts = (packed[: len(slots)] & COUNT_MAX).astype(np.float64)
            living = self._alive[slots]
            slots, counts = slots[living], counts[living]
            idf = math.log(1.0 + (self._documents - len(slots) + 0.5) / (len(slots) + 0.5))
            values[term] = weight * idf
            if len(slots):
                relative = self._lengths[slots] / (self._mean_length or 1.0)
                scores[slots] += weight * idf * (K1 + 1.0) * counts / (counts + K1 * (1.0 - B + B * relative))
        found = np.flatnonzero(scores)
        return TextFound(self._ids[found], scores[found], values, self._wanted)


class TextFound:
    """The documents that hold any term of a query, by ascending number, with their scores."""

    __slots__ = ("_first", "_left", "ids", "scores", "values")

    def __init__(self, ids: Integers, scores: Floats, values: dict[bytes, float], wanted: int) -> None:
        self.ids = ids
        self.scores = scores
        best, self._left = self._split(np.arange(len(ids)), max(1, wanted))
        self._first = self._ordered(best)
        self.values = values
        """By term of the query, what a document of average length gets that holds it once."""

    @property
    def full(self) -> float:
        """The score of a full match."""
        return sum(self.values.values())

    def __len__(self) -> int:
        return len(self.ids)

    def ranked(self) -> Iterator[Hit]:
        """All of them, the best first. Those that the search was told to expect are in order already."""
        yield from self._hits(self._first)
        left = self._left
        while len(left):
            batch, left = self._split(left, RANKED_AT_ONCE)
            yield from self._hits(self._ordered(batch))

    def _split(self, left: Integers, wanted: int) -> tuple[Integers, Integers]:
        """Of the places `left`, which ascend, the best `wanted`, and the others. Of equal ones the newest are best."""
        if wanted >= len(left):
            return left, left[:0]
        scores = self.scores[left]
        floor = np.partition(scores, len(left) - wanted)[len(left) - wanted]
        chosen = scores > floor
        equal = np.flatnonzero(scores == floor)
        chosen[equal[len(equal) - (wanted - int(np.count_nonzero(chosen))) :]] = True
        return left[chosen], left[~chosen]

    def _ordered(self, places: Integers) -> Integers:
        order: Integers = places[np.lexsort((-self.ids[places], -self.scores[places]))]
        return order

    def _hits(self, order: Integers) -> Iterator[Hit]:
        for begin in range(0, len(order), HITS_AT_ONCE):
            places = order[begin : begin + HITS_AT_ONCE]
            yield from zip(self.scores[places].tolist(), self.ids[places].tolist(), strict=True)

    def best(self, k: int, accept: Callable[[int], bool]) -> list[Hit]:
        """The best `k` of those that `accept` takes."""
        found: list[Hit] = []
        if k > 0:
            for hit in self.ranked():
                if accept(hit[1]):
                    found.append(hit)
                    if len(found) == k:
                        break
        return found

    def best_with_phrases(
        self, k: int, phrases: Phrases, text_of: Callable[[int], bytes | None]
    ) -> Generator[None, None, list[Hit]]:
        """The best `k` with what phrases add, of those that have a text: `text_of` gives None for others.

        Yields between the texts, so that some of them may be gone at the end.
        """
        raised: list[Hit] = []
        floor = -math.inf
        for score, doc_id in self.ranked() if k > 0 else ():
            if score + phrases.most < floor or len(raised) >= (max(READ_AGAIN_MAX, k) if len(phrases) else k):
                break
            yield
            text = text_of(doc_id)
            if text is None:
                continue
            more = 0.0
            if len(phrases) and len(raised) < READ_AGAIN_MAX:
                more = yield from phrases.bonus(text)
            raised.append((score + more, doc_id))
            if k <= len(raised) <= READ_AGAIN_MAX:
                floor = sorted([score for score, _ in raised], reverse=True)[k - 1]
        # Behind those that were read again all are in order, and nothing made one of them better than one of these.
        again, rest = raised[:READ_AGAIN_MAX], raised[READ_AGAIN_MAX:]
        return (sorted(again, key=_best_first) + rest)[:k]

    def scores_of(self, ids: Integers) -> Floats:
        """The scores of these documents, 0 for one that holds no term."""
        if not len(self.ids):
            return np.zeros(len(ids), np.float64)
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.scores[places], 0.0)


def _best_first(hit: Hit) -> tuple[float, int]:
    return -hit[0], -hit[1]
