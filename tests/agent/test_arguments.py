"""validate_arguments: the flat validator's answers, strict JSON Schema beyond (V1 to V5)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from gnomon.agent import SchemaError, ValidationError, validate_arguments
from gnomon.agent.schema import compile_schema
from hypothesis import HealthCheck, given, settings

FLAT = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "dry": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["fast", "safe"]},
    },
    "required": ["text"],
}


def only(schema: dict[str, Any]) -> dict[str, Any]:
    """An object schema with one argument x."""
    return {"type": "object", "properties": {"x": schema}}


def message_of(arguments: Any, schema: Any) -> str:
    with pytest.raises((ValidationError, SchemaError)) as caught:
        validate_arguments(arguments, schema)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def problems_of(arguments: Any, schema: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        validate_arguments(arguments, schema)
    return [(problem.path, problem.rule) for problem in caught.value.problems]


# --- the flat validator --------------------------------------------------------------------------


@pytest.fixture(scope="session")
def document_000(shared: Path) -> Callable[[Any, Any], Any]:
    """The document's own validate_arguments, read from the document."""
    (path,) = (shared / "seeds").glob("000_*.txt")
    text = path.read_text("utf-8")
    end = "    return dict(arguments)\n"
    source = text[text.index("TYPE_MAP = {") : text.index(end) + len(end)]
    names: dict[str, Any] = {}
    exec(compile(source, path.name, "exec"), names)
    function: Callable[[Any, Any], Any] = names["validate_arguments"]
    return function


NAMES = ["a", "b", "c", "é", "a b", ""]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "b", "é", "5"]),
    "integer": st.integers(-3, 3),
    "number": st.one_of(st.integers(-3, 3), st.floats(-3, 3), st.just(2.0)),
    "boolean": st.booleans(),
}
ANY_VALUE = st.one_of(*VALUES.values(), st.none(), st.just([1]), st.just({"a": 1}), st.just([]))


@st.composite
def flat_properties(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(VALUES)))
    rules: dict[str, Any] = {"type": kind}
    if draw(st.booleans()):
        rules["enum"] = draw(st.lists(VALUES[kind], max_size=3, unique=True))
    if draw(st.booleans()):
        rules["description"] = "what it is"
    return rules


flat_schemas = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from(NAMES), flat_properties()),
    },
    optional={"required": st.lists(st.sampled_from([*NAMES, "z"]), unique=True, max_size=2)},
)
flat_arguments = st.dictionaries(st.sampled_from([*NAMES, "z", "admin"]), ANY_VALUE, max_size=4)


@given(flat_schemas, flat_arguments)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=500)
def test_answers_and_messages_are_those_of_document_000(
    document_000: Callable[[Any, Any], Any], schema: Any, arguments: Any
) -> None:
    expected: Any
    try:
        expected = document_000(arguments, schema)
    except ValueError as error:
        expected = str(error)
    if isinstance(expected, str):
        assert message_of(arguments, schema) == expected
    else:
        assert validate_arguments(arguments, schema) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "missing=['text'], extra=[]"),
        ({"z": 1, "text": "a", "admin": True}, "missing=[], extra=['admin', 'z']"),
        ({"b": 1}, "missing=['text'], extra=['b']"),
        ({"text": 5}, "wrong type for text"),
        ({"text": None}, "wrong type for text"),
        ({"text": "a", "count": True}, "unsupported or ambiguous type for count"),
        ({"text": "a", "ratio": False}, "unsupported or ambiguous type for ratio"),
        ({"text": True}, "unsupported or ambiguous type for text"),
        ({"text": "a", "dry": 1}, "wrong type for dry"),
        ({"text": "a", "count": 1.5}, "wrong type for count"),
        ({"text": "a", "count": 5.0}, "wrong type for count"),
        ({"text": "a", "mode": "slow"}, "invalid enum for mode"),
        ([], "tool input must be an object"),
        (None, "tool input must be an object"),
        ("text", "tool input must be an object"),
    ],
)
def test_the_documents_messages(arguments: Any, message: str) -> None:
    assert message_of(arguments, FLAT) == message


