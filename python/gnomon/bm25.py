"""BM25: exact top-k from an inverted index, and the formula for a handful of documents."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from . import _core
from .analysis import Analyzer
from .arrays import as_count, as_threads
from .bm25_build import Plan, build
from .bm25_edit import Editing
from .bm25_ids import SegmentIds, checked_ids
from .bm25_input import AnalyzerLike, as_analyzer
from .bm25_segment import Segment, State
from .bm25_session import Session
from .bm25_store import Layout, damaged, read_state, segment_meta, write_segment
from .columns import block_of
from .progress import Progress
from .results import Float64Array, Hits
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


class BM25Index(Editing):
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
        self,
        state: State,
        layout: Layout,
        analyzer: Analyzer | None,
        k1: float,
        b: float,
        session: Session | None = None,
    ):
        self._state = state
        self._layout = layout
        self._analyzer = analyzer
        self._k1 = k1
        self._b = b
        self._session = session
        self._committed = None if session is None else (state, layout)
        self._saved: tuple[str, State] | None = None
        self._lock = threading.RLock()

    @classmethod
    def build(
        cls,
        documents: Iterable[Any],
        ids: Iterable[Any] | None = None,
        analyzer: AnalyzerLike | None = None,
        *,
        k1: float = 1.2,
        b: float = 0.75,
        fields: Iterable[str] | None = None,
        positions: bool = False,
        columns: Any = None,
        column_kinds: Mapping[str, str] | None = None,
        store_text: bool = False,
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
        k1, b
            Parameters used by every search of this index; they are stored with it.
        fields
            Names of fields. Each document is then a mapping from field to its text, tokens or
            token ids; a field that it lacks is empty.
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
        k1, b = _checked_parameters(k1, b)  # before a long build rather than at the first search
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
        )
        state = State([Segment(built.core, own, built.texts, block)])
        return cls(state, layout, built.analyzer, k1, b)

    def _known(self, queries: Sequence[Any]) -> list[Any]:
        """The tokens or token ids of each query, as the core takes them."""
        if self._state.core.has_vocabulary:
            return [self._tokens(query) for query in queries]
        known = []
        for query in queries:
            if isinstance(query, (str, bytes)):
                raise TypeError(
                    "this index was built from token ids; a query is a list of token ids"
                )
            terms = [as_count(term, f"query[{place}]") for place, term in enumerate(query)]
            known.append([term for term in terms if term < 2**32])
        return known

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
        state = self._state  # one for the whole search, whatever other threads do meanwhile
        best = min(as_count(k, "k"), state.core.n_docs)
        ends, slots, scores = state.core.search_many(
            self._known(queries), best, self._k1, self._b, threads, level or ""
        )
        bounds = ends.tolist()
        return [
            Hits(state.ids_at(slots[first:last]), scores[first:last])
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
        return self._state.core.scores(self._known([query])[0], self._k1, self._b, level or "")

    def __len__(self) -> int:
        """How many documents the index holds."""
        return self._state.core.n_docs

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
        with self._lock:
            with DirectoryWriter(path) as writer:
                writer.commit({"bm25": self.write_part(writer)})
            self._saved = (os.path.realpath(os.fspath(path)), self._state)

    def write_part(self, writer: DirectoryWriter) -> dict[str, Any]:
        """Adds this index, as one segment, to a directory that is being written.

        Returns the part's metadata.
        """
        segments = self._state.segments
        write_segment(writer, segments, 0)
        layout = replace(self._layout, next_number=1)
        entries = [segment_meta(segments, 0)]
        return {**self._settings_meta(), **layout.to_meta(), "segments": entries}

    def _settings_meta(self) -> dict[str, Any]:
        return {
            "k1": self._k1,
            "b": self._b,
            "analyzer": None if self._analyzer is None else self._analyzer.to_meta(),
        }

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        mode: Literal["r", "w"] = "r",
        *,
        analyzer: AnalyzerLike | None = None,
    ) -> BM25Index:
        """Opens a saved index by memory map, for reading or, with ``mode="w"``, for changing it.

        Any number of readers, each on the state that was committed when it was opened or last
        :meth:`refresh`-ed; one writer at a time, which sees its own edits at once and makes them
        the state on disk by :meth:`commit`. In a ``with`` block the writer commits at the end, or
        drops its edits if there was an exception.

        ``analyzer`` is needed when the index was built with a function of the caller's own.

        Raises
        ------
        FileNotFoundError
            There is no index.
        BlockingIOError
            Another writer, alive, has it open; its process is named.
        CorruptIndex
            What is there is not a whole BM25 index. Damage inside a term's postings is found when
            the term is first used.
        ValueError
            ``mode="w"`` for an index with passages, which ``gnomon index`` makes as a whole.

        Examples
        --------
        >>> import tempfile
        >>> import gnomon
        >>> folder = tempfile.mkdtemp() + "/index"
        >>> gnomon.BM25Index.build(["one two", "two three"], ids=["a", "b"]).save(folder)
        >>> with gnomon.BM25Index.open(folder, mode="w") as index:
        ...     _ = index.add(["three four"], ids=["c"])
        >>> gnomon.BM25Index.open(folder).search("three").ids
        ['b', 'c']
        """
        if mode not in ("r", "w"):
            raise ValueError(f"mode must be 'r' or 'w', got {mode!r}")
        session = Session(path, mode == "w")
        try:
            return cls._of_directory(session.opened(), session, analyzer)
        except BaseException:
            session.close()
            raise

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        analyzer: AnalyzerLike | None = None,
    ) -> BM25Index:
        """Opens a saved index for reading: :meth:`open`."""
        return cls.open(path, analyzer=analyzer)

    @classmethod
    def read_part(
        cls,
        directory: Directory,
        *,
        analyzer: AnalyzerLike | None = None,
    ) -> BM25Index:
        """Opens the BM25 part of an opened directory, for reading."""
        return cls._of_directory(directory, Session.of(directory), analyzer)

    @classmethod
    def _of_directory(
        cls, directory: Directory, session: Session, analyzer: AnalyzerLike | None
    ) -> BM25Index:
        meta = directory.meta("bm25")
        k1, b, recorded = _checked_meta(meta)
        layout = Layout.of_meta(meta)
        state = read_state(directory, layout, meta.get("segments"))
        chosen = as_analyzer(analyzer)
        if recorded is not None:
            chosen = Analyzer.from_meta(recorded, chosen)
        return cls(state, layout, chosen, k1, b, session)

    def _read_settings(self, meta: dict[str, Any]) -> None:
        k1, b, recorded = _checked_meta(meta)
        if recorded is not None:
            self._analyzer = Analyzer.from_meta(recorded, self._analyzer)
        self._k1, self._b = k1, b

    def __enter__(self) -> BM25Index:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._session is not None and self._session.writing:
                self.commit()
        finally:
            self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the path of a saved index; what is loaded is the newest state there."""
        state = self._state
        custom = self._analyzer if self._analyzer is not None and self._analyzer.custom else None
        if self._session is not None and self._committed is not None:
            if state is not self._committed[0]:
                raise pickle.PicklingError("the index has edits; commit() them before pickling it")
            return _load, (str(self._session.path), custom)
        if self._saved is None or self._saved[1] is not state:
            raise pickle.PicklingError(
                "an index is pickled by the path at which it is saved; save() it first"
            )
        return _load, (self._saved[0], custom)

    def text(self, id: Any) -> Any:
        """The stored text of a document; with named fields, a dict from field to text.

        Raises KeyError for an id that is not in the index, ValueError when the index was built
        without ``store_text=True``, CorruptIndex when the text is damaged on the disk.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two"], ids=["a"], store_text=True).text("a")
        'one two'
        """
        if not self._layout.store_text:
            raise ValueError("this index stores no texts; build it with store_text=True")
        state = self._state
        slot = int(state.find(checked_ids([id], self._layout.kind, 1))[0])
        if slot < 0:
            raise KeyError(f"id is not in the index: {id!r}")
        return state.text(slot)

    def verify(self) -> None:
        """Reads and checks everything. Raises :class:`gnomon.CorruptIndex` naming the damage.

        Examples
        --------
        >>> import gnomon
        >>> gnomon.BM25Index.build(["one two"]).verify()
        """
        state = self._state
        for segment in state.segments:
            segment.core.verify()
            segment.ids.verify()
            if segment.texts is not None:
                segment.texts.verify()
        ids = state.live_ids()
        values = ids if isinstance(ids, list) else ids.tolist()
        if len(set(values)) != len(values):
            raise _core.CorruptIndex("ids: not unique; build the index again")
        if self._layout.kind == "position" and values and max(values) >= self._layout.next_id:
            raise damaged("an automatic id is to be given again")


def _load(path: str, analyzer: Analyzer | None) -> BM25Index:
    return BM25Index.load(path, analyzer=analyzer)


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
