"""LlamaIndex's BM25 retriever over gnomon's place-taker of bm25s."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.constants import DEFAULT_SIMILARITY_TOP_K
from llama_index.core.schema import BaseNode, IndexNode, MetadataMode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index.core.vector_stores.utils import (
    build_metadata_filter_fn,
    metadata_dict_to_node,
    node_to_metadata_dict,
)

from ..._atomic import replacing
from .. import bm25s

logger = logging.getLogger(__name__)

_SETTINGS = "retriever.json"


class BM25Retriever(BaseRetriever):
    """LlamaIndex's ``BM25Retriever``: bm25s' Lucene scores; folders can be read by either.

    Parameters
    ----------
    nodes, existing_bm25
        What to search: nodes, or an index of :mod:`gnomon.compat.bm25s` whose ``corpus`` holds
        their dicts.
    stemmer, language, skip_stemming, token_pattern
        How texts become tokens. Queries lose English stop words whatever the language, as there.
    similarity_top_k
        At most so many nodes; more than there are is cut with a logged warning.
    filters, corpus_weight_mask
        Which nodes may come back, or a factor for each node's score; 0 leaves a node out.

    Examples
    --------
    >>> from llama_index.core.schema import TextNode
    >>> from gnomon.compat.llama_index import BM25Retriever
    >>> nodes = [TextNode(id_=text, text=text) for text in ("red apple", "green pear")]
    >>> retriever = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=1, skip_stemming=True)
    >>> [found.node_id for found in retriever.retrieve("pear")]
    ['green pear']
    """

    def __init__(
        self,
        nodes: Sequence[BaseNode] | None = None,
        stemmer: Any = None,
        language: str = "en",
        existing_bm25: Any = None,
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        callback_manager: CallbackManager | None = None,
        objects: list[IndexNode] | None = None,
        object_map: dict[str, Any] | None = None,
        verbose: bool = False,
        skip_stemming: bool = False,
        token_pattern: str = r"(?u)\b\w\w+\b",
        filters: MetadataFilters | None = None,
        corpus_weight_mask: list[int] | None = None,
    ) -> None:
        self.stemmer = stemmer if stemmer is not None or skip_stemming else _english_stemmer()
        self.similarity_top_k = similarity_top_k
        self.token_pattern = token_pattern
        self.skip_stemming = skip_stemming
        if existing_bm25 is not None:
            self.bm25 = existing_bm25
            self.corpus = existing_bm25.corpus
        elif nodes is not None:
            self.corpus = [node_to_metadata_dict(n) | {"node_id": n.node_id} for n in nodes]
            texts = [node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]
            self.bm25 = bm25s.BM25()
            self.bm25.index(self._tokens(texts, language, True), show_progress=verbose)
        else:
            raise ValueError("Please pass nodes or an existing BM25 object.")
        self._limit_top_k()
        self.corpus_weight_mask = corpus_weight_mask or None
        if filters and self.corpus:
            self.corpus_weight_mask = self._mask(filters)
        super().__init__(
            callback_manager=callback_manager,
            object_map=object_map,
            objects=objects,
            verbose=verbose,
        )

    def _limit_top_k(self) -> None:
        n_docs = int(self.bm25.scores.get("num_docs") or 0)
        if n_docs == 0:
            raise ValueError("No nodes added to the retriever kindly add more data.")
        if n_docs < self.similarity_top_k:
            logger.warning(
                "similarity_top_k of %d is more than the %d nodes; it is cut to these",
                self.similarity_top_k,
                n_docs,
            )
            self.similarity_top_k = n_docs

    def _mask(self, filters: MetadataFilters) -> list[int]:
        entries = {entry["node_id"]: entry for entry in self.corpus}
        fits = build_metadata_filter_fn(lambda node_id: entries[node_id], filters)
        mask = [int(fits(entry["node_id"])) for entry in self.corpus]
        if not any(mask):
            raise ValueError(
                "All nodes were filtered out by the metadata filters. "
                "Please adjust your filters or add more data."
            )
        return mask

    @classmethod
    def from_defaults(
        cls,
        index: Any = None,
        nodes: Sequence[BaseNode] | None = None,
        docstore: Any = None,
        stemmer: Any = None,
        language: str = "en",
        similarity_top_k: int = DEFAULT_SIMILARITY_TOP_K,
        verbose: bool = False,
        skip_stemming: bool = False,
        token_pattern: str = r"(?u)\b\w\w+\b",
        filters: MetadataFilters | None = None,
        tokenizer: Callable[[str], list[str]] | None = None,
    ) -> BM25Retriever:
        """From exactly one of an index, its document store, or nodes; ValueError otherwise.

        ``tokenizer`` is deprecated there, and does nothing.
        """
        if tokenizer is not None:
            logger.warning("The tokenizer parameter is deprecated: use a stemmer from PyStemmer.")
        if sum(bool(source) for source in (index, nodes, docstore)) != 1:
            raise ValueError("Please pass exactly one of index, nodes, or docstore.")
        if index is not None:
            docstore = index.docstore
        if docstore is not None:
            nodes = list(docstore.docs.values())
        return cls(
            nodes=nodes,
            stemmer=stemmer,
            language=language,
            similarity_top_k=similarity_top_k,
            verbose=verbose,
            skip_stemming=skip_stemming,
            token_pattern=token_pattern,
            filters=filters,
        )

    def get_persist_args(self) -> dict[str, Any]:
        """What :meth:`persist` writes beside the index."""
        return {
            "similarity_top_k": self.similarity_top_k,
            "verbose": self._verbose,
            "corpus_weight_mask": self.corpus_weight_mask,
        }

    def persist(self, path: str, encoding: str = "utf-8", **kwargs: Any) -> None:
        """Writes the index with its nodes as a bm25s folder, and the settings beside it."""
        self.bm25.save(path, corpus=self.corpus, **kwargs)
        with replacing(Path(path) / _SETTINGS) as temp:
            temp.write_text(json.dumps(self.get_persist_args(), indent=2), encoding)

    @classmethod
    def from_persist_dir(cls, path: str, encoding: str = "utf-8", **kwargs: Any) -> BM25Retriever:
        """Reads what :meth:`persist` (or LlamaIndex's) wrote. ValueError for a damaged folder."""
        index = bm25s.BM25.load(path, load_corpus=True, **kwargs)
        settings = json.loads((Path(path) / _SETTINGS).read_text(encoding))
        return cls(existing_bm25=index, **settings)

    def _tokens(self, texts: Any, stopwords: str, return_ids: bool) -> Any:
        return bm25s.tokenize(
            texts,
            stopwords=stopwords,
            stemmer=None if self.skip_stemming else self.stemmer,
            token_pattern=self.token_pattern,
            return_ids=return_ids,
            show_progress=False,
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = self._tokens(query_bundle.query_str, "english", False)[0]
        mask = None if self.corpus_weight_mask is None else np.array(self.corpus_weight_mask)
        scores = self.bm25.get_scores(query, weight_mask=mask)
        places = np.arange(len(scores)) if mask is None else np.flatnonzero(mask)
        order = np.argsort(-scores[places], kind="stable")[: self.similarity_top_k]
        return [
            NodeWithScore(
                node=metadata_dict_to_node(self.corpus[place]), score=float(scores[place])
            )
            for place in places[order].tolist()
        ]


def _english_stemmer() -> Any:
    try:
        import Stemmer
    except ImportError:
        raise ImportError(
            "BM25Retriever stems with PyStemmer: pip install 'gnomon[stem]', "
            "or pass skip_stemming=True"
        ) from None
    return Stemmer.Stemmer("english")
