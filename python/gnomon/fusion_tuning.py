"""Which k, depth and weights of reciprocal rank fusion suit judged data, honestly measured.

The best of many settings always looks good on the queries that chose it. So settings are chosen on
some queries and measured on others (cross-validation), and what comes out is compared with the
default on the same queries. Unless that difference is beyond chance, the default is recommended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import as_count
from .fusion_quality import Judged, parse_metric
from .recall_stats import Difference, Interval, bootstrap, mean, paired

Float64Array = npt.NDArray[np.float64]

KS = (0, 1, 2, 5, 10, 20, 40, 60, 100, 200, 500)
DEPTHS = (10, 20, 50, 100, None)


class Setting(NamedTuple):
    """What gnomon.reciprocal_rank_fusion takes; weights None: all alike, depth None: all."""

    k: float
    depth: int | None
    weights: tuple[float, ...] | None

    def __str__(self) -> str:
        """In words."""
        weights = "" if self.weights is None else f", weights={list(self.weights)}"
        return f"k={self.k:g}, depth={'all' if self.depth is None else self.depth}{weights}"


DEFAULT = Setting(60, None, None)


@dataclass(frozen=True)
class FusionTuning:
    """What :func:`tune_fusion` found.

    held_out
        Mean of the metric over all queries, each fused by the setting chosen without it.
    default, single
        Means of the default setting, and of each ranking alone.
    difference
        held_out - default on the same queries, with its 95 % interval.
    best, in_sample
        The setting that is best on all queries, and its mean there: too good to be true by
        ``in_sample - held_out``.
    chosen
        What each fold chose: settings that differ much say that the data cannot tell them apart.
    unanswered
        Judged queries that no run has; they count 0 whatever the setting.
    recommended
        ``best`` if the difference is significant and positive, else the default.
    """

    metric: str
    queries: int
    held_out: float
    default: float
    single: tuple[float, ...]
    difference: Difference
    default_interval: Interval
    best: Setting
    in_sample: float
    chosen: tuple[Setting, ...]
    settings: int
    unanswered: int

    @property
    def significant(self) -> bool:
        """Whether tuning beat the default beyond chance."""
        return self.difference.significant and self.difference.mean > 0

    @property
    def recommended(self) -> Setting:
        """What to use."""
        return self.best if self.significant else DEFAULT

    def lines(self) -> list[str]:
        """The finding in sentences."""
        low, high = self.difference.interval
        kinds = len(set(self.chosen))
        verdict = (
            f"significant: use {self.recommended}"
            if self.significant
            else f"not an improvement beyond chance: keep the default, {DEFAULT}"
        )
        return [
            f"{self.metric} over {self.queries} judged queries, {self.settings} settings",
            *([f"{self.unanswered} of them are in no run and count 0"] if self.unanswered else []),
            *(f"ranking {n} alone: {value:.4f}" for n, value in enumerate(self.single, 1)),
            f"default ({DEFAULT}): {self.default:.4f} "
            f"[{self.default_interval.low:.4f}, {self.default_interval.high:.4f}]",
            f"tuned, on queries that did not choose: {self.held_out:.4f}",
            f"difference: {self.difference.mean:+.4f} [{low:+.4f}, {high:+.4f}] (95 %, paired "
            "bootstrap over queries)",
            f"best on all queries: {self.best} with {self.in_sample:.4f}, of which "
            f"{self.in_sample - self.held_out:.4f} is the luck of choosing",
            f"{len(self.chosen)} folds chose {kinds} different settings",
            verdict,
        ]

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain JSON types."""
        return {
            "metric": self.metric,
            "queries": self.queries,
            "unanswered": self.unanswered,
            "settings": self.settings,
            "default": self.default,
            "default_interval95": list(self.default_interval),
            "single": list(self.single),
            "held_out": self.held_out,
            "difference": self.difference.mean,
            "difference_interval95": list(self.difference.interval),
            "significant": self.significant,
            "best": self.best._asdict(),
            "in_sample": self.in_sample,
            "chosen": [setting._asdict() for setting in self.chosen],
            "recommended": self.recommended._asdict(),
        }


