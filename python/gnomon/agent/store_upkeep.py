"""Leases, cancellation and retention in the SQL ledger, as functions of an open transaction."""

from __future__ import annotations

from collections.abc import Iterable

from . import store_sql as sql
from .records import TERMINAL, Operation, OperationRequest, OperationStatus, SettleResult
from .store_rules import event, insert, known, move, must
from .store_sql import Transaction

_S = OperationStatus
_UNDER_WAY = frozenset({_S.IN_FLIGHT, _S.NEEDS_RECONCILE})


def heartbeat(
    tx: Transaction, owner: str, operation_ids: Iterable[str], lease_seconds: float
) -> frozenset[str]:
    """OperationStore.heartbeat. Rows are taken in one order, so that two heartbeats cannot wait
    for each other.
    """
    asked = set()
    for operation_id in sorted(set(operation_ids)):
        mine = {"operation_id": operation_id, "owner": owner}
        tx.change(sql.HEARTBEAT, {**mine, "lease_until": tx.now + lease_seconds})
        if tx.rows(sql.CANCEL_REQUESTED, mine):
            asked.add(operation_id)
    return frozenset(asked)


def recover(tx: Transaction, limit: int) -> list[Operation]:
    """OperationStore.recover: never starts anything, only says that the outcome is unknown."""
    found = tx.rows(sql.EXPIRED_LEASES, {"now": tx.now, "limit": limit})
    changed = []
    for row in map(sql.operation_of, found):
        must(
            tx.change(sql.RECOVER, {"operation_id": row.operation_id, "now": tx.now}),
            row.operation_id,
        )
        event(tx, row, "recovered", "recovery", _S.NEEDS_RECONCILE, reason="owner_lost")
        changed.append(known(tx, row.operation_id))
    return changed


def request_cancel(tx: Transaction, request: OperationRequest, actor: str) -> SettleResult:
    """OperationStore.request_cancel: prevents what was not started, notes the wish otherwise."""
    operation_id = request.operation_id
    new = insert(tx, request, _S.CANCELLED)
    if new is not None:
        event(tx, new, "cancelled", actor, _S.CANCELLED)
        return SettleResult(True, new)
    row = known(tx, operation_id)
    if not row.same_caller(request) or row.status in TERMINAL:
        return SettleResult(False, row)
    if row.status in _UNDER_WAY:
        wish = {"operation_id": operation_id, "now": tx.now}
        if tx.change(sql.CANCEL_REQUEST, wish) != 1:
            return SettleResult(False, row)
        event(tx, row, "cancel_requested", actor, row.status)
        return SettleResult(True, known(tx, operation_id))
    if row.approval_id is not None:
        tx.change(sql.APPROVAL_CLOSE, {"approval_id": row.approval_id, "status": "cancelled"})
    move(tx, row, _S.CANCELLED, "cancelled", actor, cancelled_at=tx.now)
    return SettleResult(True, known(tx, operation_id))


def set_remote_ref(
    tx: Transaction, operation_id: str, owner: str, attempt: int, remote_ref: str
) -> bool:
    """OperationStore.set_remote_ref."""
    known(tx, operation_id)
    values = {
        "operation_id": operation_id,
        "owner": owner,
        "attempt": attempt,
        "remote_ref": remote_ref,
        "now": tx.now,
    }
    return tx.change(sql.REMOTE_REF, values) == 1


def purge_results(tx: Transaction, settled_before: float) -> int:
    """OperationStore.purge_results: what fences the id stays."""
    before = {"before": settled_before}
    found = tx.rows(sql.PURGE_LIST, before)
    for (operation_id,) in found:
        tx.change(sql.PURGE, {"operation_id": operation_id, "now": tx.now, **before})
        row = known(tx, operation_id)
        event(tx, row, "purged", "retention", row.status)
    return len(found)


def forget(tx: Transaction, settled_before: float) -> int:
    """OperationStore.forget: the ids are open again."""
    tx.rows(sql.FORGET_LIST, {"before": settled_before})
    counts = [tx.change(text, {"before": settled_before}) for text in sql.FORGET]
    return counts[-1]
