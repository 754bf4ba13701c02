"""What a filter= of a dense search means: a bitmap of allowed rows for each segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ._dense_segments import Mask, State, Words, pack
from .columns import Column, ColumnBlock
from .filters import Filter
from .filters import allowed as allowed_by


class View:
    """A state as filters see it."""

    def __init__(self, state: State):
        self._state = state

    def sizes(self) -> list[int]:
        """Rows of each segment, dead ones included."""
        return [segment.core.n_rows for segment in self._state.segments]

    def live(self, segment: int) -> Words | None:
        """Rows that are alive; None for all."""
        return self._state.segments[segment].alive

    def columns(self, segment: int) -> ColumnBlock:
        """The columns of a segment; those that only others have are empty in it."""
        given = self._state.segments[segment]
        found = {} if given.columns is None else dict(given.columns.columns)
        for name, kind in self._state.kinds:
            if name not in found:
                found[name] = Column.missing(kind, given.core.n_rows)
        return ColumnBlock(given.core.n_rows, found)

    def slots(self, ids: Sequence[Any]) -> npt.NDArray[np.int64]:
        """Slots of the live rows with these ids, counted over the segments."""
        bases = np.concatenate([[0], np.cumsum(self.sizes())])
        known = (self._state.places.get(value) for value in dict.fromkeys(ids))
        slots = [int(bases[where[0]]) + where[1] for where in known if where is not None]
        return np.array(slots, np.int64)


def allowed(state: State, chosen: Any) -> list[Words | None]:
    """A bitmap for each segment of the rows that are wanted and alive.

    `chosen` is None, a `gnomon.Filter` or its JSON form, a boolean mask over the live rows in
    order, or ids, which have to be there.
    """
    if chosen is None:
        return [segment.alive for segment in state.segments]
    if isinstance(chosen, (Filter, Mapping)):
        return list(allowed_by(chosen, View(state)))
    if not isinstance(chosen, Iterable):
        raise TypeError(
            f"filter is a {type(chosen).__name__}; pass a gnomon.Filter such as "
            "field('year') >= 2020, its JSON form as a dict, a list of ids, or a bool mask over "
            "the rows"
        )
    array = chosen if isinstance(chosen, np.ndarray) else np.asarray(chosen)
    if array.dtype == np.bool_:
        return _by_mask(state, array)
    masks = [np.zeros(segment.core.n_rows, np.bool_) for segment in state.segments]
    for number, row in state.find(chosen, "filter"):
        masks[number][row] = True
    return [pack(mask) for mask in masks]


def _by_mask(state: State, mask: Mask) -> list[Words | None]:
    if mask.shape != (state.rows,):
        raise ValueError(
            f"filter must be a mask over the {state.rows} rows or a list of ids, "
            f"got booleans of shape {list(mask.shape)}"
        )
    words: list[Words | None] = []
    start = 0
    for segment in state.segments:
        part = segment.mask()
        part[part] = mask[start : start + segment.live]
        start += segment.live
        words.append(pack(part))
    return words
