"""Query objects, filters and highlights on whole indexes: edits, merges, files, errors."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon.bm25_query import (
    All,
    And,
    AnyOf,
    Fuzzy,
    Match,
    Near,
    Not,
    Or,
    Phrase,
    Prefix,
    Query,
    Term,
    Together,
    Where,
)
from gnomon.reference import bm25_query as reference
from gnomon.reference import filters as reference_filters
from hypothesis import given, settings
from hypothesis import strategies as st
from query_cases import queries, tokens, tree

Row = dict[str, Any]


@st.composite
def rows(draw: st.DrawFn) -> Row:
    return {
        "tokens": draw(st.lists(tokens(), max_size=6)),
        "year": draw(st.none() | st.integers(0, 3)),
        "scope": draw(st.lists(st.sampled_from(["x", "y", "z"]), max_size=2, unique=True)),
    }


def conditions() -> st.SearchStrategy[Row]:
    return st.sampled_from(
        [
            {"year": {"$gte": 1}},
            {"year": {"$exists": False}},
            {"$scope": {"any_of": ["x"]}},
            {"$or": [{"year": 2}, {"$not": {"scope": "y"}}]},
            {"year": {"$in": []}},
        ]
    )


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Edits; documents get the numbers 0, 1, 2, ... as ids."""
    steps: list[tuple[str, Any]] = [("add", draw(st.lists(rows(), max_size=5)))]
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["add", "add", "delete", "merge"]))
        steps.append(
            (kind, draw(st.lists(rows(), max_size=4)) if kind == "add" else draw(st.integers(0, 9)))
        )
    return steps


def columns(given_rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in given_rows] for name in ("year", "scope")}


def replay(steps: list[tuple[str, Any]]) -> tuple[gnomon.BM25Index, dict[int, Row]]:
    first = steps[0][1]
    kinds = {"year": "integer", "scope": "keyword"}
    index = gnomon.BM25Index.build(
        [row["tokens"] for row in first],
        ids=range(len(first)),
        positions=True,
        columns=columns(first),
        column_kinds=kinds,
    )
    live = dict(enumerate(first))
    total = len(first)
    for kind, what in steps[1:]:
        if kind == "add":
            ids = list(range(total, total + len(what)))
            index.add([row["tokens"] for row in what], ids=ids, columns=columns(what))
            live |= dict(zip(ids, what, strict=True))
            total += len(what)
        elif kind == "delete" and live:
            gone = list(live)[what % len(live)]
            index.delete([gone])
            del live[gone]
        elif kind == "merge":
            index.merge()
    return index, live


def check(index: gnomon.BM25Index, live: dict[int, Row], query: Query, condition: Row) -> None:
    documents = [{"": row["tokens"]} for row in live.values()]
    right = reference.search(tree(query), documents, len(documents))
    ids = list(live)
    hits = index.search(query, k=1000)
    assert hits.ids.tolist() == [ids[position] for position, _ in right]
    assert hits.scores.tolist() == [score for _, score in right]
    kept = {id for id, row in live.items() if reference_filters.matches(condition, row, id)}
    filtered = [(ids[p], s) for p, s in right if ids[p] in kept]
    for k in (2, 1000):
        hits = index.search(query, k=k, filter=condition)
        assert [*zip(hits.ids.tolist(), hits.scores.tolist(), strict=True)] == filtered[:k]
    assert index.count(query, filter=condition) == len(filtered)
    assert index.matches(query, filter=condition).tolist() == sorted(id for id, _ in filtered)
    both = And(query, Where(gnomon.Filter.from_json(condition)))
    assert index.search(both, k=1000).ids.tolist() == [id for id, _ in filtered]


@settings(max_examples=100)
@given(histories(), queries(), conditions())
def test_an_index_of_any_history(
    steps: list[tuple[str, Any]], query: Query, condition: Row
) -> None:
    index, live = replay(steps)
    if not any(row["tokens"] for row in live.values()):
        return
    check(index, live, query, condition)
    with tempfile.TemporaryDirectory() as folder:
        index.save(folder + "/index")
        opened = gnomon.BM25Index.open(folder + "/index", mode="w")
        check(opened, live, query, condition)
        opened.add([["a", "ab"]], ids=[100], columns=[{"year": 2, "scope": "x"}])
        opened.commit()
        opened.merge()
        opened.verify()
        opened.close()
        live = live | {100: {"tokens": ["a", "ab"], "year": 2, "scope": ["x"]}}
        check(gnomon.BM25Index.open(folder + "/index"), live, query, condition)


