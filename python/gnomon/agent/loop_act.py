"""One dispatch of the loop: from the request in the log to the outcome in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import events as ev
from .budget import REPORTED, Exhausted, Reservation, checked_usage
from .errors import ConcurrencyLimit, OperationConflict, ToolRefused
from .frozen import FrozenDict
from .gateway import Record
from .loop_base import Ends, RunBase, frozen, loggable
from .loop_options import Call, NoBudget, Outcome
from .problems import ValidationError
from .trace import scope_of

#: Answers of a dispatch after which the loop stops at once: nobody knows what happened.
OPEN_STATUSES = frozenset({"unknown", "needs_reconcile"})
_NOT_RUN = {"not_executed": "not_executed", "expired": "approval_expired"}
_HANDLERS = frozenset(
    {"succeeded", "failed", "awaiting_approval", "denied", "cancelled", *_NOT_RUN}
)


class Acting(RunBase):
    """The part of a run that acts."""

    def dispatch(
        self,
        candidate: dict[str, Any],
        operation_id: str,
        charged: dict[str, int],
        held: Reservation,
    ) -> Ends:
        """One dispatch with the charge of its claim, up to the outcome in the log."""
        admitted: list[Reservation] = []

        def admit(_: Any) -> None:
            room = self.meter.reserve(**charged)
            if isinstance(room, Exhausted):
                raise NoBudget(room)
            admitted.append(room)

        name, arguments = candidate.get("name"), candidate.get("arguments")
        call = Call(self.gateway.dispatch, name, arguments, operation_id, admit, self._seconds_left)
        try:
            result = yield call
        except NoBudget as refused:
            self.meter.settle(held, {})
            self.log.emit(ev.ToolNotExecuted(operation_id=operation_id, error="budget_exhausted"))
            return self.exhausted(refused.exhausted)
        except Exception as error:
            return self._raised(candidate, operation_id, error, held, admitted)
        except BaseException:
            self._charge(held, admitted, {}, started=True)
            self.log.emit(ev.ToolNeedsReconcile(operation_id=operation_id, reason="interrupted"))
            raise
        return self._answered(candidate, operation_id, result, held, admitted)

    def _seconds_left(self) -> float | None:
        return self.meter.remaining_seconds

    def _charge(
        self,
        held: Reservation,
        admitted: list[Reservation],
        result: Mapping[str, Any],
        *,
        started: bool,
    ) -> FrozenDict:
        """Settle what was held; returns the usage for the log."""
        used, invalid = checked_usage(result.get("usage"))
        estimate = {name: held.amounts[name] for name in REPORTED if name in held.amounts}
        used = {**(estimate if started else {}), **used}
        self.meter.settle(held, {**used, "result_bytes": _size(result)}, invalid)
        for room in admitted:
            self.meter.settle(room, room.amounts if started else {})
        return FrozenDict(used)

    def _raised(
        self,
        candidate: dict[str, Any],
        operation_id: str,
        error: Exception,
        held: Reservation,
        admitted: list[Reservation],
    ) -> Outcome | None:
        """A dispatch that raised: did anything start? The ledger knows; without it, assume so."""
        if self._may_have_started(operation_id, error):
            usage = self._charge(held, admitted, {}, started=True)
            reason = type(error).__name__
            self.log.emit(
                ev.ToolNeedsReconcile(
                    operation_id=operation_id, reason=reason, usage=usage, replayed=not admitted
                )
            )
            self.note(candidate, _open_answer(operation_id, reason))
            return self.outcome("needs_reconcile")
        self._charge(held, admitted, {}, started=False)
        word, problems = _explained(error)
        shown = frozen(self.gateway.redactor.value(problems))  # a path may hold the policy's text
        self.log.emit(ev.ToolNotExecuted(operation_id=operation_id, error=word, problems=shown))
        result = {"status": "failed", "executed": False, "error": word, "problems": problems}
        if word == "refused":
            self.note(candidate, result)
            return self.fail("authorization_denied", type(error).__name__)
        if word == "error":
            self.note(candidate, result)
            return self.fail("dependency_failed", type(error).__name__)
        return self.note(candidate, result, failed=True)

    def _may_have_started(self, operation_id: str, error: Exception) -> bool:
        if isinstance(error, OperationConflict) and error.operation_id == operation_id:
            return False
        if not self.gateway.can_look:
            return not isinstance(error, (ValidationError, ToolRefused))
        try:
            record = self.gateway.look(operation_id)
        except Exception:  # the ledger cannot be read: nobody knows
            return True
        return record is not None and record.status in ("in_flight", *OPEN_STATUSES)

    def _answered(
        self,
        candidate: dict[str, Any],
        operation_id: str,
        result: Any,
        held: Reservation,
        admitted: list[Reservation],
    ) -> Outcome | None:
        status = result.get("status") if isinstance(result, dict) else None
        if not isinstance(status, str) or status not in _HANDLERS | OPEN_STATUSES:
            self._charge(held, admitted, {}, started=True)
            self.log.emit(ev.ToolNeedsReconcile(operation_id=operation_id, reason="invalid_status"))
            raise ValueError("tool returned an invalid status")
        started = status not in ("awaiting_approval", "denied", "cancelled", *_NOT_RUN)
        usage = self._charge(held, admitted, result, started=started)
        outcome: dict[str, Any] = {"usage": usage, "replayed": not admitted}
        if status in OPEN_STATUSES:
            reason = result.get("reason")
            self.log.emit(
                ev.ToolNeedsReconcile(
                    operation_id=operation_id, reason=str(reason or status), **outcome
                )
            )
            self.note(candidate, result)
            return self.outcome("needs_reconcile")
        return self.settled(candidate, operation_id, result, outcome)

    def settled(
        self,
        candidate: dict[str, Any],
        operation_id: str,
        result: dict[str, Any],
        outcome: dict[str, Any],
    ) -> Outcome | None:
        """Record an answer that is not open, and go on or stop by it."""
        status, name = result["status"], operation_id
        redactor = self.gateway.redactor_for(candidate.get("name"), candidate.get("arguments"))
        shown = loggable(redactor.value(result))
        if status in ("succeeded", "failed"):
            outcome["approval_id"] = self._approval_of(name)
        if status == "succeeded":
            items = result.get("evidence")
            items = items if isinstance(items, list) else []
            outside = [scope_of(item) for item in items if not self._may_see(scope_of(item))]
            evidence = frozen(redactor.value([] if outside else items))
            self.log.emit(
                ev.ToolSucceeded(
                    operation_id=name,
                    evidence=evidence,
                    result=None if outside else shown,
                    **outcome,
                )
            )
            if outside:  # the policy must not see what the caller may not
                return self.fail("policy_blocked", "evidence outside the caller's scopes")
            self.learn(evidence, name)
            return self.note(candidate, result)
        if status == "failed":
            self.log.emit(ev.ToolFailed(operation_id=name, result=shown, **outcome))
        elif status == "awaiting_approval":
            approval_id = str(result.get("approval_id") or "")
            self.log.emit(ev.ApprovalRequested(operation_id=name, approval_id=approval_id))
            self.note(candidate, result)
            return self.outcome("awaiting_approval", approval_id=approval_id)
        elif status == "denied":
            self.log.emit(ev.ToolNotExecuted(operation_id=name, error="approval_denied"))
            self.note(candidate, result)
            return self.fail("authorization_denied", "approval_denied")
        elif status == "cancelled":
            self.log.emit(ev.ToolCancelled(operation_id=name))
        else:
            self.log.emit(ev.ToolNotExecuted(operation_id=name, error=_NOT_RUN[status]))
        return self.note(candidate, result, failed=True)

    def _may_see(self, scope: str) -> bool:
        return self.options.scopes is None or scope in self.options.scopes

    def _approval_of(self, operation_id: str) -> str:
        record: Record | None = self.gateway.look(operation_id)
        return record.approval_id if record is not None else ""


def _open_answer(operation_id: str, reason: str) -> dict[str, Any]:
    return {"status": "needs_reconcile", "operation_id": operation_id, "reason": reason}


def _size(result: Mapping[str, Any]) -> int:
    try:
        return (
            len(json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode())
            if result
            else 0
        )
    except (TypeError, ValueError, RecursionError):
        return 0


def _explained(error: Exception) -> tuple[str, list[dict[str, str]]]:
    """A word and the problems, for the policy, of an error before anything started."""
    if isinstance(error, ValidationError):
        return "invalid_arguments", [problem.to_dict() for problem in error.problems]
    if isinstance(error, OperationConflict):
        return "operation_conflict", []
    if isinstance(error, PermissionError):
        return "refused", []
    if isinstance(error, ConcurrencyLimit):
        return "busy", []
    if isinstance(error, ValueError):
        return ("unknown_tool" if str(error) == "unknown tool" else "invalid_request"), []
    return "error", []
