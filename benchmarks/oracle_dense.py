"""Whole data sets against a float64 oracle: ids, order and every bit of the scores.

oracle_dense.py [--shapes 1000000x384,200000x768,100000x1536] [--queries 100] [--vectors FOLDER]
                [--levels avx2,avx512] [--record FILE]

The oracle shares no code with the core. It multiplies all rows with all queries in float64 (BLAS),
keeps for each query the rows whose place its own rounding could not decide, scores those in the
written order of the canonical sum (numpy, eight lanes), and sorts them by falling score and rising
row. A tenth of the queries are scored a third time, by the pure-Python reference, at the rows that
gnomon returned. Compared with `==` for k = 10, 100, 1000, each metric, every screen, batches and
single queries, one thread and two, and at each level of this CPU (in a process of its own; the
scalar level, many times slower, takes every tenth query and does not turn large data sets).

Vectors: at 384 dimensions mixtures of real MiniLM embeddings with noise of their covariance, at
768 and 1536 two and four such mixtures side by side. Lengths vary from 0.5 to 2, so that the three
metrics rank differently, and every 97th row repeats another one, so that scores tie.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import numpy.typing as npt
from bench_dense import SHARED, mixtures, real_vectors
from run import machine

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

KS = (10, 100, 1000)
METRICS = ("cosine", "ip", "l2")
SCREENS = ("auto", "int8", "float32", "none")
SPARE = 64  # rows kept beyond the last place until the canonical sums decide
BLOCK = 10_000
# Float64 sums of at most 1536 products of vectors no longer than 2: every rounding together is
# below 1536 * 2^-53 * 4 * 4 < 3e-12, and a row is only left out when it is ten times as far behind.
MARGIN = 3e-11


def side_by_side(base: Float32, n: int, dim: int, seed: int) -> Float32:
    """`dim` / 384 mixtures beside each other, of lengths 0.5 to 2, every 97th a repetition."""
    parts = dim // base.shape[1]
    if parts * base.shape[1] != dim:
        raise SystemExit(f"{dim} is no multiple of the real vectors' {base.shape[1]}")
    rows = np.empty((n, dim), np.float32)
    for part in range(parts):
        place = slice(part * base.shape[1], (part + 1) * base.shape[1])
        rows[:, place] = mixtures(base, n, seed + part)
    rng = np.random.default_rng(seed + 100)
    lengths = rng.uniform(0.5, 2.0, n) / np.sqrt(parts)
    for start in range(0, n, BLOCK):
        rows[start : start + BLOCK] *= lengths[start : start + BLOCK, None].astype(np.float32)
    rows[96::97] = rows[rng.integers(0, n, len(rows[96::97]))]
    return rows


def lanes(products: Float64) -> Float64:
    """The canonical sum of each row of products: eight running sums, then a fixed tree."""
    total = np.zeros((len(products), 8))
    for d in range(0, products.shape[1], 8):
        part = products[:, d : d + 8]
        total[:, : part.shape[1]] += part
    pairs = total[:, :4] + total[:, 4:]
    return (pairs[:, 0] + pairs[:, 2]) + (pairs[:, 1] + pairs[:, 3])


def canonical(query: Float32, rows: Float32, metric: str) -> Float64:
    """The score of every row, in the written order of float64 operations."""
    q, x = query.astype(np.float64), rows.astype(np.float64)
    if metric == "l2":
        return 0.0 - lanes(np.square(q - x))
    dots = lanes(q * x)
    if metric == "ip":
        return dots
    squares = lanes(x * x) * lanes((q * q)[None])
    with np.errstate(invalid="ignore"):
        return np.where(squares == 0.0, 0.0, np.clip(dots / np.sqrt(squares), -1.0, 1.0))


def oracle(
    rows: Float32, queries: Float32, k: int, metrics: Sequence[str] = METRICS
) -> dict[str, tuple[Int64, Float64]]:
    """For each metric the k best rows of every query, and their scores; rows may be mapped."""
    wanted = queries.astype(np.float64)
    q_squares = np.square(wanted).sum(1)[:, None]
    keep = min(len(rows), k + SPARE)
    ids = {metric: np.empty((len(queries), 0), np.int64) for metric in metrics}
    near = {metric: np.empty((len(queries), 0)) for metric in metrics}
    for start in range(0, len(rows), BLOCK):
        part = rows[start : start + BLOCK].astype(np.float64)
        squares = np.square(part).sum(1)[None]
        dots = wanted @ part.T
        scores = {
            "cosine": dots / np.sqrt(q_squares * squares),
            "ip": dots,
            "l2": 2.0 * dots - squares - q_squares,
        }
        numbers = np.broadcast_to(np.arange(start, start + len(part)), dots.shape)
        for metric in metrics:
            all_near = np.concatenate([near[metric], scores[metric]], axis=1)
            all_ids = np.concatenate([ids[metric], numbers], axis=1)
            best = np.argpartition(-all_near, min(keep, all_near.shape[1]) - 1, axis=1)[:, :keep]
            near[metric] = np.take_along_axis(all_near, best, 1)
            ids[metric] = np.take_along_axis(all_ids, best, 1)
    return {
        metric: settled(rows, queries, ids[metric], near[metric], metric, k) for metric in metrics
    }


def settled(
    rows: Float32, queries: Float32, ids: Int64, near: Float64, metric: str, k: int
) -> tuple[Int64, Float64]:
    """The k best of the rows kept; refuses where one that was left out could belong to them."""
    best_ids = np.empty((len(queries), k), np.int64)
    best_scores = np.empty((len(queries), k))
    for q, query in enumerate(queries):
        kth = np.sort(near[q])[-k]
        if ids.shape[1] < len(rows) and near[q].min() > kth - MARGIN:
            raise SystemExit(f"query {q}: more rows near the last place than the oracle keeps")
        held = np.sort(ids[q])
        scores = canonical(query, rows[held], metric)
        order = np.argsort(-scores, kind="stable")[:k]  # equal scores: the lower row first
        best_ids[q], best_scores[q] = held[order], scores[order]
    return best_ids, best_scores


def by_reference(
    rows: Float32, queries: Float32, ids: Int64, scores: Float64, metric: str, every: int
) -> int:
    """Scores by the reference's own loop, where gnomon has a row; how many were compared."""
    from gnomon.reference.dense import METRICS as REFERENCE

    compared = 0
    for q in range(0, len(queries), every):
        query = queries[q].tolist()
        for place in [*range(10), *range(10, ids.shape[1], 25)]:
            exact = REFERENCE[metric](query, rows[ids[q, place]].tolist())
            if exact != scores[q, place]:
                raise SystemExit(f"{metric}: query {q}, place {place}: {scores[q, place]!r} is not")
            compared += 1
    return compared