@pytest.mark.parametrize(
    "schema", [{}, {"type": "array"}, {"type": ["object"]}, None, [], "object"]
)
def test_a_schema_that_is_no_object_schema(schema: Any) -> None:
    assert message_of({}, schema) == "tool input must be an object"


@pytest.mark.parametrize("rules", [{}, {"enum": ["a"]}, {"description": "?"}, True, {"const": 1}])
def test_an_argument_without_a_type_is_ambiguous(rules: Any) -> None:
    with pytest.raises(SchemaError, match=r"^unsupported or ambiguous type for x$"):
        validate_arguments({"x": "a"}, only(rules))


def test_the_copy_is_canonical_and_deep() -> None:
    inner = [1, 2]
    arguments = {"x": inner, "y": {"k": 2.0}}
    schema = {
        "type": "object",
        "properties": {
            "x": {"type": "array"},
            "y": {"type": "object", "properties": {"k": {"type": "number"}}},
        },
    }
    copy = validate_arguments(arguments, schema)
    inner.append(3)
    assert copy == {"x": [1, 2], "y": {"k": 2}}
    assert copy is not arguments


def test_a_schema_that_was_changed_is_another_schema() -> None:
    schema = only({"type": "string"})
    assert validate_arguments({"x": "a"}, schema) == {"x": "a"}
    schema["properties"]["x"]["type"] = "integer"
    assert message_of({"x": "a"}, schema) == "wrong type for x"
    assert validate_arguments({"x": 1}, only({"type": "integer", "enum": [1]})) == {"x": 1}
    assert message_of({"x": True}, only({"type": "boolean", "enum": [1]})) == "invalid enum for x"


# --- V1: booleans ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "bad", "good"),
    [
        ({"type": "integer"}, True, 1),
        ({"type": "number"}, False, 0),
        ({"type": "boolean", "enum": [0, 1]}, True, None),
        ({"type": "integer", "enum": [True]}, 1, None),
        ({"type": "integer", "enum": [1]}, True, 1),
        ({"type": ["integer", "boolean"], "const": 1}, True, 1),
        ({"type": ["integer", "boolean"], "const": True}, 1, True),
        ({"type": "array", "enum": [[[1]]]}, [[True]], [[1]]),
        ({"type": "boolean"}, 1, True),
        ({"type": "boolean"}, 0.0, False),
        ({"type": "array", "uniqueItems": True}, [1, 1.0], [1, True]),
        ({"type": "array", "uniqueItems": True}, [{"a": 0}, {"a": -0.0}], [{"a": 0}, {"a": False}]),
        ({"type": "array", "items": {"type": "integer"}}, [1, True], [1, 2]),
    ],
)
def test_v1_a_boolean_is_never_a_number(rules: Any, bad: Any, good: Any) -> None:
    message_of({"x": bad}, only(rules))
    if good is not None:
        assert validate_arguments({"x": good}, only(rules)) == {"x": good}


# --- V2: integers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["5", 5.5, 5.0, 1e2, -0.0, "0x5", [5]])
def test_v2_nothing_but_an_integer_is_an_integer(value: Any) -> None:
    assert message_of({"x": value}, only({"type": "integer"})) == "wrong type for x"


def test_v2_a_contract_may_take_five_point_zero_as_five() -> None:
    compiled = compile_schema(only({"type": "integer"}), integers="json-schema", is_object=True)
    copy = compiled.validate({"x": 5.0})
    assert repr(copy.value) == "{'x': 5}"
    assert copy == compiled.validate({"x": 5})
    assert not compiled.is_valid({"x": 5.5})
    assert not compiled.is_valid({"x": "5"})


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ({"type": ["integer", "string"]}, "5", 5.0),
        ({"type": ["integer", "number"]}, 5.0, "5"),
        ({"type": "array", "items": {"type": "integer"}}, [5], [1.5, 5.0]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, 5.0),
        ({"anyOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]}, 5.0, 4.0),
        ({"type": "number", "not": {"type": "integer"}}, 5.5, 5.0),
        ({"$ref": "#/$defs/count"}, 5, 5.0),
    ],
)
def test_v2_integers_are_strict_wherever_the_schema_says_integer(
    rules: Any, good: Any, bad: Any
) -> None:
    schema = {**only(rules), "$defs": {"count": {"type": "integer"}}}
    assert validate_arguments({"x": good}, schema) == {"x": good}
    message_of({"x": bad}, schema)


