"""The bounded loop: document 000's contract, budgets, the log and going on from it, the trace."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gnomon.agent import (
    ApprovalPolicy,
    Approver,
    AsyncToolRuntime,
    MemoryOperationStore,
    NotExecuted,
    StoreUnavailable,
    Tool,
    ToolRuntime,
)
from gnomon.agent.budget import Budget, BudgetMeter
from gnomon.agent.events import event_from_dict
from gnomon.agent.frozen import EventError
from gnomon.agent.gate import TERMINAL_REASONS, trace_passes, validate, validate_trace
from gnomon.agent.loop import JsonlLog, run_agent, run_agent_async
from gnomon.agent.reducer import replay
from trace_oracle import messages

SCHEMA = {
    "type": "object",
    "properties": {"project": {"type": "string"}},
    "required": ["project"],
}
Policy = Callable[[dict[str, Any]], Any]


class World:
    """Tools with counted effects, a runtime on a ledger that survives the runtime."""

    def __init__(self, store: Any = None, **settings: Any) -> None:
        self.effects: list[str] = []
        self.answers: list[Any] = []  # what the write tool does next; an empty list: succeed
        self.store = MemoryOperationStore() if store is None else store
        self.settings = settings
        self.tools = {
            "write": Tool("write", SCHEMA, 1, self.write),
            "read": Tool("read", SCHEMA, 0, self.read, effect="read"),
            "danger": Tool("danger", SCHEMA, 9, self.write),
            "asked": Tool("asked", SCHEMA, 5, self.write, approval=True),
        }
        self.runtime = self.restart()

    def restart(self) -> ToolRuntime:
        self.runtime = ToolRuntime(self.tools, 1, self.store, heartbeat=False, **self.settings)
        return self.runtime

    def write(self, project: str) -> dict[str, Any]:
        self.effects.append(project)
        answer = self.answers.pop(0) if self.answers else {"status": "succeeded"}
        if isinstance(answer, BaseException):
            raise answer
        found: dict[str, Any] = answer(project) if callable(answer) else answer
        return found

    def read(self, project: str) -> dict[str, Any]:
        item = {"source_id": project, "revision": "3", "acl_scope": "team", "excerpt": "text"}
        return {"status": "succeeded", "evidence": [item], "usage": {"tokens": 2}}


@pytest.fixture
def world() -> World:
    return World()


def never(state: dict[str, Any]) -> bool:
    return False


def tool(
    name: str = "write", project: str = "alpha", op: str | None = "op1", **more: Any
) -> dict[str, Any]:
    found = {"kind": "tool", "name": name, "arguments": {"project": project}, **more}
    return found if op is None else {**found, "operation_id": op}


def script(*candidates: Any) -> Policy:
    """A policy that proposes these in turn and answers after them."""
    rest: Iterator[Any] = iter(candidates)
    return lambda state: next(rest, {"kind": "answer", "text": "done"})


def judged(outcome: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The outcome, after checks that hold for every run."""
    trace = outcome["trace"]
    assert json.loads(json.dumps(trace)) == trace
    assert validate(trace) == messages(trace) == []
    found = validate_trace(trace)
    assert trace_passes(found), found
    assert trace["profile"] == "v2"
    assert outcome["reason"] == trace["result"]["stop_reason"]
    assert outcome["reason"] in TERMINAL_REASONS
    assert replay(outcome["log"]) == outcome["task"]
    assert [event_from_dict(one).to_dict() for one in outcome["log"]] == outcome["log"]
    return outcome


# --- document 000 ---------------------------------------------------------------------------------


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
    assert (
        outcome["unsettled"] == [outcome["events"][0]["candidate"].get("operation_id")]
        or outcome["unsettled"]
    )
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


# --- budgets --------------------------------------------------------------------------------------


def busy(state: dict[str, Any]) -> dict[str, Any]:
    """A policy that always has something new to write."""
    number = state.get("n", 0)
    state["n"] = number + 1
    return tool(op=f"op{number}", usage={"tokens": 10, "cost_micros": 3})


