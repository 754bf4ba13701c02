"""Dense top-k and MMR against the exact searches people use, one thread, answers checked first.

bench_dense.py [--profile standard|full] [--seconds 3] [--vectors FOLDER]
               [--rows 1000,10000] [--shapes 1000x64] [--no-mmr] [--no-hostile]

`standard`, what `run.py dense` takes, measures 1,000 x 64 and 1,000 to 1,000,000 x 384 in about six
minutes; `full` adds 200,000 x 768 and 100,000 x 1536. `--rows` and `--shapes` name others. A cell
is repeated for `--seconds` at most. Beside the timed cells:
* ids and scores of each data set's first queries equal a float64 oracle that shares no code with
  the core (numpy, in blocks, added in the written order of the scores);
* data that no bound can decide is searched in at most 1.5 times the plain scan's time;
* the memory of the screens against that of the vectors.

Vectors: mixtures of real embeddings (`docs.npy` and `queries.npy` under FOLDER, by default the
shared test material) with noise of their covariance, normalised: the score distribution stays that
of the real ones. Without the folder: a Gaussian of decaying spectrum.

Peers return what ours does, the k best in order with their scores (numpy's selection is sorted),
each in its fastest setting: faiss `IndexFlatIP` and `knn` (with the BLAS threshold at 1: its
default sends small batches to a scan that is 3-8 times slower), torch mm + topk, numpy mm +
argpartition, scikit-learn brute force, usearch exact, svs flat. All in this process, interleaved;
CPU time of the process, best of the rounds, since other load on a machine lengthens walls.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(variable, None)  # they slow a current numpy
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "GNOMON_THREADS"):
    os.environ[variable] = "1"

import gnomon  # noqa: E402
import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

Float32 = npt.NDArray[np.float32]
Peer = Callable[[Float32, int], Any]
SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "collections"


def real_vectors(folder: Path) -> tuple[Float32, Float32]:
    parts = sorted(folder.glob("*/emb/docs.npy"))
    if not parts:
        rng = np.random.default_rng(0)
        spectrum = 1.0 / np.sqrt(np.arange(1, 385))
        made = rng.standard_normal((21_000, 384)) * spectrum
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made[:20_000].astype(np.float32), made[20_000:].astype(np.float32)
    docs = np.concatenate([np.load(part) for part in parts])
    queries = np.concatenate([np.load(part.parent / "queries.npy") for part in parts])
    return docs, queries


def mixtures(base: Float32, n: int, seed: int) -> Float32:
    """normalise(a x + (1 - a) y + 0.3 noise), noise of the covariance of the base."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(np.cov(base.T) + 1e-6 * np.eye(base.shape[1]))
    rows = np.empty((n, base.shape[1]), np.float32)
    for start in range(0, n, 50_000):
        m = min(50_000, n - start)
        x, y = base[rng.integers(0, len(base), m)], base[rng.integers(0, len(base), m)]
        a = rng.uniform(0.55, 0.95, (m, 1))
        part = a * x + (1 - a) * y + 0.3 * (rng.standard_normal((m, base.shape[1])) @ root.T)
        rows[start : start + m] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def clustered(n: int, dim: int) -> Float32:
    """Unit vectors around 4,000 centres, with a common mean and a spectrum that decays."""
    rng = np.random.default_rng(6)
    spectrum = (1.0 / np.arange(1, dim + 1) ** 0.4).astype(np.float32)
    centres = rng.standard_normal((4000, dim), dtype=np.float32) * spectrum
    mean = rng.standard_normal(dim, dtype=np.float32) * spectrum * np.float32(0.7)
    rows = np.empty((n, dim), np.float32)
    for start in range(0, n, 20_000):
        m = min(20_000, n - start)
        noise = rng.standard_normal((m, dim), dtype=np.float32) * spectrum * np.float32(1.1)
        part = mean + centres[rng.integers(0, 4000, m)] + noise
        rows[start : start + m] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def chunked(score: Callable[[Float32], Any], select: Callable[[Any, int], Any]) -> Peer:
    """Scores of all rows for at most 100 queries at a time: 400 MB at a million rows."""

    def search(queries: Float32, k: int) -> Any:
        return [select(score(queries[i : i + 100]), k) for i in range(0, len(queries), 100)]

    return search


