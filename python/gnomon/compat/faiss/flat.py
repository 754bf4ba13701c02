"""IndexFlat: vectors as they are, searched exactly."""

from __future__ import annotations

import threading
from itertools import accumulate
from typing import Any

import numpy as np

from ...arrays import as_count
from ...dense_index import DenseIndex
from .._dense import index_of
from . import shared
from .selectors import IDSelectorBatch, members
from .shared import METRIC_INNER_PRODUCT, METRIC_L2, METRICS, Float32, Int64, Mask


class Index:
    """The class of all indexes here, as in faiss."""

    d: int
    ntotal: int
    metric_type: int
    is_trained = True
    verbose = False
    metric_arg = 0.0

    def train(self, x: Any) -> None:
        """Nothing: flat indexes are always trained."""


class IndexFlat(Index):
    """Vectors of ``d`` dimensions under ``metric``: ``METRIC_L2`` or ``METRIC_INNER_PRODUCT``.

    Another metric gives faiss' own IndexFlat, with a UserWarning; ImportError without faiss.

    >>> import numpy as np
    >>> index = IndexFlat(2)
    >>> index.add(np.array([[0, 0], [3, 4]], np.float32))
    >>> index.search(np.array([[0, 0]], np.float32), 2)
    (array([[ 0., 25.]], dtype=float32), array([[0, 1]]))
    """

    def __new__(cls, d: int = 0, metric: int = METRIC_L2) -> Any:
        """Faiss' own class for a metric that gnomon does not have."""
        if metric not in METRICS:
            why = "gnomon has METRIC_L2 and METRIC_INNER_PRODUCT"
            return shared.original("IndexFlat", why)(d, metric)
        return super().__new__(cls)

    def __init__(self, d: int, metric: int = METRIC_L2):
        self.d = as_count(d, "d", 1)
        self.metric_type = metric
        self._edits = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._dense: DenseIndex | None = None
        self._pending: list[Float32] = []  # added, and not searched since
        self.ntotal = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"d": self.d, "metric_type": self.metric_type, "rows": self.reconstruct_n()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.d, self.metric_type = state["d"], state["metric_type"]
        self._edits = threading.RLock()
        self._take([state["rows"]])

    def _take(self, blocks: list[Float32]) -> None:
        """Holds these rows, which are nobody else's, and no others."""
        with self._edits:
            self._forget()
            self._pending = [rows for rows in blocks if len(rows)]
            self.ntotal = sum(map(len, blocks))

    def add(self, x: Any, *, copy: bool = True) -> None:
        """Adds a copy of the rows [n, d], numbered from ``ntotal`` on.

        With ``copy=False``, which faiss does not have, float32 rows are held as they lie: half the
        memory, and they must not be written to while the index lives.
        """
        rows = shared.finite(shared.matrix(x, self.d))
        if copy and (not isinstance(x, np.ndarray) or np.may_share_memory(rows, x)):
            rows = rows.copy()
        with self._edits:
            if len(rows):
                self._pending.append(rows)
                self.ntotal += len(rows)

    def add_with_ids(self, x: Any, ids: Any) -> None:
        """RuntimeError: a flat index numbers its rows; :class:`IndexIDMap` takes ids."""
        raise RuntimeError("add_with_ids not implemented for this type of index; use IndexIDMap")

    def reset(self) -> None:
        """Removes all rows."""
        with self._edits:
            self._forget()

    def _ready(self) -> DenseIndex | None:
        """The searchable rows; None when there are none."""
        with self._edits:
            if self._pending:
                rows = _joined(self._pending)
                self._pending = []
                if self._dense is None:
                    self._dense = index_of(rows, METRICS[self.metric_type])
                else:
                    self._dense.add(rows)
            return self._dense

    def search(
        self,
        x: Any,
        k: int,
        *,
        params: Any = None,
        D: Any = None,
        I: Any = None,  # noqa: E741
    ) -> tuple[Any, Any]:
        """The ``k`` nearest rows of each query: distances [n, k] float32, numbers [n, k] int64.

        ``params.sel`` restricts the rows. Where there are fewer than k, the number is -1 and the
        distance the greatest float32 (with its sign).
        """
        selector = None if params is None else params.sel
        mask = None if selector is None else members(selector, np.arange(self.ntotal))
        near, numbers = self._search(x, k, mask)
        return shared.given(D, near, "D"), shared.given(I, numbers, "I")

    def _search(self, x: Any, k: int, mask: Mask | None) -> tuple[Float32, Int64]:
        queries = shared.matrix(x, self.d)
        if k <= 0:
            raise AssertionError(f"k must be at least 1, got {k}")
        k = as_count(k, "k", 1)
        shared.finite(queries)
        dense = self._ready()
        if dense is None or not len(queries):
            none = np.zeros((len(queries), 0))
            return shared.padded(none, none.astype(np.int64), k, self.metric_type)
        found = dense.search(queries, k, filter=mask, threads=shared.threads())
        return shared.padded(found.scores, found.ids, k, self.metric_type)

    def range_search(
        self, x: Any, thresh: float, *, params: Any = None
    ) -> tuple[Any, Float32, Int64]:
        """All rows nearer than ``thresh``: ``lims`` [n + 1], distances, numbers.

        Query q has ``lims[q]`` to ``lims[q + 1]``, by number rising. A distance must be under the
        threshold (L2), or over it (inner product).
        """
        selector = None if params is None else params.sel
        mask = None if selector is None else members(selector, np.arange(self.ntotal))
        return self._range(x, thresh, mask)

    def _range(self, x: Any, thresh: float, mask: Mask | None) -> tuple[Any, Float32, Int64]:
        queries = shared.finite(shared.matrix(x, self.d))
        is_ip = self.metric_type == METRIC_INNER_PRODUCT
        with np.errstate(over="ignore"):
            limit = np.float32(thresh)
        lims = np.zeros(len(queries) + 1, np.uint64)
        empty = np.zeros(0, np.float32), np.zeros(0, np.int64)
        dense = self._ready()
        if dense is None or not len(queries) or np.isnan(limit):
            return lims, *empty
        # A float64 score that rounds to the limit is outside: one float32 step finds them all.
        least = float(np.nextafter(limit if is_ip else -limit, np.float32(-np.inf)))
        hits = dense.search(queries, None, min_score=least, filter=mask, threads=shared.threads())
        D, I = [empty[0]], [empty[1]]  # noqa: E741
        for place, hit in enumerate(hits):
            near = shared.distances(hit.scores, self.metric_type)
            inside = np.flatnonzero(near > limit if is_ip else near < limit)
            inside = inside[np.argsort(hit.ids[inside])]
            D.append(near[inside])
            I.append(hit.ids[inside])
            lims[place + 1] = lims[place] + np.uint64(len(D[-1]))
        return lims, np.concatenate(D), np.concatenate(I)

    def assign(self, x: Any, k: int, labels: Any = None) -> Int64:
        """The numbers of :meth:`search`."""
        found: Int64 = self.search(x, k, I=labels)[1]
        return found

    def search_and_reconstruct(
        self,
        x: Any,
        k: int,
        *,
        params: Any = None,
        D: Any = None,
        I: Any = None,  # noqa: E741
        R: Any = None,
    ) -> tuple[Any, Any, Any]:
        """:meth:`search`, and the rows found [n, k, d]; NaN where there is none."""
        near, found = self.search(x, k, params=params, D=D, I=I)
        return near, found, shared.given(R, self._rows_of(found), "R")

    def _rows_of(self, numbers: Int64) -> Float32:
        """Copies of rows [n, k, d]; NaN for the number -1."""
        rows = np.full((*numbers.shape, self.d), np.nan, np.float32)
        rows[numbers >= 0] = self._gather(numbers[numbers >= 0])
        return rows

    def _blocks(self) -> list[tuple[int, Float32]]:
        """The rows as they lie in memory, with the number of each block's first."""
        with self._edits:
            dense = self._dense
            parts = [] if dense is None else [part.core.vectors for part in dense._state.segments]
            parts += self._pending
        return list(zip(accumulate(map(len, parts), initial=0), parts, strict=False))

    def _gather(self, numbers: Int64) -> Float32:
        """Copies of rows, which must exist."""
        out = np.empty((len(numbers), self.d), np.float32)
        for start, block in self._blocks():
            here = (numbers >= start) & (numbers < start + len(block))
            out[here] = block[numbers[here] - start]
        return out

    def reconstruct(self, key: int, x: Any = None) -> Float32:
        """A row by its number; RuntimeError when there is none."""
        return shared.given(x, self.reconstruct_batch([key])[0], "x")

    def reconstruct_batch(self, key: Any, x: Any = None) -> Float32:
        """Rows [n, d] by their numbers."""
        numbers = np.asarray(key, np.int64)
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < self.ntotal):
            bad = numbers.max() if numbers.min() >= 0 else numbers.min()
            raise RuntimeError(f"there is no row {bad}; the index holds {self.ntotal}")
        return shared.given(x, self._gather(numbers), "x")

    def reconstruct_n(self, n0: int = 0, ni: int = -1, x: Any = None) -> Float32:
        """``ni`` rows (-1: all that follow) from number ``n0`` on."""
        count = self.ntotal - n0 if ni == -1 else ni
        if n0 < 0 or count < 0 or n0 + count > self.ntotal:
            raise RuntimeError(f"there are no rows {n0} to {n0 + count}; there are {self.ntotal}")
        out = np.empty((count, self.d), np.float32)
        for start, block in self._blocks():
            first, last = max(n0, start), min(n0 + count, start + len(block))
            if first < last:
                out[first - n0 : last - n0] = block[first - start : last - start]
        return shared.given(x, out, "x")

    @property
    def codes(self) -> Any:
        """The rows as bytes, one after the other; a copy."""
        return self.reconstruct_n().reshape(-1).view(np.uint8)

    @property
    def code_size(self) -> int:
        """Bytes of a row."""
        return 4 * self.d

    def remove_ids(self, x: Any) -> int:
        """Removes the rows of a selector, or of an array of numbers; the others move up.

        Returns how many were removed.
        """
        selector = x if hasattr(x, "is_member") else IDSelectorBatch(x)
        return self._keep(~members(selector, np.arange(self.ntotal)))

    def _keep(self, mask: Mask) -> int:
        with self._edits:
            removed = int(len(mask) - mask.sum())
            if removed:
                self._take([part[mask[start:][: len(part)]] for start, part in self._blocks()])
            return removed

    def merge_from(self, otherIndex: Any, add_id: int = 0) -> None:
        """Takes over the rows of another flat index of the same kind, which is empty then."""
        self.check_compatible_for_merge(otherIndex)
        if add_id != 0:
            raise RuntimeError("cannot set ids in a flat index; add_id must be 0")
        self.add(otherIndex.reconstruct_n())
        otherIndex.reset()

    def check_compatible_for_merge(self, otherIndex: Any) -> None:
        """RuntimeError unless the other is a flat index with the same d and metric."""
        same = isinstance(otherIndex, IndexFlat) and otherIndex.d == self.d
        if not same or otherIndex.metric_type != self.metric_type:
            raise RuntimeError("the other index must be flat, with the same d and metric")


