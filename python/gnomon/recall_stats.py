"""Means over queries with honest margins.

The interval of a mean is the percentile bootstrap over queries (Efron & Tibshirani 1993) with a
fixed seed: which queries were drawn is the only randomness there is. A resample of n queries is a
multinomial draw of how often each distinct value occurs. For shares it is Wilson's score interval
(1927), which stays open when every query agrees.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]

RESAMPLES = 10_000
_Z95 = 1.959963984540054
_CHUNK = 1 << 22


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def mean(values: Float64Array) -> float:
    """The mean, summed without rounding in between; NaN of none."""
    return math.fsum(values.tolist()) / len(values) if len(values) else math.nan


def bootstrap(values: Float64Array, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The percentile bootstrap interval of the mean.

    >>> bootstrap(np.array([0.0, 1.0] * 50))
    Interval(low=0.4, high=0.6)
    """
    if not len(values):
        return Interval(math.nan, math.nan)
    distinct, counts = np.unique(values, return_counts=True)
    rng = np.random.default_rng(seed)
    share = counts / counts.sum()
    means = np.empty(resamples)
    step = max(1, _CHUNK // len(distinct))
    for start in range(0, resamples, step):
        drawn = rng.multinomial(len(values), share, size=min(step, resamples - start))
        means[start : start + len(drawn)] = (drawn * distinct).sum(1) / len(values)
    means.sort()
    tail = round(0.025 * resamples)
    return Interval(float(means[tail]), float(means[resamples - 1 - tail]))


def wilson(successes: int, n: int) -> Interval:
    """Wilson's interval of a share.

    >>> wilson(100, 100)
    Interval(low=0.9630065017930143, high=1.0)
    """
    if n == 0:
        return Interval(math.nan, math.nan)
    share, z2 = successes / n, _Z95 * _Z95
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if successes == n else min(1.0, middle + half))


class Difference(NamedTuple):
    """How two runs differ on the same queries: mean of second - first, and its interval."""

    mean: float
    interval: Interval

    @property
    def significant(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.interval.low > 0 or self.interval.high < 0


def paired(first: Float64Array, second: Float64Array, seed: int = 0) -> Difference:
    """The mean difference over the queries that both answered, with its bootstrap interval.

    >>> paired(np.array([0.5, 1.0]), np.array([0.5, 1.0])).significant
    False
    """
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} and {len(second)} queries; runs are compared on the same")
    delta = second - first
    return Difference(mean(delta), bootstrap(delta, seed))
