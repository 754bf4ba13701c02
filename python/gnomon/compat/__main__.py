"""`python -m gnomon.compat`: which of the programs are installed, and the line to change."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import NamedTuple


class Peer(NamedTuple):
    """A program whose place a module takes."""

    distribution: str
    tested: str
    before: str
    after: str
    needed: bool
    """Whether the module cannot be imported without it."""


PEERS = (
    Peer(
        "rank-bm25",
        "0.2.2",
        "from rank_bm25 import BM25Okapi",
        "from gnomon.compat.rank_bm25 import BM25Okapi",
        False,
    ),
    Peer("bm25s", "0.3.16", "import bm25s", "from gnomon.compat import bm25s", False),
    Peer(
        "sentence-transformers",
        "6.2.0",
        "from sentence_transformers.util import semantic_search",
        "from gnomon.compat.sentence_transformers import semantic_search",
        False,
    ),
    Peer("faiss-cpu", "1.15.1", "import faiss", "from gnomon.compat import faiss", False),
    Peer(
        "scikit-learn",
        "1.9.1",
        "from sklearn.neighbors import NearestNeighbors",
        "from gnomon.compat.sklearn import ExactNearestNeighbors as NearestNeighbors",
        True,
    ),
    Peer(
        "txtai",
        "9.14.0",
        "backend = 'faiss'  # of txtai.Embeddings({'backend': ...})",
        "from gnomon.compat.txtai import Exact; backend = 'gnomon.compat.txtai.Exact'",
        False,
    ),
    Peer(
        "langchain-core",
        "1.8.3",
        "from langchain_core.vectorstores import InMemoryVectorStore",
        "from gnomon.compat.langchain import InMemoryVectorStore",
        True,
    ),
    Peer(
        "llama-index-core",
        "0.14.25",
        "from llama_index.core.vector_stores import SimpleVectorStore",
        "from gnomon.compat.llama_index import SimpleVectorStore",
        True,
    ),
    Peer(
        "haystack-ai",
        "3.4.1",
        "from haystack.document_stores.in_memory import InMemoryDocumentStore",
        "from gnomon.compat.haystack import InMemoryDocumentStore",
        True,
    ),
    Peer(
        "mteb",
        "2.26.24",
        "from mteb.models.search_encoder_index import FaissSearchIndex",
        "from gnomon.compat.mteb import FaissSearchIndex",
        False,
    ),
    Peer(
        "beir",
        "2.2.0",
        "from beir.retrieval.search.dense import DenseRetrievalExactSearch",
        "from gnomon.compat.beir import DenseRetrievalExactSearch",
        False,
    ),
)


def installed(distribution: str) -> str | None:
    """The version of a distribution that is installed; it is not imported.

    >>> installed("no-such-distribution") is None
    True
    """
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def table() -> str:
    """What the command prints.

    >>> print(table().splitlines()[1].strip())
    before  from rank_bm25 import BM25Okapi
    """
    lines = []
    for peer in PEERS:
        version = installed(peer.distribution)
        state = f"installed: {version}" if version else "not installed"
        if not version:
            state += "; gnomon's module needs it" if peer.needed else "; gnomon's works without it"
        lines.append(f"{peer.distribution} ({state}; tested with {peer.tested})")
        lines += [f"  before  {peer.before}", f"  after   {peer.after}"]
    return "\n".join(lines)


def main() -> int:
    """Prints the table."""
    print(table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
