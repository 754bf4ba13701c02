"""Files of neighbour lists: ground truth, and what a search gave.

    ivecs ibin          ids (int32) alone, as in formats_raw
    bin                 big-ann-benchmarks, DiskANN: uint32 n, uint32 k, ids uint32 [n, k], then
                        float32 distances [n, k] (or none: ids only). Range truth: int32 n, int32
                        total, int32 counts [n], int32 ids [total], float32 distances [total]
    hdf5                ann-benchmarks: neighbors, distances
    npz npy parquet     ids, distances or scores; one matrix of ids; VectorDBBench's neighbors_id

Distances are kept as the file has them: 1 - cosine, Euclidean, negative inner product (this is what
gnomon writes), or another tool's. Where they fall along every row they are scores.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ._atomic import replacing
from .formats import format_of, split_key
from .formats_arrays import open_hdf5_file, open_npy, write_npy
from .formats_parquet import open_parquet_file
from .formats_raw import open_bin, open_vecs, write_raw
from .formats_source import FormatError, missing_extra, require_file
from .formats_truth import Int64Array, Neighbors, RangeNeighbors, check_truth

FORMATS = ("bin", "ivecs", "ibin", "hdf5", "npy", "npz", "parquet")
_ID_NAMES = ("ids", "neighbors", "indices", "neighbors_id")
_DISTANCE_NAMES = ("distances", "dists")
_NONE = 2**32 - 1


def read_neighbors(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    role: str = "truth",
    n_base: int | None = None,
) -> Neighbors:
    """Reads a file of neighbour lists; as truth it is checked as well.

    Parameters
    ----------
    path
        The file; ``FILE::NAME`` chooses the array of ids in an npz archive.
    role
        ``"truth"`` refuses repeated ids, -1 before an id, ids beyond `n_base` rows, NaN, and
        distances that run neither up nor down. ``"result"`` takes them as they are: recall counts
        and reports them.

    Raises
    ------
    FormatError
        Naming file, row and byte.

    Examples
    --------
    >>> from gnomon.formats_neighbors import read_neighbors, write_neighbors
    >>> write_neighbors("truth.bin", [[4, 2]], distances=[[0.5, 1.0]])
    >>> read_neighbors("truth.bin").ids.tolist()
    [[4, 2]]
    """
    file, key = split_key(path)
    kind = format or format_of(file, FORMATS)
    require_file(file)
    if kind == "bin":
        read = _read_bin(file)
        if isinstance(read, RangeNeighbors):
            raise FormatError(file, "range ground truth; read it with read_range_neighbors")
    elif kind in ("ivecs", "ibin"):
        with (open_vecs if kind == "ivecs" else open_bin)(file, kind) as source:
            read = Neighbors(file, kind, source.read(0, source.n_rows).astype(np.int64))
    elif kind == "npy":
        with open_npy(file) as source:
            if source.dtype.kind not in "iu":
                raise FormatError(file, f"holds {source.dtype}; ids are whole numbers")
            read = Neighbors(file, kind, source.read(0, source.n_rows).astype(np.int64))
    elif kind in ("npz", "hdf5", "parquet"):
        reader = {"npz": _read_npz, "hdf5": _read_hdf5, "parquet": _read_parquet}[kind]
        read = reader(file, key)
    else:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {kind!r}")
    if role == "truth":
        check_truth(read, n_base)
    elif kind == "bin":
        read.ids[read.ids == _NONE] = -1
    return read


def read_range_neighbors(path: str | os.PathLike[str]) -> RangeNeighbors:
    """Reads range ground truth of big-ann-benchmarks. Raises FormatError for another file."""
    read = _read_bin(os.fspath(path))
    if isinstance(read, Neighbors):
        raise FormatError(read.path, "k nearest neighbours, not range ground truth")
    return read


def _read_bin(path: str) -> Neighbors | RangeNeighbors:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = np.frombuffer(file.read(8), "<u4")
        if len(head) < 2:
            raise FormatError(path, f"no header: {size} bytes, the header alone has 8", byte=size)
        n, k = int(head[0]), int(head[1])
        fits = {
            "knn": size == 8 + 8 * n * k,
            "ids": size == 8 + 4 * n * k,
            "range": size == 8 + 4 * n + 8 * k,
        }
        if not any(fits.values()) or n == 0 or (k == 0 and not fits["range"]):
            why = (
                f"the header says {n} and {k}: {8 + 8 * n * k} bytes with distances, "
                f"{8 + 4 * n * k} without, {8 + 4 * n + 8 * k} as range truth; the file has {size}"
            )
            raise FormatError(path, why, byte=min(size, 8 + 8 * n * k))
        if fits["range"]:
            counts = np.frombuffer(file.read(4 * n), "<i4").astype(np.int64)
            if (counts >= 0).all() and int(counts.sum()) == k:
                ids = np.frombuffer(file.read(4 * k), "<i4").astype(np.int64)
                distances = np.frombuffer(file.read(4 * k), "<f4").astype(np.float32)
                offsets = np.concatenate([[0], np.cumsum(counts)])
                return RangeNeighbors(path, offsets, ids, distances)
            if not (fits["knn"] or fits["ids"]):
                why = f"range truth whose counts give {counts.sum()} results, the header {k}"
                raise FormatError(path, why, byte=8)
            file.seek(8)
        ids = np.frombuffer(file.read(4 * n * k), "<u4").reshape(n, k).astype(np.int64)
        if not fits["knn"]:
            return Neighbors(path, "bin", ids)
        near = np.frombuffer(file.read(4 * n * k), "<f4").reshape(n, k).astype(np.float32)
    return Neighbors(path, "bin", ids, near)


def _read_npz(path: str, key: str | None) -> Neighbors:
    from .groundtruth_file import FORMAT, GroundTruth, read_parts

    parts, meta = read_parts(path)
    if meta.get("format") == FORMAT:
        GroundTruth.load(path)  # what it says of ties is believed later on
    name = key or next((name for name in _ID_NAMES if name in parts), None)
    if name is None or name not in parts:
        has = ", ".join(parts) or "none"
        raise FormatError(path, f"no array {key or 'ids'!r}; it has {has}; name one as FILE::NAME")
    near = next((parts[n] for n in _DISTANCE_NAMES if n in parts), None)
    tie_names = ("n_tied", "tied_offsets", "tied_ids")
    ties: dict[str, Any] = {n: parts[n] for n in tie_names if n in parts}
    ids = _ids(path, parts[name])
    scores = _fitting(path, parts.get("scores"), ids)
    return Neighbors(path, "npz", ids, _fitting(path, near, ids), scores, ties, meta)


def _read_hdf5(path: str, key: str | None) -> Neighbors:
    with open_hdf5_file(path) as file:
        name = key or "neighbors"
        if name not in file:
            raise FormatError(path, f"no dataset {name!r}; it has {', '.join(file) or 'none'}")
        ids = _ids(path, file[name][:])
        near = _fitting(path, file["distances"][:] if "distances" in file else None, ids)
        meta: dict[str, Any] = {}
        if "distance" in file.attrs:
            meta["distance"] = str(file.attrs["distance"])
        if "train" in file:
            meta["rows"] = int(file["train"].shape[0])
        return Neighbors(path, "hdf5", ids, near, meta=meta)


def _read_parquet(path: str, key: str | None) -> Neighbors:
    with open_parquet_file(path) as file:
        names = file.schema_arrow.names
        name = key or next((name for name in _ID_NAMES if name in names), None)
        if name is None or name not in names:
            raise FormatError(path, f"no column {key or 'neighbors_id'!r}; it has {names}")
        table = file.read()
    order = np.argsort(table.column("id").to_numpy(), kind="stable") if "id" in names else None
    columns = []
    for column in (name, *(n for n in _DISTANCE_NAMES if n in names)):
        rows = table.column(column).to_pylist()
        width = max(map(len, rows), default=0)
        fill = -1 if column == name else np.inf
        values = np.array([list(row) + [fill] * (width - len(row)) for row in rows])
        columns.append(values if order is None else values[order])
    ids = _ids(path, columns[0])
    near = _fitting(path, columns[1] if len(columns) > 1 else None, ids)
    return Neighbors(path, "parquet", ids, near)


def _ids(path: str, values: npt.NDArray[Any]) -> Int64Array:
    if values.ndim != 2 or values.dtype.kind not in "iu":
        why = f"ids must be a matrix of whole numbers, got {list(values.shape)} of {values.dtype}"
        raise FormatError(path, why)
    return values.astype(np.int64)


def _fitting(path: str, values: npt.NDArray[Any] | None, ids: Int64Array) -> Any:
    if values is not None and (values.shape != ids.shape or values.dtype.kind != "f"):
        shape = list(values.shape)
        why = f"distances {shape} of {values.dtype} do not belong to ids {list(ids.shape)}"
        raise FormatError(path, why)
    return values


def write_neighbors(
    path: str | os.PathLike[str],
    ids: Any,
    *,
    distances: Any = None,
    format: str | None = None,
) -> None:
    """Writes neighbour lists [n, k] in one step; ivecs, ibin and npy hold the ids alone.

    Raises ValueError for ids that the format cannot hold (int32; uint32 for bin), and for an id
    whose distance is NaN.

    >>> write_neighbors("found.ivecs", [[3, 1], [0, 2]])
    >>> read_neighbors("found.ivecs").ids.tolist()
    [[3, 1], [0, 2]]
    """
    file = os.fspath(path)
    kind = format or format_of(file, FORMATS)
    table = _ids("ids", np.asarray(ids))
    near = None if distances is None else np.asarray(distances, np.float64)
    if near is not None and near.shape != table.shape:
        raise ValueError(f"distances {list(near.shape)} do not belong to ids {list(table.shape)}")
    if near is not None and (np.isnan(near) & (table >= 0)).any():
        row, place = (int(i) for i in np.argwhere(np.isnan(near) & (table >= 0))[0])
        raise ValueError(f"row {row}: the distance of id {table[row, place]} is not a number")
    n, k = table.shape
    if kind in ("ivecs", "ibin"):
        write_raw(file, kind, [table], n, k)
    elif kind == "npy":
        write_npy(file, [table], n, k, np.int64)
    elif kind == "bin":
        _write_bin(file, table, near)
    elif kind == "npz":
        with replacing(file) as temp, open(temp, "xb") as out:
            named: dict[str, Any] = {} if near is None else {"distances": near}
            np.savez(out, ids=table, **named)
    elif kind == "hdf5":
        _write_hdf5(file, table, near)
    elif kind == "parquet":
        _write_parquet(file, table, near)
    else:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {kind!r}")


def write_range_neighbors(path: str | os.PathLike[str], truth: RangeNeighbors) -> None:
    """Writes range ground truth as big-ann-benchmarks reads it."""
    counts = np.diff(truth.offsets)
    if truth.ids.size and not (int(truth.ids.min()) >= 0 and int(truth.ids.max()) < 2**31):
        raise ValueError("range truth holds ids of 31 bits")
    with replacing(path) as temp, open(temp, "xb") as out:
        out.write(np.array([len(counts), len(truth.ids)], "<i4").tobytes())
        out.write(counts.astype("<i4").tobytes() + truth.ids.astype("<i4").tobytes())
        out.write(truth.distances.astype("<f4").tobytes())


def _write_bin(path: str, ids: Int64Array, near: Any) -> None:
    if ids.size and not (int(ids.min()) >= -1 and int(ids.max()) < 2**32):
        raise ValueError(f"bin holds ids below 2**32, got {ids.min()} to {ids.max()}")
    with replacing(path) as temp, open(temp, "xb") as out:
        out.write(np.array(ids.shape, "<u4").tobytes())
        out.write((ids & _NONE).astype("<u4").tobytes())
        if near is not None:
            out.write(near.astype("<f4").tobytes())


def _write_hdf5(path: str, ids: Int64Array, near: Any) -> None:
    try:
        import h5py
    except ImportError as error:
        raise missing_extra(path, "h5py", "hdf5") from error
    with replacing(path) as temp, h5py.File(temp, "w") as out:
        out["neighbors"] = ids
        if near is not None:
            out["distances"] = near


def _write_parquet(path: str, ids: Int64Array, near: Any) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing_extra(path, "pyarrow", "parquet") from error
    columns: dict[str, Any] = {"id": np.arange(len(ids)), "neighbors_id": ids.tolist()}
    if near is not None:
        columns["distances"] = near.tolist()
    with replacing(path) as temp:
        pq.write_table(pa.table(columns), temp)
