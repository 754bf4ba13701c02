"""The edges of ``mmr``: limits, diversity, shapes, ties, dtypes, layouts, non-finite, torch."""

from __future__ import annotations

from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.reference import mmr as reference

RNG = np.random.default_rng(11)
SCORE = RNG.integers(-8, 9, size=40) / 8
SIMILARITY = RNG.integers(-8, 9, size=(40, 40)) / 8  # not symmetric: rows are candidates


def check(score: Any, similarity: Any, limit: int = 12, diversity: float = 0.5) -> None:
    picks = gnomon.mmr(score, similarity, limit, diversity)
    assert type(picks) is list
    assert all(type(pick) is int for pick in picks)
    rows = np.asarray(similarity).astype(np.float64).tolist()
    scores = np.asarray(score).astype(np.float64).tolist()
    assert picks == reference.mmr(scores, rows, limit, diversity)


@pytest.mark.parametrize("limit", [0, -1, -(10**9)])
def test_no_picks_are_no_error(limit: int) -> None:
    assert gnomon.mmr(SCORE, SIMILARITY, limit) == []


@pytest.mark.parametrize("limit", [1, 2, 39, 40, 41, 10**9, np.int64(2**62)])
def test_at_most_every_candidate_once(limit: int) -> None:
    check(SCORE, SIMILARITY, limit)
    assert len(set(gnomon.mmr(SCORE, SIMILARITY, limit))) == min(limit, 40)


def test_no_candidates() -> None:
    assert gnomon.mmr(np.empty(0), np.empty((0, 0)), 3) == []


@pytest.mark.parametrize("limit", [1.5, "2", None])
def test_limit_is_an_integer(limit: Any) -> None:
    with pytest.raises(TypeError):
        gnomon.mmr(SCORE, SIMILARITY, limit)


@pytest.mark.parametrize("diversity", [0, 1, 0.0, 1.0, 0.3, 5e-324, np.float32(0.7)])
def test_diversity_inside_its_bounds(diversity: float) -> None:
    check(SCORE, SIMILARITY, 12, diversity)


@pytest.mark.parametrize(
    "diversity", [-0.1, 1.1, -5e-324, np.nextafter(1, 2), np.nan, np.inf, -np.inf]
)
@pytest.mark.parametrize("limit", [0, 3])
def test_diversity_outside_its_bounds(diversity: float, limit: int) -> None:
    with pytest.raises(ValueError, match="diversity"):
        gnomon.mmr(SCORE, SIMILARITY, limit, diversity)


@pytest.mark.parametrize(
    ("score", "similarity"),
    [
        ((40,), (40, 39)),
        ((40,), (39, 39)),
        ((40,), (40,)),
        ((40,), (1600,)),
        ((3, 1), (3, 3)),
        ((), (1, 1)),
    ],
)
@pytest.mark.parametrize("limit", [0, 3])
def test_shapes_that_do_not_fit(
    score: tuple[int, ...], similarity: tuple[int, ...], limit: int
) -> None:
    with pytest.raises(ValueError, match="pair_similarity"):
        gnomon.mmr(np.zeros(score), np.zeros(similarity), limit)


def test_ties_go_to_the_lower_index() -> None:
    assert gnomon.mmr(np.zeros(70), np.zeros((70, 70)), 70) == list(range(70))
    check(np.zeros(70), -np.eye(70), 20)


def test_rows_are_candidates_and_columns_are_picks() -> None:
    similarity = np.array([[1.0, 0, 1], [1, 1, 0], [0, 0, 1]])
    assert gnomon.mmr(np.array([1.0, 0.5, 0.5]), similarity, 2) == [0, 2]


def test_negative_similarity_counts() -> None:
    similarity = np.array([[1.0, 0, 0], [-0.9, 1, 0], [-0.1, 0, 1]])
    assert gnomon.mmr(np.array([1.0, 0.5, 0.6]), similarity, 2) == [0, 1]


# ----------------------------------------------------------------------------- dtypes and layouts
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f2", ">f4", ">f8"])
def test_floating_dtypes(dtype: str) -> None:
    check(SCORE.astype(dtype), SIMILARITY.astype(dtype))
    check(RNG.standard_normal(33).astype(dtype), RNG.standard_normal((33, 33)).astype(dtype), 33)


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", ">i2"])
def test_integer_dtypes(dtype: str) -> None:
    check((SCORE * 8).astype(dtype), (SIMILARITY * 8).astype(dtype))


