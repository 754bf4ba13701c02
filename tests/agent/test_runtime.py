"""Row "runtime" of the validation matrix: lost answers, unknown effects, what tools return."""

from __future__ import annotations

import math
import threading
from contextlib import suppress
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote, in_thread, kinds, until
from gnomon.agent import (
    ConcurrencyLimit,
    InvalidToolResult,
    Limits,
    MemoryOperationStore,
    NotExecuted,
    OperationStatus,
    ReentrantDispatch,
    RetryPolicy,
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


# --- what a tool may return -----------------------------------------------------------------------


class Odd:
    pass


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "succeeded",
        [],
        {},
        {"status": None},
        {"status": []},
        {"status": {}},
        {"status": "ok"},
        {"status": True},
        {"status": "SUCCEEDED"},
        {"status": "in_flight"},
        {"status": "succeeded", "x": math.nan},
        {"status": "succeeded", "x": math.inf},
        {"status": "succeeded", "x": {1, 2}},
        {"status": "succeeded", "x": threading.Lock()},
        {"status": "succeeded", "x": Odd()},
        {"status": "succeeded", "x": b"bytes"},
        {"status": "succeeded", "x": 10**400},
        {"status": "succeeded", "x": "\ud800"},
        {"status": "succeeded", 1: "x"},
    ],
    ids=repr,
)
def test_an_invalid_result_needs_reconciliation_and_raises(answer: Any) -> None:
    remote = Remote(answer=answer)
    runtime = remote.runtime()
    with pytest.raises(InvalidToolResult, match=r"^tool returned an invalid (status|result)"):
        runtime.dispatch("write", ALPHA, "op-1")
    again = runtime.dispatch("write", ALPHA, "op-1")
    assert again["status"] == "needs_reconcile"
    assert again["reason"] == "invalid_result"
    assert remote.effects == ["alpha"]


def test_a_result_that_holds_itself_or_is_too_deep() -> None:
    loop: dict[str, Any] = {"status": "succeeded"}
    loop["self"] = loop
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    for answer in (loop, {"status": "succeeded", "x": deep}):
        runtime = Remote(answer=answer).runtime()
        with pytest.raises(InvalidToolResult, match="nested deeper"):
            runtime.dispatch("write", ALPHA, "op-1")
        assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"


def test_a_coroutine_is_no_result_and_leaves_no_warning() -> None:
    async def later() -> dict[str, str]:
        return {"status": "succeeded"}

    runtime = Remote(answer=lambda _: later()).runtime()
    with pytest.raises(InvalidToolResult):
        runtime.dispatch("write", ALPHA, "op-1")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"


def test_a_nested_runtimes_needs_reconcile_is_unknown() -> None:
    runtime = Remote(answer={"status": "needs_reconcile", "operation_id": "inner"}).runtime()
    assert runtime.dispatch("write", ALPHA, "op-1")["operation_id"] == "op-1"
    assert runtime.operations["op-1"]["status"] == "needs_reconcile"


def test_results_are_copies_for_everybody(ledger: Ledger) -> None:
    kept = {"status": "succeeded", "items": [1]}
    runtime = Remote(answer=kept).runtime(ledger.open())
    first = runtime.dispatch("write", ALPHA, "op-1")
    kept["items"].append(2)
    first["items"].append(3)
    second = runtime.dispatch("write", ALPHA, "op-1")
    second["items"].append(4)
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "items": [1]}


def test_an_output_schema_is_checked_after_the_effect() -> None:
    output = {
        "type": "object",
        "properties": {"status": {"type": "string"}, "number": {"type": "integer"}},
        "required": ["number"],
    }
    good = Remote().runtime(tool={"output_schema": output})
    assert good.dispatch("write", ALPHA, "op-1")["number"] == 1
    bad = Remote(answer={"status": "succeeded", "number": "1"})
    runtime = bad.runtime(tool={"output_schema": output})
    with pytest.raises(InvalidToolResult):
        runtime.dispatch("write", ALPHA, "op-1")
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"
    assert bad.effects == ["alpha"]


