"""Approvals in the SQL ledger, as functions of an open transaction."""

from __future__ import annotations

from . import store_sql as sql
from .errors import UnknownOperation
from .operations import crash_point
from .records import (
    MAY_ASK,
    Approval,
    ApprovalStatus,
    NewApproval,
    Operation,
    OperationRequest,
    OperationStatus,
)
from .store_rules import event, expire, insert, known, lock, move, must
from .store_sql import Transaction

_S = OperationStatus


def approval(tx: Transaction, approval_id: str | None) -> Approval | None:
    """The approval, or None."""
    found = tx.rows(sql.APPROVAL_GET, {"approval_id": approval_id})
    return sql.approval_of(found[0]) if found else None


def request_approval(
    tx: Transaction, request: OperationRequest, wish: NewApproval
) -> tuple[Operation, Approval | None]:
    """OperationStore.request_approval."""
    new = Approval(
        wish.approval_id,
        request.operation_id,
        request.tenant,
        wish.request_digest,
        wish.requested_by,
        wish.policy_version,
        tx.now + wish.ttl_seconds,
    )
    row = insert(tx, request, _S.AWAITING_APPROVAL, approval_id=new.approval_id)
    if row is None:
        row = known(tx, request.operation_id)
        if row.status not in MAY_ASK or not row.same_request(request):
            return row, None
        old = approval(tx, row.approval_id)
        if old is not None and old.fits(wish.request_digest, tx.now):
            return row, old
        if old is not None and old.open:
            row = _close(tx, row, old)
        values = {**vars(request), "approval_id": new.approval_id, "now": tx.now}
        must(tx.change(sql.ASK_AGAIN, values), request.operation_id)
    tx.change(sql.APPROVAL_INSERT, vars(new))
    event(
        tx,
        row,
        "approval_requested",
        wish.requested_by,
        _S.AWAITING_APPROVAL,
        approval_id=new.approval_id,
    )
    crash_point("in_approval_tx")
    return known(tx, request.operation_id), new


def _close(tx: Transaction, row: Operation, old: Approval) -> Operation:
    """End an open approval that no longer fits: expired, or superseded by another request."""
    if tx.now >= old.expires_at:
        expire(tx, row, old.approval_id)
    else:
        tx.change(sql.APPROVAL_CLOSE, {"approval_id": old.approval_id, "status": "superseded"})
        move(tx, row, _S.AWAITING_APPROVAL, "superseded", "policy", approval_id=old.approval_id)
    return known(tx, row.operation_id)


def decide(
    tx: Transaction, approval_id: str, approve: bool, decided_by: str
) -> tuple[bool, Approval]:
    """OperationStore.decide: the first decision wins."""
    found = approval(tx, approval_id)
    if found is None:
        raise UnknownOperation(approval_id)
    row = known(tx, found.operation_id)  # everybody locks the operation first, then its approval
    found = approval(tx, approval_id) or found
    if found.status is not ApprovalStatus.PENDING:
        return False, found
    if tx.now >= found.expires_at:
        expire(tx, row, approval_id)
        return False, approval(tx, approval_id) or found
    status = ApprovalStatus.APPROVED if approve else ApprovalStatus.DENIED
    values = {
        "approval_id": approval_id,
        "status": status.value,
        "decided_by": decided_by,
        "now": tx.now,
    }
    must(tx.change(sql.APPROVAL_DECIDE, values), row.operation_id)
    moved = _S.APPROVED if approve else _S.DENIED
    move(tx, row, moved, status.value, decided_by, approval_id=approval_id)
    crash_point("in_decision_tx")
    return True, approval(tx, approval_id) or found


def expire_approvals(tx: Transaction, limit: int) -> list[Operation]:
    """OperationStore.expire_approvals."""
    changed = []
    overdue = sorted(tx.rows(sql.OVERDUE, {"now": tx.now, "limit": limit}))  # the order of locks
    for (operation_id,) in overdue:
        row = lock(tx, operation_id)
        old = approval(tx, row.approval_id) if row is not None else None
        if row is None or old is None or not old.open or tx.now < old.expires_at:
            continue  # somebody decided it between the list and the lock
        expire(tx, row, old.approval_id)
        changed.append(known(tx, operation_id))
    return changed
