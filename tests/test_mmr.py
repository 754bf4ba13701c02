"""mmr against the reference: the same picks at every level."""

from __future__ import annotations

import gnomon
import numpy as np
from gnomon.reference import mmr as reference
from hypothesis import given
from strategies import MmrCase, mmr_cases


@given(mmr_cases())
def test_picks_equal_the_reference(level: str, case: MmrCase) -> None:
    picks = gnomon.mmr(
        case.query_score, case.pair_similarity, case.limit, case.diversity, level=level
    )
    assert picks == reference.mmr(
        case.query_score.tolist(), case.pair_similarity.tolist(), case.limit, case.diversity
    )


def test_levels_agree_on_many_candidates() -> None:
    rng = np.random.default_rng(2)
    score = rng.integers(-3, 4, 513) / 4.0
    similarity = rng.integers(-3, 4, (513, 513)) / 4.0
    yardstick = gnomon.mmr(score, similarity, 513, 0.4, level="scalar")
    assert sorted(yardstick) == list(range(513))
    for level in gnomon.levels():
        assert gnomon.mmr(score, similarity, 513, 0.4, level=level) == yardstick
