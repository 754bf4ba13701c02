"""Search over float64 rows: codes and plain scans give the bits of the written order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gnomon import _core
from gnomon.compat._exact64 import Exact64

LEVELS = [level for level in _core.levels() if level != "avx512amx"]


def dot(a: Any, b: Any) -> Any:
    """Products added in eight running sums, which are then added in pairs."""
    width = a.shape[-1]
    lanes = np.zeros((*np.broadcast_shapes(a.shape, b.shape)[:-1], 8))
    for start in range(0, width, 8):
        part = a[..., start : start + 8] * b[..., start : start + 8]
        lanes[..., : part.shape[-1]] += part
    pairs = lanes[..., :4] + lanes[..., 4:]
    return (pairs[..., 0] + pairs[..., 2]) + (pairs[..., 1] + pairs[..., 3])


def unit(rows: Any) -> Any:
    greatest = np.abs(rows).max(axis=-1, keepdims=True)
    return np.ldexp(rows, -np.frexp(greatest)[1])


def scores64(queries: Any, rows: Any, metric: str) -> Any:
    with np.errstate(all="ignore"):
        if metric == "l2":
            moved = rows[None] - queries[:, None]
            return 0.0 - dot(moved, moved)
        asked, given = unit(queries)[:, None], unit(rows)[None]
        squares = dot(asked, asked) * dot(given, given)
        cosines = np.clip(dot(given, asked) / np.sqrt(squares), -1.0, 1.0)
        return np.where(squares == 0.0, 0.0, cosines)


def made(kind: str, dim: int, n: int = 600) -> Any:
    rng = np.random.default_rng(dim)
    rows = rng.standard_normal((n, dim))
    if kind == "ties":
        rows = rows[rng.integers(0, 90, n)]
    if kind == "alike":  # no code tells them apart, nor float32
        rows = rows[:1] + rows * 1e-10
    if kind == "far":
        rows = rows + 1e7
    if kind == "zeros":
        rows[::5] = 0.0
    if kind == "scales":
        rows = np.ldexp(rows, rng.integers(-1060, 1000, (n, 1)))
    if kind == "tiny":
        rows = rows * 1e-170
    if kind == "huge":
        rows = rows * 1e170
    return rows


KINDS = ["plain", "ties", "alike", "far", "zeros", "scales", "tiny", "huge"]


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("kind", KINDS)
def test_bits_with_and_without_codes(kind: str, metric: str) -> None:
    for dim in (8, 21):
        rows = made(kind, dim)
        if metric == "l2" and kind == "scales":
            rows = np.clip(rows, -1e140, 1e140)
        queries = np.concatenate([rows[:3], made("plain", dim, 2), rows[:1] * 1e3])
        expected = scores64(queries, rows, metric)
        order = np.argsort(-expected, axis=1, kind="stable")
        for screened in (True, False):
            engine = Exact64(rows, metric, screened)
            for k, threads in ((1, 1), (7, 3), (600, 2)):
                ids, scores = engine.top(queries, k, threads)
                assert ids.tolist() == order[:, :k].tolist()
                assert scores.tolist() == np.take_along_axis(expected, ids, 1).tolist()
            least = float(expected[0, order[0, 30]])
            for place, (ids, scores) in enumerate(engine.within(queries, least)):
                assert ids.tolist() == np.flatnonzero(expected[place] >= least).tolist()
                assert scores.tolist() == expected[place, ids].tolist()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_bits_at_every_level(metric: str, level: str) -> None:
    rows, queries = made("plain", 45), made("far", 45, 20) - 1e7
    expected = scores64(queries, rows, metric)
    order = np.argsort(-expected, axis=1, kind="stable")[:, :9]
    for screened in (True, False):
        core = _core.Dense64(rows, metric, [0.0] * 45, -3, screened, 1, level)
        assert (core.screen_bytes > 0) == screened
        ids, scores, counts = core.search(queries, 9, threads=1, level=level)
        assert counts.tolist() == [9] * 20
        assert ids.reshape(20, 9).tolist() == order.tolist()
        assert scores.tolist() == np.take_along_axis(expected, order, 1).ravel().tolist()


def test_what_is_refused() -> None:
    rows = made("plain", 8)
    for bad in (np.nan, np.inf, -np.inf):
        broken = rows.copy()
        broken[17, 2] = bad
        for screened in (True, False):
            with pytest.raises(ValueError, match="row 17"):
                Exact64(broken, "cosine", screened)
            with pytest.raises(ValueError, match="row 17"):
                Exact64(broken, "l2", screened)
        with pytest.raises(ValueError, match="queries: row 0"):
            Exact64(rows, "l2").top(broken[17:18], 2)
    with pytest.raises(ValueError, match="'cosine' or 'l2'"):
        Exact64(rows, "ip")
    with pytest.raises(ValueError, match="queries must be a matrix"):
        Exact64(rows, "l2").top(rows[:, :7], 2)
    assert Exact64(rows[:0], "cosine").top(rows[:2], 0)[0].shape == (2, 0)
