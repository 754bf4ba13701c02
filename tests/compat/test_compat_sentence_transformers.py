"""gnomon.compat.sentence_transformers against its written contract, and the package itself."""

from __future__ import annotations

import heapq
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gnomon.compat import sentence_transformers as ours
from gnomon.reference.dense import cosine, dot
from hypothesis import given, settings
from hypothesis import strategies as st

COORDINATE = st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0, 3.0])


@st.composite
def matrices(draw: Any, most: int = 14) -> Any:
    n, d = draw(st.integers(1, most)), draw(st.integers(1, 3))
    rows = st.lists(COORDINATE, min_size=d, max_size=d)
    return np.array(draw(st.lists(rows, min_size=n, max_size=n)), np.float32)


def similarity(a: Any, b: Any) -> float:
    return cosine(a.tolist(), b.tolist())


@given(rows=matrices(), n_queries=st.integers(1, 3), top_k=st.integers(0, 20))
@settings(max_examples=80)
def test_search_is_score_falling_then_id_rising(rows: Any, n_queries: int, top_k: int) -> None:
    queries = rows[:n_queries]
    found = ours.semantic_search(queries, rows, top_k=top_k, corpus_chunk_size=2)
    for query, hits in zip(queries, found, strict=True):
        scores = [similarity(query, row) for row in rows]
        order = sorted(range(len(rows)), key=lambda i: (-scores[i], i))[:top_k]
        assert hits == [{"corpus_id": i, "score": scores[i]} for i in order]
        assert all(type(hit["corpus_id"]) is int and type(hit["score"]) is float for hit in hits)


