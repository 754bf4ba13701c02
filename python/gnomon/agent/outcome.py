"""From what a tool did to what the ledger records and the caller gets: one pure function per
direction.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from .contract import Tool
from .effects import NotStarted, Raised, Ran, Returned
from .errors import InvalidToolResult, NotExecuted
from .jsonvalue import Bounds, canonicalize, digest
from .records import Operation, OperationStatus, Settlement

_S = OperationStatus
#: What a result may hold before max_result_bytes is looked at; beyond it, it is no result.
RESULT_BOUNDS = Bounds(max_bytes=1 << 30, max_items=10_000_000)
#: What a tool may say. "needs_reconcile" comes from tools that dispatch on a runtime of their own.
TOOL_STATUSES = {
    "succeeded": _S.SUCCEEDED,
    "failed": _S.FAILED,
    "unknown": _S.NEEDS_RECONCILE,
    "needs_reconcile": _S.NEEDS_RECONCILE,
    "not_executed": _S.NOT_EXECUTED,
}


class Outcome(NamedTuple):
    """One attempt's outcome: what to record, what to answer, what to raise afterwards."""

    settlement: Settlement
    answer: dict[str, Any]
    error: BaseException | None = None
    retry_after: float | None = None

    @property
    def status(self) -> OperationStatus:
        """State that the ledger is asked to record."""
        return self.settlement.status


def open_outcome(operation_id: str, reason: str, error: BaseException | None = None) -> Outcome:
    """An attempt of which nobody knows whether it acted."""
    error_class = _class_name(type(error)) if error is not None else ""
    return Outcome(
        Settlement(_S.NEEDS_RECONCILE, reason=reason, error_class=error_class),
        {"status": "needs_reconcile", "operation_id": operation_id, "reason": reason},
        error,
    )


def cancelled_outcome(operation_id: str) -> Outcome:
    """An attempt that was cancelled after its claim and before its call."""
    return Outcome(
        Settlement(_S.CANCELLED, reason="cancelled_before_call"),
        {"status": "cancelled", "operation_id": operation_id},
    )


def interrupted_before_call(operation_id: str, error: BaseException) -> Outcome:
    """An attempt that ended between its claim and its call; the same id may be dispatched again."""
    outcome = _not_executed(operation_id, True, None, type(error))
    settlement = replace(outcome.settlement, reason="interrupted_before_call")
    return Outcome(settlement, outcome.answer, error)


def outcome_of(
    tool: Tool, ran: Ran, operation_id: str, hide: Callable[[Any], Any] | None = None
) -> Outcome:
    """The outcome of one attempt, by the tool's contract.

    ``hide`` takes secrets out of a result before it is stored and answered, where the ledger is to
    hold none.
    """
    if isinstance(ran, NotStarted):
        if ran.error is None:
            return _not_executed(operation_id, True, None, None)
        return interrupted_before_call(operation_id, ran.error)
    if isinstance(ran, Raised):
        error = ran.error
        if isinstance(error, NotExecuted) and not ran.abandoned:
            return _not_executed(operation_id, error.retryable, error.retry_after, type(error))
        why = "exception" if isinstance(error, Exception) else "interrupted"
        return open_outcome(operation_id, why, error)
    if not isinstance(ran, Returned):
        return open_outcome(operation_id, "timeout")
    try:
        plain, canonical = _parsed(tool, ran.value)
    except ValueError as error:
        return open_outcome(operation_id, "invalid_result", error)
    status = TOOL_STATUSES[plain["status"]]
    if status is _S.NOT_EXECUTED:
        try:
            said = NotExecuted(
                retryable=plain.get("retryable", False), retry_after=plain.get("retry_after")
            )
        except (TypeError, ValueError) as error:
            wrong = InvalidToolResult(f"tool returned an invalid result: {error}")
            return open_outcome(operation_id, "invalid_result", wrong)
        return _not_executed(operation_id, said.retryable, said.retry_after, None)
    full = (digest(canonical), len(canonical))
    if hide is not None:
        plain, canonical = canonicalize(hide(plain), RESULT_BOUNDS)
    plain, canonical, cut = _fit(tool, plain, canonical)
    if status is _S.NEEDS_RECONCILE:
        settlement = Settlement(status, canonical, *full, result_truncated=cut, reason="unknown")
        return Outcome(settlement, open_outcome(operation_id, "unknown").answer)
    too_large = cut and plain.get("reason") == "result_too_large"
    settlement = Settlement(
        TOOL_STATUSES[plain["status"]],
        canonical,
        *full,
        result_truncated=cut,
        reason="result_too_large" if too_large else "",
    )
    return Outcome(settlement, json.loads(canonical))  # as every replay reads it, to the letter


