"""The edges of ``cosine_topk``: shapes, k, dtypes, layouts, zero and non-finite vectors, torch."""

from __future__ import annotations

from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.reference import dense as reference

RNG = np.random.default_rng(7)
ROWS = RNG.integers(-20, 21, size=(70, 9)).astype(np.float32)
ROWS[5] = ROWS[60] = 0.0
ROWS[33] = ROWS[2]
QUERIES = RNG.integers(-20, 21, size=(4, 9)).astype(np.float32)
QUERIES[1] = 0.0
QUERIES[2] = ROWS[2]


def expected(query: Any, rows: Any, k: int) -> tuple[list[float], list[int]]:
    hits = reference.top_k(
        np.asarray(query).astype(np.float64).tolist(),
        np.asarray(rows).astype(np.float64).tolist(),
        k,
    )
    return [score for _, score in hits], [position for position, _ in hits]


def check(query: Any, rows: Any, k: int = 12) -> None:
    values, indices = gnomon.cosine_topk(query, rows, k)
    assert (values.tolist(), indices.tolist()) == expected(query, rows, k)
    assert values.dtype == np.float64
    assert indices.dtype == np.int64


# ------------------------------------------------------------------------------------- shapes, k
def test_one_query_gives_vectors_and_a_batch_gives_matrices() -> None:
    top = gnomon.cosine_topk(QUERIES[0], ROWS, 12)
    assert top.values.shape == top.indices.shape == (12,)
    assert type(top.values) is type(top.indices) is np.ndarray
    batch = gnomon.cosine_topk(QUERIES, ROWS, 12)
    assert batch.values.shape == batch.indices.shape == (4, 12)
    for i, query in enumerate(QUERIES):
        assert (batch.values[i].tolist(), batch.indices[i].tolist()) == expected(query, ROWS, 12)
        check(query, ROWS)


def test_a_tuple_with_names() -> None:
    top = gnomon.cosine_topk(QUERIES[0], ROWS, 1)
    values, indices = top
    assert values is top.values
    assert indices is top.indices
    assert top._fields == ("values", "indices")


@pytest.mark.parametrize("k", [69, 70, 71, 10**9, np.int64(2**62)])
def test_k_beyond_the_rows_gives_all_rows(k: int) -> None:
    check(QUERIES[0], ROWS, k)
    assert gnomon.cosine_topk(QUERIES, ROWS, k).values.shape == (4, min(k, 70))


def test_k_zero_gives_nothing() -> None:
    check(QUERIES[0], ROWS, 0)
    assert gnomon.cosine_topk(QUERIES, ROWS, 0).values.shape == (4, 0)


@pytest.mark.parametrize("k", [-1, -(10**9)])
def test_k_below_zero_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=rf"\bk\b.*{k}"):
        gnomon.cosine_topk(QUERIES[0], ROWS, k)


