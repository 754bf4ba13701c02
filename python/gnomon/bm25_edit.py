"""Changing a BM25 index: add, update, delete, merge; for an index on disk commit and rollback.

Every edit makes a new :class:`State` beside the old one and puts it in its place in one step, so
searches of other threads see the index as it was before or after, never between. Segments are never
changed: new documents come as a segment behind the others, deletions are bits beside it, and merges
write new segments. A failed edit leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from .analysis import Analyzer
from .arrays import as_threads
from .bm25_ids import SegmentIds, checked_ids
from .bm25_incoming import incoming, new_ids, require_given, require_known, with_columns
from .bm25_policy import merges
from .bm25_segment import Segment, State, merged
from .bm25_store import Layout
from .bm25_versions import Versions

Missing = Literal["error", "ignore", "add"]


class Editing(Versions):
    """The editing half of :class:`gnomon.BM25Index`."""

    def add(
        self,
        documents: Iterable[Any],
        ids: Iterable[Any] | None = None,
        *,
        columns: Any = None,
    ) -> Any:
        """Adds documents behind those that are there.

        Parameters
        ----------
        documents
            As for :meth:`build`, of the index's kind: texts, token lists or token ids.
        ids
            New ids, of the index's kind. Leave them out when the index numbers its documents
            itself: the next numbers are given, and none is given twice.
        columns
            As for :meth:`build`; columns keep their kinds.

        Returns
        -------
        The ids of the new documents: an int64 array, or a list of str.

        Raises
        ------
        ValueError
            An id that is in the index already; an index on disk that was opened for reading.
        TypeError
            Documents or ids of another kind than the index's.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["red apple"], ids=["a"])
        >>> index.add(["green apple pie"], ids=["b"])
        ['b']
        >>> index.search("apple").ids
        ['a', 'b']
        """
        with self._lock:
            self._require_writable()
            new = incoming(documents, self._state, self._layout, self._analyzer)
            own, layout = new_ids(ids, new.core.n_docs, self._state, self._layout)
            block, layout = with_columns(columns, new.core.n_docs, layout)
            segment = Segment(new.core, own, new.texts, block)
            self._replace(new.state.segments, segment, layout, new.analyzer)
            return own.values()

    def update(
        self,
        documents: Iterable[Any],
        ids: Iterable[Any],
        *,
        columns: Any = None,
        missing: Missing = "error",
    ) -> int:
        """Replaces documents: deletes those with these ids and adds the new ones at the end.

        One step: no search sees the index without either. ``missing="add"`` adds a document whose
        id is not in the index; otherwise that is a KeyError. Returns how many were replaced.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["red apple", "pear"], ids=[7, 9])
        >>> index.update(["green pear"], ids=[9])
        1
        >>> index.search("green").ids
        array([9])
        """
        with self._lock:
            self._require_writable()
            _require_choice(missing, ("error", "add"))
            new = incoming(documents, self._state, self._layout, self._analyzer)
            values = checked_ids(ids, self._layout.kind, new.core.n_docs)
            slots = new.state.find(values)
            if missing == "error":
                require_known(values, slots)
            require_given(values, slots, self._layout)
            own = SegmentIds.of(values, new.core.n_docs)
            block, layout = with_columns(columns, new.core.n_docs, self._layout)
            segments = new.state.without(slots[slots >= 0])
            segment = Segment(new.core, own, new.texts, block)
            self._replace(segments, segment, layout, new.analyzer)
            return int((slots >= 0).sum())

    def delete(self, ids: Iterable[Any], *, missing: Missing = "error") -> int:
        """Deletes the documents with these ids; returns how many.

        An id that is not in the index is a KeyError, unless ``missing="ignore"``. The statistics
        (N, df, avgdl) are those of the remaining documents at once.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["red apple", "pear"])
        >>> index.delete([0]), len(index)
        (1, 1)
        """
        with self._lock:
            self._require_writable()
            _require_choice(missing, ("error", "ignore"))
            values = checked_ids(ids, self._layout.kind, None)
            slots = self._state.find(values)
            if missing == "error":
                require_known(values, slots)
            gone = slots[slots >= 0]
            if gone.size:
                self._replace(self._state.without(gone), None, self._layout, self._analyzer)
            return int(gone.size)

    def merge(self) -> None:
        """Rewrites all segments as one, without the deleted documents.

        Never needed for right answers: it frees the space of deleted documents, and searches of
        one segment are fastest. Merges happen by themselves as well, by a rule that bounds both the
        number of segments and how often a document is rewritten. An index on disk is committed.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["red apple", "pear"])
        >>> _ = index.add(["plum"])
        >>> index.merge()
        >>> index.n_segments
        1
        """
        with self._lock:
            self._require_writable()
            segments = self._state.segments
            if len(segments) == 1 and segments[0].n_dead == 0:
                if self._session is not None:
                    self.commit()  # edits that left one segment
                return
            if self._session is not None:
                self._commit([(0, len(segments))])
            else:
                self._state = State([merged(segments, as_threads(None))])

    # How edits are made

    def _replace(
        self,
        segments: Sequence[Segment],
        new: Segment | None,
        layout: Layout,
        analyzer: Analyzer | None,
    ) -> None:
        """Puts the next state in place, merging segments that are in memory by the policy."""
        every = [*segments, *([new] if new is not None and new.core.n_docs else [])]
        every = [s for s in every if s.n_docs] or every[:1]
        on_disk = sum(s.number is not None for s in every)
        # Segments with files come first; what becomes of them is decided when they are written.
        tail = every[on_disk:] if self._session is not None else every
        head = every[: len(every) - len(tail)]
        done = 0
        out: list[Segment] = []
        for first, last in merges([s.n_docs for s in tail], [s.n_dead for s in tail]):
            out += [*tail[done:first], merged(tail[first:last])]
            done = last
        self._take(State([*head, *out, *tail[done:]]), layout, analyzer)


def _require_choice(missing: str, choices: tuple[str, ...]) -> None:
    if missing not in choices:
        raise ValueError(f"missing must be one of {', '.join(map(repr, choices))}, got {missing!r}")
