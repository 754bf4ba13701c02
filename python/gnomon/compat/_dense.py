"""Which of the engine's searches the drop-ins take; no answer depends on it.

A search that gets its rows with the call reads them once and keeps nothing. An index that lives on
has a plain int8 screen: the turned screen of ``"auto"`` serves single queries better, but takes
forty times as long to make, which a program that adds and searches by turns would pay again and
again.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..dense_index import DenseIndex

FEW_ROWS = 4096
_MANY_QUERIES = 2048  # more make an index worth keeping during the call

Float32 = npt.NDArray[np.float32]


def index_of(rows: Float32, metric: str) -> DenseIndex:
    """An index over the rows as they lie; they must not be written to while it lives."""
    screen = "int8" if len(rows) >= FEW_ROWS else "none"
    return DenseIndex.build(rows, metric=metric, screen=screen, copy=False)


def top_rows(
    rows: Float32, queries: Float32, metric: str, k: int, threads: int | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Ids and scores [Q, min(k, N)] of the best rows for each of [Q, D] queries.

    >>> top_rows(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), "ip", 1)[0].tolist()
    [[0], [1]]
    """
    best = min(k, len(rows))
    if len(queries) <= _MANY_QUERIES or len(rows) < FEW_ROWS:
        found: Any = _core.dense_top_k(rows, queries, metric, best, "zero", threads or 0)
        return found[0], found[1]
    index = index_of(rows, metric)
    # What serves an index that lives on, to time each way of searching, is lost on a single call.
    fast = index.screen_bytes and os.environ.get("GNOMON_LEVEL") != "scalar"
    screen = "int8" if fast and len(_core.levels()) > 1 else "auto"
    hits = index.search(queries, best, screen=screen, threads=threads)
    return hits.ids, hits.scores