@pytest.mark.parametrize(
    ("budget", "dimension", "effects"),
    [
        (Budget(steps=2), "steps", 2),
        (Budget(tokens=20), "tokens", 2),
        (Budget(tokens=25), "tokens", 2),
        (Budget(cost_micros=6), "cost_micros", 2),
        (Budget(writes=1), "writes", 1),
        (Budget(writes=0), "writes", 0),
        (Budget(risk=3), "risk", 3),
        (Budget(risk=0), "risk", 0),
        (Budget(result_bytes=30), "result_bytes", 2),
        (Budget(writes=2, risk=1), "risk", 1),
    ],
)
def test_b1_each_dimension_ends_the_run_by_its_name(
    budget: Budget, dimension: str, effects: int, world: World
) -> None:
    world.settings = {}
    outcome = run_agent(busy, world.runtime, {}, never, 9, budget=budget)
    assert (outcome["status"], outcome["exhausted"]) == ("budget_exhausted", dimension)
    assert (outcome["reason"], len(world.effects)) == ("budget_exhausted", effects)
    assert outcome["task"]["exhausted"] == dimension
    if budget != Budget(tokens=25):  # there the model said more than was held
        judged(outcome)


def test_b1_an_estimate_keeps_the_run_within_its_tokens(world: World) -> None:
    outcome = judged(
        run_agent(
            busy,
            world.runtime,
            {},
            never,
            9,
            budget=Budget(tokens=25),
            estimate=lambda state: {"tokens": 10},
        )
    )
    assert (outcome["exhausted"], outcome["usage"]["tokens"], len(world.effects)) == (
        "tokens",
        20,
        2,
    )


def test_b1_wall_time(world: World) -> None:
    now = [100.0]

    def slow(project: str) -> dict[str, Any]:
        now[0] += 6.0
        return {"status": "succeeded"}

    world.answers = [slow] * 9
    outcome = run_agent(
        busy, world.runtime, {}, never, 9, budget=Budget(seconds=10), clock=lambda: now[0]
    )
    assert (outcome["status"], outcome["exhausted"]) == ("budget_exhausted", "seconds")
    assert len(world.effects) == 2
    assert validate(outcome["trace"]) == []


def test_b1_the_error_path_is_counted_too(world: World) -> None:
    world.answers = [{"status": "failed"}] * 9
    outcome = judged(run_agent(busy, world.runtime, {}, never, 9, budget=Budget(writes=2)))
    assert (outcome["exhausted"], len(world.effects)) == ("writes", 2)
    bad = {**tool(), "arguments": {}, "usage": {"tokens": 10}}
    outcome = judged(
        run_agent(lambda state: bad, world.runtime, {}, never, 9, budget=Budget(tokens=30))
    )
    assert (outcome["exhausted"], outcome["usage"]["steps"]) == ("tokens", 3)


