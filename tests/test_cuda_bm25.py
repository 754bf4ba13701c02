"""BM25 on the emulated device: documents, order and bits are the CPU's."""

from __future__ import annotations

from typing import Any

import gnomon
import numpy as np
import pytest
import strategies
from emulated import Emulator, examples
from gnomon import _core
from gnomon.bm25_formula import formulas
from gnomon.bm25_query import Phrase
from hypothesis import given
from hypothesis import strategies as st

FIXTURE = examples(60)
FORMULAS = [name for name in formulas() if name != "bm25f"]


def same(ours: list[gnomon.Hits], theirs: list[gnomon.Hits]) -> None:
    assert len(ours) == len(theirs)
    for got, wanted in zip(ours, theirs, strict=True):
        assert np.asarray(got.ids).tolist() == np.asarray(wanted.ids).tolist()
        assert got.scores.tobytes() == wanted.scores.tobytes()


@FIXTURE
@given(
    documents=strategies.corpora(),
    queries=st.lists(strategies.queries(), max_size=4),
    params=strategies.bm25_params(),
    formula=st.sampled_from(FORMULAS),
    k=st.sampled_from((0, 1, 3, 100)),
    schedule=st.integers(0, 4),
)
def test_any_documents(
    device: Emulator,
    documents: list[list[str]],
    queries: list[list[str]],
    params: tuple[float, float],
    formula: str,
    k: int,
    schedule: int,
) -> None:
    device.schedule(schedule)
    index = gnomon.BM25Index.build(documents, formula=formula, k1=params[0], b=params[1])
    same(index.search_many(queries, k, device="emulated"), index.search_many(queries, k))


def texts(n: int, words: int, seed: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, words + 1)
    weights /= weights.sum()
    return [rng.choice(words, size=size, p=weights).tolist() for size in rng.integers(0, 30, n)]


def corpus_of(device: Emulator, scorer: Any, range_docs: int, resident_bytes: int = 0) -> Any:
    return device.module.Bm25Corpus(
        _core.bm25_device_segments(scorer),
        _core.bm25_device_formula(scorer),
        0,
        range_docs,
        resident_bytes,
    )


def search(corpus: Any, scorer: Any, queries: list[Any], k: int, **options: Any) -> Any:
    plan = _core.bm25_device_plan(scorer, queries)
    live = _core.bm25_device_live(scorer)
    return corpus.search(plan, k, live, **options)


@pytest.mark.parametrize("range_docs", [64, 1000, 4096])
def test_ranges_and_waves(device: Emulator, range_docs: int) -> None:
    index = gnomon.BM25Index.build(texts(2500, 40, range_docs))
    searcher = index._view.searcher
    scorer = searcher.scorer()
    corpus = corpus_of(device, scorer, range_docs)
    queries: list[list[int]] = [[0], [0, 1, 2, 3], [39, 38, 37], [5, 5, 5, 20], [1, 7, 30, 33], []]
    repeated = 0
    for k in (1, 10, 500, 2500):
        wanted = scorer.search_many(queries, k)
        for schedule, capacity in ((0, 0), (1, 40), (5, 1)):
            device.schedule(schedule)
            *found, did = search(corpus, scorer, queries, k, capacity=capacity)
            for got, expected in zip(found, wanted, strict=True):
                assert got.tobytes() == expected.tobytes()
            repeated += did["repeated"]
    assert repeated > 0  # candidates did not fit, and nothing was lost


def test_the_screen_excludes_documents(device: Emulator) -> None:
    scorer = gnomon.BM25Index.build(texts(4000, 40, 1))._view.searcher.scorer()
    corpus = corpus_of(device, scorer, 256)
    *_, did = search(corpus, scorer, [[0, 1, 2, 3]] * 3, 10)
    assert did["settled"] < 3 * 1200


def test_weights_that_no_screen_serves(device: Emulator) -> None:
    index = gnomon.BM25Index.build(texts(300, 12, 2))
    queries: list[Any] = [{0: -1.0, 3: 2.0}, {1: 0.0}, [(4, 1e-100), (5, 1e100)], {2: 0.3, 7: 1.7}]
    same(index.search_many(queries, 25, device="emulated"), index.search_many(queries, 25))
    robertson = {"formula": "rank_bm25-okapi"}  # negative idf, floored
    same(
        index.search_many(queries, 25, device="emulated", **robertson),
        index.search_many(queries, 25, **robertson),
    )


