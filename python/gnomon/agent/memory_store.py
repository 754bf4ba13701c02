"""The ledger in memory: for tests and for programs whose promises end with the process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import (
    InvalidTransition,
    StillRunning,
    StoreClosed,
    StoreUnavailable,
    UnknownOperation,
)
from .memory_approvals import changed
from .memory_upkeep import MemoryUpkeep
from .operations import crash_point
from .records import (
    RESOLVED,
    TERMINAL,
    TRANSITIONS,
    Claim,
    ClaimReason,
    ClaimResult,
    Operation,
    OperationEvent,
    OperationStatus,
    Settlement,
    SettleResult,
)

_S = OperationStatus
_NO_RESULT: dict[str, Any] = {
    "result_json": None,
    "result_digest": "",
    "result_bytes": 0,
    "result_truncated": False,
    "reason": "",
    "error_class": "",
    "settled_at": None,
}


class _Transaction:
    """The lock of an open ledger; entering it gives the time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._open = True
        self._pid = os.getpid()

    def __enter__(self) -> float:
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                "this ledger is in the memory of the process that forked this one: a copy cannot "
                "see what is claimed there; use SqliteOperationStore for several processes"
            )
        self._lock.acquire()
        if not self._open:
            self._lock.release()
            raise StoreClosed("the ledger was closed; open a new one")
        return self._clock()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._open = False


