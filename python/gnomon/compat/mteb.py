"""MTEB's index protocol over gnomon's engine: an exact search back end for its encoders.

    from mteb.models.search_encoder_index import FaissSearchIndex   # before
    from gnomon.compat.mteb import FaissSearchIndex                 # after

    SearchEncoderWrapper(model, index_backend=FaissSearchIndex(model))

The interface is that of mteb 2.26 (``IndexEncoderSearchProtocol``); neither it nor torch nor faiss
need be installed for the import.

What differs from mteb's ``FaissSearchIndex``:

=========================  =================================  ==================================
matter                     mteb                               here
=========================  =================================  ==================================
ties                       inner product: higher row first;   score falling, then the row that was
                           Euclidean: lower row first         added first
a candidate listed twice   scored twice                       once, at its first place
scores                     float32                            the exact order's float64
Euclidean order            by float32 distances               by exact squared distances
NaN or infinity            row dropped, or index -1           ValueError that names the row
a zero vector              cosine 0                           the same
the caller's embeddings    copied; normalized in place        float32 is kept as it lies: do not
                           where they were float32            write to it before ``clear``
other similarities         ValueError                         by the model's own function, with a
                                                              UserWarning, in the same order
``index``                  a faiss index                      a :class:`gnomon.DenseIndex`
=========================  =================================  ==================================
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import as_count, as_float32
from ..dense_index import DenseIndex

__all__ = ["ExactSearchIndex", "FaissSearchIndex"]

logger = logging.getLogger(__name__)

_METRICS = {"COSINE": "cosine", "DOT_PRODUCT": "ip", "EUCLIDEAN": "l2"}

Found = tuple[list[list[float]], list[list[int]]]


class ExactSearchIndex:
    """All embeddings, searched exactly or in the order of candidates to rerank.

    Parameters
    ----------
    model
        Its ``mteb_model_meta.similarity_fn_name`` decides the metric.

    Examples
    --------
    >>> from types import SimpleNamespace as Model
    >>> import numpy as np
    >>> meta = Model(similarity_fn_name=Model(name="COSINE"))
    >>> index = ExactSearchIndex(Model(mteb_model_meta=meta))
    >>> index.add_documents(np.eye(3, dtype=np.float32), ["a", "b", "c"])
    >>> index.search(np.array([[0.0, 1.0, 0.0]]), top_k=2, similarity_fn=None)
    ([[1.0, 0.0]], [[1, 0]])
    """

    def __init__(self, model: Any) -> None:
        given = model.mteb_model_meta.similarity_fn_name
        name = getattr(given, "name", str(given))
        self.metric = _METRICS.get(name.upper())
        if self.metric is None:
            warnings.warn(
                f"gnomon knows {', '.join(_METRICS)}; similarity {name} is computed by the model",
                UserWarning,
                stacklevel=2,
            )
        self.clear()

    def clear(self) -> None:
        """Forgets all documents."""
        self.idxs: list[str] = []
        self.index: DenseIndex | None = None
        self._parts: list[Any] = []  # as they came, for a similarity of the model's own

    def add_documents(self, embeddings: Any, idxs: Sequence[str]) -> None:
        """Adds one row [n, D] for each of n ids. Raises ValueError for NaN and other shapes."""
        names = list(idxs)
        if len(embeddings) != len(names):
            raise ValueError(f"{len(embeddings)} embeddings came with {len(names)} ids")
        if self.metric is None:
            self._parts.append(embeddings)
        elif self.index is None:
            rows = as_float32(embeddings, "embeddings")
            self.index = DenseIndex.build(rows, metric=self.metric, copy=False)
        else:
            self.index.add(embeddings)
        self.idxs.extend(names)

    def search(
        self,
        embeddings: Any,
        top_k: int,
        similarity_fn: Callable[[Any, Any], Any] | None,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        query_idx_to_id: Mapping[int, str] | None = None,
    ) -> Found:
        """Scores and row numbers of the best ``top_k`` documents for each query [Q, D].

        With ``top_ranked``, query id to candidates' ids, only these are scored, and the numbers are
        places in a query's list; ``query_idx_to_id`` then names the queries.
        """
        if not self.idxs:
            raise ValueError("No index built. Call add_document() first.")
        best = as_count(top_k, "top_k")
        if top_ranked is None:
            scores, places = self._best(embeddings, best, similarity_fn)
            return scores.tolist(), places.tolist()
        if query_idx_to_id is None:
            raise ValueError("query_idx_to_id must be provided when reranking.")
        return self._rerank(embeddings, best, similarity_fn, top_ranked, query_idx_to_id)

    def _best(
        self, queries: Any, k: int, similarity: Any
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        if self.index is None:
            parts = [_matrix(similarity(queries, part)) for part in self._parts]
            return _ranked(np.concatenate(parts, axis=1), k)
        found = self.index.search(as_float32(queries, "embeddings"), k)
        return self._shown(found.scores), found.ids

    def _rerank(
        self,
        queries: Any,
        k: int,
        similarity: Any,
        top_ranked: Mapping[str, Sequence[str]],
        names: Mapping[int, str],
    ) -> Found:
        row_of = {name: row for row, name in enumerate(self.idxs)}
        answers: Found = ([], [])
        for number, query in enumerate(queries):
            candidates = top_ranked.get(names[number])
            if not candidates:
                message = f"No top-ranked documents for query {names[number]}"
                logger.warning(message)
                warnings.warn(message, stacklevel=3)
                scores: Any = np.zeros((1, 0))
                places: Any = np.zeros((1, 0), np.int64)
            else:
                rows = [row_of[name] for name in candidates]
                scores, places = self._best_of(query, rows, k, similarity)
            answers[0].append(scores[0].tolist())
            answers[1].append(places[0].tolist())
        return answers

    def _best_of(self, query: Any, rows: list[int], k: int, similarity: Any) -> tuple[Any, Any]:
        if self.index is None:
            wanted = query[None] if hasattr(query, "ndim") else [query]
            starts = np.cumsum([0, *map(len, self._parts)])
            owners = np.searchsorted(starts, rows, side="right") - 1
            columns = [
                _matrix(similarity(wanted, self._parts[owner][row - starts[owner]][None]))
                for owner, row in zip(owners.tolist(), rows, strict=True)
            ]
            return _ranked(np.concatenate(columns, axis=1), k)
        place_of = {row: place for place, row in reversed(list(enumerate(rows)))}
        found = self.index.search(as_float32(query, "embeddings"), k, filter=list(place_of))
        places = np.array([[place_of[row] for row in found.ids.tolist()]], np.int64)
        return self._shown(found.scores[None]), places

    def _shown(self, scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Mteb's Euclidean score is the negative distance, the engine's its negative square."""
        shown: npt.NDArray[np.float64] = -np.sqrt(-scores) if self.metric == "l2" else scores
        return shown


FaissSearchIndex = ExactSearchIndex


def _matrix(scores: Any) -> npt.NDArray[np.float64]:
    array = scores.detach().cpu() if hasattr(scores, "detach") else scores
    return np.asarray(array, np.float64)


def _ranked(scores: Any, k: int) -> tuple[Any, Any]:
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), order
