"""gnomon.compat.rank_bm25 against rank_bm25 itself, where it is installed, and by hand."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from gnomon.compat import rank_bm25 as ours
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ["BM25Okapi", "BM25L", "BM25Plus"]
TOKENS = st.sampled_from(["a", "b", "c", "d", "e", "f", "", "日"])
# No 0 / 0: at least one token, and b stays below 1 (b = 1 and an empty document have no norm).
CORPUS = st.lists(st.lists(TOKENS, max_size=9), min_size=1, max_size=14).filter(any)
K1 = st.floats(0.01, 5)
B = st.floats(0, 0.99)
DELTA = st.floats(0, 3)


@pytest.fixture(scope="module")
def peer() -> Any:
    return pytest.importorskip("rank_bm25", reason="rank_bm25 is not installed")


def options(name: str, k1: float, b: float, third: float) -> dict[str, float]:
    return {"k1": k1, "b": b, ("epsilon" if name == "BM25Okapi" else "delta"): third}


@pytest.mark.parametrize("name", NAMES)
@given(corpus=CORPUS, query=st.lists(TOKENS, max_size=6), k1=K1, b=B, third=DELTA)
def test_scores_are_the_peers_bits(
    peer: Any, name: str, corpus: Any, query: Any, k1: float, b: float, third: float
) -> None:
    given_options = options(name, k1, b, third)
    theirs = getattr(peer, name)(corpus, **given_options)
    mine = getattr(ours, name)(corpus, **given_options)
    expected = theirs.get_scores(query)
    scores = mine.get_scores(query)
    assert scores.dtype == expected.dtype == np.float64
    assert scores.tolist() == expected.tolist()
    doc_ids = [0, len(corpus) - 1, -1, 0]
    assert mine.get_batch_scores(query, doc_ids) == theirs.get_batch_scores(query, doc_ids)
    assert mine.get_batch_scores(query, []) == theirs.get_batch_scores(query, []) == []


@pytest.mark.parametrize("name", NAMES)
@given(corpus=CORPUS)
@settings(max_examples=50)
def test_attributes_are_the_peers(peer: Any, name: str, corpus: Any) -> None:
    theirs, mine = getattr(peer, name)(corpus), getattr(ours, name)(corpus)
    for attribute in (
        "corpus_size",
        "avgdl",
        "doc_len",
        "doc_freqs",
        "idf",
        "k1",
        "b",
        "tokenizer",
    ):
        assert getattr(mine, attribute) == getattr(theirs, attribute), attribute
    assert list(mine.idf) == list(theirs.idf)
    for attribute in {"epsilon", "average_idf", "delta"} & vars(theirs).keys():
        assert getattr(mine, attribute) == getattr(theirs, attribute), attribute


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("compat", ["0.2.2", "head"])
@given(
    corpus=CORPUS, query=st.lists(TOKENS, max_size=4), n=st.sampled_from([0, 1, 2, 5, 99, -2, None])
)
@settings(max_examples=60)
def test_top_n_is_score_falling_then_id_rising(
    name: str, compat: str, corpus: Any, query: Any, n: int | None
) -> None:
    bm25 = getattr(ours, name)(corpus, compat=compat)
    scores = bm25.get_scores(query).tolist()
    expected = sorted(range(len(corpus)), key=lambda place: (-scores[place], place))[:n]
    assert bm25.get_top_n(query, list(range(len(corpus))), n) == expected


@pytest.mark.parametrize("name", NAMES)
def test_top_n_without_ties_is_the_peers(peer: Any, name: str) -> None:
    rng = np.random.default_rng(5)
    corpus = [rng.integers(0, 400, size).tolist() for size in rng.permutation(range(3, 203))]
    theirs, mine = getattr(peer, name)(corpus), getattr(ours, name)(corpus)
    for query in (range(9), [7, 7, 8, 11, 13, 17], range(100, 109)):
        scores = theirs.get_scores(query)
        best = np.sort(scores)[::-1][:6]
        assert len(set(best.tolist())) == 6
        assert mine.get_top_n(query, range(200)) == theirs.get_top_n(query, range(200))


def head_l(corpus: list[list[str]], term: str) -> list[float]:
    """BM25L of the repository: no factor tf, and an absent term counts (k1 1.5, b 0.75, d 0.5)."""
    n, df = len(corpus), sum(term in document for document in corpus)
    avgdl = sum(map(len, corpus)) / n
    idf = math.log(n + 1) - math.log(df + 0.5)
    c = [d.count(term) / (1 - 0.75 + 0.75 * len(d) / avgdl) for d in corpus]
    return [idf * (1.5 + 1) * (x + 0.5) / (1.5 + x + 0.5) for x in c]


def test_head() -> None:
    corpus = [["a", "b", "b"], ["c"], ["b", "c", "d", "d"]]
    assert ours.BM25L(corpus, compat="head").get_scores(["b"]).tolist() == head_l(corpus, "b")
    idf = math.log(3 + 1) - math.log(2)
    plus = ours.BM25Plus(corpus, compat="head")
    assert plus.idf["b"] == idf
    assert plus.get_scores(["b"])[1] == idf
    same = ours.BM25Okapi(corpus, compat="head").get_scores(["b"])
    assert same.tolist() == ours.BM25Okapi(corpus).get_scores(["b"]).tolist()
    with pytest.raises(ValueError, match="compat must be one of"):
        ours.BM25L(corpus, compat="0.3")


def test_queries_and_tokens(peer: Any) -> None:
    corpus = [["a", "b"], ["b", "b", 3], [("x", 1)], [3.0]]
    theirs, mine = peer.BM25Okapi(corpus), ours.BM25Okapi(corpus)
    for query in ("ab", ["b", "b"], [3], [("x", 1)], iter(["a"]), [], "zz"):
        again = ["a"] if not isinstance(query, (str, list)) else query
        assert mine.get_scores(query).tolist() == theirs.get_scores(again).tolist()
    with pytest.raises(TypeError, match="unhashable"):
        mine.get_scores([["a"]])


def test_a_tokenizer_runs_in_this_process(peer: Any) -> None:
    seen: list[str] = []

    def split(text: str) -> list[str]:
        seen.append(text)
        return text.split()

    texts = ["red apple", "green pear", "red plum"]
    mine = ours.BM25Plus(iter(texts), tokenizer=split)
    assert seen == texts
    assert mine.tokenizer is split
    theirs = peer.BM25Plus([text.split() for text in texts])
    assert mine.get_scores(["red"]).tolist() == theirs.get_scores(["red"]).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_parameters_set_later_count(peer: Any, name: str) -> None:
    corpus = [["a", "b"], ["b", "b", "c"], ["d"], ["e", "e"]]
    theirs, mine = getattr(peer, name)(corpus), getattr(ours, name)(corpus)
    for bm25 in (theirs, mine):
        bm25.k1, bm25.b, bm25.delta, bm25.epsilon = 0.9, 0.4, 2.0, 0.0
    assert mine.get_scores(["b", "e"]).tolist() == theirs.get_scores(["b", "e"]).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_pickles(name: str) -> None:
    bm25 = getattr(ours, name)([["a", "b"], ["b", "c"], []], k1=1.1)
    again = pickle.loads(pickle.dumps(bm25))
    assert again.get_scores(["b", "a"]).tolist() == bm25.get_scores(["b", "a"]).tolist()
    assert (again.idf, again.doc_freqs, again.k1) == (bm25.idf, bm25.doc_freqs, 1.1)


def test_errors() -> None:
    with pytest.raises(ZeroDivisionError, match="no document"):
        ours.BM25Plus([])
    with pytest.raises(ZeroDivisionError, match="no token"):
        ours.BM25Okapi([[], []])
    bm25 = ours.BM25Okapi([["a"], ["b"], ["c"]])
    with pytest.raises(AssertionError, match="The documents given don't match the index corpus!"):
        bm25.get_top_n(["a"], ["only one"])
    with pytest.raises(AssertionError, match="doc_ids holds 3; there are 3"):
        bm25.get_batch_scores(["a"], [0, 3])
    with pytest.raises(IndexError):
        bm25.get_batch_scores(["a"], [-4])
    with pytest.raises(ValueError, match="b must lie"):
        ours.BM25L([["a"]], b=1.5)
    with pytest.raises(TypeError):
        bm25.idf["a"] = 1.0
    with pytest.raises(NotImplementedError, match="use BM25Okapi"):
        ours.BM25([["a"]]).get_scores(["a"])
    with pytest.raises(TypeError, match=r"Mine\._calc_idf would never be called"):
        type("Mine", (ours.BM25Okapi,), {"_calc_idf": lambda self, nd: None})


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_and_what_cannot_be_set(name: str) -> None:
    corpus = [["a"], ["b"], ["c"]]
    bm25 = getattr(ours, name)(corpus)
    for doc_ids in ([1.0], [0, True], ["0"], np.array([0.5])):  # as rank_bm25, but for its text
        with pytest.raises(IndexError, match="no whole number"):
            bm25.get_batch_scores(["a"], doc_ids)
    assert bm25.get_batch_scores(["c"], np.array([2, -1]))[0] > 0
    with pytest.raises(TypeError, match="k1 must be a number"):
        getattr(ours, name)(corpus, k1="1.5")
    for attribute in ("avgdl", "corpus_size"):  # written to, it would change no score
        with pytest.raises(AttributeError):
            setattr(bm25, attribute, 9)


@pytest.mark.parametrize("name", ["BM25L", "BM25Plus"])
def test_without_a_token_all_scores_are_zero(name: str) -> None:
    assert getattr(ours, name)([[], []]).get_scores(["a"]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_no_norm_adds_what_an_absent_term_does(name: str) -> None:
    """An empty document with b = 1, or k1 = 0: rank_bm25 divides 0 by 0."""
    for b, k1 in ((1.0, 1.5), (0.75, 0.0)):
        scores = getattr(ours, name)([["a"], [], ["b"], ["c"]], k1=k1, b=b).get_scores(["a"])
        assert np.isfinite(scores).all()
        assert scores[1] == (0.0 if name != "BM25Plus" else math.log(5))


def test_the_half_of_two_documents_case(shared: Any, peer: Any) -> None:
    """A recorded complaint: a term in half of the documents has idf 0, there and therefore here."""
    import json

    lines = (shared / "cases" / "retrieval_cases.jsonl").read_text("utf-8").splitlines()
    case = next(c for c in map(json.loads, lines) if c["id"] == "bm25-01")
    corpus = [text.split() for text in case["input"]["docs"]]
    query = case["input"]["query"].split()
    assert ours.BM25Okapi(corpus).get_scores(query).tolist() == [0.0, 0.0]
    assert peer.BM25Okapi(corpus).get_scores(query).tolist() == [0.0, 0.0]
