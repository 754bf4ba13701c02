"""Memory of the emulated device that runs out: an error with the bytes, no half answer, no leak."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from itertools import count

import gnomon
import numpy as np
import pytest
from emulated import Emulator
from gnomon import _core

Run = Callable[[Emulator], list[bytes]]
ROWS = np.random.default_rng(0).standard_normal((150, 5)).astype(np.float32)


def dense(device: Emulator) -> list[bytes]:
    found, scores, *_ = device.module.DenseCorpus(ROWS, "cosine").search(ROWS[:3], 4)
    return [found.tobytes(), scores.tobytes()]


def streamed(device: Emulator) -> list[bytes]:
    corpus = device.module.DenseCorpus(ROWS, "ip", resident_bytes=1)  # two chunks
    found, scores, *_ = corpus.search(ROWS[:3], 4, workspace_bytes=60_000)
    return [found.tobytes(), scores.tobytes()]


def staying(device: Emulator) -> list[bytes]:
    values, rows, counts, _ = device.module.DenseCorpus(ROWS, "l2").search(ROWS[:3], 4, stay=True)
    return [one.to_host().tobytes() for one in (values, rows, counts)]


def bm25(device: Emulator, resident_bytes: int = 0) -> list[bytes]:
    documents = [[i % 7, i % 3, i % 2] for i in range(200)]
    scorer = gnomon.BM25Index.build(documents)._view.searcher.scorer()
    segments = _core.bm25_device_segments(scorer)
    formula = _core.bm25_device_formula(scorer)
    corpus = device.module.Bm25Corpus(segments, formula, 0, 64, resident_bytes)
    plan = _core.bm25_device_plan(scorer, [[0, 1], [5]])
    *found, _ = corpus.search(plan, 3, _core.bm25_device_live(scorer))
    return [one.tobytes() for one in found]


def bm25_streamed(device: Emulator) -> list[bytes]:
    return bm25(device, 1)


def mmr(device: Emulator) -> list[bytes]:
    found = gnomon.mmr_vectors(ROWS[:2], ROWS[:40], 5, return_scores=True, device="emulated")
    return [repr(found).encode()]


def dlpack(device: Emulator) -> list[bytes]:
    capsule = ROWS.astype(np.float64).__dlpack__()
    return [device.module.DeviceArray.from_dlpack(capsule, "rows").to_host().tobytes()]


@pytest.mark.parametrize("run", [dense, streamed, staying, bm25, bm25_streamed, mmr, dlpack])
def test_each_allocation_may_fail(device: Emulator, run: Run) -> None:
    wanted = run(device)
    gc.collect()
    held = device.held()
    failed = 0
    for call in count(1):
        device.refuse(call)
        try:
            answer = run(device)
        except gnomon.DeviceError as error:
            text = str(error)
            assert re.search(r"needs \d+ bytes|making a stream|making an event", text), text
            assert "emory" in text  # also of a stream: cudaErrorMemoryAllocation
            failed += 1
        else:
            assert answer == wanted  # a corpus that does not fit is streamed
        refused = device.has_refused()
        device.refuse(0)
        gc.collect()
        assert device.held() == held
        if not refused:
            break
    assert failed >= 2
    assert run(device) == wanted
