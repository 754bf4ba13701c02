"""gnomon._core.Impacts, the eager scores of gnomon.compat.bm25s, against sums made one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gnomon import _core
from hypothesis import given
from hypothesis import strategies as st

MOST = float(np.float32(1e30))
TYPES = [(np.float32, np.int32), (np.float64, np.int64)]


class Columns:
    """Arrays by column, as they are and as the engine has them."""

    def __init__(self, columns: list[tuple[Any, Any]], n_docs: int, types: Any) -> None:
        self.columns, self.n_docs, self.dtype = columns, n_docs, types[0]
        self.engine = _core.Impacts(
            np.concatenate([np.zeros(0), *(values for _, values in columns)]).astype(types[0]),
            np.concatenate([np.zeros(0), *(docs for docs, _ in columns)]).astype(types[1]),
            np.cumsum([0, *(len(docs) for docs, _ in columns)]).astype(np.int64),
            n_docs,
        )

    def expected(self, query: list[int], k: int, shift: float) -> tuple[list[float], list[int]]:
        """Added up in the query's order, in the type, and sorted whole."""
        scores = np.zeros(self.n_docs, self.dtype)
        for column in query:
            docs, values = self.columns[column]
            np.add.at(scores, docs, values.astype(self.dtype))
        scores = scores + self.dtype(shift)
        order = np.argsort(-scores, kind="stable")[:k]
        return scores[order].tolist(), order.tolist()

    def check(self, queries: list[list[int]], k: int, shifts: list[float] | None = None) -> None:
        flat = np.array([column for query in queries for column in query], np.int64)
        offsets = np.cumsum([0, *map(len, queries)]).astype(np.int64)
        given_shifts = None if shifts is None else np.array(shifts, self.dtype)
        wanted = [
            self.expected(query, k, 0.0 if shifts is None else shifts[place])
            for place, query in enumerate(queries)
        ]
        for threads in (1, 2):
            found = self.engine.top_k(flat, offsets, k, given_shifts, threads)
            assert found is not None
            assert found[0].dtype == self.dtype
            assert [*zip(found[0].tolist(), found[1].tolist(), strict=True)] == wanted
        for query in queries[:3]:
            every = self.expected(query, self.n_docs, 0.0)
            sums = self.engine.sums(np.array(query, np.int64))
            assert sums[every[1]].tolist() == every[0]


def drawn(rng: Any, n_docs: int, kind: str) -> list[tuple[Any, Any]]:
    """Columns from rare to in every document; few values make ties, tiny ones steps that round."""
    columns = []
    for column in range(24):
        share = (0.002, 0.02, 0.2, 0.6, 1.0)[column % 5]
        docs = np.flatnonzero(rng.random(n_docs) < share)
        if kind == "ties":
            values = rng.integers(0, 4, len(docs)) * (1.0 + column % 3)
        elif kind == "tiny":
            values = rng.random(len(docs)) * 10.0 ** rng.integers(-45, 1, len(docs))
        else:
            values = rng.random(len(docs)) * (1.0 - share + 1e-4) * 3
        if kind == "negative":
            values = values - 0.2
        columns.append((docs, values))
    return columns


@pytest.mark.parametrize("types", TYPES, ids=["float32", "float64"])
@pytest.mark.parametrize("kind", ["usual", "ties", "tiny", "negative"])
def test_the_best_are_those_of_every_sum(kind: str, types: Any) -> None:
    rng = np.random.default_rng(5)
    for n_docs in (1, 63, 700, 3000):
        columns = Columns(drawn(rng, n_docs, kind), n_docs, types)
        queries = [rng.integers(0, 24, rng.integers(0, 9)).tolist() for _ in range(30)]
        queries += [[4, 4, 9, 9, 9], [0, 5, 10], [2], [0, 0], [3, 3, 4, 2, 2, 8]]
        shifts = rng.choice([0.0, 0.25, 3.0, 1e7, -0.5], len(queries)).tolist()
        for k in {1, min(10, n_docs), min(100, n_docs), n_docs}:
            columns.check(queries, k)
            columns.check(queries, k, shifts)


@given(
    data=st.data(), n_docs=st.integers(1, 12), types=st.sampled_from(TYPES), k=st.integers(0, 12)
)
def test_any_columns(data: Any, n_docs: int, types: Any, k: int) -> None:
    numbers = st.floats(0, MOST, width=32, allow_subnormal=True)
    made = st.dictionaries(st.integers(0, n_docs - 1), numbers, max_size=n_docs)
    columns = [
        (np.array(sorted(each), np.int64), np.array([each[d] for d in sorted(each)]))
        for each in data.draw(st.lists(made, min_size=1, max_size=5))
    ]
    query = st.lists(st.integers(0, len(columns) - 1), max_size=6)
    shift = st.floats(-MOST, MOST, width=32)
    queries = data.draw(st.lists(query, max_size=3))
    shifts = data.draw(st.lists(shift, min_size=len(queries), max_size=len(queries)))
    Columns(columns, n_docs, types).check(queries, min(k, n_docs), shifts)


def test_columns_in_any_order_of_documents() -> None:
    columns = [(np.array([3, 0, 2]), np.array([1.0, 2.0, 2.0])), (np.array([1]), np.array([5.0]))]
    Columns(columns, 4, TYPES[0]).check([[0, 1], [0], []], 3)


def test_scores_that_may_overflow_are_left_to_the_caller() -> None:
    one = np.array([0], np.int64)
    ends = np.array([0, 1], np.int64)
    for value in (np.nan, np.inf, 3e38):
        engine = _core.Impacts(np.array([value], np.float32), one, ends, 1)
        assert engine.top_k(one, ends, 1) is None
    fine = _core.Impacts(np.array([1.0], np.float32), one, ends, 1)
    assert fine.top_k(one, ends, 1, np.array([np.inf], np.float32)) is None
    assert fine.top_k(one, ends, 1) is not None


def test_arrays_that_do_not_fit() -> None:
    data, docs, ends = np.ones(2, np.float32), np.array([0, 1], np.int32), np.array([0, 2])
    for arrays, message in (
        ((data, docs[:1], ends, 2), "one length"),
        ((data, docs, np.array([0, 3]), 2), "indptr must rise"),
        ((data, docs, np.array([0, 2, 1, 2]), 2), "indptr must rise"),
        ((data, docs, ends, 1), "documents from 0"),
        ((data, -docs, ends, 2), "documents from 0"),
        ((data.astype(np.float16), docs, ends, 2), "float32 or float64"),
        ((data, docs.astype(np.int16), ends, 2), "int32 or int64"),
        ((data[:, None], docs, ends, 2), "flat"),
        ((data, docs, ends, 1 << 40), "below 2\\^32"),
    ):
        with pytest.raises(ValueError, match=message):
            _core.Impacts(*arrays)
    engine = _core.Impacts(data, docs, ends, 2)
    with pytest.raises(ValueError, match="token id 1; the index has 1"):
        engine.sums(np.array([1]))
    with pytest.raises(ValueError, match="offsets must rise"):
        engine.top_k(np.array([0]), np.array([0, 2]), 1)
    with pytest.raises(ValueError, match="k must be at most"):
        engine.top_k(np.array([0]), np.array([0, 1]), 3)
    with pytest.raises(ValueError, match="shifts must hold"):
        engine.top_k(np.array([0]), np.array([0, 1]), 1, np.zeros(2, np.float32))
