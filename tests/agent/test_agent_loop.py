"""The bounded loop: its contract, what goes wrong, reasons and citations."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest
from gnomon.agent import AsyncToolRuntime, NotExecuted, StoreUnavailable, Tool
from gnomon.agent.budget import Budget
from gnomon.agent.gate import TERMINAL_REASONS
from gnomon.agent.loop import run_agent, run_agent_async
from gnomon.agent.reducer import replay
from loop_world import SCHEMA, World, judged, never, script, tool


@pytest.fixture
def world() -> World:
    return World()


# --- the contract ---------------------------------------------------------------------------------


def document_loop(policy: Any, runtime: Any, state: Any, verify: Any, max_steps: int) -> Any:
    """The documents' loop from its definition, for the shapes of what it returns."""
    state, events = dict(state), []
    for _ in range(max_steps):
        if verify(state):
            return {"status": "succeeded", "state": state, "events": events}
        proposed = policy(state)
        if proposed["kind"] == "answer":
            return {"status": "answered", "answer": proposed["text"], "events": events}
        asked = [proposed[key] for key in ("name", "arguments", "operation_id")]
        result = runtime.dispatch(*asked)
        events.append({"candidate": proposed, "result": result})
        state["last_result"] = result
        if result["status"] in {"unknown", "needs_reconcile"}:
            return {"status": "needs_reconcile", "state": state, "events": events}
    return {"status": "budget_exhausted", "state": state, "events": events}


@pytest.mark.parametrize("max_steps", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "answers",
    [
        [],
        [{"status": "failed", "why": "no"}],
        [{"status": "failed"}, {"status": "failed"}],
        [{"status": "succeeded", "n": 1}, {"status": "unknown"}],
        [{"status": "unknown"}],
    ],
)
def test_same_outcome_as_the_documents_loop(answers: list[Any], max_steps: int) -> None:
    def run(loop: Any) -> Any:
        world = World()
        world.answers = copy.deepcopy(answers)
        steps = [tool(op=f"op{number}") for number in range(3)]
        outcome = loop(script(*steps), world.runtime, {"a": [1]}, never, max_steps)
        return outcome, world.effects

    (expected, effects), (found, mine) = run(document_loop), run(run_agent)
    assert {key: found[key] for key in expected} == expected
    assert mine == effects
    judged(found)


def test_d4_first_unknown_ends_the_loop_with_one_event(world: World) -> None:
    """The same action under a new tool_call_id is the same operation, and is not tried again."""
    world.answers = [TimeoutError("after the effect")] * 3
    calls = iter(range(10))

    def policy(state: dict[str, Any]) -> dict[str, Any]:
        return tool(op=None, tool_call_id=f"call_{next(calls)}")

    outcome = judged(run_agent(policy, world.runtime, {}, never, 3, principal="ann"))
    assert outcome["status"] == "needs_reconcile"
    assert len(outcome["events"]) == len(world.effects) == 1
    assert outcome["reason"] == "dependency_failed"
    assert outcome["unsettled"] == [outcome["events"][0]["result"]["operation_id"]]
    again = judged(run_agent(policy, world.runtime, {}, never, 3, principal="ann"))
    assert (again["status"], len(world.effects)) == ("needs_reconcile", 1)


def test_the_initial_state_is_never_changed(world: World) -> None:
    initial = {"notes": {"list": [1]}}

    def policy(state: dict[str, Any]) -> dict[str, Any]:
        state["notes"]["list"].append(2)
        state["more"] = True
        return tool()

    outcome = run_agent(policy, world.runtime, initial, never, 2)
    assert initial == {"notes": {"list": [1]}}
    assert outcome["state"]["notes"] == {"list": [1, 2, 2]}


def test_events_are_copies(world: World) -> None:
    candidate = tool()

    def policy(state: dict[str, Any]) -> dict[str, Any]:
        if "last_result" in state:
            state["last_result"]["status"] = "forged"
            candidate["arguments"]["project"] = "forged"
            return {"kind": "answer", "text": "done"}
        return candidate

    outcome = judged(run_agent(policy, world.runtime, {}, never, 3))
    [event] = outcome["events"]
    assert event["candidate"]["arguments"] == {"project": "alpha"}
    assert event["result"]["status"] == "succeeded"