class MemoryOperationStore(MemoryUpkeep):
    """An OperationStore in this process; a lock makes each method atomic.

    A child made by fork has a copy that knows nothing of its parent's claims, so it is refused
    there.

    Parameters
    ----------
    clock : callable, optional
        Seconds since the epoch; replaced in tests.

    Examples
    --------
    >>> from gnomon.agent.records import OperationRequest
    >>> store = MemoryOperationStore(clock=lambda: 10.0)
    >>> request = OperationRequest("op-1", "", "", "write", "c", "a", b"{}")
    >>> store.claim(Claim(request, "me", 30.0)).won, store.claim(Claim(request, "you", 30.0)).won
    (True, False)
    >>> store.settle("op-1", "me", 1, Settlement(OperationStatus.SUCCEEDED)).operation.status.value
    'succeeded'
    """

    blocking = False

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._clock = clock
        self._locked = _Transaction(clock)
        self._rows: dict[str, Operation] = {}
        self._events: dict[str, list[OperationEvent]] = {}

    def now(self) -> float:
        """The store's clock."""
        return self._clock()

    def _transaction(self) -> _Transaction:
        return self._locked

    def _put(self, row: Operation, event: str, actor: str, **data: Any) -> Operation:
        """Store the row with one event; refuses a transition that the table does not have."""
        before = self._rows.get(row.operation_id)
        status = before.status if before else None
        if row.status is not status and row.status not in TRANSITIONS[status]:
            raise InvalidTransition(row.operation_id, str(status), row.status.value)
        self._rows[row.operation_id] = row
        log = self._events.setdefault(row.operation_id, [])
        data = {"status": row.status.value, "attempt": row.attempt, **data}
        at = row.updated_at
        log.append(OperationEvent(row.operation_id, len(log) + 1, event, at, actor, data))
        return row

    def get(self, operation_id: str) -> Operation | None:
        """The row, or None."""
        with self._transaction():
            return self._rows.get(operation_id)

    def claim(self, claim: Claim) -> ClaimResult:
        """See OperationStore.claim."""
        request = claim.request
        with self._transaction() as now:
            row = self._rows.get(request.operation_id)
            lost = self._why_lost(claim, row, now)
            if lost is not None:
                return ClaimResult(False, self._rows[request.operation_id], lost)
            crash_point("in_claim_tx")
            if row is None:
                row = Operation(request, _S.IN_FLIGHT, created_at=now)
            elif row.approval_id is not None and row.status is _S.APPROVED:
                self._consume(row.approval_id, now)
            row = changed(
                row,
                status=_S.IN_FLIGHT,
                attempt=row.attempt + 1,
                owner=claim.owner,
                lease_until=now + claim.lease_seconds,
                remote_ref=None,
                updated_at=now,
                **_NO_RESULT,
            )
            self._put(row, "dispatched", claim.owner)
            return ClaimResult(True, row, ClaimReason.CLAIMED)

    def _why_lost(self, claim: Claim, row: Operation | None, now: float) -> ClaimReason | None:
        if row is None:
            if claim.first:
                return None
            raise UnknownOperation(claim.request.operation_id)
        if not row.same_request(claim.request) or row.cancel_requested_at is not None:
            return ClaimReason.EXISTS
        if claim.retry_attempt is not None:
            if row.status is not _S.NOT_EXECUTED or row.attempt != claim.retry_attempt:
                return ClaimReason.EXISTS
            return self._why_used_up(row, claim.approval_digest, now)
        if claim.approval_digest is not None and row.status is _S.APPROVED:
            return self._why_unapproved(row, claim.approval_digest, now)
        return ClaimReason.EXISTS

    def settle(
        self, operation_id: str, owner: str, attempt: int, settlement: Settlement
    ) -> SettleResult:
        """See OperationStore.settle."""
        with self._transaction() as now:
            row = self._row(operation_id)
            status = row.settles_as(settlement.status)
            if (row.owner, row.attempt) == (owner, attempt):
                if row.status is _S.IN_FLIGHT or (
                    row.status is _S.NEEDS_RECONCILE and status is not _S.NEEDS_RECONCILE
                ):
                    crash_point("in_settle_tx")
                    event = "cancelled" if status is _S.CANCELLED else "settled"
                    row = self._outcome(row, status, settlement, event, owner, now)
                    return SettleResult(True, row)
                if row.status is status is _S.NEEDS_RECONCILE and not settlement.running:
                    return SettleResult(True, self._tool_ended(row, settlement, now))
                same = (row.status, row.result_digest) == (status, settlement.result_digest)
                if same:
                    return SettleResult(True, row)
            if settlement.status is not _S.NEEDS_RECONCILE:
                late = {"late_status": settlement.status.value, "late_attempt": attempt}
                row = changed(row, updated_at=now)
                digest = settlement.result_digest
                self._put(row, "late_result_conflict", owner, result_digest=digest, **late)
            return SettleResult(False, row)

    def _tool_ended(self, row: Operation, settlement: Settlement, now: float) -> Operation:
        if row.lease_until is None:
            return row
        row = changed(row, lease_until=None, updated_at=now)
        return self._put(row, "tool_ended", row.owner, reason=settlement.reason)

    def _outcome(
        self,
        row: Operation,
        status: OperationStatus,
        settlement: Settlement,
        event: str,
        actor: str,
        now: float,
        **data: Any,
    ) -> Operation:
        row = changed(
            row,
            status=status,
            lease_until=row.lease_until if settlement.running else None,
            result_json=settlement.result_json,
            result_digest=settlement.result_digest,
            result_bytes=settlement.result_bytes,
            result_truncated=settlement.result_truncated,
            reason=settlement.reason,
            error_class=settlement.error_class,
            settled_at=now if status in TERMINAL else None,
            updated_at=now,
        )
        return self._put(row, event, actor, reason=settlement.reason, **data)

    def resolve(
        self,
        operation_id: str,
        settlement: Settlement,
        actor: str,
        evidence: Mapping[str, Any],
        attempt: int | None = None,
    ) -> SettleResult:
        """See OperationStore.resolve."""
        with self._transaction() as now:
            row = self._row(operation_id)
            if settlement.status not in RESOLVED:
                raise InvalidTransition(operation_id, row.status.value, settlement.status.value)
            if row.status is not _S.NEEDS_RECONCILE:
                return SettleResult(False, row)
            if attempt is not None and row.attempt != attempt:
                return SettleResult(False, row)
            if settlement.status is _S.NOT_EXECUTED and row.may_run(now):
                raise StillRunning(operation_id, row.status.value, row.owner, row.lease_until)
            crash_point("in_settle_tx")
            status = row.settles_as(settlement.status)
            row = self._outcome(
                row, status, settlement, "reconciled", actor, now, evidence=dict(evidence)
            )
            return SettleResult(True, row)

    def events(self, operation_id: str) -> list[OperationEvent]:
        """See OperationStore.events."""
        with self._transaction():
            return list(self._events.get(operation_id, ()))

    def list_operations(
        self,
        *,
        statuses: Iterable[OperationStatus] | None = None,
        tenant: str | None = None,
        after: str = "",
        limit: int = 1000,
    ) -> list[Operation]:
        """See OperationStore.list_operations."""
        wanted = None if statuses is None else frozenset(statuses)
        with self._transaction():
            found = [
                row
                for key, row in sorted(self._rows.items())
                if key > after
                and (wanted is None or row.status in wanted)
                and (tenant is None or row.request.tenant == tenant)
            ]
        return found[:limit]

    def close(self) -> None:
        """See OperationStore.close."""
        self._locked.close()
