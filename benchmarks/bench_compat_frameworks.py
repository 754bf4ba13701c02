"""gnomon.compat's framework adapters against the frameworks themselves, answers checked first.

bench_compat_frameworks.py [--rows 20000] [--rounds 7] [--no-memory]

Stores hold vectors as embedding clients bring them, lists of Python floats, and are asked one query
at a time; the peer's turn and gnomon's alternate, and a row gives the ratio of their median times.
Ids must be equal and scores within 1e-5 before anything is timed. A framework that is not installed
is left out. "first" is the first query after a write, which makes the matrix.

Memory is a child process's that does nothing else: its peak over its input, of 1,000,000 x 384. The
input of a store is what the process holds once it is filled, a thousand lists of Python floats at a
time as clients bring them and as nothing but the store keeps them: 16 GB, which a machine has to
have. The input of MTEB's and BEIR's search is the float32 matrix.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

import numpy as np

warnings.simplefilter("ignore")
DIM = 384
Query = Callable[[list[float]], list[tuple[str, float]]]
Fill = Callable[[Iterable[list[list[float]]]], None]


def have(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def parts(n: int, seed: int) -> Iterator[list[list[float]]]:
    """As a client reads them from JSON, up to a thousand at a time: float64 in Python objects."""
    rng = np.random.default_rng(seed)
    spectrum = 1.0 / np.sqrt(np.arange(1, DIM + 1))
    for start in range(0, n, 1000):
        part = rng.standard_normal((min(1000, n - start), DIM)) * spectrum
        yield (part / np.linalg.norm(part, axis=1, keepdims=True)).tolist()


def vectors(n: int, seed: int) -> list[list[float]]:
    return [row for part in parts(n, seed) for row in part]


# ----------------------------------------------------------------------------------------- stores
def langchain_store(original: bool) -> tuple[Any, Fill, Query]:
    from langchain_core.embeddings import FakeEmbeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    if not original:
        from gnomon.compat.langchain import InMemoryVectorStore
    store = InMemoryVectorStore(FakeEmbeddings(size=DIM))

    def fill(given: Iterable[list[list[float]]]) -> None:
        for place, row in enumerate(row for rows in given for row in rows):
            name = f"d{place}"
            store.store[name] = {"id": name, "vector": row, "text": name, "metadata": {}}

    def ask(query: list[float]) -> list[tuple[str, float]]:
        return [(d.id, s) for d, s in store.similarity_search_with_score_by_vector(query, k=10)]

    return store, fill, ask


def llama_index_store(original: bool) -> tuple[Any, Fill, Query]:
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores import SimpleVectorStore
    from llama_index.core.vector_stores.types import VectorStoreQuery

    if not original:
        from gnomon.compat.llama_index import SimpleVectorStore
    store = SimpleVectorStore()

    def fill(given: Iterable[list[list[float]]]) -> None:
        done = 0
        for rows in given:
            nodes = [TextNode(id_=f"d{done + i}", embedding=row) for i, row in enumerate(rows)]
            done += len(rows)
            store.add(nodes)

    def ask(query: list[float]) -> list[tuple[str, float]]:
        found = store.query(VectorStoreQuery(query_embedding=query, similarity_top_k=10))
        return list(zip(found.ids, found.similarities, strict=True))

    return store, fill, ask


def haystack_store(original: bool) -> tuple[Any, Fill, Query]:
    from haystack import Document
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    if not original:
        from gnomon.compat.haystack import InMemoryDocumentStore
    store = InMemoryDocumentStore(embedding_similarity_function="cosine", shared=False)

    def fill(given: Iterable[list[list[float]]]) -> None:
        done = 0
        for rows in given:
            written = [Document(id=f"d{done + i}", embedding=row) for i, row in enumerate(rows)]
            done += len(rows)
            store.write_documents(written)

    def ask(query: list[float]) -> list[tuple[str, float]]:
        return [(each.id, each.score) for each in store.embedding_retrieval(query, top_k=10)]

    return store, fill, ask


STORES = {
    "LangChain InMemoryVectorStore": ("langchain_core", langchain_store),
    "LlamaIndex SimpleVectorStore": ("llama_index.core", llama_index_store),
    "Haystack InMemoryDocumentStore, embeddings": ("haystack", haystack_store),
}


# ----------------------------------------------------------------------------------------- timing
def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def against(
    what: str, peer: Callable[[int], Any], ours: Callable[[int], Any], rounds: int, **more: Any
) -> dict[str, Any]:
    """Alternating calls, each with the round's number."""
    times = [(seconds(lambda: peer(n)), seconds(lambda: ours(n))) for n in range(rounds)]  # noqa: B023
    theirs, own = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
    return {
        "what": what,
        "value": theirs / own,
        "unit": "x",
        "peer_ms": theirs,
        "gnomon_ms": own,
        "rounds": rounds,
        **more,
    }


