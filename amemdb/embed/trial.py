"""An embedder for tests, demonstrations and first steps: no model, no download, the same vectors everywhere.

`callable:amemdb.embed.trial:words`. Each word and each three letters of one add to components that their hash chooses,
so texts with words in common are near each other. It knows nothing of meaning: "car" and "automobile" are strangers.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

DIM = 256
WORD_WEIGHT = 2.0
"""Of a whole word, beside 1 for each three letters of it."""

_WORD = re.compile(r"\w+")


def words(texts: list[str]) -> NDArray[np.float32]:
    """A vector of length 1 for each text; of one without a word, its first component is 1."""
    vectors = np.zeros((len(texts), DIM), np.float32)
    for row, text in enumerate(texts):
        for word in _WORD.findall(text.casefold()):
            _add(vectors[row], word, WORD_WEIGHT)
            framed = f"<{word}>"
            for start in range(len(framed) - 2):
                _add(vectors[row], framed[start : start + 3], 1.0)
        length = float(np.linalg.norm(vectors[row]))
        if length:
            vectors[row] /= length
        else:
            vectors[row, 0] = 1.0
    return vectors


def _add(vector: NDArray[np.float32], part: str, weight: float) -> None:
    place = int.from_bytes(blake2b(part.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "little")
    vector[place % DIM] += weight if place & 0x8000_0000 else -weight
