"""Matrices in npy, npz, HDF5 (ann-benchmarks: train and test) and Parquet (a column of lists)."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np

from ._atomic import replacing
from .formats_raw import RawSource, as_stored
from .formats_source import Array, FormatError, VectorSource, missing_extra

_KINDS = "fiu"
# What zipfile raises for a damaged, an encrypted and an exotically compressed member.
_ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)
_PARQUET_ROWS = 4096


def _matrix_header(file: IO[bytes], path: str) -> tuple[tuple[int, int], np.dtype[Any]]:
    """Shape and dtype behind the magic of an npy file; `file` then stands at the first value."""
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"version {version} of the npy format is not read here")
    except (ValueError, EOFError) as error:
        raise FormatError(path, f"not an npy array: {error}", byte=0) from error
    if dtype.hasobject or dtype.kind not in _KINDS:
        raise FormatError(path, f"holds {dtype}; a matrix of real numbers is needed")
    if len(shape) != 2:
        raise FormatError(path, f"has shape {list(shape)}; a matrix [N, D] is needed")
    if fortran and min(shape) > 1:
        raise FormatError(path, "stored by columns; save numpy.ascontiguousarray(array) instead")
    if shape[1] == 0:
        raise FormatError(path, "rows of dimension 0")
    return (int(shape[0]), int(shape[1])), dtype


def open_npy(path: str) -> RawSource:
    """Opens an npy matrix. Raises FormatError for another shape, type or size."""
    with open(path, "rb") as file:
        (n_rows, dim), dtype = _matrix_header(file, path)
        offset, size = file.tell(), os.fstat(file.fileno()).st_size
    expected = offset + n_rows * dim * dtype.itemsize
    if size != expected:
        row = min(n_rows, (size - offset) // (dim * dtype.itemsize))
        why = f"the header says {n_rows} rows of {dim} ({expected} bytes), the file has {size}"
        raise FormatError(path, why, row=row, byte=min(size, expected))
    return RawSource(path, "npy", n_rows, dim, dtype, offset)


class NpzSource(VectorSource):
    """One matrix of an npz archive, decompressed as it is read; going back starts it anew."""

    def __init__(self, path: str, key: str | None, role: str) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise FormatError(path, f"not an npz archive: {error}") from error
        try:
            names = [name.removesuffix(".npy") for name in self._zip.namelist()]
            key = choose(path, "array", names, key, role)
            self._member = self._zip.open(f"{key}.npy")
            (n_rows, dim), dtype = _matrix_header(self._member, f"{path}::{key}")
            self._offset, self._stored = self._member.tell(), dtype
            size = self._zip.getinfo(f"{key}.npy").file_size
            if size != self._offset + n_rows * dim * dtype.itemsize:
                why = f"array {key!r} has {size} bytes, not those of {n_rows} rows of {dim}"
                raise FormatError(path, why)
        except _ZIP_DAMAGE as error:
            self._zip.close()
            raise FormatError(path, f"damaged archive: {error}") from error
        except BaseException:
            self._zip.close()
            raise
        super().__init__(path, "npz", n_rows, dim, dtype.newbyteorder("="))

    def read(self, start: int, stop: int) -> Array:
        """Rows start..stop-1. Raises FormatError where the archive is damaged."""
        stride = self.dim * self._stored.itemsize
        try:
            self._member.seek(self._offset + start * stride)
            data = self._member.read((stop - start) * stride)
        except _ZIP_DAMAGE as error:
            raise FormatError(self.path, f"damaged archive: {error}", row=start) from error
        if len(data) != (stop - start) * stride:
            raise FormatError(self.path, "the array ends here", row=start + len(data) // stride)
        values = np.frombuffer(data, self._stored).reshape(stop - start, self.dim)
        return values.astype(self.dtype)

    def close(self) -> None:
        """Closes the archive."""
        self._member.close()
        self._zip.close()


def open_hdf5_file(path: str) -> Any:
    """An open h5py.File. Raises FormatError when h5py is missing or the file is not HDF5."""
    try:
        import h5py
    except ImportError as error:
        raise missing_extra(path, "h5py", "hdf5") from error
    if not os.path.isfile(path):
        raise FileNotFoundError(2, "no such file", path)
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise FormatError(path, f"not an HDF5 file, or a damaged one: {error}") from error


class Hdf5Source(VectorSource):
    """One dataset of an HDF5 file; `train` is the base and `test` the queries."""

    def __init__(self, path: str, key: str | None, role: str) -> None:
        self._file = open_hdf5_file(path)
        try:
            shapes = {
                name: item.shape
                for name, item in self._file.items()
                if hasattr(item, "shape") and item.ndim == 2
            }
            key = choose(path, "dataset", list(shapes), key, role)
            pair = [shapes[name][1] for name in ("train", "test") if name in shapes]
            if key in ("train", "test") and len(set(pair)) > 1:
                raise FormatError(path, f"train has dimension {pair[0]}, test {pair[1]}")
            self._data = self._file[key]
            if self._data.dtype.kind not in _KINDS or self._data.shape[1] == 0:
                raise FormatError(path, f"{key!r} holds {self._data.dtype}{self._data.shape}")
        except BaseException:
            self._file.close()
            raise
        n_rows, dim = self._data.shape
        super().__init__(path, "hdf5", n_rows, dim, self._data.dtype.newbyteorder("="))

    def read(self, start: int, stop: int) -> Array:
        """Rows start..stop-1. Raises FormatError where the file is damaged."""
        try:
            values: Array = self._data[start:stop]
        except OSError as error:
            raise FormatError(self.path, f"damaged: {error}", row=start) from error
        return np.ascontiguousarray(values, self.dtype)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def open_parquet_file(path: str) -> Any:
    """An open ParquetFile. Raises FormatError when pyarrow is missing or it is not Parquet."""
    try:
        import pyarrow.lib
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra(path, "pyarrow", "parquet") from error
    if not os.path.isfile(path):
        raise FileNotFoundError(2, "no such file", path)
    try:
        return pyarrow.parquet.ParquetFile(path)
    except pyarrow.lib.ArrowException as error:
        raise FormatError(path, f"not a Parquet file, or a damaged one: {error}") from error


class ParquetSource(VectorSource):
    """A column of lists of one length; read in batches from the row group that holds the row."""

    def __init__(self, path: str, key: str | None, role: str) -> None:
        self._file = open_parquet_file(path)
        try:
            schema = self._file.schema_arrow
            lists = [field.name for field in schema if hasattr(field.type, "value_type")]
            self._column = choose(path, "column of lists", lists, key, role)
            kind = schema.field(self._column).type
            groups = self._file.metadata
            rows = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
            self._starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)]).astype(np.int64)
            self._at = 0
            self._batches: Iterator[Any] = iter(())
            self._held: Array | None = None
            dtype = np.dtype(kind.value_type.to_pandas_dtype())
            if dtype.kind not in _KINDS:
                raise FormatError(path, f"column {self._column!r} holds lists of {kind.value_type}")
            dim = getattr(kind, "list_size", 0) or self._first_length()
        except BaseException:
            self._file.close()
            raise
        super().__init__(path, "parquet", int(self._starts[-1]), dim, dtype)

    def _first_length(self) -> int:
        for batch in self._file.iter_batches(batch_size=1, columns=[self._column]):
            first = batch.column(0)[0].as_py()
            return len(first) if first else 1  # an empty first list is refused when it is read
        return 1

    def read(self, start: int, stop: int) -> Array:
        """Rows start..stop-1. Raises FormatError for a missing list or one of another length."""
        if start >= stop:
            return np.empty((0, self.dim), self.dtype)
        self._seek(start)
        out = np.empty((stop - start, self.dim), self.dtype)
        done = start
        while done < stop:
            held = self._held
            if held is None or self._at + len(held) <= done:
                self._at += 0 if held is None else len(held)
                held = self._held = self._decoded(next(self._batches, None), self._at)
            first = done - self._at
            part = held[first : first + stop - done]
            out[done - start : done - start + len(part)] = part
            done += len(part)
        return out

    def _seek(self, start: int) -> None:
        if self._held is not None and start >= self._at:
            ahead = start - (self._at + len(self._held))
            if ahead < 4 * _PARQUET_ROWS:  # nearer than a row group's start is likely to be
                return
        group = int(np.searchsorted(self._starts, start, side="right")) - 1
        groups = list(range(group, len(self._starts) - 1))
        self._batches = self._file.iter_batches(_PARQUET_ROWS, groups, [self._column])
        self._at, self._held = int(self._starts[group]), None

    def _decoded(self, batch: Any, row: int) -> Array:
        if batch is None:
            raise FormatError(self.path, "the file ends here", row=row)
        column = batch.column(0)
        if column.null_count or column.flatten().null_count:
            where = np.flatnonzero([v is None or None in v for v in column.to_pylist()])
            raise FormatError(self.path, "a missing value (null)", row=row + int(where[0]))
        lengths = np.array([len(v) for v in column]) if not _is_fixed(column.type) else None
        if lengths is not None and (lengths != self.dim).any():
            wrong = int(np.flatnonzero(lengths != self.dim)[0])
            why = f"has {lengths[wrong]} components, the first row {self.dim}"
            raise FormatError(self.path, why, row=row + wrong)
        values: Array = column.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(len(column), self.dim)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _is_fixed(kind: Any) -> bool:
    return getattr(kind, "list_size", 0) > 0


def choose(path: str, what: str, names: list[str], key: str | None, role: str) -> str:
    """The member to read: the one named, the one of this role, or the only one."""
    if key is not None:
        if key in names:
            return key
        raise FormatError(path, f"no {what} {key!r}; it has {', '.join(names) or 'none'}")
    usual = {"base": "train", "queries": "test"}[role]
    if usual in names:
        return usual
    if len(names) == 1:
        return names[0]
    has = ", ".join(names) or "none"
    raise FormatError(path, f"no {what} {usual!r}; it has {has}; name one as FILE::NAME")


def write_npy(path: str, blocks: Iterable[Array], n_rows: int, dim: int, dtype: Any) -> None:
    """Writes blocks of rows as one npy matrix."""
    with replacing(path) as temp, open(temp, "xb") as file:
        _write_matrix(file, blocks, n_rows, dim, np.dtype(dtype))


def write_npz(
    path: str, key: str, blocks: Iterable[Array], n_rows: int, dim: int, dtype: Any
) -> None:
    """Writes blocks of rows as the one array `key` of an npz archive."""
    with (
        replacing(path) as temp,
        zipfile.ZipFile(temp, "x") as archive,
        archive.open(f"{key}.npy", "w", force_zip64=True) as file,
    ):
        _write_matrix(file, blocks, n_rows, dim, np.dtype(dtype))


def _write_matrix(
    file: IO[bytes], blocks: Iterable[Array], n_rows: int, dim: int, dtype: np.dtype[Any]
) -> None:
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": (n_rows, dim)}
    np.lib.format.write_array_header_1_0(file, header)
    for block in _counted(blocks, n_rows, dim):
        file.write(as_stored(block, dtype).tobytes())


def write_hdf5(
    path: str, key: str, blocks: Iterable[Array], n_rows: int, dim: int, dtype: Any
) -> None:
    """Writes blocks of rows as the dataset `key` of a new HDF5 file."""
    try:
        import h5py
    except ImportError as error:
        raise missing_extra(path, "h5py", "hdf5") from error
    with replacing(path) as temp, h5py.File(temp, "w") as file:
        data = file.create_dataset(key, (n_rows, dim), dtype)
        start = 0
        for block in _counted(blocks, n_rows, dim):
            data[start : start + len(block)] = as_stored(block, np.dtype(dtype))
            start += len(block)


def write_parquet(
    path: str, key: str, blocks: Iterable[Array], n_rows: int, dim: int, dtype: Any
) -> None:
    """Writes blocks of rows as a column `key` of fixed-size lists, a row group a block."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra(path, "pyarrow", "parquet") from error
    kind = pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), dim)
    schema = pa.schema([pa.field(key, kind)])
    with replacing(path) as temp, pq.ParquetWriter(temp, schema) as writer:
        for block in _counted(blocks, n_rows, dim):
            flat = pa.array(as_stored(block, np.dtype(dtype)).reshape(-1))
            lists = pa.FixedSizeListArray.from_arrays(flat, dim)
            writer.write_table(pa.table([lists], schema=schema))


def _counted(blocks: Iterable[Array], n_rows: int, dim: int) -> Iterator[Array]:
    written = 0
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != dim:
            raise ValueError(f"block of shape {list(block.shape)} among rows of {dim}")
        yield block
        written += len(block)
    if written != n_rows:
        raise ValueError(f"{written} rows were given, {n_rows} announced")
