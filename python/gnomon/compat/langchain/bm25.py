"""LangChain's BM25 retriever, with ``k`` at call time, and saved without being built again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import run_in_executor

from ... import _core
from ..._collector import no_collections
from ...arrays import as_count
from ...bm25 import BM25Index
from ...storage import Directory, DirectoryWriter
from ..rank_bm25 import BM25Okapi

PART, VERSION = "langchain", 1


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
    >>> retriever.save("retriever")
    >>> len(BM25Retriever.load("retriever").invoke("pear"))
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

    # langchain-core's own takes no argument beside the query.
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        found: list[Document] = await run_in_executor(
            None, self._get_relevant_documents, query, run_manager=run_manager.get_sync(), k=k
        )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes documents, index and parameters to a directory, in one step and with checksums.

        Raises TypeError for a vectorizer that is not :meth:`from_texts`' own, tokens that are not
        str, or metadata that JSON cannot hold; FileExistsError when the path holds anything else.
        """
        bm25 = self.vectorizer
        if type(bm25) is not BM25Okapi:
            raise TypeError(f"only a BM25Okapi of gnomon can be saved, got {type(bm25).__name__}")
        if not all(isinstance(token, str) for token in bm25._tokens):
            raise TypeError("preprocess_func gave tokens that are not str; they cannot be saved")
        documents = [
            {"id": doc.id, "page_content": doc.page_content, "metadata": doc.metadata}
            for doc in self.docs
        ]
        meta = {
            "version": VERSION,
            "k": self.k,
            "preprocess_func": _name_of(self.preprocess_func),
            "bm25": {name: getattr(bm25, name) for name in _SAVED},
        }
        texts = {"documents": documents, "tokens": bm25._tokens}
        encoded = {name: json.dumps(value).encode() for name, value in texts.items()}
        with DirectoryWriter(path) as writer:
            index = bm25._index.write_part(writer)
            file = _core.ContainerWriter(writer.file(PART, "documents"))
            for name, data in encoded.items():
                file.section(name, np.frombuffer(data, np.uint8))
            file.section("ids", bm25._ids)
            file.section("offsets", bm25._offsets)
            file.finish()
            writer.commit({"bm25": index, PART: meta})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        preprocess_func: Callable[[str], list[str]] = split,
        **kwargs: Any,
    ) -> BM25Retriever:
        """Opens what :meth:`save` wrote, by memory map; nothing is tokenized or counted again.

        A function other than the default is to be given again. Raises ValueError for another
        function than the saved one's name, FileNotFoundError, and CorruptIndex for what
        :meth:`save` did not write so.
        """
        directory = Directory.open(path)
        meta = directory.meta(PART)
        if meta.get("version") != VERSION:
            raise _damaged(path, f"has format version {meta.get('version')}, not {VERSION}")
        if meta.get("preprocess_func") != _name_of(preprocess_func):
            raise ValueError(
                f"the retriever was saved with preprocess_func {meta.get('preprocess_func')}, "
                f"got {_name_of(preprocess_func)}; pass the same function"
            )
        file = directory.container(PART, "documents")
        index = BM25Index.read_part(directory)
        try:
            with no_collections():  # they would be two thirds of the time
                read = json.loads(file.array("documents").tobytes())
                documents = [Document(**each) for each in read]
                tokens = json.loads(file.array("tokens").tobytes())
            ids, offsets = file.array("ids"), file.array("offsets")
            state = {name: meta["bm25"][name] for name in _SAVED}
            k = as_count(meta["k"], "k")
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, f"cannot be read: {error}") from None
        if (
            not len(index) == len(documents) == len(offsets) - 1
            or len(ids) != index.n_tokens
            or len(tokens) != index.n_terms
        ):
            raise _damaged(path, "holds documents that are not those of its index")
        bm25 = BM25Okapi.__new__(BM25Okapi)
        vars(bm25).update(state, tokenizer=None)
        bm25._restore(tokens, ids, offsets, index)
        return cls(
            vectorizer=bm25,
            docs=documents,
            preprocess_func=preprocess_func,
            **{"k": k, **kwargs},
        )


_SAVED = ("k1", "b", "epsilon", "average_idf", "_floor", "compat")


def _damaged(path: str | os.PathLike[str], what: str) -> _core.CorruptIndex:
    return _core.CorruptIndex(f"{os.fspath(path)} {what}; save the retriever again")


def _name_of(function: Callable[..., Any]) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"
