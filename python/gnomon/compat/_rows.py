"""Vectors as frameworks keep them, one Python list an entry, as one matrix ready to search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import as_count, as_float32
from ..dense_index import DenseIndex
from ..results import Hits

# Below so many numbers one query takes longer to share among threads than to answer.
_SHARED_FROM = 1 << 24


@dataclass(frozen=True)
class Rows:
    """Keys in order of insertion, their vectors as float32 [N, D], and the index over these."""

    keys: list[Any]
    vectors: npt.NDArray[np.float32]
    index: DenseIndex

    @classmethod
    def of(cls, keys: list[Any], vectors: Sequence[Any], metric: str = "cosine") -> Rows:
        """Takes one vector a key; ValueError when they have several lengths, NaN or infinity."""
        matrix = stacked(vectors)
        return cls(keys, matrix, DenseIndex.build(matrix, metric=metric, copy=False))

    def search(self, query: Any, k: int, allowed: npt.NDArray[np.bool_] | None = None) -> Hits:
        """The best k places for one query [D]; only those that ``allowed`` [N] has True."""
        best = min(as_count(k, "k"), len(self.keys))
        threads = 1 if self.vectors.size < _SHARED_FROM else None
        found: Hits = self.index.search(query, best, filter=allowed, threads=threads)
        return found


def stacked(vectors: Sequence[Any]) -> npt.NDArray[np.float32]:
    """One float32 matrix of its own memory, without a float64 one on the way.

    >>> stacked([[1.0, 2.0], [3.0, 4.0]]).shape
    (2, 2)
    """
    if len(vectors) > 0 and isinstance(vectors[0], np.ndarray) and vectors[0].ndim == 1:
        matrix = np.empty((len(vectors), vectors[0].size), np.float32)
        for place, vector in enumerate(vectors):
            row = as_float32(vector, f"vectors[{place}]")
            if row.shape != matrix[0].shape:
                raise ValueError(
                    f"vectors[{place}] has shape {list(row.shape)}, the first one "
                    f"{list(matrix[0].shape)}; all must have one length"
                )
            matrix[place] = row
        return matrix
    return as_float32(list(vectors), "vectors")