def _parsed(tool: Tool, value: Any) -> tuple[dict[str, Any], bytes]:
    if inspect.iscoroutine(value):
        value.close()
    if not isinstance(value, dict):
        raise InvalidToolResult("tool returned an invalid status")
    status = value.get("status")
    if not isinstance(status, str) or status not in TOOL_STATUSES:
        raise InvalidToolResult("tool returned an invalid status")
    try:
        plain, canonical = canonicalize(value, RESULT_BOUNDS)
        tool.contract.check_result(plain)
    except ValueError as error:
        raise InvalidToolResult(f"tool returned an invalid result: {error}") from None
    return plain, canonical


def _fit(tool: Tool, plain: dict[str, Any], canonical: bytes) -> tuple[dict[str, Any], bytes, bool]:
    """The result within the contract's max_result_bytes: as it is, cut, or refused."""
    limit = tool.limits.max_result_bytes
    if limit is None or len(canonical) <= limit:
        return plain, canonical, False
    short: dict[str, Any] = {
        "status": plain["status"],
        "result_truncated": True,
        "result_bytes": len(canonical),
        "result_digest": digest(canonical),
    }
    if tool.on_large == "truncate":
        short["preview"] = ""
        room = limit - len(canonicalize(short).data)
        short["preview"] = _preview(canonical, room)
    elif plain["status"] in ("succeeded", "failed"):
        # The effect is known and terminal; only its result was refused, and the answer says both.
        short.update(status="failed", reason="result_too_large", tool_status=plain["status"])
    return *canonicalize(short, RESULT_BOUNDS), True


def _preview(canonical: bytes, room: int) -> str:
    """The longest head of the JSON text that takes at most ``room`` bytes as a JSON string."""
    text = canonical[: max(room, 0)].decode(errors="ignore")
    while text and len(json.dumps(text, ensure_ascii=False).encode()) - 2 > room:
        over = len(json.dumps(text, ensure_ascii=False).encode()) - 2 - room
        text = text[: -max(1, over // 6)]
    return text


def _class_name(kind: type) -> str:
    """The name of an exception class as every ledger can hold it; a class may be named anything."""
    return "".join(c if c.isprintable() else "?" for c in kind.__qualname__[:200])


def _not_executed(
    operation_id: str, retryable: bool, retry_after: float | None, error: type | None
) -> Outcome:
    answer = {"operation_id": operation_id, "reason": "not_executed", "retryable": retryable}
    error_class = _class_name(error) if error else ""
    if retryable:
        settlement = Settlement(_S.NOT_EXECUTED, reason="not_executed", error_class=error_class)
        return Outcome(settlement, {"status": "not_executed", **answer}, retry_after=retry_after)
    answer = {"status": "failed", **answer}
    stored = json.dumps(answer, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    settlement = Settlement(
        _S.FAILED,
        stored,
        digest(stored),
        len(stored),
        reason="not_executed",
        error_class=error_class,
    )
    return Outcome(settlement, answer)


def recorded_answer(row: Operation, now: float = 0.0) -> dict[str, Any]:
    """What a dispatch answers for a row that it did not change. Always a fresh copy.

    ``now`` is the ledger's time; it only counts for a row in flight.
    """
    status = row.status
    if status in (_S.SUCCEEDED, _S.FAILED) and row.result_json is not None:
        answer: dict[str, Any] = json.loads(row.result_json)
        return answer
    answer = {"status": status.value, "operation_id": row.operation_id}
    if status is _S.IN_FLIGHT:
        lease_over = row.lease_until is not None and row.lease_until < now
        answer.update(status="needs_reconcile", reason="owner_lost" if lease_over else "in_flight")
    elif status is _S.NEEDS_RECONCILE:
        answer["reason"] = row.reason or "unknown"
    elif status is _S.NOT_EXECUTED:
        answer.update(reason="not_executed", retryable=True)
    elif status in (_S.AWAITING_APPROVAL, _S.APPROVED, _S.DENIED, _S.EXPIRED):
        answer["approval_id"] = row.approval_id
    elif status in (_S.SUCCEEDED, _S.FAILED):
        answer["reason"] = "result_purged" if row.result_digest else "no_result"
    return answer