def require_equal(what: str, expected: list[Any], found: list[Any]) -> None:
    same = [name for name, _ in expected] == [name for name, _ in found]
    if not same or any(abs(a[1] - b[1]) > 1e-5 for a, b in zip(expected, found, strict=True)):
        raise SystemExit(f"{what}: other answers: {expected} and {found}")


def store_rows(rows: list[list[float]], rounds: int) -> Iterator[dict[str, Any]]:
    queries = vectors(rounds + 2, seed=1)
    for what, (needs, make) in STORES.items():
        if not have(needs):
            continue
        _, fill, peer = make(True)
        fill([rows])
        store, fill, ours = make(False)
        fill([rows])
        first = seconds(lambda: ours(queries[-1]))  # noqa: B023
        for query in queries:
            require_equal(what, peer(query), ours(query))
        name = f"{what}, a query at {len(rows):,} x {DIM}"
        yield against(
            name,
            lambda n: peer(queries[n]),  # noqa: B023
            lambda n: ours(queries[n]),  # noqa: B023
            rounds,
            first_ms=first * 1e3,
        )
        del store


def mmr_rows(rounds: int) -> Iterator[dict[str, Any]]:
    rows, query = vectors(1000, seed=2), np.array(vectors(1, seed=3)[0])
    if have("langchain_core"):
        from gnomon.compat import langchain as ours
        from langchain_core.vectorstores.utils import maximal_marginal_relevance

        if maximal_marginal_relevance(query, rows, 0.5, 100) != ours.maximal_marginal_relevance(
            query, rows, 0.5, 100
        ):
            raise SystemExit("LangChain MMR: other picks")
        yield against(
            "LangChain maximal_marginal_relevance, fetch_k=1000, k=100",
            lambda _: maximal_marginal_relevance(query, rows, 0.5, 100),
            lambda _: ours.maximal_marginal_relevance(query, rows, 0.5, 100),
            max(3, rounds // 2),
        )
    if have("llama_index.core"):
        from gnomon.compat import llama_index as own
        from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings

        options = {"similarity_top_k": 10}
        expected = get_top_k_mmr_embeddings(query.tolist(), rows, **options)
        found = own.get_top_k_mmr_embeddings(query.tolist(), rows, **options)
        require_equal(
            "LlamaIndex MMR", *(list(zip(*r[::-1], strict=True)) for r in (expected, found))
        )
        yield against(
            "LlamaIndex get_top_k_mmr_embeddings, 1000 nodes, k=10",
            lambda _: get_top_k_mmr_embeddings(query.tolist(), rows, **options),
            lambda _: own.get_top_k_mmr_embeddings(query.tolist(), rows, **options),
            max(3, rounds // 2),
        )


def bm25_rows(n: int, rounds: int) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(4)
    words = np.array([f"word{number}" for number in range(20_000)])
    popular = (rng.zipf(1.3, size=(n, 60)) - 1) % len(words)
    texts = [" ".join(words[row]) for row in popular]
    queries = [" ".join(words[rng.integers(5, 400, 4)]) for _ in range(rounds)]
    if have("haystack"):
        from gnomon.compat.haystack import InMemoryDocumentStore as Ours
        from haystack import Document
        from haystack.document_stores.in_memory import InMemoryDocumentStore

        stores = [cls(shared=False) for cls in (InMemoryDocumentStore, Ours)]
        for store in stores:
            store.write_documents(
                [Document(id=f"d{place}", content=text) for place, text in enumerate(texts)]
            )
        for query in queries:
            found = [[(d.id, d.score) for d in s.bm25_retrieval(query)] for s in stores]
            require_equal("Haystack BM25", *found)
        yield against(
            f"Haystack InMemoryDocumentStore, BM25, a query at {n:,} documents",
            lambda k: stores[0].bm25_retrieval(queries[k]),
            lambda k: stores[1].bm25_retrieval(queries[k]),
            rounds,
        )
    if have("langchain_core"):
        import tempfile

        from gnomon.compat.langchain import BM25Retriever

        built = BM25Retriever.from_texts(texts)
        with tempfile.TemporaryDirectory() as folder:
            built.save(f"{folder}/kept")
            if BM25Retriever.load(f"{folder}/kept").invoke(queries[0]) != built.invoke(queries[0]):
                raise SystemExit("BM25Retriever: other answers after loading")
            yield against(
                f"LangChain BM25Retriever, loaded instead of built, {n:,} documents",
                lambda _: BM25Retriever.from_texts(texts),
                lambda _: BM25Retriever.load(f"{folder}/kept"),
                3,
            )


# ----------------------------------------------------------------------------------------- memory
def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak() -> int:  # of this program: ru_maxrss would begin with its parent's
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def memory_of_store(name: str, n: int) -> tuple[int, int]:
    _, fill, ask = STORES[name][1](False)
    before = resident()
    fill(parts(n, seed=1))
    held = resident()
    if peak() - held > 0.02 * held:
        raise SystemExit(f"{name}: filling it had its own peak")
    ask(vectors(1, seed=2)[0])
    return held - before, peak() - before


def memory_of_mteb(n: int) -> tuple[int, int]:
    from types import SimpleNamespace as Named

    from gnomon.compat.mteb import FaissSearchIndex

    before = resident()
    rows = np.random.default_rng(1).standard_normal((n, DIM), dtype=np.float32)
    meta = Named(similarity_fn_name=Named(name="COSINE"))
    index = FaissSearchIndex(Named(mteb_model_meta=meta))
    index.add_documents(rows, [""] * n)
    index.search(rows[:100], 10, None)
    return rows.nbytes, peak() - before


def memory_of_beir(n: int) -> tuple[int, int]:
    from gnomon.compat.beir import DenseRetrievalExactSearch

    rows = np.random.default_rng(1).standard_normal((n, DIM), dtype=np.float32)

    class Model:
        def encode_queries(self, texts: Any, **_: Any) -> Any:
            return rows[: len(texts)]

        def encode_corpus(self, texts: Any, **_: Any) -> Any:
            return rows

    search = DenseRetrievalExactSearch(Model(), corpus_chunk_size=n)
    corpus = {str(place): {"text": ""} for place in range(n)}
    before = resident() - rows.nbytes
    search.search(corpus, {f"q{place}": "" for place in range(100)}, 10, "cos_sim")
    return rows.nbytes, peak() - before


def memory_cells() -> dict[str, tuple[int, Callable[[int], tuple[int, int]]]]:
    cells: dict[str, Any] = {
        name: (1_000_000, lambda n, name=name: memory_of_store(name, n))
        for name, (needs, _) in STORES.items()
        if have(needs)
    }
    cells["MTEB FaissSearchIndex"] = (1_000_000, memory_of_mteb)
    cells["BEIR DenseRetrievalExactSearch"] = (1_000_000, memory_of_beir)
    return cells


def memory_rows() -> Iterator[dict[str, Any]]:
    for name, (n, _) in memory_cells().items():
        command = [sys.executable, __file__, "--memory-of", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        given, most = json.loads(done.stdout.splitlines()[-1])
        yield {
            "what": f"{name}, peak memory over the input, {n:,} x {DIM}",
            "value": most / given,
            "unit": "x",
            "input_bytes": given,
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--memory-of")
    arguments = parser.parse_args()
    if arguments.memory_of:
        n, measure = memory_cells()[arguments.memory_of]
        print(json.dumps(measure(n)))
        return
    rows = vectors(arguments.rows, seed=0)
    parts = [
        store_rows(rows, arguments.rounds),
        mmr_rows(arguments.rounds),
        bm25_rows(arguments.rows, arguments.rounds),
        *([] if arguments.no_memory else [memory_rows()]),
    ]
    for part in parts:
        for row in part:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
