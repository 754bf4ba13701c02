"""Puts gnomon's store and joiner into Haystack's place before its tests import them."""

from __future__ import annotations

from gnomon.compat import haystack as ours
from haystack.components.joiners import document_joiner
from haystack.document_stores.in_memory import document_store

document_store.InMemoryDocumentStore = ours.InMemoryDocumentStore
document_joiner.DocumentJoiner = ours.DocumentJoiner