def test_b1_replays_are_no_writes(world: World) -> None:
    outcome = judged(
        run_agent(lambda state: tool(), world.runtime, {}, never, 4, budget=Budget(writes=1))
    )
    assert (outcome["exhausted"], outcome["usage"]["writes"], world.effects) == (
        "steps",
        1,
        ["alpha"],
    )
    assert [step.get("replayed", False) for step in outcome["trace"]["steps"]] == [
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize("bad", [float("nan"), -5, 10**400, "many", True])
def test_b1_a_report_that_is_no_count_ends_a_limited_run(bad: Any, world: World) -> None:
    def policy(state: dict[str, Any]) -> dict[str, Any]:
        return tool(usage={"cost_micros": bad})

    outcome = judged(run_agent(policy, world.runtime, {}, never, 5, budget=Budget(cost_micros=100)))
    assert (outcome["exhausted"], world.effects) == ("cost_micros", [])
    world.answers = [{"status": "succeeded", "usage": {"tokens": bad if bad == -5 else -1}}]
    outcome = judged(
        run_agent(script(tool()), world.runtime, {}, never, 5, budget=Budget(tokens=9))
    )
    assert (outcome["exhausted"], len(world.effects)) == ("tokens", 1)


def test_b1_a_run_within_a_run_shares_the_budget(world: World) -> None:
    meter = BudgetMeter(Budget(writes=3))
    inner = {"n": 100}
    first = judged(run_agent(busy, world.runtime, {}, never, 2, budget=meter))
    second = judged(run_agent(busy, world.runtime, inner, never, 9, budget=meter))
    assert (first["exhausted"], second["exhausted"]) == ("steps", "writes")
    assert len(world.effects) == 3


def test_an_answer_over_the_budget_is_not_an_answer(world: World) -> None:
    answer = {"kind": "answer", "text": "x", "usage": {"tokens": 50}}
    outcome = run_agent(script(answer), world.runtime, {}, never, 5, budget=Budget(tokens=10))
    assert (outcome["status"], outcome["exhausted"]) == ("budget_exhausted", "tokens")


# --- the log, and going on from it ----------------------------------------------------------------


class Died(BaseException):
    """Stands for the end of the process."""


class DyingLog(list[Any]):
    """A log whose process dies before or after the event with this number is kept."""

    def __init__(self, number: int, after: bool) -> None:
        super().__init__()
        self.number, self.after = number, after

    def append(self, event: Any) -> None:
        self.number -= 1
        if self.number == 0 and not self.after:
            raise Died
        super().append(event)
        if self.number == 0:
            raise Died


class Durable(MemoryOperationStore):
    """Says of itself what a ledger on a disk says; here the 'disk' is the object."""

    blocking = True


def plan(state: dict[str, Any]) -> Any:
    """Read, write, write, answer; decides by the state alone, as a resumable policy does."""
    done = state.get("last_result")
    if done is None:
        return tool("read", "alpha", "op-a", usage={"tokens": 5})
    if done.get("evidence"):
        return tool("write", "beta", "op-b", usage={"tokens": 5})
    if done.get("project") == "beta":
        return tool("write", "gamma", "op-c", usage={"tokens": 5})
    return {"kind": "answer", "text": "seven", "citations": ["alpha"], "usage": {"tokens": 5}}


def echoing(world: World) -> World:
    world.answers = [lambda project: {"status": "succeeded", "project": project}] * 9
    return world


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 15))
def test_d9_death_at_every_event_and_resume(number: int, after: bool) -> None:
    world = echoing(World(Durable()))
    whole = judged(run_agent(plan, echoing(World(Durable())).runtime, {}, never, 9))
    log = DyingLog(number, after)
    try:
        run_agent(plan, world.runtime, {}, never, 9, log=log)
    except Died:
        pass
    else:
        assert number > len(whole["log"])
    kept = [*log]
    outcome: Any = None
    for _ in range(4):  # every restart may find another question to ask again
        resumed = [*kept]
        outcome = judged(run_agent(plan, echoing(world).restart(), {}, never, 9, log=resumed))
        kept = resumed
        if outcome["status"] == "answered":
            break
    assert outcome["status"] == "answered"
    assert sorted(set(world.effects)) == sorted(world.effects)  # no effect twice
    requested = [one["operation_id"] for one in kept if one["type"] == "tool_requested"]
    settled = [
        one["operation_id"]
        for one in kept
        if one["type"] in ("tool_succeeded", "tool_failed", "tool_not_executed", "tool_reconciled")
    ]
    assert requested == settled
    assert outcome["usage"]["writes"] == len(world.effects)


def test_d9_no_model_call_before_pending_operations_are_settled() -> None:
    world = World(Durable())
    world.answers = [Died()]
    log: list[Any] = []
    with pytest.raises(Died):
        run_agent(script(tool()), world.runtime, {}, never, 5, log=log)
    assert log.pop()["type"] == "tool_needs_reconcile"  # as if the process had died at once

    def policy(state: dict[str, Any]) -> Any:
        raise AssertionError("asked although an operation is open")

    for _ in range(2):
        outcome = judged(run_agent(policy, world.restart(), {}, never, 5, log=log))
        assert (outcome["status"], outcome["unsettled"]) == ("needs_reconcile", ["op1"])
        assert len(outcome["events"]) == 1
    assert [one["type"] for one in log].count("tool_needs_reconcile") == 1
    world.runtime.reconcile("op1", {"status": "succeeded", "evidence": ["r1"]})
    answer = {"kind": "answer", "text": "yes", "citations": ["r1"]}
    outcome = judged(run_agent(script(answer), world.restart(), {}, never, 5, log=log))
    assert (outcome["status"], outcome["reason"]) == ("answered", "answered")
    assert log[-4]["type"] == "tool_reconciled"
    assert len(world.effects) == 1


