"""Recall of one result list against exact neighbours, when scores tie.

d is the score of the k-th exact neighbour, S the ids that are strictly better (m < k of them), B
the ids that have exactly d. Of a returned list, R is the set of distinct valid ids in its first k
places.

    recall@k = ( |R and S| + min(|R and B|, k - m) ) / min(k, N)

It is 1 if and only if R is *an* exact top k, never above 1, and does not depend on which of the
tied ids the truth happened to keep. A place that repeats an id, holds -1, or an id that the base
does not have, is a miss. Where the truth ends inside B and does not say who else is in it, an id
that it does not know may be worse or in B: the recall lies between two numbers.

The other definitions in use are here to be shown beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

ANN_BENCHMARKS_EPSILON = 1e-3
BIG_ANN_EPSILON = 1e-6


def distinct_valid(returned: Sequence[int], k: int, n_base: int | None = None) -> list[int]:
    """The ids that count, of the first k places.

    >>> distinct_valid([4, 4, -1, 9, 2], 4, n_base=9)
    [4]
    """
    kept: list[int] = []
    for doc_id in returned[:k]:
        valid = doc_id >= 0 and (n_base is None or doc_id < n_base)
        if valid and doc_id not in kept:
            kept.append(doc_id)
    return kept


def hits_at_k(
    truth: Sequence[int],
    scores: Sequence[float],
    returned: Sequence[int],
    k: int,
    n_base: int | None = None,
    tied_beyond: Sequence[int] = (),
    complete: bool = False,
) -> tuple[int, int, int]:
    """(fewest hits, most hits, hits possible) of one query.

    `truth` and `scores` are the exact neighbours, best first, at least k of them or all there are;
    `tied_beyond` further ids with the score of the last one; `complete` says that those are all.

    >>> hits_at_k([7, 3, 5], [0.9, 0.5, 0.5], [7, 5], k=2)
    (2, 2, 2)
    >>> hits_at_k([7, 3], [0.9, 0.5], [7, 5], k=2)
    (1, 2, 2)
    """
    places = min(k, len(truth))
    if places == 0:
        return 0, 0, 0
    threshold = scores[places - 1]
    better = [doc_id for doc_id, score in zip(truth, scores, strict=True) if score > threshold]
    tied = [doc_id for doc_id, score in zip(truth, scores, strict=True) if score == threshold]
    group_reaches_end = scores[-1] == threshold
    if group_reaches_end:
        tied = tied + list(tied_beyond)
    knows_all = not group_reaches_end or complete or (n_base is not None and len(truth) >= n_base)
    kept = distinct_valid(returned, k, n_base)
    in_better = 0
    in_tied = 0
    unknown = 0
    for doc_id in kept:
        if doc_id in better:
            in_better += 1
        elif doc_id in tied:
            in_tied += 1
        elif doc_id not in truth and not knows_all:
            unknown += 1
    room = places - len(better)
    return in_better + min(in_tied, room), in_better + min(in_tied + unknown, room), places


def strict_hits(
    truth: Sequence[int], returned: Sequence[int], k: int, n_base: int | None = None
) -> int:
    """Ids of the first k exact neighbours that are in R: set overlap, blind to ties.

    >>> strict_hits([7, 3, 5], [7, 5], k=2)
    1
    """
    wanted = list(truth[:k])
    return len([doc_id for doc_id in distinct_valid(returned, k, n_base) if doc_id in wanted])


def ann_benchmarks_hits(
    distances: Sequence[float],
    returned: Sequence[float],
    k: int,
    epsilon: float = ANN_BENCHMARKS_EPSILON,
) -> int:
    """Places whose distance is at most that of the k-th neighbour plus epsilon; repeats count.

    >>> ann_benchmarks_hits([0.1, 0.2], [0.1, 0.1], k=2)
    2
    """
    threshold = distances[k - 1] + epsilon
    return len([distance for distance in returned[:k] if distance <= threshold])


def big_ann_hits(
    truth: Sequence[int], distances: Sequence[float], returned: Sequence[int], k: int
) -> int:
    """Set overlap with the first k neighbours and those behind within 1e-6 of the k-th.

    >>> big_ann_hits([7, 3, 5], [0.1, 0.2, 0.2], [3, 5], k=2)
    2
    """
    end = k
    while end < len(truth) and abs(distances[k - 1] - distances[end]) < BIG_ANN_EPSILON:
        end += 1
    return len(set(truth[:end]) & set(returned[:k]))
