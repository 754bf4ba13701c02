"""Tool contracts: fields, injected arguments, signatures, evidence, and tools from functions."""

from __future__ import annotations

import asyncio
import functools
import json
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import pytest
from gnomon.agent import (
    EVIDENCE_SCHEMA,
    Bounds,
    Evidence,
    Injected,
    Limits,
    SchemaError,
    Tool,
    ToolRuntime,
    ValidationError,
    tool,
)
from gnomon.agent.schema import compile_schema

DONE = {"status": "succeeded"}
SCHEMA = {
    "type": "object",
    "properties": {"project": {"type": "string"}, "tenant_id": {"type": "string", "minLength": 1}},
    "required": ["project", "tenant_id"],
}


def write(project: str, tenant_id: str = "") -> dict[str, str]:
    return DONE


def made(**options: Any) -> Tool:
    return Tool("write", SCHEMA, 1, write, **options)


# --- fields ---------------------------------------------------------------------------------------


def test_the_documents_four_fields_by_place() -> None:
    found = Tool("write", SCHEMA, 1, write)
    assert (found.name, found.schema, found.risk, found.execute) == ("write", SCHEMA, 1, write)
    assert (found.effect, found.on_large, found.limits) == ("write", "fail", Limits())
    with pytest.raises(TypeError):
        Tool("write", SCHEMA, 1, write, "purpose")  # type: ignore[misc]
    with pytest.raises(AttributeError):
        found.risk = 0  # type: ignore[misc]


@pytest.mark.parametrize("name", ["", "a b", "é", "a" * 129, "a\n", None, 5, ["write"]])
def test_names(name: Any) -> None:
    with pytest.raises(ValueError, match="name must be"):
        Tool(name, SCHEMA, 1, write)


@pytest.mark.parametrize("risk", [True, 1.0, float("nan"), -1, 10**7, "1", None])
def test_risk_is_an_int_in_a_closed_range(risk: Any) -> None:
    with pytest.raises(ValueError, match="risk must be"):
        Tool("write", SCHEMA, risk, write)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"effect": "none"}, ValueError, "effect must be"),
        ({"on_large": "cut"}, ValueError, "on_large must be"),
        ({"limits": {"timeout_ms": 5}}, TypeError, "limits must be"),
        ({"max_concurrency": 0}, ValueError, "max_concurrency must be"),
        ({"max_concurrency": True}, ValueError, "max_concurrency must be"),
        ({"idempotent": 1}, TypeError, "idempotent must be"),
        ({"approval": "yes"}, TypeError, "approval must be"),
        ({"reconcile": "later"}, TypeError, "reconcile must be callable"),
        ({"injected": "tenant_id"}, TypeError, "injected must be a collection"),
        ({"injected": {1}}, TypeError, "injected must hold names"),
        ({"redact_paths": "/a"}, TypeError, "redact_paths must be a collection"),
        ({"redact_paths": [""]}, TypeError, "redact_paths must hold names"),
        ({"output_schema": {"type": "int"}}, SchemaError, "/type"),
        ({"integers": "lax"}, ValueError, "integers must be"),
        ({"rules": "lax"}, ValueError, "rules must be"),
    ],
)
def test_options(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        made(**options)
    with pytest.raises(TypeError, match="execute must be callable"):
        Tool("write", SCHEMA, 1, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "5"])
@pytest.mark.parametrize("name", ["timeout_ms", "max_result_bytes"])
def test_limits(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"limits.{name}"):
        Limits(**{name: value})


# --- injected arguments ---------------------------------------------------------------------------


def test_injected_arguments_are_the_servers_alone() -> None:
    contract = made(injected={"tenant_id"}).contract
    assert contract.model_schema["properties"] == {"project": {"type": "string"}}
    assert contract.model_schema["required"] == ["project"]
    assert "tenant" not in json.dumps(contract.describe())
    with pytest.raises(ValidationError, match=r"^missing=\[\], extra=\['tenant_id'\]$"):
        contract.validate({"project": "alpha", "tenant_id": "other"})
    arguments = contract.validate({"project": "alpha"}).value
    whole = contract.call_arguments(arguments, {"tenant_id": "acme", "unused": 1})
    assert whole == {"project": "alpha", "tenant_id": "acme"}
    with pytest.raises(ValueError, match="needs injected arguments"):
        contract.call_arguments(arguments, {})
    with pytest.raises(ValidationError):
        contract.call_arguments(arguments, {"tenant_id": ""})


def test_an_injected_argument_the_schema_does_not_know_is_passed_as_it_is() -> None:
    schema = {"type": "object", "properties": {"project": {"type": "string"}}}
    found = Tool("write", schema, 1, lambda project="", context=None: DONE, injected={"context"})
    marker = object()
    assert found.contract.call_arguments({}, {"context": marker}) == {"context": marker}


