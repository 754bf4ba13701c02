"""The contract by itself, and what the runtime makes of it: normal forms, resources, proofs."""

from __future__ import annotations

import inspect
import threading
import time
from typing import Any

import pytest
from agent_tools import Gate, in_thread, until
from gnomon.agent import (
    ConcurrencyLimit,
    InvalidToolResult,
    Limits,
    NotExecuted,
    OperationConflict,
    Tool,
    ToolContract,
    ToolRuntime,
    ValidationError,
    run_agent,
)
from gnomon.agent.adapters.bridge import Bridge
from ledgers import Ledger

SCHEMA = {
    "type": "object",
    "properties": {"project": {"type": "string"}, "tenant_id": {"type": "string", "minLength": 1}},
    "required": ["project", "tenant_id"],
}
WRITE = {
    "type": "object",
    "properties": {"project": {"type": "string", "maxLength": 8}},
    "required": ["project"],
}


def test_a_contract_has_the_names_of_its_parts() -> None:
    names = ["name", "purpose", "input_schema", "output_schema", "effect", "risk", "idempotent"]
    names += ["limits", "injected", "resource_key", "reconcile", "normalize", "redact_paths"]
    assert list(inspect.signature(ToolContract).parameters)[: len(names)] == names
    values: dict[str, Any] = {
        "name": "write",
        "purpose": "Write it.",
        "input_schema": SCHEMA,
        "output_schema": {"type": "object", "properties": {"status": {"type": "string"}}},
        "effect": "destructive",
        "risk": 3,
        "idempotent": True,
        "limits": Limits(5, 10),
        "injected": frozenset({"tenant_id"}),
        "resource_key": "project",
        "reconcile": lambda operation: {"status": "unknown"},
        "normalize": lambda arguments: arguments,
        "redact_paths": ("/project",),
    }
    contract = ToolContract(**values)
    for name in names:
        assert getattr(contract, name) == values[name], name
    made = Tool.of(contract, lambda project, tenant_id: None, approval=True, max_concurrency=2)
    assert made.contract.digest == contract.digest
    for name in set(names) - {"input_schema"}:
        assert getattr(made, name) == getattr(contract, name), name
    assert (made.schema, made.approval, made.max_concurrency) == (SCHEMA, True, 2)


def lower(arguments: dict[str, Any]) -> dict[str, Any]:
    return {**arguments, "project": arguments["project"].strip().lower()}


def write_runtime(store: Any = None, **more: Any) -> tuple[ToolRuntime, list[str]]:
    calls: list[str] = []

    def write(project: str) -> dict[str, str]:
        calls.append(project)
        return {"status": "succeeded", "project": project}

    tool = Tool("write", WRITE, 1, write, **more)
    return ToolRuntime({"write": tool}, 1, store), calls


def test_two_ways_to_say_the_same_are_one_operation(ledger: Ledger) -> None:
    runtime, calls = write_runtime(ledger.open(), normalize=lower)
    first = runtime.dispatch("write", {"project": " Alpha"}, "op-1")
    assert runtime.dispatch("write", {"project": "ALPHA "}, "op-1") == first
    assert (calls, first["project"]) == (["alpha"], "alpha")
    assert runtime.operations["op-1"]["arguments"] == {"project": "alpha"}
    with pytest.raises(OperationConflict):
        runtime.dispatch("write", {"project": "beta"}, "op-1")


def test_a_normal_form_gives_ids_by_adapter_and_loop() -> None:
    runtime, calls = write_runtime(normalize=lower)
    bridge = Bridge(runtime, "ann", "invoice-7")
    assert bridge.operation_id("write", {"project": " A"}) == bridge.operation_id(
        "write", {"project": "a"}
    )
    candidates = iter([{"project": "B"}, {"project": " b"}])

    def policy(state: dict[str, Any]) -> dict[str, Any]:
        arguments = next(candidates, None)
        if arguments is None:
            return {"kind": "answer", "text": "done"}
        return {"kind": "tool", "name": "write", "arguments": arguments}

    outcome = run_agent(policy, runtime, {}, lambda state: False, 5, principal="ann")
    asked = [one for one in outcome["log"] if one["type"] == "tool_requested"]
    assert [one["arguments"] for one in asked] == [{"project": "b"}] * 2
    assert asked[0]["operation_id"] == asked[1]["operation_id"]
    assert calls == ["b"]


def test_normal_forms_are_checked(ledger: Ledger) -> None:
    def longer(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"project": arguments["project"] * 9}

    def growing(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"project": arguments["project"] + "x"}

    for normalize, error, message in (
        (longer, ValidationError, "/project"),
        (growing, ValueError, "idempotent"),
    ):
        runtime, calls = write_runtime(ledger.open(), normalize=normalize)
        with pytest.raises(error, match=message):
            runtime.dispatch("write", {"project": "a"}, "op-1")
        assert calls == []
        assert runtime.operation("op-1") is None


