"""Files of vectors, by their suffix: fvecs ivecs bvecs fbin f16bin u8bin i8bin ibin npy npz
hdf5 parquet. Neighbour lists are in :mod:`gnomon.formats_neighbors`.

Readers stream blocks of rows; writers replace a file in one step.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import formats_arrays as arrays
from . import formats_parquet as parquet
from . import formats_raw as raw
from .formats_source import (
    Array,
    ArraySource,
    Facts,
    FormatError,
    VectorSource,
    check_vectors,
    require_file,
)

__all__ = [
    "ArraySource",
    "Facts",
    "FormatError",
    "VectorSource",
    "check_vectors",
    "format_of",
    "open_vectors",
    "write_vectors",
]

SUFFIXES = {"h5": "hdf5", "hdf": "hdf5", "pq": "parquet"}
FORMATS = (*raw.VECS, *raw.BINS, "npy", "npz", "hdf5", "parquet")


def split_key(path: str | os.PathLike[str]) -> tuple[str, str | None]:
    """`FILE::NAME` -> the file and the name of what is meant in it.

    >>> split_key("data.hdf5::train")
    ('data.hdf5', 'train')
    """
    text = os.fspath(path)
    if "::" not in text or os.path.exists(text):
        return text, None
    file, _, key = text.rpartition("::")
    return file, key


def format_of(path: str | os.PathLike[str], known: Iterable[str] = FORMATS) -> str:
    """The format that the suffix names. Raises FormatError listing the known ones.

    >>> format_of("base.fbin"), format_of("data.h5")
    ('fbin', 'hdf5')
    """
    text = os.fspath(path)
    suffix = os.path.splitext(text)[1].removeprefix(".").lower()
    kind = SUFFIXES.get(suffix, suffix)
    if kind not in known:
        named = f"suffix .{suffix}" if suffix else "no suffix"
        raise FormatError(text, f"{named}; known formats: {', '.join(known)}")
    return kind


def open_vectors(
    path: str | os.PathLike[str], *, format: str | None = None, role: str = "base"
) -> VectorSource:
    """Opens a file of vectors to be read by blocks of rows.

    Parameters
    ----------
    path
        The file; ``FILE::NAME`` chooses an array (npz), dataset (HDF5) or column (Parquet).
    format
        One of ``gnomon.formats.FORMATS``; by default what the suffix says.
    role
        ``"base"`` or ``"queries"``: which of ``train`` and ``test`` is meant where both are there.

    Returns
    -------
    VectorSource
        ``n_rows``, ``dim``, ``dtype``, ``read(start, stop)``, ``blocks(rows)``, ``take(rows)``; a
        context manager.

    Raises
    ------
    FormatError
        (a ValueError) A header, size or dimension that does not fit, naming file, row and byte.
    FileNotFoundError, OSError

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.formats import open_vectors, write_vectors
    >>> write_vectors("rows.fbin", np.eye(3, dtype=np.float32))
    >>> with open_vectors("rows.fbin") as source:
    ...     source.n_rows, source.dim, source.read(1, 2).tolist()
    (3, 3, [[0.0, 1.0, 0.0]])
    """
    if role not in ("base", "queries"):
        raise ValueError(f"role must be 'base' or 'queries', got {role!r}")
    file, key = split_key(path)
    kind = format or format_of(file)
    require_file(file)
    if kind in raw.VECS:
        return raw.open_vecs(file, kind)
    if kind in raw.BINS:
        return raw.open_bin(file, kind)
    if kind == "npy":
        return arrays.open_npy(file)
    makers = {
        "npz": arrays.NpzSource,
        "hdf5": arrays.Hdf5Source,
        "parquet": parquet.ParquetSource,
    }
    if kind not in makers:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {kind!r}")
    source: VectorSource = makers[kind](file, key, role)
    return source


def write_vectors(
    path: str | os.PathLike[str],
    vectors: Any,
    *,
    format: str | None = None,
    n_rows: int | None = None,
    dim: int | None = None,
    dtype: Any = None,
) -> None:
    """Writes a matrix, or blocks of rows, to one file that appears when it is complete.

    Parameters
    ----------
    path
        The file; the suffix names the format unless `format` does. ``FILE::NAME`` names the array,
        dataset or column (default: ``train``).
    vectors
        [N, D] real numbers, or an iterable of such blocks with `n_rows` and `dim` given.
    dtype
        For npy, npz, HDF5 and Parquet; default: that of the matrix, float32 for blocks. The other
        formats have their own type, and refuse a value that an integer type would change.

    Raises
    ------
    ValueError
        Blocks that do not fit, or a value that the format cannot hold, naming row and component.

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.formats import open_vectors, write_vectors
    >>> write_vectors("rows.u8bin", [[1, 2], [3, 255]])
    >>> with open_vectors("rows.u8bin") as source:
    ...     source.read(0, 2).tolist()
    [[1, 2], [3, 255]]
    """
    file, key = split_key(path)
    kind = format or format_of(file)
    blocks: Iterable[Array]
    if n_rows is None or dim is None:
        matrix = np.asarray(vectors)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise ValueError(
                f"vectors must be a matrix [N, D] of real numbers, got shape {list(matrix.shape)} "
                f"of {matrix.dtype}; blocks need n_rows and dim"
            )
        n_rows, dim = matrix.shape
        dtype = matrix.dtype if dtype is None else dtype
        blocks = [matrix]
    else:
        blocks = vectors
    dtype = np.float32 if dtype is None else dtype
    if kind in raw.VECS or kind in raw.BINS:
        raw.write_raw(file, kind, blocks, n_rows, dim)
    elif kind == "npy":
        arrays.write_npy(file, blocks, n_rows, dim, dtype)
    elif kind in ("npz", "hdf5", "parquet"):
        writers = {
            "npz": arrays.write_npz,
            "hdf5": arrays.write_hdf5,
            "parquet": parquet.write_parquet,
        }
        writers[kind](file, key or "train", blocks, n_rows, dim, dtype)
    else:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {kind!r}")
