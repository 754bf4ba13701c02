"""Filters equal a walk over the documents, on every kind of column, segments and deletions."""

from __future__ import annotations

import datetime
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gnomon
import numpy as np
import pytest
from gnomon import _core, column_words
from gnomon.columns import ColumnBlock, ColumnWriter
from gnomon.filters import Filter, allowed, field
from gnomon.predicates import test_column as column_test
from gnomon.reference import filters as reference
from hypothesis import example, given
from hypothesis import strategies as st

KINDS = {"word": "keyword", "many": "keyword", "count": "integer", "score": "float", "day": "date"}
Row = dict[str, Any]

WORDS = st.sampled_from(["", "a", "b", "B", "ab", "é", "風", "\ud800"])
INTEGERS = st.sampled_from([0, 1, -1, 5, 2**53, 2**53 + 1, -(2**63), 2**63 - 1])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, 5.0, 2.0**53, -math.inf, math.inf, 5e-324, 1e308])
BEYOND = st.sampled_from([2**63, -(2**63) - 1, 2**1100, -(2**1100), 10**400])
NUMBERS = INTEGERS | FLOATS | BEYOND
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "word": WORDS,
    "many": st.lists(WORDS, max_size=4, unique=True),
    "count": INTEGERS,
    "score": FLOATS,
    "day": st.integers(-5, 5),
}


class View:
    """Segments of rows as filters see them."""

    def __init__(self, segments: list[tuple[list[Row], list[bool]]]) -> None:
        self.segments = segments
        self.blocks = [ColumnWriter(KINDS) for _ in segments]
        for writer, (rows, _) in zip(self.blocks, segments, strict=True):
            for row in rows:
                writer.add(row | ({"day": day(row["day"])} if row.get("day") is not None else {}))
        self.made: list[ColumnBlock] = [writer.finish() for writer in self.blocks]

    def sizes(self) -> Sequence[int]:
        return [len(rows) for rows, _ in self.segments]

    def live(self, segment: int) -> Any:
        dead = self.segments[segment][1]
        return None if not any(dead) else column_words.pack(~np.array(dead, dtype=np.bool_))

    def columns(self, segment: int) -> ColumnBlock | None:
        return self.made[segment]

    def slots(self, ids: Sequence[Any]) -> Any:
        base, found = 0, []
        for rows, dead in self.segments:
            found += [base + i for i in range(len(rows)) if not dead[i] and base + i in ids]
            base += len(rows)
        return np.array(found, dtype=np.int64)


def day(number: int) -> datetime.date:
    return datetime.date(1970, 1, 1) + datetime.timedelta(days=number)


def rows() -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(
        {}, optional={name: st.none() | values for name, values in VALUES.items()}
    )


@st.composite
def segments(draw: st.DrawFn) -> list[tuple[list[Row], list[bool]]]:
    found = []
    for _ in range(draw(st.integers(1, 3))):
        given_rows = draw(st.lists(rows(), max_size=5))
        if draw(st.booleans()):  # across the words of 64 documents
            given_rows = given_rows * draw(st.sampled_from([7, 13, 40]))
        dead = draw(st.lists(st.booleans(), min_size=len(given_rows), max_size=len(given_rows)))
        found.append((given_rows, dead))
    return found


LITERALS = {"word": WORDS, "many": WORDS, "count": NUMBERS, "score": NUMBERS, "day": INTEGERS}


