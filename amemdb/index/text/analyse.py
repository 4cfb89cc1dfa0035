"""What a text is searched by: its terms.

Each token of a text (`segment`) becomes words, and extras beside them:

=====================  ==========================  ============================================
token                  words, in order             extras
=====================  ==========================  ============================================
`running`              run
`Caroline's`           carolin
`don't`                dont
`l'homme` (French)     l, homm
`INV-2024-0017`        inv, 2024, 0017             inv-2024-0017
`ann@example.org`      ann, example, org (stemmed) ann@example.org
`1,024`                1024
`getUserName`          getusernam                  get, user, name (stemmed)
`iphone12`             iphone12                    iphon, 12
`a1b2c3`               a1b2c3
`東京都`                東, 京, 都                    東京, 京都
=====================  ==========================  ============================================

Words are what the length of a text is counted in and what phrases are made of. Extras cost a document nothing and let
it be found by them. In a query an identifier as a whole counts twice, as nobody types one by chance; the pairs of a
run of characters count in place of the characters, which are only there for queries of one.

The same token becomes the same wherever it stands, no token reaches beyond a blank, and what people write repeats. So
what stands between two blanks is taken apart once and remembered, which makes a usual text eight times as fast.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Generator, Iterator
from typing import TypeAlias

from amemdb.index.text import segment
from amemdb.index.text.folding import fold, wide_as_plain
from amemdb.index.text.languages import DEFAULT, name_of, stemmer_of
from amemdb.index.text.stops import STOPS

STOP_WEIGHT = 0.2
"""Of a word that says little, in a query that also says more."""
IDENTIFIER_WEIGHT = 2.0
CHARACTER_WEIGHT = 0.1
"""Of a single character of a run, in a query that has pairs as well."""
PART_WEIGHT = 0.5
"""Of a part of a word that is written as one, `user` of `getUserName`."""

_TERM_BYTES_MAX = 64
"""A longer term is replaced by a digest."""
_REMEMBERED_MAX = 8_000
"""Of chunks, twice: those met lately, and those met before them. To forget so many at once takes milliseconds."""
_REMEMBERED_CHARACTERS_MAX = 32
_REMEMBERED_BYTES = 450
"""What one takes in memory, about."""
_COST_MAX = 500
_TOKEN_COST = 8
"""A step takes so many characters apart, or fewer where they are many tokens, as each takes as long as so many."""
_RUN_AT_ONCE = 256
"""Characters of a run that become one entry."""
_AROUND = '.,;:!?()[]{}<>"'
"""Punctuation around a word that is never a part of it."""
_INNER = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_INNER_MAX = 4
"""Of a word that changes more often between letters and digits, as `a1b2c3` does, the parts say nothing."""
_NUMBER = re.compile(r"[0-9]+(?:,[0-9]{3})+(?:\.[0-9]+)?")
_JOINTS = re.compile(r"[._@:/+#&=,-]+")
_IDENTIFIER = re.compile(r"[0-9@_/:]")
_DIGIT = re.compile(r"\d")
_APOSTROPHE = re.compile(r"['’]+")
_CONTRACTED = frozenset({"t", "d", "m", "re", "ve", "ll"})


Entry: TypeAlias = "tuple[tuple[bytes, ...], int, tuple[float, ...]]"
"""What a token, or a chunk of some, becomes: terms, how many of them are words (then come extras), weights of a query.

