"""LlamaIndex's simple vector store, BM25 retriever, fusion and MMR over gnomon's engine.

    from llama_index.core.vector_stores import SimpleVectorStore          # before
    from llama_index.retrievers.bm25 import BM25Retriever
    from gnomon.compat.llama_index import SimpleVectorStore, BM25Retriever   # after

Needs llama-index-core (``pip install 'gnomon[llama-index]'``); the BM25 retriever needs neither
llama-index-retrievers-bm25 nor bm25s. Adding, deleting, metadata, persisting and the learner modes
of the store are LlamaIndex's own.

What differs from LlamaIndex 0.14:

==========================  ===============================  =====================================
matter                      llama-index                      here
==========================  ===============================  =====================================
ties                        the greater node id              score falling, then the node that was
                                                             added first
cosine                      float64                          gnomon's, of the vectors in float32
a zero vector               NaN; other nodes get lost        similarity 0
NaN or infinity             NaN; other nodes get lost        ValueError that names the row
a top k of None or 0        all                              all
a negative top k            drops some, or all               ValueError
``data.embedding_dict``     a dict                           a dict; a vector is replaced with its
                                                             list, not written into
MMR                         against the last pick only       the same; ``mmr_penalty="all"`` asks
                                                             for all picks
``mmr_threshold``           anything                         0 to 1
``similarity_fn``           any                              the default; others go to the
                                                             original with a UserWarning
fusion                      writes new scores into the       into copies
                            retrievers' nodes
BM25 ties                   by NumPy's sort                  score falling, then the earlier node
nodes that filters or the   come back with score 0 when      never come back
mask leave out              top k exceeds the others
stemmer                     always PyStemmer                 PyStemmer's English one where it is
                                                             installed; else ImportError, or
                                                             ``skip_stemming=True``
==========================  ===============================  =====================================
"""

from __future__ import annotations

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise ImportError(
        "gnomon.compat.llama_index needs llama-index-core: pip install 'gnomon[llama-index]'"
    ) from error

from .bm25 import BM25Retriever
from .embeddings import get_top_k_embeddings, get_top_k_mmr_embeddings
from .fusion import QueryFusionRetriever
from .store import SimpleVectorStore

__all__ = [
    "BM25Retriever",
    "QueryFusionRetriever",
    "SimpleVectorStore",
    "get_top_k_embeddings",
    "get_top_k_mmr_embeddings",
]
