"""Reciprocal rank fusion: one ranking from many, by ranks alone: scores of rankers do not compare.

    score(id) = sum over the rankings that hold it of 1 / (k + rank)          rank = 1, 2, ...

Cormack, Clarke & Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank
learning methods", SIGIR 2009, with their k = 60.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import TypeVar

Id = TypeVar("Id", bound=Hashable)


def rrf_scores(
    rankings: Iterable[Iterable[Id]], k: float = 60, *, exact: bool = False
) -> dict[Id, float]:
    """The fused score of every id, in order of first appearance (ranking by ranking).

    Parameters and errors as in ``reciprocal_rank_fusion``.

    >>> rrf_scores([["a", "b", "a"], ["b"]])
    {'a': 0.01639344262295082, 'b': 0.03252247488101534}
    """
    try:
        fits = math.isfinite(k) and k + 1 > 0
    except OverflowError:  # an int beyond float64
        fits = False
    if not fits:
        raise ValueError(f"k must be a finite number above -1, so that k + rank > 0; got {k}")
    if isinstance(rankings, str):
        raise TypeError("rankings must be a list of rankings, got one str")
    parts: dict[Id, list[float]] = {}
    for number, ranking in enumerate(rankings):
        seen: set[Id] = set()
        for rank, doc_id in enumerate(_ids(ranking, number), 1):
            try:
                repeated = doc_id in seen
            except TypeError as error:
                place = f"rankings[{number}], rank {rank}"
                raise TypeError(f"{place}: ids must be hashable, got {doc_id!r}") from error
            if not repeated:
                seen.add(doc_id)
                parts.setdefault(doc_id, []).append(1 / (k + rank))
    return {doc_id: _sum(part, exact) for doc_id, part in parts.items()}


def reciprocal_rank_fusion(
    rankings: Iterable[Iterable[Id]], k: float = 60, *, exact: bool = False
) -> list[Id]:
    """Fuse rankings of ids into one list, best first.

    `rankings` holds rankings, best first, of hashable ids (or integer arrays, of numpy or torch,
    whose ids come back as int). An id counts once per ranking, at its first rank; a ranking that
    lacks it adds nothing. `k` damps the lead of the first ranks. Ties stand in order of first
    appearance.

    Reciprocals are added in the order of the rankings, each addition rounded: the written order.
    Ids with the ranks 1, 2, 7 and 7, 1, 2 may then differ in the last bit; ``exact=True`` sums
    without rounding (``math.fsum``), so that they tie whatever the order of the lists.

    Raises ValueError when `k` is not a finite number above -1, and TypeError for an id that is not
    hashable or a str in place of a ranking.

    >>> reciprocal_rank_fusion([["a", "b"], ["b", "c"]])
    ['b', 'a', 'c']
    """
    scores = rrf_scores(rankings, k, exact=exact)
    return sorted(scores, key=scores.__getitem__, reverse=True)  # stable: ties keep their order


def _ids(ranking: Iterable[Id], number: int) -> Iterable[Id]:
    if isinstance(ranking, str):
        raise TypeError(f"rankings[{number}] must be a list of ids, got the str {ranking!r}")
    # The elements of a torch tensor hash by identity: no id would meet itself in another ranking.
    to_list = getattr(ranking, "tolist", None)
    ids: Iterable[Id] = ranking if to_list is None else to_list()
    return ids


def _sum(parts: list[float], exact: bool) -> float:
    if exact:
        return math.fsum(parts)
    total = 0.0
    for part in parts:  # not sum(), which compensates since Python 3.12
        total += part
    return total
