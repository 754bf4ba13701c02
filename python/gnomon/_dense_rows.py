"""The rows that a dense index holds: how many, under which ids, and edits in place."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from ._dense_edits import added, listed
from ._dense_segments import State


class DenseRows:
    """What :class:`gnomon.DenseIndex` is apart from searching and files."""

    def __init__(self, state: State):
        self._state = state
        self._edits = threading.Lock()

    def __len__(self) -> int:
        """How many vectors the index holds."""
        return self._state.rows

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self._state.dim

    @property
    def ids(self) -> list[Any]:
        """The ids of the rows, in order."""
        return [value for segment in self._state.segments for value in segment.live_ids()]

    @property
    def columns(self) -> dict[str, str]:
        """Name and kind of each column that filters may ask about."""
        return dict(self._state.kinds)

    @property
    def segments(self) -> int:
        """How many segments a search goes through."""
        return len(self._state.segments)

    @property
    def screen_bytes(self) -> int:
        """Memory of the int8 screens in bytes; 0 without one."""
        return sum(segment.core.screen_bytes for segment in self._state.segments)

    @property
    def metric(self) -> str:
        """``"cosine"``, ``"ip"`` or ``"l2"``."""
        return self._state.metric

    def add(
        self,
        vectors: Any,
        ids: Iterable[Any] | None = None,
        *,
        on_zero: str = "zero",
        columns: Any = None,
    ) -> None:
        """Adds rows [n, D] behind the others, with new ids of the index's kind.

        `columns` as for :meth:`build`; columns keep their kinds, and a new one is empty before.
        An index that numbers its rows itself takes no ids and goes on numbering. ValueError for
        ids that are there already, TypeError for those of another kind; the index then stays as it
        was, as after every error.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 0.0]], ids=["a"])
        >>> index.add([[0.0, 1.0]], ids=["b"])
        >>> index.search([0.0, 1.0], k=2).ids
        ['b', 'a']
        """
        with self._edits:
            self._state = added(self._state, vectors, ids, on_zero, columns)

    def update(
        self, vectors: Any, ids: Iterable[Any], *, on_zero: str = "zero", columns: Any = None
    ) -> None:
        """Replaces the rows of these ids; they then stand behind the others. KeyError: no such id.

        Their values in `columns` are replaced too: a column that is not given is empty for them.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 0.0], [0.0, 1.0]], ids=["a", "b"])
        >>> index.update([[0.0, 2.0]], ids=["a"])
        >>> index.search([0.0, 1.0], k=2).ids
        ['b', 'a']
        """
        with self._edits:
            state = self._state
            values = listed(ids)
            if len(set(values)) != len(values):
                raise ValueError("ids of an update are unique; merge the rows that repeat")
            rest = state.without_rows(state.find(values, "ids"))
            self._state = added(rest, vectors, values, on_zero, columns, numbered=True)

    def remove(self, ids: Iterable[Any]) -> None:
        """Removes the rows of these ids; KeyError names the first that is not there.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 0.0], [0.0, 1.0]], ids=["a", "b"])
        >>> index.remove(["b"])
        >>> len(index)
        1
        """
        with self._edits:
            state = self._state
            self._state = state.without_rows(state.find(listed(ids), "ids"))

    def merge(self) -> None:
        """Rewrites all live rows as one segment. Answers stay; searches of many segments speed up.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 0.0], [0.0, 1.0]])
        >>> index.remove([0])
        >>> index.merge()
        >>> index.search([1.0, 0.0]).ids
        array([1])
        """
        with self._edits:
            self._state = self._state.merged()
