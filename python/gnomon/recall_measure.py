"""One run against one truth: every definition, coverage, ties, distance ratio."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from . import recall_counts as counts
from .recall import DEFINITIONS, Recall
from .recall_counts import Float64Array, Int64Array, Truth


def measure(
    name: str,
    truth: Truth,
    ids: Int64Array,
    k: int,
    scores: Float64Array | None,
    seed: int,
) -> Recall:
    """The figures of a run; `scores` [Q, >= k] are the exact ones of its ids, or None."""
    width = truth.ids.shape[1]
    if width < k and (truth.n_base is None or width < truth.n_base):
        raise ValueError(
            f"recall@{k} needs {k} exact neighbours a query, the truth has {width}; lower k or "
            "make a deeper truth"
        )
    kept, coverage = counts.clean(ids, k, truth.n_base)
    places = np.minimum(k, (truth.ids >= 0).sum(1))
    others: dict[str, Float64Array | None] = dict.fromkeys(list(DEFINITIONS)[1:])
    others["strict-id"] = _share(counts.strict_id(truth, kept, k), places)
    if width >= k and truth.scores is not None:
        others["big-ann"] = _share(counts.big_ann(truth, ids, k), np.full(len(ids), k))
    ratio = None
    returned = None if scores is None else _padded(scores, k)
    if returned is not None and truth.distances is not None and width >= k:
        near = counts.as_distances(returned, truth.metric)
        full = np.full(len(ids), k)
        exact = truth.distances
        loose = counts.ann_benchmarks(exact, near, k, counts.ANN_BENCHMARKS_EPSILON)
        percent = counts.ann_benchmarks(exact * 1.01, near, k, 0.0)
        others["ann-benchmarks"] = _share(loose, full)
        others["ann-benchmarks 1%"] = _share(percent, full)
        if truth.metric in ("cosine", "l2"):
            ratio = _distance_ratio(exact, np.where(kept >= 0, near, np.nan), k)
    without = int((places == 0).sum())
    if truth.scores is None:
        nothing = (None, None, None, 0, without, ratio)
        return Recall(name, k, None, None, others, coverage, *nothing, seed=seed)
    hits = counts.tie_aware(truth, kept, k, returned)
    others["distance-threshold"] = _share(hits.near_enough, hits.places)
    return Recall(
        name,
        k,
        _share(hits.lower, hits.places),
        _share(hits.upper, hits.places),
        others,
        coverage,
        hits.n_tied,
        hits.crossing,
        hits.cut_off,
        int(hits.beat_truth.sum()),
        without,
        ratio,
        _at_zero(truth),
        seed,
    )


def _at_zero(truth: Truth) -> int | None:
    """How many queries have a neighbour at distance 0: they may be rows of the base."""
    if truth.distances is None or truth.metric not in ("cosine", "l2"):
        return None
    return int(((truth.distances[:, 0] == 0.0) & (truth.ids[:, 0] >= 0)).sum())


def _share(hits: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> Float64Array:
    """Hits / places; NaN where there is nothing to find."""
    shares = np.full(len(hits), np.nan)
    np.divide(hits, places, out=shares, where=places > 0)
    return shares


def _padded(values: Float64Array, k: int) -> Float64Array:
    if values.shape[1] >= k:
        return values[:, :k]
    gap = np.full((len(values), k - values.shape[1]), np.nan)
    return np.concatenate([values, gap], axis=1)


def _distance_ratio(exact: Float64Array, near: Float64Array, k: int) -> Float64Array:
    """Per query the mean of found / exact distance at each rank; NaN where nothing was found."""
    found = np.sort(near, axis=1)  # NaN last
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = found / exact[:, :k]
    ratio = np.where(found == exact[:, :k], 1.0, ratio)  # 0 / 0 as well
    present = ~np.isnan(found)
    total = np.where(present, ratio, 0.0).sum(1)
    means = np.full(len(found), np.nan)
    np.divide(total, present.sum(1), out=means, where=present.any(1))
    return means
