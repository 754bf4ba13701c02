"""gnomon.compat.txtai by itself, and inside txtai where that is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gnomon.compat.txtai import Exact
from gnomon.reference.dense import dot

ROWS = np.random.default_rng(1).normal(size=(30, 6)).astype(np.float32)
ROWS /= np.linalg.norm(ROWS, axis=1, keepdims=True)


def best(query: Any, ids: list[int], limit: int) -> list[tuple[int, float]]:
    scores = {i: dot(query.tolist(), ROWS[i].tolist()) for i in ids}
    order = sorted(ids, key=lambda i: (-scores[i], i))[:limit]
    return [(i, float(np.float32(scores[i]))) for i in order]


def test_the_life_of_an_index(tmp_path: Path) -> None:
    config: dict[str, Any] = {"backend": "gnomon.compat.txtai.Exact"}
    ann = Exact(config)
    assert ann.count() == 0
    ann.index(ROWS[:20])
    ann.append(ROWS[20:])
    ann.delete([3, 29, 1000])
    left = [i for i in range(30) if i not in (3, 29)]
    assert (ann.count(), config["offset"]) == (28, 30)
    assert ann.search(ROWS[:4], 5) == [best(row, left, 5) for row in ROWS[:4]]
    assert len(ann.search(ROWS[:1], 100)[0]) == 28
    assert ann.search(ROWS[:1], 0) == [[]]
    ann.save(tmp_path / "embeddings")
    other = Exact(config)
    other.load(tmp_path / "embeddings")
    assert other.search(ROWS, 7) == ann.search(ROWS, 7)
    ann.close()
    assert ann.count() == 0


def test_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="quantize packs vectors into bits"):
        Exact({"quantize": 1})


def test_inside_txtai() -> None:
    txtai = pytest.importorskip("txtai", reason="txtai is not installed")
    found = []
    for backend in ("numpy", "gnomon.compat.txtai.Exact"):
        embeddings = txtai.Embeddings(
            {"backend": backend, "method": "external", "transform": lambda data: ROWS[list(data)]}
        )
        embeddings.index([(i, i, None) for i in range(20)])
        embeddings.upsert([(i, i, None) for i in range(20, 30)])
        embeddings.delete([5])
        found.append([[i for i, _ in hits] for hits in embeddings.batchsearch(list(range(4)), 5)])
    assert found[0] == found[1]
