"""Conditions on columns in DenseIndex.search: what a mask of the same rows gives, edited or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import CorruptIndex, Filter, field
from gnomon.reference import filters as reference

N, DIM = 300, 24
CONDITIONS: list[dict[str, Any]] = [
    {"year": {"$gte": 2000}},
    {"lang": "en", "year": {"$lt": 2010}},
    {"$or": [{"tags": {"$in": ["a", "c"]}}, {"$not": {"year": {"$exists": True}}}]},
    {"$ids": [0, 5, 298, 7777]},
    {"price": {"$between": [0.25, 0.5]}},
    {"lang": "none has this"},
]


def material() -> tuple[Any, list[dict[str, Any]]]:
    rng = np.random.default_rng(8)
    vectors = rng.standard_normal((N, DIM)).astype(np.float32)
    rows: list[dict[str, Any]] = [
        {
            "year": None if i % 7 == 0 else int(rng.integers(1990, 2025)),
            "lang": ["en", "de", "fr"][i % 3],
            "tags": [tag for tag in "abc" if rng.random() < 0.3],
            "price": float(rng.random()),
        }
        for i in range(N)
    ]
    return vectors, rows


def as_columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def check(index: gnomon.DenseIndex, ids: list[int], vectors: Any, rows: Any) -> None:
    """`ids`, in the index's order, name rows of the material."""
    assert index.ids == ids
    query = vectors[3] + 1
    for condition in CONDITIONS:
        mask = np.array([reference.matches(condition, rows[i], i) for i in ids], np.bool_)
        want = index.search(query, 20, filter=mask, screen="none")
        for chosen in (condition, Filter.from_json(condition)):
            for screen in ("auto", "none"):
                got = index.search(query, 20, filter=chosen, screen=screen)
                assert got.ids.tolist() == want.ids.tolist()
                assert got.scores.tobytes() == want.scores.tobytes()


def test_conditions_after_build_edits_save_and_load(tmp_path: Path) -> None:
    vectors, rows = material()
    known = list(range(200))
    index = gnomon.DenseIndex.build(
        vectors[:200], ids=known, columns=as_columns(rows[:200]), screen="int8"
    )
    assert index.columns == {
        "year": "integer",
        "lang": "keyword",
        "tags": "keyword",
        "price": "float",
    }
    check(index, known, vectors, rows)
    index.add(vectors[200:], ids=range(200, N), columns=rows[200:])
    index.remove([5, 17, 250])
    known = [i for i in range(N) if i not in (5, 17, 250)]
    check(index, known, vectors, rows)
    index.save(tmp_path / "index")
    index = gnomon.DenseIndex.load(tmp_path / "index")
    check(index, known, vectors, rows)
    rows[9] = {"year": 2024, "lang": "it", "tags": ["c"], "price": 0.3}
    index.update(vectors[9:10], ids=[9], columns=[rows[9]])
    known = [i for i in known if i != 9] + [9]
    check(index, known, vectors, rows)
    index.save(tmp_path / "index")  # keeps the segments that stand there
    index = gnomon.DenseIndex.load(tmp_path / "index")
    index.verify()
    check(index, known, vectors, rows)
    index.merge()
    assert index.segments == 1
    check(index, known, vectors, rows)


def test_a_column_that_comes_later_or_is_empty() -> None:
    index = gnomon.DenseIndex.build(np.eye(3), column_kinds={"year": "integer"})
    assert index.search([1.0, 0, 0], filter=field("year").missing()).ids.tolist() == [0, 1, 2]
    index.add(np.eye(3), columns={"year": [1, 2, 3], "new": ["x", None, "y"]})
    assert index.search([1.0, 0, 0], filter=field("year") >= 2).ids.tolist() == [4, 5]
    assert index.search([0, 0, 1.0], filter=field("new").exists()).ids.tolist() == [5, 3]
    index.remove(range(6))
    assert index.search([1.0, 0, 0], filter=field("new") == "x").ids.tolist() == []


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i: i.search([1.0, 0], filter=field("no") == 1), ValueError, "no column 'no'"),
        (lambda i: i.search([1.0, 0], filter={"year": "x"}), TypeError, "year"),
        (lambda i: i.add([[0.0, 1]], columns={"year": ["a"]}), TypeError, "year"),
        (lambda i: i.add([[0.0, 1]], columns={"year": [1, 2]}), ValueError, "has 2 values"),
        (lambda i: i.search([1.0, 0], filter=field), TypeError, "filter"),
    ],
)
def test_errors_change_nothing(call: Any, error: type[Exception], message: str) -> None:
    index = gnomon.DenseIndex.build(np.eye(2), columns={"year": [1, 2]})
    with pytest.raises(error, match=message):
        call(index)
    assert index.search([1.0, 0], filter=field("year") == 1).ids.tolist() == [0]


def test_columns_that_the_manifest_does_not_know(tmp_path: Path) -> None:
    gnomon.DenseIndex.build(np.eye(2), columns={"year": [1, 2]}).save(tmp_path / "index")
    manifest = tmp_path / "index" / "MANIFEST.json"
    text = manifest.read_text()
    assert '["year","integer"]' in text.replace(" ", "").replace("\n", "")
    changed = text.replace('"integer"', '"keyword"')
    manifest.write_text(changed)
    with pytest.raises(CorruptIndex):  # by the manifest's own checksum or by its columns
        gnomon.DenseIndex.load(tmp_path / "index")


def test_shards_keep_columns_and_the_kind_of_ids() -> None:
    rows = np.eye(4, dtype=np.float32)
    index = gnomon.DenseIndex.build(rows[:3], ids=["a", "b", "c"], columns={"year": [1, 2, 3]})
    index.add(rows[3:], ids=["d"], columns={"year": [4]})
    index.remove(["b"])
    late = gnomon.field("year") >= 3
    for n in (1, 2, 7):  # more parts than rows: some are empty
        parts = [index.shard(i, n).search(rows[:2], k=2, filter=late) for i in range(n)]
        whole = index.search(rows[:2], k=2, filter=late)
        found = gnomon.merge_topk(parts, k=2)
        assert (found.ids, found.scores.tolist()) == (whole.ids, whole.scores.tolist())
