"""Haystack's in-memory document store, with both retrievals by gnomon."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
from haystack import Document, logging
from haystack.document_stores.errors import DocumentStoreError
from haystack.document_stores.in_memory import document_store as _module
from haystack.document_stores.in_memory.document_store import InMemoryDocumentStore as _Original
from haystack.utils import expit
from haystack.utils.filters import document_matches_filter

from ...arrays import as_count, as_float32
from ...bm25_formula import Formula
from .._rows import Rows
from .._tracked import TrackedDict
from .postings import Postings

# Haystack's own logger: who configured it hears the same messages.
logger = logging.getLogger("haystack.document_stores.in_memory.document_store")

_FORMULAS = {
    "BM25Okapi": ("haystack-okapi", 0.0),
    "BM25L": ("haystack-l", 0.5),
    "BM25Plus": ("haystack-plus", 1.0),
}
_METRICS = {"dot_product": "ip", "cosine": "cosine"}


class _Storage(TrackedDict[str, Document]):
    """Documents by id, and what their retrievals read."""

    def __init__(self, documents: dict[str, Document]) -> None:
        super().__init__(documents)
        self.postings = Postings()

    def __reduce__(self) -> Any:
        return _Storage, (dict(self),)


class InMemoryDocumentStore(_Original):
    """Haystack's ``InMemoryDocumentStore`` whose retrievals read a matrix and an inverted index.

    Examples
    --------
    >>> from haystack import Document
    >>> from gnomon.compat.haystack import InMemoryDocumentStore
    >>> store = InMemoryDocumentStore()
    >>> store.write_documents(
    ...     [
    ...         Document(id="a", content="red apple", embedding=[1.0, 0.0]),
    ...         Document(id="b", content="green pear", embedding=[0.0, 1.0]),
    ...     ]
    ... )
    2
    >>> [document.id for document in store.bm25_retrieval("pear")]
    ['b']
    >>> [(found.id, found.score) for found in store.embedding_retrieval([2.0, 1.0], top_k=1)]
    [('a', 2.0)]
    """

    @property
    def storage(self) -> dict[str, Document]:
        """Id to document. Shared with the other stores of the same index, Haystack's own too."""
        return self._storage()

    def _storage(self) -> _Storage:
        held = _Original.storage.fget(self)
        if not isinstance(held, _Storage):  # new, or all documents were deleted
            held = _Storage(held)
            if self._shared:
                _module._STORAGES[self.index] = held
            else:
                self._local_storage = held
        return held

    def _matching(self, documents: list[Document], filters: Any) -> list[bool]:
        self._validate_filters(filters)
        strict = self.strict_datetime_comparison
        return [
            document_matches_filter(
                filters=filters, document=document, strict_datetime_comparison=strict
            )
            for document in documents
        ]

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """As ``delete_by_filter``, in the store's executor."""
        loop = asyncio.get_running_loop()
        deleted: int = await loop.run_in_executor(
            self.executor, lambda: self.delete_by_filter(filters=filters)
        )
        return deleted

    def bm25_retrieval(
        self,
        query: str,
        filters: dict[str, Any] | None = None,
        top_k: int | None = 10,
        scale_score: bool = False,
    ) -> list[Document]:
        """The ``top_k`` best documents by the store's BM25 formula.

        ``scale_score`` maps scores into 0 to 1 by expit(score / 8). Raises ValueError for an empty
        query and for filters of another form.
        """
        if not query:
            raise ValueError("Query should be a non-empty string")
        if filters and "operator" not in filters:
            raise ValueError(
                "Invalid filter syntax. "
                "See https://docs.haystack.deepset.ai/docs/metadata-filtering for details."
            )
        limit = None if top_k is None else as_count(top_k, "top_k")
        held, counted = self._storage(), self._bm25_attr
        names = None
        if filters:
            known = [document for document in held.values() if document.id in counted]
            matches = self._matching(known, filters)
            names = [each.id for each, fits in zip(known, matches, strict=True) if fits]
        if not (counted if names is None else names):
            logger.info("No documents found for BM25 retrieval. Returning empty list.")
            return []
        held.postings.follow(counted, held.changes)
        formula = self._formula()
        found = held.postings.top(self._tokenize_bm25(query), formula, limit, names)
        if formula.name != "haystack-okapi":
            found = [(name, score) for name, score in found if score > 0.0]
        scale = _module.BM25_SCALING_FACTOR
        return [
            self._copied(
                held[name], expit(score / scale) if scale_score else score, self.return_embedding
            )
            for name, score in found
        ]

    def _formula(self) -> Formula:
        name, delta = _FORMULAS[self.bm25_algorithm]
        given = self.bm25_parameters
        return Formula(
            name,
            float(given.get("k1", 1.5)),
            float(given.get("b", 0.75)),
            float(given.get("delta", delta)),
            float(given.get("epsilon", 0.25)),
        ).checked()

    def embedding_retrieval(
        self,
        query_embedding: list[float],
        filters: dict[str, Any] | None = None,
        top_k: int | None = 10,
        scale_score: bool = False,
        return_embedding: bool | None = False,
    ) -> list[Document]:
        """The ``top_k`` documents whose embeddings are most similar to the query's.

        ``scale_score`` maps inner products by expit(score / 100), cosines by (score + 1) / 2.
        Raises ValueError for a query that is no list of floats, DocumentStoreError when lengths of
        embeddings differ.
        """
        if len(query_embedding) == 0 or not isinstance(query_embedding[0], float):
            raise ValueError("query_embedding should be a non-empty list of floats.")
        limit = None if top_k is None else as_count(top_k, "top_k")
        documents, has, rows = self._embedded()
        fits = np.array(self._matching(documents, filters), bool) if filters else None
        n_all = len(documents) if fits is None else int(fits.sum())
        n_embedded = int(has.sum() if fits is None else (has & fits).sum())
        if n_embedded == 0 or rows is None:
            logger.warning(
                "No Documents found with embeddings. Returning empty list. "
                "To generate embeddings, use a DocumentEmbedder."
            )
            return []
        if n_embedded < n_all:
            logger.info(
                "Skipping some Documents that don't have an embedding. "
                "To generate embeddings, use a DocumentEmbedder."
            )
        query = as_float32(query_embedding, "query_embedding")
        if query.shape != (rows.index.dim,):
            raise DocumentStoreError(
                "The embedding size of the query should be the same as the embedding size of the "
                f"Documents, got {query.size} and {rows.index.dim}. Please make sure that the "
                "query has been embedded with the same model as the Documents."
            )
        best = n_embedded if limit is None else limit
        found = rows.search(query, best, None if fits is None else fits[has])
        shown = self.return_embedding if return_embedding is None else return_embedding
        return [
            self._copied(rows.keys[place], self._scaled(score, scale_score), shown)
            for place, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True)
        ]

    def _embedded(self) -> tuple[list[Document], Any, Rows | None]:
        """All documents, which of them have an embedding, and these as a matrix."""
        metric = _METRICS.get(self.embedding_similarity_function, "ip")

        def make() -> tuple[list[Document], Any, Rows | None]:
            documents = list(held.values())
            has = np.array([document.embedding is not None for document in documents], bool)
            kept = [document for document in documents if document.embedding is not None]
            if not kept:
                return documents, has, None
            if len({len(document.embedding) for document in kept}) > 1:
                raise DocumentStoreError(
                    "The embedding size of all Documents should be the same. "
                    "Please make sure that the Documents have been embedded with the same model."
                )
            return documents, has, Rows.of(kept, [each.embedding for each in kept], metric)

        held = self._storage()
        return held.derived(metric, make)

    def _scaled(self, score: float, scale: bool) -> float:
        if not scale:
            return score
        if self.embedding_similarity_function == "cosine":
            return (score + 1) / 2
        scaled: float = expit(score / _module.DOT_PRODUCT_SCALING_FACTOR)
        return scaled

    @staticmethod
    def _copied(document: Document, score: float, with_embedding: bool) -> Document:
        # to_dict copies an embedding number by number, which takes longer than the search.
        fields = replace(document, embedding=None).to_dict()
        fields["score"] = score
        if with_embedding and document.embedding is not None:
            fields["embedding"] = list(document.embedding)
        copied: Document = Document.from_dict(fields)
        return copied
