"""Engines over a part of what they hold: as if the other documents had never been added.

A BM25 index counts N, df and avgdl over the documents that are not deleted, and a dense index
scans the rows that are alive. So an engine in which the others are deleted, over the same mapped
files, answers with the bits of an index that was built without them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._dense_segments import State as DenseState
from .._dense_segments import pack
from ..bm25 import BM25Index
from ..bm25_segment import State
from ..dense_index import DenseIndex
from .columns_io import Int64Array


def without_chunks(index: BM25Index, hidden: Int64Array) -> BM25Index:
    """The index without these cids; those that it does not hold are passed over."""
    state = index._state
    slots = state.find(hidden.tolist() if hidden.size < 64 else hidden)  # type: ignore[arg-type]
    return BM25Index(
        State(state.without(slots[slots >= 0])), index._layout, index._analyzer, index._formula
    )


def without_vectors(index: DenseIndex, hidden: Int64Array) -> DenseIndex:
    """The same for vectors."""
    state: DenseState = index._state
    segments = []
    for segment in state.segments:
        ids = np.asarray(segment.ids.take(np.arange(segment.core.n_rows)), np.int64)
        mask = segment.mask() & ~np.isin(ids, hidden)
        if mask.any():
            segments.append(replace(segment, alive=None if mask.all() else pack(mask)))
    return DenseIndex(replace(state, segments=tuple(segments) or (state.empty_segment(),)))
