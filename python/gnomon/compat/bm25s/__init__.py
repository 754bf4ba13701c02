"""bm25s over one deterministic scorer: change the import, keep the program.

    import bm25s                        # before
    from gnomon.compat import bm25s     # after

The arrays of an index, its scores and its folders are bm25s 0.3.16's bit for bit (under NumPy 2,
whose float64 scalars bm25s computes with); what bm25s leaves to the machine is stated here. bm25s
need not be installed, but for its lists of stop words other than English.

What differs from bm25s:

===========================  ===============================  ===================================
matter                       bm25s                            here
===========================  ===============================  ===================================
ties, and ``sorted=False``   by the CPU's NumPy or numba      score falling, then id rising; NaN
                                                              (of a ``weight_mask``) last
token ids from strings       by the process's hash seed       by first appearance
``vocab`` of the caller      gets "" added                    is copied
ids with gaps                IndexError                       work, in lists of ids
a query without known token  ValueError where "" is new       zeros
``get_scores([])``,          IndexError, ValueError           zeros, shape (0, k)
``retrieve([])``
empty first query, numba     ValueError                       zeros
a corpus of equal lists      ValueError from reshape          an array of objects
``index`` without a token    ValueError of max()              ValueError that says so
``backend="numba"``          compiles; documents are int32    one scorer; documents are int32
``n_threads``                0: one thread                    0: all (``GNOMON_THREADS``); the
                                                              answers do not depend on it
progress, ``chunksize``,     used                             accepted; the answers do not depend
``compile``                                                   on them
arrays in ``scores``         can be written to                can be replaced; they are read-only
                                                              from the first search on
``allow_pickle``             passed to NumPy                  nothing is pickled or unpickled
damaged folders              undefined                        ValueError naming the folder
``save``                     file by file                     each file in one step
hf, high_level, cli, mcp     there                            not there; use bm25s
===========================  ===============================  ===================================

A masked document (``weight_mask`` 0) comes back with score 0 when k exceeds the others, as in
bm25s. :class:`gnomon.BM25Index` has a filter that leaves such documents out, an index that changes,
and a search that does not read every posting of a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import as_count
from . import files, scoring, selection, tokenization
from .saving import Saved, require_index
from .tokenization import Tokenized, tokenize

__all__ = ["BM25", "Results", "Tokenized", "scoring", "selection", "tokenization", "tokenize"]


class Results(NamedTuple):
    """Documents (or their numbers) and scores, [queries, k] each.

    >>> Results.merge([Results(np.array([[1]]), np.array([[0.5]]))] * 2).documents.tolist()
    [[1], [1]]
    """

    documents: npt.NDArray[Any]
    scores: npt.NDArray[Any]

    def __len__(self) -> int:
        """How many queries."""
        return len(self.documents)

    @classmethod
    def merge(cls, results: Sequence[Results]) -> Results:
        """The results of several calls, one after the other."""
        return cls(
            np.concatenate([result.documents for result in results]),
            np.concatenate([result.scores for result in results]),
        )


class BM25(Saved):
    """An eager BM25 index with bm25s' interface.

    Parameters
    ----------
    k1, b, delta
        Of the formula; ``delta`` for bm25l and bm25+.
    method, idf_method
        robertson, lucene, atire, bm25l or bm25+; the idf of another one if asked.
    dtype, int_dtype
        Of the scores and of the document numbers in the index.
    corpus
        What :meth:`retrieve` gives back instead of numbers, and :meth:`save` stores.
    backend
        ``"numba"`` makes document numbers int32; nothing else depends on it.

    Examples
    --------
    >>> from gnomon.compat import bm25s
    >>> corpus = ["a cat likes to purr", "a dog likes to play", "a bird can fly"]
    >>> retriever = bm25s.BM25(corpus=corpus)
    >>> retriever.index(bm25s.tokenize(corpus))
    >>> documents, scores = retriever.retrieve(bm25s.tokenize("does the dog purr"), k=2)
    >>> documents.tolist(), scores.dtype
    ([['a cat likes to purr', 'a dog likes to play']], dtype('float32'))
    """

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        delta: float = 0.5,
        method: str = "lucene",
        idf_method: str | None = None,
        dtype: str = "float32",
        int_dtype: str = "int32",
        corpus: Any = None,
        backend: str = "numpy",
        csc_backend: str = "numpy",
        auto_compile: bool = True,
    ):
        self.k1, self.b, self.delta = k1, b, delta
        self.method = method
        self.idf_method = method if idf_method is None else idf_method
        self.dtype, self.int_dtype = dtype, int_dtype
        self.corpus = corpus
        self.backend = "numpy" if backend == "auto" else backend
        self.csc_backend = csc_backend
        self.scores: dict[str, Any] = {}
        self.vocab_dict: dict[Any, int] = {}
        self.unique_token_ids_set: set[int] | None = set()
        self.nonoccurrence_array: npt.NDArray[Any] | None = None
        self._made: scoring.Columns | None = None

    def index(
        self,
        corpus: Any,
        create_empty_token: bool = True,
        show_progress: bool = True,
        leave_progress: bool = False,
    ) -> None:
        """Builds the index.

        ``corpus`` is an iterable of token lists, a list of lists of token ids, or the ids with the
        vocabulary: a tuple ``(ids, vocab)``, or an object with both (:func:`tokenize`).
        Raises ValueError for a corpus without a token, ids that the vocabulary does not have, and
        a method that is not bm25s'.
        """
        setting = self._setting()
        documents, vocab, n_vocab = _parsed(corpus, create_empty_token)
        if not vocab:
            raise ValueError("corpus holds no token at all; there is nothing to index")
        matrix, shift = scoring.build(documents, n_vocab, setting)
        self.scores, self.nonoccurrence_array = matrix, shift
        self.vocab_dict = vocab
        self.unique_token_ids_set = set(vocab.values())

    def _setting(self) -> scoring.Setting:
        dtype, int_dtype = np.dtype(self.dtype), np.dtype(self.int_dtype)
        return scoring.Setting(
            self.method, self.idf_method, self.k1, self.b, self.delta, dtype, int_dtype
        ).checked()

    def get_tokens_ids(self, query_tokens: Iterable[Any]) -> list[int]:
        """The ids of the tokens that the index knows."""
        vocab = self.vocab_dict
        return [vocab[token] for token in query_tokens if token in vocab]

    def get_scores_from_ids(self, query_tokens_ids: Any, weight_mask: Any = None) -> Any:
        """The score of every document for token ids, [N] of the index's dtype.

        Raises ValueError for an id that the index does not have.
        """
        ids = self._column_ids(query_tokens_ids)
        scores = scoring.columns_sum(self._columns(), ids)
        if self.nonoccurrence_array is not None:
            scores += self._shift(ids)
        if weight_mask is not None:
            scores *= weight_mask
        return scores

    def _columns(self) -> scoring.Columns:
        """The arrays of ``scores`` as the engine reads them."""
        made = self._made  # another thread may replace it
        if made is None or not made.are_of(self.scores):
            self._made = made = scoring.Columns(self.scores, np.dtype(self.dtype))
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_made": None}

    def _shift(self, ids: npt.NDArray[Any]) -> Any:
        """What a document without any of the tokens scores; None for 0."""
        return None if self.nonoccurrence_array is None else self.nonoccurrence_array[ids].sum()

    def _column_ids(self, query_tokens_ids: Any) -> npt.NDArray[np.int64]:
        """Token ids as an array, without the empty token; ValueError for one without a column."""
        ids = np.asarray(query_tokens_ids, dtype=np.int64).ravel()
        n_columns = len(require_index(self.scores)["indptr"]) - 1
        if self.vocab_dict.get("") == n_columns:
            ids = ids[ids != n_columns]  # the empty token: in no document, so without a column
        if len(ids) and ids.max() >= n_columns:
            raise ValueError(
                f"The maximum token ID in the query ({ids.max()}) is higher than the number of "
                f"tokens in the index, which is {n_columns}"
            )
        if len(ids) and ids.min() < 0:
            raise ValueError(f"the query holds the token id {ids.min()}; the least is 0")
        return ids

    def get_scores(self, query_tokens_single: Any, weight_mask: Any = None) -> Any:
        """The score of every document for a list of tokens or of token ids."""
        return self.get_scores_from_ids(self._token_ids(query_tokens_single), weight_mask)

    def _token_ids(self, query: Any) -> list[int]:
        if not isinstance(query, list):
            raise ValueError("The query_tokens must be a list of tokens.")
        if query and isinstance(query[0], str):
            return self.get_tokens_ids(query)
        if query and not isinstance(query[0], Integral):
            raise ValueError("The query_tokens must be a list of tokens or a list of token IDs.")
        return query

    def retrieve(
        self,
        query_tokens: Any,
        corpus: Any = None,
        k: int = 10,
        sorted: bool = True,
        return_as: str = "tuple",
        show_progress: bool = True,
        leave_progress: bool = False,
        n_threads: int = 0,
        chunksize: int = 50,
        backend_selection: str = "auto",
        weight_mask: Any = None,
    ) -> Any:
        """The k best documents of each query: :class:`Results`, or only the documents.

        ``query_tokens`` is what :meth:`index` takes, for queries. ``documents`` [queries, k] holds
        int64 numbers, or the entries of ``corpus``; ``scores`` has the index's dtype. Documents
        without a query term fill up to k.
        Raises ValueError for k greater than the number of documents, a query that is no list, a
        mask that is not one number a document, another ``return_as``.
        """
        n_docs = require_index(self.scores)["num_docs"]
        k = as_count(k, "k", None)
        if k > n_docs:
            raise ValueError(
                f"k of {k} is larger than the number of available scores, which is {n_docs} "
                "(corpus size should be larger than top-k). Please set with a smaller k or "
                "increase the size of corpus."
            )
        if k < 0:
            raise ValueError(f"k must be a non-negative integer, but got {k}.")
        if return_as not in ("tuple", "documents"):
            raise ValueError("`return_as` must be either 'tuple' or 'documents'")
        selection.check_backend(backend_selection)
        _check_mask(weight_mask, n_docs)
        queries = self._queries(query_tokens)
        given = [self._column_ids(self._token_ids(query)) for query in queries]
        scores, documents = self._best(given, k, weight_mask, n_threads)
        if self.backend == "numba":
            documents = documents.astype(np.int32)
        corpus = self.corpus if corpus is None else corpus
        found = documents if corpus is None else _entries(corpus, documents)
        return Results(found, scores) if return_as == "tuple" else found

    def _best(
        self, queries: list[npt.NDArray[np.int64]], k: int, weight_mask: Any, n_threads: int
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Scores and documents [queries, k] for the column numbers of each query."""
        if weight_mask is None:
            shifts = None
            if self.nonoccurrence_array is not None:
                shifts = np.array([self._shift(ids) for ids in queries], np.dtype(self.dtype))
            found = self._columns().best(queries, k, shifts, max(n_threads, 0))
            if found is not None:
                return found
        documents = np.zeros((len(queries), k), np.int64)
        scores = np.zeros((len(queries), k), np.dtype(self.dtype))
        for row, ids in enumerate(queries):
            every = self.get_scores_from_ids(ids, weight_mask)
            scores[row], documents[row] = selection.topk(every, k)
        return scores, documents

    def _queries(self, given: Any) -> list[Any]:
        """One list of tokens or known ids for each query."""
        if hasattr(given, "ids") and hasattr(given, "vocab"):
            given = (given.ids, given.vocab)
        lists = isinstance(given, tuple) and all(isinstance(query, list) for query in given)
        if isinstance(given, tuple) and not lists:
            if len(given) != 2:
                raise ValueError(
                    "Expected a list of string or a tuple of two elements, token ids and "
                    f"vocabulary; found {len(given)} elements"
                )
            if not isinstance(given[0], Iterable):
                raise ValueError(
                    "The first element of the tuple passed to retrieve must be an iterable."
                )
            if not isinstance(given[1], Mapping):
                raise ValueError(
                    "The second element of the tuple passed to retrieve must be a dictionary."
                )
            given = tokenization.convert_tokenized_to_string_list(Tokenized(*given))
        queries = []
        for query in given:
            if isinstance(query, list) and query and isinstance(query[0], Integral):
                known = self.unique_token_ids_set
                if known is None:
                    raise ValueError(
                        "The unique_token_ids_set attribute is not found; call index()"
                    )
                query = [token for token in query if token in known]
                if not query and "" not in self.vocab_dict:
                    raise ValueError(
                        "The query does not contain any tokens that are in the vocabulary; leave "
                        "it out, or build from strings so that the vocabulary has the empty token"
                    )
            queries.append(query)
        return queries

    def compile(self, activate_numba: bool = True, warmup: bool = False) -> None:
        """Nothing: there is nothing to compile. So are the four below."""

    def activate_numba_scorer(self) -> None:
        """Nothing."""

    def activate_numba_csc(self) -> None:
        """Nothing."""

    def warmup_numba_scorer(self) -> None:
        """Nothing."""

    def warmup_numba_csc(self) -> None:
        """Nothing."""


