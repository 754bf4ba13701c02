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


def test_rows_are_held_and_files_are_not(tmp_path: Path) -> None:
    rows = ROWS.copy()
    held = Exact({})
    held.index(rows)
    assert np.shares_memory(held.backend.index._blocks()[0][1], rows)
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = Exact({})
    mapped.index(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    (tmp_path / "rows.npy").write_bytes(b"")  # a mapping would now end the process
    assert mapped.search(ROWS[:3], 4) == held.search(ROWS[:3], 4)
    with pytest.raises(ValueError, match="row 2"):
        Exact({}).index(np.where(np.arange(30)[:, None] == 2, np.nan, ROWS).astype(np.float32))


def test_inside_txtai(tmp_path: Path) -> None:
    txtai = pytest.importorskip("txtai", reason="txtai is not installed")
    found = []
    for backend in ("numpy", "gnomon.compat.txtai.Exact"):
        embeddings = txtai.Embeddings(
            {"backend": backend, "method": "external", "transform": lambda data: ROWS[list(data)]}
        )
        embeddings.index([(i, i, None) for i in range(20)])
        embeddings.upsert([(i, i, None) for i in range(20, 30)])
        embeddings.delete([5])
        queries = list(range(4))
        found.append([[i for i, _ in hits] for hits in embeddings.batchsearch(queries, 5)])
    assert found[0] == found[1]
    embeddings.config["transform"] = None  # a function that txtai could not load again
    embeddings.save(str(tmp_path / "index"))
    assert embeddings.config["build"]["settings"] == {"gnomon": "exact"}
    again = txtai.Embeddings()
    again.load(str(tmp_path / "index"))
    assert again.count() == 29
    assert again.ann.search(ROWS[:4], 5) == embeddings.ann.search(ROWS[:4], 5)
