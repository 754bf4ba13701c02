"""Reconciliation is the only way out of an open outcome, and it leaves a record."""

from __future__ import annotations

import math
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote, kinds, until
from gnomon.agent import (
    InvalidTransition,
    Limits,
    OpenOperation,
    Reconciler,
    RetryPolicy,
    Tool,
    ToolRuntime,
    UnknownOperation,
)
from gnomon.agent.attempts import Attempts
from gnomon.agent.leases import steady
from gnomon.agent.memory_store import MemoryOperationStore
from gnomon.agent.observe import Observer
from gnomon.agent.records import OperationStatus
from gnomon.agent.testing import SimClock
from ledgers import Ledger, claim_for, outcome


def open_operation(ledger: Ledger, remote: Remote | None = None, **more: Any) -> ToolRuntime:
    remote = remote or Remote()
    remote.answer = {"status": "unknown"}
    runtime = remote.runtime(ledger.open(), **more)
    runtime.dispatch("write", ALPHA, "op-1")
    return runtime


@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_a_resolved_outcome_is_terminal_and_answered(ledger: Ledger, status: str) -> None:
    runtime = open_operation(ledger)
    outcome = {"status": status, "remote": "r-7"}
    row = runtime.reconcile("op-1", outcome, actor="ops", evidence={"ticket": "T-1"})
    assert row.status.value == status
    assert runtime.dispatch("write", ALPHA, "op-1") == outcome
    event = runtime.events("op-1")[-1]
    assert (event.type, event.actor) == ("reconciled", "ops")
    assert event.data["evidence"] == {"ticket": "T-1"}
    with pytest.raises(InvalidTransition, match=f"is {status}"):
        runtime.reconcile("op-1", "failed", actor="ops")
    assert runtime.dispatch("write", ALPHA, "op-1") == outcome


def test_not_executed_opens_the_id_for_one_more_attempt(ledger: Ledger) -> None:
    remote = Remote()
    runtime = open_operation(ledger, remote)
    runtime.reconcile("op-1", "not_executed", actor="ops")
    remote.answer = {"status": "succeeded"}
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded"}
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded"}
    assert remote.effects == ["alpha", "alpha"]
    assert kinds(runtime, "op-1") == [
        "dispatched",
        "settled",
        "reconciled",
        "dispatched",
        "settled",
    ]


@pytest.mark.parametrize(
    "outcome",
    [
        "unknown",
        "needs_reconcile",
        "in_flight",
        "",
        None,
        5,
        [],
        {},
        {"status": []},
        {"status": "succeeded", "x": math.nan},
        {"status": "succeeded", "x": {1}},
    ],
)
def test_outcomes_that_are_none_change_nothing(ledger: Ledger, outcome: Any) -> None:
    runtime = open_operation(ledger)
    before = runtime.operation("op-1")
    with pytest.raises(ValueError, match=r"outcome|JSON|NaN"):
        runtime.reconcile("op-1", outcome, actor="ops")
    assert runtime.operation("op-1") == before


def test_only_open_operations_can_be_reconciled() -> None:
    runtime = Remote().runtime()
    with pytest.raises(UnknownOperation):
        runtime.reconcile("op-1", "failed", actor="ops")
    runtime.dispatch("write", ALPHA, "op-1")
    with pytest.raises(InvalidTransition):
        runtime.reconcile("op-1", "failed", actor="ops")
    assert runtime.operations["op-1"]["status"] == "succeeded"


def look(answer: Any) -> Any:
    """A read-only look-up and the list of what it was asked."""
    asked: list[OpenOperation] = []

    def reconcile(operation: OpenOperation) -> Any:
        asked.append(operation)
        answered = answer(len(asked)) if callable(answer) else answer
        if isinstance(answered, BaseException):
            raise answered
        return answered

    return reconcile, asked


def looked_up(ledger: Ledger, answer: Any, **more: Any) -> tuple[ToolRuntime, list[OpenOperation]]:
    reconcile, asked = look(answer)

    def write(project: str, context: Any) -> dict[str, str]:
        context.note_remote_ref("remote-7")
        return {"status": "unknown"}

    tool = Tool(
        "write",
        WRITE_SCHEMA,
        1,
        write,
        reconcile=reconcile,
        injected=frozenset({"context"}),
    )
    runtime = ToolRuntime({"write": tool}, 1, ledger.open(), principal="ann", **more)
    runtime.dispatch("write", ALPHA, "op-1")
    return runtime, asked


