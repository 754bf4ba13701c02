"""Approvals: who may allow a call above the delegated risk, and the recorded decisions.

An approval is bound to a digest of tenant, principal, tool, contract, canonical arguments and
policy version; it is used up in the transaction that starts the call. What an approver is shown
comes from the stored canonical arguments, never from the caller.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .errors import ApprovalError, UnknownOperation
from .identity import check_name
from .jsonvalue import canonicalize, digest
from .operations import OperationStore, all_operations, crash_point
from .records import (
    Approval,
    ApprovalStatus,
    NewApproval,
    Operation,
    OperationRequest,
    OperationStatus,
)

if TYPE_CHECKING:
    from .observe import Observer


@dataclass(frozen=True)
class Approver:
    """Somebody who may decide.

    Parameters
    ----------
    principal : str
    tenant : str
        The tenant whose operations it may decide.
    max_risk : int
        Highest risk it may allow. Denying is allowed at any risk.
    tools : collection of str or None
        Tools it may decide about; None for all.
    """

    principal: str
    tenant: str = ""
    max_risk: int = 0
    tools: frozenset[str] | None = None

    def __post_init__(self) -> None:
        check_name("principal", self.principal)
        check_name("tenant", self.tenant, empty=True)
        if type(self.max_risk) is not int:
            raise ValueError(f"max_risk must be an int, got {self.max_risk!r}")
        if self.tools is not None:
            object.__setattr__(self, "tools", frozenset(self.tools))


@dataclass(frozen=True)
class ApprovalPolicy:
    """Rules for approvals. Changing ``version`` voids all approvals given under the old one.

    Parameters
    ----------
    approvers : iterable of Approver
        Nobody else decides; the default is nobody.
    ttl_seconds : float
        An approval not used by then expires, by the ledger's clock.
    version : str
    self_approval : bool
        Whether the requester may decide its own request.
    """

    approvers: tuple[Approver, ...] = ()
    ttl_seconds: float = 900.0
    version: str = "1"
    self_approval: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "approvers", tuple(self.approvers))
        check_name("version", self.version)
        if not 0 < self.ttl_seconds < float("inf"):
            raise ValueError(f"ttl_seconds must be a positive number, got {self.ttl_seconds!r}")

    def request_digest(self, request: OperationRequest) -> str:
        """What an approval of this request is bound to."""
        parts = [
            "approval/1",
            self.version,
            request.tenant,
            request.principal,
            request.tool,
            request.contract_digest,
            request.args_digest,
            request.operation_id,
        ]
        return digest(canonicalize(parts).data)

    def new_approval(self, request: OperationRequest, request_digest: str) -> NewApproval:
        """A request for approval with a fresh id."""
        return NewApproval(
            f"ap_{secrets.token_hex(16)}",
            request_digest,
            request.principal,
            self.version,
            self.ttl_seconds,
        )

    def check(self, row: Operation, approval: Approval, by: str, approve: bool) -> None:
        """Raise ApprovalError unless ``by`` may make this decision."""
        mine = [
            who for who in self.approvers if (who.principal, who.tenant) == (by, approval.tenant)
        ]
        if not mine:
            raise ApprovalError(
                "this principal is no approver of the operation's tenant; "
                "list it in ApprovalPolicy(approvers=...)"
            )
        if not self.self_approval and by in (approval.requested_by, row.request.principal):
            raise ApprovalError(
                "the requester may not decide its own request; ask another approver"
            )
        able = [who for who in mine if who.tools is None or row.request.tool in who.tools]
        if not able:
            raise ApprovalError("the approver may not decide about this tool")
        if approve and all(row.request.risk > who.max_risk for who in able):
            raise ApprovalError(
                f"the approver may allow a lower risk only; this call has risk {row.request.risk}"
            )


@dataclass(frozen=True)
class ApprovalRequest:
    """What an approver is shown. ``arguments`` is None where the ledger stores digests only."""

    approval_id: str
    operation_id: str
    tenant: str
    tool: str
    arguments: Mapping[str, Any] | None
    args_digest: str
    risk: int
    effect: str
    requested_by: str
    business_scope: str
    expires_at: float


@dataclass(frozen=True)
class ApprovalDecision:
    """What an approver decided, as the ledger has it.

    Attributes
    ----------
    approval_id, operation_id, tenant : str
    status : ApprovalStatus
        APPROVED or DENIED.
    request_digest : str
        What the decision is bound to: another request needs another one.
    decided_by : str
    decided_at : float
        By the ledger's clock.
    expires_at : float
        When an approval that was not used is over.
    """

    approval_id: str
    operation_id: str
    tenant: str
    status: ApprovalStatus
    request_digest: str
    decided_by: str
    decided_at: float
    expires_at: float

    @property
    def approved(self) -> bool:
        """Whether the call may be made."""
        return self.status is ApprovalStatus.APPROVED


class Approvals:
    """The approver's side of one ledger: list, show, approve, deny, expire."""

    def __init__(
        self,
        store: OperationStore,
        policy: ApprovalPolicy,
        observer: Observer,
        redact: Callable[[str, Any], Any],
        check: Callable[[str, Any], str] = check_name,
    ) -> None:
        self._store = store
        self._policy = policy
        self._observer = observer
        self._redact = redact
        self._check = check

    def pending(self, tenant: str = "") -> list[ApprovalRequest]:
        """The tenant's requests that wait for a decision, expired ones left out."""
        rows = all_operations(
            self._store, statuses=[OperationStatus.AWAITING_APPROVAL], tenant=tenant
        )
        return list(self._shown(rows))

    def _shown(self, rows: Iterable[Operation]) -> Iterable[ApprovalRequest]:
        now = self._store.now()
        for row in rows:
            approval = self._store.get_approval(row.approval_id or "")
            if approval is not None and approval.open and now < approval.expires_at:
                yield self._view(row, approval)

    def show(self, approval_id: str) -> ApprovalRequest:
        """One request, from the stored canonical arguments with declared secrets left out."""
        row, approval = self._find(approval_id)
        return self._view(row, approval)

    def _find(self, approval_id: str) -> tuple[Operation, Approval]:
        approval = self._store.get_approval(check_name("approval_id", approval_id))
        row = self._store.get(approval.operation_id) if approval is not None else None
        if approval is None or row is None:
            raise UnknownOperation(approval_id)
        return row, approval

    def _view(self, row: Operation, approval: Approval) -> ApprovalRequest:
        request = row.request
        arguments = None
        if request.arguments_json is not None:
            arguments = self._redact(request.tool, json.loads(request.arguments_json))
        return ApprovalRequest(
            approval.approval_id,
            row.operation_id,
            request.tenant,
            request.tool,
            arguments,
            request.args_digest,
            request.risk,
            request.effect,
            approval.requested_by,
            request.business_scope,
            approval.expires_at,
        )

    def approve(self, approval_id: str, by: str) -> ApprovalDecision:
        """Allow the call, once. Raises ApprovalError (a PermissionError) if ``by`` may not."""
        return self._decide(approval_id, by, True)

    def deny(self, approval_id: str, by: str) -> ApprovalDecision:
        """Refuse the call for good. Raises ApprovalError if ``by`` may not."""
        return self._decide(approval_id, by, False)

    def _decide(self, approval_id: str, by: str, approve: bool) -> ApprovalDecision:
        self._check("by", by)
        row, approval = self._find(approval_id)
        try:
            if row.approval_id != approval_id:
                raise ApprovalError("another approval has taken the place of this one")
            self._policy.check(row, approval, by, approve)
            crash_point("before_decision")
            decided, approval = self._store.decide(approval_id, approve, by)
            crash_point("after_decision")
            if not decided:
                raise ApprovalError(_why_undecided(approval))
        except ApprovalError as error:
            self._observer.emit(
                "approval.refused", approval_id=approval_id, actor=by, reason=str(error)
            )
            raise
        event = "approval.approved" if approve else "approval.denied"
        self._observer.emit(event, operation_id=row.operation_id, approval_id=approval_id, actor=by)
        return ApprovalDecision(
            approval.approval_id,
            approval.operation_id,
            approval.tenant,
            approval.status,
            approval.request_digest,
            approval.decided_by,
            approval.decided_at or 0.0,
            approval.expires_at,
        )

    def expire(self) -> list[str]:
        """Mark all approvals that are over; returns their operation ids. Dispatch checks by
        itself.
        """
        expired: list[str] = []
        while batch := self._store.expire_approvals():
            expired += [row.operation_id for row in batch]
        return expired


def _why_undecided(approval: Approval) -> str:
    if approval.status is ApprovalStatus.EXPIRED:
        return "the approval expired before the decision; dispatch again to ask anew"
    return f"the approval was {approval.status.value} before; the first decision stands"
