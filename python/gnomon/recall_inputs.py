"""What can be given to :func:`gnomon.recall`, made into one form."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from .arrays import as_count, as_float32, as_float64
from .dense import DenseIndex
from .formats_neighbors import read_neighbors
from .formats_source import VectorSource
from .formats_truth import Neighbors, check_truth
from .groundtruth import METRICS, opened
from .groundtruth_file import GroundTruth
from .recall_counts import Float64Array, Int64Array, Truth

_DISTANCE_NAMES = {"angular": "cosine", "euclidean": "l2", "cosine": "cosine", "ip": "ip"}


def as_truth(
    truth: Any, scores: Any = None, n_base: int | None = None, metric: str | None = None
) -> Truth:
    """A Truth of what was given as one. Raises ValueError or FormatError."""
    if metric is not None and metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if n_base is not None:
        n_base = as_count(n_base, "n_base", 1)
    if isinstance(truth, Truth):
        return truth
    if isinstance(truth, (str, os.PathLike)):
        truth = read_neighbors(truth, n_base=n_base)
    if isinstance(truth, GroundTruth):
        ties = {name: getattr(truth, name) for name in ("n_tied", "tied_offsets", "tied_ids")}
        truth = Neighbors("truth", "", truth.ids, None, truth.scores, ties, truth.meta)
    if isinstance(truth, Neighbors):
        return _of_neighbors(truth, n_base, metric)
    ids = _matrix_of_ids(truth, "truth")
    values = None if scores is None else as_float64(scores, "truth_scores")
    if values is not None and values.shape != ids.shape:
        raise ValueError(f"truth_scores {list(values.shape)} must fit truth {list(ids.shape)}")
    if values is not None and (values[:, 1:] > values[:, :-1]).any():
        raise ValueError("truth_scores must fall along every row: best first, higher is better")
    given = Neighbors("truth", "", ids, None, values)
    check_truth(given, n_base)
    return _of_neighbors(given, n_base, metric)


def _of_neighbors(truth: Neighbors, n_base: int | None, metric: str | None) -> Truth:
    meta, n = truth.meta, len(truth.ids)
    rows = n_base if n_base is not None else meta.get("base_rows", meta.get("rows"))
    said = meta.get("metric", _DISTANCE_NAMES.get(meta.get("distance", "")))
    if metric is not None and said is not None and metric != said:
        raise ValueError(f"metric is {metric!r}, but {truth.path} was made with {said!r}")
    offsets = truth.ties.get("tied_offsets", np.zeros(n + 1, np.int64))
    beyond = truth.ties.get("tied_ids", np.zeros(0, np.int64))
    complete = np.zeros(n, bool)
    if "n_tied" in truth.ties and truth.scores is not None:
        inside = (truth.scores == truth.scores[:, -1:]).sum(axis=1)
        complete = truth.ties["n_tied"] == inside + np.diff(offsets)
    as_file = truth.distances is not None
    parts = (truth.ids, truth.scores, offsets, beyond, complete)
    canonical = truth.scores is not None and "base_sha256" in meta
    return Truth(*parts, rows, metric or said, as_file, canonical)


def as_results(results: Any, n_queries: int) -> Int64Array:
    """Ids [Q, R] of a result. Raises ValueError when there are more or fewer queries."""
    if isinstance(results, (str, os.PathLike)):
        name, ids = os.fspath(results), read_neighbors(results, role="result").ids
    else:
        name, ids = "results", _matrix_of_ids(results, "results")
    if len(ids) != n_queries:
        raise ValueError(f"{name} answers {len(ids)} queries, the truth {n_queries}")
    return ids


def _matrix_of_ids(value: Any, name: str) -> Int64Array:
    ids = np.asarray(value)
    if ids.ndim != 2 or (ids.dtype.kind not in "iu" and ids.size):
        raise ValueError(
            f"{name} must be a matrix [Q, K] of whole numbers, got shape {list(ids.shape)} "
            f"of {ids.dtype}"
        )
    return ids.astype(np.int64)


def with_vectors(
    truth: Truth, runs: list[Int64Array], base: Any, queries: Any, k: int
) -> tuple[Truth, list[Float64Array]]:
    """The truth with canonical scores, and those of each run's first k places (NaN: no row)."""
    with ExitStack() as stack:
        rows = stack.enter_context(opened(base, "base"))
        wanted = stack.enter_context(opened(queries, "queries"))
        require_fitting(truth, rows, wanted)
        tables = [truth.ids, *(run[:, :k] for run in runs)]
        found = [np.full(table.shape, np.nan) for table in tables]
        vectors = as_float32(wanted.read(0, wanted.n_rows), "queries")
        for q in range(len(truth.ids)):
            given = np.concatenate([table[q] for table in tables])
            ids = np.unique(given[(given >= 0) & (given < rows.n_rows)])
            if not ids.size:
                continue
            index = DenseIndex.build(rows.take(ids), metric=str(truth.metric), threads=1)
            hits = index.search(vectors[q], ids.size, threads=1)
            scores = np.empty(ids.size)
            scores[hits.ids] = hits.scores
            for table, out in zip(tables, found, strict=True):
                at = np.minimum(np.searchsorted(ids, table[q]), ids.size - 1)
                out[q] = np.where(ids[at] == table[q], scores[at], np.nan)
    if truth.canonical and truth.scores is not None:
        _require_own_vectors(truth.ids, truth.scores, found[0])
    order = np.argsort(-np.where(truth.ids >= 0, found[0], -np.inf), axis=1, kind="stable")
    sorted_truth = replace(
        truth,
        ids=np.take_along_axis(truth.ids, order, 1),
        scores=np.take_along_axis(found[0], order, 1),
        n_base=rows.n_rows,
        as_file=False,
    )
    return sorted_truth, found[1:]


def require_fitting(truth: Truth, base: VectorSource, queries: VectorSource) -> None:
    """Raises ValueError where these vectors cannot be those that the truth was made of."""
    if truth.metric is None:
        raise ValueError("metric must be given: the truth does not say which one it was made with")
    if queries.n_rows != len(truth.ids) or queries.dim != base.dim:
        raise ValueError(
            f"queries {[queries.n_rows, queries.dim]} do not belong to a truth of "
            f"{len(truth.ids)} queries and a base of dimension {base.dim}"
        )
    top = int(truth.ids.max(initial=-1))
    if top >= base.n_rows:
        raise ValueError(f"the truth holds id {top}, but the base has {base.n_rows} rows")


def _require_own_vectors(ids: Int64Array, said: Float64Array, found: Float64Array) -> None:
    """Rows in another order, say, would give a recall of nothing in particular."""
    other = (ids >= 0) & (said != found)
    if other.any():
        q, place = (int(i) for i in np.argwhere(other)[0])
        raise ValueError(
            f"base and queries are not those of the truth: query {q} and row {ids[q, place]} "
            f"score {found[q, place]!r}, the truth says {said[q, place]!r}"
        )
