"""stream_topk: blocks of any size give what one index over all rows gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize("n_queries", [1, 40])
def test_blocks_of_a_mapped_file(tmp_path: Path, metric: str, n_queries: int) -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((3001, 48)).astype(np.float16)
    rows[2900] = rows[7]  # a tie over blocks
    np.save(tmp_path / "rows.npy", rows)
    queries = np.concatenate([rows[7:8], rng.standard_normal((n_queries - 1, 48))])
    expected = gnomon.DenseIndex.build(rows, metric=metric).search(queries, 9)
    for budget in (1, 20_000, 100_000, 1 << 30):
        if budget == 1 and n_queries > 1:
            continue
        seen: list[tuple[int, int]] = []
        found = gnomon.stream_topk(
            queries,
            tmp_path / "rows.npy",
            9,
            metric=metric,
            memory_budget=budget,
            progress=lambda done, total, seen=seen: seen.append((done, total)),
        )
        assert found.indices.tolist() == expected.ids.tolist()
        assert found.values.tobytes() == expected.scores.tobytes()
        assert seen[-1] == (3001, 3001)
        assert len(seen) == 1 if budget == 1 << 30 else len(seen) > 1


def test_edges_and_errors(tmp_path: Path) -> None:
    assert gnomon.stream_topk(np.ones(3), np.zeros((0, 3)), 2).indices.shape == (0,)
    assert gnomon.stream_topk(np.ones((2, 3)), np.eye(3), 0).values.shape == (2, 0)
    rows = np.ones((500, 4), np.float32)
    rows[437, 2] = np.nan
    with pytest.raises(ValueError, match="row 437"):
        gnomon.stream_topk(np.ones(4), rows, 2, memory_budget=4000)
    with pytest.raises(ValueError, match="D = 4"):
        gnomon.stream_topk(np.ones(3), rows, 2)
    with pytest.raises(ValueError, match=r"matrix \[N, D\]"):
        gnomon.stream_topk(np.ones(3), np.ones(3), 2)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gnomon.stream_topk(np.ones(4), np.ones((500, 4)), 2, memory_budget=4000, progress=stop)


@pytest.mark.parametrize("build", [False, True])
def test_a_file_that_becomes_shorter_is_an_error_and_not_the_end_of_the_process(
    build: bool, tmp_path: Path
) -> None:
    rows = np.random.default_rng(3).standard_normal((5000, 16)).astype(np.float32)
    path = tmp_path / "rows.npy"
    np.save(path, rows)
    size = path.stat().st_size
    blocks = []

    def cut(*done: int) -> None:
        blocks.append(done[0])
        if len(blocks) == 2:
            os.truncate(path, size // 2)

    searches: dict[bool, Callable[[], Any]] = {
        False: lambda: gnomon.stream_topk(
            rows[0], path, 3, memory_budget=64 << 10, progress=cut, threads=1
        ),
        True: lambda: gnomon.DenseIndex.build_to(
            tmp_path / "index", path, memory_budget=64 << 10, progress=cut, threads=1
        ),
    }
    with pytest.raises(ValueError, match=f"rows.npy was cut off to {size // 2} bytes"):
        searches[build]()
    assert len(blocks) == 2
    assert sorted(os.listdir(tmp_path)) == ["rows.npy"]
