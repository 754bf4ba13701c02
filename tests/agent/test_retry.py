"""Attempts that proved not to have executed, and the only retries there are."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from agent_tools import ALPHA, WRITE_SCHEMA, Remote, kinds
from gnomon.agent import (
    NotExecuted,
    OperationStatus,
    RetryPolicy,
    Tool,
    ToolRuntime,
)
from ledgers import Ledger

OPEN = OperationStatus.NEEDS_RECONCILE


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
