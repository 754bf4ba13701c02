"""Maximal marginal relevance: results that are relevant and not copies of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _core
from .arrays import as_count, as_float32, as_float64, as_number, as_threads
from .device import Place, as_matrix, check_cpu_words, place_of, workspace_of


def mmr(
    query_score: Any,
    pair_similarity: Any,
    limit: int,
    diversity: float = 0.5,
    *,
    level: str | None = None,
) -> list[int]:
    """Picks up to ``limit`` candidates, greedily, by relevance and novelty.

    First the candidate with the highest query score; then, again and again, the one with the
    greatest ``diversity * query_score[i] - (1 - diversity) * max(pair_similarity[i, j])`` over the
    selected j (Carbonell & Goldstein, SIGIR 1998). Ties go to the lower index. All arithmetic is
    float64; the picks equal those of ``gnomon.reference.mmr`` on every machine.

    Parameters
    ----------
    query_score
        [N] real numbers (numpy array, torch tensor, list).
    pair_similarity
        [N, N] real numbers; ``[i, j]`` is the similarity of candidate i to candidate j. It need not
        be symmetric. Negative similarity counts as it stands.
    limit
        How many to pick at most; 0 or less picks none.
    diversity
        Between 0 (novelty only) and 1 (relevance only).
    level
        Kernel level to use (see :func:`gnomon.levels`); the picks do not depend on it.

    Returns
    -------
    list of int
        Indices in the order they were picked.

    Raises
    ------
    ValueError
        Shapes that do not fit, diversity outside [0, 1], NaN or infinite values (with their place).
    TypeError
        Arguments that are not real numbers.

    Examples
    --------
    >>> import gnomon
    >>> relevance = [1.0, 0.95, 0.8]
    >>> similarity = [[1.0, 0.99, 0.1], [0.99, 1.0, 0.2], [0.1, 0.2, 1.0]]
    >>> gnomon.mmr(relevance, similarity, limit=2)
    [0, 2]
    """
    relevance = as_float64(query_score, "query_score")
    similarity = as_float64(pair_similarity, "pair_similarity")
    if relevance.size == 0 and similarity.size == 0 and relevance.ndim == 1:
        similarity = similarity.reshape(0, 0)
    if relevance.ndim != 1 or similarity.shape != (relevance.shape[0],) * 2:
        raise ValueError(
            f"invalid MMR inputs: query_score must be [N] and pair_similarity [N, N], "
            f"got {list(relevance.shape)} and {list(similarity.shape)}"
        )
    wanted = min(max(as_count(limit, "limit", least=None), 0), relevance.shape[0])
    picks = _core.mmr(relevance, similarity, wanted, as_number(diversity, "diversity"), level or "")
    return [int(i) for i in picks]


def mmr_vectors(
    query: Any,
    vectors: Any,
    limit: int,
    diversity: float = 0.5,
    *,
    relevance: Any = None,
    selected: Sequence[Any] = (),
    penalty: str = "all",
    return_scores: bool = False,
    device: Any = None,
    max_workspace_bytes: int | None = None,
    threads: int | None = None,
    level: str | None = None,
) -> Any:
    """:func:`mmr` from embeddings, without the N x N matrix: the same picks, most dots saved.

    Similarity is the canonical cosine (:func:`gnomon.cosine_topk`). The search is lazy: a pick can
    only raise a candidate's redundancy, so an outdated score is an upper bound, and only the
    candidate on top is brought up to date. The picks are those of the full loop, ties included.

    Parameters
    ----------
    query
        [D], or [Q, D] for a batch over the same candidates.
    vectors
        [N, D] candidates; numpy array, torch tensor or nested lists, taken as float32.
    limit, diversity
        As for :func:`mmr`.
    relevance
        [N] (or [Q, N]) scores to use instead of the cosine to the query, of a reranker or a
        fusion. ``query`` may then be None.
    selected
        Indices picked before (for a batch: one such list a query); they count as redundancy and are
        not picked again, so that the next page continues where the last one ended.
    penalty
        ``"all"``: against the most similar of all picks. ``"last"``: against the latest pick only,
        as LlamaIndex does.
    return_scores
        Also give the score with which each pick won (the first one's is its relevance).
    device
        ``"cuda"`` or ``"cuda:N"``: compute on a GPU (:func:`gnomon.devices`); vectors and queries
        on it are read where they lie, by DLPack.
    max_workspace_bytes
        Of the GPU's memory, beside the vectors; 256 MiB when not given.
    threads, level
        How to compute on the CPU; the picks depend on none of these.

    Returns
    -------
    list of int, or (list of int, list of float)
        Picks in order; for a batch a list of these.

    Raises
    ------
    ValueError
        Shapes that do not fit, diversity outside [0, 1], NaN or infinity, selected indices that
        repeat or do not exist, another number of lists in ``selected`` than queries.
    TypeError
        Arguments that are not real numbers, indices that are not whole numbers.

    Examples
    --------
    >>> import gnomon
    >>> gnomon.mmr_vectors([1.0, 0.2], [[1.0, 0.1], [1.0, 0.05], [0.6, 0.8]], limit=2)
    [0, 2]
    """
    place = place_of(device)
    if place is not None and len(np.shape(vectors)) == 2:  # not ndim: DLPack brings none
        check_cpu_words(threads, level)
        return _on_device(
            query, vectors, limit, diversity, relevance, selected, penalty, return_scores, place,
            workspace_of(max_workspace_bytes, place),
        )  # fmt: skip
    rows = as_float32(vectors, "vectors")
    if rows.size == 0 and rows.ndim == 1:
        rows = rows.reshape(0, 0)
    if rows.ndim != 2:
        raise ValueError(f"vectors must be a matrix [N, D], got shape {list(rows.shape)}")
    scores, batched = _relevance(query, rows, relevance, threads, level)
    before = _picked_before(selected, len(scores) if batched else None)
    for pick in (pick for picks in before for pick in picks):
        if pick >= rows.shape[0]:
            raise ValueError(f"selected names row {pick} of {rows.shape[0]}")
    wanted = min(max(as_count(limit, "limit", least=-(2**63)), 0), rows.shape[0])
    results = [
        ([int(i) for i in picks], [float(score) for score in won])
        for picks, won in _core.mmr_vectors(
            rows,
            scores,
            before,
            wanted,
            as_number(diversity, "diversity"),
            penalty,
            as_threads(threads),
            level or "",
        )
    ]
    return _answers(results, return_scores, batched)


def _answers(results: list[tuple[list[int], list[float]]], scores: bool, batched: bool) -> Any:
    answers = results if scores else [picks for picks, _ in results]
    return answers if batched else answers[0]


def _on_device(
    query: Any,
    vectors: Any,
    limit: int,
    diversity: float,
    relevance: Any,
    selected: Sequence[Any],
    penalty: str,
    return_scores: bool,
    place: Place,
    workspace: int,
) -> Any:
    rows = as_matrix(vectors, "vectors", place)
    n, dim = rows.shape
    given = None
    wanted = None
    if relevance is not None:
        given = as_float64(relevance, "relevance")
        _check_relevance(given, n)
        batched = given.ndim == 2
        given = np.atleast_2d(given)
        n_queries = len(given)
    else:
        shape = np.shape(query)
        if len(shape) not in (1, 2) or shape[-1] != dim:
            raise ValueError(f"query must be [D] or [Q, D] with D = {dim}, got {list(shape)}")
        batched = len(shape) == 2
        batch = (
            query if batched else (query if hasattr(query, "shape") else np.asarray(query))[None]
        )
        wanted = as_matrix(batch, "query", place)
        n_queries = shape[0] if batched else 1
    before = _picked_before(selected, n_queries if batched else None)
    results = place.module.mmr(
        rows,
        wanted,
        given,
        before,
        min(max(as_count(limit, "limit", least=-(2**63)), 0), n),
        as_number(diversity, "diversity"),
        penalty,
        place.number,
        workspace,
    )
    return _answers(
        [(picks.tolist(), scores.tolist()) for picks, scores in results], return_scores, batched
    )


def _check_relevance(given: Any, n: int) -> None:
    if given.ndim not in (1, 2) or given.shape[-1] != n:
        raise ValueError(f"relevance must be [N] or [Q, N] with N = {n}, got {list(given.shape)}")
    if not np.isfinite(given).all():
        raise ValueError("relevance holds NaN or infinity; every candidate needs a finite score")


def _relevance(
    query: Any, rows: Any, relevance: Any, threads: int | None, level: str | None
) -> tuple[Any, bool]:
    """Relevance [Q, N] in float64, and whether the caller asked for a batch."""
    if relevance is None:
        wanted = as_float32(query, "query")
        known = rows.size > 0 or rows.shape != (0, 0)  # an empty list has no dimension
        if wanted.ndim not in (1, 2) or (known and wanted.shape[-1] != rows.shape[1]):
            raise ValueError(
                f"query must be [D] or [Q, D] with D = {rows.shape[1]}, got {list(wanted.shape)}"
            )
        if not known:
            rows = np.zeros((0, wanted.shape[-1]), np.float32)
        scores = _core.cosines(rows, np.atleast_2d(wanted), as_threads(threads), level or "")
        return scores, wanted.ndim == 2
    given = as_float64(relevance, "relevance")
    _check_relevance(given, rows.shape[0])
    return np.atleast_2d(given), given.ndim == 2


def _picked_before(selected: Sequence[Any], n_queries: int | None) -> list[list[int]]:
    """One list of earlier picks a query; `n_queries` is None for a single query."""
    if n_queries is None:
        return [[as_count(pick, f"selected[{i}]") for i, pick in enumerate(selected)]]
    if len(selected) == 0:
        return [[] for _ in range(n_queries)]
    if len(selected) != n_queries or any(np.ndim(each) != 1 for each in selected):
        raise ValueError(
            f"selected must be empty or hold one list of indices for each of {n_queries} queries, "
            f"got {len(selected)} entries"
        )
    return [
        [as_count(pick, f"selected[{q}][{i}]") for i, pick in enumerate(picks)]
        for q, picks in enumerate(selected)
    ]
