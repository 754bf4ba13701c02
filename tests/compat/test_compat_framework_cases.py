"""Cases of other products' bug threads that concern the frameworks' adapters, by id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gnomon
import pytest

Case = dict[str, Any]


@pytest.fixture(scope="module")
def cases(shared: Path) -> dict[str, Case]:
    path = shared / "cases" / "retrieval_cases.jsonl"
    if not path.is_file():
        pytest.skip(f"no cases at {path}")
    lines = path.read_text(encoding="utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, filter(str.strip, lines))}


@pytest.fixture
def langchain() -> Any:
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from gnomon.compat import langchain

    return langchain


@pytest.fixture
def llama_index() -> Any:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from gnomon.compat import llama_index

    return llama_index


@pytest.fixture
def haystack() -> Any:
    pytest.importorskip("haystack", reason="haystack-ai is not installed")
    from gnomon.compat import haystack

    return haystack


def test_mmr_01_llama_index(cases: dict[str, Case], llama_index: Any) -> None:
    """LlamaIndex's own rule stays the default, the published one is there by name."""
    given, right = cases["mmr-01"]["input"], cases["mmr-01"]["right"]
    options = {"similarity_top_k": given["k"], "mmr_threshold": given["lambda"]}
    ask = llama_index.get_top_k_mmr_embeddings
    assert ask(given["query"], given["vectors"], **options)[1] == [0, 2, 1]
    found = ask(given["query"], given["vectors"], mmr_penalty="all", **options)
    assert found[1] == right["selected"]
    rest = gnomon.mmr_vectors(given["query"], given["vectors"], given["k"], given["lambda"])
    assert rest == right["selected"]


def test_mmr_langchain(cases: dict[str, Case], langchain: Any) -> None:
    mmr = langchain.maximal_marginal_relevance
    given = cases["mmr-01"]["input"]
    found = mmr(given["query"], given["vectors"], given["lambda"], given["k"])
    assert found == cases["mmr-01"]["right"]["selected"]
    given, right = cases["mmr-03"]["input"], cases["mmr-03"]["right"]
    assert mmr(given["query"], given["vectors"], 1, given["k"]) == right["lambda_1"]
    assert mmr(given["query"], given["vectors"], 0, given["k"]) == right["lambda_0"]
    given, right = cases["mmr-05"]["input"], cases["mmr-05"]["right"]
    for case, selected in zip(given["cases"], right["selected"], strict=True):
        assert mmr(given["query"], case["vectors"], given["lambda"], case["k"]) == selected


def test_rrf_02_langchain(cases: dict[str, Case], langchain: Any) -> None:
    """LangChain adds up a document that one list repeats; gnomon's own fusion does not."""
    from langchain_core.documents import Document

    lists, right = cases["rrf-02"]["input"]["lists"], cases["rrf-02"]["right"]
    one = langchain.BM25Retriever.from_texts(["A"])
    ensemble = langchain.EnsembleRetriever(retrievers=[one, one])
    documents = [[Document(page_content=name) for name in names] for names in lists]
    fused = ensemble.weighted_reciprocal_rank(documents)
    assert [document.page_content for document in fused] == ["A", "B"]
    assert gnomon.reciprocal_rank_fusion(lists) == right["ranking"]


def test_rrf_06_haystack(cases: dict[str, Case], haystack: Any) -> None:
    """One score for both orders of the lists; the first list's document is kept."""
    from haystack import Document

    lists = cases["rrf-06"]["input"]["lists"]
    joiner = haystack.DocumentJoiner(join_mode="reciprocal_rank_fusion")
    made = [[Document(id=d["id"], content=d["text"], score=d["score"]) for d in x] for x in lists]
    for order, text in ((made, "full"), (made[::-1], "stub")):
        (document,) = joiner.run(documents=order)["documents"]
        assert (document.score, document.content) == (1.0, text)


def test_rrf_08_llama_index(cases: dict[str, Case], llama_index: Any) -> None:
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import NodeWithScore, TextNode

    lists, right = cases["rrf-08"]["input"]["lists"], cases["rrf-08"]["right"]
    fusion = llama_index.QueryFusionRetriever([None], llm=MockLLM(), mode="simple", num_queries=1)
    results = {
        ("q", place): [NodeWithScore(node=TextNode(id_=n, text=n), score=s) for n, s in entries]
        for place, entries in enumerate(lists)
    }
    found = fusion._simple_fusion(results)
    assert [each.node_id for each in found] == right["ranking"]
    assert {each.node_id: each.score for each in found} == right["scores"]


@pytest.mark.parametrize("algorithm", ["BM25Okapi", "BM25L", "BM25Plus"])
@pytest.mark.parametrize("name", ["bm25-10", "bm25-11"])
def test_bm25_haystack(cases: dict[str, Case], haystack: Any, name: str, algorithm: str) -> None:
    """With BM25L and BM25Plus what matches comes back, and nothing else; Okapi is as Haystack's."""
    from haystack import Document

    given, right = cases[name]["input"], cases[name]["right"]
    store = haystack.InMemoryDocumentStore(bm25_algorithm=algorithm, shared=False)
    texts = [Document(id=str(n), content=text) for n, text in enumerate(given["docs"])]
    store.write_documents(texts)
    found = [int(each.id) for each in store.bm25_retrieval(given["query"], top_k=given["k"])]
    if algorithm == "BM25Okapi":
        assert len(found) == given["k"]
    else:
        assert found == right["ranking"]
