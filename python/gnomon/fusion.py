"""Reciprocal rank fusion: one ranking from many, by ranks alone: scores of rankers do not compare.

    score(id) = sum over the rankings that hold it of 1 / (k + rank)          rank = 1, 2, ...

Cormack, Clarke & Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank
learning methods", SIGIR 2009, with their k = 60. The variants of other programs are in
``gnomon.fusion_presets``; which k and depth suit your data, :func:`gnomon.tune_fusion` measures.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice
from typing import TypeVar

from .arrays import as_count
from .fusion_presets import Formula, preset

Id = TypeVar("Id", bound=Hashable)


def rrf_scores(
    rankings: Iterable[Iterable[Id]],
    k: float = 60,
    *,
    exact: bool = False,
    weights: Sequence[float] | None = None,
    depth: int | None = None,
    preset: str | None = None,
) -> dict[Id, float]:
    """The fused score of every id, in order of first appearance (ranking by ranking).

    Parameters and errors as in ``reciprocal_rank_fusion``.

    >>> rrf_scores([["a", "b", "a"], ["b"]])
    {'a': 0.01639344262295082, 'b': 0.03252247488101534}
    """
    formula = _formula(k, preset, depth)
    if isinstance(rankings, str):
        raise TypeError("rankings must be a list of rankings, got one str")
    lists = list(rankings)
    factors = _factors(weights, len(lists), formula)
    parts: dict[Id, list[float]] = {}
    for number, (ranking, factor) in enumerate(zip(lists, factors, strict=True)):
        if formula.weighting == "after" and factor == 0:
            continue
        seen: set[Id] = set()
        for rank, doc_id in enumerate(islice(_ids(ranking, number), formula.depth), 1):
            try:
                repeated = doc_id in seen
            except TypeError as error:
                place = f"rankings[{number}], rank {rank}"
                raise TypeError(f"{place}: ids must be hashable, got {doc_id!r}") from error
            if formula.add_repeats or not repeated:
                seen.add(doc_id)
                parts.setdefault(doc_id, []).append(_part(formula, rank, factor))
    best = len(lists) / formula.k if formula.per_n else 1.0
    return {doc_id: _sum(part, exact) / best for doc_id, part in parts.items()}


def reciprocal_rank_fusion(
    rankings: Iterable[Iterable[Id]],
    k: float = 60,
    *,
    exact: bool = False,
    weights: Sequence[float] | None = None,
    depth: int | None = None,
    preset: str | None = None,
) -> list[Id]:
    """Fuse rankings of ids into one list, best first.

    `rankings` holds rankings, best first, of hashable ids (or integer arrays, of numpy or torch,
    whose ids come back as int). An id counts once per ranking, at its first rank; a ranking that
    lacks it adds nothing. `k` damps the lead of the first ranks. Ties stand in order of first
    appearance.

    `weights`, one a ranking, take the place of the numerator 1. `depth` is how many ids of each
    ranking count. `preset` names the formula of another program, which decides k and what becomes
    of a repeated id: ``cormack``, ``langchain``, ``llama-index``, ``haystack``, ``txtai``,
    ``elasticsearch``, ``qdrant`` (``gnomon.fusion_presets``).

    Reciprocals are added in the order of the rankings, each addition rounded: the written order.
    Ids with the ranks 1, 2, 7 and 7, 1, 2 may then differ in the last bit; ``exact=True`` sums
    without rounding (``math.fsum``), so that they tie whatever the order of the lists.

    Raises ValueError when `k` is not a finite number above -1, for weights that are negative, not
    finite or not one a ranking, and for `k` beside a `preset`; TypeError for an id that is not
    hashable or a str in place of a ranking.

    >>> reciprocal_rank_fusion([["a", "b"], ["b", "c"]])
    ['b', 'a', 'c']
    >>> reciprocal_rank_fusion([["a", "b"], ["b", "c"]], weights=[3, 0])
    ['a', 'b', 'c']
    """
    scores = rrf_scores(rankings, k, exact=exact, weights=weights, depth=depth, preset=preset)
    return sorted(scores, key=scores.__getitem__, reverse=True)  # stable: ties keep their order


def max_score_fusion(lists: Iterable[Iterable[tuple[Id, float]]]) -> list[tuple[Id, float]]:
    """Fuse lists of (id, score) by the highest score of each id, best first.

    For scores that compare, such as the same ranker's for several wordings of a query. Ties stand
    in order of first appearance. Raises ValueError for a score that is not a number.

    >>> max_score_fusion([[("a", 0.9)], [("a", 0.2), ("b", 0.5)]])
    [('a', 0.9), ('b', 0.5)]
    """
    best: dict[Id, float] = {}
    for number, entries in enumerate(lists):
        for doc_id, score in entries:
            if math.isnan(score):
                raise ValueError(f"lists[{number}]: the score of {doc_id!r} is not a number")
            best[doc_id] = max(best.get(doc_id, -math.inf), score)
    return sorted(best.items(), key=lambda entry: entry[1], reverse=True)


def _formula(k: float, name: str | None, depth: int | None) -> Formula:
    try:
        fits = math.isfinite(k) and k + 1 > 0
    except OverflowError:  # an int beyond float64
        fits = False
    if not fits:
        raise ValueError(f"k must be a finite number above -1, so that k + rank > 0; got {k}")
    limit = None if depth is None else as_count(depth, "depth", 1)
    if name is None:
        return Formula(k, depth=limit)
    if k != 60:
        raise ValueError(f"preset {name!r} decides k; got k={k} as well: give one of them")
    formula = preset(name)
    values = {**vars(formula), "depth": formula.depth if limit is None else limit}
    return Formula(**values)


def _factors(weights: Sequence[float] | None, n: int, formula: Formula) -> list[float]:
    """What stands above the fraction, for each ranking."""
    if weights is None:
        given: list[float] = [1 / n if formula.equal_weights else 1] * n
    else:
        given = list(weights)
        if len(given) != n:
            raise ValueError(f"weights has {len(given)} entries for {n} rankings")
        for number, weight in enumerate(given):
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"weights[{number}] must be finite and at least 0, got {weight}")
    return [weight * n for weight in given] if formula.per_n else given


def _part(formula: Formula, rank: int, factor: float) -> float:
    """What one ranking adds to an id's score."""
    if formula.weighting == "rank":
        return 0.0 if factor == 0 else 1 / (rank / factor + formula.k - 1)
    divisor = formula.k + (rank - 1 + formula.first_rank)
    return 1 / divisor * factor if formula.weighting == "after" else factor / divisor


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
