"""Recall against exact neighbours, when scores tie; the rule is in gnomon.reference.recall."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .arrays import as_count

if TYPE_CHECKING:
    from .recall_counts import Coverage, Truth
    from .recall_stats import Interval

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

DEFINITIONS = {
    "tie-aware": "1 iff an exact top k; repeats, -1 and unknown ids are misses",
    "strict-id": "overlap with the k ids that the truth happens to keep",
    "distance-threshold": "distinct ids no farther than the k-th: ties stand in for better ones",
    "ann-benchmarks": "distance <= k-th distance + 1e-3; repeats count",
    "ann-benchmarks 1%": "distance <= 1.01 x k-th distance; repeats count",
    "big-ann": "overlap with the truth's ids up to 1e-6 behind the k-th distance",
}


@dataclass(frozen=True)
class Recall:
    """One run against one truth at one k. Arrays are per query, [Q].

    ``lower`` and ``upper`` differ where the truth ends inside a group of ties. Other definitions
    are labelled in ``others``; None where what they need (distances, vectors) was not given.

    >>> import gnomon
    >>> found = gnomon.recall([[7, 3, 5]], [[7, 5]], k=2, truth_scores=[[0.9, 0.5, 0.5]])
    >>> found.mean, found.others["strict-id"].tolist()
    (1.0, [0.5])
    """

    name: str
    k: int
    lower: Float64Array | None
    upper: Float64Array | None
    others: dict[str, Float64Array | None]
    coverage: Coverage
    n_tied: Int64Array | None
    crossing: npt.NDArray[np.bool_] | None
    cut_off: npt.NDArray[np.bool_] | None
    beat_truth: int
    without_truth: int
    distance_ratio: Float64Array | None
    at_zero: int | None = None
    seed: int = 0

    @property
    def mean(self) -> float:
        """The tie-aware mean (the lower of two, if two); NaN if the truth has no scores."""
        from .recall_stats import mean

        return math.nan if self.lower is None else mean(self._counted(self.lower))

    @property
    def mean_upper(self) -> float:
        """The mean if every unknown id were tied."""
        from .recall_stats import mean

        return math.nan if self.upper is None else mean(self._counted(self.upper))

    @property
    def interval(self) -> Interval:
        """95 % bootstrap interval of the mean: from that of `lower` to that of `upper`."""
        from .recall_stats import Interval, bootstrap

        if self.lower is None or self.upper is None:
            return Interval(math.nan, math.nan)
        low = bootstrap(self._counted(self.lower), self.seed)
        return Interval(low.low, bootstrap(self._counted(self.upper), self.seed).high)

    def mean_of(self, definition: str) -> float:
        """The mean under another definition; NaN where it cannot be computed."""
        from .recall_stats import mean

        values = self.others[definition]
        return math.nan if values is None else mean(self._counted(values))

    def worst(self, n: int = 20) -> list[tuple[int, float]]:
        """The n queries with the lowest recall, lowest first: (query, recall)."""
        values = self.lower if self.lower is not None else self.others["strict-id"]
        assert values is not None
        order = [int(q) for q in np.argsort(values, kind="stable") if not math.isnan(values[q])]
        return [(q, float(values[q])) for q in order[:n]]

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain JSON types; None for what could not be computed."""
        from .recall_report import figures

        return figures(self)

    @staticmethod
    def _counted(values: Float64Array) -> Float64Array:
        return values[~np.isnan(values)]


def recall(
    truth: Any,
    results: Any,
    k: int = 10,
    *,
    truth_scores: Any = None,
    n_base: int | None = None,
    base: Any = None,
    queries: Any = None,
    metric: str | None = None,
    name: str | None = None,
    seed: int = 0,
) -> Recall:
    """How much of the exact top k a search found, per query.

    Parameters
    ----------
    truth
        A :class:`gnomon.GroundTruth`, the path of a ground truth file, or ids [Q, K], best first.
    results
        Ids [Q, R] as a search gave them, or the path of a file; the first `k` places count.
    truth_scores
        For ids as truth: [Q, K], higher is better. Without scores, only strict-id is known.
    n_base
        Rows of the base: ids beyond it are misses and counted; taken from the truth where it says.
    base, queries
        Vectors (paths or matrices). With them the exact scores of all ids are computed anew, in one
        arithmetic for truth and result: ties are then known for certain, the definitions by
        distance and the distance ratio can be given, and a truth that is not exact shows.
    metric
        ``"cosine"``, ``"ip"``, ``"l2"``; needed with `base` unless the truth says it.

    Raises
    ------
    ValueError
        Shapes that do not fit, a truth of fewer than k neighbours, unknown metric; FormatError for
        files.

    Examples
    --------
    >>> import gnomon
    >>> truth = gnomon.groundtruth([[1, 0], [2, 0], [0, 1]], [[1, 0]], k=1)
    >>> gnomon.recall(truth, [[1]], k=1).mean
    1.0
    >>> gnomon.recall(truth, [[2]], k=1).mean
    0.0
    """
    from .recall_inputs import as_results, as_truth, with_vectors
    from .recall_measure import measure

    best, seed = as_count(k, "k", 1), as_count(seed, "seed")
    exact = as_truth(truth, truth_scores, n_base, metric)
    ids = as_results(results, len(exact.ids))
    label = name or (os.fspath(results) if isinstance(results, (str, os.PathLike)) else "results")
    if (base is None) != (queries is None):
        raise ValueError("base and queries are given together: scores need both")
    if base is None:
        return measure(label, exact, ids, best, None, seed)
    exact, (scores,) = with_vectors(exact, [ids], base, queries, best)
    return measure(label, exact, ids, best, scores, seed)


def recall_many(
    truth: Truth, runs: dict[str, Int64Array], ks: list[int], vectors: Any = None, seed: int = 0
) -> list[Recall]:
    """Every run at every k; `vectors` is (base, queries) or None. The face of `gnomon recall`."""
    from .recall_inputs import with_vectors
    from .recall_measure import measure

    names = list(runs)
    scores: list[Float64Array | None] = [None] * len(names)
    if vectors is not None and names:
        base, queries = vectors
        truth, computed = with_vectors(
            truth, [runs[name] for name in names], base, queries, max(ks)
        )
        scores = list(computed)
    return [
        measure(name, truth, runs[name], k, scores[number], seed)
        for number, name in enumerate(names)
        for k in ks
    ]