@st.composite
def conditions(draw: st.DrawFn, depth: int = 0) -> Row:
    kind = draw(st.sampled_from(["one", "one", "one", "$and", "$or", "$not", "$scope", "$ids"]))
    if kind in ("$and", "$or") and depth < 3:
        return {kind: draw(st.lists(conditions(depth + 1), max_size=3))}
    if kind == "$not" and depth < 3:
        return {kind: draw(conditions(depth + 1))}
    if kind == "$scope":
        scope: Row = {"any_of": draw(st.lists(WORDS, max_size=3)), "column": "many"}
        return {kind: scope | draw(st.sampled_from([{}, {"unscoped": True}, {"unscoped": False}]))}
    if kind == "$ids":
        return {kind: draw(st.lists(st.integers(0, 20), max_size=5))}
    column = draw(st.sampled_from(sorted(KINDS)))
    literal = LITERALS[column] if column != "day" else st.integers(-6, 6)
    operator = draw(
        st.sampled_from([*("$eq", "$ne", "$lt", "$lte", "$gt", "$gte"), "$in", "$nin", "$between"])
    )
    if draw(st.integers(0, 9)) == 0:
        return {column: {"$exists": draw(st.booleans())}}
    if operator == "$between":
        return {column: {operator: [draw(literal), draw(literal)]}}
    if operator in ("$in", "$nin"):
        return {column: {operator: draw(st.lists(literal, max_size=7))}}
    return {column: {operator: draw(literal)}}


def with_dates(condition: Any) -> Any:
    """The condition with texts in the place of days."""
    if isinstance(condition, list):
        return [with_dates(each) for each in condition]
    if not isinstance(condition, dict):
        return condition
    found: Row = {}
    for key, value in condition.items():
        if key == "day" and not {"$exists"} & value.keys():
            [(operator, operand)] = value.items()
            texts = [day(each).isoformat() for each in operand] if isinstance(operand, list) else 0
            found[key] = {operator: texts or (texts if texts == [] else day(operand).isoformat())}
        else:
            found[key] = with_dates(value)
    return found


def walk(condition: Row, view: View) -> list[list[int]]:
    found, base = [], 0
    for given_rows, dead in view.segments:
        found.append(
            [
                i
                for i, row in enumerate(given_rows)
                if not dead[i] and reference.matches(condition, row, base + i)
            ]
        )
        base += len(given_rows)
    return found


def members(found: list[Any], view: View) -> list[list[int]]:
    pairs = zip(found, view.sizes(), strict=True)
    return [column_words.members(words, n).tolist() for words, n in pairs]


@given(segments(), conditions())
@example([([{"count": 2**53 + 1}], [False])], {"count": {"$lte": 2.0**53}})
@example([([{"score": 2.0**53}], [False])], {"score": {"$gte": 2**53 + 1}})
def test_a_filter_equals_a_walk(segments: Any, condition: Row) -> None:
    view = View(segments)
    found = Filter.from_json(with_dates(condition))
    assert members(allowed(found, view), view) == walk(condition, view)
    again = Filter.from_json(json.dumps(found.to_json()))
    assert members(allowed(again, view), view) == walk(condition, view)
    for words, n in zip(found.evaluate(view), view.sizes(), strict=True):
        assert column_words.count(words) == column_words.members(words, n).size  # no bit beyond n


@given(segments(), conditions())
def test_merging_segments_changes_no_answer(segments: Any, condition: Row) -> None:
    """take() the live documents, concat(), write, read: the filter lets the same ones through."""
    if "$ids" in json.dumps(condition):
        return
    view = View(segments)
    live = [np.nonzero(~np.array(dead, dtype=np.bool_))[0] for _, dead in segments]
    merged = ColumnBlock.concat(
        [block.take(docs) for block, docs in zip(view.made, live, strict=True)]
    )
    assert [merged.row(i) for i in range(merged.n)] == [
        block.row(i) for block, docs in zip(view.made, live, strict=True) for i in docs.tolist()
    ]
    one = View([([], [])])
    one.segments = [
        (
            [
                row
                for (given, _), docs in zip(segments, live, strict=True)
                for row in (given[i] for i in docs.tolist())
            ],
            [False] * merged.n,
        )
    ]
    one.made = [reread(merged)]
    found = allowed(with_dates(condition), one)
    assert members(found, one) == walk(condition, one)


