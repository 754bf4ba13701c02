"""Row "retrieval" of the verification matrix: what an agent relies on in the search half."""

from __future__ import annotations

import random
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.agent.citations import citation_report, evidence_coverage
from hypothesis import given
from hypothesis import strategies as st

CORPUS = ["red apple", "", "green apple apple", "blue berry", "   "]


def test_empty_documents_are_never_found_and_change_no_order() -> None:
    index = gnomon.BM25Index.build(CORPUS)
    assert index.search("apple", k=5).ids.tolist() == [2, 0]
    assert gnomon.BM25Index.build(["", ""]).search("apple", k=5).ids.tolist() == []
    assert gnomon.bm25_scores(["apple"], []) == []


def test_a_rare_term_outranks_a_common_one() -> None:
    texts = ["pump manual"] * 50 + ["pump E4711"]
    index = gnomon.BM25Index.build(texts)
    assert index.search("pump e4711", k=1).ids.tolist() == [50]
    assert index.search("e4711", k=5).ids.tolist() == [50]
    assert index.search("never-seen", k=5).ids.tolist() == []


def test_zero_vectors_score_zero_and_give_no_nan() -> None:
    documents = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    values, indices = gnomon.cosine_topk(np.array([1.0, 0.0]), documents, 3)
    assert indices.tolist() == [1, 0, 2]
    assert values.tolist() == [1.0, 0.0, -1.0]
    values, _ = gnomon.cosine_topk(np.zeros(2), documents, 3)
    assert values.tolist() == [0.0, 0.0, 0.0]


def test_a_repeated_id_counts_once_in_fusion_and_is_refused_in_an_index() -> None:
    assert gnomon.reciprocal_rank_fusion([["a", "a", "a", "b"], ["b"]]) == ["b", "a"]
    with pytest.raises(ValueError, match="id"):
        gnomon.BM25Index.build(["x", "y"], ids=["a", "a"])


def question(**changes: Any) -> dict[str, Any]:
    return {"id": "q", "gold": ["a", "b"], "retrieved": ["a", "b"], "cited": ["a", "b"]} | changes


def test_gold_evidence_coverage_of_a_real_search() -> None:
    texts = ["Ada wrote notes on the engine", "The engine was built by Babbage", "Cooking rice"]
    index = gnomon.BM25Index.build(texts, ids=["ada", "babbage", "rice"])
    found = list(index.search("who built the engine Ada wrote about", k=2).ids)
    report = evidence_coverage(
        [question(gold=["ada", "babbage"], retrieved=found, cited=["babbage"])]
    )
    assert report["retrieved"] == {"all": 1.0, "any": 1.0, "fraction": 1.0}
    assert report["cited"] == {"all": 0.0, "any": 1.0, "fraction": 0.5}
    cited = report["rows"][0]["cited"]
    assert cited is not None
    assert cited["missing"] == ["ada"]


@pytest.mark.parametrize(
    ("cited", "figures"),
    [
        ([], (False, False, 0.0, ["a", "b"])),
        (["c"], (False, False, 0.0, ["a", "b"])),
        (["b", "b", "c"], (False, True, 0.5, ["a"])),
        (["b", "a"], (True, True, 1.0, [])),
    ],
)
def test_coverage_by_hand(cited: list[str], figures: tuple[Any, ...]) -> None:
    row = evidence_coverage([question(cited=cited)])["rows"][0]["cited"]
    assert row is not None
    assert tuple(row.values()) == figures


def test_alternatives_supply_one_hop() -> None:
    hop = question(gold=[["a", "a-mirror"], "b"], retrieved=["a-mirror"], cited=["b", "ghost"])
    row = evidence_coverage([hop])["rows"][0]
    assert row["gold"] == 2
    assert row["retrieved"] == {"all": False, "any": True, "fraction": 0.5, "missing": ["b"]}
    assert row["cited"] == {"all": False, "any": True, "fraction": 0.5, "missing": ["a | a-mirror"]}
    assert row["cited_not_retrieved"] == ["b", "ghost"]


def test_a_question_without_gold_is_counted_and_enters_no_mean() -> None:
    report = evidence_coverage([question(), question(id="none", gold=[])])
    assert (report["questions"], report["without_gold"]) == (2, 1)
    assert report["cited"] == {"all": 1.0, "any": 1.0, "fraction": 1.0}
    assert report["rows"][1]["cited"] is None
    only = evidence_coverage([question(gold=[])])
    assert only["retrieved"] == only["cited"] == {"all": None, "any": None, "fraction": None}


