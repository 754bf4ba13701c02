"""Row "runtime" of the validation matrix: lost answers, unknown effects, a ledger that fails."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Remote, in_thread, kinds, until
from gnomon.agent import (
    Limits,
    MemoryOperationStore,
    OperationStatus,
    ReentrantDispatch,
    StoreClosed,
    StoreUnavailable,
    Tool,
    ToolRuntime,
)
from gnomon.agent.testing import FaultyStore
from ledgers import Ledger

OPEN = OperationStatus.NEEDS_RECONCILE


# --- the matrix -----------------------------------------------------------------------------------


def test_response_lost_after_success(ledger: Ledger) -> None:
    """It acted, then its answer was lost: the exception is raised, the effect not repeated."""
    remote = Remote(answer=TimeoutError("response was lost"))
    runtime = remote.runtime(ledger.open())
    with pytest.raises(TimeoutError, match=r"^response was lost$"):
        runtime.dispatch("write", ALPHA, "op-1")
    again = runtime.dispatch("write", ALPHA, "op-1")
    assert (again["status"], again["operation_id"]) == ("needs_reconcile", "op-1")
    assert remote.effects == ["alpha"]
    assert kinds(runtime, "op-1") == ["dispatched", "settled"]


def test_unknown_side_effect(ledger: Ledger) -> None:
    remote = Remote(answer={"status": "unknown", "remote": "r-7"})
    runtime = remote.runtime(ledger.open())
    first = runtime.dispatch("write", ALPHA, "op-1")
    second = runtime.dispatch("write", ALPHA, "op-1")
    assert first == second
    assert first == {"status": "needs_reconcile", "operation_id": "op-1", "reason": "unknown"}
    assert remote.effects == ["alpha"]
    assert runtime.operations["op-1"]["result"] == {"status": "unknown", "remote": "r-7"}


def test_cancel_against_completion() -> None:
    """Each interleaving has its own test in test_cancel.py; this one is the race itself."""
    for turn in range(30):
        remote = Remote()
        runtime = remote.runtime()
        end = in_thread(lambda runtime=runtime: runtime.dispatch("write", ALPHA, "op-1"))
        if turn % 2:
            until(lambda remote=remote: remote.effects, 1)
        said = runtime.cancel("op-1")
        answer = end()
        row = runtime.operation("op-1")
        assert row is not None
        assert row.status.value == answer["status"]
        if said["status"] == "cancelled":
            assert (remote.effects, answer["status"]) == ([], "cancelled")
        elif remote.effects:
            assert answer["status"] == "succeeded"
        else:
            assert answer["status"] == "cancelled"
        runtime.close()


# --- exceptions that are no Exception, re-entrancy, closing ---------------------------------------


class Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), Stop()])
def test_c2_base_exceptions_settle_and_go_on(ledger: Ledger, error: BaseException) -> None:
    remote = Remote(answer=error)
    runtime = remote.runtime(ledger.open())
    with pytest.raises(type(error)):
        runtime.dispatch("write", ALPHA, "op-1")
    row = runtime.operation("op-1")
    assert row is not None
    assert (row.status, row.reason) == (OPEN, "interrupted")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"
    assert remote.effects == ["alpha"]


def test_a_stop_iteration_of_the_tool_is_an_exception_like_others() -> None:
    runtime = Remote(answer=StopIteration("done")).runtime()
    with pytest.raises((StopIteration, RuntimeError)):
        runtime.dispatch("write", ALPHA, "op-1")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"


def test_a_tool_may_not_dispatch_its_own_operation() -> None:
    box: dict[str, ToolRuntime] = {}
    remote = Remote(after=lambda: box["runtime"].dispatch("write", ALPHA, "op-1"))
    for limits in (Limits(), Limits(timeout_ms=5_000)):
        remote.effects.clear()
        runtime = box["runtime"] = remote.runtime(tool={"limits": limits})
        with pytest.raises(ReentrantDispatch):
            runtime.dispatch("write", ALPHA, "op-1")
        assert remote.effects == ["alpha"]
        assert runtime.operations["op-1"]["status"] == "needs_reconcile"


def test_a_tool_may_dispatch_another_operation() -> None:
    inner = Remote().runtime()

    def outer(project: str) -> dict[str, Any]:
        return inner.dispatch("write", {"project": project}, "op-inner")

    runtime = ToolRuntime({"outer": Tool("outer", WRITE_SCHEMA, 1, outer)}, max_risk=1)
    assert runtime.dispatch("outer", ALPHA, "op-1") == {"status": "succeeded", "number": 1}


def test_a_closed_runtime_refuses_and_its_thread_ends() -> None:
    runtime = Remote().runtime()
    runtime.dispatch("write", ALPHA, "op-1")
    assert any(thread.name == "gnomon-lease" for thread in threading.enumerate())
    runtime.close()
    runtime.close()
    with pytest.raises(StoreClosed):
        runtime.dispatch("write", ALPHA, "op-2")


# --- the ledger fails -----------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before", "after"])
def test_no_tool_starts_after_a_claim_of_unknown_outcome(moment: Any) -> None:
    store, remote = FaultyStore(MemoryOperationStore()), Remote()
    store.fail("claim", moment)
    runtime = remote.runtime(store)
    with pytest.raises(StoreUnavailable):
        runtime.dispatch("write", ALPHA, "op-1")
    assert remote.effects == []
    store.heal()
    status = runtime.dispatch("write", ALPHA, "op-1")["status"]
    assert status == ("succeeded" if moment == "before" else "needs_reconcile")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_result_that_cannot_be_recorded_is_kept_and_offered_again(moment: Any) -> None:
    store, remote = FaultyStore(MemoryOperationStore()), Remote()
    runtime = remote.runtime(store, heartbeat=False)
    store.fail("settle", moment)
    first = runtime.dispatch("write", ALPHA, "op-1")
    assert (first["status"], first["reason"]) == ("needs_reconcile", "not_recorded")
    runtime.heartbeat()
    store.heal()
    runtime.heartbeat()
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "number": 1}
    assert kinds(runtime, "op-1") == ["dispatched", "settled"]
    assert remote.effects == ["alpha"]


def test_an_interrupted_settlement_is_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store, remote = MemoryOperationStore(), Remote()
    runtime = remote.runtime(store, heartbeat=False)
    settle = store.settle

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runtime.dispatch("write", ALPHA, "op-1")
    monkeypatch.setattr(store, "settle", settle)
    assert runtime.dispatch("write", ALPHA, "op-1")["reason"] == "in_flight"
    runtime.heartbeat()
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    assert remote.effects == ["alpha"]


@pytest.mark.parametrize("point", ["after_claim", "before_call"])
def test_an_interrupt_between_claim_and_call_proves_that_nothing_ran(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    remote = Remote()
    runtime = remote.runtime(ledger.open())

    def hook(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    monkeypatch.setattr("gnomon.agent.operations.crash_hook", hook)
    with pytest.raises(KeyboardInterrupt):
        runtime.dispatch("write", ALPHA, "op-1")
    monkeypatch.undo()
    row = runtime.operation("op-1")
    assert row is not None
    assert (row.status.value, row.reason) == ("not_executed", "interrupted_before_call")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    assert remote.effects == ["alpha"]
