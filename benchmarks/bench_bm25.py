"""BM25 against the exact engines people use, one thread, answers checked first.

bench_bm25.py [--quick] [--docs 10000,100000,1000000] [--prose FILE.jsonl]

Corpora: short documents from a seeded Zipf-Mandelbrot law (10 tokens, 650,000 words), and passages
of real prose (a JSON object with "text" a line): --prose names a file; without it one is made once
of Debian's documentation by shared/tools/make_prose_corpus.py where that and apt-get are there, and
kept in the folder of temporary files. All engines get the same tokens. k1=1.5, b=0.75 (tantivy: its
fixed 1.2 and 0.75). Queries: 2-8 tokens, the same without the commonest words, 15-30.

Exact is an engine whose top ten are, but for ties, those of its own formula on exact lengths in
float64 (bm25_truth.py), for 99 of 100 of these queries. The best exact peer is the fastest of those
in a cell; the others are compared too, in rows that say how often they are right.

Peers: bm25s and bm25q with their numba back ends (their numpy back end spends 160 ms a query in
numpy 2.4's argpartition of mostly-zero arrays), tantivy (one segment), PISA through pyterrier_pisa
(block_max_wand and maxscore, scores not quantised; one batch of all documents), rank_bm25 (up to
10,000 documents). Those that are not installed are skipped, which is a row of its own. Each engine
is built in a process of its own, whose peak memory (above its input, VmHWM) is reported, and
searched from what it saved. CPU time of the process; each query's best of the rounds, engines in
turn. Then, for gnomon alone: a batch on two threads, and queries after a tenth of the documents was
deleted and added again in 20 commits.

Takes about ten minutes on two quiet cores, --quick three; the prose is made before that.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "GNOMON_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("DISABLE_TQDM", "1")

import gnomon  # noqa: E402
import numpy as np  # noqa: E402
from bm25_engines import ENGINES, FORMULAS, K1, TEXT_ENGINES, B, Search  # noqa: E402
from bm25_inputs import Corpus, prose, prose_file, queries, short_documents  # noqa: E402
from bm25_truth import EXACT, Formula, Truth  # noqa: E402
from gnomon.reference import bm25_formulas as reference  # noqa: E402

EDITED = 10  # one document of so many is deleted and added again, in
COMMITS = 20
BYTES = ("tantivy",)  # engines that keep lengths in one byte
Shares = tuple[dict[str, float], dict[str, float]]


def say(what: str, value: float, unit: str, **more: Any) -> None:
    print(json.dumps({"what": what, "value": round(value, 4), "unit": unit, **more}), flush=True)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


# ---- building, in a process of its own -----------------------------------------------------------


def resident(which: str) -> float:
    """Megabytes that this process holds (VmRSS) or has held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(which)).split()[1]) / 1024


def watched(work: Callable[[], Any]) -> dict[str, float]:
    """CPU seconds of a call, and by how much memory rose above what was there before it."""
    gc.collect()
    with contextlib.suppress(OSError):  # a system that does not let the peak be taken back
        Path("/proc/self/clear_refs").write_text("5")
    before, began = resident("VmRSS"), time.process_time()
    work()
    return {"seconds": time.process_time() - began, "peak_mb": resident("VmHWM") - before}


def child(engine: str, source: str, folder: str, kind: str) -> None:
    """Builds one engine from tokens or from texts; prints seconds and bytes."""
    package, build = ENGINES[engine][:2]
    __import__(package)
    if kind == "tokens":
        data = Corpus.load(Path(source))
        figures = watched(lambda: build(data, Path(folder)))
    else:
        with Path(source).open(encoding="utf-8") as lines:
            texts = [json.loads(line)["text"] for line in lines]
        tokenise, index = TEXT_ENGINES[engine]
        alone = watched(lambda: tokenise(texts))
        figures = watched(lambda: index(texts))
        size = sum(len(text.encode()) for text in texts) / 1e6
        figures |= {"tokenise": size / alone["seconds"], "megabytes": size}
    print(json.dumps(figures))