def test_a_ledger_that_died_with_the_process_proves_nothing() -> None:
    """The log asked for an operation; a fresh ledger in memory cannot say that it did not run."""
    log: list[Any] = []
    world = World()
    world.answers = [Died()]
    with pytest.raises(Died):
        run_agent(script(tool()), world.runtime, {}, never, 5, log=log)
    log.pop()
    fresh = World()
    outcome = judged(run_agent(lambda state: tool(), fresh.runtime, {}, never, 5, log=log))
    assert outcome["status"] == "needs_reconcile"
    assert fresh.effects == []


def test_d5_after_a_restart_the_same_action_is_the_same_operation() -> None:
    world, names = World(Durable()), iter(range(100))

    def policy(state: dict[str, Any]) -> dict[str, Any]:
        return tool(op=None, tool_call_id=f"call_{next(names)}", step=next(names))

    first = judged(
        run_agent(policy, world.runtime, {}, never, 2, principal="ann", business_scope="i7")
    )
    later = judged(
        run_agent(policy, world.restart(), {}, never, 1, principal="ann", business_scope="i7")
    )
    assert world.effects == ["alpha"]
    judged(run_agent(policy, world.runtime, {}, never, 1, principal="ann", business_scope="i8"))
    judged(run_agent(policy, world.runtime, {}, never, 1, principal="bob", business_scope="i7"))
    assert world.effects == ["alpha"] * 3  # meant to be other payments
    ids = {
        one["operation_id"] for run in (first, later) for one in run["log"] if "operation_id" in one
    }
    assert len(ids) == 1


def test_a_finished_task_gives_its_outcome_again(world: World) -> None:
    def policy(state: dict[str, Any]) -> Any:
        raise AssertionError("asked although the task is over")

    runs: list[tuple[Any, Any, dict[str, Any]]] = [
        (script(tool("read"), {"kind": "answer", "text": "x", "citations": ["alpha"]}), never, {}),
        (script(tool("danger")), never, {}),
        (script(tool()), lambda state: "last_result" in state, {}),
        (script(tool(op="op9")), never, {"budget": Budget(writes=0)}),
        (script(), never, {"cancelled": lambda: True}),
    ]
    for first, verify, more in runs:
        log: list[Any] = []
        before = judged(run_agent(first, world.runtime, {}, verify, 5, log=log, **more))
        length, effects = len(log), len(world.effects)
        again = judged(run_agent(policy, world.restart(), {}, never, 5, log=log))
        assert (len(log), len(world.effects)) == (length, effects)
        for key in ("status", "reason", "task", "trace", "answer", "exhausted"):
            assert again.get(key) == before.get(key), key
        assert [one["result"] for one in again["events"]] == [
            one["result"] for one in before["events"]
        ]


def test_a_resumed_budget_remembers_what_was_used() -> None:
    world, log = World(Durable()), []
    now = [100.0]

    def policy(state: dict[str, Any]) -> Any:
        if len(world.effects) == 2:
            raise RuntimeError("the model is down")
        return busy(state)

    with pytest.raises(RuntimeError):
        run_agent(policy, world.runtime, {}, never, 9, log=log, clock=lambda: now[0])
    now[0] += 50
    state = {"n": 2}
    more: dict[str, Any] = {"log": log, "clock": lambda: now[0]}
    limits = Budget(writes=3, seconds=1000)
    outcome = judged(run_agent(busy, world.restart(), state, never, 9, budget=limits, **more))
    assert (outcome["exhausted"], len(world.effects)) == ("writes", 3)
    assert outcome["usage"]["steps"] == 5  # two, the one that failed, and two more
    assert outcome["usage"]["seconds"] == 50.0
    assert outcome["usage"]["tokens"] == 40


