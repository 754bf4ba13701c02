"""gnomon.compat.langchain against langchain-core, where it is installed."""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from gnomon.compat import langchain as ours
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

TEXTS = [f"text number {n}" for n in range(40)]


class Table(Embeddings):
    """Embeds what it has been told."""

    def __init__(self, vectors: dict[str, list[float]]):
        self.vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.vectors[text]


def stores(embedding: Any) -> tuple[Any, Any]:
    pair = InMemoryVectorStore(embedding), ours.InMemoryVectorStore(embedding)
    for store in pair:
        store.add_texts(TEXTS, [{"n": n} for n in range(40)], ids=[f"id{n}" for n in range(40)])
    return pair


def even(document: Document) -> bool:
    return bool(document.metadata["n"] % 2 == 0)


@pytest.fixture
def embedding() -> Any:
    return DeterministicFakeEmbedding(size=24)


@pytest.mark.parametrize("options", [{}, {"k": 99}, {"k": 0}, {"k": 5, "filter": even}])
def test_searches_are_langchains(embedding: Any, options: dict[str, Any]) -> None:
    theirs, mine = stores(embedding)
    for query in TEXTS[:3]:
        expected = theirs.similarity_search_with_score(query, **options)
        found = mine.similarity_search_with_score(query, **options)
        assert [document for document, _ in found] == [document for document, _ in expected]
        assert all(abs(a - b) < 1e-6 for (_, a), (_, b) in zip(found, expected, strict=True))
        assert mine.similarity_search(query, **options) == [document for document, _ in found]
        assert asyncio.run(mine.asimilarity_search(query, **options)) == [d for d, _ in found]


def test_a_k_of_none_is_all(embedding: Any) -> None:
    theirs, mine = stores(embedding)
    wanted = [store.similarity_search(TEXTS[0], k=None) for store in (theirs, mine)]
    assert wanted[0] == wanted[1]
    assert len(wanted[1]) == 40


@pytest.mark.parametrize("options", [{"k": 5}, {"k": 9, "fetch_k": 12, "lambda_mult": 0.1}])
def test_mmr_is_langchains(embedding: Any, options: dict[str, Any]) -> None:
    theirs, mine = stores(embedding)
    # not one of the texts: its own document would leave all others with 0.5 * s - 0.5 * s
    for query in ("a query", "another", "third"):
        expected = theirs.max_marginal_relevance_search(query, **options)
        assert mine.max_marginal_relevance_search(query, **options) == expected
        assert asyncio.run(mine.amax_marginal_relevance_search(query, **options)) == expected


def test_mmr_function_is_langchains() -> None:
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(60, 8)).astype(np.float32)
    outside = rng.normal(size=(1, 8)).astype(np.float32)
    for lambda_mult in (0.0, 0.3, 0.5, 1.0):
        for query in (outside[0], outside[:1]):
            expected = maximal_marginal_relevance(query, vectors, lambda_mult, 20)
            assert ours.maximal_marginal_relevance(query, vectors, lambda_mult, 20) == expected
    assert ours.maximal_marginal_relevance(vectors[0], [], k=4) == []
    assert ours.maximal_marginal_relevance(vectors[0], vectors, k=0) == []
    with pytest.raises(ValueError, match="diversity"):
        ours.maximal_marginal_relevance(vectors[0], vectors, lambda_mult=1.5)


def test_changes_are_seen(embedding: Any, tmp_path: Path) -> None:
    _, store = stores(embedding)

    def best() -> list[str | None]:
        return [document.id for document in store.similarity_search("text number 3", k=1)]

    assert best() == ["id3"]
    store.delete(["id3"])
    assert best() != ["id3"]
    store.add_documents([Document(page_content="text number 3", id="back")])
    assert best() == ["back"]
    store.store["back"]["text"] = "words may change"
    assert store.similarity_search("text number 3", k=1)[0].page_content == "words may change"
    for change in (
        lambda: store.store.pop("back"),
        lambda: store.store.update(
            back=dict(store.store["id5"], vector=embedding.embed_query("q"))
        ),
        lambda: store.store.__delitem__("id7"),
        lambda: store.store.clear(),
    ):
        before = store.similarity_search("q", k=50)
        change()
        assert store.similarity_search("q", k=50) != before
    assert store.similarity_search("q") == []
    store.store = {
        "x": {"id": "x", "vector": embedding.embed_query("q"), "text": "q", "metadata": {}}
    }
    assert [document.id for document in store.similarity_search("q")] == ["x"]
    store.dump(str(tmp_path / "store.json"))
    for again in (
        ours.InMemoryVectorStore.load(str(tmp_path / "store.json"), embedding),
        InMemoryVectorStore.load(str(tmp_path / "store.json"), embedding),
        copy.deepcopy(store),
        pickle.loads(pickle.dumps(store)),
    ):
        assert [document.id for document in again.similarity_search("q")] == ["x"]


def test_ties_zeros_and_what_is_refused() -> None:
    vectors = {"a": [1.0, 0.0], "b": [0.0, 0.0], "c": [2.0, 0.0], "nan": [float("nan"), 0.0]}
    store = ours.InMemoryVectorStore(Table(vectors | {"wide": [1.0, 2.0, 3.0]}))
    store.add_texts(["b", "c", "a"], ids=["b", "c", "a"])
    found = store.similarity_search_with_score("a", k=3)
    assert [(document.id, score) for document, score in found] == [
        ("c", 1.0),
        ("a", 1.0),
        ("b", 0.0),
    ]
    assert [score for _, score in store.similarity_search_with_score("b")] == [0.0] * 3
    with pytest.raises(ValueError, match="Number of columns"):
        store.similarity_search("wide")
    with pytest.raises(ValueError, match="k must be at least 0"):
        store.similarity_search("a", k=-1)
    with pytest.raises(ValueError, match=r"finite|NaN"):
        store.similarity_search("nan")


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["add", "delete", "search"])), max_size=12
    ),
    k=st.integers(0, 7),
)
def test_any_history_gives_langchains_answers(steps: Any, k: int) -> None:
    embedding = DeterministicFakeEmbedding(size=5)
    pair = InMemoryVectorStore(embedding), ours.InMemoryVectorStore(embedding)
    for number, what in [*steps, (0, "search")]:
        if what == "search":
            expected, found = (
                store.similarity_search_with_score(f"query {number}", k=k) for store in pair
            )
            assert [document for document, _ in found] == [document for document, _ in expected]
            scores = [score for _, score in expected]
            # LangChain adds in numpy's order, which differs from the canonical one by roundings.
            assert [score for _, score in found] == pytest.approx(scores, abs=1e-6)
            continue
        for store in pair:
            if what == "add":
                store.add_texts([f"text {number}"], ids=[str(number)])
            else:
                store.delete([str(number)])
