"""Hits of all queries at once; the definitions are those of ``gnomon.reference.recall``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

ANN_BENCHMARKS_EPSILON = 1e-3
BIG_ANN_EPSILON = 1e-6


@dataclass(frozen=True)
class Truth:
    """Exact neighbours, best first.

    ids [Q, K] (-1 where there is none), scores [Q, K] higher is better, or None; the ties beyond
    the lists, and whether those are all (`complete` [Q]); the rows of the base, if known; the
    metric. `as_file`: the scores are the negative distances of a file, in its own convention.
    `canonical`: they are gnomon's own, so those vectors give them again, bit for bit.
    """

    ids: Int64Array
    scores: Float64Array | None
    tied_offsets: Int64Array
    tied_ids: Int64Array
    complete: BoolArray
    n_base: int | None = None
    metric: str | None = None
    as_file: bool = False
    canonical: bool = False

    @property
    def distances(self) -> Float64Array | None:
        """What ann-benchmarks and big-ann-benchmarks compare."""
        if self.scores is None:
            return None
        return 0.0 - self.scores if self.as_file else as_distances(self.scores, self.metric)


def as_distances(scores: Float64Array, metric: str | None) -> Float64Array:
    """1 - cosine, Euclidean distance, else the negative score.

    >>> as_distances(np.array([0.75]), "cosine").tolist(), as_distances(np.array([-4.0]), "l2")
    ([0.25], array([2.]))
    """
    if metric == "cosine":
        return 1.0 - scores
    return np.sqrt(np.maximum(0.0 - scores, 0.0)) if metric == "l2" else 0.0 - scores


class Coverage(NamedTuple):
    """Places, of the first k of every query, that hold no answer: [Q] each."""

    missing: Int64Array  # -1, or the list is too short
    repeated: Int64Array
    out_of_range: Int64Array


def clean(ids: Int64Array, k: int, n_base: int | None) -> tuple[Int64Array, Coverage]:
    """The first k places with -1 for what does not count, and what that was.

    >>> clean(np.array([[4, 4, -1, 9]]), 4, 9)[0].tolist()
    [[4, -1, -1, -1]]
    """
    kept = ids[:, :k].copy()
    if kept.shape[1] < k:
        short = np.full((len(ids), k - kept.shape[1]), -1, np.int64)
        kept = np.concatenate([kept, short], axis=1)
    missing = kept == -1
    out = kept < -1
    if n_base is not None:
        out |= kept >= n_base
    kept[out] = -1
    order = np.argsort(kept, axis=1, kind="stable")
    ordered = np.take_along_axis(kept, order, 1)
    again = np.zeros(kept.shape, bool)
    same = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    np.put_along_axis(again, order[:, 1:], same, 1)
    kept[again] = -1
    return kept, Coverage(missing.sum(1), again.sum(1), out.sum(1))


def places_in(rows: Int64Array, ids: Int64Array) -> Int64Array:
    """Where each id of ids[q] stands in rows[q] (-1: nowhere; ids of -1 stand nowhere)."""
    width = rows.shape[1]
    if rows.size == 0:
        return np.full(ids.shape, -1, np.int64)
    known = np.unique(rows)  # ranks among these, so that row and id fit into one number
    rank = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    present = (known[rank] == ids) & (ids >= 0)
    offset = np.arange(len(rows), dtype=np.int64)[:, None] * len(known)
    keys = (np.searchsorted(known, rows) + offset).reshape(-1)
    order = np.argsort(keys, kind="stable")
    wanted = (rank + offset).reshape(-1)
    at = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[at]
    hit = (keys[found] == wanted).reshape(ids.shape) & present
    return np.where(hit, (found % width).reshape(ids.shape), -1)


class Hits(NamedTuple):
    """Per query: fewest and most hits, hits possible, and what ties and the truth's end did."""

    lower: Int64Array
    upper: Int64Array
    places: Int64Array
    n_tied: Int64Array  # known rows with the score of the k-th
    crossing: BoolArray  # more rows tie for the last places than there are places
    cut_off: BoolArray  # the truth ends inside that group
    beat_truth: Int64Array
    near_enough: Int64Array  # known to be no farther than the k-th, however many


