"""Screens, int8 and float32, change no answer: levels, metrics, batches, threads, hostile data."""

from __future__ import annotations

from pathlib import Path

import gnomon
import numpy as np
import numpy.typing as npt
import pytest
import strategies
from hypothesis import given, settings
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
    floats = index.search(queries, k, screen="float32", level=level, threads=threads)
    for hits in (found, floats):
        assert hits.ids.tolist() == plain.ids.tolist()
        assert hits.scores.tobytes() == plain.scores.tobytes()
    return stats


def check_heads(
    rows: Float32, queries: Float32, k: int, metric: str, level: str | None, threads: int
) -> dict[str, float]:
    """The same for the rotated screen, by its heads and by its whole codes."""
    index = gnomon.DenseIndex.build(rows, metric=metric, screen="head")
    plain = index.search(queries, k, screen="none", level="scalar", threads=1)
    stats: dict[str, float] = {}
    for screen in ("head", "int8"):
        use = screen
        if index._state.segments[0].core.head_dims == 0:  # norms beyond what a rotation keeps
            use = "int8" if index.screen_bytes else "auto"
        did = stats if screen == "head" else {}
        found = index.search(queries, k, screen=use, stats=did, level=level, threads=threads)
        assert found.ids.tolist() == plain.ids.tolist()
        assert found.scores.tobytes() == plain.scores.tobytes()
    return stats


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=25)  # each finds a rotation
@given(seed=strategies.seeds(), kind=st.sampled_from(sorted(strategies.KINDS)))
def test_heads_of_generated_cases(level: str, metric: str, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 400)), int(rng.integers(128, 200)))
    rows = strategies.KINDS[kind](rng, shape).astype(np.float32)
    rows[rng.integers(0, shape[0], 5)] = rows[rng.integers(0, shape[0], 5)]
    queries = np.concatenate([rows[:2], strategies.KINDS[kind](rng, (3, shape[1]))])
    k = int(rng.integers(1, 30))
    check_heads(rows, queries.astype(np.float32), k, metric, level, int(rng.integers(1, 3)))


@pytest.mark.parametrize("metric", METRICS)
def test_heads_decide_where_variance_lies_in_few_dims(level: str, metric: str) -> None:
    rng = np.random.default_rng(37)
    spectrum = 1.0 / np.arange(1, 193)
    turn = np.linalg.qr(rng.standard_normal((192, 192)))[0]
    rows = ((rng.standard_normal((6000, 192)) * spectrum) @ turn).astype(np.float32)
    rows[5000] = rows[17]
    queries = ((rng.standard_normal((5, 192)) * spectrum) @ turn).astype(np.float32)
    stats = check_heads(rows, np.concatenate([queries, rows[17:18]]), 7, metric, level, 2)
    assert stats["heads"] == 6
    assert stats["settled"] < 6 * 6000 / 4


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
    wide = np.repeat(rows, 4, axis=1)[:700]  # 160 dims
    check_heads(wide, np.repeat(queries, 4, axis=1), 10, metric, level, 2)


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
    index.search(rows[:3], 5000, stats=stats)
    assert stats["plain"] == 3  # all rows are wanted
    with pytest.raises(ValueError, match="has none: it was built without"):
        gnomon.DenseIndex.build(rows[:100]).search(rows[0], 3, screen="int8")
    with pytest.raises(ValueError, match="screen must be 'auto', 'int8', 'head', 'float32' or"):
        gnomon.DenseIndex.build(rows[:100], screen="int4")


def test_what_pays_is_measured_and_changes_nothing() -> None:
    rng = np.random.default_rng(43)
    rows = rng.standard_normal((2000, 48)).astype(np.float32)
    index = gnomon.DenseIndex.build(rows)
    for k in (5, 1500):
        wanted = index.search(rows[:3], k, screen="none")
        tried: list[tuple[int, int]] = []
        for _ in range(12):
            stats: dict[str, int] = {}
            found = index.search(rows[:3], k, stats=stats)
            assert found.ids.tolist() == wanted.ids.tolist()
            assert found.scores.tobytes() == wanted.scores.tobytes()
            tried.append((stats["screened"], stats["plain"]))
        assert tried[:6] == [(6000, 0)] * 3 + [(0, 3)] * 3
    large = index.search(rows[:300], 5)  # tries and goes on within one batch
    assert large.ids.tolist() == index.search(rows[:300], 5, screen="none").ids.tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_float32_decides_what_int8_cannot(level: str, metric: str) -> None:
    """One dimension ten thousand times the others, which each row shares: codes hold no more."""
    rng = np.random.default_rng(47)
    rows = rng.standard_normal((6000, 64)).astype(np.float32)
    rows[:, 5] = rng.choice([-300.0, 300.0], 6000)
    queries = rng.standard_normal((70, 64)).astype(np.float32)
    queries[:, 5] = 0.0
    index = gnomon.DenseIndex.build(rows, metric=metric, screen="int8")
    stats: dict[str, float] = {}
    found = index.search(queries, 5, screen="float32", stats=stats, level=level, threads=2)
    plain = index.search(queries, 5, screen="none", level="scalar")
    assert found.ids.tolist() == plain.ids.tolist()
    assert found.scores.tobytes() == plain.scores.tobytes()
    assert stats["plain"] == 0
    assert stats["settled"] < 70 * 6000 / 20
    assert check(rows, queries, 5, metric, level)["plain"] == 70


def test_a_large_k_starts_from_a_guess_that_may_fail() -> None:
    """Panels that mislead the sample: the answer stays, the query is screened twice."""
    rng = np.random.default_rng(41)
    rows = rng.standard_normal((20_000, 32)).astype(np.float32)
    stats = check(rows, rows[:3], 1000, "cosine")
    assert stats["screened"] == 60_000
    query = rows[:1]
    ascending = rows[np.argsort(rows @ query[0])]
    check(ascending, query, 1000, "ip")
    panels = (
        ascending.reshape(-1, 64, 32)
        if len(ascending) % 64 == 0
        else ascending[:19_968].reshape(-1, 64, 32)
    )
    wanted = int(np.ceil(len(panels) * 2 * 64 / 1000))
    sampled = np.arange(wanted) * len(panels) // wanted
    order = np.setdiff1d(np.arange(len(panels)), sampled)
    hostile_panels = np.empty_like(panels)
    hostile_panels[sampled] = panels[-wanted:]  # the best rows where the sample looks
    hostile_panels[order] = panels[:-wanted]
    misled = check(hostile_panels.reshape(-1, 32), query, 1000, "ip")
    assert misled["screened"] > len(panels) * 64


@pytest.mark.parametrize("screen", ["int8", "head"])
@pytest.mark.parametrize("metric", METRICS)
def test_a_saved_screen_is_the_same(tmp_path: Path, metric: str, screen: str) -> None:
    rng = np.random.default_rng(31)
    rows = (rng.standard_normal((1000, 133)) / np.arange(1, 134)).astype(np.float32)
    index = gnomon.DenseIndex.build(rows, metric=metric, screen=screen)
    index.save(tmp_path / "index")
    loaded = gnomon.DenseIndex.load(tmp_path / "index")
    loaded.verify()
    assert loaded.screen_bytes == index.screen_bytes > 0
    first: dict[str, float] = {}
    second: dict[str, float] = {}
    ours = index.search(rows[:50], 7, stats=first, screen=screen)
    theirs = loaded.search(rows[:50], 7, stats=second, screen=screen)
    assert first == second
    assert first["heads"] == (50 if screen == "head" else 0)
    assert ours.ids.tolist() == theirs.ids.tolist()
    assert ours.scores.tobytes() == theirs.scores.tobytes()
