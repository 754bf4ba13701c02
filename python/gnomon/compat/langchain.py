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
``store``                   a dict                           a dict; an entry is replaced, not
                                                             written into
MMR's lambda_mult           anything                         0 to 1
MMR's ties (a query that    by rounding                      the lower index
is a document has many)
``BM25Retriever``           in langchain-community, over     here; rank_bm25's scores without it;
                            rank_bm25; cannot be saved;      ``save`` and ``load`` without pickle;
                            k fixed                          ``invoke(query, k=...)``
``EnsembleRetriever``       in langchain-classic             here; the same formula and order
==========================  ===============================  =====================================
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from .. import _core
from .._atomic import replacing
from ..arrays import as_count, as_float32
from ..dense import DenseIndex
from ..mmr import mmr_vectors
from .rank_bm25 import BM25Okapi

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import InMemoryVectorStore as _Original
except ImportError as error:
    raise ImportError(
        "gnomon.compat.langchain needs langchain-core: pip install 'gnomon[langchain]'"
    ) from error

__all__ = [
    "BM25Retriever",
    "EnsembleRetriever",
    "InMemoryVectorStore",
    "maximal_marginal_relevance",
]

_FORMAT, _VERSION = "gnomon-langchain-bm25", 1

Hit = tuple[Document, float, list[float]]


def _changing(name: str) -> Any:
    """A dict's method after which the matrix is made anew."""
    method = getattr(dict, name)

    def changed(self: _Store, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        finally:
            self.changes += 1

    return changed


class _Store(dict[str, dict[str, Any]]):
    """Entries by id, and the searchable matrix of their vectors until one changes."""

    changes = 0
    known: tuple[int, list[dict[str, Any]], DenseIndex] | None = None

    __setitem__ = _changing("__setitem__")
    __delitem__ = _changing("__delitem__")
    __ior__ = _changing("__ior__")
    pop = _changing("pop")
    popitem = _changing("popitem")
    clear = _changing("clear")
    update = _changing("update")
    setdefault = _changing("setdefault")

    def __reduce__(self) -> Any:
        return _Store, (dict(self),)

    def snapshot(self) -> tuple[list[dict[str, Any]], DenseIndex]:
        """The entries in order of insertion, and the index over their vectors."""
        changes = self.changes  # before the entries are read: another thread may add some
        known = self.known
        if known is None or known[0] != changes:
            entries = list(self.values())
            known = (changes, entries, _index(entries, "auto"))
            self.known = known
        return known[1:]


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

    _entries: _Store

    def __init__(self, embedding: Embeddings) -> None:
        self._entries = _Store()
        super().__init__(embedding)

    @property
    def store(self) -> dict[str, dict[str, Any]]:
        """Id to entry: a dict with id, vector, text and metadata."""
        return self._entries

    @store.setter
    def store(self, entries: dict[str, dict[str, Any]]) -> None:
        self._entries = _Store(entries)

    def _similarity_search_with_score_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        filter: Callable[[Document], bool] | None = None,
    ) -> list[Hit]:
        wanted = as_count(k, "k")
        if not self._entries:
            return []
        entries, index = self._entries.snapshot()
        if filter is not None:
            entries = [entry for entry in entries if filter(_document(entry))]
            if not entries:
                return []
            index = _index(entries, "none")
        query = as_float32(embedding, "embedding")
        if query.shape != (index.dim,):
            raise ValueError(
                f"Number of columns must be the same: the query has shape {list(query.shape)}, "
                f"the store's vectors [{index.dim}]"
            )
        found = index.search(query, min(wanted, len(entries)))
        return [
            (_document(entries[place]), score, entries[place]["vector"])
            for place, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True)
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
        hits = self._similarity_search_with_score_by_vector(embedding, fetch_k, filter)
        picks = maximal_marginal_relevance(
            embedding, [vector for _, _, vector in hits], lambda_mult, k
        )
        return [hits[pick][0] for pick in picks]


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
    picks: list[int] = mmr_vectors(query, embedding_list, k, lambda_mult)
    return picks


