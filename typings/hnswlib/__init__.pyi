"""What amemdb uses of hnswlib, which ships no types of its own. Signatures as in hnswlib 0.8."""

import numpy as np
from numpy.typing import NDArray

class Index:
    def __init__(self, space: str, dim: int) -> None: ...
    def init_index(
        self,
        max_elements: int,
        M: int = 16,
        ef_construction: int = 200,
        random_seed: int = 100,
        allow_replace_deleted: bool = False,
    ) -> None: ...
    def set_ef(self, ef: int) -> None: ...
    def add_items(
        self,
        data: NDArray[np.float32],
        ids: NDArray[np.int64] | None = None,
        num_threads: int = -1,
        replace_deleted: bool = False,
    ) -> None: ...
    def knn_query(
        self, data: NDArray[np.float32], k: int = 1, num_threads: int = -1
    ) -> tuple[NDArray[np.uint64], NDArray[np.float32]]: ...
    def mark_deleted(self, label: int) -> None: ...