def test_what_a_model_is_told() -> None:
    found = made(
        purpose="Write a project.",
        effect="destructive",
        idempotent=True,
        output_schema={"type": "object"},
    )
    told = found.contract.describe()
    assert told == {
        "name": "write",
        "description": "Write a project.",
        "inputSchema": SCHEMA,
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": True,
        },
        "outputSchema": {"type": "object"},
    }
    told["inputSchema"]["properties"].clear()
    assert found.contract.describe()["inputSchema"] == SCHEMA


def test_the_digest_changes_with_what_an_approval_was_given_for() -> None:
    base = made().contract.digest
    assert made(purpose="other words").contract.digest == base
    others = [
        made(effect="destructive"),
        made(injected={"tenant_id"}),
        made(integers="json-schema"),
        made(rules="json-schema"),
        made(output_schema={"type": "object"}),
        Tool("write", SCHEMA, 2, write),
        Tool("other", SCHEMA, 1, write),
        Tool("write", {**SCHEMA, "required": ["tenant_id", "project"]}, 1, write),
    ]
    digests = {other.contract.digest for other in others} | {base}
    assert len(digests) == len(others) + 1


def test_results_are_held_against_the_output_schema() -> None:
    output = {"type": "object", "properties": {"status": {"type": "string"}}}
    contract = made(output_schema=output).contract
    contract.check_result({"status": "succeeded"})
    with pytest.raises(ValidationError):
        contract.check_result({"status": "succeeded", "more": 1})
    made().contract.check_result({"anything": 1})


def test_bounds_of_arguments() -> None:
    contract = made(bounds=Bounds(max_bytes=40)).contract
    contract.validate({"project": "a", "tenant_id": "b"})
    with pytest.raises(ValidationError, match="larger than 40 bytes"):
        contract.validate({"project": "a" * 40, "tenant_id": "b"})


# --- signatures -----------------------------------------------------------------------------------


class Callee:
    def __call__(self, project: str, tenant_id: str) -> dict[str, str]:
        return DONE


