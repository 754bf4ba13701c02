"""Dense search on the emulated device: rows, order and bits are the CPU's."""

from __future__ import annotations

import gnomon
import numpy as np
import pytest
import strategies
from emulated import Emulator, examples
from hypothesis import given
from hypothesis import strategies as st

FAMILIES = ("mma", "wgmma")
METRICS = ("cosine", "ip", "l2")
FIXTURE = examples(60)


def expected(rows: np.ndarray, queries: np.ndarray, metric: str, k: int) -> tuple[bytes, bytes]:
    hits = gnomon.DenseIndex.build(rows, metric=metric, screen="none").search(queries, k)
    return np.asarray(hits.ids, np.int64).tobytes(), hits.scores.tobytes()


def answer(corpus: object, queries: np.ndarray, k: int, **options: object) -> tuple[bytes, bytes]:
    rows, scores, counts, _ = corpus.search(queries, k, **options)
    assert (counts == rows.shape[1]).all()
    return rows.tobytes(), scores.tobytes()


@FIXTURE
@given(
    case=strategies.dense_cases(),
    metric=st.sampled_from(METRICS),
    how=st.sampled_from(("int8", "bf16", "auto")),
    family=st.sampled_from(FAMILIES),
    capacity=st.sampled_from((0, 1, 7, 40)),
    schedule=st.integers(0, 5),
)
def test_any_rows(
    device: Emulator,
    case: strategies.DenseCase,
    metric: str,
    how: str,
    family: str,
    capacity: int,
    schedule: int,
) -> None:
    """Subnormals, all of float32's range, zeros, copies and neighbours one ulp apart included."""
    if len(case.rows) == 0:
        return
    device.schedule(schedule)
    corpus = device.module.DenseCorpus(case.rows, metric, format=how)
    k = min(case.k, len(case.rows))
    wanted = expected(case.rows, case.queries, metric, case.k)
    assert answer(corpus, case.queries, k, family=family, capacity=capacity) == wanted