def test_v2_a_number_reaches_the_tool_as_its_canonical_value() -> None:
    copy = validate_arguments({"x": 5.0}, only({"type": "number"}))
    assert repr(copy) == "{'x': 5}"


# --- V3, V4: the domain of numbers ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_v3_two_large_integers_never_share_an_operation(kind: str) -> None:
    for number in (2**53, 2**53 + 1, -(2**53), 2**64, 10**400):
        assert problems_of({"x": number}, only({"type": kind})) == [("/x", "integer-range")]


def test_v4_not_a_number_is_refused_with_and_without_limits() -> None:
    for rules in ({"type": "number"}, {"type": "number", "minimum": 0, "maximum": 1}):
        for number in (math.nan, math.inf, -math.inf):
            assert problems_of({"x": number}, only(rules)) == [("/x", "not-finite")]


# --- V5: unknown fields ---------------------------------------------------------------------------


def test_v5_unknown_fields_are_named_and_their_values_are_not() -> None:
    with pytest.raises(ValidationError) as caught:
        validate_arguments({"text": "a", "admin": "hunter2", "root": {"k": "hunter2"}}, FLAT)
    assert str(caught.value) == "missing=[], extra=['admin', 'root']"
    assert [p.path for p in caught.value.problems] == ["/admin", "/root"]
    assert "hunter2" not in json.dumps(caught.value.to_dict())


OPEN = {"type": "object", "properties": {"x": {"type": "string"}}}
NEXT = {"type": "object", "properties": {"y": {"type": "integer"}}}
MAP = {"type": "object", "additionalProperties": True}


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        (OPEN, {"x": "a"}, {"x": "a", "y": 1}),
        ({"type": "object"}, {}, {"y": 1}),
        ({"type": ["object", "null"], "required": []}, None, {"y": 1}),
        ({"type": "array", "items": OPEN}, [{"x": "a"}], [{}, {"y": 1}]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"y": 1}, {"y": "a"}),
        ({**OPEN, "additionalProperties": True}, {"y": [{"z": 1}]}, {"x": 1}),
        ({"type": "object", "additionalProperties": OPEN}, {"k": {"x": "a"}}, {"k": {"y": "a"}}),
        ({**OPEN, "patternProperties": {"^y": {"type": "integer"}}}, {"y1": 1}, {"z": 1}),
        ({"$ref": "#/$defs/open"}, {"x": "a"}, {"y": 1}),
        (
            {"allOf": [{"$ref": "#/$defs/open"}, NEXT]},
            {"x": "a", "y": 1},
            {"x": "a", "y": 1, "z": 1},
        ),
        ({"anyOf": [OPEN, {"type": "string"}]}, "a", {"y": 1}),
        (
            {**OPEN, "if": {"properties": {"x": {"const": "a"}}, "required": ["x"]}, "then": NEXT},
            {"x": "a", "y": 1},
            {"x": "b", "y": 1},
        ),
        ({**OPEN, "dependentSchemas": {"x": {"properties": {"y": {"type": "null"}}}}},
         {"x": "a", "y": None}, {"y": None}),
    ],
)  # fmt: skip
def test_v5_objects_are_closed_at_every_level(rules: Any, good: Any, bad: Any) -> None:
    schema = {**only(rules), "$defs": {"open": OPEN}}
    assert validate_arguments({"x": good}, schema) == {"x": good}
    problems_of({"x": bad}, schema)
    # The standard's own rules leave them open.
    by_standard = compile_schema(schema, rules="json-schema")
    assert by_standard.is_valid({"x": good, "more": 1})