# --- large results --------------------------------------------------------------------------------


def test_a_large_result_is_failed_by_default_and_says_what_happened(ledger: Ledger) -> None:
    remote = Remote(answer={"status": "succeeded", "blob": "x" * 5_000})
    runtime = remote.runtime(ledger.open(), tool={"limits": Limits(max_result_bytes=1_000)})
    first = runtime.dispatch("write", ALPHA, "op-1")
    assert first["status"] == "failed"
    assert first["reason"] == "result_too_large"
    assert first["tool_status"] == "succeeded"
    assert first["result_bytes"] == len('{"blob":"","status":"succeeded"}') + 5_000
    assert runtime.dispatch("write", ALPHA, "op-1") == first
    assert remote.effects == ["alpha"]
    row = runtime.operation("op-1")
    assert row is not None
    assert (row.result_truncated, row.reason) == (True, "result_too_large")


@pytest.mark.parametrize("text", ["x", "ä", '"', "\\", "\n", "漢", "\U0001f600"])
def test_a_large_result_is_cut_where_the_tool_says_so(text: str) -> None:
    remote = Remote(answer={"status": "failed", "blob": text * 3_000})
    limits = Limits(max_result_bytes=800)
    runtime = remote.runtime(tool={"limits": limits, "on_large": "truncate"})
    first = runtime.dispatch("write", ALPHA, "op-1")
    row = runtime.operation("op-1")
    assert row is not None
    assert row.result_json is not None
    assert first["status"] == "failed"
    assert first["result_truncated"] is True
    assert 700 < len(row.result_json) <= 800
    assert first["preview"].startswith('{"blob":"')
    assert runtime.dispatch("write", ALPHA, "op-1") == first


def test_a_result_of_exactly_the_limit_is_whole() -> None:
    answer = {"status": "succeeded", "blob": "x" * 10}
    size = len('{"blob":"xxxxxxxxxx","status":"succeeded"}')
    runtime = Remote(answer=answer).runtime(tool={"limits": Limits(max_result_bytes=size)})
    assert runtime.dispatch("write", ALPHA, "op-1") == answer


def test_a_large_unknown_result_stays_unknown() -> None:
    answer = {"status": "unknown", "blob": "x" * 5_000}
    runtime = Remote(answer=answer).runtime(tool={"limits": Limits(max_result_bytes=500)})
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "needs_reconcile"


# --- timeouts -------------------------------------------------------------------------------------


def test_timeout_needs_reconciliation_and_a_late_result_still_settles(ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(after=gate)
    runtime = remote.runtime(ledger.open(), tool={"limits": Limits(timeout_ms=30)})
    first = runtime.dispatch("write", ALPHA, "op-1")
    assert first == {"status": "needs_reconcile", "operation_id": "op-1", "reason": "timeout"}
    assert runtime.dispatch("write", ALPHA, "op-1") == first
    gate.open()
    until(lambda: runtime.operations["op-1"]["status"] == "succeeded")
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "number": 1}
    assert remote.effects == ["alpha"]
    assert kinds(runtime, "op-1") == ["dispatched", "settled", "settled"]


def test_a_late_exception_leaves_the_operation_open() -> None:
    gate = Gate()
    remote = Remote(after=gate, answer=OSError("gone"))
    runtime = remote.runtime(tool={"limits": Limits(timeout_ms=20), "max_concurrency": 1})
    runtime.dispatch("write", ALPHA, "op-1")
    gate.open()
    slots = runtime.slots
    until(lambda: slots.enter("write", 1))
    assert runtime.operations["op-1"]["status"] == "needs_reconcile"


