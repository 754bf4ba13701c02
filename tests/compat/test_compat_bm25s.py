"""gnomon.compat.bm25s against bm25s itself, where it is installed, and by hand."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gnomon.compat import bm25s as ours
from hypothesis import given, settings
from hypothesis import strategies as st

METHODS = ["robertson", "lucene", "atire", "bm25l", "bm25+"]
QUIET = {"show_progress": False}
TOKENS = st.sampled_from(["a", "b", "c", "d", "e", "f", "日"])
CORPUS = st.lists(st.lists(TOKENS, max_size=9), min_size=1, max_size=12).filter(any)
TEXTS = st.lists(st.text("aAbB éİßΣ_1.日the\n", max_size=30), max_size=8)
ARRAYS = ("data", "indices", "indptr")


@pytest.fixture(scope="module")
def peer() -> Any:
    if int(np.__version__.split(".")[0]) < 2:
        pytest.skip("bm25s' own bits are those of NumPy 2")
    return pytest.importorskip("bm25s", reason="bm25s is not installed")


def with_ids(corpus: list[list[str]]) -> tuple[list[list[int]], dict[str, int]]:
    """Ids by first appearance: bm25s' own for strings depend on the hash seed."""
    vocab: dict[str, int] = {}
    return [[vocab.setdefault(t, len(vocab)) for t in d] for d in corpus], vocab


def both(peer: Any, corpus: Any, **options: Any) -> tuple[Any, Any]:
    theirs, mine = peer.BM25(**options), ours.BM25(**options)
    theirs.index(with_ids(corpus), **QUIET)
    mine.index(with_ids(corpus), **QUIET)
    return theirs, mine


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", METHODS)
@given(
    corpus=CORPUS,
    query=st.lists(TOKENS, min_size=1, max_size=9),
    k1=st.floats(0.1, 5),
    b=st.floats(0, 1),
    delta=st.floats(0, 3),
    idf_method=st.sampled_from([None, *METHODS]),
)
@settings(max_examples=40)
def test_arrays_and_scores_are_the_peers_bits(
    peer: Any, method: str, dtype: str, corpus: Any, query: Any, **options: Any
) -> None:
    theirs, mine = both(peer, corpus, method=method, dtype=dtype, **options)
    assert mine.vocab_dict == theirs.vocab_dict
    assert mine.unique_token_ids_set == theirs.unique_token_ids_set
    assert mine.scores["num_docs"] == theirs.scores["num_docs"]
    for name in ARRAYS:
        assert mine.scores[name].dtype == theirs.scores[name].dtype
        assert mine.scores[name].tolist() == theirs.scores[name].tolist()
    if method in ("bm25l", "bm25+"):
        assert mine.nonoccurrence_array.tolist() == theirs.nonoccurrence_array.tolist()
        assert mine.nonoccurrence_array.dtype == theirs.nonoccurrence_array.dtype
    else:
        assert mine.nonoccurrence_array is None
    expected = theirs.get_scores(query)
    scores = mine.get_scores(query)
    assert (scores.dtype, scores.tolist()) == (expected.dtype, expected.tolist())
    mask = np.arange(len(corpus)) % 3
    masked = theirs.get_scores(query, weight_mask=mask)
    assert mine.get_scores(query, weight_mask=mask).tolist() == masked.tolist()


@given(corpus=CORPUS, queries=st.lists(st.lists(TOKENS, max_size=4), min_size=1, max_size=4))
@settings(max_examples=60)
def test_retrieve_gives_the_peers_scores_and_a_stated_order(
    peer: Any, corpus: Any, queries: Any
) -> None:
    theirs, mine = both(peer, corpus)
    k = (len(corpus) + 1) // 2
    documents, scores = mine.retrieve(queries, k=k, **QUIET)
    expected = theirs.retrieve(queries, k=k, **QUIET)
    assert (documents.shape, documents.dtype) == (expected.documents.shape, np.int64)
    assert documents.dtype == expected.documents.dtype
    assert (scores.dtype, scores.tolist()) == (expected.scores.dtype, expected.scores.tolist())
    for row, query in enumerate(queries):
        every = mine.get_scores(query).tolist()
        order = sorted(range(len(corpus)), key=lambda place: (-every[place], place))
        assert documents[row].tolist() == order[:k]


