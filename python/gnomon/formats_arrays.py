"""Matrices in npy, npz and HDF5 (ann-benchmarks: train and test)."""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, Any

import numpy as np

from ._atomic import replacing
from .formats_raw import RawSource, as_stored
from .formats_source import Array, FormatError, VectorSource, missing_extra

NUMBERS = "fiu"
# What zipfile raises for a damaged, an encrypted and an exotically compressed member; OSError is
# that of bz2, and of a seek to a place that cannot be.
ZIP_DAMAGE: tuple[type[Exception], ...] = (
    zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError
)  # fmt: skip
with suppress(ImportError):  # a Python may be built without it
    from lzma import LZMAError

    ZIP_DAMAGE += (LZMAError,)
# The header is a Python literal: numpy lets through what its parser and its dtypes raise.
_NPY_DAMAGE = (ValueError, EOFError, SyntaxError, tokenize.TokenError, IndexError, TypeError)


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
    except _NPY_DAMAGE as error:
        raise FormatError(path, f"not an npy array: {error}", byte=0) from error
    if dtype.hasobject or dtype.kind not in NUMBERS:
        raise FormatError(path, f"holds {dtype}; a matrix of real numbers is needed")
    if len(shape) != 2 or min(shape) < 0:
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
        except ZIP_DAMAGE as error:
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
        except ZIP_DAMAGE as error:
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
            if self._data.dtype.kind not in NUMBERS or self._data.shape[1] == 0:
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
    for block in counted(blocks, n_rows, dim):
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
        for block in counted(blocks, n_rows, dim):
            data[start : start + len(block)] = as_stored(block, np.dtype(dtype))
            start += len(block)


def counted(blocks: Iterable[Array], n_rows: int, dim: int) -> Iterator[Array]:
    written = 0
    for block in blocks:
        if block.ndim != 2 or block.shape[1] != dim:
            raise ValueError(f"block of shape {list(block.shape)} among rows of {dim}")
        yield block
        written += len(block)
    if written != n_rows:
        raise ValueError(f"{written} rows were given, {n_rows} announced")
