"""gnomon.compat.haystack against haystack-ai, where it is installed."""

from __future__ import annotations

import asyncio
import copy
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("haystack", reason="haystack-ai is not installed")

from gnomon.compat import haystack as ours
from haystack import Document, Pipeline
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers import InMemoryBM25Retriever
from haystack.document_stores.errors import DocumentStoreError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy

ALGORITHMS = ("BM25Okapi", "BM25L", "BM25Plus")
WORDS = ("red", "green", "apple", "pear", "plum", "pie", "Straße", "日本")
RNG = np.random.default_rng(3)


def documents(n: int = 30, dim: int = 8) -> list[Document]:
    rng = np.random.default_rng(n)
    return [
        Document(
            id=f"d{place:02}",
            content=" ".join(rng.choice(WORDS, size=rng.integers(0, 9))) if place % 7 else None,
            embedding=rng.normal(size=dim).tolist() if place % 5 else None,
            meta={"n": place, "even": place % 2 == 0},
        )
        for place in range(n)
    ]


def pair(**options: Any) -> tuple[Any, Any]:
    return tuple(
        cls(shared=False, **options) for cls in (InMemoryDocumentStore, ours.InMemoryDocumentStore)
    )


EVEN = {"field": "meta.even", "operator": "==", "value": True}
FEW = {"operator": "AND", "conditions": [{"field": "meta.n", "operator": "<", "value": 9}]}


def same(found: list[Document], expected: list[Document]) -> None:
    """The same documents in the same order, with scores that differ by rounding alone."""
    # Haystack adds cosines in numpy's order; equal bits are promised among gnomon's own paths.
    assert [each.score for each in found] == pytest.approx(
        [each.score for each in expected], rel=1e-6, abs=1e-6
    )
    assert [strip(each) for each in found] == [strip(each) for each in expected]


def strip(document: Document) -> dict[str, Any]:
    return {**document.to_dict(flatten=False), "score": None}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "parameters", [None, {"k1": 0.9, "b": 0.2}, {"delta": 0.1, "epsilon": 0.6}]
)
def test_bm25_is_haystacks(algorithm: str, parameters: Any) -> None:
    stores = pair(bm25_algorithm=algorithm, bm25_parameters=parameters, return_embedding=False)
    for store in stores:
        store.write_documents(documents())
        store.delete_documents(["d03", "d08"])
        store.write_documents(documents()[4:6], DuplicatePolicy.OVERWRITE)
    original, mine = stores
    for query in ("apple", "red red pear", "PLUM pie straße", "日", "nothing of it", "red nothing"):
        for options in ({}, {"top_k": 3, "scale_score": True}, {"filters": EVEN}, {"top_k": 99}):
            expected = original.bm25_retrieval(query, **options)
            found = mine.bm25_retrieval(query, **options)
            # Haystack writes its formula in another order of the same operations.
            assert [each.score for each in found] == pytest.approx(
                [each.score for each in expected], rel=1e-12
            )
            same(found, expected)
        assert mine.bm25_retrieval(query, filters=FEW) == mine.bm25_retrieval(
            query, filters=FEW, top_k=None
        )
    with pytest.raises(ValueError, match="non-empty"):
        mine.bm25_retrieval("")
    with pytest.raises(ValueError, match="Invalid filter"):
        mine.bm25_retrieval("red", filters={"field": "meta.n"})


@pytest.mark.parametrize("function", ["dot_product", "cosine"])
def test_embeddings_are_haystacks(function: str) -> None:
    stores = pair(embedding_similarity_function=function)
    for store in stores:
        store.write_documents(documents())
    original, mine = stores
    for _ in range(4):
        query = RNG.normal(size=8).tolist()
        for options in (
            {},
            {"top_k": 99},
            {"top_k": 3, "scale_score": True, "return_embedding": True},
            {"filters": FEW},
            {"filters": EVEN, "return_embedding": None},
        ):
            expected = original.embedding_retrieval(query, **options)
            found = mine.embedding_retrieval(query, **options)
            same(found, expected)
            assert asyncio.run(mine.embedding_retrieval_async(query, **options)) == found


@settings(max_examples=40, deadline=None)
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    steps=st.lists(
        st.tuples(
            st.integers(0, 6),
            st.one_of(st.none(), st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)),
            st.sampled_from(["write", "delete", "search", "all"]),
        ),
        max_size=12,
    ),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
)
def test_any_history_gives_haystacks_answers(algorithm: str, steps: Any, query: str) -> None:
    stores = pair(bm25_algorithm=algorithm)
    for number, text, what in [*steps, (0, None, "search")]:
        for store in stores:
            if what == "write":
                vector = [float(number), 1.0] if number % 2 else None
                store.write_documents(
                    [Document(id=str(number), content=text, embedding=vector)],
                    DuplicatePolicy.OVERWRITE,
                )
            elif what == "delete":
                store.delete_documents([str(number)])
            elif what == "all":
                store.delete_all_documents()
        if what == "search":
            same_but_for_ties(*(store.bm25_retrieval(query, top_k=99) for store in stores))
            same(*(store.embedding_retrieval([1.0, 2.0]) for store in reversed(stores)))


def same_but_for_ties(expected: list[Document], found: list[Document]) -> None:
    """Haystack's running average breaks ties by a last bit, gnomon's mean does not."""
    scores = [each.score for each in expected]
    assert [each.score for each in found] == pytest.approx(scores, rel=1e-9)
    assert {each.id for each in found} == {each.id for each in expected}


