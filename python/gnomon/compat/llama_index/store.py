"""LlamaIndex's simple vector store, searched as one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from llama_index.core.vector_stores.simple import SimpleVectorStore as _Original
from llama_index.core.vector_stores.simple import SimpleVectorStoreData
from llama_index.core.vector_stores.types import (
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from ...arrays import as_count
from .._rows import Rows
from .._tracked import TrackedDict
from .embeddings import mmr, query_of


class SimpleVectorStore(_Original):
    """LlamaIndex's ``SimpleVectorStore`` whose searches read one matrix.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> from llama_index.core.vector_stores.types import VectorStoreQuery
    >>> from gnomon.compat.llama_index import SimpleVectorStore
    >>> store = SimpleVectorStore()
    >>> vectors = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    >>> store.add([TextNode(id_=name, embedding=vector) for name, vector in vectors.items()])
    ['a', 'b']
    >>> found = store.query(VectorStoreQuery(query_embedding=[1.0, 2.0], similarity_top_k=1))
    >>> found.ids, found.similarities
    (['b'], [0.894...])
    """

    def __init__(self, data: SimpleVectorStoreData | None = None, **kwargs: Any) -> None:
        super().__init__(data=data, **kwargs)
        self._embeddings()

    def clear(self) -> None:
        """Forgets all nodes."""
        super().clear()
        self._embeddings()

    def _embeddings(self) -> TrackedDict[str, Any]:
        held = self.data.embedding_dict
        if not isinstance(held, TrackedDict):
            held = TrackedDict(held)
            self.data.embedding_dict = held
        return held

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Ids and similarities of the best nodes, or of MMR's picks.

        Modes other than the default and MMR are LlamaIndex's own. Raises ValueError for NaN, and
        for filters on a store that was persisted without metadata.
        """
        held = self._embeddings()
        if query.mode not in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR):
            return super().query(query, **kwargs)
        if query.filters is not None and held and not self.data.metadata_dict:
            raise ValueError(
                "Cannot filter stores that were persisted without metadata. "
                "Please rebuild the store with metadata to enable filtering."
            )
        if not held:
            return VectorStoreQueryResult(similarities=[], ids=[])
        rows = held.derived("rows", lambda: _rows(held))
        allowed = self._allowed(query, rows.keys)
        wanted = query_of(query.query_embedding, rows.index.dim)
        best = as_count(query.similarity_top_k or len(rows.keys), "similarity_top_k")
        if query.mode == VectorStoreQueryMode.MMR:
            places = np.arange(len(rows.keys)) if allowed is None else np.flatnonzero(allowed)
            among = rows.vectors if allowed is None else rows.vectors[places]
            penalty = kwargs.get("mmr_penalty", "last")
            scores, picks = mmr(wanted, among, best, kwargs.get("mmr_threshold"), penalty)
            found = places[picks].tolist() if picks else []
        else:
            hits = rows.search(wanted, best, allowed)
            scores, found = hits.scores.tolist(), hits.ids.tolist()
        return VectorStoreQueryResult(
            similarities=scores, ids=[rows.keys[place] for place in found]
        )

    def _allowed(self, query: VectorStoreQuery, names: list[str]) -> Any:
        """Which of the rows the query is restricted to; None for all."""
        if query.node_ids is None and query.filters is None:
            return None
        fits = build_metadata_filter_fn(
            lambda node_id: self.data.metadata_dict[node_id], query.filters
        )
        wanted = None if query.node_ids is None else set(query.node_ids)
        return np.array([(wanted is None or name in wanted) and fits(name) for name in names], bool)


def _rows(held: TrackedDict[str, Any]) -> Rows:
    entries = list(held.items())
    return Rows.of([name for name, _ in entries], [vector for _, vector in entries])
