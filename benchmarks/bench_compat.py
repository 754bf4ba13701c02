"""gnomon.compat against the packages whose place it takes, one thread, answers checked first.

bench_compat.py [--rows 100000] [--documents 100000] [--rounds 5] [--memory-rows 1000000] [PEER ...]

Each figure is a ratio of medians, the package's CPU time over gnomon's, of rounds that take turns
in one process, after one call of the package and ten of gnomon; a package that is not installed is
left out. Memory is the peak of a child process that holds N x 384 rows and searches them,
less what it had before the rows were made, over the bytes of the rows.

Vectors are as in bench_dense.py. Documents are 60 words each from 50,000, drawn by Zipf's law;
queries are 6 words of documents.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(variable, None)  # they slow a current numpy, and scikit-learn with it
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "GNOMON_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from bench_dense import SHARED, mixtures, real_vectors  # noqa: E402

DIM, K = 384, 10
Row = dict[str, Any]
Call = Callable[[], Any]


def median_times(theirs: Call, mine: Call, rounds: int) -> tuple[float, float]:
    """Median CPU seconds of both, after a warm-up of each, turn by turn."""
    theirs()
    for _ in range(10):  # an index measures its ways of searching on the first calls
        mine()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, seconds in zip((theirs, mine), times, strict=True):
            began = time.process_time()
            call()
            seconds.append(time.process_time() - began)
    return float(np.median(times[0])), float(np.median(times[1]))


def compared(what: str, theirs: Call, mine: Call, rounds: int, **facts: Any) -> Row:
    slow, fast = median_times(theirs, mine, rounds)
    facts |= {"peer_ms": round(slow * 1e3, 4), "gnomon_ms": round(fast * 1e3, 4)}
    return {"what": what, "value": slow / fast, "unit": "x"} | facts


def check_ids(theirs: Any, mine: Any, scores: Any, what: str) -> None:
    """The same ids, but where neighbouring scores are too close for float32 sums to order."""
    theirs, mine, scores = np.asarray(theirs), np.asarray(mine), np.asarray(scores)
    steps = np.abs(np.diff(scores, axis=1)) < 4e-6
    unsure = np.zeros(scores.shape, bool)
    unsure[:, 1:] |= steps
    unsure[:, :-1] |= steps
    unsure[:, -1] = True  # its rival is the first that is not shown
    if ((theirs != mine) & ~unsure).any():
        raise SystemExit(f"{what}: other answers; nothing was timed")


def vectors(n: int) -> tuple[Any, Any]:
    """Rows [n, 384] and queries [1000, 384], normalised."""
    rows = mixtures(real_vectors(SHARED)[0], n + 1000, 7)
    return np.ascontiguousarray(rows[:n]), np.ascontiguousarray(rows[n:])


def sklearn(rows: Any, queries: Any, rounds: int) -> Iterator[Row]:
    from gnomon.compat.sklearn import ExactNearestNeighbors
    from sklearn.neighbors import NearestNeighbors

    rows, options = rows[:20_000], {"metric": "cosine", "algorithm": "brute", "n_neighbors": K}
    for dtype in (np.float32, np.float64):
        x, q = rows.astype(dtype), queries.astype(dtype)
        theirs, mine = NearestNeighbors(**options).fit(x), ExactNearestNeighbors(**options).fit(x)
        near, ids = mine.kneighbors(q)
        check_ids(theirs.kneighbors(q)[1], ids, near, "scikit-learn")
        kind = np.dtype(dtype).name
        for n in (1, 1000):
            yield compared(
                f"scikit-learn brute cosine, 20,000 x {DIM} {kind}, {n} queries at once",
                partial(theirs.kneighbors, q[:n]),
                partial(mine.kneighbors, q[:n]),
                rounds,
            )


def sentence_transformers(rows: Any, queries: Any, rounds: int) -> Iterator[Row]:
    import torch
    from gnomon.compat.sentence_transformers import semantic_search
    from sentence_transformers import util

    torch.set_num_threads(1)
    x, q = torch.from_numpy(rows), torch.from_numpy(queries)
    mine = semantic_search(q, x)
    theirs = util.semantic_search(q, x)
    lists = [[[hit["corpus_id"] for hit in hits] for hits in found] for found in (theirs, mine)]
    check_ids(*lists, [[hit["score"] for hit in hits] for hits in mine], "semantic_search")
    for n in (1, 100, 1000):
        yield compared(
            f"sentence-transformers semantic_search, {len(rows):,} x {DIM}, {n} queries at once",
            partial(util.semantic_search, q[:n], x),
            partial(semantic_search, q[:n], x),
            rounds,
        )


def faiss(rows: Any, queries: Any, rounds: int) -> Iterator[Row]:
    import faiss
    from gnomon.compat import faiss as ours

    faiss.omp_set_num_threads(1)
    for kind in ("IndexFlatIP", "IndexFlatL2"):
        theirs, mine = getattr(faiss, kind)(DIM), getattr(ours, kind)(DIM)
        theirs.add(rows)
        mine.add(rows)
        near, ids = mine.search(queries, K)
        check_ids(theirs.search(queries, K)[1], ids, near, "faiss")
        for n in (1, 100, 1000):
            yield compared(
                f"faiss {kind}, {len(rows):,} x {DIM}, {n} queries at once",
                partial(theirs.search, queries[:n], K),
                partial(mine.search, queries[:n], K),
                rounds,
            )


def documents(n: int) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(3)
    words = np.minimum(rng.zipf(1.3, (n, 60)), 50_000)
    made = [[f"w{word}" for word in document] for document in words.tolist()]
    places = rng.integers(0, n, 100)
    return made, [[made[i][j] for j in rng.integers(0, 60, 6)] for i in places]


def rank_bm25(corpus: Any, queries: Any, rounds: int) -> Iterator[Row]:
    import rank_bm25
    from gnomon.compat import rank_bm25 as ours

    ids = list(range(len(corpus)))
    for kind in ("BM25Okapi", "BM25L", "BM25Plus"):
        theirs, mine = getattr(rank_bm25, kind)(corpus), getattr(ours, kind)(corpus)
        for query in queries[:2]:
            expected = theirs.get_scores(query)
            if (mine.get_scores(query) != expected).any():
                raise SystemExit(f"{kind}: other scores; nothing was timed")
            best = sorted(ids, key=lambda i: (-expected[i], i))[:K]
            if mine.get_top_n(query, ids, K) != best:
                raise SystemExit(f"{kind}: another order; nothing was timed")
        yield compared(
            f"rank_bm25 {kind}, {len(corpus):,} documents, a query's top {K}",
            lambda theirs=theirs: [theirs.get_top_n(query, ids, K) for query in queries[:2]],
            lambda mine=mine: [mine.get_top_n(query, ids, K) for query in queries[:2]],
            rounds,
        )


def bm25s(corpus: Any, queries: Any, rounds: int) -> Iterator[Row]:
    import bm25s
    from gnomon.compat import bm25s as ours

    quiet = {"show_progress": False}
    vocab: dict[str, int] = {}
    tokens = [[vocab.setdefault(word, len(vocab)) for word in text] for text in corpus]
    mine = ours.BM25()
    mine.index((tokens, vocab), **quiet)
    for backend in ("numpy", "numba"):
        try:
            theirs = bm25s.BM25(backend=backend)
            theirs.index((tokens, dict(vocab)), **quiet)
            expected = theirs.retrieve(queries, k=K, **quiet).scores
        except ImportError:
            continue
        if (mine.retrieve(queries, k=K, **quiet).scores != expected).any():
            raise SystemExit(f"bm25s {backend}: other scores; nothing was timed")
        yield compared(
            f"bm25s {backend}, {len(corpus):,} documents, 100 queries at once, top {K}",
            partial(theirs.retrieve, queries, k=K, **quiet),
            partial(mine.retrieve, queries, k=K, **quiet),
            rounds,
        )


MEMORY = {
    "semantic_search": "from gnomon.compat.sentence_transformers import semantic_search\n"
    "def use(x): semantic_search(x[:100], x)",
    "faiss.knn": "from gnomon.compat import faiss\ndef use(x): faiss.knn(x[:100], x, 10)",
    "faiss.IndexFlatIP": "from gnomon.compat import faiss\n"
    "def use(x):\n    index = faiss.IndexFlatIP(x.shape[1])\n    index.add(x)\n"
    "    index.search(x[:100], 10)",
    "txtai.Exact": "from gnomon.compat.txtai import Exact\n"
    "def use(x):\n    ann = Exact({})\n    ann.index(x)\n    ann.search(x[:100], 10)",
}
for _metric in ("cosine", "euclidean"):
    for _kind in ("float32", "float64"):
        MEMORY[f"sklearn.ExactNearestNeighbors, {_metric}, {_kind}"] = (
            "from gnomon.compat.sklearn import ExactNearestNeighbors\n"
            f"def use(x): ExactNearestNeighbors(algorithm='brute', metric='{_metric}')"
            ".fit(x).kneighbors(x[:100])"
        )
MEMORY["faiss.IndexFlatIP, add(x, copy=False)"] = MEMORY["faiss.IndexFlatIP"].replace(
    "add(x)", "add(x, copy=False)"
)
MEMORY["faiss.IndexFlatIP of faiss itself"] = (
    "import faiss\n"
    "def use(x):\n    index = faiss.IndexFlatIP(x.shape[1])\n    index.add(x)\n"
    "    index.search(x[:100], 10)"
)
CHILD = """
import numpy as np
{code}
def peak():  # of this program: ru_maxrss would begin with its parent's
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
use(np.random.default_rng(0).standard_normal((1000, {dim}), dtype=np.{kind}))
before = peak()
x = np.empty(({n}, {dim}), np.{kind})
for start in range(0, {n}, 10000):
    np.random.default_rng(start).standard_normal(out=x[start:start + 10000], dtype=np.{kind})
