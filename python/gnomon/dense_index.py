"""DenseIndex: vectors ready for exact search, edited in place, saved and mapped."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from . import _core, _dense_build, _dense_search, _dense_storage, cuda_dense
from ._dense_edits import added, built, is_ours, listed, matrix, within
from ._dense_filters import allowed
from ._dense_search import Request
from ._dense_segments import State
from .arrays import as_count, as_float32, as_threads
from .device import as_matrix, is_on_device, place_of
from .results import Hits

_NO_LEAST = -np.inf
_HIT_BYTES = 96  # of one wanted row of one query while a search runs, about


class DenseIndex:
    """Vectors ready for exact search; build once, edit, save, load by memory map.

    Make one with :meth:`build` or :meth:`load`. Searches are safe from several threads at once,
    beside one that edits: a search sees the index as it was when it began.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> index = gnomon.DenseIndex.build(np.eye(3, dtype=np.float32), ids=["x", "y", "z"])
    >>> hits = index.search([0.0, 1.0, 0.0], k=1)
    >>> hits.ids, hits.scores
    (['y'], array([1.]))
    """

    def __init__(self, state: State):
        self._state = state
        self._edits = threading.Lock()

    @classmethod
    def build(
        cls,
        vectors: Any,
        ids: Iterable[Any] | None = None,
        metric: str = "cosine",
        *,
        on_zero: str = "zero",
        screen: str = "auto",
        copy: bool = True,
        columns: Any = None,
        column_kinds: Mapping[str, str] | None = None,
        memory_budget: int | None = None,
        threads: int | None = None,
    ) -> DenseIndex:
        """An index over [N, D] real numbers, taken as float32 (see :func:`cosine_topk`).

        Parameters
        ----------
        vectors
            [N, D] numpy array, torch tensor, anything with DLPack, or nested lists; float16,
            bfloat16, float32, float64 or integers.
        ids
            N unique str or N unique int. When not given, rows are numbered from 0 on; the numbers
            of removed rows are not used again.
        metric
            ``"cosine"``, ``"ip"`` (inner product) or ``"l2"``: the negative squared Euclidean
            distance, so that a higher score is better with every metric.
        on_zero
            ``"error"`` refuses zero vectors under cosine, naming the row; ``"zero"`` scores them 0.
        screen
            ``"auto"`` adds an int8 screen where it pays (a quarter of the vectors' memory), turned
            so that single queries read a part of it where that pays; ``"int8"`` insists on a plain
            one, ``"head"`` on a turned one, ``"none"`` and ``"float32"`` do without. No answer
            depends on it.
        copy
            False keeps float32 memory of the caller as it lies; it must not be written to while
            the index lives.
        columns
            Values to filter by: a mapping from column to N values, or a list of N mappings from
            column to value. A value is a str or a list of str (keyword), an int, a float, a date or
            datetime, or None where a row has none.
        column_kinds
            Declares columns: "keyword", "integer", "float" or "date". A column that is not declared
            has the kind of its first value.
        memory_budget
            In bytes, for vectors that are copied and the screen: a screen that does not fit is left
            out; ValueError when the vectors alone do not.
        threads
            For the pass over the vectors.

        Raises
        ------
        ValueError
            Wrong shape, NaN or infinity (naming the row), ids that repeat or do not fit, columns
            of another length.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 2.0], [3.0, 4.0]], metric="l2")
        >>> index.search([1.0, 2.0], k=2).scores
        array([ 0., -8.])
        """
        rows = matrix(vectors)
        if memory_budget is not None:
            screen = within(as_count(memory_budget, "memory_budget"), rows, copy, screen)
        if copy and not is_ours(rows, vectors):
            rows = rows.copy()
        count = as_threads(threads)
        return cls(built(rows, ids, metric, on_zero, screen, count, columns, column_kinds))

    @classmethod
    def build_to(
        cls,
        path: str | os.PathLike[str],
        vectors: Any,
        ids: Iterable[Any] | None = None,
        metric: str = "cosine",
        *,
        on_zero: str = "zero",
        screen: str = "auto",
        columns: Any = None,
        column_kinds: Mapping[str, str] | None = None,
        memory_budget: int = 1 << 30,
        progress: Callable[[int], None] | None = None,
        threads: int | None = None,
    ) -> DenseIndex:
        """Writes an index of more vectors than fit in memory, and opens it by memory map.

        The vectors are taken block by block; each block is a segment of the index, so a greater
        `memory_budget` makes faster searches. The directory is there completely or as it was
        before. Arguments not named here are those of :meth:`build`.

        Parameters
        ----------
        path
            The directory, as for :meth:`save`.
        vectors
            The path of an .npy file, which is mapped; anything that slices by rows into arrays
            (``numpy.memmap``, an HDF5 data set); or an iterable of blocks [n, D].
        ids
            One for each vector, or an iterator of them.
        columns
            As for :meth:`build`, for all vectors.
        memory_budget
            In bytes, for a block and what is made of it (1 GiB).
        progress
            Called with the vectors written so far after each block; an exception from it ends
            the build.

        Examples
        --------
        >>> import tempfile
        >>> import gnomon
        >>> folder = tempfile.mkdtemp() + "/vectors"
        >>> blocks = ([[float(i), 1.0]] for i in range(3))
        >>> index = gnomon.DenseIndex.build_to(folder, blocks, metric="ip")
        >>> index.search([1.0, 0.0], k=1).ids
        array([2])
        """
        _dense_build.build_to(
            path,
            vectors,
            ids,
            metric,
            on_zero,
            screen,
            columns,
            column_kinds,
            as_count(memory_budget, "memory_budget", 1),
            progress,
            as_threads(threads),
        )
        return cls.load(path)

    def search(
        self,
        queries: Any,
        k: int | None = 10,
        *,
        min_score: float | None = None,
        filter: Any = None,
        on_zero: str = "zero",
        screen: str = "auto",
        stats: dict[str, float] | None = None,
        memory_budget: int | None = None,
        device: Any = None,
        max_workspace_bytes: int | None = None,
        threads: int | None = None,
        level: str | None = None,
    ) -> Any:
        """The k best rows for one query [D] or for each of a batch [Q, D].

        Parameters
        ----------
        queries
            [D] or [Q, D].
        k
            How many rows; None for all.
        min_score
            Only rows that score at least this much. Queries may then have fewer than k hits.
        filter
            Only these rows: a condition on columns (``gnomon.field("year") >= 2020``, any
            :class:`gnomon.Filter`, or its JSON form as a dict), a boolean mask over the index's
            rows in order, or a list of ids.
        on_zero
            ``"error"`` refuses zero queries under cosine.
        screen
            How, never what: ``"int8"`` and ``"head"`` by the codes of the index, ``"float32"`` by
            float32 dots of the vectors, ``"none"`` by float64 dots of all; ``"auto"`` by what took
            the least time in searches like this one where that is not plain beforehand.
        stats
            A dict that is filled with what the search did, summed over the queries: rows
            ``screened`` in integers, ``candidates`` left, rows ``settled`` in float64, queries
            scanned ``plain``, queries by ``heads``; ``slack`` is the greatest distance between a
            candidate's bounds and their middle.
        memory_budget
            In bytes, for what a search holds beside the index: queries are taken in parts that fit.
        device
            ``"cuda"`` or ``"cuda:N"``: search on a GPU (:func:`gnomon.devices`). The index's rows
            and their codes stay there once they were searched; rows that do not fit are streamed
            in each search. Queries on the GPU are read where they lie, by DLPack.
        max_workspace_bytes
            Of the GPU's memory, beside the rows that stay there; 256 MiB when not given.
        threads, level
            How to compute on the CPU; the answer depends on none of these.

        Returns
        -------
        Hits
            ``scores`` float64 [k'] or [Q, k'], best first, ties to the row that was given first;
            ``ids`` of the same shape; k' = min(k, rows that the filter allows). For a batch with
            `min_score` a list of Hits, one for each query.

        Raises
        ------
        ValueError
            Shapes that do not fit, k < 0, a query that is not finite, a mask of another length, a
            condition on a column that the index does not have.
        KeyError
            An id in `filter` that the index does not hold.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> index.search([[1.0, 0.0], [0.0, 5.0]], k=1).ids
        array([[0],
               [1]])
        >>> index.search([1.0, 0.0], k=None, min_score=0.5).ids
        array([0, 2])
        >>> index.search([1.0, 0.0], k=1, filter=[1, 2]).ids
        array([2])
        >>> index = gnomon.DenseIndex.build([[1.0], [2.0]], columns={"year": [1999, 2020]})
        >>> index.search([1.0], filter=gnomon.field("year") >= 2000).ids
        array([1])
        """
        state = self._state
        place = place_of(device)
        there = place is not None and is_on_device(queries, place)
        wanted = queries if there else as_float32(queries, "queries")
        shape = tuple(wanted.shape)  # what DLPack hands over may know nothing else
        if len(shape) not in (1, 2) or shape[-1] != state.dim:
            raise ValueError(
                f"queries must be [D] or [Q, D] with D = {state.dim}, got shape {list(shape)}"
            )
        best = state.rows if k is None else min(as_count(k, "k"), state.rows)
        single = len(shape) == 1
        batch, n = (wanted[None], 1) if single else (wanted, shape[0])
        workers = as_threads(threads)
        plain = place is None and min_score is None and memory_budget is None
        if plain and len(state.segments) == 1 and n:
            segment = state.segments[0]  # most searches: nothing to merge, nothing to divide
            words = segment.alive if filter is None else allowed(state, filter)[0]
            rows, scores, _, did = segment.core.search(
                batch, best, on_zero, screen, workers, level or "", _NO_LEAST, words
            )
            if stats is not None:
                stats.update(did)
            if not single:
                rows, scores = rows.reshape(n, -1), scores.reshape(n, -1)
            return Hits(segment.ids.take(rows), scores)
        request = Request(best, on_zero, screen, workers, level or "", _score(min_score))
        bitmaps = allowed(state, filter)
        if n == 0 or place is not None:  # words that have no use are checked all the same
            nothing = np.zeros((0, state.dim), np.float32)
            _dense_search.search(state, nothing, request, bitmaps)
            request.stats.clear()
        if n == 0:
            width = min(best, state.count(bitmaps))
            empty = Hits(
                [] if state.kind == "str" else np.zeros((0, width), np.int64), np.zeros((0, width))
            )
            return [] if min_score is not None else empty
        part = n
        if memory_budget is not None:
            each = max(1, best * _HIT_BYTES + 12 * state.dim)
            part = max(1, as_count(memory_budget, "memory_budget") // each)
        lists: list[Hits] = []
        for piece in _dense_search.parts_of(n, part):
            queries_here, count = batch[piece], piece.stop - piece.start
            if place is None:
                found = _dense_search.search(state, queries_here, request, bitmaps)
            else:
                here = as_matrix(queries_here, "queries", place)
                found = cuda_dense.search(state, here, request, bitmaps, place, max_workspace_bytes)
            if single or min_score is not None:
                lists += _dense_search.merged(state, found, count, request)
            else:
                lists.append(_dense_search.as_batch(state, found, count, request))
        if stats is not None:
            stats.update(request.stats)
        if single:
            return lists[0]
        return lists if min_score is not None else _dense_search.joined(lists)

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

    def shard(self, i: int, n: int) -> DenseIndex:
        """The i-th of n parts of the rows, in order, under their ids: an index of its own.

        For a search that is spread over processes or devices; :func:`gnomon.merge_topk` makes the
        answers of all parts the answer of the whole index, bit for bit. ValueError unless
        0 <= i < n.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.DenseIndex.build([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> index.shard(1, 2).ids
        [1, 2]
        """
        parts = as_count(n, "n", 1)
        if not 0 <= as_count(i, "i") < parts:
            raise ValueError(f"i must be from 0 to n - 1 = {parts - 1}, got {i}")
        state = self._state
        mask = np.zeros(state.rows, np.bool_)
        mask[state.rows * i // parts : state.rows * (i + 1) // parts] = True
        rows: list[Any] = []
        ids: list[Any] = []
        at = 0
        for segment in state.segments:
            alive = segment.mask()
            chosen = np.flatnonzero(alive)[mask[at : at + segment.live]]
            at += segment.live
            rows.append(segment.core.vectors[chosen])
            taken = segment.ids.take(chosen)
            ids += taken if isinstance(taken, list) else taken.tolist()
        return DenseIndex.build(
            np.concatenate(rows), ids, state.metric, screen=state.screen, copy=False
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a directory, atomically: it is there completely, or as it was before.

        Segments that the directory holds already, from a save or load of this index, are kept and
        not written again. Raises FileExistsError when the path holds something that is no index.

        Examples
        --------
        >>> import tempfile
        >>> import gnomon
        >>> folder = tempfile.mkdtemp() + "/vectors"
        >>> gnomon.DenseIndex.build([[1.0, 0.0], [0.0, 1.0]]).save(folder)
        >>> len(gnomon.DenseIndex.load(folder))
        2
        """
        with self._edits:
            self._state = _dense_storage.save(self._state, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DenseIndex:
        """Opens a saved index by memory map.

        Raises FileNotFoundError, or :class:`gnomon.CorruptIndex` when what is there is not a whole
        dense index. Damage inside the vectors is found when they are first read.
        """
        return cls(_dense_storage.load(path))

    def verify(self) -> None:
        """Reads and checks everything. Raises :class:`gnomon.CorruptIndex` naming the damage."""
        state = self._state
        for segment in state.segments:
            segment.core.verify()
            segment.ids.verify()
        if len(state.places) != state.rows:
            raise _core.CorruptIndex("ids: not unique over the segments; build the index again")


def _score(min_score: float | None) -> float | None:
    if min_score is None:
        return None
    if isinstance(min_score, bool) or not isinstance(min_score, (int, float, np.number)):
        raise TypeError(f"min_score must be a number, got a {type(min_score).__name__}")
    if np.isnan(min_score):
        raise ValueError("min_score must be a number, got NaN")
    return float(min_score)
