"""Vectors for the demo: which words a text has, and nothing of what they mean.

A real agent gets its vectors from an embedding model. This stand-in needs none, gives the same vector every time, and
finds texts that share words with the question.
"""

from __future__ import annotations

import re
from zlib import crc32

import numpy as np
import numpy.typing as npt

DIMENSIONS = 256
_STOP = {"a", "an", "be", "can", "how", "i", "is", "my", "no", "of", "on", "the", "to", "until", "when", "within"}


def vector(text: str) -> npt.NDArray[np.float32]:
    """The words of `text`, plural or not, counted into `DIMENSIONS` places, at length 1."""
    counts = np.zeros(DIMENSIONS, dtype=np.float32)
    for word in re.findall(r"[a-z0-9]+", text.lower()):
        if word not in _STOP:
            counts[crc32(word.rstrip("s").encode()) % DIMENSIONS] += 1
    assert counts.any(), f"no word to go by in {text!r}"
    return counts / np.float32(np.linalg.norm(counts))
