"""The raw formats of the ANN field; all numbers are little-endian.

    fvecs ivecs bvecs       each row: int32 dimension, then the components (float32, int32, uint8)
    fbin f16bin u8bin i8bin ibin   uint32 rows, uint32 dimension, then the rows without a gap

(The first are those of the TEXMEX corpora, the second those of big-ann-benchmarks.) A size that
does not fit its header is refused: every such file that was seen was cut off, mislabelled or mixed
up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import FileIO
from typing import Any

import numpy as np

from ._atomic import replacing
from .formats_source import Array, FormatError, VectorSource

VECS = {"fvecs": "<f4", "ivecs": "<i4", "bvecs": "|u1"}
BINS = {"fbin": "<f4", "f16bin": "<f2", "u8bin": "|u1", "i8bin": "|i1", "ibin": "<i4"}
_HEADER = 8


class RawSource(VectorSource):
    """Rows at a fixed distance in a file: `offset` bytes, then rows of prefix and values."""

    def __init__(
        self,
        path: str,
        kind: str,
        n_rows: int,
        dim: int,
        dtype: str | np.dtype[np.generic],
        offset: int,
        prefix: int = 0,
    ) -> None:
        super().__init__(path, kind, n_rows, dim, np.dtype(dtype).newbyteorder("="))
        self._stored = np.dtype(dtype)
        self._offset, self._prefix = offset, prefix
        self.read_copies = 1 if prefix == 0 and self._stored == self.dtype else 2
        self._stride = prefix + dim * self._stored.itemsize
        self._file: FileIO = open(path, "rb", buffering=0)  # noqa: SIM115  closed by close()

    def read(self, start: int, stop: int) -> Array:
        """Rows start..stop-1; of fvecs and the like, every dimension field is compared."""
        raw = np.empty((stop - start, self._stride), np.uint8)
        if raw.size:
            self._fill(memoryview(raw.data).cast("B"), start)
        if self._prefix:
            fields = raw[:, : self._prefix].copy().view("<i4")[:, 0]
            wrong = np.flatnonzero(fields != self.dim)
            if wrong.size:
                row = int(wrong[0])
                raise FormatError(
                    self.path,
                    f"says dimension {fields[row]}, the first row {self.dim}; all must agree",
                    row=start + row,
                    byte=self._offset + (start + row) * self._stride,
                )
            raw = np.ascontiguousarray(raw[:, self._prefix :])
        values = raw.view(self._stored).reshape(stop - start, self.dim)
        return values.astype(self.dtype, copy=False)

    def _fill(self, target: memoryview, start: int) -> None:
        self._file.seek(self._offset + start * self._stride)
        done = 0
        while done < len(target):
            got = self._file.readinto(target[done:])
            if not got:
                byte = self._offset + start * self._stride + done
                row = start + done // self._stride
                raise FormatError(self.path, "the file ends here", row=row, byte=byte)
            done += got

    def byte_of(self, row: int, column: int = 0) -> int:
        """The offset of a component."""
        inner = self._prefix + column * self._stored.itemsize
        return self._offset + row * self._stride + inner

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def open_vecs(path: str, kind: str) -> RawSource:
    """Opens fvecs, ivecs or bvecs. Raises FormatError for a dimension or size that cannot be."""
    size, head = _size_and_head(path, 4)
    item = np.dtype(VECS[kind]).itemsize
    if size < 4:
        raise FormatError(path, f"{size} bytes: not even a dimension of 4 bytes", byte=0)
    dim = int.from_bytes(head, "little", signed=True)
    if dim <= 0:
        raise FormatError(path, f"dimension {dim}; it must be positive", row=0, byte=0)
    stride = 4 + dim * item
    if size % stride:
        whole = size // stride
        why = (
            f"dimension {dim} makes rows of {stride} bytes, but the file has {size}: "
            f"{whole} rows and {size - whole * stride} bytes of another"
        )
        raise FormatError(path, why + _looks_like_bin(path, size), row=whole, byte=whole * stride)
    source = RawSource(path, kind, size // stride, dim, VECS[kind], 0, prefix=4)
    try:
        for row in {1, size // stride // 2, size // stride - 1} & set(range(size // stride)):
            source.read(row, row + 1)  # the rest is compared when it is read
    except FormatError:
        source.close()
        raise
    return source


def open_bin(path: str, kind: str) -> RawSource:
    """Opens fbin and the like. Raises FormatError when header and size do not fit."""
    size, head = _size_and_head(path, _HEADER)
    if size < _HEADER:
        raise FormatError(path, f"no header: {size} bytes, the header alone has 8", byte=size)
    n_rows, dim = (int(value) for value in np.frombuffer(head, "<u4"))
    if dim == 0:
        raise FormatError(path, "dimension 0; it must be positive", byte=4)
    stride = dim * np.dtype(BINS[kind]).itemsize
    expected = _HEADER + n_rows * stride
    if size == expected:
        return RawSource(path, kind, n_rows, dim, BINS[kind], _HEADER)
    present, rest = divmod(size - _HEADER, stride)
    why = f"the header says {n_rows} rows of dimension {dim} ({expected} bytes), the file "
    why += f"has {size}: "
    why += (
        f"{size - expected} bytes too many"
        if size > expected
        else f"it ends in row {present}"
        if rest
        else f"{present} rows"
    )
    hint = _looks_like_vecs(path, size, head) or _looks_swapped(size, head, stride // dim)
    row = n_rows if size > expected else present
    raise FormatError(path, why + hint, row=row, byte=min(size, expected))


def _looks_like_bin(path: str, size: int) -> str:
    with open(path, "rb") as file:
        head = file.read(_HEADER)
    if len(head) < _HEADER:
        return ""
    n_rows, dim = (int(value) for value in np.frombuffer(head, "<u4"))
    for kind, dtype in BINS.items():
        stride = dim * np.dtype(dtype).itemsize
        if stride and n_rows and (size - _HEADER) % stride == 0:
            return f"; it looks like {kind}: a header of {n_rows} rows of dimension {dim}"
    return ""


def _looks_like_vecs(path: str, size: int, head: bytes) -> str:
    dim = int.from_bytes(head[:4], "little", signed=True)
    for kind, dtype in VECS.items():
        stride = 4 + dim * np.dtype(dtype).itemsize
        if dim > 0 and size > stride and size % stride == 0:
            with open(path, "rb") as file:
                file.seek(stride)
                if file.read(4) == head[:4]:
                    return f"; it fits {kind}: {size // stride} rows of dimension {dim}"
    return ""


def _looks_swapped(size: int, head: bytes, item: int) -> str:
    n_rows, dim = (int(value) for value in np.frombuffer(head, ">u4"))
    fits = size == _HEADER + n_rows * dim * item
    return f"; it fits big-endian: {n_rows} rows of dimension {dim}" if fits else ""


def _size_and_head(path: str, n: int) -> tuple[int, bytes]:
    with open(path, "rb") as file:
        return os.fstat(file.fileno()).st_size, file.read(n)


def write_raw(path: str, kind: str, blocks: Iterable[Array], n_rows: int, dim: int) -> None:
    """Writes blocks of rows as one file; raises ValueError for values that the type cannot hold."""
    dtype = np.dtype({**VECS, **BINS}[kind])
    if not (0 < dim < 2**31 and n_rows < 2**32):
        raise ValueError(f"{kind} holds 1 to 2**31-1 dimensions and below 2**32 rows")
    written = 0
    with replacing(path) as temp, open(temp, "xb") as file:
        if kind in BINS:
            file.write(np.array([n_rows, dim], "<u4").tobytes())
        for block in blocks:
            if block.ndim != 2 or block.shape[1] != dim:
                raise ValueError(f"block of shape {list(block.shape)} among rows of {dim}")
            values = as_stored(block, dtype, written)
            if kind in VECS:
                rows = np.empty((len(block), 4 + dim * dtype.itemsize), np.uint8)
                rows[:, :4] = np.frombuffer(np.array([dim], "<i4").tobytes(), np.uint8)
                rows[:, 4:] = values.view(np.uint8).reshape(len(block), -1)
                values = rows
            file.write(values.tobytes())
            written += len(block)
        if written != n_rows:
            raise ValueError(f"{written} rows were given, {n_rows} announced")


def as_stored(block: Array, dtype: np.dtype[Any], first_row: int = 0) -> Array:
    """The block in the type of the file. ValueError when an integer type changes a value.

    Floats are rounded, but a finite one that would become infinite is refused as well.
    """
    values = np.ascontiguousarray(block)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            stored = values.astype(dtype, copy=False)
        if stored is not values:
            _require_finite(values, stored, first_row)
        return stored
    bounds = np.iinfo(dtype)
    # A cast that wraps is noticed only by comparison; the comparison of NaN with itself as well.
    bad = ~((values >= bounds.min) & (values <= bounds.max))
    if values.dtype.kind == "f":
        bad |= np.trunc(values) != values
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"row {first_row + row}, component {column}: {values[row, column]} is no {dtype.name}; "
            "scale and round first, or choose another format"
        )
    return values.astype(dtype, copy=False)


def _require_finite(values: Array, stored: Array, first_row: int) -> None:
    """Raises ValueError where rounding to the type of the file made an infinity."""
    bad = np.isinf(stored)
    if values.dtype.kind == "f":
        bad &= ~np.isinf(values)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"row {first_row + row}, component {column}: {values[row, column]} is beyond "
            f"{stored.dtype.name}; scale first, or choose another format"
        )