@given(st.lists(tokens(), max_size=7), queries())
def test_highlights_are_the_occurrences(words: list[str], query: Query) -> None:
    index = gnomon.BM25Index.build([words], analyzer=gnomon.Analyzer.of(str.split), positions=True)
    found = index.match_positions(query, 0)
    assert [(each.first, each.last) for each in found] == occurrences(tree(query), words)


def occurrences(node: dict[str, Any], words: list[str]) -> list[tuple[int, int]]:
    """What match_positions promises, from all occurrences of each positive part."""
    found: set[tuple[int, int]] = set()
    for leaf in leaves(node):
        for choice in reference.occurrences(leaf, words):
            if leaf["kind"] == "phrase" and leaf["slop"] == 0:
                found.add((choice[0], choice[-1]))
                continue
            parts = leaf["parts"] if leaf["kind"] in ("phrase", "near") else [leaf]
            for part, start in zip(parts, choice, strict=True):
                length = len(part["parts"]) if part["kind"] == "phrase" else 1
                found.add((start, start + length - 1))
    return sorted(found)


def leaves(node: dict[str, Any]) -> list[dict[str, Any]]:
    if node["kind"] != "boolean":
        return [] if node["kind"] == "all" else [node]
    return [leaf for part in (*node["must"], *node["should"]) for leaf in leaves(part)]


TEXTS = [
    "Set max_allowed_packet to 64M; allowPublicKeyRetrieval=true is not the default.",
    "风雨如晦，鸡鸣不已。",
    "ﬁsh & Ｃｈｉｐｓ, fish-and-chips; CHIPS!",
]


def marked(query: Any, place: int) -> list[str]:
    index = gnomon.BM25Index.build(TEXTS, store_text=True)
    spans = index.highlight(query, TEXTS[place])
    assert spans == index.highlight(query, id=place)
    return [TEXTS[place][start:end] for start, end in spans]


def test_highlighted_characters() -> None:
    assert marked(Phrase("max_allowed_packet to"), 0) == ["max_allowed_packet to"]
    assert marked(Phrase("public key"), 0) == ["PublicKey"]
    assert marked(Near(["set", "64m"], 10), 0) == ["Set", "64M"]
    assert marked(Near(["set", "64m"], 2), 0) == []
    assert marked(Prefix("allow"), 0) == ["allowed", "allowPublicKeyRetrieval"]
    assert marked(Fuzzy("retreival", 1), 0) == ["Retrieval"]
    assert marked(Match("packet default"), 0) == ["packet", "default"]
    assert marked("packet default", 0) == ["packet", "default"]
    assert marked(["packet"], 0) == ["packet"]
    assert marked(And("default", Not("packet")), 0) == ["default"]
    assert marked(Phrase("风雨如晦"), 1) == ["风雨如晦"]
    assert marked(Phrase("fish chips"), 2) == ["ﬁsh & Ｃｈｉｐｓ"]
    assert marked(All(), 2) == []


def test_highlights_by_field() -> None:
    index = gnomon.BM25Index.build(
        [{"title": "red apple", "body": "an apple is red"}], fields=["title", "body"]
    )
    text = {"title": "Apple, red", "body": "red apples, red apple"}
    assert index.highlight(Term("apple", field="body"), text) == {"title": [], "body": [(16, 21)]}
    assert index.highlight(Phrase("red apple"), text) == {"title": [], "body": [(12, 21)]}
    with pytest.raises(TypeError, match="must map fields to texts: title, body"):
        index.highlight("red", "a text")


def test_sections() -> None:
    """Together: both terms in one section, not in one chunk."""
    chunks = ["timeout of a lock", "retry it", "timeout", "retry", "timeout then retry", "retry"]
    index = gnomon.BM25Index.build(
        chunks, columns={"section": ["s1", "s1", "s2", "s3", None, None]}
    )
    query = Together("section", "timeout", "retry")
    assert index.matches(query).tolist() == [0, 1, 4]
    assert index.count(And(query, "lock")) == 1
    assert index.matches(Together("section", "timeout", Not("timeout"))).tolist() == [0, 1]
    assert index.matches(Together("section")).tolist() == []
    assert set(index.search(query).ids.tolist()) == {0, 1, 4}
    with pytest.raises(ValueError, match="no column 'page'; its columns: section"):
        index.count(Together("page", "timeout"))


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.lists(tokens(), max_size=3),
            st.lists(st.sampled_from(["s", "t", "u"]), max_size=2, unique=True),
        ),
        max_size=9,
    ),
    st.lists(queries(positions=False), max_size=3),
    st.integers(0, 9),
)
def test_together_by_loops(
    chunks: list[tuple[list[str], list[str]]], parts: list[Query], cut: int
) -> None:
    index = gnomon.BM25Index.build(
        [words for words, _ in chunks[:cut]],
        columns={"section": [groups for _, groups in chunks[:cut]]},
        column_kinds={"section": "keyword"},
    )
    rest = chunks[cut:]
    index.add([words for words, _ in rest], columns={"section": [groups for _, groups in rest]})
    if not any(words for words, _ in chunks):
        return
    documents = [{"": words} for words, _ in chunks]
    right = reference.together(
        [groups for _, groups in chunks], [tree(p) for p in parts], documents
    )
    assert index.matches(Together("section", *parts)).tolist() == right


