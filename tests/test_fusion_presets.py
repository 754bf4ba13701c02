"""Weights, depth, and the formulas of other programs: equal to the written-out ones by ==."""

from __future__ import annotations

import math
from typing import Any

import pytest
from gnomon import reciprocal_rank_fusion
from gnomon.fusion import max_score_fusion, rrf_scores
from gnomon.fusion_presets import PRESETS, preset
from gnomon.reference import fusion as reference
from hypothesis import given
from hypothesis import strategies as st

RANKINGS = st.lists(
    st.lists(st.sampled_from("abcdefghijklmn"), max_size=16), min_size=1, max_size=4
)
WEIGHT = st.floats(0, 1e6)


def test_there_are_seven() -> None:
    assert list(PRESETS) == [
        *("cormack", "langchain", "llama-index", "haystack", "txtai", "elasticsearch", "qdrant")
    ]


@pytest.mark.parametrize("name", PRESETS)
@given(RANKINGS, st.data())
def test_equals_the_reference(name: str, rankings: list[list[str]], data: st.DataObject) -> None:
    n = len(rankings)
    weights = data.draw(st.none() | st.lists(WEIGHT, min_size=n, max_size=n))
    scores = rrf_scores(rankings, preset=name, weights=weights)
    want = reference.preset_scores(rankings, name, weights)
    assert list(scores.items()) == list(want.items())
    fused = reciprocal_rank_fusion(rankings, preset=name, weights=weights)
    appearance = list(want)
    assert fused == sorted(want, key=lambda d: (-want[d], appearance.index(d)))