def test_float64_is_not_rounded_to_float32() -> None:
    assert gnomon.mmr(np.array([1.0, 1.0 + 2.0**-50]), np.eye(2), 1) == [1]


LAYOUTS = {
    "fortran": np.asfortranarray(SIMILARITY),
    "transposed": SIMILARITY.T,
    "every other row": np.repeat(SIMILARITY, 2, axis=0)[::2],
    "columns backwards": SIMILARITY[:, ::-1],
    "rows backwards": SIMILARITY[::-1],
    "one row, repeated": np.broadcast_to(SIMILARITY[2], (40, 40)),
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_layouts(layout: str) -> None:
    check(SCORE, LAYOUTS[layout])
    check(SCORE[::-1], LAYOUTS[layout])
    check(np.repeat(SCORE, 3)[::3], LAYOUTS[layout])


def test_read_only_arrays_and_inputs_that_stay_as_they_were() -> None:
    score, similarity = SCORE.copy(), SIMILARITY.copy()
    score.flags.writeable = similarity.flags.writeable = False
    check(score, similarity)
    assert score.tobytes() == SCORE.tobytes()
    assert similarity.tobytes() == SIMILARITY.tobytes()


# ---------------------------------------------------------------------------- non-finite values
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named(bad: float) -> None:
    score, similarity = SCORE.copy(), SIMILARITY.copy()
    score[3] = bad
    with pytest.raises(ValueError, match=r"query_score\[3\]"):
        gnomon.mmr(score, similarity, 3)
    similarity[7, 2] = bad
    with pytest.raises(ValueError, match=r"pair_similarity\[7, 2\]"):
        gnomon.mmr(SCORE, similarity, 3)


# ----------------------------------------------------------------------------------------- torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int64"])
def test_torch_dtypes(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    to = getattr(torch, dtype)
    score = (torch.tensor(SCORE) * 8).to(to)
    similarity = (torch.tensor(SIMILARITY) * 8).to(to)
    picks = gnomon.mmr(score, similarity, 12, 0.7)
    assert all(type(pick) is int for pick in picks)
    assert picks == reference.mmr(score.tolist(), similarity.tolist(), 12, 0.7)


def test_torch_layouts_and_gradients() -> None:
    torch = pytest.importorskip("torch")
    score, similarity = torch.tensor(SCORE), torch.tensor(SIMILARITY)
    picks = reference.mmr(SCORE.tolist(), SIMILARITY.T.tolist(), 12)
    assert gnomon.mmr(score.requires_grad_(), similarity.requires_grad_().t(), 12) == picks


def test_torch_on_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    picks = reference.mmr(SCORE.tolist(), SIMILARITY.tolist(), 12)
    assert gnomon.mmr(torch.tensor(SCORE).cuda(), torch.tensor(SIMILARITY).cuda(), 12) == picks


@pytest.mark.parametrize("limit", [-1, -(2**63) - 1, -(2**70)])
def test_any_limit_below_one_picks_none(limit: int) -> None:
    assert gnomon.mmr([1.0], [[1.0]], limit) == []


@pytest.mark.parametrize("diversity", ["0.5", True, None, 10**400])
def test_diversity_is_a_number(diversity: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="diversity must be a number"):
        gnomon.mmr([1.0], [[1.0]], 1, diversity)
    with pytest.raises((TypeError, ValueError), match="diversity must be a number"):
        gnomon.mmr_vectors([1.0], [[1.0]], 1, diversity)


@pytest.mark.parametrize("query", [[np.nan, 0.0], [1.0], np.zeros((1, 1, 2)), 1.0])
def test_a_query_is_checked_without_candidates_too(query: Any) -> None:
    with pytest.raises(ValueError, match="query"):
        gnomon.mmr_vectors(query, np.zeros((0, 2)), 1)
    assert gnomon.mmr_vectors([1.0], [], 1) == []
    assert gnomon.mmr_vectors([[1.0], [2.0]], [], 1) == [[], []]
