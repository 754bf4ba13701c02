"""MMR, compiled against the reference: the same picks at every level."""

from __future__ import annotations

import gnomon
import numpy as np
import pytest
import strategies
from gnomon.reference import dense
from gnomon.reference import mmr as reference
from hypothesis import given
from hypothesis import strategies as st


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


@given(
    strategies.matrices(33, 8),
    strategies.matrices(2, 8),
    st.sampled_from((0.0, 0.3, 0.5, 0.7, 1.0)),
    st.sampled_from((0, 1, 5, 40)),
    st.sampled_from(("all", "last")),
    st.lists(st.integers(0, 32), max_size=3, unique=True),
    st.booleans(),
)
def test_lazy_picks_from_vectors(
    level: str,
    rows: strategies.Float32,
    queries: strategies.Float32,
    diversity: float,
    limit: int,
    penalty: str,
    selected: list[int],
    given_relevance: bool,
) -> None:
    relevance = np.random.default_rng(4).integers(0, 4, 33) / 4.0 if given_relevance else None
    expected = [
        reference.mmr_vectors(
            query,
            rows.tolist(),
            limit,
            diversity,
            None if relevance is None else relevance.tolist(),
            selected,
            penalty,
        )
        for query in queries.tolist()
    ]
    common = {"selected": selected, "penalty": penalty, "level": level}
    alone = gnomon.mmr_vectors(queries[0], rows, limit, diversity, relevance=relevance, **common)
    assert alone == expected[0]
    if relevance is None:
        common["selected"] = [selected, selected]
        assert gnomon.mmr_vectors(queries, rows, limit, diversity, threads=2, **common) == expected


def test_pages_continue_where_the_last_one_ended() -> None:
    rng = np.random.default_rng(8)
    rows, query = rng.standard_normal((200, 16)), rng.standard_normal(16)
    whole, scores = gnomon.mmr_vectors(query, rows, 60, 0.6, return_scores=True)
    pages: list[int] = []
    for _ in range(3):
        pages += gnomon.mmr_vectors(query, rows, 20, 0.6, selected=pages)
    assert pages == whole
    assert len(scores) == 60
    assert scores[1:] == sorted(scores[1:], reverse=True)


def test_earlier_picks_belong_to_their_queries() -> None:
    rows = np.eye(4, dtype=np.float32)
    own = gnomon.mmr_vectors(rows[:3], rows, 4, selected=[[0], [], [2, 3]])
    assert [sorted(picks) for picks in own] == [[1, 2, 3], [0, 1, 2, 3], [0, 1]]
    for selected in ([[0], [1]], [0, 1, 2], [[0]]):  # for three queries
        with pytest.raises(ValueError, match="one list of indices for each of 3 queries"):
            gnomon.mmr_vectors(rows[:3], rows, 2, selected=selected)
    with pytest.raises(ValueError, match=r"selected\[1\] must be at least 0, got -1"):
        gnomon.mmr_vectors(rows[0], rows, 2, selected=[0, -1])
    with pytest.raises(TypeError, match=r"selected\[0\] must be a whole number"):
        gnomon.mmr_vectors(rows[0], rows, 2, selected=["a"])
    for beyond in (4, 2**70):
        with pytest.raises(ValueError, match=f"selected names row {beyond} of 4"):
            gnomon.mmr_vectors(rows[0], rows, 2, selected=[beyond])
    with pytest.raises(ValueError, match="selected names row 1 twice"):
        gnomon.mmr_vectors(rows[0], rows, 2, selected=[1, 1])
