"""BM25: exact top-k from an inverted index, and the formula for a handful of documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from . import _core
from .analysis import Analyzer
from .bm25_build import Plan, build, checked_fields
from .bm25_formula import Formula, field_formula
from .bm25_ids import SegmentIds
from .bm25_input import AnalyzerLike
from .bm25_saving import Saving
from .bm25_search import Searching
from .bm25_segment import Segment, State
from .bm25_store import POSTINGS, Layout
from .columns import block_of
from .progress import Progress


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


class BM25Index(Searching, Saving):
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

    @classmethod
    def build(
        cls,
        documents: Iterable[Any],
        ids: Iterable[Any] | None = None,
        analyzer: AnalyzerLike | None = None,
        *,
        formula: str = "default",
        k1: float | None = None,
        b: float | Mapping[str, float] | None = None,
        delta: float | None = None,
        fields: Iterable[str] | Mapping[str, float] | None = None,
        positions: bool = False,
        columns: Any = None,
        column_kinds: Mapping[str, str] | None = None,
        store_text: bool = False,
        postings: Literal["plain", "packed"] = "plain",
        threads: int | None = None,
        memory_budget: int | None = None,
        progress: Progress = None,
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
            number tokens from 0 up and do not pass hashes. Or a scipy sparse matrix of term
            frequencies, [documents, terms]. Both kinds of arrays are read where they lie.
        ids
            As many unique str, or unique int, as documents; positions 0..N-1 when not given.
        analyzer
            For texts: a preset name, an :class:`Analyzer`, or a function from str to tokens
            (recorded by name and needed again at :meth:`load`). Default ``"standard-v1"``. With
            tokens, one may be given to make queries that are texts possible.
        formula, k1, b, delta
            What every search of this index scores by unless it says otherwise; stored with it. The
            names are :func:`gnomon.bm25_formula.formulas`; parameters that are not given are those
            of the formula's authors, for the default one k1=1.2 and b=0.75.
        fields
            Names of fields, or a mapping from them to their weights. Each document is then a
            mapping from field to its text, tokens or token ids; a field that it lacks is empty.
            Scored by BM25F: one saturation over the weighted fields. ``b`` may be a mapping from
            field to its own b.
        positions
            Keep where each token stands, for phrases, nears and :meth:`match_positions`; about a
            byte a token.
        columns
            Values to filter by: a mapping from column to as many values as there are documents, or
            a list with a mapping for each document. A value is a str or a list of str (keyword),
            an int, a float, a date or datetime, or None where a document has none.
        column_kinds
            Declares columns: "keyword", "integer", "float" or "date". A column that is not declared
            has the kind of its first value.
        store_text
            Keep the texts beside the index, for :meth:`text`.
        postings
            How they are saved, now and by every commit: "plain" arrays, searched where they lie in
            the file, or "packed", about a quarter of that, where a term's are decoded when it is
            asked for. Answers are the same, to the bit.
        threads
            For texts; ``GNOMON_THREADS`` or all cores when not given. The index is the same.
        memory_budget
            Bytes, at least 32 MiB, for what is collected while building. More goes to temporary
            files (in TMPDIR), and the index is a mapped temporary file until it is saved. What is
            not counted: the distinct terms (some 40 bytes each) and 12 bytes a document.
        progress
            True for a progress bar on standard error, or a function that is called with
            (documents done, documents in all or None).

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
        if fields is not None and not isinstance(fields, Mapping):
            fields = checked_fields(fields)
        scoring = _scoring(formula, k1, b, delta, fields)  # its errors before a long build
        packed = _packed(postings)
        plan = Plan.of(fields, store_text, threads, memory_budget, positions)
        built = build(documents, analyzer, plan, progress)
        own = SegmentIds.of(ids, built.core.n_docs)
        next_id = own.n if own.kind == "position" else 0
        block, kinds = block_of(columns, built.core.n_docs, column_kinds or {})
        layout = Layout(
            own.kind,
            plan.fields,
            plan.store_text,
            plan.positions,
            tuple(kinds.items()),
            next_id,
            packed=packed,
        )
        state = State([Segment(built.core, own, built.texts, block)])
        return cls(state, layout, built.analyzer, scoring)

    def __len__(self) -> int:
        """How many documents the index holds."""
        return self._view.searcher.n_docs

    @property
    def n_tokens(self) -> int:
        """Tokens over all documents and fields; ``n_tokens / len(index)`` is avgdl."""
        return sum(self._state.core.n_tokens(field) for field in range(self._state.core.n_fields))

    @property
    def n_terms(self) -> int:
        """Distinct terms (for token ids: the greatest id plus one).

        Those that only deleted documents hold count until a merge.
        """
        return self._state.core.n_terms

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

    @property
    def formula(self) -> Formula:
        """What searches score by unless they say otherwise."""
        return self._formula


def _packed(postings: str) -> bool:
    if postings not in POSTINGS:
        raise ValueError(f"postings must be 'plain' or 'packed', got {postings!r}")
    return postings == "packed"


def _scoring(
    formula: str,
    k1: float | None,
    b: float | Mapping[str, float] | None,
    delta: float | None,
    fields: Sequence[str] | Mapping[str, float] | None,
) -> Formula:
    if fields is None:
        if formula == "bm25f":
            raise ValueError("the formula 'bm25f' needs fields; pass fields=")
        if isinstance(b, Mapping):
            raise TypeError("b is a mapping, which is for an index of fields; pass fields=")
        return Formula.of(formula, k1, b, delta)
    if formula not in ("default", "bm25f"):
        raise ValueError(f"an index of fields is scored by 'bm25f', not by {formula!r}")
    return field_formula(fields, k1, b)
