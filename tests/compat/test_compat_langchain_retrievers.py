"""LangChain's retrievers: BM25 with persistence, and the ensemble."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import gnomon
import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from gnomon.compat import langchain as ours
from gnomon.compat.rank_bm25 import BM25Okapi
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field


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
    assert gc.isenabled()  # which load() pauses, and which fails above half-way
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


@pytest.mark.filterwarnings("ignore")  # what the originals say of their own future
def test_the_original_ensemble_agrees() -> None:
    classic = pytest.importorskip(
        "langchain_classic.retrievers", reason="langchain-classic is not installed"
    )
    lists = [Fixed(names=("a", "b", "c")), Fixed(names=("b", "d", "b")), Fixed(names=("e", "c"))]
    for options in ({}, {"weights": [0.5, 0.3, 0.2]}, {"c": 1, "id_key": "key"}):
        pair = [module.EnsembleRetriever(retrievers=lists, **options) for module in (classic, ours)]
        assert pair[0].invoke("q") == pair[1].invoke("q")
        assert asyncio.run(pair[0].ainvoke("q")) == asyncio.run(pair[1].ainvoke("q"))
        assert pair[0].weights == pair[1].weights


@pytest.mark.filterwarnings("ignore")
def test_the_original_bm25_retriever_agrees() -> None:
    community = pytest.importorskip(
        "langchain_community.retrievers", reason="langchain-community is not installed"
    )
    pytest.importorskip("rank_bm25", reason="rank-bm25 is not installed")
    texts = ["red apple", "green pear tree", "blue plum jam jam", "apple pie and apple", "plum"]
    options = {"bm25_params": {"b": 0.4}, "preprocess_func": words, "k": 2}
    pair = [
        module.BM25Retriever.from_texts(texts, [{"n": n} for n in range(5)], **options)
        for module in (community, ours)
    ]
    for query in ("apple", "plum jam", "green red pie"):
        assert pair[0].invoke(query) == pair[1].invoke(query)
    # Any object with get_top_n goes in: gnomon's scores in the original retriever.
    lent = community.BM25Retriever(vectorizer=pair[1].vectorizer, docs=pair[1].docs, k=2)
    assert lent.invoke("apple") == pair[1].invoke("apple")
