"""Queries equal trying everything: every kind, over fields, segments, deletions and filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import _core, column_words
from gnomon.bm25_query import And, AnyOf, Fuzzy, Near, Not, Or, Phrase, Prefix, Query, Term
from gnomon.bm25_query_plan import Planner
from gnomon.reference import bm25_query as reference
from hypothesis import example, given
from hypothesis import strategies as st
from query_cases import FIELDS, TOKENS, queries, tokens, tree

Document = dict[str, list[str]]
Segments = list[tuple[list[Document], list[bool]]]


class View:
    """Segments built one by one, as the core and filters see them."""

    def __init__(self, segments: Segments, fields: Sequence[str], positions: bool = True) -> None:
        cores = []
        for documents, dead in segments:
            builder = _core.Bm25Builder(True, len(fields), positions)
            builder.add_tokens([document[name] for document in documents for name in fields])
            words = column_words.pack(np.array(dead, dtype=np.bool_)) if any(dead) else None
            cores.append((builder.finish(), words))
        self.pairs = cores
        self.fields = fields
        self.snapshot = _core.Bm25Snapshot(cores)
        # Slot of each live document, and the documents.
        self.slots: list[int] = []
        self.documents: list[Document] = []
        base = 0
        for documents, dead in segments:
            for i, document in enumerate(documents):
                if not dead[i]:
                    self.slots.append(base + i)
                    self.documents.append(document)
            base += len(documents)

    def sizes(self) -> list[int]:
        return [core.n_docs for core, _ in self.pairs]

    def live(self, segment: int) -> Any:
        return None

    def columns(self, segment: int) -> Any:
        return None

    def plan(self, query: Query) -> _core.QueryNode:
        names = self.fields if len(self.fields) > 1 else None
        return Planner(self.snapshot, self, str.split, names).plan(query)  # type: ignore[arg-type]

    def members(self, found: list[Any]) -> list[int]:
        sizes = self.sizes()
        bases = np.cumsum([0, *sizes])
        return [
            int(doc + base)
            for words, n, base in zip(found, sizes, bases, strict=False)
            for doc in column_words.members(words, n)
        ]


@st.composite
def segments(draw: st.DrawFn, fields: Sequence[str] = FIELDS) -> Segments:
    found: Segments = []
    for _ in range(draw(st.integers(1, 3))):
        lists = st.lists(tokens(), max_size=6)
        documents = draw(st.lists(st.fixed_dictionaries(dict.fromkeys(fields, lists)), max_size=5))
        documents = documents * draw(st.sampled_from((1, 1, 1, 20)))
        dead = [draw(st.booleans()) for _ in documents[:5]]
        found.append(
            (documents, (dead * (len(documents) // max(len(dead), 1) + 1))[: len(documents)])
        )
    return found


@given(segments(), queries(with_fields=True))
@example(
    [([{"title": ["a", "b"], "body": ["b"]}], [False])], Phrase([AnyOf("a", "b"), "b"], slop=1)
)
def test_matches_are_found_by_trying_everything(segments: Segments, query: Query) -> None:
    view = View(segments, FIELDS)
    node = view.plan(query)
    right = [
        slot
        for slot, document in zip(view.slots, view.documents, strict=True)
        if reference.matches(tree(query), document)
    ]
    assert view.members(_core.query_match(node, view.snapshot)) == right
    assert _core.query_count(node, view.snapshot) == len(right)


@given(segments(), queries(with_fields=True), st.integers(0, 2**32 - 1))
def test_a_filter_takes_documents_away(segments: Segments, query: Query, seed: int) -> None:
    view = View(segments, FIELDS)
    rng = np.random.default_rng(seed)
    masks = [rng.random(n) < rng.choice([0.02, 0.5, 0.98]) for n in view.sizes()]
    node = view.plan(query)
    found = _core.query_match(node, view.snapshot, [column_words.pack(mask) for mask in masks])
    every = _core.query_match(node, view.snapshot)
    right = np.concatenate(masks)
    assert view.members(found) == [slot for slot in view.members(every) if right[slot]]


FORMULAS = ("default", "lucene", "bm25l", "bm25+", "rank_bm25-plus", "tf-idf", "atire")


@given(segments([""]), queries(), st.sampled_from(FORMULAS), st.sampled_from((1, 3, 1000)))
def test_the_ranking_has_the_bits_of_the_reference(
    segments: Segments, query: Query, formula: str, k: int
) -> None:
    view = View(segments, [""])
    scorer = _core.Bm25Scorer(view.snapshot, formula)
    slots, scores = _core.query_search(view.plan(query), scorer, k)
    right = reference.search(tree(query), view.documents, k, formula)
    assert [*zip(slots.tolist(), scores.tolist(), strict=True)] == [
        (view.slots[position], score) for position, score in right
    ]


@given(segments([""]), queries(), st.integers(0, 2**32 - 1))
def test_a_filtered_ranking_is_the_ranking_without_the_others(
    segments: Segments, query: Query, seed: int
) -> None:
    view = View(segments, [""])
    scorer = _core.Bm25Scorer(view.snapshot)
    rng = np.random.default_rng(seed)
    masks = [rng.random(n) < rng.choice([0.05, 0.5, 1.0]) for n in view.sizes()]
    allowed = [column_words.pack(mask) for mask in masks]
    node = view.plan(query)
    slots, scores = _core.query_search(node, scorer, 10_000)
    keep = np.concatenate(masks)[slots]
    for k in (1, 4, 10_000):
        some, values = _core.query_search(node, scorer, k, allowed)
        assert some.tolist() == slots[keep][:k].tolist()
        assert values.tolist() == scores[keep][:k].tolist()
        same, bits, total = _core.query_answer(node, scorer, k, allowed)
        assert (same.tolist(), bits.tolist()) == (some.tolist(), values.tolist())
        assert total == _core.query_count(node, view.snapshot, allowed)


@given(st.text(max_size=6), st.lists(st.text(max_size=6), max_size=20), st.data())
def test_fuzzy_and_prefix_on_any_text(text: str, words: list[str], data: st.DataObject) -> None:
    """The sorted vocabulary against every term, on all of Unicode."""
    words = [*words, *TOKENS, text + "a", text[1:], text[::-1]]
    view = View([([{"": words}], [False])], [""])
    edits, exact = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 3))
    for query in (Fuzzy(text, edits, exact, data.draw(st.booleans())), Prefix(text)):
        found = _core.query_tokens(view.plan(query), view.snapshot)
        right = {word for word in words if reference.names(tree(query), word)}
        assert sorted(found) == sorted(right)


def test_long_lists_of_positions() -> None:
    """Documents with many occurrences, beyond one skip, and phrases that are just missed."""
    rng = np.random.default_rng(5)
    documents: list[Document] = []
    for n in (0, 1, 2, 300, 1000, *rng.integers(1, 80, size=60).tolist()):
        documents.append({"": [str(t) for t in rng.choice(["x", "y", "z", "w"], size=n)]})
    view = View([(documents, [False] * len(documents))], [""])
    for query in [
        Phrase(["x", "y", "z", "w", "x"]),
        Phrase(["x", "x", "x", "x"]),
        Near([Phrase(["x", "y"]), Phrase(["w", "z"])], 4),
        Near([Phrase(["x", "y"]), Phrase(["w", "z"])], 3, ordered=True),
        And(Phrase(["w", "w"]), Not(Phrase(["w", "w", "w"]))),
    ]:
        joined = [" " + " ".join(document[""]) + " " for document in documents]
        found = view.members(_core.query_match(view.plan(query), view.snapshot))
        if isinstance(query, Phrase):
            text = "".join(f" {term.token}" for term in query.terms) + " "  # type: ignore[union-attr]
            assert found == [i for i, each in enumerate(joined) if text in each]
        elif isinstance(query, And):
            assert found == [
                i for i, each in enumerate(joined) if " w w " in each and " w w w " not in each
            ]
        else:
            assert isinstance(query, Near)
            assert found == [
                i
                for i, document in enumerate(documents)
                if _near_by_loops(document[""], query.window, query.ordered)
            ]


def _near_by_loops(tokens: list[str], window: int, ordered: bool) -> bool:
    first = [i for i in range(len(tokens) - 1) if tokens[i : i + 2] == ["x", "y"]]
    second = [i for i in range(len(tokens) - 1) if tokens[i : i + 2] == ["w", "z"]]
    return any(
        max(a, b) + 1 - min(a, b) <= window and (not ordered or a + 1 < b)
        for a in first
        for b in second
    )


def test_queries_that_an_index_cannot_answer() -> None:
    view = View([([{"": ["a", "b"]}], [False])], [""], positions=False)
    for query in (Phrase(["a", "b"]), Near(["a", "b"], 3)):
        with pytest.raises(ValueError, match="build the index with positions=True"):
            _core.query_match(view.plan(query), view.snapshot)
    with pytest.raises(ValueError, match="no field 'title'; its fields: none"):
        view.plan(Term("a", "title"))
    two = View([([{"title": [], "body": []}], [False])], FIELDS)
    with pytest.raises(ValueError, match="its fields: title, body"):
        two.plan(Term("a", "heading"))
    with pytest.raises(ValueError, match="at most 64 parts"):
        _core.query_match(two.plan(Phrase(["a"] * 65, slop=1)), two.snapshot)
    assert _core.query_count(two.plan(Phrase(["a"] * 1000)), two.snapshot) == 0


# What no type checker would let through.
ANY: Any = 1.5
LIST: Any = ["a"]
TEXT: Any = "2"
NUMBER: Any = 5

MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (lambda: And("a", ANY), TypeError, r"must\[1\] must be a query or a token, got a float"),
    (lambda: Or(LIST), TypeError, r"should\[0\] must be a query or a token, got a list"),
    (lambda: Phrase(["a", And("b")]), TypeError, r"Phrase\[1\] must be a token"),
    (lambda: Near("a b", 3), TypeError, "use Phrase for a text"),
    (lambda: Near(["a"], -1), ValueError, "window must be at least 0, got -1"),
    (lambda: Near(["a"], ANY), TypeError, "window must be a whole number"),
    (lambda: Phrase("a", slop=True), TypeError, "slop must be a whole number"),
    (lambda: Near([Or("a")], 3), TypeError, r"Near\[0\] must be a token"),
]
PLANNING: list[tuple[Any, type[Exception], str]] = [
    (Fuzzy("a", 3), ValueError, "edits must lie between 0 and 2, got 3"),
    (Fuzzy("a" * 300, 2), ValueError, "at most 255 characters, got 300"),
    (Fuzzy("a", True), TypeError, "edits must be a whole number"),
    (Near([Phrase("a b", slop=1)], 3), ValueError, "has no slop of its own"),
    (Term("a", boost=float("nan")), ValueError, "boost must be finite"),
    (Term("a", boost=TEXT), TypeError, "boost must be a number"),
    (Term(5), TypeError, "tokens of this index are str, got 5"),
    (Prefix(NUMBER), TypeError, "Prefix takes a str"),
    (Term("a", field=[]), ValueError, "field is an empty list"),
]


@pytest.mark.parametrize(("make", "error", "rule"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_named_when_the_query_is_made(
    make: Any, error: type[Exception], rule: str
) -> None:
    with pytest.raises(error, match=rule):
        make()


@pytest.mark.parametrize(("query", "error", "rule"), PLANNING, ids=range(len(PLANNING)))
def test_mistakes_are_named_when_the_query_meets_the_index(
    query: Query, error: type[Exception], rule: str
) -> None:
    view = View([([{"": ["a", "b"]}], [False])], [""])
    with pytest.raises(error, match=rule):
        _core.query_match(view.plan(query), view.snapshot)


def test_boosts_beyond_what_a_weight_may_be() -> None:
    view = View([([{"": ["a", "b"]}], [False])], [""])
    query = Or(Term("a", boost=1e60), boost=1e60)
    with pytest.raises(ValueError, match=r"the boosts of a term multiply to 1e\+120"):
        _core.query_search(view.plan(query), _core.Bm25Scorer(view.snapshot), 3)


def test_hostile_sizes_end_in_an_error_or_soon() -> None:
    view = View([([{"": ["a"] * 200}], [False])], [""])
    deep: Query = Term("a")
    for _ in range(100):
        deep = Not(deep)
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        view.plan(deep)
    with pytest.raises(ValueError, match="more than 50,000 parts"):
        view.plan(Or(*["a"] * 60_000))
    assert _core.query_count(view.plan(Or(*["a"] * 10_000)), view.snapshot) == 1
    assert _core.query_count(view.plan(Near(["a"] * 64, 63)), view.snapshot) == 1
    assert _core.query_count(view.plan(Near(["a"] * 64, 62)), view.snapshot) == 0
    assert _core.query_count(view.plan(Phrase(["a"] * 64, slop=5)), view.snapshot) == 1


def test_shown_as_they_are_written() -> None:
    query = And("a", Or(Phrase("b c", 1), Near(["d", "e"], 3, ordered=True), boost=2.0), Not("f"))
    assert repr(query) == (
        "And(Term(token='a', field=None, boost=1.0), "
        "Or(Phrase('b c', slop=1), Near([Term(token='d', field=None, boost=1.0), "
        "Term(token='e', field=None, boost=1.0)], 3, ordered=True), boost=2.0), "
        "Not(Term(token='f', field=None, boost=1.0)))"
    )


def test_tokens_that_are_ids() -> None:
    builder = _core.Bm25Builder(False, 1, True)
    builder.add_ids(np.array([1, 2, 2, 1], np.uint32), np.array([0, 2, 4]))
    core = builder.finish()
    snapshot = _core.Bm25Snapshot([(core, None)])
    view = View([], [""])
    view.pairs, view.snapshot = [(core, None)], snapshot
    planner = Planner(snapshot, view, str.split, with_vocabulary=False)  # type: ignore[arg-type]
    for query, right in [(Phrase([1, 2]), [0]), (Or(1), [0, 1]), (Term(7), []), (Term(-1), [])]:
        assert view.members(_core.query_match(planner.plan(query), snapshot)) == right
    for bad in (Prefix("1"), Fuzzy("1"), Term("1")):
        with pytest.raises(TypeError, match=r"token ids|are ids"):
            planner.plan(bad)
    assert gnomon.levels()
