"""The transactions of the ledger, as functions of an open transaction: one text for all databases.

Each change is an UPDATE or INSERT whose own WHERE clause holds the condition, and whose row count
is looked at; what was read before only chooses the answer. So no function here is right only
because a lock was held.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import store_sql as sql
from .errors import InvalidTransition, StillRunning, StoreUnavailable, UnknownOperation
from .operations import crash_point
from .records import (
    RESOLVED,
    TERMINAL,
    TRANSITIONS,
    Claim,
    ClaimReason,
    ClaimResult,
    Operation,
    OperationRequest,
    OperationStatus,
    Settlement,
    SettleResult,
)
from .store_sql import Transaction

_S = OperationStatus
_RESULT = (
    *("result_json", "result_digest", "result_bytes", "result_truncated"),
    *("reason", "error_class"),
)
_MISMATCH = ClaimReason.APPROVAL_MISMATCH


def must(count: int, operation_id: str) -> None:
    """One row was to change. If not, another writer got past the lock: nothing is committed."""
    if count != 1:
        raise StoreUnavailable(
            f"operation {operation_id!r} was changed by another writer inside our transaction; "
            "nothing was written, read it with get() and decide again"
        )


def lock(tx: Transaction, operation_id: str) -> Operation | None:
    """The row, locked until the transaction ends."""
    found = tx.rows(sql.LOCK, {"operation_id": operation_id})
    return sql.operation_of(found[0]) if found else None


def known(tx: Transaction, operation_id: str) -> Operation:
    """The row, locked; UnknownOperation without one."""
    row = lock(tx, operation_id)
    if row is None:
        raise UnknownOperation(operation_id)
    return row


def event(
    tx: Transaction,
    row: Operation,
    kind: str,
    actor: str,
    status: OperationStatus,
    **data: Any,
) -> None:
    """Append one event; its data always has the new status and the attempt."""
    data = {"status": status.value, "attempt": row.attempt, **data}
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    tx.change(
        sql.EVENT,
        {
            "operation_id": row.operation_id,
            "type": kind,
            "at": tx.now,
            "actor": actor,
            "data": text,
        },
    )


def insert(
    tx: Transaction,
    request: OperationRequest,
    status: OperationStatus,
    *,
    attempt: int = 0,
    owner: str = "",
    lease_until: float | None = None,
    approval_id: str | None = None,
    claim_token: str = "",
) -> Operation | None:
    """Insert the row; None where the id is taken. Also the moment at which one claim wins."""
    settled = tx.now if status in TERMINAL else None
    values = {
        **vars(request),
        "status": status.value,
        "attempt": attempt,
        "owner": owner,
        "lease_until": lease_until,
        "approval_id": approval_id,
        "now": tx.now,
        "settled_at": settled,
        "claim_token": claim_token,
    }
    if tx.change(sql.INSERT, values) != 1:
        return None
    return Operation(
        request,
        status,
        attempt,
        owner,
        lease_until,
        approval_id,
        created_at=tx.now,
        updated_at=tx.now,
        settled_at=settled,
    )


def move(
    tx: Transaction,
    row: Operation,
    status: OperationStatus,
    kind: str,
    actor: str,
    *,
    cancelled_at: float | None = None,
    **data: Any,
) -> None:
    """Change the state of a row that gets no result, with its event."""
    if status is not row.status and status not in TRANSITIONS[row.status]:
        raise InvalidTransition(row.operation_id, row.status.value, status.value)
    values = {
        "operation_id": row.operation_id,
        "status": status.value,
        "from_status": row.status.value,
        "now": tx.now,
        "settled_at": tx.now if status in TERMINAL else None,
        "cancel_requested_at": cancelled_at,
    }
    must(tx.change(sql.MOVE, values), row.operation_id)
    event(tx, row, kind, actor, status, **data)


def claim(tx: Transaction, wish: Claim, token: str) -> ClaimResult:
    """OperationStore.claim: the one place where an operation becomes IN_FLIGHT."""
    request = wish.request
    lease_until = tx.now + wish.lease_seconds
    if wish.first:
        new = insert(
            tx,
            request,
            _S.IN_FLIGHT,
            attempt=1,
            owner=wish.owner,
            lease_until=lease_until,
            claim_token=token,
        )
        if new is None:
            return ClaimResult(False, known(tx, request.operation_id), ClaimReason.EXISTS)
        event(tx, new, "dispatched", wish.owner, _S.IN_FLIGHT)
        crash_point("in_claim_tx")
        return ClaimResult(True, new, ClaimReason.CLAIMED)
    row = known(tx, request.operation_id)
    lost = _why_lost(tx, wish, row)
    if lost is not None:
        return ClaimResult(False, known(tx, request.operation_id), lost)
    values = {
        "operation_id": request.operation_id,
        "owner": wish.owner,
        "lease_until": lease_until,
        "now": tx.now,
        "claim_token": token,
        "from_status": row.status.value,
        "from_attempt": row.attempt,
    }
    must(tx.change(sql.CLAIM_AGAIN, values), request.operation_id)
    row = known(tx, request.operation_id)
    event(tx, row, "dispatched", wish.owner, _S.IN_FLIGHT)
    crash_point("in_claim_tx")
    return ClaimResult(True, row, ClaimReason.CLAIMED)


def _why_lost(tx: Transaction, wish: Claim, row: Operation) -> ClaimReason | None:
    """Why this row cannot be claimed; None where it can, and then its approval is consumed."""
    if not row.same_request(wish.request) or row.cancel_requested_at is not None:
        return ClaimReason.EXISTS
    if wish.retry_attempt is not None:
        if row.status is not _S.NOT_EXECUTED or row.attempt != wish.retry_attempt:
            return ClaimReason.EXISTS
        return _why_used_up(tx, row, wish.approval_digest)
    if wish.approval_digest is not None and row.status is _S.APPROVED:
        return _consume(tx, row, wish.approval_digest)
    return ClaimReason.EXISTS


def _why_used_up(tx: Transaction, row: Operation, digest: str | None) -> ClaimReason | None:
    """Why the approval of the attempts before does not allow another one; None where it does."""
    if digest is None:
        return None
    found = tx.rows(sql.APPROVAL_GET, {"approval_id": row.approval_id})
    return sql.approval_of(found[0]).why_used_up(digest, tx.now) if found else _MISMATCH


def _consume(tx: Transaction, row: Operation, digest: str) -> ClaimReason | None:
    wanted = {"approval_id": row.approval_id, "request_digest": digest, "now": tx.now}
    if tx.change(sql.APPROVAL_CONSUME, wanted) == 1:
        return None
    found = tx.rows(sql.APPROVAL_GET, {"approval_id": row.approval_id})
    approval = sql.approval_of(found[0]) if found else None
    if approval is None or not approval.open:
        return ClaimReason.EXISTS
    if tx.now >= approval.expires_at:
        expire(tx, row, approval.approval_id)
        return ClaimReason.APPROVAL_EXPIRED
    return ClaimReason.APPROVAL_MISMATCH


def expire(tx: Transaction, row: Operation, approval_id: str) -> None:
    """Make an overdue approval and its row EXPIRED."""
    tx.change(sql.APPROVAL_CLOSE, {"approval_id": approval_id, "status": "expired"})
    move(tx, row, _S.EXPIRED, "expired", "clock", approval_id=approval_id)


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
) -> SettleResult:
    """OperationStore.resolve: the outcome that a reconciler or an operator found."""
    row = known(tx, operation_id)
    if settlement.status not in RESOLVED:
        raise InvalidTransition(operation_id, row.status.value, settlement.status.value)
    if row.status is not _S.NEEDS_RECONCILE:
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