def same(found: Any, ids: Int64, scores: Float64, what: str) -> None:
    """Ends the run unless ids and the bits of the scores are equal."""
    if (found.ids != ids).any() or found.scores.tobytes() != scores.tobytes():
        wrong = np.argwhere((found.ids != ids) | (found.scores != scores))
        place = wrong[0].tolist() if len(wrong) else "only in the sign of a zero"
        raise SystemExit(f"{what}: differs from the oracle, first at [query, place] {place}")


def turned(rows: Float32) -> bool:
    """Whether the index is built with turned heads too: up to 1,024 dimensions it can be."""
    slow = os.environ["GNOMON_LEVEL"] == "scalar" and rows.size > 10_000_000
    return rows.shape[1] <= 1024 and not slow


def compare(rows: Float32, queries: Float32, truth: Any) -> int:
    """gnomon against the oracle on this process's level; how many searches were compared."""
    compared = 0
    for metric in METRICS:
        index = gnomon.DenseIndex.build(rows, metric=metric)
        ids, scores = truth[metric]
        for k in KS:
            for screen in SCREENS:
                for threads in (1, 2):
                    what = f"{metric}, k={k}, screen={screen}, threads={threads}"
                    found = index.search(queries, k, screen=screen, threads=threads)
                    same(found, ids[:, :k], scores[:, :k], what)
                    compared += 1
            for q in range(0, len(queries), 10):
                found = index.search(queries[q], k)
                same(found, ids[q, :k], scores[q, :k], f"{metric}, k={k}, query {q} alone")
                compared += 1
            halves = [index.search(part, k) for part in np.array_split(queries, 7)]
            for part, wanted in zip(
                halves, np.array_split(np.arange(len(queries)), 7), strict=True
            ):
                same(part, ids[wanted, :k], scores[wanted, :k], f"{metric}, k={k}, seven batches")
                compared += 1
        del index
        if not turned(rows):
            continue
        index = gnomon.DenseIndex.build(rows, metric=metric, screen="head")
        for k in KS:
            found = index.search(queries, k, screen="head")
            same(found, ids[:, :k], scores[:, :k], f"{metric}, k={k}, screen=head")
            compared += 1
        del index
    return compared


