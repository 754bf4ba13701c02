"""gnomon.compat.faiss against its written contract, and against faiss itself where installed."""

# ruff: noqa: E741 - faiss calls the numbers I

from __future__ import annotations

import copy
import multiprocessing
import pickle
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gnomon.compat import faiss as ours
from gnomon.compat.faiss import flat as flat_module
from gnomon.compat.faiss import shared
from gnomon.reference.dense import dot, l2
from hypothesis import given, settings
from hypothesis import strategies as st

COORDINATE = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0, 3.0])
METRIC = st.sampled_from([ours.METRIC_INNER_PRODUCT, ours.METRIC_L2])


@st.composite
def matrices(draw: Any, most: int = 12) -> Any:
    n, d = draw(st.integers(1, most)), draw(st.integers(1, 3))
    rows = st.lists(COORDINATE, min_size=d, max_size=d)
    return np.array(draw(st.lists(rows, min_size=n, max_size=n)), np.float32)


def scores_of(query: Any, rows: Any, metric: int) -> list[float]:
    if metric == ours.METRIC_INNER_PRODUCT:
        return [dot(query.tolist(), row.tolist()) for row in rows]
    return [0.0 - l2(query.tolist(), row.tolist()) for row in rows]


def best(query: Any, rows: Any, metric: int, k: int, allowed: Any = None) -> tuple[Any, Any]:
    """Distances and numbers by the definition, padded as faiss does."""
    values = scores_of(query, rows, metric)
    sign = 1.0 if metric == ours.METRIC_INNER_PRODUCT else -1.0
    order = [i for i in range(len(rows)) if allowed is None or allowed[i]]
    order.sort(key=lambda i: (-sign * values[i], i))
    order = order[:k]
    pad = k - len(order)
    D = [np.float32(values[i]) for i in order] + [np.float32(-sign * shared.FLOAT_MAX)] * pad
    return np.array(D, np.float32), np.array(order + [-1] * pad, np.int64)


@given(rows=matrices(), metric=METRIC, k=st.integers(1, 15), cut=st.integers(0, 12))
@settings(max_examples=120)
def test_search(rows: Any, metric: int, k: int, cut: int) -> None:
    index = ours.IndexFlat(rows.shape[1], metric)
    index.add(rows[:cut])
    index.add(rows[cut:])
    D, I = index.search(rows, k)
    assert (D.dtype, I.dtype, index.ntotal) == (np.float32, np.int64, len(rows))
    again = ours.knn(rows, rows, k, metric)
    for q, query in enumerate(rows):
        near, numbers = best(query, rows, metric, k)
        for found in ((D, I), again):
            assert found[0][q].tolist() == near.tolist()
            assert found[1][q].tolist() == numbers.tolist()


@given(rows=matrices(), metric=METRIC, data=st.data())
@settings(max_examples=80)
def test_selected_and_mapped(rows: Any, metric: int, data: Any) -> None:
    allowed = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    ids = np.array(data.draw(st.permutations(range(100, 100 + len(rows)))), np.int64)
    flat = ours.IndexFlat(rows.shape[1], metric)
    flat.add(rows)
    mapped = ours.IndexIDMap2(ours.IndexFlat(rows.shape[1], metric))
    mapped.add_with_ids(rows, ids)
    numbers = np.flatnonzero(allowed)
    bitmap = np.packbits(allowed, bitorder="little")
    selectors = [
        ours.IDSelectorBatch(numbers),
        ours.IDSelectorBitmap(bitmap),
        ours.IDSelectorNot(ours.IDSelectorArray(np.flatnonzero(~allowed))),
    ]
    near, wanted = best(rows[0], rows, metric, 5, allowed)
    for selector in selectors:
        D, I = flat.search(rows[:1], 5, params=ours.SearchParameters(sel=selector))
        assert (D[0].tolist(), I[0].tolist()) == (near.tolist(), wanted.tolist())
    chosen = ours.SearchParameters(sel=ours.IDSelectorBatch(ids[allowed]))
    D, I, R = mapped.search_and_reconstruct(rows[:1], 5, params=chosen)
    assert I[0].tolist() == [int(ids[i]) if i >= 0 else -1 for i in wanted]
    assert all((R[0, j] == rows[i]).all() for j, i in enumerate(wanted) if i >= 0)
    removed = mapped.remove_ids(ids[~allowed])
    flat.remove_ids(ours.IDSelectorBatch(np.flatnonzero(~allowed)))
    assert (removed, flat.ntotal) == (int((~allowed).sum()), int(allowed.sum()))
    left, kept = rows[allowed], ids[allowed]
    near, wanted = best(rows[0], left, metric, 3)
    assert flat.search(rows[:1], 3)[1][0].tolist() == wanted.tolist()
    expected = [int(kept[i]) if i >= 0 else -1 for i in wanted]
    assert mapped.search(rows[:1], 3)[1][0].tolist() == expected
    assert flat.reconstruct_n().tolist() == left.tolist()