def test_a_match_ranks_as_its_text() -> None:
    index = gnomon.BM25Index.build(["red apple", "apple apple pie", "pear", "red pear"])
    plain = index.search("red apple apple", k=4)
    for query in (Match("red apple apple"), Or("red", "apple", "apple")):
        hits = index.search(query, k=4)
        assert hits.ids.tolist() == plain.ids.tolist()
        assert hits.scores.tolist() == plain.scores.tolist()
    weighted = index.search({"red": 2.0, "apple": 0.5}, k=4)
    hits = index.search(Or(Term("red", boost=2.0), Term("apple", boost=0.5)), k=4)
    assert hits.scores.tolist() == weighted.scores.tolist()
    assert index.matches(Match("red apple", operator="and")).tolist() == [0]
    with pytest.raises(ValueError, match="operator must be 'or' or 'and'"):
        index.search(Match("red", operator="xor"))


def test_many_queries_at_once() -> None:
    index = gnomon.BM25Index.build(["red apple", "apple pie", "pear"], columns={"n": [1, 2, 3]})
    answers = index.search_many(["apple", And("apple", "pie"), ["pear"]])
    assert [hits.ids.tolist() for hits in answers] == [[0, 1], [1], [2]]
    answers = index.search_many(["apple", Or("apple", "pie")], filter=gnomon.field("n") > 1)
    assert [hits.ids.tolist() for hits in answers] == [[1], [1]]
    assert [h.ids.tolist() for h in index.search_many(["apple"], filter={"n": 1})] == [[0]]


def test_fewer_than_k_and_no_padding() -> None:
    index = gnomon.BM25Index.build(["red", "red", "green"], ids=["a", "b", "c"])
    assert index.search("red", k=10, filter=["b", "c"]).ids == ["b"]
    assert index.search("red", k=10, filter=["c", "unknown"]).ids == []
    assert index.search("red", k=10, filter=[False, True, True]).ids == ["b"]
    assert index.search("red", k=10, filter=gnomon.Filter.ids(["b", "b"])).ids == ["b"]
    with pytest.raises(TypeError, match="the ids of this index are str"):
        index.search("red", filter=[1])
    with pytest.raises(ValueError, match="the mask has 2 entries, the index 3"):
        index.search("red", filter=[True, False])
    with pytest.raises(ValueError, match="no column 'year'; its columns: none"):
        index.search("red", filter=gnomon.field("year") > 3)
    with pytest.raises(ValueError, match="repeats='once' is for plain queries"):
        index.search(Or("red"), repeats="once")


def test_columns_that_come_later(tmp_path: Path) -> None:
    index = gnomon.BM25Index.build(["red", "red"])
    index.add(["red"], columns=[{"year": 2020}])
    index.update(["red pear"], ids=[0], columns={"year": [1999]})
    assert index.search("red", filter=gnomon.field("year").exists()).ids.tolist() == [2, 0]
    assert index.search("red", filter=gnomon.field("year") < 2000).ids.tolist() == [0]
    with pytest.raises(TypeError, match="must be an int"):
        index.add(["red"], columns=[{"year": "2020"}])
    with pytest.raises(ValueError, match="has 2 rows for 1 documents"):
        index.add(["red"], columns=[{}, {}])
    assert len(index) == 3
    index.save(tmp_path / "index")
    with gnomon.BM25Index.open(tmp_path / "index", mode="w") as opened:
        opened.delete([2])
    again = gnomon.BM25Index.open(tmp_path / "index")
    assert again.search("red", filter=gnomon.field("year").exists()).ids.tolist() == [0]


def test_positions_stay_through_every_edit(tmp_path: Path) -> None:
    index = gnomon.BM25Index.build(["red apple pie", "apple red"], positions=True)
    index.save(tmp_path / "index")
    with gnomon.BM25Index.open(tmp_path / "index", mode="w") as writer:
        writer.add(["a red apple"])
        writer.delete([1])
    opened = gnomon.BM25Index.open(tmp_path / "index", mode="w")
    assert opened.matches(Phrase("red apple")).tolist() == [0, 2]
    opened.merge()
    assert opened.matches(Phrase("red apple")).tolist() == [0, 2]
    assert opened.match_positions("apple", 2)[0].first == 2
    opened.close()
    with pytest.raises(KeyError, match="not in the index"):
        opened.match_positions("apple", 1)
    arrays = gnomon.BM25Index.build((np.array([1, 2, 2]), np.array([0, 2, 3])), positions=True)
    assert arrays.matches(Phrase([1, 2])).tolist() == [0]


