"""Files of vectors and neighbour lists: what is written is read, what is damaged is refused."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gnomon import open_vectors
from gnomon.formats import FORMATS, ArraySource, FormatError, check_vectors, write_vectors
from gnomon.formats_neighbors import FORMATS as NEIGHBOR_FORMATS
from gnomon.formats_neighbors import (
    read_neighbors,
    read_range_neighbors,
    write_neighbors,
    write_range_neighbors,
)
from gnomon.formats_truth import RangeNeighbors
from hypothesis import given
from hypothesis import strategies as st

NEEDS = {"hdf5": "h5py", "parquet": "pyarrow"}
OWN_TYPE = {
    **{"fvecs": "f4", "ivecs": "i4", "bvecs": "u1", "fbin": "f4", "f16bin": "f2", "u8bin": "u1"},
    **{"i8bin": "i1", "ibin": "i4"},
}
FREE = ("npy", "npz", "hdf5", "parquet")


def need(kind: str) -> None:
    if kind in NEEDS:
        pytest.importorskip(NEEDS[kind])


def matrix(kind: str, n: int, dim: int, seed: int = 0) -> npt.NDArray[Any]:
    rng = np.random.default_rng(seed)
    dtype = np.dtype(OWN_TYPE.get(kind, "f4"))
    if dtype.kind == "f":
        return rng.standard_normal((n, dim)).astype(dtype)
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max, (n, dim), dtype, endpoint=True)


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (1000, 33)])
@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_written_is_read(kind: str, shape: tuple[int, int], tmp_path: Path) -> None:
    need(kind)
    rows = matrix(kind, *shape)
    path = tmp_path / f"rows.{kind}"
    write_vectors(path, rows)
    with open_vectors(path) as source:
        assert (source.n_rows, source.dim, source.dtype) == (*shape, rows.dtype)
        assert source.read(0, shape[0]).tobytes() == rows.tobytes()
        for step in (1, 3, 10**6):
            parts = [block for _, block in source.blocks(step)]
            assert np.concatenate(parts).tobytes() == rows.tobytes()
        assert source.read(shape[0] // 2, shape[0]).tobytes() == rows[shape[0] // 2 :].tobytes()
        assert source.read(0, 1).tobytes() == rows[:1].tobytes()  # back to the start
        wanted = np.random.default_rng(1).integers(0, shape[0], 20)
        assert source.take(wanted).tobytes() == rows[wanted].tobytes()
        assert source.read(0, 0).shape == (0, shape[1])
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", FORMATS)
def test_blocks_are_written_one_after_the_other(kind: str, tmp_path: Path) -> None:
    need(kind)
    rows = matrix(kind, 10, 4)
    path = tmp_path / f"rows.{kind}"
    blocks = (rows[start : start + 3] for start in range(0, 10, 3))
    write_vectors(path, blocks, n_rows=10, dim=4, dtype=rows.dtype)
    with open_vectors(path) as source:
        assert source.read(0, 10).tobytes() == rows.tobytes()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_failed_write_leaves_the_old_file(kind: str, tmp_path: Path) -> None:
    need(kind)
    path = tmp_path / f"rows.{kind}"
    rows = matrix(kind, 4, 2)
    write_vectors(path, rows)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="rows were given, 5 announced"):
        write_vectors(path, [rows], n_rows=5, dim=2, dtype=rows.dtype)
    with pytest.raises(ValueError, match="block of shape"):
        write_vectors(path, [rows[:, :1]], n_rows=4, dim=2, dtype=rows.dtype)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", FREE)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1"])
def test_free_formats_keep_the_type(kind: str, dtype: str, tmp_path: Path) -> None:
    need(kind)
    rows = np.arange(6).reshape(3, 2).astype(dtype)
    write_vectors(tmp_path / f"rows.{kind}", rows)
    with open_vectors(tmp_path / f"rows.{kind}") as source:
        assert source.dtype == rows.dtype
        assert (source.read(0, 3) == rows).all()


@pytest.mark.parametrize(("kind", "value"), [("f16bin", 65520.0), ("fbin", 1e39), ("fvecs", -1e39)])
def test_a_finite_value_is_never_written_as_infinite(
    kind: str, value: float, tmp_path: Path
) -> None:
    """Such a file would be refused by its reader, hours later."""
    with pytest.raises(ValueError, match=r"row 1, component 0: .* is beyond float(16|32)"):
        write_vectors(tmp_path / f"rows.{kind}", np.array([[1.0, 2.0], [value, 3.0]]))
    assert list(tmp_path.iterdir()) == []
    given = np.array([[np.inf, 65504.0]])  # as it is: not this writer's to judge
    write_vectors(tmp_path / f"rows.{kind}", given)
    with open_vectors(tmp_path / f"rows.{kind}") as source:
        assert source.read(0, 1).tolist() == given.tolist()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    """Opening a pipe that nobody writes to would wait for ever."""
    readers = [(open_vectors, FORMATS), (read_neighbors, NEIGHBOR_FORMATS)]
    for read, kinds in readers:
        for kind in kinds:
            pipe = tmp_path / f"pipe.{kind}"
            if not pipe.exists():
                os.mkfifo(pipe)
            with pytest.raises(FormatError, match="not a regular file"):
                read(pipe)
            folder = tmp_path / f"folder.{kind}"
            folder.mkdir(exist_ok=True)
            with pytest.raises(IsADirectoryError, match="a directory, not a file"):
                read(folder)
            with pytest.raises(FileNotFoundError, match="no such file"):
                read(tmp_path / f"absent.{kind}")


@pytest.mark.parametrize("value", [-1, 256, 0.5, np.nan, np.inf])
def test_an_integer_format_refuses_what_it_would_change(value: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"row 1, component 0: .* is no uint8"):
        write_vectors(tmp_path / "rows.u8bin", [[1.0, 2.0], [value, 3.0]])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", sorted(OWN_TYPE))
@given(cut=st.integers(1, 200))
def test_every_cut_is_noticed(
    kind: str, tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """A file of 9 rows without its last bytes is refused, unless whole rows of fvecs are gone."""
    path = tmp_path_factory.mktemp("cut") / f"rows.{kind}"
    write_vectors(path, matrix(kind, 9, 5))
    data = path.read_bytes()
    if cut >= len(data):
        return
    path.write_bytes(data[:-cut])
    stride = 4 + 5 * np.dtype(OWN_TYPE[kind]).itemsize
    if kind.endswith("vecs") and cut % stride == 0:
        with open_vectors(path) as source:  # nothing in the file says how many rows it had
            assert source.n_rows == 9 - cut // stride
        return
    with pytest.raises(FormatError, match=str(path)) as caught:
        open_vectors(path)
    assert caught.value.byte is not None


@pytest.mark.parametrize("kind", FREE)
@pytest.mark.parametrize("cut", [1, 7, 64])
def test_a_cut_container_is_refused(kind: str, cut: int, tmp_path: Path) -> None:
    need(kind)
    path = tmp_path / f"rows.{kind}"
    write_vectors(path, matrix(kind, 50, 5))
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(FormatError), open_vectors(path) as source:
        check_vectors(source)


@pytest.mark.parametrize("kind", FREE)
@pytest.mark.parametrize("content", [b"", b"\0", b"garbage" * 100])
def test_garbage_is_refused(kind: str, content: bytes, tmp_path: Path) -> None:
    need(kind)
    path = tmp_path / f"rows.{kind}"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=str(path)):
        open_vectors(path)


def test_a_flipped_bit_in_npz_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    write_vectors(path, matrix("npz", 100, 5))
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match="damaged archive"), open_vectors(path) as source:
        check_vectors(source)


def test_a_dimension_that_changes_later_is_found_with_row_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "rows.fvecs"
    write_vectors(path, matrix("fvecs", 100, 5))
    data = bytearray(path.read_bytes())
    data[37 * 24 : 37 * 24 + 4] = struct.pack("<i", 6)
    path.write_bytes(data)
    with open_vectors(path) as source:
        for read in (lambda: source.read(30, 40), lambda: check_vectors(source)):
            with pytest.raises(FormatError, match="row 37, byte 888: says dimension 6") as caught:
                read()
            assert (caught.value.row, caught.value.byte) == (37, 888)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["fvecs", "fbin", "f16bin", "npy", "npz", "hdf5", "parquet"])
def test_what_is_not_finite_is_named(kind: str, value: float, tmp_path: Path) -> None:
    need(kind)
    rows = matrix(kind, 300, 6)
    rows[123, 4] = value
    rows[200, 0] = value
    path = tmp_path / f"rows.{kind}"
    write_vectors(path, rows)
    with open_vectors(path) as source:
        at = source.byte_of(123, 4)
        with pytest.raises(FormatError, match=rf"row 123.*component 4 is {value}") as caught:
            check_vectors(source)
        assert (caught.value.row, caught.value.byte) == (123, at)
        if at is not None:
            with open(path, "rb") as file:
                file.seek(at)
                stored = np.frombuffer(file.read(rows.dtype.itemsize), rows.dtype)
            assert str(stored[0]) == str(value)


def test_float64_beyond_float32_is_refused() -> None:
    with pytest.raises(FormatError, match=r"row 0: component 1 is 1e\+300"):
        check_vectors(ArraySource(np.array([[1.0, 1e300]]), "rows"))


def test_zero_rows_are_counted_or_refused() -> None:
    rows = np.ones((5, 2), np.float32)
    rows[3], rows[4] = 0.0, -0.0
    source = ArraySource(rows, "rows")
    found = check_vectors(source)
    assert (found.n_zero, found.first_zero) == (2, 3)
    with pytest.raises(FormatError, match="rows: row 3: a row of zeros"):
        check_vectors(source, zero_rows="error")


def test_the_first_fault_is_the_one_named() -> None:
    rows = np.ones((5, 2), np.float32)
    rows[1], rows[3] = 0.0, np.nan
    with pytest.raises(FormatError, match="row 1: a row of zeros"):
        check_vectors(ArraySource(rows, "rows"), zero_rows="error")
    rows[0, 1] = np.inf
    with pytest.raises(FormatError, match="row 0: component 1 is inf"):
        check_vectors(ArraySource(rows, "rows"), zero_rows="error")


@pytest.mark.parametrize("kind", FORMATS)
def test_the_digest_does_not_depend_on_the_format(kind: str, tmp_path: Path) -> None:
    need(kind)
    rows = matrix(kind, 50, 5)
    path = tmp_path / f"rows.{kind}"
    write_vectors(path, rows)
    with open_vectors(path) as source:
        assert check_vectors(source) == check_vectors(ArraySource(rows, "rows"))
    rows[20, 2] += 1
    with open_vectors(path) as source:
        assert check_vectors(source) != check_vectors(ArraySource(rows, "rows"))


def test_a_file_that_changes_under_the_reader_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "rows.fbin"
    write_vectors(path, matrix("fbin", 50, 5))
    with open_vectors(path) as source:
        write_vectors(path, matrix("fbin", 50, 5, seed=1))
        with pytest.raises(FormatError, match="changed while it was read"):
            check_vectors(source)


def test_names_inside_files(tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    np.savez(path, a=np.eye(2), b=np.eye(3))
    with open_vectors(f"{path}::b") as source:
        assert source.dim == 3
    with pytest.raises(FormatError, match=r"no array 'train'; it has a, b; name one as FILE::NAME"):
        open_vectors(path)
    with pytest.raises(FormatError, match="no array 'c'; it has a, b"):
        open_vectors(f"{path}::c")
    np.savez(path, train=np.eye(2), test=np.eye(3))
    for role, dim in (("base", 2), ("queries", 3)):
        with open_vectors(path, role=role) as source:
            assert source.dim == dim


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros(3), "shape"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros((2, 0)), "dimension 0"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.array([[1j, 2]]), "real numbers"),
        (np.asfortranarray(np.zeros((3, 4))), "stored by columns"),
    ],
)
def test_npy_that_is_no_matrix_is_refused(array: Any, why: str, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", array)
    with pytest.raises(FormatError, match=why):
        open_vectors(tmp_path / "rows.npy")


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "boom"),)

    np.save(tmp_path / "rows.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "rows.npz", np.array([[Bomb()]], dtype=object))
    for name in ("rows.npy", "rows.npz"):
        with pytest.raises(FormatError):
            open_vectors(tmp_path / name)
        with pytest.raises(FormatError):
            read_neighbors(tmp_path / name)
    assert not (tmp_path / "boom").exists()


def test_big_endian_npy_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.array([[1.5, 2.0]], dtype=">f4"))
    with open_vectors(tmp_path / "rows.npy") as source:
        assert source.dtype == np.float32
        assert source.read(0, 1).tolist() == [[1.5, 2.0]]


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ([[1.0, 2.0], [3.0]], "row 1: has 1 components, the first row 2"),
        ([[1.0, 2.0], None], "row 1: a missing value"),
        ([[1.0, 2.0], [None, 1.0]], "row 1: a missing value"),
    ],
)
def test_ragged_or_missing_lists_in_parquet(column: Any, why: str, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"emb": pa.array(column)}), tmp_path / "rows.parquet")
    with open_vectors(tmp_path / "rows.parquet") as source, pytest.raises(FormatError, match=why):
        check_vectors(source)


@pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.fbin.gz"])
def test_an_unknown_suffix_lists_the_known(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"known formats: fvecs, ivecs"):
        open_vectors(tmp_path / name)


# --------------------------------------------------------------------------------------- neighbours

IDS = np.array([[4, 2, 0], [1, 0, 3]])
DISTANCES = np.array([[0.5, 1.0, 1.5], [0.0, 0.0, 2.0]])


@pytest.mark.parametrize("kind", NEIGHBOR_FORMATS)
def test_neighbours_that_are_written_are_read(kind: str, tmp_path: Path) -> None:
    need(kind)
    path = tmp_path / f"truth.{kind}"
    write_neighbors(path, IDS, distances=DISTANCES)
    found = read_neighbors(path, n_base=5)
    assert found.ids.dtype == np.int64
    assert found.ids.tolist() == IDS.tolist()
    if kind in ("ivecs", "ibin", "npy"):
        assert found.scores is None
    else:
        assert found.distances is not None
        assert found.distances.tolist() == DISTANCES.tolist()
        assert found.scores is not None
        assert found.scores.tolist() == (-DISTANCES).tolist()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", NEIGHBOR_FORMATS)
def test_a_truth_is_checked_and_a_result_is_not(kind: str, tmp_path: Path) -> None:
    need(kind)
    path = tmp_path / f"x.{kind}"
    write_neighbors(path, IDS)
    with pytest.raises(FormatError, match=r"row 0.*id 4, but the base has 4 rows"):
        read_neighbors(path, n_base=4)
    write_neighbors(path, [[1, 2], [7, 7]])
    with pytest.raises(FormatError, match=r"row 1.*id 7 stands twice"):
        read_neighbors(path)
    assert read_neighbors(path, role="result").ids.tolist() == [[1, 2], [7, 7]]
    write_neighbors(path, [[1, -1], [7, 2]])
    assert read_neighbors(path, role="result").ids.tolist() == [[1, -1], [7, 2]]


def test_scores_that_fall_are_scores(tmp_path: Path) -> None:
    write_neighbors(tmp_path / "truth.bin", IDS, distances=-DISTANCES)
    found = read_neighbors(tmp_path / "truth.bin")
    assert found.scores is not None
    assert found.scores.tolist() == (-DISTANCES).tolist()


def test_ids_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for kind, beyond in (("ivecs", 2**31), ("ibin", 2**31), ("bin", 2**32)):
        with pytest.raises(ValueError, match=str(beyond)):
            write_neighbors(tmp_path / f"truth.{kind}", [[beyond]])
    write_neighbors(tmp_path / "truth.bin", [[2**32 - 2]])
    assert read_neighbors(tmp_path / "truth.bin").ids.tolist() == [[2**32 - 2]]
    with pytest.raises(ValueError, match="row 0: the distance of id 7 is not a number"):
        write_neighbors(tmp_path / "nan.bin", [[3, 7]], distances=[[0.5, np.nan]])
    assert not (tmp_path / "nan.bin").exists()
    write_neighbors(tmp_path / "truth.npz", [[2**40]])
    assert read_neighbors(tmp_path / "truth.npz").ids.tolist() == [[2**40]]


def test_range_truth(tmp_path: Path) -> None:
    truth = RangeNeighbors(
        "x", np.array([0, 2, 2, 5]), np.arange(5), np.linspace(0, 1, 5).astype(np.float32)
    )
    path = tmp_path / "range.bin"
    write_range_neighbors(path, truth)
    assert path.stat().st_size == 8 + 4 * 3 + 8 * 5
    found = read_range_neighbors(path)
    assert found.offsets.tolist() == [0, 2, 2, 5]
    assert found.ids.tolist() == [0, 1, 2, 3, 4]
    assert found.distances.tolist() == truth.distances.tolist()
    with pytest.raises(FormatError, match="range ground truth"):
        read_neighbors(path)
    data = bytearray(path.read_bytes())
    data[8:12] = struct.pack("<i", 9)
    path.write_bytes(data)
    with pytest.raises(FormatError, match="counts give 12 results, the header 5"):
        read_range_neighbors(path)
    write_neighbors(path, IDS, distances=DISTANCES)
    with pytest.raises(FormatError, match="k nearest neighbours"):
        read_range_neighbors(path)


def test_vectordbbench_parquet_is_ordered_by_its_id(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"id": [1, 0], "neighbors_id": [[5, 6], [7, 8]]})
    pq.write_table(table, tmp_path / "neighbors.parquet")
    assert read_neighbors(tmp_path / "neighbors.parquet").ids.tolist() == [[7, 8], [5, 6]]


def header_of(descr: str, shape: str) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "head",
    [
        header_of("()", "(2, 2)"),
        header_of("'<f4'", "(2, 2"),
        header_of("'<f4'", "(-2, 2)"),
        header_of("'<f4'", "(-2, -2)"),
        header_of("'<f4'", "(0, -2)"),
    ],
)
def test_a_header_that_numpy_stumbles_over_is_refused(head: bytes, tmp_path: Path) -> None:
    """IndexError, TokenError, and sizes below zero that fit the file."""
    path = tmp_path / "rows.npy"
    path.write_bytes(head + bytes(16 if b"(0" not in head else 0))
    with pytest.raises(FormatError, match=r"rows\.npy"):
        open_vectors(path)


def test_an_archive_with_any_byte_changed_is_refused_or_the_same(tmp_path: Path) -> None:
    """A compression that no zip has, encryption, an offset before the file: all are FormatError."""
    path = tmp_path / "found.npz"
    write_neighbors(path, [[4, 2]])
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            found = read_neighbors(path)
        except FormatError:
            continue
        assert found.ids.tolist() == [[4, 2]]
    np.save(tmp_path / "array.npy", np.eye(2))
    os.rename(tmp_path / "array.npy", path)
    with pytest.raises(FormatError, match="not an npz archive"):
        read_neighbors(path)


def test_lists_of_no_neighbours_are_refused(tmp_path: Path) -> None:
    """Eight bytes that announce four billion empty lists took all memory."""
    path = tmp_path / "truth.bin"
    path.write_bytes(b"\xff" * 4 + bytes(4))
    with pytest.raises(FormatError, match="the header says 4294967295 and 0"):
        read_neighbors(path)