Of thousands of them the garbage collector looks at each no more than once, as they are nothing but plain tuples.
"""

_PLAIN, _STOP = (1.0,), (STOP_WEIGHT,)
"""Weights of most chunks, shared by them."""


class Analyser:
    """Terms of texts in one language. Holds no text; may be shared by all indexes of that language."""

    def __init__(self, language: bytes = DEFAULT) -> None:
        self.language = language
        self._stem = stemmer_of(language)
        self._stops = STOPS.get(name_of(language), frozenset())
        self._entries: dict[str, Entry] = {}
        self._earlier: dict[str, Entry] = {}
        self._oldest: dict[str, Entry] = {}
        """What is being forgotten, a little at a time."""

    def memory_bytes(self) -> int:
        """Bytes of memory that it takes, about."""
        return _REMEMBERED_BYTES * (len(self._entries) + len(self._earlier) + len(self._oldest))

    def count(self, text: bytes, counts: Counter[bytes]) -> int:
        """Add the terms of a text, or of a piece of one, to `counts`; how many words it has."""
        terms: list[bytes] = []
        length = 0
        entries = self._entries
        for chunk in segment.chunks(text):
            entry = entries.get(chunk) or self._entry(chunk)
            if entries is not self._entries:
                entries = self._entries
            terms += entry[0]
            length += entry[1]
        counts.update(terms)
        return length

    def counting(self, text: bytes, counts: Counter[bytes]) -> Generator[None, None, int]:
        """`count` in steps."""
        terms: list[bytes] = []
        length = 0
        for entry in self._entries_of(text):
            if entry is None:
                counts.update(terms)
                terms = []
                yield
            else:
                terms += entry[0]
                length += entry[1]
        counts.update(terms)
        return length

    def words(self, text: bytes) -> list[bytes]:
        """The words of a text in order, without extras."""
        found: list[bytes] = []
        for chunk in segment.chunks(text):
            entry = self._entries.get(chunk) or self._entry(chunk)
            found += entry[0][: entry[1]]
        return found

    def reading(self, text: bytes) -> Generator[None, None, list[bytes]]:
        """`words` in steps."""
        found: list[bytes] = []
        for entry in self._entries_of(text):
            if entry is None:
                yield
            else:
                found += entry[0][: entry[1]]
        return found

    def _entries_of(self, text: bytes) -> Iterator[Entry | None]:
        """What the chunks of a text become, in order, and None after every few tenths of a millisecond."""
        spent = 0
        for chunk in segment.chunks(text):
            entry = self._entries.get(chunk)
            if entry is None and len(chunk) > _REMEMBERED_CHARACTERS_MAX:
                # May have hundreds of tokens, each of which takes as long as a chunk.
                for token in segment.tokens(chunk):
                    for part in self._parts(token):
                        spent += _TOKEN_COST + min(len(token), _RUN_AT_ONCE)
                        yield part
                        if spent >= _COST_MAX:
                            spent = 0
                            yield None
                continue
            if entry is None:
                spent += _TOKEN_COST + len(chunk)
                entry = self._entry(chunk)
            yield entry
            if spent >= _COST_MAX:
                spent = 0
                yield None

    def query(self, text: bytes) -> dict[bytes, float]:
        """The terms of a query with their weights, those that it has several times with the sum."""
        steps = self.asking(text)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                weights: dict[bytes, float] = end.value
                return weights

    def asking(self, text: bytes) -> Generator[None, None, dict[bytes, float]]:
        """`query` in steps."""
        weights: dict[bytes, float] = {}
        for entry in self._entries_of(text):
            if entry is None:
                yield
                continue
            for term, weight in zip(entry[0], entry[2], strict=True):
                weights[term] = weights.get(term, 0.0) + weight
        return weights

    # -- what a chunk becomes ----------------------------------------------------------------------

    def _entry(self, chunk: str) -> Entry:
        entry = self._earlier.get(chunk) or self._taken_apart(chunk)
        if len(chunk) <= _REMEMBERED_CHARACTERS_MAX:
            if len(self._entries) >= _REMEMBERED_MAX:
                self._oldest, self._earlier, self._entries = self._earlier, self._entries, {}
            self._entries[chunk] = entry
            for _ in range(min(2, len(self._oldest))):
                self._oldest.popitem()
        return entry

    def _taken_apart(self, chunk: str) -> Entry:
        plain = chunk.strip(_AROUND).lower()
        if plain.isalpha() and plain.isascii() and (chunk.islower() or chunk.istitle()):
            # What most chunks are: one plain word. The long way below comes to the same in four times the time.
            return (_term(self._stem(plain)),), 1, _STOP if plain in self._stops else _PLAIN
        found = [part for token in segment.tokens(chunk) for part in self._parts(token)]
        return found[0] if len(found) == 1 else _joined(found)

    def _parts(self, token: str) -> Iterator[Entry]:
        """What a token becomes: one entry, or several of a long run."""
        if not segment.is_run(token):
            yield self._token(token)
            return
        run = fold(token)
        each = CHARACTER_WEIGHT if len(run) > 1 else 1.0
        for begin in range(0, len(run), _RUN_AT_ONCE):
            characters = list(run[begin : begin + _RUN_AT_ONCE])
            pairs = [run[at : at + 2] for at in range(begin, min(begin + _RUN_AT_ONCE, len(run) - 1))]
            yield _made(characters, [each] * len(characters), pairs, [1.0] * len(pairs))

    def _token(self, token: str) -> Entry:
        if _NUMBER.fullmatch(token):
            token = token.replace(",", "")
        parts = [part for joined in _JOINTS.split(token) for part in _apart(joined)]
        words: list[str] = []
        weights: list[float] = []
        extras: list[str] = []
        extra_weights: list[float] = []
        for part in parts:
            folded = fold(part)
            if not folded:  # an accent without a letter
                continue
            words.append(self._word(folded))
            weights.append(STOP_WEIGHT if folded in self._stops else 1.0)
            for inner in _inner(part):
                extras.append(self._word(inner))
                extra_weights.append(PART_WEIGHT)
        if _JOINTS.search(token) or token[-1] in "+#":
            extras.append(fold(token))
            extra_weights.append(IDENTIFIER_WEIGHT if _IDENTIFIER.search(token) else 1.0)
        return _made(words, weights, extras, extra_weights)

    def _word(self, folded: str) -> str:
        return folded if _DIGIT.search(folded) else self._stem(folded)


def _apart(word: str) -> list[str]:
    """A word at its apostrophes: an ending of the genitive goes, a contraction is one word, an elision two."""
    parts = [part for part in _APOSTROPHE.split(word) if part]
    if len(parts) > 1:
        ending = parts[-1].lower()
        if ending == "s":
            parts.pop()
        elif ending in _CONTRACTED:
            parts[-2:] = [parts[-2] + parts[-1]]
    return parts


def _inner(part: str) -> list[str]:
    """The parts of a word that is written as one, `user` of `getUserName`; none of one that has none or many."""
    if part.islower() and part.isalpha():
        return []
    plain = wide_as_plain(part)
    found = [inner.lower() for inner in _INNER.findall(plain)] if plain.isascii() else []
    return found if 1 < len(found) <= _INNER_MAX else []


def _joined(found: list[Entry]) -> Entry:
    """Several tokens as one entry: first the words of all of them."""
    words = [pair for entry in found for pair in list(zip(entry[0], entry[2], strict=True))[: entry[1]]]
    extras = [pair for entry in found for pair in list(zip(entry[0], entry[2], strict=True))[entry[1] :]]
    pairs = words + extras
    return tuple([term for term, _ in pairs]), len(words), tuple([weight for _, weight in pairs])


def _made(words: list[str], weights: list[float], extras: list[str], extra_weights: list[float]) -> Entry:
    terms = tuple([_term(text) for text in (*words, *extras)])
    return terms, len(words), (*weights, *extra_weights)


def _term(text: str) -> bytes:
    term = text.encode("utf-8", "replace")
    return term if len(term) <= _TERM_BYTES_MAX else hashlib.blake2b(term, digest_size=16).digest()
