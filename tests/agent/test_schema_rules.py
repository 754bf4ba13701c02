"""Schemas as hostile input: what is refused at registration, and that it is quick (S1 to S5)."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gnomon.agent import SchemaError, Tool, ValidationError
from gnomon.agent.jsonvalue import Bounds
from gnomon.agent.schema import compile_schema
from gnomon.agent.schema_keywords import DRAFT_7, DRAFT_2020_12
from gnomon.agent.schema_patterns import engine_pattern, shown_pattern

# Far above what is needed here, far below what an unbounded run would take.
SECONDS_MAX = 10.0


def refusal(schema: Any, **options: Any) -> tuple[str, str]:
    """Path and rule of the one problem for which a schema is refused."""
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, **options)
    (problem,) = caught.value.problems
    assert problem.remedy
    return problem.path, problem.rule


def only(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, **more}


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS_MAX


# --- S1: nothing is fetched -----------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """The address of a web server and the list of what it was asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}/schema.json", asked
        found.shutdown()
        thread.join()


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$schema", "$id"])
@pytest.mark.parametrize("rules", ["strict", "json-schema"])
def test_s1_no_request_is_made(
    server: tuple[str, list[str]], tmp_path: Path, keyword: str, rules: Any
) -> None:
    address, asked = server
    local = tmp_path / "schema.json"
    local.write_text("{}")
    for uri in (address, address + "#/$defs/x", local.as_uri(), "//127.0.0.1/x", "other.json"):
        schema = {"type": "object", keyword: uri}
        if keyword == "$id":
            compile_schema(schema, rules=rules) if "#" not in uri else refusal(schema, rules=rules)
            schema = only({"$ref": "sibling.json"}, **{"$id": uri.partition("#")[0]})
        assert refusal(schema, rules=rules)[1] == (
            "$schema" if keyword == "$schema" else "remote-ref"
        )
    assert asked == []


def test_s1_references_inside_the_document_work() -> None:
    schema = {
        "$id": "https://example.org/tool",
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/n"},
            "b": {"$ref": "#named"},
            "c": {"$ref": "https://example.org/tool#/$defs/n"},
            "d": {"$ref": "part#/$defs/inner"},
            "e": {"$ref": "#/properties/f~1g/prefixItems/0"},
            "f/g": {"type": "array", "prefixItems": [{}], "items": {"type": "string"}},
            "h": {"$ref": "#/$defs/with%20space"},
        },
        "$defs": {
            "n": {"type": "integer"},
            "anchored": {"$anchor": "named", "type": "integer"},
            "part": {"$id": "part", "$defs": {"inner": {"type": "integer"}}},
            "with space": {"type": "integer"},
        },
    }
    compiled = compile_schema(schema)
    assert compiled.is_valid({"a": 1, "b": 2, "c": 3, "d": 4, "e": None, "h": 5})
    for name in "abcdh":
        assert not compiled.is_valid({name: "1"})


@pytest.mark.parametrize(
    "ref", ["#/nope", "#nope", "#/properties", "#/properties/x/enum/0", "#/type", 5, None]
)
def test_s1_a_reference_to_no_schema(ref: Any) -> None:
    schema = only({"type": "object", "enum": [{}]}, allOf=[{"$ref": ref}])
    assert refusal(schema) == ("/allOf/0/$ref", "$ref")


# --- S2: bombs ------------------------------------------------------------------------------------


def chain(levels: int, link: Any) -> dict[str, Any]:
    """Definitions d0 to d(levels), each made by link(reference to the next)."""
    found = {f"d{i}": link({"$ref": f"#/$defs/d{i + 1}"}) for i in range(levels)}
    return {**found, f"d{levels}": {"type": "integer"}}


@pytest.mark.parametrize(
    "link",
    [
        lambda ref: {"allOf": [ref, ref]},
        lambda ref: {"anyOf": [ref, {"oneOf": [ref]}]},
        lambda ref: {"if": ref, "then": ref, "else": ref},
        lambda ref: {"allOf": [{"properties": {"a": ref}}, {"properties": {"a": ref}}]},
        lambda ref: {"properties": {"a": ref}, "patternProperties": {"a": ref}},
        lambda ref: {"items": ref, "contains": ref},
        lambda ref: {"prefixItems": [ref], "contains": ref},
    ],
)
def test_s2_definitions_that_double(link: Any) -> None:
    schema = only({"$ref": "#/$defs/d0"}, **{"$defs": chain(27, link)})
    assert refusal(schema)[1] == "schema-cost"
    assert refusal(schema, rules="json-schema")[1] == "schema-cost"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"not": {"anyOf": [{"$ref": "#"}]}},
        {"$dynamicAnchor": "a", "$dynamicRef": "#a"},
    ],
)
def test_s2_loops_for_one_value(schema: Any) -> None:
    assert refusal({"type": "object", **schema})[1] == "ref-loop"


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]},
        {"patternProperties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}},
        {"oneOf": [{"properties": {"k": {"const": n}, "v": {"$ref": "#"}}} for n in range(9)]},
    ],
)
def test_s2_recursion_that_doubles_with_depth(schema: Any) -> None:
    assert refusal({"type": "object", **schema})[1] == "schema-cost"