def test_a_look_up_resolves_with_evidence(ledger: Ledger) -> None:
    runtime, asked = looked_up(
        ledger, {"status": "succeeded", "id": 7, "evidence": {"seen": "in the list"}}
    )
    [looked] = Reconciler(runtime).run()
    assert (looked.operation_id, looked.answer, looked.status.value) == (
        "op-1",
        "succeeded",
        "succeeded",
    )
    [operation] = asked
    assert (operation.remote_ref, operation.arguments) == ("remote-7", ALPHA)
    assert (operation.idempotency_key, operation.principal) == ("op-1", "ann")
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "id": 7}
    event = runtime.events("op-1")[-1]
    assert event.actor == "reconcile:write"
    assert event.data["evidence"] == {"seen": "in the list"}
    assert Reconciler(runtime).run() == []


@pytest.mark.parametrize(
    "answer",
    [{"status": "unknown"}, None, "succeeded", {}, {"status": "succeeded", "x": {1}}, OSError("x")],
)
def test_a_look_up_that_cannot_say_changes_nothing(ledger: Ledger, answer: Any) -> None:
    runtime, _ = looked_up(ledger, answer)
    [looked] = Reconciler(runtime).run()
    assert (looked.answer, looked.status.value) == ("unknown", "needs_reconcile")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"


def test_a_look_up_that_raises_is_repeated_with_backoff(ledger: Ledger) -> None:
    slept: list[float] = []
    answers = [OSError("a"), OSError("b"), {"status": "failed"}]
    runtime, asked = looked_up(ledger, lambda n: answers[n - 1])
    policy = RetryPolicy(attempts=3, initial=1.0, jitter=0.0)
    [looked] = Reconciler(runtime, policy, sleep=slept.append).run()
    assert (looked.answer, slept, len(asked)) == ("failed", [1.0, 2.0], 3)


def test_operations_without_a_look_up_wait_for_an_operator(ledger: Ledger) -> None:
    runtime = open_operation(ledger)
    reconciler = Reconciler(runtime)
    assert reconciler.run() == []
    assert reconciler.look("op-1") is None
    with pytest.raises(UnknownOperation):
        reconciler.look("op-2")


def test_a_resolution_by_somebody_else_meanwhile_stands(ledger: Ledger) -> None:
    box: dict[str, ToolRuntime] = {}

    def answer(_: int) -> dict[str, str]:
        box["runtime"].reconcile("op-1", {"status": "failed"}, actor="ops")
        return {"status": "succeeded"}

    box["runtime"], _ = looked_up(ledger, answer)
    [looked] = Reconciler(box["runtime"]).run()
    assert looked.status.value == "failed"


@pytest.mark.parametrize(
    "bad", [{"attempts": 0}, {"attempts": True}, {"initial": -1.0}, {"maximum": math.nan}]
)
def test_retry_policies_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        RetryPolicy(**bad)


def test_a_result_of_a_forgotten_id_does_not_end_the_heartbeat(ledger: Ledger) -> None:
    clock = SimClock()
    store = ledger.open(clock)
    attempts = Attempts(store, Observer(str, tracer=False), 30.0, heartbeat=False)
    late = store.claim(claim_for("op-late", owner=attempts.owner)).operation
    store.settle("op-late", attempts.owner, 1, outcome(OperationStatus.NEEDS_RECONCILE))
    store.resolve("op-late", outcome(OperationStatus.FAILED), "ops", {})
    clock.time += 1.0
    assert store.forget(clock.time) == 1
    with pytest.raises(UnknownOperation):
        attempts.settle(late, outcome(OperationStatus.SUCCEEDED))
    attempts.start(store.claim(claim_for("op-live", owner=attempts.owner)).operation, steady())
    clock.time += 20.0
    attempts.heartbeat()
    assert store.get("op-live").lease_until == clock.time + 30.0
    attempts.close()