def test_b1_the_goal_reached_by_the_last_step_is_seen(world: World) -> None:
    outcome = judged(
        run_agent(lambda state: tool(), world.runtime, {}, lambda state: "last_result" in state, 1)
    )
    assert (outcome["status"], outcome["reason"]) == ("succeeded", "answered")
    assert outcome["trace"]["result"]["citation_ids"] == ["op1"]


def test_b1_no_steps() -> None:
    def policy(state: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError("asked without a step")

    outcome = judged(run_agent(policy, World().runtime, {}, never, 0))
    assert (outcome["status"], outcome["exhausted"]) == ("budget_exhausted", "steps")
    outcome = judged(run_agent(policy, World().runtime, {}, lambda state: True, 0))
    assert (outcome["status"], outcome["reason"]) == ("succeeded", "insufficient_evidence")


@pytest.mark.parametrize("bad", [True, 2.5, None, "3", [], -1])
def test_b1_max_steps_of_another_kind(bad: Any, world: World) -> None:
    with pytest.raises((TypeError, ValueError), match="max_steps"):
        run_agent(script(), world.runtime, {}, never, bad)


@pytest.mark.parametrize("bad", [None, [], {}, {"kind": None}, {"kind": []}, {"kind": "think"}])
def test_candidates_that_are_no_action(bad: Any, world: World) -> None:
    log: list[Any] = []
    with pytest.raises(ValueError, match="policy returned an unknown action"):
        run_agent(script(bad), world.runtime, {}, never, 3, log=log)
    assert replay(log)["phase"] == "planning"  # the call to the policy is on record


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "answer"},
        {"kind": "answer", "text": 5},
        {"kind": "answer", "text": "x", "reason": "because"},
        {"kind": "answer", "text": "x", "citations": "r1"},
        tool(op=""),
        tool(op="x" * 201),
        {"kind": "tool", "name": "write", "arguments": {}, "operation_id": 5},
        tool(op=None),
    ],
)
def test_candidates_with_wrong_fields(bad: Any, world: World) -> None:
    with pytest.raises(ValueError, match=r"answer|operation_id"):
        run_agent(script(bad), world.runtime, {}, never, 3)
    assert world.effects == []


class Fake:
    """A runtime of another make."""

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.asked: list[Any] = []

    def dispatch(self, name: str, arguments: Any, operation_id: str) -> Any:
        self.asked.append((name, arguments, operation_id))
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result


@pytest.mark.parametrize("bad", [{"status": "done"}, {}, None, [], {"status": []}])
def test_results_that_are_no_result(bad: Any) -> None:
    log: list[Any] = []
    with pytest.raises(ValueError, match="tool returned an invalid status"):
        run_agent(script(tool()), Fake(bad), {}, never, 3, log=log)
    assert replay(log)["phase"] == "needs_reconcile"


def test_a_runtime_of_another_make_needs_dispatch_only() -> None:
    fake = Fake({"status": "succeeded"}, {"status": "needs_reconcile", "operation_id": "op2"})
    outcome = judged(run_agent(script(tool(), tool(op="op2")), fake, {}, never, 5))
    assert outcome["status"] == "needs_reconcile"
    assert fake.asked[0] == ("write", {"project": "alpha"}, "op1")
    raised = judged(run_agent(script(tool()), Fake(OSError("lost")), {}, never, 5))
    assert (raised["status"], len(raised["events"])) == ("needs_reconcile", 1)


# --- what goes wrong ------------------------------------------------------------------------------


def test_exceptions_of_a_tool_end_in_needs_reconcile(world: World) -> None:
    for error in (ValueError("odd"), PermissionError("no"), TimeoutError(), StoreUnavailable("x")):
        world.effects.clear()
        world.answers = [error]
        op = f"op-{type(error).__name__}"
        outcome = judged(run_agent(lambda state, op=op: tool(op=op), world.runtime, {}, never, 3))
        assert outcome["status"] == "needs_reconcile"
        assert outcome["unsettled"] == [op]
        assert (len(outcome["events"]), len(world.effects)) == (1, 1)