def child(folder: Path) -> None:
    """One level: the data are those that the parent wrote."""
    rows = np.load(folder / "rows.npy", mmap_mode="r")
    queries = np.load(folder / "queries.npy")
    with np.load(folder / "truth.npz") as held:
        truth = {metric: (held[f"{metric}.ids"], held[f"{metric}.scores"]) for metric in METRICS}
    if gnomon.levels()[-1] != "scalar" and os.environ["GNOMON_LEVEL"] == "scalar":
        queries = queries[::10]
        truth = {metric: (ids[::10], scores[::10]) for metric, (ids, scores) in truth.items()}
    began = time.perf_counter()
    compared = compare(rows, queries, truth)
    seconds = time.perf_counter() - began
    screens = [*SCREENS, *(["head"] if turned(rows) else [])]
    found = {"compared": compared, "queries": len(queries), "s": seconds, "screens": screens}
    print(json.dumps(found))


def run_shape(
    base: Float32, real: Float32, n: int, dim: int, n_queries: int, levels: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """One data set: oracle once, then every level in a process of its own, a figure each."""
    rows = side_by_side(base, n, dim, 1)
    rng = np.random.default_rng(9)
    parts = [real[rng.permutation(len(real))[:n_queries]] for _ in range(dim // base.shape[1])]
    queries = np.ascontiguousarray(np.concatenate(parts, axis=1))
    queries[-1] = rows[n // 2]  # its own row, and a tie if that is repeated
    began = time.perf_counter()
    truth = oracle(rows, queries, max(KS))
    seconds = time.perf_counter() - began
    checked = sum(by_reference(rows, queries, *truth[metric], metric, 10) for metric in METRICS)
    ties = sum(int((s[:, 1:] == s[:, :-1]).sum()) for _, s in truth.values())
    with tempfile.TemporaryDirectory(prefix="gnomon-oracle-") as name:
        folder = Path(name)
        np.save(folder / "rows.npy", rows)
        np.save(folder / "queries.npy", queries)
        named = {f"{m}.ids": i for m, (i, _) in truth.items()}
        named |= {f"{m}.scores": s for m, (_, s) in truth.items()}
        np.savez(folder / "truth.npz", **named)
        del rows
        for level in levels:
            done = subprocess.run(
                [sys.executable, __file__, "--child", name],
                env={**os.environ, "GNOMON_LEVEL": level, "GNOMON_THREADS": "2"},
                stdout=subprocess.PIPE,
                text=True,
            )
            if done.returncode:
                raise SystemExit(f"{n:,} x {dim}, {level}: see above")
            found = json.loads(done.stdout)
            what = f"{n:,} x {dim}, {found['queries']} queries, {level}: equal to the oracle"
            figure = {
                "what": what,
                "value": found["compared"],
                "unit": "searches, all equal in ids, order and bits",
                "k": list(KS),
                "metrics": list(METRICS),
                "screens": found["screens"],
                "ties_in_the_answers": ties,
                "scores_by_the_pure_python_reference": checked,
                "oracle_s": round(seconds, 1),
                "searches_s": round(found["s"], 1),
            }
            print(json.dumps(figure), flush=True)
            yield figure


def write_record(path: Path, figures: Sequence[Any]) -> None:
    """The figures beside those of earlier runs; a figure takes the place of its older self."""
    new = {figure["what"] for figure in figures}
    held = json.loads(path.read_text())["rows"] if path.exists() else []
    kept = [figure for figure in held if figure["what"] not in new]
    where = {**machine(), "level": "as said", "threads": "1 and 2"}
    record = {"benchmark": "oracle_dense", "machine": where, "rows": [*kept, *figures]}
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="1000000x384,200000x768,100000x1536")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--vectors", type=Path, default=SHARED)
    parser.add_argument("--levels", help="such as avx2,avx512; default: all of this CPU")
    parser.add_argument("--record", type=Path, help="add what was found, and where, to this JSON")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    base, real = real_vectors(options.vectors)
    figures: list[Any] = []
    for shape in options.shapes.split(","):
        n, dim = map(int, shape.split("x"))
        levels = options.levels.split(",") if options.levels else gnomon.levels()
        for found in run_shape(base, real, n, dim, options.queries, levels):
            figures.append(found)
            if options.record:
                write_record(options.record, figures)


if __name__ == "__main__":
    main()