def test_s2_a_smaller_depth_can_make_it_affordable() -> None:
    recursive = {
        "type": "object",
        "anyOf": [
            {"properties": {"k": {"const": n}, "v": {"$ref": "#"}}, "required": ["k"]}
            for n in range(4)
        ],
    }
    assert refusal(recursive)[1] == "schema-cost"
    compiled = compile_schema(recursive, bounds=Bounds(max_depth=4))
    assert compiled.is_valid({"k": 0, "v": {"k": 1, "v": {"k": 3}}})
    assert not compiled.is_valid({"k": 0, "v": {"k": 1, "v": {"k": 4}}})


TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
ANY_JSON = {
    "$ref": "#/$defs/json",
    "$defs": {
        "json": {
            "anyOf": [
                {"type": ["null", "string", "number", "boolean"]},
                {"type": "array", "items": {"$ref": "#/$defs/json"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
            ]
        }
    },
}
FILTER = {
    "type": "object",
    "oneOf": [
        {"properties": {"and": {"type": "array", "items": {"$ref": "#"}}}, "required": ["and"]},
        {"properties": {"or": {"type": "array", "items": {"$ref": "#"}}}, "required": ["or"]},
        {"properties": {"not": {"$ref": "#"}}, "required": ["not"]},
        {"properties": {"field": {"type": "string"}}, "required": ["field"]},
    ],
}


def test_s2_ordinary_recursion_is_fine() -> None:
    deep: Any = {}
    for _ in range(60):
        deep = {"left": deep, "right": {}}
    assert compile_schema(TREE).is_valid(deep)
    assert not compile_schema(TREE).is_valid({"left": {"right": {"middle": {}}}})
    assert compile_schema(ANY_JSON).is_valid([{"a": [None, {"b": 1.5}]}])
    found = compile_schema(FILTER)
    assert found.is_valid({"and": [{"not": {"field": "a"}}, {"or": []}]})
    assert not found.is_valid({"and": [{"not": {"field": "a", "admin": True}}]})


def test_s2_a_long_chain_and_a_large_schema() -> None:
    schema = only({"$ref": "#/$defs/d0"}, **{"$defs": chain(900, lambda ref: ref)})
    assert refusal(schema)[1] == "schema-cost"
    assert refusal(only({"enum": ["x" * 300_000], "type": "string"}))[1] == "size"
    many = {f"p{n}": {"type": "string", "minLength": 1} for n in range(6_000)}
    assert refusal({"type": "object", "properties": many})[1] == "schema-size"
    refs = [{"$ref": "#/$defs/a"}] * 1_001
    assert refusal({"prefixItems": refs, "$defs": {"a": {}}})[1] == "schema-size"
    big = {"allOf": [{"properties": {"a": {}}}] * 900}
    properties = {f"p{n}": {"$ref": "#/$defs/big"} for n in range(900)}
    schema = {"type": "object", "properties": properties, "$defs": {"big": big}}
    assert refusal(schema)[1] == "schema-cost"


def test_s2_a_value_is_not_compared_with_thousands_of_objects() -> None:
    halves = [{"enum": [{"k": n} for n in range(start, start + 501)]} for start in (0, 501)]
    assert refusal(only({"allOf": halves}))[1] == "schema-cost"
    found = compile_schema({"type": "array", "items": halves[0]})
    assert found.is_valid([{"k": 500}] * 10_000)
    assert not found.is_valid([{"k": 501}])
    texts = [str(n) for n in range(10_000)]
    assert compile_schema({"type": "array", "items": {"enum": texts}}).is_valid(texts)


def test_s2_two_thousand_levels() -> None:
    deep: Any = {"type": "integer"}
    for _ in range(2_000):
        deep = {"type": "array", "items": deep}
    assert refusal(deep)[1] == "depth"
    with pytest.raises(ValueError, match="nested deeper"):
        Tool("deep", only(deep), 1, lambda x: x)


# --- S3, S5: patterns -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 500_000 + "!"),
        ("^(a|a)*$", "a" * 500_000 + "!"),
        (r"^(\w+\s?)*$", "word " * 100_000 + "!"),
        ("(.*a){20}$", "b" * 500_000),
        ("(x+x+)+y", "x" * 500_000),
    ],
)
def test_s3_no_pattern_takes_more_than_linear_time(pattern: str, text: str) -> None:
    compiled = compile_schema({"type": "string", "pattern": pattern})
    with pytest.raises(ValidationError):
        compiled.validate(text)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(a)\1", r"(?<n>a)\k<n>"),
        *("(?i)a", "(?x)a b", "(?P<n>a)", "(?s).", "(?>a)", r"\Aa", r"a\z", r"a\Z", r"\h", r"\pL"),
        *("a++", "a*+", "a{2}{3}", "a**", r"\x{41}", r"\<a", r"\b{start}", r"\Qa\E", r"\_\e"),
        *("(a", "[a", "a)", "*a", "a{2,1}", "[b-a]", "((a{1000}){1000}){1000}", "\\"),
    ],
)
def test_s5_what_is_not_ecma_262_in_linear_time_is_refused(pattern: str) -> None:
    assert refusal({"type": "string", "pattern": pattern}) == ("/pattern", "pattern")
    assert refusal({"patternProperties": {pattern: {}}})[1] == "pattern"


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a\n", False),
        ("^a$", "a", True),
        (r"^\d$", "٣", False),
        (r"^\d$", "3", True),
        (r"^\w$", "é", False),
        (r"^\W$", "é", True),
        (r"\bé", "aé", True),
        (r"\Bé", "é", True),
        (r"^\s$", "\ufeff", True),
        (r"^\s$", "\x85", False),
        ("^.$", "\u2028", False),
        ("^.$", "😀", True),
        ("^[a&&b]$", "&", True),
        ("^[[a]$", "[", True),
        (r"^\p{Script=Greek}+$", "αβ", True),
        (r"^\u0041\x42\cA$", "AB\x01", True),
        (r"^(?:a|(?<word>b))+?$", "abab", True),
        (r"^\/\-\.\$$", "/-.$", True),
        (r"^[\]\w-]+$", "]-a", True),
        ("b", "abc", True),
    ],
)
def test_s5_patterns_mean_what_ecma_262_says(pattern: str, text: str, matches: bool) -> None:
    assert compile_schema({"type": "string", "pattern": pattern}).is_valid(text) is matches
    by_key = compile_schema({"patternProperties": {pattern: True}, "additionalProperties": False})
    assert by_key.is_valid({text: 1}) is matches
    assert shown_pattern(engine_pattern(pattern)) == pattern