def split(text: str) -> list[str]:
    """``str.split``, the default of :class:`BM25Retriever`.

    >>> split("two words")
    ['two', 'words']
    """
    return text.split()


class BM25Retriever(BaseRetriever):
    """Documents by BM25, with rank_bm25's scores; ``k`` may be given to ``invoke``.

    Make one with :meth:`from_texts`, :meth:`from_documents` or :meth:`load`.

    Examples
    --------
    >>> from gnomon.compat.langchain import BM25Retriever
    >>> texts = ["red apple", "green pear", "blue plum"]
    >>> retriever = BM25Retriever.from_texts(texts, k=2)
    >>> [document.page_content for document in retriever.invoke("pear", k=1)]
    ['green pear']
    >>> retriever.save("retriever.json")
    >>> len(BM25Retriever.load("retriever.json").invoke("pear"))
    2
    """

    vectorizer: Any = None
    docs: list[Document]
    k: int = 4
    preprocess_func: Callable[[str], list[str]] = split

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        metadatas: Iterable[dict[str, Any]] | None = None,
        ids: Iterable[str | None] | None = None,
        bm25_params: dict[str, Any] | None = None,
        preprocess_func: Callable[[str], list[str]] = split,
        **kwargs: Any,
    ) -> BM25Retriever:
        """One document a text; ``bm25_params`` go to :class:`gnomon.compat.rank_bm25.BM25Okapi`."""
        contents = list(texts)
        metas = [{} for _ in contents] if metadatas is None else list(metadatas)
        names = [None for _ in contents] if ids is None else list(ids)
        if not len(contents) == len(metas) == len(names):
            raise ValueError(
                f"texts, metadatas and ids must be as many, got {len(contents)}, {len(metas)} and "
                f"{len(names)}"
            )
        documents = [
            Document(page_content=text, metadata=meta, id=name)
            for text, meta, name in zip(contents, metas, names, strict=True)
        ]
        vectorizer = BM25Okapi(map(preprocess_func, contents), **(bm25_params or {}))
        return cls(vectorizer=vectorizer, docs=documents, preprocess_func=preprocess_func, **kwargs)

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        *,
        bm25_params: dict[str, Any] | None = None,
        preprocess_func: Callable[[str], list[str]] = split,
        **kwargs: Any,
    ) -> BM25Retriever:
        """As :meth:`from_texts`, from documents with their ids and metadata."""
        given = list(documents)
        return cls.from_texts(
            [document.page_content for document in given],
            [document.metadata for document in given],
            [document.id for document in given],
            bm25_params,
            preprocess_func,
            **kwargs,
        )

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        wanted = as_count(self.k if k is None else k, "k")
        found: list[Document] = self.vectorizer.get_top_n(
            self.preprocess_func(query), self.docs, n=wanted
        )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes documents, tokens and parameters to one file, in one step and with a checksum.

        Raises TypeError for a vectorizer that is not :meth:`from_texts`' own, tokens that are not
        str, or metadata that JSON cannot hold.
        """
        bm25 = self.vectorizer
        if type(bm25) is not BM25Okapi:
            raise TypeError(f"only a BM25Okapi of gnomon can be saved, got {type(bm25).__name__}")
        state = {
            "k": self.k,
            "preprocess_func": _name_of(self.preprocess_func),
            "bm25_params": {"k1": bm25.k1, "b": bm25.b, "epsilon": bm25.epsilon},
            "documents": [
                {"id": doc.id, "page_content": doc.page_content, "metadata": doc.metadata}
                for doc in self.docs
            ],
            "tokens": bm25._documents(),
        }
        if not all(isinstance(token, str) for token in bm25.idf):
            raise TypeError("preprocess_func gave tokens that are not str; they cannot be saved")
        body = json.dumps(state, ensure_ascii=False).encode()
        head = {"format": _FORMAT, "version": _VERSION, "crc32c": _core.crc32c(body)}
        with replacing(path) as temp:
            temp.write_bytes(json.dumps(head).encode() + b"\n" + body)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        preprocess_func: Callable[[str], list[str]] = split,
        **kwargs: Any,
    ) -> BM25Retriever:
        """Reads what :meth:`save` wrote; a function other than the default is to be given again.

        Raises ValueError for another function than the saved one's name, CorruptIndex for a file
        that :meth:`save` did not write so.
        """
        head, _, body = Path(path).read_bytes().partition(b"\n")
        try:
            known = json.loads(head)
            whole = known == {
                "format": _FORMAT,
                "version": _VERSION,
                "crc32c": _core.crc32c(body),
            }
        except ValueError:
            whole = False
        if not whole:
            raise _core.CorruptIndex(f"{os.fspath(path)} is not a whole saved BM25Retriever")
        state = json.loads(body)
        if state["preprocess_func"] != _name_of(preprocess_func):
            raise ValueError(
                f"the retriever was saved with preprocess_func {state['preprocess_func']}, "
                f"got {_name_of(preprocess_func)}; pass the same function"
            )
        return cls(
            vectorizer=BM25Okapi(state["tokens"], **state["bm25_params"]),
            docs=[Document(**document) for document in state["documents"]],
            preprocess_func=preprocess_func,
            **{"k": state["k"], **kwargs},
        )


class EnsembleRetriever(BaseRetriever):
    """Several retrievers' documents by weighted reciprocal rank: sum of weight / (c + rank).

    A document is known by its text, or by ``metadata[id_key]``; the first of equals is returned,
    and one that a list holds twice counts twice. Ties stand in order of first appearance.

    Examples
    --------
    >>> from gnomon.compat.langchain import BM25Retriever, EnsembleRetriever
    >>> one = BM25Retriever.from_texts(["red apple", "green pear", "blue plum"], k=1)
    >>> both = EnsembleRetriever(retrievers=[one, one], weights=[0.5, 0.5])
    >>> [document.page_content for document in both.invoke("plum")]
    ['blue plum']
    """

    retrievers: list[Any]
    weights: list[float] | None = None
    c: int = 60
    id_key: str | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return self.weighted_reciprocal_rank(
            [
                retriever.invoke(
                    query, config={"callbacks": run_manager.get_child(f"retriever_{number}")}
                )
                for number, retriever in enumerate(self.retrievers, 1)
            ]
        )

    def weighted_reciprocal_rank(self, doc_lists: Sequence[Sequence[Document]]) -> list[Document]:
        """All documents of the lists, each once, best first.

        Raises ValueError unless there are as many lists as weights.
        """
        n = len(self.retrievers)
        weights = [1 / n] * n if self.weights is None else self.weights
        if len(doc_lists) != len(weights):
            raise ValueError("Number of rank lists must be equal to the number of weights.")
        scores: dict[Any, float] = {}
        first: dict[Any, Document] = {}
        for documents, weight in zip(doc_lists, weights, strict=True):
            for rank, document in enumerate(documents, 1):
                key = self._key(document)
                scores[key] = scores.get(key, 0.0) + weight / (rank + self.c)
                first.setdefault(key, document)
        return [first[key] for key in sorted(scores, key=scores.__getitem__, reverse=True)]

    def _key(self, document: Document) -> Any:
        return document.page_content if self.id_key is None else document.metadata[self.id_key]


def _document(entry: dict[str, Any]) -> Document:
    return Document(id=entry["id"], page_content=entry["text"], metadata=entry["metadata"])


def _index(entries: Iterable[dict[str, Any]], screen: str) -> DenseIndex:
    return DenseIndex.build([entry["vector"] for entry in entries], screen=screen)


def _name_of(function: Callable[..., Any]) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"
