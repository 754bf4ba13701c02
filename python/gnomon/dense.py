"""Exact cosine top-k over vectors as they are; for repeated searches see dense_index."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from . import _core
from .arrays import as_count, as_float32, as_threads, is_tensor
from .cuda_dense import cosine_topk as _topk_on_device
from .dense_index import DenseIndex
from .device import check_cpu_words, place_of

__all__ = ["DenseIndex", "TopK", "cosine_topk"]


class TopK(NamedTuple):
    """Scores and row numbers, best first, as arrays of the caller's kind.

    >>> import numpy as np
    >>> values, indices = cosine_topk(np.array([1, 0]), np.array([[0, 1], [3, 0]]), k=1)
    >>> values.tolist(), indices.tolist()
    ([1.0], [1])
    """

    values: Any
    indices: Any


def cosine_topk(
    query: Any,
    documents: Any,
    k: int,
    *,
    on_zero: str = "zero",
    dtype: Any = None,
    device: Any = None,
    max_workspace_bytes: int | None = None,
    threads: int | None = None,
    level: str | None = None,
) -> TopK:
    """The k rows of ``documents`` with the greatest cosine to the query, exactly.

    Inputs are taken as float32 (float16 and bfloat16 widen exactly, float64 rounds to nearest);
    then every score is ``dot / sqrt(|q|^2 * |x|^2)`` in one written order of float64 operations
    (``gnomon.reference.dense``), clipped to [-1, 1]. The ranking uses that float64 value: higher
    first, ties to the lower row. A zero vector has similarity 0, never NaN.

    Parameters
    ----------
    query
        [D], or [Q, D] for a batch: numpy array, torch tensor (on any device), or nested lists.
    documents
        [N, D], likewise.
    k
        How many rows; more than N gives N, 0 gives none.
    on_zero
        ``"zero"`` scores zero vectors 0; ``"error"`` refuses them.
    dtype
        Of the values: ``"float64"`` (numpy's default here) or ``"float32"`` (torch's default here,
        the float64 score rounded once).
    device
        ``"cuda"`` or ``"cuda:N"``: compute on a GPU (:func:`gnomon.devices`). Documents on it are
        read where they lie, by DLPack, and the result stays there.
    max_workspace_bytes
        Of the GPU's memory, beside the documents and their codes; 256 MiB when not given.
    threads, level
        How to compute on the CPU; the answer depends on none of these.

    Returns
    -------
    TopK
        ``values`` and int64 ``indices``, [k'] or [Q, k'] with k' = min(k, N); torch tensors on the
        documents' device if an input was a tensor, else numpy arrays. Without ``device``
        CUDA tensors are copied to the host and the result back.

    Raises
    ------
    ValueError
        Shapes that do not fit, k < 0, NaN or infinity (naming the row), zero vectors with
        ``on_zero="error"`` (naming the row), another `dtype`, an unknown `level`.
    TypeError
        Arguments that are not real numbers, or k that is not a whole number.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> found = gnomon.cosine_topk(np.array([1.0, 0.0]), np.array([[0.0, 2.0], [3.0, 0.0]]), k=1)
    >>> found.values, found.indices
    (array([1.]), array([1]))
    """
    place = place_of(device)
    if place is not None:
        check_cpu_words(threads, level)
        return _on_device(query, documents, k, on_zero, dtype, place, max_workspace_bytes)
    tensor = next((value for value in (documents, query) if is_tensor(value)), None)
    kind = _value_dtype(dtype, "float64" if tensor is None else "float32")
    rows = as_float32(documents, "documents")
    wanted = as_float32(query, "query")
    if wanted.ndim not in (1, 2) or rows.ndim != 2 or wanted.shape[-1] != rows.shape[1]:
        raise ValueError(
            "incompatible embedding shapes: query must be [D] or [Q, D] and documents [N, D], "
            f"got {list(wanted.shape)} and {list(rows.shape)}"
        )
    best = min(as_count(k, "k"), rows.shape[0])
    positions, scores = _core.dense_top_k(
        rows, np.atleast_2d(wanted), "cosine", best, on_zero, as_threads(threads), level or ""
    )
    values = scores.astype(kind, copy=False)
    if wanted.ndim == 1:
        values, positions = values[0], positions[0]
    if tensor is None:
        return TopK(values, positions)
    torch = sys.modules["torch"]
    return TopK(
        torch.from_numpy(values).to(tensor.device), torch.from_numpy(positions).to(tensor.device)
    )


def _on_device(
    query: Any, documents: Any, k: int, on_zero: str, dtype: Any, place: Any, workspace: int | None
) -> TopK:
    shapes = [np.shape(value) for value in (query, documents)]
    if len(shapes[0]) not in (1, 2) or len(shapes[1]) != 2 or shapes[0][-1] != shapes[1][1]:
        raise ValueError(
            "incompatible embedding shapes: query must be [D] or [Q, D] and documents [N, D], "
            f"got {list(shapes[0])} and {list(shapes[1])}"
        )
    single = len(shapes[0]) == 1
    batch = (query if hasattr(query, "shape") else np.asarray(query))[None] if single else query
    best = as_count(k, "k")
    values, indices, stays = _topk_on_device(batch, documents, best, on_zero, place, workspace)
    tensor = next((value for value in (documents, query) if is_tensor(value)), None)
    kind = _value_dtype(dtype, "float64" if tensor is None else "float32")
    if not stays:
        values = values.astype(kind, copy=False)
        if tensor is not None:
            torch = sys.modules["torch"]
            values, indices = (
                torch.from_numpy(part).to(tensor.device) for part in (values, indices)
            )
    elif kind == np.float32:
        values = values.float() if is_tensor(values) else values.astype(np.float32)
    return TopK(values[0], indices[0]) if single else TopK(values, indices)


def _value_dtype(dtype: Any, default: str) -> np.dtype[Any]:
    """The dtype of the values, from a name or from a dtype of numpy or torch."""
    if dtype is None:
        return np.dtype(default)
    text = str(dtype)
    with suppress(TypeError):  # numpy knows no such type: torch.bfloat16, a misspelt name
        kind = np.dtype(text.removeprefix("torch.") if text.startswith("torch.") else dtype)
        if kind in (np.dtype(np.float32), np.dtype(np.float64)):
            return kind
    raise ValueError(f"dtype must be float32 or float64, got {dtype}")