def test_s5_multiples_are_exact() -> None:
    compiled = compile_schema({"type": "number", "multipleOf": 0.01})
    assert compiled.is_valid(19.99)
    assert not compiled.is_valid(19.995)


# --- S4: typos and wrong types --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "path", "rule"),
    [
        ({"type": "integer", "minimun": 3}, "/properties/x/minimun", "unknown-keyword"),
        ({"type": "int"}, "/properties/x/type", "type"),
        ({"type": []}, "/properties/x/type", "type"),
        ({"type": "string", "enum": "abc"}, "/properties/x/enum", "enum"),
        ({"type": "string", "enum": None}, "/properties/x/enum", "enum"),
        ({"type": "string", "minLength": -1}, "/properties/x/minLength", "minLength"),
        ({"type": "string", "minLength": "1"}, "/properties/x/minLength", "minLength"),
        ({"type": "string", "format": "emial"}, "/properties/x/format", "format"),
        ({"type": "array", "items": 5}, "/properties/x/items", "schema"),
        ({"type": "array", "items": [{}]}, "/properties/x/items", "items"),
        ({"type": "object", "required": "name"}, "/properties/x/required", "required"),
        ({"type": "object", "required": None}, "/properties/x/required", "required"),
        ({"type": "object", "properties": None}, "/properties/x/properties", "properties"),
        ({"type": "object", "properties": []}, "/properties/x/properties", "properties"),
        ({"type": "object", "properties": {"y": None}}, "/properties/x/properties/y", "schema"),
        ({"type": "object", "propertys": {}}, "/properties/x/propertys", "unknown-keyword"),
        ({"type": "object", "dependencies": {}}, "/properties/x/dependencies", "unknown-keyword"),
        ({"type": "string", "x-note": "?"}, "/properties/x/x-note", "unknown-keyword"),
        ({"type": "string", "nullable": True}, "/properties/x/nullable", "unknown-keyword"),
        ({"contentEncoding": "base64"}, "/properties/x/contentEncoding", "unknown-keyword"),
        ({"anyOf": []}, "/properties/x/anyOf", "anyOf"),
        ({"anyOf": {}}, "/properties/x/anyOf", "anyOf"),
        ({"type": "object", "$schema": DRAFT_7}, "/properties/x/$schema", "$schema"),
        (None, "/properties/x", "schema"),
        ("string", "/properties/x", "schema"),
    ],
)  # fmt: skip
def test_s4_a_faulty_contract_is_refused_when_it_is_registered(
    rules: Any, path: str, rule: str
) -> None:
    assert refusal(only(rules), is_object=True) == (path, rule)
    with pytest.raises(SchemaError):
        Tool("tool", only(rules), 1, lambda x=None: {"status": "succeeded"})


