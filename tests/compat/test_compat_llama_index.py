"""gnomon.compat.llama_index against llama-index-core, where it is installed."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")

from gnomon.compat import llama_index as ours
from llama_index.core.indices.query import embedding_utils as theirs
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

RNG = np.random.default_rng(7)
VECTORS = RNG.normal(size=(40, 12))
QUERIES = RNG.normal(size=(5, 12)).tolist()


def nodes_of(vectors: Any) -> list[TextNode]:
    return [
        TextNode(
            id_=f"n{place:02}",
            text=f"text {place}",
            embedding=list(map(float, vector)),
            metadata={"odd": place % 2},
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"d{place % 3}")},
        )
        for place, vector in enumerate(vectors)
    ]


def stores(vectors: Any = VECTORS) -> tuple[Any, Any]:
    pair = SimpleVectorStore(), ours.SimpleVectorStore()
    for store in pair:
        store.add(nodes_of(vectors))
    return pair


def equal_to(key: str, value: Any) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value)])


EVEN = equal_to("odd", 0)
OPTIONS: list[dict[str, Any]] = [
    {"similarity_top_k": 1},
    {"similarity_top_k": 7},
    {"similarity_top_k": 99},
    {"similarity_top_k": 0},
    {"similarity_top_k": 5, "filters": EVEN},
    {"similarity_top_k": 5, "node_ids": ["n03", "n01", "none"]},
    {"similarity_top_k": 5, "node_ids": ["n03", "n04"], "filters": EVEN},
    {"similarity_top_k": 5, "node_ids": []},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("mode", [VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR])
def test_queries_are_llama_indexs(options: dict[str, Any], mode: Any) -> None:
    original, mine = stores()
    thresholds = [None, 0.0, 0.3, 1.0] if mode == VectorStoreQueryMode.MMR else [None]
    for vector in QUERIES:
        query = VectorStoreQuery(query_embedding=vector, mode=mode, **options)
        for threshold in thresholds:
            expected = original.query(query, mmr_threshold=threshold)
            found = mine.query(query, mmr_threshold=threshold)
            assert found.ids == expected.ids
            # LlamaIndex adds in numpy's order, which differs from the canonical one by roundings.
            assert found.similarities == pytest.approx(expected.similarities, abs=1e-6)
            assert asyncio.run(mine.aquery(query, mmr_threshold=threshold)).ids == found.ids


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_functions_are_llama_indexs(data: st.DataObject) -> None:
    n, dim = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 6))
    seed = data.draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)  # float32 values: no tie but what is one
    rows = rng.normal(size=(n, dim)).astype(np.float32).astype(float).tolist()
    query = rng.normal(size=dim).astype(np.float32).astype(float).tolist()
    k = data.draw(st.sampled_from([None, 0, 1, 3, 20]))
    names = data.draw(st.sampled_from([None, [f"id{i}" for i in range(n)]]))
    cutoff = data.draw(st.sampled_from([None, 0.0, 0.5]))
    options = {"similarity_top_k": k, "embedding_ids": names, "similarity_cutoff": cutoff}
    if dim == 1:
        return  # all cosines are 1 or -1: ties
    expected = theirs.get_top_k_embeddings(query, rows, **options)
    found = ours.get_top_k_embeddings(query, rows, **options)
    assert found[1] == expected[1]
    # LlamaIndex adds in numpy's order, which differs from the canonical one by roundings.
    assert found[0] == pytest.approx(expected[0], abs=1e-6)
    threshold = data.draw(st.sampled_from([None, 0.0, 0.25, 1.0]))
    options |= {"mmr_threshold": threshold, "similarity_top_k": k}
    expected = theirs.get_top_k_mmr_embeddings(query, rows, **options)
    found = ours.get_top_k_mmr_embeddings(query, rows, **options)
    if dim > 2:  # in the plane the last pick's cosines tie by symmetry
        assert found[1] == expected[1]
        # LlamaIndex adds in numpy's order, which differs from the canonical one by roundings.
        assert found[0] == pytest.approx(expected[0], abs=1e-6)


def test_own_similarity_goes_to_the_original() -> None:
    def negative(a: Any, b: Any) -> float:
        return -float(np.dot(a, b))

    rows = VECTORS.tolist()
    for name in ("get_top_k_embeddings", "get_top_k_mmr_embeddings"):
        expected = getattr(theirs, name)(QUERIES[0], rows, negative, 3)
        with pytest.warns(UserWarning, match="goes to llama_index.core"):
            assert getattr(ours, name)(QUERIES[0], rows, negative, 3) == expected
        default = theirs.default_similarity_fn
        assert getattr(ours, name)(QUERIES[0], rows, default, 3)[1]
    assert ours.get_top_k_embeddings([1.0], []) == ([], [])
    assert ours.get_top_k_mmr_embeddings([1.0], []) == ([], [])


def test_a_zero_vector_loses_no_node_and_ties_stand_in_order() -> None:
    vectors = VECTORS.copy()
    vectors[11] = 0.0
    store = stores(vectors)[1]
    query = VectorStoreQuery(query_embedding=QUERIES[0], similarity_top_k=40)
    found = store.query(query)
    assert len(set(found.ids)) == 40
    assert found.similarities == sorted(found.similarities, reverse=True)
    assert dict(zip(found.ids, found.similarities, strict=True))["n11"] == 0.0
    same = stores([[1.0, 2.0]] * 5)[1]
    assert same.query(VectorStoreQuery(query_embedding=[1.0, 2.0], similarity_top_k=3)).ids == [
        "n00",
        "n01",
        "n02",
    ]
    with pytest.raises(ValueError, match="must be \\[12\\]"):
        store.query(VectorStoreQuery(query_embedding=[1.0], similarity_top_k=1))
    store.data.embedding_dict["n00"] = [float("nan")] * 12
    with pytest.raises(ValueError, match=r"finite|NaN"):
        store.query(query)


def test_changes_are_seen(tmp_path: Path) -> None:
    store = stores()[1]

    def best(vector: Any) -> list[str]:
        query = VectorStoreQuery(query_embedding=list(vector), similarity_top_k=1)
        return list(store.query(query).ids or [])

    assert best(VECTORS[4]) == ["n04"]
    store.delete_nodes(["n04"])
    assert best(VECTORS[4]) != ["n04"]
    assert best(VECTORS[5]) == ["n05"]
    store.delete("d2")  # of nodes 2, 5, 8, ...
    assert best(VECTORS[5]) != ["n05"]
    store.add(nodes_of(VECTORS)[4:6])
    assert best(VECTORS[5]) == ["n05"]
    store.data.embedding_dict["n00"] = VECTORS[5].tolist()
    assert best(VECTORS[5]) == ["n00"]  # the earlier of equals
    path = str(tmp_path / "store.json")
    store.persist(path)
    for again in (
        ours.SimpleVectorStore.from_persist_path(path),
        SimpleVectorStore.from_persist_path(path),
        ours.SimpleVectorStore.from_dict(store.to_dict()),
        copy.deepcopy(store),
        pickle.loads(pickle.dumps(store)),
    ):
        query = VectorStoreQuery(query_embedding=VECTORS[7].tolist(), similarity_top_k=1)
        assert again.query(query).ids == ["n07"]
    store.clear()
    assert best(VECTORS[5]) == []
    store.data.embedding_dict = {"x": VECTORS[0].tolist()}  # a dict of the caller's
    assert best(VECTORS[5]) == ["x"]
    store.data.embedding_dict["y"] = VECTORS[5].tolist()
    assert best(VECTORS[5]) == ["y"]
    with pytest.raises(ValueError, match="persisted without metadata"):
        store.query(VectorStoreQuery(query_embedding=QUERIES[0], filters=EVEN))


def test_other_modes_are_llama_indexs_own() -> None:
    store = stores()[1]
    with pytest.raises(ValueError, match="Invalid query mode"):
        store.query(VectorStoreQuery(query_embedding=QUERIES[0], mode=VectorStoreQueryMode.SPARSE))


TEXTS = ["a red apple", "green pears and a red plum", "blue plum jam", "an apple, a pie, an apple"]


def retriever(**options: Any) -> Any:
    nodes = [
        TextNode(id_=str(n), text=text, metadata={"n": n}, excluded_embed_metadata_keys=["n"])
        for n, text in enumerate(TEXTS)
    ]
    return ours.BM25Retriever.from_defaults(nodes=nodes, skip_stemming=True, **options)


def test_bm25_retriever(tmp_path: Path) -> None:
    from gnomon.compat import bm25s

    engine = bm25s.BM25()
    engine.index(bm25s.tokenize(TEXTS, stopwords="en"))
    scores = engine.get_scores(["apple", "red"])
    found = retriever(similarity_top_k=9).retrieve("red Apple apple")
    once_more = engine.get_scores(["red", "apple", "apple"])
    order = np.argsort(-once_more, kind="stable")
    assert [each.node_id for each in found] == [str(n) for n in order]
    assert [each.score for each in found] == once_more[order].tolist()
    assert retriever(similarity_top_k=1).retrieve("apple red")[0].score == max(scores)
    one = retriever(similarity_top_k=2)
    assert one.retrieve("plum")[0].metadata == {"n": 2}
    assert asyncio.run(one.aretrieve("plum"))[0].node_id == "2"
    one.persist(str(tmp_path / "kept"))
    again = ours.BM25Retriever.from_persist_dir(str(tmp_path / "kept"))
    assert [each.node_id for each in again.retrieve("plum")] == ["2", "1"]
    assert json.loads((tmp_path / "kept" / "retriever.json").read_text())["similarity_top_k"] == 2
    with pytest.raises(ValueError, match="exactly one"):
        ours.BM25Retriever.from_defaults()
    with pytest.raises(ValueError, match=r"No nodes|no token"):
        ours.BM25Retriever.from_defaults(nodes=[TextNode(text="")], skip_stemming=True)


def test_masked_nodes_never_come_back() -> None:
    """Issue 22897 of llama_index: they came back with score 0."""
    kept = retriever(similarity_top_k=4, filters=equal_to("n", 1))
    assert [each.node_id for each in kept.retrieve("apple")] == ["1"]
    with pytest.raises(ValueError, match="All nodes were filtered out"):
        retriever(filters=equal_to("n", 77))


def test_the_original_bm25_retriever_agrees(tmp_path: Path) -> None:
    original = pytest.importorskip(
        "llama_index.retrievers.bm25", reason="llama-index-retrievers-bm25 is not installed"
    )
    nodes = [TextNode(id_=str(n), text=text) for n, text in enumerate(TEXTS)]
    pair = [
        cls.from_defaults(nodes=nodes, similarity_top_k=2)
        for cls in (original.BM25Retriever, ours.BM25Retriever)
    ]
    pair[0].persist(str(tmp_path))
    pair.append(ours.BM25Retriever.from_persist_dir(str(tmp_path)))
    for query in ("red apples", "plums"):
        theirs_found, *found = ([(e.node_id, e.score) for e in r.retrieve(query)] for r in pair)
        assert all(each == theirs_found for each in found)


class Fixed(BaseRetriever):
    def __init__(self, *scored: tuple[str, float]):
        self.found = [NodeWithScore(node=TextNode(id_=t, text=t), score=s) for t, s in scored]
        super().__init__()

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        return self.found


@pytest.mark.parametrize(
    "mode", ["reciprocal_rerank", "relative_score", "dist_based_score", "simple"]
)
def test_fusion_is_llama_indexs_but_leaves_the_nodes_alone(mode: str) -> None:
    def made(cls: Any) -> Any:
        lists = Fixed(("a", 0.9), ("b", 0.5), ("c", 0.1)), Fixed(("c", 3.0), ("a", 2.0), ("d", 1.0))
        options = {"num_queries": 1, "use_async": False, "retriever_weights": [0.7, 0.3]}
        return lists, cls(list(lists), llm=MockLLM(), mode=mode, similarity_top_k=9, **options)

    _, original = made(QueryFusionRetriever)
    lists, mine = made(ours.QueryFusionRetriever)
    expected = [(each.node_id, each.score) for each in original.retrieve("q")]
    for _ in range(2):  # a second time: nothing was written into the lists
        assert [(each.node_id, each.score) for each in mine.retrieve("q")] == expected
        found = asyncio.run(mine.aretrieve("q"))
        assert [(each.node_id, each.score) for each in found] == expected
    assert [each.score for each in lists[0].found] == [0.9, 0.5, 0.1]