def _parsed(corpus: Any, create_empty_token: bool) -> tuple[list[Any], dict[Any, int], int]:
    """Token ids of each document, the vocabulary, and how many ids there are."""
    if hasattr(corpus, "ids") and hasattr(corpus, "vocab"):
        corpus = (corpus.ids, corpus.vocab)
    if isinstance(corpus, tuple) and len(corpus) == 2:
        ids, given = corpus
        if not (isinstance(ids, list) and isinstance(given, dict)):
            raise ValueError("a corpus that is a tuple must be (list of token ids, vocabulary)")
        vocab = dict(given)
        n_vocab = len(set(vocab.values()))
    elif isinstance(corpus, Iterable):
        ids = list(corpus)
        if ids and isinstance(ids[0], list) and ids[0] and isinstance(ids[0][0], Integral):
            known = {int(token) for document in ids for token in document}
            if create_empty_token:
                known.add(max(known) + 1 if 0 in known else 0)
            return ids, {token: token for token in range(max(known) + 1)}, max(known) + 1
        vocab = {}
        ids = [[vocab.setdefault(token, len(vocab)) for token in document] for document in ids]
        n_vocab = len(vocab)
    else:
        raise ValueError(f"corpus must be an iterable of token lists, got {corpus!r}")
    if vocab and create_empty_token and "" not in vocab:
        vocab[""] = max(vocab.values()) + 1
    return ids, vocab, n_vocab


def _check_mask(mask: Any, n_docs: int) -> None:
    if mask is None:
        return
    if not isinstance(mask, np.ndarray):
        raise ValueError("weight_mask must be a numpy array.")
    if mask.ndim != 1:
        raise ValueError("weight_mask must be a 1D array.")
    if len(mask) != n_docs:
        raise ValueError(
            "The length of the weight_mask must be the same as the length of the corpus."
        )


def _entries(corpus: Any, documents: npt.NDArray[Any]) -> Any:
    """What the corpus holds at these numbers, in an array of their shape."""
    if isinstance(corpus, files.JsonlCorpus) or (
        isinstance(corpus, np.ndarray) and corpus.ndim == 1
    ):
        return corpus[documents]
    entries = [corpus[number] for number in documents.ravel().tolist()]
    return files.as_objects(entries).reshape(documents.shape)
