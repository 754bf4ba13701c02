"""Fewer passages that say the same: near duplicates behind the first of them, and MMR.

Both look at the first `POOL` passages of a ranking and change their order or leave some out; no
score changes. Near duplicates are those of `gnomon.corpus.near_duplicates` (Jaccard similarity of
five-word shingles of 0.9 or more, found exactly). MMR (Carbonell and Goldstein, SIGIR 1998) takes
the cosine of two passages' vectors as their similarity, or without vectors the Jaccard similarity
of their shingles, and as relevance the score over the best score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..mmr import mmr
from .answers import Same
from .near_duplicates import jaccard, near_duplicates, shingles_of
from .ranking import Ranking

if TYPE_CHECKING:
    from .engine import Engine
    from .model import Chunk

POOL = 1000  # passages among which near duplicates are looked for
MMR_POOL = 50
NEAR = 0.9


def collapse_near(engine: Engine, ranking: Ranking) -> dict[int, list[int]]:
    """Keeps of each cluster the passage that ranks best; returns the others by it, in order."""
    chunks = _chunks(engine, ranking.slots)
    heads = near_duplicates([chunk.text for chunk in chunks], NEAR)
    behind: dict[int, list[int]] = {}
    for place, head in enumerate(heads):
        if place != head:
            behind.setdefault(ranking.slots[head], []).append(ranking.slots[place])
    kept = [place for place, head in enumerate(heads) if place == head]
    ranking.reordered(kept, False)
    return behind


def same_as(engine: Engine, slots: list[int]) -> tuple[Same, ...]:
    """How an item names the near duplicates behind it."""
    snapshot = engine.snapshot
    named = []
    for chunk in _chunks(engine, slots):
        document = snapshot.document(chunk.doc_id)
        named.append(Same(chunk.id, document.source, document.path, chunk.span))
    return tuple(named)


def diversified(engine: Engine, ranking: Ranking, diversity: float) -> None:
    """The first MMR_POOL passages in the order of MMR; those behind stay as they are."""
    pool = ranking.slots[:MMR_POOL]
    best = max(ranking.scores[: len(pool)], default=0.0)
    if len(pool) < 2 or best <= 0:
        return
    relevance = [max(score, 0.0) / best for score in ranking.scores[: len(pool)]]
    similarity = _similarity(engine, pool)
    order = list(mmr(relevance, similarity, limit=len(pool), diversity=diversity))
    ranking.reordered([*order, *range(len(pool), len(ranking.slots))], ranking.more)


def _similarity(engine: Engine, slots: list[int]) -> Any:
    rows = engine.vectors_of(slots)
    if rows is not None:
        found = rows @ rows.T
        return np.clip((found + found.T) / 2, -1.0, 1.0)
    sets = shingles_of([chunk.text for chunk in _chunks(engine, slots)])
    matrix = np.eye(len(slots))
    for one, first in enumerate(sets):
        for other in range(one):
            matrix[one, other] = matrix[other, one] = jaccard(sets[other], first)
    return matrix


def _chunks(engine: Engine, slots: list[int]) -> list[Chunk]:
    cids = np.asarray(engine.slots.cids(np.array(slots, dtype=np.int64)))
    return engine.snapshot.at(cids)
