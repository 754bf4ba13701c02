"""The examples of the document that defines these functions, with names imported from gnomon."""

from __future__ import annotations

import itertools

import pytest
from gnomon import (
    bm25_scores,
    chunk_tokens,
    citation_report,
    cosine_topk,
    mmr,
    reciprocal_rank_fusion,
)


def test_chunks_share_their_overlap_and_reach_the_end() -> None:
    tokens = list(range(11))
    chunks = chunk_tokens(tokens, size=5, overlap=2)
    assert chunks[0]["tokens"] == [0, 1, 2, 3, 4]
    assert chunks[-1]["end"] == len(tokens)
    assert all(a["end"] - b["start"] == 2 for a, b in itertools.pairwise(chunks))


def test_the_word_that_repeats_scores_higher() -> None:
    docs = [["red", "apple"], ["green", "apple", "apple"], ["blue", "berry"]]
    scores = bm25_scores(["apple"], docs)
    assert scores[1] > scores[0] > scores[2]


def test_the_near_copy_is_not_picked() -> None:
    torch = pytest.importorskip("torch")
    q = torch.tensor([1.0, 0.95, 0.8])
    sim = torch.tensor([[1.0, 0.99, 0.1], [0.99, 1.0, 0.2], [0.1, 0.2, 1.0]])
    assert mmr(q, sim, limit=2, diversity=0.5) == [0, 2]


def test_a_zero_vector_has_similarity_zero() -> None:
    torch = pytest.importorskip("torch")
    documents = torch.tensor([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    values, indices = cosine_topk(torch.tensor([2.0, 0.0]), documents, 5)
    assert indices.tolist() == [1, 0, 2]
    assert values.tolist() == [1.0, 0.0, -1.0]


def test_incompatible_shapes_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="query"):
        cosine_topk(torch.zeros(3), torch.zeros(4, 2), 1)


def test_a_repeated_id_counts_once() -> None:
    assert reciprocal_rank_fusion([["A", "A", "A", "B"], ["B"]]) == ["B", "A"]


def test_unknown_does_not_vanish_from_the_report() -> None:
    report = citation_report(
        [
            {"requires_citation": True, "citations": ["supported", "unsupported", "unknown"]},
            {"requires_citation": True, "citations": []},
            {"requires_citation": False, "citations": ["supported"]},
        ]
    )
    assert report == {"completeness": 0.5, "support_precision": 0.5, "decidable_rate": 2 / 3}
    assert citation_report([]) == {
        "completeness": 1.0,
        "support_precision": None,
        "decidable_rate": None,
    }


def test_no_documents_give_no_scores() -> None:
    assert list(bm25_scores(["apple"], [])) == []
