"""Outcomes in the SQL ledger: what owners, reconcilers and operators record.

As in ``store_rules``: each change is an UPDATE whose own WHERE clause holds the condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import store_sql as sql
from .errors import InvalidTransition, StillRunning
from .operations import crash_point
from .records import (
    RESOLVED,
    TERMINAL,
    TRANSITIONS,
    Operation,
    OperationStatus,
    Settlement,
    SettleResult,
)
from .store_rules import event, known, must
from .store_sql import Transaction

_S = OperationStatus
_RESULT = (
    *("result_json", "result_digest", "result_bytes", "result_truncated"),
    *("reason", "error_class"),
)


def _outcome(
    tx: Transaction,
    row: Operation,
    settlement: Settlement,
    kind: str,
    actor: str,
    *,
    needs_end: bool = False,
    **data: Any,
) -> Operation:
    """Write the outcome of the row's attempt with its event; the row as it is then.

    ``needs_end``: only where the owner is dead or has said that the tool ended.
    """
    status = row.settles_as(settlement.status)
    if status not in TRANSITIONS[row.status]:
        raise InvalidTransition(row.operation_id, row.status.value, status.value)
    if kind == "settled" and status is _S.CANCELLED:
        kind = "cancelled"
    values = {
        **vars(settlement),
        "operation_id": row.operation_id,
        "owner": row.owner,
        "attempt": row.attempt,
        "from_status": row.status.value,
        "status": status.value,
        "result_truncated": int(settlement.result_truncated),
        "running": int(settlement.running),
        "needs_end": int(needs_end),
        "now": tx.now,
        "settled_at": tx.now if status in TERMINAL else None,
    }
    must(tx.change(sql.SETTLE, values), row.operation_id)
    event(tx, row, kind, actor, status, reason=settlement.reason, **data)
    crash_point("in_settle_tx")
    written = {field: getattr(settlement, field) for field in _RESULT}
    return replace(
        row,
        **written,
        status=status,
        lease_until=row.lease_until if settlement.running else None,
        updated_at=tx.now,
        settled_at=values["settled_at"],
    )


def settle(
    tx: Transaction, operation_id: str, owner: str, attempt: int, settlement: Settlement
) -> SettleResult:
    """OperationStore.settle: the outcome that the owner of the attempt brings."""
    row = known(tx, operation_id)
    status = row.settles_as(settlement.status)
    if (row.owner, row.attempt) == (owner, attempt):
        late = row.status is _S.NEEDS_RECONCILE and status is not _S.NEEDS_RECONCILE
        if row.status is _S.IN_FLIGHT or late:
            return SettleResult(True, _outcome(tx, row, settlement, "settled", owner))
        if row.status is status is _S.NEEDS_RECONCILE and not settlement.running:
            return SettleResult(True, _tool_ended(tx, row, settlement))
        if (row.status, row.result_digest) == (status, settlement.result_digest):
            return SettleResult(True, row)
    if settlement.status is not _S.NEEDS_RECONCILE:
        tx.change(sql.TOUCH, {"operation_id": operation_id, "now": tx.now})
        event(
            tx,
            row,
            "late_result_conflict",
            owner,
            row.status,
            late_status=settlement.status.value,
            late_attempt=attempt,
            result_digest=settlement.result_digest,
        )
        row = known(tx, operation_id)
    return SettleResult(False, row)


def _tool_ended(tx: Transaction, row: Operation, settlement: Settlement) -> Operation:
    """End the lease of a tool that ran on and ended without a known outcome."""
    values = {**vars(row), "operation_id": row.operation_id, "now": tx.now}
    if tx.change(sql.TOOL_ENDED, values) == 0:
        return row
    event(tx, row, "tool_ended", row.owner, row.status, reason=settlement.reason)
    return known(tx, row.operation_id)


def resolve(
    tx: Transaction,
    operation_id: str,
    settlement: Settlement,
    actor: str,
    evidence: Mapping[str, Any],
    attempt: int | None,
) -> SettleResult:
    """OperationStore.resolve: the outcome that a reconciler or an operator found."""
    row = known(tx, operation_id)
    if settlement.status not in RESOLVED:
        raise InvalidTransition(operation_id, row.status.value, settlement.status.value)
    if row.status is not _S.NEEDS_RECONCILE:
        return SettleResult(False, row)
    if attempt is not None and row.attempt != attempt:
        return SettleResult(False, row)
    needs_end = settlement.status is _S.NOT_EXECUTED
    if needs_end and row.may_run(tx.now):
        raise StillRunning(operation_id, row.status.value, row.owner, row.lease_until)
    row = _outcome(
        tx,
        row,
        settlement,
        "reconciled",
        actor,
        needs_end=needs_end,
        evidence=dict(evidence),
    )
    return SettleResult(True, row)
