"""BM25Index: windows, texts, ids, storage, threads, bad input (equality: test_bm25_equality)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.reference import bm25 as reference

Documents = list[list[str]]


def pairs(hits: gnomon.Hits) -> list[tuple[int, float]]:
    return list(zip(hits.ids.tolist(), hits.scores.tolist(), strict=True))


def zipf_corpus(n_docs: int, seed: int = 7) -> Documents:
    rng = np.random.default_rng(seed)
    words = np.minimum(rng.zipf(1.3, size=(n_docs, 6)), 500)
    return [[f"w{w}" for w in row[: rng.integers(0, 7)]] for row in words]


def test_many_windows(level: str) -> None:
    """More documents than a window of 16,384 holds, with windows that no query term touches."""
    documents = zipf_corpus(40_000)
    documents[16_383] = documents[16_384] = ["rare", "w1"]
    documents[39_999] = ["rare"]
    index = gnomon.BM25Index.build(documents)
    for query in (["rare"], ["w1", "rare", "w2"], ["w3", "w3", "w9"], ["nowhere"]):
        expected = reference.search(query, documents, 50)
        assert pairs(index.search(query, 50, level=level)) == expected
        everything = reference.search(query, documents, 50_000)
        assert pairs(index.search(query, 50_000, level=level)) == everything


def test_extreme_parameters_keep_every_match() -> None:
    """The ends of what is allowed; beyond, weight and norm could both be infinite."""
    documents = [["a"], ["b"], ["a", "a"], ["a"] + ["b"] * 500]
    for k1 in (0.0, 5e-324, 1e100):
        for b in (0.0, 1.0):
            index = gnomon.BM25Index.build(documents, k1=k1, b=b)
            assert pairs(index.search(["a"])) == reference.search(["a"], documents, 10, k1, b)
    with pytest.raises(ValueError, match="k1 must lie between 0 and 1e100"):
        gnomon.BM25Index.build(documents, k1=1.1e100)


def test_texts_tokens_and_a_generator_agree() -> None:
    texts = ["Red max_allowed_packet", "std::vector 风雨声", "", "naïve Ａpple ﬁsh"] * 700
    analyzer = gnomon.Analyzer()
    tokens = [analyzer.tokens(text) for text in texts]
    by_text = gnomon.BM25Index.build(text for text in texts)
    by_token = gnomon.BM25Index.build(tokens, analyzer="standard-v1")
    for query in ("packet", "vector 风雨", "fish apple", "zzz", ""):
        expected = reference.search(analyzer.tokens(query), tokens, 3000)
        assert pairs(by_text.search(query, 3000)) == expected
        assert pairs(by_token.search(query, 3000)) == expected
    assert by_text.n_tokens == by_token.n_tokens == sum(map(len, tokens))
    assert by_text.n_terms == len({token for document in tokens for token in document})


def test_a_function_as_analyzer(tmp_path: Path) -> None:
    index = gnomon.BM25Index.build(["Two words", "two"], analyzer=str.split)
    assert index.search("two").ids.tolist() == [1]
    index.save(tmp_path / "index")
    with pytest.raises(ValueError, match=r"str\.split"):
        gnomon.BM25Index.load(tmp_path / "index")
    loaded = gnomon.BM25Index.load(tmp_path / "index", analyzer=str.split)
    assert loaded.search("Two").ids.tolist() == [0]


@pytest.mark.parametrize(
    "ids",
    [None, [5, -3, 2**62, 0], ["a", "日", "", "\udc80"], np.array([4, 3, 2, 1])],
    ids=["positions", "ints", "strings", "array"],
)
def test_save_and_load_give_the_same_answers(tmp_path: Path, ids: Any, level: str) -> None:
    documents = [["a", "b"], ["b"], [], ["a", "a", "\udcff风"]]
    index = gnomon.BM25Index.build(documents, ids=ids, k1=0.9, b=0.4)
    index.save(tmp_path / "an index")
    loaded = gnomon.BM25Index.load(tmp_path / "an index")
    loaded.verify()
    assert (len(loaded), loaded.k1, loaded.b, loaded.analyzer) == (4, 0.9, 0.4, None)
    for query in (["a"], ["b", "a"], ["\udcff风"], ["zzz"], []):
        ours, theirs = index.search(query, level=level), loaded.search(query, level=level)
        assert list(ours.ids) == list(theirs.ids)
        assert ours.scores.tolist() == theirs.scores.tolist()
    expected = range(4) if ids is None else ids
    assert set(loaded.search(["a"]).ids) == {expected[0], expected[3]}


def test_an_empty_index_answers(tmp_path: Path) -> None:
    for documents in ([], [[], []], ["", "?!"]):
        index = gnomon.BM25Index.build(documents)
        index.save(tmp_path / f"empty{len(documents)}{index.analyzer is None}")
        loaded = gnomon.BM25Index.load(tmp_path / f"empty{len(documents)}{index.analyzer is None}")
        loaded.verify()
        assert loaded.search(["a"]).ids.tolist() == []
        assert loaded.scores(["a"]).tolist() == [0.0] * len(documents)
        assert loaded.search_many([]) == []


def test_saving_over_an_index_replaces_it_and_keeps_readers(tmp_path: Path) -> None:
    gnomon.BM25Index.build([["old"]]).save(tmp_path / "index")
    reader = gnomon.BM25Index.load(tmp_path / "index")
    gnomon.BM25Index.build([["new"], ["new"]]).save(tmp_path / "index")
    assert len(reader.search(["old"]).ids) == 1
    assert len(gnomon.BM25Index.load(tmp_path / "index").search(["new"]).ids) == 2


def test_concurrent_searches_agree(tmp_path: Path) -> None:
    documents = zipf_corpus(3000)
    gnomon.BM25Index.build(documents).save(tmp_path / "index")
    index = gnomon.BM25Index.load(tmp_path / "index")  # terms are checked by whoever comes first
    query = ["w1", "w2", "w5", "w77"]
    expected = reference.search(query, documents, 20)
    results: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda: results.extend(pairs(index.search(query, 20)) for _ in range(20))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 80


def test_tokens_that_change_their_list_while_it_is_read() -> None:
    class Token:
        def __init__(self, document: list[Any]) -> None:
            self.document = document

        def __hash__(self) -> int:
            self.document.clear()
            return 1

    document: list[Any] = []
    document += [Token(document), *["a"] * 1000]
    assert gnomon.bm25_scores(["a"], [document]) == [0.0]


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: gnomon.BM25Index.build("one text"), TypeError, "documents is one text"),
        (lambda: gnomon.BM25Index.build([1, 2]), TypeError, r"documents\[0\] is a int"),
        (lambda: gnomon.BM25Index.build([["a"], "b"]), TypeError, r"documents\[1\] is a str"),
        (lambda: gnomon.BM25Index.build(["a", ["b"]]), TypeError, r"documents\[1\] is a list"),
        (lambda: gnomon.BM25Index.build([["a", 3]]), TypeError, r"documents\[0\]\[1\] is a int"),
        (lambda: gnomon.BM25Index.build([["a"], None]), TypeError, r"documents\[1\] is a NoneType"),
        (lambda: gnomon.BM25Index.build([[3], ["a"]]), TypeError, r"documents\[1\]"),
        (lambda: gnomon.BM25Index.build([[3, -1]]), ValueError, r"documents\[0\] holds a token id"),
        (lambda: gnomon.BM25Index.build([[2**32]]), ValueError, r"documents\[0\] holds a token id"),
        (lambda: gnomon.BM25Index.build([["a"]], ids=[1, 2]), ValueError, "ids has 2 entries"),
        (
            lambda: gnomon.BM25Index.build([["a"]] * 2, ids=["x", "x"]),
            ValueError,
            r"ids\[1\] repeats",
        ),
        (
            lambda: gnomon.BM25Index.build([["a"]] * 2, ids=["x", 1]),
            TypeError,
            r"ids\[1\] is a int",
        ),
        (lambda: gnomon.BM25Index.build([["a"]], ids=[2**63]), ValueError, "64 bits"),
        (lambda: gnomon.BM25Index.build([["a"]], ids="x"), TypeError, "ids is one text"),
        (lambda: gnomon.BM25Index.build([["a"]], ids=[True]), TypeError, "bool"),
        (lambda: gnomon.BM25Index.build([["a"]], k1=-1), ValueError, "k1 must lie"),
        (lambda: gnomon.BM25Index.build([["a"]], k1=float("nan")), ValueError, "k1 must lie"),
        (lambda: gnomon.BM25Index.build([["a"]], b=1.5), ValueError, "b must lie"),
        (lambda: gnomon.BM25Index.build(["a"], analyzer="nope"), ValueError, "nope"),
        (lambda: gnomon.bm25_scores("apple", [["apple"]]), TypeError, "query is a str"),
        (lambda: gnomon.bm25_scores(["apple"], ["apple"]), TypeError, r"documents\[0\] is a str"),
        (lambda: gnomon.bm25_scores(["a"], [["a"]], b=-0.1), ValueError, "b must lie"),
        (lambda: gnomon.bm25_scores(["a"], [["a", []]]), TypeError, "unhashable"),
        (
            lambda: gnomon.BM25Index.build((np.array([1, 2]), np.array([0, 3]))),
            ValueError,
            "offsets must start at 0 and end at",
        ),
        (
            lambda: gnomon.BM25Index.build((np.array([1, 2]), np.array([0, 2, 1, 2]))),
            ValueError,
            r"offsets must not fall",
        ),
    ],
)
def test_bad_input_names_what_is_wrong(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("query", "k", "error", "message"),
    [
        ("a text", 3, TypeError, "without an analyzer"),
        (b"bytes", 3, TypeError, "bytes"),
        (["a", 1], 3, TypeError, r"query\[1\] is a int"),
        (None, 3, TypeError, r"query"),
        (["a"], -1, ValueError, "k must be at least 0, got -1"),
        (["a"], 1.5, TypeError, "k must be a whole number"),
        (["a"], True, TypeError, "k must be a whole number"),
    ],
)
def test_bad_queries(query: Any, k: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gnomon.BM25Index.build([["a"]]).search(query, k)


def test_loading_another_kind_says_so(tmp_path: Path) -> None:
    gnomon.DenseIndex.build([[1.0]]).save(tmp_path / "dense")
    with pytest.raises((ValueError, KeyError, gnomon.CorruptIndex), match="bm25"):
        gnomon.BM25Index.load(tmp_path / "dense")
    with pytest.raises(FileNotFoundError):
        gnomon.BM25Index.load(tmp_path / "nothing")


def test_tokens_whose_comparison_empties_the_documents() -> None:
    """The core once went on reading the list that a token's own __eq__ had cleared."""
    documents = [["a", "b", "c"] * 5 for _ in range(3)]

    class Evil:
        def __hash__(self) -> int:
            return hash("a")

        def __eq__(self, other: object) -> bool:
            for document in documents:
                document.clear()
            return False

    assert gnomon.bm25_scores([Evil()], documents) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "documents",
    [
        [b"some bytes"],
        [bytearray(b"more"), b"bytes"],
        [{"text": "a record"}],
        [["a"], {"text": "a record"}],
        [["a"], b"bytes"],
        [[1], b"bytes"],
        [[1], {1: 2}],
    ],
)
def test_bytes_and_records_are_no_documents(documents: list[Any]) -> None:
    """They iterate: the bytes passed for token ids, the keys of a record for its text."""
    place = len(documents) - 1 if isinstance(documents[0], list) else 0
    with pytest.raises(TypeError, match=rf"documents\[{place}\] is a (bytes|bytearray|dict)"):
        gnomon.BM25Index.build(documents)


@pytest.mark.parametrize("ids", [np.array(3), np.zeros((2, 1), dtype=np.int64)])
def test_ids_are_a_flat_list(ids: Any) -> None:
    with pytest.raises(TypeError, match="ids must be a flat list"):
        gnomon.BM25Index.build(["one", "two"], ids=ids)


@pytest.mark.parametrize("b", [0.75, 1])
def test_k1_beyond_float64_is_refused(b: float) -> None:
    with pytest.raises(ValueError, match="k1"):
        gnomon.BM25Index.build([["a"]], k1=10**400, b=b)
    with pytest.raises(ValueError, match="k1"):
        gnomon.bm25_scores(["a"], [["a"]], k1=10**400, b=b)


def test_a_thread_count_beyond_64_bits_is_a_plain_error() -> None:
    with pytest.raises(ValueError, match="threads must be at most"):
        gnomon.BM25Index.build(["a"]).search_many(["a"], threads=2**70)
