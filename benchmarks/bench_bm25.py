"""BM25 against the exact engines people use, one thread, answers checked first.

bench_bm25.py [--quick] [--docs 10000,100000,1000000] [--prose FILE.jsonl]

Corpora: short documents from a seeded Zipf-Mandelbrot law (10 tokens, 650,000 words), and passages
of real prose (a JSON object with "text" a line, as tools/make_prose_corpus.py makes them) when
--prose names a file. All engines get the same tokens. k1=1.5, b=0.75 (tantivy: its fixed 1.2
and 0.75, lengths of one byte). Queries: 2-8 tokens, the same without the commonest words, 15-30.

Peers: bm25s and bm25q with their numba back ends (their numpy back end spends 160 ms a query in
numpy 2.4's argpartition of mostly-zero arrays), tantivy (one segment), PISA through pyterrier_pisa
(block_max_wand and maxscore; one batch of all documents, since several give wrong scores),
rank_bm25 (up to 10,000 documents). Those that are not installed are skipped, which is a row of its
own. Each engine is built in a process of its own, whose peak memory is reported, and searched from
what it saved. CPU time of the process; each query's best of the rounds, engines in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "GNOMON_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("DISABLE_TQDM", "1")

import gnomon  # noqa: E402
import numpy as np  # noqa: E402
from gnomon.reference import bm25_formulas as reference  # noqa: E402

K1, B = 1.5, 0.75
RANK_MOST = 10_000
Search = Callable[[list[int], int], Any]


class Corpus:
    """Token ids, flat, and where each document ends; the word of id i is f"t{i}"."""

    def __init__(self, flat: Any, offsets: Any):
        self.flat, self.offsets = flat, offsets
        self.n = len(offsets) - 1

    def document(self, i: int) -> list[int]:
        found: list[int] = self.flat[self.offsets[i] : self.offsets[i + 1]].tolist()
        return found

    def save(self, path: Path) -> None:
        np.savez(path, flat=self.flat, offsets=self.offsets)

    @classmethod
    def load(cls, path: Path) -> Corpus:
        with np.load(path) as stored:
            return cls(stored["flat"], stored["offsets"])


def short_documents(n: int, words: int = 650_000, seed: int = 1) -> Corpus:
    rng = np.random.default_rng(seed)
    lengths = rng.poisson(8.4, size=n) + rng.geometric(0.5, size=n)
    share = np.cumsum(1.0 / (np.arange(1, words + 1) + 2.7) ** 1.05)
    share /= share[-1]
    flat = np.searchsorted(share, rng.random(int(lengths.sum()))).astype(np.uint32)
    return Corpus(flat, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def prose(path: str, n: int | None) -> tuple[Corpus, list[str]]:
    texts = []
    with Path(path).open(encoding="utf-8") as lines:
        for line in lines:
            texts.append(json.loads(line)["text"])
            if n is not None and len(texts) == n:
                break
    analyzer = gnomon.Analyzer("basic-v1")
    numbers: dict[str, int] = {}
    flat, ends = [], [0]
    for text in texts:
        ids = [numbers.setdefault(token, len(numbers)) for token in analyzer.tokens(text)]
        flat.append(np.array(ids, dtype=np.uint32))
        ends.append(ends[-1] + len(ids))
    return Corpus(np.concatenate(flat), np.array(ends, dtype=np.int64)), texts


def queries(corpus: Corpus, kind: str, n: int) -> list[list[int]]:
    rng = np.random.default_rng(42)
    counts = np.bincount(corpus.flat)
    common = set(np.argsort(-counts)[:60].tolist()) if kind == "no common words" else set()
    least, most = (15, 30) if kind == "15-30 tokens" else (2, 8)
    found: list[list[int]] = []
    while len(found) < n:
        tokens: list[int] = []
        while len(tokens) < most:
            tokens += corpus.document(int(rng.integers(0, corpus.n)))
        if rng.random() < 0.4:
            tokens = [tokens[i] for i in rng.permutation(len(tokens))]
        start = int(rng.integers(0, len(tokens) - most + 1))
        window = [t for t in tokens[start : start + most] if t not in common]
        query = window[: int(rng.integers(least, most + 1))]
        if len(query) >= min(least, 2):
            found.append(query)
    return found


# ---- engines: build(corpus, folder) in a child process, then open(folder, corpus) -> search


def build_gnomon(corpus: Corpus, folder: Path) -> None:
    index = gnomon.BM25Index.build((corpus.flat, corpus.offsets), k1=K1, b=B)
    index.save(folder / "index")


def open_gnomon(folder: Path, corpus: Corpus) -> Search:
    index = gnomon.BM25Index.load(folder / "index")
    return lambda query, k: index.search(query, k).ids


def _bm25s_like(module: str) -> tuple[Callable[[Corpus, Path], None], Callable[..., Search]]:
    def build(corpus: Corpus, folder: Path) -> None:
        package = __import__(module)
        vocabulary = {f"t{i}": i for i in range(int(corpus.flat.max()) + 1)}
        ids = [corpus.flat[a:b].tolist() for a, b in _bounds(corpus)]
        index = package.BM25(k1=K1, b=B, backend="numba")
        index.index((ids, vocabulary), show_progress=False)
        index.save(str(folder / "index"))

    def open_(folder: Path, corpus: Corpus) -> Search:
        package = __import__(module)
        index = package.BM25.load(str(folder / "index"), load_corpus=False)
        index.backend = "numba"
        index.activate_numba_scorer()

        def search(query: list[int], k: int) -> Any:
            # Ids need no look-up in the vocabulary.
            found = index.retrieve(
                [query], k=k, show_progress=False, n_threads=0, backend_selection="numba"
            )
            return found[0][0]

        return search

    return build, open_


def _bounds(corpus: Corpus) -> Any:
    ends = corpus.offsets.tolist()
    return pairwise(ends)


def build_tantivy(corpus: Corpus, folder: Path) -> None:
    import tantivy

    schema = tantivy.SchemaBuilder()
    schema.add_text_field("text", stored=False, tokenizer_name="whitespace", index_option="freq")
    (folder / "index").mkdir()
    index = tantivy.Index(schema.build(), path=str(folder / "index"))
    writer = index.writer(heap_size=500_000_000, num_threads=1)
    for a, b in _bounds(corpus):
        words = " ".join([f"t{t}" for t in corpus.flat[a:b].tolist()])
        writer.add_document(tantivy.Document(text=words))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(folder: Path, corpus: Corpus) -> Search:
    import tantivy

    index = tantivy.Index.open(str(folder / "index"))
    searcher = index.searcher()

    def search(query: list[int], k: int) -> Any:
        parsed = index.parse_query(" ".join([f"t{t}" for t in query]), ["text"])
        return [hit[1].doc for hit in searcher.search(parsed, k, count=False).hits]

    return search


def build_pisa(corpus: Corpus, folder: Path) -> None:
    from pyterrier_pisa import PisaIndex

    index = PisaIndex(str(folder / "index"), stemmer="none", stops="none", threads=1)

    def documents() -> Any:
        for i, (a, b) in enumerate(_bounds(corpus)):
            words, counts = np.unique(corpus.flat[a:b], return_counts=True)
            toks = {f"t{w}": c for w, c in zip(words.tolist(), counts.tolist(), strict=True)}
            yield {"docno": str(i), "toks": toks}

    index.toks_indexer(scale=1.0, batch_size=corpus.n + 1).index(documents())


def _open_pisa(algorithm: str) -> Callable[[Path, Corpus], Search]:
    def open_(folder: Path, corpus: Corpus) -> Search:
        from pyterrier_pisa import PisaIndex, _pisathon

        index = PisaIndex(str(folder / "index"), stemmer="none", stops="none", threads=1)
        scorer = index.bm25(k1=K1, b=B, threads=1, query_algorithm=algorithm)
        scorer.reset_retrieval_context()

        def search(query: list[int], k: int) -> Any:
            # Below the pipeline, whose data frames cost more than the search.
            names = np.empty(k, dtype=object)
            n = _pisathon.retrieve(
                scorer._ctxt,
                algorithm,
                [(0, {f"t{t}": float(query.count(t)) for t in query})],
                k=k,
                threads=1,
                query_weighted=1,
                pretokenised=True,
                result_qidxs=np.empty(k, dtype=np.int32),
                result_docnos=names,
                result_ranks=np.empty(k, dtype=np.int32),
                result_scores=np.empty(k, dtype=np.float32),
            )
            return names[:n]

        return search

    return open_


def build_rank(corpus: Corpus, folder: Path) -> None:
    if corpus.n > RANK_MOST:
        raise RuntimeError(f"rank_bm25 scores every document in Python: not over {RANK_MOST}")
    import pickle

    from rank_bm25 import BM25Okapi

    index = BM25Okapi([corpus.document(i) for i in range(corpus.n)], k1=K1, b=B)
    (folder / "index").mkdir()
    (folder / "index" / "pickle").write_bytes(pickle.dumps(index))


def open_rank(folder: Path, corpus: Corpus) -> Search:
    import pickle

    index = pickle.loads((folder / "index" / "pickle").read_bytes())
    return lambda query, k: np.argsort(-index.get_scores(query), kind="stable")[:k]


ENGINES: dict[str, tuple[str, Callable[[Corpus, Path], None], Callable[[Path, Corpus], Search]]] = {
    "gnomon": ("gnomon", build_gnomon, open_gnomon),
    "bm25s": ("bm25s", *_bm25s_like("bm25s")),
    "bm25q": ("bm25q", *_bm25s_like("bm25q")),
    "tantivy": ("tantivy", build_tantivy, open_tantivy),
    "pisa bmw": ("pyterrier_pisa", build_pisa, _open_pisa("block_max_wand")),
    "pisa maxscore": ("pyterrier_pisa", build_pisa, _open_pisa("maxscore")),
    "rank_bm25": ("rank_bm25", build_rank, open_rank),
}


# ---- measuring -----------------------------------------------------------------------------------


def say(what: str, value: float, unit: str, **more: Any) -> None:
    print(json.dumps({"what": what, "value": round(value, 4), "unit": unit, **more}), flush=True)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def child(engine: str, corpus: str, folder: str) -> None:
    """Builds one engine; prints seconds and bytes."""
    data = Corpus.load(Path(corpus))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    ENGINES[engine][1](data, Path(folder))
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"seconds": seconds, "peak_mb": peak / 1024}))


def built(name: str, corpus: Corpus, stored: Path, folder: Path, label: str) -> Search | None:
    """An engine, built and opened, with its figures said; None when it cannot be had."""
    package = ENGINES[name][0]
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        say(f"{label}: {name} is not installed", 0, "")
        return None
    if folder.exists():  # another way to search the same index
        return opened(name, corpus, folder, label)
    folder.mkdir()
    command = [sys.executable, __file__, "--child", name, str(stored), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    if done.returncode != 0 or not lines:
        why = (done.stderr.strip().splitlines() or ["?"])[-1]
        say(f"{label}: {name} cannot be built", 0, "", why=why[:200])
        return None
    figures = json.loads(lines[-1])
    more = {"engine": name, "version": version, "peak_mb": round(figures["peak_mb"], 1)}
    say(f"{label}: {name} builds in", figures["seconds"], "s", **more)
    say(f"{label}: {name} on disk", size_of(folder / "index") / 1e6, "MB", engine=name)
    return opened(name, corpus, folder, label)


def opened(name: str, corpus: Corpus, folder: Path, label: str) -> Search | None:
    began = time.perf_counter()
    try:
        search = ENGINES[name][2](folder, corpus)
    except Exception as error:
        say(f"{label}: {name} cannot be opened", 0, "", why=str(error)[:200])
        return None
    say(f"{label}: {name} loads in", (time.perf_counter() - began) * 1e3, "ms", engine=name)
    return search


def check(
    corpus: Corpus, searches: dict[str, Search], some: Sequence[list[int]]
) -> dict[str, float]:
    """Ours equals the reference on a part; the peers' documents score as ours do."""
    part = min(corpus.n, 300)
    documents = [[str(t) for t in corpus.document(i)] for i in range(part)]
    small = gnomon.BM25Index.build(documents, k1=K1, b=B)
    for query in some[:10]:
        tokens = [str(t) for t in query]
        pairs = [(token, 1.0) for token in tokens]
        expected = reference.scores(pairs, documents, "default", K1, B)
        if small.scores(tokens).tolist() != expected:
            raise SystemExit("gnomon's scores differ from the reference")
    formulas = {
        "pisa bmw": "robertson",
        "pisa maxscore": "robertson",
        "rank_bm25": "rank_bm25-okapi",
    }
    right = dict.fromkeys(searches, 0)
    for name, search in searches.items():
        data, formula = (corpus.flat, corpus.offsets), formulas.get(name, "default")
        index = gnomon.BM25Index.build(data, formula=formula, k1=K1, b=B)
        for query in some[:50]:
            truth = index.search(query, 10).scores.sum()
            ids = np.asarray(search(query, 10), dtype=np.int64)
            found = index.score_of(query, ids.tolist()).sum()
            right[name] += bool(found >= truth * (1 - 1e-5))
    return {name: count / len(some[:50]) for name, count in right.items()}