def reread(block: ColumnBlock) -> ColumnBlock:
    with tempfile.TemporaryDirectory() as folder:
        writer = _core.ContainerWriter(Path(folder) / "columns")
        block.write(writer)
        writer.finish()
        return ColumnBlock.read(_core.Container(Path(folder) / "columns"), block.n)


def test_expressions_say_the_same_as_json() -> None:
    year = field("year")
    pairs: list[tuple[Filter, Row]] = [
        (year == 1, {"year": {"$eq": 1}}),
        (year != 1, {"year": {"$ne": 1}}),
        ((year < 1) & (year > 0), {"$and": [{"year": {"$lt": 1}}, {"year": {"$gt": 0}}]}),
        ((year <= 1) | (year >= 3), {"$or": [{"year": {"$lte": 1}}, {"year": {"$gte": 3}}]}),
        (~year.isin([1, 2]), {"$not": {"year": {"$in": [1, 2]}}}),
        (~~year.exists(), {"year": {"$exists": True}}),
        (year.between(1, 2), {"year": {"$between": [1, 2]}}),
        (year.missing(), {"year": {"$exists": False}}),
        (Filter.scope(["a"], unscoped=True), {"$scope": {"any_of": ["a"], "unscoped": True}}),
        (Filter.ids(["x"]), {"$ids": ["x"]}),
    ]
    for expression, data in pairs:
        assert expression.to_json() == data
        assert Filter.from_json(data).to_json() == data


def test_several_joined_filters_stay_flat() -> None:
    a, b, c = (field(name) == "x" for name in "abc")
    assert len((a & b & c).to_json()["$and"]) == 3
    assert len((a | b | c).to_json()["$or"]) == 3


def test_dates() -> None:
    utc = datetime.timezone.utc
    zone = datetime.timezone(datetime.timedelta(hours=2))
    days = [
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 23, 0),
        datetime.datetime(2024, 3, 1, 1, 0, tzinfo=zone),  # 23:00 UTC
        np.datetime64("2024-03-01"),
        None,
        "2024-03-01T00:00:00.000001Z",
    ]
    view = View([])
    view.segments = [([{}] * 6, [False] * 6)]
    view.made = [ColumnBlock.of({"at": days}, 6)]
    assert view.made[0].kinds == {"at": "date"}
    for expression, right in [
        (field("at") == "2024-02-29T23:00:00", [1, 2]),
        (field("at") < datetime.date(2024, 3, 1), [0, 1, 2]),
        (field("at").between("2024-03-01", datetime.datetime(2024, 3, 2, tzinfo=utc)), [3, 5]),
        (field("at") > np.datetime64("2024-03-01"), [5]),
        (field("at").missing(), [4]),
    ]:
        assert members(allowed(expression, view), view) == [right]
    assert view.made[0].row(2)["at"] == datetime.datetime(2024, 2, 29, 23, tzinfo=utc)


def test_a_scope_hides_what_has_none() -> None:
    view = View([])
    view.segments = [([{}] * 4, [False] * 4)]
    view.made = [ColumnBlock.of({"scope": [["a", "b"], "b", None, []]}, 4)]
    for expression, right in [
        (Filter.scope(["a"]), [0]),
        (Filter.scope(["a", "b"]), [0, 1]),
        (Filter.scope([]), []),
        (Filter.scope(["zzz"]), []),
        (Filter.scope(["a"], unscoped=True), [0, 2, 3]),
        (~Filter.scope(["a"]), [1, 2, 3]),
    ]:
        assert members(allowed(expression, view), view) == [right]


