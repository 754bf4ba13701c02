"""Puts gnomon's store and MMR into langchain-core's place before its tests import them."""

from __future__ import annotations

from gnomon.compat import langchain as ours
from langchain_core import vectorstores
from langchain_core.vectorstores import in_memory, utils

vectorstores.InMemoryVectorStore = ours.InMemoryVectorStore
in_memory.InMemoryVectorStore = ours.InMemoryVectorStore
utils.maximal_marginal_relevance = ours.maximal_marginal_relevance
