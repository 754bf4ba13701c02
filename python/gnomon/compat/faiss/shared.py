"""What the modules of gnomon.compat.faiss share: metrics, conversion, threads, the original."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ...arrays import as_count, as_float32

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Array = TypeVar("Array", bound=npt.NDArray[Any])

METRIC_INNER_PRODUCT, METRIC_L2 = 0, 1
METRICS = {METRIC_INNER_PRODUCT: "ip", METRIC_L2: "l2"}
FLOAT_MAX = float(np.finfo(np.float32).max)  # faiss' distance where there is no neighbour
_BLOCK = 1 << 24  # numbers looked at at once

_threads: int | None = None


def omp_set_num_threads(num_threads: int) -> None:
    """How many threads searches of this module may use; no answer depends on it.

    >>> omp_set_num_threads(1)
    >>> omp_get_max_threads()
    1
    """
    global _threads
    _threads = as_count(num_threads, "num_threads", 1)


def omp_get_max_threads() -> int:
    """How many threads searches may use."""
    from ... import _core

    return _core.thread_count(_threads or 0)


def threads() -> int | None:
    """What :func:`omp_set_num_threads` said; None for the default."""
    return _threads


def matrix(value: Any, d: int, name: str = "x") -> Float32:
    """Float32 rows [n, d]. ValueError unless two-dimensional, AssertionError for another d."""
    rows = as_float32(value, name)
    if rows.ndim != 2:
        raise ValueError(f"{name} must be a matrix [n, {d}], got shape {list(rows.shape)}")
    if rows.shape[1] != d:
        raise AssertionError(f"{name} has {rows.shape[1]} dimensions; the index has {d}")
    return rows


def finite(rows: Float32, name: str = "x") -> Float32:
    """The rows. ValueError naming the first that holds NaN or infinity."""
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        good = np.isfinite(rows[start : start + step]).all(axis=1)
        if not good.all():
            raise ValueError(
                f"{name} has NaN or infinity in row {start + int(np.argmin(good))}, which has no "
                "distance; remove or replace the row"
            )
    return rows


def distances(scores: Float64, metric: int) -> Float32:
    """The engine's scores as faiss' distances: squared ones rise from 0."""
    values = scores if metric == METRIC_INNER_PRODUCT else 0.0 - scores
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def padded(scores: Float64, ids: Int64, k: int, metric: int) -> tuple[Float32, Int64]:
    """Distances and ids [n, k]; where there are fewer than k, id -1 and the greatest float32."""
    worst = -FLOAT_MAX if metric == METRIC_INNER_PRODUCT else FLOAT_MAX
    D = np.full((len(scores), k), worst, np.float32)
    I = np.full((len(scores), k), -1, np.int64)  # noqa: E741
    D[:, : scores.shape[1]] = distances(scores, metric)
    I[:, : ids.shape[1]] = ids
    return D, I


def given(array: Any, value: Array, name: str) -> Array:
    """The value, in the caller's array where there is one."""
    if array is None:
        return value
    if array.shape != value.shape:
        raise AssertionError(f"{name} has shape {array.shape}, the result {value.shape}")
    array[:] = value
    same: Array = array
    return same


def original(name: str, why: str) -> Any:
    """The object of faiss itself of that name, with a warning that it is used."""
    try:
        import faiss
    except ImportError:
        raise ImportError(
            f"faiss.{name}: {why}, and faiss is not installed: pip install faiss-cpu"
        ) from None
    found = getattr(faiss, name)
    warnings.warn(
        f"faiss.{name}: {why}; this goes to faiss itself, with its order of ties",
        UserWarning,
        stacklevel=3,
    )
    return found
