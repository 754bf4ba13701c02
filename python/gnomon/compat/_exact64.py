"""Exact neighbours among float64 rows, which stay as they are: beside them lie int8 codes alone.

The compiled half and its proof are ``cpp/dense64.hpp``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ._dense import FEW_ROWS

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


class Exact64:
    """Rows [N, D] ready for exact search under ``"cosine"`` or ``"l2"``.

    The rows must stay as they are, C-contiguous. Scores are cosines, or negative squared distances;
    ``screened`` says whether codes are made, and no answer depends on it. Raises ValueError for NaN
    and infinity.

    >>> found = Exact64(np.array([[1.0, 0.0], [1.0, 1e-12]]), "l2").top([[1.0, 1e-12]], 1)
    >>> found[0].tolist()
    [[1]]
    """

    def __init__(self, rows: Float64, metric: str, screened: bool | None = None):
        self.rows, self.metric = rows, metric
        centre, exponent = np.zeros(rows.shape[1]), 0
        if metric == "l2" and len(rows):  # the codes' rows: near the origin, and within 1
            with np.errstate(over="ignore", invalid="ignore"):
                centre = rows.mean(axis=0)
                spread = float((rows.max(axis=0) - rows.min(axis=0)).max(initial=0.0))
            exponent = -int(np.frexp(spread)[1])
            if not np.isfinite(centre).all() or not np.isfinite(spread):
                centre, exponent = np.zeros(rows.shape[1]), 1 << 20  # beyond any screen
        if screened is None:
            screened = len(rows) >= FEW_ROWS
        self._core = _core.Dense64(rows, metric, centre.tolist(), exponent, screened)

    def top(self, queries: Any, k: int, threads: int | None = None) -> tuple[Int64, Float64]:
        """Ids and scores [Q, k] of the k <= N best rows: score falling, then id rising."""
        wanted = np.ascontiguousarray(queries, np.float64)
        ids, scores, _ = self._core.search(wanted, k, threads=threads or 0)
        return ids.reshape(len(wanted), k), scores.reshape(len(wanted), k)

    def within(
        self, queries: Any, least: float, threads: int | None = None
    ) -> list[tuple[Int64, Float64]]:
        """Ids (rising) and scores of all rows that score at least ``least``, for each query."""
        wanted = np.ascontiguousarray(queries, np.float64)
        ids, scores, counts = self._core.search(wanted, len(self.rows), least, threads or 0)
        ends = np.cumsum(counts)[:-1]
        orders = [np.argsort(part) for part in np.split(ids, ends)]
        parts = zip(np.split(ids, ends), np.split(scores, ends), orders, strict=True)
        return [(part[order], values[order]) for part, values, order in parts]
