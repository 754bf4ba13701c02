"""Odd calls of a BM25 index: each is answered, or refused by a message that names what is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import BM25Index
from gnomon.bm25_query import And, AnyOf, Fuzzy, Not, Or, Phrase, Prefix, Query, Term

TEXTS = ["a red apple", "green apples and pears", "a pear and a red pea", "red red wine"]


def test_an_endless_iterator_of_ids_ends() -> None:
    with pytest.raises(ValueError, match="ids has 3 entries but there are 2 documents"):
        BM25Index.build(["a", "b"], ids=itertools.count())
    index = BM25Index.build(["a"], ids=[1])
    with pytest.raises(ValueError, match="ids has 2 entries but there are 1 documents"):
        index.add(["b"], ids=itertools.count(5))
    assert index.ids.tolist() == [1]


@pytest.mark.parametrize("ids", [None, [5, 7, 9, 11]])
@pytest.mark.parametrize("id_", ["0", b"0", 1.0, True, None, [1], ("x",)])
def test_an_id_of_another_kind_is_not_taken_for_a_number(ids: Any, id_: Any) -> None:
    index = BM25Index.build(TEXTS, ids=ids)
    for ask in (index.explain, lambda query, id_: index.score_of(query, [id_])):
        with pytest.raises(TypeError, match=r"ids\[0\] is a \w+; the ids of this index are int"):
            ask("red", id_)


def test_an_id_beyond_64_bits_is_in_no_index() -> None:
    index = BM25Index.build(TEXTS)
    for id_ in (2**63, -(2**63) - 1, -1, 4):
        with pytest.raises(KeyError, match="there is no document"):
            index.explain("red", id_)
    with pytest.raises(TypeError, match=r"ids\[0\] is a int; the ids of this index are str"):
        BM25Index.build(TEXTS, ids=list("abcd")).score_of("red", [1])
    with pytest.raises(TypeError, match="ids is one text"):
        BM25Index.build(TEXTS, ids=list("abcd")).score_of("red", "ab")


@pytest.mark.parametrize("value", ["1.2", "x", [1], True, b"1"])
@pytest.mark.parametrize("name", ["k1", "b", "delta"])
def test_parameters_are_numbers(name: str, value: Any) -> None:
    index = BM25Index.build(TEXTS)
    for ask in (
        lambda **given: index.search("red", **given),
        lambda **given: BM25Index.build(TEXTS, **given),
    ):
        with pytest.raises(TypeError, match=f"{name} must be a number, got a"):
            ask(**{name: value})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (5, "query is a int; pass a text"),
        (None, "query is a NoneType; pass a text"),
        (["red", 1], r"query\[1\] is a int; tokens are str"),
        ({"red": "2"}, r"the weight of query\[0\] must be a number, got a str"),
        ([("red", 1.0), ("a", None)], r"the weight of query\[1\] must be a number"),
    ],
)
def test_a_query_of_another_kind_is_named(query: Any, message: str) -> None:
    index = BM25Index.build(TEXTS)
    for ask in (index.search, index.scores, lambda query: index.explain(query, 0)):
        with pytest.raises(TypeError, match=message):
            ask(query)


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ([1, "2"], TypeError, r"query\[1\] must be a whole number, got a str"),
        ([True], TypeError, r"query\[0\] must be a whole number, got a bool"),
        ([1.0], TypeError, r"query\[0\] must be a whole number, got a float"),
        ([0, -1], ValueError, r"query\[1\] must be at least 0, got -1"),
        ([-(2**70)], ValueError, r"query\[0\] must be at least 0, got a number below"),
    ],
)
def test_a_token_id_is_a_whole_number(query: Any, error: type[Exception], message: str) -> None:
    index = BM25Index.build([[0, 1], [1]])
    with pytest.raises(error, match=message):
        index.search(query)
    with pytest.raises(error, match=message.replace("query", r"queries\[1\]", 1)):
        index.search_many([[0], query])


def test_token_ids_of_any_integer_type() -> None:
    index = BM25Index.build([[0, 1], [1]])
    expected = index.search([1]).ids.tolist()
    for query in ([np.int64(1)], np.array([1], dtype=np.uint8), (1,), iter([1])):
        assert index.search(query).ids.tolist() == expected
    assert index.search([2**70, 2**40]).ids.tolist() == []  # in no index


@pytest.mark.parametrize("size", [3, 30_000])
def test_threads_are_checked_whatever_the_index(size: int) -> None:
    index = BM25Index.build([[0, 1]] * size)
    for ask in (index.search, lambda query, **given: index.search_many([query], **given)):
        with pytest.raises(ValueError, match="threads must be at most 1024, got 1000000000"):
            ask([0], threads=10**9)
        with pytest.raises(TypeError, match="threads must be a whole number, got a bool"):
            ask([0], threads=True)
        with pytest.raises(ValueError, match="threads must be at least 1, got 0"):
            ask([0], threads=0)


def test_a_tiny_weight_is_not_shown_as_zero() -> None:
    with pytest.raises(ValueError, match=r"got 1e-200$"):
        BM25Index.build(TEXTS).search({"red": 1e-200})


def _stops() -> Iterator[str]:
    yield "new words"
    yield "more words"
    raise RuntimeError("the source is gone")


_START: dict[str, Callable[[], BM25Index]] = {
    "texts": lambda: BM25Index.build(TEXTS[:2], ids=["x", "y"], columns={"n": [1, 2]}),
    "no tokens": lambda: BM25Index.build([[], []], ids=["x", "y"]),
    "nothing": lambda: BM25Index.build([]),
    "fields": lambda: BM25Index.build([{"t": "a"}], ids=["x"], fields=["t", "b"]),
    "numbered": lambda: BM25Index.build(TEXTS, positions=True),
}
_EDITS: dict[str, Callable[[BM25Index], Any]] = {
    "a source that stops": lambda index: index.add(_stops(), ids=["p", "q"]),
    "an update that stops": lambda index: index.update(_stops(), ids=["x", "y"]),
    "too few ids": lambda index: index.add(["new", "words"], ids=["q"]),
    "an id that is there": lambda index: index.add([["new"], ["words"]], ids=["q", "q"]),
    "token ids, too few ids": lambda index: index.add([[1], [2]], ids=["q"]),
    "token ids, update": lambda index: index.update([[1], [2]], ids=["x", "nowhere"]),
    "texts, update": lambda index: index.update(["v", "w"], ids=["x", "nowhere"]),
    "values of another kind": lambda index: index.add(["new"], ids=["q"], columns={"n": ["s"] * 2}),
    "a known and an unknown id": lambda index: index.delete(["x", "nowhere"]),
    "no documents": lambda index: index.add(None),
}


def _shown(index: BM25Index) -> tuple[Any, ...]:
    stats = [index.term_stats(1 if not index._state.core.has_vocabulary else "a")]
    return (repr(index.ids), index.analyzer, index.n_terms, index.n_tokens, index.n_segments, stats)


@pytest.mark.parametrize("start", _START)
@pytest.mark.parametrize("edit", _EDITS)
def test_an_edit_that_fails_changes_nothing(start: str, edit: str, tmp_path: Path) -> None:
    index = _START[start]()
    index.save(tmp_path / "index")
    with BM25Index.open(tmp_path / "index", mode="w") as writer:
        for changed in (index, writer):
            before, state = _shown(changed), changed._state
            with pytest.raises((TypeError, ValueError, KeyError, RuntimeError)):
                _EDITS[edit](changed)
            assert _shown(changed) == before
            assert changed._state is state
        generation = writer.generation
        assert writer.commit() == generation


def test_rollback_forgets_the_analyzer_of_what_it_drops(tmp_path: Path) -> None:
    BM25Index.build([]).save(tmp_path / "index")
    with BM25Index.open(tmp_path / "index", mode="w") as writer:
        known = writer.analyzer
        writer.add(TEXTS)
        assert len(writer.search("red")[0]) == 3
        writer.rollback()
        assert (len(writer), writer.analyzer) == (0, known)


def test_a_refresh_that_fails_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    BM25Index.build(TEXTS).save(folder)
    reader = BM25Index.open(folder)
    with BM25Index.open(folder, mode="w") as writer:
        writer.add(["a red plum"])
    newest = max(folder.rglob("*"), key=lambda path: (path.is_file(), path.stat().st_mtime_ns))
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for path in files:
        path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(gnomon.CorruptIndex):
            reader.refresh()
        assert len(reader) == 4
    for path, content in files.items():
        path.write_bytes(content)
    assert newest in files
    assert reader.refresh()
    assert len(reader) == 5


@pytest.mark.parametrize(
    "query",
    [
        Term("red", boost=2.5),
        Or("red", "pear", "nowhere", "red"),
        And("a", Not("wine")),
        Or(Phrase("red apple"), Prefix("pea", boost=0.5), Fuzzy("aple")),
        AnyOf("red", Prefix("gre")),
    ],
    ids=str,
)
@pytest.mark.parametrize("formula", ["default", "bm25l", "bm25+"])
def test_parts_of_a_query_object_add_up_to_its_score(query: Query, formula: str) -> None:
    index = BM25Index.build(TEXTS, positions=True, formula=formula)
    index.update(["the red pear tree"], ids=[1], missing="error")
    hits = index.search(query)
    assert len(hits.ids)
    assert index.score_of(query, hits.ids).tolist() == hits.scores.tolist()
    for id_, score, why in zip(
        hits.ids.tolist(), hits.scores.tolist(), index.explain_many(query, hits.ids), strict=True
    ):
        total = 0.0
        for part in why.parts:
            total = total + part.score
        assert (why.id, why.score, total + why.constant) == (id_, score, score)


def test_parts_of_a_query_object_have_names() -> None:
    index = BM25Index.build(TEXTS, positions=True)
    why = index.explain(Or(Prefix("pea"), Fuzzy("aple"), AnyOf("wine", "green"), "red"), 0)
    assert [part.token for part in why.parts] == ["pea*", "aple~1", "wine | green", "red"]
    assert why.matched == ["aple~1", "red"]
    ids = BM25Index.build([[1, 2], [2, 3]])
    assert ids.explain(Or(Term(2), Term(3)), 0).matched == [2]


def test_ten_thousand_terms_and_more_than_n() -> None:
    index = BM25Index.build(TEXTS)
    tokens = [f"t{i}" for i in range(10_000)] + ["red"] * 3
    once = index.search(["red"] * 3, k=10**30)
    many = index.search(tokens, k=10**30)
    assert many.ids.tolist() == once.ids.tolist()
    assert many.scores.tolist() == once.scores.tolist()


def test_documents_that_are_a_mapping_are_not_its_keys() -> None:
    with pytest.raises(TypeError, match="documents is a mapping; pass its values"):
        gnomon.BM25Index.build({"doc-1": "red apple", "doc-2": "pie"})


def test_a_formula_is_a_name() -> None:
    index = gnomon.BM25Index.build(["red apple"])
    with pytest.raises(TypeError, match="formula must be a name, got a int"):
        index.search("red", formula=5)
    with pytest.raises(TypeError, match="formula must be a name, got a list"):
        gnomon.BM25Index.build(["red apple"], formula=["default"])


def test_an_index_of_nothing_answers_a_text_with_nothing() -> None:
    """An empty corpus is no mistake, though nothing says yet whether tokens are texts."""
    index = gnomon.BM25Index.build([])
    assert index.search("red").ids.tolist() == []
    assert index.scores("red").tolist() == []
    index.add(["red apple"])
    assert index.search("red").ids.tolist() == [0]
