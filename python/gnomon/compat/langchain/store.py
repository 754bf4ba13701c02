"""LangChain's in-memory vector store, and its MMR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore as _Original

from ...arrays import as_float32
from ...mmr import mmr_vectors
from ...results import Hits
from .._rows import Rows
from .._tracked import TrackedDict

Entry = dict[str, Any]


class InMemoryVectorStore(_Original):
    """langchain-core's ``InMemoryVectorStore`` whose searches read one matrix.

    Adding, deleting, ids, asynchronous calls, ``dump`` and ``load`` are langchain-core's own.

    Examples
    --------
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from gnomon.compat.langchain import InMemoryVectorStore
    >>> store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    >>> store.add_texts(["red apple", "green pear"], ids=["a", "b"])
    ['a', 'b']
    >>> [document.id for document in store.similarity_search("green pear", k=1)]
    ['b']
    """

    _entries: TrackedDict[str, Entry]

    def __init__(self, embedding: Embeddings) -> None:
        self._entries = TrackedDict()
        super().__init__(embedding)

    @property
    def store(self) -> dict[str, Entry]:
        """Id to entry: a dict with id, vector, text and metadata."""
        return self._entries

    @store.setter
    def store(self, entries: dict[str, Entry]) -> None:
        self._entries = TrackedDict(entries)

    def _rows(self) -> Rows:
        def make() -> Rows:
            entries = list(self._entries.values())
            return Rows.of(entries, [entry["vector"] for entry in entries])

        return self._entries.derived("rows", make)

    def _hits(
        self, embedding: list[float], k: int | None, filter: Callable[[Document], bool] | None
    ) -> tuple[Rows, Hits]:
        rows = self._rows()
        allowed = None
        if filter is not None:
            allowed = np.array([bool(filter(_document(entry))) for entry in rows.keys], bool)
        query = as_float32(embedding, "embedding")
        if query.shape != (rows.index.dim,):
            raise ValueError(
                f"Number of columns must be the same: the query has shape {list(query.shape)}, "
                f"the store's vectors [{rows.index.dim}]"
            )
        # The peer slices by k, so that None means all.
        return rows, rows.search(query, len(rows.keys) if k is None else k, allowed)

    def _similarity_search_with_score_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: Callable[[Document], bool] | None = None,
    ) -> list[tuple[Document, float, list[float]]]:
        if not self._entries:
            return []
        rows, found = self._hits(embedding, k, filter)
        entries = (rows.keys[place] for place in found.ids.tolist())
        return [
            (_document(entry), score, entry["vector"])
            for entry, score in zip(entries, found.scores.tolist(), strict=True)
        ]

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Callable[[Document], bool] | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """The documents that :func:`maximal_marginal_relevance` picks from the best ``fetch_k``."""
        if not self._entries:
            return []
        rows, found = self._hits(embedding, fetch_k, filter)
        picks = mmr_vectors(
            None, rows.vectors[found.ids], k, lambda_mult, relevance=found.scores, threads=1
        )
        return [_document(rows.keys[place]) for place in found.ids[picks].tolist()]


def maximal_marginal_relevance(
    query_embedding: Any, embedding_list: Any, lambda_mult: float = 0.5, k: int = 4
) -> list[int]:
    """Up to ``k`` picks by ``lambda_mult * relevance - (1 - lambda_mult) * redundancy``.

    ``query_embedding`` is [D] or [1, D], ``embedding_list`` [N, D]; see :func:`gnomon.mmr_vectors`.

    >>> maximal_marginal_relevance([1.0, 0.2], [[1.0, 0.1], [1.0, 0.05], [0.6, 0.8]], k=2)
    [0, 2]
    """
    if min(k, len(embedding_list)) <= 0:
        return []
    query = as_float32(query_embedding, "query_embedding").reshape(-1)
    # One query has nothing to share among threads but the cosines, which cost less than a thread.
    picks: list[int] = mmr_vectors(query, embedding_list, k, lambda_mult, threads=1)
    return picks


def _document(entry: Entry) -> Document:
    return Document(id=entry["id"], page_content=entry["text"], metadata=entry["metadata"])