def tie_aware(
    truth: Truth, kept: Int64Array, k: int, kept_scores: Float64Array | None = None
) -> Hits:
    """The definition of gnomon; `kept` comes from :func:`clean`.

    With the exact scores of the returned rows (NaN where none), nothing is unknown.
    """
    if truth.scores is None:
        raise ValueError("tie-aware recall needs the scores or distances of the truth")
    n, width = truth.ids.shape
    valid = truth.ids >= 0
    places = np.minimum(k, valid.sum(1))
    scores = np.where(valid, truth.scores, -np.inf)
    threshold = scores[np.arange(n), np.maximum(places, 1) - 1]
    last = scores[np.arange(n), np.maximum(valid.sum(1), 1) - 1]
    better_n = (scores > threshold[:, None]).sum(1)
    reaches_end = last == threshold
    holds_all = (valid.sum(1) < width) | (truth.n_base is not None and width >= truth.n_base)
    unknown_rest = reaches_end & ~truth.complete & ~holds_all
    beyond = _tied_lists(truth)
    at = places_in(truth.ids, kept)
    known = np.where(at >= 0, np.take_along_axis(scores, np.maximum(at, 0), 1), np.nan)
    in_beyond = (places_in(beyond, kept) >= 0) & reaches_end[:, None] & (at < 0)
    beat = np.zeros(n, np.int64)
    if kept_scores is not None:
        known = np.where(kept >= 0, kept_scores, np.nan)
        beat = ((at < 0) & (known > last[:, None])).sum(1)
        unknown = np.zeros(n, np.int64)
        in_tied = (known == threshold[:, None]).sum(1)
    else:
        in_tied = ((known == threshold[:, None]) | in_beyond).sum(1)
        strangers = (kept >= 0) & (at < 0) & ~in_beyond
        unknown = np.where(unknown_rest, strangers.sum(1), 0)
    room = places - better_n
    in_better = np.minimum((known > threshold[:, None]).sum(1), better_n)
    counts = np.diff(truth.tied_offsets)
    tied_n = (valid & (scores == threshold[:, None])).sum(1) + np.where(reaches_end, counts, 0)
    return Hits(
        in_better + np.minimum(in_tied, room),
        in_better + np.minimum(in_tied + unknown, room),
        places,
        tied_n,
        (tied_n > room) | unknown_rest,
        unknown_rest & (kept_scores is None),
        beat,
        (known > threshold[:, None]).sum(1) + in_tied,
    )


def _tied_lists(truth: Truth) -> Int64Array:
    """The ties beyond the lists as rows padded with -1."""
    counts = np.diff(truth.tied_offsets)
    table = np.full((len(counts), int(counts.max(initial=0))), -1, np.int64)
    table[np.arange(table.shape[1]) < counts[:, None]] = truth.tied_ids
    return table


def strict_id(truth: Truth, kept: Int64Array, k: int) -> Int64Array:
    """Set overlap with the first k ids of the truth."""
    found: Int64Array = (places_in(truth.ids[:, :k], kept) >= 0).sum(1)
    return found


def big_ann(truth: Truth, ids: Int64Array, k: int) -> Int64Array:
    """As big-ann-benchmarks counts: ids within 1e-6 behind the k-th distance are hits as well."""
    distances = truth.distances
    if distances is None:
        raise ValueError("the definition of big-ann-benchmarks needs distances of the truth")
    width = truth.ids.shape[1]
    near = np.abs(distances[:, k:] - distances[:, k - 1 : k]) < BIG_ANN_EPSILON
    end = k + np.cumprod(near, axis=1).sum(1)
    kept, _ = clean(ids, k, None)
    at = places_in(np.where(np.arange(width) < end[:, None], truth.ids, -1), kept)
    found: Int64Array = (at >= 0).sum(1)
    return found


def ann_benchmarks(
    distances: Float64Array, returned: Float64Array, k: int, epsilon: float
) -> Int64Array:
    """Places whose distance is at most the k-th plus epsilon; NaN marks an empty place."""
    with np.errstate(invalid="ignore"):
        near: Int64Array = (returned[:, :k] <= distances[:, k - 1 : k] + epsilon).sum(1)
    return near