def test_a_late_result_that_contradicts_the_resolution_changes_nothing(ledger: Ledger) -> None:
    gate = Gate()
    remote = Remote(after=gate)
    runtime = remote.runtime(ledger.open(), tool={"limits": Limits(timeout_ms=30)})
    runtime.dispatch("write", ALPHA, "op-1")
    runtime.reconcile("op-1", {"status": "failed", "why": "looked"}, actor="ops")
    gate.open()
    until(lambda: kinds(runtime, "op-1")[-1] == "late_result_conflict")
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "failed", "why": "looked"}


def test_within_the_timeout_nothing_changes() -> None:
    remote = Remote()
    runtime = remote.runtime(tool={"limits": Limits(timeout_ms=5_000)})
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    remote.answer = ValueError("no")
    with pytest.raises(ValueError, match=r"^no$"):
        runtime.dispatch("write", ALPHA, "op-2")
    assert remote.effects == ["alpha", "alpha"]


def test_no_thread_left_proves_that_nothing_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    remote = Remote()
    runtime = remote.runtime(tool={"limits": Limits(timeout_ms=5_000)})

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    answer = runtime.dispatch("write", ALPHA, "op-1")
    assert (answer["status"], remote.effects) == ("not_executed", [])
    monkeypatch.undo()
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    assert remote.effects == ["alpha"]


# --- proved not executed, retries -----------------------------------------------------------------


def flaky(times: int) -> Any:
    """Proves ``times`` times that it did not act, then acts."""
    calls: list[int] = []

    def write(project: str) -> dict[str, Any]:
        calls.append(1)
        if len(calls) <= times:
            raise NotExecuted("connection refused")
        return {"status": "succeeded", "calls": len(calls)}

    return write, calls


def test_retry_under_the_same_id_until_it_executes(ledger: Ledger) -> None:
    write, calls = flaky(2)
    policy = RetryPolicy(attempts=3, initial=0.0, jitter=0.0)
    runtime = ToolRuntime(
        {"write": Tool("write", WRITE_SCHEMA, 1, write)}, 1, ledger.open(), retry=policy
    )
    done = runtime.dispatch_detail("write", ALPHA, "op-1")
    assert done.result == {"status": "succeeded", "calls": 3}
    assert done.attempts == len(calls) == 3
    assert kinds(runtime, "op-1") == ["dispatched", "settled"] * 3


def test_without_a_policy_nothing_is_retried_but_a_later_dispatch_may() -> None:
    write, calls = flaky(1)
    runtime = ToolRuntime({"write": Tool("write", WRITE_SCHEMA, 1, write)}, max_risk=1)
    first = runtime.dispatch("write", ALPHA, "op-1")
    assert first == {
        "status": "not_executed",
        "operation_id": "op-1",
        "reason": "not_executed",
        "retryable": True,
    }
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "calls": 2}
    assert runtime.dispatch("write", ALPHA, "op-1") == {"status": "succeeded", "calls": 2}
    assert len(calls) == 2


def test_not_executed_and_not_retryable_is_failed(ledger: Ledger) -> None:
    def write(project: str) -> dict[str, Any]:
        raise NotExecuted("no such project", retryable=False)

    policy = RetryPolicy(attempts=5, initial=0.0)
    tools = {"write": Tool("write", WRITE_SCHEMA, 1, write)}
    runtime = ToolRuntime(tools, 1, ledger.open(), retry=policy)
    first = runtime.dispatch("write", ALPHA, "op-1")
    assert first["status"] == "failed"
    assert runtime.dispatch("write", ALPHA, "op-1") == first
    assert kinds(runtime, "op-1") == ["dispatched", "settled"]


def test_a_result_can_say_not_executed_too() -> None:
    answers = iter([{"status": "not_executed", "retryable": True}, {"status": "succeeded"}])
    runtime = Remote(answer=lambda _: next(answers)).runtime()
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "not_executed"
    assert runtime.dispatch("write", ALPHA, "op-1")["status"] == "succeeded"
    final = Remote(answer={"status": "not_executed"}).runtime()
    assert final.dispatch("write", ALPHA, "op-1")["status"] == "failed"