def test_ties_and_refusals() -> None:
    store = ours.InMemoryDocumentStore(embedding_similarity_function="cosine", shared=False)
    store.write_documents(
        [
            Document(id=name, content="same words", embedding=vector)
            for name, vector in (("c", [1.0, 0.0]), ("a", [2.0, 0.0]), ("b", [0.0, 0.0]))
        ]
    )
    assert [each.id for each in store.bm25_retrieval("words")] == ["c", "a", "b"]
    found = store.embedding_retrieval([1.0, 0.0])
    assert [(each.id, each.score) for each in found] == [("c", 1.0), ("a", 1.0), ("b", 0.0)]
    assert store.embedding_retrieval([1.0, 0.0], top_k=0) == []
    for bad in ([], [1, 2]):
        with pytest.raises(ValueError, match="non-empty list of floats"):
            store.embedding_retrieval(bad)
    with pytest.raises(ValueError, match="top_k must be at least 0"):
        store.embedding_retrieval([1.0, 0.0], top_k=-1)
    with pytest.raises(DocumentStoreError, match="size of the query"):
        store.embedding_retrieval([1.0, 0.0, 2.0])
    with pytest.raises(ValueError, match=r"finite|NaN"):
        store.embedding_retrieval([math.nan, 0.0])
    store.write_documents([Document(id="x", embedding=[1.0])])
    with pytest.raises(DocumentStoreError, match="all Documents should be the same"):
        store.embedding_retrieval([1.0, 0.0])


def test_shared_storage_and_disk(tmp_path: Path) -> None:
    index = "gnomon-test-shared"
    theirs = InMemoryDocumentStore(index=index)
    theirs.write_documents(documents())
    one, two = ours.InMemoryDocumentStore(index=index), ours.InMemoryDocumentStore(index=index)
    expected = [each.id for each in one.bm25_retrieval("apple")]
    assert expected
    assert [each.id for each in two.bm25_retrieval("apple")] == expected
    theirs.delete_documents([expected[0]])  # through Haystack's own store
    assert one.bm25_retrieval("apple", top_k=9)[0].id != expected[0]
    two.write_documents([Document(id="new", content="apple apple apple")])
    assert "new" in {each.id for each in one.bm25_retrieval("apple", top_k=99)}
    one.save_to_disk(str(tmp_path / "store.json"))
    again = ours.InMemoryDocumentStore.load_from_disk(str(tmp_path / "store.json"))
    assert again.bm25_retrieval("apple") == one.bm25_retrieval("apple")
    assert asyncio.run(one.delete_by_filter_async(FEW)) > 0
    assert one.count_documents_by_filter(FEW) == 0
    theirs.delete_all_documents()
    assert one.bm25_retrieval("apple") == []
    one.write_documents([Document(id="z", content="apple", embedding=[1.0])])
    assert [each.id for each in one.bm25_retrieval("apple")] == ["z"]
    local = ours.InMemoryDocumentStore(shared=False)
    local.write_documents(documents())
    kept = copy.deepcopy(local.storage)
    assert kept == local.storage


def test_threads_write_and_search() -> None:
    store = ours.InMemoryDocumentStore(shared=False)
    store.write_documents([Document(id="0", content="red apple", embedding=[1.0, 0.0])])
    errors: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(30):
                assert store.bm25_retrieval("apple", top_k=500)
                assert store.embedding_retrieval([1.0, 1.0], top_k=500)
        except BaseException as error:  # shown below
            errors.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(1, 60):
        store.write_documents(
            [Document(id=str(number), content="green apple", embedding=[0.5, number / 7])]
        )
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.bm25_retrieval("apple", top_k=500)) == 60
    assert len(store.embedding_retrieval([1.0, 1.0], top_k=500)) == 60


def test_pipelines_save_and_load_it() -> None:
    store = ours.InMemoryDocumentStore(index="gnomon-test-pipeline")
    store.write_documents([Document(id="a", content="apple")])
    pipeline = Pipeline()
    pipeline.add_component("search", InMemoryBM25Retriever(document_store=store))
    pipeline.add_component("join", ours.DocumentJoiner())
    pipeline.connect("search", "join")
    again = Pipeline.loads(pipeline.dumps())
    assert type(again.get_component("search").document_store) is ours.InMemoryDocumentStore
    assert again.run({"search": {"query": "apple"}})["join"]["documents"][0].id == "a"


@pytest.mark.parametrize(
    "mode",
    ["concatenate", "merge", "reciprocal_rank_fusion", "distribution_based_rank_fusion"],
)
@pytest.mark.parametrize("weights", [None, [0.7, 0.2, 0.1]])
def test_joiner_is_haystacks(mode: str, weights: Any) -> None:
    def listed(*names: str) -> list[Document]:
        return [Document(id=name, score=1 / (place + 1)) for place, name in enumerate(names)]

    lists = [listed("a", "b", "c"), listed("c", "a"), listed("d", "b", "d")]
    options = {"join_mode": mode, "weights": weights, "top_k": 3}
    expected = DocumentJoiner(**options).run(documents=lists)["documents"]
    found = ours.DocumentJoiner(**options).run(documents=lists)["documents"]
    assert [(each.id, each.score) for each in found] == [(e.id, e.score) for e in expected]
    assert ours.DocumentJoiner(join_mode=mode).run(documents=[])["documents"] == []
