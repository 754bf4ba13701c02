"""LangChain's ensemble of retrievers: weighted reciprocal rank fusion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import RunnableConfig, patch_config
from pydantic import model_validator


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

    @model_validator(mode="after")
    def _check_weights(self) -> EnsembleRetriever:
        if self.weights and len(self.weights) != len(self.retrievers):
            raise ValueError(
                f"Length of weights must match number of retrievers (got {len(self.weights)} "
                f"weights for {len(self.retrievers)} retrievers)."
            )
        if self.weights and not any(weight > 0 for weight in self.weights):
            raise ValueError("At least one ensemble weight must be greater than zero.")
        if not self.weights and self.retrievers:
            self.weights = [1 / len(self.retrievers)] * len(self.retrievers)
        return self

    # The retrievers get the caller's whole configuration and not its callbacks alone; BaseRetriever
    # hands on extra arguments, but not the configuration itself.
    def invoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """The fused documents of all retrievers for one query."""
        found: list[Document] = super().invoke(input, config, child_config=config, **kwargs)
        return found

    async def ainvoke(
        self, input: str, config: RunnableConfig | None = None, **kwargs: Any
    ) -> list[Document]:
        """As :meth:`invoke`, all retrievers at once."""
        found: list[Document] = await super().ainvoke(input, config, child_config=config, **kwargs)
        return found

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        child_config: RunnableConfig | None = None,
    ) -> list[Document]:
        return self.weighted_reciprocal_rank(
            [
                _documents(retriever.invoke(query, config))
                for retriever, config in self._children(run_manager, child_config)
            ]
        )

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        child_config: RunnableConfig | None = None,
    ) -> list[Document]:
        lists = await asyncio.gather(
            *(
                retriever.ainvoke(query, config)
                for retriever, config in self._children(run_manager, child_config)
            )
        )
        return self.weighted_reciprocal_rank([_documents(found) for found in lists])

    def _children(self, run_manager: Any, config: RunnableConfig | None) -> list[tuple[Any, Any]]:
        return [
            (
                retriever,
                patch_config(config, callbacks=run_manager.get_child(tag=f"retriever_{number}")),
            )
            for number, retriever in enumerate(self.retrievers, 1)
        ]

    def weighted_reciprocal_rank(self, doc_lists: Sequence[Sequence[Document]]) -> list[Document]:
        """All documents of the lists, each once, best first.

        Raises ValueError unless there are as many lists as weights.
        """
        weights = self.weights or []
        if len(doc_lists) != len(weights):
            raise ValueError("Number of rank lists must be equal to the number of weights.")
        scores: dict[Any, float] = {}
        first: dict[Any, Document] = {}
        for documents, weight in zip(doc_lists, weights, strict=True):
            for rank, document in enumerate(documents, 1):
                key = (
                    document.page_content if self.id_key is None else document.metadata[self.id_key]
                )
                scores[key] = scores.get(key, 0.0) + weight / (rank + self.c)
                first.setdefault(key, document)
        return [first[key] for key in sorted(scores, key=scores.__getitem__, reverse=True)]


def _documents(found: Sequence[Any]) -> list[Document]:
    return [Document(page_content=each) if isinstance(each, str) else each for each in found]
