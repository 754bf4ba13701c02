"""Changing a BM25 index: add, update, delete, merge; for an index on disk commit and rollback.

Every edit makes a new :class:`State` beside the old one and puts it in its place in one step, so
searches of other threads see the index as it was before or after, never between. Segments are never
changed: new documents come as a segment behind the others, deletions are bits beside it, and merges
write new segments. A failed edit leaves everything as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from . import _core
from .analysis import Analyzer
from .arrays import as_threads
from .bm25_build import Plan, build
from .bm25_formula import Formula
from .bm25_ids import SegmentIds, checked_ids
from .bm25_policy import merges
from .bm25_searcher import Searcher
from .bm25_segment import Segment, State, merged
from .bm25_session import Session
from .bm25_store import Layout, keep_segment, read_state, segment_meta, write_segment
from .columns import ColumnBlock, block_of
from .results import Int64Array

Missing = Literal["error", "ignore", "add"]


class View(NamedTuple):
    """What one search looks at."""

    state: State
    searcher: Searcher


class _Incoming(NamedTuple):
    """New documents, and the index as it is when they fit: nothing of it is in place yet."""

    core: _core.Bm25Index
    texts: Any
    state: State
    analyzer: Analyzer | None


_Committed: TypeAlias = tuple[State, Layout, Analyzer | None]


class Editing:
    """The editing half of :class:`gnomon.BM25Index`."""

    def __init__(
        self,
        state: State,
        layout: Layout,
        analyzer: Analyzer | None,
        formula: Formula,
        session: Session | None = None,
    ):
        self._layout = layout
        self._analyzer = analyzer
        self._formula = formula
        self._session = session  # of an index on disk; None for one in memory
        # What the disk holds.
        self._committed: _Committed | None = None if session is None else (state, layout, analyzer)
        self._saved: tuple[str, State] | None = None  # where an index in memory lies as well
        self._lock = threading.RLock()
        self._state = state

    @property
    def _state(self) -> State:
        return self._view.state

    @_state.setter
    def _state(self, state: State) -> None:
        analyze = None if self._analyzer is None else self._analyzer.query_tokens
        self._view = View(state, Searcher(state.core, self._formula, analyze))

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
            new = self._incoming(documents)
            own, layout = self._new_ids(ids, new.core.n_docs)
            block, layout = _with_columns(columns, new.core.n_docs, layout)
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
            new = self._incoming(documents)
            values = checked_ids(ids, self._layout.kind, new.core.n_docs)
            slots = new.state.find(values)
            if missing == "error":
                _require_known(values, slots)
            self._require_given(values, slots)
            own = SegmentIds.of(values, new.core.n_docs)
            block, layout = _with_columns(columns, new.core.n_docs, self._layout)
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
                _require_known(values, slots)
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
                return
            if self._session is not None:
                self._commit([(0, len(segments))])
            else:
                self._state = State([merged(segments, as_threads(None))])

    def commit(self) -> int:
        """Makes all edits since the last commit the state on disk, atomically; its generation.

        When it returns, the state is on the disk. Until then readers see the one before, also if
        this process is killed at any moment or the disk is full (OSError: the edits stay here, and
        commit() may be tried again). Without edits nothing is written.

        Raises
        ------
        ValueError
            An index in memory (use :meth:`save`), or one opened for reading.
        """
        with self._lock:
            self._require_writable()
            if self._session is None:
                raise ValueError(
                    "commit() is for an index on disk; save(path), then "
                    "BM25Index.open(path, mode='w')"
                )
            if self._committed is not None and self._state is not self._committed[0]:
                segments = self._state.segments
                self._commit(merges([s.n_docs for s in segments], [s.n_dead for s in segments]))
            return self._session.generation

    def rollback(self) -> None:
        """Drops all edits since the last commit. For an index on disk, opened for writing."""
        with self._lock:
            self._require_writable()
            if self._committed is None:
                raise ValueError("rollback() is for an index on disk; this one is in memory")
            self._take(*self._committed)

    def refresh(self) -> bool:
        """Goes to the newest committed state; says whether there was a newer one.

        For an index opened for reading. Until then it keeps the state that it opened, whatever a
        writer does meanwhile.
        """
        with self._lock:
            if self._session is None or self._session.writing:
                raise ValueError("refresh() is for an index on disk that was opened for reading")
            directory = self._session.reopen()
            if directory is None:
                return False
            meta = directory.meta("bm25")
            formula, analyzer = self._settings_of(meta)
            layout = Layout.of_meta(meta)
            state = read_state(directory, layout, meta.get("segments"), self._state)
            self._formula = formula
            self._take(state, layout, analyzer)
            self._committed = (state, layout, analyzer)
            self._session.generation = directory.generation
            return True

    def close(self) -> None:
        """Drops edits that were not committed and lets the next writer in. Searches still work."""
        with self._lock:
            if self._session is not None:
                self._session.close()
                if self._committed is not None:
                    self._take(*self._committed)

    @property
    def n_segments(self) -> int:
        """How many segments a search goes through."""
        return len(self._state.segments)

    @property
    def generation(self) -> int | None:
        """Of the state on disk that this index was opened with or committed last; else None."""
        return None if self._session is None else self._session.generation

    @property
    def ids(self) -> Any:
        """All ids in order of insertion: an int64 array, or a list of str."""
        return self._state.live_ids()

    # How edits are made

    def _settings_of(self, meta: dict[str, Any]) -> tuple[Formula, Analyzer | None]:
        """The formula and the analyzer of a manifest. BM25Index has it."""
        raise NotImplementedError

    def _settings_meta(self) -> dict[str, Any]:
        """The manifest's entries of k1, b and the analyzer. BM25Index has it."""
        raise NotImplementedError

    def _require_writable(self) -> None:
        if self._session is not None:
            self._session.require_writing()

    def _take(self, state: State, layout: Layout, analyzer: Analyzer | None) -> None:
        self._analyzer = analyzer
        self._state = state
        self._layout = layout

    def _incoming(self, documents: Iterable[Any]) -> _Incoming:
        """A segment of new documents, of the same kind as those that are there."""
        layout = self._layout
        plan = Plan.of(
            layout.fields or None, layout.store_text, None, None, positions=layout.positions
        )
        built = build(documents, self._analyzer, plan)
        known = self._state.core.n_docs or self._analyzer is not None
        if known and built.analyzer is not self._analyzer:
            raise TypeError(
                "documents are texts, but this index was built without an analyzer; pass lists "
                "of tokens or ids as it was built with"
            )
        core, state = built.core, self._state
        if core.has_vocabulary != state.core.has_vocabulary:
            core, state = self._of_one_kind(core, state)
        return _Incoming(core, built.texts, state, built.analyzer)

    @staticmethod
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

    def _new_ids(self, ids: Iterable[Any] | None, n: int) -> tuple[SegmentIds, Layout]:
        """Ids of documents to add, and the layout with which they go together."""
        layout = self._layout
        if ids is None:
            if layout.kind != "position" and (n or self._state.core.n_slots):
                raise TypeError(f"ids is missing; this index has ids of the caller ({layout.kind})")
            own = SegmentIds(n, first=layout.next_id)
            return own, replace(layout, next_id=layout.next_id + n)
        if layout.next_id and layout.kind == "position":
            raise TypeError("this index numbers its documents itself; leave ids out")
        if self._state.core.n_slots == 0:  # nothing is in it yet: any kind of ids will do
            own = SegmentIds.of(ids, n)
            return own, replace(layout, kind=own.kind) if n else layout
        values = checked_ids(ids, layout.kind, n)
        slots = self._state.find(values)
        if (slots >= 0).any():
            place = int(np.flatnonzero(slots >= 0)[0])
            raise ValueError(
                f"ids[{place}] is in the index already: {values[place]!r}; "
                "use update() to replace the document"
            )
        return SegmentIds.of(values, n), layout

    def _require_given(self, values: Sequence[Any], slots: Int64Array) -> None:
        """An index that numbers its documents itself knows each id that it may be asked to add."""
        if self._layout.kind == "position" and (slots < 0).any():
            place = int(np.flatnonzero(slots < 0)[0])
            raise ValueError(
                f"ids[{place}] is {values[place]!r}, but this index numbers new documents itself; "
                "use add() without ids"
            )

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

    def _commit(self, groups: list[tuple[int, int]]) -> None:
        """Writes the state to the disk, each range of segments in `groups` as one."""
        session = self._session
        assert session is not None
        segments = self._state.segments
        number = self._layout.next_number
        entries: list[dict[str, Any]] = []
        with session.writer() as writer:
            place = 0
            for first, last in [*groups, (len(segments), len(segments))]:
                for segment in segments[place:first]:
                    if segment.number is not None:
                        entries.append(keep_segment(writer, segment))
                        continue
                    write_segment(writer, [segment], number)
                    entries.append(segment_meta([segment], number))
                    number += 1
                if first < last:
                    write_segment(writer, segments[first:last], number)
                    entries.append(segment_meta(segments[first:last], number))
                    number += 1
                place = last
            layout = replace(self._layout, next_number=number)
            writer.commit(
                {"bm25": {**self._settings_meta(), **layout.to_meta(), "segments": entries}}
            )
        directory = session.committed()
        self._state = read_state(directory, layout, entries, self._state)
        self._layout = layout
        self._committed = (self._state, layout, self._analyzer)


def _require_choice(missing: str, choices: tuple[str, ...]) -> None:
    if missing not in choices:
        raise ValueError(f"missing must be one of {', '.join(map(repr, choices))}, got {missing!r}")


def _require_known(values: Sequence[Any], slots: Int64Array) -> None:
    if (slots < 0).any():
        place = int(np.flatnonzero(slots < 0)[0])
        raise KeyError(f"ids[{place}] is not in the index: {values[place]!r}")


def _with_columns(values: Any, n: int, layout: Layout) -> tuple[ColumnBlock | None, Layout]:
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