@pytest.mark.parametrize("method", METHODS)
@given(
    corpus=CORPUS,
    queries=st.lists(st.lists(TOKENS, max_size=6), min_size=1, max_size=5),
    k=st.integers(0, 12),
)
@settings(max_examples=60)
def test_the_columns_alone_give_what_every_score_gives(
    method: str, corpus: Any, queries: Any, k: int
) -> None:
    """One object reads several queries: nothing of one may be left for the next."""
    index = ours.BM25(method=method)
    index.index(with_ids(corpus), **QUIET)
    k = min(k, len(corpus))
    found = index.retrieve(queries, k=k)
    for query, documents, scores in zip(queries, *found, strict=True):
        expected = ours.selection.topk(index.get_scores(query), k)
        assert scores.tolist() == expected[0].tolist()
        assert documents.tolist() == expected[1].tolist()


def test_kinds_of_queries_and_corpora(peer: Any) -> None:
    texts = ["red apple pie", "green pear and apple", "a plum, a red plum"]
    theirs, mine = peer.BM25(), ours.BM25()
    theirs.index(peer.tokenize(texts, **QUIET), **QUIET)
    mine.index(ours.tokenize(texts), **QUIET)
    tokens = peer.tokenize(["red pie", "zebra", "plum"], **QUIET)
    ids = [[0, 1, 99], [99], [0]]
    lists = [["red"], ["zzz"], ["plum", "plum"]]
    for query in (tokens, tuple(tokens), tuple(lists), ids, lists):
        expected = theirs.retrieve(query, k=3, **QUIET) if query is not ids else None
        found = mine.retrieve(query, k=3, **QUIET)
        assert found.scores.shape == (3, 3)
        if expected is not None:
            assert found.scores.tolist() == expected.scores.tolist()
    assert mine.retrieve(ids, k=3).scores[1].tolist() == [0.0, 0.0, 0.0]  # bm25s: ValueError
    for corpus in (texts, [{"n": n} for n in range(3)], np.array(["x", "y", "z"]), range(7, 10)):
        expected = theirs.retrieve([["plum"]], corpus=corpus, k=1, return_as="documents", **QUIET)
        found = mine.retrieve([["plum"]], corpus=corpus, k=1, return_as="documents")
        assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
    same_length = mine.retrieve([["plum"]], corpus=[[1, 2], [3, 4], [5, 6]], k=2)
    assert same_length.documents[0, 0] == [5, 6]
    numba = ours.BM25(backend="numba")
    numba.index([["a"], ["b"]])
    assert numba.retrieve([["b"]], k=1).documents.dtype == np.int32


def test_lists_of_token_ids(peer: Any) -> None:
    for corpus in ([[0, 1, 1], [2]], [[1, 2], [2, 3, 3]]):
        theirs, mine = peer.BM25(), ours.BM25()
        theirs.index(corpus, **QUIET)
        mine.index(corpus)
        assert mine.vocab_dict == theirs.vocab_dict
        for name in ARRAYS:
            assert mine.scores[name].tolist() == theirs.scores[name].tolist()
        query = [[2, 1]]
        expected = theirs.retrieve(query, k=2, **QUIET).scores.tolist()
        assert mine.retrieve(query, k=2).scores.tolist() == expected
    gaps = ours.BM25()
    gaps.index([[5, 9], [9]])
    assert gaps.retrieve([[5]], k=1).documents.tolist() == [[0]]
    with pytest.raises(ValueError, match="does not contain any tokens"):
        gaps.retrieve([[77]], k=1)