@given(st.lists(st.sampled_from("abcdef"), max_size=8), st.randoms(use_true_random=False))
def test_coverage_does_not_depend_on_order_or_repeats(ids: list[str], rng: random.Random) -> None:
    shuffled = ids + ids
    rng.shuffle(shuffled)
    plain = evidence_coverage([question(gold=ids, retrieved=ids[::2], cited=ids[:2])])
    mixed = evidence_coverage(
        [question(gold=shuffled, retrieved=ids[::2] * 2, cited=ids[:2][::-1])]
    )
    assert plain == mixed


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"gold": "ab"}, TypeError, r"questions\[0\]\['gold'\] must be a list"),
        ({"gold": [3]}, TypeError, r"\['gold'\]\[0\] must be a list"),
        ({"gold": [[]]}, ValueError, "empty list of alternatives"),
        ({"cited": [True]}, TypeError, "a source id is a string"),
        ({"cited": [""]}, ValueError, "empty source id"),
        ({"id": ""}, ValueError, "non-empty string"),
    ],
)
def test_a_bad_question_is_named(changes: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        evidence_coverage([question(**changes)])


def test_missing_keys_and_repeated_ids_are_named() -> None:
    with pytest.raises(KeyError, match=r"questions\[0\] lacks the key 'gold'"):
        evidence_coverage([{"id": "q"}])
    with pytest.raises(ValueError, match=r"questions\[1\] repeats the id 'q'"):
        evidence_coverage([question(), question()])


CLAIMS = st.lists(
    st.fixed_dictionaries(
        {
            "requires_citation": st.booleans(),
            "citations": st.lists(
                st.sampled_from(["supported", "unsupported", "unknown"]), max_size=4
            ),
        }
    ),
    max_size=8,
)


@given(CLAIMS)
def test_the_three_figures_are_those_of_the_search_half(claims: list[dict[str, Any]]) -> None:
    report = citation_report(claims)
    figures = gnomon.citation_report(claims)
    assert {key: report[key] for key in figures} == figures  # type: ignore[literal-required]


@given(CLAIMS)
def test_no_label_disappears(claims: list[dict[str, Any]]) -> None:
    report = citation_report(claims)
    for label in ("supported", "unsupported", "unknown"):
        given_labels = sum(claim["citations"].count(label) for claim in claims)
        assert report["labels"][label] + report["optional_labels"][label] == given_labels
        assert sum(row[label] for row in report["claims"]) == given_labels  # type: ignore[literal-required]
    assert sum(report["verdicts"].values()) == len(claims) == len(report["claims"])


@pytest.mark.parametrize(
    ("required", "labels", "verdict"),
    [
        (True, [], "uncited"),
        (False, [], "not_required"),
        (True, ["unknown"], "unknown"),
        (True, ["unknown", "supported"], "supported"),
        (True, ["unsupported", "unknown"], "unsupported"),
        (True, ["unsupported", "supported"], "mixed"),
        (False, ["unsupported"], "unsupported"),
    ],
)
def test_verdict_of_a_claim(required: bool, labels: list[str], verdict: str) -> None:
    report = citation_report([{"id": 7, "requires_citation": required, "citations": labels}])
    assert report["claims"][0]["verdict"] == verdict
    assert report["claims"][0]["id"] == "7"


def test_none_stands_for_no_citation() -> None:
    claims: list[dict[str, Any]] = [{"requires_citation": True, "citations": None}]
    report, figures = citation_report(claims), gnomon.citation_report(claims)
    assert {key: report[key] for key in figures} == figures  # type: ignore[literal-required]
    assert report["claims"][0]["verdict"] == "uncited"


def test_citations_may_be_objects_with_a_label() -> None:
    labelled = [{"label": "supported", "source_id": "d1"}, "unknown"]
    report = citation_report([{"requires_citation": True, "citations": labelled}])
    assert report["labels"] == {"supported": 1, "unsupported": 0, "unknown": 1}


@pytest.mark.parametrize(
    ("claim", "error"),
    [
        ({"citations": []}, KeyError),
        ({"requires_citation": True}, KeyError),
        ({"requires_citation": "false", "citations": []}, TypeError),
        ({"requires_citation": True, "citations": "supported"}, TypeError),
        ({"requires_citation": True, "citations": ["Supported"]}, ValueError),
        ({"requires_citation": True, "citations": [None]}, ValueError),
        ({"requires_citation": True, "citations": [["supported"]]}, ValueError),
        ({"requires_citation": True, "citations": [{"source_id": "d"}]}, ValueError),
    ],
)
def test_a_bad_claim_is_named(claim: dict[str, Any], error: type) -> None:
    with pytest.raises(error, match=r"claims\[0\]"):
        citation_report([claim])