@pytest.mark.parametrize("level", [None, "scalar"])
def test_many_queries_at_once_find_what_each_finds(
    level: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many are screened, few are not; with ties and zero rows."""
    if level:
        monkeypatch.setenv("GNOMON_LEVEL", level)
    rng = np.random.default_rng(3)
    rows = rng.integers(-2, 3, (5000, 6)).astype(np.float32)
    rows[::50] = 0
    queries = np.concatenate([rows[:20], rng.normal(size=(20, 6)).astype(np.float32)])
    found = ours.semantic_search(queries, rows, top_k=30)
    assert found == [ours.semantic_search(query, rows, top_k=30)[0] for query in queries]


@given(
    rows=matrices(), max_pairs=st.integers(0, 30), top_k=st.integers(0, 6), chunk=st.integers(1, 9)
)
@settings(max_examples=80)
def test_pairs(rows: Any, max_pairs: int, top_k: int, chunk: int) -> None:
    scores = [[similarity(a, b) for b in rows] for a in rows]
    pairs = set()
    for i, row in enumerate(scores):
        near = sorted(range(len(rows)), key=lambda j: (-row[j], j))[: top_k + 1]
        for j in [j for j in near if j != i][:top_k]:
            pairs.add((-row[j], min(i, j), max(i, j)))
    expected = [[-s, i, j] for s, i, j in heapq.nsmallest(max_pairs, pairs)]
    found = ours.paraphrase_mining_embeddings(
        rows, query_chunk_size=chunk, max_pairs=max_pairs, top_k=top_k
    )
    assert found == expected


@given(
    rows=matrices(),
    threshold=st.sampled_from([-0.2, 0.3, 0.75, 1.0]),
    least=st.integers(1, 4),
    batch=st.integers(1, 9),
)
@settings(max_examples=80)
def test_communities(rows: Any, threshold: float, least: int, batch: int) -> None:
    groups = []
    for i, a in enumerate(rows):
        scores = [similarity(a, b) for b in rows]
        near = sorted(
            (j for j in range(len(rows)) if scores[j] >= threshold), key=lambda j: (-scores[j], j)
        )
        if len(near) >= least:
            groups.append((i, near))
    groups.sort(key=lambda group: -len(group[1]))
    used: set[int] = set()
    chosen = []
    for centre, near in groups:
        left = [j for j in near if j not in used]
        if centre not in used and len(left) >= least:
            chosen.append([centre, *[j for j in left if j != centre]])
            used |= set(chosen[-1])
    chosen.sort(key=lambda group: -len(group))
    found = ours.community_detection(rows, threshold, least, batch_size=batch)
    assert found == chosen


def test_kinds_of_input() -> None:
    corpus = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    expected = ours.semantic_search(corpus[:1], corpus)
    for same in (
        corpus.tolist(),
        list(corpus),
        corpus.astype(np.float16),
        corpus.astype(np.float64),
    ):
        assert ours.semantic_search(same[:1], same) == expected
    assert ours.semantic_search(corpus[0], corpus) == expected
    assert ours.semantic_search(corpus, np.zeros((0, 2))) == [[], [], []]
    assert ours.semantic_search(corpus, []) == [[], [], []]
    assert ours.paraphrase_mining_embeddings([]) == []
    assert ours.community_detection([]) == []
    assert ours.community_detection(corpus, min_community_size=4) == []


def test_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    corpus = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    expected = ours.semantic_search(corpus.numpy(), corpus.numpy())
    for same in (corpus, corpus.bfloat16(), list(corpus), corpus.clone().requires_grad_()):
        assert ours.semantic_search(same, same) == expected
    assert ours.community_detection(corpus, 0.7, 2) == [[2, 0, 1]]


def test_a_zero_vector_scores_zero_and_what_is_not_finite_is_refused() -> None:
    rows = np.array([[0, 0], [1e-30, 0], [-1, 0]], np.float32)
    found = ours.semantic_search(np.array([1.0, 0.0]), rows)
    assert found == [
        [
            {"corpus_id": 1, "score": 1.0},
            {"corpus_id": 0, "score": 0.0},
            {"corpus_id": 2, "score": -1.0},
        ]
    ]
    rows[1, 0] = np.nan
    for call in (
        lambda: ours.semantic_search(rows[:1], rows),
        lambda: ours.paraphrase_mining_embeddings(rows),
        lambda: ours.community_detection(rows, min_community_size=1),
    ):
        with pytest.raises(ValueError, match="row 1"):
            call()


def test_errors() -> None:
    rows = np.eye(3, dtype=np.float32)
    with pytest.raises(ValueError, match="have 2 dimensions, corpus_embeddings 3"):
        ours.semantic_search(np.ones((1, 2)), rows)
    with pytest.raises(ValueError, match="must be a matrix"):
        ours.semantic_search(np.ones((1, 3)), np.ones(3))
    with pytest.raises(ValueError, match="top_k must be at least 0"):
        ours.semantic_search(rows, rows, top_k=-1)
    with pytest.raises(ValueError, match="min_community_size must be at least 1"):
        ours.community_detection(rows, min_community_size=0)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package of that name whose functions say that they were called."""
    package, util = ModuleType("sentence_transformers"), ModuleType("sentence_transformers.util")

    def dot_score(a: Any, b: Any) -> Any:
        raise AssertionError("the engine computes it")

    dot_score.__module__ = "sentence_transformers.util.similarity"
    vars(util).update(
        dot_score=dot_score,
        semantic_search=lambda *rows, **options: ("original", options),
        paraphrase_mining_embeddings=lambda *rows, **options: ("original", options),
    )
    vars(package).update(util=util)
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    monkeypatch.setitem(sys.modules, "sentence_transformers.util", util)
    return util


def test_functions(stand_in: ModuleType) -> None:
    rows = np.array([[1, 0], [3, 1]], np.float32)
    found = ours.semantic_search(rows[1:], rows, score_function=stand_in.dot_score)
    score = dot(rows[1].tolist(), rows[1].tolist())
    assert found == [[{"corpus_id": 1, "score": score}, {"corpus_id": 0, "score": 3.0}]]
    assert ours.paraphrase_mining_embeddings(rows, score_function=stand_in.dot_score) == [
        [3.0, 0, 1]
    ]

    def own(a: Any, b: Any) -> Any:
        return a @ b.T

    with pytest.warns(UserWarning, match="goes to sentence_transformers"):
        name, options = ours.semantic_search(rows, rows, top_k=3, score_function=own)
    assert (name, options["top_k"], options["score_function"]) == ("original", 3, own)
    with pytest.warns(UserWarning, match="goes to sentence_transformers"):
        name, options = ours.paraphrase_mining_embeddings(rows, max_pairs=7, score_function=own)
    assert (name, options["max_pairs"]) == ("original", 7)


def test_a_sparse_tensor_goes_to_the_original(stand_in: ModuleType) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    sparse = torch.eye(2).to_sparse()
    with pytest.warns(UserWarning, match="goes to sentence_transformers"):
        name, options = ours.semantic_search(sparse, sparse)
    assert (name, "score_function" in options) == ("original", False)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match="pip install sentence-transformers"):
        ours.semantic_search([[1.0]], [[1.0]], score_function=lambda a, b: a)