@given(rows=matrices(), metric=METRIC, radius=st.sampled_from([-1.0, 0.0, 0.25, 1.0, 9.0]))
@settings(max_examples=80)
def test_range(rows: Any, metric: int, radius: float) -> None:
    index = ours.IndexFlat(rows.shape[1], metric)
    index.add(rows)
    lims, D, I = index.range_search(rows, radius)
    assert lims.dtype == np.uint64  # as faiss'
    for q, query in enumerate(rows):
        values = np.array(scores_of(query, rows, metric), np.float32)
        inside = values > radius if metric == ours.METRIC_INNER_PRODUCT else values < radius
        here = slice(int(lims[q]), int(lims[q + 1]))
        assert I[here].tolist() == np.flatnonzero(inside).tolist()
        assert D[here].tolist() == values[inside].tolist()


@pytest.mark.parametrize("metric", [ours.METRIC_INNER_PRODUCT, ours.METRIC_L2])
def test_many_rows_and_queries(metric: int) -> None:
    """Enough for a screen: small whole numbers, whose scores are exact and often equal."""
    rng = np.random.default_rng(11)
    rows = rng.integers(-3, 4, (5000, 6)).astype(np.float32)
    queries = rng.integers(-3, 4, (20, 6)).astype(np.float32)
    exact = queries @ rows.T
    if metric == ours.METRIC_L2:
        exact = ((queries[:, None] - rows[None]) ** 2).sum(axis=2)
    sign = -1.0 if metric == ours.METRIC_INNER_PRODUCT else 1.0
    order = np.argsort(sign * exact, axis=1, kind="stable")[:, :50]
    index = ours.IndexFlat(6, metric)
    index.add(rows)
    for D, I in (index.search(queries, 50), ours.knn(queries, rows, 50, metric)):
        assert I.tolist() == order.tolist()
        assert D.tolist() == np.take_along_axis(exact, order, axis=1).tolist()


def test_a_distance_that_rounds_to_the_radius_is_outside() -> None:
    """Its float64 score is under 1, its float32 distance, which the caller sees, is 1."""
    rows = np.array([[1.0, 1e-5], [0.5, 0.0]], np.float32)
    index = ours.IndexFlatIP(2)
    index.add(rows)
    query = np.array([[1.0, 1e-5]], np.float32)
    assert index.search(query, 1)[0].tolist() == [[1.0]]
    assert index.range_search(query, 1.0)[2].tolist() == []
    assert index.range_search(query, 0.5)[2].tolist() == [0]


