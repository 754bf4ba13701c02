"""Row "tool" of the matrix: no tool, unknown fields, booleans, permissions, repeated ids."""

from __future__ import annotations

from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Remote
from gnomon.agent import (
    OperationConflict,
    SchemaError,
    Tool,
    ToolRefused,
    ToolRuntime,
    ValidationError,
    run_agent,
)


@pytest.fixture
def remote() -> Remote:
    return Remote()


def test_no_tool_an_answer_needs_none(remote: Remote) -> None:
    runtime = remote.runtime()
    outcome = run_agent(
        lambda state: {"kind": "answer", "text": "4"}, runtime, {}, lambda state: False, 3
    )
    assert (outcome["status"], outcome["answer"]) == ("answered", "4")
    assert remote.effects == []
    assert len(runtime.operations) == 0


def test_unknown_field_is_refused_and_nothing_is_recorded(remote: Remote) -> None:
    runtime = remote.runtime()
    with pytest.raises(ValidationError, match=r"^missing=\[\], extra=\['admin'\]$"):
        runtime.dispatch("write", {"project": "alpha", "admin": True}, "op-1")
    assert remote.effects == []
    assert len(runtime.operations) == 0


@pytest.mark.parametrize("value", [True, False])
def test_boolean_is_no_integer(value: bool) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    called: list[Any] = []
    tool = Tool("count", schema, 0, lambda n: called.append(n) or {"status": "succeeded"})
    with pytest.raises(ValidationError, match=r"^unsupported or ambiguous type for n$"):
        ToolRuntime({"count": tool}, max_risk=0).dispatch("count", {"n": value}, "op-1")
    assert called == []


def test_a_tool_above_the_delegated_risk_is_refused(remote: Remote) -> None:
    runtime = remote.runtime(max_risk=0)
    with pytest.raises(PermissionError, match=r"^tool exceeds delegated risk$") as refused:
        runtime.dispatch("write", ALPHA, "op-1")
    assert isinstance(refused.value, ToolRefused)
    assert remote.effects == []
    assert len(runtime.operations) == 0


def test_a_repeated_operation_id_runs_once_and_answers_again(remote: Remote) -> None:
    runtime = remote.runtime()
    first = runtime.dispatch("write", ALPHA, "op-1")
    assert first == {"status": "succeeded", "number": 1}
    assert repr(runtime.dispatch("write", ALPHA, "op-1")) == repr(first)
    assert remote.effects == ["alpha"]


def test_failed_is_terminal_and_answered_again(remote: Remote) -> None:
    remote.answer = {"status": "failed", "why": "no such project"}
    runtime = remote.runtime()
    first = runtime.dispatch("write", ALPHA, "op-1")
    assert runtime.dispatch("write", ALPHA, "op-1") == first == remote.answer
    assert remote.effects == ["alpha"]


def test_unknown_tool() -> None:
    runtime = Remote().runtime()
    for name in ("erase", "", None, [], 5):
        with pytest.raises(ValueError, match=r"^unknown tool$"):
            runtime.dispatch(name, ALPHA, "op-1")  # type: ignore[arg-type]


def test_checks_come_in_the_documents_order(remote: Remote) -> None:
    """Unknown tool, risk, arguments, id: each bad call has all later faults too."""
    runtime = remote.runtime()
    runtime.dispatch("write", ALPHA, "op-1")
    with pytest.raises(ValueError, match="unknown tool"):
        runtime.dispatch("erase", {"x": 1}, "op-1")
    runtime.max_risk = 0
    with pytest.raises(PermissionError):
        runtime.dispatch("write", {"x": 1}, "op-1")
    runtime.max_risk = 1
    with pytest.raises(ValidationError):
        runtime.dispatch("write", {"x": 1}, "op-1")
    with pytest.raises(OperationConflict):
        runtime.dispatch("write", {"project": "beta"}, "op-1")


def test_a_terminal_result_stays_readable_after_risk_tool_and_schema_changed() -> None:
    remote = Remote()
    tools = {"write": remote.tool()}
    runtime = ToolRuntime(tools, max_risk=1)
    first = runtime.dispatch("write", ALPHA, "op-1")
    runtime.max_risk = 0
    assert runtime.dispatch("write", ALPHA, "op-1") == first
    runtime.max_risk = 1
    number = {"type": "object", "properties": {"project": {"type": "integer"}}}
    tools["write"] = Tool("write", number, 1, lambda project=0: {"status": "succeeded"})
    assert runtime.dispatch("write", ALPHA, "op-1") == first
    del tools["write"]
    assert runtime.dispatch("write", ALPHA, "op-1") == first
    with pytest.raises(ValueError, match="unknown tool"):
        runtime.dispatch("write", {"project": "beta"}, "op-1")
    with pytest.raises(ValueError, match="unknown tool"):
        runtime.dispatch("write", ALPHA, "op-1", principal="mallory")
    assert remote.effects == ["alpha"]


