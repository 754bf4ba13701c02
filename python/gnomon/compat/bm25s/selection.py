"""The best k of a vector of scores, in a stated order."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt


def topk(
    query_scores: Any, k: int, backend: str = "auto", sorted: bool = True
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Scores and positions of the k best: score falling, then position rising, NaN last.

    ``backend`` is accepted and changes nothing; the result is always sorted. Raises ValueError for
    k < 0, more than there are scores, or a backend that bm25s does not have; ImportError, as bm25s,
    for ``"jax"`` without JAX.

    >>> topk([2.0, 2.0, 0.0, 1.0], 3)
    (array([2., 2., 1.]), array([0, 1, 3]))
    """
    check_backend(backend)
    scores = np.asarray(query_scores)
    if k < 0:
        raise ValueError(f"k must be a non-negative integer, but got {k}.")
    if k > len(scores):
        raise ValueError(f"k of {k} is larger than the number of scores, {len(scores)}")
    if k == 0:
        return scores[:0], np.zeros(0, np.int64)
    keys = -scores
    worst = np.partition(keys, k - 1)[k - 1]  # NaN sorts behind everything
    near = np.arange(len(keys)) if np.isnan(worst) else np.flatnonzero(keys <= worst)
    best = near[np.argsort(keys[near], kind="stable")[:k]]
    return scores[best], best.astype(np.int64)


def check_backend(backend: str) -> None:
    """ValueError for a name that bm25s does not have, ImportError for "jax" without JAX.

    >>> check_backend("numpy")
    """
    if backend not in ("auto", "numpy", "jax", "numba"):
        raise ValueError(f"Invalid backend {backend!r}. Please choose from 'numpy' or 'jax'.")
    if backend == "jax" and find_spec("jax") is None:
        raise ImportError("JAX is not available. Leave the backend out: the answer is the same.")
