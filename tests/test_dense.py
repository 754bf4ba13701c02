"""DenseIndex: batches, threads, storage, forks and bad input (equality: test_dense_equality)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import _core
from gnomon.storage import DirectoryWriter
from hypothesis import given
from strategies import DenseCase, dense_cases

METRICS = ("cosine", "ip", "l2")


@given(dense_cases())
def test_one_query_is_a_batch_of_one(case: DenseCase) -> None:
    index = gnomon.DenseIndex.build(case.rows)
    batch = index.search(case.queries, case.k)
    for place, query in enumerate(case.queries):
        alone = index.search(query, case.k)
        assert alone.ids.tolist() == batch.ids[place].tolist()
        assert alone.scores.tolist() == batch.scores[place].tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_levels_threads_and_batches_agree_on_large_data(metric: str) -> None:
    """Beyond one chunk of 4,096 rows and one group of 64 queries; scalar is the yardstick."""
    rng = np.random.default_rng(11)
    rows = rng.standard_normal((9000, 37)).astype(np.float32)
    rows[4096] = rows[0]  # an exact tie over a chunk border
    rows[8999] = 0.0
    queries = np.concatenate([rows[:2], rng.standard_normal((130, 37)).astype(np.float32)])
    index = gnomon.DenseIndex.build(rows, metric=metric)
    yardstick = index.search(queries, 25, threads=1, level="scalar")
    if metric != "ip":
        assert yardstick.ids[0, :2].tolist() == [0, 4096]
    for level in gnomon.levels():
        for threads in (1, 2, 7):
            hits = index.search(queries, 25, threads=threads, level=level)
            assert (hits.ids == yardstick.ids).all()
            assert (hits.scores == yardstick.scores).all()
    everything = index.search(queries[:3], len(rows), threads=3)
    assert (everything.ids[:, :25] == yardstick.ids[:3]).all()
    assert sorted(everything.ids[0].tolist()) == list(range(9000))


def test_equal_rows_score_exactly_one() -> None:
    rng = np.random.default_rng(5)
    for dim in (1, 3, 8, 100, 384, 4096):
        row = rng.standard_normal(dim).astype(np.float32)
        for scale in (1.0, 2.0**-60, 2.0**60):
            scaled = (row * np.float32(scale)).astype(np.float32)
            found = gnomon.cosine_topk(row, np.stack([scaled, -scaled]), 2)
            assert found.values.tolist() == [1.0, -1.0]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("ids", [None, [7, -7, 0], ["x", "y", "z"]])
def test_save_and_load_give_the_same_answers(tmp_path: Path, metric: str, ids: Any) -> None:
    rows = np.array([[1, 2, 3], [0, 0, 0], [-1, 5, 1e-40]], dtype=np.float32)
    index = gnomon.DenseIndex.build(rows, ids=ids, metric=metric)
    index.save(tmp_path / "dense")
    loaded = gnomon.DenseIndex.load(tmp_path / "dense")
    loaded.verify()
    assert (len(loaded), loaded.dim, loaded.metric) == (3, 3, metric)
    ours, theirs = index.search(rows, 3), loaded.search(rows, 3)
    assert np.array_equal(np.array(ours.ids), np.array(theirs.ids))
    assert ours.scores.tolist() == theirs.scores.tolist()


def test_empty_shapes(tmp_path: Path) -> None:
    for place, (n, dim) in enumerate([(0, 0), (0, 5), (3, 0)]):
        index = gnomon.DenseIndex.build(np.zeros((n, dim)))
        index.save(tmp_path / str(place))
        loaded = gnomon.DenseIndex.load(tmp_path / str(place))
        loaded.verify()
        hits = loaded.search(np.zeros((2, dim)), 4)
        assert hits.scores.tolist() == [[0.0] * n] * 2
        assert hits.ids.tolist() == [list(range(n))] * 2


def test_the_index_keeps_its_own_copy() -> None:
    rows = np.eye(2, dtype=np.float32)
    index = gnomon.DenseIndex.build(rows)
    rows[:] = 7.0
    assert index.search([1.0, 0.0], 2).scores.tolist() == [1.0, 0.0]


class Wrapper:
    """What numpy takes for an array without a copy, as tables and tensors of other libraries."""

    def __init__(self) -> None:
        self.array = np.eye(2, dtype=np.float32)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


def test_the_index_keeps_its_own_copy_of_what_numpy_only_wraps() -> None:
    wrapper = Wrapper()
    index = gnomon.DenseIndex.build(wrapper)
    wrapper.array[:] = 7.0
    assert index.search([1.0, 0.0], 2).scores.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_a_file_with_a_vector_that_is_not_a_number(tmp_path: Path, metric: str) -> None:
    """Its checksums are right and it has no score: not a row of whatever lay in memory."""
    code = {"ip": 2, "l2": 3}[metric]
    with DirectoryWriter(tmp_path / "dense") as writer:
        file = _core.ContainerWriter(writer.file("dense", "vectors"))
        file.section("counts", np.array([2, 2, code], np.uint64))
        file.section("vectors", np.array([np.nan, 1, 2, 3], np.float32))
        file.section("squares", np.array([1.0, 13.0]))
        file.finish()
        writer.commit({"dense": {"ids": "position"}})
    index = gnomon.DenseIndex.load(tmp_path / "dense")
    with pytest.raises(gnomon.CorruptIndex, match="not a number"):
        index.search([1.0, 1.0], 2)
    with pytest.raises(gnomon.CorruptIndex, match="row 0"):
        index.verify()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_search_after_fork() -> None:
    """No thread outlives a call, so a child can search at once."""
    index = gnomon.DenseIndex.build(np.random.default_rng(3).standard_normal((20_000, 8)))
    query = np.ones(8)
    before = index.search(query, 5, threads=4).ids.tolist()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if index.search(query, 5, threads=4).ids.tolist() == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gnomon.DenseIndex.build([1.0, 2.0]), "vectors must be a matrix"),
        (lambda: gnomon.DenseIndex.build([[1.0]], metric="dot"), "metric must be"),
        (lambda: gnomon.DenseIndex.build([[1.0], [float("nan")]]), "row 1"),
        (lambda: gnomon.DenseIndex.build([[1.0], [1e39]]), "row 1"),
        (
            lambda: gnomon.DenseIndex.build([[1.0], [0.0]], on_zero="error"),
            "row 1 is a zero vector",
        ),
        (lambda: gnomon.DenseIndex.build([[1.0]], on_zero="skip"), "on_zero must be"),
        (lambda: gnomon.DenseIndex.build([[1.0]], ids=[1, 2]), "ids has 2 entries"),
        (lambda: gnomon.DenseIndex.build([[1.0]]).search([1.0, 2.0]), "D = 1"),
        (lambda: gnomon.DenseIndex.build([[1.0]]).search([float("inf")]), "queries: row 0"),
        (lambda: gnomon.DenseIndex.build([[1.0]]).search([1.0], -1), "k must be at least 0"),
        (lambda: gnomon.DenseIndex.build([[1.0]]).search([1.0], threads=0), "threads must be"),
        (
            lambda: gnomon.DenseIndex.build([[1.0]]).search([1.0], level="sse9"),
            "usable levels: scalar",
        ),
    ],
)
def test_bad_input_names_what_is_wrong(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
