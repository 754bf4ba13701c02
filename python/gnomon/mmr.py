"""Maximal marginal relevance: results that are relevant and not copies of each other."""

from __future__ import annotations

from typing import Any

from . import _core
from .arrays import as_count, as_float64


def mmr(
    query_score: Any,
    pair_similarity: Any,
    limit: int,
    diversity: float = 0.5,
    *,
    level: str | None = None,
) -> list[int]:
    """Picks up to ``limit`` candidates, greedily, by relevance and novelty.

    First the candidate with the highest query score; then, again and again, the one with the
    greatest ``diversity * query_score[i] - (1 - diversity) * max(pair_similarity[i, j])`` over the
    selected j (Carbonell & Goldstein, SIGIR 1998). Ties go to the lower index. All arithmetic is
    float64; the picks equal those of ``gnomon.reference.mmr`` on every machine.

    Parameters
    ----------
    query_score
        [N] real numbers (numpy array, torch tensor, list).
    pair_similarity
        [N, N] real numbers; ``[i, j]`` is the similarity of candidate i to candidate j. It need not
        be symmetric. Negative similarity counts as it stands.
    limit
        How many to pick at most; 0 or less picks none.
    diversity
        Between 0 (novelty only) and 1 (relevance only).
    level
        Kernel level to use (see :func:`gnomon.levels`); the picks do not depend on it.

    Returns
    -------
    list of int
        Indices in the order they were picked.

    Raises
    ------
    ValueError
        Shapes that do not fit, diversity outside [0, 1], NaN or infinite values (with their place).
    TypeError
        Arguments that are not real numbers.

    Examples
    --------
    >>> import gnomon
    >>> relevance = [1.0, 0.95, 0.8]
    >>> similarity = [[1.0, 0.99, 0.1], [0.99, 1.0, 0.2], [0.1, 0.2, 1.0]]
    >>> gnomon.mmr(relevance, similarity, limit=2)
    [0, 2]
    """
    relevance = as_float64(query_score, "query_score")
    similarity = as_float64(pair_similarity, "pair_similarity")
    if relevance.size == 0 and similarity.size == 0 and relevance.ndim == 1:
        similarity = similarity.reshape(0, 0)
    if relevance.ndim != 1 or similarity.shape != (relevance.shape[0],) * 2:
        raise ValueError(
            f"invalid MMR inputs: query_score must be [N] and pair_similarity [N, N], "
            f"got {list(relevance.shape)} and {list(similarity.shape)}"
        )
    wanted = min(max(as_count(limit, "limit", least=None), 0), relevance.shape[0])
    picks = _core.mmr(relevance, similarity, wanted, float(diversity), level or "")
    return [int(i) for i in picks]
