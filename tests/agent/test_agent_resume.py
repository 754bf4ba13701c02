"""Going on with a task from its log: after a crash, an approval, a reconciliation, its end."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from gnomon.agent import ApprovalPolicy, Approver, MemoryOperationStore, Tool
from gnomon.agent.budget import Budget
from gnomon.agent.frozen import EventError
from gnomon.agent.loop import JsonlLog, run_agent
from loop_world import World, busy, judged, never, script, tool


@pytest.fixture
def world() -> World:
    return World()


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

    world.tools["leak"] = Tool("leak", schema, 0, leak, redact_paths=("/pin",))
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


@pytest.mark.parametrize("number", range(1, 8))
def test_what_another_caller_has_under_the_id_is_not_told(number: int) -> None:
    """A policy may name any id; going on with its task shows it nobody else's operation."""
    world = World(Durable())
    theirs = {"status": "succeeded", "number": "zelda's"}
    world.answers = [theirs]
    world.runtime.dispatch("write", {"project": "zelda"}, "op1", principal="zelda")
    seen: list[str] = []

    def policy(state: dict[str, Any]) -> Any:
        seen.append(json.dumps(state, default=str))
        if len(seen) < 3:
            return tool("write", "alpha", "op1")
        return {"kind": "answer", "text": "done"}

    log = DyingLog(number, after=True)
    with suppress(Died):
        run_agent(policy, world.runtime, {}, never, 9, log=log)
    outcome = run_agent(policy, world.restart(), {}, never, 9, log=list(log))
    assert "zelda" not in "".join(seen) + json.dumps(outcome, default=str)
    assert world.effects == ["zelda"]


@pytest.mark.parametrize(
    ("name", "project", "same"),
    [("write", "alpha", True), ("write", "beta", False), ("read", "alpha", False)],
)
@pytest.mark.parametrize("answer", ["succeeded", "unknown"])
def test_a_record_of_another_request_is_not_this_ones_result(
    name: str, project: str, same: bool, answer: str
) -> None:
    """The process died before its dispatch, and meanwhile the id went to another request."""
    world = World(Durable())
    log = DyingLog(4, True)  # task_started, model_requested, model_called, tool_requested
    with pytest.raises(Died):
        run_agent(script(tool()), world.runtime, {}, never, 5, log=log)
    assert log[-1]["type"] == "tool_requested"
    world.answers = [{"status": answer, "secret": "of another request"}]
    world.runtime.dispatch(name, {"project": project}, "op1")
    outcome = judged(run_agent(script(), world.restart(), {}, never, 5, log=[*log]))
    kinds = [one["type"] for one in outcome["log"]]
    if not same:
        event = outcome["log"][4]
        assert (event["type"], event["error"]) == ("tool_not_executed", "operation_conflict")
        assert outcome["events"][0]["result"]["error"] == "operation_conflict"
        assert "of another request" not in json.dumps(outcome)
        assert (outcome["status"], outcome["usage"]["writes"]) == ("answered", 0)
    elif answer == "succeeded":
        assert kinds[4] == "tool_succeeded"
        assert outcome["status"] == "answered"
    else:
        assert outcome["status"] == "needs_reconcile"


def test_a_record_with_redacted_arguments_is_this_ones() -> None:
    world = World(Durable())
    log = DyingLog(4, True)
    secret = tool(project="call ?key=abc123")
    with pytest.raises(Died):
        run_agent(script(secret), world.runtime, {}, never, 5, log=log)
    world.runtime.dispatch("write", secret["arguments"], "op1")
    outcome = run_agent(script(), world.restart(), {}, never, 5, log=[*log])
    assert outcome["log"][3]["arguments"] == {"project": "call ?key=[redacted]"}
    assert outcome["log"][4]["type"] == "tool_succeeded"