def numpy_best(scores: Float32, k: int) -> Any:
    """The k best columns in order; the scores are gathered as well, as every other peer does."""
    k = min(k, scores.shape[1])
    some = np.argpartition(-scores, k - 1, axis=1)[:, :k]
    values = np.take_along_axis(scores, some, axis=1)
    order = np.argsort(-values, axis=1)
    np.take_along_axis(values, order, axis=1)
    return np.take_along_axis(some, order, axis=1)


def peers(rows: Float32) -> dict[str, Peer]:
    found: dict[str, Peer] = {}
    n = len(rows)
    found["numpy"] = chunked(lambda q: q @ rows.T, numpy_best)
    try:
        import faiss

        faiss.omp_set_num_threads(1)
        faiss.cvar.distance_compute_blas_threshold = 1
        if n <= 200_000:  # a copy of the rows; at a million knn is faster for few queries
            flat = faiss.IndexFlatIP(rows.shape[1])
            flat.add(rows)
            found["faiss"] = lambda q, k: flat.search(q, k)[1]
        ip = faiss.METRIC_INNER_PRODUCT
        found["faiss.knn"] = lambda q, k: faiss.knn(q, rows, k, metric=ip)[1]
    except ImportError:
        pass
    try:
        import torch

        torch.set_num_threads(1)
        base = torch.from_numpy(rows)
        found["torch"] = chunked(
            lambda q: torch.from_numpy(q) @ base.T,
            lambda s, k: torch.topk(s, min(k, n), dim=1).indices.numpy(),
        )
    except ImportError:
        pass
    try:
        import svs

        wanted = svs.DistanceType.MIP
        index = svs.Flat(rows, distance=wanted, num_threads=1)
        found["svs"] = lambda q, k: index.search(q, k)[0]
    except ImportError:
        pass
    try:
        from sklearn.neighbors import NearestNeighbors

        # Unit vectors: the nearest are those of the greatest dot.
        nearest = NearestNeighbors(algorithm="brute", metric="sqeuclidean", n_jobs=1).fit(rows)
        found["sklearn"] = lambda q, k: nearest.kneighbors(q, min(k, n))[1]
    except ImportError:
        pass
    try:
        from usearch.index import MetricKind, search

        def usearch(queries: Float32, k: int) -> Any:
            return search(rows, queries, k, MetricKind.IP, exact=True, threads=1).keys

        if n <= 10_000:  # 3-100 times slower than the others: it would only lengthen the run
            found["usearch"] = usearch
    except ImportError:
        pass
    return found


def cpu_ms(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1e3


def oracle(rows: Float32, query: Float32, k: int) -> tuple[Any, Any]:
    """Cosine top-k by eight running sums in float64, in numpy: its own code and its own order."""
    q = query.astype(np.float64)
    dots = np.empty(len(rows))
    squares = np.empty(len(rows))
    width = -(-rows.shape[1] // 8)
    padded = np.zeros(width * 8)
    padded[: len(q)] = q
    for start in range(0, len(rows), 8192):
        part = np.zeros((len(rows[start : start + 8192]), width * 8))
        part[:, : len(q)] = rows[start : start + 8192]
        for out, other in ((dots, np.broadcast_to(padded, part.shape)), (squares, part)):
            lanes = np.zeros((len(part), 8))
            for d in range(0, width * 8, 8):
                lanes += part[:, d : d + 8] * other[:, d : d + 8]
            pairs = lanes[:, :4] + lanes[:, 4:]
            out[start : start + 8192] = (pairs[:, 0] + pairs[:, 2]) + (pairs[:, 1] + pairs[:, 3])
    own = np.zeros(8)
    for d in range(0, width * 8, 8):
        own += padded[d : d + 8] * padded[d : d + 8]
    pairs = own[:4] + own[4:]
    square = (pairs[0] + pairs[2]) + (pairs[1] + pairs[3])
    scores = np.clip(dots / np.sqrt(square * squares), -1.0, 1.0)
    best = np.argsort(-scores, kind="stable")[:k]
    return best, scores[best]


def check(
    index: gnomon.DenseIndex, rows: Float32, queries: Float32, other: dict[str, Peer]
) -> None:
    """Ours equals the reference on sampled rows; the peers find (nearly) the same neighbours."""
    from gnomon.reference import dense

    sample = np.random.default_rng(5).choice(len(rows), min(len(rows), 400), replace=False)
    small = rows[np.sort(sample)]
    wanted = dense.top_k(queries[0].tolist(), small.tolist(), 10, "cosine")
    got = gnomon.DenseIndex.build(small, screen="int8").search(queries[0], 10)
    if list(zip(got.ids.tolist(), got.scores.tolist(), strict=True)) != wanted:
        raise SystemExit("wrong answer: nothing was timed")
    ours = index.search(queries[:20], 10).ids
    if (ours != index.search(queries[:20], 10, screen="none").ids).any():
        raise SystemExit("the screen changed an answer: nothing was timed")
    for query in queries[:3]:
        best, scores = oracle(rows, query, 100)
        for screen in ("auto", "int8", "none"):
            found = index.search(query, 100, screen=screen)
            if (found.ids != best).any() or found.scores.tobytes() != scores.tobytes():
                raise SystemExit(f"screen={screen} differs from the oracle: nothing was timed")
    for name, peer in other.items():
        theirs = np.asarray(peer(queries[:20], 10)).reshape(20, 10)
        shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ours, theirs, strict=True)])
        if shared < 0.99:  # float32 rounding may swap a tie at the end
            raise SystemExit(f"{name} finds other neighbours ({shared:.3f}): not comparable")