def test_v5_closing_never_lets_through_what_the_standard_refuses() -> None:
    """Both branches fit by the standard, so oneOf refuses; closed, one branch would fit."""
    branch = {"type": "object", "properties": {"v": OPEN}}
    other = {
        "type": "object",
        "properties": {"v": {"type": "object", "properties": {"y": {"type": "string"}}}},
    }
    schema = only({"oneOf": [branch, other]})
    assert problems_of({"x": {"v": {"x": "a"}}}, schema) == [("/x", "oneOf")]
    excluded = only(
        {
            "type": "object",
            "properties": {"v": OPEN},
            "not": {"required": ["v"], "properties": {"v": OPEN}},
        }
    )
    problems_of({"x": {"v": {"x": "a"}}}, excluded)
    assert validate_arguments({"x": {}}, excluded) == {"x": {}}


DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def test_v5_draft_7_objects_are_closed_too() -> None:
    schema = {
        "$schema": DRAFT_7,
        "type": "object",
        "properties": {
            "a": {"$ref": "#/definitions/open"},
            "b": {"anyOf": [OPEN, {"type": "null"}]},
            "c": {"type": "array", "items": [OPEN], "additionalItems": False},
            "d": {**OPEN, "anyOf": [{"required": ["x"]}, {"maxProperties": 0}]},
        },
        "definitions": {"open": OPEN},
    }
    good = {"a": {"x": "a"}, "b": None, "c": [{"x": "a"}], "d": {"x": "a"}}
    assert validate_arguments(good, schema) == good
    for name, value in (
        ("a", {"y": 1}),
        ("b", {"y": 1}),
        ("c", [{"y": 1}]),
        ("d", {"x": "a", "y": 1}),
    ):
        problems_of({name: value}, schema)


def test_v5_draft_7_refuses_what_it_cannot_close() -> None:
    schema = {"$schema": DRAFT_7, **only({"allOf": [OPEN, OPEN]})}
    with pytest.raises(SchemaError) as caught:
        validate_arguments({}, schema)
    (problem,) = caught.value.problems
    assert (problem.path, problem.rule) == ("/properties/x", "strict-object")


# --- what is the same under both rules ------------------------------------------------------------

KEYWORDS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number", "string", "boolean", "null", "array"])},
    optional={
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "enum": st.lists(ANY_VALUE, max_size=3),
        "const": ANY_VALUE,
        "items": st.sampled_from([{"type": "integer"}, {}, False]),
    },
)
NO_OBJECTS = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 3), st.just(1.5), st.sampled_from(["", "ab"])
    ),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(KEYWORDS, NO_OBJECTS)
def test_strict_rules_change_nothing_where_no_object_and_no_float_is(
    rules: Any, value: Any
) -> None:
    schema = only(rules)
    strict = compile_schema(schema, is_object=True)
    by_standard = compile_schema(schema, rules="json-schema", integers="json-schema")
    assert strict.is_valid({"x": value}) is by_standard.is_valid({"x": value})


# --- problems -------------------------------------------------------------------------------------


def test_every_problem_is_reported_with_a_remedy() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "maximum": 8},
            "s": {"type": "string", "pattern": r"^\w+\b$", "maxLength": 3},
            "o": {"type": "object", "properties": {"k": {"type": "string", "format": "date"}}},
            "u": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
        },
        "required": ["r"],
    }
    arguments = {"n": 9, "s": "a-b-c", "o": {"k": "today"}, "u": [1, "a"]}
    with pytest.raises(ValidationError) as caught:
        validate_arguments(arguments, schema)
    found = {(p.path, p.rule): p for p in caught.value.problems}
    assert found.keys() == {
        ("/n", "maximum"),
        ("/s", "pattern"),
        ("/s", "maxLength"),
        ("/o/k", "format"),
        ("/u", "anyOf"),
        ("", "required"),
    }
    assert found["/n", "maximum"].to_dict() == {
        "path": "/n",
        "rule": "maximum",
        "message": "is more than 8",
        "remedy": "send 8 or less",
    }
    assert found["/s", "pattern"].message == r"does not match the pattern ^\w+\b$"
    assert "/u/1: must be integer" in found["/u", "anyOf"].message
    assert all(p.message and p.remedy for p in caught.value.problems)
    told = json.loads(json.dumps(caught.value.to_dict()))
    assert told["error"] == "ValidationError"
    assert len(told["problems"]) == 6


