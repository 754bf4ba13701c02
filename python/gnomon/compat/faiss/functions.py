"""faiss' functions around flat indexes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arrays import as_count, as_float32
from .._dense import top_rows
from . import shared
from .flat import IndexFlat, IndexFlatIP, IndexFlatL2
from .idmap import IndexIDMap, IndexIDMap2
from .shared import METRIC_INNER_PRODUCT, METRIC_L2, METRICS, Float32, Int64

_PARTS = {"Flat", "IDMap", "IDMap2"}


def knn(
    xq: Any, xb: Any, k: int, metric: int = METRIC_L2, metric_arg: float = 0.0
) -> tuple[Float32, Int64]:
    """Distances and numbers [n, k] of the rows of ``xb`` nearest each of ``xq``, without an index.

    The rows are not copied when they are float32. Another metric than ``METRIC_L2`` and
    ``METRIC_INNER_PRODUCT`` goes to faiss with a UserWarning.

    >>> import numpy as np
    >>> knn(np.array([[0, 1]]), np.array([[5, 1], [0, 0]]), 1)
    (array([[1.]], dtype=float32), array([[1]]))
    """
    if metric not in METRICS:
        why = "gnomon has METRIC_L2 and METRIC_INNER_PRODUCT"
        found: tuple[Float32, Int64] = shared.original("knn", why)(xq, xb, k, metric, metric_arg)
        return found
    rows = as_float32(xb, "xb")
    if rows.ndim != 2:
        raise ValueError(f"xb must be a matrix [n, d], got shape {list(rows.shape)}")
    queries = shared.matrix(xq, rows.shape[1], "xq")
    k = as_count(k, "k")
    ids, scores = top_rows(rows, queries, METRICS[metric], k, shared.threads())
    return shared.padded(scores, ids, k, metric)


def normalize_L2(x: npt.NDArray[np.float32]) -> None:  # noqa: N802
    """Divides each row of a float32 matrix by its length, in place; zero rows stay.

    The length is a float64, so that neither huge nor tiny rows are lost.

    >>> rows = np.array([[3, 4], [0, 0]], np.float32)
    >>> normalize_L2(rows)
    >>> rows.tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    if not isinstance(x, np.ndarray) or x.dtype != np.float32:
        raise TypeError("x must be a float32 numpy array; it is changed in place")
    if x.ndim != 2:
        raise ValueError(f"x must be a matrix [n, d], got shape {list(x.shape)}")
    step = max(1, (1 << 20) // max(1, x.shape[1]))
    for start in range(0, len(x), step):
        part = x[start : start + step].astype(np.float64)
        lengths = np.sqrt(np.square(part).sum(axis=1, keepdims=True))
        lengths[lengths == 0.0] = 1.0
        x[start : start + step] = part / lengths


def index_factory(d: int, description: str, metric: int = METRIC_L2) -> Any:
    """``"Flat"``, with ``"IDMap"`` or ``"IDMap2"`` before or after; all else comes from faiss.

    >>> type(index_factory(3, "IDMap,Flat")).__name__
    'IndexIDMap'
    """
    parts = description.replace(" ", "").split(",")
    maps = [part for part in parts if part != "Flat"]
    if not set(parts) <= _PARTS or parts.count("Flat") != 1 or len(maps) > 1:
        why = f"gnomon makes Flat, IDMap and IDMap2, not {description!r}"
        return shared.original("index_factory", why)(d, description, metric)
    flat: Any
    if metric in METRICS:
        flat = IndexFlatIP(d) if metric == METRIC_INNER_PRODUCT else IndexFlatL2(d)
    else:
        flat = IndexFlat(d, metric)
    if not maps:
        return flat
    return (IndexIDMap if maps == ["IDMap"] else IndexIDMap2)(flat)


def clone_index(index: Any) -> Any:
    """A deep copy.

    >>> clone_index(IndexFlat(3)).d
    3
    """
    return copy.deepcopy(index)


def vector_to_array(v: Any) -> Any:
    """An array of ``index.codes`` or ``index.id_map``; here they are arrays already.

    >>> vector_to_array(IndexFlat(3).codes).shape
    (0,)
    """
    return np.asarray(v)
