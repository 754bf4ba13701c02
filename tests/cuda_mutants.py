"""Runs every kernel and driver with one barrier or wait left out after the other; see
test_cuda_mutations.py. A program of its own: without a barrier a kernel may write anywhere, so each
mutant runs in a fork that may crash.
"""

from __future__ import annotations

import json
import math
import os
import re
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import emulated
import gnomon
import numpy as np
from gnomon import _core

SYNC = re.compile(
    r"\b(__syncthreads|__syncwarp|copy_async_wait<[^>]*>|wgmma_wait|cudaStreamWaitEvent"
    r"|cudaStreamSynchronize)\("
)
ELSEWHERE = {"tensor.cuh", "tensor90.cuh", "memory.hpp"}  # definitions, not uses
SCHEDULES = (0, 1, 2, 3, 4, 5)
SLOWER = 4  # times as long as with all barriers: then a run goes on for ever


def sites() -> list[tuple[str, int, str]]:
    """File, line and text of each barrier and wait."""
    found = []
    for path in sorted(emulated.CUDA.iterdir()):
        if path.suffix not in (".cuh", ".cpp", ".hpp") or path.name in ELSEWHERE:
            continue
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if SYNC.search(line.split("//")[0]):
                found.append((path.name, number, line.strip()))
    return found


def dense(device: emulated.Emulator) -> list[bytes]:
    rng = np.random.default_rng(0)
    rows = rng.integers(-3, 4, (260, 520)).astype(np.float32)  # five chunks of int8; ties
    answers = []
    for how in ("int8", "bf16"):
        corpus = device.module.DenseCorpus(rows, "cosine", format=how)
        for family, n in (("mma", 2), ("mma", 70), ("wgmma", 70)):
            found, scores, *_ = corpus.search(rows[:n], 5, family=family, capacity=33)
            answers += [found.tobytes(), scores.tobytes()]
    return answers


def topk(device: emulated.Emulator) -> list[bytes]:
    rng = np.random.default_rng(4)
    few = rng.integers(0, 2, (900, 2)).astype(np.float32)
    answers = []
    for k in (3, 300):
        found, scores, *_ = device.module.DenseCorpus(few, "ip").search(few[:4], k)
        answers += [found.tobytes(), scores.tobytes()]
    return answers


def streamed(device: emulated.Emulator) -> list[bytes]:
    rows = np.random.default_rng(1).standard_normal((1500, 24)).astype(np.float32)
    corpus = device.module.DenseCorpus(rows, "ip", resident_bytes=1)
    found, scores, *_ = corpus.search(rows[:2], 5, workspace_bytes=150_000)
    return [found.tobytes(), scores.tobytes()]


def bm25(device: emulated.Emulator) -> list[bytes]:
    rng = np.random.default_rng(2)
    documents = [rng.integers(0, 9, size).tolist() for size in rng.integers(0, 12, 1500)]
    scorer = gnomon.BM25Index.build(documents)._view.searcher.scorer()
    corpus = device.module.Bm25Corpus(
        _core.bm25_device_segments(scorer), _core.bm25_device_formula(scorer), 0, 700
    )
    plan = _core.bm25_device_plan(scorer, [[0, 1, 2, 3, 4], [5, 6], [0, 0, 7]])
    answers = []
    for k in (1, 10):
        ends, slots, scores, did = corpus.search(plan, k, _core.bm25_device_live(scorer))
        # What is settled in vain is seen too: a barrier may guard the threshold alone.
        answers += [ends.tobytes(), slots.tobytes(), scores.tobytes(), repr(did).encode()]
    return answers


def bm25_streamed(device: emulated.Emulator) -> list[bytes]:
    rng = np.random.default_rng(5)
    index = gnomon.BM25Index.build([rng.integers(0, 9, 6).tolist() for _ in range(300)])
    for _ in range(3):
        index.add([rng.integers(0, 9, 6).tolist() for _ in range(300)])
    scorer = index._view.searcher.scorer()
    segments = _core.bm25_device_segments(scorer)
    corpus = device.module.Bm25Corpus(segments, _core.bm25_device_formula(scorer), 0, 128, 1)
    plan = _core.bm25_device_plan(scorer, [[0, 1, 2], [5, 6]])
    *found, _ = corpus.search(plan, 5, _core.bm25_device_live(scorer))
    return [one.tobytes() for one in found]


def mmr(device: emulated.Emulator) -> list[bytes]:
    rows = np.random.default_rng(3).standard_normal((700, 17)).astype(np.float32)
    answers = []
    for penalty in ("all", "last"):
        options = {"penalty": penalty, "return_scores": True, "device": "emulated"}
        found = gnomon.mmr_vectors(rows[:2], rows, 9, selected=[[3, 4], []], **options)
        answers.append(repr(found).encode())
    return answers


Run = Callable[[emulated.Emulator], list[bytes]]
RUNS: dict[str, tuple[Run, ...]] = {
    "dense.cpp": (streamed,),
    "dense_screen.cuh": (dense,),
    "dense_screen90.cuh": (dense,),
    "topk.cuh": (topk,),
    "bm25.cuh": (bm25,),
    "bm25_stream.cpp": (bm25_streamed,),
    "mmr.cuh": (mmr,),
}


def mutant(
    device: emulated.Emulator, site: Any, wanted: dict[str, list[bytes]], seconds: dict[str, float]
) -> int:
    """0: not noticed, 1: a wrong answer or an error, 2: no run comes by."""
    reached = 0
    for schedule in SCHEDULES:
        for run in RUNS[site[0]]:
            device.schedule(schedule)
            device.skip(site[0], site[1])
            limit = math.ceil(time.process_time() + SLOWER * seconds[run.__name__] + 1)
            resource.setrlimit(
                resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1])
            )
            try:
                answer: Any = run(device)
            except Exception as error:
                answer = str(error)
            reached += device.skipped()
            device.skip()
            if answer != wanted[run.__name__]:
                return 1
    return 0 if reached else 2


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    device = emulated.load()
    wanted, seconds = {}, {}
    for run in dict.fromkeys(run for group in RUNS.values() for run in group):
        start = time.process_time()
        wanted[run.__name__] = run(device)
        seconds[run.__name__] = time.process_time() - start
    outcomes = []
    for site in sites():
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os._exit(mutant(device, site, wanted, seconds))
        _, status = os.waitpid(child, 0)
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1  # a crash is noticed
        outcomes.append([*site, ["unnoticed", "noticed", "unreached"][code]])
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()
