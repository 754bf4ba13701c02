"""Where the public names live: programs import them from these modules, or from the package."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from typing import Any

import gnomon.agent as agent
import pytest

STORES = ["SqliteOperationStore", "PostgresOperationStore", "MemoryOperationStore"]
MODULES: dict[str, list[str]] = {
    "jsonvalue": ["loads_strict", "canonicalize", "Bounds"],
    "contract": ["Tool", "ToolContract", "Limits"],
    "schema": ["compile_schema", "validate_arguments"],
    "operations": [
        *("OperationStatus", "Operation", "OperationStore", "derive_operation_id"),
        *STORES,
    ],
    "runtime": ["ToolRuntime", "AsyncToolRuntime", "ToolContext"],
    "approval": ["ApprovalRequest", "ApprovalDecision", "ApprovalPolicy", "Approvals"],
    "reconcile": ["Reconciler"],
    "budget": ["Budget", "BudgetMeter"],
    "events": ["Event", "event_from_dict", "event_from_json"],
    "reducer": ["reduce_task", "replay"],
    "loop": ["run_agent", "run_agent_async"],
    "trace": ["trace_of"],
    "otel": ["export_run"],
    "gate": ["validate_trace", "validate", "TraceFinding"],
    "citations": ["citation_report"],
    "redact": ["Redactor"],
    "testing": ["EffectCounter", "kill_points", "FaultyStore", "SimClock"],
}
#: Tools of tests and of exporters are asked for by their module, not by the package.
BY_MODULE_ONLY = {"testing", "otel"}
PARAMETERS: dict[str, list[str]] = {
    "Bounds": ["max_bytes", "max_depth", "max_items"],
    "Limits": ["timeout_ms", "max_result_bytes"],
    "Budget": ["steps", "seconds", "tokens", "cost_micros", "writes", "risk", "result_bytes"],
    "derive_operation_id": ["principal", "tool", "arguments", "business_scope"],
    "Tool": ["name", "schema", "risk", "execute"],
    "run_agent": ["policy", "runtime", "initial_state", "verify", "max_steps"],
    "TraceFinding": ["code", "path", "message", "severity"],
}
METHODS: dict[str, list[str]] = {
    "ToolRuntime": ["dispatch", "reconcile", "recover", "cancel", "resolve"],
    "AsyncToolRuntime": ["dispatch", "reconcile", "recover", "cancel", "resolve"],
    "Reconciler": ["run", "look", "recover", "resolve"],
    "Approvals": ["approve", "deny", "expire"],
    "BudgetMeter": ["reserve", "settle"],
}
FIELDS = ["operation_id", "principal", "tenant", "deadline", "cancelled", "idempotency_key"]


def found(module: str, name: str) -> Any:
    if name == "PostgresOperationStore":
        pytest.importorskip("psycopg")
    return getattr(importlib.import_module(f"gnomon.agent.{module}"), name)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_its_names(module: str) -> None:
    for name in MODULES[module]:
        value = found(module, name)
        if module not in BY_MODULE_ONLY:
            assert getattr(agent, name) is value
            assert name in agent.__all__


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_come_by_these_names_in_this_order(name: str) -> None:
    wanted = PARAMETERS[name]
    assert list(inspect.signature(getattr(agent, name)).parameters)[: len(wanted)] == wanted


def test_methods_have_these_names() -> None:
    for name, methods in METHODS.items():
        for method in methods:
            assert callable(getattr(getattr(agent, name), method)), f"{name}.{method}"
    for name in ("ToolRuntime", "AsyncToolRuntime", "Reconciler"):
        resolve = inspect.signature(getattr(agent, name).resolve)
        wanted = ["self", "operation_id", "outcome", "evidence", "actor"]
        assert list(resolve.parameters) == [*wanted, "attempt"]
        assert resolve.parameters["attempt"].default is None
    for name in FIELDS:
        assert name in agent.ToolContext.__annotations__ or hasattr(agent.ToolContext, name)
    assert agent.Bounds().max_depth == 64


def test_an_unknown_name_of_a_module_is_an_attribute_error() -> None:
    for module in ("operations", "runtime"):
        with pytest.raises(AttributeError, match="no attribute 'Toolbox'"):
            found(module, "Toolbox")


@pytest.mark.parametrize("name", ["mcp", "pydantic_ai", "langgraph", "dbos", "openai_agents"])
def test_adapters_load_without_their_frameworks(name: str) -> None:
    assert importlib.import_module(f"gnomon.agent.adapters.{name}").__doc__


def test_the_gate_has_two_names() -> None:
    code = "from gnomon.cli import trace_gate; trace_gate()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: trace-gate [OPTIONS] TRACE.json...")