@pytest.mark.parametrize(
    "function",
    [
        write,
        lambda **anything: DONE,
        lambda project, **rest: DONE,
        lambda project, tenant_id, *, more=1: DONE,
        functools.partial(write, "alpha", tenant_id="x"),
        Callee(),
    ],
)
def test_functions_that_can_take_every_valid_call(function: Any) -> None:
    if isinstance(function, functools.partial):
        schema = {"type": "object", "properties": {"tenant_id": {"type": "string"}}}
    else:
        schema = SCHEMA
    Tool("write", schema, 1, function)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: DONE, "does not take"),
        (lambda project: DONE, r"does not take \['tenant_id'\]"),
        (lambda project, tenant_id, more: DONE, r"needs \['more'\]"),
        (lambda project, tenant_id, /: DONE, "does not take"),
        (lambda more, **rest: DONE, r"needs \['more'\]"),
    ],
)
def test_functions_that_cannot_are_refused_at_registration(function: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Tool("write", SCHEMA, 1, function)


def test_an_optional_argument_needs_a_default() -> None:
    schema = {**SCHEMA, "required": ["tenant_id"]}
    with pytest.raises(
        SchemaError, match=r"needs \['project'\], which the schema does not require"
    ):
        Tool("write", schema, 1, write)
    with pytest.raises(SchemaError, match="further fields"):
        Tool("write", {**SCHEMA, "additionalProperties": True}, 1, write)


# --- evidence -------------------------------------------------------------------------------------

ITEM = {
    "source_id": "manual-7",
    "revision": "3",
    "title": "Restart",
    "excerpt": "Press the button.",
    "retrieved_at": "2026-11-30T12:00:00Z",
    "acl_scope": "team-a",
}


def test_evidence_reads_back() -> None:
    found = Evidence.from_dict(ITEM)
    assert found == Evidence(**ITEM)
    assert found.to_dict() == {**ITEM, "validated": False}
    assert compile_schema(EVIDENCE_SCHEMA).is_valid(found.to_dict())


@pytest.mark.parametrize(
    "change",
    [
        {"revision": None},
        {"source_id": ""},
        {"retrieved_at": "yesterday"},
        {"validated": 1},
        {"score": 0.5},
        {"excerpt": "x" * 20_001},
    ],
)
def test_evidence_is_checked(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Evidence.from_dict({**ITEM, **change})
    missing = {key: value for key, value in ITEM.items() if key not in change}
    if len(missing) < len(ITEM):
        with pytest.raises(ValidationError, match="lacks the required field"):
            Evidence.from_dict(missing)
    with pytest.raises(ValidationError, match="must be an object"):
        Evidence.from_dict([ITEM])


# --- tools from functions -------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1


@dataclass
class Point:
    x: int
    y: float = 0.0
    tags: list[str] = field(default_factory=list)


class Options(TypedDict, total=False):
    depth: int
    colour: Colour


def everything(
    text: str,
    count: int,
    ratio: float,
    dry: bool,
    mode: Literal["fast", "safe", 3],
    colour: Colour,
    level: Level,
    maybe: Optional[int],  # noqa: UP045  (the older spelling is a hint too)
    either: Union[int, str],  # noqa: UP007
    names: list[str],
    points: list[Point],
    sizes: dict[str, int],
    options: Options,
    nothing: None,
    payload: dict[str, Any],
    limited: Annotated[int, "how many", {"minimum": 1, "maximum": 8}] = 3,
    place: Point | None = None,
    tenant: Annotated[str, Injected] = "",
) -> dict[str, Any]:
    """Take one
    of everything.

    And more.
    """
    return {"status": "succeeded", "seen": repr((ratio, colour, level, points, options, place))}


def test_the_schema_follows_the_hints() -> None:
    found = tool(everything)
    assert (found.name, found.risk, found.effect) == ("everything", 1, "write")
    assert found.purpose == "Take one of everything."
    assert found.injected == {"tenant"}
    schema = found.contract.model_schema
    assert schema["additionalProperties"] is False
    assert "tenant" not in schema["properties"]
    assert set(schema["properties"]) - set(schema["required"]) == {"limited", "place"}
    point = {
        "type": "object",
        "properties": {
            "x": {"type": "integer"},
            "y": {"type": "number"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["x"],
        "additionalProperties": False,
    }
    assert schema["properties"] == {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "dry": {"type": "boolean"},
        "mode": {"type": ["string", "integer"], "enum": ["fast", "safe", 3]},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "level": {"type": "integer", "enum": [1]},
        "maybe": {"type": ["integer", "null"]},
        "either": {"type": ["integer", "string"]},
        "names": {"type": "array", "items": {"type": "string"}},
        "points": {"type": "array", "items": point},
        "sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "options": {
            "type": "object",
            "properties": {
                "depth": {"type": "integer"},
                "colour": {"type": "string", "enum": ["red", "blue"]},
            },
            "required": [],
            "additionalProperties": False,
        },
        "nothing": {"type": "null"},
        "payload": {"type": "object", "additionalProperties": True},
        "limited": {
            "type": "integer",
            "description": "how many",
            "minimum": 1,
            "maximum": 8,
        },
        "place": {"anyOf": [point, {"type": "null"}]},
    }


def test_values_reach_the_function_as_its_hints_say() -> None:
    arguments = {
        "text": "a",
        "count": 1,
        "ratio": 2,
        "dry": True,
        "mode": 3,
        "colour": "red",
        "level": 1,
        "maybe": None,
        "either": "a",
        "names": [],
        "points": [{"x": 1}, {"x": 2, "y": 1, "tags": ["t"]}],
        "sizes": {"a": 1},
        "options": {"colour": "blue"},
        "nothing": None,
        "payload": {"any": [1]},
        "place": {"x": 3},
    }
    runtime = ToolRuntime({"everything": tool(everything)}, max_risk=1)
    answer = runtime.dispatch("everything", arguments, "op-1", injected={"tenant": "acme"})
    seen = (
        2.0,
        Colour.RED,
        Level.LOW,
        [Point(1), Point(2, 1.0, ["t"])],
        {"colour": Colour.BLUE},
        Point(3),
    )
    assert answer["seen"] == repr(seen)
    with pytest.raises(ValidationError):
        runtime.dispatch("everything", {**arguments, "points": [{"z": 1}]}, "op-2")


def test_a_decorated_function_and_its_options() -> None:
    @tool(name="find", risk=0, effect="read", purpose="Find it.", limits=Limits(timeout_ms=5))
    def search(query: str) -> dict[str, Any]:
        """Another text."""
        return {"status": "succeeded", "query": query}

    assert isinstance(search, Tool)
    assert (search.name, search.risk, search.effect, search.purpose) == (
        "find",
        0,
        "read",
        "Find it.",
    )
    assert search.limits.timeout_ms == 5
    assert search.execute(query="a") == {"status": "succeeded", "query": "a"}


def test_a_coroutine_function_stays_one() -> None:
    async def paint(colour: Colour) -> dict[str, Any]:
        return {"status": "succeeded", "colour": colour}

    execute = tool(paint).execute
    assert asyncio.iscoroutinefunction(execute)
    assert asyncio.run(execute(colour="red"))["colour"] is Colour.RED


@dataclass
class Knot:
    next: Optional["Knot"]  # noqa: UP045, UP037


def untyped(a) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    return DONE


def by_place(a: int, /) -> dict[str, Any]:
    return DONE


def with_set(a: set[int]) -> dict[str, Any]:
    return DONE


def with_knot(a: Knot) -> dict[str, Any]:
    return DONE


def with_classes(a: Point | Colour) -> dict[str, Any]:
    return DONE


def with_note(a: Annotated[int, 5]) -> dict[str, Any]:
    return DONE


def with_rest(**rest: int) -> dict[str, Any]:
    return DONE


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (untyped, "'a' has no type hint"),
        (by_place, "cannot be given by name"),
        (with_rest, "cannot be given by name"),
        (with_set, "has no JSON Schema here"),
        (with_knot, "contains itself"),
        (with_classes, "cannot be told apart"),
        (with_note, "means nothing here"),
    ],
)
def test_hints_that_mean_nothing_are_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tool(function)