def test_a_column_answers_again_what_it_was_asked() -> None:
    """What is kept is told apart by value and type, and is no caller's to change."""
    block = ColumnBlock.of({"n": [0, 1, None, 2], "tags": [["a", "b"], "b", None, "c"]}, 4)
    n, tags = block.columns["n"], block.columns["tags"]
    for _ in range(2):
        words = column_test(n, "$eq", 1, "n")
        assert column_words.members(words, 4).tolist() == [1]
        words[:] = 0
        assert column_words.members(column_test(n, "$eq", 1.0, "n"), 4).tolist() == [1]
        with pytest.raises(TypeError, match="holds integer values, got True"):
            column_test(n, "$eq", True, "n")
        assert column_words.members(column_test(tags, "$eq", "b", "tags"), 4).tolist() == [0, 1]
        with pytest.raises(TypeError, match="holds keywords"):
            column_test(tags, "$eq", ("b",), "tags")
        assert column_words.members(column_test(tags, "$ne", "b", "tags"), 4).tolist() == [2, 3]
    for i in range(100):
        assert not column_test(tags, "$eq", f"unknown {i}", "tags").any()
    assert len(tags.tested) <= 16


def test_masks_count_live_documents() -> None:
    view = View([([{}] * 3, [False, True, False]), ([{}] * 2, [False, False])])
    assert members(allowed(np.array([True, False, False, True]), view), view) == [[0], [1]]
    assert members(allowed([True, True, True, False], view), view) == [[0, 2], [0]]
    with pytest.raises(ValueError, match="the mask has 5 entries, the index 4"):
        allowed(np.ones(5, dtype=np.bool_), view)


def test_ids_of_deleted_or_unknown_documents_let_nothing_through() -> None:
    view = View([([{}] * 3, [False, True, False])])
    assert members(allowed([1, 2, 99], view), view) == [[2]]
    assert members(allowed([], view), view) == [[]]


WRONG: list[tuple[Any, str]] = [
    ([], "must be an object"),
    ("{", "not JSON"),
    ("[" * 100_000, "nested|not JSON"),
    ({"$nor": []}, r"unknown operator '\$nor'; known are \$and"),
    ({"year": {"$gte": None}}, r"filter\.year\.\$gte: a value is a text or a number, got null"),
    ({"year": {"gte": 1}}, r"filter\.year: unknown operator 'gte'; known are \$eq"),
    ({"year": {}}, "no operator"),
    ({"year": None}, r"filter\.year: a value is .*\$exists"),
    ({"year": {"$in": 5}}, r"filter\.year\.\$in: must be a list"),
    ({"year": {"$in": [1, [2]]}}, r"filter\.year\.\$in\[1\]: a value is"),
    ({"year": {"$between": [1]}}, "low, high"),
    ({"year": {"$exists": 1}}, "true or false"),
    ({"year": True}, "a value is"),
    ({"year": float("nan")}, "NaN"),
    ({"$and": {"a": 1}}, r"filter\.\$and: must be a list"),
    ({"$or": [{"a": 1}, 5]}, r"filter\.\$or\[1\]: must be an object"),
    ({"$scope": ["a"]}, "any_of"),
    ({"$scope": {"any_of": "a"}}, "must be a list"),
    ({"$scope": {"any_of": [1]}}, "a scope is a text"),
    ({"$scope": {"any_of": [], "hidden": False}}, "any_of"),
    ({"$scope": {"any_of": [], "unscoped": "yes"}}, "true or false"),
    ({"$ids": [1.5]}, "an id is a str or an int"),
    ({"": 1}, "a key is a str"),
    ({"$and": [{"a": 1}] * 1001}, "more than 1,000 conditions"),
    ({"a": {"$in": [1] * 100_001}}, "more than 100,000 listed values"),
]