SENTENCES = [
    ({"type": "integer", "minimum": 2}, 1, "minimum"),
    ({"type": "integer", "exclusiveMinimum": 2}, 2, "exclusiveMinimum"),
    ({"type": "integer", "exclusiveMaximum": 2}, 2, "exclusiveMaximum"),
    ({"type": "number", "multipleOf": 0.01}, 19.995, "multipleOf"),
    ({"type": "string", "minLength": 2}, "a", "minLength"),
    ({"type": "array", "minItems": 1}, [], "minItems"),
    ({"type": "array", "maxItems": 1}, [1, 2], "maxItems"),
    ({"type": "array", "uniqueItems": True}, [1, 1], "uniqueItems"),
    ({"type": "array", "contains": {"const": 1}}, [2], "contains"),
    ({"type": "array", "prefixItems": [{}], "items": False}, [1, 2], "falseSchema"),
    ({"type": "array", "prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "unevaluatedItems"),
    ({"type": "object", "minProperties": 1}, {}, "minProperties"),
    ({**MAP, "maxProperties": 0}, {"a": 1}, "maxProperties"),
    ({**MAP, "propertyNames": {"maxLength": 1}}, {"ab": 1}, "propertyNames"),
    ({**MAP, "dependentRequired": {"a": ["b"]}}, {"a": 1}, "required"),
    ({"type": "integer", "const": 3}, 4, "const"),
    ({"type": "integer", "not": {"const": 3}}, 3, "not"),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 3, "oneOf"),
    ({"type": ["integer", "null"]}, "a", "type"),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "value", "rule"), SENTENCES, ids=[s[2] for s in SENTENCES])
def test_every_keyword_has_its_sentence(rules: Any, value: Any, rule: str) -> None:
    with pytest.raises(ValidationError) as caught:
        validate_arguments({"x": value}, only(rules))
    (problem,) = caught.value.problems
    assert problem.rule == rule
    assert problem.path == ("/x/1" if rule == "falseSchema" else "/x")
    assert "breaks the rule" not in problem.message


def test_problems_are_bounded() -> None:
    schema = only({"type": "array", "items": {"type": "integer"}})
    assert len(problems_of({"x": ["a"] * 500}, schema)) == 20
    many = {f"k{number:04}": number for number in range(3_000)}
    with pytest.raises(ValidationError) as caught:
        validate_arguments(many, FLAT)
    assert len(caught.value.problems) <= 20
    assert len(str(caught.value)) < 2_100
    assert str(caught.value).startswith("missing=['text'], extra=['k0000', 'k0001'")


def test_an_error_in_a_large_value_of_many_branches_is_bounded() -> None:
    """Collecting every branch of every item would take minutes."""
    branches = [
        {"type": "object", "properties": {f"k{n}": {"type": "integer"}}, "required": [f"k{n}"]}
        for n in range(300)
    ]
    schema = only({"type": "array", "items": {"anyOf": branches}})
    with pytest.raises(ValidationError, match="too large to say where"):
        validate_arguments({"x": [{"a": 1}] * 20_000}, schema)
    assert problems_of({"x": [{"a": 1}]}, schema) == [("/x/0", "anyOf")]


def test_a_known_field_is_not_called_unknown_because_another_is_wrong() -> None:
    known = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    schema = only({"anyOf": [known, {"type": "null"}]})
    assert problems_of({"x": {"a": "1", "b": "ok"}}, schema) == [("/x", "anyOf")]
    assert problems_of({"x": {"a": 1, "c": "?"}}, schema) == [("/x/c", "unevaluatedProperties")]