def row_of(what: str, ours: float, peers_ms: dict[str, float]) -> dict[str, Any]:
    rival = min((ms, name) for name, ms in peers_ms.items())
    return {
        "what": f"{what}, against {rival[1]}",
        "value": rival[0] / ours,
        "unit": "x as fast, 1 thread",
        "gnomon_ms": ours,
        "peers_ms": peers_ms,
    }


def cells_of(n: int) -> list[tuple[int, int]]:
    """k and queries of the cells over n rows."""
    if n > 200_000:
        return [(10, 1), (10, 10), (10, 100), (1000, 100)]
    counts = (1, 10, 100, 1000)
    return [(10, count) for count in counts] + [
        (1000, count) for count in counts if n == 100_000 or count in (1, 100)
    ]


def bench_search(rows: Float32, queries: Float32, what: str, seconds: float) -> None:
    index = gnomon.DenseIndex.build(rows)
    other = peers(rows)
    check(index, rows, queries, other)
    share = {"what": f"{what}, memory of the screen", "value": index.screen_bytes / rows.nbytes}
    print(json.dumps({**share, "unit": "of the float32 vectors"}), flush=True)
    for k, count in cells_of(len(rows)):
        wanted = np.ascontiguousarray(queries[:count])
        calls: dict[str, Callable[[], Any]] = {
            "gnomon": lambda w=wanted, k=k: index.search(w, k, threads=1),
            **{name: lambda p=peer, w=wanted, k=k: p(w, k) for name, peer in other.items()},
        }
        for _ in range(10 if count * len(rows) <= 10_000_000 else 1):
            calls["gnomon"]()  # what pays is measured in the first searches of a kind
        warm = 3 if count * len(rows) <= 10_000_000 else 1
        best = {name: min(cpu_ms(call) for _ in range(warm)) for name, call in calls.items()}
        ends = time.monotonic() + seconds
        for _ in range(40):
            for name, call in calls.items():
                if best[name] < 3 * best["gnomon"]:
                    best[name] = min(best[name], cpu_ms(call))
            if time.monotonic() > ends:
                break
        theirs = {name: ms for name, ms in best.items() if name != "gnomon"}
        print(
            json.dumps(row_of(f"{what}, k={k}, {count} queries", best["gnomon"], theirs)),
            flush=True,
        )


def bench_hostile() -> None:
    """Data that bounds cannot decide, or that raises thresholds as late as can be."""
    rng = np.random.default_rng(17)
    base = rng.standard_normal((20_000, 384)).astype(np.float32)
    one_ulp = np.repeat(base[:1], len(base), axis=0)
    one_ulp[np.arange(len(base)), rng.integers(0, 384, len(base))] *= np.float32(1 + 2**-23)
    one_huge = base.copy()
    one_huge[:, 7] = 1e4
    kinds = {
        "all equal": np.repeat(base[:1], len(base), axis=0),
        "one ulp apart": one_ulp,
        "one huge dimension": one_huge,
        "few distinct rows": base[rng.integers(0, 5, len(base))],
        "sorted ascending": base[np.argsort(base @ base[0])],
        "near-orthogonal": base,
        "subnormal": base * np.float32(1e-40),
    }
    for name, rows in kinds.items():
        index = gnomon.DenseIndex.build(np.ascontiguousarray(rows), screen="int8")
        for count in (1, 100):
            wanted = np.ascontiguousarray(np.concatenate([base[:1], rows[: count - 1]]))
            for _ in range(10):  # what pays is measured in the first searches
                index.search(wanted, 10)
            best = dict.fromkeys(("auto", "none"), float("inf"))
            for _ in range(7 if count == 1 else 3):
                for screen in best:
                    ms = cpu_ms(lambda w=wanted, s=screen, i=index: i.search(w, 10, screen=s))
                    best[screen] = min(best[screen], ms)
            print(
                json.dumps(
                    {
                        "what": f"{name}, 20,000 x 384, {count} queries, screen against plain scan",
                        "value": best["none"] / best["auto"],
                        "unit": "x as fast, 1 thread",
                        "gnomon_ms": best["auto"],
                        "peers_ms": {"plain": best["none"]},
                    }
                ),
                flush=True,
            )


