"""Neighbour lists in memory, and what no exact search can have given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .formats_source import FormatError

Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64] | npt.NDArray[np.float32]


@dataclass
class Neighbors:
    """Neighbour lists, best first: `ids` int64 [n, k] (-1 where there is none), and their scores.

    distances
        As in the file, [n, k], or None.
    scores
        float64 [n, k], higher is better; from the file, or the negative of rising distances.
    ties, meta
        What a file of :class:`gnomon.GroundTruth` says besides; else empty.
    """

    path: str
    format: str
    ids: Int64Array
    distances: FloatArray | None = None
    scores: npt.NDArray[np.float64] | None = None
    ties: dict[str, Int64Array] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Scores of distances, whichever way they run."""
        if self.scores is None and self.distances is not None:
            values = np.asarray(self.distances, np.float64)
            self.scores = values if _falls(values) and not _rises(values) else -values


@dataclass
class RangeNeighbors:
    """Range truth: row q has ids[offsets[q]:offsets[q+1]] and distances likewise."""

    path: str
    offsets: Int64Array
    ids: Int64Array
    distances: npt.NDArray[np.float32]


def _rises(values: npt.NDArray[np.float64]) -> bool:
    return bool((values[:, 1:] >= values[:, :-1]).all())


def _falls(values: npt.NDArray[np.float64]) -> bool:
    return bool((values[:, 1:] <= values[:, :-1]).all())


def check_truth(truth: Neighbors, n_base: int | None = None) -> None:
    """Raises FormatError for what no exact search can have given."""
    ids, path = truth.ids, truth.path
    k = ids.shape[1]
    start, stride = {"bin": (8, 4 * k), "ibin": (8, 4 * k), "ivecs": (4, 4 + 4 * k)}.get(
        truth.format, (0, 0)
    )

    def fault(bad: npt.NDArray[np.bool_], what: str) -> None:
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            byte = start + row * stride + 4 * column if stride else None
            raise FormatError(path, what.format(ids[row, column]), row=row, byte=byte)

    if n_base is not None:
        limit = f"id {{}}, but the base has {n_base} rows (0..{n_base - 1})"
        fault((ids >= n_base) | (ids < -1), limit)
    fault(ids < -1, "id {}; ids are not negative")
    fault((ids[:, :-1] < 0) & (ids[:, 1:] >= 0) if k > 1 else ids < -1, "id {} before another")
    ordered = np.argsort(ids, axis=1, kind="stable")
    sorted_ids = np.take_along_axis(ids, ordered, 1)
    repeated = np.zeros(ids.shape, bool)
    again = (sorted_ids[:, 1:] == sorted_ids[:, :-1]) & (sorted_ids[:, 1:] >= 0)
    np.put_along_axis(repeated, ordered[:, 1:], again, 1)
    fault(repeated, "id {} stands twice in this row")
    values = truth.distances if truth.distances is not None else truth.scores
    if values is None:
        return
    wide = np.asarray(values, np.float64)
    fault(np.isnan(wide) & (ids >= 0), "the distance of id {} is not a number")
    if not _rises(wide) and not _falls(wide):
        down = np.zeros(ids.shape, bool)
        down[:, 1:] = wide[:, 1:] < wide[:, :-1]
        fault(down, "distances are not ascending at id {}; sort the row, or leave them out")