def test_kinds_of_input() -> None:
    rows = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    index = ours.IndexFlatL2(2)
    expected = best(rows[0], rows, ours.METRIC_L2, 2)[1].tolist()
    for same in (rows.tolist(), rows.astype(np.float64), np.asfortranarray(rows), rows[::1]):
        index.reset()
        index.add(same)
        assert index.search(same[:1], np.int64(2))[1][0].tolist() == expected
    D, I = np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int64)
    assert index.search(rows, 2, D=D, I=I)[0] is D
    assert I.tolist() == index.assign(rows, 2).tolist()
    assert index.search(np.zeros((0, 2), np.float32), 2)[0].shape == (0, 2)
    assert ours.IndexFlatIP(2).search(rows, 1)[1].tolist() == [[-1], [-1], [-1]]
    rows[:] = 9.0  # the index holds a copy
    assert index.reconstruct(1).tolist() == [0.0, 1.0]


def test_errors() -> None:
    index = ours.IndexFlatL2(2)
    index.add(np.eye(2))
    with pytest.raises(AssertionError, match="has 3 dimensions; the index has 2"):
        index.add(np.ones((1, 3)))
    with pytest.raises(ValueError, match="must be a matrix"):
        index.search(np.ones(2), 1)
    with pytest.raises(AssertionError, match="k must be at least 1"):
        index.search(np.eye(2), 0)
    for bad in (np.nan, np.inf):
        rows = np.array([[0, 0], [0, bad]])
        for call in (index.add, lambda rows: index.search(rows, 1), lambda r: ours.knn(r, r, 1)):
            with pytest.raises(ValueError, match="row 1"):
                call(rows)
    assert index.ntotal == 2
    with pytest.raises(RuntimeError, match="no row 2"):
        index.reconstruct(2)
    with pytest.raises(RuntimeError, match="IndexIDMap"):
        index.add_with_ids(np.eye(2), [0, 1])
    with pytest.raises(RuntimeError, match="must be empty"):
        ours.IndexIDMap(index)
    mapped = ours.IndexIDMap2(ours.IndexFlat(2))
    with pytest.raises(RuntimeError, match="use add_with_ids"):
        mapped.add(np.eye(2))
    with pytest.raises(AssertionError, match="not same nb of vectors as ids"):
        mapped.add_with_ids(np.eye(2), [1])
    with pytest.raises(RuntimeError, match="key 5 not found"):
        mapped.reconstruct(5)
    with pytest.raises(TypeError, match="float32 numpy array"):
        ours.normalize_L2(np.eye(2))
    with pytest.raises(AttributeError, match="has no 'no_such_thing'"):
        _ = ours.no_such_thing


def test_normalize() -> None:
    rows = np.array([[3, 4], [0, 0], [3e-30, 4e-30], [3e30, 4e30]], np.float32)
    strided = np.asfortranarray(rows)
    ours.normalize_L2(rows)
    ours.normalize_L2(strided)
    assert rows.tolist() == strided.tolist()
    assert rows[1].tolist() == [0.0, 0.0]
    assert np.abs(rows[[0, 2, 3]] - np.array([0.6, 0.8], np.float32)).max() < 1e-6


def test_ids_may_repeat_and_indexes_merge() -> None:
    first, second = (ours.IndexIDMap2(ours.IndexFlatIP(1)) for _ in range(2))
    first.add_with_ids([[1.0], [2.0]], [7, 7])
    second.add_with_ids([[3.0]], [1])
    first.merge_from(second, add_id=10)
    assert (first.ntotal, second.ntotal) == (3, 0)
    assert first.search([[1.0]], 3)[1].tolist() == [[11, 7, 7]]
    assert first.reconstruct(7).tolist() == [2.0]
    assert (first.remove_ids([7]), first.id_map.tolist()) == (2, [11])


