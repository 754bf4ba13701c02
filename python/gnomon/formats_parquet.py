"""Matrices in Parquet: a column of lists of one length."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ._atomic import replacing
from .formats_arrays import NUMBERS, choose, counted
from .formats_raw import as_stored
from .formats_source import Array, FormatError, VectorSource, missing_extra

_PARQUET_ROWS = 4096


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
            if dtype.kind not in NUMBERS:
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
        for block in counted(blocks, n_rows, dim):
            flat = pa.array(as_stored(block, np.dtype(dtype)).reshape(-1))
            lists = pa.FixedSizeListArray.from_arrays(flat, dim)
            writer.write_table(pa.table([lists], schema=schema))
