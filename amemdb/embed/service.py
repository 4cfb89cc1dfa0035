"""Serves many who ask one embedder: batches, a cache, a bounded queue, and futures to wait for.

Whoever asks gets a `concurrent.futures.Future` (`asyncio.wrap_future` makes it one to await). What is in the cache is
answered at once. The rest waits for one of the embedder's threads; that takes what waits, up to a batch, so texts that
come while a call is under way go together in the next. Equal texts of a batch are embedded once.

Whoever stops waiting cancels the future: what nobody waits for is not embedded. A batch that was refused for what may
be one of its texts is tried again in halves, so that one text that a model cannot take is the failure of whoever
sent it, and of no one else.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Condition, Event, Lock, Thread

import numpy as np

from amemdb.embed.cache import Cache, Vector, key_of
from amemdb.embed.embedder import Embedder, EmbedError, Vectors

WAITING_TEXTS_MAX = 10_000
WAITING_CHARACTERS_MAX = 64 * 1024 * 1024
BATCH_CHARACTERS_MAX = 1024 * 1024
"""Of the texts of one call, unless a single one is longer."""
CLOSE_S_MAX = 0.5
"""How long a call that is under way may hold up `close`."""


@dataclass(frozen=True)
class Counts:
    """What a service has done since it began, or since `reset`."""

    requests: int = 0
    """Calls of the embedder."""
    texts: int = 0
    """Texts in them."""
    cache_hits: int = 0
    failures: int = 0
    """Calls that failed."""
    spent_ns: int = 0
    """Time spent in calls."""
    longest_ns: int = 0
    last_error: str = ""


class _Ask:
    """What one caller waits for."""

    __slots__ = ("_lock", "_missing", "_rows", "future")

    def __init__(self, rows: list[Vector | None]) -> None:
        self._lock = Lock()
        self._rows = rows
        self._missing = sum(row is None for row in rows)
        self.future: Future[Vectors] = Future()

    def deliver(self, place: int, row: Vector) -> None:
        """Take one of what is missing; they may come from several threads."""
        with self._lock:
            self._rows[place] = row
            self._missing -= 1
            last = self._missing == 0
        if last:
            self.finish()

    def finish(self) -> None:
        """Answer: nothing is missing."""
        with suppress(InvalidStateError):  # the caller has stopped waiting
            self.future.set_result(np.stack([row for row in self._rows if row is not None]))

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


@dataclass(slots=True)
class _Text:
    """One text that waits, and whose it is."""

    text: str
    key: bytes
    ask: _Ask
    place: int
    at_ns: int

    @property
    def size(self) -> int:
        return len(self.text)


class Service:
    """One embedder, its threads, queue and cache. Methods may be called on any thread."""

    def __init__(
        self,
        embedder: Embedder,
        batch_max: int = 64,
        cache_bytes: int = 0,
        split_s_max: float = 10.0,
        timer_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`batch_max` texts go in one call; `split_s_max` is how long one batch may be tried again in parts."""
        self.embedder = embedder
        self.counts = Counts()
        self._batch_max = batch_max
        self._cache = Cache(cache_bytes)
        self._split_ns_max = int(split_s_max * 1e9)
        self._timer_ns = timer_ns
        self._changed = Condition()
        self._waiting: deque[_Text] = deque()
        self._waiting_characters = 0
        self._threads: list[Thread] = []
        self._prepared = Event()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Texts that wait for a thread."""
        return len(self._waiting)

    @property
    def cache_bytes(self) -> int:
        """What the cache takes, about."""
        return self._cache.used_bytes

    def reset(self) -> None:
        """Count from zero."""
        with self._changed:
            self.counts = Counts()

    def start(self) -> None:
        """Begin to load the model, if it is one that is loaded."""
        with self._changed:
            self._begin()

    def wait_prepared(self, timeout_s: float) -> bool:
        """Whether the model is loaded, or has failed to, waiting for so long at most."""
        self.start()
        return self._prepared.wait(timeout_s)

    def submit(self, texts: Sequence[str]) -> Future[Vectors]:
        """The vectors of `texts`, once they are there. Fails with `EmbedError`."""
        keys = [key_of(text) for text in texts]
        rows = [self._cache.get(key) for key in keys]
        ask = _Ask(rows)
        now_ns = self._timer_ns()
        missing = [
            _Text(texts[place], keys[place], ask, place, now_ns) for place, row in enumerate(rows) if row is None
        ]
        size = sum(text.size for text in missing)
        with self._changed:
            self.counts = replace(self.counts, cache_hits=self.counts.cache_hits + len(rows) - len(missing))
            if self._closed:
                ask.fail(self._error("is closed"))
            elif not rows:
                ask.future.set_result(np.empty((0, self.embedder.dim or 0), np.float32))
            elif not missing:
                ask.finish()
            elif self._is_too_much(len(missing), size):
                ask.fail(self._error(f"too much waits for it already: {len(self._waiting)} texts"))
            else:
                self._waiting += missing
                self._waiting_characters += size
                self._begin()
                self._changed.notify()
        return ask.future

    def embed(self, texts: Sequence[str], timeout_s: float | None = None) -> Vectors:
        """The same, waited for. Raises `EmbedError`, also when it takes longer than `timeout_s`."""
        future = self.submit(texts)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise self._error(f"no answer within {timeout_s:g} s") from None

    def close(self) -> None:
        """Fail what waits, and let go of the embedder. A call that is under way is not waited for long."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, deque()
            self._waiting_characters = 0
            self._changed.notify_all()
        for text in waiting:
            text.ask.fail(self._error("is closed"))
        self.embedder.close()
        end_s = time.monotonic() + CLOSE_S_MAX
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))

    def _is_too_much(self, count: int, size: int) -> bool:
        """Whether there is no room for so much more, also when what nobody waits for any more has left the queue."""
        for again in (True, False):
            too_many = len(self._waiting) + count > WAITING_TEXTS_MAX
            too_long = bool(self._waiting) and self._waiting_characters + size > WAITING_CHARACTERS_MAX
            if again and (too_many or too_long):
                self._waiting = deque(text for text in self._waiting if not text.ask.future.done())
                self._waiting_characters = sum(text.size for text in self._waiting)
        return too_many or too_long

    def _error(self, cause: str) -> EmbedError:
        return EmbedError(self.embedder.name, cause)

    def _begin(self) -> None:
        """Start the threads. They do not keep a process alive: a function that never returns must not."""
        if not self._threads and not self._closed:
            for number in range(self.embedder.parallel):
                self._threads.append(Thread(target=self._serve, name=f"embed-{number}", daemon=True))
                self._threads[-1].start()

    # -- in the threads --------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self.embedder.prepare()
        except EmbedError as error:  # told to whoever asks: it is tried again then
            self._count_failure(error)
        finally:
            self._prepared.set()
        while batch := self._take():
            try:
                self._answer(batch)
            except BaseException as error:  # a bug of ours: whoever waits has to hear of it, and knows what to do
                for text in batch:
                    text.ask.fail(error)

    def _take(self) -> list[_Text]:
        """The next batch; none when all is over."""
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return []
                self._collect()
                batch: list[_Text] = []
                size = 0
                while self._waiting and len(batch) < self._batch_max:
                    if batch and size + self._waiting[0].size > BATCH_CHARACTERS_MAX:
                        break
                    text = self._waiting.popleft()
                    self._waiting_characters -= text.size
                    if not text.ask.future.done():  # else its caller waits no more
                        batch.append(text)
                        size += text.size
            if batch:
                return batch

    def _collect(self) -> None:
        """Wait a moment for more, if that is worth it."""
        if not self.embedder.collect_s:
            return
        end_ns = self._waiting[0].at_ns + int(self.embedder.collect_s * 1e9)
        while 0 < len(self._waiting) < self._batch_max and not self._closed:
            left_ns = end_ns - self._timer_ns()
            if left_ns <= 0:
                break
            self._changed.wait(left_ns / 1e9)

    def _answer(self, batch: list[_Text]) -> None:
        texts = {text.key: text.text for text in batch}
        answers = self._rows(texts, self._timer_ns() + self._split_ns_max)
        for key, row in answers.items():
            if not isinstance(row, EmbedError):
                self._cache.put(key, row)
        for text in batch:
            row = answers[text.key]
            if isinstance(row, EmbedError):
                text.ask.fail(row)
            else:
                text.ask.deliver(text.place, row)

    def _rows(self, texts: dict[bytes, str], end_ns: int) -> dict[bytes, Vector | EmbedError]:
        """Each text's vector, or why there is none."""
        started_ns = self._timer_ns()
        error: EmbedError | None = None
        try:
            vectors = self.embedder.embed(list(texts.values()))
        except EmbedError as failure:
            error = failure
        self._count_call(len(texts), self._timer_ns() - started_ns, error)
        if error is None:
            return dict(zip(texts, vectors, strict=True))
        if len(texts) == 1 or not error.texts_at_fault or self._timer_ns() >= end_ns:
            return dict.fromkeys(texts, error)
        items = list(texts.items())
        half = len(items) // 2
        return {**self._rows(dict(items[:half]), end_ns), **self._rows(dict(items[half:]), end_ns)}

    def _count_call(self, texts: int, spent_ns: int, error: EmbedError | None) -> None:
        with self._changed:
            counts = self.counts
            self.counts = replace(
                counts,
                requests=counts.requests + 1,
                texts=counts.texts + texts,
                spent_ns=counts.spent_ns + spent_ns,
                longest_ns=max(counts.longest_ns, spent_ns),
            )
        if error is not None:
            self._count_failure(error)

    def _count_failure(self, error: EmbedError) -> None:
        with self._changed:
            self.counts = replace(self.counts, failures=self.counts.failures + 1, last_error=str(error))