def test_files(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    for metric in (ours.METRIC_L2, ours.METRIC_INNER_PRODUCT):
        flat = ours.index_factory(2, "Flat", metric)
        flat.add(rows[:4])
        flat.search(rows, 1)
        flat.add(rows[4:])
        mapped = ours.index_factory(2, "IDMap2,Flat", metric)
        mapped.add_with_ids(rows, np.arange(6) * 10)
        for index in (flat, mapped):
            ours.write_index(index, tmp_path / "index")
            read = ours.read_index(tmp_path / "index")
            assert type(read) is type(index)
            for one, other in zip(read.search(rows, 7), index.search(rows, 7), strict=True):
                assert one.tolist() == other.tolist()
    whole = (tmp_path / "index").read_bytes()
    assert whole == ours.serialize_index(mapped).tobytes()
    for cut in range(4, len(whole), 7):  # a file that ends early is refused wherever it ends
        with pytest.raises(RuntimeError):
            ours.deserialize_index(np.frombuffer(whole[:cut], np.uint8))
    damaged = whole[:4] + struct.pack("<i", -1) + whole[8:]
    with pytest.raises(RuntimeError, match="damaged header"):
        ours.deserialize_index(np.frombuffer(damaged, np.uint8))


def test_copies_and_pickles() -> None:
    index = ours.IndexFlatL2(3)
    index.add(np.eye(3))
    mapped = ours.IndexIDMap(ours.IndexFlatIP(3))
    mapped.add_with_ids(np.eye(3), [5, 6, 7])
    for one in (index, mapped):
        for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one)), ours.clone_index(one)):
            assert other.search(np.eye(3), 3)[1].tolist() == one.search(np.eye(3), 3)[1].tolist()


def test_threads_search_beside_one_that_adds() -> None:
    rows = np.random.default_rng(1).normal(size=(400, 8)).astype(np.float32)
    index = ours.IndexFlatL2(8)
    index.add(rows[:1])

    def add(i: int) -> None:
        index.add(rows[i : i + 1])

    with ThreadPoolExecutor(4) as pool:
        adding = [pool.submit(add, i) for i in range(1, 200)]
        found = [pool.submit(index.search, rows[:3], 1) for _ in range(50)]
        for one in [*adding, *found]:
            one.result()
    assert sorted(index.reconstruct_n().tolist()) == sorted(rows[:200].tolist())


