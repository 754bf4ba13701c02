"""BM25: exact top-k from an inverted index, and the formula for a handful of documents."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from . import _core
from .analysis import Analyzer
from .arrays import as_count, as_threads
from .bm25_formula import Formula
from .bm25_input import AnalyzerLike, add_documents, as_analyzer
from .bm25_searcher import Searcher, TermStats, as_once
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
    formula = Formula.of("default", k1, b)
    tokens = list(query)
    terms = {token: place for place, token in enumerate(dict.fromkeys(tokens))}
    builder = _core.Bm25Builder(with_vocabulary=False)
    builder.add_matches(list(documents), terms)
    core = builder.finish()
    scorer = formula.scorer(_core.Bm25Snapshot([(core, None)]))
    scores: list[float] = scorer.scores([terms[token] for token in tokens]).tolist()
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
        self, core: _core.Bm25Index, ids: Ids, analyzer: Analyzer | None, formula: Formula
    ):
        self._core = core
        self._ids = ids
        self._analyzer = analyzer
        self._formula = formula
        analyze = None if analyzer is None else analyzer.tokens
        self._searcher = Searcher(_core.Bm25Snapshot([(core, None)]), formula, analyze)

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
        formula = Formula.of("default", k1, b)  # before a long build rather than at a search
        builder, chosen = add_documents(documents, analyzer)
        core = builder.finish()
        return cls(core, Ids.of(ids, core.n_docs), chosen, formula)

    def _query(self, query: Any) -> Any:
        """Documents without a single token do not say whether tokens are str or ids."""
        if self.n_terms or not self._core.has_vocabulary or isinstance(query, (str, bytes)):
            return query
        return [*map(str, query)]

    def search(
        self,
        query: Any,
        k: int = 10,
        *,
        formula: str | None = None,
        k1: float | None = None,
        b: float | None = None,
        delta: float | None = None,
        repeats: str = "count",
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
            terms count again; unknown terms add nothing.
        k
            How many; fewer are returned when fewer documents match, never padding.
        formula, k1, b, delta
            Score by another formula (:func:`gnomon.bm25_formula.formulas`) or other parameters
            than the index's own, without building anything anew.
        repeats
            ``"once"`` lets a repeated term count once, with its first weight.
        threads
            The windows of a costly query are shared out to so many threads; see
            :meth:`search_many` for many queries.
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
        """
        slots, scores = self._searcher.search(
            self._query(query),
            min(as_count(k, "k"), len(self)),
            self._searcher.scorer(formula, k1, b, delta),
            once=as_once(repeats),
            threads=threads if threads == 1 else as_threads(threads),
            level=level or "",
        )
        return Hits(self._ids.take(slots), scores)

    def search_many(
        self,
        queries: Iterable[Any],
        k: int = 10,
        *,
        formula: str | None = None,
        k1: float | None = None,
        b: float | None = None,
        delta: float | None = None,
        repeats: str = "count",
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
        answers = self._searcher.search_many(
            [self._query(query) for query in queries],
            min(as_count(k, "k"), len(self)),
            self._searcher.scorer(formula, k1, b, delta),
            once=as_once(repeats),
            threads=as_threads(threads),
            level=level or "",
        )
        return [Hits(self._ids.take(slots), scores) for slots, scores in answers]

    def scores(self, query: Any, *, level: str | None = None) -> Float64Array:
        """The score of every document, float64 [N] by position.

        0.0 where no query term occurs, but for formulas that give such documents something.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two", "two three"]).scores("one").tolist()
        [0.693147..., 0.0]
        """
        return self._searcher.scores(self._query(query), self._searcher.scorer(), level or "")

    def term_stats(self, token: Any) -> TermStats:
        """How many documents hold a token, and its idf.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two", "two three"]).term_stats("two").df
        2
        """
        return self._searcher.term_stats(token)

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
        return self._formula.k1

    @property
    def b(self) -> float:
        """Length normalisation."""
        return self._formula.b

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
            "k1": self._formula.k1,
            "b": self._formula.b,
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
        formula, recorded = _checked_meta(meta)
        chosen = as_analyzer(analyzer)
        if recorded is not None:
            chosen = Analyzer.from_meta(recorded, chosen)
        return cls(core, Ids.of_part(directory, "bm25", core.n_docs), chosen, formula)

    def verify(self) -> None:
        """Reads and checks everything. Raises :class:`gnomon.CorruptIndex` naming the damage.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two"]).verify()
        """
        self._core.verify()
        self._ids.verify()


def _checked_meta(meta: dict[str, Any]) -> tuple[Formula, dict[str, Any] | None]:
    """The formula and the analyzer's entry. A manifest can be forged: nothing is taken on trust."""
    k1, b, recorded = meta.get("k1"), meta.get("b"), meta.get("analyzer", False)
    try:
        if type(k1) is not float or type(b) is not float:
            raise ValueError(f"k1 and b must be numbers, found {k1!r} and {b!r}")
        formula = Formula.of("default", k1, b)
        if recorded is not None and not (
            isinstance(recorded, dict) and isinstance(recorded.get("name"), str)
        ):
            raise ValueError(f"an analyzer has a name, found {recorded!r}")
    except ValueError as error:
        raise _core.CorruptIndex(
            f"the manifest's bm25 part is damaged: {error}; build the index again"
        ) from None
    return formula, recorded
