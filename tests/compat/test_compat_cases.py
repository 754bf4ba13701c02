"""Cases found in other programs that concern the drop-ins, by their id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gnomon.compat import faiss
from gnomon.compat.rank_bm25 import BM25Okapi
from gnomon.compat.sentence_transformers import semantic_search
from gnomon.compat.txtai import Exact

Case = dict[str, Any]


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Case]:
    lines = (shared / "cases" / "retrieval_cases.jsonl").read_text("utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


def test_cos_01_a_zero_vector_does_not_poison_the_order(cases: dict[str, Case]) -> None:
    given, right = cases["cos-01"]["input"], cases["cos-01"]["right"]
    query, vectors = np.array([given["query"]]), np.array(given["vectors"])
    hits = semantic_search(query, vectors, top_k=given["k"])[0]
    assert [hit["corpus_id"] for hit in hits] == right["ids"]
    # The case states its scores in decimals, and these are float32 as the peer's are.
    assert [hit["score"] for hit in hits] == pytest.approx(right["scores"], abs=1e-7)
    rows = vectors.astype(np.float32)
    faiss.normalize_L2(rows)
    index = faiss.IndexFlatIP(3)
    index.add(rows)
    assert index.search(query, given["k"])[1].tolist() == [right["ids"]]


def test_cos_03_a_nan_is_refused_by_row(cases: dict[str, Case]) -> None:
    vectors = np.array([[float(x) for x in row] for row in cases["cos-03"]["input"]["vectors"]])
    query = np.array([cases["cos-03"]["input"]["query"]])
    for call in (
        lambda: semantic_search(query, vectors),
        lambda: faiss.IndexFlatIP(2).add(vectors),
        lambda: Exact({}).index(vectors),
    ):
        with pytest.raises(ValueError, match="row 3"):
            call()


def test_cos_04_a_row_with_itself_is_one(cases: dict[str, Case]) -> None:
    row = np.array([cases["cos-04"]["input"]["a"]], np.float32)
    right = cases["cos-04"]["right"]["cosine"]
    assert semantic_search(row, row) == [[{"corpus_id": 0, "score": right}]]
    faiss.normalize_L2(row)
    index = faiss.IndexFlatIP(3)
    index.add(row)
    assert abs(float(index.search(row, 1)[0][0, 0]) - right) < 2e-7  # its rows are rounded


def test_cos_06_tiny_vectors_have_a_direction(cases: dict[str, Case]) -> None:
    tiny, ones = np.full((1, 8), 1e-25, np.float32), np.ones((1, 8), np.float32)
    right = cases["cos-06"]["right"]["cos_ab"]
    assert semantic_search(tiny, ones)[0][0]["score"] == right
    faiss.normalize_L2(tiny)
    assert tiny.tolist() == [[float(np.float32(np.sqrt(0.125)))] * 8]


def test_cos_09_no_id_beyond_the_data(cases: dict[str, Case]) -> None:
    given, right = cases["cos-09"]["input"], cases["cos-09"]["right"]
    query, vectors = np.array([given["query"]]), np.array(given["vectors"])
    assert [hit["corpus_id"] for hit in semantic_search(query, vectors, top_k=given["k"])[0]] == (
        right["ids"]
    )
    ann = Exact({})
    ann.index(vectors)
    assert [found for found, _ in ann.search(query, given["k"])[0]] == right["ids"]
    index = faiss.IndexFlatIP(2)
    index.add(vectors)
    padding = [-1] * (given["k"] - right["n_results"])  # faiss' own way to say so
    assert index.search(query, given["k"])[1].tolist() == [right["ids"] + padding]


def test_bm25_01_a_term_in_half_of_the_documents(cases: dict[str, Case]) -> None:
    """rank_bm25's formula has an idf of 0 here: the drop-in keeps it, the index does not."""
    documents = [text.split() for text in cases["bm25-01"]["input"]["docs"]]
    found = BM25Okapi(documents).get_scores(cases["bm25-01"]["input"]["query"].split())
    assert found.tolist() == [0.0, 0.0]
