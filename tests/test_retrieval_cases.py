"""Inputs on which other products fail, distilled from their public bug threads."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.formats import FormatError, open_vectors
from gnomon.fusion import max_score_fusion, rrf_scores
from gnomon.recall_counts import ann_benchmarks, as_distances
from gnomon.reference import dense

Case = dict[str, Any]


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Case]:
    path = shared / "cases" / "retrieval_cases.jsonl"
    if not path.is_file():
        pytest.skip(f"no cases at {path}")
    lines = path.read_text(encoding="utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, filter(str.strip, lines))}


# ------------------------------------------------------------------------------------------ BM25
def search_all(case: Case, documents: list[Any], query: Any) -> gnomon.Hits:
    k1, b = case["input"].get("k1", 1.2), case["input"].get("b", 0.75)
    analyzer = gnomon.Analyzer("basic-v1") if isinstance(query, str) else None
    index = gnomon.BM25Index.build(documents, analyzer=analyzer, k1=k1, b=b)
    return index.search(query, k=case["input"].get("k", max(len(documents), 1)))


def check_scores(case: Case, hits: gnomon.Hits, ranking: list[int], expected: list[float]) -> None:
    assert hits.ids.tolist() == ranking
    # The file's scores lack the constant factor k1 + 1, and their terms were summed by math.fsum:
    # the last bits may differ. 1e-12 relative is the file's own precision.
    factor = case["input"].get("k1", 1.2) + 1
    for score, without_factor in zip(hits.scores.tolist(), expected, strict=True):
        assert abs(score - without_factor * factor) <= 1e-12 * score


PLAIN = ("bm25-01", "bm25-03", "bm25-05", "bm25-07", "bm25-10", "bm25-11", "bm25-13", "bm25-14")
OTHERS = ("bm25-04", "bm25-08", "bm25-15", "bm25-16", "bm25-18", "bm25-19")


def test_every_bm25_case_has_a_test(cases: dict[str, Case]) -> None:
    """Those of OTHERS each have their own; bm25-15 is in test_analysis_cases.py."""
    assert {id for id in cases if cases[id]["area"] == "bm25"} == {*PLAIN, *OTHERS}


@pytest.mark.parametrize("name", PLAIN)
def test_bm25(cases: dict[str, Case], name: str) -> None:
    case = cases[name]
    right = case["right"]
    hits = search_all(case, case["input"]["docs"], case["input"]["query"])
    check_scores(case, hits, right["ranking"], [right["scores"][i] for i in right["ranking"]])


def test_bm25_more_matches_do_not_rank_lower(cases: dict[str, Case]) -> None:
    case = cases["bm25-04"]
    right = case["right"]["lucene"]
    hits = search_all(case, case["input"]["docs"], case["input"]["query"])
    check_scores(case, hits, right["ranking"], [right["scores"][i] for i in right["ranking"]])


def test_bm25_no_shared_token_no_result(cases: dict[str, Case]) -> None:
    case = cases["bm25-08"]
    index = gnomon.BM25Index.build(case["input"]["docs"], analyzer=gnomon.Analyzer("basic-v1"))
    results = [hits.ids.tolist() for hits in index.search_many(case["input"]["queries"])]
    assert results == case["right"]["results"]
    assert [index.search(query).ids.tolist() for query in case["input"]["queries"]] == results


def test_bm25_statistics_are_those_of_the_whole_corpus(cases: dict[str, Case]) -> None:
    case = cases["bm25-16"]
    documents = list(itertools.chain(*case["input"]["segments"]))
    right = case["right"]
    expected = [right["merged_scores_in_order"][i] for i in right["ranking"]]
    check_scores(
        case, search_all(case, documents, case["input"]["query"]), right["ranking"], expected
    )


def test_bm25_longer_documents_rank_lower(cases: dict[str, Case]) -> None:
    case = cases["bm25-19"]
    right, given = case["right"], case["input"]
    index = gnomon.BM25Index.build(
        [document.split() for document in given["docs"]],
        formula=given["variant"],
        k1=given["k1"],
        b=given["b"],
    )
    hits = index.search([given["query"]], k=3)
    assert hits.ids.tolist() == right["ranking"]
    wanted = [right["scores"][i] for i in right["ranking"]]
    assert hits.scores.tolist() == pytest.approx(wanted, rel=1e-12)  # the file's own precision


def test_bm25_lengths_are_exact(cases: dict[str, Case]) -> None:
    case = cases["bm25-18"]
    documents = [["w"] + ["x"] * (length - 1) for length in case["input"]["doc_lengths"]]
    hits = search_all(case, documents, case["input"]["query"])
    assert hits.ids.tolist() == list(range(12))
    # Only the two long documents have an expected score.
    last = gnomon.Hits(hits.ids[10:], hits.scores[10:])
    check_scores(
        case, last, [10, 11], [case["right"]["score_len_104"], case["right"]["score_len_111"]]
    )


# ---------------------------------------------------------------------------------------- cosine
def top(case: Case, k: int, **options: Any) -> gnomon.TopK:
    query = np.array(case["input"]["query"], dtype=np.float64)
    vectors = np.array(case["input"]["vectors"], dtype=np.float64)
    return gnomon.cosine_topk(query, vectors, k, **options)


def test_cosine_zero_vector(cases: dict[str, Case]) -> None:
    case = cases["cos-01"]
    values, indices = top(case, case["input"]["k"])
    assert indices.tolist() == case["right"]["ids"]
    # Expected is the cosine of the decimals; ours are rounded to float32, 2**-24 a component.
    for value, decimal in zip(values.tolist(), case["right"]["scores"], strict=True):
        assert abs(value - decimal) <= 2**-22
    assert top(case, 3).values.tolist()[2] == 0.0
    with pytest.raises(ValueError, match=rf"row {case['right']['undefined_rows'][0]}\b"):
        top(case, 2, on_zero="error")


def test_cosine_nan_row_is_refused_by_number(cases: dict[str, Case]) -> None:
    case = cases["cos-03"]
    with pytest.raises(ValueError, match=r"row 3\b"):
        top(case, case["input"]["k"])
    vectors = np.array(case["input"]["vectors"][:3], dtype=np.float64)
    values, indices = gnomon.cosine_topk(np.array([1.0, 0.0]), vectors, 4)
    assert indices.tolist() == [0, 1, 2]
    assert values.tolist() == [1.0, dense.cosine([1.0, 0.0], [0.5, 0.5]), 0.0]


def test_cosine_of_a_row_with_itself_is_one(cases: dict[str, Case]) -> None:
    case = cases["cos-04"]
    a, b = np.array(case["input"]["a"]), np.array(case["input"]["b"])
    assert gnomon.cosine_topk(a, b[None], 1).values.tolist() == [case["right"]["cosine"]]


def test_cosine_of_tiny_vectors(cases: dict[str, Case]) -> None:
    right = cases["cos-06"]["right"]
    tiny, ones = np.full(8, 1e-25, np.float32), np.ones((1, 8), np.float32)
    assert gnomon.cosine_topk(tiny, ones, 1).values.tolist() == [right["cos_ab"]]
    assert gnomon.cosine_topk(ones[0], tiny[None], 1).values.tolist() == [right["cos_ab"]]


def test_cosine_in_4096_dimensions(cases: dict[str, Case]) -> None:
    right = cases["cos-08"]["right"]
    vector = np.random.default_rng(20261101).standard_normal(4096).astype(np.float32)
    assert gnomon.cosine_topk(vector, vector[None], 1).values.tolist() == [right["cosine"]]
    squares = dense.dot(vector.tolist(), vector.tolist())
    assert abs(squares - right["sum_of_squares_float64"]) <= right["tolerance"] * squares


def test_cosine_k_beyond_the_rows(cases: dict[str, Case]) -> None:
    case = cases["cos-09"]
    values, indices = top(case, case["input"]["k"])
    assert indices.tolist() == case["right"]["ids"]
    assert values.tolist() == case["right"]["scores"]


# ------------------------------------------------------------------------------------------- MMR
def pick(
    query: Any, vectors: Any, limit: int, diversity: float, relevance: Any = None
) -> list[int]:
    rows = [dense.to_float32(vector) for vector in vectors]
    if relevance is None:
        relevance = [dense.cosine(dense.to_float32(query), row) for row in rows]
    similarity = [[dense.cosine(a, b) for b in rows] for a in rows]
    n = len(rows)
    return gnomon.mmr(np.array(relevance), np.array(similarity).reshape(n, n), limit, diversity)


@pytest.mark.parametrize("name", ["01", "06", "08"])
def test_mmr(cases: dict[str, Case], name: str) -> None:
    case = cases[f"mmr-{name}"]
    given = case["input"]
    picks = pick(
        given["query"], given["vectors"], given["k"], given["lambda"], given.get("relevance")
    )
    assert picks == case["right"]["selected"]


def test_mmr_diversity_one_is_relevance_alone(cases: dict[str, Case]) -> None:
    case = cases["mmr-03"]
    given = case["input"]
    for diversity in given["lambda"]:
        picks = pick(given["query"], given["vectors"], given["k"], diversity)
        assert picks == case["right"][f"lambda_{diversity}"]


def test_mmr_more_picks_than_candidates(cases: dict[str, Case]) -> None:
    case = cases["mmr-05"]
    given = case["input"]
    picks = [
        pick(given["query"], one["vectors"], one["k"], given["lambda"]) for one in given["cases"]
    ]
    assert picks == case["right"]["selected"]


# ------------------------------------------------------------------------------------------- RRF
@pytest.mark.parametrize("name", ["01", "02", "04"])
def test_rrf(cases: dict[str, Case], name: str) -> None:
    case = cases[f"rrf-{name}"]
    lists, k = case["input"]["lists"], case["input"]["k"]
    assert gnomon.reciprocal_rank_fusion(lists, k) == case["right"]["ranking"]
    scores = rrf_scores(lists, k)
    assert scores.keys() == case["right"]["exact"].keys()
    for doc_id, exact in case["right"]["exact"].items():
        # Two roundings: of the reciprocals, and of their exact sum.
        assert abs(Fraction(scores[doc_id]) - Fraction(exact)) <= Fraction(exact) / 2**52


def test_rrf_score_does_not_depend_on_the_order_of_the_lists(cases: dict[str, Case]) -> None:
    case = cases["rrf-06"]
    lists = [[hit["id"] for hit in ranking] for ranking in case["input"]["lists"]]
    for order in itertools.permutations(lists):
        assert rrf_scores(order, case["input"]["k"]) == {"d1": case["right"]["score"]}


def test_rrf_an_exact_tie_stays_a_tie(cases: dict[str, Case]) -> None:
    case = cases["rrf-09"]
    ranks = case["input"]["ranks_in_three_lists"]
    lists: list[list[str]] = [[f"{number}.{rank}" for rank in range(1, 8)] for number in range(3)]
    for doc_id, places in ranks.items():
        for number, rank in enumerate(places):
            lists[number][rank - 1] = doc_id
    scores = rrf_scores(lists, case["input"]["k"], exact=True)
    assert scores["P"] == scores["Q"] == case["right"]["score"]
    for exact in (True, False):  # the default adds with rounding: here the order is the same
        fused = gnomon.reciprocal_rank_fusion(lists, case["input"]["k"], exact=exact)
        assert fused.index("P") < fused.index("Q")


def test_rrf_score_maximum_keeps_the_larger(cases: dict[str, Case]) -> None:
    case = cases["rrf-08"]
    lists = [[(doc_id, score) for doc_id, score in one] for one in case["input"]["lists"]]
    fused = max_score_fusion(lists)
    assert [doc_id for doc_id, _ in fused] == case["right"]["ranking"]
    assert dict(fused) == case["right"]["scores"]


# ------------------------------------------------------------------------------------ ANN recall
def test_ann_the_same_neighbour_ten_times(cases: dict[str, Case]) -> None:
    case = cases["ann-01"]
    given = case["input"]
    scores = [[-distance for distance in given["true_distances"]]]
    found = gnomon.recall(
        [given["true_ids"]], [given["returned_ids"]], given["k"], truth_scores=scores
    )
    assert found.mean == case["right"]["recall@10"]
    assert found.coverage.repeated.tolist() == [9]
    near = np.array([given["returned_distances"]])
    loose = ann_benchmarks(-np.array(scores), near, given["k"], 1e-3)
    assert loose.tolist() == [10]  # what the definition by distance says: 1.0


def test_ann_angular_is_one_minus_the_cosine(cases: dict[str, Case]) -> None:
    """And with vectors both sides are scored anew, whatever formula the truth's file used."""
    case = cases["ann-03"]
    cosines = case["input"]["cos"]
    right = case["right"]
    found = as_distances(np.array(cosines), "cosine").tolist()
    assert [round(distance, 15) for distance in found] == right["1-cos"]
    base = np.array([[c, math.sqrt(1 - c * c)] for c in cosines], np.float32)
    query = np.array([[1.0, 0.0]], np.float32)
    for formula in ("1-cos", "sqrt(2-2cos)", "acos/pi"):
        scores = [[-distance for distance in right[formula]]]
        one = gnomon.recall(
            [[0, 1, 2]],
            [[1, 0]],
            2,
            truth_scores=scores,
            base=base,
            queries=query,
            metric="cosine",
        )
        assert (one.mean, one.mean_of("ann-benchmarks")) == (1.0, 1.0)


def test_ann_fvecs_and_fbin_are_not_mixed_up(cases: dict[str, Case], shared: Path) -> None:
    assert "otherwise refuse with the reason" in cases["ann-04"]["right"]["rule"]
    ann = shared / "data" / "ann"
    if not ann.is_dir():
        pytest.skip(f"no ANN material at {ann}")
    with pytest.raises(FormatError, match="it fits fvecs: 1000 rows of dimension 384"):
        open_vectors(ann / "small/unit.fvecs", format="fbin")
    with pytest.raises(FormatError, match="it looks like fbin: a header of 1000 rows of dim"):
        open_vectors(ann / "small/unit.fbin", format="fvecs")
    for name in ("fvecs_named.fbin", "fbin_named.fvecs", "id_column.fvecs"):
        with pytest.raises(FormatError, match=name):
            open_vectors(ann / "bad" / name)
