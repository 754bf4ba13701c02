"""The approval half of the ledger in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from .errors import UnknownOperation
from .operations import crash_point
from .records import (
    MAY_ASK,
    Approval,
    ApprovalStatus,
    ClaimReason,
    NewApproval,
    Operation,
    OperationRequest,
    OperationStatus,
)

R = TypeVar("R", Approval, Operation, OperationRequest)
_S = OperationStatus
_A = ApprovalStatus


def changed(record: R, **fields: Any) -> R:
    """A copy of a frozen record with other fields; dataclasses.replace at a fifth of its time."""
    copy = object.__new__(type(record))
    copy.__dict__.update(record.__dict__, **fields)
    return copy


class MemoryApprovals(ABC):
    """Approvals by id; the store that inherits this gives rows, events and the transaction."""

    _rows: dict[str, Operation]

    def __init__(self) -> None:
        self._approvals: dict[str, Approval] = {}

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[float]: ...

    @abstractmethod
    def _put(self, row: Operation, event: str, actor: str, **data: Any) -> Operation: ...

    def request_approval(
        self, request: OperationRequest, approval: NewApproval
    ) -> tuple[Operation, Approval | None]:
        """See OperationStore.request_approval."""
        with self._transaction() as now:
            row = self._rows.get(request.operation_id)
            old = None
            if row is not None:
                if row.status not in MAY_ASK or not row.same_request(request):
                    return row, None
                old = self._approvals[row.approval_id] if row.approval_id else None
                if old is not None and old.fits(approval.request_digest, now):
                    return row, old
            crash_point("in_approval_tx")
            if row is not None and old is not None and old.open:
                row = self._close(row, old, now)
            new = Approval(
                approval.approval_id,
                request.operation_id,
                request.tenant,
                approval.request_digest,
                approval.requested_by,
                approval.policy_version,
                now + approval.ttl_seconds,
            )
            created = now if row is None else row.created_at
            row = changed(
                row or Operation(request, _S.AWAITING_APPROVAL),
                request=request,
                status=_S.AWAITING_APPROVAL,
                approval_id=new.approval_id,
                created_at=created,
                updated_at=now,
            )
            self._approvals[new.approval_id] = new
            self._put(row, "approval_requested", approval.requested_by, approval_id=new.approval_id)
            return row, new

    def _close(self, row: Operation, old: Approval, now: float) -> Operation:
        """End an open approval that no longer fits: expired, or superseded by another request."""
        if now >= old.expires_at:
            return self._expire(row, old, now)
        self._approvals[old.approval_id] = changed(old, status=_A.SUPERSEDED)
        row = changed(row, status=_S.AWAITING_APPROVAL, updated_at=now)
        return self._put(row, "superseded", "policy", approval_id=old.approval_id)

    def _expire(self, row: Operation, old: Approval, now: float) -> Operation:
        self._approvals[old.approval_id] = changed(old, status=_A.EXPIRED)
        row = changed(row, status=_S.EXPIRED, updated_at=now)
        return self._put(row, "expired", "clock", approval_id=old.approval_id)

    def _why_unapproved(self, row: Operation, digest: str, now: float) -> ClaimReason | None:
        """Why the row's approval does not allow a claim, or None; makes an expired one EXPIRED."""
        approval = self._approvals[row.approval_id] if row.approval_id else None
        if approval is None or approval.status is not _A.APPROVED:
            return ClaimReason.EXISTS
        if now >= approval.expires_at:
            self._expire(row, approval, now)
            return ClaimReason.APPROVAL_EXPIRED
        return None if approval.request_digest == digest else ClaimReason.APPROVAL_MISMATCH

    def _why_used_up(self, row: Operation, digest: str | None, now: float) -> ClaimReason | None:
        """Why the approval of the attempts before does not allow another one, or None."""
        if digest is None:
            return None
        approval = self._approvals.get(row.approval_id or "")
        if approval is None:
            return ClaimReason.APPROVAL_MISMATCH
        return approval.why_used_up(digest, now)

    def _consume(self, approval_id: str, now: float) -> None:
        approval = self._approvals[approval_id]
        self._approvals[approval_id] = changed(approval, status=_A.CONSUMED, consumed_at=now)

    def _cancel_approval(self, approval_id: str | None) -> None:
        approval = self._approvals.get(approval_id or "")
        if approval is not None and approval.open:
            self._approvals[approval.approval_id] = changed(approval, status=_A.CANCELLED)

    def _forget_approvals(self, operation_id: str) -> None:
        for approval in [a for a in self._approvals.values() if a.operation_id == operation_id]:
            del self._approvals[approval.approval_id]

    def get_approval(self, approval_id: str) -> Approval | None:
        """See OperationStore.get_approval."""
        with self._transaction():
            return self._approvals.get(approval_id)

    def decide(self, approval_id: str, approve: bool, decided_by: str) -> tuple[bool, Approval]:
        """See OperationStore.decide."""
        with self._transaction() as now:
            approval = self._approvals.get(approval_id)
            if approval is None:
                raise UnknownOperation(approval_id)
            if approval.status is not _A.PENDING:
                return False, approval
            row = self._rows[approval.operation_id]
            if now >= approval.expires_at:
                self._expire(row, approval, now)
                return False, self._approvals[approval_id]
            crash_point("in_decision_tx")
            approval = changed(
                approval,
                status=_A.APPROVED if approve else _A.DENIED,
                decided_by=decided_by,
                decided_at=now,
            )
            self._approvals[approval_id] = approval
            status = _S.APPROVED if approve else _S.DENIED
            settled = None if approve else now
            row = changed(row, status=status, updated_at=now, settled_at=settled)
            event = "approved" if approve else "denied"
            self._put(row, event, decided_by, approval_id=approval_id)
            return True, approval

    def expire_approvals(self, limit: int = 1000) -> list[Operation]:
        """See OperationStore.expire_approvals."""
        with self._transaction() as now:
            over = [a for a in self._approvals.values() if a.open and now >= a.expires_at]
            over.sort(key=lambda a: (a.expires_at, a.approval_id))
            return [self._expire(self._rows[a.operation_id], a, now) for a in over[:limit]]
