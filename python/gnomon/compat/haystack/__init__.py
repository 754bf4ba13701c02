"""Haystack's in-memory document store and joiner over gnomon's engine.

    from haystack.document_stores.in_memory import InMemoryDocumentStore   # before
    from haystack.components.joiners import DocumentJoiner
    from gnomon.compat.haystack import InMemoryDocumentStore, DocumentJoiner   # after

Needs haystack-ai (``pip install 'gnomon[haystack]'``). Writing, deleting, filters, metadata, disk
and asynchronous calls are Haystack's own; both retrievals are gnomon's, and its retrievers, joiners
and pipelines take the store as one of theirs.

What differs from Haystack 3.4:

==========================  ===============================  =====================================
matter                      haystack                         here
==========================  ===============================  =====================================
ties                        the document written first       the same, stated
similarity                  float64                          gnomon's, of the vectors in float32
NaN or infinity             sorts anywhere                   ValueError that names the row
zero vectors, cosine        0                                the same
BM25's average length       a running mean, rounded at       tokens / documents
                            each write
BM25Okapi's floor           added up in order of first       added up by document frequency
                            appearance
a negative ``top_k``        drops some                       ValueError
BM25's k1, b                anything                         k1 from 0 to 1e100, b from 0 to 1
an embedding written into   counts at once                   counts from the next write on; use
a stored Document                                            ``write_documents``
a subclass's ``_score_...`` used                             not called; derive from Haystack's
serialized type             haystack...                      gnomon.compat.haystack..., which this
                                                             import allows Haystack to load
``delete_by_filter_async``  not there                        there
``DocumentJoiner``, by      keeps the last list's document   keeps the first list's document
reciprocal rank             of several with one id
==========================  ===============================  =====================================
"""

from __future__ import annotations

try:
    from haystack.core.serialization_security import allow_deserialization_module
except ImportError as error:
    raise ImportError(
        "gnomon.compat.haystack needs haystack-ai: pip install 'gnomon[haystack]'"
    ) from error

from .joiner import DocumentJoiner
from .store import InMemoryDocumentStore

__all__ = ["DocumentJoiner", "InMemoryDocumentStore"]

# Who imports this module trusts it; pipelines saved with its classes then load.
allow_deserialization_module(__name__)
