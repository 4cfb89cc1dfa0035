"""The server's embedder: calls run in threads of their own, their ends come back to the event loop.

What a command waits for ends at `embedder-timeout`, counted from when the command came, whatever the model does. An
embedder that fails is told to the client that asked and in INFO, and in the log when it begins to fail and when it goes
well again, not each time. Texts and keys are never logged.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import NoReturn

from amemdb.config import Config
from amemdb.embed.embedder import EmbedError, Vectors
from amemdb.embed.service import Service
from amemdb.embed.spec import embedder_of
from amemdb.errors import CommandError

_log = logging.getLogger("amemdb")

Tell = Callable[[bytes | CommandError], None]


def service_of(config: Config) -> Service | None:
    """The service of the embedder that the settings choose, if they choose one. Raises `EmbedError`."""
    spec = config.get("embedder")
    if not spec:
        return None
    timeout_s = config.get("embedder-timeout")
    embedder = embedder_of(spec, os.environ, config.get("embedder-key-file"), timeout_s)
    return Service(embedder, config.get("embedder-batch"), config.get("embedder-cache"), timeout_s)


class ServerEmbedder:
    """Implements `amemdb.commands.context.Embedder` on an event loop."""

    def __init__(
        self,
        service: Service,
        loop: asyncio.AbstractEventLoop,
        timeout_s: float,
        bug: Callable[[BaseException, list[bytes] | None], NoReturn],
    ) -> None:
        self.model = service.embedder.name.encode("utf-8", "surrogateescape")
        self._service = service
        self._loop = loop
        self._timeout_s = timeout_s
        self._bug = bug
        self._timeouts = 0
        self._failing = False

    @property
    def dim(self) -> int:
        """Components of its vectors; 0 until the first are there."""
        return self._service.embedder.dim or 0

    def close(self) -> None:
        """Wait for nothing more."""
        self._service.close()

    def begin(self, text: str, tell: Tell) -> None:
        """Have `tell` called once, on the loop; at once if the vector is in the cache."""
        future = self._service.submit([text])
        if future.done():
            tell(self._result(future))
            return
        ask = _Ask(tell)
        timer = self._loop.call_later(self._timeout_s, self._expire, ask, future)
        future.add_done_callback(lambda future: self._come_back(ask, timer, future))

    def lines(self) -> list[tuple[str, object]]:
        """What INFO tells."""
        service, counts = self._service, self._service.counts
        return [
            ("model", self.model.decode("utf-8", "replace")),
            ("dim", self.dim),
            ("requests", counts.requests),
            ("texts", counts.texts),
            ("waiting", service.waiting),
            ("cache_hits", counts.cache_hits),
            ("cache_bytes", service.cache_bytes),
            ("failures", counts.failures),
            ("timeouts", self._timeouts),
            ("ms_per_request", f"{counts.spent_ns / 1e6 / max(1, counts.requests):.2f}"),
            ("ms_max", f"{counts.longest_ns / 1e6:.2f}"),
            ("last_error", counts.last_error),
        ]

    def reset(self) -> None:
        """Count from zero."""
        self._timeouts = 0
        self._service.reset()

    # -- ends --------------------------------------------------------------------------------------

    def _come_back(self, ask: _Ask, timer: asyncio.TimerHandle, future: Future[Vectors]) -> None:
        """In the thread that ended the call: the rest is the loop's, if it still runs."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, ask, timer, future)

    def _end(self, ask: _Ask, timer: asyncio.TimerHandle, future: Future[Vectors]) -> None:
        timer.cancel()
        if not future.cancelled():
            ask.answer(self._result(future))

    def _expire(self, ask: _Ask, future: Future[Vectors]) -> None:
        future.cancel()
        self._timeouts += 1
        name = self._service.embedder.name
        error = EmbedError(name, f"no answer within {self._timeout_s:g} s, see embedder-timeout")
        self._tell_failing(error)
        ask.answer(CommandError(str(error)))

    def _result(self, future: Future[Vectors]) -> bytes | CommandError:
        try:
            vector = future.result().tobytes()
        except EmbedError as error:
            self._tell_failing(error)
            return CommandError(str(error))
        except BaseException as error:
            self._bug(error, None)
        if self._failing:
            self._failing = False
            _log.info("the embedder answers again")
        return vector

    def _tell_failing(self, error: EmbedError) -> None:
        if not self._failing:
            self._failing = True
            _log.warning("%s", error)


class _Ask:
    """Who waits for one vector: told once."""

    __slots__ = ("_tell",)

    def __init__(self, tell: Tell) -> None:
        self._tell: Tell | None = tell

    def answer(self, result: bytes | CommandError) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(result)