def tune_fusion(
    runs: Sequence[Mapping[Any, Sequence[Any]]],
    judgements: Mapping[Any, Mapping[Any, float]],
    *,
    metric: str = "ndcg@10",
    ks: Iterable[float] = KS,
    depths: Iterable[int | None] = DEPTHS,
    weights: Iterable[Sequence[float]] | int | None = None,
    folds: int = 5,
    seed: int = 0,
) -> FusionTuning:
    """Choose k, depth and weights of reciprocal rank fusion on judged queries.

    Parameters
    ----------
    runs
        Two or more rankers: for each, query id -> ranking of document ids, best first.
    judgements
        Query id -> document id -> gain; above 0 is relevant. Queries without a relevant document
        tell nothing and are left out.
    metric
        ``ndcg@N`` (gain / log2(rank + 1), as trec_eval), ``mrr@N`` or ``recall@N``.
    ks, depths
        What to try; None as a depth stands for whole rankings.
    weights
        None: all rankings alike. A list of weightings, or for a number n all that sum to 1 in steps
        of 1/n.
    folds, seed
        Of the cross-validation.

    Raises
    ------
    ValueError
        Fewer than two runs, fewer judged queries than folds, runs that have none of them, unknown
        metric, weights or ks that fusion would refuse.

    Examples
    --------
    >>> import gnomon
    >>> runs = [{q: ["x", "r"] for q in range(10)}, {q: ["y", "r"] for q in range(10)}]
    >>> found = gnomon.tune_fusion(runs, {q: {"r": 1} for q in range(10)}, metric="mrr@10")
    >>> found.default, found.significant, str(found.recommended)
    (1.0, False, 'k=60, depth=all')
    """
    parse_metric(metric)
    queries = [q for q, gains in judgements.items() if any(gain > 0 for gain in gains.values())]
    folds, n = as_count(folds, "folds", 2), len(queries)
    if len(runs) < 2:
        raise ValueError(f"runs must hold two rankers or more, got {len(runs)}")
    if n < folds:
        raise ValueError(f"{n} queries with a relevant document are too few for {folds} folds")
    unanswered = sum(not any(q in run for run in runs) for q in queries)
    if unanswered == n:
        raise ValueError(
            f"the runs have none of the judged queries, such as {queries[0]!r}; are the ids alike?"
        )
    settings = _settings(len(runs), ks, depths, weights)
    judged = [Judged([run.get(q, ()) for run in runs], judgements[q]) for q in queries]
    table = np.array([judge.values(metric, settings) for judge in judged]).T  # [setting, query]
    order = np.random.default_rng(seed).permutation(n)
    held_out, chosen = np.empty(n), []
    for fold in range(folds):
        inside = order[fold::folds]
        outside = np.setdiff1d(order, inside)
        best = int(np.argmax(table[:, outside].mean(axis=1)))  # the first: nearest to the default
        held_out[inside] = table[best, inside]
        chosen.append(settings[best])
    means = table.mean(axis=1)
    best = int(np.argmax(means))
    single = [
        np.array([judge.single(metric, number) for judge in judged]) for number in range(len(runs))
    ]
    return FusionTuning(
        metric,
        n,
        mean(held_out),
        mean(table[0]),
        tuple(mean(values) for values in single),
        paired(table[0], held_out, seed),
        bootstrap(table[0], seed),
        settings[best],
        mean(table[best]),
        tuple(chosen),
        len(settings),
        unanswered,
    )


def _settings(
    n_runs: int,
    ks: Iterable[float],
    depths: Iterable[int | None],
    weights: Iterable[Sequence[float]] | int | None,
) -> list[Setting]:
    """All settings to try, the default first, the others by how far they are from it."""
    weightings: list[tuple[float, ...] | None] = [None]
    if isinstance(weights, int):
        weightings += list(_simplex(n_runs, as_count(weights, "weights", 1)))
    elif weights is not None:
        weightings += [tuple(map(float, weighting)) for weighting in weights]
    for weighting in weightings:
        if weighting is None:
            continue
        fits = len(weighting) == n_runs and all(math.isfinite(w) and w >= 0 for w in weighting)
        if not fits or not any(weighting):
            raise ValueError(
                f"weights must be {n_runs} finite numbers of at least 0, not all 0; got {weighting}"
            )
    limits = [None if depth is None else as_count(depth, "depth", 1) for depth in depths]
    values = list(ks)
    for k in values:
        if not (math.isfinite(k) and k > -1):
            raise ValueError(f"k must be a finite number above -1, got {k}")
    found = [Setting(k, depth, w) for w in weightings for depth in limits for k in values]
    distance = {
        setting: (
            setting.weights is not None,
            setting.depth is not None,
            abs(math.log((setting.k + 1) / 61)),
        )
        for setting in found
    }
    return [DEFAULT, *sorted(set(found) - {DEFAULT}, key=lambda s: (*distance[s], str(s)))]


def _simplex(n: int, steps: int) -> Iterable[tuple[float, ...]]:
    """All weightings of n rankings in steps of 1/steps that sum to 1."""
    if n == 1:
        yield (1.0,)
        return

    def parts(left: int, places: int) -> Iterable[tuple[int, ...]]:
        if places == 1:
            yield (left,)
            return
        for first in range(left + 1):
            for rest in parts(left - first, places - 1):
                yield (first, *rest)

    for counts in parts(steps, n):
        if len(set(counts)) > 1:  # all alike is the default
            yield tuple(count / steps for count in counts)
