"""Any JSON as a schema: it compiles or is refused with SchemaError, and strict is never laxer."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from gnomon.agent import SchemaError, ValidationError
from gnomon.agent.jsonvalue import canonicalize
from gnomon.agent.schema import compile_schema
from gnomon.agent.schema_keywords import DIALECTS, DRAFT_7, DRAFT_2020_12, STORED
from hypothesis import given

KEYWORDS = sorted(DIALECTS[DRAFT_2020_12].keywords | DIALECTS[DRAFT_7].keywords)
NAMES = ["a", "b", "^a", "(?=a)"]
REFS = [
    "#",
    "#/$defs/a",
    "#/definitions/b",
    "#a",
    "b#",
    "https://x.y/z",
    "#/properties/a/items",
    "%zz#/",
]
SMALL = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.5, 2.0, 1e300, 10**20])
)
TYPES = ["object", "array", "string", "integer", "number", "boolean", "null", "int"]

anything = st.recursive(
    st.one_of(SMALL, st.sampled_from([*TYPES, *REFS, *NAMES, "", DRAFT_7])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from([*KEYWORDS, *NAMES]), inner, max_size=4),
    ),
    max_leaves=15,
)


@given(anything, st.sampled_from([DRAFT_7, DRAFT_2020_12]), st.booleans(), anything)
def test_anything_compiles_or_is_refused(
    schema: Any, dialect: str, is_strict: bool, value: Any
) -> None:
    rules: Any = "strict" if is_strict else "json-schema"
    problems = None
    try:
        compile_schema(schema, rules=rules, dialect=dialect).validate(value)
    except (SchemaError, ValidationError) as error:
        problems = error.problems
    if problems is not None:
        assert problems
        assert all(problem.message and problem.remedy for problem in problems)


def schemas(dialect: str) -> st.SearchStrategy[Any]:
    """Well-formed schemas that mix objects with everything that speaks of the same value."""
    is_draft7 = dialect == DRAFT_7
    leaf = st.sampled_from(
        [
            {"type": "integer"},
            {"type": "object"},
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"required": ["a"]},
            {"properties": {"b": {}}},
            {"type": ["object", "null"], "additionalProperties": {"type": "integer"}},
            {"const": {"a": 1}},
            {"minProperties": 1},
            {"$ref": "#/$defs/d" if not is_draft7 else "#/definitions/d"},
            {},
            True,
            False,
        ]
    )

    def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        many = st.lists(inner, min_size=1, max_size=2)
        by_name = st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
        optional: dict[str, st.SearchStrategy[Any]] = {
            "properties": by_name,
            "patternProperties": st.dictionaries(st.just("^b"), inner, max_size=1),
            "additionalProperties": inner,
            "allOf": many,
            "anyOf": many,
            "oneOf": many,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "contains": inner,
            "items": inner,
            "dependencies" if is_draft7 else "dependentSchemas": by_name,
        }
        if not is_draft7:
            optional["unevaluatedProperties"] = inner
        return st.fixed_dictionaries({}, optional=optional)

    tree = st.recursive(leaf, wider, max_leaves=6)
    stored = STORED[1] if is_draft7 else STORED[0]
    definition = st.sampled_from([{"type": "object", "properties": {"a": {"type": "object"}}}, {}])
    return st.tuples(tree, definition).map(
        lambda pair: {stored: {"d": pair[1]}, **(pair[0] if isinstance(pair[0], dict) else {})}
    )


values = st.recursive(
    st.sampled_from([0, 1, None, "a", 5.0]),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
        st.lists(inner, max_size=2),
    ),
    max_leaves=6,
)


@given(st.data(), st.sampled_from([DRAFT_7, DRAFT_2020_12]), st.lists(values, max_size=4))
def test_strict_rules_never_take_what_the_standard_refuses(
    data: st.DataObject, dialect: str, given_values: list[Any]
) -> None:
    schema = data.draw(schemas(dialect))
    refused = None
    try:
        strict = compile_schema(schema, dialect=dialect)
    except SchemaError as error:
        refused = error.problems[0].rule
    if refused is not None:
        assert refused in {"strict-object", "schema-cost", "ref-loop"}
        return
    by_standard = compile_schema(
        schema, rules="json-schema", integers="json-schema", dialect=dialect
    )
    for value in given_values:
        if strict.is_valid(value):
            assert by_standard.is_valid(value)
            assert strict.is_valid(canonicalize(value).value)
