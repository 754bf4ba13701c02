"""langchain-tests' standard suites for vector stores and retrievers, over LangChain or gnomon."""

from __future__ import annotations

import os
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_tests.integration_tests import (
    RetrieversIntegrationTests,
    VectorStoreIntegrationTests,
)

if os.environ["GNOMON_PEERS_SWAP"]:
    from gnomon.compat.langchain import BM25Retriever, InMemoryVectorStore
else:
    from langchain_community.retrievers import BM25Retriever
    from langchain_core.vectorstores import InMemoryVectorStore


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> Any:
        return InMemoryVectorStore(self.get_embeddings())


def made(**options: Any) -> Any:
    documents = [Document(page_content=f"document {n} of the corpus") for n in range(20)]
    return BM25Retriever.from_documents(documents, **options)


class Constructor(BM25Retriever):  # type: ignore[misc, valid-type]
    """The suite calls a class with parameters and then the instance."""

    def __new__(cls, **options: Any) -> Any:
        return made(**options)


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> Any:
        return Constructor

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"k": 5}

    @property
    def retriever_query_example(self) -> str:
        return "a document of the corpus"
