"""Secrets that no model sent: what the host injects, and what an operator writes as evidence."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from agent_tools import kinds, until
from gnomon.agent import Limits, Redactor, Tool, ToolRuntime, run_agent

SECRET = "hosts-canary-5521"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "api_key": {"type": "string"}},
    "required": ["to"],
}
TO = {"to": "ann"}


def fails(to: str, api_key: str) -> Any:
    raise RuntimeError(f"login with {api_key} failed")


def tells(to: str, api_key: str) -> dict[str, Any]:
    return {"status": "succeeded", "note": f"used {api_key}", "evidence": [f"by {api_key}"]}


def runtime_of(execute: Any, **more: Any) -> ToolRuntime:
    limits = more.pop("limits", Limits())
    tool = Tool("send", SCHEMA, 1, execute, injected=frozenset({"api_key"}), limits=limits)
    return ToolRuntime({"send": tool}, 1, **more)


def test_r2_an_injected_secret_leaves_in_no_exception() -> None:
    runtime = runtime_of(fails, injected={"api_key": SECRET})
    with pytest.raises(RuntimeError, match=r"^login with \[redacted\] failed$"):
        runtime.dispatch("send", TO, "op-1")
    with pytest.raises(RuntimeError, match="redacted"):
        runtime_of(fails).dispatch("send", TO, "op-1", injected={"api_key": SECRET})


def test_r1_an_injected_secret_is_in_no_result_of_a_ledger_of_digests() -> None:
    runtime = runtime_of(tells, injected={"api_key": SECRET}, store_arguments="digest")
    assert runtime.dispatch("send", TO, "op-1")["note"] == "used [redacted]"
    assert SECRET not in str(runtime.operation("op-1"))


def test_r1_an_injected_secret_is_in_no_late_result_of_a_ledger_of_digests() -> None:
    gate = threading.Event()

    def slow(to: str, api_key: str) -> dict[str, Any]:
        assert gate.wait(10)
        return tells(to, api_key)

    more: dict[str, Any] = {"injected": {"api_key": SECRET}, "store_arguments": "digest"}
    runtime = runtime_of(slow, limits=Limits(timeout_ms=5), **more)
    assert runtime.dispatch("send", TO, "op-1")["status"] == "needs_reconcile"
    gate.set()
    until(lambda: kinds(runtime, "op-1")[-1] == "settled" and len(kinds(runtime, "op-1")) == 3)
    assert runtime.dispatch("send", TO, "op-1")["note"] == "used [redacted]"


def test_r3_an_injected_secret_is_in_no_event_and_no_trace() -> None:
    def policy(state: dict[str, Any]) -> dict[str, Any]:
        if "last_result" in state:
            return {"kind": "answer", "text": "sent"}
        return {"kind": "tool", "name": "send", "arguments": TO, "operation_id": "op-1"}

    log: list[dict[str, Any]] = []
    runtime = runtime_of(tells, injected={"api_key": SECRET})
    outcome = run_agent(policy, runtime, {}, lambda _: False, 3, log=log)
    assert outcome["status"] == "answered"
    assert SECRET not in json.dumps([log, outcome["log"], outcome["trace"]])
    again = run_agent(policy, runtime, {}, lambda _: False, 3, log=log)  # resumed from the log
    assert (again["status"], again["trace"]) == ("answered", outcome["trace"])


def test_an_injected_object_that_cannot_be_shown_does_no_harm() -> None:
    class Key:
        def __str__(self) -> str:
            raise RuntimeError("never shown")

    schema = {**SCHEMA, "properties": {"to": {"type": "string"}}}
    tool = Tool("send", schema, 1, fails, injected=frozenset({"api_key"}))
    runtime = ToolRuntime({"send": tool}, 1, injected={"api_key": Key()})
    with pytest.raises(RuntimeError, match="never shown"):
        runtime.dispatch("send", TO, "op-1")
    assert runtime.operations["op-1"]["status"] == "needs_reconcile"


@pytest.mark.parametrize("store_arguments", ["full", "digest"])
def test_r3_evidence_of_a_resolution_repeats_no_secret_of_its_call(store_arguments: Any) -> None:
    schema = {"type": "object", "properties": {"card": {"type": "string"}}, "required": ["card"]}
    tool = Tool("pay", schema, 1, lambda card: {"status": "unknown"}, redact_paths=("/card",))
    runtime = ToolRuntime({"pay": tool}, 1, store_arguments=store_arguments)
    runtime.dispatch("pay", {"card": SECRET}, "op-1")
    evidence = {"card": SECRET, "seen": f"charged {SECRET} once"}
    runtime.resolve("op-1", "succeeded", evidence, "ann")
    shown = runtime.events("op-1")[-1].data["evidence"]
    assert shown == {"card": "[redacted]", "seen": "charged [redacted] once"}


@pytest.mark.parametrize(
    "candidate",
    [
        {"kind": "answer", "text": "x", "citations": [SECRET]},
        {"kind": "tool", "name": "send", "arguments": {"to": "a", SECRET: 1}, "operation_id": "o"},
    ],
    ids=["citation", "argument's name"],
)
def test_r3_what_was_wrong_with_a_candidate_is_logged_without_secrets(candidate: Any) -> None:
    runtime = runtime_of(tells, injected={"api_key": "k"}, redactor=Redactor(values=[SECRET]))
    outcome = run_agent(lambda _: candidate, runtime, {}, lambda _: False, 2)
    assert outcome["state"]["last_result"]["problems"]
    events = json.dumps([{**event, "arguments": None} for event in outcome["log"]])
    assert '"problems"' in events
    assert SECRET not in events
