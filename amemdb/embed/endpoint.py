"""An embedder behind HTTP: any endpoint that answers `POST <base>/embeddings` as OpenAI's does.

One call of `embed` is one request, tried again while the failure is one that passes (429, 5xx, a connection that
broke) and the time of the call is not over: waits double from `BACKOFF_S`, are varied by chance, and are as long as
`Retry-After` says where the endpoint says so. What is refused for good (a wrong key, a text that is too long) is told
at once. Redirects are not followed, as the key would go with them.

The key is asked for anew at each request, so that a file that is written again takes effect; it appears in no error
and no log line. Connections are kept open between requests, one for each call that is under way.
"""

from __future__ import annotations

import contextlib
import json
import random
import ssl
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event
from typing import Any, NamedTuple
from urllib.parse import SplitResult

from amemdb import __version__
from amemdb.embed.embedder import Embedder
from amemdb.embed.response import Unreadable, message_of, vectors_of
from amemdb.errors import printable
from amemdb.limits import DIMENSION_MAX

TRIES_MAX = 5
BACKOFF_S = 0.25
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Statuses after which another try may go well."""
TEXTS_AT_FAULT = frozenset({400, 413, 422})
REFUSED_KEY = frozenset({401, 403})
ANSWER_BYTES = 1024 * 1024
ANSWER_BYTES_PER_TEXT = 24 * DIMENSION_MAX
"""An answer is at most so long, and so much longer for each text."""
READ_BYTES = 256 * 1024
MOMENT_S = 0.001


class _Passing(Exception):
    """A failure that may pass; `after_s` is how long the endpoint asks to wait."""

    def __init__(self, cause: str, after_s: float | None = None) -> None:
        super().__init__(cause)
        self.after_s = after_s


class _Stale(Exception):
    """A connection that had been kept was closed by the other side before it answered."""


class Means(NamedTuple):
    """What a test replaces."""

    monotonic_s: Callable[[], float] = time.monotonic
    chance: random.Random = random.SystemRandom()
    wait: Callable[[float], object] | None = None


class EndpointEmbedder(Embedder):
    """The model `model` at the endpoint `base`."""

    parallel = 4
    collect_s = 0.002

    def __init__(
        self,
        name: str,
        model: str,
        base: SplitResult,
        key: Callable[[], str],
        timeout_s: float,
        means: Means | None = None,
    ) -> None:
        """`key` gives the key, or nothing for none, and may raise `EmbedError`. `timeout_s` is that of a whole call."""
        super().__init__(name)
        self._model = model
        self._base = base
        self._key = key
        self._timeout_s = timeout_s
        self._means = means or Means()
        self._closed = Event()
        self._idle: list[HTTPConnection] = []
        self._tls = ssl.create_default_context() if base.scheme == "https" else None
        self._base64 = True
        """Whether vectors are asked for in base64: a quarter of the bytes, and quickly read."""

    def close(self) -> None:
        self._closed.set()
        while self._idle:
            self._idle.pop().close()

    def _answer(self, texts: list[str]) -> Any:
        end_s = self._means.monotonic_s() + self._timeout_s
        tries = 0
        while True:
            try:
                return self._try(texts, end_s)
            except _Passing as failure:
                tries += 1
                wait_s = self._wait_s(failure, tries)
                if tries == TRIES_MAX or self._closed.is_set() or self._left_s(end_s) <= wait_s:
                    raise self._failed(f"{failure}, after {tries} tries" if tries > 1 else str(failure)) from None
                (self._means.wait or self._closed.wait)(wait_s)

    def _wait_s(self, failure: _Passing, tries: int) -> float:
        if failure.after_s is not None:
            return failure.after_s
        wait_s: float = BACKOFF_S * 2 ** (tries - 1) * self._means.chance.uniform(0.75, 1.25)
        return wait_s

    def _left_s(self, end_s: float) -> float:
        return end_s - self._means.monotonic_s()

    # -- one request -----------------------------------------------------------------------------

    def _try(self, texts: list[str], end_s: float) -> Any:
        """The vectors, or `_Passing`, or `EmbedError`."""
        try:
            response, body = self._ask(texts, end_s)
        except TimeoutError:
            raise self._failed(f"the endpoint did not answer within {self._timeout_s:g} s") from None
        except (OSError, HTTPException, UnicodeError) as error:
            # Among them: certificates, names that cannot be looked up, and answers that are no HTTP.
            raise _Passing(f"{self._base.netloc} cannot be reached: {type(error).__name__}: {error}") from None
        if response.status == 200:
            try:
                return vectors_of(body, len(texts), self._means.chance.getrandbits)
            except Unreadable as error:
                raise self._failed(str(error)) from None
        if response.status in TEXTS_AT_FAULT and self._base64 and b"encoding_format" in body:
            self._base64 = False
            return self._try(texts, end_s)
        raise self._refusal(response, body)

    def _refusal(self, response: HTTPResponse, body: bytes) -> Exception:
        status = response.status
        if status in REFUSED_KEY:  # its words may repeat the key
            return self._failed(f"the endpoint refused the key (HTTP {status})")
        if 300 <= status < 400:
            return self._failed(f"the endpoint answers with a redirect (HTTP {status}), which is not followed")
        said = message_of(body)
        key = self._key()
        cause = f"HTTP {status}: {said.replace(key, '(redacted)') if key else said}"
        if status in PASSING:
            return _Passing(printable(cause.encode("utf-8", "replace")), _seconds(response.getheader("Retry-After")))
        return self._failed(cause, status in TEXTS_AT_FAULT)

    def _ask(self, texts: list[str], end_s: float) -> tuple[HTTPResponse, bytes]:
        headers = {"Content-Type": "application/json", "User-Agent": f"amemdb/{__version__}"}
        key = self._key()
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = self._request(texts)
        bytes_max = ANSWER_BYTES + len(texts) * ANSWER_BYTES_PER_TEXT
        for kept in self._kept():
            with contextlib.suppress(_Stale):
                return self._exchange(kept, request, headers, bytes_max, end_s)
        return self._exchange(self._fresh(end_s), request, headers, bytes_max, end_s)

    def _request(self, texts: list[str]) -> bytes:
        """The body. Text by text, as other threads get their turn in between."""
        head = json.dumps({"model": self._model, **({"encoding_format": "base64"} if self._base64 else {})})
        written = b",".join([json.dumps(text).encode("ascii") for text in texts])
        return b'%b,"input":[%b]}' % (head[:-1].encode("ascii"), written)

    def _exchange(
        self, connection: HTTPConnection, request: bytes, headers: dict[str, str], bytes_max: int, end_s: float
    ) -> tuple[HTTPResponse, bytes]:
        """Send and receive. That a kept connection ends before it answers is `_Stale`: it may have ended long ago."""
        kept = connection.sock is not None
        if kept:
            connection.sock.settimeout(max(MOMENT_S, self._left_s(end_s)))
        try:
            try:
                connection.request("POST", f"{self._base.path.rstrip('/')}/embeddings", request, headers)
                response = connection.getresponse()
            except ConnectionError:
                if kept:
                    raise _Stale from None
                raise
            with response:  # which closes no more than the answer: the connection stays
                body = self._read(response, bytes_max, end_s)
        except BaseException:
            connection.close()
            raise
        if response.will_close or self._closed.is_set():
            connection.close()
        else:
            self._idle.append(connection)
        return response, body

    def _read(self, response: HTTPResponse, bytes_max: int, end_s: float) -> bytes:
        parts: list[bytes] = []
        size = 0
        while part := response.read1(READ_BYTES):
            parts.append(part)
            size += len(part)
            if size > bytes_max:
                raise self._failed(f"the answer is longer than {bytes_max} bytes")
            if self._left_s(end_s) <= 0:
                raise TimeoutError
        if response.length:
            raise HTTPException(f"the answer ended {response.length} bytes early")
        return b"".join(parts)

    # -- connections -----------------------------------------------------------------------------

    def _kept(self) -> Iterator[HTTPConnection]:
        """Connections that were kept, the one that was used last first."""
        with contextlib.suppress(IndexError):
            while True:
                yield self._idle.pop()

    def _fresh(self, end_s: float) -> HTTPConnection:
        base, left_s = self._base, max(MOMENT_S, self._left_s(end_s))
        assert base.hostname is not None
        if self._tls is not None:
            return HTTPSConnection(base.hostname, base.port, timeout=left_s, context=self._tls)
        return HTTPConnection(base.hostname, base.port, timeout=left_s)


def _seconds(text: str | None) -> float | None:
    """`Retry-After` as seconds; its other form, a date, is left to our own waits."""
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 7 else None