@pytest.mark.parametrize("schema", [{"a": float("nan")}, {"enum": [{1}]}, {1: 2}, 5, None, "x", []])
def test_s4_a_schema_that_is_no_schema(schema: Any) -> None:
    with pytest.raises(SchemaError):
        compile_schema(schema)


@pytest.mark.parametrize(
    "uri", ["http://json-schema.org/draft-04/schema#", "https://example.org/mine", "", None, 7]
)
def test_s4_an_unknown_dialect(uri: Any) -> None:
    assert refusal({"$schema": uri}) == ("/$schema", "$schema")


def test_s4_two_anchors_of_one_name() -> None:
    schema = {"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n"}}}
    assert refusal(schema)[1] == "$anchor"


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match="rules must be"):
        compile_schema({}, rules="lax")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="integers must be"):
        compile_schema({}, integers="lax")  # type: ignore[arg-type]


def test_formats_are_checked_under_strict_rules() -> None:
    compiled = compile_schema({"type": "string", "format": "date-time"})
    assert compiled.is_valid("2026-11-30T12:00:00Z")
    assert not compiled.is_valid("yesterday")
    assert compile_schema({"format": "date-time"}, rules="json-schema").is_valid("yesterday")


def test_boolean_schemas() -> None:
    assert compile_schema(True).is_valid({"any": [1]})
    assert not compile_schema(False).is_valid(None)


def test_both_dialects_and_their_keywords() -> None:
    draft7 = {"$schema": DRAFT_7, "items": [{"type": "integer"}], "additionalItems": False}
    assert compile_schema(draft7).is_valid([1])
    assert not compile_schema(draft7).is_valid([1, 2])
    newer = {"$schema": DRAFT_2020_12, "prefixItems": [{"type": "integer"}], "items": False}
    assert compile_schema(newer).is_valid([1])
    assert not compile_schema(newer).is_valid([1, 2])
    assert refusal({**newer, "$schema": DRAFT_7}) == ("/prefixItems", "unknown-keyword")
    # Draft 7 ignores what stands beside $ref, so a loop there is none.
    beside = {"$schema": DRAFT_7, "definitions": {"n": {"type": "integer"}}}
    beside["properties"] = {"x": {"$ref": "#/definitions/n", "allOf": [{"$ref": "#"}]}}
    assert compile_schema(beside).is_valid({"x": 1})


def test_the_digest_names_schema_and_rules() -> None:
    base = only({"type": "integer"})
    same = {"properties": {"x": {"type": "integer"}}, "type": "object"}
    digests = {
        compile_schema(base).digest,
        compile_schema(base, rules="json-schema").digest,
        compile_schema(base, integers="json-schema").digest,
        compile_schema(base, is_object=True).digest,
        compile_schema(only({"type": "number"})).digest,
    }
    assert len(digests) == 5
    assert compile_schema(same).digest == compile_schema(base).digest


def test_a_compiled_schema_does_not_follow_the_callers_dict() -> None:
    schema = only({"type": "integer"})
    compiled = compile_schema(schema)
    schema["properties"]["x"]["type"] = "string"
    schema["additionalProperties"] = True
    assert compiled.is_valid({"x": 1})
    assert not compiled.is_valid({"y": 1})
    assert compiled.schema == only({"type": "integer"})
