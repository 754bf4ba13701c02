"""What every vector file looks like from outside: a matrix that is read by blocks of rows.

Opening reads headers and sizes; reading checks what lies between (dimension fields, truncation);
:func:`check_vectors` reads all of it once, so that bad data is named before hours are spent on it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .arrays import as_float32

Array = npt.NDArray[Any]
Report = Callable[[int, int], None]  # rows done, rows in all

_BLOCK_BYTES = 1 << 24


class FormatError(ValueError):
    """A file that is not what it should be: the message names file, row and byte where known.

    >>> raise FormatError("a.fbin", "3 bytes too many", byte=30728)
    Traceback (most recent call last):
    gnomon.formats_source.FormatError: a.fbin: byte 30728: 3 bytes too many
    """

    def __init__(
        self, path: str, why: str, *, row: int | None = None, byte: int | None = None
    ) -> None:
        place = [f"row {row}"] if row is not None else []
        place += [f"byte {byte}"] if byte is not None else []
        super().__init__(": ".join([path, *([", ".join(place)] if place else []), why]))
        self.path = path
        self.row = row
        self.byte = byte


class VectorSource:
    """A matrix on disk, [n_rows, dim] of `dtype`; use it in a ``with`` statement or close it."""

    read_copies = 2  # how often a block lies in memory while it is read

    def __init__(self, path: str, kind: str, n_rows: int, dim: int, dtype: npt.DTypeLike) -> None:
        self.path = path
        self.format = kind
        self.n_rows = n_rows
        self.dim = dim
        self.dtype = np.dtype(dtype)
        self._stat = stat_of(path)

    def read(self, start: int, stop: int) -> Array:
        """Rows start..stop-1 in a new C-contiguous array. Raises FormatError for damage there."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the file."""

    def byte_of(self, row: int, column: int = 0) -> int | None:
        """Where a component lies in the file; None where a format has no fixed place for it."""
        return None

    def take(self, rows: npt.NDArray[np.int64]) -> Array:
        """The rows at these positions, in this order; neighbours are read together."""
        wanted, place = np.unique(rows, return_inverse=True)
        out = np.empty((wanted.size, self.dim), self.dtype)
        if wanted.size:
            cuts = np.flatnonzero(np.diff(wanted) != 1) + 1
            for run in np.split(np.arange(wanted.size), cuts):
                first, last = int(wanted[run[0]]), int(wanted[run[-1]])
                out[run[0] : run[-1] + 1] = self.read(first, last + 1)
        return out[place.reshape(rows.shape)]

    def blocks(self, rows: int | None = None) -> Iterator[tuple[int, Array]]:
        """(first row, block) from top to bottom; by default about 16 MiB each as float32."""
        step = rows or max(1, _BLOCK_BYTES // max(1, self.dim * max(4, self.dtype.itemsize)))
        for start in range(0, self.n_rows, step):
            yield start, self.read(start, min(self.n_rows, start + step))

    def require_unchanged(self) -> None:
        """Raises FormatError when the file was written to, or replaced, since it was opened."""
        if stat_of(self.path) != self._stat:
            raise FormatError(self.path, "changed while it was read; leave it alone and start over")

    def __enter__(self) -> VectorSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class ArraySource(VectorSource):
    """A matrix in memory with the face of a file; its path is the name of an argument."""

    read_copies = 1

    def __init__(self, array: Array, name: str) -> None:
        if array.ndim != 2:
            raise ValueError(f"{name} must be a matrix [N, D], got shape {list(array.shape)}")
        self.path, self.format = name, "array"
        self.n_rows, self.dim = array.shape
        self.dtype = array.dtype
        self._array = array

    def read(self, start: int, stop: int) -> Array:
        """A copy of rows start..stop-1."""
        return np.array(self._array[start:stop], order="C")

    def require_unchanged(self) -> None:
        """Nothing to compare with."""


def widened(block: Array, name: str) -> npt.NDArray[np.float32]:
    """The block as float32; small integers go there directly: exact, and half the memory."""
    if block.dtype.kind in "iu" and block.dtype.itemsize <= 2:
        return block.astype(np.float32)
    return as_float32(block, name)


def bytes_to_widen(dtype: np.dtype[Any]) -> int:
    """Memory that :func:`widened` needs for a component, besides the component."""
    if dtype == np.float32:
        return 0
    return 4 if dtype.itemsize <= 2 or dtype.kind == "f" else 12  # 12: through float64


class Facts(NamedTuple):
    """What one pass over a matrix found: its digest, and the rows that are zero."""

    sha256: str
    n_zero: int
    first_zero: int | None


def check_vectors(
    source: VectorSource, *, zero_rows: str = "count", report: Report | None = None
) -> Facts:
    """Reads every row once. Raises FormatError naming the row and byte of the first fault.

    Faults are NaN and infinity, numbers beyond float32, and with ``zero_rows="error"`` a row of
    zeros. The digest covers dtype, shape and values, whatever the format.

    >>> rows = np.array([[1.0, 2.0], [0.0, 0.0]], np.float32)
    >>> check_vectors(ArraySource(rows, "rows")).first_zero
    1
    """
    digest = hashlib.sha256(f"{source.dtype.str} {source.n_rows} {source.dim} ".encode())
    n_zero, first_zero = 0, None
    for start, block in source.blocks():
        digest.update(memoryview(block.data).cast("B") if block.size else b"")
        values = widened(block, source.path)
        zero = np.flatnonzero(~values.any(axis=1))
        if zero.size and first_zero is None:
            first_zero = start + int(zero[0])
        fault = _not_finite(source, start, block, values) if block.dtype.kind == "f" else None
        is_first = first_zero is not None and (fault is None or first_zero < (fault.row or 0))
        if zero_rows == "error" and is_first:
            raise FormatError(
                source.path,
                "a row of zeros has no direction; remove it, or score it 0 (on_zero='zero')",
                row=first_zero,
                byte=source.byte_of(first_zero or 0),
            )
        if fault is not None:
            raise fault
        n_zero += int(zero.size)
        if report is not None:
            report(start + len(block), source.n_rows)
    source.require_unchanged()
    return Facts(digest.hexdigest(), n_zero, first_zero)


def _not_finite(
    source: VectorSource, start: int, block: Array, values: npt.NDArray[np.float32]
) -> FormatError | None:
    """The first component that has no finite float32."""
    finite = np.isfinite(values)
    if finite.all():
        return None
    row, column = (int(i) for i in np.argwhere(~finite)[0])
    why = f"component {column} is {block[row, column]}; all must be finite float32"
    at = source.byte_of(start + row, column)
    return FormatError(source.path, f"{why}; remove or repair the row", row=start + row, byte=at)


def stat_of(path: str) -> tuple[int, int, int, int]:
    """What changes when a file is written to or replaced."""
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def require_file(path: str) -> None:
    """Raises FormatError for a pipe or device: its size is unknown, opening it may wait forever."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise FileNotFoundError(2, "no such file", path) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "a directory, not a file", path)
    if not stat.S_ISREG(mode):
        raise FormatError(path, "not a regular file; write it to one first")


def missing_extra(path: str, package: str, extra: str) -> FormatError:
    """The error for a format whose library is not installed."""
    return FormatError(path, f"needs {package}; install gnomon[{extra}]")
