"""The other drop-ins after fork and spawn, in joblib, over threads, and through pickle.

Those of frameworks are in test_compat_framework_processes.py.
"""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

ROWS = np.random.default_rng(7).normal(size=(5000, 16)).astype(np.float32)
TEXTS = [f"word{n % 7} word{n} word{n % 50}" for n in range(300)]


def rank_bm25() -> Any:
    from gnomon.compat.rank_bm25 import BM25Plus

    return BM25Plus([text.split() for text in TEXTS])


def ask_rank_bm25(index: Any) -> Any:
    return index.get_top_n(["word3", "word8"], TEXTS, 9), index.get_scores(["word3"]).tolist()


def bm25s() -> Any:
    from gnomon.compat.bm25s import BM25

    index = BM25(method="bm25+")
    index.index([text.split() for text in TEXTS])
    return index


def ask_bm25s(index: Any) -> Any:
    found = index.retrieve([["word3", "word8"], ["word1"]] * 9, k=7)
    return found.documents.tolist(), found.scores.tolist()


def faiss() -> Any:
    from gnomon.compat.faiss import IndexFlatIP

    index = IndexFlatIP(16)
    index.add(ROWS)
    return index


def ask_faiss(index: Any) -> Any:
    return [part.tolist() for part in index.search(ROWS[:20], 5)]


def txtai() -> Any:
    from gnomon.compat.txtai import Exact

    ann = Exact({})
    ann.index(ROWS)
    return ann


def ask_txtai(ann: Any) -> Any:
    return ann.search(ROWS[:20], 5)


def rows() -> Any:
    return ROWS


def ask_sentence_transformers(embeddings: Any) -> Any:
    from gnomon.compat.sentence_transformers import semantic_search

    return semantic_search(embeddings[:20], embeddings)


def sklearn() -> Any:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from gnomon.compat.sklearn import ExactNearestNeighbors

    return ExactNearestNeighbors(metric="cosine").fit(ROWS)


def ask_sklearn(fitted: Any) -> Any:
    return [part.tolist() for part in fitted.kneighbors(ROWS[:20])]


MADE: dict[str, tuple[Any, Any]] = {
    "rank_bm25": (rank_bm25, ask_rank_bm25),
    "bm25s": (bm25s, ask_bm25s),
    "faiss": (faiss, ask_faiss),
    "txtai": (txtai, ask_txtai),
    "sentence-transformers": (rows, ask_sentence_transformers),
    "sklearn": (sklearn, ask_sklearn),
}


def asked(name: str, made: Any) -> Any:
    return MADE[name][1](made)


@pytest.mark.parametrize("name", MADE)
def test_threads_pickles_and_copies(name: str) -> None:
    make, ask = MADE[name]
    made = make()
    with ThreadPoolExecutor(4) as pool:  # the first search is several
        answers = list(pool.map(ask, [made] * 8))
    assert answers == [ask(make())] * 8
    assert ask(pickle.loads(pickle.dumps(made))) == answers[0]
    assert ask(copy.deepcopy(made)) == answers[0]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12's, of any thread
@pytest.mark.parametrize("name", MADE)
def test_a_forked_child_searches(name: str) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork here")
    make, ask = MADE[name]
    made = make()
    expected = ask(made)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(asked, (name, made)).get(60) == expected


def test_spawned_processes_search() -> None:
    """One process for all: each begins with an interpreter of its own."""
    names = [name for name in MADE if name != "sklearn"]
    made = {name: MADE[name][0]() for name in names}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for name in names:
            found = pool.apply_async(asked, (name, made[name])).get(120)
            assert found == asked(name, made[name]), name


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib(backend: str) -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    names = [name for name in MADE if name != "sklearn"]
    made = [MADE[name][0]() for name in names]
    calls = [joblib.delayed(asked)(name, one) for name, one in zip(names, made, strict=True)]
    found = joblib.Parallel(2, backend=backend)(calls)
    assert found == [asked(name, one) for name, one in zip(names, made, strict=True)]
