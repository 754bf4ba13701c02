"""BEIR's exact dense search over gnomon's engine.

    from beir.retrieval.search.dense import DenseRetrievalExactSearch as DRES   # before
    from gnomon.compat.beir import DenseRetrievalExactSearch as DRES            # after

The interface is that of beir 2.2; neither it nor torch need be installed.

What differs from BEIR:

=========================  =================================  ==================================
matter                     beir                               here
=========================  =================================  ==================================
ties                       by torch and the chunk size; at    score falling, then the document
                           the border the greater id          encoded first: the longer one, then
                                                              the corpus's order
the dicts' order           a heap's                           best first, as with
                                                              ``return_sorted=True``
scores                     float32                            the exact order's float64
NaN or infinity            score -1                           ValueError that names the row
exactly one query          IndexError                         works
``corpus_chunk_size``      changes memory, and ties           an upper bound; never the answer
own ``score_functions``    any                                ``cos_sim`` and ``dot``; others are
                                                              called, with a UserWarning
``encode``,                pickle files and faiss             not there; use beir, or
``search_from_files``                                         ``gnomon groundtruth``
=========================  =================================  ==================================

A document whose id is the query's id is left out, as BEIR does for every data set.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arrays import as_count, as_float32

__all__ = ["DenseRetrievalExactSearch", "cos_sim", "dot_score"]

Scores = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def cos_sim(a: Any, b: Any) -> Scores:
    """Cosines of all rows of ``a`` to all rows of ``b``, [A, B] in float64.

    >>> cos_sim([[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]).tolist()
    [[1.0, 0.0]]
    """
    return _core.cosines(_rows(b), _rows(a), 0, "")


def dot_score(a: Any, b: Any) -> Scores:
    """Inner products of all rows of ``a`` with all rows of ``b``, [A, B] in float64.

    >>> dot_score([[1.0, 2.0]], [[3.0, 4.0]]).tolist()
    [[11.0]]
    """
    queries, rows = _rows(a), _rows(b)
    found, values = _core.dense_top_k(rows, queries, "ip", len(rows), "zero", 0, "")
    scores = np.empty_like(values)
    np.put_along_axis(scores, found, values, axis=1)
    return scores


_METRICS: dict[Any, str] = {cos_sim: "cosine", dot_score: "ip"}


class DenseRetrievalExactSearch:
    """Encodes corpus and queries with a model of BEIR's interface, and ranks exactly.

    Parameters
    ----------
    model
        With ``encode_queries(queries, batch_size, ...)`` and ``encode_corpus(documents, ...)``.
    batch_size, show_progress_bar, convert_to_tensor
        Handed to these.
    corpus_chunk_size
        How many documents are encoded and held at once.

    Examples
    --------
    >>> class Model:
    ...     def encode_queries(self, queries, **options):
    ...         return [[float("a" in query), float("b" in query)] for query in queries]
    ...
    ...     def encode_corpus(self, documents, **options):
    ...         return self.encode_queries([each["text"] for each in documents])
    >>> corpus = {"d1": {"text": "a"}, "d2": {"text": "a b"}}
    >>> DenseRetrievalExactSearch(Model()).search(corpus, {"q": "b"}, 1, "dot")
    {'q': {'d2': 1.0}}
    """

    def __init__(
        self, model: Any, batch_size: int = 128, corpus_chunk_size: int = 50000, **kwargs: Any
    ) -> None:
        self.model = model
        self.batch_size = batch_size
        self.score_functions: dict[str, Callable[[Any, Any], Any]] = {
            "cos_sim": cos_sim,
            "dot": dot_score,
        }
        self.score_function_desc = {"cos_sim": "Cosine Similarity", "dot": "Dot Product"}
        self.corpus_chunk_size = corpus_chunk_size
        self.show_progress_bar = kwargs.get("show_progress_bar", True)
        self.convert_to_tensor = kwargs.get("convert_to_tensor", True)
        self.results: dict[str, dict[str, float]] = {}

    def search(
        self,
        corpus: Mapping[str, Mapping[str, str]],
        queries: Mapping[str, str],
        top_k: int,
        score_function: str,
        return_sorted: bool = False,
        **kwargs: Any,
    ) -> dict[str, dict[str, float]]:
        """The best ``top_k`` documents of each query: query id to document id to score.

        ``corpus`` maps ids to documents with ``text`` and perhaps ``title``; ``score_function``
        names an entry of ``score_functions``. Raises ValueError for another one, for NaN, and for
        embeddings that do not fit.
        """
        if score_function not in self.score_functions:
            raise ValueError(
                f"score function: {score_function} must be one of {', '.join(self.score_functions)}"
            )
        score = self.score_functions[score_function]
        if score not in _METRICS:
            warnings.warn(
                f"gnomon knows cos_sim and dot; {score_function} is called for whole chunks",
                UserWarning,
                stacklevel=2,
            )
        wanted = as_count(top_k, "top_k") + 1  # the query itself may be among them
        chunk = as_count(self.corpus_chunk_size, "corpus_chunk_size", 1)
        texts = list(queries.values())
        embedded = self.model.encode_queries(texts, **self._options()) if texts else []
        names = sorted(corpus, key=lambda name: _length(corpus[name]), reverse=True)
        best: tuple[Scores, Places] | None = None
        for start in range(0, len(names) if texts else 0, chunk):
            part = [corpus[name] for name in names[start : start + chunk]]
            vectors = self.model.encode_corpus(part, **self._options())
            values, places = _best(score, embedded, vectors, wanted)
            best = _merged(best, values, places + start, wanted)
        self.results = {query: {} for query in queries}
        if best is not None:
            for query, values, places in zip(queries, *map(np.ndarray.tolist, best), strict=True):
                found = ((names[place], value) for value, place in zip(values, places, strict=True))
                kept = [(name, value) for name, value in found if name != query]
                self.results[query] = dict(kept[: wanted - 1])
        return self.results

    def _options(self) -> dict[str, Any]:
        return {
            "batch_size": self.batch_size,
            "show_progress_bar": self.show_progress_bar,
            "convert_to_tensor": self.convert_to_tensor,
        }


def _length(document: Mapping[str, str]) -> int:
    return len(document.get("title", "") + document.get("text", ""))


def _rows(value: Any) -> npt.NDArray[np.float32]:
    return np.atleast_2d(as_float32(value, "embeddings"))


def _best(score: Any, queries: Any, vectors: Any, k: int) -> tuple[Scores, Places]:
    metric = _METRICS.get(score)
    if metric is None:
        given = score(queries, vectors)
        array = given.detach().cpu() if hasattr(given, "detach") else given
        values = np.asarray(array, np.float64)
        order = np.argsort(-values, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(values, order, axis=1), order
    rows, wanted = _rows(vectors), _rows(queries)
    if rows.shape[1] != wanted.shape[1]:
        raise ValueError(
            f"queries were embedded in {wanted.shape[1]} dimensions, documents in {rows.shape[1]}"
        )
    places, values = _core.dense_top_k(rows, wanted, metric, min(k, len(rows)), "zero", 0, "")
    return values, places


def _merged(
    best: tuple[Scores, Places] | None, values: Scores, places: Places, k: int
) -> tuple[Scores, Places]:
    """Both lists are sorted, and the new places are the greater ones: a stable sort keeps ties."""
    if best is not None:
        values = np.concatenate([best[0], values], axis=1)
        places = np.concatenate([best[1], places], axis=1)
    order = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(places, order, axis=1)