def race(searches: dict[str, Search], asked: Sequence[list[int]], k: int, rounds: int) -> Any:
    """Microseconds of each query, the best of the rounds, by engine."""
    best = {name: np.full(len(asked), np.inf) for name in searches}
    for search in searches.values():
        for query in asked:
            search(query, k)  # warm
    for _ in range(rounds):
        for name, search in searches.items():
            gc.collect()
            gc.disable()
            for place, query in enumerate(asked):
                began = time.process_time_ns()
                search(query, k)
                spent = (time.process_time_ns() - began) / 1e3
                best[name][place] = min(best[name][place], spent)
            gc.enable()
    return best


def run(label: str, corpus: Corpus, n_queries: int, rounds: int, skip: set[str]) -> None:
    work = Path(tempfile.mkdtemp(prefix="gnomon-bm25."))
    try:
        stored = work / "corpus.npz"
        corpus.save(stored)
        searches: dict[str, Search] = {}
        for name, (package, _, _) in ENGINES.items():
            if name in skip or package in skip:
                continue
            search = built(name, corpus, stored, work / package, label)
            if search is not None:
                searches[name] = search
        kinds = ("2-8 tokens", "no common words", "15-30 tokens")
        shares = check(corpus, searches, queries(corpus, kinds[0], 50))
        for name, share in shares.items():
            say(f"{label}: {name} finds a right top 10", share, "of queries", engine=name)
        if shares["gnomon"] != 1.0:
            raise SystemExit("gnomon's answers are wrong")
        for kind in kinds:
            asked = queries(corpus, kind, n_queries)
            for k in (10, min(1000, corpus.n)):
                say_race(f"{label}, {kind}, k={k}", race(searches, asked, k, rounds), shares)
        batches(label, corpus, work / "gnomon", n_queries)
    finally:
        shutil.rmtree(work)


