"""The int8 screen never changes an answer: levels, metrics, batches, threads, hostile data."""

from __future__ import annotations

from pathlib import Path

import gnomon
import numpy as np
import numpy.typing as npt
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

METRICS = ("cosine", "ip", "l2")
Float32 = npt.NDArray[np.float32]


def check(
    rows: Float32, queries: Float32, k: int, metric: str, level: str | None = None, threads: int = 1
) -> dict[str, int]:
    """Ids and bits by the screen are those of the plain scan at the scalar level."""
    index = gnomon.DenseIndex.build(rows, metric=metric, screen="int8")
    plain = index.search(queries, k, screen="none", level="scalar", threads=1)
    stats: dict[str, int] = {}
    use = "int8" if index.screen_bytes else "auto"  # none for no rows, or norms beyond float32
    found = index.search(queries, k, screen=use, stats=stats, level=level, threads=threads)
    assert found.ids.tolist() == plain.ids.tolist()
    assert found.scores.tobytes() == plain.scores.tobytes()
    return stats


@pytest.mark.parametrize("metric", METRICS)
@given(case=strategies.dense_cases(), threads=st.sampled_from((1, 2)))
def test_generated_cases(level: str, metric: str, case: strategies.DenseCase, threads: int) -> None:
    check(case.rows, case.queries, case.k, metric, level, threads)


@pytest.mark.parametrize("metric", METRICS)
@given(seed=strategies.seeds(), kind=st.sampled_from(sorted(strategies.KINDS)))
def test_many_panels(level: str, metric: str, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(100, 700)), int(rng.integers(1, 50)))
    rows = strategies.KINDS[kind](rng, shape).astype(np.float32)
    rows[rng.integers(0, shape[0], 20)] = rows[rng.integers(0, shape[0], 20)]
    queries = np.concatenate([rows[:4], strategies.KINDS[kind](rng, (9, shape[1]))])
    check(rows, queries.astype(np.float32), int(rng.integers(1, 30)), metric, level, 2)


def hostile() -> dict[str, Float32]:
    rng = np.random.default_rng(17)
    base = rng.standard_normal((3000, 40)).astype(np.float32)
    direction = base[0] / np.linalg.norm(base[0])
    one_ulp = np.repeat(base[:1], 3000, axis=0)
    one_ulp[np.arange(3000), rng.integers(0, 40, 3000)] *= np.float32(1 + 2**-23)
    huge_dimension = base.copy()
    huge_dimension[:, 7] = 1e30
    mixed_norms = base * 10.0 ** rng.uniform(-15, 15, (3000, 1))
    ascending = base[np.argsort(base @ direction)]
    orthogonal = base - np.outer(base @ direction, direction)
    near_limit = base / np.abs(base).max() * np.float32(3e38)
    return {
        "one ulp apart": one_ulp,
        "all equal": np.repeat(base[:1], 3000, axis=0),
        "few distinct": base[rng.integers(0, 5, 3000)],
        "one huge dimension": huge_dimension,
        "norms over 30 decades": mixed_norms.astype(np.float32),
        "subnormal": (base * np.float32(1e-42)).astype(np.float32),
        "sorted ascending": ascending,
        "near orthogonal to the query": orthogonal.astype(np.float32),
        "all zero": np.zeros_like(base),
        "near the end of float32": near_limit.astype(np.float32),
        "one hot": np.eye(40, dtype=np.float32)[rng.integers(0, 40, 3000)],
    }


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", sorted(hostile()))
def test_hostile_data(level: str, metric: str, name: str) -> None:
    rows = hostile()[name]
    queries = np.stack([rows[0], rows[1], -rows[0], np.zeros_like(rows[0])])
    for k in (1, 10, 300):
        check(rows, queries, k, metric, level, 2)


def test_undecidable_data_is_scanned_plainly() -> None:
    rows = hostile()["all equal"]
    stats = check(rows, rows[:2], 5, "cosine")
    assert stats["plain"] == 2


def test_the_screen_settles_few_rows() -> None:
    """Isotropic data, the worst case that bounds can still decide: 1.5 to 5 k rows a query."""
    rng = np.random.default_rng(23)
    rows = rng.standard_normal((20_000, 128)).astype(np.float32)
    for k in (1, 10, 100):
        stats = check(rows, rng.standard_normal((8, 128)).astype(np.float32), k, "cosine")
        assert stats["screened"] == 160_000
        assert stats["plain"] == 0
        assert 8 * k <= stats["settled"] <= 8 * 6 * max(k, 5)


def test_memory_and_choice_of_the_screen() -> None:
    rng = np.random.default_rng(29)
    rows = rng.standard_normal((5000, 384)).astype(np.float32)
    index = gnomon.DenseIndex.build(rows)
    assert 0 < index.screen_bytes <= 0.3 * rows.nbytes
    assert gnomon.DenseIndex.build(rows, screen="none").screen_bytes == 0
    assert gnomon.DenseIndex.build(rows[:100]).screen_bytes == 0
    stats: dict[str, int] = {}
    index.search(rows[:3], 4000, stats=stats)
    assert stats["plain"] == 3  # k is not small against the rows
    with pytest.raises(ValueError, match="has none: it was built without"):
        gnomon.DenseIndex.build(rows[:100]).search(rows[0], 3, screen="int8")
    with pytest.raises(ValueError, match="screen must be 'auto', 'int8' or 'none'"):
        gnomon.DenseIndex.build(rows[:100], screen="int4")


@pytest.mark.parametrize("metric", METRICS)
def test_a_saved_screen_is_the_same(tmp_path: Path, metric: str) -> None:
    rng = np.random.default_rng(31)
    rows = rng.standard_normal((1000, 33)).astype(np.float32)
    index = gnomon.DenseIndex.build(rows, metric=metric)
    index.save(tmp_path / "index")
    loaded = gnomon.DenseIndex.load(tmp_path / "index")
    loaded.verify()
    assert loaded.screen_bytes == index.screen_bytes > 0
    first, second = {}, {}
    ours = index.search(rows[:50], 7, stats=first)
    theirs = loaded.search(rows[:50], 7, stats=second)
    assert first == second
    assert ours.ids.tolist() == theirs.ids.tolist()
    assert ours.scores.tobytes() == theirs.scores.tobytes()