def test_copies_tie_by_position(device: Emulator) -> None:
    index = gnomon.BM25Index.build([["a", "b"], ["a"]] * 400)
    same(
        index.search_many([["a"], ["b", "a"]], 7, device="emulated"),
        index.search_many([["a"], ["b", "a"]], 7),
    )


def test_an_edited_index(device: Emulator) -> None:
    index = gnomon.BM25Index.build(
        [["red", "fox"], ["red", "dog"], ["blue"]] * 20, ids=[f"d{i}" for i in range(60)]
    )
    index.add([["red", "red"], ["fox", "dog"]], ids=["new", "newer"])
    index.delete(["d0", "d4", "new"])
    queries = ["red", "fox"], ["dog"], ["nothing"]
    for options in ({}, {"filter": ["d1", "d3", "newer", "d9"]}, {"repeats": "once"}):
        ours = index.search_many(queries, 9, device="emulated", **options)
        same(ours, index.search_many(queries, 9, **options))
    assert index.search(["red"], 3, device="emulated").ids == index.search(["red"], 3).ids


def test_wide_frequencies(device: Emulator) -> None:
    index = gnomon.BM25Index.build([[0] * n + [1] for n in (300, 255, 254, 1, 70_000)])
    same(
        index.search_many([[0], [0, 1]], 5, device="emulated"), index.search_many([[0], [0, 1]], 5)
    )


def test_memory_stays_within_the_bound(device: Emulator) -> None:
    index = gnomon.BM25Index.build(texts(3000, 30, 5))
    scorer = index._view.searcher.scorer()
    corpus = corpus_of(device, scorer, 1024)
    queries = [[i % 30, (i * 7) % 30] for i in range(200)]
    wanted = scorer.search_many(queries, 10)
    for bound in (40_000, 1_000_000):
        device.memory(1 << 40)
        before = device.used()
        *found, did = search(corpus, scorer, queries, 10, workspace_bytes=bound)
        for got, expected in zip(found, wanted, strict=True):
            assert got.tobytes() == expected.tobytes()
        assert did["workspace_bytes"] <= bound
        assert device.used_most() - before == did["workspace_bytes"]
    with pytest.raises(gnomon.DeviceError, match=r"one query with k = 10 needs \d+"):
        search(corpus, scorer, queries, 10, workspace_bytes=5000)
    device.memory(device.used() + 1000)
    assert not corpus_of(device, scorer, 1024).resident


