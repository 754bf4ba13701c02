"""An index on the disk from vectors that need not fit in memory: one segment for each block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from . import _core
from ._dense_segments import Segment
from ._dense_storage import PART, entry_of, meta_of, names_in_order, write_segment
from .arrays import as_float32
from .columns import block_of
from .results import Ids
from .storage import DirectoryWriter

# Of a block's float32: read ahead by the system, converted, its squares and its screen.
COPIES = 2.4


def opened(vectors: Any) -> Any:
    """What slices by rows: an .npy file by its path, mapped, or the caller's array [N, D]."""
    if isinstance(vectors, (str, os.PathLike)):
        vectors = np.load(vectors, mmap_mode="r", allow_pickle=False)
    elif not hasattr(vectors, "shape"):
        vectors = np.asarray(vectors)
    if len(vectors.shape) != 2:
        raise ValueError(f"vectors must be a matrix [N, D], got shape {list(vectors.shape)}")
    return vectors


def require_whole(rows: Any) -> None:
    """Raises ValueError where a mapped file has become shorter than its rows.

    To touch what is mapped behind the end of a file is SIGBUS, the end of the process; looking
    before each block leaves a moment for that, not the hours of a scan.
    """
    if not isinstance(rows, np.memmap) or rows.filename is None:
        return
    try:
        size = os.stat(rows.filename).st_size
    except OSError:
        return  # its name is gone; what is mapped stays
    if size < rows.offset + rows.nbytes:
        raise ValueError(
            f"{rows.filename} was cut off to {size} bytes after it was mapped, "
            f"its rows end at byte {rows.offset + rows.nbytes}; leave it alone while it is read"
        )


def rows_at_once(budget: int, dim: int) -> int:
    """Rows of a block that fit the budget with all that is made of them, whole panels if many."""
    block = max(1, int(budget / (COPIES * 4 * max(1, dim))))
    return block // 64 * 64 if block >= 64 else block


def checked(part: Any, first: int, metric: str, on_zero: str) -> Any:
    """A block's rows, contiguous; errors name the row of the whole."""
    finite = np.isfinite(part).all(axis=1)
    if not finite.all():
        row = first + int(np.argmin(finite))
        raise ValueError(
            f"vectors: row {row} holds a NaN or a value that is infinite as float32; "
            "remove or replace it"
        )
    if on_zero == "error" and metric == "cosine":
        some = part.any(axis=1)
        if not some.all():
            raise ValueError(
                f"vectors: row {first + int(np.argmin(some))} is a zero vector, which has no "
                'direction; remove it or pass on_zero="zero"'
            )
    return np.ascontiguousarray(part)


def blocks_of(vectors: Any, budget: int) -> Iterator[Any]:
    """Float32 blocks that fit the budget, of a matrix or of an iterable of matrices."""
    if isinstance(vectors, (str, os.PathLike)) or hasattr(vectors, "shape"):
        rows = opened(vectors)
        size = rows_at_once(budget, rows.shape[1])
        for first in range(0, rows.shape[0], size) or (0,):
            require_whole(rows)
            yield as_float32(rows[first : first + size], "vectors")
        return
    held: list[Any] = []
    n = 0
    dim = None
    yielded = False
    for number, given in enumerate(vectors):
        block = as_float32(given, f"vectors[{number}]")
        if block.ndim != 2 or dim not in (None, block.shape[1]):
            wanted = "n, D" if dim is None else f"n, {dim}"
            raise ValueError(
                f"vectors[{number}] must be a block [{wanted}], got shape {list(block.shape)}"
            )
        dim = block.shape[1]
        size = rows_at_once(budget, dim)
        while n + len(block) >= size:
            held.append(block[: size - n])
            yielded = True
            yield np.concatenate(held)
            block, held, n = block[size - n :], [], 0
        # A copy: the caller may fill the same memory with the next block.
        held.append(block.copy())
        n += len(block)
    if dim is None:
        raise ValueError("vectors is an empty iterable: pass at least one block [n, D]")
    if n > 0 or not yielded:
        yield np.concatenate(held)


def build_to(
    path: str | os.PathLike[str],
    vectors: Any,
    ids: Iterable[Any] | None,
    metric: str,
    on_zero: str,
    screen: str,
    columns: Any,
    column_kinds: Mapping[str, str] | None,
    budget: int,
    progress: Callable[[int], None] | None,
    threads: int,
) -> None:
    """Writes the index; see :meth:`gnomon.DenseIndex.build_to`."""
    more_ids = None if ids is None else iter(ids)
    seen: set[Any] = set()
    kinds = dict(column_kinds or {})
    kind = "position"
    parts: list[dict[str, Any]] = []
    done = 0
    with DirectoryWriter(path) as writer:
        for part, name in zip(blocks_of(vectors, budget), names_in_order(), strict=False):
            rows = checked(part, done, metric, on_zero)
            n = len(rows)
            table = _table(more_ids, done, n, seen)
            if ids is not None and n > 0:
                if kind not in ("position", table.kind):
                    raise TypeError(f"ids are all str or all int, got {table.kind} at {done}")
                kind = table.kind
            block, kinds = block_of(_slice(columns, done, n), n, kinds)
            core = _core.DenseIndex(rows, metric, on_zero, screen, threads)
            segment = Segment(core, table, columns=block)
            write_segment(writer, segment, name)
            parts.append(entry_of(segment, name, False))
            done += n
            if progress is not None:
                progress(done)
        if more_ids is not None and next(more_ids, seen) is not seen:
            raise ValueError(f"ids has more than {done} entries, but there are {done} vectors")
        _require_all_used(columns, done)
        if ids is not None and kind == "position":
            kind = "int"
        writer.commit({PART: meta_of(kind, tuple(kinds.items()), parts, done, done)})


def _table(more_ids: Iterator[Any] | None, first: int, n: int, seen: set[Any]) -> Ids:
    if more_ids is None:
        return Ids.of(range(first, first + n) if first > 0 else None, n)
    values = list(islice(more_ids, n))
    if len(values) < n:
        raise ValueError(f"ids has {first + len(values)} entries, but there are more vectors")
    table = Ids.of(values, n)
    for place, value in enumerate(values):
        if value in seen:
            raise ValueError(f"ids[{first + place}] repeats {value!r}; ids are unique")
        seen.add(value)
    return table


def _slice(columns: Any, first: int, n: int) -> Any:
    """The columns of rows [first, first + n)."""
    if columns is None:
        return None
    if isinstance(columns, Mapping):
        return {name: values[first : first + n] for name, values in columns.items()}
    return columns[first : first + n]


def _require_all_used(columns: Any, n: int) -> None:
    if columns is None:
        return
    lengths = columns.items() if isinstance(columns, Mapping) else [("", columns)]
    for name, values in lengths:
        if len(values) != n:
            where = f"columns[{name!r}]" if name else "columns"
            raise ValueError(f"{where} has {len(values)} values for {n} vectors")
