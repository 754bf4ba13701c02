"""gnomon.compat.mteb: mteb's protocol, by hand and against numpy. mteb is not needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.compat.mteb import FaissSearchIndex
from gnomon.reference import dense

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(60, 7)).astype(np.float32)
QUERIES = RNG.normal(size=(4, 7)).astype(np.float32)
NAMES = [f"d{place}" for place in range(60)]


def index_of(similarity: str, *parts: Any) -> FaissSearchIndex:
    name = SimpleNamespace(name=similarity)
    model = SimpleNamespace(mteb_model_meta=SimpleNamespace(similarity_fn_name=name))
    index = FaissSearchIndex(model)
    start = 0
    for part in parts:
        index.add_documents(part, NAMES[start : start + len(part)])
        start += len(part)
    return index


@pytest.mark.parametrize(
    ("similarity", "metric"), [("COSINE", "cosine"), ("DOT_PRODUCT", "ip"), ("EUCLIDEAN", "l2")]
)
def test_scores_are_the_engines(similarity: str, metric: str) -> None:
    whole = index_of(similarity, ROWS)
    parts = index_of(similarity, ROWS[:13], ROWS[13:14], ROWS[14:])
    scores, places = whole.search(QUERIES, 9, None)
    assert parts.search(QUERIES, 9, None) == (scores, places)
    for query, found, row in zip(QUERIES, places, scores, strict=True):
        expected = dense.top_k(query.tolist(), ROWS.tolist(), 9, metric)
        assert found == [place for place, _ in expected]
        shown = [-((-score) ** 0.5) if metric == "l2" else score for _, score in expected]
        assert row == shown
    assert [len(row) for row in whole.search(QUERIES, 99, None)[0]] == [60] * 4
    # Reranking gives places in each query's list, best first.
    lists = {"q0": ["d5", "d59", "d5", "d0"], "q1": [], "q2": NAMES[::-1]}
    names = {0: "q0", 1: "q1", 2: "q2", 3: "q3"}
    with pytest.warns(UserWarning, match="No top-ranked documents for query q"):
        scores, places = parts.search(QUERIES, 3, None, lists, names)
    assert [len(row) for row in places] == [3, 0, 3, 0]
    assert sorted(places[0]) == [0, 1, 3]
    assert places[2] == [59 - place for place in whole.search(QUERIES[2:3], 3, None)[1][0]]
    assert scores[2] == whole.search(QUERIES[2:3], 3, None)[0][0]
    with pytest.raises(ValueError, match="query_idx_to_id"):
        whole.search(QUERIES, 3, None, lists)
    whole.clear()
    with pytest.raises(ValueError, match="No index built"):
        whole.search(QUERIES, 3, None)


def test_ties_zeros_and_refusals() -> None:
    index = index_of("COSINE", np.array([[0, 0], [1, 0], [2, 0], [3, 0]], np.float32))
    assert index.search(np.array([[5.0, 0.0]]), 4, None) == ([[1.0, 1.0, 1.0, 0.0]], [[1, 2, 3, 0]])
    with pytest.raises(ValueError, match=r"finite|NaN"):
        index_of("COSINE", np.array([[np.nan, 0]], np.float32))
    with pytest.raises(ValueError, match="3 embeddings came with 1 ids"):
        index.add_documents(np.ones((3, 2)), ["x"])


def test_a_similarity_of_the_models_own() -> None:
    def manhattan(a: Any, b: Any) -> Any:
        return -np.abs(np.asarray(a)[:, None] - np.asarray(b)[None]).sum(axis=2)

    with pytest.warns(UserWarning, match="MANHATTAN is computed by the model"):
        index = index_of("MANHATTAN", ROWS[:20], ROWS[20:])
    scores, places = index.search(QUERIES, 5, manhattan)
    expected = manhattan(QUERIES, ROWS)
    assert places == np.argsort(-expected, axis=1, kind="stable")[:, :5].tolist()
    lists = {"q": [NAMES[place] for place in reversed(places[0])]}
    again = index.search(QUERIES[:1], 5, manhattan, lists, {0: "q"})
    assert again == ([scores[0]], [[4, 3, 2, 1, 0]])


def test_torch_tensors_are_read_where_they_lie() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = torch.from_numpy(ROWS.copy())
    index = index_of("COSINE", rows)
    queries = torch.from_numpy(QUERIES.copy())
    assert index.search(queries, 5, None) == index_of("COSINE", ROWS).search(QUERIES, 5, None)
    assert isinstance(index.index, gnomon.DenseIndex)
    kept = index.index._state.segments[0].core.vectors
    assert np.shares_memory(kept, rows.numpy())