def test_against_the_package() -> None:
    util = pytest.importorskip(
        "sentence_transformers.util", reason="sentence-transformers is not installed"
    )
    rows = np.random.default_rng(3).normal(size=(300, 16)).astype(np.float32)
    for options in ({"top_k": 7}, {"top_k": 5, "score_function": util.dot_score}):
        theirs = util.semantic_search(rows[:20], rows, **options)
        mine = ours.semantic_search(rows[:20], rows, **options)
        ids = [[hit["corpus_id"] for hit in hits] for hits in theirs]
        assert [[hit["corpus_id"] for hit in hits] for hits in mine] == ids
        assert all(
            abs(a["score"] - b["score"]) < 1e-5
            for hits, others in zip(theirs, mine, strict=True)
            for a, b in zip(hits, others, strict=True)
        )
    pairs = [pair[1:] for pair in util.paraphrase_mining_embeddings(rows_as_tensor(rows), top_k=5)]
    assert [pair[1:] for pair in ours.paraphrase_mining_embeddings(rows, top_k=5)] == pairs
    groups = util.community_detection(rows, threshold=0.5, min_community_size=3)
    assert ours.community_detection(rows, threshold=0.5, min_community_size=3) == groups


def test_the_evaluator_and_the_miner_need_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    monkeypatch.delitem(sys.modules, "gnomon.compat._st_training", raising=False)
    for name in ("InformationRetrievalEvaluator", "mine_hard_negatives"):
        with pytest.raises(ImportError, match="pip install sentence-transformers"):
            getattr(ours, name)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = ours.no_such_thing


class Model:
    """What the evaluator asks of a model: texts are numbers, rows of a table."""

    similarity_fn_name = "cosine"
    rows = np.random.default_rng(12).normal(size=(60, 4)).round().astype(np.float32)

    class model_card_data:  # noqa: N801
        @staticmethod
        def set_evaluation_metrics(*_: Any) -> None: ...

    def similarity(self, a: Any, b: Any) -> Any:
        util = pytest.importorskip("sentence_transformers.util")
        return util.cos_sim(a, b)

    def encode_document(self, texts: list[str], **_: Any) -> Any:
        return rows_as_tensor(self.rows[[int(text) for text in texts]])

    encode_query = encode = encode_document


@pytest.mark.parametrize("own", [False, True])
def test_the_evaluator(own: bool, tmp_path: Any) -> None:
    evaluation = pytest.importorskip(
        "sentence_transformers.evaluation", reason="sentence-transformers is not installed"
    )
    queries = {f"q{i}": str(i) for i in range(12)}
    corpus = {str(i): str(i) for i in range(60)}
    relevant = {f"q{i}": {str((7 * i + j) % 60) for j in range(4)} for i in range(12)}
    functions = {"mine": lambda a, b: -((a[:, None] - b[None]) ** 2).sum(-1)} if own else None
    found = []
    for kind in (evaluation.InformationRetrievalEvaluator, ours.InformationRetrievalEvaluator):
        evaluator = kind(queries, corpus, relevant, corpus_chunk_size=9, score_functions=functions)
        if own and kind is ours.InformationRetrievalEvaluator:
            with pytest.warns(UserWarning, match="sentence-transformers itself searches"):
                found.append(evaluator(Model()))
        else:
            found.append(evaluator(Model(), output_path=str(tmp_path)))
    assert found[0] == found[1]


def rows_as_tensor(rows: Any) -> Any:
    import torch

    return torch.from_numpy(rows)
