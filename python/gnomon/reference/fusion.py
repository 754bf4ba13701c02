"""Reciprocal rank fusion (Cormack, Clarke & Büttcher, SIGIR 2009).

    score(id) = sum over the rankings that hold it of 1 / (k + rank)          rank = 1, 2, ...

An id counts once per ranking, at its first rank. Reciprocals are added in the order of the
rankings, each addition rounded; with `exact` their sum is rounded once, so that two ids with the
same ranks in other lists tie exactly.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence


def rrf_scores(
    rankings: Sequence[Sequence[Hashable]], k: float = 60, exact: bool = False
) -> dict[Hashable, float]:
    """The score of every id, in order of first appearance (ranking by ranking).

    >>> rrf_scores([["a", "b", "a"], ["b"]])
    {'a': 0.01639344262295082, 'b': 0.03252247488101534}
    """
    scores: dict[Hashable, float] = {}
    parts: dict[Hashable, list[float]] = {}
    for ranking in rankings:
        for rank, doc_id in enumerate(ranking, 1):
            if doc_id not in ranking[: rank - 1]:
                scores[doc_id] = scores.get(doc_id, 0.0) + 1 / (k + rank)
                parts.setdefault(doc_id, []).append(1 / (k + rank))
    return {doc_id: math.fsum(part) for doc_id, part in parts.items()} if exact else scores


def reciprocal_rank_fusion(
    rankings: Sequence[Sequence[Hashable]], k: float = 60, exact: bool = False
) -> list[Hashable]:
    """The ids from high to low score; ties by first appearance.

    >>> reciprocal_rank_fusion([["a", "b"], ["b", "c"]])
    ['b', 'a', 'c']
    """
    scores = rrf_scores(rankings, k, exact)
    appearance = {doc_id: index for index, doc_id in enumerate(scores)}
    return sorted(scores, key=lambda doc_id: (-scores[doc_id], appearance[doc_id]))
