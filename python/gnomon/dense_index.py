"""DenseIndex: vectors ready for exact search, edited in place, saved and mapped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _core, _dense_build, _dense_storage
from ._dense_answer import answer
from ._dense_edits import built, is_ours, matrix, within
from ._dense_rows import DenseRows
from .arrays import as_count, as_threads


class DenseIndex(DenseRows):
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
        return answer(
            self._state,
            queries,
            k,
            min_score,
            filter,
            on_zero,
            screen,
            stats,
            memory_budget,
            device,
            max_workspace_bytes,
            threads,
            level,
        )

    def shard(self, i: int, n: int) -> DenseIndex:
        """The i-th of n parts of the rows, with their ids and columns: an index of its own.

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
        return DenseIndex(state.part(state.rows * i // parts, state.rows * (i + 1) // parts))

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
