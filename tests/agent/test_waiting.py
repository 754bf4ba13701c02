"""Timeouts and places: how long a caller waits for a tool, and for its turn."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Gate, Remote, in_thread, kinds, until
from gnomon.agent import (
    ConcurrencyLimit,
    Limits,
    OperationStatus,
    Tool,
    ToolRuntime,
)
from ledgers import Ledger

OPEN = OperationStatus.NEEDS_RECONCILE


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
