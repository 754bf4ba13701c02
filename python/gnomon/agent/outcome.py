"""From what a tool did to what the ledger records and the caller gets: one pure function per
direction.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from .contract import Tool
from .effects import Raised, Ran, Returned
from .errors import InvalidToolResult, NotExecuted
from .jsonvalue import digest
from .records import Operation, OperationStatus, Settlement

_S = OperationStatus
#: What a tool may say. "needs_reconcile" comes from tools that dispatch on a runtime of their own.
TOOL_STATUSES = {
    "succeeded": _S.SUCCEEDED,
    "failed": _S.FAILED,
    "unknown": _S.NEEDS_RECONCILE,
    "needs_reconcile": _S.NEEDS_RECONCILE,
    "not_executed": _S.NOT_EXECUTED,
}


@dataclass(frozen=True)
class Outcome:
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
    error_class = type(error).__qualname__ if error is not None else ""
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


@dataclass(frozen=True)
class Classifier:
    """Reads what a tool did, by its contract.

    ``parse`` turns a result into plain JSON and its canonical bytes, or raises ValueError;
    ``check`` validates a result against the contract's output schema, or raises ValueError;
    ``hide`` takes secrets out of a plain result where the runtime stores no values, else returns
    it as it is.
    """

    tool: Tool
    parse: Callable[[Any], tuple[Any, bytes]]
    check: Callable[[Any], None]
    hide: Callable[[Any], Any]

    def outcome(self, ran: Ran, operation_id: str) -> Outcome:
        """The outcome of one attempt."""
        if isinstance(ran, Raised):
            if isinstance(ran.error, NotExecuted):
                return _not_executed(
                    operation_id, ran.error.retryable, ran.error.retry_after, type(ran.error)
                )
            expected = isinstance(ran.error, Exception)
            return open_outcome(operation_id, "exception" if expected else "interrupted", ran.error)
        if not isinstance(ran, Returned):
            return open_outcome(operation_id, "timeout")
        try:
            plain, canonical = self._parse(ran.value)
        except ValueError as error:
            return open_outcome(operation_id, "invalid_result", error)
        return self._accept(operation_id, plain, canonical)

    def _parse(self, value: Any) -> tuple[dict[str, Any], bytes]:
        if inspect.iscoroutine(value):
            value.close()
        if not isinstance(value, dict):
            raise InvalidToolResult("tool returned an invalid status")
        status = value.get("status")
        if not isinstance(status, str) or status not in TOOL_STATUSES:
            raise InvalidToolResult("tool returned an invalid status")
        try:
            plain, canonical = self.parse(value)
            self.check(plain)
        except ValueError as error:
            raise InvalidToolResult(f"tool returned an invalid result: {error}") from None
        return plain, canonical

    def _accept(self, operation_id: str, plain: dict[str, Any], canonical: bytes) -> Outcome:
        status = TOOL_STATUSES[plain["status"]]
        if status is _S.NOT_EXECUTED:
            after = plain.get("retry_after")
            wait = after if type(after) in (int, float) else None
            return _not_executed(operation_id, plain.get("retryable") is True, wait, None)
        full = (digest(canonical), len(canonical))
        hidden = self.hide(plain)
        if hidden is not plain:
            plain, canonical = self.parse(hidden)
        plain, canonical, cut = self._fit(plain, canonical)
        settlement = Settlement(
            TOOL_STATUSES[plain["status"]],
            canonical,
            *full,
            result_truncated=cut,
            reason=_why(plain),
        )
        if status is _S.NEEDS_RECONCILE:
            answer = open_outcome(operation_id, "unknown").answer
            return Outcome(replace(settlement, reason="unknown"), answer)
        return Outcome(settlement, plain)

    def _fit(self, plain: dict[str, Any], canonical: bytes) -> tuple[dict[str, Any], bytes, bool]:
        """The result within the contract's max_result_bytes: as it is, cut, or refused."""
        limit = self.tool.limits.max_result_bytes
        if limit is None or len(canonical) <= limit:
            return plain, canonical, False
        short: dict[str, Any] = {
            "status": plain["status"],
            "result_truncated": True,
            "result_bytes": len(canonical),
            "result_digest": digest(canonical),
        }
        if self.tool.on_large == "truncate":
            short["preview"] = ""
            room = limit - len(self.parse(short)[1])
            short["preview"] = _preview(canonical, room)
        elif plain["status"] in ("succeeded", "failed"):
            # The effect is known and terminal; only its result was refused, and the answer says
            # both.
            short.update(status="failed", reason="result_too_large", tool_status=plain["status"])
        return *self.parse(short), True


def _preview(canonical: bytes, room: int) -> str:
    """The longest head of the JSON text that takes at most ``room`` bytes as a JSON string."""
    text = canonical[: max(room, 0)].decode(errors="ignore")
    while text and len(json.dumps(text, ensure_ascii=False).encode()) - 2 > room:
        over = len(json.dumps(text, ensure_ascii=False).encode()) - 2 - room
        text = text[: -max(1, over // 6)]
    return text


def _why(plain: dict[str, Any]) -> str:
    return "result_too_large" if plain.get("reason") == "result_too_large" else ""


def _not_executed(
    operation_id: str, retryable: bool, retry_after: float | None, error: type | None
) -> Outcome:
    answer = {"operation_id": operation_id, "reason": "not_executed", "retryable": retryable}
    error_class = error.__qualname__ if error else ""
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


def recorded_answer(row: Operation, now: float) -> dict[str, Any]:
    """What a dispatch answers for a row that it did not change. Always a fresh copy."""
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