def numpy_mmr(query: Float32, rows: Float32, limit: int, diversity: float) -> list[int]:
    """Incremental: one matrix-vector product a pick."""
    relevance = rows @ query
    redundancy = np.full(len(rows), -np.inf, np.float32)
    alive = np.ones(len(rows), bool)
    picks = [int(np.argmax(relevance))]
    while len(picks) < limit:
        alive[picks[-1]] = False
        np.maximum(redundancy, rows @ rows[picks[-1]], out=redundancy)
        score = np.where(alive, diversity * relevance - (1 - diversity) * redundancy, -np.inf)
        picks.append(int(np.argmax(score)))
    return picks


def bench_mmr(rows: Float32, query: Float32) -> None:
    limit, diversity = 100, 0.5
    calls: dict[str, Callable[[], Any]] = {
        "gnomon": lambda: gnomon.mmr_vectors(query, rows, limit, diversity, threads=1),
        "numpy": lambda: numpy_mmr(query, rows, limit, diversity),
    }
    try:
        from langchain_core.vectorstores.utils import maximal_marginal_relevance

        calls["langchain"] = lambda: maximal_marginal_relevance(
            query, list(rows), lambda_mult=diversity, k=limit
        )
    except ImportError:
        pass
    picks = calls["gnomon"]()
    for name, call in calls.items():
        same = sum(a == b for a, b in zip(picks, call(), strict=True))
        if same < limit - 2:  # the float32 peers may swap near-ties
            raise SystemExit(f"{name} picks differently ({same} of {limit}): not comparable")
    best = {
        n: min(cpu_ms(c) for _ in range(5 if n != "langchain" else 1)) for n, c in calls.items()
    }
    for name in calls:
        if name != "gnomon":
            print(
                json.dumps(
                    {
                        "what": f"MMR, {len(rows):,} candidates, limit {limit}, against {name}",
                        "value": best[name] / best["gnomon"],
                        "unit": "x as fast, 1 thread",
                        "gnomon_ms": best["gnomon"],
                        "peers_ms": {name: best[name]},
                    }
                ),
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", choices=["standard", "full"], default="standard")
    parser.add_argument("--rows", default="1000,10000,100000,1000000")
    parser.add_argument("--shapes")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--vectors", type=Path, default=SHARED)
    parser.add_argument("--no-mmr", action="store_true")
    parser.add_argument("--no-hostile", action="store_true")
    arguments = parser.parse_args()
    more = ",200000x768,100000x1536" if arguments.profile == "full" else ""
    shapes = f"1000x64{more}" if arguments.shapes is None else arguments.shapes
    base, queries = real_vectors(arguments.vectors)
    if len(queries) < 1000:
        queries = np.concatenate([queries, mixtures(base, 1000 - len(queries), 2)])
    for n in map(int, filter(None, arguments.rows.split(","))):
        rows = mixtures(base, n, 1)
        bench_search(rows, queries, f"cosine, {n:,} x {rows.shape[1]}", arguments.seconds)
        del rows
    for shape in filter(None, shapes.split(",")):
        n, dim = map(int, shape.split("x"))
        made = clustered(n + 1000, dim)
        what = f"cosine, clusters, {n:,} x {dim}"
        bench_search(made[1000:], made[:1000], what, arguments.seconds)
        del made
    if not arguments.no_hostile:
        bench_hostile()
    if not arguments.no_mmr:
        bench_mmr(mixtures(base, 10_000, 3), queries[0])


if __name__ == "__main__":
    main()
