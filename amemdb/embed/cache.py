"""Vectors of texts that were embedded before, by a hash of the text: the least lately used go when bytes run out.

The text itself is not kept, so what it takes depends on the dimension alone. A cache serves one model. It may be used
from several threads.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from threading import Lock

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16
"""Two of a billion texts have the same key with a chance of one in 10^20."""
ENTRY_BYTES = 320
"""What an entry takes beyond its components, about: key, array, and its place in the order."""

Vector = NDArray[np.float32]


def key_of(text: str) -> bytes:
    """What a text is found by. A lone surrogate, which no UTF-8 has, is a character like others here."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


class Cache:
    """Vectors by key, within `bytes_max`; with 0 it keeps nothing."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._bytes = 0
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def used_bytes(self) -> int:
        """Bytes that the vectors take, about."""
        return self._bytes

    def get(self, key: bytes) -> Vector | None:
        """The vector under `key`, which counts as used now. It is not to be written to."""
        with self._lock:
            vector = self._vectors.get(key)
            if vector is not None:
                self._vectors.move_to_end(key)
            return vector

    def put(self, key: bytes, vector: Vector) -> None:
        """Keep a vector, and let the least lately used go."""
        size = vector.nbytes + ENTRY_BYTES
        if size > self.bytes_max:
            return
        kept = vector.copy()  # a row of a matrix would keep the whole of it
        kept.flags.writeable = False
        with self._lock:
            if key not in self._vectors:
                self._bytes += size
            self._vectors[key] = kept
            self._vectors.move_to_end(key)
            while self._bytes > self.bytes_max:
                _, gone = self._vectors.popitem(last=False)
                self._bytes -= gone.nbytes + ENTRY_BYTES