def test_an_open_operation_is_not_readable_past_a_refusal(remote: Remote) -> None:
    remote.answer = {"status": "unknown"}
    runtime = remote.runtime()
    runtime.dispatch("write", ALPHA, "op-1")
    runtime.max_risk = 0
    with pytest.raises(PermissionError):
        runtime.dispatch("write", ALPHA, "op-1")


@pytest.mark.parametrize(
    "operation_id",
    [None, "", 1, True, 1.0, [], {}, "x" * 201, "a\nb", "a\x00", "\ud800", b"op"],
)
def test_operation_ids_are_text_of_1_to_200_characters(remote: Remote, operation_id: Any) -> None:
    with pytest.raises(ValueError, match=r"^operation_id must"):
        remote.runtime().dispatch("write", ALPHA, operation_id)
    assert remote.effects == []


@pytest.mark.parametrize("operation_id", ["x" * 200, "op 1", "операция", "a/b:c#1"])
def test_operation_ids_that_are_allowed(remote: Remote, operation_id: str) -> None:
    runtime = remote.runtime()
    runtime.dispatch("write", ALPHA, operation_id)
    assert list(runtime.operations) == [operation_id]


@pytest.mark.parametrize("max_risk", [True, 1.0, float("nan"), None, "1"])
def test_the_delegated_risk_is_an_int(remote: Remote, max_risk: Any) -> None:
    with pytest.raises(ValueError, match="max_risk must be an int"):
        remote.runtime(max_risk=max_risk)


def test_registration_refuses_what_is_no_tool() -> None:
    with pytest.raises(TypeError, match=r"gnomon\.agent\.Tool"):
        ToolRuntime({"write": object()}, max_risk=1)  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="mapping"):
        ToolRuntime([Remote().tool()], max_risk=1)  # type: ignore[arg-type]


def test_a_function_that_cannot_take_its_arguments_is_refused_before_any_call() -> None:
    with pytest.raises(SchemaError):
        Tool("write", WRITE_SCHEMA, 1, lambda other: {"status": "succeeded"})


def test_an_async_tool_needs_the_async_runtime() -> None:
    async def write(project: str) -> dict[str, str]:
        return {"status": "succeeded"}

    with pytest.raises(TypeError, match="AsyncToolRuntime"):
        ToolRuntime({"write": Tool("write", WRITE_SCHEMA, 1, write)}, max_risk=1)


def test_server_arguments_come_from_the_server_only() -> None:
    seen: list[dict[str, Any]] = []

    def search(query: str, tenant_id: str, region: str, context: Any) -> dict[str, str]:
        seen.append({"query": query, "tenant": tenant_id, "region": region, "context": context})
        return {"status": "succeeded"}

    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    tool = Tool("search", schema, 0, search, injected=frozenset({"tenant_id", "region", "context"}))
    runtime = ToolRuntime({"search": tool}, max_risk=0, tenant="acme", injected={"region": "eu"})
    runtime.dispatch("search", {"query": "q"}, "op-1", injected={"tenant_id": "evil"})
    assert (seen[0]["tenant"], seen[0]["region"]) == ("acme", "eu")
    assert seen[0]["context"].operation_id == seen[0]["context"].idempotency_key == "op-1"
    with pytest.raises(ValidationError, match="extra="):
        runtime.dispatch("search", {"query": "q", "tenant_id": "evil"}, "op-2")
    bare = ToolRuntime({"search": tool}, max_risk=0)
    with pytest.raises(ValueError, match="region"):
        bare.dispatch("search", {"query": "q"}, "op-3")
    assert len(seen) == 1


def test_what_a_tool_does_to_its_arguments_stays_with_it() -> None:
    schema = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": {"type": "integer"}}},
        "required": ["items"],
    }

    def drain(items: list[int]) -> dict[str, Any]:
        count = len(items)
        items.clear()
        return {"status": "succeeded", "count": count}

    runtime = ToolRuntime({"drain": Tool("drain", schema, 0, drain)}, max_risk=0)
    arguments = {"items": [1, 2, 3]}
    assert runtime.dispatch("drain", arguments, "op-1")["count"] == 3
    assert arguments == {"items": [1, 2, 3]}
    assert runtime.operations["op-1"]["arguments"] == {"items": [1, 2, 3]}
    assert runtime.dispatch("drain", arguments, "op-1")["count"] == 3


def test_operations_shows_the_documents_fields(remote: Remote) -> None:
    runtime = remote.runtime()
    runtime.dispatch("write", ALPHA, "op-1")
    assert dict(runtime.operations) == {
        "op-1": {
            "tool": "write",
            "arguments": ALPHA,
            "status": "succeeded",
            "result": {"status": "succeeded", "number": 1},
        }
    }
    assert "op-2" not in runtime.operations
    assert "alpha" not in repr(runtime) + repr(runtime.operations)