def test_an_error_in_a_heartbeat_does_not_end_the_heartbeats() -> None:
    class Broken:
        def heartbeat(self, *_: object) -> None:
            raise OSError("disk")

    attempts = Attempts(Broken(), Observer(str, tracer=False), 30.0, heartbeat=False)
    attempts.start(MemoryOperationStore().claim(claim_for()).operation, steady())
    attempts.heartbeat()


def many_open(ledger: Ledger) -> tuple[ToolRuntime, list[str]]:
    """Five open operations; the look-up knows about the last one only."""
    asked: list[str] = []

    def reconcile(operation: OpenOperation) -> dict[str, str]:
        asked.append(operation.operation_id)
        return {"status": "succeeded" if operation.operation_id == "op-5" else "unknown"}

    remote = Remote(answer={"status": "unknown"})
    runtime = remote.runtime(ledger.open(), tool={"reconcile": reconcile})
    for number in range(1, 6):
        runtime.dispatch("write", ALPHA, f"op-{number}")
    return runtime, asked


def test_a_limit_goes_on_where_the_run_before_ended(ledger: Ledger) -> None:
    runtime, asked = many_open(ledger)
    reconciler = Reconciler(runtime)
    assert [len(reconciler.run(limit=2)) for _ in range(3)] == [2, 2, 1]
    assert asked == ["op-1", "op-2", "op-3", "op-4", "op-5"]
    assert runtime.operations["op-5"]["status"] == "succeeded"
    assert [looked.operation_id for looked in reconciler.run(limit=3)] == ["op-1", "op-2", "op-3"]
    restarted = Reconciler(runtime, after=reconciler.after)
    assert [looked.operation_id for looked in restarted.run(limit=3)] == ["op-4"]
    assert restarted.after == ""


def test_no_limit_looks_at_all(ledger: Ledger) -> None:
    runtime, _ = many_open(ledger)
    assert len(Reconciler(runtime, after="op-4").run()) == 5
    for bad in (0, True, 1.0):
        with pytest.raises(ValueError, match="limit"):
            Reconciler(runtime).run(limit=bad)  # type: ignore[arg-type]


# --- looks that come too early --------------------------------------------------------------------


def test_a_look_from_before_the_effect_does_not_open_the_id(ledger: Ledger) -> None:
    """The tool acts and fails between the look, which saw nothing, and what the look would say."""
    gate, remote = Gate(), Remote(answer=OSError("the line broke"))
    remote.before = gate

    def look(operation: OpenOperation) -> dict[str, Any]:
        seen = len(remote.effects)
        gate.open()
        until(lambda: kinds(runtime, "op-1")[-1] == "tool_ended")
        return {"status": "succeeded" if seen else "not_executed"}

    more: dict[str, Any] = {"limits": Limits(timeout_ms=5), "reconcile": look}
    runtime = remote.runtime(ledger.open(), tool=more)
    runtime.dispatch("write", ALPHA, "op-1")
    [looked] = Reconciler(runtime).run()
    assert (looked.answer, looked.error) == ("not_executed", "StillRunning")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"
    [looked] = Reconciler(runtime).run()  # a look after its end sees the effect
    assert looked.status is OperationStatus.SUCCEEDED
    assert remote.effects == ["alpha"]


def test_a_look_at_one_attempt_says_nothing_about_the_next(ledger: Ledger) -> None:
    remote = Remote(answer=lambda number: {"status": "unknown"})
    runtime = remote.runtime(ledger.open(), tool={"reconcile": lambda operation: look(operation)})

    def look(operation: OpenOperation) -> dict[str, Any]:
        if operation.attempt == 1 and remote.effects == ["alpha"]:
            runtime.reconcile("op-1", "not_executed", attempt=1)  # an operator is faster
            runtime.dispatch("write", ALPHA, "op-1")
        return {"status": "not_executed"}

    runtime.dispatch("write", ALPHA, "op-1")
    [looked] = Reconciler(runtime).run()
    assert looked.status is OperationStatus.NEEDS_RECONCILE
    row = runtime.operation("op-1")
    assert row is not None
    assert (row.status, row.attempt) == (OperationStatus.NEEDS_RECONCILE, 2)
    with pytest.raises(InvalidTransition):
        runtime.reconcile("op-1", "not_executed", attempt=1)
