"""BM25: exact top-k from an inverted index, and the formula for a handful of documents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from . import _core
from .analysis import Analyzer
from .arrays import as_count, as_threads
from .bm25_input import AnalyzerLike, add_documents, as_analyzer
from .results import Float64Array, Hits, Ids
from .storage import Directory, DirectoryWriter


def bm25_scores(
    query: Sequence[Any], documents: Sequence[Sequence[Any]], k1: float = 1.2, b: float = 0.75
) -> list[float]:
    """Okapi BM25 score of each document, in float64 and in one written order of operations.

    For each query term in order (a repeated one counts again, an unknown one adds nothing)::

        idf   = log(1 + (N - df + 0.5) / (df + 0.5))
        norm  = tf + k1 * (1 - b + b * dl / max(avgdl, 1e-12))
        score = score + idf * tf * (k1 + 1) / norm

    (Robertson & Zaragoza 2009 with Lucene's idf, which is never negative.)

    Parameters
    ----------
    query
        Tokens: str, or any hashable values.
    documents
        A list of token lists; empty documents count towards N and avgdl.
    k1, b
        k1 from 0 to 1e100; b from 0 to 1.

    Returns
    -------
    list of float
        One score a document, equal bit for bit to ``gnomon.reference.bm25.bm25_scores``.

    Raises
    ------
    TypeError
        A document (or the query) that is a str rather than a list of tokens.
    ValueError
        k1 or b out of range.

    Examples
    --------
    >>> import gnomon
    >>> docs = [["red", "apple"], ["green", "apple", "apple"], ["blue", "berry"]]
    >>> scores = gnomon.bm25_scores(["apple"], docs)
    >>> scores[1] > scores[0] > scores[2] == 0.0
    True
    """
    if isinstance(query, (str, bytes)):
        raise TypeError(f"query is a {type(query).__name__}; pass a list of tokens")
    k1, b = _checked_parameters(k1, b)
    tokens = list(query)
    terms = {token: place for place, token in enumerate(dict.fromkeys(tokens))}
    builder = _core.Bm25Builder(with_vocabulary=False)
    builder.add_matches(list(documents), terms)
    core = builder.finish()
    ids = [terms[token] for token in tokens if terms[token] < core.n_terms]
    scores: list[float] = core.scores(np.array(ids, dtype=np.uint32), k1, b).tolist()
    return scores


class BM25Index:
    """An inverted index that answers BM25 queries exactly.

    Scores equal ``gnomon.reference.bm25`` bit for bit at every kernel level and thread count;
    results are ordered by score, then by position. Make one with :meth:`build` or :meth:`load`.
    Searches are safe from several threads at once.

    Examples
    --------
    >>> import gnomon
    >>> index = gnomon.BM25Index.build(["A red apple.", "Green apples, apple pie", "Blueberries"])
    >>> hits = index.search("apple pie", k=2)
    >>> hits.ids
    array([1, 0])
    """

    def __init__(
        self, core: _core.Bm25Index, ids: Ids, analyzer: Analyzer | None, k1: float, b: float
    ):
        self._core = core
        self._ids = ids
        self._analyzer = analyzer
        self._k1 = k1
        self._b = b

    @classmethod
    def build(
        cls,
        documents: Iterable[Any],
        ids: Iterable[Any] | None = None,
        analyzer: AnalyzerLike | None = None,
        *,
        k1: float = 1.2,
        b: float = 0.75,
    ) -> BM25Index:
        """Builds an index from texts, token lists, or token ids.

        Parameters
        ----------
        documents
            An iterable, read once and in batches, so that it may be a generator over more text
            than fits in memory. Each document is a str (analysed), a sequence of str (tokens), or a
            sequence or array of non-negative integers (token ids); all of one kind. Or a tuple
            ``(token_ids, offsets)`` of two integer arrays, where document i is
            ``token_ids[offsets[i]:offsets[i + 1]]``. Memory grows with the greatest token id, so
            number tokens from 0 up and do not pass hashes.
        ids
            As many unique str, or unique int, as documents; positions 0..N-1 when not given.
        analyzer
            For texts: a preset name, an :class:`Analyzer`, or a function from str to tokens
            (recorded by name and needed again at :meth:`load`). Default ``"standard-v1"``. With
            tokens, one may be given to make queries that are texts possible.
        k1, b
            Parameters used by every search of this index; they are stored with it.

        Raises
        ------
        TypeError, ValueError
            Naming the document or the argument at fault; nothing is built then.

        Examples
        --------
        >>> import gnomon
        >>> index = gnomon.BM25Index.build([["red", "apple"], ["pie"]], ids=["doc-1", "doc-2"])
        >>> index.search(["pie"]).ids
        ['doc-2']
        """
        k1, b = _checked_parameters(k1, b)  # before a long build rather than at the first search
        builder, chosen = add_documents(documents, analyzer)
        core = builder.finish()
        return cls(core, Ids.of(ids, core.n_docs), chosen, k1, b)

    def _terms(self, queries: Sequence[Any]) -> tuple[Any, Any]:
        """Known term ids of each query, flat, and where each query ends."""
        if self._core.has_vocabulary:
            return self._core.lookup([self._tokens(query) for query in queries])
        flat: list[int] = []
        offsets = [0]
        for query in queries:
            if isinstance(query, (str, bytes)):
                raise TypeError(
                    "this index was built from token ids; a query is a list of token ids"
                )
            for place, term in enumerate(query):
                if as_count(term, f"query[{place}]") < self._core.n_terms:
                    flat.append(int(term))
            offsets.append(len(flat))
        return np.array(flat, dtype=np.uint32), np.array(offsets, dtype=np.int64)

    def _tokens(self, query: Any) -> Any:
        if not isinstance(query, str):
            # Documents without a single token do not say whether tokens are str or ids.
            return query if self.n_terms or isinstance(query, bytes) else [*map(str, query)]
        if self._analyzer is None:
            raise TypeError(
                "this index was built from tokens, without an analyzer; pass the query as a "
                "list of tokens, or build with analyzer="
            )
        return self._analyzer.tokens(query)

    def search(self, query: Any, k: int = 10, *, level: str | None = None) -> Hits:
        """The k best documents that hold at least one query term.

        Parameters
        ----------
        query
            A str (analysed as the documents were), a list of tokens (taken as they are), or a list
            of token ids. Repeated terms count again; unknown terms add nothing.
        k
            How many; fewer are returned when fewer documents match, never padding.
        level
            Kernel level (see :func:`gnomon.levels`); the answer does not depend on it.

        Returns
        -------
        Hits
            ``ids`` and float64 ``scores``, score falling, then position rising.

        Raises
        ------
        TypeError
            A text where the index has no analyzer, tokens that are not of the index's kind, or k
            that is not a whole number.
        ValueError
            k < 0, or an unknown level.
        CorruptIndex
            The postings of a term of the query are damaged on the disk.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two", "two three"]).search("zzz").ids
        array([], dtype=int64)
        """
        if isinstance(query, bytes):
            raise TypeError("query is bytes; decode it first")
        return self._search([query], k, 1, level)[0]

    def search_many(
        self,
        queries: Iterable[Any],
        k: int = 10,
        *,
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
        return self._search(list(queries), k, as_threads(threads), level)

    def _search(self, queries: list[Any], k: int, threads: int, level: str | None) -> list[Hits]:
        best = min(as_count(k, "k"), len(self))
        terms, offsets = self._terms(queries)
        ends, positions, scores = self._core.search_many(
            terms, offsets, best, self._k1, self._b, threads, level or ""
        )
        bounds = ends.tolist()
        return [
            Hits(self._ids.take(positions[first:last]), scores[first:last])
            for first, last in pairwise(bounds)
        ]

    def scores(self, query: Any, *, level: str | None = None) -> Float64Array:
        """The score of every document, float64 [N] by position; 0.0 where no query term occurs.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two", "two three"]).scores("one").tolist()
        [0.693147..., 0.0]
        """
        terms, _ = self._terms([query])
        return self._core.scores(terms, self._k1, self._b, level or "")

    def __len__(self) -> int:
        """How many documents the index holds."""
        return self._core.n_docs

    @property
    def n_tokens(self) -> int:
        """Tokens over all documents; ``n_tokens / len(index)`` is avgdl."""
        return self._core.n_tokens()

    @property
    def n_terms(self) -> int:
        """Distinct terms (for token ids: the greatest id plus one)."""
        return self._core.n_terms

    @property
    def analyzer(self) -> Analyzer | None:
        """What turns texts and queries into tokens; None for an index built from tokens or ids."""
        return self._analyzer

    @property
    def k1(self) -> float:
        """Term-frequency saturation."""
        return self._k1

    @property
    def b(self) -> float:
        """Length normalisation."""
        return self._b

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a directory, atomically: it is there completely, or as it was before.

        Raises FileExistsError when the path holds something that is not an index.

        Examples
        --------
        >>> import tempfile
        >>> import gnomon
        >>> folder = tempfile.mkdtemp() + "/index"
        >>> gnomon.BM25Index.build(["one two", "two three"]).save(folder)
        >>> gnomon.BM25Index.load(folder).search("three").ids
        array([1])
        """
        with DirectoryWriter(path) as writer:
            writer.commit({"bm25": self.write_part(writer)})

    def write_part(self, writer: DirectoryWriter) -> dict[str, Any]:
        """Adds this index to a directory that is being written; returns the part's metadata."""
        core = _core.ContainerWriter(writer.file("bm25", "postings"))
        self._core.write(core)
        core.finish()
        if self._ids.kind != "position":
            self._ids.write(writer.file("bm25", "ids"))
        return {
            "k1": self._k1,
            "b": self._b,
            "ids": self._ids.kind,
            "analyzer": None if self._analyzer is None else self._analyzer.to_meta(),
        }

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        analyzer: AnalyzerLike | None = None,
    ) -> BM25Index:
        """Opens a saved index by memory map.

        ``analyzer`` is needed when the index was built with a function of the caller's own.
        Raises FileNotFoundError, or :class:`gnomon.CorruptIndex` when what is there is not a whole
        BM25 index. Damage inside a term's postings is found when the term is first used.
        """
        return cls.read_part(Directory.open(path), analyzer=analyzer)

    @classmethod
    def read_part(
        cls,
        directory: Directory,
        *,
        analyzer: AnalyzerLike | None = None,
    ) -> BM25Index:
        """Opens the BM25 part of an opened directory."""
        meta = directory.meta("bm25")
        core = _core.Bm25Index.open(directory.container("bm25", "postings"))
        k1, b, recorded = _checked_meta(meta)
        chosen = as_analyzer(analyzer)
        if recorded is not None:
            chosen = Analyzer.from_meta(recorded, chosen)
        return cls(core, Ids.of_part(directory, "bm25", core.n_docs), chosen, k1, b)

    def verify(self) -> None:
        """Reads and checks everything. Raises :class:`gnomon.CorruptIndex` naming the damage.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two"]).verify()
        """
        self._core.verify()
        self._ids.verify()


def _checked_parameters(k1: float, b: float) -> tuple[float, float]:
    """Both as float. An empty index refuses what every search would. Raises ValueError."""
    try:
        k1, b = float(k1), float(b)
    except OverflowError:
        raise ValueError("k1 and b must be numbers that fit float64") from None
    _core.Bm25Builder(with_vocabulary=False).finish().prepare(k1, b)
    return k1, b


def _checked_meta(meta: dict[str, Any]) -> tuple[float, float, dict[str, Any] | None]:
    """k1, b and the analyzer's entry. A manifest can be forged: nothing is taken on trust."""
    k1, b, recorded = meta.get("k1"), meta.get("b"), meta.get("analyzer", False)
    try:
        if type(k1) is not float or type(b) is not float:
            raise ValueError(f"k1 and b must be numbers, found {k1!r} and {b!r}")
        _checked_parameters(k1, b)
        if recorded is not None and not (
            isinstance(recorded, dict) and isinstance(recorded.get("name"), str)
        ):
            raise ValueError(f"an analyzer has a name, found {recorded!r}")
    except ValueError as error:
        raise _core.CorruptIndex(
            f"the manifest's bm25 part is damaged: {error}; build the index again"
        ) from None
    return k1, b, recorded