@pytest.mark.parametrize(
    ("key", "error"),
    [("colour", ValueError), (5, TypeError), ("tenant_id", ValueError)],
)
def test_resource_keys_are_checked(key: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="resource_key"):
        Tool(
            "write",
            SCHEMA,
            1,
            lambda project, tenant_id: None,
            injected={"tenant_id"},
            resource_key=key,
        )


@pytest.mark.parametrize("key", ["project", lambda arguments: arguments["project"]])
def test_one_call_at_a_time_on_one_resource(ledger: Ledger, key: Any) -> None:
    gate, store = Gate(), ledger.open()
    running: list[str] = []

    def write(project: str) -> dict[str, str]:
        running.append(project)
        gate()
        return {"status": "succeeded"}

    tools = {
        "write": Tool("write", WRITE, 1, write, resource_key=key),
        "move": Tool("move", WRITE, 1, write, resource_key=key),
        "read": Tool(
            "read",
            WRITE,
            0,
            lambda project: {"status": "succeeded"},
            effect="read",
            resource_key=key,
        ),
    }
    runtime = ToolRuntime(tools, 1, store, slot_seconds=0.02)
    ends = [in_thread(lambda: runtime.dispatch("write", {"project": "a"}, "op-1"))]
    gate.wait_inside()
    for name in ("write", "move"):
        with pytest.raises(ConcurrencyLimit, match="same resource"):
            runtime.dispatch(name, {"project": "a"}, f"op-{name}")
        assert runtime.operation(f"op-{name}") is None
    assert runtime.dispatch("read", {"project": "a"}, "op-r")["status"] == "succeeded"
    other = {"project": "a", "tenant": "other"}
    ends.append(in_thread(lambda: runtime.dispatch("move", {"project": "b"}, "op-b")))
    ends.append(
        in_thread(
            lambda: runtime.dispatch("move", {"project": "a"}, "op-t", tenant=other["tenant"])
        )
    )
    until(lambda: len(running) == 3)
    gate.open()
    assert {end()["status"] for end in ends} == {"succeeded"}
    assert runtime.dispatch("move", {"project": "a"}, "op-move")["status"] == "succeeded"


def test_callers_of_one_resource_are_served_in_turn() -> None:
    most, now = [0], [0]
    lock = threading.Lock()

    def write(project: str) -> dict[str, str]:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.002)
        with lock:
            now[0] -= 1
        return {"status": "succeeded"}

    tool = Tool("write", WRITE, 1, write, resource_key="project")
    runtime = ToolRuntime({"write": tool}, 1)
    ends = [
        in_thread(lambda n=n: runtime.dispatch("write", {"project": "a"}, f"op-{n}"))
        for n in range(8)
    ]
    assert {end()["status"] for end in ends} == {"succeeded"}
    assert most == [1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"retryable": "yes"}, TypeError, "retryable must be True or False, got str"),
        ({"retryable": 1}, TypeError, "retryable"),
        ({"retryable": None}, TypeError, "retryable"),
        ({"retry_after": "5"}, TypeError, "retry_after must be a number of seconds"),
        ({"retry_after": True}, TypeError, "retry_after"),
        ({"retry_after": float("nan")}, ValueError, "retry_after"),
        ({"retry_after": float("inf")}, ValueError, "retry_after"),
        ({"retry_after": -1}, ValueError, "retry_after"),
    ],
)
def test_a_proof_that_is_none_is_an_error_of_the_program(
    ledger: Ledger, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        NotExecuted("busy", **options)
    calls: list[str] = []

    def write(project: str) -> dict[str, Any]:
        calls.append(project)
        raise NotExecuted("busy", **options)

    tool = Tool("write", WRITE, 1, write)
    runtime = ToolRuntime({"write": tool}, 1, ledger.open())
    with pytest.raises(error, match=message):
        runtime.dispatch("write", {"project": "a"}, "op-1")
    assert runtime.dispatch("write", {"project": "a"}, "op-1")["status"] == "needs_reconcile"
    assert calls == ["a"]


@pytest.mark.parametrize(
    "wrong", [{"retryable": "yes"}, {"retry_after": "5"}, {"retryable": True, "retry_after": -1}]
)
def test_a_result_that_says_so_wrongly_is_no_proof(ledger: Ledger, wrong: Any) -> None:
    tool = Tool("write", WRITE, 1, lambda project: {"status": "not_executed", **wrong})
    runtime = ToolRuntime({"write": tool}, 1, ledger.open())
    with pytest.raises(InvalidToolResult, match="retr"):
        runtime.dispatch("write", {"project": "a"}, "op-1")
    assert runtime.operations["op-1"]["status"] == "needs_reconcile"
