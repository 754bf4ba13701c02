"""The specification against values worked out by hand and against exact arithmetic.

Where float64 must round, the bound of the rounding error is part of the test; all else is ``==``.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import strategies
from gnomon.reference import bm25, chunking, dense, mmr
from hypothesis import given
from hypothesis import strategies as st

ULP = Fraction(1, 2**53)  # the relative error of one rounding


# ------------------------------------------------------------------------------------------ BM25
def test_bm25_worked_by_hand() -> None:
    documents = [["red", "apple"], ["green", "apple", "apple"], ["blue", "berry"]]
    idf = math.log(1.6)  # 1 + (3 - 2 + 0.5) / (2 + 0.5)
    assert bm25.idf(3, 2) == idf
    assert bm25.average_length(documents) == 7 / 3
    # k1 = 1, b = 0: the length does not count, and the term part is tf * 2 / (tf + 1).
    assert bm25.bm25_scores(["apple"], documents, k1=1, b=0) == [idf, idf * 2 * 2 / 3, 0.0]
    # b = 1: dl / avgdl alone; the document of average length has the norm tf + k1.
    assert bm25.length_norm(4, 2.0, 1.5, 1) == 3.0
    assert bm25.length_norm(2, 2.0, 1.5, 0.75) == 1.5
    # Repeats in the query count, in query order.
    once = bm25.bm25_scores(["apple"], documents)
    assert bm25.bm25_scores(["apple", "nothing", "apple"], documents) == [2 * s for s in once]


def test_bm25_of_nothing() -> None:
    assert bm25.bm25_scores(["a"], []) == []
    assert bm25.bm25_scores([], [["a"]]) == [0.0]
    assert bm25.bm25_scores(["a"], [[], []]) == [0.0, 0.0]
    assert bm25.search(["a"], [[], []], 3) == []
    assert bm25.search([], [["a"]], 3) == []


def _exact_score(
    query: list[str], documents: list[list[str]], i: int, k1: float, b: float
) -> Decimal:
    """The formula in 50 digits, from counts taken another way than the reference takes them."""
    n, dl = len(documents), len(documents[i])
    avgdl = Fraction(sum(map(len, documents)), n)
    score = Decimal(0)
    for term in query:
        tf, df = documents[i].count(term), sum(term in document for document in documents)
        if tf:
            idf = _decimal(1 + Fraction(2 * (n - df) + 1, 2 * df + 1)).ln()
            norm = tf + Fraction(k1) * (1 - Fraction(b) + Fraction(b) * dl / avgdl)
            score += idf * _decimal(tf * (Fraction(k1) + 1) / norm)
    return score


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


@given(strategies.small_corpora(), strategies.queries(), strategies.bm25_params())
def test_bm25_is_the_formula_within_rounding(
    documents: list[list[str]], query: list[str], params: tuple[float, float]
) -> None:
    scores = bm25.bm25_scores(query, documents, *params)
    assert len(scores) == len(documents)
    with localcontext() as context:
        context.prec = 50
        for i, score in enumerate(scores):
            exact = _exact_score(query, documents, i, *params)
            # 1 + x is off by half an ulp of 1: up to 16 ulps of log(1 + x) in 6 documents.
            assert abs(Decimal(score) - exact) <= exact * 64 * _decimal(ULP)


@given(strategies.corpora(), strategies.queries(), st.sampled_from((0, 1, 2, 10, 100)))
def test_search_ranks_what_holds_a_query_term(
    documents: list[list[str]], query: list[str], k: int
) -> None:
    scores = bm25.bm25_scores(query, documents)
    matches = [i for i, document in enumerate(documents) if any(term in document for term in query)]
    best = sorted(sorted(matches), key=lambda i: scores[i], reverse=True)[:k]
    assert bm25.search(query, documents, k) == [(i, scores[i]) for i in best]


# ----------------------------------------------------------------------------------------- dense
def test_float32_rounding() -> None:
    assert dense.to_float32([0.1, 2**24 + 1, 2**24 + 3, 1e-46, -0.0]) == [
        0.10000000149011612,
        2.0**24,
        2.0**24 + 4,
        0.0,
        0.0,
    ]
    assert dense.to_float32([1.0, 1e39, -1e39]) == [1.0, math.inf, -math.inf]
    assert dense.to_float32([]) == []


def test_the_lanes_are_added_in_the_written_order() -> None:
    big = 2.0**53  # big + 1 == big, and big - 1 is exact

    def total(**lanes: float) -> float:
        return dense.dot([1.0] * 8, [lanes.get(f"l{lane}", 0.0) for lane in range(8)])

    assert total(l0=big, l4=1.0, l2=-big) == 0.0  # lane0 + lane4 first: the 1 is lost
    assert total(l0=big, l2=-big, l6=1.0) == 1.0  # lane2 + lane6 first: kept
    assert total(l0=big, l2=-big, l1=1.0) == 1.0  # even lanes before odd ones
    assert total(l1=big, l5=1.0, l3=-big) == 0.0
    assert total(l1=big, l3=-big, l7=1.0) == 1.0
    in_one_lane = [0.0] * 24
    in_one_lane[0], in_one_lane[8], in_one_lane[16] = big, 1.0, -big
    assert dense.dot([1.0] * 24, in_one_lane) == 0.0
    in_one_lane[8], in_one_lane[16] = -big, 1.0
    assert dense.dot([1.0] * 24, in_one_lane) == 1.0


def test_metrics_worked_by_hand() -> None:
    assert dense.cosine([3.0, 4.0], [4.0, 3.0]) == 0.96  # 24 / 25
    assert dense.inner_product([3.0, 4.0], [4.0, -3.0]) == 0.0
    assert dense.l2([3.0, 4.0], [0.0, 0.0]) == -25.0
    assert math.copysign(1.0, dense.l2([1.0], [1.0])) == 1.0
    assert dense.cosine([0.0, 0.0], [1.0, 2.0]) == dense.cosine([1.0], [0.0]) == 0.0
    assert dense.cosine([], []) == 0.0
    assert dense.cosine([2.0**-149], [2.0**127]) == 1.0  # the ends of float32


def test_top_k_worked_by_hand() -> None:
    rows = [[0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]
    assert dense.top_k([1, 0], rows, 9) == [(1, 1.0), (3, 1.0), (0, 0.0), (2, 0.0), (4, -1.0)]
    assert dense.top_k([1, 0], rows, 2, "ip") == [(1, 2.0), (3, 1.0)]
    assert dense.top_k([1, 0], rows, 2, "l2") == [(3, 0.0), (1, -1.0)]
    assert dense.top_k([1, 0], rows, 0) == dense.top_k([1, 0], [], 3) == []
    with pytest.raises(ValueError, match="row 1 holds nan"):
        dense.top_k([1, 0], [[1, 0], [math.nan, 1]], 1)
    with pytest.raises(ValueError, match="row 0 holds inf"):
        dense.top_k([1, 0], [[1e39, 0]], 1)
    with pytest.raises(ValueError, match="query holds -inf"):
        dense.top_k([-math.inf], [], 1)
    with pytest.raises(ValueError, match="row 1 has 1"):
        dense.top_k([1, 0], [[1, 0], [1]], 1)


@given(strategies.dense_cases())
def test_dense_is_exact_arithmetic_within_rounding(case: strategies.DenseCase) -> None:
    dim = case.rows.shape[1]
    for q in case.queries[:1].tolist():
        for x in case.rows[:3].tolist():
            products = [Fraction(a) * Fraction(b) for a, b in zip(q, x, strict=True)]
            squares = [(Fraction(a) - Fraction(b)) ** 2 for a, b in zip(q, x, strict=True)]
            bound = (dim + 8) * ULP  # products are exact; dim + 7 additions and the rest of 1/(1-u)
            assert abs(Fraction(dense.dot(q, x)) - sum(products)) <= bound * sum(map(abs, products))
            assert abs(Fraction(dense.l2(q, x)) + sum(squares)) <= (dim + 12) * ULP * sum(squares)
            assert abs(_exact_cosine(q, x) - Decimal(dense.cosine(q, x))) <= _decimal(4 * bound)
            assert dense.cosine(q, q) == float(any(q))
            assert dense.cosine(q, x) == dense.cosine(x, q)


def _exact_cosine(q: list[float], x: list[float]) -> Decimal:
    def dot(a: list[float], b: list[float]) -> Fraction:
        return sum((Fraction(s) * Fraction(t) for s, t in zip(a, b, strict=True)), Fraction(0))

    if not any(q) or not any(x):
        return Decimal(0)
    with localcontext() as context:
        context.prec = 50
        return _decimal(dot(q, x)) / _decimal(dot(q, q) * dot(x, x)).sqrt()


@given(strategies.dense_cases(), st.sampled_from(sorted(dense.METRICS)))
def test_top_k_is_the_first_k_of_the_full_ranking(case: strategies.DenseCase, metric: str) -> None:
    rows = case.rows.tolist()
    for q in case.queries[:1].tolist():
        scores = [dense.METRICS[metric](q, row) for row in rows]
        ranking = sorted(range(len(rows)), key=scores.__getitem__, reverse=True)
        assert dense.top_k(q, rows, case.k, metric) == [(i, scores[i]) for i in ranking[: case.k]]


# ------------------------------------------------------------------------------------------- MMR
def test_mmr_worked_by_hand() -> None:
    similarity = [[1.0, 0.99, 0.1], [0.99, 1.0, 0.2], [0.1, 0.2, 1.0]]
    assert mmr.mmr([1.0, 0.95, 0.8], similarity, 2) == [0, 2]
    assert mmr.mmr([1.0, 0.95, 0.8], similarity, 3, diversity=1) == [0, 1, 2]
    assert mmr.mmr([1.0, 0.95, 0.8], similarity, 9, diversity=0) == [0, 2, 1]
    # similarity[i][j]: row of the candidate, column of the pick.
    assert mmr.mmr([1.0, 0.5, 0.5], [[1, 0, 1], [1, 1, 0], [0, 0, 1]], 2) == [0, 2]
    # All similarities negative: the maximum does not start at 0.
    assert mmr.mmr([1.0, 0.5, 0.6], [[1, 0, 0], [-0.9, 1, 0], [-0.1, 0, 1]], 2) == [0, 1]
    assert mmr.mmr([0.5, 0.5], [[1, 1], [1, 1]], 2) == [0, 1]
    assert mmr.mmr([], [], 3) == mmr.mmr([1.0], [[1.0]], 0) == mmr.mmr([1.0], [[1.0]], -1) == []


@given(
    strategies.seeds(),
    st.integers(0, 9),
    st.integers(-1, 10),
    st.sampled_from((0.0, 0.25, 0.5, 1.0)),
)
def test_mmr_is_the_exact_greedy_where_nothing_rounds(
    seed: int, n: int, limit: int, diversity: float
) -> None:
    rng = np.random.default_rng(seed)
    relevance = (rng.integers(-8, 9, n) / 8).tolist()
    similarity = (rng.integers(-8, 9, (n, n)) / 8).tolist()
    weight, picks = Fraction(diversity), list[int]()
    while len(picks) < min(limit, n):
        objective = {
            i: weight * Fraction(relevance[i])
            - (1 - weight) * max((Fraction(similarity[i][j]) for j in picks), default=Fraction(0))
            for i in range(n)
            if i not in picks
        }
        if not picks:
            objective = {i: Fraction(relevance[i]) for i in range(n)}
        picks.append(min(objective, key=lambda i: (-objective[i], i)))
    assert mmr.mmr(relevance, similarity, limit, diversity) == picks


@given(strategies.matrices(6, 3), strategies.matrices(1, 3), st.sampled_from((0.0, 0.5, 0.9)))
def test_mmr_of_vectors_is_mmr_of_their_cosines(
    rows: strategies.Float32, query: strategies.Float32, diversity: float
) -> None:
    vectors, q = rows.tolist(), query[0].tolist()
    relevance = [dense.cosine(q, row) for row in vectors]
    similarity = [[dense.cosine(a, b) for b in vectors] for a in vectors]
    expected = mmr.mmr(relevance, similarity, 4, diversity)
    assert mmr.mmr_vectors(q, vectors, 4, diversity) == expected


def test_mmr_refuses_what_the_definition_excludes() -> None:
    for diversity in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="diversity"):
            mmr.mmr([1.0], [[1.0]], 1, diversity)
    for similarity in ([], [[1.0, 1.0]], [[1.0], [1.0]]):
        with pytest.raises(ValueError, match="pair_similarity must be 1 x 1"):
            mmr.mmr([1.0], similarity, 1)


# -------------------------------------------------------------------------------------- chunking
@given(st.integers(0, 40), st.integers(1, 20), st.data())
def test_chunk_starts_in_closed_form(n: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    step = size - overlap
    count = 0 if n == 0 else max(1, math.ceil(Fraction(n - overlap, step)))
    chunks = chunking.chunk_tokens(range(n), size, overlap)
    assert [chunk["start"] for chunk in chunks] == [step * i for i in range(count)]