def say_race(label: str, best: dict[str, Any], shares: dict[str, float]) -> None:
    exact = {n: t for n, t in best.items() if n != "gnomon" and (shares[n] > 0.9 or n == "tantivy")}
    for name, times in best.items():
        more = {
            "engine": name,
            "p50_us": round(float(np.median(times)), 1),
            "p99_us": round(float(np.percentile(times, 99)), 1),
        }
        say(f"{label}: {name}", 1e6 / float(times.mean()), "queries/s", **more)
    if exact:
        peer = min(exact, key=lambda name: float(exact[name].mean()))
        ratio = float(exact[peer].mean() / best["gnomon"].mean())
        say(f"{label}: gnomon against the best exact peer", ratio, "times", peer=peer)


def batches(label: str, corpus: Corpus, folder: Path, n_queries: int) -> None:
    """search_many on two threads against one, by the clock."""
    index = gnomon.BM25Index.load(folder / "index")
    asked = queries(corpus, "2-8 tokens", n_queries) * 4
    walls: dict[int, float] = {1: float("inf"), 2: float("inf")}
    for _ in range(5):
        for threads in walls:
            began = time.perf_counter()
            index.search_many(asked, 10, threads=threads)
            walls[threads] = min(walls[threads], time.perf_counter() - began)
    say(f"{label}: two threads against one, in batch", walls[1] / walls[2], "times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="three minutes: 10k and 100k documents"
    )
    parser.add_argument("--docs", default="10000,100000,1000000")
    parser.add_argument("--prose", default=os.environ.get("GNOMON_PROSE"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--skip", default="", help="engines, by name, separated by commas")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        with contextlib.redirect_stderr(sys.stderr):
            child(*given.child)
        return
    sizes = [10_000, 100_000] if given.quick else [int(n) for n in given.docs.split(",") if n]
    skip = set(filter(None, given.skip.split(",")))
    rounds, asked = (3, 100) if given.quick else (given.rounds, given.queries)
    for n in sizes:
        run(f"{n:,} short documents", short_documents(n), asked, rounds, skip)
    if given.prose:
        corpus, _ = prose(given.prose, 20_000 if given.quick else None)
        run(f"{corpus.n:,} passages of prose", corpus, asked, rounds, skip)


if __name__ == "__main__":
    main()
