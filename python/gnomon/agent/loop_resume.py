"""Going on with a task from its event log after a crash, without starting anything again.

Every operation that the log asked for gets its true outcome from the ledger before the policy is
asked for anything: a settled one its result, an open one `needs_reconcile`. The budget is charged
with what the log says was used or held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import events as ev
from .budget import REPORTED, Reservation
from .frozen import FrozenList, freeze, thaw
from .gateway import Record
from .jsonvalue import EXACT_BOUNDS, canonicalize
from .loop_act import Acting
from .loop_base import Ends, loggable
from .loop_options import Outcome

_OPEN = frozenset({"in_flight", "needs_reconcile", "unknown"})
# Nothing that the policy was told: it is asked again as before.
_UNTOLD = frozenset({"not_started", "budget_exhausted"})
_STATUS_OF = {
    "not_executed": "not_executed",
    "approval_expired": "expired",
    "approval_denied": "denied",
}
_TERMINAL = {"succeeded": "succeeded", "cancelled": "cancelled", "failed": "failed"}


class Resume(Acting):
    """The part of a run that reads its own log."""

    def resume(self) -> Ends:
        """Rebuild the run; an outcome where it stops right here."""
        self._charge_past()
        self._retell()
        phase = self.log.phase
        if phase in _TERMINAL:
            return self._ended()
        if phase in ("executing", "needs_reconcile", "awaiting_approval"):
            return (yield from self._settle_pending(phase))
        return None

    # --- the past ---------------------------------------------------------------------------------

    def _charge_past(self) -> None:
        """Charge the meter: a call or claim whose end the log does not show counts as made."""
        open_model: Mapping[str, Any] = {}
        open_claim: Mapping[str, Any] = {}
        for event in self.log.events:
            if isinstance(event, ev.ModelRequested):
                self.meter.charge(open_model)
                open_model = event.reserved or {}
            elif isinstance(event, ev.ModelCalled):
                self.meter.charge({"steps": 1, **(event.usage or {})})
                open_model = {}
            elif isinstance(event, ev.ToolRequested):
                open_claim = event.charged or {}
            elif isinstance(event, ev.ToolOutcome):
                self.meter.charge({} if event.replayed else open_claim)
                self.meter.charge(event.usage or {})
                open_claim = {}
            elif isinstance(event, (ev.ToolNotExecuted, ev.ToolCancelled)):
                open_claim = {}
        self.meter.charge(open_model)

    def _retell(self) -> None:
        """The events and the last result of the earlier run, from the ledger where it has them."""
        asked: dict[str, ev.ToolRequested] = {}
        for event in self.log.events:
            if isinstance(event, ev.ToolRequested):
                asked[event.operation_id] = event
            elif isinstance(event, ev.ActionRejected):
                self.tell({"kind": "rejected"}, _not_run(event.reason, event.problems), True)
            elif isinstance(event, ev.ToolEvent) and event.operation_id in asked:
                result = self._told(event, asked[event.operation_id])
                if result is not None:
                    failed = result["status"] != "succeeded"
                    self.tell(self._candidate(asked[event.operation_id]), result, failed)
            if isinstance(event, ev.ToolSucceeded) or (
                isinstance(event, ev.ToolReconciled) and event.outcome == "succeeded"
            ):
                self.learn(event.evidence or (), event.operation_id)

    def _candidate(self, request: ev.ToolRequested) -> dict[str, Any]:
        record = self._record_of(request)
        arguments = thaw(request.arguments) if request.arguments is not None else None
        if record is not None and record.arguments is not None:
            arguments = record.arguments
        return {
            "kind": "tool",
            "name": request.tool,
            "arguments": arguments,
            "operation_id": request.operation_id,
        }

    def _told(self, event: ev.ToolEvent, asked: ev.ToolRequested) -> dict[str, Any] | None:
        name = event.operation_id
        if isinstance(event, (ev.ToolSucceeded, ev.ToolFailed)):
            record = self._record_of(asked)
            if record is not None and record.result is not None:
                return record.result
            status = event.type.removeprefix("tool_")
            return {**thaw(event.result or {}), "status": status}
        if isinstance(event, ev.ToolReconciled):
            return {**thaw(event.result or {}), "status": event.outcome}
        if isinstance(event, ev.ToolNotExecuted):
            if event.error in _UNTOLD:
                return None
            if event.error in _STATUS_OF:
                return {"status": _STATUS_OF[event.error], "operation_id": name}
            return _not_run(event.error, event.problems)
        if isinstance(event, ev.ApprovalExpired):
            return {"status": "expired", "operation_id": name}
        if isinstance(event, ev.ToolCancelled):
            return {"status": "cancelled", "operation_id": name}
        return None

    def _ended(self) -> Outcome:
        """The outcome of a task that was at its end; nothing is called."""
        last = self.log.events[-1]
        if isinstance(last, ev.Answered):
            return self.outcome("answered", answer=last.answer)
        if isinstance(last, ev.BudgetExhausted):
            return self.outcome("budget_exhausted", exhausted=last.dimension)
        return self.outcome(_TERMINAL[self.log.phase])

    # --- the operation that was pending -----------------------------------------------------------

    def _settle_pending(self, phase: str) -> Ends:
        operation_id = self.log.state["operation_id"]
        asked = next(
            event
            for event in reversed(self.log.events)
            if isinstance(event, ev.ToolRequested) and event.operation_id == operation_id
        )
        record = self._record_of(asked)
        if phase == "needs_reconcile":
            return self._reconciled(asked, record)
        if phase == "awaiting_approval":
            return (yield from self._approval(asked, record))
        if record is None and self.gateway.look(operation_id) is not None:
            # The process died before its dispatch, which the runtime would have refused.
            self.log.emit(ev.ToolNotExecuted(operation_id=operation_id, error="operation_conflict"))
            result = _not_run("operation_conflict", None)
            return self.note(self._candidate(asked), result, failed=True)
        return self._executing(asked, record)

    def _record_of(self, asked: ev.ToolRequested) -> Record | None:
        """What the ledger has of this very request; None also where the id is another's.

        The log's arguments are redacted, so the ledger's are compared as the log would show them.
        """
        record = self.gateway.look(asked.operation_id)
        if record is None or not record.tool:
            return record
        if record.tool != asked.tool:
            return None
        if record.arguments is None or asked.arguments is None:
            return record
        redactor = self.gateway.redactor_for(asked.tool, record.arguments)
        shown = loggable(redactor.value(record.arguments))
        return record if _same_json(shown, asked.arguments) else None

    def _executing(self, asked: ev.ToolRequested, record: Record | None) -> Outcome | None:
        """The log stops at the request: the ledger says how far the dispatch came."""
        name = asked.operation_id
        self.meter.charge(asked.charged or {} if record is not None else {})
        if record is None and self.gateway.can_look and self.gateway.is_durable:
            self.log.emit(ev.ToolNotExecuted(operation_id=name, error="not_started"))
            return None
        if record is None or record.status in _OPEN:
            # A ledger that may have been lost with the process proves nothing by its silence.
            reason = "ledger_unknown" if record is None else record.reason or record.status
            self.log.emit(ev.ToolNeedsReconcile(operation_id=name, reason=reason))
            return self._still_open(asked, reason)
        if record.status in ("succeeded", "failed"):
            return self._recorded(asked, record)
        if record.status == "awaiting_approval":
            approval_id = record.approval_id
            self.log.emit(ev.ApprovalRequested(operation_id=name, approval_id=approval_id))
            return self.outcome("awaiting_approval", approval_id=approval_id)
        if record.status == "cancelled":
            return self._was_cancelled(asked)
        # approved, denied, expired, not_executed: nothing was started; the policy decides again.
        error = {"denied": "approval_denied", "expired": "approval_expired"}.get(record.status)
        self.log.emit(ev.ToolNotExecuted(operation_id=name, error=error or "not_executed"))
        if record.status == "denied":
            return self.fail("authorization_denied", "approval_denied")
        return self._was_not_run(asked, error or "not_executed")

    def _was_cancelled(self, asked: ev.ToolRequested) -> Outcome | None:
        self.log.emit(ev.ToolCancelled(operation_id=asked.operation_id))
        result = {"status": "cancelled", "operation_id": asked.operation_id}
        return self.note(self._candidate(asked), result, failed=True)

    def _was_not_run(self, asked: ev.ToolRequested, error: str) -> Outcome | None:
        result = {"status": _STATUS_OF[error], "operation_id": asked.operation_id}
        return self.note(self._candidate(asked), result, failed=True)

    def _recorded(self, asked: ev.ToolRequested, record: Record) -> Outcome | None:
        candidate, result = self._candidate(asked), record.result or {"status": record.status}
        redactor = self.gateway.redactor_for(asked.tool, candidate["arguments"])
        shown = freeze(redactor.value(result))
        more = {"operation_id": asked.operation_id, "result": shown}
        more["approval_id"] = record.approval_id
        if record.status == "failed":
            self.log.emit(ev.ToolFailed(**more))
        else:
            evidence = _evidence(shown)
            self.log.emit(ev.ToolSucceeded(evidence=evidence, **more))
            self.learn(evidence, asked.operation_id)
        return self.note(candidate, result)

    def _still_open(self, asked: ev.ToolRequested, reason: str) -> Outcome:
        name = asked.operation_id
        result = {"status": "needs_reconcile", "operation_id": name, "reason": reason}
        self.note(self._candidate(asked), result)
        return self.outcome("needs_reconcile")

    def _reconciled(self, asked: ev.ToolRequested, record: Record | None) -> Outcome | None:
        if record is None or record.status in _OPEN:
            reason = str(self.log.state.get("reconcile_reason", ""))
            return self._still_open(asked, reason)
        outcome = record.status if record.status in ("succeeded", "failed") else "not_executed"
        candidate, result = self._candidate(asked), record.result or {"status": outcome}
        redactor = self.gateway.redactor_for(asked.tool, candidate["arguments"])
        shown = freeze(redactor.value(result))
        evidence = _evidence(shown) if outcome == "succeeded" else None
        self.log.emit(
            ev.ToolReconciled(
                operation_id=asked.operation_id,
                outcome=outcome,
                evidence=evidence,
                result=shown,
                actor="ledger",
            )
        )
        if evidence is not None:
            self.learn(evidence, asked.operation_id)
        return self.note(candidate, result, failed=outcome != "succeeded")

    def _approval(self, asked: ev.ToolRequested, record: Record | None) -> Ends:
        name, approval_id = asked.operation_id, record.approval_id if record else ""
        status = record.status if record is not None else "expired"
        if status == "awaiting_approval":
            return self.outcome("awaiting_approval", approval_id=approval_id)
        if status == "denied":
            self.log.emit(ev.ApprovalDenied(operation_id=name, approval_id=approval_id))
            return self.fail("authorization_denied", "approval_denied")
        if status == "expired":
            self.log.emit(ev.ApprovalExpired(operation_id=name, approval_id=approval_id))
            return self._was_not_run(asked, "approval_expired")
        if status == "cancelled":
            return self._was_cancelled(asked)
        self.log.emit(ev.ApprovalGranted(operation_id=name, approval_id=approval_id))
        if status != "approved":
            return self._executing(asked, record)
        held = self.meter.reserve(**dict.fromkeys(REPORTED, 0))
        if not isinstance(held, Reservation):
            self.log.emit(ev.ToolNotExecuted(operation_id=name, error="budget_exhausted"))
            return None  # the loop's next look at the budget ends the run
        charged = dict(asked.charged or {})
        return (yield from self.dispatch(self._candidate(asked), name, charged, held))


def _same_json(one: Any, other: Any) -> bool:
    return (
        canonicalize(thaw(one), EXACT_BOUNDS).data == canonicalize(thaw(other), EXACT_BOUNDS).data
    )


def _evidence(result: Any) -> FrozenList:
    items = result.get("evidence") if isinstance(result, Mapping) else None
    return items if isinstance(items, FrozenList) else FrozenList()


def _not_run(error: str, problems: FrozenList | None) -> dict[str, Any]:
    """The result of a candidate that started nothing, as the policy was shown it."""
    shown = thaw(problems or [])
    return {"status": "failed", "executed": False, "error": error, "problems": shown}
