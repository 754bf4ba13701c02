"""Building: however documents come and however many threads work, the arrays are the same."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
import strategies
from gnomon import _core, bm25_build
from hypothesis import given
from hypothesis import strategies as st


def sections(index: gnomon.BM25Index, folder: Path) -> dict[str, bytes]:
    """All arrays of the postings file."""
    path = folder / f"{len(list(folder.iterdir()))}"
    index.save(path)
    container = gnomon.storage.Directory.open(path).container("bm25", "postings")
    return {name: container.array(name).tobytes() for name, _, _ in container.sections()}


def texts(n: int, seed: int = 1) -> list[str]:
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.3, size=(n, 12)), 5000)
    rows = [" ".join(f"w{w}" for w in row[: rng.integers(0, 13)]) for row in words]
    return [*rows, "same " * 300, "风雨声 naïve"]


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25_build, "_RUN_CHARS", 3000)
    monkeypatch.setattr(bm25_build, "_BUDGET_LEAST", 1000)


@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("fields", [None, ["title", "body"]])
def test_threads_and_budgets_change_no_array(tmp_path: Path, fields: Any) -> None:
    documents: list[Any] = texts(5000)
    if fields:
        documents = [{"title": text[:20], "body": text[20:]} for text in documents]

    def built(**how: Any) -> dict[str, bytes]:
        index = gnomon.BM25Index.build(iter(documents), fields=fields, store_text=True, **how)
        assert index.text(5001) == documents[5001]
        index.verify()
        return sections(index, tmp_path)

    one = built(threads=1)
    assert built(threads=2) == one
    assert built(threads=5) == one
    assert built(threads=1, memory_budget=100_000) == one
    assert built(threads=3, memory_budget=100_000) == one


@pytest.mark.usefixtures("small_runs")
def test_a_budget_for_tokens_ids_and_functions(tmp_path: Path) -> None:
    plain = [text.split() for text in texts(5000)]
    numbers = [[hash(word) % 900 for word in document] for document in plain]
    for documents, analyzer in ((plain, None), (numbers, None), (texts(5000), str.split)):
        build = gnomon.BM25Index.build
        whole = sections(build(documents, analyzer=analyzer), tmp_path)
        part = build(documents, analyzer=analyzer, memory_budget=100_000)
        assert sections(part, tmp_path) == whole
    with pytest.raises(TypeError, match=r"documents\[4999\]\[0\] is a int"):
        gnomon.BM25Index.build([*plain[:4999], [3]], memory_budget=100_000)


@pytest.mark.usefixtures("small_runs")
def test_temporary_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    index = gnomon.BM25Index.build(texts(3000), memory_budget=50_000, store_text=True)
    assert os.listdir(tmp_path) == []
    assert index.search("w1", 3).ids.size == 3

    def failing() -> Iterator[str]:
        yield from texts(3000)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        gnomon.BM25Index.build(failing(), memory_budget=50_000, store_text=True)
    assert os.listdir(tmp_path) == []


sanitized = os.environ.get("GNOMON_HYPOTHESIS") == "sanitize"
measures = pytest.mark.skipif(sanitized, reason="sanitizers hold freed memory back")


@measures
@pytest.mark.slow
def test_a_stream_larger_than_the_budget_stays_within_it() -> None:
    """Peak memory grows by the budget and what is said not to count, whatever is read."""
    code = """