def _joined(blocks: list[Float32]) -> Float32:
    """The blocks as one matrix. Each is let go once copied: there are never two of all rows."""
    if len(blocks) == 1:
        return blocks[0]
    rows = np.empty((sum(map(len, blocks)), blocks[0].shape[1]), np.float32)
    start = 0
    for place, block in enumerate(blocks):
        part = rows[start : start + len(block)]
        part[:] = block
        blocks[place] = part  # the list is whole at any moment
        start += len(part)
    return rows


class IndexFlatL2(IndexFlat):
    """Squared Euclidean distance, never through |x|^2 + |y|^2 - 2xy, which cancels.

    >>> IndexFlatL2(2).ntotal
    0
    """

    def __new__(cls, d: int = 0) -> Any:
        """One metric."""
        return super().__new__(cls, d)

    def __init__(self, d: int):
        super().__init__(d, METRIC_L2)


class IndexFlatIP(IndexFlat):
    """Inner product.

    >>> import numpy as np
    >>> index = IndexFlatIP(2)
    >>> index.add(np.array([[1, 0], [1, 0]], np.float32))
    >>> index.search(np.array([[2, 0]], np.float32), 2)[1]
    array([[0, 1]])
    """

    def __new__(cls, d: int = 0) -> Any:
        """One metric."""
        return super().__new__(cls, d, METRIC_INNER_PRODUCT)

    def __init__(self, d: int):
        super().__init__(d, METRIC_INNER_PRODUCT)
