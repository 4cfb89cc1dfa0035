"""What an embedder is: texts in, one float32 vector a text out, or an error that names the embedder and the cause.

Every kind (`endpoint`, `local`, `function`) gives its raw answer to the check here, which lets through only an answer
of the right count, in which each vector has the same number of finite components as all that were made before. An
answer that is not so is an error: a wrong vector would be found again, and believed, for as long as its fact lives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from itertools import islice
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amemdb.errors import printable
from amemdb.limits import DIMENSION_MAX

Vectors = NDArray[np.float32]
"""One row a text, C-contiguous little-endian float32."""

CAUSE_BYTES_MAX = 300
_NUMBERS = "fiu"
"""Kinds of numpy types that are real numbers."""


class EmbedError(Exception):
    """No vector could be made. The text names the embedder and the cause, in one line of printable text.

    `texts_at_fault`: it may be one text of several that was refused, so that the others may do without it.
    """

    def __init__(self, name: str, cause: str, texts_at_fault: bool = False) -> None:
        shown = printable(" ".join(cause.split()).encode("utf-8", "replace"), CAUSE_BYTES_MAX)
        super().__init__(f"embedder '{printable(name.encode('utf-8', 'replace'))}': {shown}")
        self.cause = shown
        self.texts_at_fault = texts_at_fault


class Embedder(ABC):
    """One model that makes vectors. `embed` may be called from as many threads at a time as `parallel` says."""

    parallel = 1
    """Calls of `embed` that may be under way at a time."""
    collect_s = 0.0
    """How long a first text may wait for others, so that they go together; little beside what a call takes."""

    def __init__(self, name: str) -> None:
        self.name = name
        """The model, as it is kept with what it made: vectors of one name can be compared."""
        self.dim: int | None = None
        """Components of its vectors; None until the first are there."""
        self._lock = Lock()

    def prepare(self) -> None:  # noqa: B027  (most have nothing to do)
        """Do what takes long once, such as loading. Raises `EmbedError`; `embed` tries again then."""

    def embed(self, texts: list[str]) -> Vectors:
        """One vector a text, in their order: shape `(len(texts), dim)`. Raises `EmbedError`."""
        if not texts:
            return np.empty((0, self.dim or 0), np.float32)
        vectors = self._matrix(self._answer(texts), len(texts))
        self._require_dim(vectors.shape[1])
        return vectors

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Let go of connections, and of calls that wait to be tried again."""

    @abstractmethod
    def _answer(self, texts: list[str]) -> Any:
        """What the model gave: an array or rows of numbers, unchecked. Raises `EmbedError`."""

    def _failed(self, cause: str, texts_at_fault: bool = False) -> EmbedError:
        return EmbedError(self.name, cause, texts_at_fault)

    def _matrix(self, answer: Any, count: int) -> Vectors:
        """The answer as float32, if it is what was asked for."""
        if isinstance(answer, np.ndarray) and answer.ndim != 2:
            raise self._failed(f"expected an array of {count} rows, got one of shape {answer.shape}")
        if not isinstance(answer, Iterable):
            raise self._failed(f"expected {count} vectors, got {type(answer).__name__}")
        # One by one, so that other threads get their turn in between; and of an answer without end one too many.
        rows = [self._row(place, row) for place, row in enumerate(islice(answer, count + 1))]
        if len(rows) != count:
            raise self._failed(f"expected {count} vectors, got {'more' if len(rows) > count else len(rows)}")
        odd = next((row for row in rows if len(row) != len(rows[0])), None)
        if odd is not None:
            raise self._failed(f"vectors of one answer differ: {len(rows[0])} and {len(odd)} components")
        if not 0 < len(rows[0]) <= DIMENSION_MAX:
            raise self._failed(f"expected 1 to {DIMENSION_MAX} components, got {len(rows[0])}")
        return np.stack(rows)

    def _row(self, place: int, row: Any) -> NDArray[np.float32]:
        try:
            values = np.asarray(row)
        except (ValueError, TypeError, RuntimeError) as error:  # what numpy and tensors raise
            raise self._failed(f"vector {place + 1} is not a row of numbers: {error}") from None
        if values.ndim != 1 or (values.dtype.kind not in _NUMBERS and values.size):
            raise self._failed(f"vector {place + 1} is not a row of numbers")
        with np.errstate(over="ignore", invalid="ignore"):
            vector = np.ascontiguousarray(values, "<f4")
        if not np.isfinite(vector).all():
            raise self._failed(f"vector {place + 1} has a component that is not finite as float32")
        return vector

    def _require_dim(self, dim: int) -> None:
        with self._lock:
            if self.dim is None:
                self.dim = dim
            elif dim != self.dim:
                raise self._failed(f"made vectors of {self.dim} components before, and now of {dim}")