def test_approval_pauses_the_task_and_it_goes_on_once() -> None:
    policy = ApprovalPolicy(approvers=(Approver("boss", max_risk=9),))
    world = World(Durable(), approvals=policy, principal="ann")
    log: list[Any] = []
    once = script(tool("asked"))
    outcome = judged(run_agent(once, world.runtime, {}, never, 5, log=log))
    assert (outcome["status"], world.effects) == ("awaiting_approval", [])
    approval = outcome["approval_id"]

    def waiting(state: dict[str, Any]) -> Any:
        raise AssertionError("asked while waiting")

    again = judged(run_agent(waiting, world.restart(), {}, never, 5, log=log))
    assert (again["status"], again["approval_id"]) == ("awaiting_approval", approval)
    world.runtime.approvals.approve(approval, "boss")
    outcome = judged(run_agent(script(), world.restart(), {}, never, 5, log=log))
    assert (outcome["status"], world.effects) == ("answered", ["alpha"])
    [step] = outcome["trace"]["steps"]
    assert (step["approval_id"], step["risk"]) == (approval, 5)
    assert [one["type"] for one in log if "approval" in one["type"]] == [
        "approval_requested",
        "approval_granted",
    ]


@pytest.mark.parametrize("decision", ["deny", "expire", "cancel"])
def test_an_approval_that_is_not_given(decision: str) -> None:
    policy = ApprovalPolicy(approvers=(Approver("boss", max_risk=9),), ttl_seconds=30)
    now = [1000.0]
    store = Durable(clock=lambda: now[0])
    world = World(store, approvals=policy, principal="ann")
    log: list[Any] = []
    outcome = run_agent(script(tool("asked")), world.runtime, {}, never, 5, log=log)
    if decision == "deny":
        world.runtime.approvals.deny(outcome["approval_id"], "boss")
    elif decision == "cancel":
        world.runtime.cancel("op1")
    else:
        now[0] += 60
        world.runtime.approvals.expire()
    outcome = judged(run_agent(script(), world.restart(), {}, never, 5, log=log))
    assert world.effects == []
    if decision == "deny":
        assert (outcome["status"], outcome["reason"]) == ("failed", "authorization_denied")
    else:
        assert outcome["status"] == "answered"


def test_jsonl_log_survives_and_cuts_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "task.jsonl"
    world = World(Durable())
    with JsonlLog(path) as log:
        first = judged(run_agent(script(tool()), world.runtime, {}, never, 1, log=log))
    assert first["status"] == "budget_exhausted"
    lines = path.read_bytes()
    assert [json.loads(line) for line in lines.splitlines()] == first["log"]
    path.write_bytes(lines + b'{"type":"canc')
    with JsonlLog(path) as log:
        assert list(log) == first["log"]
    assert path.read_bytes() == lines
    path.write_bytes(lines[:-1].replace(b'"type":"tool_requested"', b'"type":"x"') + b"\n")
    with pytest.raises(EventError, match="is no event"):
        JsonlLog(path)
    assert (path.stat().st_mode & 0o077) == 0


def test_secrets_reach_neither_log_nor_trace() -> None:
    world = World()
    secret = "canary-4711-secret"
    schema = {
        "type": "object",
        "properties": {"pin": {"type": "string"}, "project": {"type": "string"}},
        "required": ["pin", "project"],
    }

    def leak(pin: str, project: str) -> dict[str, Any]:
        return {"status": "succeeded", "echo": f"pin was {pin}", "evidence": [{"id": f"doc {pin}"}]}

    world.tools["leak"] = Tool("leak", schema, 0, leak, redact=("/pin",))
    candidate = tool("leak") | {"arguments": {"pin": secret, "project": "a"}}
    outcome = judged(run_agent(script(candidate), world.restart(), {}, never, 5))
    assert secret not in json.dumps([outcome["log"], outcome["trace"], outcome["task"]])
    assert outcome["events"][0]["candidate"]["arguments"]["pin"] == secret  # the caller's own


def test_the_log_is_checked_before_anything_is_done(world: World) -> None:
    for bad in (
        [{"type": "nothing"}],
        [{"type": "tool_requested"}],
        [5],
        [{"type": "goal_verified"}],
    ):
        with pytest.raises(EventError):
            run_agent(lambda state: tool(), world.runtime, {}, never, 5, log=bad)  # type: ignore[arg-type]
    assert world.effects == []


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
