"""New documents of a BM25 index, checked against what it holds before anything of it changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from . import _core
from .analysis import Analyzer
from .bm25_build import Plan, build
from .bm25_ids import SegmentIds, checked_ids
from .bm25_segment import State
from .bm25_store import Layout
from .columns import ColumnBlock, block_of
from .results import Int64Array


class Incoming(NamedTuple):
    """New documents, and the index as it is when they fit: nothing of it is in place yet."""

    core: _core.Bm25Index
    texts: Any
    state: State
    analyzer: Analyzer | None


def incoming(
    documents: Iterable[Any], state: State, layout: Layout, analyzer: Analyzer | None
) -> Incoming:
    """A segment of new documents, of the same kind as those that are there."""
    plan = Plan.of(layout.fields or None, layout.store_text, None, None, positions=layout.positions)
    built = build(documents, analyzer, plan)
    known = state.core.n_docs or analyzer is not None
    if known and built.analyzer is not analyzer:
        raise TypeError(
            "documents are texts, but this index was built without an analyzer; pass lists "
            "of tokens or ids as it was built with"
        )
    core = built.core
    if core.has_vocabulary != state.core.has_vocabulary:
        core, state = _of_one_kind(core, state)
    return Incoming(core, built.texts, state, built.analyzer)


def _of_one_kind(core: _core.Bm25Index, state: State) -> tuple[_core.Bm25Index, State]:
    """Without tokens both kinds are the same. Raises TypeError where there are tokens."""
    if core.n_terms == 0:
        return _without_tokens(core, state.core.has_vocabulary), state
    if all(segment.core.n_terms == 0 for segment in state.segments):
        kind = core.has_vocabulary
        return core, State(
            [
                replace(segment, core=_without_tokens(segment.core, kind), number=None)
                for segment in state.segments
            ]
        )
    kinds = ("tokens", "token ids") if core.has_vocabulary else ("token ids", "tokens")
    raise TypeError(f"documents are made of {kinds[0]}, but this index of {kinds[1]}")


def new_ids(
    ids: Iterable[Any] | None, n: int, state: State, layout: Layout
) -> tuple[SegmentIds, Layout]:
    """Ids of documents to add, and the layout with which they go together."""
    if ids is None:
        if layout.kind != "position" and (n or state.core.n_slots):
            raise TypeError(f"ids is missing; this index has ids of the caller ({layout.kind})")
        own = SegmentIds(n, first=layout.next_id)
        return own, replace(layout, next_id=layout.next_id + n)
    if layout.next_id and layout.kind == "position":
        raise TypeError("this index numbers its documents itself; leave ids out")
    if state.core.n_slots == 0:  # nothing is in it yet: any kind of ids will do
        own = SegmentIds.of(ids, n)
        return own, replace(layout, kind=own.kind) if n else layout
    values = checked_ids(ids, layout.kind, n)
    slots = state.find(values)
    if (slots >= 0).any():
        place = int(np.flatnonzero(slots >= 0)[0])
        raise ValueError(
            f"ids[{place}] is in the index already: {values[place]!r}; "
            "use update() to replace the document"
        )
    return SegmentIds.of(values, n), layout


def require_given(values: Sequence[Any], slots: Int64Array, layout: Layout) -> None:
    """An index that numbers its documents itself knows each id that it may be asked to add."""
    if layout.kind == "position" and (slots < 0).any():
        place = int(np.flatnonzero(slots < 0)[0])
        raise ValueError(
            f"ids[{place}] is {values[place]!r}, but this index numbers new documents itself; "
            "use add() without ids"
        )


def require_known(values: Sequence[Any], slots: Int64Array) -> None:
    if (slots < 0).any():
        place = int(np.flatnonzero(slots < 0)[0])
        raise KeyError(f"ids[{place}] is not in the index: {values[place]!r}")


def with_columns(values: Any, n: int, layout: Layout) -> tuple[ColumnBlock | None, Layout]:
    """The columns of n new documents, and the layout that knows of them."""
    block, kinds = block_of(values, n, dict(layout.columns))
    return block, replace(layout, columns=tuple(kinds.items()))


def _without_tokens(core: _core.Bm25Index, with_vocabulary: bool) -> _core.Bm25Index:
    """The same documents, all of them empty, as a segment of the other kind."""
    builder = _core.Bm25Builder(
        with_vocabulary=with_vocabulary,
        n_fields=core.n_fields,
        with_positions=core.has_positions,
    )
    parts = core.n_docs * core.n_fields
    builder.add_ids(np.zeros(0, dtype=np.uint32), np.zeros(parts + 1, dtype=np.int64))
    return builder.finish()