def test_masked_documents_come_back_with_zero() -> None:
    index = ours.BM25()
    index.index([["a"], ["a", "b"], ["a", "c"]])
    found = index.retrieve([["a"]], k=3, weight_mask=np.array([0, 1, np.nan]))
    assert found.documents.tolist() == [[1, 0, 2]]
    assert found.scores[0, 1] == 0.0
    assert np.isnan(found.scores[0, 2])


@pytest.mark.parametrize("method", METHODS)
def test_folders_go_both_ways(peer: Any, method: str, tmp_path: Path) -> None:
    texts = ["red apple", "green pear", "日 red plum plum", "é"]
    corpus = [text.split() for text in texts]
    theirs, mine = both(peer, corpus, method=method)
    theirs.save(tmp_path / "theirs", corpus=texts, **QUIET)
    mine.save(tmp_path / "mine", corpus=texts)
    names = {path.name for path in (tmp_path / "theirs").iterdir()}
    assert {path.name for path in (tmp_path / "mine").iterdir()} == names
    for mmap in (False, True):
        read = ours.BM25.load(tmp_path / "theirs", load_corpus=True, mmap=mmap)
        read_by_peer = peer.BM25.load(tmp_path / "mine", load_corpus=True, mmap=mmap, **QUIET)
        for query in (["red"], ["plum", "pear", "red"], ["zzz"]):
            expected = theirs.get_scores(query).tolist()
            assert read.get_scores(query).tolist() == expected
            assert read_by_peer.get_scores(query).tolist() == expected
        a = read.retrieve([["plum"]], k=1)
        b = read_by_peer.retrieve([["plum"]], k=1, **QUIET)
        assert a.documents.tolist() == b.documents.tolist() == [[{"id": 2, "text": texts[2]}]]
    for name in ("params.index.json", "vocab.index.json"):
        mine_text, their_text = (tmp_path / who / name for who in ("mine", "theirs"))
        assert json.loads(mine_text.read_text("utf-8")) == json.loads(their_text.read_text("utf-8"))
    lines = (tmp_path / "mine" / "corpus.jsonl").read_bytes().splitlines(keepends=True)
    starts = json.loads((tmp_path / "mine" / "corpus.mmindex.json").read_text("utf-8"))
    assert starts == [sum(map(len, lines[:n])) for n in range(4)]
    assert ours.BM25.load(tmp_path / "mine", k1=9.0, load_vocab=False).k1 == 9.0


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    index = ours.BM25()
    index.index([["a", "b"], ["b"]])
    index.save(tmp_path)
    for name, array in {
        "indices.csc.index.npy": np.array([0, 0, 7], np.int32),
        "indptr.csc.index.npy": np.array([0, 9]),
        "data.csc.index.npy": np.array([1.0], np.float32),
    }.items():
        good = (tmp_path / name).read_bytes()
        np.save(tmp_path / name, array)
        with pytest.raises(ValueError, match=str(tmp_path)):
            ours.BM25.load(tmp_path)
        (tmp_path / name).write_bytes(good)
    np.save(tmp_path / "data.csc.index.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        ours.BM25.load(tmp_path, allow_pickle=True)
    with pytest.raises(FileNotFoundError):
        ours.BM25.load(tmp_path / "none")


def test_a_corpus_that_json_cannot_hold(tmp_path: Path) -> None:
    index = ours.BM25(corpus=[{"n": 1}, {"bad": {1, 2}}, 5])
    index.index([["a"], ["b"], ["c"]])
    index.save(tmp_path)
    assert ours.BM25.load(tmp_path, load_corpus=True).corpus == [{"n": 1}]
    with pytest.raises(TypeError, match="Document at index 1 could not be serialized"):
        index.save(tmp_path, raise_on_serialization_error=True)


def test_scores_can_be_replaced_and_are_not_written_to_behind_the_search() -> None:
    index = ours.BM25()
    index.index([["a", "b"], ["b"], ["c"]])
    other = ours.BM25()
    other.index([["a"], ["a", "b"], ["b", "b"]])
    assert index.retrieve([["b"]], k=1).documents.tolist() == [[1]]
    with pytest.raises(ValueError, match="read-only"):
        index.scores["data"][0] = 9.0
    index.scores = other.scores
    assert index.retrieve([["b"]], k=1).documents.tolist() == [[2]]
    index.scores = {**other.scores, "data": other.scores["data"] * np.float32([1, 1, 9, 1])}
    assert index.retrieve([["b"]], k=1).documents.tolist() == [[1]]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_scores_that_only_numpy_can_sum(dtype: str) -> None:
    index = ours.BM25(dtype=dtype)
    index.index([["a", "b"], ["b"], ["c"], ["a"]])
    index.scores["data"] = index.scores["data"].copy()
    index.scores["data"][0] = np.inf
    found = index.retrieve([["a"], ["b", "c"]], k=4)
    for row, query in enumerate((["a"], ["b", "c"])):
        every = index.get_scores(query)
        assert found.documents[row].tolist() == np.argsort(-every, kind="stable").tolist()
        assert found.scores[row].tolist() == np.sort(every)[::-1].tolist()


def test_without_an_index(tmp_path: Path) -> None:
    index = ours.BM25()
    for use in (
        lambda: index.retrieve([["a"]], k=1),
        lambda: index.get_scores(["a"]),
        lambda: index.save(tmp_path),
    ):
        with pytest.raises(AttributeError, match=r"call index\(\) or load\(\)"):  # as bm25s
            use()


def test_errors() -> None:
    index = ours.BM25()
    index.index([["a"], ["b"]])
    with pytest.raises(ValueError, match="k of 9 is larger than the number of available scores, w"):
        index.retrieve([["a"]], k=9)
    for query in ("a b", ["a b"]):
        with pytest.raises(ValueError, match=r"The query_tokens must be a list of tokens\."):
            index.retrieve(query, k=1)
    for mask in ([1, 1], np.ones((2, 1)), np.ones(3)):
        with pytest.raises(ValueError, match="weight_mask must be"):
            index.retrieve([["a"]], k=1, weight_mask=mask)
    with pytest.raises(ValueError, match="return_as"):
        index.retrieve([["a"]], k=1, return_as="list")
    with pytest.raises(ValueError, match="non-negative"):
        index.retrieve([["a"]], k=-1)
    with pytest.raises(TypeError, match="k must be a whole number"):
        index.retrieve([["a"]], k=1.0)
    for token, message in ((7, "maximum token ID in the query \\(7\\)"), (-2, "token id -2")):
        with pytest.raises(ValueError, match=message):
            index.get_scores([token])
    tuples: dict[str, Any] = {
        "tuple of two elements": (["a"], ["b"], "c"),
        "first element of the tuple": (3, {"a": 0}),
        "second element of the tuple": ([[0]], "vocab"),
    }
    for message, queries in tuples.items():
        with pytest.raises(ValueError, match=message):
            index.retrieve(queries, k=1)
    with pytest.raises(ValueError, match="no token at all"):
        ours.BM25().index([])
    with pytest.raises(ValueError, match="Invalid method"):
        ours.BM25(method="bm42").index([["a"]])
    with pytest.raises(ValueError, match="document 1 holds the token id 5"):
        ours.BM25().index(([[0], [5]], {"a": 0}))
    assert index.retrieve([], k=1).scores.shape == (0, 1)
    assert index.retrieve([["a"]], k=0).documents.shape == (1, 0)
    assert index.get_scores([]).tolist() == [0.0, 0.0]


class Upper:
    """A stemmer by the two names that bm25s knows."""

    def stemWord(self, word: str) -> str:  # noqa: N802
        return word[:2]

    def stemWords(self, words: list[str]) -> list[str]:  # noqa: N802
        return [word[:2] for word in words]


@given(
    texts=TEXTS,
    lower=st.booleans(),
    allow_empty=st.booleans(),
    stops=st.sampled_from(["en", None, ["ab"], "de"]),
)
def test_tokenize_gives_the_peers_ids_and_strings(
    peer: Any, texts: Any, lower: bool, allow_empty: bool, stops: Any
) -> None:
    options = {"lower": lower, "allow_empty": allow_empty, "stopwords": stops} | QUIET
    expected = peer.tokenize(texts, **options)
    found = ours.tokenize(texts, **options)
    assert (found.ids, found.vocab) == (expected.ids, expected.vocab)
    for stemmer in (Upper(), None):
        strings = peer.tokenize(texts, return_ids=False, stemmer=stemmer, **options)
        assert ours.tokenize(texts, return_ids=False, stemmer=stemmer, **options) == strings


@given(
    first=TEXTS,
    then=TEXTS,
    update=st.sampled_from([True, False, "if_empty", "never"]),
    stemmed=st.booleans(),
    allow_empty=st.booleans(),
)
@settings(max_examples=60)
def test_tokenizer_is_the_peers(
    peer: Any, first: Any, then: Any, update: Any, stemmed: bool, allow_empty: bool
) -> None:
    stemmer = Upper() if stemmed else None
    mine = ours.tokenization.Tokenizer(stemmer=stemmer)
    theirs = peer.tokenization.Tokenizer(stemmer=stemmer)
    for texts, how in ((first, "if_empty"), (then, update)):
        options = {"update_vocab": how, "allow_empty": allow_empty} | QUIET
        assert mine.tokenize(texts, **options) == theirs.tokenize(texts, **options)
        for name in ("word_to_stem", "stem_to_sid", "word_to_id"):
            assert getattr(mine, name) == getattr(theirs, name)
    for return_as in ("string", "tuple"):
        options = {"update_vocab": "never", "return_as": return_as} | QUIET
        assert mine.tokenize(then, **options) == theirs.tokenize(then, **options)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_vocab(folder)
        theirs.save_stopwords(folder)
        again = ours.tokenization.Tokenizer(stemmer=stemmer)
        again.load_vocab(folder)
        again.load_stopwords(folder)
        assert again.word_to_id == theirs.word_to_id
        assert set(again.stopwords or ()) == set(theirs.stopwords)
        again.save_vocab(folder)
        theirs.load_vocab(folder)
        assert theirs.word_to_id == again.word_to_id


def test_stop_words_by_name(peer: Any) -> None:
    for name in ("english", "en", True):
        mine = ours.tokenization.Tokenizer(stopwords=name).stopwords
        assert set(mine or ()) == set(peer.tokenization.Tokenizer(stopwords=name).stopwords)
    german = ours.tokenization.Tokenizer(stopwords="german").stopwords
    assert german == peer.tokenization.Tokenizer(stopwords="de").stopwords
    with pytest.raises(ValueError, match="'klingon' is not recognized"):
        ours.tokenize("x", stopwords="klingon")


def test_tokenizer_errors() -> None:
    tokenizer = ours.tokenization.Tokenizer(splitter=str.split)
    assert list(tokenizer.tokenize(["a b"], return_as="stream")) == [[1]]
    for options in ({"return_as": "list"}, {"update_vocab": "always"}):
        with pytest.raises(ValueError, match="must be either"):
            tokenizer.tokenize(["a"], **options)
    for options in ({"splitter": 3}, {"stemmer": 3}):
        with pytest.raises(ValueError, match="must be"):
            ours.tokenization.Tokenizer(**options)


def test_the_token_id_case(shared: Path) -> None:
    """A recorded complaint: an id off by one lost one of two equal documents."""
    lines = (shared / "cases" / "retrieval_cases.jsonl").read_text("utf-8").splitlines()
    case = next(each for each in map(json.loads, lines) if each["id"] == "bm25-07")
    index = ours.BM25()
    index.index(ours.tokenize(case["input"]["docs"]))
    found = index.retrieve(ours.tokenize([case["input"]["query"]]), k=2)
    assert found.documents[0].tolist() == case["right"]["ranking"]
    assert found.scores[0, 0] == found.scores[0, 1] > 0
