"""Filters, range search and memory budgets of DenseIndex: what a search over fewer rows gives."""

from __future__ import annotations

from typing import Any

import gnomon
import numpy as np
import pytest
import strategies
from gnomon.reference import dense as reference
from hypothesis import given, settings
from hypothesis import strategies as st

METRICS = ("cosine", "ip", "l2")
SCREENS = ("auto", "int8", "float32", "none")


def expected(
    query: Any, rows: Any, metric: str, allowed: Any, min_score: float | None, k: int | None
) -> list[tuple[int, float]]:
    ranked = reference.top_k(query.tolist(), rows.tolist(), len(rows), metric)
    kept = [
        (row, score)
        for row, score in ranked
        if allowed[row] and (min_score is None or score >= min_score)
    ]
    return kept[:k]


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=60)
@given(data=st.data(), case=strategies.dense_cases())
def test_filters_and_ranges(
    level: str, metric: str, data: st.DataObject, case: strategies.DenseCase
) -> None:
    n = len(case.rows)
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_)
    index = gnomon.DenseIndex.build(case.rows, metric=metric, screen="int8" if n else "auto")
    screen = data.draw(st.sampled_from(SCREENS if index.screen_bytes else SCREENS[2:]))
    for query in case.queries:
        full = reference.top_k(query.tolist(), case.rows.tolist(), n, metric)
        floor = data.draw(st.sampled_from([None, *(score for _, score in full)]))  # ties included
        k = data.draw(st.sampled_from([None, 0, 1, 5, n + 3]))
        mask = allowed if data.draw(st.booleans()) else np.ones(n, np.bool_)
        chosen: Any = mask if data.draw(st.booleans()) else np.flatnonzero(mask).tolist()
        hits = index.search(query, k, filter=chosen, min_score=floor, screen=screen, level=level)
        want = expected(query, case.rows, metric, mask, floor, k)
        assert list(zip(hits.ids.tolist(), hits.scores.tolist(), strict=True)) == want


@pytest.mark.parametrize("screen", ["int8", "head", "float32", "none"])
@pytest.mark.parametrize("metric", METRICS)
def test_filters_over_many_panels_equal_an_index_of_the_rest(metric: str, screen: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((5000, 130)).astype(np.float32)
    queries = rng.standard_normal((20, 130)).astype(np.float32)
    index = gnomon.DenseIndex.build(rows, metric=metric, screen="head")
    for share in (0.9, 0.3, 0.01):
        mask = rng.random(5000) < share
        rest = gnomon.DenseIndex.build(rows[mask], ids=np.flatnonzero(mask), metric=metric)
        for k in (3, 300):
            ours = index.search(queries, k, filter=mask, screen=screen, threads=2)
            theirs = rest.search(queries, k, screen="none")
            assert ours.ids.tolist() == theirs.ids.tolist()
            assert ours.scores.tobytes() == theirs.scores.tobytes()
        floor = float(theirs.scores[:, 5].max())
        ranges = index.search(queries, None, filter=mask, min_score=floor, screen=screen)
        for ours_range, ids, scores in zip(
            ranges, *rest.search(queries, None, screen="none"), strict=True
        ):
            n = int((scores >= floor).sum())
            assert ours_range.ids.tolist() == ids[:n].tolist()
            assert ours_range.scores.tobytes() == scores[:n].tobytes()


def test_a_budget_takes_queries_in_parts() -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((700, 20))
    index = gnomon.DenseIndex.build(rows)
    whole = index.search(rows[:33], 5)
    parts = index.search(rows[:33], 5, memory_budget=1500)
    assert parts.ids.tolist() == whole.ids.tolist()
    assert parts.scores.tobytes() == whole.scores.tobytes()
    lean = gnomon.DenseIndex.build(rows, memory_budget=700 * 20 * 4)
    assert lean.screen_bytes == 0
    with pytest.raises(ValueError, match="memory_budget is 10 bytes"):
        gnomon.DenseIndex.build(rows, memory_budget=10)


def test_memory_of_the_caller_is_kept_when_asked() -> None:
    rows = np.eye(3, dtype=np.float32)
    index = gnomon.DenseIndex.build(rows, copy=False, metric="ip")
    assert np.shares_memory(index._state.segments[0].core.vectors, rows)
    torch = pytest.importorskip("torch")
    tensor = torch.eye(3)
    index = gnomon.DenseIndex.build(tensor, copy=False)
    assert np.shares_memory(index._state.segments[0].core.vectors, tensor.numpy())


class Halves:
    """A DLPack exporter that is no array: rows of float16."""

    def __init__(self) -> None:
        self.array = np.eye(3, dtype=np.float16)

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_dlpack_of_any_library() -> None:
    index = gnomon.DenseIndex.build(Halves())
    assert index.search([0.0, 1.0, 0.0], 1).ids.tolist() == [1]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"filter": [True, False]}, ValueError, "a mask over the 3 rows"),
        ({"filter": [7]}, KeyError, "filter\\[0\\] is 7, which this index does not hold"),
        ({"filter": [0.0]}, KeyError, "does not hold"),
        ({"filter": "ab"}, TypeError, "filter is one text"),
        ({"min_score": float("nan")}, ValueError, "min_score must be a number"),
        ({"min_score": "high"}, TypeError, "min_score must be a number"),
        ({"screen": "head"}, ValueError, "screen 'head' was asked for"),
        ({"memory_budget": -1}, ValueError, "memory_budget must be at least 0"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    index = gnomon.DenseIndex.build(np.eye(3))
    with pytest.raises(error, match=message):
        index.search([1.0, 0.0, 0.0], **arguments)


def test_bfloat16_of_an_extension_type() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((40, 9)).astype(ml_dtypes.bfloat16)
    wide = rows.astype(np.float32)
    for halves, floats in ((rows, wide), (rows[::2], wide[::2]), (rows.T[:9], wide.T[:9])):
        ours = gnomon.DenseIndex.build(halves).search(halves[0], 5)
        theirs = gnomon.DenseIndex.build(floats).search(floats[0], 5)
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert ours.scores.tobytes() == theirs.scores.tobytes()
