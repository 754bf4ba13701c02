from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from gnomon import reciprocal_rank_fusion
from gnomon.fusion import rrf_scores
from gnomon.reference import fusion as reference
from hypothesis import given
from hypothesis import strategies as st

RANKINGS = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=10), max_size=4)
KS = st.sampled_from([60, 0, 1, -0.5, 1e-3, 1e6]) | st.floats(-0.999, 1e9)


@given(RANKINGS, KS)
def test_equals_the_reference(rankings: list[list[str]], k: float) -> None:
    scores = rrf_scores(rankings, k)
    assert list(scores.items()) == list(reference.rrf_scores(rankings, k).items())
    fused = reciprocal_rank_fusion(rankings, k)
    assert fused == reference.reciprocal_rank_fusion(rankings, k)
    assert sorted(fused) == sorted(set(itertools.chain(*rankings)))


@given(RANKINGS, st.integers(0, 100))
def test_scores_are_within_rounding_of_the_exact_fractions(
    rankings: list[list[str]], k: int
) -> None:
    exact: dict[str, Fraction] = {}
    for ranking in rankings:
        for doc_id in set(ranking):
            rank = ranking.index(doc_id) + 1
            exact[doc_id] = exact.get(doc_id, Fraction(0)) + Fraction(1, k + rank)
    scores = rrf_scores(rankings, k, exact=True)
    assert scores.keys() == exact.keys()
    for doc_id, score in scores.items():
        # Each reciprocal is off by at most 2**-53 of itself, their sum is rounded once more.
        assert abs(Fraction(score) - exact[doc_id]) <= exact[doc_id] * Fraction(1, 2**52)


@given(RANKINGS, st.randoms(use_true_random=False))
def test_the_order_of_the_lists_changes_no_score(rankings: list[list[str]], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(rankings)
    random.shuffle(shuffled)
    assert rrf_scores(shuffled, exact=True) == rrf_scores(rankings, exact=True)


@given(RANKINGS, st.sampled_from((60, 0, 1, 2.5)))
def test_the_default_adds_as_the_definition_does(rankings: list[list[str]], k: float) -> None:
    """From left to right, each addition rounded; most_common() keeps ties in their order."""
    score: Counter[str] = Counter()
    for ranking in rankings:
        seen = set()
        for rank, doc_id in enumerate(ranking, 1):
            if doc_id not in seen:
                score[doc_id] += 1 / (k + rank)
                seen.add(doc_id)
    assert reciprocal_rank_fusion(rankings, k) == [doc_id for doc_id, _ in score.most_common()]
    assert rrf_scores(rankings, k) == dict(score)
    assert reference.rrf_scores(rankings, k) == dict(score)


def test_a_case_in_which_rounding_decides() -> None:
    rankings = ["acegbfd", "fdecgba", "dafgcbe"]
    assert reciprocal_rank_fusion(list(map(list, rankings)))[:2] == ["d", "a"]
    assert reciprocal_rank_fusion(list(map(list, rankings)), exact=True)[:2] == ["a", "d"]


def test_an_exact_tie_stays_a_tie_in_every_order_of_the_lists() -> None:
    lists = [["P", *"abcde", "Q"], ["Q", "P"], ["f", "Q", *"ghij", "P"]]
    assert [[ranking.index(name) + 1 for ranking in lists] for name in "PQ"] == [
        [1, 2, 7],
        [7, 1, 2],
    ]
    for order in itertools.permutations(lists):
        scores = rrf_scores(order, exact=True)
        assert scores["P"] == scores["Q"] == 0.04744784801534369
        first = "P" if order[0] != lists[1] and order[0][0] == "P" else "Q"
        assert reciprocal_rank_fusion(order, exact=True)[0] == first


def test_ties_stand_in_order_of_first_appearance() -> None:
    assert reciprocal_rank_fusion([["z", "a"], ["y", "b"]]) == ["z", "y", "a", "b"]


def test_a_repeated_id_keeps_its_first_rank_and_the_others_keep_theirs() -> None:
    assert rrf_scores([["a", "a", "b"]], k=0) == {"a": 1.0, "b": 1 / 3}


def test_nothing_fuses_to_nothing() -> None:
    assert reciprocal_rank_fusion([]) == []
    assert reciprocal_rank_fusion([[], []]) == []


@pytest.mark.parametrize("k", [-1, -1.5, -61, math.nan, math.inf, -math.inf])
def test_k_must_be_finite_and_above_minus_one(k: float) -> None:
    with pytest.raises(ValueError, match=r"k must be a finite number above -1.*got"):
        reciprocal_rank_fusion([["a"]], k)


def test_any_hashable_is_an_id() -> None:
    assert reciprocal_rank_fusion([[("doc", 1), None], [None, 3.5]]) == [None, ("doc", 1), 3.5]


def test_arrays_are_rankings() -> None:
    rankings = [np.array([7, 3]), np.array([3, 9], dtype=">u2")]
    fused = reciprocal_rank_fusion(rankings)
    assert fused == [3, 7, 9]
    assert all(type(doc_id) is int for doc_id in fused)


def test_tensors_meet_by_value_not_by_identity() -> None:
    torch = pytest.importorskip("torch")
    assert reciprocal_rank_fusion([torch.tensor([7, 3]), torch.tensor([3, 9])]) == [3, 7, 9]


def test_an_unhashable_id_is_named_with_its_place() -> None:
    with pytest.raises(
        TypeError, match=r"rankings\[1\], rank 2: ids must be hashable, got \['c'\]"
    ):
        reciprocal_rank_fusion([["a"], ["b", ["c"]]])  # type: ignore[list-item]


@pytest.mark.parametrize("rankings", ["abc", ["abc", ["a"]]])
def test_a_str_is_no_ranking(rankings: object) -> None:
    with pytest.raises(TypeError, match="str"):
        reciprocal_rank_fusion(rankings)  # type: ignore[arg-type]


def test_k_beyond_float64_is_refused() -> None:
    with pytest.raises(ValueError, match="k must be a finite number"):
        reciprocal_rank_fusion([["a"]], k=10**400)
