"""Exact nearest neighbours of many queries in a base that need not fit into memory.

The base is read by blocks. Each becomes a :class:`gnomon.DenseIndex`, answers all queries and goes;
the lists are merged under the one ranking (higher score, then lower row), so the answer is that of
one index over everything, bit for bit, whatever the memory, the threads, or how often the run was
killed and resumed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import as_count, as_float32
from .groundtruth_file import GroundTruth

if TYPE_CHECKING:
    from .formats_source import VectorSource

Report = Callable[[str, int, int], None]  # phase, units done, units in all

METRICS = ("cosine", "ip", "l2")
_SLACK = 48 << 20  # code, heaps of the search, the allocator
_BATCH_BYTES = 32 << 20


def groundtruth(
    base: Any,
    queries: Any,
    k: int = 100,
    *,
    metric: str = "cosine",
    out: str | os.PathLike[str] | None = None,
    memory: int | str = "2G",
    on_zero: str = "error",
    ties_max: int = 1000,
    threads: int | None = None,
    block_rows: int | None = None,
    checkpoint_s: float = 30.0,
    restart: bool = False,
    report: Report | None = None,
) -> GroundTruth:
    """The exact k nearest rows of `base` for every query.

    Both inputs are read and checked completely before the search starts.

    Parameters
    ----------
    base, queries
        Paths of files (``FILE::NAME`` chooses a dataset), what :func:`gnomon.open_vectors` gave, or
        matrices [N, D] and [Q, D]. Values are taken as float32. Queries are held in memory.
    metric
        ``"cosine"``, ``"ip"`` or ``"l2"`` (negative squared distance), in the canonical float64
        arithmetic of ``gnomon.reference.dense``.
    out
        Where to write the answer, by suffix: npz keeps everything; bin, hdf5, parquet ids and
        float32 or float64 distances; ivecs, ibin, npy ids. With `out`, progress is saved beside it
        (``OUT.checkpoint``) and the same call resumes a killed run.
    memory
        Bytes that the process may use, or ``"512M"``, ``"2G"``: decides the size of blocks.
    on_zero
        ``"error"`` refuses zero vectors under cosine; ``"zero"`` scores them 0.
    ties_max
        How many ties beyond the last place are kept for each query; all are counted.
    threads, block_rows, checkpoint_s
        How to compute; the answer does not depend on them. A block of `block_rows` may exceed
        `memory`.
    restart
        Ignore a checkpoint.
    report
        Called as ``report(phase, done, total)``; phases are ``check base``, ``check queries`` and
        ``search``.

    Raises
    ------
    ValueError
        (:class:`gnomon.formats.FormatError` for files) NaN, infinity, zero rows, dimensions that
        differ, damaged files: named by file, row and byte. Too little memory; a checkpoint of
        another run.
    ValueError
        `out` is the file of `base` or `queries`.
    BlockingIOError
        Another process is at work on `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> base = np.array([[0, 1], [3, 0], [1, 1]], np.float32)
    >>> truth = gnomon.groundtruth(base, [[1, 0]], k=2)
    >>> truth.ids.tolist(), truth.scores.tolist()
    ([[1, 2]], [[1.0, 0.7071067811865475]])
    """
    from ._atomic import remove_leftovers
    from ._lock import Lock
    from .groundtruth_scan import Scan

    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if on_zero not in ("error", "zero"):
        raise ValueError(f"on_zero must be 'error' or 'zero', got {on_zero!r}")
    limit = parse_bytes(memory)
    best, kept = as_count(k, "k", 1), as_count(ties_max, "ties_max", 0)
    rows_each = None if block_rows is None else as_count(block_rows, "block_rows", 1)
    if not checkpoint_s >= 0:
        raise ValueError(f"checkpoint_s must be seconds, 0 or more, got {checkpoint_s!r}")
    target = None if out is None else Path(os.path.realpath(os.fspath(out)))
    with ExitStack() as stack:
        if target is not None:
            _require_writable(target)
            lock = Lock(target.with_name(f".{target.name}.lock"), target)
            stack.callback(lock.release)
            remove_leftovers(target)
            remove_leftovers(checkpoint_of(target))
        rows = stack.enter_context(opened(base, "base"))
        wanted = stack.enter_context(opened(queries, "queries"))
        if target is not None:
            _require_another_file(target, rows, wanted)
        scan = Scan(rows, wanted, best, metric, on_zero, kept, threads, report)
        scan.check()
        if target is not None:
            scan.resume(str(checkpoint_of(target)), restart, checkpoint_s)
        truth = scan.run(limit, rows_each)
        if target is not None:
            truth.save(target)
            scan.forget()
    return truth


def checkpoint_of(out: str | os.PathLike[str]) -> Path:
    """Where the progress of a run that writes `out` is saved."""
    path = Path(os.path.realpath(os.fspath(out)))
    return path.with_name(path.name + ".checkpoint")


def opened(value: Any, name: str) -> Any:
    """A VectorSource of a path or a matrix; one that is open already is taken as it is."""
    from .formats import ArraySource, VectorSource, open_vectors

    if isinstance(value, VectorSource):
        return nullcontext(value)
    if isinstance(value, (str, os.PathLike)):
        return open_vectors(value, role="base" if name == "base" else "queries")
    plain = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)
    if plain and value.dtype.kind in "fiu" and value.ndim == 2:
        return ArraySource(value, name)
    return ArraySource(as_float32(value, name), name)


def parse_bytes(value: int | str) -> int:
    """A number of bytes; text may end in K, M or G, powers of 1024.

    >>> parse_bytes("2G")
    2147483648
    """
    if not isinstance(value, str):
        return as_count(value, "memory", 1)
    match = re.fullmatch(r"([0-9]{1,15}) ?([KMGT]?)(?:I?B)?", value.strip().upper())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"memory must be a size such as 512M or 2G, got {value!r}")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2]]


def _require_writable(target: Path) -> None:
    """Finds out now, not after hours, that the result has no place."""
    from .formats import SUFFIXES
    from .formats_neighbors import FORMATS
    from .formats_source import FormatError

    suffix = target.suffix.removeprefix(".").lower()
    if SUFFIXES.get(suffix, suffix) not in FORMATS:
        known = ", ".join(FORMATS)
        raise FormatError(str(target), f"suffix .{suffix}; known formats for out: {known}")
    if not target.parent.is_dir():
        raise FileNotFoundError(2, "no such directory; make it first", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(21, "a directory; out is a file", str(target))
    if target.exists() and not target.is_file():
        raise FormatError(str(target), "not a regular file; it is left alone")


def _require_another_file(target: Path, *sources: VectorSource) -> None:
    """The answer must not take the place of what it is made from."""
    for source in sources:
        if source.format != "array" and target.exists() and os.path.samefile(source.path, target):
            raise ValueError(f"out would replace {source.path}, which is read; choose another name")


def rows_that_fit(limit: int, base: VectorSource, n_queries: int, k: int, used: int = 0) -> int:
    """How many rows a block may have. Raises ValueError saying how much memory would do.

    A row is read, widened to float32, copied into an index and screened in int8.
    """
    from .formats_source import bytes_to_widen

    n_rows, dim, dtype = base.n_rows, base.dim, base.dtype
    state = n_queries * (3 * dim * 4 + 3 * k * 16)
    fixed = used + _SLACK + 3 * _BATCH_BYTES + state
    row = (base.read_copies * dtype.itemsize + bytes_to_widen(dtype) + 4 + 2) * dim + 128
    least = min(n_rows, 4096)
    if limit - fixed < least * row:
        raise ValueError(
            f"memory of {limit:,} bytes is too little: {n_queries:,} queries and a block of "
            f"{least:,} rows need {fixed + least * row:,}; give more, or fewer queries at a time"
        )
    return min(n_rows, (limit - fixed) // row)


def memory_used() -> int:
    """Resident bytes of this process now; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def batch_of(k: int) -> int:
    """How many queries are searched and merged at a time."""
    return max(1, min(1024, _BATCH_BYTES // (64 * (k + 1))))


def now() -> float:
    """Seconds of a clock that never goes back."""
    return time.monotonic()
