"""LlamaIndex's two searches over lists of embeddings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llama_index.core.base.embeddings.base import similarity
from llama_index.core.indices.query import embedding_utils as _original

from ... import _core
from ...arrays import as_count, as_float32
from ...mmr import mmr_vectors
from .._rows import stacked

Found = tuple[list[float], list[Any]]
Matrix = npt.NDArray[np.float32]


def get_top_k_embeddings(
    query_embedding: Any,
    embeddings: Sequence[Any],
    similarity_fn: Callable[..., float] | None = None,
    similarity_top_k: int | None = None,
    embedding_ids: list[Any] | None = None,
    similarity_cutoff: float | None = None,
) -> Found:
    """Cosines and ids of the best embeddings; all for a top k of None or 0.

    With a cutoff only those above it. Raises ValueError for NaN and shapes that do not fit.

    >>> get_top_k_embeddings([1.0, 0.0], [[0.0, 2.0], [3.0, 0.0]], similarity_top_k=1)
    ([1.0], [1])
    """
    if similarity_fn not in (None, similarity):
        return _handed_on(
            "get_top_k_embeddings",
            query_embedding,
            embeddings,
            similarity_fn,
            similarity_top_k,
            embedding_ids,
            similarity_cutoff,
        )
    if len(embeddings) == 0:
        return [], []
    rows = stacked(embeddings)
    best = as_count(similarity_top_k, "similarity_top_k") if similarity_top_k else len(rows)
    query = query_of(query_embedding, rows.shape[1])[None]
    found, scores = _core.dense_top_k(rows, query, "cosine", best, "zero", 1, "")
    names = range(len(rows)) if embedding_ids is None else embedding_ids
    pairs = [
        (score, names[place])
        for place, score in zip(found[0].tolist(), scores[0].tolist(), strict=True)
        if similarity_cutoff is None or score > similarity_cutoff
    ]
    return [score for score, _ in pairs], [name for _, name in pairs]


def get_top_k_mmr_embeddings(
    query_embedding: Any,
    embeddings: Sequence[Any],
    similarity_fn: Callable[..., float] | None = None,
    similarity_top_k: int | None = None,
    embedding_ids: list[Any] | None = None,
    similarity_cutoff: float | None = None,
    mmr_threshold: float | None = None,
    *,
    mmr_penalty: str = "last",
) -> Found:
    """Scores and ids of MMR's picks, each against the pick before it, as LlamaIndex has it.

    ``mmr_penalty="all"`` is the published rule: against the most similar of all picks.
    ``similarity_cutoff`` does nothing, as there.

    >>> rows = [[0.8, 0.6, 0, 0], [0.79, 0.613, 0, 0], [0.6, 0, 0.8, 0], [0.55, 0, 0, 0.835]]
    >>> get_top_k_mmr_embeddings([1.0, 0, 0, 0], rows, similarity_top_k=3)[1]
    [0, 2, 1]
    >>> get_top_k_mmr_embeddings([1.0, 0, 0, 0], rows, similarity_top_k=3, mmr_penalty="all")[1]
    [0, 2, 3]
    """
    if similarity_fn not in (None, similarity):
        return _handed_on(
            "get_top_k_mmr_embeddings",
            query_embedding,
            embeddings,
            similarity_fn,
            similarity_top_k,
            embedding_ids,
            similarity_cutoff,
            mmr_threshold,
        )
    if len(embeddings) == 0:
        return [], []
    rows = stacked(embeddings)
    best = as_count(similarity_top_k, "similarity_top_k") if similarity_top_k else len(rows)
    scores, picks = mmr(query_embedding, rows, best, mmr_threshold, mmr_penalty)
    return scores, [embedding_ids[pick] for pick in picks] if embedding_ids else picks


def mmr(
    query: Any, rows: Matrix, k: int, threshold: float | None, penalty: str
) -> tuple[list[float], list[int]]:
    """LlamaIndex's MMR over a matrix: scores and places."""
    weight = 0.5 if threshold is None else float(threshold)
    relevance = _core.cosines(rows, query_of(query, rows.shape[1])[None], 1, "")[0]
    if min(k, len(rows)) == 0:
        return [], []
    # The first pick is the greatest product, not the greatest similarity: with a threshold of 0
    # all products are equal, and the first embedding wins.
    first = int(np.argmax(relevance * weight))
    picks, scores = mmr_vectors(
        None,
        rows,
        min(k, len(rows)) - 1,
        weight,
        relevance=relevance,
        selected=(first,),
        penalty=penalty,
        return_scores=True,
        threads=1,
    )
    return [float(relevance[first]) * weight, *scores], [first, *picks]


def query_of(embedding: Any, dim: int) -> Matrix:
    """A query [D] in float32. Raises ValueError when the embeddings have another length."""
    query = as_float32(embedding, "query_embedding")
    if query.shape != (dim,):
        raise ValueError(
            f"query_embedding must be [{dim}] as the embeddings are, got {list(query.shape)}"
        )
    return query


def _handed_on(name: str, *arguments: Any) -> Found:
    warnings.warn(
        f"{name}: gnomon knows the default similarity; this call goes to llama_index.core, with "
        "its order of ties",
        UserWarning,
        stacklevel=3,
    )
    found: Found = getattr(_original, name)(*arguments)
    return found
