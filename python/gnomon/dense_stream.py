"""Exact top-k over vectors that need not fit in memory: one pass, block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import _core
from ._dense_build import checked, opened, require_whole, rows_at_once
from .arrays import as_count, as_float32, as_threads
from .dense import TopK

_BUDGET = 256 << 20
_SCREENED = 24  # queries from which coding a block for one use pays


def stream_topk(
    queries: Any,
    vectors: Any,
    k: int,
    *,
    metric: str = "cosine",
    on_zero: str = "zero",
    memory_budget: int = _BUDGET,
    progress: Callable[[int, int], None] | None = None,
    threads: int | None = None,
    level: str | None = None,
) -> TopK:
    """The k best rows of `vectors` for each query, with memory for a block of rows at a time.

    The answer is that of :class:`DenseIndex` over all rows, bit for bit. Reading goes from the
    first row to the last, so a mapped file is read at the disk's speed.

    Parameters
    ----------
    queries
        [D] or [Q, D].
    vectors
        [N, D]: the path of an .npy file, which is mapped, or anything that slices by rows into
        arrays (``numpy.memmap``, an HDF5 data set). Any real dtype.
    k
        How many rows; more than N gives N.
    metric, on_zero
        As for :meth:`DenseIndex.build`.
    memory_budget
        In bytes, for the block and what is made of it (256 MiB). At least one row is taken.
    progress
        Called with rows done and rows in all after each block; an exception from it ends the
        search.
    threads, level
        How to compute; the answer does not depend on them.

    Returns
    -------
    TopK
        ``values`` float64 and ``indices`` int64, [k'] or [Q, k'] with k' = min(k, N).

    Raises
    ------
    ValueError
        Shapes that do not fit, and NaN or infinity, naming the row of the whole; a mapped file that
        has become shorter. (In the moment between that look and the reading of a block, whoever
        cuts a mapped file off ends the process by SIGBUS: replace files, do not write into them.)

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> found = gnomon.stream_topk([1.0, 0.0], np.array([[0.0, 2.0], [3.0, 0.0]]), k=1)
    >>> found.indices, found.values
    (array([1]), array([1.]))
    """
    rows = opened(vectors)
    wanted = as_float32(queries, "queries")
    n, dim = rows.shape
    if wanted.ndim not in (1, 2) or wanted.shape[-1] != dim:
        raise ValueError(
            f"queries must be [D] or [Q, D] with D = {dim}, got shape {list(wanted.shape)}"
        )
    batch = np.atleast_2d(wanted)
    best = min(as_count(k, "k"), n)
    budget = as_count(memory_budget, "memory_budget", 1)
    block = rows_at_once(budget, dim)
    indices = np.empty((len(batch), 0), np.int64)
    values = np.empty((len(batch), 0), np.float64)
    for first in range(0, n, block) or (0,):
        require_whole(rows)
        part = as_float32(rows[first : first + block], "vectors")
        found = _block(part, first, batch, best, metric, on_zero, as_threads(threads), level or "")
        # The rows so far come first: a stable order keeps the lower row ahead of an equal score.
        indices = np.concatenate([indices, found.indices], axis=1)
        values = np.concatenate([values, found.values], axis=1)
        order = np.argsort(-values, axis=1, kind="stable")[:, :best]
        indices = np.take_along_axis(indices, order, axis=1)
        values = np.take_along_axis(values, order, axis=1)
        if progress is not None:
            progress(min(n, first + block), n)
    return TopK(values[0], indices[0]) if wanted.ndim == 1 else TopK(values, indices)


def _block(
    part: Any,
    first: int,
    batch: Any,
    k: int,
    metric: str,
    on_zero: str,
    threads: int,
    level: str,
) -> TopK:
    rows_here = checked(part, first, metric, on_zero)
    screen = "int8" if len(batch) >= _SCREENED and 0 < part.shape[1] <= 66000 else "none"
    core = _core.DenseIndex(rows_here, metric, on_zero, screen, threads, level)
    k = min(k, len(part))
    rows, scores, _, _ = core.search(batch, k, on_zero, "auto", threads, level)
    shape = (len(batch), k)
    return TopK(scores.reshape(shape), rows.reshape(shape) + first)