def test_what_an_index_without_something_says() -> None:
    bare = gnomon.BM25Index.build([["red", "apple"]])
    with pytest.raises(ValueError, match="build the index with positions=True"):
        bare.search(Phrase(["red", "apple"]))
    with pytest.raises(TypeError, match="no analyzer, so a text is not a query"):
        bare.search(Phrase("red apple"))
    with pytest.raises(TypeError, match="no analyzer, so it cannot say"):
        bare.highlight("red", "red")
    with pytest.raises(ValueError, match="build it with positions=True"):
        bare.match_positions(["red"], 0)
    own = gnomon.BM25Index.build(["red"], analyzer=str.split)
    with pytest.raises(ValueError, match="has no spans"):
        own.highlight("red", "red")
    with pytest.raises(TypeError, match="either a text or id="):
        own.highlight("red")


@given(
    st.lists(
        st.fixed_dictionaries({name: st.lists(tokens(), max_size=5) for name in ("title", "body")}),
        min_size=1,
        max_size=8,
    ),
    st.lists(tokens(), min_size=1, max_size=3),
)
def test_synonyms_score_as_one_word_also_in_fields(
    documents: list[dict[str, list[str]]], words: list[str]
) -> None:
    """An index in which the synonyms are one word gives the same bits, BM25F included."""
    if not any(document["title"] or document["body"] for document in documents):
        return
    renamed = [
        {name: ["one" if t in words else t for t in field] for name, field in document.items()}
        for document in documents
    ]
    fields = {"title": 2.0, "body": 0.5}
    many = gnomon.BM25Index.build(documents, fields=fields)
    single = gnomon.BM25Index.build(renamed, fields=fields)
    found, right = many.search(AnyOf(*words), k=9), single.search(["one"], k=9)
    assert found.ids.tolist() == right.ids.tolist()
    assert found.scores.tolist() == right.scores.tolist()
    both = many.search(And(AnyOf(*words), "a"), k=9)
    right = single.search(And("one", "a"), k=9)
    if "a" not in words:
        assert both.ids.tolist() == right.ids.tolist()
        assert both.scores.tolist() == right.scores.tolist()


def test_forged_columns_of_an_index(tmp_path: Path) -> None:
    """A manifest that says other things of the columns or positions than the files."""
    from test_hostile_index import forge_meta

    index = gnomon.BM25Index.build(["a b"], columns={"year": [1]}, positions=True)
    for key, value in [
        ("columns", [["year", "keyword"]]),
        ("columns", [["year", "text"]]),
        ("columns", [["year", "integer"], ["year", "integer"]]),
        ("columns", "year"),
        ("columns", [[1, "integer"]]),
        ("positions", False),
        ("positions", 1),
    ]:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        index.save(path)
        forge_meta(path, "bm25", key, value)
        with pytest.raises(gnomon.CorruptIndex):
            gnomon.BM25Index.load(path)


def test_synonyms_stop_words_and_stems() -> None:
    """A Match is expanded as a text is; a phrase is what the documents hold."""
    analyzer = gnomon.Analyzer(
        stemmer="porter", stop_words="english", synonyms={"cars": "motor vehicles"}
    )
    texts = ["The cars of the town", "Motor vehicles, and a car", "Town"]
    index = gnomon.BM25Index.build(texts, analyzer=analyzer, positions=True)
    plain, match = index.search("cars"), index.search(Match("cars"))
    assert (match.ids.tolist(), match.scores.tolist()) == (
        plain.ids.tolist(),
        plain.scores.tolist(),
    )
    assert index.matches(Phrase("cars of town")).tolist() == [0]
    assert index.matches(Phrase("car town")).tolist() == [0]  # stop words leave no gap
    spans = index.highlight(Phrase("car town"), texts[0])
    assert [texts[0][start:end] for start, end in spans] == ["cars of the town"]
    assert index.highlight("cars", texts[1]) == [(0, 5), (6, 14), (22, 25)]


def test_stop_words_leave_no_gap() -> None:
    texts = ["the state of the art", "state art", "state in modern art", "art of the state"]
    analyzer = gnomon.Analyzer(stop_words="english")
    index = gnomon.BM25Index.build(texts, analyzer=analyzer, positions=True)
    assert index.matches(Phrase("state of the art")).tolist() == [0, 1]
    every = gnomon.BM25Index.build(texts, positions=True)
    assert every.matches(Phrase("state of the art")).tolist() == [0]
