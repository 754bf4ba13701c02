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


def preset_scores(
    rankings: Sequence[Sequence[Hashable]], name: str, weights: Sequence[float] | None = None
) -> dict[Hashable, float]:
    """The scores of another program's formula, written out as that program computes them.

    >>> preset_scores([["a", "b"], ["b"]], "haystack")["b"]
    0.9919354838709679
    """
    n = len(rankings)
    one = [1.0] * n if weights is None else list(weights)
    equal = [1 / n] * n if weights is None else list(weights)
    scores: dict[Hashable, float] = {}
    for number, ranking in enumerate(rankings):
        for place, doc_id in enumerate(ranking):
            before = scores.get(doc_id, 0.0)
            again = doc_id in ranking[:place]
            if name == "langchain":
                scores[doc_id] = before + equal[number] / ((place + 1) + 60)
            elif name == "llama-index":
                scores[doc_id] = before + one[number] / (place + 60.0)
            elif name == "haystack":
                scores[doc_id] = before + (equal[number] * n) / (61 + place)
            elif name == "txtai" and not again and equal[number] > 0:
                scores[doc_id] = before + (1.0 / (place + 1)) * equal[number]
            elif name == "elasticsearch" and not again and place < 10:
                scores[doc_id] = before + one[number] / (60 + (place + 1))
            elif name == "qdrant" and not again and one[number] == 0:
                scores[doc_id] = before
            elif name == "qdrant" and not again:
                scores[doc_id] = before + 1.0 / ((place + 1) / one[number] + 2.0 - 1.0)
            elif name == "cormack" and not again:
                scores[doc_id] = before + one[number] / (60 + (place + 1))
    if name == "haystack":
        for doc_id in scores:
            scores[doc_id] /= n / 61
    return scores
