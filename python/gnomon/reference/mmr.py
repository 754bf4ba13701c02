"""Maximal marginal relevance (Carbonell & Goldstein 1998), greedy.

The first pick has the highest relevance. Every later one is the candidate i with the greatest

    diversity * relevance[i] - (1 - diversity) * max over the picks j of similarity[i][j]

Ties go to the lower index. The maximum runs over the picks alone, so it may be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.reference.dense import cosine, to_float32


def mmr(
    query_score: Sequence[float],
    pair_similarity: Sequence[Sequence[float]],
    limit: int,
    diversity: float = 0.5,
) -> list[int]:
    """The picks, in the order in which they were made, at most `limit`; none when `limit` <= 0.

    Raises ValueError when `diversity` is outside [0, 1] or `pair_similarity` is not N x N.

    >>> mmr([1.0, 0.95, 0.8], [[1.0, 0.99, 0.1], [0.99, 1.0, 0.2], [0.1, 0.2, 1.0]], limit=2)
    [0, 2]
    """
    n = len(query_score)
    if len(pair_similarity) != n or any(len(row) != n for row in pair_similarity):
        raise ValueError(f"pair_similarity must be {n} x {n}, as query_score has {n} entries")
    return _greedy(query_score, lambda i, j: pair_similarity[i][j], limit, diversity)


def mmr_vectors(
    query: Sequence[float],
    vectors: Sequence[Sequence[float]],
    limit: int,
    diversity: float = 0.5,
    relevance: Sequence[float] | None = None,
    selected: Sequence[int] = (),
    penalty: str = "all",
) -> list[int]:
    """The same picks from vectors: relevance and similarity are the canonical cosine.

    `relevance` replaces the cosine to the query; `selected` were picked before; `penalty="last"`
    counts the similarity to the latest pick only (LlamaIndex's rule).

    >>> mmr_vectors([1.0, 0.2], [[1.0, 0.1], [1.0, 0.05], [0.6, 0.8]], limit=2)
    [0, 2]
    """
    rows = [to_float32(vector) for vector in vectors]
    if relevance is None:
        q = to_float32(query)
        relevance = [cosine(q, row) for row in rows]

    def similarity(i: int, j: int) -> float:
        return cosine(rows[i], rows[j])

    return _greedy(relevance, similarity, limit, diversity, selected, penalty)


def _greedy(
    relevance: Sequence[float],
    similarity: Callable[[int, int], float],
    limit: int,
    diversity: float,
    selected: Sequence[int] = (),
    penalty: str = "all",
) -> list[int]:
    if not 0 <= diversity <= 1:
        raise ValueError(f"diversity must be in [0, 1], got {diversity}")
    picks = list(selected)
    while len(picks) < min(len(selected) + limit, len(relevance)):
        best = -1
        best_score = 0.0
        for i in range(len(relevance)):
            if i in picks:
                continue
            if picks:
                against = picks[-1:] if penalty == "last" else picks
                redundancy = max(similarity(i, j) for j in against)
                score = diversity * relevance[i] - (1 - diversity) * redundancy
            else:
                score = relevance[i]
            if best < 0 or score > best_score:  # ascending i: a tie keeps the lower index
                best, best_score = i, score
        picks.append(best)
    return picks[len(selected) :]