@given(RANKINGS, st.floats(-0.9, 1000), st.data())
def test_weights_stand_above_the_fraction(
    rankings: list[list[str]], k: float, data: st.DataObject
) -> None:
    weights = data.draw(st.lists(WEIGHT, min_size=len(rankings), max_size=len(rankings)))
    want: dict[str, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        for rank, doc_id in enumerate(ranking, 1):
            if doc_id not in ranking[: rank - 1]:
                want[doc_id] = want.get(doc_id, 0.0) + weight / (k + rank)
    assert rrf_scores(rankings, k, weights=weights) == want
    ones = [1] * len(rankings)
    assert rrf_scores(rankings, k, weights=ones) == rrf_scores(rankings, k)


@given(RANKINGS, st.integers(1, 20))
def test_depth_cuts_every_ranking(rankings: list[list[str]], depth: int) -> None:
    cut = [ranking[:depth] for ranking in rankings]
    got = list(rrf_scores(rankings, depth=depth).items())
    assert got == list(rrf_scores(cut).items())


def test_they_differ_where_they_are_known_to() -> None:
    lists = [["solo", "p", "both"], ["r", "s", "both"]]
    assert rrf_scores(lists, preset="qdrant")["both"] == 0.5  # 1/4 + 1/4: ties with the top
    assert reciprocal_rank_fusion(lists, preset="qdrant")[0] == "solo"
    assert reciprocal_rank_fusion(lists)[0] == "both"
    assert reciprocal_rank_fusion(lists, preset="txtai")[0] == "solo"
    # With weight 3, the sixth counts as the second of a ranking of weight 1.
    weighted = rrf_scores([list("abcdefgh"), ["z"]], preset="qdrant", weights=[3, 1])
    assert weighted["f"] == 1 / (6 / 3 + 2 - 1)
    assert rrf_scores([["a"], ["b"]], preset="qdrant", weights=[1, 0]) == {"a": 0.5, "b": 0.0}
    assert rrf_scores([["a"], ["b"]], preset="txtai", weights=[1, 0]) == {"a": 1.0}
    twice = [["A", "A", "A", "B"], ["B"]]
    assert reciprocal_rank_fusion(twice)[0] == "B"
    assert reciprocal_rank_fusion(twice, preset="langchain")[0] == "A"
    assert rrf_scores([["a"], ["a"]], preset="haystack") == {"a": 1.0}
    window = [list("abcdefghijk"), ["k"]]
    assert rrf_scores(window, preset="elasticsearch")["k"] == 1 / 61
    assert rrf_scores(window, preset="elasticsearch", depth=11)["k"] == 1 / 71 + 1 / 61


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"preset": "solr"}, "preset must be one of cormack, langchain"),
        ({"preset": "qdrant", "k": 5}, "preset 'qdrant' decides k; got k=5"),
        ({"weights": [1]}, "weights has 1 entries for 2 rankings"),
        ({"weights": [1, -1]}, r"weights\[1\] must be finite and at least 0, got -1"),
        ({"weights": [math.nan, 1]}, r"weights\[0\] must be finite"),
        ({"depth": 0}, "depth must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        reciprocal_rank_fusion([["a"], ["b"]], **options)


def test_preset_names_are_listed() -> None:
    assert preset("cormack").k == 60


def test_highest_score() -> None:
    assert max_score_fusion([[("a", 0.9)], [("a", 0.2), ("b", 0.5)]]) == [("a", 0.9), ("b", 0.5)]
    assert max_score_fusion([[("x", 1.0)], [("y", 1.0)]]) == [("x", 1.0), ("y", 1.0)]
    with pytest.raises(ValueError, match=r"lists\[0\]: the score of 'a' is not a number"):
        max_score_fusion([[("a", math.nan)]])


# ------------------------------------------------------------ the programs themselves, if installed

LISTS = [list("abcdefgh"), list("hgxyza"), list("qa")]


@pytest.mark.filterwarnings("ignore")  # theirs
def test_haystack() -> None:
    joiners = pytest.importorskip("haystack.components.joiners")
    dataclasses = pytest.importorskip("haystack.dataclasses")
    documents = [[dataclasses.Document(id=i, content=i) for i in ids] for ids in LISTS]
    for weights in (None, [0.5, 0.3, 0.2]):
        joiner = joiners.DocumentJoiner(join_mode="reciprocal_rank_fusion", weights=weights)
        found = joiner.run(documents=documents)["documents"]
        # It normalises the weights first.
        given = None if joiner.weights is None else list(joiner.weights)
        want = rrf_scores(LISTS, preset="haystack", weights=given)
        assert {document.id: document.score for document in found} == want


@pytest.mark.filterwarnings("ignore")  # theirs
def test_langchain() -> None:
    ensemble = pytest.importorskip("langchain_classic.retrievers.ensemble")
    retriever = pytest.importorskip("langchain_core.retrievers").BaseRetriever
    document = pytest.importorskip("langchain_core.documents").Document

    class Fixed(retriever):  # type: ignore[misc, valid-type]
        ids: list[str]

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return [document(page_content=i) for i in self.ids]

    for weights in (None, [0.5, 0.3, 0.2]):
        options = {} if weights is None else {"weights": weights}
        fused = ensemble.EnsembleRetriever(retrievers=[Fixed(ids=i) for i in LISTS], **options)
        found = [one.page_content for one in fused.invoke("x")]
        assert found == reciprocal_rank_fusion(LISTS, preset="langchain", weights=weights)


@pytest.mark.filterwarnings("ignore")  # theirs
def test_llama_index() -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import NodeWithScore, TextNode

    nodes = {i: TextNode(text=i, id_=i) for i in "".join(map("".join, LISTS))}
    results = {
        ("q", n): [NodeWithScore(node=nodes[i], score=1.0 - r / 100) for r, i in enumerate(ids)]
        for n, ids in enumerate(LISTS)
    }
    fusion = QueryFusionRetriever([], llm=MockLLM(), num_queries=1, retriever_weights=[])
    found = {one.node.node_id: one.score for one in fusion._reciprocal_rerank_fusion(results)}
    assert found == rrf_scores(LISTS, preset="llama-index")


@pytest.mark.filterwarnings("ignore")  # theirs
def test_ranx() -> None:
    ranx = pytest.importorskip("ranx")
    runs = [
        ranx.Run({"q": {i: 100.0 - r for r, i in enumerate(ids)}}, name=str(n))
        for n, ids in enumerate(LISTS)
    ]
    found = ranx.fuse(runs=runs, method="rrf", params={"k": 60}).to_dict()["q"]
    assert found == rrf_scores(LISTS, preset="cormack")
