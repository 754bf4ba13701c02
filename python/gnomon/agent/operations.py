"""The operation ledger's language: states, records, and the interface that every store implements.

The promise that everything here serves: for one operation id ``tool.execute`` is started at most
once, over all processes and machines that share the store. A store keeps it by two rules:

1. every method below is one atomic transaction: concurrent callers see all of it or nothing;
2. ``claim`` returns ``won=True`` only after the claim is durable (where ``Claim.durable`` asks for
it), to exactly one caller per attempt.

Time is the store's own clock (``now``), so that leases and expiries of several machines agree.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from .identity import derive_operation_id
from .records import (
    EVENT_TYPES,
    TERMINAL,
    TRANSITIONS,
    Approval,
    ApprovalStatus,
    Claim,
    ClaimReason,
    ClaimResult,
    NewApproval,
    Operation,
    OperationEvent,
    OperationRequest,
    OperationStatus,
    Settlement,
    SettleResult,
)

__all__ = [
    "CRASH_POINTS",
    "EVENT_TYPES",
    "TERMINAL",
    "TRANSITIONS",
    "Approval",
    "ApprovalStatus",
    "Claim",
    "ClaimReason",
    "ClaimResult",
    "NewApproval",
    "Operation",
    "OperationEvent",
    "OperationRequest",
    "OperationStatus",
    "OperationStore",
    "SettleResult",
    "Settlement",
    "all_operations",
    "crash_point",
    "derive_operation_id",
]


@runtime_checkable
class OperationStore(Protocol):
    """A ledger of operations. Every method is one atomic transaction and safe for threads.

    Every method raises StoreUnavailable where it cannot say whether its change was made, and
    StoreClosed after ``close``. Methods that name an operation or approval without a row raise
    UnknownOperation, except ``get``, ``events`` and ``request_cancel``. Each change of state
    appends one OperationEvent in the same transaction; its ``data`` has at least ``{"status": <new
    state>, "attempt": n}``.
    """

    #: False where no method ever waits for a disk or a network; the async runtime then uses no
    #: thread.
    blocking: bool

    def now(self) -> float:
        """The store's clock, in seconds since the epoch."""
        ...

    def get(self, operation_id: str) -> Operation | None:
        """The row, or None. Reads what is committed, from the primary."""
        ...

    def claim(self, claim: Claim) -> ClaimResult:
        """Make the row IN_FLIGHT for ``claim.owner``, or change nothing.

        In one transaction: the conditions of ``Claim``, a row with attempt + 1, owner and
        ``lease_until = now + lease_seconds``, result fields and remote_ref cleared, the approval
        CONSUMED with ``consumed_at``, and event "dispatched". The row's tenant, principal, tool and
        args_digest must equal the request's, and ``cancel_requested_at`` must be empty; else the
        claim is lost with EXISTS. An approval found expired makes the row and the approval EXPIRED
        (event "expired"). A commit whose outcome is unknown is settled by reading the row back: a
        token of this very call tells. Calls ``crash_point("in_claim_tx")`` after the last write,
        before the commit.
        """
        ...

    def settle(
        self, operation_id: str, owner: str, attempt: int, settlement: Settlement
    ) -> SettleResult:
        """Record the outcome of the attempt that ``owner`` started.

        Applied only where owner and attempt equal the row's and the row is IN_FLIGHT, or
        NEEDS_RECONCILE and the settlement is not (a late result). The lease ends, except with
        ``settlement.running``. A tool that ran on and ended without a known outcome comes as
        NEEDS_RECONCILE again: that ends the lease (event "tool_ended") and changes nothing else.
        NOT_EXECUTED becomes CANCELLED
        where cancel_requested_at is set. The same settlement given again (same owner, attempt,
        status and result_digest, e.g. after a lost commit answer) is applied=True without a second
        event. Anything else changes nothing, appends "late_result_conflict" with the settlement's
        status and digest unless it was NEEDS_RECONCILE, and gives applied=False. Event "settled"
        (CANCELLED: "cancelled") with ``reason``. Calls ``crash_point("in_settle_tx")`` before the
        commit.
        """
        ...

    def heartbeat(
        self, owner: str, operation_ids: Iterable[str], lease_seconds: float
    ) -> frozenset[str]:
        """Extend the lease of these rows of the owner to now + lease_seconds.

        They are IN_FLIGHT, or NEEDS_RECONCILE with a lease, live or over: the tool still runs
        although nobody waits for it, or although its owner was taken for dead. Rows of other owners
        or in other states are left alone. Returns those of the ids whose row
        has ``cancel_requested_at`` set, whoever asked for it. No event.
        """
        ...

    def recover(self, limit: int = 1000) -> list[Operation]:
        """Make IN_FLIGHT rows whose lease ended before now NEEDS_RECONCILE, oldest first.

        Reason "owner_lost", event "recovered" (actor "recovery"). The lease that is over stays in
        the row: an owner that was only slow extends it. Rows with a live lease are not touched.
        Returns the rows changed by this call; concurrent calls never return the same row.
        """
        ...

    def resolve(
        self,
        operation_id: str,
        settlement: Settlement,
        actor: str,
        evidence: Mapping[str, Any],
        attempt: int | None = None,
    ) -> SettleResult:
        """Leave NEEDS_RECONCILE for SUCCEEDED, FAILED or NOT_EXECUTED (the only way besides
        ``settle``).

        NOT_EXECUTED raises StillRunning and changes nothing while the row has a lease that is not
        over: a tool that may still act would meet its own second attempt. It becomes CANCELLED
        where cancel_requested_at is set. Event "reconciled" with actor, reason and evidence. A row
        in another state, or at another ``attempt`` than the one named, is not changed:
        applied=False.
        """
        ...

    def request_cancel(self, request: OperationRequest, actor: str) -> SettleResult:
        """Cancel what was not started, record the wish for what was.

        No row: inserts one with status CANCELLED and the request's fields (the runtime gives tool
        "" where it does not know them). AWAITING_APPROVAL, APPROVED, EXPIRED, NOT_EXECUTED:
        CANCELLED, and an open approval CANCELLED (event "cancelled"). IN_FLIGHT, NEEDS_RECONCILE:
        sets cancel_requested_at once (event "cancel_requested"). Terminal: no change,
        applied=False. Compares tenant and principal only: a row of another caller is not changed,
        applied=False.
        """
        ...

    def request_approval(
        self, request: OperationRequest, approval: NewApproval
    ) -> tuple[Operation, Approval | None]:
        """Make the row AWAITING_APPROVAL with a PENDING approval, unless an open one fits.

        No row, EXPIRED or NOT_EXECUTED: a new approval (event "approval_requested").
        AWAITING_APPROVAL or APPROVED with an open, unexpired approval of the same request_digest:
        nothing changes, that approval is returned. With another digest, or one that expired: the
        old approval becomes SUPERSEDED (event "superseded") or EXPIRED (event "expired") and a new
        one is made. Any other state, or a row that is not ``same_request``: nothing changes, (row,
        None).
        """
        ...

    def get_approval(self, approval_id: str) -> Approval | None:
        """The approval, or None."""
        ...

    def decide(self, approval_id: str, approve: bool, decided_by: str) -> tuple[bool, Approval]:
        """Approve or deny a PENDING approval, and its AWAITING_APPROVAL row with it.

        Events "approved" or "denied" (actor: decided_by). True if this call decided it. An approval
        whose expires_at is not after now becomes EXPIRED with its row, and gives False; so does
        one that is not PENDING: the first decision wins.
        """
        ...

    def expire_approvals(self, limit: int = 1000) -> list[Operation]:
        """Make open approvals whose expires_at is not after now, and their rows, EXPIRED."""
        ...

    def set_remote_ref(self, operation_id: str, owner: str, attempt: int, remote_ref: str) -> bool:
        """Note the other side's name for the attempt, durably; False where the attempt is not
        open.
        """
        ...

    def events(self, operation_id: str) -> list[OperationEvent]:
        """All events of the operation, in order of ``seq``; empty for an unknown id."""
        ...

    def list_operations(
        self,
        *,
        statuses: Iterable[OperationStatus] | None = None,
        tenant: str | None = None,
        after: str = "",
        limit: int = 1000,
    ) -> list[Operation]:
        """Rows ordered by operation_id, those with an id greater than ``after`` (code point
        order).
        """
        ...

    def purge_results(self, settled_before: float) -> int:
        """Drop arguments and results of terminal rows settled before then; ids, digests, states
        stay.

        Event "purged". Returns the number of rows.
        """
        ...

    def forget(self, settled_before: float) -> int:
        """Delete whole terminal rows with their events and approvals. Their ids are open again.

        A separate call because it gives up the promise for these ids; returns the number of rows.
        """
        ...

    def close(self) -> None:
        """Release files and connections; closing twice is allowed."""
        ...


