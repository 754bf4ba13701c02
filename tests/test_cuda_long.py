"""Searches on the emulated device whose sizes, values and orders are drawn over the whole range.

Two of each in CI; GNOMON_CUDA_LONG=60 draws 60.
"""

from __future__ import annotations

import os
from typing import Any

import gnomon
import numpy as np
import pytest
from emulated import Emulator
from gnomon import _core
from gnomon.bm25_formula import formulas

SEEDS = range(int(os.environ.get("GNOMON_CUDA_LONG", "2")))
PRODUCTS = 20_000_000  # of a dense case: rows x dimensions x queries, some seconds


def spread(rng: np.random.Generator, least: int, most: int) -> int:
    """Small numbers as likely as great ones, and the greatest itself now and then."""
    if rng.random() < 0.1:
        return most
    return int(np.exp(rng.uniform(np.log(least), np.log(most + 1))))


def rows_of(rng: np.random.Generator, kind: str, n: int, dim: int) -> np.ndarray:
    rows = rng.standard_normal((n, dim))
    if kind == "ties":
        rows = rng.integers(-1, 2, (n, dim))
    elif kind == "copies":
        rows = rows[rng.integers(0, max(1, n // 20), n)]
    elif kind == "zeros":
        rows[rng.random(n) < 0.3] = 0.0
    elif kind == "ascending":
        rows = np.sort(rows, axis=0)
    elif kind == "descending":
        rows = np.sort(rows, axis=0)[::-1]
    elif kind == "wide":
        rows = rows * 10.0 ** rng.integers(-30, 15, (n, 1))
    elif kind == "outliers":
        rows = rows * np.where(rng.random((n, dim)) < 0.01, 1e4, 1.0)
    elif kind == "close":
        rows = rows[:1] + 1e-6 * rows
    return np.ascontiguousarray(rows, np.float32)


KINDS = (
    "normal",
    "ties",
    "copies",
    "zeros",
    "ascending",
    "descending",
    "wide",
    "outliers",
    "close",
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["int8", "bf16"])
@pytest.mark.parametrize("family", ["mma", "wgmma"])
def test_dense(device: Emulator, family: str, how: str, seed: int) -> None:
    rng = np.random.default_rng([seed, len(how), len(family)])
    dim, n_queries = spread(rng, 1, 1536), spread(rng, 1, 140)
    n = min(spread(rng, 1, 6000), max(1, PRODUCTS // (dim * n_queries)))
    k = min(spread(rng, 1, 2048), n)
    metric = ("cosine", "ip", "l2")[seed % 3]
    kind = KINDS[int(rng.integers(len(KINDS)))]
    rows = rows_of(rng, kind, n, dim)
    queries = rows_of(rng, "normal", n_queries, dim)
    queries[: n_queries // 2] = rows[rng.integers(0, n, n_queries // 2)]
    capacity = int(rng.choice([0, 1, 33, 500]))
    if capacity == 1 and n * n_queries > 3000:
        capacity = 64  # a wave for each row
    streamed = bool(rng.random() < 0.3)
    options: dict[str, Any] = {"workspace_bytes": 8 << 20}
    corpus = device.module.DenseCorpus(
        rows, metric, format=how, resident_bytes=1 if streamed else 0, **options
    )
    wanted = gnomon.DenseIndex.build(rows, metric=metric, screen="none").search(queries, k)
    device.schedule(seed % 6)
    found, scores, counts, did = corpus.search(
        queries, k, family=family, capacity=capacity, planes=int(rng.integers(0, 3)), **options
    )
    case = (kind, metric, n, dim, n_queries, k, capacity, streamed, did)
    assert np.array_equal(found, wanted.ids), case
    assert scores.tobytes() == wanted.scores.tobytes(), case
    assert (counts == k).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_bm25(device: Emulator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, words = spread(rng, 1, 6000), spread(rng, 1, 300)
    weights = 1.0 / np.arange(1, words + 1) ** rng.uniform(0.0, 1.5)
    weights /= weights.sum()
    documents = [
        rng.choice(words, size=size, p=weights).tolist() for size in rng.integers(0, 25, n)
    ]
    if seed % 4 == 0:
        documents = [documents[i] for i in np.sort(rng.integers(0, max(1, n // 10), n))]
    names = [name for name in formulas() if name != "bm25f"]
    index = gnomon.BM25Index.build(documents, formula=names[seed % len(names)])
    index.add(documents[: n // 3])
    index.delete([int(i) for i in rng.permutation(n)[: n // 5]])
    scorer = index._view.searcher.scorer()
    corpus = device.module.Bm25Corpus(
        _core.bm25_device_segments(scorer),
        _core.bm25_device_formula(scorer),
        0,
        int(rng.choice([64, 1000, 8192])),
    )
    queries = [
        rng.integers(0, words, spread(rng, 1, 80)).tolist() for _ in range(spread(rng, 1, 30))
    ]
    k = spread(rng, 1, 2048)
    device.schedule(seed % 6)
    *found, _ = corpus.search(
        _core.bm25_device_plan(scorer, queries), k, _core.bm25_device_live(scorer),
        capacity=int(rng.choice([0, 1, 200])),
    )  # fmt: skip
    for got, wanted in zip(found, scorer.search_many(queries, k), strict=True):
        assert got.tobytes() == wanted.tobytes(), (n, words, k, names[seed % len(names)])


@pytest.mark.parametrize("seed", SEEDS)
def test_mmr(device: Emulator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim, n = spread(rng, 1, 1536), spread(rng, 1, 500)
    n = min(n, max(1, 200_000 // dim))
    rows = rows_of(rng, KINDS[int(rng.integers(len(KINDS)))], n, dim)
    queries = rows_of(rng, "normal", spread(rng, 1, 5), dim)
    options: dict[str, Any] = {"penalty": ("all", "last")[seed % 2], "return_scores": True}
    limit, diversity = spread(rng, 1, 40), float(rng.choice([0.0, 0.3, 1.0, rng.random()]))
    device.schedule(seed % 6)
    found = gnomon.mmr_vectors(queries, rows, limit, diversity, device="emulated", **options)
    assert repr(found) == repr(gnomon.mmr_vectors(queries, rows, limit, diversity, **options))
