"""faiss' own file format, for flat indexes and maps of ids over them."""

from __future__ import annotations

import io
import os
import struct
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..._atomic import replacing
from . import shared
from .flat import IndexFlat, IndexFlatIP, IndexFlatL2
from .idmap import IndexIDMap, IndexIDMap2
from .shared import METRIC_INNER_PRODUCT, METRIC_L2

_HEADER = struct.Struct("<iqqq?i")  # d, ntotal, twice 2**20, is_trained, metric
_SPARE = 1 << 20
_FLAT = {b"IxFI", b"IxF2", b"IxFl"}
_MAPS = {b"IxMp": IndexIDMap, b"IxM2": IndexIDMap2}


class _Foreign(Exception):  # noqa: N818
    """An index of a kind that gnomon does not have."""


def write_index(index: Any, fname: str | os.PathLike[str]) -> None:
    """Writes an index that faiss reads, in one step. TypeError for what is not of this module.

    >>> write_index(IndexFlat(3), "empty.faissindex")
    >>> read_index("empty.faissindex").d
    3
    """
    with replacing(fname) as temp, temp.open("wb") as stream:
        _write(index, stream)


def read_index(fname: str | os.PathLike[str], io_flags: int = 0) -> Any:
    """Reads an index that faiss or :func:`write_index` wrote.

    One of another kind than a flat index, or a map of ids over one, is read by faiss, with a
    UserWarning. RuntimeError for a damaged file.
    """
    with open(fname, "rb") as stream:
        try:
            return _read(stream, os.fspath(fname))
        except _Foreign as foreign:
            return shared.original("read_index", str(foreign))(os.fspath(fname), io_flags)


def serialize_index(index: Any) -> npt.NDArray[np.uint8]:
    """The bytes of :func:`write_index`, as a uint8 array.

    >>> deserialize_index(serialize_index(IndexFlat(3))).d
    3
    """
    stream = io.BytesIO()
    _write(index, stream)
    return np.frombuffer(stream.getbuffer(), np.uint8)


def deserialize_index(data: Any, io_flags: int = 0) -> Any:
    """The index of such bytes; see :func:`read_index`."""
    given = np.ascontiguousarray(data, np.uint8)
    try:
        return _read(io.BytesIO(given.tobytes()), "the data")
    except _Foreign as foreign:
        return shared.original("deserialize_index", str(foreign))(given)


def _write(index: Any, stream: IO[bytes]) -> None:
    if isinstance(index, IndexIDMap):
        stream.write(b"IxM2" if isinstance(index, IndexIDMap2) else b"IxMp")
        stream.write(_header(index))
        _write(index.index, stream)
        stream.write(struct.pack("<Q", len(index.id_map)))
        stream.write(index.id_map.astype("<i8").data)
        return
    if not isinstance(index, IndexFlat):
        raise TypeError(f"only indexes of this module can be written, got {type(index).__name__}")
    stream.write(b"IxFI" if index.metric_type == METRIC_INNER_PRODUCT else b"IxF2")
    stream.write(_header(index))
    stream.write(struct.pack("<Q", index.ntotal * index.d))
    for _, block in index._blocks():
        stream.write(np.ascontiguousarray(block, "<f4").data)


def _header(index: Any) -> bytes:
    return _HEADER.pack(index.d, index.ntotal, _SPARE, _SPARE, True, index.metric_type)


def _read(stream: IO[bytes], where: str) -> Any:
    kind = _taken(stream, 4, where)
    if kind not in _FLAT and kind not in _MAPS:
        raise _Foreign(f"{where} holds an index of kind {kind.decode('latin-1')!r}")
    d, n, _, _, _, metric = _HEADER.unpack(_taken(stream, _HEADER.size, where))
    if d <= 0 or n < 0:
        raise RuntimeError(f"{where}: damaged header: {n} rows of {d} dimensions")
    if metric not in (METRIC_INNER_PRODUCT, METRIC_L2):
        raise _Foreign(f"{where} has the metric {metric}")
    if kind in _FLAT:
        flat = IndexFlatIP(d) if metric == METRIC_INNER_PRODUCT else IndexFlatL2(d)
        rows = _vector(stream, n * d, "<f4", where).reshape(n, d)
        flat._take([shared.finite(rows, where)])
        return flat
    inner = _read(stream, where)
    if not isinstance(inner, IndexFlat) or inner.ntotal != n or inner.d != d:
        raise RuntimeError(f"{where}: damaged: the map of ids does not fit the index in it")
    ids = _vector(stream, n, "<i8", where)
    index = _MAPS[kind](type(inner)(d))
    index.index, index._ids = inner, [ids]
    return index


def _taken(stream: IO[bytes], size: int, where: str) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise RuntimeError(f"{where}: the file ends early; {size - len(data)} bytes are missing")
    return data


def _vector(stream: IO[bytes], wanted: int, dtype: str, where: str) -> Any:
    """A vector with its length in front, which must be the one wanted."""
    (length,) = struct.unpack("<Q", _taken(stream, 8, where))
    if length != wanted:
        raise RuntimeError(f"{where}: damaged: {length} numbers where {wanted} are expected")
    here = stream.tell()
    left = stream.seek(0, io.SEEK_END) - here
    size = wanted * np.dtype(dtype).itemsize
    if left < size:  # before the memory is asked for
        raise RuntimeError(f"{where}: the file ends early; {size - left} bytes are missing")
    stream.seek(here)
    values = np.empty(wanted, dtype)
    if wanted:
        stream.readinto(values.view(np.uint8))  # type: ignore[attr-defined]
    return values.astype(values.dtype.newbyteorder("="), copy=False)
