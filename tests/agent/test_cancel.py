"""Cancellation against completion: each interleaving by name, over all ledgers."""

from __future__ import annotations

from typing import Any

import gnomon.agent.operations as operations
import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote, in_thread, kinds, until
from gnomon.agent import Limits, NotExecuted, RetryPolicy, Tool, ToolRefused, ToolRuntime
from ledgers import Ledger


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Do something when a named point of the dispatch is reached, once."""

    def set_action(point: str, action: Any) -> None:
        pending = [action]

        def hook(name: str) -> None:
            if name == point and pending:
                pending.pop()()

        monkeypatch.setattr(operations, "crash_hook", hook)

    return set_action


def test_c1_cancel_before_anybody_asked(ledger: Ledger) -> None:
    remote = Remote()
    runtime = remote.runtime(ledger.open())
    said = runtime.cancel("op-1")
    assert said == {"operation_id": "op-1", "status": "cancelled", "cancel_requested": True}
    answer = runtime.dispatch("write", ALPHA, "op-1")
    assert answer == {"status": "cancelled", "operation_id": "op-1"}
    assert remote.effects == []
    assert kinds(runtime, "op-1") == ["cancelled"]


def test_c1_cancel_between_the_look_and_the_claim(ledger: Ledger, at: Any) -> None:
    remote = Remote()
    runtime = remote.runtime(ledger.open())
    at("before_claim", lambda: runtime.cancel("op-1"))
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "cancelled"
    assert remote.effects == []


def test_c1_cancel_between_claim_and_call(ledger: Ledger, at: Any) -> None:
    remote, said = Remote(), []
    runtime = remote.runtime(ledger.open())
    at("after_claim", lambda: said.append(runtime.cancel("op-1")))
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "cancelled"
    assert said[0]["status"] == "in_flight"
    assert said[0]["cancel_requested"] is True
    assert remote.effects == []
    assert kinds(runtime, "op-1") == ["dispatched", "cancel_requested", "cancelled"]
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "cancelled"


def test_c1_cancel_while_the_tool_runs_and_it_succeeds(ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(before=gate)
    runtime = remote.runtime(ledger.open())
    end = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    assert runtime.cancel("op-1")["status"] == "in_flight"
    gate.open()
    assert end()["status"] == "succeeded"
    row = runtime.operation("op-1")
    assert row is not None
    assert row.cancel_requested_at is not None
    assert runtime.cancel("op-1")["status"] == "succeeded"
    assert kinds(runtime, "op-1") == ["dispatched", "cancel_requested", "settled"]


def test_c1_cancel_while_the_tool_runs_and_it_proves_that_it_did_not_act(ledger: Ledger) -> None:
    """The tool sees the signal, stops before its effect, and the operation is cancelled for
    good.
    """
    gate, effects = Gate(), []

    def write(project: str, context: Any) -> dict[str, Any]:
        gate()
        if context.cancelled:
            raise NotExecuted("stopped before sending")
        effects.append(project)
        return {"status": "succeeded"}

    tool = Tool("write", WRITE_SCHEMA, 1, write, injected=frozenset({"context"}))
    policy = RetryPolicy(attempts=5, initial=0.0)
    runtime = ToolRuntime({"write": tool}, 1, ledger.open(), retry=policy)
    end = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    runtime.cancel("op-1")
    gate.open()
    assert end() == {"status": "cancelled", "operation_id": "op-1"}
    assert effects == []
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "cancelled"
    assert kinds(runtime, "op-1") == ["dispatched", "cancel_requested", "cancelled"]


@pytest.mark.parametrize("answer", [{"status": "unknown"}, OSError("lost")])
def test_c1_cancel_while_the_tool_runs_and_its_effect_is_unknown(
    ledger: Ledger, answer: Any
) -> None:
    gate = Gate()
    runtime = Remote(before=gate, answer=answer).runtime(ledger.open())
    end = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    runtime.cancel("op-1")
    gate.open()
    if isinstance(answer, OSError):
        with pytest.raises(OSError, match="lost"):
            end()
    else:
        end()
    assert runtime.cancel("op-1")["status"] == "needs_reconcile"
    row = runtime.reconcile("op-1", "not_executed", actor="ops")
    assert row.status.value == "cancelled"


def test_c1_cancel_between_return_and_settle(ledger: Ledger, at: Any) -> None:
    remote = Remote()
    runtime = remote.runtime(ledger.open())
    at("after_return", lambda: runtime.cancel("op-1"))
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    assert kinds(runtime, "op-1") == ["dispatched", "cancel_requested", "settled"]


def test_c1_cancel_after_the_settlement(ledger: Ledger, at: Any) -> None:
    remote, said = Remote(), []
    runtime = remote.runtime(ledger.open())
    at("after_settle", lambda: said.append(runtime.cancel("op-1")))
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    assert said == [{"operation_id": "op-1", "status": "succeeded", "cancel_requested": False}]
    assert kinds(runtime, "op-1") == ["dispatched", "settled"]


def test_c1_cancel_while_a_retry_waits(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def write(project: str) -> dict[str, Any]:
        calls.append(1)
        raise NotExecuted("busy")

    policy = RetryPolicy(attempts=5, initial=0.0)
    runtime = ToolRuntime(
        {"write": Tool("write", WRITE_SCHEMA, 1, write)}, 1, ledger.open(), retry=policy
    )
    monkeypatch.setattr("gnomon.agent.runtime.time.sleep", lambda _: runtime.cancel("op-1"))
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "cancelled"
    assert len(calls) == 1


def test_c1_cancel_after_a_timeout_and_the_late_result_wins(ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(before=gate)
    runtime = remote.runtime(ledger.open(), tool={"limits": Limits(timeout_ms=20)})
    runtime.dispatch("write", ALPHA, "op-1")
    assert runtime.cancel("op-1")["status"] == "needs_reconcile"
    gate.open()
    assert runtime.dispatch("write", ALPHA, "op-1", wait=0)["status"] in (
        "needs_reconcile",
        "succeeded",
    )
    until(lambda: runtime.operations["op-1"]["status"] == "succeeded")
    assert remote.effects == ["alpha"]


def test_a_cancel_from_another_process_reaches_the_tool_with_the_heartbeat(
    shared_ledger: Ledger,
) -> None:
    gate, seen = Gate(), []

    def write(project: str, context: Any) -> dict[str, Any]:
        gate()
        seen.append(context.cancelled)
        return {"status": "succeeded"}

    tool = Tool("write", WRITE_SCHEMA, 1, write, injected=frozenset({"context"}))
    mine = ToolRuntime({"write": tool}, 1, shared_ledger.open(), heartbeat=False)
    other = ToolRuntime({}, 1, shared_ledger.open(), heartbeat=False)
    end = in_thread(lambda: mine.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    assert other.cancel("op-1")["status"] == "in_flight"
    mine.heartbeat()
    gate.open()
    assert end()["status"] == "succeeded"
    assert seen == [True]


def test_another_caller_cannot_cancel(ledger: Ledger) -> None:
    remote = Remote()
    runtime = remote.runtime(ledger.open(), principal="ann", tenant="acme")
    remote.answer = {"status": "unknown"}
    runtime.dispatch("write", ALPHA, "op-1")
    for who in ({"principal": "bob"}, {"tenant": "other"}):
        with pytest.raises(ToolRefused, match="another caller"):
            runtime.cancel("op-1", **who)
    assert kinds(runtime, "op-1") == ["dispatched", "settled"]


def test_cancelling_twice_is_one_cancellation(ledger: Ledger) -> None:
    runtime = Remote(answer={"status": "unknown"}).runtime(ledger.open())
    runtime.dispatch("write", ALPHA, "op-1")
    first, second = runtime.cancel("op-1"), runtime.cancel("op-1")
    assert first == second
    assert kinds(runtime, "op-1") == ["dispatched", "settled", "cancel_requested"]


def listening(gate: Gate, seen: list[bool], store: Any, **more: Any) -> ToolRuntime:
    """A runtime whose tool times out, and tells at its end whether it was asked to stop."""

    def write(project: str, context: Any) -> dict[str, Any]:
        gate()
        seen.append(context.cancelled)
        raise NotExecuted("stopped before sending")

    tool = Tool(
        "write",
        WRITE_SCHEMA,
        1,
        write,
        injected=frozenset({"context"}),
        limits=Limits(timeout_ms=20),
    )
    return ToolRuntime({"write": tool}, 1, store, **more)


def test_c1_cancel_after_a_timeout_reaches_the_tool(ledger: Ledger) -> None:
    gate, seen = Gate(), []
    runtime = listening(gate, seen, ledger.open())
    assert runtime.dispatch("write", ALPHA, "op-1")["reason"] == "timeout"
    assert runtime.cancel("op-1")["status"] == "needs_reconcile"
    gate.open()
    until(lambda: runtime.operations["op-1"]["status"] == "cancelled")
    assert seen == [True]
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "cancelled"


def test_c1_cancel_by_another_process_after_a_timeout_reaches_the_tool(
    shared_ledger: Ledger,
) -> None:
    gate, seen = Gate(), []
    mine = listening(gate, seen, shared_ledger.open(), heartbeat=False)
    other = ToolRuntime({}, 1, shared_ledger.open(), heartbeat=False)
    mine.dispatch("write", ALPHA, "op-1")
    assert other.cancel("op-1")["cancel_requested"] is True
    mine.heartbeat()
    gate.open()
    until(lambda: other.operations["op-1"]["status"] == "cancelled")
    assert seen == [True]
