"""The examples that define the agent half: every assert of them, with gnomon.agent's names."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from gnomon.agent import Tool, ToolRuntime, reduce_task, run_agent, validate_arguments

write_schema = {
    "type": "object",
    "properties": {"project": {"type": "string"}},
    "required": ["project"],
}


def test_unknown_outcome_is_executed_once() -> None:
    uncertain_calls = []

    def uncertain_write(project: str) -> dict[str, str]:
        uncertain_calls.append(project)
        return {"status": "unknown"}

    uncertain_runtime = ToolRuntime(
        {"write": Tool("write", write_schema, 1, uncertain_write)}, max_risk=1
    )
    first = uncertain_runtime.dispatch("write", {"project": "alpha"}, "op-write-1")
    second = uncertain_runtime.dispatch("write", {"project": "alpha"}, "op-write-1")
    assert first["status"] == second["status"] == "needs_reconcile"
    assert uncertain_calls == ["alpha"]


def test_execution_exception_propagates_once() -> None:
    failed_calls = []

    def interrupted_write(project: str) -> dict[str, str]:
        failed_calls.append(project)
        raise TimeoutError("response was lost")

    failed_runtime = ToolRuntime(
        {"write": Tool("write", write_schema, 1, interrupted_write)}, max_risk=1
    )
    try:
        failed_runtime.dispatch("write", {"project": "alpha"}, "op-write-2")
    except TimeoutError:
        pass
    else:
        raise AssertionError("execution exception must propagate")
    retry = failed_runtime.dispatch("write", {"project": "alpha"}, "op-write-2")
    assert retry["status"] == "needs_reconcile"
    assert failed_calls == ["alpha"]


def test_reducer_walks_to_success_and_stays_there() -> None:
    state = {"phase": "planning"}
    state = reduce_task(state, {"type": "tool_requested", "operation_id": "op1"})
    state = reduce_task(
        state, {"type": "tool_succeeded", "operation_id": "op1", "evidence": ["r7"]}
    )
    state = reduce_task(state, {"type": "goal_verified"})
    assert state["phase"] == "succeeded"
    try:
        reduce_task(state, {"type": "cancelled"})
    except ValueError:
        pass
    else:
        raise AssertionError("terminal state accepted cancellation")


def test_out_of_order_result_is_refused() -> None:
    try:
        reduce_task(
            {"phase": "planning", "operation_id": "op1"},
            {"type": "tool_succeeded", "operation_id": "op1", "evidence": []},
        )
    except ValueError:
        pass
    else:
        raise AssertionError("out-of-order tool result was accepted")


def test_the_loop_stops_at_the_first_unknown_outcome() -> None:
    loop_calls = []

    def uncertain_loop_write(project: str) -> dict[str, str]:
        loop_calls.append(project)
        return {"status": "unknown"}

    loop_runtime = ToolRuntime(
        {"write": Tool("write", write_schema, 1, uncertain_loop_write)}, max_risk=1
    )
    candidate = {
        "kind": "tool",
        "name": "write",
        "arguments": {"project": "alpha"},
        "operation_id": "op-loop-1",
    }
    outcome = run_agent(lambda state: candidate, loop_runtime, {}, lambda state: False, 3)
    assert outcome["status"] == "needs_reconcile"
    assert len(outcome["events"]) == 1
    assert loop_calls == ["alpha"]
    assert (
        loop_runtime.dispatch("write", {"project": "alpha"}, "op-loop-1")["status"]
        == "needs_reconcile"
    )
    assert loop_calls == ["alpha"]


# --- the document's code, taken at its word -------------------------------------------------------

TYPE_MAP: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def document_validate(arguments: Any, schema: Any) -> dict[str, Any]:
    """The document's validator, for comparison."""
    if not isinstance(arguments, dict) or schema.get("type") != "object":
        raise ValueError("tool input must be an object")
    properties = schema.get("properties", {})
    missing = set(schema.get("required", [])) - arguments.keys()
    extra = arguments.keys() - properties.keys()
    if missing or extra:
        raise ValueError(f"missing={sorted(missing)}, extra={sorted(extra)}")
    for name, value in arguments.items():
        expected = TYPE_MAP.get(properties[name].get("type"))
        if expected is None or (isinstance(value, bool) and properties[name]["type"] != "boolean"):
            raise ValueError(f"unsupported or ambiguous type for {name}")
        if not isinstance(value, expected):
            raise ValueError(f"wrong type for {name}")
        if "enum" in properties[name] and value not in properties[name]["enum"]:
            raise ValueError(f"invalid enum for {name}")
    return dict(arguments)