def search_in_child(index: Any, rows: Any, answers: Any) -> None:
    answers.put(index.search(rows, 3)[1].tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(method: str) -> None:
    """A child searches after its parent did; spawn pickles the index."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    rows = np.random.default_rng(2).normal(size=(500, 16)).astype(np.float32)
    index = ours.IndexFlatIP(16)
    index.add(rows)
    expected = index.search(rows, 3)[1].tolist()
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=search_in_child, args=(index, rows, answers))
    child.start()
    assert answers.get(timeout=60) == expected
    child.join(60)
    assert child.exitcode == 0


def test_without_faiss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match="pip install faiss-cpu"):
        ours.IndexFlat(2, 2)
    with pytest.raises(AttributeError, match="IndexIVFFlat"):
        _ = ours.IndexIVFFlat


@given(rows=matrices(), metric=METRIC, k=st.integers(1, 15))
@settings(max_examples=40)
def test_against_faiss(rows: Any, metric: int, k: int) -> None:
    """These numbers are exact in float32, so the distances are equal and only ties may differ."""
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    theirs, mine = faiss.IndexFlat(rows.shape[1], metric), ours.IndexFlat(rows.shape[1], metric)
    for index in (theirs, mine):
        index.add(rows)
    (D, I), (E, J) = theirs.search(rows, k), mine.search(rows, k)
    assert D.tolist() == E.tolist()
    for q in range(len(rows)):
        strict = D[q] != D[q][min(k, len(rows)) - 1]  # a tie at the end: either may stay
        assert set(I[q][strict]) == set(J[q][strict])
    for one, other in zip(
        theirs.range_search(rows, 1.0), mine.range_search(rows, 1.0), strict=True
    ):
        assert one.tolist() == other.tolist()


def test_files_are_those_of_faiss(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    rows = np.random.default_rng(3).normal(size=(50, 4)).astype(np.float32)
    for metric in (0, 1):
        for kind in ("Flat", "IDMap,Flat", "IDMap2,Flat"):
            theirs = faiss.index_factory(4, kind, metric)
            mine = ours.index_factory(4, kind, metric)
            for index in (theirs, mine):
                more = (np.arange(50) + 7,) if "IDMap" in kind else ()
                (index.add_with_ids if more else index.add)(rows, *more)
            assert faiss.serialize_index(theirs).tobytes() == ours.serialize_index(mine).tobytes()
            faiss.write_index(theirs, str(tmp_path / "index"))
            read = ours.read_index(str(tmp_path / "index"))
            assert read.search(rows, 3)[1].tolist() == mine.search(rows, 3)[1].tolist()


def test_what_gnomon_does_not_have_goes_to_faiss(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    rows = np.random.default_rng(4).normal(size=(50, 4)).astype(np.float32)
    with pytest.warns(UserWarning, match="goes to faiss itself"):
        index = ours.IndexFlat(4, faiss.METRIC_L1)
    assert type(index) is faiss.IndexFlat
    with pytest.warns(UserWarning, match="goes to faiss itself"):
        mapped = ours.IndexIDMap(index)
    assert type(mapped) is faiss.IndexIDMap
    with pytest.warns(UserWarning, match="goes to faiss itself"):
        found = ours.knn(rows, rows, 2, metric=faiss.METRIC_L1)
    assert found[1].tolist() == faiss.knn(rows, rows, 2, metric=faiss.METRIC_L1)[1].tolist()
    with pytest.warns(UserWarning, match="goes to faiss itself"):
        graph = ours.index_factory(4, "HNSW8")
    graph.add(rows)
    faiss.write_index(graph, str(tmp_path / "graph"))
    with pytest.warns(UserWarning, match="kind 'IHNf'"):
        assert ours.read_index(str(tmp_path / "graph")).ntotal == 50
    with pytest.warns(UserWarning, match="gnomon does not have it"):
        assert ours.IndexLSH is faiss.IndexLSH
    own = ours.IndexFlatL2(4)
    own.add(rows)
    selector = faiss.IDSelectorRange(3, 9)
    params = faiss.SearchParameters(sel=selector)
    assert own.search(rows[:1], 1, params=params)[1][0, 0] in range(3, 9)


def test_blocks_are_joined_without_a_second_copy_of_all_rows() -> None:
    blocks = [np.full((n, 2), n, np.float32) for n in (3, 1, 4)]
    kept = list(blocks)
    rows = flat_module._joined(blocks)
    assert rows.tolist() == np.concatenate(kept).tolist()
    assert all(np.shares_memory(block, rows) for block in blocks)  # the originals are let go
    assert flat_module._joined(kept[:1]) is kept[0]


def test_rows_that_are_not_copied() -> None:
    rows = np.random.default_rng(4).standard_normal((40, 8), dtype=np.float32)
    held, copied = ours.IndexFlatL2(8), ours.IndexFlatL2(8)
    held.add(rows[:30], copy=False)
    held.add(rows[30:].tolist(), copy=False)
    copied.add(rows)
    assert np.shares_memory(held._blocks()[0][1], rows)
    assert not np.shares_memory(copied._blocks()[0][1], rows)
    for mine, other in zip(held.search(rows, 5), copied.search(rows, 5), strict=True):
        assert mine.tolist() == other.tolist()
    with pytest.raises(ValueError, match="row 1"):
        held.add(np.array([[1.0] * 8, [np.nan] * 8], np.float32), copy=False)


def test_a_distance_beyond_float32_is_found() -> None:
    index = ours.IndexFlatL2(2)
    index.add(np.array([[3e38, 0], [0, 0]], np.float32))
    near, ids = index.search(np.array([[1, 0]], np.float32), 2)
    assert (near.tolist(), ids.tolist()) == ([[1.0, np.inf]], [[1, 0]])
