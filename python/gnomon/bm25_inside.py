"""A BM25 index by slots, for gnomon's own modules: the one door to what the class keeps to itself.

A slot is a document's place over all segments, deleted documents included; it changes with merges,
so slots never leave the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from . import _core
from .bm25_explain import _name as part_name
from .bm25_formula import Formula
from .bm25_highlight import Ranges
from .bm25_query import Query
from .bm25_querying import Querying
from .bm25_searcher import Searcher
from .bm25_segment import State
from .bm25_store import Layout

if TYPE_CHECKING:
    from .bm25 import BM25Index

__all__ = ["Inside", "inside", "part_name"]


class Inside(NamedTuple):
    """One state of an index and what answers over it; both stay what they are under later edits."""

    state: State
    searcher: Searcher
    layout: Layout
    formula: Formula
    plan: Callable[[Query], _core.QueryNode]
    """The core's tree of a query object."""

    @staticmethod
    def ranges(node: _core.QueryNode, core: _core.Bm25Snapshot, slot: int, field: int) -> Ranges:
        """Token positions of one field at which the positive parts of a tree stand."""
        return Querying._ranges(node, core, slot, field)


def inside(index: BM25Index) -> Inside:
    """The state of an index at this moment."""
    state, searcher = index._view
    return Inside(
        state,
        searcher,
        index._layout,
        index._formula,
        lambda query: index._planner(state).plan(query),
    )