def test_interrupts_are_recorded_and_go_on(world: World) -> None:
    for error in (KeyboardInterrupt(), SystemExit(3)):
        log: list[Any] = []
        op = f"op-{type(error).__name__}"
        world.answers = [error]
        with pytest.raises(type(error)):
            run_agent(script(tool(op=op)), world.runtime, {}, never, 3, log=log)
        assert replay(log)["phase"] == "needs_reconcile"


def test_mistakes_of_the_model_are_data(world: World) -> None:
    bad = [
        (tool("nothing"), "unknown_tool"),
        ({**tool(), "arguments": {"project": 5}}, "invalid_arguments"),
        ({**tool(), "arguments": {"project": float("nan")}}, "invalid_arguments"),
        ({**tool(), "arguments": {"project": "a", "admin": True}}, "invalid_arguments"),
        ({**tool(), "arguments": None}, "invalid_arguments"),
        ({"kind": "tool", "name": None, "arguments": {}, "operation_id": "op1"}, "unknown_tool"),
        ({"kind": "answer", "text": "x", "citations": ["r99"]}, "unknown_citations"),
    ]
    seen: list[Any] = []

    def policy(state: dict[str, Any]) -> Any:
        seen.append(copy.deepcopy(state.get("last_result")))
        return bad[len(seen) - 1][0] if len(seen) <= len(bad) else tool(project="good")

    outcome = judged(run_agent(policy, world.runtime, {}, never, len(bad) + 1))
    assert [one["error"] for one in seen[1:]] == [word for _, word in bad][: len(bad)]
    assert world.effects == ["good"]
    assert seen[2]["problems"][0]["path"] == "/project"
    assert outcome["usage"]["writes"] == 1
    assert len(outcome["trace"]["steps"]) == 1


def test_d6_an_id_of_another_request_is_a_mistake_too(world: World) -> None:
    policy = script(tool(), tool(project="beta"))
    outcome = judged(run_agent(policy, world.runtime, {}, never, 5))
    assert outcome["events"][1]["result"]["error"] == "operation_conflict"
    assert (outcome["status"], world.effects) == ("answered", ["alpha"])


def test_a_tool_above_the_delegated_risk_ends_the_run(world: World) -> None:
    outcome = judged(run_agent(script(tool("danger")), world.runtime, {}, never, 5))
    assert (outcome["status"], outcome["reason"]) == ("failed", "authorization_denied")
    assert (len(outcome["events"]), world.effects) == (1, [])
    assert outcome["trace"]["result"]["denied"][0]["tool"] == "danger"


def test_failures_in_a_row_may_be_limited(world: World) -> None:
    world.answers = [{"status": "failed"}] * 9
    ops = iter(range(9))

    def policy(state: dict[str, Any]) -> dict[str, Any]:
        return tool(op=f"op{next(ops)}")

    outcome = judged(run_agent(policy, world.runtime, {}, never, 9, errors_in_a_row_max=2))
    assert (outcome["status"], outcome["reason"]) == ("failed", "dependency_failed")
    assert len(world.effects) == 2


def test_not_executed_is_told_to_the_policy(world: World) -> None:
    world.answers = [NotExecuted("before the call", retryable=False)]
    outcome = judged(run_agent(script(tool()), world.runtime, {}, never, 3))
    assert outcome["status"] == "answered"
    assert outcome["events"][0]["result"]["status"] == "failed"


def test_a_guard_blocks_before_anything_is_requested(world: World) -> None:
    def guard(state: dict[str, Any], candidate: dict[str, Any]) -> str | None:
        return "no writes on Sunday, password=hunter22" if candidate["name"] == "write" else None

    outcome = judged(
        run_agent(script(tool("read"), tool()), world.runtime, {}, never, 5, guard=guard)
    )
    assert (outcome["status"], outcome["reason"]) == ("failed", "policy_blocked")
    assert world.effects == []
    assert "hunter22" not in json.dumps(outcome["log"])


