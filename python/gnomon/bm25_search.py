"""Searching a BM25 index: one query, many at once, and the scores of everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from . import cuda_bm25
from .arrays import as_count, as_threads
from .bm25_explain import Explaining
from .bm25_query import Query
from .bm25_querying import Querying, require_counted
from .bm25_searcher import as_once
from .device import check_cpu_words, place_of
from .results import Float64Array, Hits, MatchedHits


class Searching(Querying, Explaining):
    """The searches of :class:`gnomon.BM25Index`."""

    def search(
        self,
        query: Any,
        k: int = 10,
        *,
        filter: Any = None,
        formula: str | None = None,
        k1: float | None = None,
        b: float | None = None,
        delta: float | None = None,
        field_weights: Mapping[str, float] | None = None,
        repeats: str = "count",
        matched: bool = False,
        device: Any = None,
        max_workspace_bytes: int | None = None,
        threads: int = 1,
        level: str | None = None,
    ) -> Hits:
        """The k best documents that hold at least one query term.

        Parameters
        ----------
        query
            A str (analysed as the documents were), a list of tokens (taken as they are), a list
            of token ids, or terms with weights: a mapping from token to weight, or a list of
            (token, weight). A weight is 0, or 1e-100 to 1e100, or the negative of such. Repeated
            terms count again; unknown terms add nothing. Or a query object of
            :mod:`gnomon.bm25_query`: phrases, nears, and/or/not, prefixes, fuzzy terms.
        k
            How many; fewer are returned when fewer documents match, never padding.
        filter
            Which documents may be answered: a :class:`gnomon.Filter`, its JSON form as a dict, a
            list of ids, or a bool mask over the documents in order of insertion. Scores stay those
            of the whole index.
        formula, k1, b, delta
            Score by another formula (:func:`gnomon.bm25_formula.formulas`) or other parameters
            than the index's own, without building anything anew.
        field_weights
            For an index of fields: other weights for some of them; 0 leaves a field out.
        repeats
            ``"once"`` lets a repeated term count once, with its first weight.
        matched
            Also say which terms of the query each hit holds: a :class:`MatchedHits`, whose
            ``matched`` has a list for each hit.
        device
            ``"cuda"`` or ``"cuda:N"``: search on a GPU (:func:`gnomon.devices`), where the postings
            stay once they were searched. Not for query objects.
        max_workspace_bytes
            Of the GPU's memory, beside the postings; 256 MiB when not given.
        threads
            The windows of a costly query are shared out to so many threads; see
            :meth:`search_many` for many queries.
        level
            Kernel level (see :func:`gnomon.levels`); the answer does not depend on it.

        Returns
        -------
        Hits
            ``ids`` and float64 ``scores``, score falling, then position rising. With
            ``matched=True`` also ``matched``.

        Raises
        ------
        TypeError
            A text where the index has no analyzer, tokens that are not of the index's kind, or k
            that is not a whole number.
        ValueError
            k < 0, an unknown formula, repeats or level, parameters or weights out of range.
        CorruptIndex
            The postings of a term of the query are damaged on the disk.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["one two", "two three"])
        >>> index.search("zzz").ids
        array([], dtype=int64)
        >>> index.search({"two": 0.5, "three": 2.0}, k=1, formula="lucene").ids
        array([1])
        >>> index.search("two", filter=[1]).ids
        array([1])
        >>> index.search("three two", matched=True).matched
        [['three', 'two'], ['two']]
        """
        state, searcher = self._view  # one for the whole search, whatever other threads do
        best = min(as_count(k, "k"), searcher.n_docs)
        scorer = searcher.scorer(formula, k1, b, delta, self._weights(field_weights))
        once, workers = as_once(repeats), as_threads(threads)
        allowed: list[Any] | None = self._allowed(filter, state)
        place = place_of(device)
        if place is not None:
            check_cpu_words(workers, level)
            _, slots, scores = cuda_bm25.search_many(
                searcher,
                _plain([query]),
                best,
                scorer,
                once=once,
                allowed=allowed,
                place=place,
                max_workspace_bytes=max_workspace_bytes,
            )
        elif isinstance(query, Query):
            require_counted(repeats)
            slots, scores = self._search_query(
                query, best, scorer, state, allowed, workers, level or ""
            )
        else:
            tokens, weights = searcher.query(query)
            slots, scores = scorer.search(
                tokens, best, weights, once, allowed, workers, level or ""
            )
        hits = Hits(state.ids_at(slots), scores)
        if matched:
            return MatchedHits.of(hits, self._matched(query, slots, scorer, state, searcher))
        return hits

    def search_many(
        self,
        queries: Iterable[Any],
        k: int = 10,
        *,
        filter: Any = None,
        formula: str | None = None,
        k1: float | None = None,
        b: float | None = None,
        delta: float | None = None,
        field_weights: Mapping[str, float] | None = None,
        repeats: str = "count",
        device: Any = None,
        max_workspace_bytes: int | None = None,
        threads: int | None = None,
        level: str | None = None,
    ) -> list[Hits]:
        """:meth:`search` for each query, over threads and with the GIL released.

        ``threads`` defaults to ``GNOMON_THREADS`` or all cores; the answers do not depend on it.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build(["one two", "two three"])
        >>> [hits.ids.tolist() for hits in index.search_many(["one", "two three"])]
        [[0], [1, 0]]
        """
        if isinstance(queries, (str, bytes)):
            raise TypeError("queries is one text; pass a list of queries, or use search()")
        state, searcher = self._view
        best = min(as_count(k, "k"), searcher.n_docs)
        scorer = searcher.scorer(formula, k1, b, delta, self._weights(field_weights))
        allowed: list[Any] | None = self._allowed(filter, state)
        given = list(queries)
        place = place_of(device)
        if place is not None:
            check_cpu_words(threads, level)
            ends, slots, scores = cuda_bm25.search_many(
                searcher,
                _plain(given),
                best,
                scorer,
                once=as_once(repeats),
                allowed=allowed,
                place=place,
                max_workspace_bytes=max_workspace_bytes,
            )
            return _split(state.ids_at(slots), scores, ends)
        if any(isinstance(query, Query) for query in given):
            require_counted(repeats)
            answers = self._search_queries(
                given, best, scorer, state, allowed, as_threads(threads), level or ""
            )
            return [Hits(state.ids_at(slots), scores) for slots, scores in answers]
        ends, slots, scores = searcher.search_many(
            given,
            best,
            scorer,
            once=as_once(repeats),
            allowed=allowed,
            threads=as_threads(threads),
            level=level or "",
        )
        return _split(state.ids_at(slots), scores, ends)

    def scores(self, query: Any, *, level: str | None = None) -> Float64Array:
        """The score of every document, float64 [N] by position.

        0.0 where no query term occurs, but for formulas that give such documents something.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two", "two three"]).scores("one").tolist()
        [0.693147..., 0.0]
        """
        state, searcher = self._view
        return state.of_live(searcher.scores(query, searcher.scorer(), level or ""))


def _plain(queries: list[Any]) -> list[Any]:
    if any(isinstance(query, Query) for query in queries):
        raise ValueError(
            "device: query objects of gnomon.bm25_query run on the CPU only; leave device out"
        )
    return queries


def _split(ids: Any, scores: Float64Array, ends: Any) -> list[Hits]:
    return [Hits(ids[first:last], scores[first:last]) for first, last in pairwise(ends.tolist())]
