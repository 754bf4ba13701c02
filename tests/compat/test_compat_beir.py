"""gnomon.compat.beir by its own rules, and against beir where it is installed."""

from __future__ import annotations

from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.compat import beir as ours
from hypothesis import given, settings
from hypothesis import strategies as st


class Table:
    """Embeds texts by a table; remembers how many documents came at once."""

    def __init__(self, vectors: dict[str, Any], wrap: Any = np.array):
        self.vectors, self.wrap, self.sizes = vectors, wrap, []

    def encode_queries(self, queries: list[str], **options: Any) -> Any:
        assert set(options) == {"batch_size", "show_progress_bar", "convert_to_tensor"}
        return self.wrap([self.vectors[query] for query in queries])

    def encode_corpus(self, documents: list[dict[str, str]], **options: Any) -> Any:
        self.sizes.append(len(documents))
        return self.wrap([self.vectors[document["text"]] for document in documents])


def case(n: int, n_queries: int, seed: int, dim: int = 6) -> tuple[Any, Any, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    texts = {f"d{i}": "x" * int(rng.integers(1, 5)) + str(i) for i in range(n)}
    corpus = {name: {"title": "t", "text": text} for name, text in texts.items()}
    queries = {f"q{i}": f"query {i}" for i in range(n_queries)}
    names = [*texts.values(), *queries.values()]
    values = rng.normal(size=(len(names), dim)).astype(np.float32)
    return corpus, queries, dict(zip(names, values, strict=True))


@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(0, 30),
    n_queries=st.integers(0, 4),
    top_k=st.integers(0, 12),
    chunk=st.integers(1, 40),
    seed=st.integers(0, 2**31),
    name=st.sampled_from(["cos_sim", "dot"]),
)
def test_chunks_do_not_change_the_answer(
    n: int, n_queries: int, top_k: int, chunk: int, seed: int, name: str
) -> None:
    corpus, queries, vectors = case(n, n_queries, seed)
    model = Table(vectors)
    search = ours.DenseRetrievalExactSearch(model, corpus_chunk_size=chunk)
    found = search.search(corpus, queries, top_k, name)
    assert found == search.results
    assert sum(model.sizes) == (n if n_queries else 0)
    assert all(size <= chunk for size in model.sizes)
    order = sorted(corpus, key=lambda key: len(corpus[key]["text"]), reverse=True)
    assert list(found) == list(queries)
    if n == 0 or n_queries == 0:
        assert all(each == {} for each in found.values())
        return
    rows = np.array([vectors[corpus[key]["text"]] for key in order])
    metric = {"cos_sim": "cosine", "dot": "ip"}[name]
    index = gnomon.DenseIndex.build(rows, ids=order, metric=metric)
    for query, text in queries.items():
        hits = index.search(vectors[text], top_k)
        assert list(found[query].items()) == list(zip(hits.ids, hits.scores.tolist(), strict=True))


def test_the_document_of_the_query_itself_is_left_out() -> None:
    """Case eval-06: with equal ids the document is dropped, and another one takes its place."""
    corpus = {str(i): {"text": str(i)} for i in range(10)}
    vectors = {str(i): [1.0, i / 10] for i in range(10)} | {"q": [1.0, 0.0]}
    search = ours.DenseRetrievalExactSearch(Table(vectors))
    found = search.search(corpus, {"0": "q"}, 3, "cos_sim")
    assert list(found["0"]) == ["1", "2", "3"]
    assert list(search.search(corpus, {"other": "q"}, 3, "cos_sim")["other"]) == ["0", "1", "2"]


def test_ties_zeros_and_refusals() -> None:
    texts = {"a": "1", "long": "123", "b": "2", "none": "0"}
    corpus = {name: {"text": text} for name, text in texts.items()}
    vectors = {
        "1": [1.0, 0.0],
        "123": [3.0, 0.0],
        "2": [2.0, 0.0],
        "0": [0.0, 0.0],
        "q": [1.0, 0.0],
    }
    search = ours.DenseRetrievalExactSearch(Table(vectors), corpus_chunk_size=2)
    found = search.search(corpus, {"q": "q"}, 9, "cos_sim")["q"]
    assert list(found.items()) == [("long", 1.0), ("a", 1.0), ("b", 1.0), ("none", 0.0)]
    with pytest.raises(ValueError, match="must be one of cos_sim, dot"):
        search.search(corpus, {"q": "q"}, 9, "other")
    vectors["2"] = [float("nan"), 0.0]
    with pytest.raises(ValueError, match=r"finite|NaN"):
        search.search(corpus, {"q": "q"}, 9, "cos_sim")


def test_own_functions_are_called() -> None:
    corpus, queries, vectors = case(9, 2, 1)
    search = ours.DenseRetrievalExactSearch(Table(vectors), corpus_chunk_size=4)
    search.score_functions["negative"] = lambda a, b: -(a @ b.T)
    with pytest.warns(UserWarning, match="negative is called for whole chunks"):
        found = search.search(corpus, queries, 3, "negative")
    for query, text in queries.items():
        scores = {key: -(vectors[text] @ vectors[corpus[key]["text"]]) for key in corpus}
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:3]
        assert list(found[query]) == best
    assert ours.dot_score([1.0, 2.0], [[3.0, 4.0], [5.0, -1.0]]).tolist() == [[11.0, 3.0]]


@pytest.mark.parametrize("name", ["cos_sim", "dot"])
def test_beir_agrees(name: str) -> None:
    dense = pytest.importorskip("beir.retrieval.search.dense", reason="beir is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")
    corpus, queries, vectors = case(80, 5, 2)
    for chunk in (80, 33):
        answers = [
            cls(
                Table(vectors, lambda v: torch.tensor(np.array(v))), corpus_chunk_size=chunk
            ).search(corpus, queries, 7, name)
            for cls in (dense.DenseRetrievalExactSearch, ours.DenseRetrievalExactSearch)
        ]
        for query in queries:
            expected, found = (answer[query] for answer in answers)
            assert set(found) == set(expected)
            assert all(abs(found[key] - expected[key]) < 1e-5 for key in found)
