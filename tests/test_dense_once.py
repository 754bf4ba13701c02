"""Rows that come with the call: one pass over them answers as an index does, at every level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gnomon import _core
from gnomon.reference.dense import METRICS

LEVELS = [level for level in _core.levels() if level != "avx512amx"]
RNG = np.random.default_rng(3)


def made(kind: str, n: int = 4200, dim: int = 19) -> Any:
    rows = RNG.standard_normal((n, dim)).astype(np.float32)
    if kind == "ties":
        rows = rows[RNG.integers(0, 300, n)]
    if kind == "alike":  # no bound decides
        rows = (rows[:1] + rows * np.float32(1e-6)).astype(np.float32)
    if kind == "zeros":
        rows[::7] = 0.0
    if kind == "tiny":  # one row that has no float32 bounds
        rows[4100] *= np.float32(1e-20)
    if kind == "huge":
        rows[5] *= np.float32(1e25)
    return rows


def one_by_one(rows: Any, queries: Any, metric: str, k: int) -> tuple[Any, Any]:
    """By the plain scan, which the reference decides in test_dense_equality.py."""
    parts = [_core.dense_top_k(rows, query[None], metric, k) for query in queries]
    ids, scores = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return ids, scores


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["plain", "ties", "alike", "zeros", "tiny", "huge"])
def test_a_batch_is_its_queries(kind: str, level: str) -> None:
    rows = made(kind)
    queries = np.concatenate([rows[:4], made("plain", 29), np.zeros((1, 19), np.float32)])
    for metric in ("cosine", "ip", "l2"):
        for k, threads in ((1, 1), (9, 3), (700, 2)):
            expected = one_by_one(rows, queries, metric, k)
            found = _core.dense_top_k(rows, queries, metric, k, "zero", threads, level)
            assert found[0].tolist() == expected[0].tolist()
            assert found[1].tolist() == expected[1].tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_scores_are_the_reference_s(metric: str) -> None:
    rows, queries = made("ties"), made("plain", 12)
    ids, scores = _core.dense_top_k(rows, queries, metric, 5)
    values = rows.tolist()
    for query, found, given in zip(queries.tolist(), ids.tolist(), scores.tolist(), strict=True):
        assert [METRICS[metric](query, values[i]) for i in found] == given
        assert sorted(zip(-np.array(given), found, strict=True)) == list(
            zip(-np.array(given), found, strict=True)
        )


@pytest.mark.parametrize("n_queries", [1, 40])
def test_what_is_refused(n_queries: int) -> None:
    rows, queries = made("plain"), made("plain", n_queries)
    for bad in (np.nan, np.inf):
        broken = rows.copy()
        broken[4101, 3] = bad
        with pytest.raises(ValueError, match="documents: row 4101 holds a NaN"):
            _core.dense_top_k(broken, queries, "cosine", 3)
        asked = queries.copy()
        asked[-1, 0] = bad
        with pytest.raises(ValueError, match=f"query: row {n_queries - 1} holds a NaN"):
            _core.dense_top_k(rows, asked, "cosine", 3)
        with pytest.raises(ValueError, match="documents: row 4101"):
            _core.dense_top_k(broken, asked, "l2", 3)
    with pytest.raises(ValueError, match="documents: row 6 is a zero vector"):
        _core.dense_top_k(made("zeros")[1:], queries, "cosine", 3, "error")[0]
    with pytest.raises(ValueError, match="18 dimensions"):
        _core.dense_top_k(rows, queries[:, :18].copy(), "cosine", 3)
    for k in (0, 5):
        assert _core.dense_top_k(rows[:0], queries, "ip", k)[0].shape == (n_queries, 0)
        assert _core.dense_top_k(rows, queries[:0], "ip", k)[0].shape == (0, k)