SHAPES = [  # rows, dims, queries, k, capacity
    (1, 1, 1, 1, 0),
    (127, 3, 2, 5, 16),
    (129, 128, 17, 1, 64),
    (300, 100, 3, 300, 0),
    (900, 300, 9, 7, 100),
    (2500, 17, 4, 2048, 0),
    (400, 1536, 2, 10, 50),
    (500, 65, 130, 3, 64),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("how", ["int8", "bf16"])
def test_shapes(device: Emulator, how: str, family: str, shape: tuple[int, ...]) -> None:
    n, dim, n_queries, k, capacity = shape
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n, dim)).astype(np.float32)
    queries = rng.standard_normal((n_queries, dim)).astype(np.float32)
    rows[n // 2] = rows[0]
    queries[0] = rows[0]
    metric = METRICS[(n + k) % 3]
    corpus = device.module.DenseCorpus(rows, metric, format=how)
    wanted = expected(rows, queries, metric, k)
    for schedule in (0, 1, 7):
        device.schedule(schedule)
        assert answer(corpus, queries, k, family=family, capacity=capacity) == wanted


def adversarial() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    base = rng.standard_normal((1, 24))
    steps = np.linspace(-1.0, 1.0, 600)[:, None]
    return {
        "ascending": np.hstack([steps, np.sqrt(1.0 - steps**2) + 0.0 * base[:, :1]]),
        "all alike": np.repeat(base, 600, axis=0),
        "zeros": np.zeros((300, 5)),
        "few values": rng.integers(-1, 2, (600, 6)),
        "outliers": np.where(rng.random((600, 40)) < 0.02, 1e4, 1.0)
        * rng.standard_normal((600, 40)),
        "nearly one line": base * 50.0 + rng.standard_normal((600, 24)) * 1e-3,
    }


@pytest.mark.parametrize("name", sorted(adversarial()))
@pytest.mark.parametrize("planes", [1, 2])
def test_adversarial_rows(device: Emulator, name: str, planes: int) -> None:
    rows = adversarial()[name].astype(np.float32)
    queries = np.vstack([rows[:2], rows[-1:], np.ones((1, rows.shape[1]), np.float32)])
    for metric in METRICS:
        wanted = expected(rows, queries, metric, 9)
        for how in ("int8", "bf16"):
            corpus = device.module.DenseCorpus(rows, metric, format=how)
            assert answer(corpus, queries, 9, planes=planes, capacity=64) == wanted


def test_the_screen_excludes_rows(device: Emulator) -> None:
    """Otherwise all the rest would pass without one."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 64)).astype(np.float32)
    for how, most in (("int8", 500), ("bf16", 250)):
        corpus = device.module.DenseCorpus(rows, "cosine", format=how)
        *_, did = corpus.search(rows[:4], 10, capacity=128)
        assert did["settled"] < 4 * most
    *_, did = device.module.DenseCorpus(np.sort(rows[:600], axis=0), "ip", format="bf16").search(
        np.ones((1, 64), np.float32), 10, capacity=64
    )
    assert did["repeated"] > 0  # rows that ascend: waves did not fit and were done again


def test_the_format_follows_the_rows(device: Emulator) -> None:
    even = np.random.default_rng(0).standard_normal((130, 768)).astype(np.float32)
    assert device.module.DenseCorpus(even, "ip").format == "int8"
    even[:, 0] = 30.0  # one heavy dimension: int8's steps are coarse for all others
    assert device.module.DenseCorpus(even, "ip").format == "bf16"


@pytest.mark.parametrize("how", ["int8", "bf16"])
def test_filters_and_least_scores(device: Emulator, how: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((700, 33)).astype(np.float32)
    index = gnomon.DenseIndex.build(rows)
    corpus = device.module.DenseCorpus(rows, "cosine", format=how)
    mask = rng.random(700) < 0.3
    words = np.zeros((700 + 63) // 64, np.uint64)
    bits = np.packbits(mask, bitorder="little")
    words.view(np.uint8)[: bits.size] = bits
    wanted = index.search(rows[0], None, min_score=0.1, filter=mask)
    found, scores, counts, _ = corpus.search(rows[:1], 700, 0.1, words, capacity=32)
    n = counts[0]
    assert 0 < n == len(wanted.ids) < mask.sum()
    assert found[0, :n].tobytes() == np.asarray(wanted.ids, np.int64).tobytes()
    assert scores[0, :n].tobytes() == wanted.scores.tobytes()
    assert (found[0, n:] == -1).all()
    assert (scores[0, n:] == -np.inf).all()


@pytest.mark.parametrize("metric", METRICS)
def test_streamed_rows(device: Emulator, metric: str) -> None:
    """Rows that do not fit: two buffers take turns, in whatever order streams run."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((1500, 40)).astype(np.float32)
    wanted = expected(rows, rows[:3], metric, 12)
    for schedule in range(6):
        device.schedule(schedule)
        corpus = device.module.DenseCorpus(rows, metric, resident_bytes=1, workspace_bytes=300_000)
        assert not corpus.resident
        found, scores, _, did = corpus.search(rows[:3], 12, workspace_bytes=300_000)
        assert did["chunks"] > 3
        assert (found.tobytes(), scores.tobytes()) == wanted


def test_memory_stays_within_the_bound(device: Emulator) -> None:
    rows = np.random.default_rng(2).standard_normal((900, 24)).astype(np.float32)
    corpus = device.module.DenseCorpus(rows, "cosine")
    wanted = expected(rows, rows[:80], "cosine", 20)
    for bound in (60_000, 200_000, 4_000_000):
        device.memory(1 << 40)
        before = device.used()
        found, scores, _, did = corpus.search(rows[:80], 20, workspace_bytes=bound)
        assert (found.tobytes(), scores.tobytes()) == wanted
        assert did["workspace_bytes"] <= bound
        assert device.used_most() - before == did["workspace_bytes"]
        assert device.used() == before


def test_too_little_memory_is_said_in_bytes(device: Emulator) -> None:
    rows = np.random.default_rng(2).standard_normal((900, 24)).astype(np.float32)
    corpus = device.module.DenseCorpus(rows, "cosine")
    with pytest.raises(gnomon.DeviceError, match=r"one query with k = 20 over 900 rows needs \d+"):
        corpus.search(rows[:3], 20, workspace_bytes=1000)
    used = device.used()
    device.memory(used + 1000)
    with pytest.raises(gnomon.DeviceError, match=r"needs \d+ bytes and 1000 are free"):
        corpus.search(rows[:3], 20)
    assert device.used() == used
    device.memory(1 << 40)
    assert answer(corpus, rows[:3], 20) == expected(rows, rows[:3], "cosine", 20)


def test_nothing_to_find(device: Emulator) -> None:
    empty = gnomon.DenseIndex.build(np.zeros((0, 3), np.float32))
    assert empty.search([1.0, 0.0, 0.0], 5, device="emulated").ids.tolist() == []
    some = gnomon.DenseIndex.build(np.eye(3, dtype=np.float32))
    assert some.search(np.eye(3), 0, device="emulated").scores.shape == (3, 0)
    assert some.search(np.zeros((0, 3)), 2, device="emulated").scores.shape == (0, 2)
    assert some.search([1.0, 0.0, 0.0], 2, min_score=2.0, device="emulated").ids.tolist() == []
    assert gnomon.cosine_topk([1.0], np.zeros((0, 1)), 3, device="emulated").values.shape == (0,)


def test_bad_rows_are_named(device: Emulator) -> None:
    rows = np.ones((200, 4), np.float32)
    rows[150, 2] = np.nan
    rows[160] = np.inf
    with pytest.raises(ValueError, match="vectors: row 150 holds a NaN"):
        device.module.DenseCorpus(rows, "ip")
    corpus = device.module.DenseCorpus(rows[:100], "cosine")
    with pytest.raises(ValueError, match="queries: row 1 holds a NaN"):
        corpus.search(rows[149:152], 1)
    with pytest.raises(ValueError, match="queries: row 0 is a zero vector"):
        corpus.search(np.zeros((1, 4), np.float32), 1, on_zero="error")
    rows[5] = 0.0
    with pytest.raises(ValueError, match="vectors: row 5 is a zero vector"):
        device.module.DenseCorpus(rows[:100], "cosine", on_zero="error")


# --- the Python face ------------------------------------------------------------------------------


def test_an_edited_index(device: Emulator) -> None:
    rng = np.random.default_rng(4)
    index = gnomon.DenseIndex.build(
        rng.standard_normal((300, 12)), ids=[f"r{i}" for i in range(300)]
    )
    index.add(rng.standard_normal((40, 12)), ids=[f"s{i}" for i in range(40)])
    index.remove([f"r{i}" for i in range(0, 100, 3)])
    assert index.segments > 1
    queries = rng.standard_normal((5, 12))
    for options in ({}, {"filter": ["s1", "r4", "s30"]}, {"min_score": 0.2}):
        ours = index.search(queries, 8, device="emulated", **options)
        theirs = index.search(queries, 8, **options)
        for got, wanted in zip(
            *(x if isinstance(x, list) else [x] for x in (ours, theirs)), strict=True
        ):
            assert got.ids == wanted.ids
            assert got.scores.tobytes() == wanted.scores.tobytes()
    stats: dict[str, float] = {}
    one = index.search(queries[0], 3, device="emulated", stats=stats)
    assert one.ids == index.search(queries[0], 3).ids
    assert stats["waves"] >= 2
    assert "screened" not in stats  # of the CPU, which only looked at the words


def test_cosine_topk(device: Emulator) -> None:
    rng = np.random.default_rng(6)
    rows, query = rng.standard_normal((50, 7)), rng.standard_normal(7)
    wanted = gnomon.cosine_topk(query, rows, 4)
    for q, r in ((query, rows), (query.tolist(), rows.tolist())):
        found = gnomon.cosine_topk(q, r, 4, device="emulated", max_workspace_bytes=100_000)
        assert found.values.tobytes() == wanted.values.tobytes()
        assert found.indices.tolist() == wanted.indices.tolist()
    assert gnomon.cosine_topk(query, rows, 4, device="emulated", dtype="float32").values.dtype == (
        np.float32
    )
    with pytest.raises(ValueError, match="incompatible embedding shapes"):
        gnomon.cosine_topk(query[:3], rows, 4, device="emulated")
    with pytest.raises(ValueError, match="documents: row 1 is a zero vector"):
        gnomon.cosine_topk(
            query, np.vstack([rows[:1], rows[:1] * 0]), 1, on_zero="error", device="emulated"
        )


class OnDevice:
    """What another library would hand over: memory of the device, by DLPack and nothing else."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self.shape = array.shape

    def __getitem__(self, place: object) -> OnDevice:
        return OnDevice(self.array[place])

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **kwargs: object) -> object:
        return self.array.__dlpack__(**kwargs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_arrays_on_the_device(device: Emulator, dtype: type) -> None:
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((60, 9)).astype(dtype)
    rows[3, 3] = 6e-8  # subnormal as float16
    wanted = gnomon.cosine_topk(rows[:2], rows, 5)
    found = gnomon.cosine_topk(OnDevice(rows[:2]), OnDevice(rows), 5, device="emulated")
    assert np.from_dlpack(found.values).tobytes() == wanted.values.tobytes()
    assert np.from_dlpack(found.indices).tolist() == wanted.indices.tolist()
    assert found.values.to_host().tobytes() == wanted.values.tobytes()
    index = gnomon.DenseIndex.build(rows)
    hits = index.search(OnDevice(rows[:2]), 5, device="emulated")
    assert hits.scores.tobytes() == wanted.values.tobytes()
    picks = gnomon.mmr_vectors(OnDevice(rows[:2]), OnDevice(rows), 4, device="emulated")
    assert picks == gnomon.mmr_vectors(rows[:2], rows, 4)
    with pytest.raises(ValueError, match="gaps between its elements"):
        device.module.DeviceArray.from_dlpack(rows.T.__dlpack__(), "rows")
    with pytest.raises(ValueError, match="must hold float16"):
        device.module.DeviceArray.from_dlpack(np.zeros(3, np.int32).__dlpack__(), "rows")


def test_shards_make_the_whole(device: Emulator) -> None:
    rng = np.random.default_rng(9)
    rows = rng.integers(-1, 2, (90, 4)).astype(np.float32)  # ties across shards
    index = gnomon.DenseIndex.build(rows, metric="ip", ids=[f"x{i}" for i in range(90)])
    whole = index.search(rows[:6], 11)
    for n in (1, 2, 7):
        parts = [index.shard(i, n).search(rows[:6], 11, device="emulated") for i in range(n)]
        merged = gnomon.merge_topk(parts, 11)
        assert merged.ids == whole.ids
        assert merged.scores.tobytes() == whole.scores.tobytes()
    with pytest.raises(ValueError, match="i must be from 0"):
        index.shard(2, 2)
    with pytest.raises(ValueError, match="no hits"):
        gnomon.merge_topk([], 1)
