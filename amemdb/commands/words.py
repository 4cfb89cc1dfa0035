"""Searching texts by words, on behalf of RECALL and SEARCH: how a search of one feed goes from step to step.

First the index takes in what was written since the last search, in slices on the event loop. Then the documents are
scored, in line if they are few and in a thread if not. Then the best are read again for phrases, in slices.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from amemdb.commands.context import Context, Deferred, Sliced
from amemdb.errors import CommandError
from amemdb.index.text.bm25 import ALL, READ_AGAIN_MAX, Hit, TextFound, TextSearch
from amemdb.index.text.phrases import Phrases
from amemdb.limits import WORDS_BYTES_MAX
from amemdb.stores.feeds import Feed

INLINE_POSTINGS_MAX = 5_000
"""A search that looks at more documents and postings than this leaves the event loop."""
SPARE = 16
"""So many more than are asked for are found, for some that go meanwhile."""


def check_words(text: bytes, argument: str) -> None:
    """Refuse a query of words that is longer than any that says what it looks for."""
    if len(text) > WORDS_BYTES_MAX:
        raise CommandError(
            f"{argument} must be at most {WORDS_BYTES_MAX} bytes long to be searched by words, got {len(text)}"
        )


def search_words(
    feed: Feed,
    text: bytes,
    count: int,
    then: Callable[[Context, TextFound], Any],
    ctx: Context,
    filtered: bool = False,
) -> Sliced:
    """Search all that was written to the object of `feed`; `then` answers, or goes on.

    About `count` of the best will be looked at, and with `filtered` nobody knows how many. The object may be gone when
    `then` is called.
    """

    def steps() -> Generator[None, None, Any]:
        weights = yield from feed.index.analyser.asking(text)
        yield from feed.absorbing()
        search = TextSearch(feed.index, weights, ALL if filtered else max(count, READ_AGAIN_MAX))
        if search.cost <= INLINE_POSTINGS_MAX:
            return then(ctx, search.work())
        return Deferred(search.work, then)

    return Sliced(steps())


def best_texts(
    feed: Feed,
    text: bytes,
    found: TextFound,
    count: int,
    text_of: Callable[[int], bytes | None],
) -> Generator[None, None, list[Hit]]:
    """The best `count` documents, with what phrases add, of those that `text_of` has a text of, and some to spare.

    Some may be gone by the end: whoever gets them looks again, and takes the first `count`.
    """
    words = yield from feed.index.analyser.reading(text)
    phrases = Phrases(feed.index.analyser, words, found.values)
    hits: list[Hit] = yield from found.best_with_phrases(count + SPARE, phrases, text_of)
    return hits