@pytest.mark.parametrize("answer", [{"status": "unknown"}, {"status": "failed"}, OSError("x")])
def test_no_other_outcome_is_ever_retried(answer: Any) -> None:
    remote = Remote(answer=answer)
    runtime = remote.runtime(retry=RetryPolicy(attempts=9, initial=0.0))
    for _ in range(3):
        with suppress(OSError):
            runtime.dispatch("write", ALPHA, "op-1")
    assert remote.effects == ["alpha"]


def test_backoff_is_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("gnomon.agent.runtime.time.sleep", slept.append)

    def write(project: str) -> dict[str, Any]:
        raise NotExecuted("busy", retry_after=0.7 if len(slept) == 2 else None)

    policy = RetryPolicy(attempts=5, initial=0.1, maximum=0.5, jitter=0.04, uniform=lambda a, b: b)
    tools = {"write": Tool("write", WRITE_SCHEMA, 1, write)}
    answer = ToolRuntime(tools, 1, retry=policy).dispatch("write", ALPHA, "op-1")
    assert answer["status"] == "not_executed"
    assert slept == [0.1 + 0.04, 0.2 + 0.04, 0.5, 0.5]


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


# --- concurrency ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["tool", "overall"])
def test_concurrency_limits_make_others_wait_before_their_claim(where: str) -> None:
    gate = Gate()
    remote = Remote(before=gate)
    if where == "tool":
        runtime = remote.runtime(tool={"max_concurrency": 1})
    else:
        runtime = remote.runtime(max_concurrency=1)
    first = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    second = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-2"))
    until(lambda: runtime.slots._line)
    assert "op-2" not in runtime.operations
    gate.open()
    assert first()["status"] == second()["status"] == "succeeded"


def test_waiting_for_a_place_ends_and_claims_nothing() -> None:
    gate = Gate()
    remote = Remote(before=gate)
    runtime = remote.runtime(max_concurrency=1, slot_seconds=0.02)
    first = in_thread(lambda: runtime.dispatch("write", ALPHA, "op-1"))
    gate.wait_inside()
    with pytest.raises(ConcurrencyLimit, match="max_concurrency"):
        runtime.dispatch("write", ALPHA, "op-2")
    assert "op-2" not in runtime.operations
    gate.open()
    first()
    assert runtime.dispatch("write", ALPHA, "op-2")["status"] == "succeeded"


def test_a_nested_dispatch_never_waits_for_its_own_place() -> None:
    box: dict[str, ToolRuntime] = {}

    def outer(project: str) -> dict[str, Any]:
        return box["runtime"].dispatch("outer", {"project": "inner"}, "op-inner")

    tools = {"outer": Tool("outer", WRITE_SCHEMA, 1, outer)}
    box["runtime"] = runtime = ToolRuntime(tools, max_risk=1, max_concurrency=1)
    with pytest.raises(ConcurrencyLimit):
        runtime.dispatch("outer", ALPHA, "op-1")
    assert "op-inner" not in runtime.operations


def test_an_abandoned_tool_keeps_its_place_until_it_ends() -> None:
    gate = Gate()
    remote = Remote(before=gate)
    tool = {"limits": Limits(timeout_ms=20), "max_concurrency": 1}
    runtime = remote.runtime(tool=tool, slot_seconds=0.01)
    assert runtime.dispatch("write", ALPHA, "op-1")["reason"] == "timeout"
    with pytest.raises(ConcurrencyLimit):
        runtime.dispatch("write", ALPHA, "op-2")
    gate.open()
    runtime2 = until(lambda: runtime.slots.enter("write", 1))
    runtime2.release()
    remote.before = None
    assert runtime.dispatch("write", ALPHA, "op-2")["status"] == "succeeded"


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
