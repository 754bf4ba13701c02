"""What tests/device.sh runs: answers against the CPU's bits, and timings beside torch.

`answers`, `small` and `timings` write JSON into a folder; `table` reads it. Timings are medians of
rounds that take turns with their rival, after a first one that is not counted; inputs change from
round to round, and a wrong answer has no time.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gnomon
import numpy as np

ROUNDS = 5
SECONDS = float(os.environ.get("DEVICE_SECONDS", "200"))  # for timings


def module_of(device: str) -> Any:
    if device == "emulated":
        import emulated

        return emulated.load().module
    from gnomon import _cuda

    return _cuda


def dense_cases(small: bool) -> list[tuple[int, int, int, int]]:
    cases = [
        (1, 1, 1, 1),
        (129, 3, 2, 5),
        (700, 128, 17, 20),
        (900, 300, 9, 7),
        (2500, 17, 4, 2048),
    ]
    cases += [] if small else [(500, 65, 130, 3), (400, 1536, 2, 10), (5000, 384, 70, 100)]
    return cases[:3] if small else cases


def rows_of(kind: str, n: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(n + dim)
    if kind == "ties":
        return rng.integers(-1, 2, (n, dim)).astype(np.float32)
    if kind == "ascending":
        return np.sort(rng.standard_normal((n, dim)), axis=0).astype(np.float32)
    rows = rng.standard_normal((n, dim)).astype(np.float32)
    rows[n // 2] = rows[0]
    if kind == "wide":
        rows *= (10.0 ** rng.integers(-12, 12, (n, 1))).astype(np.float32)
    return rows


def dense_answers(module: Any, small: bool) -> list[dict[str, Any]]:
    done = []
    families = ("mma",) if small else ("mma", "wgmma")
    for n, dim, n_queries, k in dense_cases(small):
        for kind in ("normal",) if small else ("normal", "ties", "ascending", "wide"):
            rows = rows_of(kind, n, dim)
            queries = np.resize(rows, (n_queries, dim)) + np.float32(0.125)
            for metric in ("cosine",) if small else ("cosine", "ip", "l2"):
                index = gnomon.DenseIndex.build(rows, metric=metric, screen="none")
                wanted = index.search(queries, k)
                for how in ("int8", "bf16"):
                    corpus = module.DenseCorpus(rows, metric, format=how)
                    for family in families:
                        answers = []
                        for _ in range(1 if small else 3):  # an answer that moves is a race
                            found, scores, *_ = corpus.search(
                                queries, k, family=family, capacity=256
                            )
                            same = np.array_equal(found, wanted.ids)
                            answers.append(same and scores.tobytes() == wanted.scores.tobytes())
                        name = f"dense {metric} {how} {family} {kind} {n}x{dim} q{n_queries} k{k}"
                        done.append({"case": name, "right": all(answers)})
    rows = rows_of("normal", 3000, 64)
    corpus = module.DenseCorpus(rows, "cosine", resident_bytes=1)
    found, scores, *_ = corpus.search(rows[:5], 10, workspace_bytes=1 << 20)
    wanted = gnomon.DenseIndex.build(rows).search(rows[:5], 10)
    right = np.array_equal(found, wanted.ids) and scores.tobytes() == wanted.scores.tobytes()
    return [*done, {"case": "dense streamed", "right": right}]


def other_answers(device: str, small: bool) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    documents = [rng.zipf(1.3, size).clip(0, 200).tolist() for size in rng.integers(0, 40, 2000)]
    index = gnomon.BM25Index.build(documents)
    queries = [rng.zipf(1.3, 4).clip(0, 200).tolist() for _ in range(5 if small else 60)]
    done = []
    for formula in ("default",) if small else ("default", "lucene", "bm25l", "rank_bm25-plus"):
        ours = index.search_many(queries, 10, device=device, formula=formula)
        theirs = index.search_many(queries, 10, formula=formula)
        pairs = zip(ours, theirs, strict=True)
        right = all(
            np.array_equal(a.ids, b.ids) and a.scores.tobytes() == b.scores.tobytes()
            for a, b in pairs
        )
        done.append({"case": f"bm25 {formula}", "right": right})
    rows = rows_of("ties", 300, 40)
    for penalty in ("all", "last"):
        options = {"penalty": penalty, "return_scores": True}
        ours = gnomon.mmr_vectors(rows[:4], rows, 12, device=device, **options)
        right = ours == gnomon.mmr_vectors(rows[:4], rows, 12, **options)
        done.append({"case": f"mmr {penalty}", "right": right})
    return done


def answers(device: str, out: Path, small: bool) -> int:
    module = module_of(device)
    few = small or device == "emulated"  # whose tests are in tests/test_cuda_*.py
    results = dense_answers(module, few) + other_answers(device, few)
    (out / f"{'small' if small else 'answers'}.json").write_text(json.dumps(results), "utf-8")
    return int(not all(one["right"] for one in results))


# --- timings, on a GPU with torch -----------------------------------------------------------------


def seconds_of(run: Callable[[int], Any], until: float = float("inf")) -> float:
    import torch

    times: list[float] = []
    for round_number in range(ROUNDS + 1):
        if times and time.perf_counter() > until:
            break
        torch.cuda.synchronize()
        start = time.perf_counter()
        run(round_number)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:] or times)


def ceilings() -> dict[str, float]:
    import torch

    big = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    other = torch.empty_like(big)
    copied = 2 * big.numel() / seconds_of(lambda _: other.copy_(big))
    half = torch.randn(8192, 8192, device="cuda").bfloat16()
    bytes_ = torch.randint(-127, 127, (8192, 8192), device="cuda", dtype=torch.int8)
    operations = 2 * 8192**3
    return {
        "copy_bytes": copied,
        "bf16_operations": operations / seconds_of(lambda _: half @ half),
        "int8_operations": operations / seconds_of(lambda _: torch._int_mm(bytes_, bytes_.t())),
    }


def time_dense(
    module: Any, top: dict[str, float], report: list[dict[str, Any]], until: float
) -> dict[str, str]:
    """Adds to the report; returns which rivals were not timed, and why."""
    import device_rivals
    import torch

    n, dim = 4_000_000, 768
    torch.manual_seed(0)
    rows = torch.nn.functional.normalize(torch.randn(n, dim, device="cuda"))
    array = module.DeviceArray.from_dlpack(rows.__dlpack__(stream=1), "rows")
    corpus = module.DenseCorpus(array, "ip", format="int8")
    rivals, absent = device_rivals.present(rows)
    for n_queries in (1, 32, 1024, 8192):
        for k in (10, 100):
            if time.perf_counter() > until:
                return absent
            batches = [
                torch.nn.functional.normalize(torch.randn(n_queries, dim, device="cuda"))
                for _ in range(ROUNDS + 1)
            ]
            given = [module.DeviceArray.from_dlpack(b.__dlpack__(stream=1), "q") for b in batches]
            did: dict[str, Any] = {}

            def ours(i: int, given: Any = given, k: int = k, did: Any = did) -> None:
                did.update(corpus.search(given[i], k, stay=True, workspace_bytes=4 << 30)[3])

            mine = seconds_of(ours)
            case: dict[str, Any] = {
                "case": f"dense 4M x 768, B={n_queries}, k={k}",
                "seconds": mine,
                "percent_of_copy": 100 * n * dim / mine / top["copy_bytes"],
                "percent_of_int8": 200 * n * dim * n_queries / mine / top["int8_operations"],
                "did": did,
            }
            report.append(case)
            for name, search in rivals.items():
                try:
                    run = lambda i, s=search, b=batches, k=k: s(b[i], k)  # noqa: E731
                    case[f"{name}_seconds"] = seconds_of(run, until)
                except Exception as error:
                    absent[f"{name} at {case['case']}"] = f"{type(error).__name__}: {error}"[:200]
    return absent


def words(rng: np.random.Generator, n: int, vocabulary: int = 200_000) -> np.ndarray:
    """Term ids, id i as frequent as 1 / (i + 1)."""
    return (np.exp(rng.random(n, np.float32) * np.float32(np.log(vocabulary))) - 1).astype(np.int64)


def time_bm25(report: list[dict[str, Any]], until: float) -> None:
    rng = np.random.default_rng(0)
    n = 8_800_000 if until - time.perf_counter() > 120 else 2_000_000
    lengths = rng.integers(20, 60, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    index = gnomon.BM25Index.build((words(rng, int(offsets[-1])), offsets))
    queries = words(rng, 60_000).reshape(-1, 6).tolist()
    for size in (1, 1000, 10_000):

        def run(_: int, size: int = size) -> None:
            index.search_many(queries[:size], 10, device="cuda", max_workspace_bytes=4 << 30)

        mine = seconds_of(run, until)
        report.append(
            {
                "case": f"bm25 {n} documents, B={size}, k=10",
                "seconds": mine,
                "per_second": size / mine,
            }
        )


def timings(device: str, out: Path) -> int:
    until = time.perf_counter() + SECONDS
    dense_until = time.perf_counter() + 0.6 * SECONDS  # the rest is BM25's
    top = ceilings()
    report: list[dict[str, Any]] = []
    absent: dict[str, str] = {}
    try:
        absent = time_dense(module_of(device), top, report, dense_until)
        if time.perf_counter() < until:
            time_bm25(report, until)
    finally:
        (out / "timings.json").write_text(
            json.dumps({"ceilings": top, "cases": report, "absent": absent}), "utf-8"
        )
    return 0


def table(gpu: str, out: Path) -> int:
    print(f"GPU: {gpu}" + ("; emulated half only, no speed was measured" if gpu == "none" else ""))
    for line in (out / "steps.jsonl").read_text("utf-8").splitlines():
        step = json.loads(line)
        outcome = "ok" if step["status"] == 0 else "FAILED"
        print(f"  {step['seconds']:4d} s  {outcome:7s}{step['step']}")
    for name in ("answers", "small"):
        path = out / f"{name}.json"
        if path.exists():
            cases = json.loads(path.read_text("utf-8"))
            wrong = [one["case"] for one in cases if not one["right"]]
            print(f"{name}: {len(cases)} cases, {len(wrong)} wrong", *wrong[:10])
    path = out / "timings.json"
    if path.exists():
        found = json.loads(path.read_text("utf-8"))
        print(*(f"{name} {value:.3g}/s" for name, value in found["ceilings"].items()), sep=", ")
        for one in found["cases"]:
            more = " ".join(f"{k}={v:.3g}" for k, v in one.items() if isinstance(v, float))
            print(f"  {one['case']}: {more}")
        for name, why in found["absent"].items():
            print(f"  not timed: {name}: {why}")
    return 0


def main() -> int:
    what, device, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if what == "table":
        return table(device, folder)
    if what == "timings":
        return timings(device, folder)
    return answers(device, folder, what == "small")


if __name__ == "__main__":
    sys.exit(main())