def in_child(engine: str, source: Path, folder: Path, kind: str, label: str) -> Any:
    """What child() printed; None, said in a row, when the engine could not be built."""
    command = [sys.executable, __file__, "--child", engine, str(source), str(folder), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    why = (done.stderr.strip().splitlines() or ["?"])[-1]
    say(f"{label}: {engine} cannot be built from {kind}", 0, "", why=why[:200])
    return None


def built(
    name: str, corpus: Corpus, stored: Path, folder: Path, label: str, seconds: dict[str, float]
) -> Search | None:
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
    figures = in_child(name, stored, folder, "tokens", label)
    if figures is None:
        return None
    seconds[name] = figures["seconds"]
    more = {"engine": name, "version": version, "peak_mb": round(figures["peak_mb"], 1)}
    say(f"{label}: {name} builds in", figures["seconds"], "s", **more)
    say(f"{label}: {name} on disk", size_of(folder / "index") / 1e6, "MB", engine=name)
    return opened(name, corpus, folder, label)


def opened(name: str, corpus: Corpus, folder: Path, label: str) -> Search | None:
    try:
        __import__(ENGINES[name][0])  # not a part of loading
        began = time.perf_counter()
        search = ENGINES[name][2](folder, corpus)
    except Exception as error:
        say(f"{label}: {name} cannot be opened", 0, "", why=str(error)[:200])
        return None
    say(f"{label}: {name} loads in", (time.perf_counter() - began) * 1e3, "ms", engine=name)
    return search


def from_texts(label: str, source: Path, work: Path) -> None:
    """From text to a searchable index, and the part of it that is tokenising, one thread."""
    seconds = {}
    for name in TEXT_ENGINES:
        figures = in_child(name, source, work, "texts", label)
        if figures is None:
            continue
        seconds[name] = figures["seconds"]
        more = {"engine": name, "megabytes": round(figures["megabytes"], 1)}
        say(f"{label}: {name} tokenises", figures["tokenise"], "MB/s", **more)
        more["peak_mb"] = round(figures["peak_mb"], 1)
        say(f"{label}: {name} from text to index", figures["seconds"], "s", **more)
    say_ratio(f"{label}: from text to index, bm25s against gnomon", seconds)


def say_ratio(what: str, seconds: dict[str, float]) -> None:
    if "bm25s" in seconds and "gnomon" in seconds:
        say(what, seconds["bm25s"] / seconds["gnomon"], "times")


# ---- searching -----------------------------------------------------------------------------------


def check(corpus: Corpus, searches: dict[str, Search], asked: Sequence[list[int]]) -> Shares:
    """Ours equals the reference on a part; then each engine's share of right answers, k = 10.

    The second share of tantivy is that by lengths of one byte.
    """
    part = min(corpus.n, 300)
    documents = [[str(t) for t in corpus.document(i)] for i in range(part)]
    small = gnomon.BM25Index.build(documents, k1=K1, b=B)
    for query in asked[:10]:
        tokens = [str(t) for t in query]
        pairs = [(token, 1.0) for token in tokens]
        expected = reference.scores(pairs, documents, "default", K1, B)
        if small.scores(tokens).tolist() != expected:
            raise SystemExit("gnomon's scores differ from the reference")
    truth, k = Truth(corpus), min(10, corpus.n)
    answers = {name: [search(query, k) for query in asked] for name, search in searches.items()}

    def share(name: str, formula: Formula) -> float:
        given = zip(asked, answers[name], strict=True)
        return sum(truth.right(ids, query, k, formula) for query, ids in given) / len(asked)

    shares = {name: share(name, FORMULAS[name]) for name in searches}
    in_bytes = {
        name: share(name, replace(FORMULAS[name], bytes=True)) for name in searches if name in BYTES
    }
    return shares, in_bytes


def say_shares(label: str, shares: Shares) -> None:
    for name, share in shares[0].items():
        say(f"{label}: {name} finds the right top 10", share, "of queries", engine=name)
    for name, share in shares[1].items():
        what = f"{label}: {name} finds the right top 10 by lengths of one byte"
        say(what, share, "of queries", engine=name)
    if shares[0]["gnomon"] != 1.0:
        raise SystemExit("gnomon's answers are wrong")


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


def say_race(label: str, best: dict[str, Any], shares: dict[str, float]) -> None:
    """Each engine's rate; gnomon against the fastest exact peer, and against each inexact one."""
    for name, times in best.items():
        more = {
            "engine": name,
            "p50_us": round(float(np.median(times)), 1),
            "p99_us": round(float(np.percentile(times, 99)), 1),
        }
        say(f"{label}: {name}", 1e6 / float(times.mean()), "queries/s", **more)
    means = {name: float(times.mean()) for name, times in best.items()}
    ours = means.pop("gnomon")
    exact = [name for name in means if shares[name] >= EXACT]
    if exact:
        peer = min(exact, key=lambda name: means[name])
        say(f"{label}: gnomon against the best exact peer", means[peer] / ours, "times", peer=peer)
    for peer in sorted(means.keys() - set(exact), key=lambda name: means[name]):
        what = f"{label}: gnomon against {peer}, which is right in {shares[peer]:.0%}"
        say(what, means[peer] / ours, "times", peer=peer, right=shares[peer])


# ---- gnomon alone --------------------------------------------------------------------------------


def batches(label: str, corpus: Corpus, folder: Path, n_queries: int) -> None:
    """search_many on two threads against one, by the clock; and what it costs in CPU time."""
    index = gnomon.BM25Index.load(folder / "index")
    for kind in ("2-8 tokens", "15-30 tokens"):
        asked = queries(corpus, kind, n_queries) * 4
        walls: dict[int, float] = {1: float("inf"), 2: float("inf")}
        spent = dict(walls)
        for _ in range(6):
            for threads in walls:
                began, used = time.perf_counter(), time.process_time()
                index.search_many(asked, 10, threads=threads)
                walls[threads] = min(walls[threads], time.perf_counter() - began)
                spent[threads] = min(spent[threads], time.process_time() - used)
        more = {"cpu_times": round(spent[2] / spent[1], 3)}
        what = f"{label}, {kind}: two threads against one, in batch"
        say(what, walls[1] / walls[2], "times", **more)


def edits(label: str, corpus: Corpus, folder: Path, n_queries: int, rounds: int) -> None:
    """Queries after a part of the documents was deleted and added again, in many commits."""
    path = folder / "edited"
    shutil.copytree(folder / "index", path)
    chosen = np.random.default_rng(3).permutation(corpus.n)[: corpus.n // EDITED]
    began = time.process_time()
    with gnomon.BM25Index.open(path, mode="w") as writer:
        for part in np.array_split(chosen, COMMITS):
            writer.delete(part.tolist())
            writer.add([corpus.document(i) for i in part.tolist()])
            writer.commit()
    say(
        f"{label}: a commit of {len(chosen) // COMMITS:,} documents deleted and added",
        (time.process_time() - began) / COMMITS * 1e3,
        "ms",
    )
    before, after = gnomon.BM25Index.load(folder / "index"), gnomon.BM25Index.load(path)
    kept = np.setdiff1d(np.arange(corpus.n), chosen)
    order = np.concatenate([kept, chosen])  # as the documents now stand
    asked = queries(corpus, "2-8 tokens", n_queries)
    for query in asked[:30]:
        same = before.score_of(query, order[after.ids.searchsorted(after.search(query, 10).ids)])
        if after.search(query, 10).scores.tolist() != same.tolist():
            raise SystemExit("an edited index scores otherwise than one that was not")
    searches: dict[str, Search] = {
        "before": lambda query, k: before.search(query, k),
        "after": lambda query, k: after.search(query, k),
    }
    for k in (10, min(1000, corpus.n)):
        times = {name: float(t.mean()) for name, t in race(searches, asked, k, rounds).items()}
        what = f"{label}, 2-8 tokens, k={k}: a query after {COMMITS} commits against before"
        say(what, times["after"] / times["before"], "times", segments=after.n_segments)


def run(
    label: str, corpus: Corpus, n_queries: int, rounds: int, skip: set[str], source: Path | None
) -> None:
    work = Path(tempfile.mkdtemp(prefix="gnomon-bm25."))
    try:
        stored = work / "corpus.npz"
        corpus.save(stored)
        searches: dict[str, Search] = {}
        seconds: dict[str, float] = {}
        for name, (package, _, _) in ENGINES.items():
            if name in skip or package in skip:
                continue
            search = built(name, corpus, stored, work / package, label, seconds)
            if search is not None:
                searches[name] = search
        say_ratio(f"{label}: from tokens to index, bm25s against gnomon", seconds)
        kinds = ("2-8 tokens", "no common words", "15-30 tokens")
        checked = [query for kind in kinds for query in queries(corpus, kind, 50)]
        shares = check(corpus, searches, checked)
        say_shares(label, shares)
        for kind in kinds:
            asked = queries(corpus, kind, n_queries)
            for k in (10, min(1000, corpus.n)):
                say_race(f"{label}, {kind}, k={k}", race(searches, asked, k, rounds), shares[0])
        batches(label, corpus, work / "gnomon", n_queries)
        edits(label, corpus, work / "gnomon", n_queries, rounds)
        if source is not None and "texts" not in skip:
            from_texts(label, source, work)
    finally:
        shutil.rmtree(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="10k and 100k documents, some prose")
    parser.add_argument("--docs", default="10000,100000,1000000")
    parser.add_argument("--prose", default=os.environ.get("GNOMON_PROSE"), help="'' for none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--skip", default="", help="engines, or texts, separated by commas")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        with contextlib.redirect_stderr(sys.stderr):
            child(*given.child)
        return
    source, why = (None, "--prose ''") if given.prose == "" else prose_file(given.prose)
    sizes = [10_000, 100_000] if given.quick else [int(n) for n in given.docs.split(",") if n]
    skip = set(filter(None, given.skip.split(",")))
    rounds, asked = (3, 100) if given.quick else (given.rounds, given.queries)
    for n in sizes:
        run(f"{n:,} short documents", short_documents(n), asked, rounds, skip, None)
    if source is None:
        say("passages of prose: none", 0, "", why=why)
        return
    corpus, _ = prose(str(source), 20_000 if given.quick else None)
    run(f"{corpus.n:,} passages of prose", corpus, asked, rounds, skip, source)


if __name__ == "__main__":
    main()
