"""What a tool may return, and what becomes of a result that is none, or too large."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from agent_tools import ALPHA, Remote
from gnomon.agent import (
    InvalidToolResult,
    Limits,
    OperationStatus,
)
from ledgers import Ledger

OPEN = OperationStatus.NEEDS_RECONCILE


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
