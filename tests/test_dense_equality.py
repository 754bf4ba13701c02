"""Dense top-k, compiled against the reference: the same rows and the same bits at every level."""

from __future__ import annotations

import gnomon
import numpy as np
import pytest
import strategies
from gnomon.reference import dense as reference
from hypothesis import given
from hypothesis import strategies as st


def check(case: strategies.DenseCase, metric: str, indices: np.ndarray, values: np.ndarray) -> None:
    rows = case.rows.tolist()
    assert indices.shape == values.shape == (len(case.queries), min(case.k, len(rows)))
    for query, row_indices, row_values in zip(case.queries, indices, values, strict=True):
        expected = reference.top_k(query.tolist(), rows, case.k, metric)
        assert list(zip(row_indices.tolist(), row_values.tolist(), strict=True)) == expected
        # == cannot tell 0.0 from -0.0.
        assert row_values.tobytes() == np.array([score for _, score in expected]).tobytes()


@given(strategies.dense_cases(), st.sampled_from((1, 3)))
def test_cosine_topk(level: str, case: strategies.DenseCase, threads: int) -> None:
    values, indices = gnomon.cosine_topk(
        case.queries, case.rows, case.k, threads=threads, level=level
    )
    check(case, "cosine", indices, values)


@pytest.mark.parametrize("metric", sorted(reference.METRICS))
@given(case=strategies.dense_cases())
def test_index(level: str, metric: str, case: strategies.DenseCase) -> None:
    index = gnomon.DenseIndex.build(case.rows, metric=metric)
    hits = index.search(case.queries, case.k, level=level)
    check(case, metric, hits.ids, hits.scores)


@pytest.mark.parametrize("n_rows", [127, 128, 129, 4095, 4096, 4097, 8200])
def test_block_and_chunk_borders(level: str, n_rows: int) -> None:
    rows = np.random.default_rng(n_rows).integers(-2, 3, (n_rows, 5)).astype(np.float32)
    case = strategies.DenseCase(rows[-2:], rows, 40)  # few distinct scores: ties across chunks
    values, indices = gnomon.cosine_topk(case.queries, rows, 40, threads=2, level=level)
    check(case, "cosine", indices, values)