@pytest.mark.parametrize("fields", [None, ["a", "b"]])
def test_streamed_segments(device: Emulator, fields: list[str] | None) -> None:
    """Segments that do not fit: two buffers take turns, in whatever order streams run."""
    index = gnomon.BM25Index.build([], fields=fields)
    for seed in range(4):
        part: list[Any] = [[f"w{i}" for i in text] for text in texts(300 + 90 * seed, 30, seed)]
        if fields:
            part = [{"a": text[::2], "b": text[1::2]} for text in part]
        index.add(part)
    index.delete(list(range(0, 900, 7)))
    scorer = index._view.searcher.scorer()
    plain = corpus_of(device, scorer, 128)
    assert plain.resident
    queries: list[Any] = [
        ["w0"],
        ["w3", "w1", "w1"],
        ["w29", "w9"],
        ["none"],
        [],
        ["w2", "w5", "w7"],
    ]
    wanted = scorer.search_many(queries, 9)
    segments = len(_core.bm25_device_live(scorer))
    for resident_bytes in (1, plain.bytes // 2):
        corpus = corpus_of(device, scorer, 128, resident_bytes)
        assert not corpus.resident
        assert corpus.bytes <= resident_bytes
        for schedule in range(6):
            device.schedule(schedule)
            for bound in (100_000, 4_000_000):
                device.memory(1 << 40)
                before = device.used()
                *found, did = search(corpus, scorer, queries, 9, workspace_bytes=bound)
                for got, expected in zip(found, wanted, strict=True):
                    assert got.tobytes() == expected.tobytes()
                assert device.used_most() - before == did["workspace_bytes"] <= bound
                assert did["chunks"] >= (segments if resident_bytes == 1 else 1)
    with pytest.raises(gnomon.DeviceError, match=r"one query with k = 9 needs \d+"):
        search(corpus_of(device, scorer, 128, 1), scorer, queries, 9, workspace_bytes=9000)


def test_queries_of_many_lengths_in_parts(device: Emulator) -> None:
    """A part's memory is enough wherever it begins."""
    rng = np.random.default_rng(0)
    scorer = gnomon.BM25Index.build(texts(400, 30, 3))._view.searcher.scorer()
    corpus = corpus_of(device, scorer, 64)
    queries = [rng.integers(0, 30, 1 if i % 5 else 60).tolist() for i in range(30)]
    wanted = scorer.search_many(queries, 3)
    for bound in range(36_000, 90_000, 9_000):
        *found, did = search(corpus, scorer, queries, 3, capacity=4, workspace_bytes=bound)
        for got, expected in zip(found, wanted, strict=True):
            assert got.tobytes() == expected.tobytes()
        assert did["repeated"] > 0


def test_a_mapped_index(device: Emulator, tmp_path: Any) -> None:
    built = gnomon.BM25Index.build(texts(200, 20, 6))
    built.save(tmp_path / "index")
    index = gnomon.BM25Index.load(tmp_path / "index")
    same(index.search_many([[1, 2]], 5, device="emulated"), built.search_many([[1, 2]], 5))


@pytest.mark.parametrize("range_docs", [0, 64])
def test_fields(device: Emulator, range_docs: int, tmp_path: Any) -> None:
    """BM25F: one list a term over all fields; other weights, a field left out, edits, filters."""
    rng = np.random.default_rng(range_docs)
    words = [f"w{i}" for i in range(30)]

    def documents(n: int) -> list[dict[str, list[str]]]:
        sizes = rng.integers(0, 9, (n, 2)).tolist()
        return [{"title": rng.choice(words, a).tolist(), "body": rng.choice(words, b).tolist()}
                for a, b in sizes]  # fmt: skip

    weights = {"title": 3.0, "body": 1.0}
    index = gnomon.BM25Index.build(
        documents(300), fields=weights, ids=[f"d{i}" for i in range(300)]
    )
    index.add(documents(40), ids=[f"e{i}" for i in range(40)])
    index.delete([f"d{i}" for i in range(0, 90, 4)])
    queries: list[Any] = [["w0", "w1"], ["w5"], {"w3": 0.5, "w4": 2.0}, ["none"], ["w2", "w2"], []]
    for options in (
        {},
        {"filter": ["d1", "d2", "e3", "e4", "d200"]},
        {"field_weights": {"title": 0.0}},
        {"field_weights": {"body": 1e-100}, "k1": 0.3},
        {"repeats": "once"},
    ):
        for k in (1, 7, 1000):
            same(
                index.search_many(queries, k, device="emulated", **options),
                index.search_many(queries, k, **options),
            )
    index.save(tmp_path / "index")
    loaded = gnomon.BM25Index.load(tmp_path / "index")
    assert loaded.search(["w1"], 9, device="emulated").ids == index.search(["w1"], 9).ids
    scorer = index._view.searcher.scorer()
    corpus = corpus_of(device, scorer, range_docs)
    wanted = scorer.search_many([["w0", "w1", "w2"]], 5)
    for schedule in (0, 1, 3):
        device.schedule(schedule)
        *found, _ = search(corpus, scorer, [["w0", "w1", "w2"]], 5)
        for got, expected in zip(found, wanted, strict=True):
            assert got.tobytes() == expected.tobytes()


def test_what_stays_on_the_cpu_says_so(device: Emulator) -> None:
    index = gnomon.BM25Index.build(["red fox"], positions=True)
    for search in (index.search, lambda query, **how: index.search_many([query], **how)):
        with pytest.raises(ValueError, match="device: query objects"):
            search(Phrase("red fox"), device="emulated")