import re, sys, numpy, gnomon
def peak():  # ru_maxrss would begin with what the parent process held
    status = open("/proc/self/status").read()
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1]) * 1024
def stream(n):
    rng = numpy.random.default_rng(0)
    for _ in range(n // 1000):
        words = numpy.minimum(rng.zipf(1.2, size=(1000, 60)), 20_000)
        yield from (" ".join(map(str, row)) for row in words)
gnomon.BM25Index.build(stream(1000))
before = peak()
budget = {"memory_budget": 32 << 20} if sys.argv[1] == "budget" else {}
index = gnomon.BM25Index.build(stream(120_000), threads=1, **budget)
print(peak() - before, len(index), index._state.segments[0].core.memory)
"""
    import subprocess
    import sys

    def run(how: str) -> list[int]:
        done = subprocess.run(
            [sys.executable, "-c", code, how], capture_output=True, text=True, check=True
        )
        return [int(number) for number in done.stdout.split()]

    grown, n, size = run("budget")
    assert n == 120_000
    free, _, _ = run("none")
    assert size > 20 << 20
    assert grown < (32 << 20) + 120_000 * 12 + 20_000 * 100
    assert free > grown


def arrays(documents: list[list[str]]) -> tuple[Any, Any, list[list[int]]]:
    vocabulary = strategies.WORDS
    numbers = [[vocabulary.index(token) for token in document] for document in documents]
    flat = np.array([n for document in numbers for n in document], dtype=np.int64)
    return flat, np.cumsum([0, *map(len, numbers)]), numbers


@given(strategies.corpora(), st.sampled_from(["i4", "u4", "i8", "u8", "i2", ">i4"]))
def test_arrays_of_token_ids(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[str]], dtype: str
) -> None:
    flat, offsets, numbers = arrays(documents)
    folder = tmp_path_factory.mktemp("arrays")
    index = gnomon.BM25Index.build((flat.astype(dtype), offsets))
    index.verify()
    if flat.size:  # lists without a single token do not say whether tokens are str or int
        assert sections(index, folder) == sections(gnomon.BM25Index.build(numbers), folder)


@given(
    strategies.corpora(),
    st.sampled_from(["i4", "i8", "f4", "f8", "u1", "u8", "i2"]),
    st.sampled_from(["csr_array", "csr_matrix", "csc_array", "coo_array"]),
)
def test_sparse_matrices(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[list[str]],
    dtype: str,
    form: str,
) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    _, _, numbers = arrays(documents)
    n_terms = len(strategies.WORDS)
    counts = np.zeros((len(documents), n_terms), dtype=dtype)
    for row, document in enumerate(numbers):
        for number in document:
            counts[row, number] += 1
    index = gnomon.BM25Index.build(getattr(sparse, form)(counts))
    index.verify()
    assert (len(index), index.n_terms) == (len(documents), n_terms)
    if not any(numbers):
        return
    other = gnomon.BM25Index.build(numbers)
    for query in ([0], [1, 2, 1], [n_terms - 1]):
        assert index.scores(query).tobytes() == other.scores(query).tobytes()


def test_entries_of_a_row_that_repeat_add_up_and_zeros_are_nothing() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    data, columns, starts = np.array([1, 0, 2, 200, 100]), np.array([1, 0, 1, 2, 2]), [0, 3, 3, 5]
    matrix = sparse.csr_array((data, columns, starts), shape=(3, 4))
    index = gnomon.BM25Index.build(matrix)
    index.verify()
    documents = [[1, 1, 1], [], [2] * 300]
    expected = gnomon.BM25Index.build(documents)
    for query in ([1], [0], [2]):
        assert index.scores(query).tolist() == expected.scores(query).tolist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1.5], "whole numbers"),
        ([-1.0], "whole numbers"),
        ([float("nan")], "whole numbers"),
        ([-1], "from 0 on"),
        ([1 << 33], "4,294,967,294 tokens"),
        ([1j], "counts must be numbers"),
    ],
)
def test_counts_that_are_none(data: list[Any], message: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises((ValueError, TypeError), match=message):
        gnomon.BM25Index.build(sparse.csr_array(np.array([data])))


@measures
def test_arrays_are_not_copied() -> None:
    """The peak of the process does not grow by the size of the array."""
    ids = np.random.default_rng(0).integers(0, 50, size=20_000_000, dtype=np.uint32)
    offsets = np.arange(0, ids.size + 1, 20_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _core.segment_of_tokens(ids, offsets)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < ids.nbytes / 4


def test_progress_is_told() -> None:
    seen: list[tuple[int, int | None]] = []
    documents = texts(5000)
    gnomon.BM25Index.build(documents, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (5002, 5002)
    seen.clear()
    gnomon.BM25Index.build(iter(documents), progress=lambda *told: seen.append(told))
    assert seen[-1] == (5002, None)


def test_a_progress_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    gnomon.BM25Index.build(texts(10), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "12/12" in err


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"memory_budget": 1000}, ValueError, "memory_budget must be at least 33,554,432 bytes"),
        ({"memory_budget": "1G"}, TypeError, "memory_budget must be a whole number"),
        ({"threads": 0}, ValueError, "threads must be at least 1"),
        ({"fields": "title"}, TypeError, "fields is a str"),
        ({"fields": []}, ValueError, "1 to 255 different names"),
        ({"fields": ["a", "a"]}, ValueError, "1 to 255 different names"),
        ({"fields": [1]}, TypeError, r"fields\[0\] is a int"),
        ({"fields": ["a"]}, TypeError, r"documents\[0\] is a str; with fields="),
        ({"b": {"a": 0.5}}, TypeError, "b is a mapping, which is for"),
        ({"fields": ["a"], "formula": "lucene"}, ValueError, "scored by 'bm25f'"),
    ],
)
def test_bad_ways_to_build(how: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gnomon.BM25Index.build(["text"], **how)
