"""The housekeeping half of the ledger in memory: leases, cancellation and retention."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from .errors import UnknownOperation
from .memory_approvals import MemoryApprovals, changed
from .records import (
    TERMINAL,
    Operation,
    OperationEvent,
    OperationRequest,
    OperationStatus,
    Settlement,
    SettleResult,
)

_S = OperationStatus


class MemoryUpkeep(MemoryApprovals):
    """What concerns many rows, or rows that somebody else runs."""

    _events: dict[str, list[OperationEvent]]

    def _row(self, operation_id: str) -> Operation:
        row = self._rows.get(operation_id)
        if row is None:
            raise UnknownOperation(operation_id)
        return row

    @abstractmethod
    def _outcome(
        self,
        row: Operation,
        status: OperationStatus,
        settlement: Settlement,
        event: str,
        actor: str,
        now: float,
        **data: Any,
    ) -> Operation: ...

    def heartbeat(
        self, owner: str, operation_ids: Iterable[str], lease_seconds: float
    ) -> frozenset[str]:
        """See OperationStore.heartbeat."""
        asked = set()
        with self._transaction() as now:
            for operation_id in operation_ids:
                row = self._rows.get(operation_id)
                if row is None or row.owner != owner:
                    continue
                if row.cancel_requested_at is not None:
                    asked.add(operation_id)
                open_now = row.status in (_S.IN_FLIGHT, _S.NEEDS_RECONCILE)
                if open_now and row.lease_until is not None:
                    self._rows[operation_id] = changed(row, lease_until=now + lease_seconds)
        return frozenset(asked)

    def recover(self, limit: int = 1000) -> list[Operation]:
        """See OperationStore.recover."""
        with self._transaction() as now:
            dead = [
                row
                for row in self._rows.values()
                if row.status is _S.IN_FLIGHT
                and row.lease_until is not None
                and row.lease_until < now
            ]
            dead.sort(key=lambda row: (row.lease_until, row.operation_id))
            lost = Settlement(_S.NEEDS_RECONCILE, reason="owner_lost", running=True)
            return [
                self._outcome(row, lost.status, lost, "recovered", "recovery", now)
                for row in dead[:limit]
            ]

    def request_cancel(self, request: OperationRequest, actor: str) -> SettleResult:
        """See OperationStore.request_cancel."""
        with self._transaction() as now:
            row = self._rows.get(request.operation_id)
            if row is None:
                row = Operation(
                    request, _S.CANCELLED, created_at=now, updated_at=now, settled_at=now
                )
                return SettleResult(True, self._put(row, "cancelled", actor))
            if not row.same_caller(request) or row.status in TERMINAL:
                return SettleResult(False, row)
            if row.status in (_S.IN_FLIGHT, _S.NEEDS_RECONCILE):
                if row.cancel_requested_at is not None:
                    return SettleResult(False, row)
                row = changed(row, cancel_requested_at=now, updated_at=now)
                return SettleResult(True, self._put(row, "cancel_requested", actor))
            self._cancel_approval(row.approval_id)
            row = changed(
                row,
                status=_S.CANCELLED,
                cancel_requested_at=now,
                updated_at=now,
                settled_at=now,
            )
            return SettleResult(True, self._put(row, "cancelled", actor))

    def set_remote_ref(self, operation_id: str, owner: str, attempt: int, remote_ref: str) -> bool:
        """See OperationStore.set_remote_ref."""
        with self._transaction() as now:
            row = self._row(operation_id)
            open_now = row.status in (_S.IN_FLIGHT, _S.NEEDS_RECONCILE)
            if not open_now or (row.owner, row.attempt) != (owner, attempt):
                return False
            self._rows[operation_id] = changed(row, remote_ref=remote_ref, updated_at=now)
            return True

    def _settled(self, before: float) -> list[Operation]:
        return [
            r for r in self._rows.values() if r.settled_at is not None and r.settled_at < before
        ]

    def purge_results(self, settled_before: float) -> int:
        """See OperationStore.purge_results."""
        with self._transaction() as now:
            rows = [
                row
                for row in self._settled(settled_before)
                if row.result_json is not None or row.request.arguments_json is not None
            ]
            for row in rows:
                request = changed(row.request, arguments_json=None)
                row = changed(row, request=request, result_json=None, updated_at=now)
                self._put(row, "purged", "retention")
            return len(rows)

    def forget(self, settled_before: float) -> int:
        """See OperationStore.forget."""
        with self._transaction():
            rows = self._settled(settled_before)
            for row in rows:
                del self._rows[row.operation_id]
                self._events.pop(row.operation_id, None)
                self._forget_approvals(row.operation_id)
            return len(rows)
