"""The states of a BM25 index: what searches see, what the disk holds, the steps between them."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from .analysis import Analyzer
from .arrays import as_count
from .bm25_formula import SCREEN_BYTES, Formula
from .bm25_policy import merges
from .bm25_searcher import Searcher
from .bm25_segment import State
from .bm25_session import Session
from .bm25_store import Layout, keep_segment, read_state, segment_meta, write_segment


class View(NamedTuple):
    """What one search looks at."""

    state: State
    searcher: Searcher


_Committed: TypeAlias = tuple[State, Layout, Analyzer | None]


class Versions:
    """The base of :class:`gnomon.BM25Index`: its state, and commit, rollback and refresh."""

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
        self._screen_bytes = SCREEN_BYTES
        self._state = state

    @property
    def _state(self) -> State:
        return self._view.state

    @_state.setter
    def _state(self, state: State) -> None:
        analyze = None if self._analyzer is None else self._analyzer.query_tokens
        searcher = Searcher(state.core, self._formula, analyze, self._screen_bytes)
        self._view = View(state, searcher)

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
    def screen_memory(self) -> int:
        """Bytes that may be kept for what searches prepare of a term on its first use; settable.

        About 4 bytes a posting of the terms that were asked for, and 1 to 5 bytes a document for
        each very frequent one; 1 GiB unless set. Beyond it the terms that were longest unused are
        dropped and made anew when they come again; 0 prepares nothing, which is slower. Of this
        process alone: it is not stored. Each other formula or parameter that a search names has
        as much of its own.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["red apple", "pear"])
        >>> index.screen_memory = 64 << 20
        >>> index.search("red").ids
        array([0])
        """
        return self._screen_bytes

    @screen_memory.setter
    def screen_memory(self, limit: int) -> None:
        with self._lock:
            self._screen_bytes = min(as_count(limit, "screen_memory"), 2**62)
            self._state = self._view.state

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

    # How it is done

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

    def _commit(self, groups: list[tuple[int, int]]) -> None:
        """Writes the state to the disk, each range of segments in `groups` as one."""
        session = self._session
        assert session is not None
        segments = self._state.segments
        number, packed = self._layout.next_number, self._layout.packed
        entries: list[dict[str, Any]] = []
        with session.writer() as writer:
            place = 0
            for first, last in [*groups, (len(segments), len(segments))]:
                for segment in segments[place:first]:
                    if segment.number is not None:
                        entries.append(keep_segment(writer, segment))
                        continue
                    write_segment(writer, [segment], number, packed)
                    entries.append(segment_meta([segment], number))
                    number += 1
                if first < last:
                    write_segment(writer, segments[first:last], number, packed)
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
