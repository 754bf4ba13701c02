"""gnomon.compat.langchain against langchain-core, where it is installed."""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from gnomon.compat import langchain as ours
from gnomon.compat.rank_bm25 import BM25Okapi
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from pydantic import Field

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


@pytest.mark.parametrize("options", [{}, {"k": 7}, {"k": 99}, {"k": 0}, {"k": 5, "filter": even}])
def test_searches_are_langchains(embedding: Any, options: dict[str, Any]) -> None:
    theirs, mine = stores(embedding)
    for query in TEXTS[:3]:
        expected = theirs.similarity_search_with_score(query, **options)
        found = mine.similarity_search_with_score(query, **options)
        assert [document for document, _ in found] == [document for document, _ in expected]
        assert all(abs(a - b) < 1e-6 for (_, a), (_, b) in zip(found, expected, strict=True))
        assert mine.similarity_search(query, **options) == [document for document, _ in found]
        assert asyncio.run(mine.asimilarity_search(query, **options)) == [d for d, _ in found]


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


def words(text: str) -> list[str]:
    return text.lower().split()


def test_bm25_retriever(tmp_path: Path) -> None:
    texts = ["Red apple", "green pear tree", "blue plum jam", "apple pie and apple"]
    documents = [
        Document(page_content=text, metadata={"n": n}, id=str(n)) for n, text in enumerate(texts)
    ]
    retriever = ours.BM25Retriever.from_documents(
        documents, bm25_params={"k1": 1.1, "epsilon": 0.5}, preprocess_func=words, k=3
    )
    bm25 = BM25Okapi([words(text) for text in texts], k1=1.1, epsilon=0.5)
    expected = bm25.get_top_n(["apple"], documents, n=3)
    assert retriever.invoke("Apple") == expected
    assert retriever.invoke("Apple", k=1) == expected[:1]
    assert asyncio.run(retriever.ainvoke("Apple")) == expected
    assert asyncio.run(retriever.ainvoke("Apple", k=1)) == expected[:1]
    assert asyncio.run(retriever.abatch(["Apple"], k=2)) == [expected[:2]]
    with pytest.raises(ValueError, match="k must be at least 0"):
        retriever.invoke("Apple", k=-1)
    with pytest.raises(ValueError, match="must be as many"):
        ours.BM25Retriever.from_texts(texts, [{}])


def test_a_saved_retriever_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["Red apple", "green pear tree", "blue plum jam", "apple pie and apple"]
    built = ours.BM25Retriever.from_texts(
        texts, bm25_params={"k1": 1.1, "epsilon": 0.5}, preprocess_func=words, k=3
    )
    built.save(tmp_path / "bm25")

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the index was built again")

    calls: list[str] = []

    def counted(text: str) -> list[str]:
        calls.append(text)
        return words(text)

    counted.__module__, counted.__qualname__ = words.__module__, words.__qualname__
    with monkeypatch.context() as patch:
        patch.setattr(gnomon.BM25Index, "build", refuse)
        again = ours.BM25Retriever.load(tmp_path / "bm25", counted)
        assert calls == []
        assert again.invoke("Apple") == built.invoke("Apple")
        assert again.k == 3
        assert again.docs == built.docs
        first, second = built.vectorizer, again.vectorizer
        assert second.get_scores(["apple"]).tolist() == first.get_scores(["apple"]).tolist()
        assert dict(second.idf) == dict(first.idf)
        assert second.doc_freqs == first.doc_freqs
        again.save(tmp_path / "copy")  # also what was opened can be saved
    copied = ours.BM25Retriever.load(tmp_path / "copy", words, k=1)
    assert copied.invoke("pear") == built.invoke("pear", k=1)
    with pytest.raises(ValueError, match=r"saved with preprocess_func .*words, got .*split"):
        ours.BM25Retriever.load(tmp_path / "bm25")
    with pytest.raises(FileNotFoundError):
        ours.BM25Retriever.load(tmp_path / "none")


def test_a_damaged_or_foreign_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bm25"
    ours.BM25Retriever.from_texts(["a b", "c"]).save(path)
    for file in sorted(path.iterdir()):
        good = file.read_bytes()
        if not good:
            continue  # the lock
        for bad in (good[:-1], bytes([good[len(good) // 2] ^ 1]), b""):
            damaged = good[: len(good) // 2] + bad + good[len(good) // 2 + 1 :]
            damaged = bad if len(bad) != 1 else damaged
            file.write_bytes(damaged)
            with pytest.raises(gnomon.CorruptIndex):
                ours.BM25Retriever.load(path).invoke("a b c")
        file.write_bytes(good)
    assert len(ours.BM25Retriever.load(path).docs) == 2
    gnomon.BM25Index.build(["a"]).save(tmp_path / "other")
    with pytest.raises(gnomon.CorruptIndex, match="no part 'langchain'"):
        ours.BM25Retriever.load(tmp_path / "other")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        ours.BM25Retriever.from_texts(["a b"]).save(tmp_path / "file")


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    class Mine:
        def get_top_n(self, query: list[str], documents: list[Any], n: int) -> list[Any]:
            return documents[:n]

    retriever = ours.BM25Retriever(vectorizer=Mine(), docs=[Document(page_content="x")])
    assert retriever.invoke("any") == retriever.docs  # any object with get_top_n, as there
    with pytest.raises(TypeError, match="got Mine"):
        retriever.save(tmp_path / "x")
    numbers = ours.BM25Retriever.from_texts(["a b"], preprocess_func=lambda text: [1, 2])
    with pytest.raises(TypeError, match="not str"):
        numbers.save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


class Fixed(BaseRetriever):
    """Always the same documents; remembers its last configuration."""

    names: tuple[str, ...]
    seen: list[Any] = Field(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self.seen.append(run_manager.metadata.get("of"))
        return [Document(page_content=name, metadata={"key": name.upper()}) for name in self.names]


def texts_of(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


def test_ensemble() -> None:
    lists = [Fixed(names=("a", "b", "c")), Fixed(names=("b", "d", "b"))]
    for weights, c in ((None, 60), ([0.9, 0.1], 60), ([0.2, 0.8], 3)):
        ensemble = ours.EnsembleRetriever(retrievers=lists, weights=weights, c=c)
        w = weights or [0.5, 0.5]
        assert ensemble.weights == w
        scores = {
            "a": w[0] / (1 + c),
            "b": w[0] / (2 + c) + w[1] / (1 + c) + w[1] / (3 + c),
            "c": w[0] / (3 + c),
            "d": w[1] / (2 + c),
        }
        order = sorted("abcd", key=lambda name: -scores[name])
        assert texts_of(ensemble.invoke("q", config={"metadata": {"of": "me"}})) == order
        assert [each.seen[-1] for each in lists] == ["me", "me"]
        assert texts_of(asyncio.run(ensemble.ainvoke("q"))) == order
        names = [list(each.names) for each in lists]
        if c == 60:
            fused = gnomon.reciprocal_rank_fusion(names, weights=weights, preset="langchain")
            assert fused == order
    by_key = ours.EnsembleRetriever(retrievers=lists, id_key="key")
    assert texts_of(by_key.invoke("q"))[0] == "b"
    with pytest.raises(ValueError, match="Length of weights"):
        ours.EnsembleRetriever(retrievers=lists, weights=[1.0])
    with pytest.raises(ValueError, match="At least one"):
        ours.EnsembleRetriever(retrievers=lists, weights=[0.0, 0.0])
    with pytest.raises(ValueError, match="Number of rank lists"):
        ours.EnsembleRetriever(retrievers=lists).weighted_reciprocal_rank([[]])