@pytest.mark.parametrize(("data", "rule"), WRONG, ids=range(len(WRONG)))
def test_json_from_anywhere_gets_an_error_with_its_place(data: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Filter.from_json(data)


def test_json_nested_too_deeply() -> None:
    data: Mapping[str, Any] = {"a": 1}
    for _ in range(40):
        data = {"$not": data}
    with pytest.raises(ValueError, match="nested deeper than 32"):
        Filter.from_json(data)


def test_a_literal_that_is_not_of_the_columns_kind() -> None:
    view = View([([{"word": "a", "count": 1, "score": 1.0, "day": 0}], [False])])
    for expression, error, rule in [
        (field("count") >= "1", TypeError, "holds integer values, got '1'"),
        (field("word") == 1, TypeError, "holds keywords, got 1"),
        (field("score") == float("nan"), ValueError, "NaN"),
        (field("count") == True, TypeError, "got True"),  # noqa: E712
        (field("day") == 5, TypeError, "must be a date"),
        (field("day") == "yesterday", ValueError, "ISO 8601"),
        (field("nothing") == 5, ValueError, "no column 'nothing'; its columns: count, day"),
        (Filter.scope(["a"], column="count"), TypeError, "access scopes are keywords"),
    ]:
        with pytest.raises(error, match=rule):
            allowed(expression, view)


def test_mistakes_of_a_programmer() -> None:
    with pytest.raises(TypeError, match="no truth value"):
        bool(field("a") == 1)
    with pytest.raises(TypeError, match="no truth value"):
        1 < field("a") < 3  # noqa: B015
    with pytest.raises(TypeError, match="mind the brackets"):
        (field("a") == 1) & 3  # type: ignore[operator]
    with pytest.raises(TypeError, match="isin takes a list"):
        field("a").isin("abc")
    with pytest.raises(TypeError, match="pass a list of scopes"):
        Filter.scope("abc")
    with pytest.raises(TypeError, match="pass a list of ids"):
        Filter.ids("abc")
    with pytest.raises(TypeError, match="filter is a int"):
        allowed(3, View([]))
    with pytest.raises(TypeError, match="no JSON form"):
        Filter.mask([True]).to_json()


@pytest.mark.parametrize(
    ("values", "error", "rule"),
    [
        ({"a": [True, None]}, TypeError, r"columns\['a'\]\[0\] is a bool"),
        ({"a": [1, "x"]}, TypeError, r"columns\['a'\]\[1\] must be an int"),
        ({"a": [1, 2**63]}, ValueError, "does not fit 64 bits"),
        ({"a": [1.0, float("nan")]}, ValueError, "NaN"),
        ({"a": ["x", ["y", 1]]}, TypeError, r"columns\['a'\]\[1\]\[1\] must be a str"),
        ({"a": [b"x", None]}, TypeError, "a value is a str or a list"),
        ({"a": [1]}, ValueError, "has 1 values for 2 documents"),
        ({"a": "ab"}, TypeError, "one text"),
        ({"": [1, 2]}, TypeError, "not empty"),
        ({"$a": [1, 2]}, ValueError, "must not start"),
        ({"a": [datetime.date(2020, 1, 1), 5]}, TypeError, "must be a date"),
    ],
)
def test_values_that_no_column_holds(values: Row, error: type[Exception], rule: str) -> None:
    writer = ColumnWriter()
    with pytest.raises(error, match=rule):
        writer.extend(values, 2)
    assert writer.n == 0
    assert writer.kinds == {}


def test_a_column_keeps_its_kind() -> None:
    with pytest.raises(ValueError, match="must be one of keyword, integer, float, date"):
        ColumnWriter({"a": "text"})
    one, two = ColumnBlock.of({"a": [1]}, 1), ColumnBlock.of({"a": ["x"]}, 1)
    with pytest.raises(ValueError, match="column 'a' holds integer values, these are keyword"):
        ColumnBlock.concat([one, two])
    writer = ColumnWriter({"a": "float"})
    writer.add({"a": 1})
    assert writer.finish().row(0) == {"a": 1.0}
    assert writer.kinds == {"a": "float"}


def test_face() -> None:
    assert gnomon.field is field
    assert gnomon.Filter is Filter


def test_filters_know_no_engine() -> None:
    """The dense index takes the same filters."""
    package = Path(gnomon.__file__).parent
    for name in ("columns", "column_check", "column_values", "column_words", "filters"):
        text = (package / f"{name}.py").read_text("utf-8")
        assert "bm25" not in text
        assert "dense" not in text
