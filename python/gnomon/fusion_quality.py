"""How good a fused ranking is by judgements: one query, many settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .fusion_tuning import Setting

METRICS = ("ndcg", "mrr", "recall")
_FAR = 2**62


def parse_metric(metric: str) -> tuple[str, int]:
    """`ndcg@10` -> its name and its cut. Raises ValueError.

    >>> parse_metric("ndcg@10")
    ('ndcg', 10)
    """
    match = re.fullmatch(r"([a-z]+)@([1-9]\d{0,8})", metric)
    if match is None or match[1] not in METRICS:
        raise ValueError(f"metric must be ndcg@N, mrr@N or recall@N, got {metric!r}")
    return match[1], int(match[2])


def quality(ranking: Sequence[Any], gains: Mapping[Any, float], metric: str) -> float:
    """The metric of one ranking (trec_eval's definitions). A repeated id counts at its first rank.

    >>> quality(["x", "r"], {"r": 1}, "mrr@10")
    0.5
    """
    name, cut = parse_metric(metric)
    seen: set[Any] = set()
    values = []
    for doc_id in ranking[:cut]:
        values.append(0.0 if doc_id in seen else max(0.0, gains.get(doc_id, 0.0)))
        seen.add(doc_id)
    return _of_gains(values, gains, name, cut)


def _of_gains(values: Sequence[float], gains: Mapping[Any, float], name: str, cut: int) -> float:
    if name == "mrr":
        return next((1 / rank for rank, gain in enumerate(values, 1) if gain > 0), 0.0)
    relevant = sorted((gain for gain in gains.values() if gain > 0), reverse=True)
    if not relevant:
        return 0.0
    if name == "recall":
        return len([gain for gain in values if gain > 0]) / len(relevant)
    return _dcg(values) / _dcg(relevant[:cut])


def _dcg(gains: Sequence[float]) -> float:
    total = 0.0
    for rank, gain in enumerate(gains, 1):
        total += gain / math.log2(rank + 1)
    return total


class Judged:
    """The rankings of one query as a table of ranks, fused under many settings quickly.

    The arithmetic is that of :func:`gnomon.fusion.rrf_scores`, in the same order.
    """

    def __init__(self, rankings: Sequence[Sequence[Any]], gains: Mapping[Any, float]) -> None:
        self._rankings = [list(ranking) for ranking in rankings]
        self._relevance = gains
        number: dict[Any, int] = {}
        for ranking in self._rankings:
            for doc_id in ranking:
                number.setdefault(doc_id, len(number))
        self._ranks = np.full((len(rankings), len(number)), _FAR, np.int64)
        for row, ranking in zip(self._ranks, self._rankings, strict=True):
            for rank, doc_id in enumerate(ranking, 1):
                row[number[doc_id]] = min(row[number[doc_id]], rank)
        self._gains = np.array([max(0.0, gains.get(doc_id, 0.0)) for doc_id in number])

    def values(self, metric: str, settings: Sequence[Setting]) -> list[float]:
        """The metric under each setting."""
        name, cut = parse_metric(metric)
        prepared: dict[int | None, tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]] = {}
        found = []
        for setting in settings:
            if setting.depth not in prepared:
                prepared[setting.depth] = self._at_depth(setting.depth)
            ranks, gains = prepared[setting.depth]
            scores = np.zeros(ranks.shape[1])
            for row, weight in zip(ranks, setting.weights or [1.0] * len(ranks), strict=True):
                scores += np.where(row < _FAR, weight / (setting.k + row), 0.0)
            order = np.argsort(-scores, kind="stable")[:cut]
            found.append(_of_gains(gains[order].tolist(), self._relevance, name, cut))
        return found

    def _at_depth(self, depth: int | None) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Ranks within the depth, and gains, of the ids that appear, in order of appearance."""
        ranks = np.where(self._ranks <= (_FAR if depth is None else depth), self._ranks, _FAR)
        inside: npt.NDArray[np.bool_] = np.less(ranks, _FAR)
        first_list = np.argmax(inside, axis=0)
        first_rank = (
            np.take_along_axis(ranks, first_list[None, :], 0)[0] if ranks.size else first_list
        )
        order = np.lexsort((first_rank, first_list))
        order = order[np.any(inside, axis=0)[order]]
        return ranks[:, order], self._gains[order]

    def single(self, metric: str, number: int) -> float:
        """The metric of one ranking alone."""
        return quality(self._rankings[number], self._relevance, metric)
