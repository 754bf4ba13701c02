"""torch tensors in the emulated device's memory, and on a GPU where torch sees one."""

from __future__ import annotations

import gnomon
import numpy as np
import pytest
from emulated import Emulator

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_torch_tensors_on_the_device(device: Emulator) -> None:
    rng = np.random.default_rng(8)
    rows = torch.tensor(rng.standard_normal((70, 6)), dtype=torch.bfloat16)
    wanted = gnomon.cosine_topk(rows[:3], rows, 5)
    found = gnomon.cosine_topk(rows[:3], rows, 5, device="emulated")
    assert torch.equal(found.values, wanted.values)
    assert found.values.dtype == wanted.values.dtype == torch.float32
    assert torch.equal(found.indices, wanted.indices)
    exact = gnomon.cosine_topk(rows[1], rows, 5, device="emulated", dtype="float64")
    assert exact.values.dtype == torch.float64


def test_torch_queries_of_an_index(device: Emulator) -> None:
    rows = torch.tensor(np.random.default_rng(1).standard_normal((90, 12)), dtype=torch.float32)
    index = gnomon.DenseIndex.build(rows)
    wanted = index.search(rows[:4], 6)
    for queries in (rows[:4], rows.half().float()[:4].requires_grad_()):
        found = index.search(queries, 6, device="emulated")
        assert found.scores.tobytes() == index.search(queries.detach(), 6).scores.tobytes()
    assert index.search(rows[0], 6, device="emulated").ids.tolist() == wanted.ids[0].tolist()
    assert gnomon.mmr_vectors(rows[0], rows, 5, device="emulated") == gnomon.mmr_vectors(
        rows[0], rows, 5
    )


def test_torch_on_a_gpu() -> None:
    usable = [one.name for one in gnomon.devices() if one.usable and one.name != "cpu"]
    if not usable or not torch.cuda.is_available():
        pytest.skip("torch and gnomon see no CUDA device")
    rows = torch.randn(500, 33)
    wanted = gnomon.cosine_topk(rows[:7], rows, 9)
    found = gnomon.cosine_topk(rows[:7].cuda(), rows.cuda(), 9, device=usable[0])
    assert found.values.is_cuda
    assert torch.equal(found.values.cpu(), wanted.values)
    assert torch.equal(found.indices.cpu(), wanted.indices)
