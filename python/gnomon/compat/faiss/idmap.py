"""Flat indexes whose rows have the caller's ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import shared
from .flat import Index, IndexFlat
from .selectors import IDSelectorBatch, members
from .shared import Float32, Int64, Mask


class IndexIDMap(Index):
    """An empty flat index, and an int64 id for each of its rows; ids may repeat.

    Over any other index it is faiss' own IndexIDMap, with a UserWarning.

    >>> import numpy as np
    >>> index = IndexIDMap(IndexFlat(2))
    >>> index.add_with_ids(np.eye(2, dtype=np.float32), np.array([70, 50]))
    >>> index.search(np.array([[0, 1]], np.float32), 2)[1]
    array([[50, 70]])
    """

    index: IndexFlat

    def __new__(cls, index: Any = None) -> Any:
        """Faiss' own class over an index that is not gnomon's."""
        if index is not None and not isinstance(index, IndexFlat):
            why = f"gnomon maps ids over its own IndexFlat, not over a {type(index).__name__}"
            return shared.original(cls.__name__, why)(index)
        return super().__new__(cls)

    def __init__(self, index: IndexFlat):
        if index.ntotal:
            raise RuntimeError(f"index must be empty on input; it holds {index.ntotal} rows")
        self.index = index
        self._ids = [np.zeros(0, np.int64)]

    @property
    def d(self) -> int:  # type: ignore[override]
        """Dimensions."""
        return self.index.d

    @property
    def ntotal(self) -> int:  # type: ignore[override]
        """How many rows."""
        return self.index.ntotal

    @property
    def metric_type(self) -> int:  # type: ignore[override]
        """``METRIC_L2`` or ``METRIC_INNER_PRODUCT``."""
        return self.index.metric_type

    @property
    def id_map(self) -> Int64:
        """The id of each row."""
        if len(self._ids) > 1:
            self._ids = [np.concatenate(self._ids)]
        return self._ids[0]

    def add(self, x: Any) -> None:
        """RuntimeError: rows of this index need ids."""
        raise RuntimeError("add does not make sense with IndexIDMap, use add_with_ids")

    def add_with_ids(self, x: Any, ids: Any) -> None:
        """Adds rows [n, d] with ids [n]."""
        rows = shared.matrix(x, self.d)
        names = np.array(ids, np.int64)
        if names.shape != (len(rows),):
            raise AssertionError(f"not same nb of vectors as ids: {len(rows)} and {names.shape}")
        with self.index._edits:
            self.index.add(x)
            self._ids.append(names)

    def _adopt(self, rows: Float32) -> None:
        """Holds these rows as they lie, numbered from 0, and no others."""
        with self.index._edits:
            self.index._take([shared.finite(shared.matrix(rows, self.d))])
            self._ids = [np.arange(len(rows))]

    def reset(self) -> None:
        """Removes all rows."""
        self.index.reset()
        self._ids = [np.zeros(0, np.int64)]

    def _mask(self, params: Any) -> Mask | None:
        selector = None if params is None else params.sel
        return None if selector is None else members(selector, self.id_map)

    def _named(self, numbers: Int64) -> Int64:
        if self.ntotal == 0:
            return numbers
        return np.where(numbers >= 0, self.id_map[numbers], -1)

    def search(
        self,
        x: Any,
        k: int,
        *,
        params: Any = None,
        D: Any = None,
        I: Any = None,  # noqa: E741
    ) -> tuple[Any, Any]:
        """As :meth:`IndexFlat.search`, with ids; ties to the row that was added first."""
        near, numbers = self.index._search(x, k, self._mask(params))
        return shared.given(D, near, "D"), shared.given(I, self._named(numbers), "I")

    def range_search(
        self, x: Any, thresh: float, *, params: Any = None
    ) -> tuple[Any, Float32, Int64]:
        """As :meth:`IndexFlat.range_search`, with ids."""
        lims, near, numbers = self.index._range(x, thresh, self._mask(params))
        return lims, near, self._named(numbers)

    def assign(self, x: Any, k: int, labels: Any = None) -> Int64:
        """The ids of :meth:`search`."""
        found: Int64 = self.search(x, k, I=labels)[1]
        return found

    def remove_ids(self, x: Any) -> int:
        """Removes the rows whose ids a selector or an array has; returns how many."""
        selector = x if hasattr(x, "is_member") else IDSelectorBatch(x)
        with self.index._edits:
            keep = ~members(selector, self.id_map)
            self._ids = [self.id_map[keep]]
            return self.index._keep(keep)

    def merge_from(self, otherIndex: Any, add_id: int = 0) -> None:
        """Takes over the rows of another, with ``add_id`` added to their ids."""
        if not isinstance(otherIndex, IndexIDMap):
            raise RuntimeError("the other index must be an IndexIDMap")
        ids = otherIndex.id_map + add_id
        self.index.merge_from(otherIndex.index)
        self._ids.append(ids)
        otherIndex.reset()


class IndexIDMap2(IndexIDMap):
    """An :class:`IndexIDMap` that finds rows by id.

    >>> import numpy as np
    >>> index = IndexIDMap2(IndexFlat(1))
    >>> index.add_with_ids(np.array([[4.0]]), [7])
    >>> index.reconstruct(7)
    array([4.], dtype=float32)
    """

    _places: tuple[Int64, dict[int, int]] | None = None

    def _place(self, key: int) -> int:
        ids = self.id_map
        if self._places is None or self._places[0] is not ids:
            self._places = ids, {name: place for place, name in enumerate(ids.tolist())}
        place = self._places[1].get(int(key))
        if place is None:
            raise RuntimeError(f"key {key} not found in the index")
        return place

    def reconstruct(self, key: int, x: Any = None) -> Float32:
        """The row of an id, the last one that has it; RuntimeError when there is none."""
        return self.index.reconstruct(self._place(key), x)

    def reconstruct_batch(self, key: Any, x: Any = None) -> Float32:
        """The rows [n, d] of ids."""
        return self.index.reconstruct_batch([self._place(one) for one in key], x)

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
        """As :meth:`IndexFlat.search_and_reconstruct`, with ids."""
        near, numbers = self.index._search(x, k, self._mask(params))
        rows = self.index._rows_of(numbers)
        ids = shared.given(I, self._named(numbers), "I")
        return shared.given(D, near, "D"), ids, shared.given(R, rows, "R")
