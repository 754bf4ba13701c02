"""The suites of haystack.testing for document stores, over Haystack's own store or gnomon's."""

from __future__ import annotations

import os
from typing import Any

import pytest
from haystack import Document
from haystack.testing import document_store as plain
from haystack.testing import document_store_async as waiting

if os.environ["GNOMON_PEERS_SWAP"]:
    from gnomon.compat.haystack import InMemoryDocumentStore
else:
    from haystack.document_stores.in_memory import InMemoryDocumentStore

SUITES = tuple(
    value
    for module in (plain, waiting)
    for name, value in vars(module).items()
    if name.endswith("Test") and value.__module__ == module.__name__
)


class Store:
    @pytest.fixture
    def document_store(self) -> Any:
        store = InMemoryDocumentStore()
        yield store
        store.shutdown()

    def test_write_documents(self, document_store: Any) -> None:
        documents = [Document(content="one"), Document(content="two")]
        assert document_store.write_documents(documents) == 2
        assert document_store.filter_documents() == documents
        with pytest.raises(ValueError, match="list of Documents"):
            document_store.write_documents(["not a document"])

    async def test_write_documents_async(self, document_store: Any) -> None:
        documents = [Document(content="one"), Document(content="two")]
        assert await document_store.write_documents_async(documents) == 2


TestStore = type("TestStore", (Store, *SUITES), {})
