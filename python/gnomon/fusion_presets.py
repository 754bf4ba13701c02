"""The seven formulas that are called reciprocal rank fusion, as data.

Ranks count from 1, places from 0. Each is the arithmetic of the named program in float64, operation
by operation; repeated ids are treated as it treats them. (Qdrant computes in float32.)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Formula:
    """One variant.

    k, first_rank
        An id at place p (from 0) gets weight / (k + p + first_rank).
    equal_weights
        Without weights of the caller's, each of n rankings weighs 1/n instead of 1.
    add_repeats
        An id that stands in one ranking twice counts twice, instead of once at its first rank.
    per_n
        The weight is multiplied by n, and the sum divided by n / k: the highest score is 1.
    weighting
        How a weight enters: "above" is weight / (k + rank); "after" is (1 / (k + rank)) * weight,
        other bits, and a ranking of weight 0 is left out; "rank" is 1 / (rank / weight + k - 1),
        nothing for weight 0, and without weights the same as the others.
    depth
        How many of a ranking count, if not all.
    """

    k: float
    first_rank: int = 1
    equal_weights: bool = False
    add_repeats: bool = False
    per_n: bool = False
    weighting: str = "above"
    depth: int | None = None


PRESETS: dict[str, Formula] = {
    # Cormack, Clarke & Büttcher 2009; ranx, Sentence Transformers; gnomon's default.
    "cormack": Formula(60),
    # EnsembleRetriever: weight / (rank + c).
    "langchain": Formula(60, equal_weights=True, add_repeats=True),
    # QueryFusionRetriever: 1 / (place + k). It sorts each list by score first.
    "llama-index": Formula(60, first_rank=0, add_repeats=True),
    # DocumentJoiner: weight * n / (61 + place), then divided by n / 61.
    "haystack": Formula(61, first_rank=0, equal_weights=True, add_repeats=True, per_n=True),
    # Hybrid search without normalised scores: (1 / (place + 1)) * weight, weights 0.5 and 0.5.
    "txtai": Formula(0, equal_weights=True, weighting="after"),
    # rrf retriever: rank_constant 60, and only rank_window_size of each list, 10 by default.
    "elasticsearch": Formula(60, depth=10),
    # Fusion.RRF: 1 / (place + 2); with weights 1 / ((place + 1) / weight + 2 - 1).
    "qdrant": Formula(2, first_rank=0, weighting="rank"),
}


def preset(name: str) -> Formula:
    """The formula of this name. Raises ValueError listing the names.

    >>> preset("qdrant").k
    2
    """
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name]
