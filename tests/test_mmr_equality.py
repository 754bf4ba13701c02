"""MMR, compiled against the reference: the same picks at every level."""

from __future__ import annotations

import gnomon
import numpy as np
import strategies
from gnomon.reference import dense
from gnomon.reference import mmr as reference
from hypothesis import given


@given(strategies.mmr_cases())
def test_picks(level: str, case: strategies.MmrCase) -> None:
    picks = gnomon.mmr(
        case.query_score, case.pair_similarity, case.limit, case.diversity, level=level
    )
    assert picks == reference.mmr(
        case.query_score.tolist(), case.pair_similarity.tolist(), case.limit, case.diversity
    )


@given(strategies.matrices(33, 8), strategies.matrices(1, 8))
def test_picks_from_vectors(
    level: str, rows: strategies.Float32, query: strategies.Float32
) -> None:
    relevance = np.array([dense.cosine(query[0].tolist(), row) for row in rows.tolist()])
    values, indices = gnomon.cosine_topk(rows, rows, len(rows), level=level)
    similarity = np.empty_like(values)
    np.put_along_axis(similarity, indices, values, axis=1)
    picks = gnomon.mmr(relevance, similarity, 5, 0.7, level=level)
    assert picks == reference.mmr_vectors(query[0].tolist(), rows.tolist(), 5, 0.7)


def test_levels_agree_on_many_candidates() -> None:
    rng = np.random.default_rng(2)
    score = rng.integers(-3, 4, 513) / 4.0
    similarity = rng.integers(-3, 4, (513, 513)) / 4.0
    yardstick = gnomon.mmr(score, similarity, 513, 0.4, level="scalar")
    assert sorted(yardstick) == list(range(513))
    for level in gnomon.levels():
        assert gnomon.mmr(score, similarity, 513, 0.4, level=level) == yardstick
