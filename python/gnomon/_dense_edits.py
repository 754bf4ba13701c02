"""How vectors, ids and columns of a caller become segments of a dense index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from . import _core
from ._dense_segments import Segment, State
from .arrays import as_float32
from .columns import block_of
from .results import Ids

_SCREEN_SHARE = 0.3  # of the float32 vectors, at most


def matrix(vectors: Any) -> Any:
    """Vectors as float32 [N, D]."""
    rows = as_float32(vectors, "vectors")
    if rows.ndim != 2:
        raise ValueError(f"vectors must be a matrix [N, D], got shape {list(rows.shape)}")
    return rows


def is_ours(rows: np.ndarray[Any, Any], vectors: Any) -> bool:
    """Whether conversion made `rows` anew: only then can nobody go on writing to them.

    Of tensors and of what has ``__array__`` it cannot be known.
    """
    if isinstance(vectors, np.ndarray):
        return not np.may_share_memory(rows, vectors)
    return isinstance(vectors, (list, tuple))


def within(budget: int, rows: Any, copy: bool, screen: str) -> str:
    """The screen that fits the budget."""
    own = rows.nbytes if copy else 0
    if own > budget:
        raise ValueError(
            f"memory_budget is {budget} bytes, but the vectors take {own} as float32; raise it, "
            "pass copy=False over memory-mapped float32, write the index as a stream "
            "(DenseIndex.build_to), or search in one (gnomon.stream_topk)"
        )
    return screen if own + _SCREEN_SHARE * rows.nbytes <= budget else "none"


def listed(ids: Iterable[Any]) -> list[Any]:
    """Ids of an edit as a list."""
    if isinstance(ids, (str, bytes)):
        raise TypeError("ids is one text; pass a list of ids")
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)


def built(
    rows: Any,
    ids: Iterable[Any] | None,
    metric: str,
    on_zero: str,
    screen: str,
    threads: int,
    columns: Any,
    column_kinds: Mapping[str, str] | None,
) -> State:
    """The state of a new index over these rows, which nobody else writes to."""
    table = Ids.of(ids, rows.shape[0])
    block, kinds = block_of(columns, rows.shape[0], column_kinds or {})
    core = _core.DenseIndex(rows, metric, on_zero, screen, threads)
    kind = "position" if ids is None else table.kind
    return State(
        (Segment(core, table, columns=block),),
        kind,
        rows.shape[0],
        rows.shape[1],
        core.metric,
        screen,
        tuple(kinds.items()),
    )


def added(
    state: State,
    vectors: Any,
    ids: Iterable[Any] | None,
    on_zero: str,
    columns: Any = None,
    numbered: bool = False,
) -> State:
    """The state with new rows behind the others. `numbered`: ids it gave itself may come back."""
    rows = matrix(vectors)
    if rows.shape[1] != state.dim:
        raise ValueError(f"vectors must be [n, {state.dim}], got shape {list(rows.shape)}")
    if state.kind == "position":
        if ids is not None and not numbered:
            raise TypeError("this index numbers its rows itself; add() takes no ids here")
        if ids is None:
            ids = range(state.counter, state.counter + rows.shape[0])
    elif ids is None:
        raise TypeError(f"this index has ids of kind {state.kind!r}; pass one for each row")
    table = Ids.of(ids, rows.shape[0])
    wanted = "int" if state.kind == "position" else state.kind
    if rows.shape[0] > 0 and state.rows > 0 and table.kind != wanted:
        raise TypeError(f"ids must be {wanted}, as those of the index are, got {table.kind}")
    taken = table.take(np.arange(rows.shape[0]))
    for value in taken if isinstance(taken, list) else taken.tolist():
        if value in state.places:
            raise ValueError(f"id {value!r} is in the index already; use update()")
    block, kinds = block_of(columns, rows.shape[0], dict(state.kinds))
    if not is_ours(rows, vectors):
        rows = rows.copy()
    core = _core.DenseIndex(rows, state.metric, on_zero, state.screen)
    kind = state.kind
    if state.rows == 0 and kind != "position" and rows.shape[0] > 0:
        kind = table.kind
    new = state.with_rows(Segment(core, table, columns=block))
    counter = state.counter if numbered else new.counter
    return replace(new, kind=kind, counter=counter, kinds=tuple(kinds.items()))
