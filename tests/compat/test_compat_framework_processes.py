"""The frameworks' adapters after fork and spawn, over threads, and through pickle."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gnomon.compat.beir import DenseRetrievalExactSearch
from gnomon.compat.mteb import FaissSearchIndex

RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(3000, 16)).astype(np.float32)
QUERY = RNG.normal(size=16).astype(np.float32).tolist()


def mteb_index() -> Any:
    name = SimpleNamespace(name="COSINE")
    index = FaissSearchIndex(
        SimpleNamespace(mteb_model_meta=SimpleNamespace(similarity_fn_name=name))
    )
    index.add_documents(ROWS, [str(place) for place in range(len(ROWS))])
    return index


def ask_mteb(index: Any) -> Any:
    return index.search(np.array([QUERY]), 5, None)


def langchain_store() -> Any:
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from gnomon.compat.langchain import InMemoryVectorStore
    from langchain_core.embeddings import DeterministicFakeEmbedding

    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=16))
    for place, row in enumerate(ROWS.tolist()):
        store.store[str(place)] = {"id": str(place), "vector": row, "text": "", "metadata": {}}
    return store


def ask_langchain(store: Any) -> Any:
    return [
        (document.id, score)
        for document, score in store.similarity_search_with_score_by_vector(QUERY, k=5)
    ]


def langchain_retriever() -> Any:
    pytest.importorskip("langchain_core", reason="langchain-core is not installed")
    from gnomon.compat.langchain import BM25Retriever

    return BM25Retriever.from_texts([f"word{n % 7} word{n}" for n in range(50)], k=3)


def ask_retriever(retriever: Any) -> Any:
    return [document.page_content for document in retriever.invoke("word3 word8")]


def llama_index_store() -> Any:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from gnomon.compat.llama_index import SimpleVectorStore

    store = SimpleVectorStore()
    store.data.embedding_dict.update({str(n): row for n, row in enumerate(ROWS.tolist())})
    return store


def ask_llama_index(store: Any) -> Any:
    from llama_index.core.vector_stores.types import VectorStoreQuery

    found = store.query(VectorStoreQuery(query_embedding=QUERY, similarity_top_k=5))
    return found.ids, found.similarities


def haystack_store() -> Any:
    pytest.importorskip("haystack", reason="haystack-ai is not installed")
    from gnomon.compat.haystack import InMemoryDocumentStore
    from haystack import Document

    store = InMemoryDocumentStore(shared=False)
    store.write_documents(
        [
            Document(id=str(n), content=f"word{n % 7} word{n}", embedding=row)
            for n, row in enumerate(ROWS[:200].tolist())
        ]
    )
    return store


def ask_haystack(store: Any) -> Any:
    found = [*store.bm25_retrieval("word3 word8"), *store.embedding_retrieval(QUERY)]
    return [(each.id, each.score) for each in found]


MADE = {
    "mteb": (mteb_index, ask_mteb),
    "langchain": (langchain_store, ask_langchain),
    "langchain-bm25": (langchain_retriever, ask_retriever),
    "llama-index": (llama_index_store, ask_llama_index),
    "haystack": (haystack_store, ask_haystack),
}
PICKLED = [name for name in MADE if name not in ("haystack", "mteb")]  # nor are the peers' own


@pytest.mark.parametrize("name", MADE)
def test_many_threads_get_one_answer(name: str) -> None:
    make, ask = MADE[name]
    made = make()
    with ThreadPoolExecutor(4) as pool:  # the first call makes the matrix: all at once
        answers = list(pool.map(ask, [made] * 12))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]


@pytest.mark.skipif(sys.platform != "linux", reason="forks with threads")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12's, of any thread
@pytest.mark.parametrize("name", MADE)
def test_a_forked_child_searches(name: str) -> None:
    make, ask = MADE[name]
    made = make()
    with ThreadPoolExecutor(2) as pool:
        expected = next(iter(pool.map(ask, [made] * 2)))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, pickle.dumps(ask(made)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        assert pickle.load(answer) == expected
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("name", PICKLED)
def test_pickles(name: str) -> None:
    make, ask = MADE[name]
    made = make()
    expected = ask(made)
    data = pickle.dumps(made)
    assert ask(pickle.loads(data)) == expected


def test_a_spawned_process_searches() -> None:
    make, ask = MADE["mteb"]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_made_and_asked) == ask(make())


def _made_and_asked() -> Any:
    return ask_mteb(mteb_index())


def asked(name: str, made: Any) -> Any:
    return MADE[name][1](made)


@pytest.mark.parametrize("name", PICKLED)
def test_spawned_processes_and_joblib_search(name: str) -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    made = MADE[name][0]()
    expected = asked(name, made)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(asked, (name, made)) == expected
    for backend in ("threading", "loky"):
        call = joblib.delayed(asked)(name, made)
        assert joblib.Parallel(2, backend=backend)([call, call]) == [expected, expected]


def test_beirs_search_pickles() -> None:
    search = pickle.loads(pickle.dumps(DenseRetrievalExactSearch(None, corpus_chunk_size=7)))
    assert search.corpus_chunk_size == 7