def all_operations(
    store: OperationStore,
    *,
    statuses: Iterable[OperationStatus] | None = None,
    tenant: str | None = None,
) -> Iterator[Operation]:
    """All rows that ``list_operations`` gives, a thousand at a time."""
    wanted = None if statuses is None else tuple(statuses)
    after = ""
    while True:
        rows = store.list_operations(statuses=wanted, tenant=tenant, after=after, limit=1000)
        yield from rows
        if len(rows) < 1000:
            return
        after = rows[-1].operation_id


#: Names that ``crash_point`` is called with, in the order of one dispatch, then those of an
#: approval.
CRASH_POINTS = (
    "before_claim",
    "in_claim_tx",
    "after_claim",
    "before_call",
    "in_tool_before_effect",
    "in_tool_after_effect",
    "after_return",
    "in_settle_tx",
    "after_settle",
    "before_approval_request",
    "in_approval_tx",
    "after_approval_request",
    "before_decision",
    "in_decision_tx",
    "after_decision",
)

#: Test hook, called with the name of each crash point that is passed; None in production.
crash_hook: Callable[[str], None] | None = None


def crash_point(name: str) -> None:
    """Tell the test hook, if one is set, that this point is reached."""
    if crash_hook is not None:
        crash_hook(name)


# The stores know this module, so they come into it when they are asked for.
_STORES = {
    "MemoryOperationStore": "memory_store",
    "PostgresOperationStore": "postgres_store",
    "SqliteOperationStore": "sqlite_store",
}


def __getattr__(name: str) -> Any:
    if name not in _STORES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_STORES[name]}", __package__), name)