class DocumentRuntime:
    """The document's runtime, for comparison."""

    def __init__(self, tools: dict[str, Tool], max_risk: int) -> None:
        self.tools = tools
        self.max_risk = max_risk
        self.operations: dict[Any, dict[str, Any]] = {}

    def dispatch(self, name: Any, arguments: Any, operation_id: Any) -> dict[str, Any]:
        if name not in self.tools:
            raise ValueError("unknown tool")
        tool = self.tools[name]
        if tool.risk > self.max_risk:
            raise PermissionError("tool exceeds delegated risk")
        args = document_validate(arguments, tool.schema)
        if operation_id in self.operations:
            entry = self.operations[operation_id]
            if entry["tool"] != name or entry["arguments"] != args:
                raise ValueError("operation_id was reused for a different request")
            if entry["status"] in {"succeeded", "failed"}:
                return dict(entry["result"])
            entry["status"] = "needs_reconcile"
            return {"status": "needs_reconcile", "operation_id": operation_id}
        self.operations[operation_id] = {"tool": name, "arguments": args, "status": "in_flight"}
        try:
            result = tool.execute(**args)
            if not isinstance(result, dict) or result.get("status") not in {
                "succeeded",
                "failed",
                "unknown",
            }:
                raise ValueError("tool returned an invalid status")
        except Exception:
            self.operations[operation_id]["status"] = "needs_reconcile"
            raise
        if result["status"] == "unknown":
            self.operations[operation_id].update(status="needs_reconcile", result=dict(result))
            return {"status": "needs_reconcile", "operation_id": operation_id}
        self.operations[operation_id].update(status=result["status"], result=dict(result))
        return dict(result)


ANSWERS: list[Any] = [
    {"status": "succeeded", "n": 1},
    {"status": "failed", "why": "x"},
    {"status": "unknown"},
    {"status": "odd"},
    None,
    TimeoutError("lost"),
    PermissionError("remote says no"),
]


def told(dispatch: Any, *call: Any) -> Any:
    """The answer without the keys that gnomon adds, or the error's type and text."""
    try:
        answer = dispatch(*call)
    except (ValueError, PermissionError, TimeoutError) as error:
        kind = next(t for t in (ValueError, PermissionError, TimeoutError) if isinstance(error, t))
        return kind, str(error)
    if answer["status"] == "needs_reconcile":
        return {key: answer[key] for key in ("status", "operation_id")}
    return answer


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_every_history_of_three_calls_ends_as_in_the_document(answer: Any) -> None:
    """All sequences of 3 out of 8 calls: same answers, errors, states and number of executions."""
    calls: list[tuple[Any, Any, str]] = [
        ("write", {"project": "alpha"}, "op-1"),
        ("write", {"project": "beta"}, "op-1"),
        ("write", {"project": "alpha"}, "op-2"),
        ("other", {"project": "alpha"}, "op-1"),
        ("risky", {"project": "alpha"}, "op-1"),
        ("absent", {"project": "alpha"}, "op-1"),
        ("write", {"project": 1}, "op-1"),
        ("write", {"projekt": "alpha"}, "op-1"),
    ]
    seen: list[str] = []

    def write(project: str) -> Any:
        seen.append(project)
        if isinstance(answer, Exception):
            raise type(answer)(*answer.args)
        return answer

    tools = {
        "write": Tool("write", write_schema, 1, write),
        "other": Tool("other", write_schema, 1, write),
        "risky": Tool("risky", write_schema, 2, write),
    }
    for history in itertools.product(calls, repeat=3):
        seen.clear()
        theirs = DocumentRuntime(tools, 1)
        expected = [told(theirs.dispatch, *call) for call in history]
        executed = list(seen)
        seen.clear()
        ours = ToolRuntime(tools, 1, heartbeat=False)
        assert [told(ours.dispatch, *call) for call in history] == expected, history
        assert seen == executed
        assert dict(ours.operations) == theirs.operations


def test_the_documents_messages_for_arguments() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "x": {"type": "number"},
            "b": {"type": "boolean"},
            "s": {"type": "string", "enum": ["one", "two"]},
        },
        "required": ["n"],
    }
    values: list[Any] = [0, 1, True, False, 1.5, "one", "three", None, [], {}]
    cases: list[Any] = [{"n": 1, name: value} for name in "nxbsz" for value in values]
    cases += [None, [], "x", {}, {"s": "one"}, {"z": 1, "y": 2}]
    for case in cases:
        assert told(validate_arguments_dict, case, schema) == told(
            document_validate_dict, case, schema
        ), case


def validate_arguments_dict(arguments: Any, schema: Any) -> dict[str, Any]:
    return {"status": "valid", "value": validate_arguments(arguments, schema)}


def document_validate_dict(arguments: Any, schema: Any) -> dict[str, Any]:
    return {"status": "valid", "value": document_validate(arguments, schema)}