def test_evidence_outside_the_callers_scopes_is_never_shown(world: World) -> None:
    seen: list[Any] = []

    def policy(state: dict[str, Any]) -> Any:
        seen.append(copy.deepcopy(state))
        return tool("read")

    outcome = judged(run_agent(policy, world.runtime, {}, never, 5, scopes=["public"]))
    assert (outcome["status"], outcome["reason"]) == ("failed", "policy_blocked")
    assert seen == [{}]
    allowed = judged(
        run_agent(script(tool("read", op="op2")), world.runtime, {}, never, 5, scopes=["team"])
    )
    assert allowed["status"] == "answered"
    assert allowed["trace"]["policy"]["scopes_declared"] is True
    assert "team" in allowed["trace"]["policy"]["allowed_source_scopes"]


def test_cancel_before_a_step(world: World) -> None:
    asked = iter([False, True])
    outcome = judged(
        run_agent(lambda state: tool(), world.runtime, {}, never, 5, cancelled=lambda: next(asked))
    )
    assert (outcome["status"], outcome["task"]["phase"]) == ("cancelled", "cancelled")
    assert len(world.effects) == 1


# --- the eight reasons, citations -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason", "cited"),
    [
        ({"citations": ["alpha@3"]}, "answered", ["alpha@3"]),
        ({"citations": ["alpha"]}, "answered", ["alpha@3"]),
        ({"citations": []}, "insufficient_evidence", []),
        ({}, "insufficient_evidence", []),
        ({"reason": "clarification_required"}, "clarification_required", []),
        (
            {"reason": "clarification_required", "citations": ["alpha"]},
            "clarification_required",
            [],
        ),
        (
            {"reason": "conflicting_evidence", "citations": ["alpha", "beta"]},
            "conflicting_evidence",
            ["alpha@3", "beta@3"],
        ),
    ],
)
def test_answers_have_a_reason_and_resolved_citations(
    answer: dict[str, Any], reason: str, cited: list[str], world: World
) -> None:
    steps = [
        tool("read"),
        tool("read", "beta", "op2"),
        {"kind": "answer", "text": "seven", **answer},
    ]
    outcome = judged(run_agent(script(*steps), world.runtime, {}, never, 5))
    assert (outcome["status"], outcome["answer"], outcome["reason"]) == (
        "answered",
        "seven",
        reason,
    )
    assert outcome["trace"]["result"]["citation_ids"] == cited


def test_every_terminal_reason_is_reached(world: World) -> None:
    """The tests above reach each of the eight; this one says where, and notices a ninth."""
    reached = {
        "answered": test_answers_have_a_reason_and_resolved_citations,
        "clarification_required": test_answers_have_a_reason_and_resolved_citations,
        "insufficient_evidence": test_answers_have_a_reason_and_resolved_citations,
        "conflicting_evidence": test_answers_have_a_reason_and_resolved_citations,
        "authorization_denied": test_a_tool_above_the_delegated_risk_ends_the_run,
        "budget_exhausted": test_b1_no_steps,
        "dependency_failed": test_failures_in_a_row_may_be_limited,
        "policy_blocked": test_a_guard_blocks_before_anything_is_requested,
    }
    assert set(reached) == TERMINAL_REASONS


# --- asynchronous ---------------------------------------------------------------------------------


def test_async_loop_does_the_same(world: World) -> None:
    effects: list[str] = []

    async def write(project: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        effects.append(project)
        return {"status": "unknown" if len(effects) == 2 else "succeeded"}

    async def policy(state: dict[str, Any]) -> dict[str, Any]:
        return tool(op="op2" if "last_result" in state else "op1")

    async def verify(state: dict[str, Any]) -> bool:
        return False

    async def main() -> dict[str, Any]:
        tools = {"write": Tool("write", SCHEMA, 1, write)}
        runtime = AsyncToolRuntime(tools, 1, heartbeat=False)
        try:
            return await run_agent_async(policy, runtime, {}, verify, 5, budget=Budget(writes=2))
        finally:
            await runtime.aclose()

    outcome = judged(asyncio.run(main()))
    assert (outcome["status"], outcome["unsettled"]) == ("needs_reconcile", ["op2"])
    assert (len(effects), outcome["usage"]["writes"]) == (2, 2)
