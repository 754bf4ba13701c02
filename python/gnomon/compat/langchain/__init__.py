"""LangChain's in-memory store, BM25 retriever, MMR and ensemble over gnomon's engine.

    from langchain_core.vectorstores import InMemoryVectorStore        # before
    from langchain_community.retrievers import BM25Retriever
    from gnomon.compat.langchain import InMemoryVectorStore, BM25Retriever  # after

Needs langchain-core (``pip install 'gnomon[langchain]'``) and nothing else of LangChain.

What differs from LangChain:

==========================  ===============================  =====================================
matter                      langchain                        here
==========================  ===============================  =====================================
ties                        by NumPy's sort                  score falling, then the document that
                                                             was added first
cosine                      float64, or simsimd's float32    gnomon's, of the vectors in float32
NaN or infinity             a warning, similarity 0          ValueError that names the row
a zero query                ValueError                       all similarities 0
a negative k                drops some                       ValueError
``store``                   a dict                           a dict; an entry's vector is replaced
                                                             with it, not written into
vectors in memory           Python lists                     these, and one float32 matrix
MMR's lambda_mult           anything                         0 to 1
MMR's ties (a query that    by rounding                      the lower index
is a document has many)
``BM25Retriever``           in langchain-community, over     here; rank_bm25's scores without it;
                            rank_bm25; cannot be saved;      ``save`` and ``load`` without pickle
                            k fixed                          or counting again; ``invoke(query,
                                                             k=...)``, also of ``ainvoke``
``EnsembleRetriever``       in langchain-classic             here; the same formula and order
==========================  ===============================  =====================================
"""

from __future__ import annotations

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise ImportError(
        "gnomon.compat.langchain needs langchain-core: pip install 'gnomon[langchain]'"
    ) from error

from .bm25 import BM25Retriever
from .ensemble import EnsembleRetriever
from .store import InMemoryVectorStore, maximal_marginal_relevance

__all__ = [
    "BM25Retriever",
    "EnsembleRetriever",
    "InMemoryVectorStore",
    "maximal_marginal_relevance",
]