use(x)
print((peak() - before) / x.nbytes)
"""


# What must exist beside the input: add() copies by its contract, as rows given may be written to.
COPIES = {"faiss.IndexFlatIP": 1, "faiss.IndexFlatIP of faiss itself": 1}


def memory(n: int) -> Iterator[Row]:
    for name, code in MEMORY.items():
        kind = "float64" if name.endswith("float64") else "float32"
        script = CHILD.format(code=code, n=n, dim=DIM, kind=kind)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        if done.returncode:
            if "ModuleNotFoundError" in done.stderr or "ImportError" in done.stderr:
                continue
            raise SystemExit(done.stderr)
        held = 1 + COPIES.get(name, 0)
        with_copy = " and the copy that add() makes" if held > 1 else ""
        yield {
            "what": f"peak memory over the input{with_copy}, {name}, {n:,} x {DIM}",
            "value": float(done.stdout) / held,
            "unit": "x",
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("peers", nargs="*")
    for name, default in (("rows", 100_000), ("documents", 100_000), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--memory-rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    dense, sparse = (sklearn, sentence_transformers, faiss), (rank_bm25, bm25s)
    known = {run.__name__ for run in (*dense, *sparse)} | {"memory"}
    wanted = set(arguments.peers) or known
    if wanted - known:
        raise SystemExit(f"no {', '.join(wanted - known)}; there are: {', '.join(sorted(known))}")
    for runs, data, size in (
        (dense, vectors, arguments.rows),
        (sparse, documents, arguments.documents),
    ):
        chosen = [run for run in runs if run.__name__ in wanted]
        given = data(size) if chosen else ()
        for run in chosen:
            try:
                for row in run(*given, arguments.rounds):
                    print(json.dumps(row), flush=True)
            except ImportError as error:
                print(f"{run.__name__} is left out: {error}", file=sys.stderr)
    if "memory" in wanted:
        for row in memory(arguments.memory_rows):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
