"""What hnswlib 0.8 writes into the file of a graph, as far as we look into it: vectors, labels, marks, neighbours.

    96 bytes  offset of level 0, capacity, count, bytes of a place, offset of its label, of its vector (8 bytes each);
              highest level, entry point (4 each); neighbours on upper levels, on level 0, M (8 each); multiplier
              (a double), EF_CONSTRUCTION (8)
    count times a place: number of neighbours (2), mark (1), unused (1), neighbours (4 each), vector (4 * dim),
              label (8)
    count times: bytes of the links on upper levels (4), and these

A file of anything else is refused before hnswlib sees it; it checks little. Whether its bytes are those that were
written is the affair of who keeps it (`amemdb.persistence.graph_files`).

A mark stays in the file, and so would the vector of a fact that was forgotten. `without_marked` puts the vector of one
of its neighbours there: who walks over the place goes on in about the same direction, and nothing of the fact is left.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_HEADER = struct.Struct("<6QiI3QdQ")
_MARK_AT = 2
_LINKS_AT = 4
_STEPS_MAX = 64
"""How far it is looked for a neighbour that is not marked."""


class Layout:
    """The places of a graph in the content of a file, as arrays over it."""

    __slots__ = ("_links_max", "_places", "build_width", "capacity", "count", "dim", "links")

    def __init__(self, content: Bytes, dim: int) -> None:
        """`content` is the whole file; changes go there. `ValueError` if it is no graph of this dimension."""
        if len(content) < _HEADER.size:
            raise ValueError("it is too short")
        fields = _HEADER.unpack(content[: _HEADER.size].tobytes())
        level0, capacity, count, place, label, vector, top, entry, upper, lowest, links, _, width = fields
        links_bytes = _LINKS_AT + 4 * lowest
        expected = (0, links_bytes + 4 * dim + 8, links_bytes + 4 * dim, links_bytes)
        if (level0, place, label, vector) != expected or upper != links or lowest != 2 * links:
            raise ValueError(f"it holds no graph of {dim} dimensions")
        if not 0 < count <= capacity or entry >= count or top < 0:
            raise ValueError("it is not whole")
        end = _HEADER.size + count * place
        if len(content) < end + 4 * count:
            raise ValueError("it is not whole")
        self._places: Bytes = content[_HEADER.size : end].reshape(count, place)
        self._links_max = lowest
        self.dim = dim
        self.capacity = int(capacity)
        self.count = int(count)
        self.links = int(links)
        self.build_width = int(width)

    def labels(self) -> NDArray[np.int64]:
        """Label of each place. A copy."""
        places: Bytes = np.ascontiguousarray(self._places[:, -8:])
        return places.view("<i8").reshape(-1).astype(np.int64)

    def marked(self) -> NDArray[np.bool_]:
        """Which places are marked. A copy."""
        marks: NDArray[np.bool_] = (self._places[:, _MARK_AT] & 1) != 0
        return marks

    def vectors(self, first: int, last: int) -> NDArray[np.float32]:
        """The vectors of some places. A copy."""
        places: Bytes = np.ascontiguousarray(self._places[first:last, -8 - 4 * self.dim : -8])
        return places.view("<f4").astype(np.float32)

    def without_marked(self) -> None:
        """Put the vector of an unmarked neighbour, or zeros, where the vector of a marked place is."""
        marked = self.marked()
        for place in np.flatnonzero(marked).tolist():
            other = self._unmarked_near(place, marked)
            vector = self._places[place, -8 - 4 * self.dim : -8]
            vector[:] = 0 if other is None else self._places[other, -8 - 4 * self.dim : -8]

    def _unmarked_near(self, place: int, marked: NDArray[np.bool_]) -> int | None:
        seen = {place}
        waiting = [place]
        for near in waiting:
            for other in self._neighbours(near):
                if not marked[other]:
                    return other
                if other not in seen and len(seen) < _STEPS_MAX:
                    seen.add(other)
                    waiting.append(other)
        return None

    def _neighbours(self, place: int) -> list[int]:
        row = self._places[place]
        count = min(int(row[0]) | int(row[1]) << 8, self._links_max)
        found: list[int] = row[_LINKS_AT : _LINKS_AT + 4 * count].view("<u4").tolist()
        return [other for other in found if other < self.count]