@pytest.mark.parametrize("k", [1.5, "3", None])
def test_k_is_an_integer(k: Any) -> None:
    with pytest.raises(TypeError):
        gnomon.cosine_topk(QUERIES[0], ROWS, k)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ((8,), (70, 9)),
        ((9,), (9, 70)),
        ((4, 8), (70, 9)),
        ((), (70, 9)),
        ((9,), (9,)),
        ((1, 1, 9), (70, 9)),
        ((9,), (7, 10, 9)),
        ((0,), (70, 9)),
        ((9,), (0, 8)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(query: tuple[int, ...], rows: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"(?i)shape|dimension"):
        gnomon.cosine_topk(np.ones(query, np.float32), np.ones(rows, np.float32), 3)


def test_empty_arrays() -> None:
    check(QUERIES[0], ROWS[:0])
    none = gnomon.cosine_topk(QUERIES[:0], ROWS, 3)
    assert none.values.shape == none.indices.shape == (0, 3)
    assert gnomon.cosine_topk(QUERIES, ROWS[:0], 3).values.shape == (4, 0)
    # Vectors without components are all zero: similarity 0, in order.
    check(QUERIES[0, :0], ROWS[:3, :0])


def test_ties_stand_in_row_order() -> None:
    rows = np.tile(np.float32([[1, 1], [2, 2], [0, 0], [-3, -3]]), (20, 1))
    check(np.float32([5, 5]), rows, 80)
    check(np.float32([5, 5]), rows, 21)


# ----------------------------------------------------------------------------- dtypes and layouts
@pytest.mark.parametrize(
    "dtype",
    ["f2", "f4", "f8", ">f2", ">f4", ">f8", "i1", "i2", "i4", "i8", ">i2", ">i8", "longdouble"],
)
def test_every_real_dtype_and_byte_order(dtype: str) -> None:
    check(QUERIES[0].astype(dtype), ROWS.astype(dtype))
    check(QUERIES[0].astype(dtype), ROWS)
    check(QUERIES[0], ROWS.astype(dtype))


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", ">u4"])
def test_unsigned_integers(dtype: str) -> None:
    check(np.abs(QUERIES[0]).astype(dtype), np.abs(ROWS).astype(dtype))


def test_float64_is_rounded_to_float32() -> None:
    rows = RNG.standard_normal((33, 9))
    check(RNG.standard_normal(9), rows)
    one = np.float64([[1.0 + 2.0**-40, 1.0]])  # rounds to [1, 1]
    assert gnomon.cosine_topk(np.float64([1.0, 1.0]), one, 1).values.tolist() == [1.0]
    tiny = np.float64([[1e-300, 1.0]])  # rounds to 0, quietly
    assert gnomon.cosine_topk(np.float64([0.0, 1.0]), tiny, 1).values.tolist() == [1.0]


def test_integers_are_rounded_to_float64_first() -> None:
    # 2**60 + 2**36 + 1 lies above the middle of two float32; as float64 it lies on it, so it goes
    # to the even one.
    rows = np.array([[2**60 + 2**36 + 1, 2**60]])
    assert gnomon.cosine_topk(np.array([1, 1]), rows, 1).values.tolist() == [1.0]


LAYOUTS = {
    "fortran": np.asfortranarray(ROWS),
    "transposed": np.ascontiguousarray(ROWS.T).T,
    "every other row": np.repeat(ROWS, 2, axis=0)[::2],
    "every third column": np.repeat(ROWS, 3, axis=1)[:, ::3],
    "rows backwards": ROWS[::-1].copy()[::-1],
    "columns backwards": ROWS[:, ::-1].copy()[:, ::-1],
    "unaligned": np.frombuffer(b"\0" + ROWS.tobytes(), np.float32, ROWS.size, 1).reshape(70, 9),
    "one row, repeated": np.broadcast_to(ROWS[2], (70, 9)),
    "one column, repeated": np.broadcast_to(ROWS[:, :1], (70, 9)),
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_layouts(layout: str) -> None:
    rows = LAYOUTS[layout]
    check(QUERIES[0], rows)
    check(rows[7], rows)
    check(np.repeat(QUERIES[0], 2)[::2], rows)
    check(QUERIES[0][::-1], rows)
    batch = gnomon.cosine_topk(rows[:3], rows, 4)
    for i in range(3):
        assert (batch.values[i].tolist(), batch.indices[i].tolist()) == expected(rows[i], rows, 4)


def test_read_only_arrays_and_inputs_that_stay_as_they_were() -> None:
    rows, query = ROWS.copy(), QUERIES[0].copy()
    rows.flags.writeable = query.flags.writeable = False
    check(query, rows)
    assert rows.tobytes() == ROWS.tobytes()
    assert query.tobytes() == QUERIES[0].tobytes()


@pytest.mark.parametrize("dtype", ["c8", "O", "U3", "M8[s]"])
def test_what_is_no_real_number_is_refused(dtype: str) -> None:
    with pytest.raises((TypeError, ValueError), match=r"(?i)dtype|real|number|documents"):
        gnomon.cosine_topk(QUERIES[0], np.zeros((3, 9), dtype), 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_in_the_dtype_asked_for(dtype: Any) -> None:
    values, indices = gnomon.cosine_topk(QUERIES, ROWS, 70, dtype=dtype)
    full = gnomon.cosine_topk(QUERIES, ROWS, 70)
    assert values.dtype == np.dtype(dtype)
    assert values.tolist() == full.values.astype(dtype).tolist()
    # The ranking is that of the float64 values, also where float32 sees a tie.
    assert indices.tolist() == full.indices.tolist()


@pytest.mark.parametrize("dtype", ["int32", "half", np.float16, ">f4", "torch.bfloat16", "no such"])
def test_another_dtype_of_values_is_refused(dtype: Any) -> None:
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        gnomon.cosine_topk(QUERIES, ROWS, 3, dtype=dtype)


def test_a_caller_who_made_rounding_an_error_gets_the_same_answer() -> None:
    rows = np.array([[1e-42, 1e-300], [1.0, 2.0]])
    calm = gnomon.cosine_topk(rows[0], rows, 2)
    with np.errstate(all="raise"):
        strict = gnomon.cosine_topk(rows[0], rows, 2)
    assert strict.values.tolist() == calm.values.tolist()


# ----------------------------------------------------------------------- zero and non-finite rows
def test_zero_vectors_score_zero() -> None:
    check(QUERIES[1], ROWS, 70)
    values, indices = gnomon.cosine_topk(QUERIES[0], ROWS, 70)
    score = dict(zip(indices.tolist(), values.tolist(), strict=True))
    assert score[5] == score[60] == 0.0
    check(np.float32([-0.0, 0.0]), np.float32([[-0.0, -0.0], [1.0, 2.0]]), 2)


def test_zero_vectors_are_named_when_forbidden() -> None:
    with pytest.raises(ValueError, match=r"documents.*row 5\b.*zero"):
        gnomon.cosine_topk(QUERIES[0], ROWS, 3, on_zero="error")
    solid = np.delete(ROWS, [5, 60], axis=0)
    with pytest.raises(ValueError, match=r"query.*zero"):
        gnomon.cosine_topk(QUERIES[1], solid, 3, on_zero="error")
    with pytest.raises(ValueError, match=r"query.*row 1\b.*zero"):
        gnomon.cosine_topk(QUERIES, solid, 3, on_zero="error")
    allowed = gnomon.cosine_topk(QUERIES[0], solid, 3, on_zero="error")
    assert allowed.values.tolist() == gnomon.cosine_topk(QUERIES[0], solid, 3).values.tolist()
    with pytest.raises(ValueError, match=r"on_zero.*'nan'"):
        gnomon.cosine_topk(QUERIES[0], ROWS, 3, on_zero="nan")  # type: ignore[arg-type]


def test_tiny_and_huge_vectors_keep_their_direction() -> None:
    ends = np.float32([[2.0**-149, 0.0], [2.0**-149, 2.0**127], [3.4028235e38, 3.4028235e38]])
    check(np.float32([2.0**-149, 0.0]), ends)
    check(np.float32([3.4028235e38, 3.4028235e38]), ends)
    assert gnomon.cosine_topk(ends[0], ends, 1).values.tolist() == [1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8"])
@pytest.mark.parametrize("row", [0, 3, 69])
def test_a_row_that_is_not_finite_is_named(bad: float, dtype: str, row: int) -> None:
    rows = ROWS.astype(dtype)
    rows[row, 8] = bad
    with pytest.raises(ValueError, match=rf"documents.*row {row}\b"):
        gnomon.cosine_topk(QUERIES[0], rows, 3)


def test_the_first_of_several_bad_rows_is_named() -> None:
    rows = ROWS.copy()
    rows[[3, 50, 66]] = np.nan
    with pytest.raises(ValueError, match=r"row 3\b"):
        gnomon.cosine_topk(QUERIES, rows, 3)


def test_a_float64_beyond_float32_is_refused_without_a_warning() -> None:
    rows = ROWS.astype(np.float64)
    rows[3, 0] = 1e39
    with pytest.raises(ValueError, match=r"documents.*row 3\b"):
        gnomon.cosine_topk(QUERIES[0], rows, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_query_that_is_not_finite_is_named(bad: float) -> None:
    queries = QUERIES.copy()
    queries[3, 0] = bad
    with pytest.raises(ValueError, match="query"):
        gnomon.cosine_topk(queries[3], ROWS, 3)
    with pytest.raises(ValueError, match=r"query.*row 3\b"):
        gnomon.cosine_topk(queries, ROWS, 3)
    with pytest.raises(ValueError, match="query"):
        gnomon.cosine_topk(queries[3], ROWS[:0], 3)


# ----------------------------------------------------------------------------------------- torch
def check_torch(query: Any, rows: Any, k: int = 12) -> None:
    torch = pytest.importorskip("torch")
    values, indices = gnomon.cosine_topk(query, rows, k)
    scores, positions = expected(
        query.detach().cpu().double().numpy(), rows.detach().cpu().double().numpy(), k
    )
    assert type(values) is type(indices) is torch.Tensor
    assert values.dtype == torch.float32
    assert indices.dtype == torch.int64
    assert values.device == indices.device == rows.device
    assert values.tolist() == np.float32(scores).tolist()
    assert indices.tolist() == positions


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64"]
)
def test_torch_dtypes(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    to = getattr(torch, dtype)
    check_torch(torch.tensor(QUERIES[0]).to(to), torch.tensor(ROWS).to(to))


def test_torch_layouts_and_gradients() -> None:
    torch = pytest.importorskip("torch")
    query, rows = torch.tensor(QUERIES[0]), torch.tensor(ROWS)
    check_torch(query, rows.t().contiguous().t())
    check_torch(query, rows.repeat_interleave(2, dim=0)[::2])
    check_torch(query, rows[2].expand(70, 9))
    check_torch(query.requires_grad_(), rows.clone().requires_grad_())
    check_torch(query, rows[:0])
    check_torch(torch.nn.Parameter(query.detach()), torch.nn.Parameter(rows))


def test_torch_batches_dtype_and_k() -> None:
    torch = pytest.importorskip("torch")
    queries, rows = torch.tensor(QUERIES), torch.tensor(ROWS)
    batch = gnomon.cosine_topk(queries, rows, 12)
    assert tuple(batch.values.shape) == tuple(batch.indices.shape) == (4, 12)
    for i in range(4):
        assert batch.indices[i].tolist() == expected(QUERIES[i], ROWS, 12)[1]
    assert tuple(gnomon.cosine_topk(queries, rows, 0).values.shape) == (4, 0)
    wide = gnomon.cosine_topk(queries[0], rows, 70, dtype="float64")
    assert wide.values.dtype == torch.float64
    assert (wide.values.tolist(), wide.indices.tolist()) == expected(QUERIES[0], ROWS, 70)


def test_torch_errors_are_those_of_numpy() -> None:
    torch = pytest.importorskip("torch")
    query, rows = torch.tensor(QUERIES[0]), torch.tensor(ROWS)
    with pytest.raises(ValueError, match=r"(?i)shape|dimension"):
        gnomon.cosine_topk(query[:3], rows, 1)
    with pytest.raises(ValueError, match=r"\bk\b"):
        gnomon.cosine_topk(query, rows, -1)
    with pytest.raises(ValueError, match=r"row 5\b"):
        gnomon.cosine_topk(query, rows, 1, on_zero="error")
    rows[3, 1] = torch.nan
    with pytest.raises(ValueError, match=r"documents.*row 3\b"):
        gnomon.cosine_topk(query, rows, 1)


def test_torch_on_a_gpu_comes_back_to_it() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    check_torch(torch.tensor(QUERIES[0]).cuda(), torch.tensor(ROWS).cuda())


def test_the_index_keeps_a_copy_of_an_array_behind_an_interface() -> None:
    """The array that __array__ hands out is nobody's view, and yet its owner writes to it."""

    class Owner:
        def __init__(self) -> None:
            self.rows = np.eye(3, dtype=np.float32)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array(self.rows, dtype) if copy else self.rows

    owner = Owner()
    index = gnomon.DenseIndex.build(owner)
    owner.rows[:] = np.nan
    assert index.search([0.0, 1.0, 0.0], k=1).ids.tolist() == [1]


def test_masked_values_are_refused_not_unmasked() -> None:
    rows = np.ma.masked_array(np.eye(3), mask=np.eye(3) == 1)
    with pytest.raises(ValueError, match="documents has masked values"):
        gnomon.cosine_topk(np.ones(3), rows, k=1)
    with pytest.raises(ValueError, match="vectors has masked values"):
        gnomon.DenseIndex.build(rows)
    assert gnomon.cosine_topk(np.ones(3), np.ma.masked_array(np.eye(3)), k=1).indices.tolist() == [
        0
    ]


def test_torch_tensors_that_only_read_as_negative() -> None:
    torch = pytest.importorskip("torch")
    rows = torch.complex(torch.zeros(3, 3), torch.eye(3)).conj().imag
    assert rows.is_neg()
    found = gnomon.cosine_topk(torch.tensor([0.0, -1.0, 0.0]), rows, k=1)
    assert (found.values.tolist(), found.indices.tolist()) == ([1.0], [1])


# ------------------------------------------------------------------------------- order of many hits
@pytest.mark.parametrize("spread", [1.0, 1e12])
@pytest.mark.parametrize("k", [129, 1000, 2000])
def test_many_hits_come_in_order_with_crowds_of_ties(k: int, spread: float) -> None:
    """Whole numbers: dots are exact, and a few hundred values are shared by two thousand rows.

    One row far from the others puts them all into few steps of what sorts them.
    """
    rng = np.random.default_rng(k)
    rows = rng.integers(-9, 10, (2000, 3)).astype(np.float32)
    rows[rng.integers(2000)] *= np.float32(spread)
    query = np.array([3.0, -2.0, 5.0], np.float32)
    scores = rows.astype(np.float64) @ query.astype(np.float64)
    best = np.lexsort((np.arange(2000), -scores))[:k]
    index = gnomon.DenseIndex.build(rows, metric="ip")
    for screen in ("none", "float32"):
        hits = index.search(query, k, screen=screen)
        assert hits.ids.tolist() == best.tolist()
        assert hits.scores.tolist() == scores[best].tolist()
