"""MMR on the emulated device: the CPU's picks and scores."""

from __future__ import annotations

import gnomon
import numpy as np
import pytest
import strategies
from emulated import Emulator, examples
from hypothesis import given
from hypothesis import strategies as st

FIXTURE = examples(50)


@FIXTURE
@given(
    case=strategies.dense_cases(),
    diversity=st.sampled_from((0.0, 0.3, 0.5, 1.0)),
    penalty=st.sampled_from(("all", "last")),
    seed=st.integers(0, 1000),
    schedule=st.integers(0, 4),
)
def test_any_vectors(
    device: Emulator,
    case: strategies.DenseCase,
    diversity: float,
    penalty: str,
    seed: int,
    schedule: int,
) -> None:
    if len(case.rows) == 0:
        return
    device.schedule(schedule)
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(len(case.rows))[: seed % 3].tolist() for _ in case.queries]
    options = {"selected": chosen, "penalty": penalty, "return_scores": True}
    limit = min(case.k, 12)
    wanted = gnomon.mmr_vectors(case.queries, case.rows, limit, diversity, **options)
    found = gnomon.mmr_vectors(
        case.queries, case.rows, limit, diversity, device="emulated", **options
    )
    assert found == wanted
    assert repr(found) == repr(wanted)  # == cannot tell 0.0 from -0.0


@pytest.mark.parametrize("n", [1, 31, 64, 65, 600])
@pytest.mark.parametrize("dim", [1, 40, 129])
def test_shapes(device: Emulator, n: int, dim: int) -> None:
    rng = np.random.default_rng(n + dim)
    rows = rng.integers(-2, 3, (n, dim)).astype(np.float32)  # ties
    queries = rng.standard_normal((3, dim)).astype(np.float32)
    wanted = gnomon.mmr_vectors(queries, rows, 9, return_scores=True)
    for schedule in (0, 1, 3):
        device.schedule(schedule)
        found = gnomon.mmr_vectors(queries, rows, 9, return_scores=True, device="emulated")
        assert found == wanted


def test_given_relevance_in_parts(device: Emulator) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((80, 5)).astype(np.float32)
    relevance = rng.integers(0, 3, (7, 80)) / 2.0
    wanted = gnomon.mmr_vectors(None, rows, 80, relevance=relevance)
    before = device.used()
    device.memory(1 << 40)
    found = gnomon.mmr_vectors(
        None, rows, 80, relevance=relevance, device="emulated", max_workspace_bytes=10_000
    )
    assert found == wanted
    assert device.used_most() - before < 10_000 + 80 * 5 * 4 + 2048
    single = gnomon.mmr_vectors(rows[0], rows, 4, device="emulated")
    assert single == gnomon.mmr_vectors(rows[0], rows, 4)
    assert gnomon.mmr_vectors(rows[0], rows, 0, device="emulated") == []


def test_errors_are_those_of_the_cpu(device: Emulator) -> None:
    rows = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match="diversity must lie between 0 and 1"):
        gnomon.mmr_vectors(rows[0], rows, 2, 1.5, device="emulated")
    with pytest.raises(ValueError, match="penalty must be"):
        gnomon.mmr_vectors(rows[0], rows, 2, penalty="some", device="emulated")
    with pytest.raises(ValueError, match="selected names row 7 of 3"):
        gnomon.mmr_vectors(rows[0], rows, 2, selected=[7], device="emulated")
    with pytest.raises(ValueError, match="names row 1 twice"):
        gnomon.mmr_vectors(rows[0], rows, 2, selected=[1, 1], device="emulated")
    with pytest.raises(ValueError, match="query must be"):
        gnomon.mmr_vectors([1.0], rows, 2, device="emulated")
    bad = [[1.0], [float("nan")]]
    with pytest.raises(ValueError, match="vectors: row 1 holds a NaN"):
        gnomon.mmr_vectors(None, bad, 2, relevance=[1, 1], device="emulated")
    with pytest.raises(gnomon.DeviceError, match="over 3 candidates needs"):
        gnomon.mmr_vectors(rows[0], rows, 2, device="emulated", max_workspace_bytes=10)
